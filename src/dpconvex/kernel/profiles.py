"""Privacy profiles: delta as a function of epsilon. Keep the strongest one known and convert it last."""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from dpconvex.calibrate import threshold
from dpconvex.errors import InputError
from dpconvex.kernel.curves import (
    FLOOR,
    Array,
    Curve,
    Loss,
    composed,
    discretised,
    gaussian_curve,
    symmetric,
    with_gaussian,
)
from dpconvex.rounding import round_down

__all__ = ["GDP", "ApproxDP", "Composite", "Concentrated", "Numeric", "gaussian_delta", "gaussian_mu"]

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
    """Largest mu for which mu-GDP implies (epsilon, delta), rounded down."""
    return threshold(lambda m: gaussian_delta(epsilon, m) * (1.0 + 2.0 * _SLACK) > delta, 1e-12, 1e4)[0]


def concentrated_delta(epsilon: Array, rho: float) -> Array:
    """Delta of rho-zCDP, rho > 0, at every epsilon >= 0: the smallest bound over all orders 1 + x, rounded up.

    Order 1 + x gives ln delta = x ((1 + x) rho - epsilon + ln(x / (1 + x))) - ln(1 + x), which is convex in x with
    derivative (1 + 2x) rho - epsilon + ln(x / (1 + x)). (Canonne, Kamath, Steinke 2020; docs/proofs/
    generalised_gaussian.md.) Every x is valid, so the search need not be accurate.

    Examples
    --------
    >>> f"{concentrated_delta(np.array([1.0]), 0.02)[0]:.3e}"
    '8.825e-08'
    """
    # The best x has 2 rho x <= epsilon + 1/x, because ln(1 + 1/x) <= 1/x. The search is over ln x.
    low, high = np.full_like(epsilon, -700.0), np.log(epsilon / (2.0 * rho) + 1.0 / math.sqrt(2.0 * rho)) + 1e-9
    for _ in range(64):
        middle = 0.5 * (low + high)
        x = np.exp(middle)
        rising = (1.0 + 2.0 * x) * rho - epsilon + middle - np.log1p(x) > 0.0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    x = np.exp(high)
    terms = x * (1.0 + x) * rho, x * epsilon, x * (high - np.log1p(x)), np.log1p(x)
    slack = 1e-9 + 1e-14 * sum(np.abs(t) for t in terms)
    return np.asarray(np.exp(np.minimum(terms[0] - terms[1] + terms[2] - terms[3] + slack, 0.0)))


@dataclass(frozen=True)
class GDP:
    """Gaussian differential privacy: neighbours are at least as hard to tell apart as N(0, 1) and N(mu, 1).

    Examples
    --------
    >>> round(GDP(0.2367).epsilon(1e-6), 3)
    1.0
    """

    mu: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.mu <= 1e4:
            raise InputError("mu must lie between 0 and 10000; larger values give practically no privacy")

    def delta(self, epsilon: float) -> float:
        """Smallest delta at the given epsilon, rounded up."""
        return min(1.0, gaussian_delta(epsilon, self.mu) * (1.0 + _SLACK))

    @functools.lru_cache(maxsize=1024)  # noqa: B019 - what it keeps alive are numbers
    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 at the given delta, rounded up."""
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta must be at least 0 and below 1, got {delta}")
        if not delta or self.delta(0.0) <= delta:
            return 0.0 if self.delta(0.0) <= delta else math.inf
        top = self.mu**2 / 2.0 + self.mu * math.sqrt(2.0 * math.log(1.0 / delta)) + 1e-9
        return threshold(lambda e: self.delta(e) <= delta, 0.0, top)[1]

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"kind": "GDP", "mu": self.mu}


@dataclass(frozen=True)
class ApproxDP:
    """One point of a profile: (epsilon, delta)-differential privacy, with nothing more known.

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
            raise InputError("ApproxDP needs epsilon between 0 and 1e5, and delta in [0, 1]")

    def delta(self, epsilon: float) -> float:
        """Smallest delta known at the given epsilon, rounded up.

        Both directions hold, P <= e^eps Q + dlt and Q <= e^eps P + dlt: the curve below eps is that of randomised
        response, 1 - (1 - dlt)(1 + e^epsilon)/(1 + e^eps).
        """
        if epsilon < 0.0:  # from the reverse direction: D_a(P, Q) = 1 - a + a D_{1/a}(Q, P)
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon) + 1e-15)
        if epsilon >= self.eps:
            return self.dlt
        low, high = epsilon, self.eps
        kept = (1.0 - self.dlt) * math.exp(low - high) * (1.0 + math.exp(-low)) / (1.0 + math.exp(-high))
        return min(1.0, 1.0 - kept + 1e-15)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon known at the given delta; infinite if that is below the delta of this profile."""
        return self.eps if delta >= self.dlt else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"kind": "ApproxDP", "eps": self.eps, "dlt": self.dlt}


# Profiles known as a curve -----------------------------------------------------------------------------------------

_STEPS = 1024  # nodes of a curve between epsilon and 2 epsilon
_BOTTOM, _TOP = -30 * _STEPS, 9 * _STEPS  # first and last node, 2^-30 and 512; there is one more at 0


def _node(k: int) -> float:
    return 2.0 ** (k / _STEPS) if k >= _BOTTOM else 0.0


@functools.lru_cache(maxsize=1 << 14)
def _at_node(profile: Numeric, k: int) -> float:
    return float(profile.curve()(np.array([_node(k)]))[0])


class Numeric(ABC):
    """A profile known as a curve that is computed numerically.

    The curve is computed independently at fixed nodes and interpolated between them: delta is convex in e^epsilon, so
    it lies below the chord. Hence `delta` and `epsilon` are consistent with each other on every machine.
    """

    @abstractmethod
    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""

    def blurred(self, mu: float) -> Curve:
        """Curve of this profile composed with mu-GDP."""
        return with_gaussian(self.curve(), mu, 241)

    def without_gaussian(self) -> tuple[Numeric, float]:
        """Split the profile into a curve and the mu of a Gaussian (0 if there is none) that compose to it."""
        return self, 0.0

    def delta(self, epsilon: float) -> float:
        """Smallest delta known at the given epsilon, rounded up; beyond 512 the value at 512."""
        if epsilon < 0.0:
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon) + 1e-15)
        k = _BOTTOM - 1 if epsilon < _node(_BOTTOM) else min(math.floor(math.log2(epsilon) * _STEPS), _TOP)
        while _node(k) > epsilon:
            k -= 1
        return _at_node(self, k) if k == _TOP or _node(k) == epsilon else self._chord(k, epsilon)

    def _chord(self, k: int, epsilon: float) -> float:
        low, high = _at_node(self, k), _at_node(self, k + 1)
        share = math.expm1(epsilon - _node(k)) / math.expm1(_node(k + 1) - _node(k))
        return min(1.0, max(high, low + (min(low, high) - low) * min(share, 1.0)) * (1.0 + 1e-12))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 known at the given delta, rounded up; infinite if it is above 512."""
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta must be at least 0 and below 1, got {delta}")
        low, high = _BOTTOM - 1, _TOP
        if not delta or _at_node(self, low) <= delta:
            return 0.0 if _at_node(self, low) <= delta else math.inf
        k, step = 0, _STEPS
        while low < k < high:  # from epsilon = 1, down in growing steps or up in equal ones, until it is bracketed
            if _at_node(self, k) > delta:
                low, k = k, k + _STEPS // 2  # far out only rounding is left, and the bound of a group grows again
            else:
                high, k, step = k, k - step, 2 * step
        if high == _TOP and _at_node(self, high) > delta:
            return math.inf
        while high - low > 1:
            k = self._guess(low, high, delta)
            low, high = (k, high) if _at_node(self, k) > delta else (low, k)
        return threshold(lambda e: self._chord(low, e) <= delta, _node(low), _node(high))[1]

    def _guess(self, low: int, high: int, delta: float) -> int:
        """A node strictly between two others, by interpolation: log delta is nearly linear over short ranges."""
        above, below = math.log(_at_node(self, low) / delta), math.log(delta / _at_node(self, high))
        middle = (low + high) // 2
        if high - low > _STEPS or above > 50.0 or not above + below > 0.0:
            return middle
        line = low + math.ceil((high - low) * above / (above + below))
        slack = max((high - low) // 16, 1)  # step a little towards the middle, so that both ends move
        return min(max(line + (slack if line < middle else -slack), low + 1), high - 1)

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **{k: _plain(v) for k, v in fields.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float) else value.to_json()


@dataclass(frozen=True)
class Concentrated(Numeric):
    """Zero-concentrated differential privacy: the Renyi divergence of every order a is at most a rho.

    Composition adds rho, and k records cost k^2 rho. It does not imply GDP and is never converted to it.

    Examples
    --------
    >>> round(Concentrated(0.02436).epsilon(1e-6), 3)
    1.0
    """

    rho: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.rho <= 1e5:
            raise InputError("rho must lie between 0 and 1e5; larger values give practically no privacy")

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        if self.rho == 0.0:
            return symmetric(np.zeros_like)
        return symmetric(functools.partial(concentrated_delta, rho=self.rho))


def concentrated_rho(epsilon: float, delta: float) -> float:
    """Largest rho, to 12 digits, at which rho-zCDP implies (epsilon, delta), rounded down.

    Examples
    --------
    >>> round(concentrated_rho(1.0, 1e-6), 5)
    0.02436
    """
    if delta < 1e3 * FLOOR:
        raise InputError(f"delta = {delta:g} is smaller than a curve can resolve: use {1e3 * FLOOR:g} or more")
    top = min(epsilon, 500.0)
    low, _ = threshold(lambda rho: Concentrated(rho).delta(top) * (1.0 + 1e-9) > delta, 1e-20, 1e4)
    return round_down(low)


@dataclass(frozen=True)
class Composite(Numeric):
    """Composition of several profiles, some of them not Gaussian, on the same records (docs/proofs/compose.md).

    The squares of the mu of Gaussian parts add up. They are integrated against a single curve exactly; several curves
    are bounded by discrete pairs of laws, whose losses add up. The epsilon and delta of single points are added at the
    end.

    Examples
    --------
    >>> parts = Composite((GDP(0.3), GDP(0.4), ApproxDP(0.5, 1e-6)))
    >>> round((parts.delta(1.5) - 1e-6) / GDP(0.5).delta(1.0), 3)
    1.0
    """

    parts: tuple[Profile, ...]

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        parts = _flat(self.parts)
        mu = math.hypot(*(p.mu for p in parts if isinstance(p, GDP)))
        curves = [p for p in parts if isinstance(p, Numeric)]
        points = [p for p in parts if isinstance(p, ApproxDP)]
        total: Curve
        if len(curves) > 1 or (mu and any(isinstance(p, Grouped) for p in curves)):  # slow to integrate
            total = _losses(tuple(sorted(curves, key=repr)), mu).curve
        elif curves:
            total = curves[0].blurred(mu)
        else:

            def total(e: Array) -> Array:
                return gaussian_curve(e, mu)

        eps, dlt = math.fsum(p.eps for p in points), math.fsum(p.dlt for p in points)
        return symmetric(lambda e: np.minimum((total(e - eps * (1 + 1e-15)) + dlt) * (1 + 1e-12), 1.0))


def _flat(parts: tuple[Profile, ...]) -> list[Profile]:
    return [q for p in parts for q in (_flat(p.parts) if isinstance(p, Composite) else (p,))]


@functools.lru_cache(maxsize=256)
def _discretised(part: Numeric | GDP) -> Loss:
    if isinstance(part, GDP):
        return discretised(np.vectorize(part.delta, otypes=[float]), 512)
    return discretised(part.curve())


@functools.lru_cache(maxsize=32)
def _losses(curves: tuple[Numeric, ...], mu: float) -> Loss:
    """Losses of several curves and a Gaussian. The noise on a released minimiser counts as one more Gaussian."""
    bare: Counter[Numeric | GDP] = Counter()
    noise = [mu]
    for part in curves:
        rest, mu_out = part.without_gaussian()
        noise.append(mu_out)
        bare[rest] += 1
    if (whole := math.hypot(*noise) * (1 + 1e-15)) > 0.0:
        bare[GDP(whole)] += 1
    return composed([(_discretised(part), times) for part, times in bare.items()])


@dataclass(frozen=True)
class Grouped(Numeric):
    """Group privacy of `size` records of one person: delta(eps) sum_{i < size} e^{i eps} at size times eps.

    Examples
    --------
    >>> Grouped(ApproxDP(1.0, 1e-6), 2).delta(2.0) >= 1e-6 * (1 + math.e)
    True
    """

    part: Profile
    size: int

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        powers = np.arange(self.size)

        def chained(e: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                factor = np.exp(powers * e[:, None] / self.size).sum(axis=1) * (1 + 1e-12)
                return np.asarray(np.minimum(factor * _curve(self.part)(e / self.size), 1.0))

        return symmetric(chained)


@dataclass(frozen=True)
class Largest(Numeric):
    """The largest of several profiles at each epsilon.

    Examples
    --------
    >>> Largest((GDP(0.3), ApproxDP(0.5, 1e-6))).delta(2.0) >= 1e-6
    True
    """

    parts: tuple[Profile, ...]

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        return symmetric(lambda e: np.max([_curve(p)(e) for p in self.parts], axis=0))


def _curve(profile: Profile) -> Curve:
    if isinstance(profile, GDP):
        mu = profile.mu
        return lambda e: gaussian_curve(e, mu)
    if isinstance(profile, ApproxDP):
        return symmetric(np.vectorize(profile.delta, otypes=[float]))
    return profile.curve()


Profile = GDP | ApproxDP | Numeric
