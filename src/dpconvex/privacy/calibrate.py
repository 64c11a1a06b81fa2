"""Search on monotone predicates, rounded to the safe side: the same inputs give the same plan on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


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


def telescope(sensitivities: Sequence[float], contractions: Sequence[float]) -> list[float]:
    """Least noise, for mu = 1, of a chain of steps of which only the last point is released.

    Step i moves by at most s_i when its records change, contracts by c_i, then noise is added. What protects step j
    is all noise from j on, seen through the later contractions: with Gamma_j the product of c_i over i > j, the tail
    sum of (Gamma_i nu_i)^2 over i >= j must reach max_{i >= j} (Gamma_i s_i)^2.

    Examples
    --------
    >>> [round(v, 4) for v in telescope([2.0, 1.0], [1.0, 1.0])]
    [1.7321, 1.0]
    """
    noise = [0.0] * len(sensitivities)
    gamma, needed = 1.0, 0.0
    for j in reversed(range(len(sensitivities))):
        target = max(needed, (gamma * sensitivities[j]) ** 2)
        noise[j] = math.sqrt(target - needed) / gamma if target > needed else 0.0
        gamma, needed = gamma * contractions[j], target
    return noise
