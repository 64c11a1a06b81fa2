"""Losses of a round: objects with `value(x)`, `gradient(x)` and `strong_convexity`.

`form` says what players may do with a loss beyond that: "linear", "quadratic", "kinked" (two straight lines of one
margin), "logistic" or "separable". A loss of your own needs no `form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

__all__ = ["AbsoluteLoss", "HingeLoss", "LinearLoss", "LogisticLoss", "QuadraticLoss", "SeparableLoss"]


@dataclass(frozen=True, eq=False)
class LinearLoss:
    """<g, x>. A bare vector g means the same.

    Examples
    --------
    >>> LinearLoss(np.array([1.0, -2.0])).value(np.array([3.0, 1.0]))
    1.0
    """

    form: ClassVar[str] = "linear"

    g: np.ndarray
    strong_convexity: float = 0.0

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return float(self.g @ x)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x."""
        return self.g


@dataclass(frozen=True, eq=False)
class MarginLoss:
    """Base of the losses of a margin m = <a, x> and a number b, a target or a label.

    A loss states its `height(m, b)` and `slope(m, b)`, for numbers or arrays of them.
    """

    form: ClassVar[str]

    a: np.ndarray
    b: float
    strong_convexity: float = 0.0

    @staticmethod
    def height(m: Any, b: Any) -> Any:
        """Losses at margins."""
        raise NotImplementedError

    @staticmethod
    def slope(m: Any, b: Any) -> Any:
        """Derivatives in the margins; 0 at a kink."""
        raise NotImplementedError

    @property
    def row(self) -> np.ndarray:
        """Direction in which the loss rises: -b a for a label b."""
        return -self.b * self.a

    def value(self, x: np.ndarray) -> float:
        """Loss at x."""
        return float(self.height(self.a @ x, self.b))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x, 0 at a kink."""
        return float(self.slope(self.a @ x, self.b)) * self.a


@dataclass(frozen=True, eq=False)
class AbsoluteLoss(MarginLoss):
    """|<a, x> - b|.

    Examples
    --------
    >>> AbsoluteLoss(np.array([1.0, 1.0]), 5.0).gradient(np.array([1.0, 1.0]))
    array([-1., -1.])
    """

    form: ClassVar[str] = "kinked"
    one_sided: ClassVar[bool] = False

    @staticmethod
    def height(m: Any, b: Any) -> Any:
        """Losses at margins."""
        return np.abs(m - b)

    @staticmethod
    def slope(m: Any, b: Any) -> Any:
        """Derivatives in the margins; 0 at the kink."""
        return np.sign(m - b)

    @property
    def row(self) -> np.ndarray:
        """The loss is |<row, x> - offset|."""
        return self.a

    @property
    def offset(self) -> float:
        """Where the kink lies, as a value of <row, x>."""
        return self.b


@dataclass(frozen=True, eq=False)
class HingeLoss(MarginLoss):
    """max(0, 1 - b <a, x>), b = -1 or +1.

    Examples
    --------
    >>> HingeLoss(np.array([1.0, 0.0]), 1.0).value(np.array([0.25, 7.0]))
    0.75
    """

    form: ClassVar[str] = "kinked"
    one_sided: ClassVar[bool] = True
    offset: ClassVar[float] = -1.0  # the loss is max(0, <row, x> - offset)

    @staticmethod
    def height(m: Any, b: Any) -> Any:
        """Losses at margins."""
        return np.maximum(1.0 - b * m, 0.0)

    @staticmethod
    def slope(m: Any, b: Any) -> Any:
        """Derivatives in the margins; 0 at the kink."""
        return np.where(b * m < 1.0, -b, 0.0)


@dataclass(frozen=True, eq=False)
class LogisticLoss(MarginLoss):
    """ln(1 + exp(-b <a, x>)), b = -1 or +1.

    Examples
    --------
    >>> loss = LogisticLoss(np.array([1.0, 0.0]), 1.0)
    >>> round(loss.value(np.zeros(2)), 4), loss.gradient(np.zeros(2))
    (0.6931, array([-0.5, -0. ]))
    """

    form: ClassVar[str] = "logistic"

    @staticmethod
    def height(m: Any, b: Any) -> Any:
        """Losses at margins."""
        return np.logaddexp(0.0, -b * m)

    @staticmethod
    def slope(m: Any, b: Any) -> Any:
        """Derivatives in the margins."""
        return -b * expit(-b * m)


@dataclass(frozen=True, eq=False)
class QuadraticLoss:
    """<g, x> + (strong_convexity / 2) |x - centre|^2, without g if none is given.

    Examples
    --------
    >>> QuadraticLoss(np.array([1.0, 1.0]), strong_convexity=2.0).gradient(np.zeros(2))
    array([-2., -2.])
    """

    form: ClassVar[str] = "quadratic"

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
class SeparableLoss:
    """A sum of losses of one number each, the j-th of coordinate j.

    Parameters
    ----------
    parts : tuple
        For every coordinate a `LinearLoss`, `AbsoluteLoss`, `HingeLoss` or `QuadraticLoss` in dimension 1.

    Examples
    --------
    >>> loss = SeparableLoss((AbsoluteLoss(np.ones(1), 0.5), LinearLoss(np.array([2.0]))))
    >>> loss.value(np.array([0.0, 1.0])), loss.gradient(np.zeros(2))
    (2.5, array([-1.,  2.]))
    """

    form: ClassVar[str] = "separable"

    parts: tuple[LinearLoss | AbsoluteLoss | HingeLoss | QuadraticLoss, ...]

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


Loss = LinearLoss | AbsoluteLoss | HingeLoss | LogisticLoss | QuadraticLoss | SeparableLoss
