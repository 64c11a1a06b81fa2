"""The gradient of a logistic objective in twice the precision: for certificates that float64 is too coarse for.

Numbers are pairs (high, low) of float64 with |low| of about a unit in the last place of high. Errors of sums and
products are found exactly (two-sum; Dekker's product), so a pair is right to some u^2, u = 2^-53. A pass costs about
ten times that of `Matrix.sweep`; the solver takes it only where the bound on the rounding of the latter is more than
the tolerance leaves room for.
"""

from __future__ import annotations

import numpy as np

from dpconvex.loops.exact import two_product, two_sum
from dpconvex.loops.protocol import compiled_exactly
from dpconvex.loops.rows import CSR
from dpconvex.problem.losses import Logistic
from dpconvex.sums.matrix import Matrix
from dpconvex.theorems.computed_sums import BLOCK

_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_HALVINGS, _TERMS = 8, 9  # of the argument of the exponential, and of its Taylor series


@compiled_exactly
def _plus(a, a_low, b, b_low):
    s, e = two_sum(a, b)
    t, f = two_sum(a_low, b_low)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


@compiled_exactly
def _times(a, a_low, b, b_low):
    p, e = two_product(a, b)
    return two_sum(p, e + (a * b_low + a_low * b))


@compiled_exactly
def _over(a, a_low, b, b_low):
    q = a / b
    p, e = two_product(q, b)
    r, r_low = _plus(a, a_low, -p, -(e + q * b_low))
    return two_sum(q, (r + r_low) / b)


@compiled_exactly
def exponential(x, low):
    """Return exp(x + low) as a pair, for x <= 0; below -80 it is 0."""
    if x < -80.0:
        return 0.0, 0.0
    k = np.round(x / _LN2)
    p, e = two_product(k, _LN2)
    r, r_low = _plus(x, low, -p, -(e + k * _LN2_LOW))
    r, r_low = r / 2.0**_HALVINGS, r_low / 2.0**_HALVINGS
    s, s_low = r, r_low  # the series of exp(r) - 1, by Horner's rule from its last term
    for i in range(_TERMS, 1, -1):
        s, s_low = _over(s, s_low, float(i), 0.0)
        s, s_low = _plus(1.0, 0.0, s, s_low)
        s, s_low = _times(s, s_low, r, r_low)
    for _ in range(_HALVINGS):  # exp(2r) - 1 = 2 (exp(r) - 1) + (exp(r) - 1)^2
        t, t_low = _times(s, s_low, s, s_low)
        s, s_low = _plus(2.0 * s, 2.0 * s_low, t, t_low)
    s, s_low = _plus(1.0, 0.0, s, s_low)
    return s * 2.0**k, s_low * 2.0**k


@compiled_exactly
def logistic_slope(z, low, y, cap, shift):
    """Slope of the logistic loss at the prediction z + low, as a pair, for y = -1 or 1."""
    m, m_low = _plus(y * z, y * low, -shift, 0.0)
    if m >= 0.0:
        e, e_low = exponential(-m, -m_low)
        top, top_low = e, e_low
    else:
        e, e_low = exponential(m, m_low)
        top, top_low = 1.0, 0.0
    below, below_low = _plus(1.0, 0.0, e, e_low)
    p, p_low = _over(top, top_low, below, below_low)
    if (p - cap) + p_low > 0.0:
        p, p_low = cap, 0.0
    return -y * p, -y * p_low


@compiled_exactly
def _tally(high, low, j, a, a_low):
    total, error = two_sum(high[j], a)
    high[j] = total
    low[j] += error + a_low


@compiled_exactly
def _gradient(entries, indices, ends, shorten, omega, constant, y, w, cap, shift, block, total):
    # `ends` are those of sparse rows; dense ones (no ends) have as many entries as `entries` has columns.
    d = w.shape[0] - (1 if constant != 0.0 else 0)
    dense = ends.shape[0] == 0
    for start in range(0, y.shape[0], BLOCK):
        stop = min(start + BLOCK, y.shape[0])
        for i in range(start, stop):
            first = i * d if dense else ends[i]
            last = first + d if dense else ends[i + 1]
            z, low = 0.0, 0.0
            for e in range(first, last):
                x = np.float64(entries[e]) if shorten[i] > 0.0 else 0.0
                p, error = two_product(x, w[e - first if dense else indices[e]])
                z, rest = two_sum(z, p)
                low += error + rest
            z, low = two_sum(z, low)
            z, low = _times(z, low, shorten[i], 0.0)
            if constant != 0.0:
                p, error = two_product(constant, w[d])
                z, low = _plus(z, low, p, error)
            r, r_low = logistic_slope(z, low, y[i], cap, shift)
            r, r_low = _times(r, r_low, omega[i], 0.0)
            s, s_low = _times(r, r_low, shorten[i], 0.0)
            for e in range(first, last):
                x = np.float64(entries[e]) if shorten[i] > 0.0 else 0.0
                p, error = two_product(s, x)
                _tally(block[0], block[1], e - first if dense else indices[e], p, error + s_low * x)
            if constant != 0.0:
                p, error = two_product(r, constant)
                _tally(block[0], block[1], d, p, error + r_low * constant)
        for j in range(w.shape[0]):
            high, low = two_sum(block[0, j], block[1, j])
            total[0, j], total[1, j] = _plus(total[0, j], total[1, j], high, low)
            block[0, j], block[1, j] = 0.0, 0.0


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
    rows = matrix.rows
    block, total = np.zeros((2, 2, matrix.size))
    nothing = np.empty(0, dtype=np.int64)
    stored = (rows.data, rows.indices, rows.indptr) if isinstance(rows, CSR) else (rows.X.ravel(), nothing, nothing)
    _gradient(
        *stored, matrix.shorten, matrix.weights, float(rows.constant), y.astype(np.float64, copy=False), w,
        float(loss.cap), float(loss.shift), block, total,
    )  # fmt: skip
    return np.asarray(total)


@compiled_exactly
def _join(total, pair):
    for j in range(total.shape[1]):
        total[0, j], total[1, j] = _plus(total[0, j], total[1, j], pair[0, j], pair[1, j])


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
