"""Confidence bounds: what a sample of outputs from two neighbouring data sets proves about a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtri


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
    mu = float(changed.mean() - plain.mean()) / spread
    return mu + float(ndtri(error)) * math.sqrt(2.0 / n + mu * mu / (4.0 * n))


def mu_between(fpr: float, tpr: float) -> float:
    """Parameter of the Gaussian trade-off curve through a point: Phi^-1(tpr) - Phi^-1(fpr)."""
    return float(ndtri(tpr) - ndtri(fpr)) if fpr > 0.0 and tpr < 1.0 else (math.inf if fpr == 0.0 < tpr else -math.inf)


def epsilon_at(fpr: float, tpr: float, delta: float) -> float:
    """Smallest epsilon of at least 0 with tpr <= e^epsilon fpr + delta."""
    if tpr - delta <= fpr:
        return 0.0
    return math.log((tpr - delta) / fpr) if fpr > 0.0 else math.inf


def above_curve(fpr: float, tpr: float, delta: Callable[[float], float], points: int = 200) -> bool:
    """Whether a test of these error rates is better than the whole profile allows, total variation included."""
    if tpr <= fpr:
        return False
    top = math.log(tpr / fpr) if fpr > 0.0 else 50.0
    return any(tpr - math.exp(e) * fpr > delta(e) for e in np.linspace(0.0, top, points))
