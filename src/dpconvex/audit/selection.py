"""Neighbouring data sets for plans that release choices: one coordinate, and which way it points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpconvex.audit.mutants import Mutant
from dpconvex.audit.neighbours import Pair
from dpconvex.loops.rows import Dense
from dpconvex.plan.plan import Plan
from dpconvex.problem.losses import Linear


def choice_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record of the steepest loss against its mirror image or nothing, the others 0.

    A linear loss a thousand times as steep as the clip makes every gradient of the record as large as it may be, at
    every point, so that all choices are alike and what matters is how many of them went one way rather than the other.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.audit.mutants import NONE
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    >>> plan = dc.algorithms.FrankWolfe(steps=3).plan(problem, n=6, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> choice_pair(plan, NONE).statistic(np.array([[0, 0, 1], [1, 1, 1]]))
    array([-1.,  3.])
    """
    broken = mutant.plan(plan)
    size = plan.problem.weight_shape(plan.d)[0]
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = (plan.claim.unit if isinstance(plan.claim.unit, int) else 2) + mutant.twice
    X[:used, 0] = 1.0
    labels = y.copy()
    labels[:used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = Dense(X, 1.0, 0.0)

    def statistic(corners: np.ndarray) -> np.ndarray:
        return np.asarray((corners == size).sum(axis=1) - (corners == 0).sum(axis=1), dtype=float)

    attacked = replace(broken, problem=replace(broken.problem, loss=Linear(1e3 * plan.schedule[0].clip)))
    words = f"one record against its {'mirror image' if plan.budget.relation == 'replace_one' else 'absence'}"
    return Pair(attacked, (rows, y), (rows, labels), f"{words}, the steepest loss", "any", statistic)
