"""Convex domains that hold the origin, where every run starts.

Two methods serve the compiled loops and keep a projection cheap: `rescale` gives the factor that brings a point of
squared norm |w|^2 back (1 if nothing is to be done), `clip` projects one coordinate. A ball only rescales, a box
only clips, so a sparse row costs what its non-zeros cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


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


Domain = Everywhere | L2Ball | Box
