"""What a fit would cost, from a form: scores to expect, plans side by side, and what an observer could learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from dpconvex import algorithms
from dpconvex.chooser.prediction import SCORE_WORDS, Score
from dpconvex.chooser.recommend import Recommendation, Row, cost_words, recommend
from dpconvex.chooser.tradeoff import Tradeoff, tradeoff
from dpconvex.data.schema import Schema
from dpconvex.drawing import BLUE, INK, ORANGE, picture, text
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import RELATIONS, Budget
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan
from dpconvex.problem.losses import Logistic, Softmax, Squared
from dpconvex.problem.problem import Problem
from dpconvex.report.observer import Observer, belief

__all__ = [
    "DEFAULTS",
    "Answer",
    "Column",
    "answer",
    "answer_form",
    "beside",
    "position",
    "read_number",
    "read_question",
]

TASKS = {"two": "one of two classes", "several": "one of several classes", "number": "a number"}
DEFAULTS = {
    "n": "10000", "d": "20", "task": "two", "classes": "3", "epsilon": "1", "delta": "1e-6", "relation": "replace_one",
    "prior": "10",
}  # fmt: skip
_LOW, _HIGH = 0.05, 20.0  # budgets that the slider reaches
_NEVER = 1e-12  # a chance that is as good as none, for guarantees without a delta


@dataclass(frozen=True)
class Question:
    """What a form asks: a problem or a schema, its size, and a budget."""

    about: Problem | Schema
    n: int
    d: int | None
    budget: Budget
    prior: float
    anchors: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Answer:
    """What to expect of the default model, and what its guarantee means."""

    question: Question
    found: Recommendation
    curve: Tradeoff | None
    cost: str
    scores: tuple[tuple[Score, str], ...]
    meter: str
    coin: str
    beliefs: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Column:
    """One plan of several side by side."""

    epsilon: float
    row: Row | None
    why: str
    scores: tuple[Score, ...]
    cost: str
    coin: str


def read_question(form: Mapping[str, str], schema: Schema | None = None) -> Question:
    """Read a form; what is empty takes its default.

    Examples
    --------
    >>> asked = read_question({"n": "500", "epsilon": "0.5"})
    >>> asked.n, asked.d, asked.budget.epsilon
    (500, 20, 0.5)
    >>> read_question({"n": "many"})
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: the number of records must be a whole number
    """
    given = {key: (form.get(key) or "").strip() or default for key, default in DEFAULTS.items()}
    n = _whole(given["n"], "the number of records")
    relation = given["relation"]
    if relation not in RELATIONS:
        raise InputError(f"the relation must be one of {', '.join(RELATIONS)}")
    budget = Budget(read_number(given["epsilon"], "epsilon"), read_number(given["delta"], "delta"), relation)
    prior = read_number(given["prior"], "what was believed before") / 100.0
    if not 0.0 < prior < 1.0:
        raise InputError("what was believed before must lie between 0 and 100 percent, ends excluded")
    anchors = _anchors(form)
    if schema is not None:
        return Question(schema, n, None, budget, prior, anchors)
    return Question(_problem(given), n, _whole(given["d"], "the number of features"), budget, prior, anchors)


def answer(asked: Question) -> Answer:
    """Say what to expect. Nothing is read but the question.

    Examples
    --------
    >>> found = answer(read_question({"n": "20000", "d": "10"}))
    >>> found.found.rows[0].name, found.coin, [before for before, _, _ in found.beliefs]
    ('ObjectivePerturbation', '54.8%', ['1%', '10%', '50%'])
    """
    budget = asked.budget
    found = recommend(asked.about, n=asked.n, d=asked.d, budget=budget, anchors=asked.anchors or None)
    if not found.rows:
        raise HypothesisError(f"no algorithm takes this problem: {'; '.join(reason for _, reason in found.refused)}")
    try:
        curve = tradeoff(
            asked.about, n=asked.n, d=asked.d, delta=budget.delta, epsilon=budget.epsilon, relation=budget.relation,
            anchors=asked.anchors or None,
        )  # fmt: skip
    except HypothesisError:
        curve = None
    observer = _observer(asked, found.best)
    shift = observer.shift(2.0 * budget.delta or _NEVER)
    return Answer(
        asked,
        found,
        curve,
        cost_words(found.problem, found.rows[0].expected),
        tuple((score, SCORE_WORDS[score.name]) for score in found.scores),
        draw_scores(found.scores),
        _percent(observer.coin),
        tuple(_belief(prior, shift) for prior in sorted({0.01, 0.1, 0.5, asked.prior})),
    )


def answer_form(form: Mapping[str, str], schema: Schema | None) -> Answer:
    """Answer a form; the latest answers are kept, for a slider goes back and forth."""
    return _kept(tuple(sorted(form.items())), schema)


@lru_cache(maxsize=64)
def _kept(items: tuple[tuple[str, str], ...], schema: Schema | None) -> Answer:
    return answer(read_question(dict(items), schema))


def beside(asked: Question, wanted: list[tuple[str, float]]) -> list[Column]:
    """Plans of named algorithms at several budgets, for the same question; "auto" is the one that would be chosen.

    Examples
    --------
    >>> columns = beside(read_question({}), [("auto", 1.0), ("NoisyGD", 0.5), ("SufficientStatistics", 1.0)])
    >>> [column.row.name if column.row else column.why[:20] for column in columns]
    ['ObjectivePerturbation', 'NoisyGD', 'SufficientStatistics']
    """
    columns = []
    for name, epsilon in wanted:
        budget = Budget(epsilon, asked.budget.delta, asked.budget.relation)
        found = recommend(asked.about, n=asked.n, d=asked.d, budget=budget, anchors=asked.anchors or None)
        rows = {row.name: row for row in reversed(found.rows)}
        row = (found.rows[0] if found.rows else None) if name == "auto" else rows.get(name)
        first = row is not None and row is found.rows[0]
        columns.append(
            Column(
                epsilon,
                row,
                dict(found.refused).get(name, "No algorithm takes this problem." if row is None else ""),
                found.scores if first else (),
                cost_words(found.problem, row.expected) if row else "",
                _percent(_observer(replace(asked, budget=budget), row.plan).coin) if row else "",
            )
        )
    return columns


def draw_scores(scores: tuple[Score, ...]) -> str:
    """Draw where each score is expected to lie between its anchors.

    Examples
    --------
    >>> draw_scores((Score("auc", 0.5, 0.84, 0.9, True),)).count("<circle")
    1
    """
    body, height = [], 64.0 * len(scores) + 14.0
    for k, score in enumerate(scores):
        y = 64.0 * k + 40.0

        def at(value: float) -> float:
            return 120.0 + 480.0 * min(max(value, 0.0), 1.0)

        low, middle, high = (at(v) for v in (score.trivial, score.expected, score.without_privacy))
        body += [
            text(14.0, y + 4.5, SCORE_WORDS[score.name], "start"),
            _bar(at(0.0), at(1.0), y, INK, 2.0),
            _bar(low, high, y, BLUE, 6.0),
            f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="6" fill="{BLUE}"/>',
            text(middle, y - 13.0, f"{score.expected:.2f} private", "middle", BLUE),
            text(low, y + 22.0, f"{score.trivial:.2f}", "middle"),
            text(high, y + 22.0, f"{score.without_privacy:.2f}", "middle", ORANGE),
        ]
    words = "; ".join(map(str, scores))
    return picture(body, "Scores to expect", words, height) if scores else ""


def position(epsilon: float) -> int:
    """Place of a budget on the slider, whose steps are equal factors.

    Examples
    --------
    >>> position(0.05), position(20.0), round(math.log10(20.0 / 0.05), 1)
    (0, 100, 2.6)
    """
    share = math.log(min(max(epsilon, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return round(100.0 * share)


def _observer(asked: Question, made: Plan) -> Observer:
    """What the guarantee of a plan lets an observer learn about one record, or about all rows of a person."""
    rows = asked.about.rows_per_person if isinstance(asked.about, Schema) else 1
    if rows > 1:
        name, about = type(made.algorithm).__name__, made.problem
        again = algorithms.get(name)()
        made = protect_people(lambda b: again.plan(about, n=made.n, d=made.d, budget=b), asked.budget, rows)
    return Observer(made.claim.profile, asked.budget.delta)


def _belief(prior: float, shift: float) -> tuple[str, str, str]:
    low, high = belief(prior, shift)
    return f"{100.0 * prior:.3g}%", f"{math.floor(1e3 * low) / 10.0:.1f}%", _percent(high)


def _percent(share: float) -> str:
    return f"{math.ceil(1e3 * share) / 10.0:.1f}%"


def _bar(x: float, to_x: float, y: float, colour: str, width: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="{width:g}"/>'


def _problem(given: Mapping[str, str]) -> Problem:
    task = given["task"]
    if task not in TASKS:
        raise InputError(f"what is predicted must be one of {', '.join(TASKS)}")
    if task == "several":
        return Problem(Softmax(_whole(given["classes"], "the number of classes")))
    return Problem(Squared() if task == "number" else Logistic())


def _anchors(form: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Scores that are known from elsewhere; a pair of which one is empty is not given."""
    found = {}
    for name, words in SCORE_WORDS.items():
        low, high = ((form.get(f"{name}_{end}") or "").strip() for end in ("low", "high"))
        if low and high:
            found[name] = read_number(low, f"{words} without features"), read_number(high, f"{words} without privacy")
    return found


def _whole(words: str, what: str) -> int:
    try:
        number = float(words.replace(",", "").replace(" ", ""))
        if number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise InputError(f"{what} must be a whole number") from None


def read_number(words: str, what: str) -> float:
    """Read a finite number that somebody wrote."""
    try:
        number = float(words)
        if math.isfinite(number):
            return number
    except ValueError:
        pass
    raise InputError(f"{what} must be a number") from None
