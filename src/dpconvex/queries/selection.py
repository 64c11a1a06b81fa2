"""The best of a secret number of private fits, as one release.

Each repetition draws a candidate at random, fits it to the training rows with fresh noise, and scores it on held-out
rows, with noise. The number of repetitions is drawn beforehand, all of them are run, and only the best is released.
Proof: docs/proofs/private_selection.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpconvex.algorithms.again import plan_again
from dpconvex.calibrate import gaussian_scale
from dpconvex.data.arrays import open_rows, open_weights
from dpconvex.data.opened import OpenedParts
from dpconvex.data.parts import Parts
from dpconvex.errors import FormError, InputError, PartsError, RowError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.kernel.receipt import Receipt
from dpconvex.noise.counts import one_of, repetitions
from dpconvex.noise.source import Stream
from dpconvex.plain import whole
from dpconvex.plan.plan import Plan, probabilities
from dpconvex.plan.port import NoisePort
from dpconvex.plan.run import Run, public_form
from dpconvex.problem.problem import Problem
from dpconvex.sums.scores import score_rows
from dpconvex.theorems import (
    any_of,
    clipped_sum,
    computed_sum,
    fresh_run,
    gaussian,
    group,
    of_problem,
    parallel,
    private_selection,
)
from dpconvex.theorems.bounded_support import need_support
from dpconvex.theorems.private_selection import UNIFORM

_OWN = ("algorithm", "problem", "n", "d", "budget")  # what the plan of a candidate is made from
_MOST_HEATS = 100
LOG_LOSS_CAP = 3.0  # clips the log-loss of rows whose class was given less than 5%


class Table(NamedTuple):
    """Rows, labels and weights in the form of a candidate; parts hold all of them."""

    X: Any
    values: np.ndarray
    weights: np.ndarray | None
    weight_cap: float | None = 1.0  # None where the algorithm takes no weights

    def fit(self, plan: Plan, rows: np.ndarray, port: NoisePort) -> np.ndarray:
        """Fit a candidate to some of the rows, with its own port. The selection was charged as a whole."""
        if isinstance(self.X, Parts):
            plan.execute_on_parts(self._opened(plan, rows), port)
            port.close()
            return np.array(plan.algorithm.finish(plan, port))
        weights = None if self.weights is None else self.weights[rows]
        return _fitted(plan, self.X[rows], self.values[rows], weights, port)[0]

    def score(self, scoring: str, plan: Plan, weights: np.ndarray, rows: np.ndarray) -> float:
        """Sum of the scores of some of the rows, each less a half."""
        if not isinstance(self.X, Parts):
            return _scored(scoring, plan.problem, weights, self.X[rows], self.values[rows])
        try:
            sums = [_scored(scoring, plan.problem, weights, X, y) for X, y, *_ in self._opened(plan, rows).in_order()]
        except (FormError, RowError) as error:
            raise PartsError(str(error)) from None
        return math.fsum(sums)

    def _opened(self, plan: Plan, rows: np.ndarray) -> OpenedParts:
        return OpenedParts(self.X, plan.problem, plan.d, self.weight_cap, which=np.sort(rows))


def _scored(scoring: str, problem: Problem, weights: np.ndarray, X: Any, values: np.ndarray) -> float:
    return math.fsum(row_scores(scoring, problem, weights, X, values) - 0.5)


class Heat(NamedTuple):
    """The plan of the fit of a candidate, and the claim about its score."""

    plan: Plan
    score: Claim


class _Winner(NamedTuple):
    """What is released: the number of the candidate, its weights, and the noisy sum of its scores."""

    candidate: int
    weights: np.ndarray
    noisy: float


@dataclass(frozen=True)
class Selection:
    """The plan of a whole selection."""

    released: ClassVar[str] = "the {size} weights of the best of several models, its settings and its noisy score"
    record: ClassVar[str] = "record"

    name: str
    scoring: str
    candidates: tuple[dict[str, str], ...]
    heats: tuple[Heat, ...]
    holdout: int
    n: int
    d: int
    budget: Budget
    claim: Claim
    repeats: Release
    mean_repeats: float
    selected: int = 0

    def __post_init__(self) -> None:
        need_support(self.claim, self.budget)

    @classmethod
    def plan_again(cls, form: Mapping[str, Any]) -> Selection:
        """Plan from the plain form: the fits of all candidates again, and from them the noise of their scores."""
        facts, n, d = form["algorithm"], form["n"], form["d"]
        if len(facts["heats"]) > _MOST_HEATS:
            raise InputError(f"a selection has at most {_MOST_HEATS} candidates")
        held, plain = whole(facts["holdout"], "holdout", most=n - 2), {"one_record": None, "people": 1, "stream": None}
        plans = [plan_again({**{key: heat[key] for key in _OWN}, **plain}) for heat in facts["heats"]]
        heats = [heat_of(plan, held) for plan in plans if isinstance(plan, Plan)]
        repeats = Release("repeats", facts["distribution"], facts["parameter"], (1,))
        budget = Budget(**form["budget"])
        if not all(heat.plan.n == n - held and heat.plan.d == d for heat in heats):
            raise InputError("candidates are fitted to all rows that are not held out")
        claim = best_of(heats, repeats, form["people"], n - held, n, d)
        if claim.epsilon(budget.delta) > budget.epsilon:
            raise InputError("the claim of a selection must stay within its budget")
        return cls(
            facts["name"], facts["scoring"], tuple(facts["candidates"]), tuple(heats), held, n, d, budget, claim,
            repeats, facts["mean_repeats"], whole(facts["selected"], "selected", 0, len(heats) - 1),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return a plain form, for the selected candidate."""
        # for the mean number of repetitions, as the number itself is secret
        evaluations = self.mean_repeats * np.mean([heat.plan.gradient_evaluations for heat in self.heats])
        algorithm = {
            "name": self.name,
            "scoring": self.scoring,
            "holdout": self.holdout,
            "candidates": list(self.candidates),
            "selected": self.selected,
            "distribution": self.repeats.law,
            "parameter": self.repeats.scale,
            "mean_repeats": self.mean_repeats,
            "heats": [{key: heat.plan.to_json()[key] for key in _OWN} for heat in self.heats],
        }
        return public_form(
            algorithm, self.heats[self.selected].plan.problem, self.n, self.d, self.budget, self.claim,
            round(float(evaluations)), [heat.plan.schedule for heat in self.heats],
        )  # fmt: skip


PrivateSelection = Selection  # the name under which its plans stand on receipts


def heat_of(plan: Plan, holdout: int) -> Heat:
    """A candidate with its plan, and with noise on its score on so many rows for the same mu."""
    moved = computed_sum(clipped_sum(0.5, plan.budget.relation), holdout, 1)
    scale = gaussian_scale(moved.value, plan.budget.mu)
    return Heat(plan, gaussian(moved, Release("score", "gaussian", scale, (1,), grid=grid_of(scale))))


def best_of(heats: Sequence[Heat], repeats: Release, people: int, train: int, n: int, d: int) -> Claim:
    """Return the claim about the best of the repetitions.

    Each is a fit to the first rows of a random order and a score on the others.
    """
    claims = []
    for number, heat in enumerate(heats, 1):
        fitted = of_problem(heat.plan.claim, json.dumps(heat.plan.problem.to_json(d)), train, d)
        both = parallel([fitted, heat.score], [range(train), range(train, n)])
        claims.append(fresh_run(both if people == 1 else group(both, people), _label(number)))
    return private_selection(any_of(claims, Release("candidate", UNIFORM, 1.0, (len(claims),))), repeats)


def _label(number: int) -> str:
    return f"candidate {number}"


def select(
    plan: Selection,
    tables: Sequence[Table],
    dataset: str | None,
    seed: int | None,
    undeclared: Sequence[str],
    declared: Sequence[str | None],
) -> tuple[_Winner, Receipt]:
    """Run a selection, with one charge and one receipt. `declared` holds one digest per candidate."""
    labels = [_label(number) for number in range(1, len(plan.heats) + 1)]
    where = "parts" if isinstance(tables[0].X, Parts) else "memory"
    run = Run(plan, dataset, seed, undeclared=undeclared, choices=labels, rows=where)
    found: list[_Winner] = []
    run.once(lambda port: found.append(_tournament(plan, tables, port)))
    winner = found[0]
    run.declared = declared[winner.candidate]
    return winner, run.receipt(winner.weights, replace(plan, selected=winner.candidate))


def _tournament(plan: Selection, tables: Sequence[Table], port: NoisePort) -> _Winner:
    """Run every repetition that was drawn, whatever the scores, and keep the best."""
    heats = plan.heats
    order = port.lend_stream("repeats", _order, lambda stream: _order(stream, plan.n), draws=0, aside="split")
    train, held = order[: heats[0].plan.n], order[heats[0].plan.n :]
    law, parameter = plan.repeats.law, plan.repeats.scale
    count = port.lend_stream("repeats", repetitions, lambda stream: repetitions(stream, law, parameter))
    best: _Winner | None = None
    for number in range(1, count + 1):
        index = port.lend_stream("candidate", one_of, lambda s: one_of(s, len(heats)), draws=int(number == 1))
        heat, table, label = heats[index], tables[index], _label(index + 1)
        fit = port.part(label, heat.plan.claim, number)
        weights = table.fit(heat.plan, train, fit)
        score = port.part(label, heat.score, number)
        noisy = float(score.add("score", np.array([table.score(plan.scoring, heat.plan, weights, held)]))[0])
        score.close()
        if best is None or noisy > best.noisy:
            best, of_best = _Winner(index, weights, noisy), fit
    assert best is not None
    port.selected(of_best)
    return best


def _order(stream: Stream, count: int) -> np.ndarray:
    """A random order."""
    return np.argsort(stream.words(count), kind="stable")


def _fitted(
    plan: Plan, X: Any, y: np.ndarray, sample_weight: np.ndarray | None, port: NoisePort
) -> tuple[np.ndarray, NoisePort]:
    """Fit a candidate with its own port. The selection was charged as a whole."""
    rows, labels = open_rows(X, y, plan.problem, plan.n, plan.d)
    if sample_weight is not None:
        rows = rows._replace(weights=open_weights(sample_weight, 1.0, plan.n))
    plan.algorithm.execute(plan, rows, labels, port)
    port.close()
    return np.array(plan.algorithm.finish(plan, port)), port


def row_scores(scoring: str, problem: Problem, weights: np.ndarray, X: Any, values: np.ndarray) -> np.ndarray:
    """Return how well each row is predicted, from 0 to 1.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> row_scores("accuracy", problem, np.array([1.0, 0.0]), np.eye(2), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    scores = score_rows(X, weights, problem)
    if scoring == "accuracy":
        right = scores.argmax(axis=1) == values if scores.ndim == 2 else (scores > 0) == (values > 0)
        return np.asarray(right, dtype=np.float64)
    if scoring == "squared_error":  # both within [-1, 1]
        return np.asarray(1.0 - ((np.clip(scores, -1.0, 1.0) - np.clip(values, -1.0, 1.0)) / 2.0) ** 2)
    found = probabilities(problem.loss, scores)
    of_label = (
        found[np.arange(len(values)), values.astype(int)] if found.ndim == 2 else np.where(values > 0, found, 1 - found)
    )
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 - np.minimum(-np.log(of_label), LOG_LOSS_CAP) / LOG_LOSS_CAP)
