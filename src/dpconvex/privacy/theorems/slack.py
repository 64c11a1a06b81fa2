"""Room for rounding in what a theorem computes."""

from __future__ import annotations

from dpconvex.rounding import round_up

ULP = 2.3e-16  # a little above the unit in the last place of 1


def up(x: float) -> float:
    """Round up a number computed to a few units in the last place."""
    return round_up(x * (1.0 + 4 * ULP))
