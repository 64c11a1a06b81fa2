"""Private choices: which entry of a noisy vector is largest, and nothing else of it."""

from __future__ import annotations

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Guarantee, Release, Scope, concludes_claim, need_positive
from dpconvex.rounding import up
from dpconvex.theorems.numerics.bounded_range import BoundedRange

GUMBEL = "gumbel"  # law of the noise of a choice


@concludes_claim
def report_noisy_max(clip: float, relation: str, release: Release) -> Guarantee:
    """Where a sum of one vector a record, each entry within [-clip, clip], is largest under Gumbel noise.

    The index is released and nothing else: it is the exponential mechanism, whose log-likelihood ratio has a range of
    2 moves clip / scale. A release drawn k times is k such choices, also of sums chosen after the earlier ones were
    released. (Range: Durfee, Rogers 2019; composition: Dong, Durfee, Rogers 2020, here with choices that adapt.)
    """
    check_relation(relation)
    c = need_positive(clip, "clip")
    if not isinstance(release, Release) or release.law != GUMBEL:
        raise HypothesisError(f"release must be a Release of law {GUMBEL!r}, the only noise this theorem is about")
    if len(release.shape) != 1 or release.shape[0] < 1:
        raise HypothesisError("release: the noise of a choice is one variate for each of its entries")
    if release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    width = up(2.0 * MOVES[relation] * c / release.scale)
    if width > 1e3:
        raise HypothesisError(f"release {release.name!r} has next to no noise: a range of {width:g}")
    return Guarantee(BoundedRange(width, release.times), relation, Scope.EVERY)
