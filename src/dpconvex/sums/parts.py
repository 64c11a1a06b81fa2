"""Sums over parts: each part answers by a pair of a high and a low part, and pairs are added in the order of parts.

For one list of parts and one kind of processor the result has the same bits wherever the parts are read, by how many
workers, and after however many retries. Workers return sums to whoever runs the plan and to nobody else; noise is
added there, after the sums. What they return is encrypted under a key of the run, and so is what is kept in a scratch
folder. Every part has a keyed fingerprint, compared on every pass: the sensitivity of several sums is that of sums
over the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpconvex.context import read_bytes, settings
from dpconvex.data.ahead import Ahead
from dpconvex.data.opened import Gathered, OpenedPart, OpenedParts
from dpconvex.data.sources import SparkPartition
from dpconvex.errors import InputError, PartsError
from dpconvex.loops.rows import Rows
from dpconvex.problem.losses import Loss
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.careful import closed, join
from dpconvex.sums.fingerprints import fingerprint
from dpconvex.sums.matrix import merge, row_limit
from dpconvex.sums.memory import Memory
from dpconvex.sums.progress import passing
from dpconvex.sums.protocol import Response, Terms
from dpconvex.sums.store import Store

__all__ = ["PartSums"]

_CHANGED = "{}: the rows are not those of an earlier pass. Sums over rows that change have no sensitivity"
Which = range | np.ndarray


class PartSums:
    """Sums over parts: see `protocol.Sums`.

    Parameters
    ----------
    rows : OpenedParts

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.sums.protocol import Labels
    >>> X, y = np.array([[3.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    >>> parts = dc.data.Parts.of([(X[:2], y[:2]), (X[2:], y[2:])])
    >>> sums = PartSums(OpenedParts(parts, dc.Problem(dc.losses.Logistic(), feature_bound=4.0), 1))
    >>> sums.sweep(Labels()), sums.view(0, 3, every=2).sweep(Labels()), sums.n
    (array([4.]), array([5.]), 3)
    """

    def __init__(
        self,
        rows: OpenedParts,
        engine: Engine | None = None,
        which: Which | None = None,
        people: People | None = None,
    ) -> None:
        self._rows, self._engine, self._people = rows, engine or _engine(rows), people or People()
        self._which: Which = range(rows.n) if which is None else which
        constant = rows.problem.intercept
        self._size = rows.d + (constant != 0.0)
        radius = rows.problem.feature_bound.l2(rows.d) * (1.0 - (rows.d + 16) * 2.3e-16)
        self._row = row_limit(radius, constant, self._size)

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self._which)

    @property
    def size(self) -> int:
        """Features a row, the constant one included."""
        return self._size

    @property
    def row(self) -> float:
        """Largest l2 norm a row may have, the constant feature included and rounding allowed for."""
        return self._row

    def open(self) -> None:
        """Nothing to do: every pass measures what it reads, and a part that is wrong ends the run, which is charged."""

    def error(self) -> Accumulation:
        """How far these sums can be off."""
        return Accumulation(self.n, self.size, self.row)

    def sweep(self, r: Response, *, keep: bool = False) -> np.ndarray:
        """Return X' diag(omega) r; `keep` says that predictions at its points will be asked for again."""
        return self._total("sweep", r, keep, shape=r.points[0].shape if r.points else (self.size,))

    def entries(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum of omega_i r_i x_i with every entry of r_i x_i within +-clip; what is not finite adds 0."""
        return self._total("entries", r, clip, shape=(self.size,))

    def people(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum over people of their sums of omega_i r_i x_i, each shortened to a norm of `clip`."""
        self._need_people()
        return self._total("people", r, clip, shape=r.points[0].shape)

    def fold(self, t: Terms) -> np.ndarray:
        """Return the sum of the terms of all records, whatever their weights."""
        return self._total("fold", t)

    def hessian(self, loss: Loss, w: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega l''(X w)) X for a loss of one prediction; in single precision if that is enough."""
        return self._total("hessian", loss, w, single, shape=(self.size, self.size))

    def diagonal(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        """Return the diagonal of the Hessian of the losses at w, of the shape of w."""
        return self._total("diagonal", loss, w, shape=w.shape)

    def along(self, loss: Loss, w: np.ndarray, to: np.ndarray, ts: Sequence[float]) -> np.ndarray:
        """First and second derivative of the losses in t at w + t (to - w): a row for each t."""
        return self._total("along", loss, w, to, tuple(ts), shape=(len(ts), 2))

    def careful(self, loss: Loss, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the gradient of the losses at w plus `rest`, in twice the precision; for the logistic loss."""
        pair = self._pair(join, "careful", loss, w)
        return closed(np.zeros((2, *w.shape)) if pair is None else pair, rest)

    def view(self, start: int, stop: int, every: int = 1) -> PartSums:
        """Return one record of every so many in that range, as sums of their own."""
        return PartSums(self._rows, self._engine, self._which[start:stop:every])

    def sampled(self, members: np.ndarray) -> PartSums:
        """Return the records of those numbers, in the order of the parts; where rows were gathered, of those people."""
        if isinstance(self._rows.whose, Gathered):
            return PartSums(self._rows, self._engine, self._which, replace(self._people, members=members))
        return PartSums(self._rows, self._engine, np.sort(np.asarray(self._which)[members]))

    def averaged(self) -> PartSums:
        """Return sums that count the rows of each person as no more than one, by their mean."""
        self._need_people()
        return PartSums(self._rows, self._engine, self._which, replace(self._people, mean=True))

    def _need_people(self) -> None:
        if not isinstance(self._rows.whose, Gathered):
            raise InputError("sums over people need to know whose the rows are: Parts.of(..., person=...)")

    def _total(self, ask: str, *given: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
        pair = self._pair(merge, ask, *given)
        if pair is None:
            return np.zeros(shape or ())
        return np.asarray(pair[0] + pair[1])

    def _pair(self, add: Callable[[np.ndarray, np.ndarray], None], ask: str, *given: Any) -> np.ndarray | None:
        total: np.ndarray | None = None
        starts, question = self._rows.parts.starts, Question(ask, given, self._people)
        asked = [
            (number, local)
            for number, (first, last) in enumerate(pairwise(starts))
            if (local := _within(self._which, first, last)) is not None
        ]
        with passing(self.n) as done, closing(self._engine.ask(asked, question, done)) as pairs:
            for pair in pairs:
                if pair is None:
                    continue
                if total is None:
                    total = pair
                else:
                    add(total, pair)
        return total


def sums_of_parts(rows: OpenedParts) -> PartSums:
    """Sums over parts, whose rows are brought together by people first where these count."""
    if rows.per_person or rows.parts.most is not None:
        from dpconvex.sums.gather import gathered

        rows = gathered(rows)
        engine = Engine(rows, os.urandom(16), Store(0, None))
        rows.exit.callback(engine.close)
        return PartSums(rows, engine)
    return PartSums(rows, which=rows.which)


def _within(which: Which, first: int, last: int) -> Which | None:
    """Those of the chosen rows that lie in a part, counted from its start; None if the part need not be read.

    A part is read whichever rows were drawn from it: that none were is a secret.

    Examples
    --------
    >>> _within(range(3, 20, 4), 6, 12), _within(range(3), 6, 12), _within(np.array([2, 7]), 6, 12)
    (range(1, 9, 4), None, array([1]))
    """
    if isinstance(which, np.ndarray):
        a, b = np.searchsorted(which, [first, last])
        return which[a:b] - first
    skip = max(0, -(-(first - which.start) // which.step))
    stop = max(0, -(-(last - which.start) // which.step))
    inside = which[skip:stop]
    return range(inside.start - first, inside.stop - first, inside.step) if len(inside) else None


@dataclass(frozen=True, eq=False)
class People:
    """Of whom sums over people are: all of them or those drawn, perhaps each by the mean of their rows."""

    members: np.ndarray | None = field(default=None, repr=False)
    mean: bool = False

    def of(self, rows: Memory) -> Memory:
        """Return the rows of these people."""
        if self.members is not None:
            rows = rows.sampled(self.members)
        return rows.averaged() if self.mean else rows


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of every chunk: a method of `Memory.pair`, and what it is given. Its form shows neither."""

    ask: str
    given: tuple[Any, ...] = field(repr=False)
    people: People = field(default_factory=lambda: People(), repr=False)

    def __repr__(self) -> str:
        return "<Question>"

    @property
    def add(self) -> Callable[[np.ndarray, np.ndarray], None]:
        """How pairs are added."""
        return join if self.ask == "careful" else merge


# Readers ------------------------------------------------------------------------------------------------------------


class Reader:
    """Reads chunks of parts, in order without starting again.

    Parameters
    ----------
    key : bytes
        For fingerprints, of this run.
    store : Store
        What was read already.
    """

    def __init__(self, key: bytes, store: Store) -> None:
        self.key, self._store = key, store
        # The part that is being read, and the chunk that comes next.
        self._ahead: tuple[int, int, Ahead[tuple[Rows, np.ndarray]]] | None = None
        self._last: tuple[tuple[int, int], tuple[Memory, bytes]] | None = None

    def close(self) -> None:
        """Read no further."""
        self._last = None
        if self._ahead is not None:
            self._ahead[2].close()
            self._ahead = None

    def chunks(self, number: int, part: OpenedPart, first: int, last: int) -> Iterator[tuple[int, Memory, bytes]]:
        """Yield the chunks first, ..., last - 1 of a part, with their fingerprints."""
        for place in range(first, last):
            at = number, place
            if (found := self._store.find(self.key, at)) is None:
                known = self._last is not None and self._last[0] == at
                found = self._last[1] if known else self._read(number, place, part)  # type: ignore[index]
            yield place, *found

    def chosen(self, number: int, part: OpenedPart, local: Which) -> Iterator[tuple[int, Memory | None, bytes]]:
        """Yield the chosen rows of each chunk of a part, None where there are none; a sample is kept."""
        sample = (number, local) if isinstance(local, range) and local.step > 1 else None
        if sample is None:
            self._store.samples.close()
        elif (known := self._store.samples.find(sample)) is not None:
            yield from known
            return
        size, rows, found = part.size, part.part.rows, []
        first, last = (0, rows) if isinstance(local, np.ndarray) else (local[0], local[-1] + 1)
        for place, chunk, name in self.chunks(number, part, first // size, -(-last // size)):
            inside, some = _within(local, place * size, place * size + chunk.n), None
            if isinstance(inside, np.ndarray):
                some = chunk.sampled(inside)
            elif inside is not None:
                some = chunk if len(inside) == chunk.n else chunk.view(inside.start, inside.stop, inside.step)
            if sample is not None:
                some = some and some.alone()
                found.append((place, some, name))
            yield place, some, name
        if sample is not None:
            self._store.samples.keep(sample, found)

    def _read(self, number: int, place: int, part: OpenedPart) -> tuple[Memory, bytes]:
        if self._ahead is None or self._ahead[0] != number or self._ahead[1] > place:
            self.close()
            self._ahead = number, place, Ahead(part.chunks(place))
        _, at, ahead = self._ahead
        self._last = None
        for _ in range(at, place + 1):
            rows, y = next(ahead)
        self._ahead = number, place + 1, ahead
        memory = Memory(rows, y)
        memory.open()
        found = memory, fingerprint(self.key, memory.matrix.rows, y)
        self._last = (number, place), found
        self._store.keep((number, place), *found)
        return found


def answer(
    reader: Reader, number: int, part: OpenedPart, local: Which, question: Question, done: Callable[[int], None]
) -> tuple[np.ndarray | None, dict[int, bytes]]:
    """Answer a question about chosen rows of a part, with the fingerprints of its chunks."""
    total: np.ndarray | None = None
    names: dict[int, bytes] = {}
    for place, chosen, name in reader.chosen(number, part, local):
        names[place] = name
        whole_chunk = chosen is None or isinstance(local, np.ndarray)
        done(min(part.size, part.part.rows - place * part.size) if whole_chunk else chosen.n)  # type: ignore[union-attr]
        if chosen is None:
            continue
        if not (chosen := question.people.of(chosen)).n:
            continue
        pair = chosen.pair(question.ask, *question.given)
        if total is None:
            total = np.array(pair, dtype=np.float64)
        else:
            question.add(total, pair)
    return total, names


# Engines ------------------------------------------------------------------------------------------------------------


class Engine:
    """Asks parts in this process, one after the other, and compares fingerprints."""

    def __init__(self, rows: OpenedParts, key: bytes, store: Store) -> None:
        self.rows, self.key = rows, key
        self._names: dict[tuple[int, int], bytes] = {}
        self._store, self._reader = store, Reader(key, store)

    def ask(
        self, asked: list[tuple[int, Which]], question: Question, done: Callable[[int], None]
    ) -> Generator[np.ndarray | None, None, None]:
        """Yield the answer of each part, in order."""
        for number, local in asked:
            total, names = answer(self._reader, number, self.rows.piece(number), local, question, done)
            self.compare(number, names)
            yield total

    def compare(self, number: int, names: dict[int, bytes]) -> None:
        """Refuse a part that holds other rows than on an earlier pass."""
        for place, name in names.items():
            if self._names.setdefault((number, place), name) != name:
                raise PartsError(_CHANGED.format(self.rows.parts.parts[number].name))

    def close(self) -> None:
        """Let go of the rows that were kept."""
        self._reader.close()
        self._store.close()


def _engine(rows: OpenedParts) -> Engine:
    now = settings()
    if rows.parts.once:
        raise InputError(
            "rows that can be read only once suit algorithms that read them once and in order: PhasedSGD, PrivateFTRL"
        )
    scratch = None if now.scratch is None else str(now.scratch)
    key, store = os.urandom(16), Store(read_bytes(now.memory) or 0, scratch)
    engine: Engine
    if any(isinstance(part.source, SparkPartition) for part in rows.parts.parts):
        from dpconvex.sums.spark import Spark

        engine = Spark(rows, key, store)
    elif now.executor is None:
        engine = Engine(rows, key, store)
    else:
        from dpconvex.sums.workers import Workers  # which are made of engines

        engine = Workers(rows, key, store, now.executor)
    rows.exit.callback(engine.close)
    return engine
