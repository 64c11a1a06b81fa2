"""Losses of a round, as small objects with `value(x)`, `gradient(x)` and `strong_convexity`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit


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
class Logistic:
    """ln(1 + exp(-b <a, x>)), b = -1 or +1.

    Examples
    --------
    >>> loss = Logistic(np.array([1.0, 0.0]), 1.0)
    >>> round(loss.value(np.zeros(2)), 4), loss.gradient(np.zeros(2))
    (0.6931, array([-0.5, -0. ]))
    """

    a: np.ndarray
    b: float
    strong_convexity: float = 0.0

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return float(np.logaddexp(0.0, -self.b * float(self.a @ x)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x."""
        return -self.b * float(expit(-self.b * float(self.a @ x))) * self.a


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


@dataclass(frozen=True, eq=False)
class Separable:
    """A sum of losses of one number each, the j-th of coordinate j.

    Parameters
    ----------
    parts : tuple
        For every coordinate a `Linear`, `Absolute`, `Hinge` or `Quadratic` in dimension 1.

    Examples
    --------
    >>> loss = Separable((Absolute(np.ones(1), 0.5), Linear(np.array([2.0]))))
    >>> loss.value(np.array([0.0, 1.0])), loss.gradient(np.zeros(2))
    (2.5, array([-1.,  2.]))
    """

    parts: tuple[Linear | Absolute | Hinge | Quadratic, ...]

    @property
    def strong_convexity(self) -> float:
        """Least of any coordinate."""
        return min(part.strong_convexity for part in self.parts)

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return sum(part.value(x[j : j + 1]) for j, part in enumerate(self.parts))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Subgradient at x."""
        return np.concatenate([part.gradient(x[j : j + 1]) for j, part in enumerate(self.parts)])


Loss = Linear | Absolute | Hinge | Logistic | Quadratic | Separable
