"""Noise of the user's own, of which a curve of Renyi divergences in some norm is declared."""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Guarantee, Release, Scope, concludes_claim, need_positive
from dpconvex.problem.facts import DECLARED, Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import UNIT, rounds_error, sum_error
from dpconvex.theorems.numerics.renyi import Renyi

PLACES: Final = 2  # such noise lies on a grid of 2^-2 of its scale or finer: coarse, so that float64 is far finer
RATIO: Final = 8.0  # scale over that grid, at most


@concludes_claim
def renyi_noise(
    clip: float, q: float, relation: str, law: Fact, release: Release, which: str, n: int, batch: int | None = None
) -> Guarantee:
    """Noise of a declared law on sums of one vector per record, each shortened to l_q norm `clip`.

    which: "sums" are sums over all n records, one per draw; "batches" are over disjoint batches, one per draw; "tree"
    are the nodes of a binary tree over the draws, whose leaves are disjoint batches of at most `batch` records, each
    divided by its number of records and a scale (Theorem 3 of [1]_). A record moves all, one, or floor(log2 T) + 1 of
    T draws, and each may be chosen after the ones before it. With s the sensitivity of a draw in the norm of the law,
    rounding of sums included, each costs kappa s^2 / (2 sigma^2) per unit of order. What is released lies on a grid, by
    randomised rounding; how far float64 variates and sums are from exact ones is charged as a distance. Proof:
    docs/proofs/renyi_noise.md.

    References
    ----------
    .. [1] Zhang, Tran, Cutkosky (2022), "Differentially private online-to-batch for smooth losses".
    """
    check_relation(relation)
    c = need_positive(clip, "clip")
    if isinstance(q, bool) or not (isinstance(q, int | float) and 1.0 <= q < math.inf):
        raise HypothesisError("q must be the exponent of a norm, finite and at least 1")
    if not isinstance(law, Fact) or law.kind is not Kind.RENYI_LAW or len(law.value) < 5:
        raise HypothesisError(f"law must be a Fact ({Kind.RENYI_LAW.value})")
    kappa, norm, size, moment, accuracy, *orders = law.value
    if not isinstance(release, Release) or law.source != DECLARED + release.law:
        raise HypothesisError("release must be a Release of the law that the fact is about")
    if math.prod(release.shape) != size:
        raise HypothesisError(f"release {release.name!r} has {math.prod(release.shape)} numbers, the law {size:g}")
    if release.grid is None or release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} must have noise, and lie on a grid")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise HypothesisError("n must be the number of records that are added up")
    touched, error = _structure(which, n, release.times, int(size), batch)
    stretch = size ** max(0.0, 1.0 / norm - 1.0 / q) * (1.0 + 1e-14)  # largest ratio of the norm of the law to l_q
    moves, wrong = MOVES[relation] + 2.0 * error, 2.0 * error
    unit = stretch * c / release.scale
    rho = kappa / 2.0 * unit * unit * (touched * moves * moves + (release.times - touched) * wrong * wrong)
    distance = release.times * draw_distance(size, norm, moment, accuracy, release.scale / release.grid)
    if not (rho <= 1e5 and distance <= 1e-3):
        raise HypothesisError(f"release {release.name!r}: next to no noise, or variates that are too inaccurate")
    return Guarantee(Renyi(up(rho), tuple(orders), up(distance)), relation, Scope.EVERY)


def _structure(which: str, n: int, times: int, size: int, batch: int | None) -> tuple[int, float]:
    """How many draws a record moves, and how far the computed value of a draw can be off, per longest term."""
    if which == "sums":
        return times, sum_error(n, size)
    if which == "batches":
        return 1, sum_error(n, size)
    if which != "tree":
        raise HypothesisError(f"which must be 'sums', 'batches' or 'tree', got {which!r}")
    if batch is None or not times <= n <= times * batch:
        raise HypothesisError("a tree needs batch, the largest number of records of a round, and as many rounds")
    # a node adds up increments of at most all rounds, each off as those of `rounds_error`, one after the other
    return times.bit_length(), rounds_error(times, batch, size) + 1.01 * UNIT * (times + 8.0) * n


def draw_distance(size: float, norm: float, moment: float, accuracy: float, ratio: float) -> float:
    """Bound, in total variation, of one draw on a grid from what exact variates and real numbers would give.

    `ratio` is the scale over the grid.

    Examples
    --------
    >>> f"{draw_distance(10.0, 2.0, 10.0, 1e-14, 8.0):.1e}"
    '8.4e-13'
    """
    length = size ** (1.0 - 1.0 / norm) * math.sqrt(moment) + size * accuracy  # mean of |z|_1
    return float(ratio * size * accuracy + 4.0 * UNIT * 1.01 * (ratio * length + 2.0 * size))
