"""Gibbs laws of smooth losses in several dimensions: rejection from the law with linearised losses.

Formulas: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from dpconvex.errors import InputError
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, uniform
from dpconvex.noise.source import Stream

_GAP = 0.05  # how far the linearised sum may lie above its least value: costs 5 per cent of all proposals
_ROOM = 10**6  # numbers computed at once
_LOOK = 8  # steps of the search between checks of the gap


@dataclass(frozen=True, eq=False)
class GibbsRejection:
    """Density of `base` times exp(-f(x)), where f(x) = sum_i weights_i ln(1 + exp(<rows_i, x>)): logistic losses.

    f lies above its tangents, so points can be proposed from `base` tilted by a gradient of f. The tangent is taken at
    the minimum of the whole potential. A point is drawn exactly unless `tries` proposals in a row are rejected; then
    the one of the last proposals is used. The resulting error in total variation is at most `tv_error`.

    Parameters
    ----------
    base : GibbsBall or GibbsBox
        With a positive curvature.
    rows : array, n x d
    weights : array of length n
        At least 0.
    smoothness : float
        Upper bound on the curvature of f in every direction; sum_i weights_i |rows_i|^2 / 4 is always one.
    tries : int
        Largest number of proposals per point.

    Notes
    -----
    The number of proposals, and with it the running time, depends on the losses. Always making all `tries` would hide
    this at a hundred times the cost.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> base = GibbsBall(np.zeros(2), 1.0, 3.0)
    >>> law = GibbsRejection(base, np.array([[-1.0, 0.0]]), np.array([4.0]), smoothness=1.0, tries=100)
    >>> x = law.draw(Source().stream("x"), 1000)
    >>> x.shape, bool(x[:, 0].mean() > 0.5), law.tv_error < 1e-27
    ((1000, 2), True, True)
    """

    base: GibbsBall | GibbsBox
    rows: np.ndarray
    weights: np.ndarray
    smoothness: float
    tries: int

    def __post_init__(self) -> None:
        if not isinstance(self.base, GibbsBall | GibbsBox) or not self.base.curvature > 0.0:
            raise InputError("base must be a GibbsBall or a GibbsBox with a positive curvature")
        n, d = np.size(self.weights), self.base.tilt.size
        if np.shape(self.rows) != (n, d) or not np.isfinite(self.rows).all():
            raise InputError(f"rows must be finite, with {d} numbers per row and one row per weight")
        if n and not 0.0 <= np.min(self.weights) <= np.max(self.weights) < math.inf:
            raise InputError("weights must be finite, and at least 0: the potential would not be convex")
        if not 0.0 <= self.smoothness < math.inf or self.tries < 1:
            raise InputError("smoothness must be finite and at least 0, and tries at least 1")

    @property
    def tv_error(self) -> float:
        """Bound on the probability that all tries fail; 0 where it underflows in float64."""
        least = least_acceptance(self.base.tilt.size, self.base.curvature, self.smoothness)
        return math.exp(self.tries * math.log1p(-least))

    def draw(self, stream: Stream, count: int = 1) -> np.ndarray:
        """Draw independent points, one per row."""
        at = self._least()
        slopes = self.weights * expit(self.rows @ at)
        envelope = replace(self.base, tilt=self.base.tilt + slopes @ self.rows)
        out, left, spent, each = np.empty((count, at.size)), np.arange(count), 0, 1
        while left.size and spent < self.tries:
            room = _ROOM // (left.size * max(self.rows.shape))
            each = max(1, min(2 * each, self.tries - spent, room))
            x = envelope.draw(stream, left.size * each)
            good = (np.log(uniform(stream, len(x))) <= -self._above(x, at, slopes)).reshape(-1, each)
            out[left] = x.reshape(-1, each, at.size)[np.arange(left.size), good.argmax(axis=1)]
            left, spent = left[~good.any(axis=1)], spent + each
        return out

    def _above(self, x: np.ndarray, at: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Difference between f and its tangent at every row of x."""
        change = (x - at) @ self.rows.T
        return logistic_rise(self.rows @ at, change) @ self.weights - change @ slopes

    def _least(self) -> np.ndarray:
        """A point of the domain from which the linearised potential can fall by at most _GAP.

        It is found by Nesterov's method for strongly convex functions, with a number of steps proved to be enough.
        """
        c, d, base, domain = self.base.curvature, self.base.tilt.size, self.base, self.base.domain
        steep = c + 0.25 * float(self.weights @ (self.rows**2).sum(axis=1))

        def slope(x: np.ndarray) -> np.ndarray:
            return np.asarray(base.tilt + c * x + (self.weights * expit(self.rows @ x)) @ self.rows)

        x = y = domain.project(-base.tilt / c)
        wide, root = domain.diameter(d), math.sqrt(steep / c)
        begin = float(np.linalg.norm(slope(x))) * wide + 0.5 * c * wide**2
        close = min(0.5 * _GAP, c * _GAP**2 / (8.0 * (steep * wide) ** 2))
        for step in range(_LOOK + math.ceil(root * max(0.0, math.log(begin / close)))):
            new = domain.project(y - slope(y) / steep)
            y, x = new + (root - 1.0) / (root + 1.0) * (new - x), new
            if step % _LOOK == 0 and domain.support(-(g := slope(x))) + float(g @ x) <= _GAP:
                break
        return x


def logistic_rise(there: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return ln(1 + e^(there + change)) - ln(1 + e^there), with an error of about 1e-16 |change|, however small it is.

    Examples
    --------
    >>> logistic_rise(np.zeros(2), np.array([1e-20, 0.0]))
    array([5.e-21, 0.e+00])
    """
    near = np.log1p(expit(there) * np.expm1(np.clip(change, -1.0, 1.0)))
    return np.where(np.abs(change) <= 1.0, near, np.logaddexp(0.0, there + change) - np.logaddexp(0.0, there))


def least_acceptance(d: int, curvature: float, smoothness: float) -> float:
    """Lower bound on the share of proposals of a `GibbsRejection` in dimension d that are accepted.

    Examples
    --------
    >>> round(least_acceptance(2, 1.0, 1.0), 4)
    0.4756
    """
    return math.exp(-_GAP - 0.5 * d * math.log1p(smoothness / curvature)) * (1.0 - 1e-12)
