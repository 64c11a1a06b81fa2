"""Open arrays and sparse matrices as rows.

Form (shape, type, finite entries, known labels) is checked and refused with a message that holds no value: a mistake
of whoever holds the data, outside of what a claim covers. Whether the entries of X are finite is seen when rows are
measured, so that they are read once (`use_rows`). Magnitude is never refused: rows are brought within their bound and
targets are clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from dpconvex.errors import FormError
from dpconvex.loops.rows import CSR, Dense, Records, Rows, WildRowsError
from dpconvex.problem.bounds import L2, Bound, Columns, Linf, Lp
from dpconvex.problem.problem import Problem

__all__ = ["Batches", "open_rows"]

T = TypeVar("T")
_NOT_FINITE = "X holds entries that are not finite (NaN or infinite); mend or drop them first"
_PAIR = "pairs (X, y)"


def open_rows(X: Any, y: Any, problem: Problem, n: int, d: int) -> tuple[Rows, np.ndarray]:
    """Check the form of n rows of d features with their labels, and return them ready for the loops.

    Examples
    --------
    >>> import dpconvex as dc
    >>> rows, labels = open_rows(np.eye(3), [1, -1, 1], dc.Problem(dc.losses.Logistic()), n=3, d=3)
    >>> rows.X.shape, labels
    ((3, 3), array([ 1., -1.,  1.]))
    """
    if problem.loss.traits.records:
        return _open_records(X, y, n)
    rows = _open_features(X, problem, n, d)
    return rows, _labels(y, problem, n)


def _open_records(X: Any, y: Any, n: int) -> tuple[Any, np.ndarray]:
    """Records of a loss of the user's own, with their labels if there are any (and zeros in their place if not)."""
    given = {"X": X, "y": y}
    for name, part in given.items():
        if part is None and name == "y":
            continue
        part = part.tocsr() if sparse.issparse(part) else _anything(part, name)
        if not part.ndim or part.shape[0] != n:
            raise FormError(f"{name} holds {part.shape[0] if part.ndim else 1} records, the plan was made for n = {n}")
        values: Any = part.data if sparse.issparse(part) else part
        if values.dtype.kind in "fc" and not _is_finite(values):
            raise FormError(f"{name} holds entries that are not finite (NaN or infinite); mend or drop them first")
        given[name] = part
    return Records(given["X"], given["y"]), np.zeros(n)


def _is_finite(values: np.ndarray) -> bool:
    """Whether all entries are finite; one look at their sum is enough for most arrays."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _anything(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise FormError(f"{name} cannot be read as an array: are its records of equal shape?") from None


def _open_features(X: Any, problem: Problem, n: int, d: int) -> Rows:
    matrix = _matrix(X, n, d)
    # Norms are computed with an error of at most (d + 2) units in the last place: shorten by that much more.
    radius = problem.feature_bound.l2(d) * (1.0 - (d + 16) * 2.3e-16)
    return _rows(_within(matrix, problem.feature_bound), radius, problem.intercept, d)


def open_weights(weights: Any, cap: Any, n: int) -> np.ndarray:
    """How much each record counts, as a part of the cap: from 0 to 1, weights above the cap being clipped.

    Examples
    --------
    >>> open_weights([0.5, 2.0, 9.0], 4.0, 3)
    array([0.125, 0.5  , 1.   ])
    """
    if isinstance(cap, bool) or not isinstance(cap, Real) or not 0.0 < float(cap) < np.inf:
        raise FormError("weight_cap must be a positive number, the most that one record may count")
    values = _array(weights, "sample_weight")
    if values.shape != (n,) or values.dtype.kind not in "biuf":
        raise FormError(f"sample_weight must hold {n} numbers, one a row")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise FormError("sample_weight must hold finite numbers of at least 0")
    return np.asarray(np.minimum(values.astype(np.float64), float(cap)) / float(cap))


def open_people(groups: Any, n: int) -> np.ndarray:
    """Whose each record is, as numbers from 0 in the order in which people first appear.

    Examples
    --------
    >>> open_people(["eve", "ann", "eve"], 3)
    array([0, 1, 0])
    """
    values = _array(groups, "groups")
    if values.shape != (n,):
        raise FormError(f"groups must hold {n} names or numbers, one a row: whose it is")
    if (values.dtype.kind == "O" and any(v is None or v != v for v in values)) or (
        values.dtype.kind in "fc" and not np.isfinite(values).all()
    ):
        raise FormError("groups must not hold missing values: every row is somebody's")
    try:
        _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    except TypeError:
        raise FormError("groups must hold names or numbers of one kind") from None
    return np.asarray(np.argsort(np.argsort(first))[codes], dtype=np.int64)


def use_rows(rows: Rows, job: Callable[[Rows], T]) -> T:
    """Do a job that measures rows. If it finds one that is not finite refuse them; one that is huge, begin again.

    Examples
    --------
    >>> from dpconvex.sums.matrix import predictions
    >>> huge = Dense(np.array([[3e200, 4e200]]), 1.0, 0.0)
    >>> use_rows(huge, lambda rows: predictions(rows, np.array([1.0, 0.0]), 1)).round(3)
    array([0.6])
    >>> use_rows(Dense(np.array([[np.nan]]), 1.0, 0.0), lambda rows: predictions(rows, np.ones(1), 1))
    Traceback (most recent call last):
        ...
    dpconvex.errors.FormError: X holds entries that are not finite (NaN or infinite); mend or drop them first
    """
    try:
        return job(rows)
    except WildRowsError:
        return job(_tamed(rows))


class Batches:
    """Rows and labels that come in batches of any sizes, opened one at a time.

    Parameters
    ----------
    batches : iterable of pairs (X, y)
        All dense or all sparse. They must hold n rows together; those without rows are passed over.
    problem : Problem
    n, d : int
        Rows in all, and features.

    Examples
    --------
    >>> import dpconvex as dc
    >>> cut = [(np.eye(3)[:2], [1, -1]), (np.eye(3)[2:], [1])]
    >>> batches = Batches(cut, dc.Problem(dc.losses.Logistic()), n=3, d=3)
    >>> batches.use(np.arange(4), lambda rows, labels, first, last: print(rows.X.shape, labels, first, last))
    (2, 3) [ 1. -1.] 0 2
    (1, 3) [1.] 2 3
    >>> batches.close()
    """

    def __init__(self, batches: Any, problem: Problem, n: int, d: int) -> None:
        try:
            self._coming = iter(batches)
        except TypeError:
            raise FormError(f"batches must be an iterable of {_PAIR}, got {type(batches).__name__}") from None
        self._problem, self._n, self._d = problem, n, d
        self._rows: Rows | None = None
        self._kind: type[Rows] | None = None
        self._labels = np.empty(0)
        self._used = self._opened = self._number = 0  # rows of this batch used; rows and batches opened so far

    def use(self, stops: np.ndarray, job: Callable[[Rows, np.ndarray, int, int], None]) -> None:
        """Do a job on the rows at places stops[0], ..., stops[-1] - 1, which are the next ones.

        The job is given rows and labels, and the places of the first and of the one after the last: as many as there
        are in one batch, from one stop to another. Where a batch ends between two stops the rows after the first are
        copied, to be joined by the next batch. A job may be done twice (`use_rows`): it is to change nothing before it
        has measured its rows.
        """
        at, held = 0, _Held()
        while at < len(stops) - 1:
            ready = self._ready()
            short = int(stops[at + 1] - stops[at]) - held.count
            if held.count or ready < short:
                held.add(*self._take(min(short, ready)))
                if ready >= short:
                    _do(job, *held.joined(), int(stops[at]))
                    at, held = at + 1, _Held()
            else:
                end = int(np.searchsorted(stops, stops[at] + ready, side="right")) - 1
                _do(job, *self._take(int(stops[end] - stops[at])), int(stops[at]))
                at = end

    def close(self) -> None:
        """Refuse rows that are left over."""
        if self._used < len(self._labels) or self._next() is not None:
            raise self._too_many()

    def _ready(self) -> int:
        """Rows of the batch that is open, or else of the next, that were not used yet."""
        if self._used == len(self._labels):
            self._open()
        return len(self._labels) - self._used

    def _take(self, count: int) -> tuple[Rows, np.ndarray]:
        assert self._rows is not None
        first, self._used = self._used, self._used + count
        return _part(self._rows, first, self._used), self._labels[first : self._used]

    def _open(self) -> None:
        batch = self._next()
        if batch is None:
            raise FormError(
                f"the batches hold {self._opened} rows, the plan was made for n = {self._n}. Nothing was released"
            )
        X, y, count = batch
        self._opened += count
        if self._opened > self._n:
            raise self._too_many()
        try:
            self._rows, self._labels = open_rows(X, y, self._problem, count, self._d)
        except FormError as error:
            raise FormError(f"batch {self._number}: {error}") from None
        self._kind = self._kind or type(self._rows)
        if type(self._rows) is not self._kind:
            raise FormError("the batches must be all dense or all sparse")

    def _next(self) -> tuple[Any, Any, int] | None:
        """The next batch that has rows, with their number. The one before is let go first."""
        self._rows, self._labels, self._used = None, np.empty(0), 0
        for batch in self._coming:
            self._number += 1
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise FormError(f"batches must be an iterable of {_PAIR}, got one of {type(batch).__name__}")
            own = self._problem.loss.traits.records
            X = batch[0] if sparse.issparse(batch[0]) else (_anything if own else _array)(batch[0], "X")
            if X.ndim == 0 or X.shape[0]:
                return X, batch[1], X.shape[0] if X.ndim else 1
        return None

    def _too_many(self) -> FormError:
        return FormError(
            f"the batches hold more rows than the n = {self._n} that the plan was made for. Nothing was released"
        )


class _Held:
    """Rows that wait for the next batch."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Rows, np.ndarray]] = []

    def add(self, rows: Rows, labels: np.ndarray) -> None:
        # Copied: a view would keep the whole batch, and a source may fill the same array again.
        self._parts.append((_joined([rows]), labels.copy()))
        self.count += len(labels)

    def joined(self) -> tuple[Rows, np.ndarray]:
        rows, labels = zip(*self._parts, strict=True)
        return _joined(rows), np.concatenate(labels)


def _do(job: Callable[[Rows, np.ndarray, int, int], None], rows: Rows, labels: np.ndarray, first: int) -> None:
    use_rows(rows, lambda measured: job(measured, labels, first, first + len(labels)))


def _part(rows: Any, first: int, last: int) -> Any:
    """Some consecutive rows; entries are not copied."""
    if isinstance(rows, Records):
        return rows.take(slice(first, last))
    if isinstance(rows, Dense):
        return rows._replace(X=rows.X[first:last])
    start, stop = rows.indptr[first], rows.indptr[last]
    indptr = rows.indptr[first : last + 1] - start
    return rows._replace(data=rows.data[start:stop], indices=rows.indices[start:stop], indptr=indptr)


def _joined(parts: Sequence[Any]) -> Any:
    """Rows of one kind, one part after the other, copied."""
    if isinstance(parts[0], Records):
        labels = None if parts[0].y is None else np.concatenate([part.y for part in parts])
        return Records(np.concatenate([part.X for part in parts]), labels)
    if isinstance(parts[0], Dense):
        return parts[0]._replace(X=np.concatenate([part.X for part in parts]))
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return parts[0]._replace(
        data=np.concatenate([part.data for part in parts]),
        indices=np.concatenate([part.indices for part in parts]),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(parts[0].indptr.dtype),
    )


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
            raise FormError("X is a malformed sparse matrix") from None
        # scipy remembers that no entry stands twice, also after they have been changed: ask a matrix without memory.
        matrix = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        matrix = _array(X, "X")
    if matrix.ndim != 2:
        raise FormError(f"X must have two dimensions (rows, features), got {matrix.ndim}")
    if matrix.shape != (n, d):
        raise FormError(f"X has shape {matrix.shape}, the plan was made for n = {n} rows of d = {d} features")
    if matrix.dtype.kind not in "biuf":
        raise FormError(f"X must hold real numbers, got dtype {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    return matrix if sparse.issparse(matrix) else np.ascontiguousarray(matrix)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        return _numbers(array) if array.dtype == object else array
    except (TypeError, ValueError):
        raise FormError(f"{name} cannot be read as an array of numbers: are its rows of equal length?") from None


def _numbers(cells: np.ndarray) -> np.ndarray:
    """Whole numbers beyond 64 bits as the nearest float64, or the largest; other cells are left as they are."""
    if not all(isinstance(cell, int) for cell in cells.flat):
        return cells
    most = int(np.finfo(np.float64).max)
    numbers = [min(max(cell, -most), most) for cell in cells.flat]
    return np.array(numbers, dtype=np.float64).reshape(cells.shape)


def _labels(y: Any, problem: Problem, n: int) -> np.ndarray:
    labels = _array(y, "y")
    if labels.shape != (n,):
        raise FormError(f"y must have shape ({n},), one label a row, got {labels.shape}")
    if labels.dtype.kind not in "biuf":
        raise FormError(f"y must hold numbers (labels -1 and +1, class indices or targets), got dtype {labels.dtype}")
    labels = labels.astype(np.float64, copy=False)
    if not np.isfinite(labels).all():
        raise FormError("y holds entries that are not finite (NaN or infinite)")
    traits = problem.loss.traits
    if traits.labels == "class":
        if not ((labels >= 0) & (labels < traits.outputs) & (labels == np.floor(labels))).all():
            raise FormError(f"y must hold class indices from 0 to {traits.outputs - 1}")
    elif traits.labels == "bounded":
        return np.clip(labels, -traits.target, traits.target)
    elif not (np.abs(labels) == 1.0).all():
        name = type(problem.loss).__name__
        raise FormError(f"y must hold the labels -1 and +1 for {name}; from 0 and 1 use 2 * y - 1")
    return labels


def _tamed(rows: Rows) -> Rows:
    """Scale rows with entries above 1e140 down to that, direction kept, so that sums of squares stay below 1e300."""
    if isinstance(rows, Dense):
        _check_finite(rows.X)
        factor = 1e140 / np.maximum(np.abs(rows.X).max(axis=1), 1e140)
        return rows._replace(X=rows.X * factor[:, None])
    _check_finite(rows.data)
    length = np.diff(rows.indptr)
    top = np.full(len(length), 1e140)
    np.maximum.at(top, np.repeat(np.arange(len(length)), length), np.abs(rows.data))
    return rows._replace(data=rows.data * np.repeat(1e140 / top, length))


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise FormError(_NOT_FINITE)


def _within(matrix: Any, bound: Bound) -> Any:
    """Bring entries within the bound; only rows of an l2 bound are left to the loops. Copies only what must change."""
    if isinstance(bound, L2):
        return matrix
    if isinstance(bound, Lp):
        return _shorten(matrix, bound)
    lo, hi = _limits(bound, matrix)
    if not sparse.issparse(matrix):
        least, most = matrix.min(axis=0), matrix.max(axis=0)
        _check_finite(np.concatenate([least, most]))
        inside = (least >= lo).all() and (most <= hi).all()
        return matrix if inside else np.ascontiguousarray(np.clip(matrix, lo, hi), dtype=matrix.dtype)
    _check_finite(matrix.data)
    clipped = np.clip(matrix.data, lo[matrix.indices], hi[matrix.indices]).astype(matrix.dtype)
    return sparse.csr_array((clipped, matrix.indices, matrix.indptr), shape=matrix.shape)


def _limits(bound: Linf | Columns, matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(bound, Linf):
        return np.full(matrix.shape[1], -bound.radius), np.full(matrix.shape[1], bound.radius)
    lo, hi = np.array(bound.lo), np.array(bound.hi)
    if sparse.issparse(matrix) and not ((lo <= 0).all() and (hi >= 0).all()):
        raise FormError("feature_bound: a sparse X needs lo <= 0 <= hi in every column, for its zeros are not stored")
    return lo, hi


def _shorten(matrix: Any, bound: Lp) -> Any:
    """Scale rows to the l_p radius, in units of their largest entry so that powers cannot overflow."""
    size = abs(matrix)
    top = size.max(axis=1).toarray().ravel() if sparse.issparse(size) else size.max(axis=1)
    _check_finite(top)
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
        data = matrix.data * np.repeat(factor, np.diff(matrix.indptr))
        return sparse.csr_array((data.astype(matrix.dtype), matrix.indices, matrix.indptr), shape=matrix.shape)
    return (matrix * factor[:, None]).astype(matrix.dtype, copy=False)
