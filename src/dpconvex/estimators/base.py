"""What the private linear models share: one signature, one way from a table to a release, one file format.

A model says how its target is read (`_read_target`); everything else is here and in `fitting`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.frames import as_texts
from dpconvex.data.schema import Classes, Range, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.fitting import (
    Opened,
    Units,
    declared_digest,
    encode_labels,
    encode_targets,
    encoded,
    open_features,
    open_units,
    plan_fit,
    seed_from,
    warn_of_selection,
)
from dpconvex.kernel.budget import Budget
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.bounds import Bound
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem
from dpconvex.sums.scores import score_rows

if TYPE_CHECKING:
    from dpconvex.estimators.inference import NoiseReport

_BUDGET = """\
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of one call of `fit`. Keep delta well below one over the number of rows.
    schema : Schema, optional
        The public facts of a table. With it, raw frames go straight in: text, dates, missing values. It also declares
        the target, the bound and the rows a person has, and names the data set in the account of the process.
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on a row, a float being its l2 norm. Rows beyond it are brought back. Not with a schema, which implies it.
        If neither is given, the longest row is read from the data, with a `PrivacyLeakWarning`.
"""
_CLASSES = """\
    classes : sequence of labels, optional
        Every label there can be. If neither they nor a schema are given, they are read from `y`, with a warning.
"""
_RANGE = """\
    target_range : pair of float, optional
        The least and the largest target there can be; others are clipped. If neither it nor a schema is given, it is
        read from `y`, with a warning.
"""
_OPTIONS = """\
    fit_intercept : bool, default=True
        Whether to add a constant feature. It counts in the bound of a row.
    algorithm : "auto", the name of an algorithm or an instance, default="auto"
        "auto" asks `dpconvex.choose`.
    relation : {"replace_one", "zero_out"}, default="replace_one"
        What a neighbouring data set is.
    rows_per_person : int, default=1
        The most rows that one person has; the guarantee is then about all of them together.
"""
_WEIGHT_CAP = """\
    weight_cap : float, optional
        The most that a row may count; larger values in `sample_weight` are clipped. Noise is in proportion to it. If
        weights are given and it is not, the largest is read from the data, with a warning.
"""
_CLASS_WEIGHT = """\
    class_weight : dict from labels to numbers, optional
        How much the rows of each class count, 1 for those not named. Declared, never counted from the data.
"""
_LAST = """\
    random_state : int or RandomState, optional
        For tests only. None takes cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
    strict : bool, default=False
        Refuse to read anything from the data that was not declared.
"""


def documented(model: type[Any]) -> type[Any]:
    """Write the parameters that every model has where its docstring says {shared}."""
    classifier = issubclass(model, PrivateClassifier)
    own = inspect.signature(model).parameters
    weights = (_WEIGHT_CAP if "weight_cap" in own else "") + (_CLASS_WEIGHT if "class_weight" in own else "")
    shared = _BUDGET + (_CLASSES if classifier else _RANGE) + _OPTIONS + weights + _LAST
    model.__doc__ = str(model.__doc__).replace("    {shared}\n", shared)
    return model


class Target(NamedTuple):
    """What is fitted: one number a record, the loss, and the public facts that predictions need."""

    values: np.ndarray
    loss: Loss
    public: dict[str, Any]


class PrivateLinearModel(BaseEstimator, ABC):
    """A linear model that protects the people it was fitted on."""

    PUBLIC: ClassVar[tuple[str, ...]] = ()  # public facts of the target, as attributes of a fitted model
    weights_: np.ndarray

    @abstractmethod
    def _read_target(self, X: Any, y: Any, sample_weight: Any, undeclared: list[str]) -> Target:
        """Read the target of rows, off a frame or off y; what had to be found out joins `undeclared`."""

    @abstractmethod
    def loss_for(self, target: Classes | Range | None) -> Loss:
        """The loss that a declared target calls for."""

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        warn_of_selection(self)
        budget = Budget(self.epsilon, self.delta, self.relation)
        undeclared: list[str] = []
        rows = open_features(self, X, y, sample_weight, undeclared)
        target = self._read_target(X, y, sample_weight, undeclared)
        units = open_units(self, sample_weight, groups, rows, target, undeclared)
        plan = self._plan(target.loss, rows, budget, units)
        if groups is not None and units.people is None and "sample_weight" not in getattr(plan.algorithm, "takes", ()):
            raise InputError(
                f"{type(plan.algorithm).__name__} cannot leave out the later rows of people who have too many: give it "
                f"at most {rows.rows_per_person} rows of each and no groups, or name another algorithm (PoissonSGD)"
            )
        solution = plan.run(
            rows.X,
            target.values,
            sample_weight=units.weights,
            groups=units.people,
            dataset=rows.dataset,
            seed=seed_from(self.random_state),
            undeclared=undeclared,
            declared=declared_digest(self.schema, target.public),
        )
        return self._keep(solution, target.public)

    def _plan(self, loss: Loss, rows: Opened, budget: Budget, units: Units) -> Plan:
        return plan_fit(self, loss, rows, budget, units.weighted, units.people is not None)

    def _keep(self, solution: Solution, public: Mapping[str, Any]) -> Self:
        """Keep what was released, and the public facts of the target."""
        for name, fact in public.items():
            setattr(self, name, fact)
        self.weights_ = solution.weights
        self.receipt_ = solution.receipt
        self.__dict__.pop("moments_", None)  # of an earlier fit
        if solution.receipt.sections["plan"]["algorithm"]["name"] == "SufficientStatistics":
            self.moments_ = solution.iterates  # released too, and what `noise_report` needs
        return self

    def _constant(self, bound: Bound, constant: float) -> float:
        """The constant feature, given the bound on a row and what suits its length."""
        return constant

    def _domain(self, bound: Bound, constant: float) -> Domain:
        """Where weights may lie, given the bound on a row and the constant feature."""
        return Everywhere()

    @property
    def _problem(self) -> Problem:
        return self.receipt_.problem

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return score_rows(encoded(self, X), self.weights_, self._problem)

    def noise_report(
        self, X: Any = None, y: Any = None, budget: Budget | None = None, sample_weight: Any = None, groups: Any = None
    ) -> NoiseReport:
        """Report how far the noise may have moved the coefficients: standard errors, intervals, and a table.

        It is about the noise of the mechanism and says nothing of sampling error. Most reports follow from what was
        released already, need no data and cost nothing. After `ObjectivePerturbation` the report takes a release of its
        own, the Hessian of the objective with noise, which is charged to the account like any other.

        Parameters
        ----------
        X, y, sample_weight, groups : what `fit` was given
            Only needed after `ObjectivePerturbation`.
        budget : Budget
            What that release may cost. A part of what the fit cost will do.

        Returns
        -------
        NoiseReport
        """
        from dpconvex.estimators.inference import noise_report

        return noise_report(self, X, y, budget, sample_weight, groups)

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


class Weighted(PrivateLinearModel):
    """A model whose rows may count differently."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to rows and targets. With a schema, `y` may stay in the frame, under the name of the target.

        Every call is a release and is charged to the account of the process (`dpconvex.account`).

        Parameters
        ----------
        X, y : rows and targets
        sample_weight : array of shape (n,), optional
            How much each row counts, up to `weight_cap`.
        groups : array of shape (n,), optional
            Whose each row is: the guarantee is then about people, whatever number of rows they have. If
            `rows_per_person` is declared, it is about that many rows of a person, later rows of people who have more
            are left out, and whose each row is counts as public.
        """
        return self._fit(X, y, sample_weight, groups)


class PrivateClassifier(ClassifierMixin, Weighted):
    """A linear model of classes."""

    PUBLIC = ("classes_",)
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
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.feature_bound = feature_bound
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.relation = relation
        self.rows_per_person = rows_per_person
        self.weight_cap = weight_cap
        self.random_state = random_state
        self.strict = strict
        self.classes = classes
        self.class_weight = class_weight

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """The loss for that many classes."""

    def loss_for(self, target: Classes | Range | None) -> Loss:
        """The loss that declared classes call for."""
        if not isinstance(target, Classes):
            raise InputError(f"{type(self).__name__} needs to know the classes: declare them as the target of a schema")
        return self._loss(len(target.labels))

    def _read_target(self, X: Any, y: Any, sample_weight: Any, undeclared: list[str]) -> Target:
        labels, classes = encode_labels(self, X, y, sample_weight, undeclared)
        loss = self._loss(len(classes))
        values = np.where(labels == 1, 1.0, -1.0) if len(classes) == 2 else labels
        return Target(values, loss, {"classes_": classes})

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

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of the second class, or of each class if there are more than two.

        Rows are brought within the bound, as in `fit`.
        """
        return self._scores(X)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels are compared as text; one that is no class counts as wrong.

        On the rows of `fit` this is a number that no guarantee covers.
        """
        warn_of_selection(self)
        right = as_texts(self.predict(X)) == as_texts(column_or_1d(y, warn=True))
        return float(np.average(right, weights=sample_weight))


class PrivateRegressor(RegressorMixin, Weighted):
    """A linear model of a number within a public range.

    The middle of the range is 0 and its ends are -1 and 1 in the problem that is solved.
    """

    PUBLIC = ("target_range_",)
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
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.feature_bound = feature_bound
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.relation = relation
        self.rows_per_person = rows_per_person
        self.weight_cap = weight_cap
        self.random_state = random_state
        self.strict = strict
        self.target_range = target_range

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for R^2 above 0.5 on 200 rows of 10 features: too few for this noise.
        tags.regressor_tags.poor_score = self.epsilon < 100.0
        return tags

    @abstractmethod
    def _loss(self, half: float) -> Loss:
        """The loss in units of half the range, which is given in units of the target."""

    def loss_for(self, target: Classes | Range | None) -> Loss:
        """The loss that a declared range calls for."""
        if not isinstance(target, Range):
            raise InputError(f"{type(self).__name__} needs a range of numbers as the target of the schema")
        return self._loss(_middle_and_half(target.low, target.high)[1])

    def _read_target(self, X: Any, y: Any, sample_weight: Any, undeclared: list[str]) -> Target:
        values, (low, high) = encode_targets(self, X, y, sample_weight, undeclared)
        middle, half = _middle_and_half(low, high)
        return Target((values - middle) / half, self._loss(half), {"target_range_": (low, high)})

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the (encoded) features, in units of the target."""
        weights = self.weights_[:-1] if self._problem.intercept else self.weights_
        return _middle_and_half(*self.target_range_)[1] * weights

    @property
    def intercept_(self) -> float:
        """Prediction where every feature is 0."""
        middle, half = _middle_and_half(*self.target_range_)
        constant = self._problem.intercept
        return float(middle + half * constant * self.weights_[-1]) if constant else middle

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, within the range of the target. Rows are brought within the bound, as in `fit`."""
        scores = self._scores(X)
        middle, half = _middle_and_half(*self.target_range_)
        return np.asarray(np.clip(middle + half * scores, *self.target_range_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2. On the rows of `fit` this is a number that no guarantee covers."""
        warn_of_selection(self)
        return float(super().score(X, y, sample_weight))


def _middle_and_half(low: float, high: float) -> tuple[float, float]:
    return low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
