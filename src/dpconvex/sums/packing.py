"""Rows that are kept between passes, packed without loss: columns of zeros and ones take a bit for each row.

Categories become such columns, of zeros and some other number. Only what is kept is packed: sums see the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpconvex.data.reuse import empty
from dpconvex.loops.protocol import compiled
from dpconvex.loops.rows import Dense, Rows


@compiled
def _survey(cells, other, two):
    # `other` becomes the number of each column beside zero, as long as there is only one.
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            x = cells[i, j]
            if x != 0 and x != other[j]:
                if other[j] == 0:
                    other[j] = x
                else:
                    two[j] = False


@compiled
def _pack(cells, places, bits, rest):
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            place = places[j]
            if place < 0:
                rest[i, -1 - place] = cells[i, j]
            elif cells[i, j] != 0:
                bits[i, place >> 3] |= np.uint8(1 << (place & 7))


@compiled
def _unpack(cells, places, other, bits, rest):
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            place = places[j]
            if place < 0:
                cells[i, j] = rest[i, -1 - place]
            else:
                cells[i, j] = other[j] if (bits[i, place >> 3] >> (place & 7)) & 1 else 0


class Packed(NamedTuple):
    """Dense rows and labels, packed."""

    rows: Dense  # with no entries
    dtype: str
    places: np.ndarray  # of each column among the bits, or as -1 - place among the rest
    other: np.ndarray  # what a bit stands for, as the bytes of the number
    bits: np.ndarray
    rest: np.ndarray
    y: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(part.nbytes for part in (*self[2:], self.rows.weights, self.rows.people))

    def unpacked(self) -> tuple[Dense, np.ndarray]:
        """Return the rows and labels."""
        X = empty((len(self.bits), len(self.places)), self.dtype)
        _unpack(X.view(self.other.dtype), self.places, self.other, self.bits, self.rest)
        return self.rows._replace(X=X), self.y.astype(np.float64)


def packed(rows: Rows, y: np.ndarray) -> Packed | None:
    """Pack rows and labels, or return None where that does not halve them.

    Examples
    --------
    >>> X = np.array([[0.0, 0.5, 3.0, 0.0], [2.0, 0.0, -4.0, 0.0]])
    >>> found = packed(Dense(X, 9.0, 0.0), np.array([1.0, -1.0]))
    >>> found.bits.tolist(), found.rest.view(float).tolist(), found.y.dtype
    ([[2], [1]], [[3.0], [-4.0]], dtype('int8'))
    >>> bool((found.unpacked()[0].X == X).all())
    True
    """
    if not isinstance(rows, Dense) or rows.X.dtype.kind != "f":
        return None
    cells = np.ascontiguousarray(rows.X).view(f"i{rows.X.dtype.itemsize}")
    d = cells.shape[1]
    other, two = np.zeros(d, cells.dtype), np.ones(d, dtype=bool)
    for some in (cells[:64], cells):  # the first rows tell most
        _survey(some, other, two)
        if 2 * two.sum() <= d:
            return None
    places = np.where(two, np.cumsum(two) - 1, -np.cumsum(~two))
    bits = np.zeros((len(cells), -(-int(two.sum()) // 8)), np.uint8)
    rest = np.empty((len(cells), int((~two).sum())), cells.dtype)
    _pack(cells, places, bits, rest)
    with np.errstate(invalid="ignore"):
        small = y.astype(np.int8)
    return Packed(
        rows._replace(X=np.empty((0, d))),
        rows.X.dtype.str,
        places,
        other,
        bits,
        rest,
        small if np.array_equal(small, y) else y,
    )
