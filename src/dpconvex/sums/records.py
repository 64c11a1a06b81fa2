"""Sums over records of a loss of the user's own, in the memory of this process.

Such a loss is one of as many predictions as there are weights, for a row that holds a single 1: predictions are the
weights themselves, and what a record answers to them is what it adds to a sum.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from dpconvex.loops.rows import Records
from dpconvex.problem.losses import Convex
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.protocol import Clipped, Part, Response, Terms
from dpconvex.theorems.computed_sums import BLOCK

__all__ = ["RecordSums"]

_ENTRIES = 2**20  # numbers that the gradients of some records hold at most, beyond those of one
_NONE = np.empty(0)


class RecordSums:
    """Sums over records: see `protocol.Sums`, of which it has what needs gradients alone.

    Examples
    --------
    >>> from dpconvex.problem.losses import Convex
    >>> from dpconvex.sums.protocol import Clipped, Slopes
    >>> away = Convex(lambda w, X, y: w - X, smoothness=1.0)
    >>> sums = RecordSums(Records(np.array([[3.0, 4.0], [0.5, 0.0]]), None))
    >>> sums.sweep(Slopes(away, np.zeros(2))), sums.sweep(Clipped(away, np.zeros(2), 1.0))
    (array([-3.5, -4. ]), array([-1.1, -0.8]))
    """

    def __init__(self, records: Records) -> None:
        self.records = records

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.records.X.shape[0])

    @property
    def weights(self) -> np.ndarray:
        """How much each record counts."""
        return self.records.weights if len(self.records.weights) else np.ones(self.n)

    @property
    def size(self) -> int:
        """Features a row: one, which is 1."""
        return 1

    @property
    def row(self) -> float:
        """Largest norm of a row."""
        return 1.0

    def open(self) -> None:
        """There is nothing to measure."""

    def error(self) -> Accumulation:
        """How far these sums can be off."""
        return Accumulation(self.n, self.size, self.row)

    def sweep(self, r: Response, *, keep: bool = False) -> np.ndarray:
        """Return the sum of the answers, times their weights."""
        shape = r.points[0].shape
        size = math.prod(shape)
        if isinstance(r, Clipped) and r.q == 2.0:
            if 0 < self.n <= min(BLOCK, max(1, _ENTRIES // size)):  # one block, which joins nothing
                return _clipped(r, self.records).reshape(shape)
            totals = (_clipped(r, self.records.take(part)) for part in self._parts(size))
        else:
            totals = (np.ones(part.stop - part.start) @ self._answers(r, part) for part in self._parts(size))
        high, low = np.zeros((2, size))
        for total in totals:
            _join(high, low, total)
        return np.asarray((high + low).reshape(shape))

    def entries(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum of the answers times their weights, every entry within +-clip."""
        shape = r.points[0].shape
        high, low = np.zeros((2, int(np.prod(shape, dtype=int))))
        for part in self._parts(high.size):
            _join(high, low, np.clip(self._answers(r, part), -clip, clip).sum(axis=0))
        return np.asarray((high + low).reshape(shape))

    def people(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum over people of their sums of answers, each shortened to a norm of `clip`."""
        shape = r.points[0].shape
        high, low = np.zeros((2, int(np.prod(shape, dtype=int))))
        order = np.argsort(self.records.people, kind="stable")
        grouped = RecordSums(self.records.take(order))
        ends = np.flatnonzero(np.diff(grouped.records.people, append=-1)) + 1
        total, at = np.zeros(high.size), 0
        for part in grouped._parts(high.size):
            answers, start = grouped._answers(r, part), part.start
            while at < len(ends) and ends[at] <= part.stop:
                total += answers[start - part.start : ends[at] - part.start].sum(axis=0)
                _join(high, low, _shortened(total, clip))
                total, start, at = np.zeros(high.size), int(ends[at]), at + 1
            total += answers[start - part.start :].sum(axis=0)
        return np.asarray((high + low).reshape(shape))

    def fold(self, t: Terms) -> np.ndarray:
        """Return the sum of the terms of all records, whatever their weights."""
        return np.asarray(t.sum(Part(t.points, (self.records.X, self.records.y), _NONE, (), np)))

    def view(self, start: int, stop: int, every: int = 1) -> RecordSums:
        """Return one record of every so many in that range, as sums of their own."""
        return RecordSums(self.records.take(slice(start, stop, every)))

    def sampled(self, members: np.ndarray) -> RecordSums:
        """Return the records of those numbers, in order; where records say whose they are, those of these people."""
        people = self.records.people
        return RecordSums(self.records.take(np.flatnonzero(np.isin(people, members)) if len(people) else members))

    def _parts(self, size: int) -> list[slice]:
        """Ranges of records that are added up before they join the total, of at most `BLOCK` each."""
        step = max(1, min(BLOCK, _ENTRIES // size))
        return [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]

    def _answers(self, r: Response, part: slice) -> np.ndarray:
        """What each of some records answers, times its weight: a row for each."""
        some = self.records.take(part)
        m = part.stop - part.start
        with np.errstate(over="ignore"):  # what is too long to be measured counts as nothing
            answers = np.asarray(r.rows(Part(r.points, (some.X, some.y), np.ones(m), (), np)))
        return answers if not len(some.weights) else some.weights[:, None] * answers


def _clipped(r: Clipped, some: Records) -> np.ndarray:
    """What some records answer, added up, none longer than the clip."""
    return cast(Convex, r.loss).clipped_total(r.w, (some.X, some.y), r.clip, some.weights)


def _join(high: np.ndarray, low: np.ndarray, part: np.ndarray) -> None:
    """Add a part to the high numbers, and the error of that addition to the low ones (Knuth)."""
    total = high + part
    rest = total - high
    low += (high - (total - rest)) + (part - rest)
    high[:] = total


def _shortened(total: np.ndarray, clip: float) -> np.ndarray:
    """Shorten a vector to a norm of `clip`; see `people._factor`."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.linalg.norm(total)) * (1.0 + (total.size + 64) * 2.3e-16) + 1e-148
    factor = clip / max(length, clip) if length < 1e150 else 0.0
    return factor * total if factor >= 1e-290 else np.zeros_like(total)
