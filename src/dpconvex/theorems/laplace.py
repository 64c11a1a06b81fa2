"""Laplace noise on a vector: privacy without a delta."""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import Guarantee, Release, Scope, concludes_claim, need_fact, unit_of
from dpconvex.kernel.profiles import ApproxDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_up, up
from dpconvex.theorems.computed_sums import need_computed

LAPLACE: Final = "laplace"  # law of independent entries of density exp(-|z|) / 2


@concludes_claim
def laplace(sensitivity: Fact, release: Release) -> Guarantee:
    """Laplace noise of scale b on m numbers of l2 sensitivity s is (sqrt(m) s / b, 0)-DP [1]_.

    A release drawn k times costs k times that: each of the k values must have this sensitivity, and may be chosen after
    the earlier ones were released. The unit of the claim, a record or a person, is that of the sensitivity. A release
    on a grid needs a sensitivity of what float64 computes (`computed_sum`); rounding is post-processing. Proof:
    docs/proofs/laplace.md.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim, Smith (2006), "Calibrating noise to sensitivity in private data analysis".
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    if not isinstance(release, Release) or release.law != LAPLACE:
        raise HypothesisError(f"release must be a Release of law {LAPLACE!r}: no other noise is covered")
    need_computed(sensitivity, release)
    if release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    epsilon = up(release.times * math.sqrt(math.prod(release.shape)) * s / release.scale)
    if not epsilon <= 1e5:
        raise HypothesisError(f"release {release.name!r} has next to no noise: epsilon {epsilon:g}")
    return Guarantee(ApproxDP(epsilon, 0.0), check_relation(sensitivity.relation), Scope.EVERY, unit_of(sensitivity))


def laplace_scale(sensitivity: float, numbers: int, epsilon: float) -> float:
    """Smallest scale, rounded up, at which a release of so many numbers of that l2 sensitivity is (epsilon, 0)-DP.

    Examples
    --------
    >>> laplace_scale(1.0, 4, 0.5)
    4.00000000004
    """
    return round_up(math.sqrt(numbers) * sensitivity / epsilon * (1.0 + 1e-11))
