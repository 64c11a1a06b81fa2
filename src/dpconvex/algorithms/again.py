"""Plan again from the plain form of a plan: algorithms with their options, and every kind of plan a receipt can name.

A plan is a pure function of public facts, and all of them are in its plain form.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.registry import PLANNERS, UnknownError, get, names
from dpconvex.errors import BudgetWarning, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import for_people
from dpconvex.plan.run import Planned
from dpconvex.problem.problem import Problem
from dpconvex.theorems.schedules import schedule_from_json

__all__ = ["algorithm_of", "plan_again", "planner"]

Form = Mapping[str, Any]


def plan_again(form: Form) -> Planned:
    """Plan what the plain form of a plan is about; nothing but its public facts is read.

    Parameters
    ----------
    form : mapping
        At least the algorithm, problem, n, d, budget, one_record, people and stream of `Plan.to_json`.

    Raises
    ------
    UnknownError
        If there is no algorithm of that name here.
    InputError, HypothesisError
        If there is no such plan.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PhasedSGD(phases=3).plan(problem, n=900, d=5, budget=dc.Budget(1.0, 1e-6))
    >>> plan_again(plan.to_json()) == plan
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        kind = planner(form["algorithm"]["name"])
        if not issubclass(kind, Algorithm):
            return kind.plan_again(form)
        algorithm, problem = algorithm_of(form["algorithm"]), Problem.from_json(form["problem"])
        whole, one, stream = Budget(**form["budget"]), form["one_record"], form["stream"]
        budget = whole if one is None else Budget(**one)
        if stream is None:
            plan = algorithm.plan(problem, n=form["n"], d=form["d"], budget=budget)
        elif hasattr(algorithm, "plan_stream"):
            plan = algorithm.plan_stream(problem, d=form["d"], budget=budget, rounds=stream or None)
        else:
            raise InputError(f"{type(algorithm).__name__} plans no streams")
        return plan if one is None else for_people(plan, whole, form["people"])


def planner(name: Any) -> Any:
    """The class that makes plans of that name.

    Raises
    ------
    UnknownError
        If there is none here.
    InputError
        If it is no name: no version of the library and no other package could have such an algorithm.
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise InputError("the name of an algorithm must be that of a class")
    if name in PLANNERS:
        return getattr(import_module(PLANNERS[name]), name)
    if name in names():
        return get(name)
    raise UnknownError("there is no algorithm of that name here")


def algorithm_of(form: Form) -> Algorithm:
    """The algorithm with the options that its plain form names.

    Examples
    --------
    >>> algorithm_of({"name": "NoisyGD", "steps": 10}).steps
    10
    """
    kind, options = planner(form["name"]), {key: value for key, value in form.items() if key != "name"}
    known = {field.name: str(field.type) for field in fields(kind)}
    if unknown := sorted(set(options) - set(known)):
        raise InputError(f"{kind.__name__} has no option {unknown[0]!r}")
    return kind(**{key: _option(value, known[key], kind.parts) for key, value in options.items()})


def _option(plain: Any, annotation: str, parts: tuple[type, ...]) -> Any:
    """The value of an option; JSON does not tell 1.0 from 1, so its annotation does."""
    if isinstance(plain, list):
        return tuple(_option(part, annotation, parts) for part in plain)
    if not isinstance(plain, dict):
        only_floats = "float" in annotation and "int" not in annotation
        return float(plain) if only_floats and isinstance(plain, int) and not isinstance(plain, bool) else plain
    if "schedule" in plain:
        return schedule_from_json(plain)
    if "own" in plain:
        return _own(plain, parts)
    kind: Any = {part.__name__: part for part in parts}.get(plain.get("name", ""))
    known = () if kind is None else getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    if kind is None or set(plain) - {"name"} != set(known) - {"name"}:
        raise InputError("an option is of no kind that this algorithm takes")
    given = {key: _option(value, "", parts) for key, value in plain.items() if key != "name"}
    return kind(**{key: math.inf if value == "inf" else value for key, value in given.items()})


def _own(plain: dict[str, Any], parts: tuple[type, ...]) -> Any:
    """A part of the user's own, without its code."""
    for part in parts:
        if getattr(part, "own", None) == plain["own"]:
            return part.from_plain(plain)  # type: ignore[attr-defined]
    raise InputError("an option is of no kind that this algorithm takes")
