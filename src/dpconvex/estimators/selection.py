"""Choosing settings by data, within a budget: the best of a secret number of private fits.

A repetition draws one of the candidates at random, fits it on the training rows with a plan of its own and noise of its
own, and scores it on held-out rows, with noise. The number of repetitions is drawn beforehand, all of them are run, and
only the best leaves. Proof: docs/proofs/private_selection.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.arrays import open_rows
from dpconvex.errors import BudgetWarning, InputError
from dpconvex.estimators.base import PrivateClassifier, PrivateLinearModel, seed_from, warn_of_selection
from dpconvex.estimators.table import Opened, Target, Units, declared_digest
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release
from dpconvex.kernel.profiles import GDP
from dpconvex.kernel.receipt import Receipt
from dpconvex.plan.plan import Solution, warn_about_delta
from dpconvex.problem.losses import Logistic, Softmax
from dpconvex.problem.problem import Problem
from dpconvex.queries.selection import LOG_LOSS_CAP, Heat, Selection, Table, Winner, best_of, select
from dpconvex.rounding import round_down, round_up
from dpconvex.theorems import clipped_sum, gaussian
from dpconvex.theorems.numerics.repeated import MOST, SLOPES, BestOf, count_parameter

_TOO_LITTLE = "{} leaves nothing for a candidate: take fewer repetitions, a larger epsilon or delta, or do not tune"
SCORINGS = ("auto", "accuracy", "log_loss", "squared_error")
# What a candidate may not change: the budget, whom it is about, and the public facts of the table.
FIXED = (
    "epsilon", "delta", "relation", "rows_per_person", "random_state", "schema", "strict", "classes", "target_range",
    "weight_cap", "n_rows",
)  # fmt: skip


class Entrant(NamedTuple):
    """A candidate: its settings, and the table as it sees it."""

    params: dict[str, Any]
    model: PrivateLinearModel
    rows: Opened
    target: Target
    units: Units


class PrivateSelection(MetaEstimatorMixin, BaseEstimator):
    """The best of several settings of a private model, chosen by private scores, within one budget.

    It costs: each candidate is fitted with a good deal less than the whole budget, and not on all rows. Settings fixed
    beforehand are often the better choice; see the guide on tuning. How long a fit takes depends on a secret number:
    do not publish it.

    Parameters
    ----------
    estimator : a private model of this library
        What is tuned. Its own epsilon and delta are not used. The relation, the rows of a person and the schema are.
    grid : dict from parameters to lists of values, or a list of such dicts
        The candidates are all combinations. What concerns the budget, the people or the table cannot be among them.
    repeats : float, default=10
        Mean number of repetitions, above 1. Each draws one candidate at random.
    distribution : {"geometric", "poisson", "logarithmic"}, default="geometric"
        Law of the number of repetitions, which is at least 1.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of the whole, the settings included.
    holdout : float, default=0.2
        Part of the rows that scores are computed on; the others are fitted to.
    scoring : {"auto", "accuracy", "log_loss", "squared_error"}, default="auto"
        What is compared: "auto" is the accuracy of classifiers and the squared error of regressors. The log-loss of a
        row is clipped at 3.
    random_state : int or RandomState, optional
        For tests only, as in the models.

    Attributes
    ----------
    best_estimator_ : the chosen model, fitted, with the receipt of the whole
    best_params_ : dict, its settings
    best_score_ : float, its score on the held-out rows, with noise; losses are negative. It was the best of some, so
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
        self.estimator = estimator
        self.grid = grid
        self.repeats = repeats
        self.distribution = distribution
        self.epsilon = epsilon
        self.delta = delta
        self.holdout = holdout
        self.scoring = scoring
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose and fit. The whole is one release, charged once to the account of the process.

        Weights of rows and groups are not taken.
        """
        warn_of_selection(type(self).__name__)
        if sample_weight is not None or groups is not None:
            raise InputError("PrivateSelection takes no sample_weight and no groups: declare rows_per_person instead")
        settings = _candidates(self.estimator, self.grid)
        scoring = _scoring(self.scoring, self.estimator)
        repeats = Release("repeats", self.distribution, _law(self.distribution, self.repeats), (1,))
        budget = Budget(self.epsilon, self.delta, self.estimator.relation)
        share = _share(self.holdout)
        entrants = _opened([_entrant(self.estimator, s, X, y) for s in settings])
        undeclared = {name for e in entrants for part in (e.rows, e.target, e.units) for name in part.read}
        n, d = (int(k) for k in entrants[0].rows.X.shape)
        held = round(share * n)
        if held < 1 or n - held < 2:
            raise InputError(f"holdout = {share:g} of {n} rows leaves too few to fit to, or none to score on")
        _check_losses(scoring, entrants)
        warn_about_delta(n, budget)
        heats, claim = _calibrated(entrants, budget, repeats, n - held, n, d)
        for entrant, heat in zip(entrants, heats, strict=True):
            if entrant.units.weights is not None and "sample_weight" not in getattr(heat.plan.algorithm, "takes", ()):
                raise InputError(f"{type(heat.plan.algorithm).__name__} takes no class_weight: leave one of them out")
            open_rows(entrant.rows.X, entrant.target.values, heat.plan.problem, n, d)  # form, before the charge
        selection = Selection(
            type(self).__name__,
            scoring,
            tuple({k: repr(v) for k, v in e.params.items()} for e in entrants),
            tuple(heats),
            held,
            n,
            d,
            budget,
            claim,
            repeats,
            float(self.repeats),
        )
        tables = [Table(e.rows.X, e.target.values, e.units.weights) for e in entrants]
        declared = [declared_digest(self.estimator.schema, e.target.public) for e in entrants]
        winner, receipt = select(
            selection, tables, entrants[0].rows.dataset, seed_from(self.random_state), sorted(undeclared), declared
        )
        chosen, heat = entrants[winner.candidate], heats[winner.candidate]
        self.best_params_ = chosen.params
        self.best_score_ = _in_words_of(scoring, 0.5 + winner.noisy / held, chosen.target)
        self.best_estimator_ = self._finished(chosen, winner, receipt, heat.plan.problem)
        self.receipt_ = receipt
        return self

    def _finished(self, chosen: Entrant, winner: Winner, receipt: Receipt, problem: Problem) -> PrivateLinearModel:
        model: PrivateLinearModel = chosen.model.set_params(epsilon=self.epsilon, delta=self.delta)
        return model._keep(Solution(winner.weights, receipt, problem, {}), chosen.target.public)

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
        """Score of the chosen model. On the rows of `fit` this is a number that no guarantee covers."""
        return float(self._best.score(X, y, sample_weight))

    def save(self, path: Any) -> None:
        """Write the chosen model with the receipt of the whole to a file, as the model's own `save` does."""
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


def _candidates(estimator: Any, grid: Any) -> list[dict[str, Any]]:
    if not isinstance(estimator, PrivateLinearModel):
        raise InputError(
            f"estimator must be a private model of dpconvex, got {type(estimator).__name__}: the guarantee of the "
            "whole rests on that of every candidate"
        )
    if estimator.random_state is not None:
        raise InputError(
            "set random_state on PrivateSelection, not on its estimator: repetitions need noise of their own"
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
        if name in FIXED:
            raise InputError(
                f"grid: {name!r} is about the budget, the people or the table, and has to be the same for every "
                "candidate; set it beforehand"
            )
    return settings


def _law(distribution: Any, repeats: Any) -> float:
    if not isinstance(distribution, str) or distribution not in SLOPES:
        raise InputError(f"distribution must be one of {', '.join(SLOPES)}, got {distribution!r}")
    if isinstance(repeats, bool) or not isinstance(repeats, Real) or not 1.01 <= float(repeats) <= MOST:
        raise InputError(f"repeats must be a number from 1.01 to {MOST:g}, the mean number of repetitions")
    return count_parameter(distribution, float(repeats))


def _share(holdout: Any) -> float:
    if isinstance(holdout, bool) or not isinstance(holdout, Real) or not 0.0 < float(holdout) < 1.0:
        raise InputError("holdout must lie strictly between 0 and 1: the part of the rows to score on")
    return float(holdout)


def _scoring(scoring: Any, estimator: PrivateLinearModel) -> str:
    if not isinstance(scoring, str) or scoring not in SCORINGS:
        raise InputError(f"scoring must be one of {', '.join(SCORINGS)}, got {scoring!r}")
    own = "accuracy" if isinstance(estimator, PrivateClassifier) else "squared_error"
    if scoring != "auto" and (scoring == "squared_error") != (own == "squared_error"):
        raise InputError(f"scoring = {scoring!r} does not suit {type(estimator).__name__}; take {own!r}")
    return own if scoring == "auto" else scoring


def _check_losses(scoring: str, entrants: Sequence[Entrant]) -> None:
    if scoring == "log_loss" and not all(isinstance(e.target.loss, Logistic | Softmax) for e in entrants):
        raise InputError("scoring = 'log_loss' needs models of probabilities; take 'accuracy'")


# The candidates ----------------------------------------------------------------------------------------------------


def _entrant(estimator: PrivateLinearModel, params: Mapping[str, Any], X: Any, y: Any) -> Entrant:
    model = clone(estimator).set_params(**clone(dict(params), safe=False))
    rows, target, units = model._open(X, y)
    if len(target.values) != rows.n:
        raise InputError(f"X holds {rows.n} rows and y {len(target.values)} targets")
    return Entrant(dict(params), model, rows, target, units)


def _opened(entrants: list[Entrant]) -> list[Entrant]:
    """Rows are encoded alike for all of them: keep them once."""
    return [e._replace(rows=e.rows._replace(X=entrants[0].rows.X)) for e in entrants]


def _calibrated(
    entrants: Sequence[Entrant], budget: Budget, repeats: Release, train: int, n: int, d: int
) -> tuple[list[Heat], Claim]:
    """Plans of all candidates, with as much noise as the budget of the whole takes."""
    people = entrants[0].rows.rows_per_person
    mu = _gaussian_share(budget, repeats)
    for _ in range(30):
        heats = [_heat(e, GDP(mu / people), budget, repeats, train, d) for e in entrants]
        claim = best_of(heats, repeats, people, train, n, d)
        epsilon = claim.epsilon(budget.delta)
        if epsilon <= budget.epsilon:
            return heats, claim
        mu = round_down(mu * 0.999 * max(budget.epsilon / epsilon, 0.25))
    raise InputError(_TOO_LITTLE.format(budget))


def _gaussian_share(budget: Budget, repeats: Release) -> float:
    """The mu at which the best of so many mu-GDP runs keeps to the budget, within a thousandth."""
    low, high = budget.mu * 1e-4, budget.mu
    while high > low * 1.001:
        middle = round_down(math.sqrt(low * high), 6)
        fits = BestOf(GDP(middle), repeats.law, repeats.scale).delta(budget.epsilon) <= budget.delta
        low, high = (middle, high) if fits else (low, middle)
    if low == budget.mu * 1e-4:
        raise InputError(_TOO_LITTLE.format(budget))
    return low


def _heat(entrant: Entrant, share: GDP, budget: Budget, repeats: Release, train: int, d: int) -> Heat:
    """Plan a candidate for rows that need not be there yet."""
    delta = budget.delta / 100.0
    epsilon = share.epsilon(delta)
    if epsilon < 1e-6:
        raise InputError(_TOO_LITTLE.format(budget))
    allowed = Budget(epsilon, delta, budget.relation)
    model = clone(entrant.model).set_params(epsilon=allowed.epsilon, delta=allowed.delta)
    rows = entrant.rows._replace(X=np.broadcast_to(0.0, (train, d)), rows_per_person=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # this budget is ours; that of the whole was looked at
        plan = model._plan(entrant.target.loss, rows, allowed, entrant.units)
    moved = clipped_sum(0.5, budget.relation)
    scale = round_up(moved.value / allowed.mu * (1.0 + 1e-11))
    return Heat(plan, gaussian(moved, Release("score", "gaussian", scale, (1,))))


def _in_words_of(scoring: str, mean: float, target: Target) -> float:
    """A mean of scores from 0 to 1 in the units of what was asked for."""
    if scoring == "accuracy":
        return mean
    if scoring == "log_loss":
        return -LOG_LOSS_CAP * (1.0 - mean)
    low, high = target.public["target_range_"]
    return float(-((high - low) ** 2) * (1.0 - mean))
