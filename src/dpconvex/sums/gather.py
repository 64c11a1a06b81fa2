"""Rows gathered by people: those of a person, in however many parts they lie, come together.

One pass reads the parts in their order and puts every row into a bucket by a hash of the id of its person; bucket by
bucket, the rows are then those of a list of parts in each of which people are complete. Within a person the order of
the rows is kept, ids are compared as they are, and the number of a person is that of the first row, as in memory. Which
row is whose, and how many rows there are of whom, stays in this process: what does not fit in memory lies in a scratch
folder, encrypted under a key that is never written.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.context import read_bytes, settings
from dpconvex.data.ahead import Ahead
from dpconvex.data.opened import Gathered, OpenedParts
from dpconvex.data.openers import open_pair
from dpconvex.data.parts import Part, Parts
from dpconvex.data.sources import skipped
from dpconvex.errors import InputError, PartsError
from dpconvex.loops.rows import Dense
from dpconvex.sums.progress import passing
from dpconvex.sums.store import Scratch

__all__ = ["check_room", "gathered"]

_BUCKET = 2**25  # bytes of the rows of a bucket, roughly
_MOST = 2**12  # buckets
_WIDE = 2**12  # features above which rows are taken to be sparse
_ALONE = 2**24  # bytes that wait to be written together
_ROOM = "bringing the rows of each person together takes a copy of all rows: name a scratch folder, or give more memory"


def check_room(n: int, d: int) -> None:
    """Refuse rows that would fit neither in memory nor in a scratch folder, as far as public numbers tell."""
    now = settings()
    if now.scratch is None and d <= _WIDE and n * _row(d) > (read_bytes(now.memory) or 0):
        raise InputError(f"{_ROOM} (dpconvex.context(scratch=..., memory=...): {n * _row(d) / 1e6:.0f} MB)")


def _row(d: int) -> int:
    return 8 * (d + 4)


def gathered(rows: OpenedParts) -> OpenedParts:
    """Return the same rows in parts in which people are complete.

    Examples
    --------
    >>> import dpconvex as dc
    >>> X, y, ids = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, -1.0, 1.0]), np.array(["eve", "ann", "eve"])
    >>> parts = dc.data.Parts.arrays(X, y, groups=ids, rows=2)
    >>> problem = dc.Problem(dc.losses.Logistic(), feature_bound=4.0)
    >>> found = gathered(OpenedParts(parts, problem, 1, whose=parts.whose, per_person=True))
    >>> (opened, labels), = found.piece(0).chunks(0)
    >>> opened.X.ravel(), opened.people
    (array([1., 2., 3.]), array([0, 1, 0]))
    """
    now = settings()
    count = max(1, min(_MOST, rows.n // 1024, rows.n * _row(rows.d) // _BUCKET))
    room, folder = read_bytes(now.memory) or 0, None if now.scratch is None else str(now.scratch)
    piles, shelf = _Piles(count, room, folder), _Piles(count, room, folder)
    rows.exit.callback(shelf.close)
    try:
        _sort(rows, piles)
        for bucket in range(count):
            if (pile := piles.take(bucket)) is not None:
                shelf.put(bucket, _numbered(pile, rows.parts.most))
    finally:
        piles.close()
    name = "the rows of some people"
    parts = [Part(size, _Bucket(shelf, bucket), name) for bucket, size in enumerate(shelf.sizes) if size]
    whose = Gathered() if rows.per_person else _alone
    return OpenedParts(Parts(parts, open_pair, rows.d), rows.problem, rows.d, 1.0, whose, exit=rows.exit)


def _alone(batch: tuple[Any, ...]) -> tuple[Any, None]:
    return batch[:3], None


_Pile = tuple[Any, ...]  # rows, labels and weights, and two columns about people, which differ from stage to stage


def _sort(rows: OpenedParts, piles: _Piles) -> None:
    """Read all parts once, and put their rows into buckets."""
    with passing(rows.n) as done, Ahead(_chunks(rows)) as coming:
        at = 0
        for X, y, weights, ids in coming:
            bucket = _buckets(ids, at, len(piles.sizes))
            order = np.argsort(bucket, kind="stable")
            cuts = np.flatnonzero(np.diff(bucket[order])) + 1
            for members in np.split(order, cuts):
                pile = X[members], y[members], weights[members], ids[members], at + members
                piles.put(int(bucket[members[0]]), pile)
            at += len(y)
            done(len(y))


def _chunks(rows: OpenedParts) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
    for number in range(len(rows.parts)):
        piece = rows.piece(number)
        for X, y, weights, ids in piece.columns(0):
            opened, labels = piece.open(X, y, weights)
            if isinstance(opened, Dense):
                matrix: Any = opened.X
            else:
                matrix = sparse.csr_array((opened.data, opened.indices, opened.indptr), shape=(len(labels), rows.d))
            known = np.array([cell is not None for cell in ids], dtype=np.float64)
            yield matrix, labels, opened.weights * known if len(opened.weights) else known, ids


def _buckets(ids: np.ndarray, at: int, count: int) -> np.ndarray:
    """The bucket of each row."""
    found: dict[Any, int] = {}
    buckets = np.empty(len(ids), dtype=np.int64)
    for i, cell in enumerate(ids.tolist()):
        if cell is None:
            buckets[i] = (at + i) % count
            continue
        if cell not in found:
            found[cell] = int.from_bytes(hashlib.blake2b(cell.encode(), digest_size=8).digest()) % count
        buckets[i] = found[cell]
    return buckets


def _numbered(pile: _Pile, most: int | None) -> _Pile:
    """Numbers of people in place of their ids; rows of a person beyond the first so many get weight 0."""
    X, y, weights, ids, at = pile
    first: dict[Any, int] = {}
    seen: dict[Any, int] = {}
    people, weights = at.copy(), weights.copy()
    for i, cell in enumerate(ids.tolist()):
        if cell is None:
            continue
        people[i] = first.setdefault(cell, int(at[i]))
        seen[cell] = seen.get(cell, 0) + 1
        if most is not None and seen[cell] > most:
            weights[i] = 0.0
    return X, y, weights, people


def _joined(piles: list[_Pile]) -> _Pile:
    if len(piles) == 1:
        return piles[0]
    X, *columns = zip(*piles, strict=True)
    rows = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
    return rows, *map(np.concatenate, columns)


class _Piles:
    """A pile of rows for each bucket: in memory, and in a scratch file when there is no more room."""

    def __init__(self, count: int, room: int, folder: str | None) -> None:
        self.sizes = [0] * count  # rows
        self._held: list[list[_Pile]] = [[] for _ in range(count)]
        self._written: list[list[int]] = [[] for _ in range(count)]
        self._scratch = None if folder is None else Scratch(folder)
        self._room = room if folder is None else max(room, _ALONE)
        self._used = 0

    def put(self, bucket: int, pile: _Pile) -> None:
        """Put rows on a pile."""
        self._held[bucket].append(pile)
        self.sizes[bucket] += len(pile[1])
        self._used += _bytes(pile)
        if self._used > self._room:
            self._write()

    def _write(self) -> None:
        if self._scratch is None:
            raise PartsError(_ROOM)
        for held, written in zip(self._held, self._written, strict=True):
            if held:
                written.append(self._scratch.write(pickle.dumps(_joined(held), protocol=5)))
                held.clear()
        self._used = 0

    def look(self, bucket: int) -> _Pile | None:
        """The rows of a pile, in the order in which they came."""
        assert self._scratch is not None or not self._written[bucket]
        read = [pickle.loads(self._scratch.read(number)) for number in self._written[bucket]] if self._scratch else []
        piles = [*read, *self._held[bucket]]
        return _joined(piles) if piles else None

    def take(self, bucket: int) -> _Pile | None:
        """The rows of a pile, which is gone then."""
        found = self.look(bucket)
        self._held[bucket], self._written[bucket] = [], []
        return found

    def close(self) -> None:
        """Let go of everything."""
        self._held = []
        if self._scratch is not None:
            self._scratch.close()


def _bytes(pile: _Pile) -> int:
    X, *columns = pile
    stored = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return sum(column.nbytes for column in (*stored, *columns))


@dataclass(frozen=True, eq=False)
class _Bucket:
    """A pile as the rows of a part."""

    piles: _Piles
    number: int

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the rows."""
        found = self.piles.look(self.number)
        assert found is not None
        yield from skipped(iter([found]), start)
