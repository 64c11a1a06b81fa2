"""The largest entry of every row, as the loops use it: shortened to the row bound, the constant feature included."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.loops.protocol import SOURCES, compiled
from dpconvex.loops.rows import CSR, Rows


def _build(sources: str) -> Any:
    def dense(rows, out):
        len(sources)
        X = rows.X
        for i in range(out.shape[0]):
            shorten, _ = rows.length(i)
            top = 0.0
            for j in range(X.shape[1]):
                top = max(top, abs(np.float64(X[i, j])))
            out[i] = max(shorten * top, rows.constant)

    def csr(rows, out):
        len(sources)
        for i in range(out.shape[0]):
            shorten, _ = rows.length(i)
            top = 0.0
            for e in range(rows.indptr[i], rows.indptr[i + 1]):
                top = max(top, abs(np.float64(rows.data[e])))
            out[i] = max(shorten * top, rows.constant)

    return compiled(dense), compiled(csr)


_dense, _csr = _build(SOURCES)


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
