"""Choices of bounded range, one after the other: the best curve that holds when each may depend on those before.

A pair of laws P, Q has range `width` if ln P/Q varies by at most that much over the outcomes. The worst such pair has
two outcomes, at losses t and t - width for some t between 0 and width, and whoever chooses t anew before each choice
faces a recursion in epsilon alone. It is solved here on a grid, from above. Proof: docs/proofs/report_noisy_max.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.kernel.curves import FLOOR, Array, Curve, symmetric
from dpconvex.kernel.profiles import Numeric, concentrated_delta
from dpconvex.rounding import round_down, up

_CELLS = 16  # of the grid within one width: its blur adds at most 1/16^2 of the variance of the losses
_COARSEST = 0.25
_TAIL = 69.0  # the grid ends where zCDP leaves e^-69 of the mass
_WORK = 1e8  # cells to fill; beyond that zCDP has to do
_UP = 1.0 + 1e-12  # more than what one step of the recursion loses to rounding


@dataclass(frozen=True)
class BoundedRange(Numeric):
    """`times` choices in a row, each of range `width` whatever was chosen before.

    The smaller of two bounds: the sharp one, by recursion, and that of times width^2/8-zCDP.

    Examples
    --------
    >>> round(BoundedRange(1.0, 1).epsilon(1e-6), 3), round(BoundedRange(0.05, 100).epsilon(1e-6), 3)
    (0.999, 1.062)
    """

    width: float
    times: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.width <= 700.0:
            raise InputError("the range of a choice must lie between 0 and 700; beyond there is no privacy to speak of")

    @property
    def rho(self) -> float:
        """Concentrated differential privacy: every Renyi divergence of order a is at most a times this."""
        return self.times * self.width**2 / 8.0

    def delta(self, epsilon: float) -> float:
        """Smallest delta known at the given epsilon; 0 from times width on, beyond which no loss lies."""
        return 0.0 if epsilon >= up(self.times * self.width) else super().delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon known at the given delta, which may be 0."""
        return super().epsilon(delta) if delta else up(self.times * self.width)

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        if self.width == 0.0:
            return symmetric(np.zeros_like)
        sharp = _sharp(self.width, self.times)
        return symmetric(lambda e: np.minimum(concentrated_delta(e, self.rho), sharp(e)))


def _sharp(width: float, times: int) -> Curve:
    """The recursion where it can be afforded, else 1; beyond times width no loss lies."""
    rho = times * width**2 / 8.0
    cells = max(_CELLS, 16 * _CELLS // times, math.ceil(width / _COARSEST))  # few choices can have a fine grid
    top = min(times * width, rho + 2.0 * math.sqrt(rho * _TAIL))
    count = math.ceil(top / width * cells * (1.0 - 1e-12))
    if cells * count * times > _WORK:
        return lambda e: np.where(e >= times * width * (1.0 + 1e-12), 0.0, 1.0)
    return functools.partial(_between, *_solved(width, times, cells, count))


@functools.lru_cache(maxsize=32)
def _solved(width: float, times: int, cells: int, count: int) -> tuple[float, Array]:
    """The grid's step, and the bound at its nodes from epsilon = 0 on.

    With V the bound for one choice less, the bound is the largest over t of p V(eps - t) + (1 - p) V(eps - t + width),
    p = (1 - e^(t-width)) / (1 - e^-width). Between the nodes V lies below its chords, as V is convex in e^eps; on
    them the largest t of a cell has a closed form. Below 0, V(-eps) = 1 - e^-eps + e^-eps V(eps).
    """
    step = width / cells
    t, mirror = step * np.arange(cells), step * np.arange(cells, 0, -1)
    p, rest = np.expm1(t - width) / math.expm1(-width), np.expm1(t) / math.expm1(width)
    fall = np.exp(t) * math.expm1(step) / math.expm1(width)  # of p over a cell
    v = np.zeros(count + 1)
    _compiled()(times, step, p, rest, fall, -np.expm1(-mirror), np.exp(-mirror), v)
    v.setflags(write=False)
    return step, v


def _recur(
    times: int, step: float, p: Array, rest: Array, fall: Array, rising: Array, falling: Array, v: Array
) -> None:
    """Solve for so many choices, in place."""
    cells, count = p.shape[0], v.shape[0]
    ratio, more, cut = math.exp(step), math.expm1(step), -math.expm1(-2.0 * step)
    wide, best = np.empty(count + 2 * cells), np.empty(count)  # V from -width on, and beyond the last node
    for _ in range(times):
        for i in range(cells):
            wide[i] = rising[i] + falling[i] * v[cells - i]
            wide[cells + count + i] = v[count - 1]
        wide[cells : cells + count] = v
        best[:] = v
        for k in range(cells):
            for j in range(count):
                c, d = wide[2 * cells - k + j], wide[2 * cells - k - 1 + j]  # V at eps - t + width, a node apart
                a, b = wide[cells - k + j], wide[cells - k - 1 + j]  # V at eps - t
                best[j] = max(best[j], p[k] * a + rest[k] * c)
                rise, bend = p[k] * (b - a) + rest[k] * (d - c), (b - a) - (d - c)
                first = ratio * rise - fall[k] * (a - c)
                last = rise / ratio - fall[k] * (a - c) - fall[k] * bend * (1.0 + 1.0 / ratio)
                if first > 0.0 and last < 0.0:  # the largest lies inside the cell
                    tau = first / (first - last) * cut
                    root = math.sqrt(1.0 - tau)
                    s = min(tau / (root * (1.0 + root)) / more, 1.0)  # (1/root - 1) / (ratio - 1)
                    share = s * ratio / (1.0 + s * more)  # of the node below, on the chord
                    high, low = p[k] - s * fall[k], rest[k] + s * fall[k]
                    at = high * ((1.0 - share) * a + share * b) + low * ((1.0 - share) * c + share * d)
                    best[j] = max(best[j], at)
        for j in range(count):
            v[j] = min(best[j] * _UP, 1.0)


@functools.cache
def _compiled() -> Callable[..., None]:
    from dpconvex.compiling import compile_cached  # not needed by those who make no choices

    return compile_cached(_recur)


def _between(step: float, v: Array, eps: Array) -> Array:
    """Chords in e^eps between the nodes; beyond the last node the bound stays what it is there."""
    k = np.minimum((eps / step).astype(np.int64), len(v) - 1)
    after = np.minimum(k + 1, len(v) - 1)
    share = np.clip(np.expm1(np.minimum(eps - step * k, step)) / math.expm1(step), 0.0, 1.0)
    return np.asarray(np.minimum((v[k] + share * (v[after] - v[k])) * (1.0 + 1e-9), 1.0))


def largest_width(times: int, epsilon: float, delta: float) -> float:
    """Largest range of each of so many choices at which they keep to (epsilon, delta) together, a little rounded down.

    Examples
    --------
    >>> width = largest_width(100, 1.0, 1e-6)
    >>> 0.999 < BoundedRange(width, 100).epsilon(1e-6) <= 1.0
    True
    """
    if not delta:
        return round_down(epsilon / times * (1.0 - 1e-11))
    if delta < 1e3 * FLOOR:
        raise InputError(f"delta = {delta:g} is smaller than a curve can tell from 0: take {1e3 * FLOOR:g} or more")
    top = min(epsilon, 500.0)
    low, high = top / times * (1.0 - 1e-3), math.inf  # losses add up to at most this, and a node lies between
    width = max(low, _first_guess(times, top, delta))
    while high > low * (1.0 + 1e-5):
        part = BoundedRange(width, times).epsilon(delta) / top
        low, high = (width, high) if part <= 1.0 else (low, width)
        if 0.9995 <= part <= 1.0:
            break
        aimed = width * 0.99975 / max(part, 0.25)  # epsilon is nearly in proportion to the width
        width = round_down(aimed if low < aimed < high else math.sqrt(low * high), 6)
    return round_down(low)


def _first_guess(times: int, epsilon: float, delta: float) -> float:
    """Width at which rho + 2 sqrt(rho ln 1/delta) is epsilon."""
    log = math.log(1.0 / delta)
    root = epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return math.sqrt(8.0 / times) * root
