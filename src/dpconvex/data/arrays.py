"""Open arrays and sparse matrices as rows.

Form (shape and types) is public, and checked before a run is charged (`form_of`). What rows say is looked at in the
run (`Form.open`): magnitude is never refused, for rows are brought within their bound and targets are clipped. Entries
and labels that stand for nothing (NaN, a third label) are refused there, and the run stays charged. No message holds a
value. Every row takes the same path, whether or not it has to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse

from dpconvex.data.frames import is_missing, narwhals_frame, text
from dpconvex.errors import FormError, RowError
from dpconvex.loops.entries import clipped
from dpconvex.loops.rows import CSR, NOT_FINITE, Dense, Records, Rows
from dpconvex.namespaces import namespace
from dpconvex.problem.bounds import L2, Bound, Columns, Linf, Lp
from dpconvex.problem.problem import Problem

__all__ = ["Batches", "form_of", "open_rows"]

_PAIR = "pairs (X, y)"
_LARGEST = int(1e150)  # whole numbers beyond it count as it: their squares are numbers still


class Form(NamedTuple):
    """Rows and labels of the right form, of which nothing was looked at so far."""

    matrix: Any
    labels: np.ndarray
    problem: Problem

    def open(self) -> tuple[Rows, np.ndarray]:
        """Bring rows and targets within their bounds, ready for the loops.

        Raises
        ------
        RowError
            If labels are not those of the loss, or entries are seen not to be finite; the loops see those of others.
        """
        return _open_matrix(self.matrix, self.problem), open_labels(self.labels, self.problem)


class RecordForm(NamedTuple):
    """Records of a loss of the user's own, and labels if there are any, of which nothing was looked at so far."""

    X: Any
    y: Any

    def open(self) -> tuple[Any, np.ndarray]:
        """Return records for the loops, and zeros in place of labels, which records hold themselves.

        Raises
        ------
        RowError
            If there are numbers that are not finite.
        """
        for name, part in (("X", self.X), ("y", self.y)):
            values: Any = part.data if sparse.issparse(part) else part
            if part is not None and values.dtype.kind in "fc" and not _is_finite(values):
                raise RowError(f"{name} holds entries that are not finite (NaN or infinite); mend or drop them first")
        return Records(self.X, self.y), np.zeros(self.X.shape[0])


def _is_finite(values: np.ndarray) -> bool:
    """Whether all entries are finite; one look at their sum is enough for most arrays."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _form_of_records(X: Any, y: Any, n: int) -> RecordForm:
    parts = []
    for name, given in (("X", X), ("y", y)):
        part = given if given is None and name == "y" else given.tocsr() if sparse.issparse(given) else None
        part = _anything(given, name) if part is None and given is not None else part
        if part is None and name == "X":
            raise FormError("X must hold the records")
        if part is not None and (not part.ndim or part.shape[0] != n):
            raise FormError(f"{name} holds {part.shape[0] if part.ndim else 1} records, the plan was made for n = {n}")
        parts.append(part)
    return RecordForm(*parts)


def _anything(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise FormError(f"{name} cannot be read as an array: are its records of equal shape?") from None


def form_of(X: Any, y: Any, problem: Problem, n: int, d: int) -> Form | RecordForm:
    """Check the form of n rows of d features with their labels: what is public about them.

    Examples
    --------
    >>> import dpconvex as dc
    >>> form = form_of(np.eye(3), [1, -1, 7], dc.Problem(dc.losses.Logistic()), n=3, d=3)
    >>> form.open()
    Traceback (most recent call last):
        ...
    dpconvex.errors.RowError: y must hold the labels -1 and +1 for Logistic; from 0 and 1 use 2 * y - 1
    """
    if problem.loss.traits.records:
        return _form_of_records(X, y, n)
    return Form(_matrix(X, n, d, problem.feature_bound), label_numbers(y, n), problem)


def open_rows(X: Any, y: Any, problem: Problem, n: int, d: int) -> tuple[Rows, np.ndarray]:
    """Check the form of n rows of d features with their labels, and return them ready for the loops.

    Examples
    --------
    >>> import dpconvex as dc
    >>> rows, labels = open_rows(np.eye(3), [1, -1, 1], dc.Problem(dc.losses.Logistic()), n=3, d=3)
    >>> rows.X.shape, labels
    ((3, 3), array([ 1., -1.,  1.]))
    """
    return form_of(X, y, problem, n, d).open()


def open_features(X: Any, problem: Problem, n: int, d: int) -> Rows:
    """Return n rows of d features ready for the loops, without labels."""
    return _open_matrix(_matrix(X, n, d, problem.feature_bound), problem)


def _open_matrix(matrix: Any, problem: Problem) -> Rows:
    d, bound = matrix.shape[1], problem.feature_bound
    return _rows(_within(matrix, bound), radius_of(bound, d), problem.intercept, d)


def radius_of(bound: Bound, d: int) -> float:
    """Length to which rows are shortened: norms are off by (d + 2) units in the last place, so by that much more.

    Examples
    --------
    >>> radius_of(L2(1.0), 10) < 1.0
    True
    """
    return float(bound.l2(d) * (1.0 - (d + 16) * 2.3e-16))


def open_weights(weights: Any, cap: Any, n: int) -> np.ndarray:
    """How much each record counts, as a part of the cap: from 0 to 1.

    Weights above the cap are clipped to it. One that is negative, or no number, counts as 0.

    Examples
    --------
    >>> open_weights([0.5, 2.0, 9.0, -1.0], 4.0, 4)
    array([0.125, 0.5  , 1.   , 0.   ])
    """
    if isinstance(cap, bool) or not isinstance(cap, Real) or not 0.0 < float(cap) < np.inf:
        raise FormError("weight_cap must be a positive number, the most that one record may count")
    values = as_array(weights, "sample_weight")
    if values.shape != (n,) or values.dtype.kind not in "biuf":
        raise FormError(f"sample_weight must hold {n} numbers, one a row")
    return np.asarray(np.fmin(np.fmax(values.astype(np.float64), 0.0), float(cap)) / float(cap))


def open_people(groups: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Whose each record is, as the number of the first record of that person, and whether that is known.

    Cells of mixed types are compared as text. A row of nobody is not to count: its number is 0.

    Examples
    --------
    >>> open_people(["eve", None, "ann", "eve"], 4)
    (array([0, 0, 2, 0]), array([ True, False,  True,  True]))
    >>> open_people(np.array(["2020-01-02", "NaT", "2020-01-02"], dtype="datetime64[D]"), 3)
    (array([0, 0, 0]), array([ True, False,  True]))
    """
    try:
        values = np.asarray(groups)
        if values.dtype.kind in "US" and not hasattr(groups, "dtype"):  # NaN would be text
            values = np.array(groups, dtype=object)
    except ValueError:
        values = np.empty(0)
    if values.shape != (n,):
        raise FormError(f"groups must hold {n} names or numbers, one a row: whose it is")
    if values.dtype.kind == "O":
        known = np.array([not is_missing(cell) for cell in values], dtype=bool)
        values = np.array([text(cell) if there else "" for cell, there in zip(values, known, strict=True)])
    elif values.dtype.kind in "US":
        known = np.char.str_len(np.char.strip(values)) > 0
    else:  # NaT, which is no date, is not finite either
        known = np.isfinite(values) if values.dtype.kind in "fcmM" else np.ones(n, dtype=bool)
    _, first, codes = np.unique(values[known], return_index=True, return_inverse=True)
    people = np.zeros(n, dtype=np.int64)
    people[known] = np.flatnonzero(known)[first[codes]]
    return people, known


def open_subgroups(subgroups: Any, n: int) -> np.ndarray:
    """The number of the subgroup of each record, from 0, or -1.

    Examples
    --------
    >>> open_subgroups([1, 0, -1], 3)
    array([ 1,  0, -1])
    """
    values = as_array(subgroups, "subgroups")
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise FormError(f"subgroups must hold {n} whole numbers, one a row")
    return values.astype(np.int64)


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
        copied, to be joined by the next batch.
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
            raise FormError(f"the batches hold {self._opened} rows, the plan was made for n = {self._n}")
        X, y, count = batch
        self._opened += count
        if self._opened > self._n:
            raise self._too_many()
        try:
            self._rows, self._labels = open_rows(X, y, self._problem, count, self._d)
        except (FormError, RowError) as error:
            raise type(error)(f"batch {self._number}: {error}") from None
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
            X = batch[0] if sparse.issparse(batch[0]) else (_anything if own else as_array)(batch[0], "X")
            if X.ndim == 0 or X.shape[0]:
                return X, batch[1], X.shape[0] if X.ndim else 1
        return None

    def _too_many(self) -> FormError:
        return FormError(f"the batches hold more rows than the n = {self._n} that the plan was made for")


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
    job(rows, labels, first, first + len(labels))


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


def _matrix(X: Any, n: int, d: int, bound: Bound) -> Any:
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
        matrix = as_array(X, "X")
    if matrix.ndim != 2:
        raise FormError(f"X must have two dimensions (rows, features), got {matrix.ndim}")
    if matrix.shape != (n, d):
        raise FormError(f"X has shape {matrix.shape}, the plan was made for n = {n} rows of d = {d} features")
    if matrix.dtype.kind not in "biuf":
        raise FormError(f"X must hold real numbers, got dtype {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if not sparse.issparse(matrix):
        return np.ascontiguousarray(matrix)
    if isinstance(bound, Columns) and not (max(bound.lo) <= 0.0 <= min(bound.hi)):
        raise FormError("feature_bound: a sparse X needs lo <= 0 <= hi in every column, for its zeros are not stored")
    return matrix


def as_array(values: Any, name: str) -> np.ndarray:
    """Values as an array. Where cells have types of their own, as in a list, those that are no number become NaN."""
    try:
        array = np.asarray(values)
        if array.dtype != object and (array.dtype.kind not in "US" or hasattr(values, "dtype")):
            return array
        if not hasattr(values, "columns"):
            return numbers(np.asarray(values, dtype=object))
    except ValueError:
        raise FormError(f"{name} cannot be read as an array of numbers: are its rows of equal length?") from None
    if not all(dtype.is_numeric() or dtype == nw.Boolean for dtype in narwhals_frame(values).schema.values()):
        raise FormError(f"{name} has columns of other types than numbers: encode them, or declare them in a Schema")
    return numbers(array)


def numbers(cells: np.ndarray) -> np.ndarray:
    """Cells as float64: NaN where missing or text, and whole numbers of any size. Other objects raise a `TypeError`.

    Examples
    --------
    >>> numbers(np.array([1, None, "x", 2.5, 10**400], dtype=object))
    array([1.0e+000,     nan,     nan, 2.5e+000, 1.0e+150])
    """

    def number(cell: Any) -> float:
        if isinstance(cell, int):
            return float(min(max(cell, -_LARGEST), _LARGEST))
        return np.nan if isinstance(cell, str | bytes) or is_missing(cell) else float(cell)

    return np.fromiter(map(number, cells.flat), np.float64, cells.size).reshape(cells.shape)


def label_numbers(y: Any, n: int) -> np.ndarray:
    """Labels as float64, one a row.

    Examples
    --------
    >>> label_numbers([1, -1], 2)
    array([ 1., -1.])
    """
    labels = as_array(y, "y")
    if labels.shape != (n,):
        raise FormError(f"y must have shape ({n},), one label a row, got {labels.shape}")
    if labels.dtype.kind not in "biuf":
        raise FormError(f"y must hold numbers (labels -1 and +1, class indices or targets), got dtype {labels.dtype}")
    return labels.astype(np.float64, copy=False)


def open_labels(labels: Any, problem: Problem) -> Any:
    """Return labels as the loss takes them, targets clipped; those that stand for nothing raise `RowError`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> open_labels(np.array([0.5, 3.0]), dc.Problem(dc.losses.Squared()))
    array([0.5, 1. ])
    """
    xp, traits = namespace(labels), problem.loss.traits
    if not xp.isfinite(labels).all():
        raise RowError("y holds entries that are not finite (NaN or infinite), or text in place of numbers")
    if traits.labels == "class":
        if not ((labels >= 0) & (labels < traits.outputs) & (labels == xp.floor(labels))).all():
            raise RowError(f"y must hold class indices from 0 to {traits.outputs - 1}")
    elif traits.labels == "bounded":
        return xp.clip(labels, -traits.target, traits.target)
    elif not (xp.abs(labels) == 1.0).all():
        name = type(problem.loss).__name__
        raise RowError(f"y must hold the labels -1 and +1 for {name}; from 0 and 1 use 2 * y - 1")
    return labels


def _within(matrix: Any, bound: Bound) -> Any:
    """Bring entries within the bound, in a copy; rows of an l2 bound are left to the loops, which shorten them."""
    if isinstance(bound, L2):
        return matrix
    if isinstance(bound, Lp):
        return _shorten(matrix, bound)
    lo, hi = limits(bound, matrix.shape[1], matrix.dtype)
    if not sparse.issparse(matrix):
        within, finite = clipped(matrix, lo, hi)
        if not finite:
            raise RowError(NOT_FINITE)
        return within
    if not np.isfinite(matrix.data).all():
        raise RowError(NOT_FINITE)
    data = np.clip(matrix.data, lo[matrix.indices], hi[matrix.indices])
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def limits(bound: Linf | Columns, d: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest entry of every column, as numbers of that type within the bound.

    Examples
    --------
    >>> limits(Linf(0.1), 1, np.float32)[1] <= 0.1
    array([ True])
    """
    reach = np.full(d, bound.radius) if isinstance(bound, Linf) else np.zeros(0)
    exact = (-reach, reach) if isinstance(bound, Linf) else (np.array(bound.lo), np.array(bound.hi))
    with np.errstate(over="ignore"):
        lo, hi = (end.astype(dtype) for end in exact)
    lo = np.where(lo < exact[0], np.nextafter(lo, np.inf), lo)
    return lo, np.where(hi > exact[1], np.nextafter(hi, -np.inf), hi)


def _shorten(matrix: Any, bound: Lp) -> Any:
    """Scale rows to the l_p radius, in units of their largest entry so that powers cannot overflow."""
    size = abs(matrix)
    top = size.max(axis=1).toarray().ravel() if sparse.issparse(size) else size.max(axis=1)
    if not np.isfinite(top).all():
        raise RowError(NOT_FINITE)
    unit = np.where(top > 0, top, 1).astype(np.float64)
    if sparse.issparse(matrix):
        scaled = sparse.diags_array(1 / unit) @ size.astype(np.float64)
        norm = unit * np.asarray(scaled.power(bound.p).sum(axis=1)).ravel() ** (1 / bound.p)
    else:
        norm = unit * ((size / unit[:, None]) ** bound.p).sum(axis=1) ** (1 / bound.p)
    factor = np.minimum(1.0, bound.radius / np.where(norm > 0, norm, 1.0))
    if sparse.issparse(matrix):
        data = matrix.data * np.repeat(factor, np.diff(matrix.indptr))
        return sparse.csr_array((data.astype(matrix.dtype), matrix.indices, matrix.indptr), shape=matrix.shape)
    return (matrix * factor[:, None]).astype(matrix.dtype, copy=False)
