"""The encoding of a table by its schema, from public facts only."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.encoding import Encoding
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError


class PrivatePreprocessor(TransformerMixin, BaseEstimator):
    """Encode a table by its schema. Nothing is learned from rows, so the encoding costs no privacy.

    A number or date becomes one column, with its range scaled to [-1, 1]; a category becomes one column per declared
    value, with a 1 in one of them. The m numbers of a row together are clipped to norm (m/4 + 3 sqrt(m)/4)^(1/2). The
    row is then scaled so that it has norm at most 1 together with the constant feature of an intercept, which has the
    scale of a category.

    Parameters
    ----------
    schema : Schema
    sparse_output : bool
        Return a sparse CSR array: worthwhile for many categories.

    Attributes
    ----------
    row_bound_ : float
        Upper bound on the l2 norm of every encoded row, whatever the table holds.
    constant_ : float
        Value for the constant feature of an intercept, as `Problem(intercept=...)` takes it.
    feature_names_in_ : ndarray of str
        Columns of the schema, including ignored ones.
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
        """Check that the table has the columns of the schema; nothing of it is kept."""
        self._state_facts().open(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and transform, reading the table once."""
        self._state_facts()
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Encode the table.

        Returns
        -------
        array of float64, or CSR array with `sparse_output`
            One encoded row per row of the table.

        Raises
        ------
        InputError
            If the table lacks columns, or has others than those of the schema.
        """
        check_is_fitted(self, "row_bound_")
        assert self.schema is not None
        encoded = Encoding(self.schema).encode(X)
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
        return np.array(Encoding(self.schema).names, dtype=object)

    def _state_facts(self) -> Schema:
        if not isinstance(self.schema, Schema):
            raise InputError("schema must be a Schema that declares the columns of the table")
        encoding = Encoding(self.schema)
        self.feature_names_in_ = np.array(list(self.schema.columns), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.constant_, self.row_bound_ = encoding.constant, encoding.row_bound
        return self.schema

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
