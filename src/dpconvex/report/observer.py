"""Bounds on what an observer of a release can learn, from its privacy profile.

P and Q are the laws of a release under the two answers to a yes/no question, with likelihood ratio e^L. The profile
bounds sup_S P(S) - e^t Q(S), and the same with P and Q exchanged, by delta(t). Each bound below holds for every t: a
poor choice of t makes it looser, never false.

The question may be about many data sets: if they share all records except those of one person, P and Q are mixtures of
laws of neighbours, and the divergence is convex in the pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from scipy.optimize import minimize_scalar

from dpconvex.errors import InputError
from dpconvex.kernel.profiles import Profile

_SLACK = 1.0 + 1e-9  # covers the rounding here; the profile is rounded up itself


@dataclass(frozen=True)
class Observer:
    """Bounds on what an observer can learn from a release of this profile.

    Parameters
    ----------
    profile : Profile
    delta : float
        Where the search for a good t starts: the delta of the budget.

    Examples
    --------
    >>> from dpconvex.kernel.profiles import GDP
    >>> observer = Observer(GDP(0.2367), 1e-6)
    >>> round(observer.coin, 3), round(observer.detection(0.05), 3), round(observer.shift(2e-6), 2)
    (0.547, 0.08, 1.18)
    """

    profile: Profile
    delta: float

    @cached_property
    def epsilon(self) -> float:
        """Epsilon at that delta."""
        return self.profile.epsilon(self.delta)

    @property
    def coin(self) -> float:
        """Largest chance of guessing which of two neighbours a fair coin chose: (1 + total variation) / 2."""
        return min(0.5 * (1.0 + self.profile.delta(0.0)), 1.0)

    def detection(self, false_alarms: float) -> float:
        """Largest power of a test against one neighbour at that rate of false alarms on the other.

        P(S) <= e^t Q(S) + delta(t), and Q(not S) <= e^t P(not S) + delta(t).
        """
        if not 0.0 <= false_alarms <= 1.0:
            raise InputError("false_alarms must lie between 0 and 1")

        def most(t: float, delta: float) -> float:
            return min(math.exp(t) * false_alarms + delta, 1.0 - math.exp(-t) * (1.0 - delta - false_alarms))

        return min(self._least(most, 0.0, min(self.epsilon, 30.0)) * _SLACK, 1.0)

    def shift(self, chance: float) -> float:
        """Change of the log-odds, up or down, that is exceeded with at most that chance, whatever the answer is.

        Where L > s, p - e^t q >= p (1 - e^{t-s}) for t < s, so that P(L > s) <= delta(t) / (1 - e^{t-s}); and
        P(L < -s) <= e^{-s} Q(L < -s), which is bounded alike. The sum of both is `chance` at the s below.
        """
        if not self.delta < chance:
            raise InputError("chance must be above the delta of the budget")

        def smallest(t: float, delta: float) -> float:
            return t + math.log((delta * math.exp(-t) + chance) / (chance - delta))

        return self._least(smallest, self.epsilon, 2.0 * self.epsilon or 1.0) * _SLACK

    def excess(self, shift: float) -> float:
        """Largest chance, whatever the answer is, that the log-odds change by more than that; see `shift`."""
        if not self.epsilon < shift:
            raise InputError("shift must be above the epsilon of the budget")

        def most(t: float, delta: float) -> float:
            return (1.0 + math.exp(-shift)) * delta / -math.expm1(t - shift)

        return min(self._least(most, self.epsilon, 0.01 * self.epsilon + 0.99 * shift) * _SLACK, 1.0)

    def _least(self, bound: Callable[[float, float], float], low: float, high: float) -> float:
        """Smallest bound(t, delta(t)) found by a short search from low to high."""

        def at(t: float) -> float:
            return bound(t, self.profile.delta(t))

        found = minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 0.01 * (high - low)})
        return min(at(low), at(high), float(found.fun))


def belief(prior: float, shift: float) -> tuple[float, float]:
    """Smallest and largest probability after the log-odds of `prior` change by at most `shift`.

    Examples
    --------
    >>> [round(p, 3) for p in belief(0.1, 1.0)]
    [0.039, 0.232]
    """
    odds = math.log(prior) - math.log1p(-prior)
    return _probability(odds - shift), _probability(odds + shift)


def _probability(log_odds: float) -> float:
    small = math.exp(-abs(log_odds))
    return (1.0 if log_odds > 0.0 else small) / (1.0 + small)
