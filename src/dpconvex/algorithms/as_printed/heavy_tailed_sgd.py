"""Heavy-tailed SGD in the style of SZW23 Theorem 15, for coordinates of variance 1: docs/proofs/heavy_tailed_sgd.md."""

from __future__ import annotations

import math
from dataclasses import replace

from dpconvex.algorithms.as_printed import check_unset
from dpconvex.algorithms.heavy_tailed_sgd import Clipped, HeavyTailedSGD
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


def check(options: HeavyTailedSGD) -> None:
    """Refuse options that the printed constants fix."""
    check_unset(options, "sets batches and clip itself: leave them out", "batches", "clip")


def make(options: HeavyTailedSGD, problem: Problem, n: int, d: int, budget: Budget) -> Clipped:
    """Clip of order (n mu / moves)^(1/3), and the average of all points."""
    size = math.prod(problem.weight_shape(d))
    signal = n * budget.mu / budget.moves
    clip = round_up(signal ** (1.0 / 3.0) * (1.0 if options.norm == "coordinates" else math.sqrt(size)))
    recipe = options.balanced(problem, n, d, budget, clip, math.sqrt(size), n)
    return replace(recipe, averaged=recipe.steps)
