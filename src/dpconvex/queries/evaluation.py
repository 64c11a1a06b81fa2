"""HeldOut: metrics of public weights on people they were not fitted to, from sums released with noise.

It fits nothing and is not in the registry; `dpconvex.evaluate` is its interface. Each metric is a mean, or a quotient
of noisy sums; enough is released beside it to estimate its sampling error. Proof: docs/proofs/evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    ONE_RELATION,
    SQUARED,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
)
from dpconvex.algorithms.base import Algorithm
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plain import whole
from dpconvex.plan.plan import Plan, check_public
from dpconvex.plan.port import NoisePort
from dpconvex.problem.facts import Fact
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem
from dpconvex.queries.estimates import Estimate, Measured, Metric, Threshold, counted, threshold
from dpconvex.queries.records import BINS, Cells, ScoreCounts, Scored, rank_sums
from dpconvex.rounding import round_up
from dpconvex.theorems import compose, computed_sum, gaussian, post_process
from dpconvex.theorems.evaluation import (
    CLASS_FACTOR,
    COUNT_FACTOR,
    SPREAD_FACTOR,
    binned_sums,
    bounded_sums,
    cell_counts,
    grouped_sums,
    ranking_sums,
)

__all__ = ["HeldOut"]

_LARGEST = 1e150  # a weight: scores of bounded rows cannot overflow
_STEEPEST = 1e6  # 1 - R^2 that the spread of an R^2 is computed with
_CLASSES = ("accuracy", "log_loss", "brier")
_PAIRS = ("auc", "calibration")  # of two classes
_COUNTED = ("recall", "precision", "specificity", "balanced_accuracy", "pr_auc")  # of two, from one release
_NUMBERS = ("mse", "mae", "r2")
METRICS = _CLASSES + _PAIRS + _COUNTED + _NUMBERS
BY_DEFAULT = ("accuracy", "log_loss", "auc", "calibration", *_NUMBERS)
_MEANS = ("accuracy", "log_loss", "brier", "calibration", "mse", "mae")  # of something within [-1, 1], one a record
_PROBABILITIES = ("log_loss", "brier", "calibration", "pr_auc")
MOST_GROUPS = 1000


class Bin(NamedTuple):
    """Rows with predicted probability from `low` to `high`: their number, and outcomes minus predictions."""

    low: float
    high: float
    rows: float
    gap: Metric


@dataclass(frozen=True)
class HeldOut(Algorithm):
    """Metrics of public weights, on rows to which they were not fitted.

    Running the plan gives a solution whose `weights` are the noisy sums, one release after the other; `estimates`
    reads them.

    Parameters
    ----------
    at : tuple of float
        The weights, row by row if there are several rows. They are on the receipt.
    metrics : tuple of str
        Some of `METRICS`, which share the budget; those that follow from the same counts take one share together.
    least_probability : float
        Smaller probabilities count as this one in the log-loss, which is unbounded otherwise.
    thresholds : tuple of float
        Probabilities above which the second class is predicted, ascending, for metrics of counts; 0.5, at which models
        decide, is one of them. Scores, and 0, for losses without probabilities.
    subgroups : int
        Number of public groups in which means and counts are released as well, for half of what they get.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> from dpconvex.queries.evaluation import HeldOut, estimates
    >>> X = np.array([[1.0], [-1.0]] * 5000)
    >>> y = np.where(np.arange(10_000) % 10 < 8, X[:, 0], -X[:, 0])  # eight in ten are predicted right
    >>> plan = HeldOut((1.0,), ("accuracy",)).plan(dc.Problem(dc.losses.Logistic()), n=10_000, d=1,
    ...     budget=dc.Budget(1.0, 1e-6))
    >>> found = plan.run(X, y, dataset="held out")
    >>> accuracy = estimates(plan, found.weights)["accuracy"].metric(0.95, 0.5, 0.5)
    >>> bool(0.75 < accuracy.low < accuracy.value < accuracy.high < 0.85), bool(dc.verify(found.receipt))
    (True, True)
    """

    released = "the noisy sums that metrics of a model are computed from"
    enables = "the metrics, intervals of any confidence"

    at: tuple[float, ...]
    metrics: tuple[str, ...]
    least_probability: float = 0.01
    thresholds: tuple[float, ...] = (0.5,)
    subgroups: int = 0

    takes = frozenset({"subgroups"})

    def __post_init__(self) -> None:
        if not isinstance(self.at, tuple) or not all(isinstance(w, float) and abs(w) <= _LARGEST for w in self.at):
            raise InputError(f"at must be a tuple of floats within {_LARGEST:g}, the weights to evaluate")
        if not isinstance(self.metrics, tuple) or not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise InputError("metrics must be a tuple of names, at least one and each once")
        if unknown := [name for name in self.metrics if name not in METRICS]:
            raise InputError(f"unknown metric {unknown[0]!r}; known are {', '.join(METRICS)}")
        floor = self.least_probability
        if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0.0 < floor < 1.0:
            raise InputError(
                "least_probability must lie strictly between 0 and 1: without it one record could add any amount to "
                "the log-loss, and no noise would hide it"
            )
        points = self.thresholds
        if not isinstance(points, tuple) or not all(isinstance(t, float) and math.isfinite(t) for t in points):
            raise InputError("thresholds must be a tuple of finite floats")
        if not points or list(points) != sorted(set(points)):
            raise InputError("thresholds must be ascending, at least one and each once")
        whole(self.subgroups, "subgroups", 0, MOST_GROUPS)

    @property
    def families(self) -> tuple[str, ...]:
        """The metrics, those that are read from the same counts as one."""
        return tuple(dict.fromkeys("counts" if name in _COUNTED else name for name in self.metrics))

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Plan the noise from public facts; every metric gets an equal share of the budget."""
        check_public(n, d, budget)
        n, d = int(n), int(d)
        if math.prod(problem.weight_shape(d)) != len(self.at):
            raise InputError(f"at holds {len(self.at)} weights, and the problem has {problem.weight_shape(d)}")
        offered = offers(problem.loss)
        for name in self.metrics:
            if name not in offered:
                raise InputError(f"{name} {_why_not(name, problem.loss)}; available here are {', '.join(offered)}")
        if "counts" in self.families:
            self._check_thresholds(problem.loss)
        claims: list[Claim] = []
        for family in self.families:
            for part in self._parts(family, budget.relation):
                mu = budget.mu * math.sqrt(part.share / len(self.families))
                moved = computed_sum(part.moved, n, len(self.at))
                scale = round_up(moved.value / mu * (1.0 + 5e-11))
                claims.append(gaussian(moved, Release(part.name, "gaussian", scale, part.shape, grid=grid_of(scale))))
        return Plan(
            self, problem, n, d, budget, post_process(compose(claims), "estimates and intervals"), (), n,
            utility="intervals for the population that the rows come from, of noise and sampling error together",
        )  # fmt: skip

    def _check_thresholds(self, loss: Loss) -> None:
        decides = decision(loss)
        if decides not in self.thresholds:
            raise InputError(f"thresholds must hold {decides:g}, at which the model decides")
        if loss.traits.probabilities and not 0.0 < self.thresholds[0] <= self.thresholds[-1] < 1.0:
            raise InputError("thresholds are probabilities: they must lie strictly between 0 and 1")

    def _parts(self, family: str, relation: str) -> tuple[_Part, ...]:
        """The releases of a metric, or of the counts of several; by subgroups, too, for half of their share."""
        bins, groups = len(self.thresholds) + 1, self.subgroups
        parts = (_Part(family, (2, bins), cell_counts(relation)),) if family == "counts" else _parts(family, relation)
        if not groups or family not in (*_MEANS, "counts"):
            return parts
        name = f"{family} by subgroup"
        if family == "counts":
            apart = _Part(name, (groups, 2, bins), cell_counts(relation), 0.5)
        else:
            apart = _Part(name, (groups, 3), grouped_sums(relation), 0.5)
        return *(part._replace(share=0.5 * part.share) for part in parts), apart

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Release the sums that each metric needs."""
        from dpconvex.sums.memory import open_sums

        problem, sums = plan.problem, open_sums(rows, y)
        w = np.array(self.at).reshape(problem.weight_shape(plan.d))
        for family in self.families:
            scored = Scored(family, problem.loss, w, self.least_probability)
            counts = Cells(problem.loss, w, self.thresholds)
            if family == "auc":
                port.add(family, rank_sums(sums.fold(ScoreCounts(w, sums.row * float(np.linalg.norm(w))))))
            elif family == "r2":
                ratio, middle = _unexplained(plan, port.add(family, sums.fold(scored)))
                port.add("r2 spread", sums.fold(replace(scored, metric="r2 spread", ratio=ratio, middle=middle)))
            else:
                port.add(family, sums.fold(counts if family == "counts" else scored))
            if family == "calibration":
                port.add("calibration bins", sums.fold(replace(scored, metric="calibration bins")))
            if self.subgroups and family in (*_MEANS, "counts"):
                term = counts if family == "counts" else replace(scored, numbered=True)
                groups = (sums.sampled(np.array([k])).fold(term) for k in range(self.subgroups))
                port.add(f"{family} by subgroup", np.stack(list(groups)))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Concatenate the noisy sums."""
        return np.concatenate([port.released(release.name).ravel() for release in plan.releases])

    def describe(self, plan: Plan) -> list[str]:
        """Describe the releases, one line each."""
        return [f"query       {r.name}, noise {r.scale:.4g} on sums over {plan.n} records" for r in plan.releases]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        signs = tuple(
            Attack(cls((50.0,), (metric,)), LOGISTIC, name=f"HeldOut, {metric}", relations=ONE_RELATION, seed=seed)
            for seed, metric in ((42, "accuracy"), (43, "log_loss"), (45, "calibration"))
        )
        ranks = Attack(
            cls((50.0,), ("auc",)), LOGISTIC, name="HeldOut, auc", share=1 / 32, least=0.95, relations=ONE_RELATION,
            seed=44,
        )  # fmt: skip
        parts = tuple(
            Attack(
                cls((50.0,), (metric,), subgroups=2), LOGISTIC, name=f"HeldOut, {words}", relations=ONE_RELATION,
            )
            for metric, words in (("brier", "brier by subgroup"), ("recall", "counts by subgroup"))
        )  # fmt: skip
        mae, r2 = cls((1.0,), ("mae",)), cls((1.0,), ("r2",))
        return (
            *signs,
            ranks,
            *parts,
            Attack(mae, SQUARED, name="HeldOut, mae", relations=ONE_RELATION, seed=46),
            Attack(r2, SQUARED, name="HeldOut, r2", least=0.0, relations=ONE_RELATION, seed=47),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return ANYWHERE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (Victim(cls((50.0,), ("auc",)), LOGISTIC),)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        if plan.budget.relation != "replace_one" or plan.problem.intercept or len(self.metrics) > 1:
            raise InputError(
                "an evaluation is attacked metric by metric, under replace_one, without a constant feature"
            )
        return [_furthest_pair(plan, mutant, self.metrics[0])]


def offers(loss: Loss) -> tuple[str, ...]:
    """Return the metrics that are available for a model with that loss.

    Examples
    --------
    >>> import dpconvex as dc
    >>> offers(dc.losses.SmoothedHinge()), offers(dc.losses.Squared())
    (('accuracy', 'auc', 'recall', 'precision', 'specificity', 'balanced_accuracy'), ('mse', 'mae', 'r2'))
    """
    return tuple(name for name in METRICS if not _why_not(name, loss))


def decision(loss: Loss) -> float:
    """The threshold at which a model with that loss decides between two classes: a probability, or a score."""
    return 0.5 if loss.traits.probabilities else 0.0


def _why_not(metric: str, loss: Loss) -> str:
    """Why a metric is unavailable for a model with that loss; empty if it is available."""
    if (metric in _NUMBERS) != (loss.traits.labels == "bounded"):
        if metric in _NUMBERS:
            return "is for numbers within a declared range, and the model predicts classes"
        return "is for classes, and the model predicts numbers"
    if metric in (*_PAIRS, *_COUNTED) and loss.traits.outputs > 1:
        return f"is between two classes, and there are {loss.traits.outputs}"
    if metric in _PROBABILITIES and not loss.traits.probabilities:
        return f"needs probabilities, and {type(loss).__name__} predicts none"
    return ""


class _Part(NamedTuple):
    """A release of a metric: its name and shape, how far a record moves it, and its share of mu^2."""

    name: str
    shape: tuple[int, ...]
    moved: Fact
    share: float = 1.0


def _parts(metric: str, relation: str) -> tuple[_Part, ...]:
    if metric == "accuracy":
        return (_Part(metric, (1,), bounded_sums(1, relation)),)
    if metric == "auc":
        return (_Part(metric, (3,), ranking_sums(relation)),)
    if metric == "calibration":
        bins = _Part("calibration bins", (BINS, 3), binned_sums(BINS, relation), 0.5)
        return _Part(metric, (2,), bounded_sums(1, relation), 0.5), bins
    if metric == "r2":
        spread = _Part("r2 spread", (1,), bounded_sums(1, relation), 1.0 / 9.0)  # noise twice that of the first
        return _Part(metric, (3,), bounded_sums(2, relation), 8.0 / 9.0), spread
    return (_Part(metric, (2,), bounded_sums(1, relation)),)


def _unexplained(plan: Plan, sums: np.ndarray) -> tuple[float, float]:
    """Mean squared error over variance, clipped, and the mean of the target."""
    estimate, middle = _quotient(plan, sums), float(np.clip(sums[1] / plan.n, -1.0, 1.0))
    return (float(np.clip(estimate.top / estimate.bottom, 0.0, _STEEPEST)) if estimate.bottom > 0.0 else 1.0), middle


# From noisy sums to estimates -------------------------------------------------------------------------------------


def estimates(plan: Plan, released: np.ndarray) -> dict[str, Measured]:
    """Return the estimates by metric, in units of the sums; `units` converts them."""
    sums = _split(plan, released)
    found: dict[str, Measured] = {}
    for metric in plan.algorithm.metrics:  # type: ignore[attr-defined]
        if metric in _COUNTED:
            found[metric] = counted(metric, sums["counts"], _scale(plan, "counts"), _place(plan))
        elif metric == "auc":
            found[metric] = _area(plan, sums[metric])
        elif metric == "r2":
            found[metric] = _quotient(plan, sums[metric], float(sums["r2 spread"][0]))
        else:
            found[metric] = _mean(plan, metric, sums[metric])
    return found


def gaps(plan: Plan, released: np.ndarray, confidence: float) -> tuple[Bin, ...]:
    """Return the calibration in bins of predicted probability; none if it was not requested."""
    sums = _split(plan, released).get("calibration bins")
    if sums is None:
        return ()
    noise = _scale(plan, "calibration bins")
    found = []
    for k, (numbered, gap, rest) in enumerate(sums.tolist()):
        low, high = k / BINS, (k + 1) / BINS
        estimate = _ratio(numbered, gap, rest, noise, -high, 1.0 - low)
        found.append(Bin(low, high, max(estimate.bottom, 0.0), estimate.metric(confidence)))
    return tuple(found)


def by_subgroup(plan: Plan, released: np.ndarray) -> tuple[dict[str, Measured], ...]:
    """Return the estimates of means and counts in each subgroup, in the units of `estimates`; and "rows" in it."""
    sums, algorithm = _split(plan, released), plan.algorithm
    assert isinstance(algorithm, HeldOut)
    found: list[dict[str, Measured]] = []
    for k in range(algorithm.subgroups):
        group: dict[str, Measured] = {}
        for metric in algorithm.metrics:
            name = f"{'counts' if metric in _COUNTED else metric} by subgroup"
            if name not in sums:
                continue
            noise = _scale(plan, name)
            if metric in _COUNTED:
                group[metric] = counted(metric, sums[name][k], noise, _place(plan))
            else:
                numbered, top, rest = sums[name][k].tolist()
                group[metric] = _ratio(numbered, top, rest, noise, -1.0, 1.0, metric == "accuracy")
        found.append(group)
    return tuple(found)


def at_thresholds(plan: Plan, released: np.ndarray, confidence: float) -> tuple[Threshold, ...]:
    """Return what the model does at each threshold; none if nothing was counted."""
    cells = _split(plan, released).get("counts")
    if cells is None:
        return ()
    points = plan.algorithm.thresholds  # type: ignore[attr-defined]
    return tuple(
        threshold(point, cells, _scale(plan, "counts"), place, plan.n, confidence) for place, point in enumerate(points)
    )


def _place(plan: Plan) -> int:
    """Where among the thresholds the model decides."""
    points: tuple[float, ...] = plan.algorithm.thresholds  # type: ignore[attr-defined]
    return points.index(decision(plan.problem.loss))


def units(algorithm: HeldOut, half: float, outputs: int = 1) -> Mapping[str, tuple[float, float]]:
    """Return the offset and factor from each estimate to its metric; `half` is half the range of the target.

    `outputs` is the number of predictions per row of the loss.
    """
    cap = -math.log(algorithm.least_probability)
    return {
        "accuracy": (0.5, 0.5),
        "log_loss": (cap / 2.0, cap / 2.0),
        "brier": (0.5, 0.5) if outputs == 1 else (1.0, 1.0),
        "auc": (0.5, 1.0),
        "calibration": (0.0, 1.0),
        **dict.fromkeys(_COUNTED, (0.0, 1.0)),
        "mse": (2.0 * half**2, 2.0 * half**2),
        "mae": (half, half),
        "r2": (1.0, -1.0),
    }


def _ratio(
    numbered: float, top: float, rest: float, noise: float, least: float, most: float, surely: bool = False
) -> Estimate:
    """A mean of r over a number of records that is not public, from the sums of `grouped_sums` or of a bin.

    `surely` says that |r| is 1.
    """
    rows = numbered / COUNT_FACTOR
    square, blur = (rows, 1.0 / COUNT_FACTOR) if surely else (rows - rest, math.hypot(1.0, 1.0 / COUNT_FACTOR))
    return Estimate(top, rows, (noise**2, (noise / COUNT_FACTOR) ** 2), (square, -rows), least, most, blur=noise * blur)


def _mean(plan: Plan, metric: str, sums: np.ndarray) -> Estimate:
    """A mean m of r in [-1, 1]: its variance is (1 - mean of 1 - r^2 - m^2) / n."""
    n, tau = plan.n, _scale(plan, metric) / plan.n
    if metric == "accuracy":  # 1 - r^2 is 0
        return Estimate(float(sums[0]) / n, 1.0, (tau**2, 0.0), (1.0 / n, -1.0 / n), -1.0, 1.0)
    mean, rest = (sums / n).tolist()
    estimate = Estimate(mean, 1.0, (tau**2, 0.0), ((1.0 - rest) / n, -1.0 / n), -1.0, 1.0)
    return _anchored(estimate, tau / n * math.hypot(1.0, 2.0 * estimate.value))


def _area(plan: Plan, sums: np.ndarray) -> Estimate:
    """AUC - 1/2: a sum over pairs by the number of pairs, both with noise, over n - 1."""
    n, noise = plan.n, _scale(plan, "auc")
    excess, ranks, squares = sums.tolist()
    count, spread = n / 2.0 + excess / CLASS_FACTOR, noise / CLASS_FACTOR
    pairs = (count * (n - count) + spread**2) / (n - 1.0)  # noise in the count lowers the product by its variance
    wobble = ((spread * (n - 2.0 * count)) ** 2 + 2.0 * spread**4) / (n - 1.0) ** 2
    size = n / (n - 1.0)
    sampling = (squares / SPREAD_FACTOR * size**2, -pairs * size)
    estimate = Estimate(ranks, pairs, (noise**2, wobble), sampling, -0.5, 0.5)
    return _anchored(estimate, noise * math.hypot(1.0 / SPREAD_FACTOR, 2.0 * estimate.value)) if pairs > 0 else estimate


def _anchored(estimate: Estimate, blur: float) -> Estimate:
    """The estimate with its sampling variance fixed at the value found, as far as the error is due to sampling.

    The variance is a second moment minus x^2. Noise moves the two separately, so x belongs there; but another sample
    moves them together, and then the square of the value found is the better guess.
    """
    x, (a, b) = estimate.value, estimate.sampling
    noise, sampling = (max(0.0, part[0] + part[1] * x * x) for part in (estimate.noise, estimate.sampling))
    share = noise / (noise + sampling)
    return estimate._replace(sampling=(a + (1.0 - share) * b * x * x, share * b), blur=blur)


def _quotient(plan: Plan, sums: np.ndarray, spread: float | None = None) -> Estimate:
    """1 - R^2: mean squared error by variance of the target, both with noise."""
    n, tau = plan.n, _scale(plan, "r2") / plan.n
    error, middle, rest = (sums / n).tolist()
    variance = 1.0 - rest - middle**2 + tau**2  # noise in the mean adds its variance to the square
    noise = (4.0 * tau**2, tau**2 * (1.0 + 4.0 * middle**2 + 2.0 * tau**2))
    estimate = Estimate(2.0 * (1.0 + error), variance, noise, (0.0, 0.0), 0.0, math.inf)
    if spread is None:
        return estimate
    ratio, _ = _unexplained(plan, sums)
    unit = 16.0 * max(1.0, ratio) ** 2 / n
    square = unit * float(np.clip(0.5 * (1.0 + spread / n), 0.0, 1.0))
    return estimate._replace(sampling=(square, 0.0), blur=unit * 0.5 * _scale(plan, "r2 spread") / n)


def _split(plan: Plan, released: np.ndarray) -> dict[str, np.ndarray]:
    """Noisy sums by the name of their release."""
    ends = np.cumsum([math.prod(release.shape) for release in plan.releases])
    parts = np.split(released, ends[:-1])
    return {r.name: part.reshape(r.shape) for r, part in zip(plan.releases, parts, strict=True)}


def _scale(plan: Plan, name: str) -> float:
    return next(release.scale for release in plan.releases if release.name == name)


def _furthest_pair(plan: Plan, mutant: Mutant, metric: str) -> Pair:
    """One record against the one that moves the metric furthest; rows at their bound have the surest scores."""
    X, y = np.zeros((plan.n, plan.d)), np.tile([1.0, -1.0], plan.n)[: plan.n]
    used = group_size(plan) + mutant.twice
    if metric == "auc":  # from above all records of the other class to below them
        y[:] = -1.0
    elif metric in _NUMBERS:  # the others are predicted without error
        X = y[:, None] * axis(plan, 0)
    X[:used], y[:used] = axis(plan, 0), 1.0
    changed, labels = X.copy(), y.copy()
    if metric == "auc":
        changed[:used] *= -1.0
    elif metric == "calibration":  # wrong at one end of the scale, and at the other
        y[:used], changed[:used] = -1.0, -axis(plan, 0)
    else:
        labels[:used] = -1.0
    group = np.arange(plan.n, dtype=np.int64) % max(plan.algorithm.subgroups, 1)  # type: ignore[attr-defined]
    rows = tuple(dense(plan, table, mutant)._replace(people=group) for table in (X, changed))
    sides = (rows[0], y), (rows[1], labels)
    spread = metric == "r2"  # its second release depends on the first
    law, words = "any" if spread else "gaussian", f"one record that moves {metric} furthest"
    return Pair(mutant.plan(plan), *sides, words, law, transcript=spread)
