"""The best of a secret, random number of repetitions of one mechanism: laws of that number, and the privacy curve.

With phi the generating function of the number K, the best of K runs has density phi'(F) times that of one run, F being
the probability that one run scores no higher. Everything the curve needs of the law is phi'. Proof:
docs/proofs/private_selection.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpconvex.calibrate import threshold
from dpconvex.errors import InputError
from dpconvex.kernel.curves import Array, Curve, Loss, discretised, symmetric
from dpconvex.kernel.profiles import GDP, ApproxDP, Numeric, Profile
from dpconvex.rounding import round_down, round_up

MOST = 1000.0  # largest mean number of repetitions
_LEAST = 1.01
_UP = 1.0 + 1e-9  # more than what phi' and the sums below lose to rounding
_FALL = 0.002  # phi' falls by about this part of itself, or less, over a cell of levels, near its top
_CELLS = 64.0  # and there are at least that many cells
_DEPTH = 30.0  # down to e^-30 of its largest value; further down cells are coarse
_TINY = 1e-300


def _poisson(rate: float) -> Callable[[Array], Array]:
    return lambda missed: rate / -math.expm1(-rate) * np.exp(-rate * missed)


def _geometric(stop: float) -> Callable[[Array], Array]:
    return lambda missed: stop / (stop + (1.0 - stop) * missed) ** 2


def _logarithmic(stop: float) -> Callable[[Array], Array]:
    return lambda missed: (1.0 - stop) / (-math.log(stop) * (stop + (1.0 - stop) * missed))


# phi' of each law, as a function of 1 - F, which floats hold more finely than F; all three have K >= 1.
SLOPES = {"poisson": _poisson, "geometric": _geometric, "logarithmic": _logarithmic}


def mean_count(law: str, parameter: float) -> float:
    """Mean number of repetitions, phi'(1).

    Examples
    --------
    >>> round(mean_count("geometric", 0.1), 9)
    10.0
    """
    return float(SLOPES[law](parameter)(np.zeros(1))[0])


def count_parameter(law: str, mean: float) -> float:
    """Parameter at which the mean number of repetitions is `mean`, or a hair less.

    poisson: the rate of a Poisson law given that it is at least 1; geometric and logarithmic: the probability gamma in
    (1 - gamma)^k.

    Examples
    --------
    >>> count_parameter("geometric", 10.0), round(count_parameter("poisson", 10.0), 3)
    (0.1, 10.0)
    """
    if law not in SLOPES:
        raise InputError(f"the law of the number of repetitions must be one of {', '.join(SLOPES)}, got {law!r}")
    if isinstance(mean, bool) or not isinstance(mean, int | float) or not _LEAST <= mean <= MOST:
        raise InputError(f"the mean number of repetitions must lie between {_LEAST:g} and {MOST:g}")
    if law == "geometric":
        return round_up(1.0 / mean)
    if law == "poisson":
        return round_down(threshold(lambda rate: mean_count(law, rate) > mean, 1e-3, 2.0 * MOST)[0])
    return round_up(threshold(lambda stop: mean_count(law, stop) <= mean, 1e-7, 1.0 - 1e-7)[1])


@dataclass(frozen=True)
class BestOf(Numeric):
    """The best of K runs of a mechanism, K drawn from a law with that parameter, and nothing of the others.

    Examples
    --------
    >>> best = BestOf(GDP(0.1), "poisson", count_parameter("poisson", 10.0))
    >>> round(GDP(0.1).epsilon(1e-6), 2), round(best.epsilon(1e-6), 2)
    (0.4, 0.76)
    """

    part: Profile
    law: str
    parameter: float

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        loss, ladder = _base(self.part), _ladder(self)
        lost = loss.lost * float(ladder.high[0])

        def best(eps: Array) -> Array:
            return np.minimum(np.array([_best(ladder, e) + lost for e in eps]) * _UP, 1.0)

        return symmetric(best)


class _Ladder(NamedTuple):
    """What the curve needs beside epsilon: losses of one run, from the largest down, and levels they may stand at.

    A level is the probability, under P, that a run scores higher. Levels lie in cells: `high` is the largest phi' of a
    cell under P, at its start, and `low` at most the smallest under Q, at its end, since both fall. A loss with mass t
    above it stands at a level of t or more, in cell `first` or later.
    """

    ratios: Array  # e^-loss
    masses: Array
    first: NDArray[np.intp]
    high: Array
    low: Array


def _best(ladder: _Ladder, eps: float) -> float:
    """Sum over losses of mass times the largest of high - e^(eps - loss) low over the levels it may stand at."""
    scale = math.exp(min(eps, 700.0))
    live = ladder.ratios * scale * ladder.low.min() < ladder.high[0]
    total = 0.0
    for ratio, mass, first in zip(ladder.ratios[live], ladder.masses[live], ladder.first[live], strict=True):
        gain = ladder.high[first:] - ratio * scale * ladder.low[first:]
        total += float(mass) * max(float(gain.max()), 0.0)
    return total


@functools.lru_cache(maxsize=64)
def _base(part: Profile) -> Loss:
    if isinstance(part, GDP | ApproxDP):
        return discretised(np.vectorize(part.delta, otypes=[float]), 512)
    return discretised(part.curve(), 128)


@functools.lru_cache(maxsize=64)
def _ladder(profile: BestOf) -> _Ladder:
    loss, slope = _base(profile.part), SLOPES[profile.law](profile.parameter)
    losses = float(np.ldexp(1.0, loss.level)) * (loss.bottom + np.arange(len(loss.mass)))
    ratios, masses = np.exp(-losses[::-1]), loss.mass[::-1]
    above = np.concatenate(([0.0], np.cumsum(masses))) + loss.lost  # mass of the larger losses, under P
    reached = np.concatenate(([0.0], np.cumsum(masses * ratios)))  # and under Q, at least

    def least(mass: Array) -> Array:
        """Smallest mass under Q of an event that has that mass under P: convex, with the ratios as its slopes."""
        return np.asarray(np.interp(mass, above, reached) * (1.0 - 1e-12))

    top, bottom = (float(value) for value in slope(np.array([0.0, 1.0])))
    depth = min(math.log(top / max(bottom, _TINY)), _DEPTH)
    fall = min(_FALL, depth / _CELLS)
    missed = _inverse(slope, top * np.exp(-np.append(np.arange(0.0, depth, fall), np.arange(depth, 700.0, 0.5))))
    a = np.unique(np.clip(np.concatenate((missed, least(missed), above, [0.0, 1.0])), 0.0, 1.0))
    high, low = slope(a), slope(1.0 - least(1.0 - a)) * (1.0 - 1e-9)
    kept = _kept(np.log(top / np.maximum([high, low], _TINY)) / (0.5 * fall))
    high, low = high[kept], low[kept]
    first = np.clip(np.searchsorted(a[kept], above[:-1], side="right") - 1, 0, len(high) - 2)
    return _Ladder(ratios, masses, first, high[:-1], low[1:])


def _kept(falls: Array) -> NDArray[np.intp]:
    """First and last of some levels, and those at which one of several numbers has become another whole number."""
    new = (np.diff(np.floor(falls), axis=1) != 0.0).any(axis=0)
    return np.unique(np.concatenate(([0], np.flatnonzero(new) + 1, [falls.shape[1] - 1])))


def _inverse(slope: Callable[[Array], Array], values: Array) -> Array:
    """Levels at which phi' has about those values; where it never falls so low, 1."""
    low, high = np.zeros_like(values), np.ones_like(values)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = slope(middle) > values
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high
