"""Potentials of mirror descent and FTRL: half the squared p-norm over p - 1, and the entropy.

A potential psi is 1-strongly convex in its norm; `respond(theta)` is the point of the domain where <theta, w> - psi(w)
is largest, which is all that a learner needs of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dpconvex.errors import InputError
from dpconvex.games.domains import ANY, P_NORM, SIMPLEX, check_domain, coordinate_range
from dpconvex.problem.domains import Domain
from dpconvex.problem.geometry import MirrorMap

__all__ = ["Entropy", "PNorm"]


class PNorm(NamedTuple):
    """psi(w) = |w - start|_p^2 / (2 (p - 1)) with 1 < p <= 2: 1-strongly convex in the p-norm.

    With p < 2 games start at the origin, on Everywhere, Box or L1Ball. On an l1 ball in dimension d, p = 1 + 1/ln d
    makes regret grow like sqrt(ln d).

    Examples
    --------
    >>> from dpconvex.problem.domains import Everywhere, L1Ball
    >>> PNorm(2.0).respond(np.array([3.0, 4.0]), Everywhere(), np.zeros(2))
    array([3., 4.])
    >>> PNorm(1.5).respond(np.array([3.0, 4.0]), L1Ball(1.0), np.zeros(2)).round(3)
    array([0.153, 0.847])
    """

    p: float = 2.0

    def check(self, domain: Domain, who: str) -> None:
        """Refuse p outside (1, 2] and a domain on which `respond` is not known."""
        if not 1.0 < self.p <= 2.0:
            raise InputError("p must lie in (1, 2]; on the simplex, Entropy() is the limit of p towards 1")
        check_domain(domain, *((f"{who} with p < 2", P_NORM) if self.p < 2.0 else (who, ANY)))

    def check_start(self, start: np.ndarray) -> None:
        """Refuse a start other than the origin where p < 2."""
        if self.p < 2.0 and start.any():
            raise InputError("with p < 2 a game starts at the origin; leave out start, or take p = 2")

    def respond(self, theta: np.ndarray, domain: Domain, start: np.ndarray) -> np.ndarray:
        """Point of the domain where <theta, w> - psi(w) is largest."""
        if self.p == 2.0:
            return domain.project(start + theta)
        free, (lo, hi) = _map(self.p).inverse(theta), coordinate_range(domain)
        if domain.traits.interval is not None:
            return _respond_box(theta, free, self.p, lo, hi)
        return _respond_cross(theta, free, self.p, hi)

    def mirror(self, w: np.ndarray, theta: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Gradient of psi at w."""
        return w - start if self.p == 2.0 else _map(self.p).slope(w)

    def excess(self, u: np.ndarray, start: np.ndarray) -> float:
        """psi(u) - psi(start)."""
        return float(np.linalg.norm(u - start, self.p)) ** 2 / (2.0 * (self.p - 1.0))

    def width(self, domain: Domain, start: np.ndarray) -> float:
        """Largest `excess` of a point of the domain."""
        if self.p == 2.0:
            return domain.farthest(start) ** 2 / 2.0
        lo, hi = coordinate_range(domain)
        return (self._spread(domain, start.size) * max(-lo, hi)) ** 2 / (2.0 * (self.p - 1.0))

    def diameter(self, domain: Domain, d: int) -> float:
        """Largest distance of two points, in the p-norm."""
        lo, hi = coordinate_range(domain)
        return domain.diameter(d) if self.p == 2.0 else self._spread(domain, d) * (hi - lo)

    def _spread(self, domain: Domain, d: int) -> float:
        """The p-norm of a corner of the domain, over its largest entry."""
        return d ** (1.0 / self.p) if domain.traits.interval is not None else 1.0

    def dual_norms(self, rows: np.ndarray) -> np.ndarray:
        """Dual norm of every row."""
        return np.linalg.norm(rows, self.p / (self.p - 1.0), axis=-1)


class Entropy(NamedTuple):
    """psi(w) = sum_j w_j ln w_j on the simplex: 1-strongly convex in the l1 norm.

    Examples
    --------
    >>> from dpconvex.problem.domains import Simplex
    >>> Entropy().respond(np.log([1.0, 3.0]), Simplex(), np.full(2, 0.5))
    array([0.25, 0.75])
    """

    def check(self, domain: Domain, who: str) -> None:
        """Refuse a domain other than the simplex."""
        check_domain(domain, f"{who} with Entropy()", SIMPLEX)

    def check_start(self, start: np.ndarray) -> None:
        """Refuse a start other than the middle."""
        if np.abs(start - 1.0 / start.size).max() > 1e-12:
            raise InputError("with Entropy() a game starts in the middle of the simplex; leave out start")

    def respond(self, theta: np.ndarray, domain: Domain, start: np.ndarray) -> np.ndarray:
        """Point of the simplex where <theta, w> - psi(w) is largest."""
        w = np.exp(theta - theta.max())
        return w / w.sum()

    def mirror(self, w: np.ndarray, theta: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Gradient of psi at w up to a constant: `theta` itself, which keeps weights that are 0 in float64."""
        return theta - theta.max()

    def excess(self, u: np.ndarray, start: np.ndarray) -> float:
        """psi(u) - psi(start)."""
        return float(np.log(u.size) + (u[u > 0.0] * np.log(u[u > 0.0])).sum())

    def width(self, domain: Domain, start: np.ndarray) -> float:
        """Largest `excess` of a point of the simplex."""
        return math.log(start.size)

    def diameter(self, domain: Domain, d: int) -> float:
        """Largest distance of two points, in the l1 norm."""
        return 2.0 if d > 1 else 0.0

    def dual_norms(self, rows: np.ndarray) -> np.ndarray:
        """Largest coordinate, in size, of every row."""
        return np.abs(rows).max(axis=-1)


def _map(p: float) -> MirrorMap:
    """Psi for a game that starts at the origin."""
    return MirrorMap(p, 1.0 / (p - 1.0))


def _respond_cross(theta: np.ndarray, free: np.ndarray, p: float, radius: float) -> np.ndarray:
    """On the l1 ball: theta drawn towards 0 by the multiplier at which the answer has l1 norm `radius`."""
    if np.abs(free).sum() <= radius:
        return free

    def answer(lam: float) -> np.ndarray:
        return _map(p).inverse(np.sign(theta) * np.maximum(np.abs(theta) - lam, 0.0))

    top = float(np.abs(theta).max())
    w = answer(brentq(lambda lam: np.abs(answer(lam)).sum() - radius, 0.0, top, xtol=1e-300, rtol=1e-15))
    return w * min(1.0, radius / float(np.abs(w).sum()))


def _respond_box(theta: np.ndarray, free: np.ndarray, p: float, lo: float, hi: float) -> np.ndarray:
    """On a box: each coordinate by itself once N = |w|_p is known, w_j = clip(((p-1) theta_j / N^(2-p))^(1/(p-1)))."""
    if ((free >= lo) & (free <= hi)).all():
        return free
    cap = np.where(theta > 0.0, hi, -lo)
    live = (theta != 0.0) & (cap > 0.0)  # the others stay at 0
    w = np.zeros(theta.size)
    if not live.any():
        return w
    logs, caps = np.log((p - 1.0) * np.abs(theta[live])), np.log(cap[live])

    def answer(size: float) -> np.ndarray:  # in logarithms, for the power 1/(p-1) may be large
        return np.exp(np.minimum((logs - (2.0 - p) * math.log(size)) / (p - 1.0), caps))

    high = float(np.linalg.norm(_map(p).inverse(theta[live]), p)) * (1.0 + 1e-9)
    low = float(np.linalg.norm(answer(high), p)) * (1.0 - 1e-9)
    w[live] = answer(brentq(lambda size: np.linalg.norm(answer(size), p) - size, low, high, xtol=1e-300, rtol=1e-15))
    return np.clip(np.sign(theta) * w, lo, hi)
