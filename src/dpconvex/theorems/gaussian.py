"""Gaussian noise on a vector."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_fact,
    need_gaussian,
    unit_of,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import need_computed


@concludes_claim
def gaussian(sensitivity: Fact, release: Release) -> Guarantee:
    """Gaussian noise of scale sigma on a vector of sensitivity s is s/sigma-GDP [1]_.

    A release drawn k times is sqrt(k) s/sigma-GDP: each of the k values must have this sensitivity, and may be chosen
    after the earlier ones were released. The unit of the claim, a record or a person, is that of the sensitivity. A
    release on a grid needs a sensitivity of what float64 computes (`computed_sum`); rounding is post-processing.

    References
    ----------
    .. [1] Dong, Roth, Su (2022), "Gaussian differential privacy", Theorem 2.7.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    need_computed(sensitivity, need_gaussian(release, "release", grid=True))
    if release.scale == 0.0 and s > 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    mu = up(math.sqrt(release.times) * s / release.scale) if s > 0.0 else 0.0
    return Guarantee(GDP(mu), check_relation(sensitivity.relation), Scope.EVERY, unit_of(sensitivity))
