"""Confidence bounds: what a sample of outputs from two neighbouring data sets proves about a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import binom

from dpconvex.errors import InputError
from dpconvex.kernel.profiles import gaussian_delta

THRESHOLDS = 3  # most thresholds that one attack tries, each with two bounds for either role of the data sets


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Lower and upper bound on a probability, each wrong with probability at most `error`.

    Examples
    --------
    >>> low, high = clopper_pearson(50, 100, 0.01)
    >>> round(low, 3), round(high, 3)
    (0.381, 0.619)
    """
    low = float(betaincinv(successes, trials - successes + 1, error)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1.0 - error)) if successes < trials else 1.0
    return low, high


def gaussian_mu_lower(plain: np.ndarray, changed: np.ndarray, error: float) -> float:
    """Lower bound on the distance of two Gaussian laws of one variance, in standard deviations.

    The standardised difference of the means has variance 2/N + mu^2/(4N) up to terms of order 1/N^2 (Hedges 1981);
    for N in the thousands the normal limit is exact to far more digits than the bound is read to.
    """
    n = len(plain)
    spread = math.sqrt((plain.var(ddof=1) + changed.var(ddof=1)) / 2.0)
    move = float(changed.mean() - plain.mean())
    if spread <= 1e-12 * abs(move):  # no noise at all
        return math.inf if move > 0.0 else 0.0
    mu = move / spread
    return mu + float(ndtri(error)) * math.sqrt(2.0 / n + mu * mu / (4.0 * n))


def mu_between(fpr: float, tpr: float) -> float:
    """Parameter of the Gaussian trade-off curve through a point: Phi^-1(tpr) - Phi^-1(fpr)."""
    return float(ndtri(tpr) - ndtri(fpr)) if fpr > 0.0 and tpr < 1.0 else (math.inf if fpr == 0.0 < tpr else -math.inf)


def epsilon_at(fpr: float, tpr: float, delta: float) -> float:
    """Smallest epsilon of at least 0 with tpr <= e^epsilon fpr + delta."""
    if tpr - delta <= fpr:
        return 0.0
    return math.log((tpr - delta) / fpr) if fpr > 0.0 else math.inf


# How many runs ---------------------------------------------------------------------------------------------------


def can_refute(delta: Callable[[float], float], runs: int, confidence: float) -> bool:
    """Whether so many runs a side refute a claim if outputs never overlap; epsilon 0 is asked first.

    After N runs without a mistake the error rates are known to be below u = 1 - error^(1/N) only, and
    1 - u - e^epsilon u must exceed delta(epsilon) for some epsilon.
    """
    u = -math.expm1(math.log((1.0 - confidence) / (4.0 * THRESHOLDS)) / runs)
    return any(1.0 - u - math.exp(e) * u > delta(e) for e in np.linspace(0.0, 20.0, 81).tolist())


def least_runs(delta: Callable[[float], float], confidence: float) -> int:
    """Fewest runs a side with which outputs that never overlap would refute a claim; with fewer, no attack can.

    Examples
    --------
    >>> from dpconvex.kernel.profiles import GDP
    >>> least_runs(GDP(1.0).delta, 0.99), least_runs(GDP(3.0).delta, 0.99)
    (20, 103)
    """
    known = {e: delta(e) for e in np.linspace(0.0, 20.0, 81).tolist()}

    def enough(runs: int) -> bool:
        return can_refute(known.__getitem__, runs, confidence)

    high = 1
    while not enough(high):
        high *= 2
        if high > 1e12:
            raise InputError("the claim allows outputs to be told apart for certain: there is nothing to refute")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def runs_needed(
    mu: float, noise: float = 0.9, confidence: float = 0.99, power: float = 0.9, law: str = "gaussian"
) -> int:
    """Runs a side with which an audit notices that a mu-GDP release has only `noise` times the noise it needs.

    law: "gaussian" for the bound that uses the law of the statistic, "any" for error rates at a fixed threshold.
    The audit would then find a parameter of mu/noise, and has to tell it from mu with probability `power`.

    Examples
    --------
    >>> runs_needed(1.0), runs_needed(1.0, law="any"), runs_needed(0.2367)
    (2783, 9073, 43396)
    """
    if law not in ("gaussian", "any"):
        raise InputError(f"law must be 'gaussian' or 'any', got {law!r}")
    if not (0.0 < mu < math.inf and 0.0 < noise < 1.0 and 0.5 <= confidence < 1.0 and 0.5 <= power < 1.0):
        raise InputError("mu must be positive, noise in (0, 1), confidence and power in [0.5, 1)")
    found, error = mu / noise, 1.0 - confidence
    if law == "gaussian":
        z = float(ndtri(1.0 - error / 2.0) + ndtri(power))
        return math.ceil(z**2 * (2.0 + found**2 / 4.0) / (found - mu) ** 2)
    # Total variation at the middle: tpr - fpr = 2 Phi(mu/2) - 1, two independent counts of one variance.
    rate, gap = float(ndtr(found / 2.0)), 2.0 * float(ndtr(found / 2.0) - ndtr(mu / 2.0))
    z = 2.0 * float(ndtri(1.0 - error / (4.0 * THRESHOLDS))) + math.sqrt(2.0) * float(ndtri(power))
    return math.ceil(z**2 * rate * (1.0 - rate) / gap**2)


# One run -----------------------------------------------------------------------------------------------------------


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Largest probability with which an (epsilon, delta) mechanism lets so many guesses be correct in one run.

    Each of `canaries` records was set by a fair coin and `guesses` of the coins are guessed from one output (Steinke,
    Nasr, Jagielski 2023, Thm 5.2): without delta the number of correct guesses is no larger than a binomial one of
    success e^epsilon/(1 + e^epsilon).

    Examples
    --------
    >>> one_run_p_value(10, 10, 10, 0.0, 0.0) == 2.0**-10
    True
    """
    q = 1.0 / (1.0 + math.exp(-epsilon))
    beta = float(binom.sf(correct - 1, guesses, q))
    if delta == 0.0 or correct == 0:
        return beta
    i = np.arange(1, correct + 1)
    alpha = float(np.max((binom.cdf(correct - 1, guesses, q) - binom.cdf(correct - i - 1, guesses, q)) / i))
    return min(1.0, beta + 2.0 * canaries * delta * alpha)


def one_run_mu_lower(correct: int, guesses: int, canaries: int, error: float) -> float:
    """Largest mu that so many correct guesses refute, at (epsilon, delta) points of its curve fixed in advance."""
    if correct == 0:
        return 0.0
    points = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5])

    def refuted(mu: float) -> bool:
        curve = [(e, gaussian_delta(e, mu)) for e in mu * points + mu * mu / 2.0]
        return any(one_run_p_value(correct, guesses, canaries, e, d) <= error / len(points) for e, d in curve)

    low, high = 0.0, 32.0
    if not refuted(1e-9):
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
