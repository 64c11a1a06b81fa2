"""Truncated mirror descent as printed: SZW23 Algorithms 4 and 7."""

from __future__ import annotations

import math

from dpconvex.algorithms.as_printed import check_unset
from dpconvex.algorithms.as_printed.mirror_descent import printed_noise
from dpconvex.algorithms.mirror_descent import Mirrored
from dpconvex.algorithms.truncated_mirror_descent import TruncatedMirrorDescent
from dpconvex.calibrate import threshold
from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.geometry import dual_exponent, mirror_map
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems.numerics.shuffling import closed_form


def check(options: TruncatedMirrorDescent) -> None:
    """Refuse options that the printed constants fix."""
    check_unset(options, "sets truncation and batches itself: leave them out", "truncation", "batches")


def make(options: TruncatedMirrorDescent, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Mirrored, Claim]:
    """SZW23 Theorem 10 (shuffled, with noise by Theorem 9) and Theorem 14, for the loss over `moment`: variance 1."""
    size = math.prod(problem.weight_shape(d))
    q, radius, kappa = dual_exponent(options.p), options.radius_of(problem, d), mirror_map(options.p, size).scale
    problem.smoothness(n, d)  # a kink has no smoothness
    moment = float(options.moment or 1.0)
    beta = problem.loss.curvature_bound() * problem.dual_row_bound(d, q) ** 2 / moment
    hard, signal = math.sqrt(size * math.log(1.0 / budget.delta)), n * budget.epsilon
    if options.shuffle:
        lam = math.sqrt(signal / (kappa * hard))
        steps = (radius * signal / ((beta * radius + lam) * hard)) ** 2
    else:
        lam = (math.sqrt(signal) * radius / (kappa * math.sqrt(hard))) ** (2.0 / 3.0)
        steps = signal / (radius * lam * hard)
    count = min(max(round(steps), 1), n)
    rate = 1.0 / (moment * max(math.sqrt(count), 2.0 * beta))
    recipe = Mirrored(count, rate, 1.0, 1.0, round_up(moment * (beta * radius + lam)), q, radius)
    if options.shuffle:
        return recipe, options.shuffled(problem, n, d, budget, recipe, _closed_ratio(n, math.ceil(n / count), budget))
    return recipe, options.together(problem, n, d, budget, recipe, printed_noise(options.noise))


def _closed_ratio(n: int, batch: int, budget: Budget) -> float:
    """Noise of Theorem 9: each record's own is locally private, and the closed form says what shuffling makes of it.

    Half of delta goes to the closed form, the other half to what local privacy lacks.
    """
    delta = budget.delta / 2.0
    if closed_form(n, 1e-9, delta) > budget.epsilon:
        raise HypothesisError("the closed form for shuffling gives no epsilon as small as asked for: take more records")
    top = math.log((n - 1) / (16.0 * math.log(4.0 / delta))) * (1.0 - 1e-12)
    local, _ = threshold(lambda e: e >= top or closed_form(n, e, delta) > budget.epsilon, 1e-9, top)
    share = delta / (n * (1.0 + math.exp(budget.epsilon)) * (1.0 + math.exp(-local) / 2.0))
    mu, _ = threshold(lambda m: GDP(m).delta(local) > share, 1e-9, 1e3)
    return 2.0 * math.sqrt(batch) / mu
