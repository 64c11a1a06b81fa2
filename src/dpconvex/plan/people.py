"""Plans that protect people rather than records: up to k records may be one person's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpconvex.errors import BudgetWarning, InputError
from dpconvex.plan.plan import Plan, warn_about_delta
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.profiles import GDP
from dpconvex.privacy.theorems import group

LARGEST = 16.0


def protect_people(make: Callable[[Budget], Plan], budget: Budget, rows_per_person: int) -> Plan:
    """Plan so that the budget holds for all the records of one person together.

    Parameters
    ----------
    make : function from a budget for one record to a plan
    budget : Budget
        What is allowed for one person.
    rows_per_person : int
        The most records that one person has. Public, and not checked against the data: the rows do not say whose
        they are.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    >>> plan = protect_people(lambda b: dc.choose(problem, n=9000, d=5, budget=b), budget, 3)
    >>> plan.claim.unit, plan.claim.epsilon(1e-6) <= 1.0
    (3, True)
    """
    k = rows_per_person
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"rows_per_person must be a whole number of at least 1, got {k!r}")
    k = int(k)
    if k == 1:
        return make(budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # the budget of a record is ours; that of a person comes below
        # mu/k for a record is mu for a person.
        share = GDP(budget.mu / k * (1.0 - 1e-9))
        plan = make(_for_record(budget, budget.epsilon / k, share.delta(budget.epsilon / k)))
        if not isinstance(plan.claim.profile, GDP):
            # Other curves chain: delta for a record grows to delta (1 + e^eps + ... + e^{(k-1) eps}) at k eps. Beyond
            # LARGEST the delta of a record would be too small to compute with, and little more could be gained.
            epsilon = min(budget.epsilon, LARGEST) / k
            chained = math.fsum(math.exp(i * epsilon) for i in range(k)) * (1.0 + 1e-9)
            plan = make(_for_record(budget, epsilon, budget.delta / chained))
    if k > plan.n:
        raise InputError(f"rows_per_person = {k} is more than all rows, n = {plan.n}")
    warn_about_delta(plan.n, budget)
    return replace(plan, budget=budget, claim=group(plan.claim, k))


def _for_record(budget: Budget, epsilon: float, delta: float) -> Budget:
    return Budget(epsilon * (1.0 - 1e-9), max(delta, 1e-300), budget.relation)
