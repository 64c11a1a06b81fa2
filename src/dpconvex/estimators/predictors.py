"""What a linear model predicts: one of several classes, or a number within a range."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if

from dpconvex.data.frames import as_texts
from dpconvex.data.schema import Classes, Range, Schema
from dpconvex.errors import InputError, RowError
from dpconvex.estimators.base import PrivateLinearModel, keep_arguments, warn_of_selection
from dpconvex.estimators.table import Declared, Target
from dpconvex.plan.plan import probabilities
from dpconvex.problem.bounds import Bound
from dpconvex.problem.losses import Loss


class PrivateClassifier(ClassifierMixin, PrivateLinearModel):
    """A linear classifier."""

    PUBLIC = ("classes_",)
    _USUAL: ClassVar[dict[str, Any]] = {"classes": (0.0, 1.0)}
    _MULTICLASS: ClassVar[bool] = True  # whether more than two classes are supported
    classes: Any
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
        weight_cap: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """The loss for that many classes."""

    @property
    def _predicts_probabilities(self) -> bool:
        return True

    def _loss_of(self, classes: int) -> Loss:
        if classes != 2 and not self._MULTICLASS:
            # scikit-learn looks for the first words of this message.
            raise InputError(
                f"Only binary classification is supported by {type(self).__name__}, and there are {classes} classes; "
                "PrivateLogisticRegression supports any number"
            )
        return self._loss(classes)

    def loss_for(self, target: Classes | Range | None) -> Loss:
        """Return the loss for declared classes."""
        if not isinstance(target, Classes):
            raise InputError(f"{type(self).__name__} needs to know the classes: declare them as the target of a schema")
        return self._loss_of(len(target.labels))

    def _read_target(self, declared: Declared, X: Any, y: Any, sample_weight: Any = None) -> Target:
        labels, classes, read, known = declared.encode_labels(X, y, sample_weight)
        try:
            loss = self._loss_of(len(classes))
        except InputError as error:
            raise (RowError(str(error)) if read else error) from None
        values = np.where(labels == 1, 1.0, -1.0) if len(classes) == 2 else labels
        return Target(values, loss, {"classes_": classes}, read, known)

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the (encoded) features: one row, or one per class if there are more than two."""
        return np.atleast_2d(self._coef_and_intercept[0])

    @property
    def intercept_(self) -> np.ndarray:
        """Contribution of the constant feature: one number, or one per class if there are more than two."""
        return np.atleast_1d(self._coef_and_intercept[1])

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of the second class, or of each class if there are more than two.

        Rows beyond the bound are scaled back to it, as in `fit`.
        """
        return self._scores(X)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy. Labels are compared as text; a label that is not a class counts as wrong.

        No guarantee covers the score on the rows of `fit`.
        """
        warn_of_selection(type(self).__name__)
        right = as_texts(self.predict(X)) == as_texts(column_or_1d(y, warn=True))
        return float(np.average(right, weights=sample_weight))

    @available_if(lambda self: self._predicts_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, by the link of the fitted loss."""
        scores = self.decision_function(X)  # raises NotFittedError
        found = probabilities(self._problem.loss, scores)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    @available_if(lambda self: self._predicts_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of the probability of each class."""
        scores = self.decision_function(X)
        odds = self._problem.loss.log_odds(scores)  # type: ignore[union-attr]
        return np.asarray(log_softmax(np.column_stack([0.0 * odds, odds]) if odds.ndim == 1 else odds, axis=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._MULTICLASS
        # scikit-learn asks for an accuracy of 0.83 on 300 rows.
        tags.classifier_tags.poor_score = self._POOR_SCORE and self.epsilon < 100.0
        return tags


class PrivateRegressor(RegressorMixin, PrivateLinearModel):
    """A linear regression of a number within a public range.

    The problem that is solved has the range shifted and scaled to [-1, 1].
    """

    PUBLIC = ("target_range_",)
    _USUAL: ClassVar[dict[str, Any]] = {"target_range": (-1.0, 1.0)}
    target_range_: tuple[float, float]

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        target_range: Any = None,
        fit_intercept: bool = True,
        algorithm: Any = "auto",
        relation: str = "replace_one",
        rows_per_person: int = 1,
        weight_cap: float | None = None,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for R^2 above 0.5 on 200 rows of 10 features: too few for this noise.
        tags.regressor_tags.poor_score = self.epsilon < 100.0
        return tags

    @abstractmethod
    def _loss(self, half: float) -> Loss:
        """The loss in units of half the range; `half` is half the range in units of the target."""

    def loss_for(self, target: Classes | Range | None) -> Loss:
        """Return the loss for a declared range."""
        if not isinstance(target, Range):
            raise InputError(f"{type(self).__name__} needs a range of numbers as the target of the schema")
        return self._loss(_middle_and_half(target.low, target.high)[1])

    def _read_target(self, declared: Declared, X: Any, y: Any, sample_weight: Any = None) -> Target:
        values, (low, high), read, known = declared.encode_numbers(X, y, sample_weight)
        middle, half = _middle_and_half(low, high)
        return Target((values - middle) / half, self._loss(half), {"target_range_": (low, high)}, read, known)

    @property
    def _half_range(self) -> float:
        return _middle_and_half(*self.target_range_)[1]

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the (encoded) features, in units of the target."""
        return self._coef_and_intercept[0]

    @property
    def intercept_(self) -> float:
        """Prediction where every feature is 0."""
        return float(_middle_and_half(*self.target_range_)[0] + self._coef_and_intercept[1])

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, clipped to the range of the target. Rows beyond the bound are scaled back to it, as in `fit`."""
        scores = self._scores(X)
        middle, half = _middle_and_half(*self.target_range_)
        return np.asarray(np.clip(middle + half * scores, *self.target_range_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2. No guarantee covers the score on the rows of `fit`."""
        warn_of_selection(type(self).__name__)
        return float(super().score(X, y, sample_weight))


def _middle_and_half(low: float, high: float) -> tuple[float, float]:
    return low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
