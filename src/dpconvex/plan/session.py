"""A run that is given its records as they come. After each of them there is a model, and a guarantee about it.

A session is a player of a game (`play`, `observe`), and reads rows (`feed`). It holds the noise of rounds to come, so
it can be neither copied nor pickled, nor used by another process; its state goes into a checkpoint, which is encrypted.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
from scipy import sparse

from dpconvex.canonical import digest
from dpconvex.data.arrays import as_array, form_of, open_weights
from dpconvex.errors import BudgetWarning, FormError, InputError, ReleaseError, RowError, warn
from dpconvex.loops.rows import entries
from dpconvex.noise.source import Owner
from dpconvex.plan.checkpoint import Checkpoint, UnsureError
from dpconvex.plan.plan import Plan, Solution
from dpconvex.plan.port import NoisePort
from dpconvex.plan.run import Run, new_stream, padded
from dpconvex.problem.domains import Domain

__all__ = ["Session"]


class Leads(Protocol):
    """What a session needs of a game: everything it remembers is computed from what was released."""

    records: int

    def cuts(self, count: int) -> np.ndarray:
        """Where the rounds of the next records begin, and where the last ends."""

    def play(self) -> np.ndarray:
        """Point of the next round."""

    def weights(self) -> np.ndarray:
        """Solution so far."""

    def advance(self, sums: Any, port: NoisePort) -> None:
        """Play the rounds of records that were measured."""

    def observe(self, noisy: np.ndarray, counts: np.ndarray) -> None:
        """Take the noisy sums after the next rounds."""

    def state(self) -> dict[str, Any]:
        """Numbers and arrays that the rest of the game depends on."""

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on where `state` was taken."""


# What this process has read into streams since their last checkpoints: by stream and records before, a fingerprint.
_READ: dict[tuple[str, int], bytes] = {}
_SAVED: dict[str, int] = {}  # records of each stream before its last checkpoint: their noise is used
_INTERRUPTED = "this stream was interrupted while {}, and ends here: resume from its last checkpoint"


class Session:
    """A stream of records under one guarantee, charged once. `Plan.start` begins it.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PrivateFTRL("blt").plan_stream(problem, d=2, budget=dc.Budget(2.0, 1e-6))
    >>> session = plan.start(dataset="visits")
    >>> for _ in range(3):
    ...     session.feed(np.eye(2), [1.0, -1.0])
    >>> session.records, bool(dc.verify(session.solution().receipt))
    (6, True)
    """

    def __init__(
        self,
        plan: Plan,
        dataset: str | None,
        seed: int | None,
        undeclared: Sequence[str] = (),
        declared: str | None = None,
        stream: str | None = None,
    ) -> None:
        plan.check_seal()
        if not hasattr(plan.algorithm, "leader"):
            raise InputError(
                f"{type(plan.algorithm).__name__} does not take records as they come: plan with PrivateFTRL"
            )
        if len(plan.releases) != 1 or plan.releases[0].name != "sums":
            raise InputError("mode 'linear' releases one sum, after all records: take another mode")
        self.plan = plan
        self._run = Run(plan, dataset, seed, undeclared=undeclared, declared=declared, stream=stream or new_stream())
        self.dataset, self._port = self._run.dataset, self._run.port
        self._leader: Leads = plan.algorithm.leader(plan)
        self._checkpoint: Checkpoint | None = None
        self._why = ""  # it cannot go on
        self._lock, self._owner = threading.Lock(), Owner()

    @property
    def _secret(self) -> str:
        """Secret id of the stream."""
        assert self._run.stream is not None
        return self._run.stream

    @property
    def records(self) -> int:
        """Records read so far."""
        return self._leader.records

    @property
    def pending(self) -> int:
        """Portions of records that were read after the checkpoint, before a crash: they have to be read again first."""
        return 0 if self._checkpoint is None else self._checkpoint.pending

    @property
    def domain(self) -> Domain:
        """Where points lie."""
        return self.plan.problem.domain

    def feed(self, X: Any, y: Any = None, sample_weight: Any = None, weight_cap: float = 1.0) -> None:
        """Read records, each in one round. A record that is given twice counts as two.

        Arrays of another shape or type raise `FormError`, and nothing changes. Entries that are not finite and unknown
        labels raise `RowError`: the stream is charged by then, and nothing was read.

        Parameters
        ----------
        X, y, sample_weight, weight_cap : as in `Plan.run`, of any number of rows
        """
        # What is announced is what is read, whatever others write meanwhile.
        X = X.copy() if sparse.issparse(X) else as_array(X, "X").copy()
        own = self.plan.problem.loss.traits.records
        count = X.shape[0] if X.ndim == 2 or (own and X.ndim) else 0
        y = np.array(y) if own and y is not None else y
        form = form_of(X, y, self.plan.problem, count, self.plan.d)
        about: dict[str, Any] = (
            {} if sample_weight is None else {"weights": open_weights(sample_weight, weight_cap, count)}
        )
        self._owner.check()
        if not count:
            return
        from dpconvex.sums.memory import open_sums

        with self._lock, padded():
            self._check(count)
            self._run.begin()
            rows, labels = form.open()
            labels = labels.copy()
            sums: Any = open_sums(rows._replace(**about), labels)  # measures every row before anything is released
            self._commit(count, lambda: self._leader.advance(sums, self._port), *entries(rows), labels, sums.weights)

    def play(self) -> np.ndarray:
        """Point of the next round."""
        return self._leader.play()

    def observe(self, loss: Any) -> None:
        """Take the loss of one record: its gradient, or an object with `gradient(x)`; longer ones are shortened.

        Gradients are brought within the Lipschitz constant of the problem, so the guarantee holds for any loss.
        """
        x = self.play()
        g = np.asarray(loss.gradient(x.copy()) if hasattr(loss, "gradient") else loss)
        if g.shape != x.shape or g.dtype.kind not in "biuf":
            raise FormError(f"a gradient must hold {x.size} numbers")
        limit = self.plan.problem.lipschitz(self.plan.d).value * (1.0 - (x.size + 16) * 2.3e-16)
        self._owner.check()
        with self._lock, padded():
            self._run.begin()
            increment = _shortened(g.astype(np.float64), limit)

            def job() -> None:
                self._leader.observe(self._port.accumulate("sums", increment[None], [1.0]), np.array([1]))

            self._commit(1, job, increment)

    def solution(self) -> Solution:
        """What has been released so far: weights, and the receipt of the stream up to here."""
        if not self.records:
            raise InputError("nothing was read so far: feed records first")
        weights = np.array(self._leader.weights())
        return Solution(weights, self._run.receipt(weights), self.plan.problem, {})

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self, path: str | Path, key_file: str | Path | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write everything that is needed to go on after a crash, encrypted, in place of the checkpoint before.

        From then on every portion of records is written down in a journal beside it before it is read. A stream has one
        checkpoint, and keeps to its path and its key.

        Parameters
        ----------
        path : str or Path
        key_file : str or Path, optional
            See `dpconvex.plan.checkpoint.Checkpoint`.
        facts : mapping, optional
            Numbers, text and lists for whoever resumes the stream.
        """
        self._owner.check()
        with self._lock:
            self._check(0)
            if not self.records:
                raise InputError("nothing was read so far: feed records first")
            checkpoint = self._checkpoint or Checkpoint(path, key_file)
            checkpoint.check_same(path, key_file)
            state = {
                "plan": digest(self.plan.to_json()),
                "dataset": self.dataset,
                "declared": self._run.declared,
                "undeclared": list(self._run.undeclared),
                "private": self._run.private,
                "run": self._secret,
                "port": self._port.state(),
                "leader": self._leader.state(),
            }
            self._write(
                "a checkpoint was being written",
                lambda: checkpoint.write({"session": state, "facts": dict(facts or {})}),
            )
            self._checkpoint, self._why = checkpoint, ""
            _SAVED[self._secret] = self.records
            for place in [place for place in _READ if place[0] == self._secret]:
                del _READ[place]

    @classmethod
    def resume(cls, plan: Plan, checkpoint: Checkpoint) -> Session:
        """Go on from a checkpoint under the same plan. A process that has charged the stream charges it no more."""
        checkpoint = checkpoint.reopened()  # which no other session moves on
        saved = checkpoint.read()["session"]
        if saved["plan"] != digest(plan.to_json()):
            raise InputError(
                "the checkpoint is of another plan: resume it with the settings and the library version of the stream"
            )
        seed = None if saved["private"] else 0
        session = cls(plan, saved["dataset"], seed, saved["undeclared"], saved["declared"], saved["run"])
        session._checkpoint = checkpoint
        session._port.restore(saved["port"])
        session._leader.restore(saved["leader"])
        session._run.begin()
        return session

    def _check(self, count: int) -> None:
        if self._why:
            raise ReleaseError(self._why)
        rounds, left = len(self._leader.cuts(count)) - 1, self._port.left("sums")
        if count and rounds > left:
            raise InputError(
                f"{rounds} rounds are needed and {left} are left of the horizon: nothing was read. "
                "Declare more rounds for the next stream, or none"
            )

    def _commit(self, count: int, job: Callable[[], None], *arrays: np.ndarray) -> None:
        """Do a job that draws noise for so many records, given as arrays. If it is interrupted the stream ends."""
        self._check(count)
        self._run.begin()
        before, delta, checkpoint = self.records, self.plan.budget.delta, self._checkpoint
        if checkpoint is not None:
            place, name = (self._secret, before), _fingerprint(self._secret, arrays)
            other = not checkpoint.pending and _READ.get(place, name) != name
            if other or before < _SAVED.get(self._secret, 0):
                raise InputError(
                    "another stream of this process has gone on from the same checkpoint, with other records: two with "
                    "the same noise would give it away. Nothing was released"
                )
            self._write("records were being read", lambda: checkpoint.announce(name))
            _READ[place] = name
        self._why = _INTERRUPTED.format("records were being read")
        job()
        self._why = ""
        if before < 1.0 / delta <= self.records:
            warn(
                f"the stream has reached 1/delta = {1.0 / delta:g} records: a delta of that size would allow the "
                "release of a whole record now and then. Begin the next stream with a smaller one",
                BudgetWarning,
            )

    def _write(self, what: str, write: Callable[[], None]) -> None:
        """Write to the checkpoint. The stream ends there unless it is known whether that was written."""
        self._why = _INTERRUPTED.format(what)
        try:
            write()
        except UnsureError:
            raise
        except InputError:
            self._why = ""
            raise

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a private stream cannot be copied or pickled while it is open: its noise must never be used twice; "
            "save its model, or write a checkpoint"
        )

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


def _shortened(g: np.ndarray, limit: float) -> np.ndarray:
    """A gradient brought within that length."""
    if not np.isfinite(g).all():
        raise RowError("a gradient holds entries that are not finite (NaN or infinite)")
    top = float(np.abs(g).max()) or 1.0  # in units of the largest entry, no square overflows
    unit = g / top
    length = float(np.linalg.norm(unit))
    return np.asarray(unit * (limit / length if length * top > limit else top))


def _fingerprint(secret: str, arrays: Sequence[np.ndarray]) -> bytes:
    """Name records without giving anything of them away: a hash under a secret of the stream."""
    name = hashlib.blake2b(key=bytes.fromhex(secret), digest_size=32)
    for array in arrays:
        name.update(f"{array.dtype.str}{array.shape}".encode())
        name.update(np.ascontiguousarray(array).tobytes())
    return name.digest()
