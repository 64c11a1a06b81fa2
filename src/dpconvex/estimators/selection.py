"""Private selection of settings within one budget: the best of a secret number of private fits.

Each repetition draws a candidate at random, fits it to the training rows with fresh noise, and scores it on held-out
rows, with noise. The number of repetitions is drawn beforehand, all of them are run, and only the best is released.
Proof: docs/proofs/private_selection.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpconvex.algorithms.options import check_choice
from dpconvex.data.arrays import form_of
from dpconvex.data.parts import Part, Parts
from dpconvex.data.sources import Once
from dpconvex.errors import BudgetWarning, DpconvexError, InputError
from dpconvex.estimators.base import PrivateLinearModel, keep_arguments, seed_from, warn_of_selection
from dpconvex.estimators.parts import weighed
from dpconvex.estimators.predictors import PrivateClassifier
from dpconvex.estimators.table import Table as OpenedTable
from dpconvex.estimators.table import Target, declared_digest, number_between
from dpconvex.hints import named
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release
from dpconvex.kernel.profiles import GDP
from dpconvex.plan.plan import Plan, Solution, warn_about_delta
from dpconvex.queries.selection import LOG_LOSS_CAP, Heat, Selection, Table, best_of, heat_of, select
from dpconvex.rounding import round_down
from dpconvex.theorems.numerics.repeated import MOST, SLOPES, BestOf, count_parameter

_TOO_LITTLE = "{} is too small for any candidate: use fewer repetitions, a larger epsilon or delta, or do not tune"
_SCORINGS = ("auto", "accuracy", "log_loss", "squared_error")
# What candidates must share: the budget, the unit of privacy, and the public facts of the table.
_FIXED = (
    "epsilon", "delta", "relation", "rows_per_person", "random_state", "schema", "strict", "classes", "target_range",
    "weight_cap", "n_rows", "dataset",
)  # fmt: skip


class _Candidate(NamedTuple):
    """A candidate: its settings, and the table as opened by its model."""

    params: dict[str, Any]
    model: PrivateLinearModel
    table: OpenedTable


@named
class PrivateSelection(MetaEstimatorMixin, BaseEstimator):
    """The best of several settings of a private model, chosen by private scores, within one budget.

    Selection has a price: each candidate is fitted with much less than the whole budget, and not to all rows. Settings
    fixed beforehand are often better; see the guide on tuning. The running time depends on a secret number: do not
    publish it.

    Parameters
    ----------
    estimator : a private model of this library
        The model to tune. Its own epsilon and delta are not used; its relation, rows per person and schema are.
    grid : dict from parameters to lists of values, or a list of such dicts
        The candidates are all combinations. Parameters about the budget, the people or the table are not allowed.
    repeats : float, default=10
        Mean number of repetitions, above 1. Each draws one candidate at random.
    distribution : {"geometric", "poisson", "logarithmic"}, default="geometric"
        Distribution of the number of repetitions, which is at least 1.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of the whole selection, including the chosen settings.
    holdout : float, default=0.2
        Fraction of the rows on which scores are computed; the models are fitted to the others.
    scoring : {"auto", "accuracy", "log_loss", "squared_error"}, default="auto"
        The score: "auto" is the accuracy for classifiers and the squared error for regressors. The log-loss of a row is
        clipped at 3.
    random_state : int or RandomState, optional
        For tests only, as in the models.

    Attributes
    ----------
    best_estimator_ : the chosen model, fitted, with the receipt of the whole selection
    best_params_ : dict, its settings
    best_score_ : float, its score on the held-out rows, with noise; losses are negative. As the best of several scores
        it is too good on average.
    receipt_ : Receipt

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = 50 + 20 * X[:, 0] + rng.normal(size=5000)
    >>> huber = dc.PrivateHuberRegressor(feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100))
    >>> search = dc.PrivateSelection(huber, {"threshold": [1.0, 5.0, 25.0]}, repeats=5, epsilon=2.0).fit(X, y)
    >>> list(search.best_params_), bool(search.score(X, y) > 0.8)
    (['threshold'], True)
    >>> search.receipt_.epsilon <= 2.0, bool(dc.verify(search.receipt_))
    (True, True)
    """

    def __init__(
        self,
        estimator: Any,
        grid: Any,
        repeats: float = 10.0,
        distribution: str = "geometric",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        holdout: float = 0.2,
        scoring: str = "auto",
        random_state: Any = None,
    ) -> None:
        keep_arguments(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose and fit: one release, charged once to the account of the process.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If rows or parameters are not as required, or `sample_weight` or `groups` are given, which are not
            supported; nothing is charged.
        BudgetError
            If the account of the data set has a limit that this fit would exceed.
        """
        warn_of_selection(type(self).__name__)
        people = X.person if isinstance(X, Parts) else groups
        if sample_weight is not None or people is not None:
            raise InputError("PrivateSelection takes no sample_weight and no groups: declare rows_per_person instead")
        settings = _settings(self.estimator, self.grid)
        scoring = _scoring(self.scoring, self.estimator)
        repeats = Release("repeats", self.distribution, _law(self.distribution, self.repeats), (1,))
        budget = Budget(self.epsilon, self.delta, self.estimator.relation)
        share = number_between(
            self.holdout, 0.0, 1.0, "holdout must lie strictly between 0 and 1: the fraction of the rows to score on"
        )
        candidates = _candidates(self.estimator, settings, X, y)
        rows = candidates[0].table.rows
        n, d, held = rows.n, rows.d, round(share * rows.n)
        if held < 1 or n - held < 2:
            raise InputError(f"holdout = {share:g} of {n} rows leaves too few rows to fit to, or none to score on")
        if scoring == "log_loss" and not all(c.table.target.loss.traits.probabilities for c in candidates):
            raise InputError("scoring = 'log_loss' needs models that predict probabilities; use 'accuracy'")
        warn_about_delta(n, budget)
        try:
            heats, claim = _calibrated(candidates, budget, repeats, n - held, n, d)
        except DpconvexError as error:
            if candidates[0].table.target.read:  # what was read may have decided
                candidates[0].model.set_params(epsilon=self.epsilon, delta=self.delta)._refuse(rows, error)
            raise
        tables = []
        for (_, _, table), (plan, _) in zip(candidates, heats, strict=True):
            target, takes = table.target, getattr(plan.algorithm, "takes", ())
            if table.units.weights is not None and "sample_weight" not in takes:
                raise InputError(f"{type(plan.algorithm).__name__} takes no class_weight: leave one of them out")
            if isinstance(table.rows.X, Parts):
                tables.append(_table_of_parts(plan, weighed(table.rows.X, takes), takes))
            else:
                form_of(rows.X, target.values, plan.problem, n, d)  # before the charge
                tables.append(Table(rows.X, target.values, table.weights_for(takes)))
        names = tuple({name: " ".join(repr(value).split()) for name, value in params.items()} for params in settings)
        winner, receipt = select(
            Selection(
                type(self).__name__, scoring, names, tuple(heats), held, n, d, budget, claim, repeats,
                float(self.repeats),
            ),
            tables,
            rows.dataset,
            seed_from(self.random_state),
            sorted({name for candidate in candidates for name in candidate.table.read}),
            [declared_digest(self.estimator.schema, candidate.table.target.public) for candidate in candidates],
        )  # fmt: skip
        chosen, problem = candidates[winner.candidate], heats[winner.candidate].plan.problem
        model: PrivateLinearModel = chosen.model.set_params(epsilon=self.epsilon, delta=self.delta)
        self.best_params_ = chosen.params
        self.best_score_ = _in_words_of(scoring, 0.5 + winner.noisy / held, chosen.table.target)
        self.best_estimator_ = model._keep(Solution(winner.weights, receipt, problem, {}), chosen.table.target.public)
        self.receipt_ = receipt
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the chosen model."""
        return np.asarray(self._best.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, by the chosen model."""
        return np.asarray(self._best.predict_proba(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the chosen model."""
        return np.asarray(self._best.decision_function(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the chosen model. No guarantee covers the score on the rows of `fit`."""
        return float(self._best.score(X, y, sample_weight))

    def save(self, path: Any) -> None:
        """Write the chosen model, with the receipt of the whole selection, to a file; `dpconvex.load` reads it back."""
        self._best.save(path)

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the chosen model."""
        return np.asarray(self.best_estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of features that `fit` was given."""
        return int(self.best_estimator_.n_features_in_)

    @property
    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for part in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, part, getattr(inner, part))
        return tags


# What is asked for, before the data --------------------------------------------------------------------------------


def _settings(estimator: Any, grid: Any) -> list[dict[str, Any]]:
    if not isinstance(estimator, PrivateLinearModel):
        raise InputError(
            f"estimator must be a private model of dpconvex, got {type(estimator).__name__}: the guarantee of the "
            "selection rests on that of every candidate"
        )
    if estimator.random_state is not None:
        raise InputError(
            "set random_state on PrivateSelection, not on its estimator: every repetition needs fresh noise"
        )
    try:
        settings = list(ParameterGrid(grid))
    except (TypeError, ValueError):
        raise InputError(
            "grid must be a dict from parameters to non-empty lists of values, or a list of them"
        ) from None
    if not any(settings):
        raise InputError("grid is empty: name at least one parameter and its values")
    known = estimator.get_params(deep=False)
    for name in dict.fromkeys(name for one in settings for name in one):
        if name not in known:
            raise InputError(f"grid: {type(estimator).__name__} has no parameter {name!r}; it has {', '.join(known)}")
        if name in _FIXED:
            raise InputError(
                f"grid: {name!r} is about the budget, the people or the table, and has to be the same for all "
                "candidates: set it on the estimator"
            )
    return settings


def _law(distribution: Any, repeats: Any) -> float:
    check_choice("distribution", distribution, SLOPES)
    if isinstance(repeats, bool) or not isinstance(repeats, Real) or not 1.01 <= float(repeats) <= MOST:
        raise InputError(f"repeats must be a number from 1.01 to {MOST:g}, the mean number of repetitions")
    return count_parameter(distribution, float(repeats))


def _scoring(scoring: Any, estimator: PrivateLinearModel) -> str:
    check_choice("scoring", scoring, _SCORINGS)
    own = "accuracy" if isinstance(estimator, PrivateClassifier) else "squared_error"
    if scoring != "auto" and (scoring == "squared_error") != (own == "squared_error"):
        raise InputError(f"scoring = {scoring!r} does not suit {type(estimator).__name__}; use {own!r}")
    return own if scoring == "auto" else scoring


# The candidates ----------------------------------------------------------------------------------------------------


def _candidates(estimator: PrivateLinearModel, settings: list[dict[str, Any]], X: Any, y: Any) -> list[_Candidate]:
    """Open the table for every candidate. Rows are encoded alike for all of them, and kept once."""
    found: list[_Candidate] = []
    for params in settings:
        model = clone(estimator).set_params(**clone(params, safe=False))
        rows, target, units = model._open(X, y)
        if isinstance(rows.X, Parts):
            found.append(_Candidate(params, model, OpenedTable(rows, target, units)))
            continue
        if len(target.values) != rows.n:
            raise InputError(f"X holds {rows.n} rows and y {len(target.values)} targets")
        if found:
            rows = rows._replace(X=found[0].table.rows.X)
        found.append(_Candidate(params, model, OpenedTable(rows, target, units)))
    return found


def _table_of_parts(plan: Plan, parts: Parts, takes: Collection[str]) -> Table:
    """Parts in the form of a candidate, if its algorithm runs on parts."""
    plan.check_takes_parts()
    if parts.once:
        raise InputError("rows that can be read only once cannot be fitted to again and again")
    weights = "sample_weight" in takes and not getattr(plan.algorithm, "streams", False)
    return Table(parts, np.empty(0), None, 1.0 if weights else None)


def _calibrated(
    candidates: Sequence[_Candidate], budget: Budget, repeats: Release, train: int, n: int, d: int
) -> tuple[list[Heat], Claim]:
    """Plans of all candidates, with as much noise as the budget of the selection requires."""
    people = candidates[0].table.rows.rows_per_person
    mu = _gaussian_share(budget, repeats)
    for _ in range(30):
        heats = [_heat(candidate, GDP(mu / people), budget, train, n, d) for candidate in candidates]
        claim = best_of(heats, repeats, people, train, n, d)
        epsilon = claim.epsilon(budget.delta)
        if epsilon <= budget.epsilon:
            return heats, claim
        mu = round_down(mu * 0.999 * max(budget.epsilon / epsilon, 0.25))
    raise InputError(_TOO_LITTLE.format(budget))


def _gaussian_share(budget: Budget, repeats: Release) -> float:
    """The mu at which the best of the repeated mu-GDP runs meets the budget, within a thousandth."""
    low, high = budget.mu * 1e-4, budget.mu
    while high > low * 1.001:
        middle = round_down(math.sqrt(low * high), 6)
        fits = BestOf(GDP(middle), repeats.law, repeats.scale).delta(budget.epsilon) <= budget.delta
        low, high = (middle, high) if fits else (low, middle)
    if low == budget.mu * 1e-4:
        raise InputError(_TOO_LITTLE.format(budget))
    return low


def _heat(candidate: _Candidate, share: GDP, budget: Budget, train: int, n: int, d: int) -> Heat:
    """Plan a candidate and its score, from the number of rows alone."""
    delta = budget.delta / 100.0
    epsilon = share.epsilon(delta)
    if epsilon < 1e-6:
        raise InputError(_TOO_LITTLE.format(budget))
    allowed = Budget(epsilon, delta, budget.relation)
    model = clone(candidate.model).set_params(epsilon=allowed.epsilon, delta=allowed.delta)
    rows, target, units = candidate.table
    of_parts = isinstance(rows.X, Parts)  # of which a plan knows the number of rows
    X = Parts([Part(train, Once(iter(())), "rows")], d=d) if of_parts else np.broadcast_to(0.0, (train, d))
    rows = rows._replace(X=X, rows_per_person=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # the budget of the selection was checked
        plan = model._plan(target.loss, rows, allowed, units)
    return heat_of(plan, n - train)


def _in_words_of(scoring: str, mean: float, target: Target) -> float:
    """A mean of scores from 0 to 1, in the units of the requested score."""
    if scoring == "accuracy":
        return mean
    if scoring == "log_loss":
        return -LOG_LOSS_CAP * (1.0 - mean)
    low, high = target.public["target_range_"]
    return float(-((high - low) ** 2) * (1.0 - mean))
