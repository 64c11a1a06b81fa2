"""The encoding of a table by its schema: numbers for the library, from public facts only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.frames import MISSING
from dpconvex.data.schema import Category, Column, Date, Ignore, Number, Schema
from dpconvex.errors import InputError


class PrivatePreprocessor(TransformerMixin, BaseEstimator):
    """Encode a table by its schema. Nothing is learned from rows, so the encoding costs no privacy.

    A number or date becomes one column, its range brought to [-1, 1]; a category becomes one column for each declared
    value, a 1 in one of them. The m numbers of a row together are brought within norm (m/4 + 3 sqrt(m)/4)^(1/2), and
    everything is divided so that the row, with the constant feature of an intercept that weighs as much as a category,
    is within norm 1 by construction.

    Parameters
    ----------
    schema : Schema
    sparse_output : bool
        Give a sparse CSR array: worth it for many categories.

    Attributes
    ----------
    row_bound_ : float
        Every row has at most this l2 norm, whatever the table holds.
    constant_ : float
        Value for the constant feature of an intercept, as `Problem(intercept=...)` takes it.
    feature_names_in_ : ndarray of str
        Columns of the schema, the ignored ones too.
    n_features_in_ : int

    Examples
    --------
    >>> from dpconvex.data.schema import Category, Number
    >>> schema = Schema({"age": Number(20, 100), "sex": Category(["F", "M"], missing="zeros")})
    >>> encoder = PrivatePreprocessor(schema)
    >>> encoder.fit_transform({"age": [20, 60], "sex": ["M", "F"]}).round(3)
    array([[-0.577,  0.   ,  0.577],
           [ 0.   ,  0.577,  0.   ]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'sex=F', 'sex=M']
    >>> round(encoder.row_bound_, 3), round(encoder.constant_, 3)
    (0.816, 0.577)
    """

    def __init__(self, schema: Schema | None = None, sparse_output: bool = False) -> None:
        self.schema = schema
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> PrivatePreprocessor:
        """Check the form of the table; nothing is kept of it."""
        self._state_facts().check(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and transform, reading the table once."""
        self._state_facts()
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Encode the table: a float64 array, or a CSR array, of one row a row."""
        check_is_fitted(self, "row_bound_")
        assert self.schema is not None
        n, cells = self.schema.read(X)
        indices = np.empty((n, len(cells)), dtype=np.int32)
        values = np.empty((n, len(cells)))
        start = 0
        for j, (name, read) in enumerate(cells.items()):
            column = self.schema.columns[name]
            indices[:, j], values[:, j] = _encoded(column, read)
            indices[:, j] += start
            start += len(_outputs(name, column))
        numeric = [not isinstance(self.schema.columns[name], Category) for name in cells]
        values[:, numeric] = _shortened(values[:, numeric])
        values *= self.constant_
        indptr = np.arange(n + 1, dtype=np.int32 if n * len(cells) < 2**31 else np.int64) * len(cells)
        encoded = sparse.csr_array((values.ravel(), indices.ravel(), indptr), shape=(n, start))
        if not self.sparse_output:
            return encoded.toarray()
        encoded.eliminate_zeros()
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the encoded columns."""
        check_is_fitted(self, "row_bound_")
        if input_features is not None and list(input_features) != list(self.feature_names_in_):
            raise InputError("input_features must be the columns of the schema, in its order")
        assert self.schema is not None
        names = [out for name, column in self.schema.columns.items() for out in _outputs(name, column)]
        return np.array(names, dtype=object)

    def _state_facts(self) -> Schema:
        if not isinstance(self.schema, Schema):
            raise InputError("schema must be a Schema: the ranges and categories of the table, written by hand")
        kinds = [type(column) for column in self.schema.columns.values()]
        square = _number_radius(sum(kind in (Number, Date) for kind in kinds)) ** 2 + kinds.count(Category)
        self.feature_names_in_ = np.array(list(self.schema.columns), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.constant_ = 1.0 / math.sqrt(square + 1.0)
        self.row_bound_ = math.sqrt(square / (square + 1.0))
        return self.schema

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def _outputs(name: str, column: Column) -> list[str]:
    """Names of the columns that a column becomes."""
    if isinstance(column, Ignore):
        return []
    flag = [f"{name} is missing"] if column.missing in ("category", "flag") else []
    return [f"{name}={value}" for value in column.categories] + flag if isinstance(column, Category) else [name, *flag]


def _encoded(column: Column, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The one entry of each row's block that is not 0: its place in the block, and its value."""
    assert not isinstance(column, Ignore)
    if isinstance(column, Category):
        own = column.missing == "category"
        place = np.where((read == MISSING) & own, len(column.categories), np.maximum(read, 0))
        return place, ((read >= 0) | ((read == MISSING) & own)).astype(np.float64)
    missing = np.isnan(read)
    flagged = missing & (column.missing == "flag")
    return flagged.astype(np.int32), np.where(missing, flagged, column.scaled(read))


def _number_radius(m: int) -> float:
    """Norm within which the m numbers of a row are kept.

    Normal values with nineteen in twenty between -1 and 1 have squares of mean 1/4 and standard deviation 0.35: the sum
    of m squares is rarely beyond its mean by more than two of its standard deviations. The worst case, sqrt(m), would
    ask for noise against rows that do not occur.
    """
    return math.sqrt(m / 4.0 + 0.75 * math.sqrt(m))


def _shortened(numbers: np.ndarray) -> np.ndarray:
    """Rows brought within the radius, their direction kept."""
    radius = _number_radius(numbers.shape[1])
    numbers = np.ascontiguousarray(numbers)  # sums of a row are then the same whatever the number of rows
    norm = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    return numbers * (radius / np.maximum(norm, radius))[:, None] if radius else numbers
