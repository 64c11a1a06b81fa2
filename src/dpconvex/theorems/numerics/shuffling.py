"""Amplification by shuffling: the privacy curve of noisy vectors, one a record, in a uniformly random, secret order.

Whatever a record's vector is, its noisy value is now and then a copy of what the changed record would send. Among those
copies the changed record hides. How many there are is a binomial number; how well each hides it is the law of
t = tanh(loss / 2), which lies in [-1, 1] and has mean 0. With k of them the curve is E ((1 + x) - e^epsilon (1 - x))_+
at x = (t_1 + ... + t_k) / k, a convex function of the sum: spreading the law of t on a lattice only makes it larger,
and so does losing a copy. Proof: docs/proofs/shuffled_sums.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES
from dpconvex.kernel.curves import Array, Curve, gaussian_curve, symmetric
from dpconvex.kernel.profiles import Numeric, gaussian_delta

_NODES = 128  # lattice points on either side of 0 for one copy
_LONGEST = 1024  # a sum on more points than this is put on a coarser lattice
_TRIM = 1e-28  # mass moved up, or added whole, at either end of a sum
_DEEP = 11.0  # standard deviations of the loss that the lattice holds
_UP = 1.0 + 1e-12  # more than a convolution loses to rounding
_LOW, _HIGH = 9.5, 3.0  # standard deviations around the mean number of copies that are told apart
_APART = 3.0  # bounds computed for one standard deviation of that number
_TRADE = 0.125  # what replacing noisy values may cost, relative to what hiding leaves
_DEEPEST = 30.0  # decades of delta
_BLURRED, _FAR = 45.0, 250.0  # beyond 45 blurs rounding costs less than 1e-300, up to epsilon = 250
_GRID = 0.02  # weights of copies are e^-(m _GRID), or finer for much noise


class Steps(NamedTuple):
    """Law of a sum on the lattice (bottom + i) step, from above; `lost` is mass that may lie anywhere."""

    step: float
    bottom: float
    mass: Array
    lost: float


@functools.lru_cache(maxsize=64)
def two_points(epsilon: float) -> Steps:
    """Law of t for randomised response, the worst that is epsilon-indistinguishable: plus or minus tanh(epsilon/2).

    Examples
    --------
    >>> round(two_points(math.log(3.0)).step, 12)
    1.0
    """
    return Steps(2.0 * math.tanh(epsilon / 2.0) * (1.0 + 1e-15), -0.5, np.array([0.5, 0.5]), 0.0)


@functools.lru_cache(maxsize=64)
def gaussian_steps(mu: float) -> Steps:
    """Law of t for N(0, 1) against N(mu, 1), spread on a lattice without moving its mean.

    A lattice point gets the integral of its tent, which is a second difference of E (t - a)_+. That is
    (1 - a)/2 delta(ln (1 + a)/(1 - a)), with the curve delta of the pair.

    Examples
    --------
    >>> law = gaussian_steps(1.0)
    >>> t = law.step * (law.bottom + np.arange(len(law.mass)))
    >>> round(float(law.mass.sum()), 6), abs(round(float(law.mass @ t), 9)), round(float(law.mass @ t**2), 3)
    (1.0, 0.0, 0.204)
    """
    top = math.tanh((_DEEP * mu + mu * mu / 2.0) / 2.0)
    step = top / _NODES
    a = np.minimum(step * np.arange(_NODES + 2), 1.0)
    with np.errstate(divide="ignore"):
        loss = np.log1p(a) - np.log1p(-a)
    above = np.array(
        [0.5 * (1.0 - x) * gaussian_delta(e, mu) if x < 1.0 else 0.0 for x, e in zip(a, loss, strict=True)]
    )
    slopes = (above[:-1] - above[1:]) / step
    half = slopes[:-1] - slopes[1:] + 4.5e-12 * above[:-2] / step  # of numbers that are right to 1e-12
    middle = 1.0 - 2.0 * slopes[0] + 4.5e-12 * (1.0 + above[0] / step)  # by symmetry E (t + h)_+ = h + E (t - h)_+
    mass = np.maximum(np.concatenate((half[::-1], [middle], half)), 0.0) * _UP
    last = loss[-2] / mu
    return Steps(step, -float(_NODES), mass, float(ndtr(mu / 2.0 - last) + ndtr(-mu / 2.0 - last)) * _UP)


def _sum(a: Steps, b: Steps) -> Steps:
    while a.step != b.step:
        a, b = (_coarser(a), b) if a.step < b.step else (a, _coarser(b))
    mass = np.convolve(a.mass, b.mass) * _UP
    lost = (a.lost + b.lost) * _UP
    low = int(np.searchsorted(np.cumsum(mass), _TRIM))
    high = int(np.searchsorted(np.cumsum(mass[::-1]), _TRIM))
    kept = mass[low : len(mass) - high].copy()
    kept[0] += float(mass[:low].sum()) * _UP  # upwards, which is the safe side
    lost += float(mass[len(mass) - high :].sum()) * _UP
    out = Steps(a.step, a.bottom + b.bottom + low, kept, lost)
    return _coarser(out) if len(kept) > _LONGEST else out


def _coarser(law: Steps) -> Steps:
    """The same on a lattice of twice the step: every other mass goes to both its neighbours, one half each."""
    mass = np.append(law.mass, np.zeros(1 - len(law.mass) % 2))
    out = mass[::2].copy()
    out[:-1] += 0.5 * mass[1::2]
    out[1:] += 0.5 * mass[1::2]
    return Steps(2.0 * law.step, 0.5 * law.bottom, out * _UP, law.lost)


@functools.lru_cache(maxsize=256)
def _doubled(kind: str, parameter: float, times: int) -> Steps:
    """Law of 2^times copies."""
    if times == 0:
        return two_points(parameter) if kind == "two points" else gaussian_steps(parameter)
    half = _doubled(kind, parameter, times - 1)
    return _sum(half, half)


def _copies(kind: str, parameter: float, count: int) -> Steps:
    bits = [i for i in range(count.bit_length()) if count >> i & 1]
    return functools.reduce(_sum, [_doubled(kind, parameter, i) for i in bits])


class Hiding(NamedTuple):
    """What is left when the number of copies is random: bounds for some numbers, each with the chance that it is due.

    `bare` is the chance that there are fewer copies than any of them.
    """

    chances: tuple[float, ...]
    counts: tuple[int, ...]
    laws: tuple[Steps, ...]
    bare: float

    def delta(self, epsilon: Array) -> Array:
        """Upper bound on delta at epsilon >= 0."""
        scale = np.exp(np.minimum(epsilon, 700.0))[:, None]
        total = np.full(len(epsilon), self.bare)
        for chance, count, law in zip(self.chances, self.counts, self.laws, strict=True):
            x = law.step * (law.bottom + np.arange(len(law.mass))) / count
            gain = np.maximum((1.0 + x) - scale * (1.0 - x) + 4e-15 * (1.0 + scale), 0.0)
            total += chance * (gain @ law.mass * (1.0 + 1e-11) + 2.0 * law.lost)
        return np.asarray(np.minimum(total * (1.0 + 1e-11), 1.0))


@functools.lru_cache(maxsize=128)
def hiding(kind: str, parameter: float, others: int, weight: float) -> Hiding:
    """Bounds for a changed record among `others`, each of which is a copy with probability `weight`.

    Examples
    --------
    >>> among = hiding("two points", 1.0, 9999, math.exp(-1.0))
    >>> bool(among.delta(np.array([0.054]))[0] < 1e-6 < among.delta(np.array([0.052]))[0])
    True
    """
    mean, deviation = others * weight, math.sqrt(others * weight * (1.0 - weight))
    width = max(1, math.floor(deviation / _APART))
    low = max(0, math.floor(mean - _LOW * deviation))
    count = max(1, math.ceil((mean + _HIGH * deviation - low) / width))
    starts = [low + j * width for j in range(count) if low + j * width <= others]
    laws = [_copies(kind, parameter, low + 1)]
    for _ in starts[1:]:
        laws.append(_sum(laws[-1], _copies(kind, parameter, width)))
    # Chance of each stretch of numbers. More copies than the last stretch hide no worse than its first number.
    ends = [*starts[1:], starts[-1] + width]
    chances = [
        float(_binomial(np.arange(a, min(b, others + 1), dtype=np.float64), others, weight).sum())
        for a, b in zip(starts, ends, strict=True)
    ]
    chances[-1] += _beyond(ends[-1], others, weight)
    return Hiding(tuple(chances), tuple(s + 1 for s in starts), tuple(laws), _below(low, others, weight))


def _binomial(c: Array, n: int, p: float) -> Array:
    """Probabilities of a binomial law, from above: logarithms up to n ln n are right to 1e-15 of themselves."""
    log = gammaln(n + 1.0) - gammaln(c + 1.0) - gammaln(n - c + 1.0) + xlogy(c, p) + xlog1py(n - c, -p)
    return np.asarray(np.exp(log) * (1.0 + 1e-9 + 1e-14 * n * math.log(n + 1.0)))


def _below(c: int, n: int, p: float) -> float:
    """Probability of fewer than c: terms fall at least geometrically."""
    if c <= 0:
        return 0.0
    ratio = (c - 1) * (1.0 - p) / ((n - c + 2) * p)
    return float(_binomial(np.array([c - 1.0]), n, p)[0]) / (1.0 - ratio) * _UP if ratio < 1.0 else 1.0


def _beyond(c: int, n: int, p: float) -> float:
    """Probability of c or more."""
    if c > n:
        return 0.0
    ratio = (n - c) * p / ((c + 1) * (1.0 - p))
    return min(1.0, float(_binomial(np.array([float(c)]), n, p)[0]) / (1.0 - ratio) * _UP) if ratio < 1.0 else 1.0


@dataclass(frozen=True)
class ShuffledSums(Numeric):
    """Noisy sums over batches of at most `batch` records, in an order by `bits` secret bits a record.

    `ratio` is the scale of the noise on a sum over the largest norm of one record's vector. The curve is the smaller of
    two: that of one sum, since a record is in one batch only, and that of all records' own noise in a secret order.
    `blur` is how far rounding moves all sums together, in units of the noise.

    Examples
    --------
    >>> one, many = (ShuffledSums("replace_one", 10_000, b, 8.0, 80) for b in (1, 100))
    >>> round(one.epsilon(1e-6), 2), round(many.epsilon(1e-6), 2)
    (0.02, 1.06)
    """

    relation: str
    records: int
    batch: int
    ratio: float
    bits: int
    blur: float = 0.0

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        together = MOVES[self.relation] / self.ratio
        exact = symmetric(lambda epsilon: np.minimum(gaussian_curve(epsilon, together), self._shuffled(epsilon)))
        shift = _BLURRED * self.blur

        def computed(epsilon: Array) -> Array:
            found = exact(np.minimum(epsilon, _FAR) - 2.0 * shift) * (math.exp(shift) * (1.0 + 1e-13)) + 1e-300
            return np.asarray(np.minimum(found, 1.0))

        return computed if self.blur else exact

    def _shuffled(self, epsilon: Array) -> Array:
        """The least over some weights of copies, each of which gives a bound: a guess, then what that suggests."""
        factor = 1.0 + np.exp(np.minimum(epsilon, 700.0))
        ties = factor * float(self.records) ** 2 * 2.0 ** -(self.bits + 1)
        best, aim = np.ones_like(epsilon), np.full_like(epsilon, 1e-6)
        tried: Array | None = None
        for _ in range(3):
            level = np.clip(np.floor(2.0 * np.log10(aim / factor)), -2.0 * _DEEPEST, -2.0)
            if tried is not None and (level == tried).all():
                break
            tried = level
            for k in np.unique(level):
                here, (local, spent) = level == k, self._weight(10.0 ** (k / 2.0))
                found = np.ones(int(here.sum()))
                if math.isfinite(local):
                    pair = MOVES[self.relation] * self._own
                    found = hiding("gaussian", pair, self.records - 1, math.exp(-local)).delta(epsilon[here])
                best[here] = np.minimum(best[here], (found + factor[here] * spent + ties[here]) * (1.0 + 1e-12))
                aim[here] = _TRADE * found
        return np.minimum(best, 1.0)

    @property
    def _own(self) -> float:
        """Largest norm of a record's vector, in units of the noise that is its own."""
        return math.sqrt(self.batch) / self.ratio * (1.0 + 1e-15)

    def _weight(self, aim: float) -> tuple[float, float]:
        """The least local epsilon, on a grid, that pays for no more than that in total variation, and what it pays.

        So much does it cost to let every other record hold a copy with probability e^-local. Infinite if none is left.
        """
        grid = min(_GRID, self._own / 4.0)
        low, high = 0, math.ceil(math.log(self.records) / grid)
        if self._spent(high * grid) > aim:
            return math.inf, 1.0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._spent(middle * grid) > aim else (low, middle)
        return high * grid, self._spent(high * grid)

    def _spent(self, local: float) -> float:
        near = self._own * (2.0 if self.relation == "replace_one" else 1.0)  # masked: one of the two values is 0
        each = 0.5 * (gaussian_delta(local, near) + gaussian_delta(local, 2.0 * self._own)) * (1.0 + 1e-9)
        return (self.records - 1) * math.exp(-local) * each


def closed_form(records: int, local: float, delta: float) -> float:
    """Epsilon after shuffling of a locally private release, by the closed form of Feldman, McMillan, Talwar (2021).

    With n - 1 for n and ln(4/delta) for ln(2/delta) in its range, which is the cautious reading. It is far from sharp:
    `hiding` is the bound that claims rest on.

    Examples
    --------
    >>> [round(closed_form(10_000, e, 1e-6), 3) for e in (0.5, 1.0, 2.0)]
    [0.094, 0.214, 0.501]
    """
    log = math.log(4.0 / delta)
    top = (records - 1) / (16.0 * log)
    if local < 0.0 or not math.exp(local) <= top:
        raise HypothesisError(
            f"the closed form for shuffling holds for a local epsilon of at most "
            f"ln((n - 1)/(16 ln(4/delta))) = {math.log(top) if top > 0.0 else -math.inf:.4g}, got {local:.4g}: "
            "take more records, or constants='tight'"
        )
    up = math.exp(local)
    odds = (up - 1.0) / (up + 1.0)
    return math.log1p(odds * (8.0 * math.sqrt(up * log / (records - 1)) + 8.0 * up / (records - 1)))
