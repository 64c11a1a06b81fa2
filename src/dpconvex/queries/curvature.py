"""Curvature: the Hessian of an objective at a public point, released with noise.

It fits nothing and is not an algorithm to choose. Its use: how far noise in an objective moves the minimiser depends on
the Hessian, which is private (`estimators/inference.py`). Proof: docs/proofs/noise_intervals.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    ROWS_TOO_LONG,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
)
from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.sufficient_statistics import flattened, unflattened
from dpconvex.calibrate import gaussian_scale
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan, check_public
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.theorems import computed_sum, curvature_sum, gaussian, post_process

__all__ = ["Curvature"]


@dataclass(frozen=True)
class Curvature(Algorithm):
    """The matrix sum_i l''(<x_i, w>; y_i) x_i x_i' + l2 I at public weights w.

    Running the plan gives a solution whose `weights` are that matrix, with noise.

    Parameters
    ----------
    at : tuple of float
        The weights w. They are on the receipt.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> from dpconvex.queries.curvature import Curvature
    >>> problem = dc.Problem(dc.losses.Logistic(), l2=2.0)
    >>> plan = Curvature(at=(0.0, 0.0)).plan(problem, n=1000, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> X = np.eye(2)[[0, 1] * 500]
    >>> found = plan.run(X, np.ones(1000))  # without noise: 500 records per feature, of curvature 1/4, and l2
    >>> bool(np.abs(found.weights - 127.0 * np.eye(2)).max() < 15.0), bool(dc.verify(found.receipt))
    (True, True)
    """

    released = "the matrix of second derivatives of a loss at the {size} weights of a model"
    enables = "standard errors of the weights"
    takes = frozenset({"sample_weight"})

    at: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.at, tuple) or not all(isinstance(w, float) and np.isfinite(w) for w in self.at):
            raise InputError("at must be a tuple of finite floats, the weights at which the Hessian is taken")

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Plan the noise from public facts: the largest contribution of one record at any point."""
        check_public(n, d, budget)
        n, d = int(n), int(d)
        if problem.weight_shape(d) != (len(self.at),):
            raise InputError(f"at holds {len(self.at)} weights, and the problem has {problem.weight_shape(d)}")
        moved = curvature_sum(problem.curvature_law(), problem.slope(), problem.row_bound(d), budget.relation)
        if not moved.value:
            raise HypothesisError(f"{type(problem.loss).__name__} has no curvature: there is nothing to release")
        entries = len(self.at) * (len(self.at) + 1) // 2
        moved = computed_sum(moved, n, len(self.at))
        scale = gaussian_scale(moved.value, budget.mu)
        claim = gaussian(moved, Release("hessian", "gaussian", scale, (entries,), grid=grid_of(scale)))
        return Plan(
            self, problem, n, d, budget, post_process(claim, "adding the quadratic term"), (), n,
            utility=f"a matrix; each entry on its diagonal is off by {scale:.4g} (standard deviation)",
        )  # fmt: skip

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Release the sum of the Hessians of the records."""
        from dpconvex.sums.memory import open_sums

        port.add("hessian", flattened(open_sums(rows, y).hessian(plan.problem.loss, np.array(self.at))))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Return the noisy matrix, with the Hessian of the quadratic term."""
        size = len(self.at)
        return unflattened(port.released("hessian"), size) + plan.problem.l2 * np.eye(size)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        return (Attack(cls((0.0, 0.0)), LOGISTIC, d=2, seed=40),)

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, NOT_CAPPED

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (Victim(cls((0.0, 0.0)), LOGISTIC, d=2),)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        if plan.problem.intercept or any(self.at):
            raise InputError("a Hessian is attacked at weights of zero and without a constant feature")
        return [_curvature_pair(plan, mutant)]

    def describe(self, plan: Plan) -> list[str]:
        """Describe the query in one line."""
        return [f"query       Hessian at {len(self.at)} public weights, noise {plan.releases[0].scale:.4g}"]


def _curvature_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record against its like along another axis, or nothing, the others 0, where the loss bends most: at 0."""
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = group_size(plan) + mutant.twice
    X[:used] = axis(plan, 0)
    changed = X.copy()
    changed[:used] = axis(plan, 1) if plan.budget.relation == "replace_one" else 0.0
    words = f"one record against {'another axis' if plan.budget.relation == 'replace_one' else 'its absence'}"
    return Pair(mutant.plan(plan), (dense(plan, X, mutant), y), (dense(plan, changed, mutant), y), words)
