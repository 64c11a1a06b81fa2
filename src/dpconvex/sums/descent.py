"""Minimise a regularised sum of losses of records of the user's own to a certificate, by gradients alone.

    J(w) = sum_i f_i(w) + (l2/2) |w|^2 + <tilt, w>     over a convex domain K

The certificate is that of `sums.solver`: J is l2-strongly convex, so |w - w*| <= |r| / l2 for any r in the gradient
plus the normal cone. That f_i is convex, with a gradient of a bounded length and a bounded change, and that the code
computes it, is what its user declared. Steps of the lengths of Barzilai and Borwein (1988) mostly find a point in some
tens of passes; accelerated steps, whose progress is known in advance, stand behind them. Proof:
docs/proofs/certified_erm.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpconvex.errors import ReleaseError
from dpconvex.problem.domains import Domain
from dpconvex.problem.losses import Convex
from dpconvex.problem.problem import Problem
from dpconvex.sums.accuracy import Accumulation, length_of
from dpconvex.sums.protocol import Slopes, Sums
from dpconvex.sums.solver import _exact_norm, _residual
from dpconvex.theorems.computed_sums import UNIT

__all__ = ["least_record_tolerance", "minimise_records"]

_PATIENCE = 40  # steps of lengths that were guessed allowed to halve the residual
_GAIN = 10.0  # what a round of accelerated steps takes off the residual
_CHECK = 16  # accelerated steps between two looks at the residual


class _Facts(NamedTuple):
    """What is public about J."""

    loss: Convex
    l2: float
    domain: Domain
    size: int  # number of weights
    n: int
    tilt: float

    @property
    def smoothness(self) -> float:
        return self.loss.curvature_bound() * self.n + self.l2

    @property
    def longest(self) -> float:
        """Largest gradient of the losses together."""
        return self.loss.slope_bound(math.inf) * self.n

    def reach(self) -> float:
        """Largest norm of the minimiser, which is (gradients + tilt) / l2 on all of space."""
        return min((self.longest + self.tilt) / self.l2, self.domain.reach(self.size))

    def rounding(self, norm: float) -> float:
        """How far a residual at a point of this norm can be off: as for `size` predictions of a row that is 1."""
        sums, slope, bend = Accumulation(self.n, 1, 1.0), self.loss.slope_bound(math.inf), self.loss.curvature_bound()
        error = sums.gradient(slope, norm, bend, self.size, self.l2, self.tilt)
        if (domain := self.domain.traits).norm == 2.0:  # a point on the sphere is off by some units
            error += 16.0 * UNIT * (self.smoothness * domain.radius + self.longest + self.l2 * norm + self.tilt)
        return error


class _Point(NamedTuple):
    w: np.ndarray
    gradient: np.ndarray
    length: float  # of the residual, as computed
    certified: float  # of the residual, whatever rounding did


def least_record_tolerance(problem: Problem, n: int, d: int, tilt: float) -> float:
    """Least tolerance that `minimise_records` is sure to certify on any n records: a public number.

    Examples
    --------
    >>> import dpconvex as dc
    >>> median = dc.losses.Convex(lambda w, X, y: w - X, lipschitz=1.0, smoothness=1.0)
    >>> f"{least_record_tolerance(dc.Problem(median, l2=10.0), 10_000, 3, 0.0):.0e}"
    '2e-07'
    """
    size = math.prod(problem.weight_shape(d))
    facts = _Facts(problem.loss, problem.l2, problem.domain, size, n, tilt)  # type: ignore[arg-type]
    least = 4.0 * facts.rounding(facts.reach())
    while math.isfinite(least) and least < 4.0 * facts.rounding(facts.reach() + least / facts.l2):
        least *= 2.0
    return least


def minimise_records(
    sums: Sums, loss: Convex, l2: float, tilt: np.ndarray, tolerance: float, *, domain: Domain, start: np.ndarray
) -> np.ndarray:
    """Return a point of the domain within tolerance / l2 of the minimiser of J.

    Parameters
    ----------
    sums : Sums
        Over the records.
    loss : Convex
        With `lipschitz` and `smoothness`.
    l2 : float
        Weight of the quadratic term, positive.
    tilt, start : ndarray
        Linear term, and where to start, of the shape of the weights.
    tolerance : float
        Bound on the norm of an element of grad J + N_K at the point returned, rounding included: at least half of
        `least_record_tolerance`.
    domain : Domain

    Raises
    ------
    ReleaseError
        If the work that is enough for what was declared was not, with a message that does not depend on the data.

    Examples
    --------
    >>> from dpconvex.loops.rows import Records
    >>> from dpconvex.problem.domains import Everywhere
    >>> from dpconvex.sums.records import RecordSums
    >>> away = Convex(lambda w, X, y: w - X, lipschitz=9.0, smoothness=1.0)
    >>> sums = RecordSums(Records(np.array([[1.0], [2.0]]), None))
    >>> zero = np.zeros(1)
    >>> minimise_records(sums, away, 1.0, zero, 1e-9, domain=Everywhere(), start=zero).round(6)
    array([1.])
    """
    facts = _Facts(loss, l2, domain, start.size, sums.n, length_of(tilt))
    descent = _Descent(sums, tilt, tolerance, facts)
    point = descent.at(descent.inside(start))
    steepness = facts.longest + l2 * length_of(point.w) + facts.tilt
    for _ in range(math.ceil(math.log(max(2.0 * steepness / tolerance, 1.0), _GAIN)) + 1):
        for steps in (descent.guess, descent.accelerate):
            point = steps(point)
            if point.certified <= tolerance:
                return point.w
    raise ReleaseError(
        "the minimiser was not found with the work that is enough for a convex loss as smooth as declared; the run "
        "stays charged"
    )


class _Descent:
    """J on the data, with the steps that lower it."""

    def __init__(self, sums: Sums, tilt: np.ndarray, tolerance: float, facts: _Facts) -> None:
        self.sums, self.tilt, self.tolerance, self.facts = sums, tilt, tolerance, facts

    def inside(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain; the norm of a point on a sphere is right to 4 units."""
        traits = self.facts.domain.traits
        if traits.norm != 2.0:
            return self.facts.domain.project(w)
        norm = _exact_norm(w)
        return w * (traits.radius / norm) if norm > traits.radius else w

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of J."""
        return self.sums.sweep(Slopes(self.facts.loss, w)) + self.facts.l2 * w + self.tilt

    def at(self, w: np.ndarray) -> _Point:
        """Everything about w, certificate included."""
        g = self.gradient(w)
        length = length_of(_residual(self.facts.domain, w, g)[0])
        return _Point(w, g, length, length + self.facts.rounding(length_of(w)))

    def guess(self, point: _Point) -> _Point:
        """Projected steps as long as the last one says, as long as every `_PATIENCE` in a row halve the residual."""
        best, goal, left = point, point.length / 2.0, _PATIENCE
        step = 1.0 / self.facts.smoothness
        while left and best.certified > self.tolerance:
            left -= 1
            now = self.at(self.inside(point.w - step * point.gradient))
            move = now.w - point.w
            bend = float(np.vdot(move, now.gradient - point.gradient))
            length = float(np.vdot(move, move))
            step = min(length / bend, 1.0 / self.facts.l2) if bend > 0.0 else 1.0 / self.facts.smoothness
            point = now
            best = now if now.length < best.length else best
            if 0.0 < best.length <= goal:
                goal, left = best.length / 2.0, _PATIENCE
        return best

    def accelerate(self, point: _Point) -> _Point:
        """Accelerated projected gradient steps until the residual has fallen by the gain of a round.

        sqrt(kappa) ln(8 kappa gain^2) of them are enough: see `solver.most_work`.
        """
        smoothness, goal = self.facts.smoothness, point.length / _GAIN
        kappa = smoothness / self.facts.l2
        root = math.sqrt(kappa)
        momentum = (root - 1.0) / (root + 1.0)
        steps = math.ceil(root * math.log(8.0 * kappa * _GAIN**2)) + _CHECK
        best, w, ahead = point, point.w, point.w
        for k in range(1, steps + 1):
            previous, w = w, self.inside(ahead - self.gradient(ahead) / smoothness)
            ahead = w + momentum * (w - previous)
            if k % _CHECK == 0 or k == steps:
                now = self.at(self.inside(w - self.gradient(w) / smoothness))
                best = now if now.length < best.length else best
                if best.length <= goal or best.certified <= self.tolerance:
                    break
        return best
