"""Rounding to a fixed number of significant digits, on the safe side: the same plan on every machine.

The noise of a plan is calibrated among such numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpconvex.errors import HypothesisError

DIGITS = 12


def round_up(x: float, digits: int = DIGITS) -> float:
    """Smallest number of that many significant digits that is not below x.

    Examples
    --------
    >>> round_up(0.123456789012345, 6)
    0.123457
    """
    if x == 0.0:
        return 0.0
    rounded = float(f"{x:.{digits - 1}e}")
    if rounded >= x:
        return rounded
    return float(f"{x + 10.0 ** (math.floor(math.log10(abs(x))) - digits + 1):.{digits - 1}e}")


def round_down(x: float, digits: int = DIGITS) -> float:
    """Largest number of that many significant digits that is not above x."""
    return -round_up(-x, digits)


ULP = 2.3e-16  # a little above the unit in the last place of 1


def up(x: float) -> float:
    """Round up a number computed to a few units in the last place."""
    return round_up(x * (1.0 + 4 * ULP))


class Guaranteed(Protocol):
    """A profile or a claim."""

    def delta(self, epsilon: float) -> float:
        """Smallest delta at that epsilon."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at that delta."""


def calibrate_sigma(
    epsilon: float, delta: float, build: Callable[..., Guaranteed], start: float = 1.0, tolerance: float = 1e-5
) -> float:
    """A noise scale of 12 digits at which `build(sigma=scale)` keeps (epsilon, delta).

    It is within `tolerance`, relatively, of a scale that does not. `start` is a guess. No monotonicity is relied on:
    the scale returned was itself found to have delta(epsilon) <= delta and epsilon(delta) <= epsilon.
    """
    level = np.log(delta)

    def excess(log_scale: float) -> float:
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
    scale = round_up(float(np.exp(good)))
    while build(sigma=scale).epsilon(delta) > epsilon:
        scale = round_up(scale * (1 + tolerance / 10))
    return scale
