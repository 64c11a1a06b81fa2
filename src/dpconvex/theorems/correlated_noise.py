"""Running sums with correlated noise, released after every round."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import Derivation, Guarantee, Release, Scope, concludes_claim, need_fact, unit_of
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import computed_rounds

# Laws of correlated noise: the back-end, and whether `times` is only a bound on the rounds. Of a variate, the noise on
# a row of C x, `scale` is the standard deviation over the largest norm of a column of C.
PREFIX_SUMS = {
    f"prefix sums by {backend}{horizon}": (backend, bool(horizon))
    for backend in ("blt", "tree", "honaker", "independent")
    for horizon in ("", ", open horizon")
}


@concludes_claim
def correlated_noise(increment: Fact, release: Release) -> Guarantee:
    """Running sums of increments that one record moves by s s_t, with noise of a prefix-sum law, are s/sigma-GDP.

    Every record (or person) is used in one of the `times` rounds, and the sum is released after each of them. The
    scales s_t and the increments may depend on what was released before; the scales must not depend on the data
    otherwise. What is released is rows of C x, for the increments x in units of their scales, with noise that is
    rounded to the grid; sums are computed from them. So the sensitivity is that of `computed_rounds`. This is Theorem
    2.1 of [1]_, extended to scales, trees and the arithmetic of the machine in docs/proofs/correlated_noise.md.

    References
    ----------
    .. [1] Denisov, McMahan, Rush, Smith, Thakurta (2022), "Improved differential privacy for SGD via optimal private
       linear operators on adaptive streams".
    """
    s = need_fact(increment, Kind.SENSITIVITY, "increment")
    if not isinstance(release, Release) or release.law not in PREFIX_SUMS:
        raise HypothesisError(f"release must be a Release of one of the laws {', '.join(map(repr, PREFIX_SUMS))}")
    if release.scale == 0.0 and s > 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    if release.grid is None:
        raise HypothesisError(f"release {release.name!r} needs a grid: see `dpconvex.kernel.claims.grid_of`")
    derivation = increment.derivation
    if not isinstance(derivation, Derivation) or derivation.theorem != computed_rounds.__name__:
        raise HypothesisError(
            f"release {release.name!r} lies on a grid, so the sensitivity must be that of increments as float64 "
            "computes them: pass it through computed_rounds"
        )
    if derivation.arguments["rounds"] < release.times or derivation.arguments["numbers"] < math.prod(release.shape):
        raise HypothesisError("computed_rounds must be about as many rounds, and numbers, as the release has")
    mu = up(s / release.scale) if s > 0.0 else 0.0
    return Guarantee(GDP(mu), check_relation(increment.relation), Scope.EVERY, unit_of(increment))
