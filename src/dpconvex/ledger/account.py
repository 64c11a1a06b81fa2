"""The account of this process: what it has released so far, per data set name.

Runs on the same people add up. The account sees only this process, and only the names it is given: it is a
reminder, not a ledger. Its totals hold for runs that were fixed beforehand; if a budget was chosen after looking at an
earlier result, they hold if every claim is GDP.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass

from dpconvex.context import DEFAULT_DATASET
from dpconvex.errors import BudgetError, InputError, RepeatedReleaseWarning, warn
from dpconvex.kernel.budget import Budget, check_relation
from dpconvex.kernel.claims import PERSON, Claim
from dpconvex.plain import normal_name
from dpconvex.theorems import compose, fresh_run, group, rows_of_person
from dpconvex.words import unit_words

__all__ = ["Account", "account", "limit"]

_LOCK = threading.Lock()
_CLAIMS: dict[str, list[Claim]] = {}
_RUNS: Counter[str] = Counter()  # private runs ever begun, which are numbered
_SEEDED: Counter[str] = Counter()
_LIMITS: dict[str, Budget] = {}
_FEW = 16  # releases whose total a warning gives: to add up hundreds at every release would take longer than they do
_SHOWN = 5  # names of other data sets that an account prints
_STREAMS: set[str] = set()  # runs that were charged and may go on


@dataclass(frozen=True)
class Account:
    """What was charged to one data set: by this process, or by the runs that some receipts are about.

    Attributes
    ----------
    dataset : str
    claims : tuple of Claim
    seeded : int
        Number of runs with a seed, which protect nobody.
    where : str
        Where the runs were counted.
    delta : float
        At which `print` states totals; `total().epsilon(delta)` states them at any other.
    others : tuple of str
        Data sets that were charged in the same place and are not in this account.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.account("a data set nobody touched").claims
    ()
    """

    dataset: str
    claims: tuple[Claim, ...]
    seeded: int
    where: str = "in this process"
    delta: float = 1e-6
    others: tuple[str, ...] = ()

    def total(self, relation: str | None = None) -> Claim | None:
        """Everything charged, composed; None if nothing was. Name the relation if runs were charged under two.

        Runs with a seed are not in it: they protect nobody, and `seeded` counts them. A run about several rows of a
        person is counted for as many rows everywhere. A run about rows says nothing about people who have more of them,
        so together with runs about people the total is about rows: see its `unit`.
        """
        if relation is not None:
            check_relation(relation)
        relations = {c.relation for c in self.claims}
        if relation is None and len(relations) > 1:
            raise InputError(f"relation must be named: runs were charged under {' and '.join(sorted(relations))}")
        charged = [c for c in self.claims if relation in (None, c.relation)]
        return _composed(charged) if charged else None

    def __str__(self) -> str:
        lines = [f"{self.dataset}: {len(self.claims)} private releases {self.where}, {self.seeded} with a seed"]
        for relation in sorted({c.relation for c in self.claims}):
            total = self.total(relation)
            assert total is not None
            lines.append(f"  {relation}: {_at(total, self.delta)} in total, for {unit_words(total.unit)}")
            if not math.isfinite(total.epsilon(self.delta)):
                lines.append("    (some of this noise promises nothing at so small a delta: ask for a larger one)")
        if self.where == Account.where and (limit := _LIMITS.get(normal_name(self.dataset, "dataset"))) is not None:
            lines.append(f"  limit: ({limit.epsilon:g}, {limit.delta:g}) for {limit.relation}")
        if normal_name(self.dataset, "dataset") == DEFAULT_DATASET and self.others:
            names = ", ".join(repr(name) for name in self.others[:_SHOWN])
            more = f" and {len(self.others) - _SHOWN} more" if len(self.others) > _SHOWN else ""
            lines.append(f"  not in it: releases about {names}{more}, which have accounts of their own")
        return "\n".join(lines)


def account(dataset: str = DEFAULT_DATASET, *, delta: float = 1e-6) -> Account:
    """Return what this process has charged to one data set so far: by default to runs that name none.

    Parameters
    ----------
    dataset : str
    delta : float
        At which `print` states totals. Take that of your budgets: a total at a larger delta has a smaller epsilon.
    """
    key = normal_name(dataset, "dataset")
    delta = Budget(1.0, delta).delta  # refuses what is none
    with _LOCK:
        others = tuple(name for name, claims in _CLAIMS.items() if claims and name != key)
        return Account(dataset, tuple(_CLAIMS.get(key, ())), _SEEDED[key], delta=delta, others=others)


def limit(dataset: str, budget: Budget | None) -> None:
    """Refuse runs on a data set that would take its total in this process beyond a budget; None lifts the limit.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.limit("trial", dc.Budget(epsilon=2.0, delta=1e-6))
    >>> print(dc.account("trial"))
    trial: 0 private releases in this process, 0 with a seed
      limit: (2, 1e-06) for replace_one
    """
    key = normal_name(dataset, "dataset")
    if budget is None:
        _LIMITS.pop(key, None)
    elif isinstance(budget, Budget):
        _LIMITS[key] = budget
    else:
        raise InputError(f"budget must be a dpconvex.Budget or None, got {type(budget).__name__}")


def charge(dataset: str, claim: Claim, private: bool) -> None:
    """Charge a claim before its run starts. A run that fails stays charged; one with a seed is only counted."""
    dataset = normal_name(dataset, "dataset")
    with _LOCK:
        if not private:
            _SEEDED[dataset] += 1
            return
        claims = _CLAIMS.get(dataset, [])
        entry = fresh_run(claim, f"run {_RUNS[dataset] + 1}")
        after = [*claims, entry]
        if dataset in _LIMITS:
            _check_limit(dataset, _LIMITS[dataset], after)
        _CLAIMS[dataset] = after
        _RUNS[dataset] += 1
    if claims:
        now = ""
        if len(after) <= _FEW:
            total = _at(_composed([c for c in after if c.relation == claim.relation]), 1e-6)
            now = f": those under {claim.relation} are now {total} together"
        warn(
            f"release {len(after)} about the data set {dataset!r} in this process. Releases about the same people add "
            f"up{now} (dpconvex.account({dataset!r}) has the total). For other people, name the data set.",
            RepeatedReleaseWarning,
            cause=dataset,
        )


def begin(run: str, dataset: str, claim: Claim, private: bool) -> None:
    """Charge a run that may be resumed, unless this process has charged it before."""
    with _LOCK:
        if run in _STREAMS:
            return
        _STREAMS.add(run)
    try:
        charge(dataset, claim, private)
    except BudgetError:
        _STREAMS.discard(run)
        raise


def _check_limit(dataset: str, most: Budget, after: list[Claim]) -> None:
    if any(c.relation != most.relation for c in after):
        raise BudgetError(
            f"the limit of the data set {dataset!r} is about {most.relation}, and a run under another relation cannot "
            "be held against it; nothing was charged"
        )
    if len({c.unit == PERSON for c in after}) > 1:
        raise BudgetError(
            f"runs about people and runs about rows cannot be held against one limit, that of the data set "
            f"{dataset!r}; nothing was charged"
        )
    if _composed(after).epsilon(most.delta) > most.epsilon:
        raise BudgetError(
            f"the run would take the data set {dataset!r} beyond its limit of ({most.epsilon:g}, {most.delta:g}); "
            "nothing was charged. Plan with a smaller epsilon"
        )


def _composed(claims: list[Claim]) -> Claim:
    """Compose claims of one relation, each brought to the largest number of rows among them, if they are about rows."""
    sizes = [c.unit for c in claims if isinstance(c.unit, int)]
    return compose([_about(c, math.lcm(*sizes)) for c in claims] if sizes else claims)


def _about(claim: Claim, rows: int) -> Claim:
    if not isinstance(claim.unit, int):
        return rows_of_person(claim, rows)
    return claim if claim.unit == rows else group(claim, rows // claim.unit)


def _at(claim: Claim, delta: float) -> str:
    return f"({claim.epsilon(delta):.3g}, {delta:g})-DP"
