"""Points from Gibbs laws of sums of losses, drawn at fixed times or kept by coin tosses."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_fact,
    need_positive,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.numerics.switching import Switching, switching_profile

GIBBS = "gibbs"  # law of a release that is itself a random point; its scale is sqrt(lam / beta)
REFERENCE = "coin, of two points released before"
EXACT = "coin, of two densities"
ONE_SAMPLE = "coin, of a point and a draw that is kept secret"
COIN_LAWS = {"reference": REFERENCE, "exact": EXACT, "one_sample": ONE_SAMPLE}
WIDEST = 8.0  # largest |logarithm| in the keep-probability of a coin: beyond this, 53 bits are too few


@concludes_claim
def gibbs_draws(
    lipschitz: Fact,
    relation: str,
    points: Release,
    horizon: int,
    block: int,
    error: float = 0.0,
    closeness: float = 0.0,
) -> Guarantee:
    """Points drawn after every `block` rounds from the Gibbs law of the losses so far: sqrt(times) times the mu of one.

    The density of a point is proportional to exp(-beta (L + lam |x - c|^2 / 2)) on a convex set. L is the sum of the
    earlier losses, which are convex and `lipschitz`, and the scale of `points` is sqrt(lam / beta). Losses may depend
    on earlier points. The law of a draw may differ by `error` in total variation from one whose density is that of its
    law up to a factor of e^closeness. For one draw this is [1]_; proof: docs/proofs/gibbs_switching.md.

    References
    ----------
    .. [1] Gopi, Lee, Liu (2022), "Private convex optimization via exponential mechanism".
    """
    eta = _closeness(lipschitz, relation, points)
    if points.times != _need_ends(horizon, block):
        raise HypothesisError("points must be drawn once at the end of every block but the last")
    mu = up(MOVES[relation] * eta * math.sqrt(points.times))
    if _need_share(error, "error") == _need_share(closeness, "closeness") == 0.0:
        return Guarantee(GDP(mu), relation, Scope.EVERY)
    lost, close = (
        min(1.0, up(points.times * error)),
        _need_share(up(points.times * closeness), "closeness of all draws"),
    )
    return Guarantee(Switching(0.5, 0.5, mu, 0.0, 0, lost, close), relation, Scope.EVERY)  # a coin that reveals nothing


@concludes_claim
def gibbs_switching(
    lipschitz: Fact,
    relation: str,
    points: Release,
    coins: Release,
    most: float,
    horizon: int,
    block: int,
    slack: float = 0.0,
    error: float = 0.0,
    closeness: float = 0.0,
) -> Guarantee:
    """Points from Gibbs laws, each kept from block to block by a coin toss, with at most `points.times` moves.

    Laws are as in `gibbs_draws`. After every `block` rounds a coin keeps the point with probability most e^(u - w),
    where w is the scale of `coins` and u is clipped to [-w, w]. The law of `coins` says what u is:

    - `REFERENCE`: u depends on the losses of the block and on points released before.
    - `EXACT`: u is the logarithm of the ratio of the new density to the old one at the point, within `slack`.
    - `ONE_SAMPLE`: u is beta times the difference between the block's loss at a fresh draw from the new law and at the
      point, within `slack`. The draw is used for this coin only and never released.

    If the coin does not keep the point and there are moves left, a new point is drawn. Laws of draws may differ by
    `closeness` and `error`, as in `gibbs_draws`. The algorithm follows [1]_, whose constants do not follow from the
    proof given there.

    References
    ----------
    .. [1] Agarwal, Kale, Singh, Thakurta (2024), "Improved differentially private and lazy online convex optimization:
       lower regret without smoothness requirements".
    """
    eta = _closeness(lipschitz, relation, points)
    if not isinstance(coins, Release) or coins.law not in COIN_LAWS.values():
        raise HypothesisError(f"coins must be a Release of law {', '.join(map(repr, COIN_LAWS.values()))}")
    if coins.times < points.times:
        raise HypothesisError("a coin is followed by at most one point: coins must be at least as many as points")
    if coins.times != _need_ends(horizon, block):
        raise HypothesisError("coins must be tossed once at the end of every block but the last")
    width = need_positive(coins.scale, "the scale of coins")
    if not need_positive(most, "most") < 1.0 or width > WIDEST:
        raise HypothesisError(f"most must lie below 1, and the scale of coins be at most {WIDEST:g}")
    slack, error = _need_share(slack, "slack"), _need_share(error, "error")
    hidden = coins.times if coins.law == ONE_SAMPLE else 0
    _need_share((points.times + hidden) * _need_share(closeness, "closeness") * 1.01, "closeness of all draws")
    profile = switching_profile(
        eta, MOVES[relation], points.times, coins.times, block, most, width,
        None if coins.law == REFERENCE else slack, error, hidden, closeness,
    )  # fmt: skip
    return Guarantee(profile, relation, Scope.EVERY)


def _need_share(value: float, name: str) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0.0 <= value <= 1.0):
        raise HypothesisError(f"{name} must be a number between 0 and 1")
    return float(value)


def _need_ends(horizon: int, block: int) -> int:
    """Number of blocks of a game that end before its last round."""
    for name, value in (("horizon", horizon), ("block", block)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise HypothesisError(f"{name} must be a whole number of rounds, at least 1")
    return math.ceil(horizon / block) - 1


def _closeness(lipschitz: Fact, relation: str, points: Release) -> float:
    """Bound on how far one loss moves the law, in standard deviations."""
    check_relation(relation)
    if not isinstance(points, Release) or points.law != GIBBS:
        raise HypothesisError(f"points must be a Release of law {GIBBS!r}")
    if points.scale == 0.0:
        raise HypothesisError("points: the scale must be positive, because 0 means no noise")
    return need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz") / points.scale
