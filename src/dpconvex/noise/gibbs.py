"""Gibbs laws of linear losses: exp(-<tilt, x> - (curvature / 2) |x|^2) on a ball or a box, drawn exactly.

On a ball, the coordinate along -tilt and the length of the other coordinates have log-concave densities. On a box,
coordinates are independent. On an interval the sum may include losses with a kink, and so may every coordinate on a
box. All of these are drawn on a lattice of 2^60 places, by rejection under steps whose areas are whole numbers: up to
the error of the logarithm of the density in float64, a place has the density at its middle. On a ball in several
dimensions the vector itself is computed in float64. Formulas and errors: docs/proofs/lazy_gibbs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import erfcx

from dpconvex.compiling import compile_cached
from dpconvex.errors import InputError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Box, Domain, L2Ball

_FLAT = 1e-100  # a curvature below this changes the law by less than this in total variation
PLACES = 2**60  # cells of equal width on an interval: what is drawn is one of them
_STEPS = 1000  # under which a density lies, at most, to either side
_DEPTH = 60.0  # they end where the density is below e^-60 of its maximum
_SCALE = 2.0**30  # heights are whole numbers of this unit
_UNLIKE = 16  # widths of steps to either side differ by a factor of at most 2^16
_MARGIN = 1e-6  # by how much steps lie higher than they have to: far more than float64 loses
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, eq=False)
class GibbsBall:
    """Density proportional to exp(-<tilt, x> - (curvature / 2) |x|^2) on the ball |x| <= radius.

    Parameters
    ----------
    tilt : array of length d
    curvature : float
        At least 0.
    radius : float

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> law = GibbsBall(np.array([0.0, 5.0]), 1.0, 1.0)
    >>> x = law.draw(Source().stream("x"), 1000)
    >>> x.shape, bool((np.linalg.norm(x, axis=1) <= 1.0).all()), bool(x[:, 1].mean() < -0.5)
    ((1000, 2), True, True)
    """

    tilt: np.ndarray
    curvature: float
    radius: float
    tv_error: ClassVar[float] = 0.0  # in exact arithmetic

    def __post_init__(self) -> None:
        _check(self.tilt, self.curvature)
        if not 0.0 < self.radius < math.inf:
            raise InputError("radius must be positive and finite")

    @property
    def domain(self) -> L2Ball:
        """Domain of the points."""
        return L2Ball(self.radius)

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        d, norm = self.tilt.size, float(np.linalg.norm(self.tilt))
        if d == 1:  # from one end of the interval, wherever the density is largest
            return GibbsBox(self.tilt, self.curvature, -self.radius, self.radius).draw(stream, count)
        k, a, c = (d - 1) / 2.0, norm * self.radius, self.curvature * self.radius**2
        c = c if c > _FLAT else 0.0
        gap, push = (max(0.0, (c - a) / c), max(a - c, 0.0)) if c > 0.0 else (0.0, a)
        v = 2.0 * _middle(_rejection(stream, 0, np.tile([k, c, gap, push], (count, 1)), 2.0))  # the coordinate is 1 - v
        axis = -self.tilt / norm if norm > 0.0 else np.eye(1, d)[0]
        x = np.outer(1.0 - v, axis)
        left = v * (2.0 - v)
        rest = _middle(_rejection(stream, 1, np.column_stack([np.full(count, d - 2.0), c * left, left, left]), 1.0))
        across = standard_normal(stream, (count, d))
        for _ in range(2):  # a second time, to remove what rounding left
            across -= np.outer(across @ axis, axis)
        x += across * (rest * np.sqrt(left) / np.linalg.norm(across, axis=1))[:, None]
        return self.radius * x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]

    def log_ratio(self, tilt: np.ndarray) -> float:
        """Logarithm of the normalising constant under another tilt, minus that under this one.

        It is a series of positive terms, truncated where less than 1e-17 of it is left.
        """
        old, new = float(np.linalg.norm(self.tilt)), float(np.linalg.norm(tilt))
        if old + new == 0.0:
            return 0.0
        change = float((tilt - self.tilt) @ ((tilt + self.tilt) / (old + new)))
        c = self.curvature * self.radius**2
        return float(_log_ratio(old * self.radius, change * self.radius, c if c > _FLAT else 0.0, self.tilt.size / 2.0))


@dataclass(frozen=True, eq=False)
class GibbsBox:
    """Density proportional to exp(-<tilt, x> - (curvature / 2) |x|^2) where all coordinates lie between lo and hi.

    Parameters
    ----------
    tilt : array of length d
    curvature : float
        At least 0.
    lo, hi : float
        lo < hi.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> law = GibbsBox(np.array([0.0, 1e9]), 0.0, -1.0, 1.0)
    >>> bool(abs(law.draw(Source().stream("x"))[0, 1] + 1.0) < 1e-7)
    True
    """

    tilt: np.ndarray
    curvature: float
    lo: float
    hi: float
    tv_error: ClassVar[float] = 0.0  # in exact arithmetic

    def __post_init__(self) -> None:
        _check(self.tilt, self.curvature)
        if not -math.inf < self.lo < self.hi < math.inf:
            raise InputError("lo must be less than hi, and both finite")

    @property
    def domain(self) -> Box:
        """Domain of the points."""
        return Box(self.lo, self.hi)

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        mode, push, _, inward = self._unit(self.tilt)
        rows = np.column_stack([np.full(mode.size, self._curvature), mode, push, push])
        places = _rejection(stream, 2, np.tile(rows, (count, 1)), 1.0).reshape(count, mode.size)
        upwards = np.where(inward > 0.0, places, PLACES - 1 - places)  # from lo, wherever the density is largest
        return np.clip(self.lo + (self.hi - self.lo) * _middle(upwards), self.lo, self.hi)

    @property
    def _curvature(self) -> float:
        """Curvature of the potential on a box rescaled to width 1."""
        c = self.curvature * (self.hi - self.lo) ** 2
        return c if c > _FLAT else 0.0

    def _unit(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Mode (as a distance from an end), the slope there (0 unless it is the end), the end, and the way inwards."""
        width, c = self.hi - self.lo, self._curvature
        low, high = (tilt * width + c * (at / width) for at in (self.lo, self.hi))  # slopes at the ends
        mode = np.where((low < 0.0) & (high > 0.0), -low / c if c > 0.0 else 0.0, 0.0)
        above = high <= 0.0
        push = np.where(above, -high, np.where(low >= 0.0, low, 0.0))
        return mode, push, np.where(above, self.hi, self.lo), np.where(above, -1.0, 1.0)

    def log_ratio(self, tilt: np.ndarray) -> float:
        """Logarithm of the normalising constant under another tilt, minus that under this one, in closed form."""
        scale = self.hi - self.lo
        (mode, push, end, inward), (other, pull, stop, sense) = self._unit(self.tilt), self._unit(tilt)
        old, new = end + inward * scale * mode, stop + sense * scale * other
        depth = np.where(  # least potential of the new law minus that of the old one
            old == new,
            (tilt - self.tilt) * old,
            tilt * new - self.tilt * old + 0.5 * self.curvature * (new - old) * (new + old),
        )
        return float((self._log_mass(other, pull) - self._log_mass(mode, push) - depth).sum())

    def _log_mass(self, mode: np.ndarray, push: np.ndarray) -> np.ndarray:
        """Logarithm of the integral of exp(-push v - c (v - mode)^2 / 2) over [0, 1], where push or mode is 0."""
        c = self._curvature
        v = (1.0 + _NODES) / 2.0
        flat = np.minimum(push, 1.0)[:, None] * v + 0.5 * min(c, 1.0) * (v - mode[:, None]) ** 2
        by_rule = np.log(np.exp(-flat) @ _WEIGHTS / 2.0)  # exact up to rounding where push and c are at most 1
        if c == 0.0:
            steep = np.maximum(push, 1.0)
            return np.where(push > 1.0, np.log(-np.expm1(-steep) / steep), by_rule)
        root = math.sqrt(c / 2.0)
        near, beyond = push / (2.0 * root), 1.0 - mode
        far = np.exp(-push - 0.5 * c * beyond**2) * erfcx(near + root * beyond)
        before = 1.0 - np.exp(-0.5 * c * mode**2) * erfcx(root * mode)
        whole = (erfcx(near) - far + before) * math.sqrt(math.pi) / (2.0 * root)
        closed = (push > 1.0) | (c > 1.0)
        return np.where(closed, np.log(np.where(closed, whole, 1.0)), by_rule)


@dataclass(frozen=True, eq=False)
class GibbsInterval:
    """Density proportional to exp(-V(x) - (curvature / 2) (x - centre)^2) on [lo, hi], V convex and piecewise linear.

    V(x) = slope x + sum_i weights_i max(x - kinks_i, 0): a sum of linear, absolute and hinge losses, up to a constant.

    Parameters
    ----------
    slope : float
    kinks, weights : arrays of the same length
        In any order; weights are at least 0.
    curvature, centre : float
        The curvature is at least 0.
    lo, hi : float
        lo < hi.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> law = GibbsInterval(-50.0, np.array([0.25]), np.array([100.0]), 1.0, 0.0, -1.0, 1.0)  # 50 |x - 0.25|
    >>> bool(abs(law.draw(Source().stream("x"), 1000).mean() - 0.25) < 0.01)
    True
    """

    slope: float
    kinks: np.ndarray
    weights: np.ndarray
    curvature: float
    centre: float
    lo: float
    hi: float
    tv_error: ClassVar[float] = 0.0  # in exact arithmetic

    def __post_init__(self) -> None:
        _check(np.append(np.asarray(self.weights, dtype=float), self.slope), self.curvature)
        if not -math.inf < self.lo < self.hi < math.inf:
            raise InputError("lo must be less than hi, and both finite")
        if np.shape(self.kinks) != np.shape(self.weights) or not np.isfinite(self.kinks).all():
            raise InputError("kinks must be finite, one per weight")
        if np.size(self.weights) and np.min(self.weights) < 0.0:
            raise InputError("weights must be at least 0: the potential would not be convex")

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        order = np.argsort(self.kinks, kind="stable")
        kinks, weights = np.asarray(self.kinks)[order] - self.lo, np.asarray(self.weights)[order]
        head = [self.curvature, self.centre - self.lo, kinks.size, self.slope]
        row = np.concatenate([head, kinks, running(weights), running(weights * kinks)])
        places = _rejection(stream, 3, np.broadcast_to(row, (count, row.size)), self.hi - self.lo)
        return np.clip(self.lo + (self.hi - self.lo) * _middle(places), self.lo, self.hi)[:, None]


@dataclass(frozen=True, eq=False)
class GibbsProduct:
    """Independent coordinates, each with the law of a `GibbsInterval`: for losses on a box that sum over coordinates.

    Parameters
    ----------
    parts : tuple of GibbsInterval
        One per coordinate.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> none = np.zeros(0)
    >>> parts = [GibbsInterval(slope, none, none, 1.0, 0.0, -1.0, 1.0) for slope in (0.0, 1e9)]
    >>> x = GibbsProduct(tuple(parts)).draw(Source().stream("x"), 5)
    >>> x.shape, bool(abs(x[:, 1] + 1.0).max() < 1e-7)
    ((5, 2), True)
    """

    parts: tuple[GibbsInterval, ...]
    tv_error: ClassVar[float] = 0.0  # in exact arithmetic

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, GibbsInterval) for part in self.parts):
            raise InputError("parts must hold at least one law, each a GibbsInterval")

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        return np.hstack([part.draw(stream, count) for part in self.parts])


def gibbs_law(domain: Domain, tilt: np.ndarray, curvature: float) -> GibbsBall | GibbsBox:
    """The law with density proportional to exp(-<tilt, x> - (curvature / 2) |x|^2) on a ball or a box.

    Examples
    --------
    >>> gibbs_law(Box(-1.0, 1.0), np.zeros(2), 1.0).domain
    Box(lo=-1.0, hi=1.0)
    """
    if domain.traits.interval is None:
        return GibbsBall(tilt, curvature, domain.traits.radius)
    return GibbsBox(tilt, curvature, *domain.traits.interval)


def _check(tilt: np.ndarray, curvature: float) -> None:
    if not isinstance(tilt, np.ndarray) or tilt.ndim != 1 or tilt.size < 1 or tilt.dtype != np.float64:
        raise InputError("tilt must be a vector of float64, with at least one entry")
    if not np.abs(tilt).max() < 1e150:
        raise InputError("tilt has entries that are not finite, or beyond 1e150")
    if not 0.0 <= curvature < math.inf:
        raise InputError("curvature must be finite, and at least 0")


def uniform(stream: Stream, count: int) -> np.ndarray:
    """Numbers strictly between 0 and 1, from 53 bits each.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> uniform(Source().stream("x"), 3).shape
    (3,)
    """
    return ((stream.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _rejection(stream: Stream, kind: int, rows: np.ndarray, end: float) -> np.ndarray:
    """Places of one variate on [0, end] per row of parameters: in which of `PLACES` cells of equal width it lies."""
    out, done = np.empty(rows.shape[0], dtype=np.int64), 0
    while done < out.size:
        done = _fill(kind, rows, end, stream.words(12 * (out.size - done) + 36), out, done)
    return out


def _middle(places: np.ndarray) -> np.ndarray:
    """Middle of each cell, from 0 to 1."""
    return (places + 0.5) / PLACES


def _running(values):
    """Running sums, each right to a few units in the last place of the sum of absolute values."""
    out, high, low = np.empty(values.shape[0]), 0.0, 0.0
    for i in range(values.shape[0]):
        whole = high + values[i]
        share = whole - high
        low += (high - (whole - share)) + (values[i] - share)
        high = whole
        out[i] = high + low
    return out


running = compile_cached(_running)


def _lower(k, q):
    """Logarithm of the regularised lower incomplete gamma function P(k, q), and k / (q (log P)'), for k, q > 0."""
    if q <= k + 1.0:
        term = total = 1.0
        n = k
        while term > 1e-17 * total:
            n += 1.0
            term *= q / n
            total += term
        return k * math.log(q) - q - math.lgamma(k + 1.0) + math.log(total), 1.0 / total
    front = k * math.log(q) - q - math.lgamma(k + 1.0)
    b = q + 1.0 - k  # the continued fraction of 1 - P, evaluated forwards (Lentz)
    c, d = 1e300, 1.0 / b
    h = d
    for i in range(1, 100000):
        a = -i * (i - k)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    log = math.log1p(-k * math.exp(front) * h)
    return log, math.exp(front - log)


_lower = compile_cached(_lower)


def _log_density(kind, p, v):
    """Logarithm of a density, and its slope.

    Kinds: 0 a coordinate in a ball, 1 the length of the others, 2 a coordinate in a box, 3 a coordinate with kinks.
    """
    if kind == 0:
        k, c, s = p[0], p[1], p[2] - v
        value, slope = s * (p[3] - 0.5 * c * s), c * s - p[3]
        if k > 0.0:
            left = v * (2.0 - v)
            if left <= 0.0:
                return -math.inf, -math.inf
            log, part = k * math.log(left), 1.0
            if c > 0.0:
                log, part = _lower(k, 0.5 * c * left)
            value += log
            slope += 2.0 * k * (1.0 - v) / left * part
        return value, slope
    if kind == 1:
        if p[0] == 0.0:
            return -0.5 * p[1] * v * v, -p[1] * v
        if v <= 0.0:
            return -math.inf, math.inf
        return p[0] * math.log(v) - 0.5 * p[1] * v * v, p[0] / v - p[1] * v
    if kind == 3:
        size, s = int(p[2]), v - p[1]
        low, high = 0, size  # how many kinks lie before v
        while low < high:
            j = (low + high) // 2
            if p[4 + j] <= v:
                low = j + 1
            else:
                high = j
        slope, back = p[3], 0.0
        if low > 0:
            slope += p[3 + size + low]
            back = p[3 + 2 * size + low]
        return back - slope * v - 0.5 * p[0] * s * s, -slope - p[0] * s
    s = v - p[1]
    return -p[2] * v - 0.5 * p[0] * s * s, -p[2] - p[0] * s


_log_density = compile_cached(_log_density)


def _aside(kind, p, m, top, end):
    """A point between m and `end` where the logarithm is 0.7 to 3 below its value at m, if there is one."""
    near, far, found = 0.0, end - m, False
    step = 0.5 * far
    for _ in range(200):
        drop = top - _log_density(kind, p, m + step)[0]
        if drop > 3.0:
            far, found = step, True
            step = 0.5 * (near + far) if near != 0.0 else 0.25 * far
        elif drop < 0.7 and (found or abs(far - step) > 0.1 * abs(far)):
            near = step
            step = 0.5 * (near + far)
        else:
            break
    return m + step


_aside = compile_cached(_aside)


def _mode(kind, p, end):
    """A point where the logarithm is at most 0.5 below its maximum, with value and slope."""
    low, high, m = 0.0, end, 0.5 * end
    top, flat = _log_density(kind, p, m)
    while abs(flat) * (high - low) > 0.5 and high - low > 1e-15 * high:
        if flat > 0.0:
            low = m
        else:
            high = m
        if low == 0.0:
            m = high / 16.0
        elif high > 16.0 * low:
            m = math.sqrt(low * high)
        else:
            m = 0.5 * (low + high)
        top, flat = _log_density(kind, p, m)
    return m, top, flat


_mode = compile_cached(_mode)


def _steps(kind, p, end, m, top, flat, way, bits, heights):
    """Fill heights of the steps of 2^bits cells from m upwards or downwards that lie above the density; how many.

    A logarithm that is concave lies below its tangents at m and at a point aside of it.
    """
    unit, side = end / PLACES, _aside(kind, p, m, top, end if way > 0 else 0.0)
    at, slope = _log_density(kind, p, side)
    sure = math.isfinite(at) and math.isfinite(slope)
    wide = way * unit * 2.0**bits
    count, a = 0, np.floor(m / unit) * unit
    while count < heights.shape[0] and (end - a if way > 0 else a) > 0.0:
        b = a + wide
        bound = max(flat * (a - m), flat * (b - m))
        if sure:
            bound = min(bound, at - top + max(slope * (a - side), slope * (b - side)))
        if bound < -_DEPTH:
            break
        heights[count] = np.int64(math.exp(bound + _MARGIN) * _SCALE) + 1
        count, a = count + 1, b
    return count


def _width(kind, p, end, m, top, way):
    """Logarithm of the width of steps to one side, in cells: a quarter to a half of the way to a point aside."""
    near = abs(_aside(kind, p, m, top, end if way > 0 else 0.0) - m) / end * PLACES
    return min(max(int(math.log2(max(near, 1.0))) - 1, 0), 59)


_steps, _width = compile_cached(_steps), compile_cached(_width)


def _fill(kind, rows, end, words, out, done):
    """Draw out[done:] by rejection under steps until the words are used up; return how many are done.

    A step is chosen with exactly the probability of its area, a whole number, and a cell in it uniformly. So cells have
    the density at their middles, up to the error of its logarithm in float64.
    """
    heights, sums, used, last = np.empty((2, _STEPS), dtype=np.int64), np.empty(2 * _STEPS, dtype=np.int64), 0, -1
    up = down = total = shift = right = 0
    m = top = flat = 0.0
    while done < out.shape[0]:
        p = rows[done]
        if last < 0 or not (p == rows[last]).all():
            m, top, flat = _mode(kind, p, end)
            up, down = _width(kind, p, end, m, top, 1), _width(kind, p, end, m, top, -1)
            up, down = max(up, down - _UNLIKE), max(down, up - _UNLIKE)
            right = _steps(kind, p, end, m, top, flat, 1, up, heights[0])
            left = _steps(kind, p, end, m, top, flat, -1, down, heights[1])
            total, least = 0, min(up, down)
            for i in range(right + left):
                if i < right:
                    total += heights[0, i] << (up - least)
                else:
                    total += heights[1, i - right] << (down - least)
                sums[i] = total
            shift, last = 0, done
            while (total >> (64 - shift - 1)) == 0 and shift < 63:
                shift += 1
        begin, accepted = np.int64(math.floor(m / end * PLACES)), False
        while not accepted:
            if used + 3 > words.shape[0]:
                return done  # tries that failed are forgotten: the next ones are independent of them
            pick = np.int64(words[used] >> np.uint64(shift))
            if pick < total:
                i = int(np.searchsorted(sums[: right + left], pick, side="right"))
                bits = up if i < right else down
                within = np.int64(words[used + 1] >> np.uint64(64 - bits)) if bits > 0 else np.int64(0)
                if i < right:
                    place, height = begin + (np.int64(i) << bits) + within, heights[0, i]
                else:
                    place, height = begin - (np.int64(i - right + 1) << bits) + within, heights[1, i - right]
                if 0 <= place < PLACES:
                    gap = _log_density(kind, p, (place + 0.5) * (end / PLACES))[0] - top - math.log(height / _SCALE)
                    accepted = math.log((np.float64(words[used + 2]) + 0.5) * 2.0**-64) <= gap
                    out[done] = place
            used += 3
        done += 1
    return done


_fill = compile_cached(_fill)


def _log_term(a, x, h, j):
    """Logarithm of term j of the series of the normalising constant, and 1 / E(h + j, x)."""
    k = h + j
    log = 2.0 * j * math.log(0.5 * a) if j > 0.0 else 0.0
    log -= math.lgamma(j + 1.0) + math.lgamma(k + 1.0)
    if x == 0.0:
        return log, 1.0
    lower, part = _lower(k, x)
    return log + lower + x - k * math.log(x) + math.lgamma(k + 1.0), part


_log_term = compile_cached(_log_term)


def _series(a, x, h, shift):
    """Logarithm of sum_j c_j, and sum_j c_j expm1(2 j shift) / sum_j c_j, where c_j is term j."""
    if a == 0.0:
        return _log_term(a, x, h, 0.0)[0], 0.0
    low, high = 0.0, math.floor(0.5 * a) + 1.0  # the largest term: c_{j+1} < c_j from a / 2 on
    while high - low > 1.0:
        j = math.floor(0.5 * (low + high))
        if _log_term(a, x, h, j)[0] > _log_term(a, x, h, j - 1.0)[0]:
            low = j
        else:
            high = j
    top, step = _log_term(a, x, h, low)[0], 8.0
    while _log_term(a, x, h, low + step)[0] > top - 45.0:
        step *= 1.3
    j = math.floor(low + step)
    log, part = _log_term(a, x, h, j)
    term = total = most = 1.0
    moved = math.expm1(2.0 * j * shift)
    while j > 0.0 and (term > 1e-20 * most or j > low):  # downwards E(k) = 1 + x E(k + 1) / (k + 1) is stable
        j -= 1.0
        rise = part + x / (h + j + 1.0)
        part /= rise
        term *= (j + 1.0) * (h + j + 1.0) / (0.25 * a * a) * rise
        most = max(most, term)
        total += term
        if j > 0.0:
            moved += term * math.expm1(2.0 * j * shift)
    return log + math.log(total), moved / total


_series = compile_cached(_series)


def _log_ratio(a, change, c, h):
    """Logarithm of Z(a + change) / Z(a) on the unit ball in dimension 2 h, with curvature c."""
    more = max(a, a + change)
    if 0.0 < abs(change) <= 0.5:  # one series for both, so that rounding cancels
        shift = math.log1p(-abs(change) / more) if abs(change) < more else -math.inf
        ratio = math.log1p(_series(more, 0.5 * c, h, shift)[1])
        return -ratio if change > 0.0 else ratio
    return _series(max(a + change, 0.0), 0.5 * c, h, 0.0)[0] - _series(a, 0.5 * c, h, 0.0)[0]


_log_ratio = compile_cached(_log_ratio)
