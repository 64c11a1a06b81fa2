"""How long private Gibbs players walk to a point, and how far off it may be: functions of public numbers alone.

Proofs: docs/proofs/proximal_sampler.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games.pomer_bounds import SHARE, Setting
from dpconvex.kernel.budget import Budget
from dpconvex.noise.proximal import computed_error, least_share, longest_step, rounds_needed
from dpconvex.problem.domains import Box, L2Ball
from dpconvex.rounding import round_up

__all__ = ["Walk", "plan_rounding", "plan_walk"]

MOST_ROUNDS = 10**5  # of a walk to one point
_RATIO = 1.5  # of the largest curvature of all losses to the curvature of a step: costs two tries in three at worst
_MORE = 0.1  # by how much rounding off adds to the bound on regret
_CLOSE = 0.01  # largest closeness of one point, for which the errors are added up


class Walk(NamedTuple):
    """How points are drawn from sums with `Smooth` losses by a walk: public numbers.

    Parameters
    ----------
    domain : L2Ball or Box
    dimension : int
    smoothness : float
        Largest curvature of one loss.
    distance : float
        Between a point and its law, in total variation and in exact arithmetic.

    Examples
    --------
    >>> walk = Walk(L2Ball(1.0), 5, 40.0, 1e-13)
    >>> walk.length(10, 250.0, 0.4)[1] < walk.length(1000, 250.0, 0.4)[1] < 10_000
    True
    """

    domain: L2Ball | Box
    dimension: int
    smoothness: float
    distance: float

    def length(self, losses: int, lam: float, beta: float) -> tuple[float, int]:
        """Variance of a step and number of rounds after so many losses."""
        step = min(longest_step(self.domain, self.dimension), _RATIO / (beta * self.smoothness * max(losses, 1)))
        radius = float(self.domain.diameter(self.dimension)) / 2.0
        return step, rounds_needed(radius, beta * lam, step, self.distance)


def plan_rounding(rounding: float | str, setting: Setting, horizon: int, lipschitz: float, radius: float) -> float:
    """Half of the width over which kinks are rounded off: by default, to add a tenth to the bound on regret at most.

    Examples
    --------
    >>> from dpconvex.games.pomer_bounds import blocked_setting
    >>> setting = blocked_setting(2000, 5, 1.0, L2Ball(1.0), Budget(4.0, 1e-6))
    >>> round(plan_rounding("auto", setting, 2000, 1.0, 1.0), 3)
    0.026
    """
    if rounding == "auto":
        return min(radius, 2.0 * _MORE * setting.regret / (horizon * lipschitz))
    number = not isinstance(rounding, bool) and isinstance(rounding, int | float | np.integer | np.floating)
    if not number or not 0.0 < float(rounding) < math.inf:
        raise InputError('rounding must be "auto", or positive and finite: a distance in the domain')
    return float(rounding)


def plan_walk(
    domain: L2Ball | Box, dimension: int, horizon: int, lipschitz: float, setting: Setting, smoothness: float,
    draws: int, budget: Budget,
) -> tuple[Walk, float, float]:  # fmt: skip
    """How far every point is walked to, its error in total variation and its closeness: from public numbers alone.

    Parameters
    ----------
    domain : L2Ball or Box
    dimension, horizon : int
    lipschitz : float
    setting : Setting
    smoothness : float
        Largest curvature of one loss.
    draws : int
        Points of the whole game.
    budget : Budget
        What walks are off in exact arithmetic takes a thousandth of its delta, all of them together.

    Examples
    --------
    >>> from dpconvex.games.pomer_bounds import blocked_setting
    >>> ball, budget = L2Ball(1.0), Budget(4.0, 1e-6)
    >>> setting = blocked_setting(2000, 5, 1.0, ball, budget)
    >>> walk, error, closeness = plan_walk(ball, 5, 2000, 1.0, setting, 38.0, setting.switches_allowed, budget)
    >>> walk.length(2000, setting.lam, setting.beta)[1], error < 1e-12, closeness < 1e-5
    (6887, True, True)
    """
    log = math.log(draws) + float(np.logaddexp(0.0, min(budget.epsilon, 500.0))) - math.log(SHARE * budget.delta)
    beta = setting.eta**2 * setting.lam / lipschitz**2
    walk = Walk(domain, dimension, smoothness, math.exp(-log) / 2.2)
    step, rounds = walk.length(horizon, setting.lam, beta)
    radius, reach = float(domain.diameter(dimension)) / 2.0, float(domain.reach(dimension))
    close = rounds * _round_closeness(dimension, radius, reach, beta, setting.lam, lipschitz * horizon, step)
    if rounds > MOST_ROUNDS or not close <= _CLOSE:
        raise InputError(
            f"the laws of {horizon} losses of curvature {smoothness:.3g} in dimension {dimension} cannot be walked to: "
            f"a point would take {rounds} rounds, and {MOST_ROUNDS} are the most, or float64 is too coarse for them. "
            "Take fewer rounds of the game, flatter losses (a larger rounding), or PrivateFTRL"
        )
    share = least_share(domain, _RATIO)
    lost = computed_error(dimension, radius, beta * setting.lam, step, rounds, share, close / rounds)
    return walk, round_up(2.2 * walk.distance + lost), round_up(close)


def _round_closeness(
    d: int, radius: float, reach: float, beta: float, lam: float, steep: float, step: float
) -> float:  # fmt: skip
    """Logarithm of the factor by which the computed density of one round may differ from the exact one."""
    wide = 2.0 * radius
    curved = beta * (lam + steep / radius) + 1.0 / step
    proposals = d * (64.0 * (d + 64.0) + 16.0 * math.sqrt(curved) * wide)
    coins = (d + 64.0) * (beta * steep * (wide + 4.0 * reach) + 64.0)
    shifts = wide * (reach + 10.0 * math.sqrt(d * step)) * curved
    return 2.0**-49 * (proposals + coins + shifts)
