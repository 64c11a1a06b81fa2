"""Phased-SGD as printed: FKT20 Algorithm 2, or SZW23 Algorithm 6 on an l_p ball, and layouts for strong convexity."""

from __future__ import annotations

import math
from itertools import pairwise

from dpconvex.algorithms.as_printed import check_bounded, check_unset, printed_rho
from dpconvex.algorithms.cuts import halving
from dpconvex.algorithms.phased_sgd import Phase, PhasedSGD, capped_step, placed
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_down
from dpconvex.theorems.schedules import Constant


def check(options: PhasedSGD) -> None:
    """Refuse options that the printed constants fix."""
    fixed = "phases", "ratio", "step", "distance", "growing", "batch", "layout"
    check_unset(options, "fixes phases, ratio, step, distance, growing, batch and layout: leave them unset", *fixed)


def make(options: PhasedSGD, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], list[float]]:
    """FKT20 Algorithm 2 and Theorem 4.4 on whole phases: none is empty, none share a record.

    On an l_p ball SZW23 Algorithm 6 and Lemma 14: half the noise, and a distance of 1.
    """
    size = math.prod(problem.weight_shape(d))
    lipschitz, reach, rho = problem.lipschitz(d).value, problem.domain.reach(size), printed_rho(budget)
    check_bounded(reach, "its step is set by the radius")
    free = not problem.domain.traits.inside  # an l_p ball
    distance, factor, rounded = (1.0, 2.0, math.floor) if free else (reach, 4.0, math.ceil)
    eta = distance / lipschitz * min(4.0 / math.sqrt(n), rho / math.sqrt(size))
    phases = tuple(
        Phase(f"phase {i}", range(a, b), Constant(eta * 4.0**-i, b - a), "uniform")
        for i, (a, b) in enumerate(pairwise(halving(n, rounded(math.log2(n)))), start=1)
    )
    scales = [factor * lipschitz * eta * 4.0**-i / rho for i in range(1, len(phases) + 1)]
    return placed(problem, n, d, phases, scales), scales


def localised(
    options: PhasedSGD, problem: Problem, n: int, d: int, budget: Budget, batch: int, cap: float
) -> list[tuple[int, int, float]]:
    """FKT20 Theorem 5.3: log2 log2 n equal phases of constant steps 2^-2^i eta, eta = 8 k ln n / (lambda n)."""
    k = options.phases or _double_log(n)
    ridge = problem.l2 / n
    eta = options.step or batch * 8.0 * k * math.log(n) / (ridge * n)
    most = round_down(2.0 / (problem.smoothness(n, d).value + ridge))
    cuts = [i * n // k for i in range(k + 1)]
    return [
        (a, b, min(round_down(eta * 2.0 ** -(2**i)), most)) for i, (a, b) in enumerate(pairwise(cuts), start=1) if b > a
    ]


def reduced(
    options: PhasedSGD, problem: Problem, n: int, d: int, budget: Budget, batch: int, cap: float
) -> list[tuple[int, int, float]]:
    """FKT20 Theorem 5.1: runs on 2^(i-2) n/log2 n records, each around the point the one before has found."""
    ridge, lipschitz = problem.l2 / n, problem.lipschitz(d).value
    size = math.prod(problem.weight_shape(d))
    distance = min(lipschitz / ridge, options.distance or problem.domain.reach(size))
    cuts = [0]
    for i in range(1, _double_log(n)):
        cuts.append(cuts[-1] + int(2.0 ** (i - 2) * n / math.log2(n)))
    found = []
    for a, b in pairwise([*cuts, n]):
        if b == a:
            continue
        first = options.step or capped_step(problem, b - a, n, d, budget, distance, batch, cap)
        for j, (start, stop) in enumerate(pairwise(halving(b - a, min(options.phases or 2, b - a)))):
            found.append((a + start, a + stop, first * options.ratio**j))
        # The excess of a run bounds the distance that is left, by strong convexity.
        excess = lipschitz * distance * (7.0 / math.sqrt(b - a) + 20.0 * math.sqrt(size) / (budget.mu * (b - a)))
        distance = min(distance, math.sqrt(2.0 * excess / ridge))
    return found


def _double_log(n: int) -> int:
    return max(1, math.ceil(math.log2(max(2.0, math.log2(n)))))


LAYOUTS = {"localisation": localised, "reduction": reduced}
