"""Parts as the rows of a problem: chunks of a public number of rows, opened like rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from scipy import sparse

from dpconvex.data.ahead import Ahead
from dpconvex.data.arrays import open_rows, open_weights
from dpconvex.data.sources import Held, Mapped, count_rows
from dpconvex.errors import DpconvexError, InputError, PartsError
from dpconvex.loops.rows import APART, EVEN, Rows
from dpconvex.problem.problem import Problem

if TYPE_CHECKING:
    from dpconvex.data.parts import Part, Parts

CHUNK_ROWS, _CHUNK_NUMBERS = 2**15, 2**19  # small enough for a processor's cache
_Opener = Callable[[Any], tuple[Any, Any, Any]]


def chunk_rows(d: int) -> int:
    """Rows of a chunk of rows of d features: a public number, on which the last bits of sums depend.

    Examples
    --------
    >>> chunk_rows(20), chunk_rows(100), chunk_rows(10**6)
    (16384, 4096, 1024)
    """
    return min(CHUNK_ROWS, max(1024, 2 ** (_CHUNK_NUMBERS // d).bit_length() // 2))


def guarded(batches: Iterator[Any], name: str) -> Iterator[Any]:
    """Yield what comes. Whatever goes wrong becomes a `PartsError` that names the part, and no value."""
    try:
        yield from batches
    except Exception as error:
        _refuse(error, name)


def _refuse(error: Exception, name: str) -> NoReturn:
    if isinstance(error, PartsError):
        raise error
    if isinstance(error, DpconvexError):
        raise PartsError(f"{name}: {error}") from None
    if isinstance(error, FileNotFoundError):
        raise PartsError(f"{name}: the file is missing") from None
    raise PartsError(f"{name} could not be read ({type(error).__name__})") from None


@dataclass(frozen=True, eq=False)
class OpenedParts:
    """Parts as the rows of a problem: what a run over parts gives to an algorithm in place of rows in memory.

    `weights` and `people` are those of rows that say nothing of them.
    """

    weights: ClassVar[np.ndarray] = EVEN
    people: ClassVar[np.ndarray] = APART

    parts: Parts
    problem: Problem
    d: int
    weight_cap: float | None = None  # None where the algorithm takes no weights
    whose: Any = None  # takes the column of people out of batches
    per_person: bool = False  # sums are over people, whose rows have to come together
    which: np.ndarray | None = None  # places of the rows that are used, ascending; None for all
    exit: ExitStack = field(default_factory=ExitStack)  # what has to be done at the end of a run

    @property
    def n(self) -> int:
        """Rows that are used."""
        return self.parts.n if self.which is None else len(self.which)

    @property
    def size(self) -> int:
        """Rows of a chunk."""
        return chunk_rows(self.d)

    def piece(self, number: int) -> OpenedPart:
        """One of the parts, which travels to where it is read."""
        return OpenedPart(
            self.parts.parts[number], self.parts.opener, self.problem, self.d, self.weight_cap, self.whose
        )

    def in_order(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows, labels and, where there are some, weights of all parts in order, in chunks read ahead."""
        coming, at = (chunk for number in range(len(self.parts)) for chunk in self.piece(number).columns(0)), 0
        with Ahead(coming) as ahead:
            for columns in ahead:
                count = len(columns[1])
                if self.which is not None:
                    first, last = np.searchsorted(self.which, [at, at + count])
                    columns = taken(columns, self.which[first:last] - at)
                X, y, weights, _ = columns
                at += count
                if len(y):
                    yield (X, y) if weights is None else (X, y, weights)


class Gathered:
    """Takes the numbers of people out of rows that were gathered by people: see `sums.gather`."""

    def __call__(self, batch: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the rest of the batch, and the numbers."""
        return batch[:3], batch[3]


@dataclass(frozen=True, eq=False)
class OpenedPart:
    """One part, with what opens it. Its form shows nothing of what it is about."""

    part: Part
    opener: _Opener
    problem: Problem
    d: int
    weight_cap: float | None = None
    whose: Any = None

    def __repr__(self) -> str:
        return "<OpenedPart>"

    @property
    def size(self) -> int:
        """Rows of a chunk: all of them where they are gathered by people."""
        return self.part.rows if isinstance(self.whose, Gathered) else chunk_rows(self.d)

    def chunks(self, start: int) -> Iterator[tuple[Rows, np.ndarray]]:
        """Yield the chunks from number `start` on, opened."""
        for X, y, weights, people in self.columns(start):
            rows, labels = self.open(X, y, weights)
            yield rows._replace(people=people) if isinstance(self.whose, Gathered) else rows, labels

    def open(self, X: Any, y: Any, weights: Any) -> tuple[Rows, np.ndarray]:
        """Open rows, labels and weights."""
        try:
            rows, labels = open_rows(X, y, self.problem, len(y), self.d)
            return rows if weights is None else rows._replace(
                weights=open_weights(weights, self.weight_cap, len(y))
            ), labels
        except Exception as error:
            _refuse(error, self.part.name)

    def columns(self, start: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Yield rows, labels, weights and people in chunks from number `start` on; refuse other numbers of them."""
        yield from guarded(self._columns(start), self.part.name)

    def _columns(self, start: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        coming = self.part.source.batches(start * self.size, self.size)
        if isinstance(self.part.source, Held | Mapped):  # there is nothing to wait for
            yield from self._cut(coming, start)
            return
        with Ahead(coming) as ahead:  # what is read, opened and added up are three batches, in three threads
            yield from self._cut(ahead, start)

    def _cut(self, batches: Iterator[Any], start: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        size, left = self.size, self.part.rows - start * self.size
        held: list[tuple[Any, ...]] = []
        waiting = 0
        for batch in filter(count_rows, batches):
            batch, people = (batch, None) if self.whose is None else self.whose(batch)
            columns = (*self.opener(batch), people)
            count, at = len(columns[1]), 0
            if columns[0].shape[0] != count:
                raise InputError(f"holds {columns[0].shape[0]} rows and {count} labels")
            if columns[2] is not None and self.weight_cap is None:
                raise InputError("holds weights, and the algorithm takes none")
            if count > left:
                raise InputError(f"holds more rows than the {self.part.rows} that were declared")
            left -= count
            while at < count:
                take = min(size - waiting, count - at)
                whole_batch = take == count
                held.append(columns if whole_batch else taken(columns, slice(at, at + take)))
                waiting, at = waiting + take, at + take
                if waiting == size and (left or at < count):
                    yield _together(held)
                    held, waiting = [], 0
        if left:
            raise InputError(f"holds fewer rows than the {self.part.rows} that were declared")
        if held:
            yield _together(held)


def taken(columns: tuple[Any, ...], which: slice | np.ndarray) -> tuple[Any, ...]:
    """Some rows of columns, of which some may be None."""
    return tuple(None if column is None else column[which] for column in columns)


def _together(held: list[tuple[Any, ...]]) -> tuple[Any, Any, Any, Any]:
    X, y, weights, people = zip(*held, strict=True)
    if len(held) == 1:
        return X[0], y[0], weights[0], people[0]
    kinds = {sparse.issparse(rows) for rows in X}
    if len(kinds) > 1 or len({w is None for w in weights}) > 1:
        raise InputError("the batches of a part must be all dense or all sparse, with weights or without")
    rows = sparse.vstack(X, format="csr") if kinds == {True} else np.concatenate(X)
    rest = (None if column[0] is None else np.concatenate(column) for column in (weights, people))
    return rows, np.concatenate(y), next(rest), next(rest)
