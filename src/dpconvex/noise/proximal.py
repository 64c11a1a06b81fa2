"""Gibbs laws of convex losses in several dimensions, by a walk whose distance from its law is proved.

The proximal sampler: a normal step from x to y, then a draw from the law in the neighbourhood of y, which is exact.
Formulas, errors and proofs: docs/proofs/proximal_sampler.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erfcx, expit

from dpconvex.errors import InputError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.gibbs import GibbsBall, GibbsBox
from dpconvex.noise.rejection import logistic_rise
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Box, L2Ball

_NEAR = 0.1  # squared distance, in variances of a proposal, at which the search for a tangent ends
_FAR = 1.3  # bound on the distance between mode and mean of a proposal on a ball, in its deviations
_VARIATE = 2.0**-60  # total variation of one variate on a lattice, or of one normal variate that is added


@dataclass(frozen=True, eq=False)
class Margins:
    """A sum of losses of margins, sum_i weights_i phi(<row_i, x> - offsets_i).

    phi(p) = ln(1 + e^p), or `rounded`: 0 below p = -1, p above 1, and the parabola (p + 1)^2 / 4 between them.

    Parameters
    ----------
    columns : array, d x n
        The rows, each as a column.
    offsets, weights : arrays of length n
        Weights are at least 0.
    rounded : bool

    Examples
    --------
    >>> Margins(np.ones((1, 1)), np.zeros(1), np.array([2.0]), True).rise(np.array([-1.0]), np.array([1.0]))
    2.0
    """

    columns: np.ndarray
    offsets: np.ndarray
    weights: np.ndarray
    rounded: bool

    def __post_init__(self) -> None:
        n = np.size(self.weights)
        if np.ndim(self.columns) != 2 or self.columns.shape[1] != n or np.shape(self.offsets) != (n,):
            raise InputError("columns must be a matrix, with one column, one offset and one weight per loss")
        if not all(np.isfinite(part).all() for part in (self.columns, self.offsets, self.weights)):
            raise InputError("columns, offsets and weights must be finite")
        if n and np.min(self.weights) < 0.0:
            raise InputError("weights must be at least 0: the potential would not be convex")

    def at(self, x: np.ndarray) -> np.ndarray:
        """Margins at x."""
        return x @ self.columns - self.offsets

    def slopes(self, p: np.ndarray) -> np.ndarray:
        """Derivatives of phi at margins p."""
        return (np.clip(p, -1.0, 1.0) + 1.0) / 2.0 if self.rounded else expit(p)

    def gradient(self, slopes: np.ndarray) -> np.ndarray:
        """Gradient of the sum, from the slopes. Sums along rows of memory are taken in pairs."""
        return np.asarray((self.columns * (self.weights * slopes)).sum(axis=1))

    def rise(self, y: np.ndarray, x: np.ndarray) -> float:
        """Value at x less that at y."""
        p, q = self.at(y), self.at(x)
        return float((self.weights * self._rise(p, q, (x - y) @ self.columns)).sum())

    def above(self, p: np.ndarray, slopes: np.ndarray, change: np.ndarray) -> float:
        """Value where margins p have grown by `change`, less that of the tangent at p."""
        q = p + change
        change = q - p if self.rounded else change
        return float((self.weights * (self._rise(p, q, change) - slopes * change)).sum())

    def _rise(self, p: np.ndarray, q: np.ndarray, change: np.ndarray) -> np.ndarray:
        if not self.rounded:
            return logistic_rise(p, change)
        low, high = np.clip(p, -1.0, 1.0), np.clip(q, -1.0, 1.0)
        return 0.25 * (high - low) * (high + low + 2.0) + (np.maximum(q, 1.0) - np.maximum(p, 1.0))


@dataclass(frozen=True, eq=False)
class GibbsProximal:
    """Density of `base` times exp(-f(x)), f a sum of `Margins`: within `distance` of it in total variation.

    A round of the walk goes from x to y = x + sqrt(step) z, z a standard normal vector, and draws the next x from the
    law with density in proportion to that of `base` times exp(-f(x) - |x - y|^2 / (2 step)), by rejection from the law
    in which f is replaced by a tangent. The walk begins in the middle of the domain.

    Parameters
    ----------
    base : GibbsBall or GibbsBox
        With a positive curvature.
    parts : sequence of Margins
    smoothness : float
        Upper bound on the sum, over all losses in `parts`, of their largest curvatures. The law does not depend on it,
        only how many proposals are made.
    step : float
        Variance of a normal step.
    rounds : int

    Notes
    -----
    The number of proposals, and with it the running time, depends on the losses.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> rows = np.array([[1.0, 1.0, 1.0], [0.0, 0.1, 0.2]])
    >>> steep = Margins(50.0 * rows, 50.0 * np.full(3, 0.4), np.full(3, 1.0), True)  # 50 max(<a, x> - 0.4, 0), nearly
    >>> base = GibbsBall(np.array([-60.0, 0.0]), 1.0, 1.0)
    >>> law = GibbsProximal(base, [steep], smoothness=8000.0, step=2e-4, rounds=200)
    >>> x = law.draw(Source().stream("x"), 2)
    >>> x.shape, bool((x[:, 0] > 0.2).all())
    ((2, 2), True)
    """

    base: GibbsBall | GibbsBox
    parts: Sequence[Margins]
    smoothness: float
    step: float
    rounds: int

    def __post_init__(self) -> None:
        if not isinstance(self.base, GibbsBall | GibbsBox) or not self.base.curvature > 0.0:
            raise InputError("base must be a GibbsBall or a GibbsBox with a positive curvature")
        if not all(isinstance(part, Margins) and len(part.columns) == self.base.tilt.size for part in self.parts):
            raise InputError(f"parts must be Margins in dimension {self.base.tilt.size}")
        if not 0.0 <= self.smoothness < math.inf or not 0.0 < self.step < math.inf:
            raise InputError("smoothness must be at least 0, step positive, and both finite")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise InputError("rounds must be a whole number of at least 1")

    @property
    def distance(self) -> float:
        """Bound on the total variation between a point and the law, in exact arithmetic."""
        radius = self.base.domain.diameter(self.base.tilt.size) / 2.0
        return walk_distance(radius, self.base.curvature, self.step, self.rounds)

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        return np.array([self._walk(stream) for _ in range(count)])

    def _walk(self, stream: Stream) -> np.ndarray:
        base, far = self.base, math.sqrt(self.step)
        nearby = replace(base, curvature=base.curvature + 1.0 / self.step)
        x, push = _middle(base), np.zeros(base.tilt.size)
        for _ in range(self.rounds):
            y = x + far * standard_normal(stream, x.shape)
            x, push = self._near(replace(nearby, tilt=base.tilt - y / self.step), push, stream)
        return x

    def _near(self, plain: GibbsBall | GibbsBox, push: np.ndarray, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        """A point of the law `plain` times exp(-f), and the slope of the tangent used; `push` is a guess of it."""
        at, margins, slopes, push = self._tangent(plain, push)
        envelope = replace(plain, tilt=plain.tilt + push)
        while True:
            x = envelope.draw(stream)[0]
            rise = sum(
                part.above(p, s, (x - at) @ part.columns)
                for part, p, s in zip(self.parts, margins, slopes, strict=True)
            )
            if math.log((float(stream.words(1)[0]) + 0.5) * 2.0**-64) <= -rise:
                return x, push

    def _tangent(
        self, plain: GibbsBall | GibbsBox, push: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray], np.ndarray]:
        """Where to take the tangent: near the middle of the law that it leads to.

        Steps of the method of Lu, Freund and Nesterov (2018), which converges from everywhere. Any point would do.
        """
        c = plain.curvature
        while True:
            at = _centre(plain, push)
            margins = [part.at(at) for part in self.parts]
            slopes = [part.slopes(p) for part, p in zip(self.parts, margins, strict=True)]
            new = sum((part.gradient(s) for part, s in zip(self.parts, slopes, strict=True)), np.zeros(push.size))
            off = _centre(plain, new) - at
            if float(off @ off) * c <= _NEAR:
                return at, margins, slopes, new
            push = push + (new - push) / (1.0 + self.smoothness / c)


def _middle(base: GibbsBall | GibbsBox) -> np.ndarray:
    """The middle of the domain."""
    return np.full(base.tilt.size, 0.5 * (base.lo + base.hi) if isinstance(base, GibbsBox) else 0.0)


def _centre(law: GibbsBall | GibbsBox, push: np.ndarray) -> np.ndarray:
    """Mode of a law tilted further on a ball; on a box nearly the mean, coordinate by coordinate."""
    free = -(law.tilt + push) / law.curvature
    if isinstance(law, GibbsBall):
        return law.domain.project(free)
    root = math.sqrt(law.curvature / 2.0)
    with np.errstate(over="ignore"):
        pull = 1.0 / erfcx(root * (law.lo - free)) - 1.0 / erfcx(root * (free - law.hi))
    return np.clip(free + pull / (root * math.sqrt(math.pi)), law.lo, law.hi)


def walk_distance(radius: float, curvature: float, step: float, rounds: int) -> float:
    """Bound on the total variation between a walk from the middle of a domain and its law.

    Parameters
    ----------
    radius : float
        Largest distance from the middle.
    curvature : float
        Of the potential, at least.
    step : float
    rounds : int

    Examples
    --------
    >>> walk_distance(1.0, 100.0, 0.01, 30) < 1e-8
    True
    """
    log = math.log(radius / math.sqrt(2.0 * math.pi * step)) - (rounds - 1) * math.log1p(curvature * step)
    return min(1.0, math.exp(min(log, 0.0)))


def rounds_needed(radius: float, curvature: float, step: float, distance: float) -> int:
    """Rounds after which a walk is within `distance` of its law.

    Examples
    --------
    >>> k = rounds_needed(1.0, 100.0, 0.01, 1e-12)
    >>> walk_distance(1.0, 100.0, 0.01, k) <= 1e-12 < walk_distance(1.0, 100.0, 0.01, k - 1)
    True
    """
    log = math.log(radius / math.sqrt(2.0 * math.pi * step)) - math.log(distance)
    rounds = 1 + max(0, math.ceil(log / math.log1p(curvature * step)))
    return rounds if walk_distance(radius, curvature, step, rounds) <= distance else rounds + 1


def longest_step(domain: L2Ball | Box, d: int) -> float:
    """Largest variance of a normal step for which proposals at the boundary are known to be good.

    Examples
    --------
    >>> longest_step(L2Ball(2.0), 8), longest_step(Box(-1.0, 1.0), 10)
    (0.015625, 0.0625)
    """
    if domain.traits.interval is None:
        return (float(domain.diameter(d)) / (4.0 * d)) ** 2
    lo, hi = domain.traits.interval
    return float((hi - lo) / 8.0) ** 2


def least_share(domain: L2Ball | Box, ratio: float) -> float:
    """Lower bound on the share of proposals that are accepted.

    Parameters
    ----------
    domain : L2Ball or Box
    ratio : float
        Of the smoothness of all losses to 1 / step.

    Examples
    --------
    >>> least_share(Box(-1.0, 1.0), 1.0) > 0.5
    True
    """
    off = math.sqrt(_NEAR) + (_FAR if domain.traits.interval is None else 0.01)
    return math.exp(-0.5 * ratio * (1.0 + off * off))


def computed_error(
    d: int, radius: float, curvature: float, step: float, rounds: int, share: float, close: float
) -> float:
    """What variates on lattices add to the total variation of a walk of which a round is computed to within e^close.

    Parameters
    ----------
    d : int
    radius, curvature, step, rounds
        As for `walk_distance`.
    share : float
        Share of proposals that are accepted, at least.
    close : float

    Examples
    --------
    >>> computed_error(2, 1.0, 100.0, 0.01, 30, 0.5, 1e-12) < 1e-16
    True
    """
    shrink = math.log1p(curvature * step)
    late = (
        2.0 + max(0.0, math.log(2.0 * radius / math.sqrt(2.0 * math.pi * step))) / shrink + 1.0 / -math.expm1(-shrink)
    )
    return (d + 2) * _VARIATE * (1.0 + 1.0 / share) * (min(late, rounds) + 2.0 * rounds**2 * close)
