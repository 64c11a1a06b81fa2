"""Rows in a private frame: how far one moves the sum of squares that the frame is made of, and how it counts in it."""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import Bounded, concludes_fact, need_fact, need_positive
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up

SLACK: Final = 2.0**-40  # by which rows in a frame are kept below their bounds, so that rounding cannot exceed those


@concludes_fact
def squared_entries_sum(row: Fact, relation: str) -> Bounded:
    """Sensitivity of the sum over records of the squares of the entries of x, |x| <= R, in l2 norm.

    The squares of a row are a vector without negative entries whose l2 norm is at most |x|^2: masking one moves the sum
    by R^2, and replacing one by sqrt(2) R^2.
    """
    check_relation(relation)
    moves = math.sqrt(2.0) if relation == "replace_one" else 1.0
    square = need_fact(row, Kind.ROW_BOUND, "row") ** 2
    return Bounded(Kind.SENSITIVITY, up(moves * square), "sum of the squares of the entries of all rows", relation)


@concludes_fact
def weighted_rows(stretch: float) -> Bounded:
    """Rows z of length up to `stretch`, each counted by a weight s with s |z| <= 1 and s >= 1/stretch, or by part of s.

    The weight times the row is no longer than 1, which bounds its gradient; how much more it bends `stretch` says. A
    share of `SLACK` by which s is less than 1/stretch is charged.
    """
    if need_positive(stretch, "stretch") < 1.0:
        raise HypothesisError("stretch must be at least 1: rows that are shorter need no weights")
    words = f"rows up to {stretch:g} long, each counted by at most 1 over its length"
    return Bounded(Kind.LONG_ROWS, (1.0, float(stretch)), words)


def need_rows(argument: object) -> tuple[float, float]:
    """Return how long a row times its weight may be, and the row itself in units of that; without weights 1."""
    if isinstance(argument, Fact) and argument.kind is Kind.LONG_ROWS:
        radius, stretch = argument.value
        return float(radius), float(stretch)
    return need_positive(need_fact(argument, Kind.ROW_BOUND, "row"), "row"), 1.0
