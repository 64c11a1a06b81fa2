"""Heavy-tailed SGD in the style of SZW23 Theorem 15: docs/proofs/heavy_tailed_sgd.md."""

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
    """Clip of order sigma (n mu / moves)^(1 / (2k - 1)), and the average of all points; sigma = 1 if not given."""
    size = math.prod(problem.weight_shape(d))
    moment, signal = float(options.moment or 1.0), n * budget.mu / budget.moves
    even = 1.0 if options.norm == "coordinates" else math.sqrt(size)
    clip = round_up(moment * signal ** (1.0 / (2.0 * options.order - 1.0)) * even)
    recipe = options.balanced(problem, n, d, budget, clip, moment * math.sqrt(size), n)
    return replace(recipe, averaged=recipe.steps)
