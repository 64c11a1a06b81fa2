"""Private evaluation: metrics of a model on people it was not fitted to, with intervals that can be reported.

What is released, what it costs and what the intervals cover is in docs/proofs/evaluation.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import plots
from dpconvex.algorithms.again import plan_again
from dpconvex.data.arrays import open_people
from dpconvex.data.frames import as_texts, column_values, open_table, read_codes, text
from dpconvex.data.parts import Parts
from dpconvex.data.schema import Category, Schema
from dpconvex.errors import InputError, VerificationError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.table import check_confidence
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import normal_name, open_text, read_json
from dpconvex.plan.people import plan_for_people
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem
from dpconvex.queries.estimates import Measured, Metric, Threshold
from dpconvex.queries.evaluation import (
    BY_DEFAULT,
    Bin,
    HeldOut,
    at_thresholds,
    by_subgroup,
    decision,
    estimates,
    gaps,
    offers,
    units,
)
from dpconvex.verify import verify
from dpconvex.words import align, receipt_line

__all__ = ["Evaluation", "evaluate"]

FORMAT = "dpconvex-evaluation/1"
CURVE = (0.02, 0.05, *(k / 10 for k in range(1, 10)))  # thresholds of a pr_auc unless others are named
_COVERS = (
    "Each interval covers the value in the population from which the {n} rows were drawn, independently of each other "
    "and of the fit. It accounts for sampling error and for the noise of this release, and for nothing else."
)
_MOVE = (
    "Predicting {label} above another threshold costs nothing, for the probabilities of a model are public. For a rare "
    "class it does what class weights do, without another fit."
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
    thresholds : tuple of Threshold
        What the model does if it predicts the second class above the probability `at`: the share that is `flagged`,
        `recall`, `precision`, `specificity` and `balanced_accuracy`, if one of them was requested.
    subgroups : dict from names of subgroups to dicts of Metric
        Means and shares in each subgroup, if there are any.
    label : the second class, which recall and precision are about; None for numbers and several classes
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
    label: Any = None
    groups: tuple[str, ...] = ()

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Every metric that was requested."""
        return self._measured(estimates(self.plan, self.released))

    def _measured(self, found: Mapping[str, Measured]) -> dict[str, Metric]:
        unit = units(self.plan.algorithm, self.half_range, self.plan.problem.loss.traits.outputs)  # type: ignore[arg-type]
        return {name: estimate.metric(self.confidence, *unit[name]) for name, estimate in found.items()}

    @cached_property
    def calibration(self) -> tuple[Bin, ...]:
        """Calibration in bins of predicted probability."""
        return gaps(self.plan, self.released, self.confidence)

    @cached_property
    def thresholds(self) -> tuple[Threshold, ...]:
        """What the model does at each threshold."""
        return at_thresholds(self.plan, self.released, self.confidence)

    @cached_property
    def subgroups(self) -> dict[str, dict[str, Metric]]:
        """Metrics by subgroup."""
        found = by_subgroup(self.plan, self.released)
        return {name: self._measured(group) for name, group in zip(self.groups, found, strict=True)}

    def plot(self, ax: Any = None) -> Any:
        """Plot the calibration with its intervals, with matplotlib (extra `plot`); returns the axes.

        Raises
        ------
        InputError
            If "calibration" is not among the metrics that were requested.
        """
        if not self.calibration:
            raise InputError('no calibration was requested: evaluate(..., metrics=["calibration"])')
        bins = [(b.low, b.high, (b.gap.low, b.gap.value, b.gap.high)) for b in self.calibration]
        return plots.calibration(ax, bins, f"outcomes, with {100 * self.confidence:g}% interval")

    def at(self, confidence: float) -> Evaluation:
        """Return the same release with intervals of another confidence; this costs nothing."""
        return replace(self, confidence=check_confidence(confidence))

    def to_dict(self) -> dict[str, Any]:
        """Return a plain form, for a file; None stands for what is unknown or not bounded."""
        return {
            "format": FORMAT,
            "n": self.plan.n,
            "confidence": self.confidence,
            "label": self.label,
            "groups": list(self.groups),
            "half_range": self.half_range,
            "metrics": {name: _plain(metric) for name, metric in self.metrics.items()},
            "calibration": [{**_plain(part), "gap": _plain(part.gap)} for part in self.calibration],
            "thresholds": [
                {"at": row.at, **{name: _plain(part) for name, part in row._asdict().items() if name != "at"}}
                for row in self.thresholds
            ],
            "subgroups": {
                name: {metric: _plain(found) for metric, found in group.items()}
                for name, group in self.subgroups.items()
            },
            "released": self.released.tolist(),
            "receipt": self.receipt.data,
        }

    def save(self, path: str | Path) -> None:
        """Write the evaluation and its receipt to a JSON file."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Evaluation:
        """Read an evaluation that `save` wrote, verify its receipt and compute everything again from what was released.

        Raises
        ------
        VerificationError
            If the file is not an evaluation, was altered, or its receipt does not hold.
        """
        return Evaluation.from_json(open_text(path, "the evaluation", VerificationError))

    @staticmethod
    def from_json(text: str) -> Evaluation:
        """Read an evaluation from text, as `load` does from a file."""
        data = read_json(text, "the evaluation", VerificationError)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise VerificationError(f"not an evaluation: format {FORMAT!r} expected")
        try:
            return _rebuilt(data)
        except VerificationError:
            raise
        except Exception as error:  # whatever a file provokes, it is refused
            raise VerificationError(f"the evaluation cannot be read: {type(error).__name__}") from error

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval"
        head = (interval, "", "noise s.e.", "sampling s.e.")
        blocks = [align([("", "value", *head), *((name, *_cells(m)) for name, m in self.metrics.items())])]
        if self.calibration:
            rows = [(f"{b.low:.1f} to {b.high:.1f}", f"{b.rows:.0f}", *_cells(b.gap)) for b in self.calibration]
            blocks.append(align([("predicted", "rows", "outcome minus it", *head), *rows]))
        if self.thresholds:
            names = Threshold._fields[1:]
            above = [(f"{t.at:g}", *(_short(getattr(t, name)) for name in names)) for t in self.thresholds]
            titles = ("above", *(name.replace("_", " ") for name in names))
            what = "The model" if self.label is None else f"{self.label!r}"
            blocks.append([f"{what} is predicted above a threshold ({interval}):", *align([titles, *above])])
            blocks.append([fill(_MOVE.format(label=repr(self.label)), 100)])
        if self.subgroups:
            shown = tuple(next(iter(self.subgroups.values())))
            parts = [(g, *(_short(found[name]) for name in shown)) for g, found in self.subgroups.items()]
            blocks.append(align([(f"subgroup ({interval})", *shown), *parts]))
        about = receipt_line(repr(self.receipt.sections["dataset"]["name"]), self.receipt)
        blocks.append([fill(_COVERS.format(n=self.plan.n), 100), about])
        return "\n\n".join(map("\n".join, blocks))


def _rebuilt(data: dict[str, Any]) -> Evaluation:
    receipt = Receipt(data["receipt"])
    verify(receipt)
    plan = plan_again(receipt.data["plan"])
    released = np.array(data["released"], dtype=np.float64)
    if not isinstance(plan, Plan) or not isinstance(plan.algorithm, HeldOut) or not receipt.covers(released):
        raise VerificationError("what was released differs from the receipt")
    half, groups = float(data["half_range"]), tuple(data["groups"])
    if len(groups) != plan.algorithm.subgroups or not all(isinstance(name, str) for name in groups):
        raise VerificationError("the subgroups differ from those of the receipt")
    found = Evaluation(plan, released, half, check_confidence(data["confidence"]), receipt, data["label"], groups)
    if json.loads(json.dumps(found.to_dict())) != data:
        raise VerificationError("the metrics differ from what was released")
    return found


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
    thresholds: Sequence[float] | None = None,
    subgroups: str | tuple[Any, Sequence[Any]] | None = None,
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
        the model are clipped to it; those that do not fit count as the first class, or the middle of the range.
    budget : Budget
        The budget of all metrics together, per person in this data set.
    dataset : str
        Name of the data set of these people, for the account. It must differ from that of the fit.
    metrics : names, optional
        For classes, "accuracy", "log_loss" and "brier"; for two classes also "auc", "calibration", "recall",
        "precision", "specificity", "balanced_accuracy" and "pr_auc" (the area under the curve of precision and recall
        through the thresholds). For numbers, "mse", "mae" and "r2". Some need a model that predicts
        probabilities. By default accuracy, log_loss, auc and calibration, or the three for numbers. Each gets an equal
        share of the budget, so request only what you need; those from recall to pr_auc are read from the
        same counts and take one share together.
    confidence : float
        Confidence of each interval by itself.
    least_probability : float
        Smaller probabilities count as this one in the log-loss, which is between 0 and -ln(least_probability).
    thresholds : sequence of float, optional
        Probabilities above which the second class is predicted, fixed beforehand: recall, precision and so on are
        reported at each (`Evaluation.thresholds`). More thresholds make the noise in each a little larger.
    subgroups : name of a column, or pair of values and names, optional
        The public subgroups in which means and shares are measured as well, for half of the share of each metric: a
        category of the schema, or the subgroup of each row and a list of all subgroups. Rows of others count in none.
    rows_per_person : int, optional
        The largest number of rows per person. By default the number on the receipt of the fit.
    people, trained_on : arrays, optional
        Group ids of these rows, and of the rows that the model was fitted to. They are used to check that nobody is in
        both and that nobody has more rows here than `rows_per_person`, and for nothing else. What the check finds is
        refused after the charge.
    seed : int, optional
        For tests only: reproducible noise, a warning, and a receipt that says "not private".

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        If shapes, types or parameters are not as required; nothing is charged. Wrong columns raise the `ValueError` of
        scikit-learn.
    RowError
        If rows (without a schema) hold entries that are not finite, or `people` are not as they should be; nothing is
        released, and the evaluation stays charged.
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
    names = _names(metrics, offers(subject.problem.loss))
    points = _thresholds(thresholds, names, subject.problem.loss)
    groups, members = _subgroups(model, X, subgroups)
    algorithm = HeldOut(tuple(subject.weights.ravel().tolist()), names, least_probability, points, len(groups))
    d = subject.weights.shape[-1] - (1 if subject.problem.intercept else 0)
    rows = _rows_per_person(rows_per_person, subject.receipt)

    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a dpconvex.Budget(epsilon, delta), got {type(budget).__name__}")
    plan = plan_for_people(algorithm, subject.problem, subject.n, d, budget, rows)
    if wrong := _wrong_people(people, trained_on, subject.n, rows):
        plan.refuse(wrong, dataset=dataset, seed=seed)
    declared = subject.receipt.sections["dataset"]["declared"]
    found = plan.run(subject.X, subject.y, subgroups=members, dataset=dataset, seed=seed, declared=declared)
    return Evaluation(plan, found.weights, subject.half_range, confidence, found.receipt, subject.label, groups)


class _Subject(NamedTuple):
    """Weights and their problem, with rows and labels in the form of the problem."""

    problem: Problem
    weights: np.ndarray
    receipt: Receipt
    X: Any
    y: Any
    n: int
    half_range: float
    label: Any = None


def _open(model: object, X: Any, y: Any) -> _Subject:
    if isinstance(model, PrivateLinearModel):
        check_is_fitted(model)
        receipt = model.receipt_
        rows, target, _ = model._reopen(X, y)
        values = None if isinstance(rows.X, Parts) else target.values
        classes: Sequence[Any] = getattr(model, "classes_", ())
        return _Subject(
            receipt.problem, model.weights_, receipt, rows.X, values, rows.n, model._half_range,
            classes[1].item() if len(classes) == 2 else None,
        )  # fmt: skip
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
        return tuple(name for name in offered if name in BY_DEFAULT)
    names = (metrics,) if isinstance(metrics, str) else metrics
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"metrics must be a list of names; available here are {', '.join(offered)}")
    return tuple(names)


def _thresholds(given: Any, names: tuple[str, ...], loss: Loss) -> tuple[float, ...]:
    """The thresholds named, or else the usual ones, and the one at which the model decides."""
    if given is None:
        given = CURVE if "pr_auc" in names else ()
    if isinstance(given, Real):
        given = (given,)
    if not isinstance(given, Sequence | np.ndarray) or not all(isinstance(t, Real) for t in given):
        raise InputError("thresholds must be a list of numbers")
    return tuple(sorted({*map(float, given), decision(loss)}))


def _subgroups(model: Any, X: Any, given: Any) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Names of the subgroups, and the number of that of each row, -1 for none of them."""
    if given is None:
        return (), None
    if isinstance(given, str):
        schema = getattr(model, "schema", None)
        column = schema.columns.get(given) if isinstance(schema, Schema) else None
        if not isinstance(schema, Schema) or not isinstance(column, Category):
            raise InputError(
                f"subgroups: {given!r} is not a category of the schema; give values and a list of subgroups"
            )
        names, values = column.categories, open_table(X, list(schema.columns)).column(given)
    elif isinstance(given, tuple) and len(given) == 2 and not isinstance(given[1], str):
        values, names = column_values("subgroups", given[0]), tuple(map(text, given[1]))
    else:
        raise InputError(
            "subgroups must be the name of a column, or a pair: the subgroup of each row, and all subgroups"
        )
    if not names or len(set(names)) < len(names):
        raise InputError("subgroups must name at least one, all different as text")
    return names, np.maximum(read_codes(values, names), -1)


def _rows_per_person(given: int | None, receipt: Receipt) -> int:
    unit = receipt.sections["dataset"]["unit"] if given is None else given
    if unit == PERSON:
        raise InputError(
            "the model protects all rows of a person, whatever their number, but an evaluation needs a limit: declare "
            "the largest number of rows per person with rows_per_person"
        )
    return unit


def _wrong_people(people: Any, trained_on: Any, n: int, rows_per_person: int) -> str:
    """What is wrong with the people, if anything: the model was fitted to them, or they have too many rows."""
    if people is None and trained_on is None:
        return ""
    if people is None or trained_on is None:
        raise InputError("people and trained_on go together: the group ids of these rows, and of the rows of the fit")
    numbers, known = open_people(people, n)
    if not known.all():
        return "people holds missing ids, and every row is somebody's"
    if np.bincount(numbers).max() > rows_per_person:
        return f"by `people`, somebody has more than {rows_per_person} of the rows: declare a larger rows_per_person"
    if not set(as_texts(np.asarray(people))).isdisjoint(as_texts(np.ravel(trained_on))):
        return (
            "some of the people are in trained_on as well: leave them out, for rows of the fit would flatter the model"
        )
    return ""


def _cells(metric: Metric) -> tuple[str, ...]:
    return tuple(f"{number:.4g}" for number in metric)


def _short(metric: Metric) -> str:
    return f"{metric.value:.3f} [{metric.low:.3f}, {metric.high:.3f}]"


def _plain(numbers: Any) -> dict[str, Any]:
    return {
        name: number if isinstance(number, float) and math.isfinite(number) else None
        for name, number in numbers._asdict().items()
    }
