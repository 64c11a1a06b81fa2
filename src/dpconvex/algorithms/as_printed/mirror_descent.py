"""Noisy regularised mirror descent as printed: SZW23 Algorithm 3."""

from __future__ import annotations

import math

from dpconvex.algorithms.as_printed import check_unset
from dpconvex.algorithms.mirror_descent import MirrorDescent, Mirrored, geometry, mirrored
from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.rounding import round_up


def check(options: MirrorDescent) -> None:
    """Refuse options that the printed constants fix."""
    check_unset(options, "sets steps, clip and horizon itself: leave them out", "steps", "clip", "horizon")


def printed_noise(noise: str | RenyiLaw) -> str | RenyiLaw:
    """Law of the noise: generalised Gaussian, unless another one is asked for."""
    return "generalised" if noise == "shorter" else noise


def make(options: MirrorDescent, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Mirrored, str | RenyiLaw]:
    """Steps, step size and regularisation of the theorem, gradients clipped at their largest norm only."""
    q, row, kappa, beta = geometry(problem, n, d, options.p)
    slope = problem.loss.slope_bound(math.inf)
    if not math.isfinite(slope) or not beta:
        raise HypothesisError("constants='paper' needs a loss of bounded slope that bends, such as Logistic")
    signal = n * budget.epsilon * math.sqrt(kappa / (math.prod(problem.weight_shape(d)) * math.log(1.0 / budget.delta)))
    steps = min(max(round(signal**0.4), 2), 100_000)
    shrink = 4.0 * math.log2(max(n / steps, 2.0)) / (steps + 1.0)  # alpha / beta
    return mirrored(steps, 1.0 / beta, shrink, round_up(slope * row), q), printed_noise(options.noise)
