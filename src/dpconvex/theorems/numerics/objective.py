"""Objective perturbation: how much the minimiser of a randomly tilted objective gives away.

    theta = argmin_w  sum_i l_i(<x_i, w>) + (l2/2) |w|^2 + <b, w>,    b ~ N(0, sigma^2 I),    |x_i| <= R

On every line parallel to the row x, masking its record transports a Gaussian by a shift w = l' |x| / sigma that falls
along the line at a rate of at most K(w)/(1 + K(w)), K(w) = (R^2/l2) curvature(|l'|). "Remove" tells the law with the
record from the law without it, "add" the reverse. Theorems and numerics: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from dpconvex.kernel.curves import ROUND, Array, Curve, both_signs, chain, gaussian_curve, symmetric

ACCOUNTINGS = ("sharp", "coupled", "published", "paper")
_LINES = 256
_CELLS = 1024


@dataclass(frozen=True)
class Setting:
    """What the bounds depend on: the slope law of the loss, the row bound, the ridge weight and the noise.

    `cap` bounds |l'|, `width` the largest slope of one record minus its smallest, and l'' <= a + b s + c s^2 where
    |l'| = s, (a, b, c) = `law`, concave and at least 0 on [0, cap]. `monotone`: l' of a record never changes sign.
    """

    cap: float
    width: float
    monotone: bool
    law: tuple[float, float, float]
    radius: float
    l2: float
    sigma: float

    @property
    def mu(self) -> float:
        """Largest shift, in standard deviations."""
        return self.cap * self.radius / self.sigma

    @property
    def peak(self) -> float:
        """|slope| in [0, cap] at which the law is largest."""
        _, b, c = self.law
        if c == 0.0:
            return self.cap if b >= 0.0 else 0.0
        return min(max(-b / (2 * c), 0.0), self.cap)

    def gain(self, w: Array) -> Array:
        """K(w), the most that the record adds to the Hessian along x, relative to the ridge."""
        a, b, c = self.law
        s = np.minimum(w * (self.sigma / self.radius), self.cap)
        return np.asarray(self.radius**2 / self.l2 * np.maximum(a + s * (b + s * c), 0.0))

    @property
    def top_gain(self) -> float:
        """Largest K."""
        return float(self.gain(np.array([self.peak * self.radius / self.sigma]))[0])


def profile_curve(s: Setting, relation: str, accounting: str) -> Curve:
    """The curve of the exact minimiser under a relation, in both directions."""
    if accounting == "paper":
        return symmetric(lambda e: _paper(e, s))
    if accounting == "published":
        both = symmetric(lambda e: _published(e, s))
        return both if relation == "zero_out" else chain(both, both, s.mu**2 / 2)
    sharp = accounting == "sharp"
    if relation == "zero_out":
        remove, add = directions(s, sharp, _CELLS)
        return symmetric(lambda e: np.maximum(remove(e), add(e)))
    return chain(*directions(s, sharp, _CELLS // 2), s.mu**2 / 2)


def directions(s: Setting, sharp: bool, cells: int = _CELLS) -> tuple[Curve, Curve]:
    """Curves of remove and of add, by the sharp or the coupled bound."""
    w = np.linspace(0, s.mu, _LINES + 1)
    lines = lines_above(w, np.log1p(s.gain(w)))

    def remove(e: Array) -> Array:
        return np.asarray(np.fmin(lines.delta(e), _sharp(e, s, lines.start(e), cells))) if sharp else lines.delta(e)

    def add(e: Array) -> Array:
        return _add(e, s)

    return both_signs(remove, add), both_signs(add, lines.delta)


# Remove: coupled and sharp bounds (Theorems 4 and 5) ---------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """z -> max_j shift_j + slope_j^2/2 + slope_j z, an upper bound on the privacy loss where the noise is z."""

    slope: Array
    shift: Array

    def start(self, eps: Array) -> Array:
        """A point below which the loss is at most eps, rounded down."""
        with np.errstate(over="ignore"):
            z = ((eps[:, None] - self.shift[1:] - self.slope[1:] ** 2 / 2) / self.slope[1:]).min(axis=1)
        return np.asarray(np.where(self.shift[0] > eps, -np.inf, z - 1e-12 * (1 + np.abs(z))))

    def delta(self, eps: Array) -> Array:
        """E (1 - e^{eps - loss(Z)})_+, integrated exactly piece by piece."""
        keep, breaks = self._envelope
        a, c = self.slope[keep], self.shift[keep]
        left, right = np.append(-np.inf, breaks), np.append(breaks, np.inf)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = np.where(a > 0, (eps[:, None] - c - a**2 / 2) / a, np.where(c > eps[:, None], -np.inf, np.inf))
            low = np.minimum(np.maximum(left, root), right)
            mass = ndtr(-low) - ndtr(-right)
            other = np.exp(np.minimum(eps[:, None] - c, 700.0)) * (ndtr(-low - a) - ndtr(-right - a))
            total = np.where(low < right, mass - other, 0.0).sum(axis=1)
            first = np.where(low < right, low, np.inf).min(axis=1)
        return np.asarray(np.clip(total + ROUND * ndtr(-first), 0, 1))

    @cached_property
    def _envelope(self) -> tuple[list[int], Array]:
        """Indices and break points of the upper envelope; slopes increase."""
        a, h = self.slope.tolist(), (self.shift + self.slope**2 / 2).tolist()
        keep: list[int] = []
        breaks: list[float] = []
        for j in range(len(a)):
            while keep:
                x = (h[keep[-1]] - h[j]) / (a[j] - a[keep[-1]])
                if not breaks or x > breaks[-1]:
                    breaks.append(x)
                    break
                keep.pop()
                breaks.pop()
            keep.append(j)
        return keep, np.array(breaks)


def lines_above(slope: Array, log_gain: Array) -> Lines:
    """Lines above max_q C(q) + q^2/2 + q z for a concave C known at equally spaced q.

    On each cell the chord of the cell before, extended, lies above C, and affine plus convex is largest at the ends.
    """
    c = log_gain
    shift = np.concatenate(([max(c[0], 2 * c[1] - c[2])], c[1:2], np.maximum(2 * c[1:-1] - c[:-2], c[2:])))
    return Lines(slope, shift + 1e-14)


def _sharp(eps: Array, s: Setting, start: Array, cells: int) -> Array:
    """int_0^mu sup_{u >= start} Psi(u, w) dw, bounded at the right end of each cell (eps >= 0)."""
    z2 = float(np.clip((np.median(eps) / s.mu) ** 2, 4.0, 60.0))
    t = np.linspace(0, 1, cells // 2 + 1)
    graded = 1 + 2 / z2 * np.log1p(-t * -np.expm1(-z2 / 2 * 0.9))  # finer towards mu, where the mass is
    node = s.mu * np.unique(np.concatenate((t, graded)))
    low, high = node[:-1], node[1:]
    gain = s.gain(np.clip(s.peak * s.radius / s.sigma, low, high)) * (1 + 1e-13)
    e = eps[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        up_low = np.where(low > 0, e / low - low / 2, np.where(e > 0, np.inf, 0.0))
        up_high = e / high - high / 2
        flat = gain * up_low <= low  # Psi = phi(u+) on the whole cell: the integral is a Gaussian difference
        exact = np.diff(np.where(node > 0, gaussian_curve(e, np.maximum(node, 1e-300)), 0.0), axis=1)
        crossed = _phi(np.maximum(-up_low, 0.0))  # u+ <= 0 somewhere on the cell
        cell = np.where(up_high > 0, _psi(e, high, gain, up_high, start[:, None]), crossed)
        total = np.where(flat, np.maximum(exact, 0.0), cell * (high - low))
        if not s.monotone:  # slopes of the other sign, which only act on the wrong half line
            at_zero = np.maximum(_phi(0.0) * (1 + 1 / gain) - np.exp(e) / gain * _phi(high), 0.0)
            total = total + np.where(up_high > 0, np.where(gain > 0, at_zero, 0.0), crossed) * (high - low)
    reach = ndtr(s.mu / 2 - eps / s.mu)
    return np.asarray(np.clip(total.sum(axis=1) * (1 + 1e-9) + 2 * ROUND * reach, 0, 1))


def _phi(x: Array | float) -> Array:
    return np.asarray(np.exp(-np.square(x) / 2) * 0.3989422804014327)


def _psi(e: Array, w: Array, k: Array, up: Array, start: Array) -> Array:
    """Largest Psi(u, w) over u >= start, given u+ = up > 0; Newton from the left stays below the stationary point."""
    out = _phi(up)
    active = (k * up > w) & (start < up)
    w, k, start, e = (np.broadcast_to(v, active.shape)[active] for v in (w, k, start, e))
    shift = w * w / 2 - e + np.log1p(k)
    u = np.where(shift < 0, -shift / w, np.minimum(1 / w, w / np.expm1(np.minimum(shift, 600.0) + 1)))
    for _ in range(6):
        u = np.maximum(u, u - (w * u + shift - np.log1p(w / u)) / (w + w / (u * (u + w))))
    u = np.maximum(u * (1 - 1e-9), start)
    peak = (1 + 1 / k) * _phi(u) * w / (u + w)
    past = (start > 0) & (w * start + shift >= np.log1p(w / np.where(start > 0, start, 1.0)))
    late = (1 + (1 + 1e-12) / k) * _phi(start) - np.exp(e) / k * _phi(start + w)
    out[active] = np.maximum(np.where(past, late, peak), out[active])
    return out


# Add (Propositions 3 and 6) ----------------------------------------------------------------------------------------


def _add(e: Array, s: Setting) -> Array:
    one_sided = gaussian_curve(e, s.mu)
    if s.monotone:
        return one_sided
    other = gaussian_curve(e, (s.width - s.cap) * s.radius / s.sigma)
    tails = one_sided + np.minimum(other, _other_tail(e, s.mu, s.top_gain))
    return np.asarray(np.clip(np.where(2 * e >= s.mu**2, tails, _folded(e, s.mu)), 0, 1))


def _folded(e: Array, mu: float) -> Array:
    """1 - 2 e^eps Phi(-mu), the bound where the privacy loss exceeds eps everywhere."""
    return np.asarray(1 - 2 * np.exp(np.minimum(e, mu * mu / 2)) * ndtr(-mu) * (1 - ROUND))


def _other_tail(e: Array, mu: float, gain: float) -> Array:
    """Mass of the second tail when the slope turns at a rate of at most `gain`, for 2 eps >= mu^2."""
    full = gaussian_curve(e, mu)
    if gain <= 0:
        return np.zeros_like(full)
    turn = mu / gain
    v = np.sqrt(e / (gain + gain * gain / 2)) * (1 - 1e-13)
    part = ndtr(-v) - np.exp(e) / (1 + gain) * (ndtr(-(1 + gain) * v) - ndtr(-(1 + gain) * turn))
    part = part - np.exp(e) * ndtr(-turn - mu) + ROUND * ndtr(-v)
    return np.asarray(np.where(v < turn, np.clip(part, 0, full), full))


# Published bounds, for comparison (Propositions 7 and 11) -----------------------------------------------------------


def _published(e: Array, s: Setting) -> Array:
    """Redberg, Koskela, Wang 2023; needs l2 above the largest Hessian of a record."""
    if s.top_gain >= 1:
        return np.ones_like(e)
    e = e + np.log1p(-s.top_gain)
    return np.asarray(np.clip(np.where(2 * e >= s.mu**2, 2 * gaussian_curve(e, s.mu), _folded(e, s.mu)), 0, 1))


def _paper(e: Array, s: Setting) -> Array:
    """Su, Zhao, Wang 2023 with constants that hold: the loss is below eps unless b is large along one of the rows."""
    spare = e - np.log1p(s.top_gain) * (1 + 1e-14) - 2 * s.mu**2
    return np.asarray(np.minimum(4 * ndtr(-spare / (2 * s.mu)) * (1 + 1e-10), 1.0))


# Softmax (Proposition 10) ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftmaxSetting:
    """Number of classes, row bound, ridge weight and noise of a softmax whose K x d weights are fitted jointly."""

    classes: int
    radius: float
    l2: float
    sigma: float

    @property
    def mu(self) -> float:
        """Largest shift, in standard deviations."""
        return 2**0.5 * self.radius / self.sigma


def softmax_curve(s: SoftmaxSetting, relation: str) -> Curve:
    """The curve of the exact minimiser under a relation, in both directions."""
    miss = np.linspace(0, 1, _LINES + 1)
    log_gain = np.maximum(softmax_log_gain(miss, s.classes, s.radius**2 / s.l2), 0.0)
    lines, count = lines_above(miss * s.mu, log_gain), s.classes - 1

    def remove(e: Array) -> Array:
        return np.asarray(np.fmin(np.minimum(count * lines.delta(e), 1.0), _softmax_gaps(e, s)))

    def add(e: Array) -> Array:
        return np.asarray(np.minimum(count * gaussian_curve(e, s.mu), 1.0))

    if relation == "zero_out":
        return symmetric(lambda e: np.maximum(remove(e), add(e)))
    return chain(both_signs(remove, add), both_signs(add, remove), s.mu**2 / 2)


def softmax_log_gain(miss: Array, classes: int, ratio: float) -> Array:
    """Largest log det(I + ratio (diag p - p p')) over p with 1 - p_y = miss; concave in miss."""
    rest, own = miss / (classes - 1), 1 - miss
    inner = own / (1 + ratio * own) + miss / (1 + ratio * rest)
    return np.asarray(np.log1p(ratio * own) + (classes - 1) * np.log1p(ratio * rest) + np.log(inner))


def _softmax_gaps(eps: Array, s: SoftmaxSetting, cells: int = 500) -> Array:
    """Union of Gaussians plus the expected log-determinant, which needs a second class near the first one.

    Holds at eps >= 0; 1 where the log-determinant alone may exceed eps.
    """
    k, mu = s.classes, s.mu
    plain = gaussian_curve(eps, mu)
    bend = (s.radius**2 / s.l2 - mu * mu / 4) * (1 + 1e-13)
    if bend <= 0:
        return np.asarray(np.minimum((k - 1) * plain, 1.0))
    out, above = np.ones(len(eps)), bend * (1 - 1 / k) <= eps
    more = np.empty(int(above.sum()))
    _compiled_gaps()(eps[above], k, mu, bend, ROUND, np.linspace(1, 0, cells + 1), np.linspace(0, 1, cells + 1), more)
    out[above] = np.minimum((k - 1) * (plain[above] + more), 1.0)
    return out


def _gaps(
    eps: Array, classes: int, mu: float, bend: float, round_: float, fall: Array, rise: Array, out: Array
) -> None:
    """What the log-determinant adds to the delta of one Gaussian: cells below the turn, above it, and the tail."""
    cells = len(fall) - 1
    most = bend * (1 - 1 / classes)
    top, width, root = 2 * bend, mu * 0.75**0.5, 0.5**0.5

    def excess(z: float) -> float:
        # E min(Y_+^2, top^2) for Y ~ N(top - mu z / 2, width^2)
        t, c = (top - mu * z / 2) / width, -z / 3**0.5
        at_t, at_c = 0.5 * math.erfc(-t * root), 0.5 * math.erfc(-c * root)
        phi_t, phi_c = math.exp(-t * t / 2) * 0.3989422804014327, math.exp(-c * c / 2) * 0.3989422804014327
        square = (t * t + 1) * at_t + t * phi_t
        beyond = (c * c + 1) * at_c + c * phi_c + 2 * top / width * (c * at_c + phi_c)
        near = width**2 * (square - beyond + 1e-12 * (1 + t * t) * at_t + 1e-30)
        own = max(top - (mu * z + mu * mu / 2), 0.0) ** 2
        both: float = min(((classes - 2) * min(max(near, 0.0), top**2) + own) / (8 * bend), most)
        return both

    for i in range(len(eps)):
        turn = (eps[i] - mu * mu / 2) / mu  # the Gaussian part of the loss passes eps here
        first = turn - most / mu * fall[0]
        total, z, tail = 0.0, first, 0.5 * math.erfc(first * root)
        rest = round_ * tail / cells
        for j in range(cells):
            after = turn - most / mu * fall[j + 1]
            beyond = 0.5 * math.erfc(after * root)
            mass = (tail - beyond) * (1 + 1e-9) + rest
            total += mass * (mu * (after - first) / most) * excess(z)
            z, tail = after, beyond
        z, tail = turn, 0.5 * math.erfc(turn * root)
        rest = round_ * tail / cells
        for j in range(cells):
            after = turn + 8 * rise[j + 1] ** 2
            beyond = 0.5 * math.erfc(after * root)
            mass = (tail - beyond) * (1 + 1e-9) + rest
            total += mass * math.exp(-mu * (z - turn)) * -math.expm1(-excess(z))
            z, tail = after, beyond
        out[i] = total + tail


@functools.cache
def _compiled_gaps() -> Callable[..., None]:
    from dpconvex.compiling import compile_cached  # not needed by those who fit no softmax

    return compile_cached(_gaps)
