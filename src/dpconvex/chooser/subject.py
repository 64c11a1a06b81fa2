"""What a question is about: a problem with its number of features, read from a schema where one is given."""

from __future__ import annotations

from typing import NamedTuple

from dpconvex.data.encoding import Encoding
from dpconvex.data.schema import Classes, Schema
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.plan.people import budget_of_record
from dpconvex.plan.plan import check_form
from dpconvex.problem.bounds import L2
from dpconvex.problem.losses import Logistic, Softmax, Squared
from dpconvex.problem.problem import Problem


class Subject(NamedTuple):
    """A problem, its number of features, and the budget of one record."""

    problem: Problem
    d: int
    budget: Budget


def subject(about: Problem | Schema | None, n: object, d: object, budget: object) -> Subject:
    """Problem, features and budget of one record, from a problem, a schema, or nothing but the number of features.

    Examples
    --------
    >>> from dpconvex.data.schema import Category, Number, Range
    >>> schema = Schema({"age": Number(18, 100), "sex": Category(["F", "M"])}, target=Range("cost", 0, 5000))
    >>> found = subject(schema, 1000, None, Budget(1.0, 1e-6))
    >>> found.problem.loss, found.d
    (Squared(target=1.0), 3)
    >>> subject(None, 1000, 40, Budget(1.0, 1e-6)).problem.loss
    Logistic(cap=1.0, shift=0.0)
    """
    if not isinstance(about, Schema):
        problem = Problem(Logistic()) if about is None else about
        check_problem(problem)
        check_form(n, d, budget)
        return Subject(problem, int(d), budget)  # type: ignore[call-overload, arg-type]
    encoding = Encoding(about)
    features = len(encoding.names)
    if d is not None and d != features:
        raise InputError(f"the schema encodes {features} features: leave d out")
    check_form(n, features, budget)
    bound = L2(encoding.row_bound)
    problem = Problem(_loss_of(about), feature_bound=bound, intercept=encoding.constant)
    return Subject(problem, features, budget_of_record(budget, about.rows_per_person))  # type: ignore[arg-type]


def check_problem(problem: object) -> None:
    """Refuse what is no problem."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a dpconvex.Problem, got {type(problem).__name__}")


def _loss_of(schema: Schema) -> Logistic | Softmax | Squared:
    """The loss that the default model of a schema has; targets are scaled to [-1, 1]."""
    if schema.target is None:
        raise InputError("the schema declares no target: declare what is to be predicted")
    if not isinstance(schema.target, Classes):
        return Squared()
    count = len(schema.target.labels)
    return Logistic() if count == 2 else Softmax(count)
