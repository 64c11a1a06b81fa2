"""Convex domains that hold the origin, where every run starts.

Two methods serve the compiled loops and keep a projection cheap: `rescale` gives the factor that brings a point of
squared norm |w|^2 back (1 if nothing is to be done), `clip` projects one coordinate. A ball only rescales, a box
only clips, so a sparse row costs what its non-zeros cost. The projection onto an l1 ball needs all coordinates at
once: there both methods refuse, and so do the algorithms that project at every row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpconvex.errors import HypothesisError


class Everywhere(NamedTuple):
    """All of R^d.

    Examples
    --------
    >>> Everywhere().diameter(3)
    inf
    """

    radius: float = math.inf

    def rescale(self, norm2):
        """Factor that brings a point back."""
        return 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return False

    def clip(self, value):
        """Project one coordinate."""
        return value

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return w

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return math.inf

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return math.inf

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if self.radius == math.inf else "Everywhere has no radius; use L2Ball(radius)"


class L2Ball(NamedTuple):
    """Euclidean ball of the given radius around the origin.

    Examples
    --------
    >>> L2Ball(2.0).project(np.array([3.0, 4.0]))
    array([1.2, 1.6])
    """

    radius: float

    def rescale(self, norm2):
        """Factor that brings a point back."""
        return self.radius / math.sqrt(norm2) if norm2 > self.radius * self.radius else 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return False

    def clip(self, value):
        """Project one coordinate."""
        return value

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return w * self.rescale(float(np.vdot(w, w)))

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return 2.0 * self.radius

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.radius < math.inf else "radius must be positive and finite"


class Box(NamedTuple):
    """Every coordinate between `lo` and `hi`, with lo <= 0 <= hi.

    Examples
    --------
    >>> Box(0.0, 1.0).project(np.array([-3.0, 0.5]))
    array([0. , 0.5])
    """

    lo: float = -1.0
    hi: float = 1.0

    def rescale(self, norm2):
        """Factor that brings a point back."""
        return 1.0

    def clips(self):
        """Whether `clip` does anything."""
        return True

    def clip(self, value):
        """Project one coordinate."""
        return min(max(value, self.lo), self.hi)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain."""
        return np.clip(w, self.lo, self.hi)

    def reach(self, d: int) -> float:
        """Largest norm of a point in dimension d."""
        return math.sqrt(d) * max(-self.lo, self.hi)

    def diameter(self, d: int) -> float:
        """Largest distance between two points in dimension d."""
        return math.sqrt(d) * (self.hi - self.lo)

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        ok = -math.inf < self.lo <= 0.0 <= self.hi < math.inf and self.lo < self.hi
        return None if ok else "lo and hi must be finite with lo <= 0 <= hi and lo < hi"


class L1Ball(NamedTuple):
    """Points whose coordinates add up, in size, to at most `radius`: where sparse weights live.

    Examples
    --------
    >>> L1Ball(2.0).project(np.array([3.0, -2.0, 0.5]))
    array([ 1.5, -0.5,  0. ])
    >>> L1Ball(2.0).support(np.array([3.0, -4.0]))
    8.0
    """

    radius: float

    def rescale(self, norm2):
        """Refuse: no factor brings a point back."""
        raise HypothesisError("an l1 ball has no projection row by row: use FrankWolfe, or NoisyGD")

    def clips(self):
        """Refuse: see `rescale`."""
        raise HypothesisError("an l1 ball has no projection row by row: use FrankWolfe, or NoisyGD")

    def clip(self, value):
        """Refuse: see `rescale`."""
        raise HypothesisError("an l1 ball has no projection row by row: use FrankWolfe, or NoisyGD")

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain: every coordinate drawn towards 0 by the same amount."""
        size = np.abs(w)
        if size.sum() <= self.radius:
            return w
        below = size - size.max()  # how far below the largest, which is drawn to `top`
        ordered = np.sort(below, axis=None)[::-1]
        tops = (self.radius - np.cumsum(ordered)) / np.arange(1, ordered.size + 1)
        top = tops[np.flatnonzero(ordered + tops > 0.0)[-1]]
        return np.sign(w) * np.maximum(below + top, 0.0)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the domain."""
        return float(self.radius * np.abs(v).max())

    def reach(self, d: int) -> float:
        """Largest (l2) norm of a point in dimension d."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest (l2) distance between two points in dimension d."""
        return 2.0 * self.radius

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.radius < math.inf else "radius must be positive and finite"


Domain = Everywhere | L2Ball | Box | L1Ball
