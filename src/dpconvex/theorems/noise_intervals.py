"""Sensitivity of the Hessian of a sum of losses."""

from __future__ import annotations

from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import Bounded, concludes_fact, need_fact, need_law
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up


@concludes_fact
def curvature_sum(curvature: Fact, slope: Fact, row: Fact, relation: str) -> Bounded:
    """Sensitivity of sum_i l''(<x_i, w>; y_i) x_i x_i' at a fixed point w, in Frobenius norm.

    The curvature of the loss is at most b, the maximum of its curvature law over all possible slopes. Each term is
    positive semidefinite with norm at most b R^2. Therefore masking a record moves the sum by at most b R^2, and
    replacing one by at most sqrt(2) b R^2. Proof: docs/proofs/noise_intervals.md.
    """
    check_relation(relation)
    steepest = need_fact(slope, Kind.SLOPE, "slope")
    radius = need_fact(row, Kind.ROW_BOUND, "row")
    a, b, c = need_law(curvature, steepest)
    # The concave law is largest at an end or where its derivative vanishes.
    top = 0.0 if b <= 0.0 else steepest if b + 2.0 * c * steepest >= 0.0 else -b / (2.0 * c)
    size = (a + top * (b + top * c)) * radius**2
    moves = 2.0**0.5 if relation == "replace_one" else 1.0
    return Bounded(Kind.SENSITIVITY, up(moves * up(size)), "sum of the Hessians of all records", relation)
