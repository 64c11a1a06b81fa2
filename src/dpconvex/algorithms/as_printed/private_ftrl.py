"""Private FTRL as printed, where it is private: linear losses, AMU20 Theorem 4.1."""

from __future__ import annotations

import math

from dpconvex.algorithms.as_printed import check_bounded, check_unset
from dpconvex.algorithms.private_ftrl import PrivateFTRL
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


def check(options: PrivateFTRL) -> None:
    """Refuse options that the printed constants fix, and modes for which the theorem is false."""
    if options.mode != "linear":
        raise InputError("constants='paper' needs mode='linear': for other losses the printed theorem is false")
    check_unset(options, "fixes p, batch, step and fixed: leave them unset", "p", "batch", "step", "fixed")


def make(options: PrivateFTRL, problem: Problem, n: int, d: int, budget: Budget) -> tuple[float, float]:
    """Noise on the sum of n rounds of one record, and the step D / (G sqrt(n)) of Theorem 5.1.

    Rounds have noise 2 alpha L / sqrt(n e) for the Renyi divergence e = epsilon / 2 of the order alpha at which Lemma
    2.4 gives epsilon.
    """
    size = math.prod(problem.weight_shape(d))
    far = problem.farthest(d)
    check_bounded(far, "its step is set by the diameter")
    alpha = 1.0 + 2.0 * math.log(1.0 / budget.delta) / budget.epsilon
    lipschitz = problem.lipschitz(d).value
    total = 2.0 * alpha * lipschitz / math.sqrt(budget.epsilon / 2.0)
    steep = math.sqrt(lipschitz**2 + size * total**2 / n)
    return round_up(total), far / math.sqrt(2.0) / (steep * math.sqrt(n))
