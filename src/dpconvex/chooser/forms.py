"""In which form an algorithm takes a problem: the shape of the loss that carries most signal for its noise."""

from __future__ import annotations

import math
from dataclasses import replace

from dpconvex import algorithms
from dpconvex.kernel.budget import Budget
from dpconvex.problem.losses import LogCosh, Logistic, Loss, Softmax
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


def form(name: str, problem: Problem, n: int, d: int, budget: Budget) -> Problem:
    """The problem as that algorithm takes it.

    A plain loss names the task. As the algorithm declares, it is given a logistic loss with a shift, least squares as
    log-cosh, whose slope is bounded, and an l2 that suits targets where there is none (`target_l2`); a softmax always
    has a shift. A loss with parameters of its own is kept, and so is an l2.

    Examples
    --------
    >>> from dpconvex.problem.losses import Squared
    >>> budget = Budget(1.0, 1e-6)
    >>> form("ObjectivePerturbation", Problem(Squared()), 1000, 5, budget).loss
    LogCosh(threshold=0.390093, target=1.0)
    >>> form("NoisyGD", Problem(Squared()), 1000, 5, budget).loss
    Squared(target=1.0)
    """
    algorithm, traits = algorithms.get(name)(), problem.loss.traits
    if traits.quadratic and not algorithm.keeps_squares:
        problem = replace(problem, loss=shaped(problem.loss, 0.0, largest_slope(problem, n, d, budget)))
    elif traits.probabilities and (algorithm.shifts_margin or traits.outputs > 1):
        problem = replace(problem, loss=shaped(problem.loss, margin_shift(problem, n, d, budget), 0.5))
    if problem.l2 or traits.task != "squares" or problem.loss.traits.quadratic:
        return problem
    least = algorithm.least_l2(problem, d, budget)
    return replace(problem, l2=target_l2(problem, d, budget, least)) if least else problem


def shaped(loss: Loss, shift: float, slope: float) -> Loss:
    """A plain loss with that margin asked for, or with slopes bounded by that part of the largest target."""
    if loss == Logistic():
        return Logistic(shift=shift)
    traits = loss.traits
    if traits.outputs > 1 and loss == Softmax(traits.outputs):
        return Softmax(traits.outputs, shift=round_up(min(max(2.0 * shift - 1.0, 0.0), 1.0), 6))  # none much sooner
    if traits.quadratic:
        return LogCosh(threshold=slope * traits.target, target=traits.target)
    return loss


def margin_shift(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Margin to ask for: none where noise is negligible, up to 2 where it drowns the gradient.

    A shifted loss is steeper at the start for the same largest slope; the more noise, the more that matters.
    """
    return round_up(min(max(1.0 + 0.5 * math.log10(noise_to_signal(problem, n, d, budget) / 0.002), 0.0), 2.0), 6)


def largest_slope(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Where to bound the slope of a regression loss, in units of the largest target: at half, or less under much noise.

    Noise is in proportion to the bound, and so is what a residual beyond it still counts.
    """
    return round_up(max(0.5 * min(1.0, (0.007 / noise_to_signal(problem, n, d, budget)) ** 0.25), 0.2), 6)


def target_l2(problem: Problem, d: int, budget: Budget, least: float) -> float:
    """Regularisation of objective perturbation for targets, on the scale of the sum; not less than `least`.

    Noise sigma in the objective costs h sigma^2 / (2 (h + l2)^2) along a direction of curvature h, at most sigma^2 /
    (8 l2), and l2 costs l2 D^2 / 2 for a solution of length D. The sum over d directions is least at l2 = sigma sqrt(d)
    / (2 D). Predictions have to reach the targets, not more: D is twice the largest target over the row bound.

    Examples
    --------
    >>> [round(target_l2(Problem(LogCosh(0.5)), d, Budget(1.0, 1e-6), 1.0), 1) for d in (10, 100)]
    [3.3, 10.6]
    """
    row, loss = problem.row_bound(d).value, problem.loss
    sigma = budget.moves * loss.slope_bound(math.inf) * row / budget.mu
    distance = 2.0 * loss.traits.target / row
    spread = sigma * math.sqrt(problem.weight_shape(d)[-1]) / (2.0 * distance)
    return round_up(max(spread, least))


def noise_to_signal(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Noise of one release relative to a gradient of n records, Delta sqrt(d) / (n mu)."""
    size = problem.weight_shape(d)[-1]
    return budget.moves * math.sqrt(size) / (n * budget.mu)


def noise_to_weights(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Weights to be found, in units of what the records can tell of them through the noise: d Delta / (n mu).

    Of K classes, K - 1 have weights of their own: the scores of all may move together.

    Examples
    --------
    >>> [round(noise_to_weights(Problem(loss), 1000, 10, Budget(1.0, 1e-6)), 4) for loss in (Logistic(), Softmax(3))]
    [0.0845, 0.169]
    """
    free = max(problem.loss.traits.outputs - 1, 1) * problem.weight_shape(d)[-1]
    return budget.moves * free / (n * budget.mu)


def noise_level(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """What excess losses are predicted from: noise to weights, or for losses with a kink at the target noise to signal.

    Medians are found by the signs of residuals, whose sum the noise has to drown as a whole. For quantiles far from the
    median that happens later.

    Examples
    --------
    >>> from dpconvex.problem.losses import Absolute, Pinball
    >>> losses = Absolute(), Pinball(0.5), Pinball(0.9)
    >>> [round(noise_level(Problem(loss), 1000, 10, Budget(1.0, 1e-6)), 4) for loss in losses]
    [0.0267, 0.0267, 0.0119]
    """
    quantile = problem.loss.traits.quantile
    if quantile is None:
        return noise_to_weights(problem, n, d, budget)
    rarer = min(quantile, 1.0 - quantile)
    return math.sqrt(2.0 * rarer) * noise_to_signal(problem, n, d, budget)
