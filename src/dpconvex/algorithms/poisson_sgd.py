"""PoissonSGD: SGD on Poisson samples with clipped gradients and Gaussian noise, the usual DP-SGD, for comparison.

At each step every record is sampled independently with the same probability. Batches have no fixed size, nothing is
shuffled, and the sample is never stored: exactly what the accountant assumes. The gradient of every record is clipped
to `clip`, so the guarantee holds for any loss. Proof: docs/proofs/poisson_sgd.md.

With `per_person`, people are sampled with all their rows, and the sum of a person's gradients is clipped:
docs/proofs/people.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.algorithms.attacks import (
    BUT_SILENT,
    LOGISTIC,
    NONE,
    NOT_CAPPED,
    NOT_CLIPPED,
    ROWS_AS_PEOPLE,
    SHARED_BY_CLASSES,
    SOFTMAX,
    Attack,
    Mutant,
    Pair,
    Victim,
    descent_pair,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.options import check_options
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, SAMPLING, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import poisson_subsampling, post_process
from dpconvex.theorems.computed_sums import computed_clip

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Sums


@dataclass(frozen=True)
class Recipe:
    """The public recipe: number and length of steps, and which iterates are averaged."""

    steps: int
    probability: float
    rate: float
    clip: float
    averaged: int


@dataclass(frozen=True)
class PoissonSGD(Algorithm):
    """SGD on Poisson samples (DP-SGD), for scalar losses and softmax, accounted by privacy loss distributions.

    Parameters
    ----------
    probability : float, optional
        Probability with which each record, or person, is sampled in a step, in (0, 1]. By default 0.05, or more if
        samples would hold fewer than about 250 records.
    steps : int, optional
        Number of steps; by default equivalent to 15 passes over the data, between 100 and 1000.
    clip : float, optional
        Largest norm of one record's gradient, or of one person's sum of gradients; by default the bound on the gradient
        of a record, or the row bound if there is none.
    rate : float, optional
        Step size on the mean loss, at most 2 over the smoothness. By default see the proof note.
    averaged : float
        Fraction of the steps, at the end, whose points are averaged, in [0, 1]; 0 takes the last point.
    per_person : bool
        Sample people instead of rows, and clip the sum of the gradients of all rows of a person. The guarantee then
        protects people, however many rows they have, and runs need the group id of every row: `run(X, y, groups=...)`.

    References
    ----------
    Abadi et al. (2016), "Deep learning with differential privacy".

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    >>> plan = dc.algorithms.PoissonSGD().plan(problem, n=1000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, solution.receipt.epsilon <= 2.0, sorted(solution.iterates)
    ((3,), True, ['gradients'])
    >>> by_person = dc.algorithms.PoissonSGD(per_person=True)
    >>> plan = by_person.plan(problem, n=1000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> plan.run(X, y, groups=np.arange(1000) // 4, dataset="clinic visits").receipt.sections["dataset"]["unit"]
    'person'
    """

    needs = Needs(ORIGIN, classes=True, records=True)
    suits = "any loss; the usual baseline, subsampled and clipped"
    reads = "15"
    takes = frozenset({"sample_weight", "groups"})
    keeps_squares = True
    leads = frozenset({"absolute"})  # never very accurate, but robust to much noise

    probability: float | None = None
    steps: int | None = None
    clip: float | None = None
    rate: float | None = None
    averaged: float = 0.5
    per_person: bool = False

    def __post_init__(self) -> None:
        check_options(
            self, whole={"steps": 100_000}, positive=["rate"], clips=["clip"], flags=["per_person"],
            within={"probability": (1e-6, 1.0, "[]"), "averaged": (0.0, 1.0, "[]")},
        )  # fmt: skip

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        probability = float(self.probability or min(1.0, max(0.05, round_up(250.0 / n, 3))))
        steps = self.steps or min(max(round(15.0 / probability), 100), 1000)
        clip = float(self.clip or _largest_gradient(problem, d))
        ratio = least_ratio(probability, steps, budget)
        rate = self.rate or self._default_rate(problem, n, d, clip, probability * math.sqrt(steps) / ratio, steps)
        if not problem.loss.traits.kinked and rate * (beta := problem.smoothness(n, d).value) > 2.0:
            raise InputError(f"rate must be at most 2/beta = {2.0 / beta:g}, got {rate:g}: take a smaller one")
        recipe = Recipe(steps, probability, rate, clip, round(self.averaged * steps) or 1)
        shape = problem.weight_shape(d)
        scale = round_up(ratio * computed_clip(clip, n, math.prod(shape)) * (1.0 + 1e-11))
        claim = poisson_subsampling(
            clip, budget.relation, Release("sample", SAMPLING, probability, (n,), steps),
            Release("gradients", "gaussian", scale, shape, steps, grid_of(scale)),
            PERSON if self.per_person else 1,
        )  # fmt: skip
        return Plan(
            self, problem, n, d, budget, post_process(claim, "steps, projection and averaging"), (recipe,),
            math.ceil(probability * n) * steps, utility="no bound is proved for clipped gradients",
        )  # fmt: skip

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Descend along noisy sums of gradients of samples."""
        from dpconvex.sums.memory import open_sums

        path, sums = SampledPath(plan), open_sums(rows, y)
        for _ in range(plan.schedule[0].steps):
            members = port.lend_sample("sample", clipped_gradients)
            path.move(port.add("gradients", clipped_gradients(plan, sums, members, path.point)))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the iterates from the noisy sums alone, and average the last ones."""
        path = SampledPath(plan)
        for gradient in port.history("gradients"):
            path.move(gradient)
        return path.average

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Recipe = plan.schedule[0]
        one, whose = ("person", "sums of a person ") if self.per_person else ("record", "")
        return [
            f"sample      each {one} with probability {r.probability:g}, independently at every step",
            f"descent     {r.steps} steps of {r.rate:.4g} on the mean loss, last {r.averaged} averaged",
            f"gradients   {whose}clipped to {r.clip:.4g}, noise {plan.releases[-1].scale:.4g} on their sum",
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        people = cls(probability=0.5, steps=4, per_person=True)
        return (
            Attack(cls(probability=0.5, steps=4), LOGISTIC, share=1 / 16, least=0.0, seed=18),
            Attack(people, LOGISTIC, name="PoissonSGD, people", share=1 / 16, least=0.0, seed=26),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return (
            *BUT_SILENT,
            NOT_CLIPPED,
            NOT_CAPPED,
            Mutant("sampled twice as often", sampling=2.0),
            Mutant("all records used at every step", sampling=np.inf),
            SHARED_BY_CLASSES,
            ROWS_AS_PEOPLE,
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (
            Victim(cls(probability=0.5, steps=2), LOGISTIC, runs=8000),
            Victim(cls(probability=0.25, steps=2), SOFTMAX, d=2),
            Victim(cls(probability=0.5, steps=2, per_person=True), LOGISTIC, runs=8000),
        )

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        return [_sampled_pair(plan, mutant)]

    def _default_rate(self, problem: Problem, n: int, d: int, clip: float, spread: float, steps: int) -> float:
        """Step size with which the descent goes as far as the noise allows; `spread` is about mu over the moves."""
        row = problem.row_bound(d).value
        horizon = 0.3 * n * spread / (clip * row)
        if problem.loss.traits.kinked:  # contraction sets no limit; take the step that is best in the worst case
            reach = problem.farthest(d)
            far = 0.5 * reach if math.isfinite(reach) else 5.0 / row
            return min(horizon / steps, far / (clip * math.sqrt(steps)))
        beta = problem.smoothness(n, d).value
        return min(horizon / steps, 1.0 / beta) if beta else horizon / steps


def _largest_gradient(problem: Problem, d: int) -> float:
    try:
        return problem.lipschitz(d).value
    except HypothesisError:
        return problem.row_bound(d).value


def least_ratio(probability: float, steps: int, budget: Budget) -> float:
    """Least noise, in units of `clip` and to 4 digits, at which `steps` sampled steps meet the budget.

    Examples
    --------
    >>> import dpconvex as dc
    >>> least_ratio(0.05, 300, dc.Budget(1.0, 1e-6))
    7.317
    """

    def meets(ratio: float) -> bool:
        claim = poisson_subsampling(
            1.0, budget.relation, Release("sample", SAMPLING, probability, (1,), steps),
            Release("gradients", "gaussian", ratio, (1,), steps),
        )  # fmt: skip
        return claim.profile.delta(budget.epsilon) <= budget.delta - room

    # The accountant's curve is sound but not smooth: in delta, nearby ratios differ by about 1e-17 per step.
    room = 1e-16 * steps
    plain = probability * math.sqrt(steps) * budget.moves / budget.mu  # exact for probability 1, near it otherwise
    low, high = plain / 2.0, plain
    for _ in range(60):
        if meets(high):
            break
        low, high = high, 1.25 * high
    else:
        raise HypothesisError(
            f"no noise meets delta = {budget.delta:g} in {steps} steps, because the accountant resolves only about "
            f"{1e-15 * steps:g}: take fewer steps or a larger delta"
        )
    while high > low * (1.0 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return round_up(high, 4)


class SampledPath:
    """The points computed from noisy sums: steps, projection, average of the last points."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._recipe = plan, plan.schedule[0]
        self.point = plan.problem.begin(plan.d)
        self.average = np.zeros_like(self.point)
        self._done = 0

    def move(self, gradients: np.ndarray) -> None:
        """Take one step. The noisy sum is divided by the expected size of a sample, which is public."""
        plan, r = self._plan, self._recipe
        mean = gradients / (r.probability * plan.n) + plan.problem.l2 / plan.n * self.point
        self.point = plan.problem.domain.project(self.point - r.rate * mean)
        self._done += 1
        if self._done > r.steps - r.averaged:
            self.average = self.average + self.point / r.averaged


def clipped_gradients(plan: Plan, sums: Sums, members: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sum of the clipped gradients of these records at w; for people, each person's sum of gradients is clipped.

    There are at most as many people as rows, so a sample of numbers below n includes every person with the same
    probability. A number that belongs to no person adds nothing.
    """
    from dpconvex.sums.protocol import Clipped, Slopes

    loss, clip, sample = plan.problem.loss, plan.schedule[0].clip, sums.sampled(members)
    if plan.algorithm.per_person:  # type: ignore[attr-defined]
        return sample.people(Slopes(loss, w), clip)
    return sample.sweep(Clipped(loss, w, clip))


def _sampled_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The pair of `descent_pair`, with sampling: every step releases a mixture of two Gaussians."""
    from dpconvex.sums.memory import open_sums

    if plan.problem.intercept:
        raise InputError(
            "plans with sampling can only be attacked without a constant feature, with which the other records would "
            "add to the sums: use a problem with intercept 0"
        )
    pair, sound = descent_pair(plan, mutant), descent_pair(plan, NONE)
    recipe, sigma = plan.schedule[0], plan.releases[-1].scale
    everyone, start = np.arange(plan.n), np.zeros(plan.problem.weight_shape(plan.d))
    plain, changed = (
        clipped_gradients(sound.plan, open_sums(*data), everyone, start).ravel() / sigma
        for data in (sound.plain, sound.changed)
    )
    q = recipe.probability

    def log_mixture(steps: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.logaddexp(np.log1p(-q) if q < 1.0 else -np.inf, np.log(q) + steps @ mean - mean @ mean / 2.0)

    def statistic(released: np.ndarray) -> np.ndarray:
        steps = released.reshape(len(released), recipe.steps, -1) / sigma
        return np.asarray((log_mixture(steps, changed) - log_mixture(steps, plain)).sum(axis=1))

    return replace(pair, law="any", statistic=statistic, words=f"{pair.words}, sampled")
