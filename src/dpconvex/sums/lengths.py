"""Lengths of rows in l_q as sums use them: shortened to the row bound, with the constant feature."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.loops.entries import largest_entries
from dpconvex.loops.rows import Dense
from dpconvex.problem.geometry import lp_norms
from dpconvex.sums.matrix import Matrix

_BLOCK = 4096  # rows measured at a time


def row_lengths(matrix: Matrix, q: float) -> np.ndarray:
    """The l_q norm of every row, never below the true one.

    A norm added up over d entries is right to (d + 64) 2^-52; squares of entries below 1e-150 may be lost. The largest
    entry (q infinite) is right to two roundings: whoever clips by it leaves room for them.

    Examples
    --------
    >>> matrix = Matrix(Dense(np.array([[3.0, 4.0]]), 10.0, 0.0), 1)
    >>> [row_lengths(matrix, q).round(9).tolist() for q in (2.0, 4.0, math.inf)]
    [[5.0], [4.284572295], [4.0]]
    """
    rows, n, found = matrix.rows, matrix.n, np.zeros(matrix.n)
    if q == 2.0:
        return np.asarray(matrix.norms * (1.0 + (matrix.size + 64) * 2.3e-16) + 1e-148)
    if q == math.inf:
        return largest_entries(rows, n)
    if isinstance(rows, Dense):
        d = rows.X.shape[1]
        for start in range(0, n, _BLOCK):
            part = slice(start, min(start + _BLOCK, n))
            found[part] = lp_norms(rows.X[part].astype(np.float64, copy=False), q)
    else:
        d, size = rows.d, np.abs(rows.data.astype(np.float64))
        which, tops = np.repeat(np.arange(n), np.diff(rows.indptr)), np.zeros(n)
        np.maximum.at(tops, which, size)
        with np.errstate(under="ignore"):
            parts = (size / np.where(tops == 0.0, 1.0, tops)[which]) ** q
        found = tops * np.bincount(which, parts, minlength=n) ** (1.0 / q)
    with np.errstate(invalid="ignore"):
        found = np.where(matrix.shorten > 0.0, found * matrix.shorten, 0.0)
    both = np.stack([found, np.full(n, rows.constant)], axis=1)
    return np.asarray(lp_norms(both, q) * (1.0 + (d + 64) * 4.5e-16) + 1e-148)
