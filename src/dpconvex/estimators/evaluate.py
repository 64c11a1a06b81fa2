"""Private evaluation: metrics of a model on people it was not fitted to, with intervals that can be reported.

What is released, what it costs and what the intervals cover is in docs/proofs/evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex.data.arrays import open_people
from dpconvex.data.frames import as_texts
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.table import check_confidence
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import normal_name
from dpconvex.plan.people import plan_for_people
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.problem import Problem
from dpconvex.queries.evaluation import Bin, HeldOut, Metric, estimates, gaps, offers, units
from dpconvex.words import align, receipt_line

__all__ = ["Evaluation", "evaluate"]

_COVERS = (
    "Each interval covers the value in the population from which the {n} rows were drawn, independently of each other "
    "and of the fit. It accounts for sampling error and for the noise of this release, and for nothing else."
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics on people that a model was not fitted to; `print` shows them as a table.

    Attributes
    ----------
    metrics : dict from names to Metric
        `value`, an interval from `low` to `high` that accounts for noise and sampling error, and the standard errors
        `noise_se` and `sampling_se`, which tell the two apart.
        "calibration" is the mean of outcome minus predicted probability.
    calibration : tuple of Bin
        The number of `rows` and the `gap` in bins of predicted probability from `low` to `high`, if requested.
    confidence : float
    receipt : Receipt
    released : array, the noisy sums from which everything was computed
    plan : Plan

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(10_000, 2))
    >>> y = np.where(X[:, 0] > 0.5 * rng.logistic(size=10_000), "yes", "no")
    >>> model = dc.PrivateLogisticRegression(1.0, feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"])
    >>> model = model.fit(X[:5000], y[:5000])
    >>> found = dc.evaluate(model, X[5000:], y[5000:], budget=dc.Budget(1.0, 1e-6), dataset="the other half")
    >>> auc = found.metrics["auc"]
    >>> bool(0.6 < auc.low < auc.value < auc.high < 0.95), found.receipt.epsilon <= 1.0
    (True, True)
    >>> bool(found.at(0.5).metrics["auc"].low > auc.low)  # another confidence costs nothing
    True
    """

    plan: Plan
    released: np.ndarray
    half_range: float
    confidence: float
    receipt: Receipt

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Every metric that was requested."""
        unit = units(self.plan.algorithm, self.half_range)  # type: ignore[arg-type]
        found = estimates(self.plan, self.released)
        return {name: estimate.metric(self.confidence, *unit[name]) for name, estimate in found.items()}

    @cached_property
    def calibration(self) -> tuple[Bin, ...]:
        """Calibration in bins of predicted probability."""
        return gaps(self.plan, self.released, self.confidence)

    def at(self, confidence: float) -> Evaluation:
        """Return the same release with intervals of another confidence; this costs nothing."""
        return replace(self, confidence=check_confidence(confidence))

    def to_dict(self) -> dict[str, Any]:
        """Return a plain form, for a file; None stands for what is unknown or not bounded."""
        return {
            "n": self.plan.n,
            "confidence": self.confidence,
            "metrics": {name: _plain(metric) for name, metric in self.metrics.items()},
            "calibration": [{**_plain(part), "gap": _plain(part.gap)} for part in self.calibration],
            "released": self.released.tolist(),
            "receipt": self.receipt.data,
        }

    def __str__(self) -> str:
        head = (f"{100 * self.confidence:g}% interval", "", "noise s.e.", "sampling s.e.")
        blocks = [align([("", "value", *head), *((name, *_cells(m)) for name, m in self.metrics.items())])]
        if self.calibration:
            rows = [(f"{b.low:.1f} to {b.high:.1f}", f"{b.rows:.0f}", *_cells(b.gap)) for b in self.calibration]
            blocks.append(align([("predicted", "rows", "outcome minus it", *head), *rows]))
        about = receipt_line(repr(self.receipt.sections["dataset"]["name"]), self.receipt)
        blocks.append([fill(_COVERS.format(n=self.plan.n), 100), about])
        return "\n\n".join(map("\n".join, blocks))


def evaluate(
    model: PrivateLinearModel | Solution,
    X: Any,
    y: Any = None,
    *,
    budget: Budget,
    dataset: str,
    metrics: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    least_probability: float = 0.01,
    rows_per_person: int | None = None,
    people: Any = None,
    trained_on: Any = None,
    seed: int | None = None,
) -> Evaluation:
    """Measure a model on people it was not fitted to, with privacy for these people.

    One release, charged to the account of `dataset` like a fit. It costs the people that the model was fitted to
    nothing.

    Parameters
    ----------
    model : a fitted estimator of this library, or a `Solution`
    X, y : rows and targets
        In the form `fit` (or `Plan.run`) takes. With a schema, `y` may stay in the frame. Targets beyond the range of
        the model are clipped to it.
    budget : Budget
        The budget of all metrics together, per person in this data set.
    dataset : str
        Name of the data set of these people, for the account. It must differ from that of the fit.
    metrics : names, optional
        For classes, "accuracy" and "log_loss", and for two classes also "auc" and "calibration"; "log_loss" and
        "calibration" need a model that predicts probabilities. For numbers, "mse", "mae" and "r2". By default all that
        are available. Each gets an equal share of the budget, so request only what you need.
    confidence : float
        Confidence of each interval by itself.
    least_probability : float
        Smaller probabilities count as this one in the log-loss, which is between 0 and -ln(least_probability).
    rows_per_person : int, optional
        The largest number of rows per person. By default the number on the receipt of the fit.
    people, trained_on : arrays, optional
        Group ids of these rows, and of the rows that the model was fitted to. They are used to check that nobody is in
        both and that nobody has more rows here than `rows_per_person`, and for nothing else.
    seed : int, optional
        For tests only: reproducible noise, a warning, and a receipt that says "not private".

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        If rows or parameters are not as required; nothing is charged. Wrong columns raise the `ValueError` of
        scikit-learn.
    BudgetError
        If the account of the data set has a limit that this release would exceed.
    """
    subject = _open(model, X, y)
    confidence = check_confidence(confidence)
    if normal_name(dataset, "dataset") == normal_name(subject.receipt.sections["dataset"]["name"], "dataset"):
        raise InputError(
            f"the model was fitted to the data set {dataset!r}: its rows would flatter the model, and its people would "
            "be charged again. Evaluate on held-out people, and name the data set of the held-out people"
        )
    offered = offers(subject.problem.loss)
    algorithm = HeldOut(tuple(subject.weights.ravel().tolist()), _names(metrics, offered), least_probability)
    d = subject.weights.shape[-1] - (1 if subject.problem.intercept else 0)
    rows = _rows_per_person(rows_per_person, subject.receipt)

    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a dpconvex.Budget, got {type(budget).__name__}")
    plan = plan_for_people(algorithm, subject.problem, subject.n, d, budget, rows)
    _check_people(people, trained_on, subject.n, rows)
    declared = subject.receipt.sections["dataset"]["declared"]
    found = plan.run(subject.X, subject.y, dataset=dataset, seed=seed, declared=declared)
    return Evaluation(plan, found.weights, subject.half_range, confidence, found.receipt)


class _Subject(NamedTuple):
    """Weights and their problem, with rows and labels in the form of the problem."""

    problem: Problem
    weights: np.ndarray
    receipt: Receipt
    X: Any
    y: Any
    n: int
    half_range: float


def _open(model: object, X: Any, y: Any) -> _Subject:
    if isinstance(model, PrivateLinearModel):
        check_is_fitted(model)
        receipt = model.receipt_
        rows, target, _ = model._reopen(X, y)
        values = None if isinstance(rows.X, Parts) else target.values
        return _Subject(receipt.problem, model.weights_, receipt, rows.X, values, rows.n, model._half_range)
    if isinstance(model, Solution):
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        half = model.problem.loss.traits.target
        n = X.shape[0] if len(X.shape) == 2 else 0
        return _Subject(model.problem, model.weights, model.receipt, X, y, n, half)
    raise InputError(
        f"evaluate takes a fitted estimator or a Solution of this library, got {type(model).__name__}: another model "
        "might use one person's row in the prediction for another"
    )


def _names(metrics: Any, offered: tuple[str, ...]) -> tuple[str, ...]:
    if metrics is None:
        return offered
    names = (metrics,) if isinstance(metrics, str) else metrics
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"metrics must be a list of names; available here are {', '.join(offered)}")
    return tuple(names)


def _rows_per_person(given: int | None, receipt: Receipt) -> int:
    unit = receipt.sections["dataset"]["unit"] if given is None else given
    if unit == PERSON:
        raise InputError(
            "the model protects all rows of a person, whatever their number, but an evaluation needs a limit: declare "
            "the largest number of rows per person with rows_per_person"
        )
    return unit


def _check_people(people: Any, trained_on: Any, n: int, rows_per_person: int) -> None:
    """Refuse people that the model was fitted to, and people with more rows than the plan is for."""
    if people is None and trained_on is None:
        return
    if people is None or trained_on is None:
        raise InputError("people and trained_on go together: the group ids of these rows, and of the rows of the fit")
    if np.bincount(open_people(people, n)).max() > rows_per_person:
        raise InputError(
            f"by `people`, somebody has more than {rows_per_person} of the rows: declare a larger rows_per_person"
        )
    if not set(as_texts(np.asarray(people))).isdisjoint(as_texts(np.ravel(trained_on))):
        raise InputError(
            "some of the people are in trained_on as well: leave them out, for rows of the fit would flatter the model"
        )


def _cells(metric: Metric) -> tuple[str, ...]:
    return tuple(f"{number:.4g}" for number in metric)


def _plain(numbers: Any) -> dict[str, Any]:
    return {
        name: number if isinstance(number, float) and math.isfinite(number) else None
        for name, number in numbers._asdict().items()
    }
