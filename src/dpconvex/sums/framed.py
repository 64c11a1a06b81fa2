"""Rows in a private frame: a public linear map of every row, and long rows counted less.

In the frame a row x reads T x with T = diag(scales) (I - (1 - damping) axis axis'). It is shortened to `stretch` where
it is longer, and counted by a weight that brings what is left of its length to 1 (docs/proofs/framed_perturbation.md).
No mapped row is stored. Sums over mapped rows are the map of sums over rows, and predictions those at the weights T' w,
so that sparse rows stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex.loops.rows import CSR
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.matrix import Matrix, join
from dpconvex.theorems.computed_sums import BLOCK, UNIT
from dpconvex.theorems.framed_perturbation import SLACK

__all__ = ["FramedAccumulation", "FramedMatrix", "PrivateFrame", "squared_entries"]


@dataclass(frozen=True, eq=False)
class PrivateFrame:
    """The map T = diag(scales) (I - (1 - damping) axis axis'): most of the mean row out, features rescaled.

    Examples
    --------
    >>> frame = PrivateFrame(np.array([2.0, 1.0]), np.array([1.0, 0.0]), 0.5)
    >>> frame.rows(np.array([3.0, 4.0])), frame.weights(np.array([1.0, 1.0]))
    (array([3., 4.]), array([1., 1.]))
    """

    scales: np.ndarray
    axis: np.ndarray
    damping: float

    def rows(self, V: np.ndarray) -> np.ndarray:
        """Return T v, for one v or for each row of a matrix."""
        return np.asarray(self.scales * self._damped(V))

    def weights(self, W: np.ndarray) -> np.ndarray:
        """Return T' w: weights in the coordinates of the rows, of those in the frame."""
        return self._damped(self.scales * W)

    def _damped(self, V: np.ndarray) -> np.ndarray:
        along = (1.0 - self.damping) * (V @ self.axis)
        return np.asarray(V - along[..., None] * self.axis)

    def lengths(self, matrix: Matrix) -> np.ndarray:
        """Lengths |T x| of all rows, never below the true ones.

        |T x|^2 = |S x|^2 - 2 c t <S x, S axis> + c^2 t^2 |S axis|^2 with S = diag(scales), c = 1 - damping and t = <x,
        axis>. Each of the three is at most (max S |x|)^2, and off by fewer than 16 (size + 64) units of that.
        """
        c, bent = 1.0 - self.damping, self.scales**2 * self.axis
        t, q = matrix.predict(np.stack([self.axis, bent])).T
        squares = _squared_lengths(matrix, self.scales) - 2.0 * c * t * q + (c * t) ** 2 * float(bent @ self.axis)
        error = 64.0 * (matrix.size + 64) * UNIT * (float(self.scales.max()) * matrix.row) ** 2
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) + error))


class FramedAccumulation(Accumulation):
    """How far sums over mapped rows can be off: `row` bounds the largest entry of `scales` times the row bound.

    A prediction is that of a row at T' w, computed by one inner product more; a sum is mapped by T once it has been
    added up. Both cost fewer than 8 size + 64 units, and a record takes four more products.

    Examples
    --------
    >>> plain, framed = Accumulation(1000, 10, 3.0), FramedAccumulation(1000, 10, 3.0)
    >>> plain.gradient(1.0, 10.0, 0.25) < framed.gradient(1.0, 10.0, 0.25) == framed.careful(10.0, 0.25)
    True
    """

    def gradient(
        self, slope: float, reach: float, curvature: float, outputs: int = 1, l2: float = 0.0, tilt: float = 0.0
    ) -> float:
        """Bound the error of a gradient."""
        more = 8 * self.size + 64
        plain = Accumulation(self.n, more, self.row).gradient(slope, reach, curvature, outputs, l2, tilt)
        return (1.0 + more / BLOCK) * plain

    def careful(self, reach: float, curvature: float, l2: float = 0.0, tilt: float = 0.0) -> float:
        """Bound the error where twice the precision is asked for, of a loss of slope 1 at most: there is none here."""
        return self.gradient(1.0, reach, curvature, 1, l2, tilt)


class FramedMatrix(Matrix):
    """The rows of a matrix in a frame, each at most `stretch` long and counted by at most `full` over its length.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> rows = Matrix(Dense(np.array([[1.0, 0.0], [0.0, 0.5]]), 1.0, 0.0), 2)
    >>> frame = PrivateFrame(np.array([4.0, 1.0]), np.zeros(2), 1.0)
    >>> framed = FramedMatrix(rows, frame, 3.0)
    >>> framed.predict(np.ones(2)).round(6), framed.weights.round(6)
    (array([3. , 0.5]), array([0.333333, 1.      ]))
    """

    def __init__(self, base: Matrix, frame: PrivateFrame, stretch: float, full: float = 1.0) -> None:
        lengths = frame.lengths(base)
        factor = np.minimum(1.0, stretch * (1.0 - SLACK) / lengths)
        weights = np.minimum(1.0, full * (1.0 - SLACK) / (lengths * factor))
        self._hold(base.replaced(base.weights * weights), frame, factor)

    def _hold(self, base: Matrix, frame: PrivateFrame, factor: np.ndarray) -> None:
        self._base, self.frame, self._factor = base, frame, factor
        self.rows, self.n, self.size, self.weights = base.rows, base.n, base.size, base.weights
        self.row = float(frame.scales.max()) * base.row

    def part(self, which: slice | np.ndarray) -> FramedMatrix:
        """Some of the rows, in the same frame."""
        part = FramedMatrix.__new__(FramedMatrix)
        part._hold(self._base.part(which), self.frame, np.ascontiguousarray(self._factor[which]))
        return part

    def predict(self, W: np.ndarray) -> np.ndarray:
        """Return one prediction a row (K of them for a matrix), at weights in the frame."""
        return _each(self._factor, self._base.predict(self.frame.weights(W)))

    def sweep_pair(self, points: Sequence[np.ndarray], respond: Callable[..., np.ndarray]) -> np.ndarray:
        """Return the sum of the mapped rows times the response, as a pair of a high and a low part."""
        factor = self._factor

        def framed(part: slice, *Z: np.ndarray) -> np.ndarray:
            return _each(factor[part], respond(part, *(_each(factor[part], z) for z in Z)))

        pair = self._base.sweep_pair([self.frame.weights(W) for W in points], framed)
        return np.stack([self.frame.rows(total) for total in pair])

    def hessian(self, h: np.ndarray, single: bool = False) -> np.ndarray:
        """Return the sum of h z z' over the mapped rows z, each counted by its weight."""
        plain = self._base.hessian(h * self._factor**2, single)
        return self.frame.rows(self.frame.rows(plain).T)

    def diagonal(self, h: np.ndarray) -> np.ndarray:
        """Return the diagonal of the Hessian; for h of shape (n, K) one diagonal for each column."""
        frame, c = self.frame, 1.0 - self.frame.damping
        h = _each(self._factor**2, h)
        axes = np.broadcast_to(frame.axis, (*h.shape[1:], self.size))
        across = self._base.sweep((axes,), lambda part, z: h[part] * z)  # H axis
        along = (across @ frame.axis)[..., None]
        plain = self._base.diagonal(h) - 2.0 * c * frame.axis * across + (c * frame.axis) ** 2 * along
        return np.asarray(frame.scales**2 * np.maximum(plain, 0.0))


def squared_entries(matrix: Matrix) -> np.ndarray:
    """Return the sum over rows of the squares of their entries, each row counted by its weight.

    As in a sweep, 1024 rows are added up at a time, and the sums of these blocks as pairs.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> squared_entries(Matrix(Dense(np.array([[3.0, 4.0], [0.5, 0.0]]), 1.0, 2.0), 2)).round(3)
    array([0.61, 0.64, 8.  ])
    """
    pair, rows = np.zeros((2, matrix.size)), matrix.rows
    for start in range(0, matrix.n, BLOCK):
        part = slice(start, min(start + BLOCK, matrix.n))
        weights, total = matrix.weights[part], np.zeros(matrix.size)
        if isinstance(rows, CSR):
            which, columns, values = _entries(rows, part)
            squares = weights[which] * np.square(matrix.shorten[part][which] * values)
            total[: rows.d] = np.bincount(columns, squares, minlength=rows.d)
        else:
            total[: rows.X.shape[1]] = weights @ np.square(matrix.shorten[part, None] * rows.X[part].astype(np.float64))
        if rows.constant:
            total[-1] = rows.constant**2 * weights.sum()
        join(pair, total)
    return np.asarray(pair[0] + pair[1])


def _squared_lengths(matrix: Matrix, scales: np.ndarray) -> np.ndarray:
    """Squared norm of every row times `scales`."""
    rows, squares = matrix.rows, np.empty(matrix.n)
    for start in range(0, matrix.n, BLOCK):
        part = slice(start, min(start + BLOCK, matrix.n))
        if isinstance(rows, CSR):
            which, columns, values = _entries(rows, part)
            scaled = np.square(matrix.shorten[part][which] * values * scales[columns])
            squares[part] = np.bincount(which, scaled, minlength=part.stop - part.start)
        else:
            scaled = matrix.shorten[part, None] * rows.X[part].astype(np.float64) * scales[: rows.X.shape[1]]
            squares[part] = np.einsum("ij,ij->i", scaled, scaled)
    return squares + (rows.constant * scales[-1]) ** 2 if rows.constant else squares


def _entries(rows: CSR, part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row (counted from the first of the part), column and value of every stored entry of a range of rows."""
    inside = slice(rows.indptr[part.start], rows.indptr[part.stop])
    which = np.repeat(np.arange(part.stop - part.start), np.diff(rows.indptr[part.start : part.stop + 1]))
    return which, rows.indices[inside], rows.data[inside].astype(np.float64, copy=False)


def _each(factor: np.ndarray, V: Any) -> np.ndarray:
    """Every number, or every row, times its factor."""
    return np.asarray((factor * V.T).T)
