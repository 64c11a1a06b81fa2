"""Geometry of l_p with 1 < p <= 2: dual norms, the constant of regularity, and the mirror map with its inverse.

Gradients are measured in the dual norm l_q, 1/p + 1/q = 1, which is not smooth for large q. It is close to a norm that
is: half the square of l_r is (r - 1)-smooth in l_r for r >= 2, and |x|_q <= |x|_r <= d^(1/r - 1/q) |x|_q for
2 <= r <= q. So l_q is kappa-regular with kappa(r) = (r - 1) d^(2/r - 2/q) (Juditsky, Nemirovski 2008), and the best r
is used. Proof: docs/proofs/generalised_gaussian.md.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from dpconvex.errors import InputError
from dpconvex.rounding import round_up

__all__ = ["MirrorMap", "dual_exponent", "kappa", "lp_norms", "mirror_map"]


def dual_exponent(p: float) -> float:
    """Return the q with 1/p + 1/q = 1.

    Examples
    --------
    >>> dual_exponent(1.5), dual_exponent(1.0), dual_exponent(math.inf)
    (3.0, inf, 1.0)
    """
    if isinstance(p, bool) or not (isinstance(p, Real) and p >= 1.0):
        raise InputError("the exponent of a norm must be a number of at least 1")
    if p == 1.0:
        return math.inf
    return 1.0 if p == math.inf else float(p / (p - 1.0))


def smooth_exponent(q: float, d: int) -> float:
    """The r between 2 and q at which (r - 1) d^(2/r - 2/q) is least.

    Its logarithm has the derivative 1/(r - 1) - 2 ln d / r^2, whose sign is that of r^2 - 2 r ln d + 2 ln d. This is
    positive everywhere if ln d <= 2. Otherwise it is negative from a root below 2 to ln d + sqrt(ln d (ln d - 2)), and
    positive beyond.

    Examples
    --------
    >>> smooth_exponent(3.0, 100), round(smooth_exponent(math.inf, 100), 3), smooth_exponent(math.inf, 5)
    (3.0, 8.069, 2.0)
    """
    _check(q, d)
    log = math.log(d)
    best = round_up(log + math.sqrt(log * (log - 2.0))) if log > 2.0 else 2.0  # the same on every machine
    return float(min(max(best, 2.0), q))


def kappa(q: float, d: int) -> float:
    """Constant of regularity of l_q in dimension d, for q from 2 to infinity: the least over r.

    Examples
    --------
    >>> round(kappa(math.inf, 100), 1), round(kappa(3.0, 100), 12), kappa(2.0, 100), kappa(math.inf, 1)
    (22.1, 2.0, 1.0, 1.0)
    """
    r = smooth_exponent(q, d)
    return (r - 1.0) * float(d) ** (2.0 / r - 2.0 / q)


def lp_norms(rows: np.ndarray, p: float) -> np.ndarray:
    """The l_p norm along the last axis, scaled by the largest entry so that a large p does not over- or underflow.

    Examples
    --------
    >>> lp_norms(np.array([[3.0, -4.0], [0.0, 0.0]]), 2.0)
    array([5., 0.])
    >>> bool(lp_norms(np.full(2, 1e200), 200.0) < 1.004e200)
    True
    """
    dual_exponent(p)
    size = np.abs(rows)
    top = size.max(axis=-1, initial=0.0)
    if p == math.inf:
        return np.asarray(top)
    with np.errstate(under="ignore"):
        part = size / np.where(top == 0.0, 1.0, top)[..., None]
        return np.asarray(top * (part**p).sum(axis=-1) ** (1.0 / p))


class MirrorMap(NamedTuple):
    """Phi(w) = (scale/2) |w|_s^2 with 1 < s <= 2, with the operations that mirror descent needs.

    Examples
    --------
    >>> phi = mirror_map(1.5, 50)
    >>> phi.s, round(phi.scale, 12), phi.inverse(phi.slope(np.array([3.0, -4.0]))).round(12)
    (1.5, 2.0, array([ 3., -4.]))
    """

    s: float
    scale: float

    def value(self, w: np.ndarray) -> float:
        """Phi(w)."""
        return 0.5 * self.scale * float(lp_norms(w, self.s)) ** 2

    def slope(self, w: np.ndarray) -> np.ndarray:
        """Gradient of Phi at w."""
        return self.scale * _half_square_slope(w, self.s)

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """The point where the gradient of Phi is y: the gradient of its conjugate."""
        return _half_square_slope(y, dual_exponent(self.s)) / self.scale

    def divergence(self, x: np.ndarray, y: np.ndarray) -> float:
        """Phi(x) - Phi(y) - <grad Phi(y), x - y>."""
        return self.value(x) - self.value(y) - float(self.slope(y) @ (x - y))


def mirror_map(p: float, d: int) -> MirrorMap:
    """The mirror map of l_p in dimension d: (kappa/2) |w|_s^2, s dual to r, is 1-strongly convex in l_p.

    Examples
    --------
    >>> mirror_map(2.0, 7)
    MirrorMap(s=2.0, scale=1.0)
    """
    q = dual_exponent(p)
    if not 1.0 < p <= 2.0:
        raise InputError(f"p must lie in (1, 2], got {p}; for weights bounded in l_p with p > 2, use p = 2")
    return MirrorMap(dual_exponent(smooth_exponent(q, d)), kappa(q, d))


def _half_square_slope(x: np.ndarray, p: float) -> np.ndarray:
    """Gradient of |x|_p^2 / 2, computed from x scaled by its largest entry."""
    top = float(np.abs(x).max(initial=0.0))
    if p == 2.0 or top == 0.0:
        return np.array(x, dtype=float)
    with np.errstate(under="ignore"):
        part = np.abs(x) / top
        return np.asarray(np.sign(x) * top * part ** (p - 1.0) * (part**p).sum() ** ((2.0 - p) / p))


def _check(q: float, d: int) -> None:
    if isinstance(q, bool) or not (isinstance(q, Real) and q >= 2.0):
        raise InputError("q must be a number of at least 2, or infinity: it is dual to a p in [1, 2]")
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise InputError("d must be a whole number of at least 1")
