"""Objective perturbation: the minimiser of an objective with a random linear term."""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_fact,
    need_law,
    need_one_draw,
    need_positive,
)
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_down, up
from dpconvex.theorems.framed_perturbation import SLACK, need_rows
from dpconvex.theorems.numerics.objective import ACCOUNTINGS
from dpconvex.theorems.numerics.perturbed_objective import PerturbedObjective, PerturbedSoftmax

BEYOND: Final = 40.0  # standard deviations: how much longer than sqrt(m) of them a tilt of m numbers may be


def longest_tilt(objective: Release) -> float:
    """Length to which longer tilts are shortened; the curves include what that costs.

    Examples
    --------
    >>> longest_tilt(Release("objective", "gaussian", 2.0, (100,)))
    100.0
    """
    size = math.prod(objective.shape)
    return objective.scale * (math.sqrt(size) + BEYOND) + _off_grid(objective)


def _off_grid(objective: Release) -> float:
    """How far a tilt on a grid can be from the real one."""
    return up(0.5 * (objective.grid or 0.0) * math.sqrt(math.prod(objective.shape)))


@concludes_claim
def objective_perturbation(
    slope: Fact,
    width: Fact,
    curvature: Fact,
    monotone: Fact,
    row: Fact,
    l2: float,
    relation: str,
    objective: Release,
    output: Release,
    tolerance: float,
    accounting: str = "sharp",
) -> Guarantee:
    """Privacy of a point near the minimiser of sum_i l_i(<x_i, w>) + (l2/2)|w|^2 + <b, w>, plus noise.

    b is the release `objective`, which stays secret. A point at which the norm of the gradient of this objective is
    certified to be at most `tolerance` is released with the noise `output`. Its distance from the minimiser is at most
    tolerance/l2, which costs 2 tolerance/(l2 sigma_out)-GDP. The minimum may be over any closed convex set, with the
    residual of the proof note in place of the gradient. Both releases may lie on a grid: half a cell of that of the
    tilt, times the root of the number of weights, joins the tolerance, and the certificate is about the computed point.
    Tilts beyond `longest_tilt` are shortened to it.

    A record may count by a weight from 0 to 1. `row` is a row bound, or says that long rows count less
    (`weighted_rows`): up to `stretch` times as long, each is charged as a row within the bound with l2/stretch.

    Accounting "sharp" (the smaller of two bounds) and "coupled" hold for slopes of either sign. "published" [1]_ needs
    l2 above the largest Hessian of a record, and "paper" is Algorithm 5 of [2]_ with constants for which it holds. The
    last two are for comparison.

    References
    ----------
    .. [1] Redberg, Koskela, Wang (2023), "Improving the privacy and practicality of objective perturbation for
       differentially private linear learners".
    .. [2] Su, Zhao, Wang (2023), "Differentially private stochastic convex optimization in (non)-Euclidean space
       revisited".
    """
    mu_out = _output_mu(l2, objective, output, tolerance)
    check_relation(relation)
    cap = need_positive(need_fact(slope, Kind.SLOPE, "slope"), "slope")
    span = need_fact(width, Kind.SLOPE_WIDTH, "width")
    law = need_law(curvature, cap)
    one_sign = need_fact(monotone, Kind.MONOTONE_MARGIN, "monotone") == 1.0
    if not cap <= span <= 2.0 * cap:
        raise HypothesisError("width must lie between slope and twice slope")
    if one_sign and span != cap:
        raise HypothesisError("width must equal slope, because the slopes of a record have one sign")
    if accounting not in ACCOUNTINGS:
        raise HypothesisError(f"accounting must be one of {', '.join(ACCOUNTINGS)}, got {accounting!r}")
    radius, stretch = need_rows(row)
    profile = PerturbedObjective(
        relation, accounting, cap, span, one_sign, law, radius, _charged(l2, stretch), objective.scale, mu_out
    )
    if accounting == "published" and profile.setting.top_gain >= 1.0:
        raise HypothesisError("the published bound needs l2 above the largest Hessian of one record")
    return Guarantee(profile, relation, Scope.LAST)


@concludes_claim
def objective_perturbation_softmax(
    classes: Fact,
    row: Fact,
    l2: float,
    relation: str,
    objective: Release,
    output: Release,
    tolerance: float,
) -> Guarantee:
    """`objective_perturbation` for the cross-entropy of a softmax of K classes, with K x d weights fitted jointly."""
    mu_out = _output_mu(l2, objective, output, tolerance)
    check_relation(relation)
    count = need_fact(classes, Kind.CLASSES, "classes")
    if count != int(count) or count < 2:
        raise HypothesisError("classes must be a whole number of at least 2")
    radius, stretch = need_rows(row)
    profile = PerturbedSoftmax(relation, int(count), radius, _charged(l2, stretch), objective.scale, mu_out)
    return Guarantee(profile, relation, Scope.LAST)


def _charged(l2: float, stretch: float) -> float:
    """The l2 that rows are charged with: l2 itself where they are no longer than their bound."""
    return float(l2) if stretch == 1.0 else round_down(float(l2) / stretch * (1.0 - SLACK))


def _output_mu(l2: float, objective: Release, output: Release, tolerance: float) -> float:
    tilt, blur = need_one_draw(objective, "objective", grid=True), need_one_draw(output, "output", grid=True)
    if tilt.shape != blur.shape:
        raise HypothesisError("objective and output must both have the shape of the weights")
    off = need_positive(tolerance, "tolerance") + _off_grid(tilt)
    return up(2.0 * off / (need_positive(l2, "l2") * blur.scale))
