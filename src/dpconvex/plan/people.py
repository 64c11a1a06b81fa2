"""Plans that protect people rather than records.

Either up to k records may be one person's, and any plan is made to cover k of them together (`protect_people`, with
`keep_first` where people may have more); or the rows say whose they are, and an algorithm clips what each person adds
up to (`per_person=True`), whatever the number of rows. Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpconvex.data.arrays import open_people
from dpconvex.errors import BudgetWarning, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.profiles import GDP
from dpconvex.plan.plan import Plan, warn_about_delta
from dpconvex.problem.problem import Problem
from dpconvex.theorems import group

__all__ = ["protect_people"]

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
    k = _rows_per_person(rows_per_person)
    if k == 1:
        return make(budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # the budget of a record is ours; that of a person comes below
        if budget.delta:  # mu/k for a record is mu for a person
            share = GDP(budget.mu / k * (1.0 - 1e-9))
            plan = make(_for_record(budget, budget.epsilon / k, share.delta(budget.epsilon / k)))
        if not budget.delta or not isinstance(plan.claim.profile, GDP):
            plan = make(budget_of_record(budget, k))
    if plan.claim.unit == PERSON:
        raise InputError("the plan is about all the rows of one person already: leave rows_per_person at 1")
    if k > plan.n:
        raise InputError(f"rows_per_person = {k} is more than all rows, n = {plan.n}")
    if not any(release.law.endswith("open horizon") for release in plan.releases):
        warn_about_delta(plan.n, budget)
    return for_people(plan, budget, k)


def budget_of_record(budget: Budget, rows_per_person: int) -> Budget:
    """Budget for one record that is enough, whatever the curve, for the budget to hold for so many of one person.

    Curves chain: delta for a record grows to delta (1 + e^eps + ... + e^{(k-1) eps}) at k eps. Beyond LARGEST the delta
    of a record would be too small to compute with, and little more could be gained.

    Examples
    --------
    >>> round(budget_of_record(Budget(1.0, 1e-6), 2).epsilon, 6), budget_of_record(Budget(1.0, 1e-6), 1).epsilon
    (0.5, 1.0)
    """
    k = _rows_per_person(rows_per_person)
    if k == 1:
        return budget
    epsilon = min(budget.epsilon, LARGEST) / k
    chained = math.fsum(math.exp(i * epsilon) for i in range(k)) * (1.0 + 1e-9)
    return _for_record(budget, epsilon, budget.delta / chained)


def for_people(plan: Plan, budget: Budget, rows_per_person: int) -> Plan:
    """State a plan for one record as one for so many records of one person, within that budget."""
    return replace(plan, budget=budget, claim=group(plan.claim, rows_per_person), one_record=plan.budget)


def plan_for_people(algorithm: Any, problem: Problem, n: int, d: int, budget: Budget, rows_per_person: int) -> Plan:
    """Plan with an algorithm so that the budget holds for all the records of one person together."""
    return protect_people(lambda allowed: algorithm.plan(problem, n=n, d=d, budget=allowed), budget, rows_per_person)


def keep_first(groups: Any, rows_per_person: int) -> np.ndarray:
    """Whether each row is among the first so many of its person, in the order of the rows.

    The rule looks at whose the rows are and not at what they say; a row of nobody (a missing id) is not among them.
    Give the others weight 0, and a plan for so many rows of a person (`protect_people`) covers everybody.

    Examples
    --------
    >>> keep_first(["eve", "ann", "eve", "eve", "ann"], 2)
    array([ True,  True,  True, False,  True])
    """
    k = _rows_per_person(rows_per_person)
    return first_rows(*open_people(groups, len(groups)), k)


def first_rows(people: np.ndarray, known: np.ndarray, k: int) -> np.ndarray:
    """Whether each row is known to be among the first k of its person, given as a number."""
    n = len(people)
    people = np.where(known, people, n)
    order = np.argsort(people, kind="stable")  # person by person, each in the order of the rows
    counts = np.bincount(people)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray((rank < k) & known)


def _rows_per_person(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"rows_per_person must be a whole number of at least 1, got {k!r}")
    return int(k)


def _for_record(budget: Budget, epsilon: float, delta: float) -> Budget:
    return Budget(epsilon * (1.0 - 1e-9), max(delta, 1e-300) if budget.delta else 0.0, budget.relation)
