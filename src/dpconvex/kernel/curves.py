"""Privacy curves: delta as a function of epsilon, for a whole array at once, and operations on them.

A curve bounds D(P || Q) = sup_S P(S) - e^epsilon Q(S) at every real epsilon, over a set of ordered pairs of laws.
Every operation keeps this property: the result is an upper bound for any grid; the grid affects only how tight it is.
Statements and error analysis: docs/proofs/objective_perturbation.md (chains, output noise, numerics) and compose.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpconvex.work import spend

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

ROUND = 1e-10  # rounding slack, relative to the mass of the event that was integrated
FLOOR = 1e-25  # no curve reports a smaller delta
TAIL = 9.0  # Gaussian mass beyond this many standard deviations is added to delta


def gaussian_curve(eps: Array, mu: float | Array) -> Array:
    """Delta of N(mu, 1) against N(0, 1) at every real epsilon, rounded up.

    Examples
    --------
    >>> f"{gaussian_curve(np.array([1.0]), 0.23670438)[0]:.4e}"
    '1.0000e-06'
    """
    mu = np.asarray(mu, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hit = ndtr(mu / 2 - eps / mu)
        out = hit - np.exp(eps) * ndtr(-mu / 2 - eps / mu) + ROUND * hit
    return np.asarray(np.clip(np.where(mu > 0, out, -np.expm1(eps)), 0, 1))


def cell_mass(z: Array) -> Array:
    """Standard normal mass between neighbouring points, computed from the nearer tail."""
    low, high = z[..., :-1], z[..., 1:]
    return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


def both_signs(forward: Curve, backward: Curve) -> Curve:
    """A curve from two bounds that hold at epsilon >= 0 only; `backward` is about the pairs in reverse order.

    With a = e^epsilon, D_a(P || Q) = 1 - a + a D_{1/a}(Q || P).
    """

    def curve(eps: Array) -> Array:
        spend()
        out = np.empty_like(eps, dtype=float)
        negative = eps < 0
        if not negative.all():
            out[~negative] = forward(eps[~negative])
        if negative.any():
            e = eps[negative]
            out[negative] = -np.expm1(e) * (1 + ROUND) + np.exp(e) * backward(-e)
        return np.asarray(np.clip(np.where(np.isnan(out), 1.0, out), FLOOR, 1))

    return curve


def symmetric(forward: Curve) -> Curve:
    """A curve from a bound that holds at epsilon >= 0 for the pairs in either order."""
    return both_signs(forward, forward)


def chain(first: Curve, second: Curve, scale: float) -> Curve:
    """Curve of two steps P -> M -> Q in either order: the smallest over e of both bounds of the proof note, Theorem 8.

    `scale`, about mu^2/2 of one step, is where the search starts. Every e is valid, so the search need not be accurate.
    """

    def bounds(eps: Array, e: Array) -> Array:
        one, gap = first(e), eps[:, None] - e
        two = second(gap.ravel()).reshape(gap.shape)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(one + np.exp(e) * two, two + np.exp(gap) * one))

    def best(eps: Array) -> Array:
        low, high = float(eps.min()), float(eps.max())
        e = np.linspace(low / 2 - scale, max(high, high / 2 + scale), 40)
        coarse = bounds(eps, e)
        at, step = e[coarse.argmin(axis=1)], e[1] - e[0]
        fine = bounds(eps, np.linspace(at.min() - step, at.max() + step, 24))
        return np.asarray(np.clip(np.minimum(coarse.min(axis=1), fine.min(axis=1)) * (1 + 1e-13), 0, 1))

    return symmetric(best)


def with_gaussian(curve: Curve, mu: float, nodes: int) -> Curve:
    """Composition with a mu-GDP mechanism: E curve(eps - mu^2/2 - mu Z), exact if the curve is Gaussian too.

    The divergence is convex in e^epsilon, so between nodes it lies below the chord of bounds at the nodes, and a chord
    integrates against the Gaussian in closed form.
    """
    if mu == 0.0:
        return curve
    z = np.linspace(-TAIL, TAIL, nodes)
    mass, tilted = cell_mass(z), cell_mass(z + mu)

    def total(eps: Array) -> Array:
        loss = eps[:, None] - mu**2 / 2 - mu * z
        value = curve(loss.ravel()).reshape(loss.shape)
        alpha = np.exp(loss - eps[:, None])  # in units of e^eps
        slope = np.minimum(np.diff(value, axis=1) / np.diff(alpha, axis=1), 0.0)
        # the chord, lifted so that it dominates both nodes after rounding
        base = np.maximum(value[:, :-1] - slope * alpha[:, :-1], value[:, 1:] - slope * alpha[:, 1:])
        inner = (base * mass + slope * tilted).sum(axis=1)
        slack = ROUND * (np.abs(base) * mass + np.abs(slope) * tilted).sum(axis=1)
        return np.asarray(np.clip(inner + slack + ndtr(-TAIL) * (1 + value[:, 0]), 0, 1))

    return symmetric(total)


# Composition on a grid (docs/proofs/compose.md) --------------------------------------------------------------------

_CUT = 1e-20  # where the grid of a curve ends
_TRIM = 1e-22  # mass dropped at either end of a composition, rounded to the safe side
_LONGEST = 4096  # beyond this number of masses the grid is made coarser
_UP = 1 + 1e-15  # rounds up a number whose error is a few units in the last place


class Loss(NamedTuple):
    """The bound lost + sum_k mass_k (1 - e^(epsilon - s_k))_+ on a curve, at losses s_k = (bottom + k) 2^level."""

    level: int
    bottom: int
    mass: Array
    lost: float

    def curve(self, eps: Array) -> Array:
        """Upper bound on delta at every real epsilon."""
        at = float(np.ldexp(1.0, self.level)) * (self.bottom + np.arange(len(self.mass)))
        gain = -np.expm1(np.minimum(eps[:, None] - at, 0.0))
        return np.asarray(np.minimum((gain @ self.mass + self.lost) * (1 + 1e-12), 1.0))


def discretised(curve: Curve, nodes: int = 256) -> Loss:
    """The smallest `Loss` above a curve whose losses lie on a grid of about `nodes` points of either sign.

    The curve is evaluated at epsilon >= 0 and must hold for the pairs in either order. It need not be convex.
    """
    level = _reach(curve) - (nodes - 1).bit_length()
    step = float(np.ldexp(1.0, level))
    parts: list[Array] = []
    for start in range(0, nodes + 1, 8):  # few at a time: some curves are searched better for nearby points
        parts.append(curve(step * np.arange(start, min(start + 8, nodes + 1), dtype=np.float64)))
        if parts[-1].min() <= _CUT:
            break
    v = np.clip(np.nan_to_num(np.concatenate(parts), nan=1.0), 0.0, 1.0)
    half = np.tanh(step * np.arange(len(v)) / 2)
    v[0] = min(v[0], float(np.min(v + (1 - v) * half)) * _UP)  # the chord from -epsilon to epsilon passes above 0
    kept = _lower_hull(v[: int(v.argmin()) + 1], step)
    last = kept[-1]
    mass = np.zeros(2 * last + 1)
    for k, before, after in zip(kept[1:], kept[:-1], [*kept[1:], last][1:], strict=True):
        left = (v[before] - v[k]) / -np.expm1(step * (before - k))
        right = (v[k] - v[after]) / np.expm1(step * (after - k)) if after > k else 0.0
        mass[last + k] = max(left - right, 0.0) + 1e-15 * (left + right)
        mass[last - k] = mass[last + k] * np.exp(-step * k) * _UP
    if last:
        q = np.exp(-step * kept[1])
        drop, back = v[0] * (1 + q), 2 * q * v[kept[1]]
        scale = -np.expm1(-step * kept[1])
        mass[last] = max(1 - (drop - back) / scale, 0.0) + 1e-15 * (1 + (drop + back) / scale)
    else:
        mass[0] = (1 - v[0]) * _UP
    return Loss(level, -last, mass, float(v[last]))


def _reach(curve: Curve) -> int:
    """The smallest power of two beyond which the curve falls no further, or too little to matter."""
    seen: list[tuple[int, float]] = []
    for level in range(9, -25, -1):
        seen.append((level, float(curve(np.array([2.0**level]))[0])))
        if seen[-1][1] > max(1e-3, 1e3 * min(v for _, v in seen)):
            break
    best = max(_CUT, min(v for _, v in seen) * (1 + 1e-9))
    return min(level for level, v in seen if v <= best)


def _lower_hull(v: Array, step: float) -> list[int]:
    """Corners of the greatest convex minorant of the points (e^(k step), v_k)."""
    kept: list[int] = []
    for c in range(len(v)):
        while len(kept) > 1:
            a, b = kept[-2:]
            to_b, to_c = -np.expm1(step * (a - b)), np.expm1(step * (c - b)) - np.expm1(step * (a - b))
            if (v[b] - v[a]) * to_c < (v[c] - v[a]) * to_b:
                break
            kept.pop()
        kept.append(c)
    return kept


def composed(parts: list[tuple[Loss, int]]) -> Loss:
    """Composition of mechanisms, each repeated the given number of times: their losses add up."""
    powers = sorted((_power(loss, times) for loss, times in parts), key=lambda x: x.level)
    return functools.reduce(_convolved, powers)


def _power(loss: Loss, times: int) -> Loss:
    out: Loss | None = None
    while True:
        if times % 2:
            out = loss if out is None else _convolved(out, loss)
        times //= 2
        if not times:
            assert out is not None
            return out
        loss = _convolved(loss, loss)


def _convolved(a: Loss, b: Loss) -> Loss:
    while a.level != b.level:
        a, b = (_coarser(a), b) if a.level < b.level else (a, _coarser(b))
    mass = np.convolve(a.mass, b.mass) * (1 + 1e-12)
    lost = (b.lost + a.lost * float(b.mass.sum())) * (1 + 1e-12) + 1e-300
    low = int(np.searchsorted(np.cumsum(mass), _TRIM))
    high = int(np.searchsorted(np.cumsum(mass[::-1]), _TRIM))
    if low + high >= len(mass):
        return Loss(a.level, 0, np.zeros(1), min(1.0, lost + float(mass.sum()) * _UP))
    lost += float(mass[len(mass) - high :].sum()) * (1 + 1e-12)
    kept = mass[low : len(mass) - high].copy()
    kept[0] += float(mass[:low].sum()) * (1 + 1e-12)
    out = Loss(a.level, a.bottom + b.bottom + low, kept * _UP, lost)
    return _coarser(out) if len(kept) > _LONGEST else out


def _coarser(loss: Loss) -> Loss:
    """The same loss on a grid of twice the step: odd masses are split between both neighbours, keeping P and Q mass."""
    odd_start = loss.bottom % 2
    mass = np.concatenate((np.zeros(odd_start), loss.mass, np.zeros((odd_start + len(loss.mass) + 1) % 2)))
    step = float(np.ldexp(1.0, loss.level))
    odd = mass[1::2]
    out = mass[::2].copy()
    out[:-1] += odd / (1 + np.exp(step))
    out[1:] += odd / (1 + np.exp(-step))
    return Loss(loss.level + 1, (loss.bottom - odd_start) // 2, out * _UP, loss.lost)
