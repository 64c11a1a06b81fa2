"""Phased-ERM as printed: FKT20 Algorithm 3, and its reduction for strong convexity."""

from __future__ import annotations

import math
from itertools import pairwise

from dpconvex.algorithms.added_noise import signal
from dpconvex.algorithms.as_printed import check_bounded, check_unset
from dpconvex.algorithms.cuts import halving
from dpconvex.algorithms.phased_erm import Phase, PhasedERM, certified, excess_bound, influences, least_distance
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem


def check(options: PhasedERM) -> None:
    """Refuse options that the printed constants fix."""
    fixed = "phases", "ratio", "weight", "distance", "tolerance", "reduction"
    check_unset(options, "fixes phases, ratio, weight, distance, tolerance and reduction: leave them unset", *fixed)


def make(options: PhasedERM, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], list[float]]:
    """FKT20 Algorithm 3 and Theorem 4.8 on whole phases: none is empty, none share a record."""
    size = math.prod(problem.weight_shape(d))
    if not budget.delta:
        raise HypothesisError("constants='paper' are for Gaussian noise: take delta > 0, or constants='tight'")
    lipschitz, reach = problem.lipschitz(d).value, problem.domain.reach(size)
    check_bounded(reach, "its weights are set by the radius")
    log = math.sqrt(math.log(1.0 / budget.delta))
    eta = reach / lipschitz * min(4.0 / math.sqrt(n), budget.epsilon / (math.sqrt(size) * log))
    phases: list[Phase] = []
    for i, (a, b) in enumerate(pairwise(halving(n, math.ceil(math.log2(n)))), start=1):
        step = eta * 4.0**-i
        if least_distance(problem, b - a, d, problem.l2 / n * (b - a), 2.0 / step, reach) > lipschitz * step:
            break  # beyond float64, and far too heavy to move: the last phases are left out
        phases.append(Phase(f"phase {i}", range(a, b), 2.0 / step, lipschitz * step, reach))
    if not phases:
        raise HypothesisError("constants='paper': float64 cannot certify the printed tolerance of the first phase")
    return tuple(phases), [4.0 * lipschitz * (eta * 4.0**-i) / budget.epsilon * log for i in range(1, len(phases) + 1)]


def reduced(options: PhasedERM, problem: Problem, n: int, d: int, budget: Budget) -> list[Phase]:
    """FKT20 Theorem 5.1 with a distance that is known in advance in place of its expectation."""
    if not problem.l2:
        raise HypothesisError("reduction=True is for strongly convex problems: set l2 > 0, or leave it False")
    if options.weight is not None:
        raise InputError("reduction=True sets the weights by a shrinking distance: leave weight unset")
    runs = max(1, math.ceil(math.log2(max(math.log2(n), 1.0))))
    ends = [n * (2**i - 1) // (2**runs - 1) for i in range(runs + 1)]
    distance = problem.lipschitz(d).value * n / problem.l2  # |w*| <= L / lambda by strong monotonicity
    distance = min(distance, options.distance or problem.domain.reach(math.prod(problem.weight_shape(d))))
    drafts: list[Phase] = []
    for a, b in pairwise(sorted(set(ends))):
        run = options.drafts(problem, d, budget, range(a, b), distance)
        drafts += run
        made = certified(problem, n, d, budget, run, options.tolerance)
        scales = [1.1 * s / signal(budget, len(problem.begin(d))) for s in influences(problem, n, d, budget, made)]
        bound = excess_bound(problem, n, d, made, scales, distance)
        distance = min(distance, math.sqrt(2.0 * bound * n / problem.l2))
    return drafts
