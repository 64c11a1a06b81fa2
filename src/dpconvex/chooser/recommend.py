"""Every algorithm for a problem, ranked by the excess loss to expect, and why the others are refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpconvex import algorithms
from dpconvex.chooser.forms import form
from dpconvex.chooser.prediction import (
    Prediction,
    Score,
    hope,
    hopeless,
    people_needed,
    predict_scores,
    predictions,
    task_of,
    typical_excess,
)
from dpconvex.chooser.subject import Subject, check_problem, subject
from dpconvex.data.schema import Schema
from dpconvex.errors import BudgetWarning, HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import SAMPLING, Scope
from dpconvex.plan.plan import Plan, check_public
from dpconvex.problem.problem import Problem
from dpconvex.words import as_html, neighbour_words

__all__ = ["Recommendation", "Row", "recommend"]

FEW = 15  # records for each weight of several classes, below which the descent is chosen
USEFUL = 0.5  # a plan that is expected to lose this part of what there is to learn, or more, is called weak


@dataclass(frozen=True)
class Row:
    """One algorithm of a recommendation: its plan, and what is to be expected of it.

    Examples
    --------
    >>> import dpconvex as dc
    >>> table = dc.recommend(dc.Problem(dc.losses.Logistic()), n=20_000, d=10, budget=dc.Budget(1.0, 1e-6))
    >>> row = table.rows[0]
    >>> row.name, row.passes, row.noise["objective"] < 10.0
    ('ObjectivePerturbation', 1.0, True)
    """

    name: str
    plan: Plan
    expected: Prediction | None

    @property
    def noise(self) -> dict[str, float]:
        """Scale of the noise of each release."""
        return {r.name: r.scale for r in self.plan.releases if r.law != SAMPLING}

    @property
    def passes(self) -> float:
        """Gradient evaluations, in passes over the records."""
        return self.plan.gradient_evaluations / self.plan.n

    @property
    def memory(self) -> int:
        """Bytes that a run holds beside the rows, about."""
        return memory(self.plan)

    @property
    def proven(self) -> str:
        """What is proved about the accuracy, in words."""
        return self.plan.utility

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "algorithm": self.name,
            "expected": self.expected.to_dict() if self.expected else None,
            "noise": self.noise,
            "passes": self.passes,
            "memory": self.memory,
            "proven": self.proven,
        }


@dataclass(frozen=True)
class Recommendation:
    """Algorithms for a problem, best first, and the reasons why others are refused. Made by `recommend`.

    `print` shows what to expect in a few lines; `details()` adds every algorithm.

    Attributes
    ----------
    rows : tuple of Row
        First the one that `choose` takes, then the others, ranked by the excess loss to be expected.
    refused : tuple of pairs (name, reason)
    scores : tuple of Score
        What the released model is expected to score on new rows.
    budget : Budget
        What is allowed for one record: a share of what is allowed for a person, if people have several.
    rows_per_person : int
    of_person : Budget
        What is allowed for one person.

    Examples
    --------
    >>> import dpconvex as dc
    >>> few = dc.recommend(dc.Problem(dc.losses.Logistic()), n=200, d=100, budget=dc.Budget(0.1, 1e-6))
    >>> few.weak, few.hopeless, few.enough > few.n
    (True, True, True)
    >>> dict(few.refused)["SufficientStatistics"]
    'SufficientStatistics solves least squares: use Squared, not Logistic; for this problem use ...'
    """

    problem: Problem
    n: int
    d: int
    budget: Budget
    rows: tuple[Row, ...]
    refused: tuple[tuple[str, str], ...]
    scores: tuple[Score, ...] = ()
    rows_per_person: int = 1
    of_person: Budget | None = None

    @property
    def best(self) -> Plan:
        """Plan of the first row: what `choose` returns."""
        if not self.rows:
            raise HypothesisError(f"no algorithm takes this problem: {'; '.join(reason for _, reason in self.refused)}")
        return self.rows[0].plan

    @property
    def weak(self) -> bool:
        """Whether half of what there is to learn, or more, is expected to be lost to the noise."""
        first = self.rows[0].expected if self.rows else None
        return first is not None and (self.hopeless or first.excess >= USEFUL * typical_excess(self.problem))

    @property
    def hopeless(self) -> bool:
        """Whether the model is likely to be no better than one that knows nothing of the features."""
        first = self.rows[0].expected if self.rows else None
        return first is not None and hopeless(self.problem, self.n, self.d, self.budget)

    @property
    def enough(self) -> int | None:
        """Number of records from which the budget is not weak; None where nothing is predicted."""
        if not self.rows or self.rows[0].expected is None:
            return None
        names = candidates(contest_of(self.problem, self.n, self.d), [row.name for row in self.rows])
        enough = people_needed(self.problem, self.d, self.budget, USEFUL * typical_excess(self.problem), names)
        return None if enough is None else max(enough, hope(self.problem, self.d, self.budget))

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "problem": self.problem.to_json(),
            "n": self.n,
            "d": self.d,
            "budget": self.budget.to_json(),
            "scores": [score.to_dict() for score in self.scores],
            "weak": self.weak,
            "hopeless": self.hopeless,
            "enough": self.enough,
            "rows": [row.to_dict() for row in self.rows],
            "refused": dict(self.refused),
        }

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        return "\n".join(self._summary())

    def details(self) -> str:
        """Every algorithm: what to expect of it, what is proved, and why others are refused."""
        lines = [*self._summary(), *(f"  {line}" for line in _table(self.rows))]
        lines += [f"  accuracy    {row.name}: {row.proven}" for row in self.rows]
        lines += [f"  refused     {name}: {reason}" for name, reason in self.refused]
        return "\n".join(lines)

    def _summary(self) -> list[str]:
        b = self.budget
        unit = self.rows[0].plan.claim.unit if self.rows else 1
        lines = [
            f"What to expect: {self.n} records, {self.d} features, ({b.epsilon:.4g}, {b.delta:.3g})-DP for "
            + neighbour_words(b.relation, unit),
        ]
        if self.of_person is not None and self.rows_per_person > 1:
            whole = f"({self.of_person.epsilon:.4g}, {self.of_person.delta:.3g})"
            lines.append(
                f"  people      a share of {whole} for one person, who has up to {self.rows_per_person} records"
            )
        if self.scores:
            lines.append(f"  score       {'; '.join(map(str, self.scores))}")
        if self.rows:
            first = self.rows[0]
            lines.append(f"  cost        {cost_words(self.problem, first.expected)}, by {first.name}")
        if assumed := [score for score in self.scores if not score.given]:
            ends = ", ".join(f'"{score.name}": (low, high)' for score in assumed)
            typed = " ".join(f"--anchor {score.name} LOW HIGH" for score in assumed)
            lines.append(
                "  assumes     scores without features and without privacy as on typical public tables; give yours as "
                f"anchors={{{ends}}}, or {typed} on the command line"
            )
        if self.hopeless:
            lines.append(f"  hopeless    {HOPELESS_WORDS}; it takes about {self.enough} records")
        elif self.weak:
            lines.append(
                f"  weak        the noise is expected to take half of what there is to learn, or more: "
                f"this budget asks for about {self.enough} records"
            )
        return lines


HOPELESS_WORDS = (
    "with so much noise, three of four fits to public tables were no better than a model that knows nothing of the "
    "features"
)
_UNITS = {
    "margin": "log-loss",
    "classes": "log-loss",
    "squares": "half the squared error",
    "absolute": "absolute error",
}


def cost_words(problem: Problem, expected: Prediction | None) -> str:
    """What is lost to the noise, in words."""
    if expected is None:
        return "not predicted for this loss and domain"
    unit = _UNITS.get(task_of(problem) or "", "loss")
    return f"{expected.excess:.2g} more {unit} a record, likely between {expected.low:.2g} and {expected.high:.2g}"


def recommend(
    problem: Problem | Schema | None = None,
    *,
    n: int,
    d: int | None = None,
    budget: Budget,
    anchors: Mapping[str, Sequence[float]] | None = None,
) -> Recommendation:
    """Plan with every algorithm there is, and rank the plans by the excess loss to be expected of them.

    The excess loss is the mean loss per record of the released predictions on the records, above the least that the
    model reaches without privacy. It is predicted from public facts alone, by a rule fitted once to public data sets:
    see `dpconvex.chooser.prediction` for what it assumes. The first place is for algorithms that held it on most of
    those data sets (`Algorithm.leads`).

    Parameters
    ----------
    problem : Problem or Schema, optional
        A schema declares the target, the encoded features and the rows per person; the model is then that of
        `PrivateLogisticRegression` or `PrivateRidge`. Without either it is logistic regression for two classes.
    n, d : int
        Number of records and of (encoded) features, both public. A schema knows its d.
    budget : Budget
        With a schema, what is allowed for one person.
    anchors : mapping from "auc", "accuracy" or "r2" to pairs, optional
        The score that knowing nothing of the features gets, and that of the model without privacy, if they are known
        from elsewhere. By default they are the medians of public tables.

    Examples
    --------
    >>> import dpconvex as dc
    >>> print(dc.recommend(n=20_000, d=10, budget=dc.Budget(1.0, 1e-6), anchors={"auc": (0.5, 0.8)}))
    What to expect: 20000 records, 10 features, (1, 1e-06)-DP for one record replaced by any other
      score       accuracy 0.84, between 0.71 without features and 0.84 without privacy; AUC 0.80, between 0.50 ...
      cost        0.0027 more log-loss a record, likely between 0.0006 and 0.012, by ObjectivePerturbation
      assumes     scores without features and without privacy as on typical public tables; give yours as ...
    >>> problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    >>> table = dc.recommend(problem, n=20_000, d=10, budget=budget)
    >>> table.best == dc.choose(problem, n=20_000, d=10, budget=budget)
    True
    >>> table.rows[0].name, table.weak
    ('ObjectivePerturbation', False)
    """
    people = problem.rows_per_person if isinstance(problem, Schema) else 1
    about = subject(problem, n, d, budget)
    return replace(_recommend(about, int(n), anchors), rows_per_person=people, of_person=budget)


def _recommend(about: Subject, n: int, anchors: Mapping[str, Sequence[float]] | None) -> Recommendation:
    problem, d, budget = about
    rows, refused = {}, []
    for name, made, expected in _attempts(problem, n, d, budget):
        if isinstance(made, Plan):
            rows[name] = Row(name, made, expected)
        else:
            refused.append((name, str(made)))
    order = rank(contest_of(problem, n, d), {name: _lost(row.expected) for name, row in rows.items()})
    scores = predict_scores(problem, n, d, budget, anchors)
    return Recommendation(problem, n, d, budget, tuple(rows[name] for name in order), tuple(refused), scores)


def first_plan(problem: Problem, n: int, d: int, budget: Budget) -> Plan:
    """Plan of the first row that `recommend` would give, without making the others."""
    errors = []
    for _, made, _ in _attempts(problem, n, d, budget):
        if isinstance(made, Plan):
            return made
        errors.append(made)
    raise errors[0]


def contest_of(problem: Problem, n: int, d: int) -> str | None:
    """Task in which algorithms compete for the first place: losses with a bounded slope are what some of them solve.

    Several classes with few records for each weight are a task of their own. What the minimiser knows of the records is
    then not what new records show, and a descent stops long before it.

    Examples
    --------
    >>> from dpconvex.problem.losses import Softmax
    >>> [contest_of(Problem(Softmax(3)), n, 10) for n in (100, 100_000)]
    ['few of classes', 'classes']
    """
    task, traits = task_of(problem), problem.loss.traits
    if task == "classes" and n < FEW * math.prod(problem.weight_shape(d)):
        return "few of classes"
    if task == "margin" and not traits.probabilities:
        return "smoothed hinge"
    return "bounded squares" if task == "squares" and not traits.quadratic else task


def rank(task: str | None, excess: Mapping[str, float]) -> list[str]:
    """Names by what they are predicted to lose, after the one for that task of which least is predicted to be lost.

    Examples
    --------
    >>> rank("squares", {"NoisyGD": 0.02, "NoisySGD": 0.01, "ObjectivePerturbation": 0.03, "PhasedERM": 0.04})
    ['NoisyGD', 'NoisySGD', 'ObjectivePerturbation', 'PhasedERM']
    """
    names = sorted(sorted(excess, key=algorithms.names().index), key=excess.__getitem__)
    first = candidates(task, names)[:1]
    return first + [name for name in names if name not in first]


def candidates(task: str | None, names: Iterable[str]) -> list[str]:
    """Those that may be first: of those named, the ones that lead in that task, or all if none does."""
    given = list(names)
    return [name for name in given if task in algorithms.get(name).leads] or given


def _attempts(
    problem: Problem, n: int, d: int, budget: Budget
) -> Iterator[tuple[str, Plan | HypothesisError | InputError, Prediction | None]]:
    """Plan with one algorithm after the other, those that may be first before the others: a plan, or why not."""
    check_problem(problem)
    check_public(n, d, budget)
    found = predictions(algorithms.names(), problem, int(n), int(d), budget)
    names = sorted(found, key=lambda name: _lost(found[name]))
    early = candidates(contest_of(problem, n, d), names)
    for name in [*early, *(name for name in names if name not in early)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # said once, above
            made: Plan | HypothesisError | InputError
            try:
                shaped = form(name, problem, int(n), int(d), budget)
                made = algorithms.get(name)().plan(shaped, n=int(n), d=int(d), budget=budget)
            except (HypothesisError, InputError) as error:
                made = error
        yield name, made, found[name]


def _lost(expected: Prediction | None) -> float:
    return math.inf if expected is None else expected.excess


def memory(plan: Plan) -> int:
    """Bytes that a run holds beside the rows, about: what the port keeps, vectors over the records, a Hessian."""
    size, every = math.prod(plan.problem.weight_shape(plan.d)), plan.claim.scope is Scope.EVERY
    kept = sum(
        math.prod(r.shape) * (2 * r.times if every else 1) for r in plan.releases if r.law != SAMPLING
    )  # twice: `history` stacks what is kept
    outputs = plan.problem.loss.traits.outputs
    algorithm = algorithms.get(type(plan.algorithm).__name__)
    square = size * size if size <= MATRIX else 0
    return 8 * round(kept + algorithm.vectors * plan.n * outputs + algorithm.matrices * square + 4 * size)


MATRIX = 512  # up to this size Newton's method forms the Hessian


def _table(rows: tuple[Row, ...]) -> list[str]:
    head = ("algorithm", "excess loss", "likely between", "passes", "memory", "noise")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return ["  ".join(word.ljust(w) for word, w in zip(line, widths, strict=True)).rstrip() for line in cells]


def _cells(row: Row) -> tuple[str, ...]:
    e = row.expected
    excess, band = ("-", "-") if e is None else (f"{e.excess:.2g}", f"{e.low:.2g} and {e.high:.2g}")
    name, scale = max(row.noise.items(), key=lambda pair: pair[1])
    return row.name, excess, band, f"{row.passes:.3g}", _bytes(row.memory), f"{scale:.3g} ({name})"


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000.0:
            return f"{number:.3g} {unit}"
        number /= 1000.0
    return f"{number:.3g} TB"
