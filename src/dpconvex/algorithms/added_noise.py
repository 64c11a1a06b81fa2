"""Noise added to a vector: Gaussian, or Laplace where the budget has delta = 0."""

from __future__ import annotations

import math

from dpconvex.calibrate import gaussian_scale
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.problem.facts import Fact
from dpconvex.rounding import round_down
from dpconvex.theorems import gaussian, laplace
from dpconvex.theorems.laplace import LAPLACE, laplace_scale


def with_noise(name: str, moved: Fact, shape: tuple[int, ...], budget: Budget) -> Claim:
    """Claim of one release of a vector that a record moves by so much, with just enough noise for the budget.

    Examples
    --------
    >>> from dpconvex.theorems import clipped_sum, computed_sum
    >>> moved = computed_sum(clipped_sum(1.0, "zero_out"), 100, 2)
    >>> [with_noise("sum", moved, (2,), Budget(1.0, d, "zero_out")).releases[0].law for d in (1e-6, 0.0)]
    ['gaussian', 'laplace']
    """
    if budget.delta:
        scale = gaussian_scale(moved.value, budget.mu)
        return gaussian(moved, Release(name, "gaussian", scale, shape, grid=grid_of(scale)))
    scale = laplace_scale(moved.value, math.prod(shape), budget.epsilon)
    return laplace(moved, Release(name, LAPLACE, scale, shape, grid=grid_of(scale)))


def signal(budget: Budget, numbers: int) -> float:
    """Sensitivity of a vector of so many numbers over the standard deviation of the noise that it gets.

    Examples
    --------
    >>> [round(signal(Budget(1.0, d), 2), 4) for d in (1e-6, 0.0)]
    [0.2367, 0.5]
    """
    return budget.mu if budget.delta else round_down(budget.epsilon / math.sqrt(2.0 * numbers))
