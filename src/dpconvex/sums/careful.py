"""The gradient of a logistic objective in twice the precision: for certificates that float64 is too coarse for.

Numbers are pairs (high, low) of float64 with |low| of about a unit in the last place of high. Errors of sums and
products are found exactly (two-sum; Dekker's product), so a pair is right to some u^2, u = 2^-53. A pass costs about
ten times that of `Matrix.sweep`; the solver takes it only where the bound on the rounding of the latter is more than
the tolerance leaves room for.
"""

from __future__ import annotations

import numpy as np

from dpconvex.loops.protocol import compiled_exactly
from dpconvex.loops.rows import CSR
from dpconvex.pairs import over, plus, times, two_product, two_sum
from dpconvex.problem.losses import Logistic
from dpconvex.sums.matrix import Matrix
from dpconvex.theorems.computed_sums import BLOCK

_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_GROUP = 64  # rows whose slopes are computed together; divides BLOCK
_HALVINGS, _TERMS = 8, 9  # of the argument of the exponential, and of its Taylor series


@compiled_exactly
def exponential(x, low):
    """Return exp(x + low) as a pair, for x <= 0; below -80 it is 0."""
    if x < -80.0:
        return 0.0, 0.0
    k = np.round(x / _LN2)
    p, e = two_product(k, _LN2)
    r, r_low = plus(x, low, -p, -(e + k * _LN2_LOW))
    r, r_low = r / 2.0**_HALVINGS, r_low / 2.0**_HALVINGS
    s, s_low = r, r_low  # the series of exp(r) - 1, by Horner's rule from its last term
    for i in range(_TERMS, 1, -1):
        s, s_low = over(s, s_low, float(i), 0.0)
        s, s_low = plus(1.0, 0.0, s, s_low)
        s, s_low = times(s, s_low, r, r_low)
    for _ in range(_HALVINGS):  # exp(2r) - 1 = 2 (exp(r) - 1) + (exp(r) - 1)^2
        t, t_low = times(s, s_low, s, s_low)
        s, s_low = plus(2.0 * s, 2.0 * s_low, t, t_low)
    s, s_low = plus(1.0, 0.0, s, s_low)
    return s * 2.0**k, s_low * 2.0**k


@compiled_exactly
def logistic_slope(z, low, y, cap, shift):
    """Slope of the logistic loss at the prediction z + low, as a pair, for y = -1 or 1."""
    m, m_low = plus(y * z, y * low, -shift, 0.0)
    if m >= 0.0:
        e, e_low = exponential(-m, -m_low)
        top, top_low = e, e_low
    else:
        e, e_low = exponential(m, m_low)
        top, top_low = 1.0, 0.0
    below, below_low = plus(1.0, 0.0, e, e_low)
    p, p_low = over(top, top_low, below, below_low)
    if (p - cap) + p_low > 0.0:
        p, p_low = cap, 0.0
    return -y * p, -y * p_low


@compiled_exactly
def exponentials(x, low, room, out, out_low):
    """Put what `exponential` returns for each number into `out`; `room` holds three numbers for each."""
    # All numbers take every step together: so the loops use vectors.
    r, r_low, scale = room[0], room[1], room[2]
    for i in range(x.shape[0]):
        at = -80.0 if x[i] < -80.0 else x[i]
        k = np.round(at / _LN2)
        scale[i] = 2.0**k
        p, e = two_product(k, _LN2)
        a, a_low = plus(at, low[i], -p, -(e + k * _LN2_LOW))
        r[i], r_low[i] = a / 2.0**_HALVINGS, a_low / 2.0**_HALVINGS
        out[i], out_low[i] = r[i], r_low[i]
    for term in range(_TERMS, 1, -1):  # the series of exp(r) - 1, by Horner's rule from its last term
        for i in range(x.shape[0]):
            s, s_low = over(out[i], out_low[i], float(term), 0.0)
            s, s_low = plus(1.0, 0.0, s, s_low)
            out[i], out_low[i] = times(s, s_low, r[i], r_low[i])
    for _ in range(_HALVINGS):  # exp(2r) - 1 = 2 (exp(r) - 1) + (exp(r) - 1)^2
        for i in range(x.shape[0]):
            t, t_low = times(out[i], out_low[i], out[i], out_low[i])
            out[i], out_low[i] = plus(2.0 * out[i], 2.0 * out_low[i], t, t_low)
    for i in range(x.shape[0]):
        s, s_low = plus(1.0, 0.0, out[i], out_low[i])
        out[i] = 0.0 if x[i] < -80.0 else s * scale[i]
        out_low[i] = 0.0 if x[i] < -80.0 else s_low * scale[i]


@compiled_exactly
def logistic_slopes(z, low, y, cap, shift, room):
    """Replace predictions z + low by what `logistic_slope` returns; `room` holds seven numbers for each."""
    x, x_low, e, e_low = room[3], room[4], room[5], room[6]
    for i in range(z.shape[0]):
        z[i], low[i] = plus(y[i] * z[i], y[i] * low[i], -shift, 0.0)
        x[i] = -z[i] if z[i] >= 0.0 else z[i]
        x_low[i] = -low[i] if z[i] >= 0.0 else low[i]
    exponentials(x, x_low, room, e, e_low)
    for i in range(z.shape[0]):
        top = e[i] if z[i] >= 0.0 else 1.0
        top_low = e_low[i] if z[i] >= 0.0 else 0.0
        below, below_low = plus(1.0, 0.0, e[i], e_low[i])
        p, p_low = over(top, top_low, below, below_low)
        capped = (p - cap) + p_low > 0.0
        z[i] = -y[i] * (cap if capped else p)
        low[i] = -y[i] * (0.0 if capped else p_low)


@compiled_exactly
def _tally(high, low, j, a, a_low):
    total, error = two_sum(high[j], a)
    high[j] = total
    low[j] += error + a_low


@compiled_exactly
def _finish(z, low, shorten, omega, constant, weight, y, cap, shift, room):
    # From products of stored entries and weights to slopes, times the weights of the records.
    for i in range(z.shape[0]):
        z[i], low[i] = two_sum(z[i], low[i])
        z[i], low[i] = times(z[i], low[i], shorten[i], 0.0)
        if constant != 0.0:
            p, error = two_product(constant, weight)
            z[i], low[i] = plus(z[i], low[i], p, error)
    logistic_slopes(z, low, y, cap, shift, room)
    for i in range(z.shape[0]):
        z[i], low[i] = times(z[i], low[i], omega[i], 0.0)


@compiled_exactly
def _settle(block, total):
    for j in range(total.shape[1]):
        high, low = two_sum(block[0, j], block[1, j])
        total[0, j], total[1, j] = plus(total[0, j], total[1, j], high, low)
        block[0, j], block[1, j] = 0.0, 0.0


@compiled_exactly
def _multiply(X, w, shorten, z, low):
    # Four rows at a time: each is added up in its own order, and a processor has something to do while it waits.
    m, d = X.shape
    for first in range(0, m, 4):
        a, b, c, e = first, min(first + 1, m - 1), min(first + 2, m - 1), min(first + 3, m - 1)
        za, zb, zc, ze, la, lb, lc, le = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            p, error = two_product(np.float64(X[a, j]) if shorten[a] > 0.0 else 0.0, w[j])
            za, rest = two_sum(za, p)
            la += error + rest
            p, error = two_product(np.float64(X[b, j]) if shorten[b] > 0.0 else 0.0, w[j])
            zb, rest = two_sum(zb, p)
            lb += error + rest
            p, error = two_product(np.float64(X[c, j]) if shorten[c] > 0.0 else 0.0, w[j])
            zc, rest = two_sum(zc, p)
            lc += error + rest
            p, error = two_product(np.float64(X[e, j]) if shorten[e] > 0.0 else 0.0, w[j])
            ze, rest = two_sum(ze, p)
            le += error + rest
        z[e], low[e] = ze, le
        z[c], low[c] = zc, lc
        z[b], low[b] = zb, lb
        z[a], low[a] = za, la


@compiled_exactly
def _add_row(x, s, s_low, high, low):
    for j in range(x.shape[0]):
        p, error = two_product(s, np.float64(x[j]))
        total, rest = two_sum(high[j], p)
        high[j] = total
        low[j] += rest + (error + s_low * np.float64(x[j]))


@compiled_exactly
def _dense(X, shorten, omega, constant, y, w, cap, shift, room, block, total):
    n, d = X.shape
    for start in range(0, n, _GROUP):
        stop = min(start + _GROUP, n)
        z, low = room[7, : stop - start], room[8, : stop - start]
        _multiply(X[start:stop], w, shorten[start:stop], z, low)
        _finish(z, low, shorten[start:stop], omega[start:stop], constant, w[-1], y[start:stop], cap, shift, room)
        for i in range(start, stop):
            r, r_low = z[i - start], low[i - start]
            s, s_low = times(r, r_low, shorten[i], 0.0)
            if shorten[i] > 0.0:
                _add_row(X[i], s, s_low, block[0], block[1])
            if constant != 0.0:
                p, error = two_product(r, constant)
                _tally(block[0], block[1], d, p, error + r_low * constant)
        if stop % BLOCK == 0 or stop == n:
            _settle(block, total)


@compiled_exactly
def _thin(entries, indices, ends, shorten, omega, constant, y, w, cap, shift, room, block, total):
    n, d = y.shape[0], w.shape[0] - (1 if constant != 0.0 else 0)
    for start in range(0, n, _GROUP):
        stop = min(start + _GROUP, n)
        z, low = room[7, : stop - start], room[8, : stop - start]
        for i in range(start, stop):
            high, rest = 0.0, 0.0
            for e in range(ends[i], ends[i + 1]):
                p, error = two_product(np.float64(entries[e]) if shorten[i] > 0.0 else 0.0, w[indices[e]])
                high, more = two_sum(high, p)
                rest += error + more
            z[i - start], low[i - start] = high, rest
        _finish(z, low, shorten[start:stop], omega[start:stop], constant, w[-1], y[start:stop], cap, shift, room)
        for i in range(start, stop):
            r, r_low = z[i - start], low[i - start]
            s, s_low = times(r, r_low, shorten[i], 0.0)
            for e in range(ends[i], ends[i + 1]):
                x = np.float64(entries[e]) if shorten[i] > 0.0 else 0.0
                p, error = two_product(s, x)
                _tally(block[0], block[1], indices[e], p, error + s_low * x)
            if constant != 0.0:
                p, error = two_product(r, constant)
                _tally(block[0], block[1], d, p, error + r_low * constant)
        if stop % BLOCK == 0 or stop == n:
            _settle(block, total)


def careful_gradient(matrix: Matrix, y: np.ndarray, loss: Logistic, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return sum_i omega_i l'(<x_i, w>) x_i + rest, off by `accuracy.careful_rounding` and 2 u of the result.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> matrix = Matrix(Dense(np.array([[1.0], [0.5]]), 1.0, 0.0), 2)
    >>> careful_gradient(matrix, np.ones(2), Logistic(), np.zeros(1), np.array([0.75]))
    array([0.])
    """
    return closed(careful_pair(matrix, y, loss, w), rest)


def careful_pair(matrix: Matrix, y: np.ndarray, loss: Logistic, w: np.ndarray) -> np.ndarray:
    """Return sum_i omega_i l'(<x_i, w>) x_i as a pair of a high and a low part."""
    rows, labels = matrix.rows, y.astype(np.float64, copy=False)
    block, total = np.zeros((2, 2, matrix.size))
    rest = float(rows.constant), labels, w, float(loss.cap), float(loss.shift), np.empty((9, _GROUP)), block, total
    if isinstance(rows, CSR):
        _thin(rows.data, rows.indices, rows.indptr, matrix.shorten, matrix.weights, *rest)
    else:
        _dense(rows.X, matrix.shorten, matrix.weights, *rest)
    return np.asarray(total)


@compiled_exactly
def _join(total, pair):
    for j in range(total.shape[1]):
        total[0, j], total[1, j] = plus(total[0, j], total[1, j], pair[0, j], pair[1, j])


def join(total: np.ndarray, pair: np.ndarray) -> None:
    """Add a pair to another in place, with an error of some u^2 of the absolute sums.

    Examples
    --------
    >>> total = np.array([[1.0], [2.0**-60]])
    >>> join(total, np.array([[-1.0], [0.0]]))
    >>> total.tolist() == [[2.0**-60], [0.0]]
    True
    """
    _join(total, pair)


def closed(total: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return a pair plus numbers of float64, rounded once."""
    sums = total[0] + rest
    back = sums - total[0]
    return np.asarray(sums + (((total[0] - (sums - back)) + (rest - back)) + total[1]))
