"""HeavyTailedSGD: one pass of projected SGD over batches, with gradients clipped coordinate by coordinate.

It is meant for gradients with heavy tails in every coordinate. It is a variant of the algorithm of Kamath, Liu, Zhang
(2022) that Su, Zhao, Wang (2023, Theorem 15) use for l_p with p >= 2; docs/proofs/heavy_tailed_sgd.md lists the
differences. Every coordinate of a record's gradient is clipped, so no assumption on the data is needed. The batches are
disjoint, so all noisy sums together cost as much privacy as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    NOT_CLIPPED,
    ONE_RELATION,
    SIGNS,
    Attack,
    Mutant,
    Pair,
    Victim,
    clip_coordinates,
    mirrored_pair,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.disjoint import (
    MOST_BATCHES,
    TYPICAL,
    UTILITY,
    check_range,
    default_reach,
    parts,
)
from dpconvex.algorithms.options import check_constants, check_options, printed
from dpconvex.algorithms.poisson_sgd import SampledPath
from dpconvex.calibrate import noise_factor
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.losses import Loss
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import disjoint_sums, post_process

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Sums

NORMS = {"coordinates": math.inf, "l2": 2.0}


@dataclass(frozen=True)
class Clipped:
    """The public recipe: one step per batch, and the norm in which gradients are clipped (infinite: per coordinate)."""

    steps: int
    rate: float
    clip: float
    q: float
    averaged: int

    @property
    def probability(self) -> float:
        """Fraction of the records that a step uses."""
        return 1.0 / self.steps


@dataclass(frozen=True)
class HeavyTailedSGD(Algorithm):
    """One pass of noisy projected SGD over disjoint batches, gradients clipped in every coordinate, for heavy tails.

    Parameters
    ----------
    batches : int, optional
        Number of batches, with one step for each; by default the number that balances progress and noise, at most 2000.
    clip : float, optional
        Largest absolute value of a coordinate of one record's gradient, or largest l2 norm of the gradient. By default
        half the row bound times the largest target, divided by the square root of the number of weights when
        coordinates are clipped. Where rows or targets have heavy tails, declare generous bounds for them and set this
        to a few times a typical value.
    norm : {"coordinates", "l2"}
        Whether each coordinate or the l2 norm is clipped.
    moment : float, optional
        With constants="paper", sigma: the `order`-th absolute moment of every coordinate of a gradient is at most
        sigma^order. By default 1.
    order : float
        k of that moment, from 2.
    constants : {"tight", "paper"}
        "paper" uses the clip, batches and step of the proof note, for coordinates with that moment.

    References
    ----------
    Kamath, Liu, Zhang (2022), "Improved rates for differentially private stochastic convex optimization with
    heavy-tailed data". Su, Zhao, Wang (2023), Theorem 15.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_t(3, size=(5000, 4))
    >>> y = X @ [1.0, -0.5, 0.0, 0.0] + rng.standard_t(3, size=5000)
    >>> problem = dc.Problem(dc.losses.Squared(1e6), dc.domains.L2Ball(2.0), feature_bound=1e6)
    >>> plan = dc.algorithms.HeavyTailedSGD(clip=3.0).plan(problem, n=5000, d=4, budget=dc.Budget(2.0, 1e-6))
    >>> solution = plan.run(X, y, dataset="heavy tails")
    >>> bool(solution.weights[0] > 0.4), bool(dc.verify(solution.receipt))
    (True, True)
    """

    needs = Needs(ORIGIN, records=True)
    suits = "losses of one prediction; heavy tails in every coordinate"
    reads = "1"
    takes = frozenset({"sample_weight"})
    vectors = 3.0

    batches: int | None = None
    clip: float | None = None
    norm: str = "coordinates"
    moment: float | None = None
    order: float = 2.0
    constants: str = "tight"

    def __post_init__(self) -> None:
        check_options(
            self, whole={"batches": None}, clips=["clip"], one_of={"norm": NORMS}, positive=["moment"],
            within={"order": (2.0, 100.0, "[]")},
        )  # fmt: skip
        check_constants(self, __name__)
        if self.constants != "paper" and (self.moment is not None or self.order != 2.0):
            raise InputError(
                "moment and order are for constants='paper', which sets the clip by them: give clip instead"
            )

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        if self.batches is not None and self.batches > n:
            raise InputError(f"batches must not exceed the number of records, got {self.batches} of {n}")
        size = math.prod(problem.weight_shape(d))
        recipe = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        longest = self._longest(recipe.clip, size)
        batches = even_batches(n, recipe.steps)

        def claimed(scale: float) -> Claim:
            release = Release("gradients", "gaussian", scale, problem.weight_shape(d), recipe.steps, grid_of(scale))
            check_range(n, longest, release)
            return disjoint_sums(longest, 2.0, budget.relation, range(n), batches, release)

        one = round_up(longest * budget.moves)
        claim = claimed(round_up(one * noise_factor(claimed(one), budget)))
        claim = post_process(claim, "steps, projection and averaging")
        return Plan(self, problem, n, d, budget, claim, (recipe,), n, UTILITY)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Take one step along the noisy sum of each batch."""
        from dpconvex.sums.memory import open_sums

        recipe, path = plan.schedule[0], SampledPath(plan)
        for part in parts(open_sums(rows, y), recipe.steps):
            total = clipped_sum_of(part, plan.problem.loss, path.point, recipe)
            path.move(port.add("gradients", total))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the iterates from the noisy sums alone, and average the second half of them."""
        path = SampledPath(plan)
        for gradient in port.history("gradients"):
            path.move(gradient)
        return path.average

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Clipped = plan.schedule[0]
        what = "in every coordinate" if self.norm == "coordinates" else "in l2"
        return [
            f"batches     {r.steps} of {plan.n // r.steps} records or one more, each read once",
            f"descent     steps of {r.rate:.4g} on the mean loss, last {r.averaged} averaged",
            f"gradients   clipped to {r.clip:.4g} {what}, noise {plan.releases[0].scale:.4g} on their sum",
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        plain = cls(batches=4, norm="l2")
        return (
            Attack(cls(batches=4), SIGNS, d=2, seed=68),
            Attack(plain, LOGISTIC, d=2, name="HeavyTailedSGD, l2", relations=ONE_RELATION, seed=70),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        coordinates = Mutant("coordinates clipped, promise about l2", change=clip_coordinates)
        return *ANYWHERE, NOT_CLIPPED, coordinates, NOT_CAPPED

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(batches=3), SIGNS, d=2), Victim(cls(batches=3, norm="l2"), LOGISTIC, d=2)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        return [mirrored_pair(plan, mutant)]

    def _longest(self, clip: float, size: int) -> float:
        """Largest l2 norm of a clipped gradient."""
        return round_up(clip * math.sqrt(size) * (1.0 + 1e-14)) if self.norm == "coordinates" else clip

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> Clipped:
        size = math.prod(problem.weight_shape(d))
        even = math.sqrt(size) if self.norm == "coordinates" else 1.0
        clip = float(self.clip or 0.5 * problem.row_bound(d).value * problem.loss.traits.target / even)
        return self.balanced(problem, n, d, budget, clip, TYPICAL * self._longest(clip, size), MOST_BATCHES)

    def balanced(
        self, problem: Problem, n: int, d: int, budget: Budget, clip: float, typical: float, most: int
    ) -> Clipped:
        """Balance gradients of length G against noise of length T A on the mean of a batch: T = G/A is best."""
        size = math.prod(problem.weight_shape(d))
        noise = self._longest(clip, size) * math.sqrt(size) / (n * budget.mu / budget.moves)
        best = self.batches or min(max(round(typical / noise), 1), n, most)
        reach = problem.farthest(d)
        if not math.isfinite(reach):
            reach = default_reach(problem)
        rate = reach / (math.hypot(typical, best * noise) * math.sqrt(best))
        return Clipped(best, rate, clip, NORMS[self.norm], math.ceil(best / 2))


def clipped_sum_of(sums: Sums, loss: Loss, w: np.ndarray, recipe: Clipped) -> np.ndarray:
    """Sum of the clipped gradients of these records at w, in l2 or per coordinate; NaN counts as 0.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.memory import open_sums
    >>> sums = open_sums(Dense(np.array([[3.0, 0.1], [1.0, 0.0]]), 10.0, 0.0), np.array([-2.0, 1.0]))
    >>> clipped_sum_of(sums, Squared(9.0), np.zeros(2), Clipped(1, 1.0, 1.5, math.inf, 1))
    array([0.5, 0.2])
    """
    from dpconvex.sums.protocol import Slopes, Truncated

    with np.errstate(over="ignore", invalid="ignore"):
        if recipe.q == 2.0:
            return sums.sweep(Truncated(loss, w, recipe.clip))
        return sums.entries(Slopes(loss, w), recipe.clip)
