"""Sensitivity of the sums from which a model is evaluated on held-out records."""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Bounded, concludes_fact
from dpconvex.problem.facts import Kind
from dpconvex.rounding import up

# Factors on what is released besides the main sum: as large as possible at no or little cost.
CLASS_FACTOR: Final = math.sqrt(0.5)  # on the count of the second class, in `ranking_sums`
SPREAD_FACTOR: Final = 1.5  # on the sum of squared ranks, in `ranking_sums`
COUNT_FACTOR: Final = 0.5  # on the numbers of records, in `binned_sums`


@concludes_fact
def bounded_sums(count: int, relation: str) -> Bounded:
    """Sensitivity of the sums of r and of 1 - r^2, for `count` quantities r within [-1, 1] of each record.

    It equals that of the sums of r alone, sqrt(count) times 2 or 1: when r moves furthest, from one end to the other,
    1 - r^2 does not change. Proof: docs/proofs/evaluation.md.
    """
    moves = math.sqrt(_need_whole(count, "count")) * MOVES[check_relation(relation)]
    return Bounded(Kind.SENSITIVITY, up(moves), f"sums of {count} quantities within 1 and of their squares", relation)


@concludes_fact
def ranking_sums(relation: str) -> Bounded:
    """Sensitivity of the sums that give the area under the ROC curve, for n >= 2 records of two classes.

    Let h be 1/2, 0 or -1/2 if a record of the second class scores more than, as much as or less than one of the first.
    The sums are CLASS_FACTOR times half the difference between the numbers in the two classes, the sum of h over all
    such pairs divided by n - 1, and SPREAD_FACTOR times the sum over records of (sum of h over their pairs / n)^2.
    Their sensitivity is 1 if a record is replaced and sqrt(33)/8 if it is masked. Proof: docs/proofs/evaluation.md.
    """
    moves = {"replace_one": 1.0, "zero_out": math.sqrt(33.0) / 8.0}[check_relation(relation)]
    return Bounded(Kind.SENSITIVITY, up(moves), "sums of ranks between two classes", relation)


@concludes_fact
def binned_sums(bins: int, relation: str) -> Bounded:
    """Sensitivity of the sums of COUNT_FACTOR, r and 1 - r^2 in `bins` equal bins of p; r = y - p, y is 0 or 1.

    A masked record leaves one bin. A replaced record moves to another bin, or stays in its bin and changes r by at most
    1 plus the width of a bin. Proof: docs/proofs/evaluation.md.
    """
    check_relation(relation)
    reach = 1.0 + 1.0 / _need_whole(bins, "bins")
    leaves = 1.0 + COUNT_FACTOR**2
    square = leaves if relation == "zero_out" else max(2.0 * leaves, reach**2 * (1.0 + (2.0 - reach) ** 2))
    return Bounded(Kind.SENSITIVITY, up(math.sqrt(square)), f"sums of y - p in {bins} bins of p", relation)


@concludes_fact
def grouped_sums(relation: str) -> Bounded:
    """Sensitivity of the sums of COUNT_FACTOR, r and 1 - r^2 in public groups of records; |r| <= 1.

    Each record counts in one group, or in none, by its own row. A replaced record stays in its group, and moves the
    sums by no more than `bounded_sums` says, or leaves it for another. Proof: docs/proofs/evaluation.md.
    """
    square = {"replace_one": 4.0, "zero_out": 1.0 + COUNT_FACTOR**2}[check_relation(relation)]
    return Bounded(Kind.SENSITIVITY, up(math.sqrt(square)), "sums of a quantity within 1 in groups", relation)


@concludes_fact
def cell_counts(relation: str) -> Bounded:
    """Sensitivity of the numbers of records in public cells, of which a record is in one, or in none.

    Proof: docs/proofs/evaluation.md.
    """
    square = {"replace_one": 2.0, "zero_out": 1.0}[check_relation(relation)]
    return Bounded(Kind.SENSITIVITY, up(math.sqrt(square)), "numbers of records in cells", relation)


def _need_whole(argument: object, name: str) -> int:
    if isinstance(argument, bool) or not isinstance(argument, int) or argument < 1:
        raise HypothesisError(f"{name} must be a whole number of at least 1")
    return argument
