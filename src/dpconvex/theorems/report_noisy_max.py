"""Private choices: the index of the largest entry of a noisy vector, and nothing else."""

from __future__ import annotations

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Guarantee, Release, Scope, concludes_claim, need_positive
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import UNIT, sum_error
from dpconvex.theorems.numerics.bounded_range import BoundedRange

GUMBEL = "gumbel"  # law of the noise of a choice


@concludes_claim
def report_noisy_max(clip: float, relation: str, release: Release, n: int, plus: float = 0.0) -> Guarantee:
    """Index of the largest entry, under Gumbel noise, of a sum of n vectors with entries in [-clip, clip].

    Only the index is released. This is the exponential mechanism, whose log-likelihood ratio has a range of 2 s / scale
    [1]_, where s bounds how far an entry of the sum moves, as float64 computes it (`moved_entry`). A release drawn k
    times stands for k choices, and later sums may depend on earlier choices (for choices that do not, composition is
    that of [2]_). A vector that depends on earlier choices only, with entries up to `plus`, may be added to the sum.

    References
    ----------
    .. [1] Durfee, Rogers (2019), "Practical differentially private top-k selection with pay-what-you-get composition".
    .. [2] Dong, Durfee, Rogers (2020), "Optimal differential privacy composition for exponential mechanisms".
    """
    check_relation(relation)
    c = need_positive(clip, "clip")
    if not isinstance(release, Release) or release.law != GUMBEL or release.grid is not None:
        raise HypothesisError(f"release must be a Release of law {GUMBEL!r}, the only noise that this theorem covers")
    if len(release.shape) != 1 or release.shape[0] < 1:
        raise HypothesisError("release: the noise of a choice must have one variate per entry")
    if release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    if plus != 0.0:
        need_positive(plus, "plus")
    width = up(2.0 * moved_entry(c, relation, n, release.shape[0], plus) / release.scale)
    if width > 1e3:
        raise HypothesisError(f"release {release.name!r} has next to no noise: a range of {width:g}")
    return Guarantee(BoundedRange(width, release.times), relation, Scope.EVERY)


def moved_entry(clip: float, relation: str, n: int, size: int, plus: float = 0.0) -> float:
    """How far an entry of the sum of `report_noisy_max`, as float64 computes it, may move between neighbours.

    Examples
    --------
    >>> moved_entry(1.0, "replace_one", 1000, 50)
    2.00000000033
    """
    error = sum_error(n, size) * clip + 1.01 * UNIT * (1.01 * n * clip + plus)
    return up(MOVES[relation] * clip + 2.0 * error)
