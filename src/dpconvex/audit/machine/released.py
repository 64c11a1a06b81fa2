"""What is attacked: every kind of release to which the port adds Gaussian noise, on neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpconvex.algorithms.attacks import LOGISTIC, NONE, worst_pairs
from dpconvex.algorithms.mean_direction import MeanDirection
from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.audit.machine.watched import Seen, watch_plan, watch_value
from dpconvex.audit.suite import subjects
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Scope
from dpconvex.loops.rows import Dense
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.problem import losses
from dpconvex.problem.problem import Problem
from dpconvex.queries.selection import heat_of

LENT = ("objective",)  # noise of these claims that is no release: the tilt, which a solver uses
Watch = Callable[[int, Source, bool], list[Seen]]  # a run on the data set of that side


@dataclass(frozen=True)
class Released:
    """A kind of release, the claim about it, and how to watch a run on either of two neighbours."""

    name: str
    claim: Claim
    watch: Watch

    @property
    def on_grid(self) -> bool:
        """Whether all of it lies on a grid; what does not is float64, and its receipt says so."""
        return all(release.grid is not None for release in self.claim.releases if release.name not in LENT)


def all_released() -> Iterator[Released]:
    """Every kind of release.

    Examples
    --------
    >>> [released.name for released in all_released()][:2]
    ['MeanDirection, 20 features, epsilon 0.01', 'the score of a candidate']
    """
    yield direction(0.01)
    yield score()
    yield minimiser()
    for subject in subjects():
        plan = subject.plan
        gaussian = all(release.law == "gaussian" for release in plan.releases)
        if gaussian and plan.budget.relation == "replace_one" and plan.claim.scope is Scope.EVERY:
            pair = worst_pairs(plan, NONE)[0]
            yield Released(subject.name, plan.claim, partial(watch_plan, pair.plan, (pair.plain, pair.changed)))


def direction(epsilon: float, n: int = 1000, d: int = 20) -> Released:
    """Return sums of one feature per person, which are 0 in every coordinate until one person is replaced."""
    plan = MeanDirection().plan(Problem(losses.Logistic()), n=n, d=d, budget=Budget(epsilon, 1e-6))
    X, y = np.zeros((n, d)), np.where((np.arange(n) // d) % 2 == 0, 1.0, -1.0)
    X[np.arange(n), np.arange(n) % d] = 1.0
    other, labels = X.copy(), y.copy()
    other[0], labels[0] = 1.0 / np.sqrt(d), -1.0
    data = (_rows(plan, X), y), (_rows(plan, other), labels)
    return Released(f"MeanDirection, {d} features, epsilon {epsilon:g}", plan.claim, partial(watch_plan, plan, data))


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


def _rows(plan: Plan, X: np.ndarray) -> Dense:
    return Dense(X, float(plan.problem.feature_bound.l2(plan.d)), plan.problem.intercept)
