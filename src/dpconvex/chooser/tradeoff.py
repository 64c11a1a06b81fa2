"""What to expect at other budgets and with other numbers of records, before any data is opened."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import plots
from dpconvex.algorithms.options import check_flag, check_positive
from dpconvex.chooser.prediction import (
    MOST_RECORDS,
    SCORE_WORDS,
    Prediction,
    Score,
    hopeless,
    people_needed,
    predict_scores,
    predictions,
)
from dpconvex.chooser.recommend import candidates, contest_of, cost_words, rank, recommend
from dpconvex.chooser.subject import subject
from dpconvex.data.schema import Schema
from dpconvex.drawing import curves
from dpconvex.errors import BudgetWarning, HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import budget_of_record
from dpconvex.plan.plan import check_public
from dpconvex.problem.problem import Problem
from dpconvex.theorems.lower_bounds import least_excess

__all__ = ["Expected", "Tradeoff", "tradeoff"]

_READING = (
    "The line is the mean loss per record of the private model above that of the same model without privacy: the "
    "lower, the less the noise costs. The shaded band held five of six measurements on public tables. Above: for this "
    "number of records, against the budget epsilon. Below: at one budget, against the number of records. A dashed "
    "line, where there is one, is the mean excess loss over the population that no algorithm with this guarantee stays "
    "below on every loss as steep; on ordinary data less is possible. No data was read."
)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # numbers of records by default, in units of n


@dataclass(frozen=True)
class Expected:
    """What to expect of `choose` at one budget and number of records.

    `least` is the mean excess loss over the population that no algorithm with this guarantee stays below on every loss
    as steep, for the sake of privacy alone (`Plan.least_excess`); None where that is not known.
    """

    n: int
    epsilon: float
    algorithm: str
    prediction: Prediction
    scores: tuple[Score, ...] = ()
    hopeless: bool = False
    least: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "n": self.n,
            "epsilon": self.epsilon,
            "algorithm": self.algorithm,
            **self.prediction.to_dict(),
            "scores": [score.to_dict() for score in self.scores],
            "hopeless": self.hopeless,
            "least": self.least,
        }


@dataclass(frozen=True)
class Tradeoff:
    """Predicted scores and excess loss against epsilon and against the number of records. Made by `tradeoff`.

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
    rows_per_person: int = 1

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
        allowed = budget_of_record(budget, self.rows_per_person)
        found = people_needed(self.problem, self.d, allowed, float(excess), self.names, sure=sure)
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
        return "\n".join([*self._summary(), *self._tables()])

    def _summary(self) -> list[str]:
        """What the page says first: about how many people, at what budget, and what the scores lie between."""
        b, first = self.budget, self.by_epsilon[0]
        lines = [f"What privacy will cost: {self.n} records, {self.d} features, delta {b.delta:.3g}, {b.relation}"]
        for score in first.scores:
            whose = "as given" if score.given else "typical of public tables, which is assumed"
            lines.append(
                f"  {SCORE_WORDS[score.name]} lies between {score.trivial:.2f} without features and "
                f"{score.without_privacy:.2f} without privacy ({whose})"
            )
        return [*lines, f"  loss at epsilon {first.epsilon:g}: {cost_words(self.problem, first.prediction)}"]

    def _tables(self) -> list[str]:
        lines = _table(f"epsilon, n = {self.n}", [f"{e.epsilon:g}" for e in self.by_epsilon], self.by_epsilon)
        at = f"records, epsilon = {self.budget.epsilon:g}"
        lines += _table(at, [f"{e.n}" for e in self.by_n], self.by_n)
        if any(e.hopeless for e in (*self.by_epsilon, *self.by_n)):
            lines.append("  hopeless: three of four such fits to public tables were no better than without features")
        if least := _least((*self.by_epsilon, *self.by_n)):
            first, last = self.by_epsilon[0], self.by_n[-1]
            lines.append(
                f"  no algorithm can promise less than {least[0]:.2g} at epsilon {first.epsilon:g}, or {least[-1]:.2g} "
                f"with {last.n} records, on every loss as steep"
            )
        return lines

    def to_svg(self) -> str:
        """Draw both curves with their bands, and what no algorithm can promise to stay below where that is known."""
        parts = [
            (f"epsilon, with {self.n} records", [e.epsilon for e in self.by_epsilon], self.by_epsilon),
            (f"records, at epsilon {self.budget.epsilon:g}", [float(e.n) for e in self.by_n], self.by_n),
        ]
        least = [line for *_, found in parts if (line := _least(found))]
        drawn = [(what, across, _triples(found)) for what, across, found in parts]
        return curves(drawn, "excess loss per record", least if len(least) == len(parts) else ())

    def plot(self, ax: Any = None, *, against: str = "epsilon") -> Any:
        """Plot the excess loss with its band, against "epsilon" or the number of "records"; returns the axes.

        It needs matplotlib, as all methods `plot` do: the extra `plot`.
        """
        if against not in ("epsilon", "records"):
            raise InputError(f"against must be 'epsilon' or 'records', got {against!r}")
        if against == "epsilon":
            found, across, what = self.by_epsilon, [e.epsilon for e in self.by_epsilon], f"epsilon, {self.n} records"
        else:
            found, across = self.by_n, [float(e.n) for e in self.by_n]
            what = f"records, at epsilon {self.budget.epsilon:g}"
        return plots.spread(ax, across, _triples(found), what, "excess loss per record", _least(found) or ())

    def _repr_html_(self) -> str:
        return self.to_svg()

    def save(self, path: str | Path) -> None:
        """Write the picture, as .svg, or as .html with the numbers below it."""
        path = Path(path)
        if path.suffix not in (".svg", ".html"):
            raise InputError(f"the name of the file must end in .svg or .html, got {path.name!r}")
        svg = self.to_svg()
        title, *facts = self._summary()
        words = "".join(f"<li>{escape(line.strip())}</li>\n" for line in facts)
        page = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            "<title>What privacy will cost</title></head>\n"
            '<body style="max-width: 50em; margin: auto; font-family: system-ui, sans-serif">\n'
            f"<h1>What privacy will cost</h1>\n<p>{escape(title.partition(': ')[2])}</p>\n<ul>\n{words}</ul>\n"
            f"<p>{escape(_READING)}</p>\n{svg}<h2>In numbers</h2>\n"
            f"<pre>{escape(chr(10).join(self._tables()))}</pre>\n</body></html>\n"
        )
        path.write_text(svg if path.suffix == ".svg" else page, encoding="utf-8")


def tradeoff(
    problem: Problem | Schema | None = None,
    *,
    n: int,
    d: int | None = None,
    delta: float,
    epsilons: Sequence[float] = EPSILONS,
    ns: Sequence[int] | None = None,
    epsilon: float = 1.0,
    relation: str = "replace_one",
    anchors: Mapping[str, Sequence[float]] | None = None,
) -> Tradeoff:
    """Predict scores and excess loss of `choose` against epsilon and the number of records. No data is touched.

    Parameters
    ----------
    problem : Problem or Schema, optional
        As in `recommend`.
    n, d : int
        Number of records and features. A schema knows its d.
    delta : float
    epsilons : sequence of float
        Budgets to look at with n records, ascending.
    ns : sequence of int, optional
        Numbers of records to look at, ascending; by default from n/10 to 100 n.
    epsilon : float
        Budget at which numbers of records are looked at.
    relation : {"replace_one", "zero_out"}
    anchors : mapping from names of scores to pairs, optional
        As in `recommend`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> print(dc.tradeoff(n=20_000, d=20, delta=1e-6, epsilons=(0.5, 2.0), ns=(10_000,), anchors={"auc": (0.5, 0.8)}))
    What privacy will cost: 20000 records, 20 features, delta 1e-06, replace_one
      accuracy lies between 0.71 without features and 0.84 without privacy (typical of public tables, which is assumed)
      AUC lies between 0.50 without features and 0.80 without privacy (as given)
      loss at epsilon 0.5: 0.0081 more log-loss a record, likely between 0.0018 and 0.036
      epsilon, n = 20000     accuracy  AUC   excess loss  likely between      algorithm
      0.5                    0.84      0.80  ...
      2                      0.84      0.80  ...
      records, epsilon = 1   accuracy  AUC   excess loss  likely between      algorithm
      10000                  0.84      0.80  ...
    """
    budget = Budget(epsilon, delta, relation)
    about, people = problem, problem.rows_per_person if isinstance(problem, Schema) else 1
    problem, d, share = subject(about, n, d, budget)
    made = recommend(problem, n=n, d=d, budget=share)
    known = [row.name for row in made.rows if row.expected]
    if not known:
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
    able = {name for count in (int(n), *records) for name in candidates(contest_of(problem, int(count), d), known)}
    names = tuple(name for name in known if name in able)

    def expected(count: int, asked: Budget) -> Expected:
        allowed = budget_of_record(asked, people)
        found = {name: p for name, p in predictions(names, problem, count, d, allowed).items() if p}
        first = rank(contest_of(problem, count, d), {name: p.excess for name, p in found.items()})[0]
        scores = predict_scores(problem, count, d, allowed, anchors)
        bad, least = hopeless(problem, count, d, allowed), _least_private(problem, count, d, allowed)
        return Expected(count, asked.epsilon, first, found[first], scores, bad, least)

    return Tradeoff(
        problem,
        int(n),
        d,
        budget,
        names,
        tuple(expected(int(n), allowed) for allowed in budgets),
        tuple(expected(int(count), budget) for count in records),
        people,
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


def _least_private(problem: Problem, n: int, d: int, budget: Budget) -> float | None:
    """What no algorithm can promise to stay below for the sake of privacy, where a bound above 0 is known."""
    try:
        return least_excess(problem, n=n, d=d, budget=budget).private or None
    except HypothesisError:
        return None


def _least(found: Sequence[Expected]) -> list[float] | None:
    """The lower bounds, if all are known."""
    known = [e.least for e in found if e.least is not None]
    return known if len(known) == len(found) else None


def _table(what: str, labels: list[str], found: Sequence[Expected]) -> list[str]:
    names = [SCORE_WORDS[score.name] for score in found[0].scores]
    widths = [max(len(name), 4) for name in names]
    head = "".join(f"{name:<{w}}  " for name, w in zip(names, widths, strict=True))
    lines = [f"  {what:<21}  {head}excess loss  likely between      algorithm"]
    for label, e in zip(labels, found, strict=True):
        scores = "".join(f"{score.expected:<{w}.2f}  " for score, w in zip(e.scores, widths, strict=True))
        p, mark = e.prediction, ", hopeless" if e.hopeless else ""
        band = f"{p.low:.2g} and {p.high:.2g}"
        lines.append(f"  {label:<21}  {scores}{p.excess:<11.2g}  {band:<18}  {e.algorithm}{mark}")
    return lines
