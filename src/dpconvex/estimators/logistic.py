"""Private logistic regression with the face of a scikit-learn classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.arrays import score_rows
from dpconvex.estimators.fitting import declared_digest, encode_labels, encoded, open_features, plan_fit, seed_from
from dpconvex.estimators.frames import as_texts
from dpconvex.estimators.schema import Schema
from dpconvex.plan.plan import probabilities
from dpconvex.privacy.budget import Budget
from dpconvex.problem.bounds import Bound
from dpconvex.problem.losses import Logistic, Softmax
from dpconvex.problem.problem import Problem


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression, for two classes or more, that protects the people it was fitted on.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of one call of `fit`. Keep delta well below one over the number of rows.
    schema : Schema, optional
        The public facts of a table. With it, raw frames go straight in: text, dates, missing values. It also declares
        the classes, the bound and the rows a person has, and names the data set in the account of the process.
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on a row, a float being its l2 norm. Rows beyond it are brought back. Not with a schema, which implies it.
        If neither is given, the longest row is read from the data, with a `PrivacyLeakWarning`.
    classes : sequence of labels, optional
        Every label there can be. If neither they nor a schema are given, they are read from `y`, with a warning.
    fit_intercept : bool, default=True
        Whether to add a constant feature. It counts in the bound of a row.
    algorithm : "auto", the name of an algorithm or an instance, default="auto"
        "auto" asks `dpconvex.choose`.
    relation : {"replace_one", "zero_out"}, default="replace_one"
        What a neighbouring data set is.
    rows_per_person : int, default=1
        The most rows that one person has; the guarantee is then about all of them together.
    random_state : int or RandomState, optional
        For tests only. None takes cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
    strict : bool, default=False
        Refuse to read anything from the data that was not declared.

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, what was released: one row a class if there are more than two, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : what `fit` was given

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = np.where(X[:, 0] > 0.1 * rng.normal(size=5000), "yes", "no")
    >>> model = dc.PrivateLogisticRegression(epsilon=1.0, feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"])
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    >>> model.receipt_.epsilon <= 1.0, dc.verify(model.receipt_)
    (True, True)
    """

    weights_: np.ndarray
    classes_: np.ndarray

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        algorithm: Any = "auto",
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.feature_bound = feature_bound
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.relation = relation
        self.rows_per_person = rows_per_person
        self.random_state = random_state
        self.strict = strict

    def fit(self, X: Any, y: Any = None) -> PrivateLogisticRegression:
        """Fit to rows and labels. With a schema, `y` may stay in the frame, under the name of the target.

        Every call is a release and is charged to the account of the process (`dpconvex.account`).
        """
        budget = Budget(self.epsilon, self.delta, self.relation)
        undeclared: list[str] = []
        rows = open_features(self, X, y, undeclared)
        labels, classes = encode_labels(self, X, y, undeclared)
        loss = Logistic() if len(classes) == 2 else Softmax(len(classes))
        plan = plan_fit(self, loss, rows, budget)
        targets = np.where(labels == 1, 1.0, -1.0) if len(classes) == 2 else labels
        solution = plan.run(
            rows.X,
            targets,
            dataset=rows.dataset,
            seed=seed_from(self.random_state),
            undeclared=undeclared,
            declared=declared_digest(self.schema, classes),
        )
        self.classes_ = classes
        self.weights_ = solution.weights
        self.receipt_ = solution.receipt
        return self

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the (encoded) features: one row, or one a class."""
        weights = np.atleast_2d(self.weights_)
        return weights[:, :-1] if self._problem.intercept else weights

    @property
    def intercept_(self) -> np.ndarray:
        """What the constant feature adds: one number, or one a class."""
        weights = np.atleast_2d(self.weights_)
        return self._problem.intercept * weights[:, -1] if self._problem.intercept else np.zeros(len(weights))

    @property
    def _problem(self) -> Problem:
        return self.receipt_.problem

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of the second class, or of each class if there are more than two.

        Rows are brought within the bound, as in `fit`.
        """
        check_is_fitted(self)
        return score_rows(encoded(self, X), self.weights_, self._problem)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, by the link of the loss that was fitted."""
        scores = self.decision_function(X)
        found = probabilities(self._problem.loss, scores)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels are compared as text; one that is no class counts as wrong.

        On the rows of `fit` this is a number that no guarantee covers.
        """
        right = as_texts(self.predict(X)) == as_texts(column_or_1d(y, warn=True))
        return float(np.average(right, weights=sample_weight))

    def save(self, path: str | Path) -> None:
        """Write the fitted model with its receipt to a JSON file; `dpconvex.load` reads it back."""
        from dpconvex.estimators.store import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.schema is None
        tags.input_tags.string = tags.input_tags.categorical = self.schema is not None
        tags.input_tags.allow_nan = self.schema is not None
        return tags
