"""Convex domains. All but the simplex contain the origin, where every run except one of FrankWolfe starts.

Two methods serve the compiled loops and keep projections cheap: `rescale` returns the factor that brings a point of
squared norm |w|^2 into the domain (1 if it lies inside), and `clip` projects one coordinate. A ball only rescales and a
box only clips, so the cost of a sparse row is proportional to its number of non-zeros. The projection onto an l1 ball,
an l_p ball or a simplex needs all coordinates at once: these domains have neither method, and algorithms that project
after every row refuse them.

`support` is the largest inner product with a point of the domain, and `gaussian_width` bounds its mean over standard
normal vectors from above (docs/proofs/facts.md).
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from dpconvex.problem.geometry import dual_exponent, lp_norms
from dpconvex.problem.joined import Intersection, Product
from dpconvex.problem.sets import Bounds, Convex, Ellipsoid, NuclearBall, Polytope, SemidefiniteTrace
from dpconvex.problem.traits import DomainTraits, first_not_positive

__all__ = [
    "Bounds",
    "Box",
    "Convex",
    "Domain",
    "Ellipsoid",
    "Everywhere",
    "Intersection",
    "L1Ball",
    "L2Ball",
    "LpBall",
    "NuclearBall",
    "Polytope",
    "Product",
    "SemidefiniteTrace",
    "Simplex",
]


class Everywhere(NamedTuple):
    """All of R^d.

    Examples
    --------
    >>> Everywhere().diameter(3)
    inf
    """

    radius: float = math.inf

    def rescale(self, norm2):
        """Factor that brings a point of this squared norm into the domain."""
        return 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return False

    def clip(self, value):
        """Project one coordinate."""
        return value

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return w

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def lowest(self, g: np.ndarray) -> np.ndarray | None:
        """Point of the domain where <g, w> is least, if there is one; the centre for g = 0."""
        return None if g.any() else self.centre(g.size)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return math.inf if v.any() else 0.0

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return math.inf

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return math.inf

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return math.inf

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain."""
        return math.inf

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return None if self.radius == math.inf else "Everywhere has no radius; use L2Ball(radius)"

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(bounded=False, rowwise=True, interval=(-math.inf, math.inf))


class L2Ball(NamedTuple):
    """Euclidean ball of the given radius around the origin.

    Examples
    --------
    >>> L2Ball(2.0).project(np.array([3.0, 4.0]))
    array([1.2, 1.6])
    """

    radius: float

    def rescale(self, norm2):
        """Factor that brings a point of this squared norm into the domain."""
        return self.radius / math.sqrt(norm2) if norm2 > self.radius * self.radius else 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return False

    def clip(self, value):
        """Project one coordinate."""
        return value

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return w * self.rescale(float(np.vdot(w, w)))

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the domain where <g, w> is least; the centre for g = 0."""
        if not g.any():
            return self.centre(g.size)
        g = g / np.abs(g).max()  # so that no square overflows or vanishes
        return -self.radius / np.linalg.norm(g) * g

    def chord(self, x: np.ndarray, way: np.ndarray) -> tuple[float, float]:
        """Range of t for which x + t way stays in the domain, for a unit vector `way`."""
        half = float(x @ way)
        root = math.sqrt(max(half * half + self.radius**2 - float(x @ x), 0.0))
        return min(-half - root, 0.0), max(-half + root, 0.0)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return self.radius * float(np.linalg.norm(v))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return self.radius * math.sqrt(d)

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return 2.0 * self.radius

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain."""
        return self.radius + float(np.linalg.norm(x))

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(radius=self.radius)

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(rowwise=True, norm=2.0, radius=self.radius)


class Box(NamedTuple):
    """Every coordinate between `lo` and `hi`, with lo <= 0 <= hi.

    Examples
    --------
    >>> Box(0.0, 1.0).project(np.array([-3.0, 0.5]))
    array([0. , 0.5])
    """

    lo: float = -1.0
    hi: float = 1.0

    def rescale(self, norm2):
        """Factor that brings a point of this squared norm into the domain."""
        return 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return True

    def clip(self, value):
        """Project one coordinate."""
        return min(max(value, self.lo), self.hi)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return np.clip(w, self.lo, self.hi)

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the domain where <g, w> is least; the centre for g = 0."""
        return np.where(g > 0.0, self.lo, np.where(g < 0.0, self.hi, 0.0))

    def chord(self, x: np.ndarray, way: np.ndarray) -> tuple[float, float]:
        """Range of t for which x + t way stays in the domain, for a unit vector `way`."""
        with np.errstate(divide="ignore"):
            ends = np.where(way != 0.0, (np.array([[self.lo], [self.hi]]) - x) / way, [[-np.inf], [np.inf]])
        return min(float(ends.min(axis=0).max()), 0.0), max(float(ends.max(axis=0).min()), 0.0)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return float(np.maximum(self.lo * v, self.hi * v).sum())

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector."""
        return d * (self.hi - self.lo) / math.sqrt(2.0 * math.pi)

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return math.sqrt(d) * max(-self.lo, self.hi)

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return math.sqrt(d) * (self.hi - self.lo)

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain."""
        return float(np.linalg.norm(np.maximum(self.hi - x, x - self.lo)))

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        ok = -math.inf < self.lo <= 0.0 <= self.hi < math.inf and self.lo < self.hi
        return None if ok else "lo and hi must be finite with lo <= 0 <= hi and lo < hi"

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(rowwise=True, interval=(self.lo, self.hi))


class L1Ball(NamedTuple):
    """Points whose absolute coordinates add up to at most `radius`, for sparse weights.

    Examples
    --------
    >>> L1Ball(2.0).project(np.array([3.0, -2.0, 0.5]))
    array([ 1.5, -0.5,  0. ])
    >>> L1Ball(2.0).support(np.array([3.0, -4.0]))
    8.0
    """

    radius: float

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain: every coordinate is shrunk towards 0 by the same amount."""
        size = np.abs(w)
        return w if size.sum() <= self.radius else np.sign(w) * _lowered(size, self.radius)

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the domain where <g, w> is least; the centre for g = 0."""
        corner, j = self.centre(g.size), np.abs(g).argmax()
        corner[j] = -self.radius * np.sign(g[j])
        return corner

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return float(self.radius * np.abs(v).max())

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return self.radius * math.sqrt(2.0 * math.log(2.0 * d))

    def reach(self, d: int) -> float:
        """Largest (l2) norm of a point in dimension d."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest (l2) distance between two points in dimension d."""
        return 2.0 * self.radius

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain."""
        return math.sqrt(x @ x + self.radius**2 + 2.0 * self.radius * np.abs(x).max())  # a corner

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(radius=self.radius)

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(corners=True, norm=1.0, radius=self.radius)


class LpBall(NamedTuple):
    """Points of l_p norm at most `radius`, p from 1 to infinity: L1Ball, L2Ball and Box(-radius, radius) in between.

    The error of the projection is about 1e-13 times |w|, and max(1, 1/(p - 1)) times that for p below 2. The projected
    point lies inside the ball in spite of rounding. Privacy must not rely on more than that: runs that rely on
    contraction never project onto such a ball.

    Examples
    --------
    >>> LpBall(4.0, 1.0).project(np.array([3.0, 3.0, 0.1])).round(4)
    array([0.8409, 0.8409, 0.0967])
    >>> LpBall(4.0, 1.0).support(np.ones(16)), LpBall(4.0, 1.0).reach(16)
    (8.0, 2.0)
    """

    p: float = math.inf
    radius: float = 1.0

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain: every coordinate solves |w_j| = x_j + multiplier x_j^(p-1)."""
        if (plain := self._plain()) is not None:
            return plain.project(w)
        if float(lp_norms(w.reshape(-1), self.p)) <= self.radius:
            return w
        size = np.abs(w)
        return np.sign(w) * (self.radius * _unit_lp(size / size.max(), self.radius / float(size.max()), self.p))

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the domain where <g, w> is least; the centre for g = 0."""
        if (plain := self._plain()) is not None:
            return plain.lowest(g)
        if not g.any():
            return self.centre(g.size)
        point = np.sign(g) * (np.abs(g) / np.abs(g).max()) ** (dual_exponent(self.p) - 1.0)
        return -self.radius / float(lp_norms(point, self.p)) * point

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain: the radius times the dual norm."""
        return self.radius * float(lp_norms(v.reshape(-1), dual_exponent(self.p)))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above: d^(1/t) (E|g|^t)^(1/t) for a t <= q."""
        if (plain := self._plain()) is not None:
            return plain.gaussian_width(d)
        t = min(dual_exponent(self.p), max(1.0, 2.0 * math.log(d)))
        moment = math.log(d) + t / 2.0 * math.log(2.0) + float(gammaln((t + 1.0) / 2.0)) - 0.5 * math.log(math.pi)
        return self.radius * math.exp(moment / t)

    def reach(self, d: int) -> float:
        """Largest (l2) norm of a point in dimension d."""
        return self.radius * float(d) ** max(0.0, 0.5 - 1.0 / self.p)

    def diameter(self, d: int) -> float:
        """Largest (l2) distance between two points in dimension d."""
        return 2.0 * self.reach(d)

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain, from above."""
        return self.reach(x.size) + float(np.linalg.norm(x))

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        if not self.p >= 1.0:
            return "p must be at least 1, or infinity"
        return first_not_positive(radius=self.radius)

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(inside=False, norm=self.p, radius=self.radius)

    def _plain(self) -> L1Ball | L2Ball | Box | None:
        """The equivalent simpler domain for p = 1, 2 and infinity, else None."""
        if self.p == 1.0:
            return L1Ball(self.radius)
        if self.p == 2.0:
            return L2Ball(self.radius)
        return Box(-self.radius, self.radius) if self.p == math.inf else None


class Simplex(NamedTuple):
    """Points with non-negative coordinates that add up to `radius`: weights of a mixture.

    It does not contain the origin, where most runs start. FrankWolfe accepts it, and so do the games of
    `dpconvex.games` with radius 1. Every other algorithm refuses it.

    Examples
    --------
    >>> Simplex().project(np.array([0.9, 0.5, -3.0]))
    array([0.7, 0.3, 0. ])
    >>> Simplex(2.0).support(np.array([3.0, -4.0])), Simplex(2.0).centre(4)
    (6.0, array([0.5, 0.5, 0.5, 0.5]))
    """

    radius: float = 1.0

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain: every coordinate is lowered by the same amount, and none below 0."""
        return _lowered(w, self.radius)

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the point whose coordinates are all equal."""
        return np.full(d, self.radius / d)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the domain where <g, w> is least; the centre for g = 0."""
        if not g.any():
            return self.centre(g.size)
        corner = np.zeros(g.size)
        corner[g.argmin()] = self.radius
        return corner

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return float(self.radius * v.max())

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return self.radius * math.sqrt(2.0 * math.log(d))

    def reach(self, d: int) -> float:
        """Largest (l2) norm of a point in dimension d."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest (l2) distance between two points in dimension d."""
        return math.sqrt(2.0) * self.radius if d > 1 else 0.0

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the domain."""
        return math.sqrt(max(x @ x + self.radius**2 - 2.0 * self.radius * x.min(), 0.0))  # a corner

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(radius=self.radius)

    @property
    @cache
    def traits(self) -> DomainTraits:
        """Traits of this domain."""
        return DomainTraits(origin=False, corners=True)


Rowwise = Everywhere | L2Ball | Box
Sets = Bounds | Convex | Ellipsoid | Intersection | NuclearBall | Polytope | Product | SemidefiniteTrace
Domain = Rowwise | L1Ball | LpBall | Simplex | Sets


def is_rowwise(domain: Domain) -> TypeGuard[Rowwise]:
    """Whether loops can project onto a domain after every row; such a domain has `rescale`, `clip` and `clips`."""
    return domain.traits.rowwise


def _lowered(w: np.ndarray, total: float) -> np.ndarray:
    """Return (w - a)_+ for the number a at which its entries add up to `total`."""
    below = w - w.max()  # how far below the largest, which is moved to `top`
    ordered = np.sort(below, axis=None)[::-1]
    tops = (total - np.cumsum(ordered)) / np.arange(1, ordered.size + 1)
    top = tops[np.flatnonzero(ordered + tops > 0.0)[-1]]
    return np.asarray(np.maximum(below + top, 0.0))


def _unit_lp(size: np.ndarray, alpha: float, p: float) -> np.ndarray:
    """Solve alpha x + beta x^(p-1) = size, entries of size in [0, 1], for the beta at which |x|_p = 1.

    The search is over one number: the largest coordinate t of x, between d^(-1/p) and 1, which determines beta. For
    p < 2 the equation is solved for x^(p-1). In either case it then reads a v + b v^k = size with k >= 1, which is
    convex in v, so Newton's method decreases to the root from above.
    """
    live = size > 0.0
    y = size[live]
    k = p - 1.0 if p > 2.0 else 1.0 / (p - 1.0)

    def solve(t: float) -> np.ndarray:
        beta = max(1.0 - alpha * t, 0.0) / t ** (p - 1.0)
        a, b = (alpha, beta) if p > 2.0 else (beta, alpha)
        with np.errstate(divide="ignore", under="ignore", over="ignore"):
            v = np.minimum(y / a, (y / b) ** (1.0 / k))  # never more than twice the root
            for _ in range(60):
                power = b * v ** (k - 1.0)
                fall = (a * v + power * v - y) / (a + k * power)
                v = v - np.maximum(fall, 0.0)
                if not (fall > 4e-16 * v).any():
                    break
            return np.asarray(v if p > 2.0 else v**k)

    low, high = float(y.size) ** (-1.0 / p), min(1.0, 1.0 / alpha) if alpha > 0.0 else 1.0
    ends = [float(lp_norms(solve(t), p)) - 1.0 for t in (low, high)]
    if ends[0] >= 0.0 or ends[1] <= 0.0:  # one end is the root, up to rounding
        x = solve(low if ends[0] >= 0.0 else high)
    else:
        x = solve(float(brentq(lambda t: float(lp_norms(solve(t), p)) - 1.0, low, high, xtol=1e-300, rtol=1e-15)))
    x /= max(1.0, float(lp_norms(x, p)) * (1.0 + (y.size + 64) * 2.3e-16))  # inside the ball in spite of rounded sums
    found = np.zeros(size.shape)
    found[live] = x
    return found
