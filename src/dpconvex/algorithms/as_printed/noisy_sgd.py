"""Snowball-SGD as printed: FKT20 Theorems 3.5, 3.6 and, with l2, 5.4."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.algorithms.as_printed import check_bounded, check_unset, printed_rho
from dpconvex.algorithms.noisy_sgd import NoisySGD
from dpconvex.algorithms.walks import Snowball, SnowballJNN, Walk, jnn_steps, most_steps
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.theorems.schedules import Constant, Listed


def check(options: NoisySGD) -> None:
    """Refuse schedules that no paper prints, and options that the printed constants fix."""
    if not isinstance(options.schedule, Snowball | SnowballJNN):
        raise InputError("constants='paper' exist for Snowball and SnowballJNN; take constants='tight'")
    fixed = "fixes steps, step and distance: leave them unset"
    check_unset(options, fixed, "step", "distance")
    if options.schedule.steps not in (None, "most"):
        raise InputError(f"constants='paper' {fixed}")
    check_unset(options, "are for the last iterate: leave release unset", "release")


def make(options: NoisySGD, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Walk, float, str]:
    """Gradient noise L/sqrt(d), and batches rounded up."""
    size = math.prod(problem.weight_shape(d))
    lipschitz, diameter, ridge = problem.lipschitz(d).value, problem.domain.diameter(size), problem.l2 / n
    check_bounded(diameter, "its step is set by the diameter")
    halving = isinstance(options.schedule, SnowballJNN)
    factor = (4.0 * math.sqrt(3.0) if halving else 2.0) * math.sqrt(size) / printed_rho(budget)

    def sizes(length: int) -> np.ndarray:
        return np.asarray(np.ceil(factor / np.sqrt(np.arange(length, 0, -1.0))))

    length = most_steps(n, sizes)
    if length == 0:
        raise HypothesisError(
            f"constants='paper': the last batch alone needs {sizes(1)[0]:.0f} records, n is {n}; "
            "take constants='tight' or a larger epsilon"
        )
    if problem.l2:
        if halving:
            raise HypothesisError("constants='paper' with l2 > 0 exist for Snowball; take constants='tight'")
        first = 2.0 * math.log(length) / (ridge * length)
        if not 0.0 < first <= 0.5 / ridge:
            raise HypothesisError(
                f"constants='paper': a step of 2 ln T / (lambda T) needs T of at least 9 or so, n allows {length}"
            )
        bound, source = 20.0 * lipschitz**2 * math.log(length) ** 2 / (ridge * length), "FKT20 Thm 5.4"
    else:
        first = diameter / (lipschitz * math.sqrt(2.0 * length))
        root = diameter * lipschitz / math.sqrt(length)
        bound = 15.0 * math.sqrt(2.0) * root if halving else math.sqrt(8.0) * (2.0 + math.log(length)) * root
        source = "FKT20 Thm 3.6" if halving else "FKT20 Thm 3.5"
    steps = Listed.of((first * jnn_steps(length)).tolist()) if halving else Constant(first, length)
    walk = Walk(Listed.of(sizes(length).tolist()), steps, 1.0)
    return (
        walk,
        lipschitz / math.sqrt(size) * float(steps.values().max()),
        f"expected excess loss at most {bound:.4g} ({source})",
    )
