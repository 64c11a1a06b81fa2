"""Losses of a round, as small objects with `value(x)`, `gradient(x)` and `strong_convexity`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Linear:
    """<g, x>. A bare vector g means the same.

    Examples
    --------
    >>> Linear(np.array([1.0, -2.0])).value(np.array([3.0, 1.0]))
    1.0
    """

    g: np.ndarray
    strong_convexity: float = 0.0

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return float(self.g @ x)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x."""
        return self.g


@dataclass(frozen=True, eq=False)
class Absolute:
    """|<a, x> - b|.

    Examples
    --------
    >>> Absolute(np.array([1.0, 1.0]), 5.0).gradient(np.array([1.0, 1.0]))
    array([-1., -1.])
    """

    a: np.ndarray
    b: float
    strong_convexity: float = 0.0

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return abs(float(self.a @ x) - self.b)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Subgradient at x, 0 at the kink."""
        return float(np.sign(self.a @ x - self.b)) * self.a


@dataclass(frozen=True, eq=False)
class Hinge:
    """max(0, 1 - b <a, x>), b = -1 or +1.

    Examples
    --------
    >>> Hinge(np.array([1.0, 0.0]), 1.0).value(np.array([0.25, 7.0]))
    0.75
    """

    a: np.ndarray
    b: float
    strong_convexity: float = 0.0

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return max(0.0, 1.0 - self.b * float(self.a @ x))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Subgradient at x, 0 at the kink."""
        return (-self.b if self.b * float(self.a @ x) < 1.0 else 0.0) * self.a


@dataclass(frozen=True, eq=False)
class Quadratic:
    """<g, x> + (strong_convexity / 2) |x - centre|^2, without g if none is given.

    Examples
    --------
    >>> Quadratic(np.array([1.0, 1.0]), strong_convexity=2.0).gradient(np.zeros(2))
    array([-2., -2.])
    """

    centre: np.ndarray
    strong_convexity: float = 1.0
    g: np.ndarray | None = None

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        off = x - self.centre
        return self.strong_convexity / 2.0 * float(off @ off) + (0.0 if self.g is None else float(self.g @ x))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x."""
        slope = self.strong_convexity * (x - self.centre)
        return slope if self.g is None else slope + self.g


Loss = Linear | Absolute | Hinge | Quadratic
