"""Passes over the entries of rows: bring them between limits, and find the largest of every row."""

from __future__ import annotations

import numpy as np

from dpconvex.loops.protocol import compiled
from dpconvex.loops.rows import CSR, Rows


@compiled
def _dense(rows, out):
    X = rows.X
    for i in range(out.shape[0]):
        shorten, _ = rows.length(i)
        top = 0.0
        for j in range(X.shape[1]):
            top = max(top, abs(np.float64(X[i, j])))
        out[i] = max(shorten * top, rows.constant)


@compiled
def _csr(rows, out):
    for i in range(out.shape[0]):
        shorten, _ = rows.length(i)
        top = 0.0
        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            top = max(top, abs(np.float64(rows.data[e])))
        out[i] = max(shorten * top, rows.constant)


@compiled
def _clip(X, low, high, out):
    zero = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[i, j]
            zero += 0.0 * np.float64(x)  # NaN from the first entry on that is not finite
            out[i, j] = min(max(x, low[j]), high[j])
    return zero == 0.0


def clipped(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return a copy with the entries of every column between its limits, and whether all entries were finite.

    Examples
    --------
    >>> clipped(np.array([[3.0, -4.0], [0.5, np.inf]]), np.array([-1.0, -2.0]), np.array([1.0, 2.0]))
    (array([[ 1. , -2. ],
           [ 0.5,  2. ]]), False)
    """
    out = np.empty_like(X)
    return out, bool(_clip(X, low.astype(X.dtype), high.astype(X.dtype), out))


def largest_entries(rows: Rows, n: int) -> np.ndarray:
    """Size of the largest entry of each of n rows, shortened to the row bound, the constant feature included.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> largest_entries(Dense(np.array([[3.0, -4.0], [0.1, 0.0]]), 2.5, 0.5), 2)
    array([2. , 0.5])
    """
    out = np.empty(n)
    (_csr if isinstance(rows, CSR) else _dense)(rows, out)
    return out
