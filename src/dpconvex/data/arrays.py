"""Open arrays and sparse matrices as rows.

Form (shape, type, finite entries, known labels) is checked first and refused with a message that holds no value:
a mistake of whoever holds the data, outside of what a claim covers. Magnitude is never refused: rows are brought
within their bound and targets are clipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.errors import InputError
from dpconvex.loops.batch import all_tame, predictions
from dpconvex.loops.rows import CSR, Dense, Rows
from dpconvex.problem.bounds import L2, Bound, Columns, Linf, Lp
from dpconvex.problem.losses import Absolute, Huber, LogCosh, Pinball, Softmax, Squared
from dpconvex.problem.problem import Problem


def open_rows(X: Any, y: Any, problem: Problem, n: int, d: int) -> tuple[Rows, np.ndarray]:
    """Check the form of n rows of d features with their labels, and return them ready for the loops.

    Examples
    --------
    >>> import dpconvex as dc
    >>> rows, labels = open_rows(np.eye(3), [1, -1, 1], dc.Problem(dc.losses.Logistic()), n=3, d=3)
    >>> rows.X.shape, labels
    ((3, 3), array([ 1., -1.,  1.]))
    """
    rows = _open_features(X, problem, n, d)
    return rows, _labels(y, problem, n)


def _open_features(X: Any, problem: Problem, n: int, d: int) -> Rows:
    matrix = _matrix(X, n, d)
    # Norms are computed with an error of at most (d + 2) units in the last place: shorten by that much more.
    radius = problem.feature_bound.l2(d) * (1.0 - (d + 16) * 2.3e-16)
    rows = _rows(matrix, radius, problem.intercept, d)
    bounded = matrix
    if not all_tame(rows):
        if not np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all():
            raise InputError("X holds entries that are not finite (NaN or infinite); mend or drop them first")
        bounded = _tamed(matrix)
    bounded = _within(bounded, problem.feature_bound)
    return rows if bounded is matrix else _rows(bounded, radius, problem.intercept, d)


def score_rows(X: Any, weights: np.ndarray, problem: Problem) -> np.ndarray:
    """Predictions <x, w> of new rows, brought within the feature bound as in training; one column a class."""
    d = weights.shape[-1] - (1 if problem.intercept else 0)
    X = X if sparse.issparse(X) else _array(X, "X")
    n = X.shape[0] if X.ndim == 2 else 0
    rows = _open_features(X, problem, n, d)
    return np.stack([predictions(rows, w, n) for w in np.atleast_2d(weights)], axis=-1).reshape(n, *weights.shape[:-1])


def _rows(matrix: Any, radius: float, constant: float, d: int) -> Rows:
    if sparse.issparse(matrix):
        return CSR(matrix.data, matrix.indices, matrix.indptr, d, radius, constant)
    return Dense(matrix, radius, constant)


def _matrix(X: Any, n: int, d: int) -> Any:
    if sparse.issparse(X):
        matrix = X.tocsr() if X.format != "csr" else X
        try:
            matrix.check_format(full_check=True)
        except ValueError:
            raise InputError("X is a malformed sparse matrix") from None
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        matrix = _array(X, "X")
    if matrix.ndim != 2:
        raise InputError(f"X must have two dimensions (rows, features), got {matrix.ndim}")
    if matrix.shape != (n, d):
        raise InputError(f"X has shape {matrix.shape}, the plan was made for n = {n} rows of d = {d} features")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"X must hold real numbers, got dtype {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    return matrix if sparse.issparse(matrix) else np.ascontiguousarray(matrix)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} cannot be read as an array of numbers: are its rows of equal length?") from None


def _labels(y: Any, problem: Problem, n: int) -> np.ndarray:
    labels = _array(y, "y")
    if labels.shape != (n,):
        raise InputError(f"y must have shape ({n},), one label a row, got {labels.shape}")
    if labels.dtype.kind not in "biuf":
        raise InputError(f"y must hold numbers (labels -1 and +1, class indices or targets), got dtype {labels.dtype}")
    labels = labels.astype(np.float64)
    if not np.isfinite(labels).all():
        raise InputError("y holds entries that are not finite (NaN or infinite)")
    loss = problem.loss
    if isinstance(loss, Softmax):
        if not ((labels >= 0) & (labels < loss.classes) & (labels == np.floor(labels))).all():
            raise InputError(f"y must hold class indices from 0 to {int(loss.classes) - 1}")
    elif isinstance(loss, Squared | Huber | LogCosh | Absolute | Pinball):
        return np.clip(labels, -loss.target, loss.target)
    elif not (np.abs(labels) == 1.0).all():
        raise InputError(f"y must hold the labels -1 and +1 for {type(loss).__name__}; from 0 and 1 use 2 * y - 1")
    return labels


def _tamed(matrix: Any) -> Any:
    """Scale rows with entries above 1e150 down to that, direction kept, so that squares stay finite."""
    size = abs(matrix)
    top = size.max(axis=1).toarray().ravel() if sparse.issparse(size) else size.max(axis=1)
    factor = 1e150 / np.maximum(top, 1e150)
    return (
        sparse.csr_array(sparse.diags_array(factor) @ matrix) if sparse.issparse(matrix) else matrix * factor[:, None]
    )


def _within(matrix: Any, bound: Bound) -> Any:
    """Bring entries within the bound; only rows of an l2 bound are left to the loops. Copies only what must change."""
    if isinstance(bound, L2):
        return matrix
    if isinstance(bound, Lp):
        return _shorten(matrix, bound)
    lo, hi = _limits(bound, matrix)
    if not sparse.issparse(matrix):
        inside = (matrix.min(axis=0) >= lo).all() and (matrix.max(axis=0) <= hi).all()
        return matrix if inside else np.ascontiguousarray(np.clip(matrix, lo, hi), dtype=matrix.dtype)
    clipped = np.clip(matrix.data, lo[matrix.indices], hi[matrix.indices]).astype(matrix.dtype)
    return sparse.csr_array((clipped, matrix.indices, matrix.indptr), shape=matrix.shape)


def _limits(bound: Linf | Columns, matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(bound, Linf):
        return np.full(matrix.shape[1], -bound.radius), np.full(matrix.shape[1], bound.radius)
    lo, hi = np.array(bound.lo), np.array(bound.hi)
    if sparse.issparse(matrix) and not ((lo <= 0).all() and (hi >= 0).all()):
        raise InputError("feature_bound: a sparse X needs lo <= 0 <= hi in every column, for its zeros are not stored")
    return lo, hi


def _shorten(matrix: Any, bound: Lp) -> Any:
    """Scale rows to the l_p radius, in units of their largest entry so that powers cannot overflow."""
    size = abs(matrix)
    top = size.max(axis=1).toarray().ravel() if sparse.issparse(size) else size.max(axis=1)
    unit = np.where(top > 0, top, 1).astype(np.float64)
    if sparse.issparse(matrix):
        scaled = sparse.diags_array(1 / unit) @ size.astype(np.float64)
        norm = unit * np.asarray(scaled.power(bound.p).sum(axis=1)).ravel() ** (1 / bound.p)
    else:
        norm = unit * ((size / unit[:, None]) ** bound.p).sum(axis=1) ** (1 / bound.p)
    factor = np.minimum(1.0, bound.radius / np.where(norm > 0, norm, 1.0))
    if (factor == 1.0).all():
        return matrix
    if sparse.issparse(matrix):
        return sparse.csr_array(sparse.diags_array(factor) @ matrix)
    return matrix * factor[:, None]
