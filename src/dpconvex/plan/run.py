"""One way out of a run: the only place that charges, opens a port and issues a receipt.

A run is charged before its rows are looked at, and stays charged whatever happens afterwards, an interrupt included.
Only what is public about the data (shape, types) is checked before.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from time import monotonic, sleep
from typing import Any, Protocol, cast

import numpy as np

from dpconvex.canonical import digest
from dpconvex.context import charged, settings
from dpconvex.errors import DpconvexError, FormError, RowError, UserCodeError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim
from dpconvex.kernel.receipt import Receipt, encode, fingerprint, form_digest, issue
from dpconvex.ledger.account import begin, charge
from dpconvex.ledger.ledger import Reservation, current
from dpconvex.noise.source import Source
from dpconvex.plain import plain_name
from dpconvex.plan.port import NoisePort, own_laws
from dpconvex.problem.problem import Problem
from dpconvex.sums.threads import one_blas_thread
from dpconvex.theorems.computed_sums import slack
from dpconvex.version import VERSION

__all__ = ["Run"]


class Planned(Protocol):
    """What can be run: a claim, and everything public about the run in plain form."""

    @property
    def claim(self) -> Claim:
        """What is promised."""

    def to_json(self) -> dict[str, Any]:
        """Plain form (`public_form`)."""


class Run:
    """A run of a plan: one charge, one port, and a receipt.

    Parameters
    ----------
    plan : Planned
    dataset : str, optional
        Name under which the run is charged; by default that of `dpconvex.context`.
    seed : int, optional
        For tests only: the receipt then says "not private".
    undeclared : sequence of str
        What the caller read from the data to make the plan.
    declared : str, optional
        Digest of what the caller declared beyond the problem.
    stream : str, optional
        Secret id of a run that gets its records as they come (`new_stream`). It is charged once in a process, has a
        receipt after every portion, and keeps the last of its noisy values only.
    choices : sequence of str
        Labels of the claims of which a secret number is run, each with a port of its own (`NoisePort.part`).
    rows : str
        Where the rows lay, for the receipt.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> run = Run(plan, "an example")
    >>> run.once(lambda port: port.add("direction", np.zeros(2)))
    >>> bool(dc.verify(run.receipt(np.zeros(2)))), len(dc.account("an example").claims)
    (True, 1)
    """

    def __init__(
        self,
        plan: Planned,
        dataset: str | None = None,
        seed: int | None = None,
        *,
        undeclared: Sequence[str] = (),
        declared: str | None = None,
        stream: str | None = None,
        choices: Sequence[str] = (),
        rows: str = "memory",
    ) -> None:
        self.plan, self.dataset, self.stream = plan, charged(dataset), stream
        self.undeclared = tuple(plain_name(str(what), "what was read from the data") for what in undeclared)
        self.declared = None if declared is None else plain_name(declared, "declared")
        self._source = Source(seed)
        self._charged = False
        self._reserved: Reservation | None = None
        self._rows = rows
        self.port = NoisePort(
            self.plan.claim, self._source, history=self.stream is None, choices=choices, laws=own_laws(plan)
        )

    @property
    def private(self) -> bool:
        """False if the noise comes from a fixed seed."""
        return self._source.private

    def once(self, job: Callable[[NoisePort], object]) -> None:
        """Charge the run, do all of it, and check that every planned release was drawn."""
        if not self._reserve():
            charge(self.dataset, self.plan.claim, self.private)
        self._charged = True
        with padded(), one_blas_thread():  # once for all the sums of a run
            try:
                job(self.port)
            except (FormError, RowError) as error:
                raise type(error)(f"{error}. Nothing was released, and the run stays charged") from None
            self.port.close()

    def begin(self) -> None:
        """Charge a stream, unless this process, or under a ledger any other, has charged it before."""
        assert self.stream is not None
        if self._reserved is None and not self._reserve():
            begin(self.stream, self.dataset, self.plan.claim, self.private)
        self._charged = True

    def _reserve(self) -> bool:
        """Reserve the claim in the ledger; False where there is none, and the account of the process stands in."""
        if (ledger := current()) is None:
            return False
        plan = self.plan.to_json()
        self._reserved = ledger.reserve(
            self.dataset,
            self.plan.claim,
            plan=form_digest(plan),
            about={"algorithm": plan["algorithm"]["name"], "budget": plan["budget"], "n": plan["n"]},
            private=self.private,
            undeclared=self.undeclared,
            run=self._name,
        )
        return True

    @property
    def _name(self) -> str | None:
        """Public name of the stream."""
        return None if self.stream is None else hashlib.blake2b(self.stream.encode(), digest_size=16).hexdigest()

    def receipt(self, weights: np.ndarray, plan: Planned | None = None) -> Receipt:
        """Write the receipt of what was released; `plan` is this run's plan with what only the run could tell.

        Under a ledger it is recorded there before anybody sees it.
        """
        assert self._charged
        receipt = issue(
            (plan or self.plan).to_json(),
            self.plan.claim,
            weights,
            source=self._source.description,
            private=self.private,
            loops=self.port.trusted,
            dataset=self.dataset,
            declared=self.declared,
            undeclared=self.undeclared,
            engine={**engine(), "rows": self._rows, "date": datetime.now(UTC).date().isoformat()},
            slack=slack(self.plan.claim),
            stream=self._name,
            ledger=None if self._reserved is None else self._reserved.stamp(),
        )
        if self._reserved is not None:
            self._reserved.commit(receipt)
        return receipt


def without_values(job: Callable[[NoisePort], object]) -> Callable[[NoisePort], object]:
    """The job of a run with code of the user's in it: an error that it raises says nothing of what it has seen."""

    def guarded(port: NoisePort) -> object:
        try:
            return job(port)
        except DpconvexError:
            raise
        except Exception as error:
            failed = type(error).__name__
        raise UserCodeError(f"your code raised {failed} within the run, which stays charged; its message is not shown")

    return guarded


@contextmanager
def padded() -> Iterator[None]:
    """Let a block end, however it does, only at whole multiples of the `pad_time` of the context since it was entered.

    What comes after it depends on rows by what was released alone.
    """
    now = settings()
    try:
        yield
    finally:
        if now.pad_time is not None:
            passed = monotonic() - now.entered
            sleep(math.ceil(passed / now.pad_time) * now.pad_time - passed)


@lru_cache(maxsize=1)
def engine() -> dict[str, str]:
    """What the run was computed with, and where its rows lay."""
    return {
        "rows": "memory",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "numba": version("numba"),
        "machine": platform.machine(),
    }


def new_stream() -> str:
    """Secret id of a new stream."""
    return os.urandom(16).hex()


def public_form(
    algorithm: dict[str, Any],
    problem: Problem,
    n: int,
    d: int,
    budget: Budget,
    claim: Claim,
    gradient_evaluations: int,
    schedule: Any,
    *,
    one_record: Budget | None = None,
    stream: int | None = None,
) -> dict[str, Any]:
    """Everything public about a run, in plain form; its digest names the plan on receipts."""
    return {
        "library": VERSION,
        "algorithm": algorithm,
        "problem": problem.to_json(d),
        "n": n,
        "d": d,
        "budget": budget.to_json(),
        "one_record": None if one_record is None else one_record.to_json(),
        "people": claim.unit,
        "stream": stream,
        "claim": encode(claim),
        "gradient_evaluations": gradient_evaluations,
        "schedule": schedule_digest(schedule),
    }


def schedule_digest(schedule: Any) -> str:
    """Digest of what a run will do, step by step.

    Examples
    --------
    >>> len(schedule_digest((1.0, range(3), np.ones(2))))
    64
    """
    return digest(plain_form(schedule))


def plain_form(value: Any) -> Any:
    """Plain form of a schedule or of an algorithm: the name and the fields of every part, arrays by their digests."""
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__, **{f.name: plain_form(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named = cast(Any, value)._asdict()
        return {**{k: plain_form(v) for k, v in named.items()}, "name": type(value).__name__}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": fingerprint(value)}
    if isinstance(value, np.generic):
        return plain_form(value.item())
    if isinstance(value, list | tuple):
        return [plain_form(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else encode(value)
