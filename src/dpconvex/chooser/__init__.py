"""Which algorithm, and with what loss shape: one function from public facts to a plan."""

from __future__ import annotations

from dataclasses import replace

from dpconvex import algorithms
from dpconvex.algorithms.options import check_flag
from dpconvex.chooser.forms import largest_slope as largest_slope
from dpconvex.chooser.forms import shaped
from dpconvex.chooser.recommend import check_problem, first_plan
from dpconvex.kernel.budget import Budget
from dpconvex.plan.plan import Plan
from dpconvex.problem.problem import Problem


def choose(problem: Problem, *, n: int, d: int, budget: Budget, weighted: bool = False) -> Plan:
    """Plan with the algorithm, loss shape and regularisation expected to do best, judged by public facts only.

    The first row of `recommend`: of the algorithms that take the problem, the one whose predicted excess loss is least.

    A plain loss names the task, and the plan may use a shape of it that carries more signal for the same noise: a
    shifted logistic loss (its `log_odds` give back probabilities), log-cosh for least squares. A loss with parameters
    of its own, or an l2 above 0, is kept as it is.

    With `weighted`, for runs with sample weights, nothing that shapes the fit depends on n: a record of weight 0 then
    stands for none, one of weight 2 for two of weight 1, and the release is the same either way. What the noise leaves
    of the signal is a matter of the total weight, which is nobody's to know, so the loss has the shape for a middling
    amount of noise; and the algorithm is the first with a variant for weights (`Algorithm.for_weights`):
    ObjectivePerturbation with output noise that does not depend on n, as far as float64 can certify the minimiser so
    closely.

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
    if not weighted:
        return first_plan(problem, n, d, budget)
    check_problem(problem)
    kept = replace(problem, loss=shaped(problem.loss, shift=1.0, slope=0.5))
    made = (algorithms.get(name)().for_weights() for name in algorithms.names())
    return next(algorithm for algorithm in made if algorithm).plan(kept, n=n, d=d, budget=budget)
