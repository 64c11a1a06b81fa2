"""The privacy curve of points that are drawn from Gibbs laws and kept by coins. Proof: docs/proofs/gibbs_switching.md.

The coin of the round that changed keeps its point with a probability between `least` and `most`. All points drawn
later are together as hard to tell apart as N(0, 1) and N(mu, 1). The other coins may differ a little as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.kernel.curves import Array, Curve, gaussian_curve, symmetric
from dpconvex.kernel.profiles import Numeric
from dpconvex.rounding import round_down, round_up

_UP = 1.0 + 1e-14  # more than products of a few numbers lose to rounding
_COIN = 1e-14  # a coin is drawn from 53 bits
_ORDERS = 1.0 + np.concatenate([np.logspace(-2.0, 0.0, 30), np.logspace(0.0, 5.0, 300)[1:]])


@dataclass(frozen=True)
class Switching(Numeric):
    """One coin that is known up to a range, Gaussian draws, and many coins whose probabilities are nearly equal.

    Parameters
    ----------
    least, most : float
        0 < least <= most < 1: keep-probabilities of the coin whose round changed.
    mu : float
        Of all draws together.
    ratio : float
        Each of `coins` other coins keeps with probabilities, at most `most`, whose logarithms differ by at most that.
    coins : int
    error : float
        Total variation between all draws and laws that are as close to the intended ones as `closeness` says.
    closeness : float
        The density of all draws together is that of the intended ones up to a factor of e^closeness at most.

    Examples
    --------
    >>> from dpconvex.kernel.profiles import GDP
    >>> round(GDP(0.2).epsilon(1e-6), 3), round(Switching(0.5, 0.6, 0.2, 0.0, 0, 0.0).epsilon(1e-6), 3)
    (0.834, 1.026)
    """

    least: float
    most: float
    mu: float
    ratio: float
    coins: int
    error: float
    closeness: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.least <= self.most < 1.0:
            raise InputError("keep-probabilities must lie strictly between 0 and 1, the least first")
        if not 0.0 <= self.mu <= 1e4:
            raise InputError("mu must lie between 0 and 10000; beyond that there is no privacy to speak of")
        if not 0.0 <= self.ratio < math.inf or self.coins < 0 or not 0.0 <= self.error <= 1.0:
            raise InputError("ratio and coins must be at least 0 and finite, and error lie between 0 and 1")
        if not 0.0 <= self.closeness <= 1.0:
            raise InputError("closeness must lie between 0 and 1")

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        forward = self._by_orders if self.coins and self.ratio else self._closed

        def total(eps: Array) -> Array:
            with np.errstate(over="ignore"):
                extra = (1.0 + np.exp(eps)) * self.error if self.error else 0.0
                moved = math.exp(self.closeness) * forward(eps - 2.0 * self.closeness)
                return np.asarray(np.minimum((moved + extra) * (1.0 + 1e-12), 1.0))

        return symmetric(total)

    def _closed(self, eps: Array) -> Array:
        """The coin and the draws exactly, the larger of the two orders."""
        return np.asarray(
            np.maximum(*(_mixed(eps, p, q, self.mu) for p, q in ((self.most, self.least), (self.least, self.most))))
        )

    def _by_orders(self, eps: Array) -> Array:
        """All of it by Renyi divergences, which add up, at many orders: every one of them is valid."""
        a = _ORDERS
        least = max(self.least, self.most * math.exp(-self.ratio - 1e-15))  # 1e-15 for the rounding of the product
        total = renyi_coin(self.most, self.least) + self.coins * renyi_coin(self.most, least) + a * self.mu**2 / 2.0
        log = (a - 1.0) * (total - eps[:, None] + np.log1p(-1.0 / a)) - np.log(a)
        return np.asarray(np.exp(np.minimum(log.min(axis=1) + 1e-9, 0.0)))


def _mixed(eps: Array, p: float, q: float, mu: float) -> Array:
    """Delta of a coin that keeps with probability p, against q, followed by draws that are mu-GDP."""
    return np.asarray(
        p * gaussian_curve(eps - math.log(p / q), mu)
        + (1.0 - p) * gaussian_curve(eps - math.log((1.0 - p) / (1.0 - q)), mu)
    )


def renyi_coin(p: float, q: float) -> Array:
    """Renyi divergences of two coins at the orders in use, the larger of the two directions, rounded up.

    Examples
    --------
    >>> bool((np.diff(renyi_coin(0.9, 0.8)) >= 0.0).all()), bool(renyi_coin(0.9, 0.9).max() < 1e-12)
    (True, True)
    """
    return np.maximum(_renyi(p, q), _renyi(q, p))


def _renyi(p: float, q: float) -> Array:
    """ln(q (p/q)^a + (1 - q) ((1 - p)/(1 - q))^a) / (a - 1), without cancellation where p and q are close."""
    a, keep, leave = _ORDERS, math.log1p((p - q) / q), math.log1p((q - p) / (1.0 - q))
    top = np.maximum(a * keep, a * leave)
    near = top < 30.0
    x, y = np.where(near, a * keep, 0.0), np.where(near, a * leave, 0.0)
    # q (e^x - 1 - x) + (1 - q) (e^y - 1 - y) + (q x + (1 - q) y), the last being -a KL(q, p)
    excess = q * _second(x) + (1.0 - q) * _second(y) - np.where(near, a, 0.0) * _divergence(q, p)
    far = np.log(q * np.exp(a * keep - top) + (1.0 - q) * np.exp(a * leave - top)) + top
    log = np.where(near, np.log1p(np.maximum(excess, 0.0)), far)
    most = max(abs(keep), abs(leave))
    return np.asarray(np.minimum(log / (a - 1.0) * (1.0 + 1e-9) + 1e-16 * most, most))


def _second(x: Array) -> Array:
    """e^x - 1 - x."""
    small = np.abs(x) < 0.02
    z = np.where(small, x, 0.0)
    return np.where(small, z * z * (0.5 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z / 720)))), np.expm1(x) - x)


def _divergence(q: float, p: float) -> float:
    """Kullback-Leibler divergence of a coin q from a coin p, from two terms that are at least 0."""
    s, t = (p - q) / q, (q - p) / (1.0 - q)
    return q * _less(s) + (1.0 - q) * _less(t)


def _less(s: float) -> float:
    """Subtract ln(1 + s) from s; at least 0."""
    if abs(s) < 1e-3:
        return s * s * (0.5 - s * (1 / 3 - s * (0.25 - s * (0.2 - s / 6))))
    return s - math.log1p(s)


def switching_profile(
    eta: float, factor: float, draws: int, coins: int, block: int, most: float, width: float, slack: float | None,
    error: float, hidden: int = 0, closeness: float = 0.0,
) -> Switching:  # fmt: skip
    """The profile that `gibbs_switching` concludes, rounded to the safe side.

    Parameters
    ----------
    eta : float
        One loss moves the law of a point by that many standard deviations at most.
    factor : float
        By how many losses a changed round moves the sum: 2 if it is replaced, 1 if it is masked.
    draws, coins, block : int
        Points drawn after the first loss, at most; coins in all; rounds from coin to coin.
    most, width : float
        Keep-probabilities lie between most exp(-2 width) and most.
    slack : float, optional
        None if a coin compares what was released; else how far the logarithm of what it compares may be off.
    error : float
        Total variation between one draw and its law.
    hidden : int
        Draws that only coins look at.
    closeness : float
        Logarithm of the factor by which the density of one draw may differ from that of its law.

    Examples
    --------
    >>> round(switching_profile(0.01, 2.0, 100, 1000, 1, 0.9, 0.1, None, 0.0).mu, 9)
    0.2
    """
    least, top = round_down(most * math.exp(-2.0 * width) * (1.0 - 1e-12) - 2.0**-52), most + _COIN
    mu = round_up(factor * eta * math.sqrt(draws) * _UP)
    lost, close = min(1.0, round_up((draws + hidden) * error)), round_up((draws + hidden) * closeness)
    if slack is None:
        return Switching(least, top, mu, 0.0, 0, lost, close)
    ratio = round_up((factor * block * eta**2 + 2.0 * slack) * _UP + _COIN)
    return Switching(least, top, mu, ratio, coins - 1, lost, close)
