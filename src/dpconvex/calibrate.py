"""Searches, rounded to the safe side: the same inputs give the same plan on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.rounding import round_up
from dpconvex.work import spend

if TYPE_CHECKING:
    from dpconvex.kernel.budget import Budget
    from dpconvex.kernel.claims import Claim
    from dpconvex.kernel.profiles import Profile


def threshold(holds: Callable[[float], bool], lo: float, hi: float) -> tuple[float, float]:
    """Neighbouring floats a < b around the point of (lo, hi) where a monotone predicate turns from False to True.

    It is assumed, and not checked, that the predicate is False at `lo` and True at `hi`.
    """
    while True:
        spend()
        mid = math.sqrt(lo * hi) if lo > 0.0 and lo * 4.0 < hi else 0.5 * (lo + hi)
        if not lo < mid < hi:
            return lo, hi
        if holds(mid):
            hi = mid
        else:
            lo = mid


def noise_factor(unit: Claim, budget: Budget, slack: float = 1e-11) -> float:
    """Factor by which all noise of a GDP claim is multiplied to meet the budget; mu is inversely proportional to it."""
    return float(unit.profile.mu / budget.mu * (1.0 + slack))  # type: ignore[union-attr]


def meet(build: Callable[[list[float]], Claim], scales: list[float], budget: Budget) -> tuple[list[float], Claim]:
    """Multiply scales of noise until their GDP claim meets the budget: once, or more where grids become coarser too.

    Returns them and their claim.
    """
    factor = noise_factor(build(scales), budget)
    while True:
        scales = [round_up(factor * scale) for scale in scales]
        factor = noise_factor(claim := build(scales), budget)
        if factor <= 1.0 + 1e-11:
            return scales, claim


def gaussian_scale(sensitivity: float, mu: float) -> float:
    """Smallest scale, rounded up, at which a Gaussian release of the given sensitivity is mu-GDP.

    Examples
    --------
    >>> gaussian_scale(1.0, 0.25)
    4.00000000004
    """
    return round_up(sensitivity / mu * (1.0 + 1e-11))


def calibrate_sigma(
    epsilon: float, delta: float, build: Callable[..., Profile | Claim], start: float = 1.0, tolerance: float = 1e-5
) -> float:
    """A noise scale of 12 digits at which `build(sigma=scale)` satisfies (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
    build : callable
        Returns the profile or claim for `sigma`.
    start : float
        First guess.
    tolerance : float
        Relative distance, at most, to a smaller scale that does not satisfy (epsilon, delta).

    Returns
    -------
    sigma : float
        A scale at which delta(epsilon) <= delta and epsilon(delta) <= epsilon were found to hold. This does not rely on
        monotonicity.

    Raises
    ------
    HypothesisError
        If no amount of noise is enough by the bound that `build` computes.
    """
    level = np.log(delta)

    def excess(log_scale: float) -> float:
        spend()
        return float(np.log(build(sigma=round_up(float(np.exp(log_scale)))).delta(epsilon)) - level)

    good = bad = float(np.log(start))
    above = below = excess(good)
    step = 0.02
    while above > 0.0:
        bad, below, good = good, above, good + step
        above, step = excess(good), min(2 * step, 2.0)
        if good > np.log(start) + 30.0:
            raise HypothesisError(f"no amount of noise gives delta = {delta:g} at epsilon = {epsilon:g} by this bound")
    while below <= 0.0 and bad > np.log(start) - 30.0:
        good, above, bad = bad, below, bad - step
        below, step = excess(bad), min(2 * step, 2.0)
    halve = False
    while good - bad > tolerance:  # false position on logarithms, every other step a bisection
        share = 0.5 if halve or below > 300.0 else below / (below - above)
        trial = bad + (good - bad) * min(max(share, 0.02), 0.98)
        value = excess(trial)
        good, above, bad, below = (trial, value, bad, below) if value <= 0.0 else (good, above, trial, value)
        halve = not halve
    scale, more = round_up(float(np.exp(good))), tolerance / 10
    while (made := build(sigma=scale)).delta(epsilon) > delta or made.epsilon(delta) > epsilon:
        scale, more = round_up(scale * (1 + more)), 10 * more  # a bound that is level or rises with epsilon takes many
    return scale
