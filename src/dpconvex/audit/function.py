"""Attack any function: your own mechanism, or third-party code that you bring."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.audit.bounds import can_refute, least_runs
from dpconvex.audit.measure import Statistic, learn_statistic, weigh
from dpconvex.audit.parallel import Mapper, mapping
from dpconvex.audit.report import AuditReport, conclude
from dpconvex.audit.stated import Stated, read_claim
from dpconvex.errors import InputError

LEAST_RUNS = 1000
_BLOCK = 4096


@dataclass(frozen=True)
class Case:
    """A mechanism, the data sets to tell apart, and what is claimed: all that `audit_function` needs, under a name.

    Parameters
    ----------
    name : str
    f : function
        `f(data, rng)` returns one output; with `batch`, `f(data, rng, runs)` returns one row for each of many runs.
    data, neighbour : object
        Records: an array, a sequence, or a tuple of arrays with one entry (row) a record in each.
    claim : Budget, Plan, Claim or Stated
    batch : bool
    law : {"any", "gaussian"}
        "gaussian" if the outputs are known to be normal, with the same variance on both data sets.
    statistic : function, optional
        From an array with one output a row to one number a row; by default learnt on a pilot.

    Examples
    --------
    >>> import dpconvex as dc
    >>> case = Case("a sum", lambda x, rng: x.sum() + rng.normal(), np.zeros(3), np.eye(3)[0], dc.Budget(1.0, 1e-6))
    >>> case.audit(runs=5000).refuted  # a shift of 1 under noise of 1 costs epsilon 4.9
    True
    """

    name: str
    f: Callable[..., Any]
    data: Any
    neighbour: Any
    claim: Any
    batch: bool = False
    law: str = "any"
    statistic: Statistic | None = None

    def audit(self, runs: int = 10_000, confidence: float = 0.99, seed: int = 0, workers: int = 1) -> AuditReport:
        """Attack it."""
        return audit_function(
            self.f, self.data, self.neighbour, self.claim, runs=runs, confidence=confidence, seed=seed, name=self.name,
            batch=self.batch, law=self.law, statistic=self.statistic, workers=workers,
        )  # fmt: skip


def audit_function(
    f: Callable[..., Any],
    data: Any,
    neighbour: Any,
    claim: Any,
    *,
    runs: int = 10_000,
    confidence: float = 0.99,
    seed: int = 0,
    name: str | None = None,
    batch: bool = False,
    law: str = "any",
    statistic: Statistic | None = None,
    workers: int = 1,
) -> AuditReport:
    """Run a function many times on two neighbouring data sets and judge what it claims by how well they are told apart.

    Parameters
    ----------
    f, data, neighbour, claim, batch, law, statistic
        As in `Case`. A function of one argument is called without a generator and must make its own noise.
    runs : int
        Runs on each data set; a tenth as many more choose the statistic and fix the thresholds.
    confidence : float
        Probability with which every bound in the report holds together.
    seed : int
        Seed of the generators handed to `f`.
    workers : int
        Processes; the result does not depend on it. With more than one, `f` must be importable.

    Examples
    --------
    >>> import dpconvex as dc
    >>> def noisy_mean(x, rng):
    ...     return x.mean() + rng.normal(scale=0.1)
    >>> x = np.zeros(10)
    >>> worst = np.array([1.0] + [0.0] * 9)  # values lie in [0, 1]: the mean moves by 0.1, so this is 1-GDP
    >>> gdp = dc.audit.Stated(dc.kernel.profiles.GDP(1.0), "replace_one")
    >>> audit_function(noisy_mean, x, worst, gdp, runs=5000).refuted
    False
    >>> audit_function(noisy_mean, x, worst, dc.Budget(1.0, 1e-6), runs=5000).refuted
    True
    """
    stated = read_claim(claim)
    check_options(stated, runs, confidence, seed)
    if law not in ("any", "gaussian"):
        raise InputError(f"law must be 'any' or 'gaussian', got {law!r}")
    check_neighbours(data, neighbour, stated.relation)
    if not callable(f):
        raise InputError(f"f must be a function of data and a generator, got {type(f).__name__}")
    pilot_runs = max(runs // 10, LEAST_RUNS // 2)
    if workers != 1:
        _check_importable(f)
    wanted = [(data, pilot_runs), (neighbour, pilot_runs), (data, runs), (neighbour, runs)]
    with mapping(workers) as each:
        draws = [_outputs(f, side, count, seed, part, batch, each) for part, (side, count) in enumerate(wanted)]
    if len({d.shape[1] for d in draws}) > 1:
        raise InputError("f must return outputs of one shape on both data sets; the shape itself tells them apart")
    words = "given"
    if statistic is None:
        statistic, words = learn_statistic(draws[0], draws[1])
    scores = [np.asarray(statistic(d), dtype=float) for d in draws]
    if any(s.shape != (len(d),) for s, d in zip(scores, draws, strict=True)):
        raise InputError("statistic must return one number for each row of outputs")
    evidence = weigh((scores[0], scores[1]), (scores[2], scores[3]), stated.delta, 1.0 - confidence, law)
    return conclude(
        str(name or getattr(f, "__name__", "function")), stated, [evidence], runs=runs, confidence=confidence,
        neighbours=f"the two data sets given ({stated.relation})", statistic=words, law=law, seed=seed,
    )  # fmt: skip


def audit_target(
    target: str,
    data: Any = None,
    neighbour: Any = None,
    claim: Any = None,
    *,
    runs: int = 10_000,
    confidence: float = 0.99,
    seed: int = 0,
    workers: int = 1,
) -> AuditReport:
    """Audit "module:name", where name is a function (with data, neighbour and claim), or a `Case` or a maker of one.

    Examples
    --------
    >>> audit_target("dpconvex.audit.gallery.gaussian:LEMMA", runs=20_000).refuted
    True
    """
    found = find_target(target)
    options = {"runs": runs, "confidence": confidence, "seed": seed, "workers": workers}
    if callable(found) and claim is None and not _parameters(found):
        found = found()
    if isinstance(found, Case):
        return found.audit(**options)  # type: ignore[arg-type]
    if not callable(found):
        raise InputError(f"target {target!r} must be a function or a dpconvex.audit.Case, got {type(found).__name__}")
    if data is None or neighbour is None or claim is None:
        raise InputError(f"target {target!r} is a function: name two neighbouring data sets and what it claims")
    return audit_function(found, data, neighbour, claim, name=target, **options)  # type: ignore[arg-type]


def find_target(target: str) -> Any:
    """Import what "module:name" names."""
    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise InputError(f"target must look like 'module:function', got {target!r}")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise InputError(f"target: cannot import {module!r} ({type(error).__name__}); is it on the path?") from error
    except AttributeError:
        raise InputError(f"target: module {module!r} has no {attribute!r}") from None


# What is checked before the first run ------------------------------------------------------------------------------


def check_options(claim: Stated, runs: object, confidence: float, seed: object) -> None:
    """Refuse options with which an audit could not find anything."""
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < LEAST_RUNS:
        raise InputError(f"runs must be a whole number of at least {LEAST_RUNS}, got {runs!r}")
    if isinstance(confidence, bool) or not (isinstance(confidence, int | float) and 0.5 <= confidence < 1.0):
        raise InputError(f"confidence must lie in [0.5, 1), got {confidence}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    if not can_refute(claim.profile.delta, int(runs), confidence):
        needed = least_runs(claim.profile.delta, confidence)
        raise InputError(
            f"runs = {runs} cannot refute epsilon {claim.epsilon:.4g} at delta {claim.delta:g} with confidence "
            f"{confidence:g}, not even if outputs never overlapped: take at least {needed}"
        )


def check_neighbours(data: Any, neighbour: Any, relation: str) -> None:
    """Refuse two data sets that are not neighbours under the relation (or not different)."""
    a, b = _columns(data, "data"), _columns(neighbour, "neighbour")
    if len(a) != len(b):
        raise InputError(f"data has {len(a)} arrays and neighbour {len(b)}: give both the same form")
    n, m = _count(a, "data"), _count(b, "neighbour")
    if relation == "add_remove":
        if abs(n - m) != 1:
            raise InputError(f"under add_remove one data set has one record more; got {n} and {m} records")
        longer, shorter = (a, b) if n > m else (b, a)
        at = min((i for i in range(min(n, m)) if not _same(longer, shorter, i, i)), default=min(n, m))
        if not all(_same(longer, shorter, i + 1, i) for i in range(at, min(n, m))):
            raise InputError("under add_remove the data sets must be the same but for one record left out")
        return
    if n != m:
        raise InputError(f"under {relation} neighbours have the same number of records; got {n} and {m}")
    differ = [i for i in range(n) if not _same(a, b, i, i)]
    if len(differ) != 1:
        raise InputError(
            f"the data sets differ in {len(differ)} records, not in one: they are not neighbours under {relation}"
        )
    if relation == "zero_out" and not any(_zero(c, differ[0]) for c in (*a, *b)):
        raise InputError("under zero_out one of the two differing records is masked: its features or its label are 0")


def _columns(data: Any, name: str) -> list[Any]:
    parts = list(data) if isinstance(data, tuple) else [data]
    columns: list[Any] = []
    for part in parts:
        if sparse.issparse(part):
            columns.append(part.tocsr())
        elif isinstance(part, np.ndarray | list | tuple) and np.ndim(part) > 0:
            columns.append(np.asarray(part))
        elif isinstance(part, Sequence):
            columns.append(part)
        else:
            raise InputError(f"{name} must hold records: an array, a sequence, or a tuple of arrays")
    return columns


def _count(columns: list[Any], name: str) -> int:
    sizes = {c.shape[0] if hasattr(c, "shape") else len(c) for c in columns}
    if len(sizes) != 1:
        raise InputError(f"{name}: its arrays have different numbers of records, {sorted(sizes)}")
    return int(sizes.pop())


def _same(a: list[Any], b: list[Any], i: int, j: int) -> bool:
    return all(_equal(_row(c, i), _row(d, j)) for c, d in zip(a, b, strict=True))


def _row(column: Any, i: int) -> Any:
    return column[[i]].toarray() if sparse.issparse(column) else column[i]


def _equal(x: Any, y: Any) -> bool:
    if np.shape(x) != np.shape(y):
        return False
    return bool(np.all((np.asarray(x) == np.asarray(y)) | ((np.asarray(x) != np.asarray(x)) & (y != y))))


def _zero(column: Any, i: int) -> bool:
    row = np.asarray(_row(column, i))
    return row.dtype.kind in "biuf" and not row.any()


# Running it ------------------------------------------------------------------------------------------------------


def _parameters(f: Callable[..., Any]) -> int:
    """Number of arguments a function can be called with by position (two if it does not say)."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _check_importable(f: Callable[..., Any]) -> None:
    try:
        pickle.dumps(f)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError("with workers above 1, f must be a function that another process can import") from error


def _outputs(
    f: Callable[..., Any], data: Any, runs: int, seed: int, part: int, batch: bool, each: Mapper
) -> np.ndarray:
    """One row of numbers for each run; every block has a generator of its own, whoever computes it."""
    block = max(_BLOCK, runs // 8) if batch else _BLOCK
    jobs = [(f, data, min(block, runs - at), (seed, part, at), batch) for at in range(0, runs, block)]
    blocks = list(each(_block, jobs))
    if len({b.shape[1] for b in blocks}) > 1:
        raise InputError("f must return outputs of one shape on every run")
    return np.concatenate(blocks)


def _block(job: tuple[Callable[..., Any], Any, int, tuple[int, int, int], bool]) -> np.ndarray:
    f, data, runs, seed, batch = job
    rng = np.random.default_rng(list(seed))
    if batch:
        out = np.asarray(f(data, rng, runs), dtype=float)
        if out.ndim not in (1, 2) or len(out) != runs:
            raise InputError(f"f must return one row for each of {runs} runs, got shape {out.shape}")
        out = out.reshape(runs, -1)
    else:
        out = _one_by_one(f, data, runs, rng)
    if not np.isfinite(out).all():
        share = int((~np.isfinite(out).all(axis=1)).sum())
        raise InputError(f"f returned values that are not finite on {share} of {runs} runs; map them to a number")
    return out


def _one_by_one(f: Callable[..., Any], data: Any, runs: int, rng: np.random.Generator) -> np.ndarray:
    takes_rng = _parameters(f) >= 2
    rows: list[np.ndarray] = []
    failed: list[str] = []
    for _ in range(runs):
        try:
            value = f(data, rng) if takes_rng else f(data)
        except Exception as error:  # whatever the function raises: a failure is an outcome an attacker sees
            failed.append(type(error).__name__)
            continue
        try:
            rows.append(np.asarray(value, dtype=float).ravel())
        except (TypeError, ValueError) as error:
            raise InputError(f"f must return a number or an array of numbers, got {type(value).__name__}") from error
        if rows[-1].shape != rows[0].shape or not rows[0].size:
            raise InputError(
                f"f must return outputs of one shape on every run, got {rows[0].size} numbers and then {rows[-1].size}"
            )
    if failed:
        raise InputError(
            f"f failed on {len(failed)} of {runs} runs ({', '.join(sorted(set(failed)))}). An attacker sees a failure: "
            "let f return a number that stands for it"
        )
    return np.array(rows)
