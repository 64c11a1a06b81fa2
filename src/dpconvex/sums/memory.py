"""Operators over all rows at once: X w, X' r, X' diag(h) X, with the row bound and the constant feature built in.

Sums over records count each as much as its weight says, from 0 to 1. Dense rows go through BLAS in blocks of 1024,
sparse rows through compiled loops; both add up 1024 rows at a time, and the sums of the blocks, in the order of the
rows, as pairs (high, low) of float64 numbers. The rounding of a sum then hardly grows with the number of rows, and is
stated in advance (`rounding`). A float64 X is never copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.loops.protocol import compiled, compiled_exactly
from dpconvex.loops.rows import CSR, Dense, Rows, WildRowsError
from dpconvex.problem.losses import Loss, Softmax
from dpconvex.sums.threads import each, groups, one_blas_thread

BLOCK = 1024  # rows added up before their sum joins the total
UNIT = 2.0**-53  # largest relative error of one rounding


@compiled
def _lengths(rows, shorten, norms):
    for i in range(norms.shape[0]):
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
            out[i] += shorten[first + i] * total
    if rows.constant != 0.0:
        for i in range(out.shape[0]):
            out[i] += rows.constant * w[rows.d]


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
def _outer(rows, shorten, h, out):
    for i in range(h.shape[0]):
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
        p = h[i] * shorten[i] * shorten[i]
        for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            x = np.float64(rows.data[e])
            out[np.uint64(rows.indices[e])] += p * (x * x)


@compiled
def _value(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.value(z[i], y[i])


@compiled
def _slope(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.slope(z[i], y[i])


@compiled
def _curvature(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.curvature(z[i], y[i])


@compiled
def _along(loss, z, dz, y, weights, t):
    first, second = 0.0, 0.0
    for i in range(y.shape[0]):
        at = z[i] + t * dz[i]
        first += weights[i] * loss.slope(at, y[i]) * dz[i]
        second += weights[i] * loss.curvature(at, y[i]) * dz[i] * dz[i]
    return first, second


class Batch:
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
    >>> batch = Batch(Dense(np.array([[3.0, 4.0], [0.5, 0.0]]), 1.0, 2.0), 2)
    >>> batch.predict(np.array([1.0, 0.0, 1.0])).round(3)
    array([2.6, 2.5])
    >>> batch.adjoint(np.array([1.0, 1.0])).round(3)
    array([1.1, 0.8, 4. ])
    >>> batch.hessian(np.array([0.0, 1.0])).round(3)
    array([[0.25, 0.  , 1.  ],
           [0.  , 0.  , 0.  ],
           [1.  , 0.  , 4.  ]])
    >>> Batch(Dense(np.array([[0.5], [1.0]]), 1.0, 0.0, np.array([1.0, 0.25])), 2).adjoint(np.array([1.0, 1.0]))
    array([0.75])
    """

    def __init__(self, rows: Rows, n: int) -> None:
        self.rows, self.n = rows, n
        self._d = rows.X.shape[1] if isinstance(rows, Dense) else int(rows.d)
        self.size = self._d + (rows.constant != 0.0)
        self.row = float(np.hypot(rows.radius, rows.constant)) * (1.0 + (self.size + 8) * 2.0 * UNIT)
        self.shorten, self.norms = np.empty(n), np.empty(n)
        _lengths(rows, self.shorten, self.norms)
        if np.isinf(self.norms).any():
            raise WildRowsError
        self.weights = rows.weights if len(rows.weights) else np.ones(n)

    def thinned(self, every: int) -> Batch:
        """One row of every so many, as a batch of its own: a copy."""
        rows = self.rows
        rows = rows._replace(weights=rows.weights[::every], people=rows.people[::every])
        if isinstance(rows, Dense):
            return Batch(rows._replace(X=np.ascontiguousarray(rows.X[::every])), len(range(0, self.n, every)))
        X = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(self.n, self._d))[::every]
        return Batch(rows._replace(data=X.data, indices=X.indices, indptr=X.indptr), X.shape[0])

    def predict(self, W: np.ndarray) -> np.ndarray:
        """Return X w, one prediction a row (K of them for a matrix)."""
        out = np.empty((*W.shape[:-1], self.n))  # a class at a time lies together in memory

        def fill(rows: range) -> None:
            for part, X in self._parts(rows):
                out[..., part] = self._forth(part, X, W)

        with one_blas_thread():
            for _ in each(fill, self._groups(), self.n * W.size):
                pass
        return out.T

    def adjoint(self, R: np.ndarray) -> np.ndarray:
        """Return X' diag(omega) r, the sum of the rows times r."""
        return self.sweep(None, lambda part, _: R[part])

    def sweep(self, W: np.ndarray | None, respond: Callable[[slice, Any], np.ndarray]) -> np.ndarray:
        """Return X' diag(omega) respond(X w) in one pass: `respond` maps a range of rows and its predictions to r.

        Without w there are no predictions to respond to.

        Examples
        --------
        >>> batch = Batch(Dense(np.array([[3.0], [1.0]]), 4.0, 0.0), 2)
        >>> batch.sweep(np.array([2.0]), lambda part, z: 0.5 * z)
        array([10.])
        """

        def added(rows: range) -> np.ndarray:
            pair = np.empty(0)
            block = np.zeros(self._d if isinstance(self.rows, CSR) else 0)  # where sparse rows are added up
            for part, X in self._parts(rows):
                R = _times(self.weights[part], respond(part, None if W is None else self._forth(part, X, W).T))
                if part.start == rows.start:
                    pair = np.zeros((2, *R.shape[1:], self.size))
                self._back(part, X, R, pair[0], pair[1], block)
            return pair

        with one_blas_thread():
            sums = each(added, self._groups(), 2.0 * self.n * self.size)
            total = next(sums)
            for pair in sums:
                _merge(total[0].ravel(), total[1].ravel(), pair.reshape(2, -1))
        return np.asarray(total[0] + total[1])

    def hessian(self, h: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega h) X for h >= 0, size x size; dense products in single precision are faster."""
        h = self.weights * h
        out = np.zeros((self.size, self.size))
        if isinstance(self.rows, CSR):
            _outer(self.rows, self.shorten, h, out)
            return out + out.T - np.diag(np.diag(out))
        root, X = np.sqrt(h), self.rows.X
        factor = (root * self.shorten)[:, None]
        many = max(BLOCK, 2**18 // self.size)  # few large products: the directions it gives need no exact sums

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
                total += (h[part].T * self.shorten[part] ** 2) @ np.square(X)
            return total

        with one_blas_thread():
            for total in each(added, self._groups(), float(self.n) * self.size):
                out[..., : self._d] += total
        return out

    def _groups(self) -> list[range]:
        """Ranges of rows for threads to share; sparse rows, which touch few sums, stay together."""
        return [range(self.n)] if isinstance(self.rows, CSR) else groups(self.n, BLOCK)

    def _parts(self, rows: range) -> Iterator[tuple[slice, np.ndarray]]:
        """Ranges of rows small enough to stay in cache for two products, dense ones with their entries in float64."""
        if isinstance(self.rows, CSR):
            for start in range(rows.start, rows.stop, 4 * BLOCK):
                yield slice(start, min(start + 4 * BLOCK, rows.stop)), np.empty(0)
            return
        X = self.rows.X
        convert = X.dtype != np.float64
        room = np.empty((min(BLOCK, len(rows)) if convert else 0, self._d))
        for start in range(rows.start, rows.stop, BLOCK):
            part = slice(start, min(start + BLOCK, rows.stop))
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
        Z *= self.shorten[part]
        if self.size > self._d:
            Z += self.rows.constant * W[..., self._d :]
        return Z

    def _back(
        self, part: slice, X: np.ndarray, R: np.ndarray, high: np.ndarray, low: np.ndarray, block: np.ndarray
    ) -> None:
        """Add a range of rows, weighted by R, to the pair."""
        if isinstance(self.rows, CSR):
            for r, large, small in zip(_layers(R.T), _layers(high), _layers(low), strict=True):
                _adjoint(self.rows, self.shorten, r, block, large, small, part.start)
            return
        total = np.empty(high.shape)
        np.matmul(R.T * self.shorten[part], X, out=total[..., : self._d])
        if self.size > self._d:
            total[..., self._d] = self.rows.constant * R.sum(axis=0)
        _join(high.ravel(), low.ravel(), total.ravel())


def _times(weights: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Every row of R, or every number, times its weight."""
    return np.asarray((weights * R.T).T)


def _layers(A: np.ndarray) -> np.ndarray:
    """One row for each class, each contiguous; a view of what is contiguous already."""
    return np.atleast_2d(np.ascontiguousarray(A))


def accumulation(n: int) -> float:
    """Units u by which a sum over n rows of products of up to four numbers is off, per absolute sum (see `rounding`).

    Examples
    --------
    >>> round(accumulation(10**9))
    1032
    """
    blocks = n / BLOCK + 17.0  # groups of blocks, up to 16, are added in the same way
    return BLOCK + 8 + 1.01 * UNIT * blocks**2


def rounding(
    n: int,
    size: int,
    row: float,
    slope: float,
    reach: float,
    curvature: float,
    *,
    outputs: int = 1,
    l2: float = 0.0,
    tilt: float = 0.0,
) -> float:
    """Bound the rounding error of the computed gradient sum_i omega_i r_i x_i + l2 w + tilt, r_i = l'(<x_i, w>).

    In l2 norm, for any weights omega_i of the records in [0, 1], which are taken to be exact.

    With u = 2^-53 and any order of summation, a sum of k products is off by at most k u (1 + 1e-2) times the sum of
    the absolute products, while k u < 1e-2. Hence:

    - a prediction is added up 1024 features at a time and then over size / 1024 blocks, so it is off by
      e_z = (min(size, 1024) + size / 1024 + 8) u |x_i| |w|: by Cauchy-Schwarz, also for the vector of K predictions;
    - a slope is off by e_r = curvature (e_z + 16 u (|x_i| |w| + 20)) + (16 + outputs) u slope: the error of its
      argument, which may hold a shift of up to 20 and, for a softmax, the largest prediction, then that of
      evaluating it (the exponential and tanh of the C library are taken to be right to 4 units);
    - every coordinate of the sum is added up 1024 rows at a time, each block off by (1024 + 6) u times the sum A of
      its absolute terms omega_i |r_i| |x_ij|, the three products of a term (with omega_i, with the factor that
      shortens the row, with its entry) included. The m = n / 1024 blocks are added to a high part, each time with the
      error of that addition, at most u times the sum so far and exactly known, added to a low part: m numbers of up to
      u A, in total m u A, summed with an error of m u of that. So the pair is off by m^2 u^2 A, and high + low by u A
      more; over all coordinates by (1024 + 8 + m^2 u) u n (slope + e_r) row;
    - the two terms without data are off by 4 u (l2 |w| + |tilt|).

    Parameters
    ----------
    n, size : int
        Number of rows, and of features with the constant one.
    row, slope, reach, curvature : float
        Largest norm of a row, largest norm of a slope at predictions of up to `row * reach`, largest norm of w, and
        Lipschitz constant of the slope.
    outputs : int
        Predictions a row: 1, or the number of classes.
    l2, tilt : float
        Weight of the quadratic term, and norm of the linear term.

    Examples
    --------
    >>> f"{rounding(n=30_000, size=100, row=1.0, slope=1.0, reach=10.0, curvature=0.25):.0e}"
    '5e-09'
    """
    if (BLOCK + (size + n) / BLOCK) * UNIT > 1e-3:
        return math.inf
    u = 1.01 * UNIT
    prediction = (min(size, BLOCK) + size / BLOCK + 8) * u * row * reach
    each = curvature * (prediction + 16 * u * (row * reach + 20.0)) + (16 + outputs) * u * slope
    total = accumulation(n) * u * n * row * (slope + each)
    return n * row * each + total + 4 * u * (l2 * reach + tilt) + 1e-290


def values(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of every record at its prediction.

    Examples
    --------
    >>> from dpconvex.problem.losses import Squared
    >>> values(Squared(), np.array([0.5, 3.0]), np.array([1.0, 1.0]))
    array([0.125, 2.   ])
    """
    if isinstance(loss, Softmax):
        own = np.arange(len(z)), y.astype(np.intp)
        shifted = np.array(z)
        shifted[own] -= loss.shift
        top = shifted.max(axis=1)
        return np.asarray(np.log(np.exp(shifted - top[:, None]).sum(axis=1)) + (top - shifted[own]))
    return _each(_value, loss, z, y)


def slopes(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivative of every record's loss in its prediction: (n,), or (n, K) for a softmax.

    Examples
    --------
    >>> from dpconvex.problem.losses import Huber
    >>> slopes(Huber(0.5), np.array([0.75, 3.0]), np.array([1.0, 1.0]))
    array([-0.25,  0.5 ])
    """
    return loss.slopes(z, y) if isinstance(loss, Softmax) else _each(_slope, loss, z, y)


def curvatures(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Second derivative of every record's loss; for a softmax its probabilities p, which stand for diag(p) - p p'.

    Examples
    --------
    >>> from dpconvex.problem.losses import Huber
    >>> curvatures(Huber(0.5), np.array([0.75, 3.0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    return loss.probabilities(z, y) if isinstance(loss, Softmax) else _each(_curvature, loss, z, y)


def bend(h: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """Multiply changes of the predictions by what `curvatures` returned: h dz, or p dz - p <p, dz>."""
    bent = h * dz
    return bent if h.ndim == 1 else bent - h * bent.sum(axis=1, keepdims=True)


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
    if isinstance(loss, Softmax):
        at, moved = z + t * dz, _times(weights, dz)
        return float(np.vdot(loss.slopes(at, y), moved)), float(np.vdot(bend(loss.probabilities(at, y), dz), moved))
    return _along(loss, z, dz, y, weights, t)


def _each(function: Any, loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(len(z))
    function(loss, z, y, out)
    return out


def predictions(rows: Rows, w: np.ndarray, n: int) -> np.ndarray:
    """Return <x_i, w> for every (shortened) row."""
    return Batch(rows, n).predict(w)


def gradient_sum(rows: Rows, y: np.ndarray, loss: Loss, w: np.ndarray) -> np.ndarray:
    """Gradient of the weighted sum of the losses at w."""
    return Batch(rows, len(y)).sweep(w, lambda part, z: slopes(loss, z, y[part]))
