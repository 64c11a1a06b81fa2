"""What to expect at other budgets and with other numbers of records, before any data is opened."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.algorithms.options import check_flag, check_positive
from dpconvex.chooser.prediction import MOST_RECORDS, Prediction, people_needed, predictions
from dpconvex.chooser.recommend import candidates, contest_of, rank, recommend
from dpconvex.drawing import curves
from dpconvex.errors import BudgetWarning, HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.plan.plan import check_public
from dpconvex.problem.problem import Problem

__all__ = ["Expected", "Tradeoff", "tradeoff"]

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # numbers of records by default, in units of n


@dataclass(frozen=True)
class Expected:
    """What to expect of `choose` at one budget and number of records."""

    n: int
    epsilon: float
    algorithm: str
    prediction: Prediction

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return {"n": self.n, "epsilon": self.epsilon, "algorithm": self.algorithm, **self.prediction.to_dict()}


@dataclass(frozen=True)
class Tradeoff:
    """Predicted excess loss against epsilon and against the number of records. Made by `tradeoff`.

    Attributes
    ----------
    by_epsilon, by_n : tuple of Expected
        At the budgets asked for with n records, and with the numbers of records asked for at `budget`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> found = dc.tradeoff(dc.Problem(dc.losses.Logistic()), n=20_000, d=20, delta=1e-6, epsilons=(0.5, 1, 2))
    >>> [e.prediction.excess > f.prediction.excess for e, f in zip(found.by_epsilon, found.by_epsilon[1:])]
    [True, True]
    >>> found.people_for(excess=0.02) < found.people_for(excess=0.01)
    True
    """

    problem: Problem
    n: int
    d: int
    budget: Budget
    names: tuple[str, ...]
    by_epsilon: tuple[Expected, ...]
    by_n: tuple[Expected, ...]

    def people_for(self, *, excess: float, epsilon: float | None = None, sure: bool = False) -> int:
        """How many records it takes to lose no more than `excess` per record.

        Parameters
        ----------
        excess : float
            Excess loss to come down to.
        epsilon : float, optional
            By default that of `budget`.
        sure : bool
            Ask for the upper end of the band to be as low, not only for the middle.
        """
        check_positive("excess", excess)
        check_flag("sure", sure)
        budget = self.budget if epsilon is None else _at(self.budget, epsilon)
        found = people_needed(self.problem, self.d, budget, float(excess), self.names, sure=sure)
        if found is None:
            raise HypothesisError(
                f"an excess of {excess:g} is out of reach: it would take more than {MOST_RECORDS:.0e} records at "
                f"epsilon = {budget.epsilon:g}; ask for a larger excess or a larger epsilon"
            )
        return max(found, 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "problem": self.problem.to_json(),
            "n": self.n,
            "d": self.d,
            "budget": self.budget.to_json(),
            "by_epsilon": [e.to_dict() for e in self.by_epsilon],
            "by_n": [e.to_dict() for e in self.by_n],
        }

    def __str__(self) -> str:
        b = self.budget
        lines = [f"Excess loss to expect, {self.d} features, delta {b.delta:.3g}, {b.relation}"]
        lines += _table(f"epsilon, n = {self.n}", [f"{e.epsilon:g}" for e in self.by_epsilon], self.by_epsilon)
        return "\n".join(lines + _table(f"records, epsilon = {b.epsilon:g}", [f"{e.n}" for e in self.by_n], self.by_n))

    def to_svg(self) -> str:
        """Draw both curves with their bands."""
        parts = [
            (f"epsilon, with {self.n} records", [e.epsilon for e in self.by_epsilon], self.by_epsilon),
            (f"records, at epsilon {self.budget.epsilon:g}", [float(e.n) for e in self.by_n], self.by_n),
        ]
        return curves([(what, across, _triples(found)) for what, across, found in parts], "excess loss")

    def save(self, path: str | Path) -> None:
        """Write the picture, as .svg, or as .html with the numbers below it."""
        path = Path(path)
        if path.suffix not in (".svg", ".html"):
            raise InputError(f"the name of the file must end in .svg or .html, got {path.name!r}")
        svg = self.to_svg()
        page = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>What to expect</title></head>\n'
            f'<body style="max-width: 50em; margin: auto">\n{svg}<pre>{escape(str(self))}</pre>\n</body></html>\n'
        )
        path.write_text(svg if path.suffix == ".svg" else page, encoding="utf-8")


def tradeoff(
    problem: Problem,
    *,
    n: int,
    d: int,
    delta: float,
    epsilons: Sequence[float] = EPSILONS,
    ns: Sequence[int] | None = None,
    epsilon: float = 1.0,
    relation: str = "replace_one",
) -> Tradeoff:
    """Predict the excess loss of `choose` against epsilon and against the number of records. No data is touched.

    Parameters
    ----------
    problem : Problem
    n, d : int
        Number of records and features.
    delta : float
    epsilons : sequence of float
        Budgets to look at with n records, ascending.
    ns : sequence of int, optional
        Numbers of records to look at, ascending; by default from n/10 to 100 n.
    epsilon : float
        Budget at which numbers of records are looked at.
    relation : {"replace_one", "zero_out"}

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> print(dc.tradeoff(problem, n=20_000, d=20, delta=1e-6, epsilons=(0.5, 2.0), ns=(10_000,)))
    Excess loss to expect, 20 features, delta 1e-06, replace_one
      epsilon, n = 20000     excess loss  likely between  algorithm
      0.5                    ...
      2                      ...
      records, epsilon = 1   excess loss  likely between  algorithm
      10000                  ...
    """
    budget = Budget(epsilon, delta, relation)
    made = recommend(problem, n=n, d=d, budget=budget)
    names = tuple(candidates(contest_of(problem), [row.name for row in made.rows if row.expected]))
    if not names:
        raise HypothesisError(
            f"nothing is predicted of {type(problem.loss).__name__} on {type(problem.domain).__name__}: "
            "use a loss with a minimiser, on all of space, an l2 ball or a box; or read the bound that a plan proves"
        )
    if ns is None:
        ns = sorted({max(2, round(times * int(n))) for times in TIMES})
    budgets = [_at(budget, value) for value in _ascending("epsilons", epsilons)]
    records = _ascending("ns", ns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # delta is for n records
        for count in records:
            check_public(count, d, budget)

    def expected(count: int, allowed: Budget) -> Expected:
        found = {name: p for name, p in predictions(names, problem, count, int(d), allowed).items() if p}
        first = rank(contest_of(problem), {name: p.excess for name, p in found.items()})[0]
        return Expected(count, allowed.epsilon, first, found[first])

    return Tradeoff(
        problem,
        int(n),
        int(d),
        budget,
        names,
        tuple(expected(int(n), allowed) for allowed in budgets),
        tuple(expected(int(count), budget) for count in records),
    )


def _at(budget: Budget, epsilon: float) -> Budget:
    return Budget(epsilon, budget.delta, budget.relation)


def _ascending(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise InputError(f"{name} must be a sequence of at least one number")
    found = list(values)
    if not all(isinstance(v, Real) and not isinstance(v, bool) and math.isfinite(v) for v in found):
        raise InputError(f"{name} must hold finite numbers")
    if any(b <= a for a, b in pairwise(found)):
        raise InputError(f"{name} must ascend, each above the one before")
    return found


def _triples(found: Sequence[Expected]) -> list[tuple[float, float, float]]:
    return [(e.prediction.low, e.prediction.excess, e.prediction.high) for e in found]


def _table(what: str, labels: list[str], found: Sequence[Expected]) -> list[str]:
    head = f"  {what:<21}  excess loss  likely between      algorithm"
    return [head] + [
        f"  {label:<21}  {p.excess:<11.2g}  {f'{p.low:.2g} and {p.high:.2g}':<18}  {e.algorithm}"
        for label, e in zip(labels, found, strict=True)
        for p in (e.prediction,)
    ]
