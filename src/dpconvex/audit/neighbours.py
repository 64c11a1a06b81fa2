"""Neighbouring data sets on which a plan is attacked: for each algorithm, the worst that its hypotheses allow.

A claim speaks of every problem that meets its facts, so the attacker may replace the loss by another one that meets
them and drop the projection: linear losses of the largest slope leave outputs that are exactly Gaussian, and nothing
of the change is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.noisy_gd import NoisyGD
from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.algorithms.sufficient_statistics import SufficientStatistics
from dpconvex.audit.mutants import Mutant
from dpconvex.errors import InputError
from dpconvex.loops.rows import Dense
from dpconvex.plan.plan import Plan
from dpconvex.problem.domains import Everywhere
from dpconvex.problem.facts import Kind
from dpconvex.problem.losses import Linear, Softmax

Data = tuple[Dense, np.ndarray]


@dataclass(frozen=True)
class Pair:
    """Neighbouring data sets, the plan to run on them, and the statistic to tell them apart.

    Without a statistic the released values are an affine function of the noise, and the best one is computed.
    """

    plan: Plan
    plain: Data
    changed: Data
    words: str
    statistic: Callable[[np.ndarray], float] | None = None


def pairs(plan: Plan, mutant: Mutant) -> list[Pair]:
    """Neighbours worth trying for this plan, broken as the mutant says."""
    if isinstance(plan.problem.loss, Softmax):
        raise InputError("the audit attacks losses of one prediction; a softmax plan shares their code and claim")
    if isinstance(plan.algorithm, ObjectivePerturbation):
        exact = [_perturbed_pair(plan, mutant)] if plan.d == 1 and not plan.problem.intercept else []
        return [linear_pair(plan, 0, mutant), *exact]
    if isinstance(plan.algorithm, SufficientStatistics):
        return [_moment_pair(plan, mutant, kind) for kind in ("cross", "second")]
    return [linear_pair(plan, record, mutant) for record in attacked_records(plan)]


def attacked_records(plan: Plan) -> list[int]:
    """Positions worth attacking: where phases start and end, and the middle; any one record if all are used alike."""
    ends = {0, plan.n // 2, plan.n - 1}
    for phase in plan.schedule:
        if hasattr(phase, "records"):
            ends |= {phase.records.start, phase.records.stop - 1}
    return sorted(ends)


def linear_pair(plan: Plan, record: int, mutant: Mutant) -> Pair:
    """Linear losses of the largest slope along one direction, on all of space; one label changed or masked.

    Where gradients are clipped, the loss is twice as steep as the clip, so that a missing clip shows.
    """
    problem, n, d = plan.problem, plan.n, plan.d
    facts = problem.facts(n, d)
    row = facts[Kind.ROW_BOUND].value
    if isinstance(plan.algorithm, NoisyGD):
        steepness = 2.0 * plan.schedule[0].clip / row
    elif isinstance(plan.algorithm, ObjectivePerturbation):
        steepness = facts[Kind.SLOPE].value  # straight at its largest slope: curvature 0 keeps to every law
    else:
        steepness = facts[Kind.LIPSCHITZ].value / row
    attacked = replace(mutant.plan(plan), problem=replace(problem, loss=Linear(steepness), domain=Everywhere()))
    plain = np.where(np.arange(n) % 2 == record % 2, 1.0, -1.0)
    changed = plain.copy()
    changed[record] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = _rows(plan, np.tile(_axis(plan, 0), (n, 1)))
    words = f"linear pair, record {record} of {n}"
    return Pair(attacked, (rows, mutant.labels(plain, record)), (rows, mutant.labels(changed, record)), words)


def _moment_pair(plan: Plan, mutant: Mutant, kind: str) -> Pair:
    """One record turned round in its target ("cross"), or turned to another axis ("second"); the others are 0."""
    X = np.zeros((plan.n, plan.d))
    y = np.zeros(plan.n)
    X[0], y[0] = _axis(plan, 0), plan.problem.loss.target  # type: ignore[union-attr]
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        changed[0], labels[0] = 0.0, 0.0
    elif kind == "cross":
        labels[0] = -y[0]
    else:
        changed[0] = _axis(plan, min(1, plan.d - 1))
    twice = slice(0, 2) if mutant.twice else slice(0, 1)
    X[twice], y[twice], changed[twice], labels[twice] = X[0], y[0], changed[0], labels[0]
    attacked = mutant.plan(plan)
    if plan.problem.intercept:
        raise InputError("the moment pair is for plans without a constant feature")
    return Pair(attacked, (_rows(plan, X), y), (_rows(plan, changed), labels), f"moment pair, {kind}")


def _perturbed_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record in one dimension, where the density of the minimiser is explicit, against none or its mirror."""
    problem = plan.problem
    loss, row, sigma = problem.loss, problem.feature_bound.l2(1), plan.releases[0].scale
    assert not isinstance(loss, Softmax)  # refused above
    X, y = np.zeros((plan.n, 1)), np.ones(plan.n)
    X[0] = row
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        changed[0] = 0.0
    else:
        labels[0] = -1.0
    if mutant.twice:
        X[1], y[1], changed[1], labels[1] = X[0], y[0], changed[0], labels[0]

    def log_density(w: float, X: np.ndarray, y: np.ndarray) -> float:
        """Ln of phi(F'(w)) F''(w), for the objective F of these records."""
        g, h = problem.l2 * w, problem.l2
        for x, label in zip(X[:2, 0], y[:2], strict=True):
            g += x * loss.slope(x * w, label)
            h += x * x * loss.curvature(x * w, label)
        return -0.5 * (g / sigma) ** 2 + math.log(h)

    def statistic(released: np.ndarray) -> float:
        w = float(released[0])
        return log_density(w, changed, labels) - log_density(w, X, y)

    attacked = replace(mutant.plan(plan), problem=replace(mutant.plan(plan).problem, domain=Everywhere()))
    words = "one record in one dimension, exact likelihood ratio"
    return Pair(attacked, (_rows(plan, X), y), (_rows(plan, changed), labels), words, statistic)


def _axis(plan: Plan, j: int) -> np.ndarray:
    """The longest row along feature j."""
    row = np.zeros(plan.d)
    row[j] = plan.problem.feature_bound.l2(plan.d)
    return row


def _rows(plan: Plan, X: np.ndarray) -> Dense:
    return Dense(X, float(plan.problem.feature_bound.l2(plan.d)), plan.problem.intercept)
