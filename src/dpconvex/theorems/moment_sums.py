"""Sums of x x' and y x over records, released one at a time or together."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Bounded,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    concludes_fact,
    need_fact,
    need_one_draw,
    need_positive,
    need_unit,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import UNIT, matrix_error, sum_error


@concludes_claim
def noisy_moments(
    row: Fact,
    target: float,
    relation: str,
    eigenvalue: Release,
    second: Release,
    cross: Release,
    unit: int | str = 1,
    n: int | None = None,
) -> Guarantee:
    """Gaussian noise on A = sum x x', its smallest eigenvalue, and v = sum y x, where |x| <= R and |y| <= target.

    No record moves all three as far as each one separately. Let s, l and m be R^2, R^2 and R target divided by the
    scales of the noise on A, the eigenvalue and v, and let r^2 = 2 s^2 + l^2. If a record is replaced, mu = r + m^2/r
    for m < r and 2 m otherwise; if one is masked, mu^2 = s^2 + l^2 + m^2. A is released as its entries on and above the
    diagonal, those above multiplied by sqrt 2. With unit "person" each person contributes the mean of x x' and y x over
    all rows of that person, or a fraction of it. Releases on grids are of sums over n records as float64 computes them,
    and the eigenvalue is that of the computed matrix up to `eigenvalue_error`. Proof: docs/proofs/moment_sums.md.
    """
    check_relation(relation)
    need_unit(unit)
    radius, bound = need_fact(row, Kind.ROW_BOUND, "row"), need_positive(target, "target")
    size = math.prod(need_one_draw(cross, "cross", grid=True).shape)
    shapes = {"eigenvalue": (1,), "second": (size * (size + 1) // 2,), "cross": (size,)}
    for name, release in (("eigenvalue", eigenvalue), ("second", second), ("cross", cross)):
        if need_one_draw(release, name, grid=True).shape != shapes[name]:
            raise HypothesisError(f"{name} must have the shape {shapes[name]}, got {release.shape}")
    m, s, ell = radius * bound / cross.scale, radius * radius / second.scale, radius * radius / eigenvalue.scale
    if relation == "zero_out":
        mu = math.hypot(m, s, ell)
    else:
        r = math.hypot(s, s, ell)
        mu = r + m * (m / r) if m < r else 2.0 * m
    if any(release.grid is not None for release in (eigenvalue, second, cross)):
        if n is None:
            raise HypothesisError("releases on grids are computed: state n, the number of records that are added up")
        matrix = matrix_error(n, size)
        mu += 2.0 * math.hypot(sum_error(n, size) * m, matrix * s, (matrix + eigenvalue_error(n, size)) * ell)
    return Guarantee(GDP(up(mu)), relation, Scope.EVERY, unit)


def eigenvalue_error(n: int, size: int) -> float:
    """How far a computed smallest eigenvalue of a sum of x x' over n rows may be from that of the matrix, per R^2."""
    return 1.01 * 16.0 * UNIT * n * (size + 8.0) ** 2


@concludes_fact
def moment_sums(row: Fact, target: float, relation: str, which: str) -> Bounded:
    """Sensitivity of sums over records (x, y) with |x| <= R and |y| <= target, in l2 norm.

    which: "second" is the matrix sum x x' in Frobenius norm, "cross" the vector sum y x, "eigenvalue" the smallest
    eigenvalue of the matrix. Replacing a record moves them by sqrt(2) R^2, 2 R target and R^2, masking one by R^2,
    R target and R^2.
    """
    check_relation(relation)
    radius = need_fact(row, Kind.ROW_BOUND, "row")
    bound = need_positive(target, "target")
    size = {"second": radius**2, "cross": radius * bound, "eigenvalue": radius**2}.get(which)
    if size is None:
        raise HypothesisError(f"which must be 'second', 'cross' or 'eigenvalue', got {which!r}")
    moves = {"second": math.sqrt(2.0), "cross": 2.0, "eigenvalue": 1.0}[which] if relation == "replace_one" else 1.0
    words = {"second": "sum of x x'", "cross": "sum of y x", "eigenvalue": "smallest eigenvalue of the sum of x x'"}
    return Bounded(Kind.SENSITIVITY, up(moves * size), words[which], relation)
