"""Operators over all rows at once: X w, X' r, X' diag(h) X, with the row bound and the constant feature built in.

Sums over records count each as much as its weight says, from 0 to 1. Dense rows go through BLAS in blocks of 1024,
sparse rows through compiled loops; both add up 1024 rows at a time, and the sums of the blocks, in the order of the
rows, as pairs (high, low) of float64 numbers. The rounding of a sum then hardly grows with the number of rows, and is
stated in advance (`accuracy`). A float64 X is never copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpconvex.errors import RowError
from dpconvex.loops.protocol import compiled, compiled_exactly
from dpconvex.loops.rows import APART, CSR, NOT_FINITE, Dense, Rows
from dpconvex.problem.losses import Loss
from dpconvex.sums.rowwise import bend, takes_batches
from dpconvex.sums.threads import each, groups, one_blas_thread
from dpconvex.theorems.computed_sums import BLOCK, MATRIX_BLOCK, UNIT


@compiled
def _lengths(rows, shorten, norms):
    # What `length` says of every row, one thing at a time: so roots and quotients are taken in vector registers.
    radius, more = rows.radius, rows.constant * rows.constant
    for i in range(norms.shape[0]):
        norms[i] = rows.square(i)
    for i in range(norms.shape[0]):
        norms[i] = math.sqrt(norms[i])
    for i in range(norms.shape[0]):
        shorten[i] = radius / (norms[i] if norms[i] > radius else radius)
    for i in range(norms.shape[0]):
        inside = norms[i] if norms[i] < radius else radius
        norms[i] = math.sqrt(inside * inside + more) if norms[i] < math.inf else -1.0
    for i in range(norms.shape[0]):
        if norms[i] < 0.0:  # too long to be squared, or not finite
            shorten[i], norm2 = rows.length(i)
            norms[i] = math.sqrt(norm2)


# Loops over sparse rows use unsigned indices, which need no test for counting from the end: twice the speed.
@compiled
def _predict(rows, shorten, w, out, first):
    for i in range(out.shape[0]):
        out[i] = 0.0
        stop = rows.indptr[first + i + 1]
        for start in range(rows.indptr[first + i], stop, BLOCK):
            total = 0.0
            for e in range(np.uint64(start), np.uint64(min(start + BLOCK, stop))):
                total += np.float64(rows.data[e]) * w[np.uint64(rows.indices[e])]
            out[i] += shorten[first + i] * total if shorten[first + i] > 0.0 else 0.0
    if rows.constant != 0.0:
        for i in range(out.shape[0]):
            out[i] += rows.constant * w[rows.d]


@compiled
def _complete(Z, shorten, constant, last):
    # Rows too long to be shortened count as zeros, whatever their products with the weights came to.
    for k in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            Z[k, i] = (shorten[i] * Z[k, i] if shorten[i] > 0.0 else 0.0) + constant * last[k]


@compiled_exactly
def _add(high, low, j, value):
    # The error of high[j] + value, exact (Knuth's two-sum), joins low[j].
    total = high[j] + value
    back = total - high[j]
    low[j] += (high[j] - (total - back)) + (value - back)
    high[j] = total


@compiled_exactly
def _join(high, low, block):
    for j in range(block.shape[0]):
        _add(high, low, j, block[j])


@compiled_exactly
def _join_blocks(high, low, blocks):
    for b in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            _add(high, low, j, blocks[b, j])


@compiled_exactly
def _merge(high, low, other):
    for j in range(high.shape[0]):
        _add(high, low, j, other[0, j])
        low[j] += other[1, j]


@compiled_exactly
def _adjoint(rows, shorten, r, block, high, low, first):
    for start in range(first, first + r.shape[0], BLOCK):
        stop = min(start + BLOCK, first + r.shape[0])
        for i in range(start, stop):
            p = r[i - first] * shorten[i]
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                block[np.uint64(rows.indices[e])] += p * np.float64(rows.data[e])
        if rows.indptr[stop] - rows.indptr[start] >= rows.d:
            for j in range(rows.d):
                _add(high, low, j, block[j])
                block[j] = 0.0
        else:  # few entries: carry over those that were touched
            for e in range(np.uint64(rows.indptr[start]), np.uint64(rows.indptr[stop])):
                at = np.uint64(rows.indices[e])
                _add(high, low, at, block[at])
                block[at] = 0.0
        if rows.constant != 0.0:
            total = 0.0
            for i in range(start - first, stop - first):
                total += r[i]
            _add(high, low, rows.d, rows.constant * total)


@compiled
def _outer(rows, shorten, h, first, last, out):
    for i in range(first, last):
        p = h[i] * shorten[i]
        start = np.uint64(rows.indptr[i])
        for e in range(start, np.uint64(rows.indptr[i + 1])):
            j = np.uint64(rows.indices[e])
            q = p * np.float64(rows.data[e])
            for f in range(start, e + np.uint64(1)):
                out[j, np.uint64(rows.indices[f])] += q * (shorten[i] * np.float64(rows.data[f]))
            if rows.constant != 0.0:
                out[rows.d, j] += q * rows.constant
        if rows.constant != 0.0:
            out[rows.d, rows.d] += h[i] * rows.constant * rows.constant


@compiled
def _squares(rows, shorten, h, out):
    for i in range(h.shape[0]):
        for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            x = shorten[i] * np.float64(rows.data[e])
            out[np.uint64(rows.indices[e])] += h[i] * (x * x)


@compiled
def _along(loss, z, dz, y, weights, t):
    first, second = 0.0, 0.0
    for i in range(y.shape[0]):
        at = z[i] + t * dz[i]
        first += weights[i] * loss.slope(at, y[i]) * dz[i]
        second += weights[i] * loss.curvature(at, y[i]) * dz[i] * dz[i]
    return first, second


_ENTRIES = 2**18  # of dense rows that are read at a time, and so stay in the cache for two products
_CHUNK = MATRIX_BLOCK // 4  # sparse rows whose x x' are added up before they join the total


class Matrix:
    """The n rows as a matrix X: rows longer than the radius shortened to it, the constant feature appended.

    Weights w are a vector of `size` numbers or a matrix of K such rows; predictions are then (n,) or (n, K). A sum over
    records counts record i by omega_i, the weight that the rows give it.

    Parameters
    ----------
    rows : Dense or CSR
    n : int
        Number of rows.

    Attributes
    ----------
    size : int
        Features a row, the constant one included.
    row : float
        Largest l2 norm a row may have, the constant feature included and rounding allowed for.
    shorten : ndarray of shape (n,)
        Factor that brings every row within the radius.
    norms : ndarray of shape (n,)
        Norm of every row, the constant feature included.
    weights : ndarray of shape (n,)
        How much each record counts, from 0 to 1: omega.

    Examples
    --------
    >>> matrix = Matrix(Dense(np.array([[3.0, 4.0], [0.5, 0.0]]), 1.0, 2.0), 2)
    >>> matrix.predict(np.array([1.0, 0.0, 1.0])).round(3)
    array([2.6, 2.5])
    >>> matrix.adjoint(np.array([1.0, 1.0])).round(3)
    array([1.1, 0.8, 4. ])
    >>> matrix.hessian(np.array([0.0, 1.0])).round(3)
    array([[0.25, 0.  , 1.  ],
           [0.  , 0.  , 0.  ],
           [1.  , 0.  , 4.  ]])
    >>> Matrix(Dense(np.array([[0.5], [1.0]]), 1.0, 0.0, np.array([1.0, 0.25])), 2).adjoint(np.array([1.0, 1.0]))
    array([0.75])
    """

    def __init__(self, rows: Rows, n: int) -> None:
        self._describe(rows, n)
        self.shorten, self.norms = np.empty(n), np.empty(n)
        _lengths(rows, self.shorten, self.norms)
        if np.isinf(self.norms).any():
            raise RowError(NOT_FINITE)
        self.weights = rows.weights if len(rows.weights) else np.ones(n)

    def _describe(self, rows: Rows, n: int) -> None:
        self.rows, self.n = rows, n
        self._d = rows.X.shape[1] if isinstance(rows, Dense) else int(rows.d)
        self.size = self._d + (rows.constant != 0.0)
        self.row = row_limit(rows.radius, rows.constant, self.size)

    def part(self, which: slice | np.ndarray) -> Matrix:
        """Some of the rows: a range of them, without a copy where it leaves none out, or those of the numbers given."""
        part = Matrix.__new__(Matrix)
        part.shorten, part.norms = chosen(self.shorten, which), chosen(self.norms, which)
        part.weights = chosen(self.weights, which) if len(self.rows.weights) else np.ones(len(part.norms))
        part._describe(taken(self.rows, which), len(part.shorten))
        return part

    def replaced(self, weights: np.ndarray) -> Matrix:
        """Return the same rows, each counted by its weight and nobody's."""
        part = self.part(slice(None))
        part.rows, part.weights = self.rows._replace(weights=weights, people=APART), weights
        return part

    def predict(self, W: np.ndarray) -> np.ndarray:
        """Return X w, one prediction a row (K of them for a matrix)."""
        out = np.empty((*W.shape[:-1], self.n))  # a class at a time lies together in memory

        def fill(rows: range) -> None:
            for part, X in self._parts(rows):
                out[..., part] = self._forth(part, X, W)

        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # rows that count as zeros
            for _ in each(fill, self.groups(), self.n * W.size):
                pass
        return out.T

    def adjoint(self, R: np.ndarray) -> np.ndarray:
        """Return X' diag(omega) r, the sum of the rows times r."""
        return self.sweep((), lambda part: R[part])

    def sweep(self, points: Sequence[np.ndarray], respond: Callable[..., np.ndarray]) -> np.ndarray:
        """Return X' diag(omega) respond(X w, ...) in one pass: `respond` maps a range of rows and its predictions to r.

        There are as many predictions to respond to as points w, all of one shape; without any there are none.

        Examples
        --------
        >>> matrix = Matrix(Dense(np.array([[3.0], [1.0]]), 4.0, 0.0), 2)
        >>> matrix.sweep((np.array([2.0]),), lambda part, z: 0.5 * z)
        array([10.])
        """
        high, low = self.sweep_pair(points, respond)
        return np.asarray(high + low)

    def sweep_pair(self, points: Sequence[np.ndarray], respond: Callable[..., np.ndarray]) -> np.ndarray:
        """Return the sum of `sweep` as a pair of a high and a low part, which those of other rows may join."""
        weighted = len(self.rows.weights) > 0  # otherwise every record counts once

        def added(rows: range) -> np.ndarray:
            pair = np.empty(0)
            block = np.zeros(self._d if isinstance(self.rows, CSR) else 0)  # where sparse rows are added up
            for part, X in self._parts(rows, many=len(points) > 0):
                R = respond(part, *[self._forth(part, X, W).T for W in points])
                R = _times(self.weights[part], R) if weighted else R
                if part.start == rows.start:
                    pair = np.zeros((2, *R.shape[1:], self.size))
                self._back(part, X, R, pair[0], pair[1], block)
            return pair

        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # rows that count as zeros
            sums = each(added, self.groups(), 2.0 * self.n * self.size)
            total = next(sums)
            for pair in sums:
                merge(total, pair)
        return total

    def add_entries(self, part: slice, r: np.ndarray, clip: float, pair: np.ndarray) -> None:
        """Add omega_i r_i x_i of a range of rows to the pair, with every entry of r_i x_i within +-clip."""
        rows, omega, total = self.rows, self.weights[part], np.zeros(self.size)
        factor, d = r * self.shorten[part], self._d
        if isinstance(rows, Dense):
            total[:d] = omega @ np.clip(factor[:, None] * rows.X[part].astype(np.float64, copy=False), -clip, clip)
        else:
            inside = slice(rows.indptr[part.start], rows.indptr[part.stop])
            which = np.repeat(np.arange(len(r)), np.diff(rows.indptr[part.start : part.stop + 1]))
            cut = np.clip(factor[which] * rows.data[inside].astype(np.float64, copy=False), -clip, clip)
            total[:d] = np.bincount(rows.indices[inside], cut * omega[which], minlength=d)
        total[d:] = omega @ np.clip(r * rows.constant, -clip, clip)
        _join(pair[0], pair[1], total)

    def hessian(self, h: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega h) X for h >= 0, size x size; dense products in single precision are faster."""
        h = self.weights * h
        out = np.zeros((self.size, self.size))
        if isinstance(self.rows, CSR):
            for start in range(0, self.n, _CHUNK):
                total = np.zeros_like(out)
                _outer(self.rows, self.shorten, h, start, min(start + _CHUNK, self.n), total)
                out += total
            return out + out.T - np.diag(np.diag(out))
        root, X = np.sqrt(h), self.rows.X
        factor = (root * self.shorten)[:, None]
        many = max(BLOCK, MATRIX_BLOCK // self.size)  # few large products: the directions it gives need no exact sums

        def added(rows: range) -> np.ndarray:
            total = np.zeros((self.size, self.size))
            room = np.empty((min(many, len(rows)), self.size), np.float32 if single else np.float64)
            for start in range(rows.start, rows.stop, many):
                part = slice(start, min(start + many, rows.stop))
                A = room[: part.stop - start]
                np.multiply(X[part], factor[part], out=A[:, : self._d], casting="same_kind")
                A[:, self._d :] = self.rows.constant * root[part, None]
                total += A.T @ A
            return total

        with one_blas_thread():
            for total in each(added, groups(self.n, many, least=1), float(self.n) * self.size**2):
                out += total
        return out

    def diagonal(self, h: np.ndarray) -> np.ndarray:
        """Return the diagonal of X' diag(omega h) X; for h of shape (n, K) one diagonal for each column."""
        h = _times(self.weights, h)
        out = np.zeros((*h.shape[1:], self.size))
        out[..., self._d :] = self.rows.constant**2 * h.sum(axis=0)[..., None]
        if isinstance(self.rows, CSR):
            for column, total in zip(_layers(h.T), _layers(out), strict=True):
                _squares(self.rows, self.shorten, column, total)
            return out

        def added(rows: range) -> np.ndarray:
            total = np.zeros((*h.shape[1:], self._d))
            for part, X in self._parts(rows):
                total += h[part].T @ np.square(self.shorten[part, None] * X)
            return total

        with one_blas_thread():
            for total in each(added, self.groups(), float(self.n) * self.size):
                out[..., : self._d] += total
        return out

    def groups(self) -> list[range]:
        """Ranges of rows for threads to share; sparse rows, which touch few sums, stay together."""
        return [range(self.n)] if isinstance(self.rows, CSR) else groups(self.n, BLOCK)

    def _parts(self, rows: range, many: bool = True) -> Iterator[tuple[slice, np.ndarray]]:
        """Ranges of rows small enough to stay in cache for two products, dense ones with their entries in float64.

        All at once where there are not many products, and nothing is converted.
        """
        if isinstance(self.rows, CSR):
            for start in range(rows.start, rows.stop, 4 * BLOCK):
                yield slice(start, min(start + 4 * BLOCK, rows.stop)), np.empty(0)
            return
        X = self.rows.X
        convert = X.dtype != np.float64
        size = BLOCK * max(min(_ENTRIES // (BLOCK * self._d), 16), 1) if many or convert else max(len(rows), 1)
        room = np.empty((min(size, len(rows)) if convert else 0, self._d))
        for start in range(rows.start, rows.stop, size):
            part = slice(start, min(start + size, rows.stop))
            if convert:
                np.copyto(room[: part.stop - start], X[part])
            yield part, room[: part.stop - start] if convert else X[part]

    def _forth(self, part: slice, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Predictions of a range of rows, a class at a time."""
        if isinstance(self.rows, CSR):
            Z = np.empty((*W.shape[:-1], part.stop - part.start))
            for w, z in zip(_layers(W), _layers(Z), strict=True):
                _predict(self.rows, self.shorten, w, z, part.start)
            return Z
        Z = W[..., : min(BLOCK, self._d)] @ X[:, :BLOCK].T
        for j in range(BLOCK, self._d, BLOCK):
            Z += W[..., j : min(j + BLOCK, self._d)] @ X[:, j : j + BLOCK].T
        constant = self.size > self._d
        last = W[..., -1:].ravel() if constant else np.zeros(max(len(W), 1))
        _complete(Z.reshape(-1, len(X)), self.shorten[part], self.rows.constant if constant else 0.0, last)
        return Z

    def _back(
        self, part: slice, X: np.ndarray, R: np.ndarray, high: np.ndarray, low: np.ndarray, block: np.ndarray
    ) -> None:
        """Add a range of rows, weighted by R, to the pair."""
        if isinstance(self.rows, CSR):
            for r, large, small in zip(_layers(R.T), _layers(high), _layers(low), strict=True):
                _adjoint(self.rows, self.shorten, r, block, large, small, part.start)
            return
        d, constant, P = self._d, self.size > self._d, (R.T * self.shorten[part]).reshape(-1, len(X))
        many, rest = divmod(len(X), BLOCK)
        total, stop = np.empty((many + (rest > 0), len(P), self.size)), many * BLOCK
        if many:
            shape = -1, many, BLOCK
            factors = P[:, :stop].reshape(shape).transpose(1, 0, 2)
            np.matmul(factors, X[:stop].reshape(many, BLOCK, d), out=total[:many, :, :d])
            if constant:
                total[:many, :, d] = self.rows.constant * R[:stop].T.reshape(shape).sum(axis=2).T
        if rest:
            np.matmul(P[:, stop:], X[stop:], out=total[many, :, :d])
            if constant:
                total[many, :, d] = self.rows.constant * R[stop:].sum(axis=0)
        _join_blocks(high.ravel(), low.ravel(), total.reshape(len(total), -1))


def row_limit(radius: float, constant: float, size: int) -> float:
    """Largest l2 norm of a row as computed, the constant feature included.

    Examples
    --------
    >>> round(row_limit(3.0, 4.0, 10), 9)
    5.0
    """
    return float(np.hypot(radius, constant)) * (1.0 + (size + 8) * 2.0 * UNIT)


def join(pair: np.ndarray, total: np.ndarray) -> None:
    """Add numbers to a pair of a high and a low part, in place.

    Examples
    --------
    >>> pair = np.array([[1.0], [0.0]])
    >>> join(pair, np.array([2.0**-60]))
    >>> pair.tolist() == [[1.0], [2.0**-60]]
    True
    """
    _join(pair[0], pair[1], total)


def merge(total: np.ndarray, pair: np.ndarray) -> None:
    """Add a pair of a high and a low part to another, in place.

    Examples
    --------
    >>> total = np.array([[1.0], [0.0]])
    >>> merge(total, np.array([[2.0**-60], [0.0]]))
    >>> total.tolist() == [[1.0], [2.0**-60]]
    True
    """
    high, low = total.reshape(2, -1)
    _merge(high, low, pair.reshape(2, -1))


def chosen(array: np.ndarray, which: slice | np.ndarray) -> np.ndarray:
    """Those rows of an array, in that order and together in memory; a range that leaves none out is not copied.

    Examples
    --------
    >>> chosen(np.array([3.0, 1.0, 2.0]), np.array([2, 0]))
    array([2., 3.])
    """
    return np.ascontiguousarray(array[which]) if isinstance(which, slice) else array.take(which, axis=0)


def taken(rows: Rows, which: slice | np.ndarray) -> Any:
    """Those rows, in that order, with what is said of them; a range that leaves none out is not copied.

    Examples
    --------
    >>> rows = Dense(np.array([[3.0], [1.0], [2.0]]), 4.0, 0.0, people=np.array([0, 1, 0]))
    >>> taken(rows, np.array([2, 0])).X.ravel(), taken(rows, slice(0, 3, 2)).people
    (array([2., 3.]), array([0, 0]))
    """
    if len(rows.weights):
        rows = rows._replace(weights=rows.weights[which])
    if len(rows.people):
        rows = rows._replace(people=rows.people[which])
    if isinstance(rows, Dense):
        return rows._replace(X=chosen(rows.X, which))
    if isinstance(which, slice):
        start, stop, every = which.indices(len(rows.indptr) - 1)
        if every == 1:
            return rows._replace(indptr=rows.indptr[start : stop + 1])
        which = np.arange(start, stop, every)
    starts = rows.indptr[which]
    counts = rows.indptr[which + 1] - starts
    ends = np.concatenate([[0], np.cumsum(counts)])
    entries = np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])
    return rows._replace(data=rows.data[entries], indices=rows.indices[entries], indptr=ends)


def _times(weights: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Every row of R, or every number, times its weight."""
    return np.asarray((weights * R.T).T)


def _layers(A: np.ndarray) -> np.ndarray:
    """One row for each class, each contiguous; a view of what is contiguous already."""
    return np.atleast_2d(np.ascontiguousarray(A))


def along(
    loss: Loss, z: np.ndarray, dz: np.ndarray, y: np.ndarray, weights: np.ndarray, t: float
) -> tuple[float, float]:
    """First and second derivative in t of the weighted sum of the losses at predictions z + t dz.

    Examples
    --------
    >>> from dpconvex.problem.losses import Squared
    >>> along(Squared(), np.zeros(2), np.ones(2), np.ones(2), np.array([1.0, 0.5]), 0.5)
    (-0.75, 1.5)
    """
    if takes_batches(loss):
        at, moved = z + t * dz, _times(weights, dz)
        return float(np.vdot(loss.slopes(at, y), moved)), float(np.vdot(bend(loss.probabilities(at, y), dz), moved))
    return _along(loss, z, dz, y, weights, t)


def predictions(rows: Rows, w: np.ndarray, n: int) -> np.ndarray:
    """Return <x_i, w> for every (shortened) row."""
    return Matrix(rows, n).predict(w)
