"""The largest entry of every row, as the loops use it: shortened to the row bound, the constant feature included."""

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


def largest_entries(rows: Rows, n: int) -> np.ndarray:
    """Size of the largest entry of each of n rows.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> largest_entries(Dense(np.array([[3.0, -4.0], [0.1, 0.0]]), 2.5, 0.5), 2)
    array([2. , 0.5])
    """
    out = np.empty(n)
    (_csr if isinstance(rows, CSR) else _dense)(rows, out)
    return out
