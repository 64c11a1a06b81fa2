"""In which form an algorithm takes a problem: the shape of the loss that carries most signal for its noise."""

from __future__ import annotations

import math
from dataclasses import replace

from dpconvex.algorithms.objective_perturbation import default_l2
from dpconvex.kernel.budget import Budget
from dpconvex.problem.losses import Absolute, Huber, LogCosh, Logistic, Loss, Pinball, Softmax, Squared
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up

# These bound slopes by clipping, or need none: least squares stays least squares.
_AS_GIVEN = ("MeanDirection", "NoisyGD", "PoissonSGD", "SufficientStatistics")
_SHIFTED = ("ObjectivePerturbation", "NoisyGD")


def form(name: str, problem: Problem, n: int, d: int, budget: Budget) -> Problem:
    """The problem as that algorithm takes it.

    A plain loss names the task. ObjectivePerturbation and NoisyGD get a shifted logistic loss, any algorithm a shifted
    softmax, and those that need a bounded slope log-cosh for least squares. A loss with parameters of its own is kept,
    and so is an l2; where there is none, ObjectivePerturbation gets one that suits targets (`target_l2`).

    Examples
    --------
    >>> budget = Budget(1.0, 1e-6)
    >>> form("ObjectivePerturbation", Problem(Squared()), 1000, 5, budget).loss
    LogCosh(threshold=0.390093, target=1.0)
    >>> form("NoisyGD", Problem(Squared()), 1000, 5, budget).loss
    Squared(target=1.0)
    """
    if isinstance(problem.loss, Squared) and name not in _AS_GIVEN:
        problem = replace(problem, loss=shaped(problem.loss, 0.0, largest_slope(problem, n, d, budget)))
    elif isinstance(problem.loss, Softmax) or (name in _SHIFTED and isinstance(problem.loss, Logistic)):
        problem = replace(problem, loss=shaped(problem.loss, margin_shift(problem, n, d, budget), 0.5))
    if name == "ObjectivePerturbation" and isinstance(problem.loss, Huber | LogCosh) and not problem.l2:
        return replace(problem, l2=target_l2(problem, d, budget))
    return problem


def shaped(loss: Loss, shift: float, slope: float) -> Loss:
    """A plain loss with that margin asked for, or with slopes bounded by that part of the largest target."""
    if loss == Logistic():
        return Logistic(shift=shift)
    if isinstance(loss, Softmax) and loss.shift == 0.0:
        return Softmax(loss.classes, shift=1.0)
    if isinstance(loss, Squared):
        return LogCosh(threshold=slope * loss.target, target=loss.target)
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


def target_l2(problem: Problem, d: int, budget: Budget) -> float:
    """Regularisation of objective perturbation for targets, on the scale of the sum; not less than its own default.

    Noise sigma in the objective costs h sigma^2 / (2 (h + l2)^2) along a direction of curvature h, at most sigma^2 /
    (8 l2), and l2 costs l2 D^2 / 2 for a solution of length D. The sum over d directions is least at l2 = sigma sqrt(d)
    / (2 D). Predictions have to reach the targets, not more: D is twice the largest target over the row bound.

    Examples
    --------
    >>> [round(target_l2(Problem(LogCosh(0.5)), d, Budget(1.0, 1e-6)), 1) for d in (10, 100)]
    [3.3, 10.6]
    """
    row, loss = problem.row_bound(d).value, problem.loss
    sigma = budget.moves * loss.slope_bound(math.inf) * row / budget.mu
    distance = 2.0 * float(getattr(loss, "target", 1.0)) / row
    spread = sigma * math.sqrt(problem.weight_shape(d)[-1]) / (2.0 * distance)
    return round_up(max(spread, default_l2(problem, d, budget)))


def noise_to_signal(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Noise of one release relative to a gradient of n records, Delta sqrt(d) / (n mu)."""
    size = problem.weight_shape(d)[-1]
    return budget.moves * math.sqrt(size) / (n * budget.mu)


def noise_to_weights(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Weights to be found, in units of what the records can tell of them through the noise: d Delta / (n mu).

    Examples
    --------
    >>> round(noise_to_weights(Problem(Logistic()), 1000, 10, Budget(1.0, 1e-6)), 4)
    0.0845
    """
    size = problem.weight_shape(d)[-1]
    return budget.moves * size / (n * budget.mu)


def noise_level(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """What excess losses are predicted from: noise to weights, or for losses with a kink at the target noise to signal.

    Medians are found by the signs of residuals, whose sum the noise has to drown as a whole. For quantiles far from the
    median that happens later.

    Examples
    --------
    >>> losses = Absolute(), Pinball(0.5), Pinball(0.9)
    >>> [round(noise_level(Problem(loss), 1000, 10, Budget(1.0, 1e-6)), 4) for loss in losses]
    [0.0267, 0.0267, 0.0119]
    """
    if not isinstance(problem.loss, Absolute | Pinball):
        return noise_to_weights(problem, n, d, budget)
    rarer = min(problem.loss.quantile, 1.0 - problem.loss.quantile) if isinstance(problem.loss, Pinball) else 0.5
    return math.sqrt(2.0 * rarer) * noise_to_signal(problem, n, d, budget)
