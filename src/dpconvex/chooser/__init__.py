"""Which algorithm, and with what loss shape: one function from public facts to a plan."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from dpconvex.algorithms.frank_wolfe import FrankWolfe
from dpconvex.algorithms.noisy_gd import NoisyGD
from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.algorithms.options import check_flag
from dpconvex.algorithms.phased_erm import PhasedERM
from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.errors import BudgetWarning, InputError
from dpconvex.plan.plan import Plan, check_public
from dpconvex.privacy.budget import Budget
from dpconvex.problem.domains import L1Ball
from dpconvex.problem.losses import Kinked, Linear, LogCosh, Logistic, Loss, Softmax, Squared
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up

PRECISION = 1e-7  # of weighted minimisers, in units of the noise; float64 certifies it up to some 10,000 records


def choose(problem: Problem, *, n: int, d: int, budget: Budget, weighted: bool = False) -> Plan:
    """Plan with the algorithm, loss shape and regularisation expected to do best, judged by public facts only.

    A plain loss names the task, and the plan may use a shape of it that carries more signal for the same noise: a
    shifted logistic loss (its `log_odds` give back probabilities), log-cosh for least squares. A loss with parameters
    of its own, or an l2 above 0, is kept as it is.

    With `weighted`, for runs with sample weights, nothing that shapes the fit depends on n: a record of weight 0 then
    stands for none, one of weight 2 for two of weight 1, and the release is the same either way. What the noise leaves
    of the signal is a matter of the total weight, which is nobody's to know, so the loss has the shape for a middling
    amount of noise; and the algorithm is ObjectivePerturbation with output noise that does not depend on n, as far as
    float64 can certify the minimiser so closely.

    Examples
    --------
    >>> import dpconvex as dc
    >>> plan = dc.choose(dc.Problem(dc.losses.Logistic()), n=1000, d=5, budget=dc.Budget(1.0, 1e-6))
    >>> type(plan.algorithm).__name__, round(plan.problem.loss.shift, 2)
    ('ObjectivePerturbation', 1.49)
    >>> dc.choose(plan.problem, n=1000, d=5, budget=plan.budget, weighted=True).algorithm
    ObjectivePerturbation(accounting='sharp', output_share=0.05, precision=1e-07)
    """
    check_flag("weighted", weighted)
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a dpconvex.Problem, got {type(problem).__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # the plan itself will say so
        check_public(n, d, budget)
    if weighted:
        shaped = replace(problem, loss=_shape(problem.loss, shift=1.0, slope=0.5))
        return ObjectivePerturbation(precision=PRECISION).plan(shaped, n=n, d=d, budget=budget)
    shift, slope = margin_shift(problem, n, d, budget), largest_slope(problem, n, d, budget)
    shaped = replace(problem, loss=_shape(problem.loss, shift, slope))
    if isinstance(problem.domain, L1Ball):
        return FrankWolfe().plan(problem if isinstance(problem.loss, Logistic) else shaped, n=n, d=d, budget=budget)
    if isinstance(problem.loss, Linear):
        return PhasedSGD().plan(problem, n=n, d=d, budget=budget)
    if isinstance(problem.loss, Kinked):
        return PhasedERM().plan(problem, n=n, d=d, budget=budget)
    if isinstance(problem.loss, Softmax):
        return NoisyGD().plan(shaped, n=n, d=d, budget=budget)
    return ObjectivePerturbation().plan(shaped, n=n, d=d, budget=budget)


def _shape(loss: Loss, shift: float, slope: float) -> Loss:
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
    return round_up(min(max(1.0 + 0.5 * math.log10(_noise(problem, n, d, budget) / 0.002), 0.0), 2.0), 6)


def largest_slope(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Where to bound the slope of a regression loss, in units of the largest target: at half, or less under much noise.

    Noise is in proportion to the bound, and so is what a residual beyond it still counts.
    """
    return round_up(max(0.5 * min(1.0, (0.007 / _noise(problem, n, d, budget)) ** 0.25), 0.2), 6)


def _noise(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Noise of one release relative to a gradient of n records, Delta sqrt(d) / (n mu)."""
    return budget.moves * math.sqrt(problem.weight_shape(d)[-1]) / (n * budget.mu)
