"""What is attacked: every kind of release to which the port adds Gaussian noise, on neighbouring data sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpconvex.algorithms.attacks import LOGISTIC, NONE, Data, worst_pairs
from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.mean_direction import MeanDirection
from dpconvex.algorithms.noisy_sgd import NoisySGD, Telescoped
from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.algorithms.phased_erm import PhasedERM
from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.algorithms.private_ftrl import PrivateFTRL
from dpconvex.audit.machine.outcome import FLOAT
from dpconvex.audit.machine.watched import Seen, WatchedPort, watch_plan, watch_sums, watch_value
from dpconvex.audit.suite import subjects
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Scope
from dpconvex.loops.rows import Dense
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem import losses
from dpconvex.problem.domains import Everywhere
from dpconvex.problem.problem import Problem
from dpconvex.queries.selection import heat_of
from dpconvex.theorems.correlated_noise import PREFIX_SUMS

COARSE = "a tilt on a coarse grid"


class Judged(Protocol):
    """Something released, and how likely either data set makes it."""

    def log_likelihood(self, side: int, exact: bool) -> float:
        """Logarithm of its probability, up to a constant that is the same for both."""


Watch = Callable[[int, Source, bool], Sequence[Judged]]  # a run on the data set of that side, exact or naive


@dataclass(frozen=True)
class Released:
    """A kind of release, the claim about it, and how to watch a run on either of two neighbours."""

    name: str
    claim: Claim
    watch: Watch
    naive: str = FLOAT  # what is wrong with the runs that are not exact

    @property
    def on_grid(self) -> bool:
        """Whether all of it lies on a grid; what does not is float64, and its receipt says so."""
        return all(release.grid is not None for release in self.claim.releases)


def all_released() -> Iterator[Released]:
    """Every kind of release.

    Examples
    --------
    >>> [released.name for released in all_released()][:2]
    ['MeanDirection, 20 features, epsilon 0.01', 'MeanDirection, 20 features, epsilon 1, delta 0']
    """
    yield direction(0.01)
    yield direction(1.0, delta=0.0)
    yield score()
    yield minimiser()
    yield tilted()
    yield phases(PhasedERM())
    yield phases(PhasedSGD())
    yield walk()
    for subject in subjects():
        plan = subject.plan
        gaussian = all(release.law == "gaussian" for release in plan.releases)
        if gaussian and plan.budget.relation == "replace_one" and plan.claim.scope is Scope.EVERY:
            pair = worst_pairs(plan, NONE)[0]
            yield Released(subject.name, plan.claim, partial(watch_plan, pair.plan, (pair.plain, pair.changed)))
        if plan.releases[0].law in PREFIX_SUMS and plan.budget.relation == "replace_one":
            yield sums(subject.name, plan)
    yield stream()


def sums(name: str, plan: Plan) -> Released:
    """Return the rows of which an algorithm computes its running sums, its plays and its weights."""
    pair = worst_pairs(plan, NONE)[0]

    def play(data: Data, port: NoisePort) -> None:
        pair.plan.algorithm.execute(pair.plan, *data, port)

    return Released(name, plan.claim, partial(watch_sums, pair.plan, play, (pair.plain, pair.changed)))


def stream() -> Released:
    """Return the rows of a stream without a known end: of some portions of rows, and of a gradient from outside."""
    from dpconvex.sums.memory import Memory

    plan = PrivateFTRL(batch=2).plan_stream(LOGISTIC, d=2, budget=Budget(1.0, 1e-6))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    other = X.copy()
    other[3] *= -1.0

    def play(data: Data, port: NoisePort) -> None:
        leader, (rows, labels) = plan.algorithm.leader(plan), data  # type: ignore[attr-defined]
        for part in (slice(0, 10), slice(10, 40)):
            portion = Memory(rows._replace(X=rows.X[part]), labels[part])
            portion.open()
            leader.advance(portion, port)
        leader.observe(port.accumulate("sums", np.full((1, 2), 0.1), [1.0]), np.array([1]))

    data = (_rows(plan, X), y), (_rows(plan, other), y)
    return Released("a stream of PrivateFTRL", plan.claim, partial(watch_sums, plan, play, data))


def direction(epsilon: float, n: int = 1000, d: int = 20, delta: float = 1e-6) -> Released:
    """Return sums of one feature per person, which are 0 in every coordinate until one person is replaced."""
    plan = MeanDirection().plan(Problem(losses.Logistic()), n=n, d=d, budget=Budget(epsilon, delta))
    X, y = np.zeros((n, d)), np.where((np.arange(n) // d) % 2 == 0, 1.0, -1.0)
    X[np.arange(n), np.arange(n) % d] = 1.0
    other, labels = X.copy(), y.copy()
    other[0], labels[0] = 1.0 / np.sqrt(d), -1.0
    data = (_rows(plan, X), y), (_rows(plan, other), labels)
    name = f"MeanDirection, {d} features, epsilon {epsilon:g}{'' if delta else ', delta 0'}"
    return Released(name, plan.claim, partial(watch_plan, plan, data))


def score(records: int = 50) -> Released:
    """Return the noisy score of a candidate, a sum over held-out records, by which the best of several is chosen."""
    plan = MeanDirection().plan(LOGISTIC, n=100, d=1, budget=Budget(1.0, 1e-6))
    claim = heat_of(plan, records).score
    scores = np.sort(np.random.default_rng(0).uniform(-0.5, 0.5, records))  # the first is the lowest
    values = np.array([scores.sum()]), np.array([scores[1:].sum() + 0.5])
    return Released("the score of a candidate", claim, partial(watch_value, claim, "score", values))


def minimiser() -> Released:
    """Return the output noise of objective perturbation, alone: it hides where a certified solver has stopped.

    Tilts are coupled so that both data sets have nearly the same minimiser. What remains of the other record is how
    far from it the solver stopped.
    """
    from dpconvex.sums.memory import open_sums
    from dpconvex.sums.protocol import Slopes
    from dpconvex.sums.solver import minimise

    algorithm = ObjectivePerturbation(precision=0.3)  # with output noise as large as the minimiser
    plan = algorithm.plan(Problem(losses.Logistic(), l2=1.0), n=24, d=2, budget=Budget(1.0, 1e-6))
    problem, rng = plan.problem, np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), np.where(np.arange(24) % 2 == 0, 1.0, -1.0)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    labels = y.copy()
    labels[0] = -1.0
    sums = [open_sums(_rows(plan, X), given) for given in (y, labels)]

    def watch(side: int, source: Source, exact: bool) -> list[Seen]:
        normal = np.random.default_rng(int(source.stream("tilt").words(1)[0])).normal(size=2)
        tilt, asked = plan.releases[0].scale * normal, plan.schedule[0].tolerance
        near = minimise(sums[0], problem.loss, problem.l2, tilt, asked, domain=problem.domain)
        moved = sums[0].sweep(Slopes(problem.loss, near)) - sums[1].sweep(Slopes(problem.loss, near))
        far = minimise(sums[1], problem.loss, problem.l2, tilt + moved, asked, domain=problem.domain)
        return watch_value(plan.claim, "output", (near, far), side, source, exact)

    return Released("the output of ObjectivePerturbation", plan.claim, watch)


class Tilted(NamedTuple):
    """A weight released by objective perturbation: the law of the output, mixed over all tilts on their grid."""

    plan: Plan
    data: tuple[tuple[np.ndarray, np.ndarray], ...]
    grid: float  # of the tilt
    released: float

    def log_likelihood(self, side: int, exact: bool) -> float:
        """Logarithm of its density."""
        from dpconvex.sums.rowwise import curvatures, slopes

        x, y = self.data[side]
        tilt, output = self.plan.releases
        loss, l2, w = self.plan.problem.loss, self.plan.problem.l2, self.released
        if output.grid is not None and w % output.grid:
            return -math.inf
        middle = -float(slopes(loss, x * w, y) @ x) - l2 * w  # the tilt that has its minimiser there
        bend = float(curvatures(loss, x * w, y) @ (x * x)) + l2
        cells = math.ceil(10.0 * bend * output.scale / self.grid) + 1
        tilts = self.grid * (np.rint(middle / self.grid) + np.arange(-cells, cells + 1))
        off = (tilts - middle) / (bend * output.scale)  # of the minimiser for each tilt, in deviations of the output
        return -0.5 * (middle / tilt.scale) ** 2 + float(np.logaddexp.reduce(-0.5 * off * off))


def tilted() -> Released:
    """Return a weight of objective perturbation, as accurate as float64 can certify: little but the tilt hides a label.

    The naive run has a tilt on a grid of 2^-20 of its scale, and output noise that covers the solver alone: which
    tilts lead near to a weight then depends on the data.
    """
    algorithm = ObjectivePerturbation(precision=1e-11, output_share=0.5)
    problem = Problem(losses.Logistic(), Everywhere(), l2=2.0)
    plan = algorithm.plan(problem, n=4, d=1, budget=Budget(1.0, 1e-6))
    x, y = np.array([1.0, 1.0, -0.5, 0.25]), np.array([1.0, -1.0, 1.0, -1.0])
    sides = (x, y), (x, np.concatenate([[-1.0], y[1:]]))
    coarse = 2.0**-20 * plan.releases[0].scale

    def watch(side: int, source: Source, exact: bool) -> Sequence[Judged]:
        port = (WatchedPort if exact else CoarsePort)(plan.claim, source, True)
        rows, labels = _rows(plan, sides[side][0][:, None]), sides[side][1]
        plan.algorithm.execute(plan, rows, labels, port)
        grid = plan.releases[0].grid if exact else coarse
        return [Tilted(plan, sides, float(grid or 0.0), float(port.released("output")[0]))]

    class CoarsePort(WatchedPort):
        def lend(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
            return np.asarray(np.rint(super().lend(name, loop) / coarse) * coarse)

    return Released("the weight of ObjectivePerturbation", plan.claim, watch, COARSE)


def phases(algorithm: PhasedERM | PhasedSGD) -> Released:
    """Return the weights after phases, of which the last record is replaced: all but the last are then the same."""
    plan, data = _last_replaced(algorithm)
    return Released(f"the weights of {type(algorithm).__name__}", plan.claim, partial(watch_plan, plan, data))


def walk() -> Released:
    """Return the weights of NoisySGD, whose last record is replaced: the attacker knows all points but the last."""
    plan, data = _last_replaced(NoisySGD(schedule=Telescoped(steps=4)))
    end = plan.releases[-1]

    def watch(side: int, source: Source, exact: bool) -> list[Seen]:
        seen = []
        for rows, y in (data[side], data[1 - side]):  # under the same noise, so both walk to the same last point
            port = WatchedPort(plan.claim, source, exact)
            plan.algorithm.execute(plan, rows, y, port)
            seen += port.seen
        (_, value, noisy), (_, other, _) = seen
        return [Seen(end, noisy, (value, other) if side == 0 else (other, value))]

    return Released("the weights of NoisySGD", plan.claim, watch)


def _last_replaced(algorithm: Algorithm) -> tuple[Plan, tuple[tuple[Dense, np.ndarray], tuple[Dense, np.ndarray]]]:
    plan = algorithm.plan(LOGISTIC, n=40, d=2, budget=Budget(1.0, 1e-6))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    other = X.copy()
    other[-1] *= -1.0
    return plan, ((_rows(plan, X), y), (_rows(plan, other), y))


def _rows(plan: Plan, X: np.ndarray) -> Dense:
    return Dense(X, float(plan.problem.feature_bound.l2(plan.d)), plan.problem.intercept)
