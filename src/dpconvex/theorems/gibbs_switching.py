"""Points from Gibbs laws of sums of losses: drawn by the clock, or kept by coins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Public,
    Release,
    Scope,
    agree,
    checks,
    concludes_claim,
    need_fact,
    need_positive,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up
from dpconvex.theorems.numerics.switching import Switching, switching_profile

GIBBS = "gibbs"  # law of a release whose noise is in the choice of a point; its scale is sqrt(lam / beta)
REFERENCE = "coin, of two points released before"
EXACT = "coin, of two densities"
ONE_SAMPLE = "coin, of a point and a draw that is kept secret"
COIN_LAWS = {"reference": REFERENCE, "exact": EXACT, "one_sample": ONE_SAMPLE}
WIDEST = 8.0  # logarithm of the keep-probabilities of a coin, either way: beyond, 53 bits no longer tell


@concludes_claim
def gibbs_draws(
    lipschitz: Fact, relation: str, points: Release, horizon: int, block: int, error: float = 0.0
) -> Guarantee:  # fmt: skip
    """Points drawn afresh after every `block` rounds from the Gibbs law of the losses so far: sqrt(times) draws' mu.

    Each has a density in proportion to exp(-beta (L + lam |x - c|^2 / 2)) on a convex set, L being the sum of the
    convex losses before it, each `lipschitz`; the scale of `points` is sqrt(lam / beta). Losses may depend on earlier
    points. The law of a draw may be off by `error` in total variation. (Gopi, Lee, Liu 2022 for one draw; proof here.)
    """
    eta = _closeness(lipschitz, relation, points)
    if points.times != _need_ends(horizon, block):
        raise HypothesisError("points must be drawn once at the end of every block but the last")
    mu = up(MOVES[relation] * eta * math.sqrt(points.times))
    if _need_share(error, "error") == 0.0:
        return Guarantee(GDP(mu), relation, Scope.EVERY)
    lost = min(1.0, up(points.times * error))
    return Guarantee(Switching(0.5, 0.5, mu, 0.0, 0, lost), relation, Scope.EVERY)  # a coin that tells nothing


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
) -> Guarantee:
    """Points from Gibbs laws, each kept from block to block by a coin, and at most `points.times` moves.

    Laws as in `gibbs_draws`. After every `block` rounds a coin keeps the point with probability most e^(u - w), where
    w is the scale of `coins` and u is brought within [-w, w]. Law `REFERENCE`: u depends on the losses of the block
    and on points released before. Law `EXACT`: u is the logarithm of the new density over the old one at the point.
    Law `ONE_SAMPLE`: u is beta times the block's loss at a fresh draw from the new law, used for this coin alone and
    never released, less that at the point. In both cases u is computed to within `slack`. If there are moves left and
    the coin does not keep, a new point is drawn. The law of a draw is off by at most `error` in total variation. (After
    Agarwal, Kale, Singh, Thakurta 2024, whose constants do not follow from their proof.)
    """
    eta = _closeness(lipschitz, relation, points)
    if not isinstance(coins, Release) or coins.law not in COIN_LAWS.values():
        raise HypothesisError(f"coins must be a Release of law {', '.join(map(repr, COIN_LAWS.values()))}")
    if coins.times < points.times:
        raise HypothesisError("a coin can only be followed by one point: coins must be as many as points, or more")
    if coins.times != _need_ends(horizon, block):
        raise HypothesisError("coins must be thrown once at the end of every block but the last")
    width = need_positive(coins.scale, "the scale of coins")
    if not need_positive(most, "most") < 1.0 or width > WIDEST:
        raise HypothesisError(f"most must lie below 1, and the scale of coins be at most {WIDEST:g}")
    slack, error = _need_share(slack, "slack"), _need_share(error, "error")
    profile = switching_profile(
        eta, MOVES[relation], points.times, coins.times, block, most, width,
        None if coins.law == REFERENCE else slack, error, coins.times if coins.law == ONE_SAMPLE else 0,
    )  # fmt: skip
    return Guarantee(profile, relation, Scope.EVERY)


def _need_share(value: float, name: str) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0.0 <= value <= 1.0):
        raise HypothesisError(f"{name} must be a number between 0 and 1")
    return float(value)


def _need_ends(horizon: int, block: int) -> int:
    """How many blocks of a game end before its last round."""
    for name, value in (("horizon", horizon), ("block", block)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise HypothesisError(f"{name} must be a whole number of rounds, at least 1")
    return math.ceil(horizon / block) - 1


def _closeness(lipschitz: Fact, relation: str, points: Release) -> float:
    """By how many standard deviations one loss moves the law, at most."""
    check_relation(relation)
    if not isinstance(points, Release) or points.law != GIBBS:
        raise HypothesisError(f"points must be a Release of law {GIBBS!r}")
    if points.scale == 0.0:
        raise HypothesisError("points: a scale of 0 is no noise at all")
    return need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz") / points.scale


@checks("gibbs_draws", "gibbs_switching")
def _check(given: Mapping[str, Any], public: Public) -> None:
    """Let the claim of a game be about the rounds, blocks, coins and laws that its player says it has."""
    player = public.algorithm
    coin = player.get("coin", "")
    same = given["horizon"] == public.n and given["points"]["shape"] == [public.d]
    agree(same, "a game of other rounds or points")
    agree(given["block"] == player["block"], "algorithm.block")
    agree(given.get("coins", {}).get("law") == COIN_LAWS.get(coin), "algorithm.coin")
    agree((given.get("slack", 0.0) > 0.0) == (coin in ("exact", "one_sample")), "slack of the coins")
    agree((given["error"] > 0.0) == ("smoothness" in player), "error of the draws")
