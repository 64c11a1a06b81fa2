"""Noise with l_r balls as level sets, for vectors bounded in a norm other than l2."""

from __future__ import annotations

import math
from functools import lru_cache

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_positive,
    need_unit,
)
from dpconvex.kernel.profiles import Concentrated
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import need_sum_error

_LAW = "generalised gaussian, r = "


def generalised_law(r: float) -> str:
    """Name of the law with density proportional to exp(-|z|_r^2 / 2).

    Examples
    --------
    >>> generalised_law(3.0), exponent_of(generalised_law(3.0)), exponent_of("gaussian")
    ('generalised gaussian, r = 3.0', 3.0, None)
    """
    return f"{_LAW}{float(r)!r}"


@lru_cache(maxsize=64)
def exponent_of(law: str) -> float | None:
    """The r of a generalised Gaussian law, or None for any other law."""
    return float(law.removeprefix(_LAW)) if law.startswith(_LAW) else None


@concludes_claim
def generalised_gaussian(
    clip: float, q: float, relation: str, release: Release, unit: int | str = 1, n: int | None = None
) -> Guarantee:
    """A sum of one vector per record, each shortened to l_q norm `clip`, plus noise exp(-|z|_r^2 / (2 sigma^2)).

    With s = moves clip, the sensitivity in l_q, this is rho-zCDP for rho = kappa s^2 / (2 sigma^2), where kappa is
    (r - 1) d^(2/r - 2/q) for 2 <= r <= q, and r - 1 for q below r. A release drawn k times costs k rho, and later sums
    may depend on what was released earlier. With unit "person" there is one vector per person. A release on a grid is
    that of a sum over n records as float64 computes it. This is the mechanism of [1]_ with the constant of the smooth
    norm; proof: docs/proofs/generalised_gaussian.md.

    References
    ----------
    .. [1] Bassily, Guzman, Nandi (2021), "Non-Euclidean differentially private stochastic convex optimization".
    """
    check_relation(relation)
    need_unit(unit)
    c = need_positive(clip, "clip")
    r = exponent_of(release.law) if isinstance(release, Release) else None
    if r is None or not 2.0 <= r < math.inf:
        raise HypothesisError("release must be a Release of a generalised Gaussian law with a finite r of at least 2")
    if isinstance(q, bool) or not (isinstance(q, int | float) and 1.0 <= q < math.inf):
        raise HypothesisError(
            "q must be the exponent of a norm, finite and at least 1; entries within c have l_r norm "
            "c d^(1/r): state that, with q = r"
        )
    if release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    if release.grid is not None and unit != 1:
        raise HypothesisError("unit must be 1 on a grid: sums over people are computed for clips in l2 only")
    size = math.prod(release.shape)
    stretch = float(size) ** max(0.0, 1.0 / r - 1.0 / q) * (1.0 + 1e-14)  # largest ratio of l_r to l_q norm
    moves = MOVES[relation] + 2.0 * need_sum_error(release, n)
    moved = stretch * moves * c / release.scale
    return Guarantee(Concentrated(up(release.times * (r - 1.0) * moved * moved / 2.0)), relation, Scope.EVERY, unit)
