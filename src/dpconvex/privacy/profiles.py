"""Privacy profiles: delta as a function of epsilon. Carry the strongest one known, convert last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from dpconvex.errors import InputError
from dpconvex.privacy.calibrate import threshold

# delta of a Gaussian is computed to about 1e-12 relative (docs/proofs/gaussian.md); claims add this much, and
# calibration twice as much, so that rounding can never turn a calibrated noise into a claim above its target.
_SLACK = 5e-10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta(epsilon) of N(mu, 1) against N(0, 1): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), any real epsilon.

    With u = eps/mu and M the Mills ratio this is phi(u - mu/2) [M(u - mu/2) - M(u + mu/2)], free of cancellation
    once the bracket is; for small mu the bracket is the integral of 1 - x M(x) over the interval.

    Examples
    --------
    >>> f"{gaussian_delta(1.0, 0.23670438):.4e}"
    '1.0000e-06'
    """
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    u = epsilon / mu
    low, high = u - mu / 2.0, u + mu / 2.0
    if mu >= 0.1 and low < 0.0:
        return float(ndtr(-low) - math.exp(epsilon + log_ndtr(-high)))
    if low < -30.0:  # small mu, very negative epsilon
        return float(-math.expm1(epsilon))
    if mu < 0.1:
        x = u + mu / 2.0 * _NODES
        bracket = mu / 2.0 * float(_WEIGHTS @ (1.0 - x * math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))))
    else:
        bracket = math.sqrt(math.pi / 2.0) * float(erfcx(low / math.sqrt(2.0)) - erfcx(high / math.sqrt(2.0)))
    return math.exp(-low * low / 2.0) / math.sqrt(2.0 * math.pi) * bracket


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian profile passes below (epsilon, delta), rounded down."""
    low, _ = threshold(lambda m: gaussian_delta(epsilon, m) * (1.0 + 2.0 * _SLACK) > delta, 1e-12, 1e4)
    return low


@dataclass(frozen=True)
class GDP:
    """Gaussian differential privacy: at least as hard to tell apart as N(0, 1) and N(mu, 1).

    Examples
    --------
    >>> round(GDP(0.2367).epsilon(1e-6), 3)
    1.0
    """

    mu: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.mu <= 1e4:
            raise InputError("mu must lie between 0 and 10000; beyond that there is no privacy to speak of")

    def delta(self, epsilon: float) -> float:
        """Smallest delta at that epsilon, rounded up."""
        return min(1.0, gaussian_delta(epsilon, self.mu) * (1.0 + _SLACK))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of at least 0 at that delta, rounded up."""
        if not 0.0 < delta < 1.0:
            raise InputError(f"delta must lie strictly between 0 and 1, got {delta}")
        if self.delta(0.0) <= delta:
            return 0.0
        top = self.mu**2 / 2.0 + self.mu * math.sqrt(2.0 * math.log(1.0 / delta)) + 1e-9
        return threshold(lambda e: self.delta(e) <= delta, 0.0, top)[1]

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"kind": "GDP", "mu": self.mu}


@dataclass(frozen=True)
class ApproxDP:
    """One point of a profile: (epsilon, delta)-differential privacy, and nothing known elsewhere.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6).epsilon(1e-5)
    1.0
    >>> ApproxDP(1.0, 1e-6).epsilon(1e-7)
    inf
    """

    eps: float
    dlt: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.eps <= 1e5 and 0.0 <= self.dlt <= 1.0):
            raise InputError("ApproxDP needs an epsilon between 0 and 1e5 and delta in [0, 1]")

    def delta(self, epsilon: float) -> float:
        """Smallest delta known at that epsilon of at least 0, rounded up.

        Both directions hold, P <= e^eps Q + dlt and Q <= e^eps P + dlt: the curve below eps is that of randomised
        response, 1 - (1 - dlt)(1 + e^epsilon)/(1 + e^eps).
        """
        if epsilon >= self.eps:
            return self.dlt
        low, high = max(epsilon, 0.0), self.eps
        kept = (1.0 - self.dlt) * math.exp(low - high) * (1.0 + math.exp(-low)) / (1.0 + math.exp(-high))
        return min(1.0, 1.0 - kept + 1e-15)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon known at that delta, infinite below dlt."""
        return self.eps if delta >= self.dlt else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"kind": "ApproxDP", "eps": self.eps, "dlt": self.dlt}


Profile = GDP | ApproxDP
