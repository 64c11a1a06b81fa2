"""Rounding to a fixed number of significant digits, on the safe side: the same plan on every machine.

The noise of a plan is calibrated among such numbers.
"""

from __future__ import annotations

import math

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
