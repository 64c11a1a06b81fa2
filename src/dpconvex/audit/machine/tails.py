"""Impossible outputs in the tail: noise of bounded support where delta is smaller than the tail that it cuts off.

A word of 64 bits gives no variate beyond 9.16 standard deviations. Outputs beyond that from the value of one data set
cannot come from it, however large epsilon is, and from a neighbour they can.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.special import ndtr

from dpconvex.algorithms.mean_direction import MeanDirection
from dpconvex.audit.machine.outcome import FLOAT, GRID, Outcome
from dpconvex.audit.machine.released import Released
from dpconvex.audit.machine.watched import Seen, watch_plan
from dpconvex.errors import NotPrivateWarning
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Release
from dpconvex.loops.rows import Dense
from dpconvex.noise.inversion import invert
from dpconvex.noise.source import Source
from dpconvex.plan.port import Repetition
from dpconvex.problem import losses
from dpconvex.problem.problem import Problem

BUDGETS = ((50.0, 1e-6), (1.0, 1e-30))
_LAST = 2**63 - 1  # tail word of the middle
_EVENTS = (0, 1, 2, 4, 10, 100, 10**4, 10**6, 10**9, 10**12, 10**15, 10**17)  # tail words in the events that are tried

Tail = Callable[[float], float]  # chance of a variate above that many standard deviations


def sum_of_two(epsilon: float, delta: float) -> Released:
    """One number, the sum over two records of 1 each or of one and -1."""
    plan = MeanDirection().plan(Problem(losses.Logistic()), n=2, d=1, budget=Budget(epsilon, delta))
    rows = Dense(np.ones((2, 1)), float(plan.problem.feature_bound.l2(1)), plan.problem.intercept)
    data = (rows, np.array([-1.0, -1.0])), (rows, np.array([-1.0, 1.0]))
    return Released(f"a sum at ({epsilon:g}, {delta:g})", plan.claim, partial(watch_plan, plan, data))


def longest() -> float:
    """Return the largest variate of the float64 sampler.

    Examples
    --------
    >>> round(longest(), 3)
    9.155
    """
    return variate(0)


def variate(tail: int) -> float:
    """Positive variate of a tail word of the float64 sampler."""
    out = np.empty(1)
    invert(np.array([2 * tail + 1], dtype=np.uint64), out)
    return float(out[0])


def float_tail(z: float) -> float:
    """Return the chance of a float64 variate above z, exactly: a count of words.

    Examples
    --------
    >>> float_tail(9.2), bool(abs(float_tail(3.0) / ndtr(-3.0) - 1.0) < 1e-12)
    (0.0, True)
    """
    if z >= longest():
        return 0.0
    if z < 0.0:
        return 1.0 - float_tail(-z)
    low, high = 0, _LAST  # of these the first is above z, and the last is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if variate(middle) > z else (low, middle)
    return (low + 1) * 2.0**-64


def real_tail(z: float) -> float:
    """Return the chance of a real normal variate above z."""
    return float(ndtr(-z))


def attained(epsilon: float, apart: float, tail: Tail) -> float:
    """Return the largest delta at that epsilon among events "above z", for values so many standard deviations apart.

    Examples
    --------
    >>> from dpconvex.kernel.profiles import gaussian_delta
    >>> bool(abs(attained(1.0, 0.5, real_tail) / gaussian_delta(1.0, 0.5) - 1.0) < 1e-9)
    True
    """
    best = epsilon / apart + apart / 2.0  # for real noise
    return max(tail(z - apart) - _times(epsilon, tail(z)) for z in (best, *map(variate, _EVENTS)))


def _times(epsilon: float, probability: float) -> float:
    return math.exp(epsilon + math.log(probability)) if probability > 0.0 else 0.0


def beyond(released: Released, exact: bool, runs: int, seed: int = 0) -> int:
    """Outputs, of that many runs on one data set, that are impossible on the other one."""
    with warnings.catch_warnings():  # nothing private is released: the data is made up
        warnings.simplefilter("ignore", NotPrivateWarning)
        source = Source(seed)
    count = 0
    for run in range(runs):
        (seen,) = released.watch(1, Repetition(source, run), exact)
        assert isinstance(seen, Seen)
        count += _is_impossible(seen.release, exact, float(seen.released[0]), float(seen.values[0][0]))
    return count


def _is_impossible(release: Release, exact: bool, y: float, value: float) -> bool:
    """Whether no word, or no real number on a grid, leads from the value to y."""
    if exact and release.grid is not None:
        return not (y / release.grid).is_integer()
    return abs(y - value) > longest() * release.scale * (1.0 + 1e-12)


def attack(runs: int, seed: int = 0) -> Iterator[Outcome]:
    """Attack a sum at budgets whose epsilon is large, or whose delta is small."""
    for epsilon, delta in BUDGETS:
        released = sum_of_two(epsilon, delta)
        (release,) = released.claim.releases
        apart = 2.0 / release.scale
        for arithmetic in (FLOAT, GRID):
            exact = arithmetic == GRID
            hits = beyond(released, exact, runs, seed)
            least = attained(epsilon, apart, real_tail if exact and release.grid is not None else float_tail)
            yield Outcome(
                "tails",
                released.name,
                arithmetic,
                f"delta {least:.3g} exactly, {hits} of {runs} impossible on the neighbour",
                f"delta {delta:g}, none impossible",
                hits > 0 or least > delta,
            )
