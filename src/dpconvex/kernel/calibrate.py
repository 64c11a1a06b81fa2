"""Search on monotone predicates, rounded to the safe side: the same inputs give the same plan on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable


def threshold(holds: Callable[[float], bool], lo: float, hi: float) -> tuple[float, float]:
    """Neighbouring floats a < b around the point of (lo, hi) where a monotone predicate turns from False to True.

    `lo` is taken to be False and `hi` True, without asking.
    """
    while True:
        mid = math.sqrt(lo * hi) if lo > 0.0 and lo * 4.0 < hi else 0.5 * (lo + hi)
        if not lo < mid < hi:
            return lo, hi
        if holds(mid):
            hi = mid
        else:
            lo = mid
