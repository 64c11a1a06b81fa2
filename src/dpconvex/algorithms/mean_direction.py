"""MeanDirection: a single query, the sum of y x, for data sets with too few records for anything more.

Up to a factor, the sum of y x is the first gradient of a descent from 0. The whole budget is spent on it.
Proof: docs/proofs/mean_direction.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpconvex.algorithms.added_noise import with_noise
from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    ONE_NORM_FOR_ANOTHER,
    PURE,
    ROWS_TOO_LONG,
    Attack,
    Mutant,
    Victim,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.noise_law import Law, Released, added_law
from dpconvex.kernel.budget import Budget
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.theorems import computed_sum, moment_sums, post_process
from dpconvex.theorems.laplace import LAPLACE


@dataclass(frozen=True)
class MeanDirection(Algorithm):
    """Weights in the direction of the sum of y x, which amounts to one step of gradient descent from 0.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.1]] * 50)
    >>> y = np.array([1.0, -1.0] * 50)
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-3))
    >>> plan.run(X, y).weights.shape
    (2,)
    """

    needs = Needs(ORIGIN, starts=False, pure=True)
    suits = "very few records"
    reads = "1"
    takes = frozenset({"sample_weight"})
    vectors = 1.0
    keeps_squares = True

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix the noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        shape = problem.weight_shape(d)
        moved = moment_sums(problem.row_bound(d), problem.loss.traits.target, budget.relation, "cross")
        moved = computed_sum(moved, n, shape[0])
        claim = with_noise("direction", moved, shape, budget)
        return Plan(
            self, problem, n, d, budget, post_process(claim, "scaling and projection"), (), n,
            utility="a direction, not a minimiser: for few records and small epsilon",
        )  # fmt: skip

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Add up y x."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Labels

        port.add("direction", open_sums(rows, y).sweep(Labels()))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Take the step that the curvature bound allows."""
        return plan.problem.domain.project(_step(plan.problem, plan.n, plan.d) * port.released("direction"))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the query, for a person."""
        law = "Laplace noise" if plan.releases[0].law == LAPLACE else "noise"
        return [f"query       sum of y x, {law} {plan.releases[0].scale:.4g}"]

    def noise_law(self, released: Released) -> Law:
        """Noise of the query, times the step size."""
        step = _step(released.problem, released.n, released.d)
        covers = "the same direction and length without noise"
        return added_law(step * released.scales["direction"], released.weights, covers)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        pure = Attack(cls(), LOGISTIC, d=2, delta=0.0, name="MeanDirection, pure", share=1 / 20, least=0.5)
        return Attack(cls(), LOGISTIC, seed=48), pure

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, NOT_CAPPED, *PURE, ONE_NORM_FOR_ANOTHER

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        line, norms = (Victim(cls(), LOGISTIC, d=d, delta=0.0) for d in (1, 16))
        return Victim(cls(), LOGISTIC), line, norms


def _step(problem: Problem, n: int, d: int) -> float:
    """Length of the single step: as long as the curvature bound allows."""
    curvature = problem.loss.curvature_bound() or 1.0
    size = n * curvature * problem.row_bound(d).value ** 2 + problem.l2
    return abs(float(problem.loss.slope(0.0, 1.0))) / size  # type: ignore[union-attr]
