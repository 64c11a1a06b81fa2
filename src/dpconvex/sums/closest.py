"""Certificates of minimisers that lie between float64 numbers: the point is held as a pair of them.

Where many records bend the objective, the float64 number next to a minimiser has a gradient that is larger than a plan
allows for, and on a sphere no such number has the norm of the radius. So the point is high + low, its squared norm is
computed in exact fractions, and its gradient from that at `high`, in twice the precision, and the curvature along
`low`. What is returned is `high`; the length of `low` is part of the certificate. Proof: docs/proofs/certified_erm.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpconvex.problem.losses import Logistic, Loss
from dpconvex.sums.accuracy import Accumulation, length_of, prediction_error
from dpconvex.sums.protocol import Bend
from dpconvex.theorems.computed_sums import UNIT, accumulation

RATE = 0.0963  # largest third derivative of the logistic loss, 1 / (6 sqrt(3)), rounded up
_INSIDE = 2.0**-100  # share by which the squared norm of a point stays below that of the sphere, or up to twice that
_STEPS = 8  # of Newton's method, at most


class Held(NamedTuple):
    """A point high + low of a ball, and what its squared norm lacks of that of the sphere."""

    high: np.ndarray
    low: np.ndarray
    room: float

    def moved(self, step: np.ndarray, radius: float) -> Held:
        """The point that a step leads to, brought back to the sphere from outside or from next to it."""
        high, low = _sum(self.high, self.low + step)
        if radius == math.inf:
            return Held(high, low, math.inf)
        whole = Fraction(radius) ** 2
        for _ in range(_STEPS):
            room = whole - sum(
                (Fraction(a) + Fraction(b)) ** 2 for a, b in zip(high.tolist(), low.tolist(), strict=True)
            )
            lacks = float(room / whole)
            if lacks > 2.0**-40 or 0.0 <= lacks <= 2.0 * _INSIDE:
                break
            more = (lacks - 1.5 * _INSIDE) / (1.0 - lacks)  # of the squared norm
            high, low = _sum(high, low + more / (1.0 + math.sqrt(1.0 + more)) * high)
        return Held(high, low, float(room))


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums and their errors (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def holds(loss: Loss) -> bool:
    """Whether the gradient of a loss next to a point follows from that at the point: its curvature does not jump."""
    return isinstance(loss, Logistic) and loss.cap == 1.0


def beside(sums: Accumulation, norm: float, low: float, curvature: float) -> float:
    """Bound the error of a gradient at high + low, beside that at `high` and roundings in proportion to the gradient.

    |high| is at most `norm` and |low| at most `low`. The first part is what float64 loses of the curvature along `low`,
    the second what that leaves out.
    """
    n, size, row = sums
    share = RATE * prediction_error(size, row, norm) + curvature * 1.01 * UNIT * (accumulation(n) + 3.0 * size + 64.0)
    return n * row**2 * low * (share + 0.5 * RATE * row * low)


def least(sums: Accumulation, norm: float, l2: float, curvature: float) -> float:
    """Bound what a certificate on a sphere of that radius exceeds the residual by, beside the error at float64 points.

    Examples
    --------
    >>> f"{least(Accumulation(10**9, 100, 1.0), 8.0, 1.0, 0.25):.0e}"
    '6e-14'
    """
    return 64.0 * UNIT * l2 * norm + beside(sums, norm, 1.01 * UNIT * norm, curvature)


def distance(l2: float, multiplier: float, residual: float, room: float) -> float:
    """Bound the distance to the minimiser from a point in the ball, of that residual gradient + multiplier w.

    The squared norm of the point lacks at most `room` of that of the sphere, which is not asked for without a
    multiplier.
    """
    if room < 0.0:
        return math.inf
    if multiplier == 0.0:
        return residual / l2
    return residual / (l2 + 0.5 * multiplier) + math.sqrt(multiplier * room / (2.0 * l2 + multiplier))


def closest(solver: Any, point: Any) -> Any:
    """Return the point that Newton's method leads to if points are held as pairs, or the given one if none is close."""
    facts, l2, domain = solver.facts, solver.l2, solver.domain.traits
    if not holds(solver.loss) or (domain.bounded and domain.norm != 2.0):
        return point
    radius, model = domain.radius if domain.bounded else math.inf, solver.model(point)
    every, shortest = np.ones(point.w.shape, dtype=bool), math.inf
    held = Held(point.w, np.zeros_like(point.w), math.inf).moved(np.zeros_like(point.w), radius)
    for _ in range(_STEPS):
        high, low = held.high, held.low
        g = solver.closer(high) + solver.sums.sweep(Bend(solver.loss, high, low)) + l2 * low
        on_sphere = held.room <= 2.0 * _INSIDE * radius**2 < math.inf
        multiplier = max(0.0, -float(np.vdot(g, high)) / float(np.vdot(high, high))) if on_sphere else 0.0
        r = g + multiplier * high
        norm, off = length_of(high), length_of(low)
        error = facts.sums.careful(norm, facts.curvature, l2, facts.tilt)
        error += beside(facts.sums, norm, off, facts.curvature)
        error += 8.0 * UNIT * (length_of(g) + (multiplier + l2) * norm)
        length = length_of(r)
        far = distance(l2, multiplier, length + error, held.room) + off
        now = point._replace(
            w=high, gradient=g, residual=r, multiplier=multiplier, length=length, certified=l2 * far * (1.0 + 1e-12)
        )
        if now.certified <= solver.tolerance:
            return now
        if not length <= 0.5 * shortest:
            return point
        shortest = length
        step = model.solve(multiplier, -r, 0.01 * length, every)
        if multiplier > 0.0:  # along the sphere
            across = model.solve(multiplier, high, 0.01 * norm, every)
            step = step - float(np.vdot(high, step)) / float(np.vdot(high, across)) * across
        held = held.moved(step, radius)
    return point
