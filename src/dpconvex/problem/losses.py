"""Losses of generalised linear models: loss(w; x, y) = l(<x, w>; y).

Each loss is a NamedTuple of numbers with plain methods on scalars. The compiled loops call these very methods
(`dpconvex.loops.protocol`), so there is one definition of every slope. They are part of what privacy rests on:
`slope_bound` and `curvature` must be true upper bounds, and the contract tests check that they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Logistic(NamedTuple):
    """Logistic loss ln(1 + exp(-m)) of the margin m = y z, labels -1 and +1.

    Parameters
    ----------
    cap : float, default=1.0
        Largest slope, in (0, 1]. Below the margin where the logistic slope reaches `cap` the loss goes on as a
        straight line: still convex and differentiable, and the noise shrinks with `cap`.

    Examples
    --------
    >>> Logistic().slope(0.0, 1.0)
    -0.5
    >>> Logistic(cap=0.5).slope(-3.0, 1.0)
    -0.5
    """

    cap: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        m = y * z
        if self.cap < 1.0:
            knot = math.log((1.0 - self.cap) / self.cap)
            if m < knot:
                return math.log1p(math.exp(-knot)) + self.cap * (knot - m)
        return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))

    def slope(self, z, y):
        """Derivative in z."""
        m = y * z
        e = math.exp(-abs(m))
        p = e / (1.0 + e) if m >= 0.0 else 1.0 / (1.0 + e)
        return -y * min(p, self.cap)

    def curvature(self, z, y):
        """Second derivative in z (on the straight part: 0)."""
        e = math.exp(-abs(z))
        p = 1.0 / (1.0 + e) if y * z < 0.0 else e / (1.0 + e)
        return e / ((1.0 + e) * (1.0 + e)) if p < self.cap else 0.0

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value (and a hair beyond, for rounding)."""
        return min(self.cap, 1.0 / (1.0 + math.exp(-reach * (1.0 + 1e-9))))

    def curvature_bound(self) -> float:
        """Largest curvature: p (1 - p) with p <= cap."""
        return 0.25 if self.cap >= 0.5 else self.cap * (1.0 - self.cap)

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.cap <= 1.0 else "cap must lie in (0, 1]"

    @property
    def labels(self) -> str:
        """Labels it takes: "sign" for -1 and +1, "bounded" for targets in a declared range."""
        return "sign"

    @property
    def monotone(self) -> bool:
        """Whether the label fixes the sign of the slope."""
        return True


class SmoothedHinge(NamedTuple):
    """Hinge loss max(0, 1 - m) of the margin m = y z, rounded over `width` below m = 1, labels -1 and +1.

    Examples
    --------
    >>> SmoothedHinge(width=0.5).slope(0.75, 1.0)
    -0.5
    """

    width: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        gap = 1.0 - y * z
        if gap <= 0.0:
            return 0.0
        if gap < self.width:
            return gap * gap / (2.0 * self.width)
        return gap - self.width / 2.0

    def slope(self, z, y):
        """Derivative in z."""
        return -y * min(max((1.0 - y * z) / self.width, 0.0), 1.0)

    def curvature(self, z, y):
        """Second derivative in z, 1/width on the rounded part."""
        gap = 1.0 - y * z
        return 1.0 / self.width if 0.0 < gap < self.width else 0.0

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value (and a hair beyond, for rounding)."""
        return min(1.0, (1.0 + reach * (1.0 + 1e-9)) / self.width)

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 1.0 / self.width

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.width < math.inf else "width must be positive and finite"

    @property
    def labels(self) -> str:
        """Labels it takes: "sign" for -1 and +1, "bounded" for targets in a declared range."""
        return "sign"

    @property
    def monotone(self) -> bool:
        """Whether the label fixes the sign of the slope."""
        return True


class Squared(NamedTuple):
    """Squared loss (z - y)^2 / 2, targets clipped to [-target, target]. Its slope is bounded on bounded domains only.

    Examples
    --------
    >>> Squared(target=1.0).slope(0.5, 1.0)
    -0.5
    """

    target: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        return 0.5 * (z - y) * (z - y)

    def slope(self, z, y):
        """Derivative in z."""
        return z - y

    def curvature(self, z, y):
        """Second derivative in z."""
        return 1.0

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return reach * (1.0 + 1e-9) + self.target

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 1.0

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.target < math.inf else "target must be positive and finite"

    @property
    def labels(self) -> str:
        """Labels it takes: "sign" for -1 and +1, "bounded" for targets in a declared range."""
        return "bounded"

    @property
    def monotone(self) -> bool:
        """Whether the label fixes the sign of the slope."""
        return False


class Huber(NamedTuple):
    """Squared loss near the target, absolute loss beyond `threshold`: bounded slope on every domain.

    Targets are clipped to [-target, target], which privacy does not need but a declared range makes honest.

    Examples
    --------
    >>> Huber(threshold=0.5).slope(3.0, 1.0)
    0.5
    """

    threshold: float = 1.0
    target: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        r = abs(z - y)
        if r <= self.threshold:
            return 0.5 * r * r
        return self.threshold * (r - 0.5 * self.threshold)

    def slope(self, z, y):
        """Derivative in z."""
        return min(max(z - y, -self.threshold), self.threshold)

    def curvature(self, z, y):
        """Second derivative in z."""
        return 1.0 if abs(z - y) < self.threshold else 0.0

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return min(self.threshold, reach * (1.0 + 1e-9) + self.target)

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 1.0

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        if not 0.0 < self.threshold < math.inf:
            return "threshold must be positive and finite"
        return None if 0.0 < self.target < math.inf else "target must be positive and finite"

    @property
    def labels(self) -> str:
        """Labels it takes: "sign" for -1 and +1, "bounded" for targets in a declared range."""
        return "bounded"

    @property
    def monotone(self) -> bool:
        """Whether the label fixes the sign of the slope."""
        return False


class Linear(NamedTuple):
    """Linear loss -steepness y z, labels -1 and +1: the worst case of every Lipschitz loss, which the audit plays.

    Examples
    --------
    >>> Linear(steepness=2.0).slope(10.0, 1.0)
    -2.0
    """

    steepness: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        return -self.steepness * y * z

    def slope(self, z, y):
        """Derivative in z."""
        return -self.steepness * y

    def curvature(self, z, y):
        """Second derivative in z."""
        return 0.0

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return self.steepness

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 0.0

    def check(self) -> str | None:
        """Say what is wrong with the parameters, or None."""
        return None if 0.0 < self.steepness < math.inf else "steepness must be positive and finite"

    @property
    def labels(self) -> str:
        """Labels it takes: "sign" for -1 and +1, "bounded" for targets in a declared range."""
        return "sign"

    @property
    def monotone(self) -> bool:
        """Whether the label fixes the sign of the slope."""
        return True


Loss = Logistic | SmoothedHinge | Squared | Huber | Linear
