"""Which algorithm: one function from public facts to a plan."""

from __future__ import annotations

from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.plan.plan import Plan
from dpconvex.privacy.budget import Budget
from dpconvex.problem.problem import Problem


def choose(problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
    """Plan with the algorithm expected to do best, judged by public facts only.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> type(dc.choose(problem, n=1000, d=5, budget=dc.Budget(1.0, 1e-6)).algorithm).__name__
    'PhasedSGD'
    """
    return PhasedSGD().plan(problem, n=n, d=d, budget=budget)
