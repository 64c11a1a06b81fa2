"""Losses of linear models: loss(w; x, y) = l(<x, w>; y), and softmax for several classes.

Each loss is a NamedTuple of numbers with plain methods on scalars. The compiled loops call these very methods
(`dpconvex.loops.protocol`), so there is one definition of every slope. Privacy depends on them:
`slope_bound` and `curvature` must be true upper bounds, and the contract tests check that they are.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, TypeGuard

import numpy as np

from dpconvex.problem.own import Convex, Declared, from_jax, from_torch
from dpconvex.problem.traits import LossTraits, first_not_positive

__all__ = [
    "Absolute",
    "Convex",
    "Hinge",
    "Huber",
    "Linear",
    "LogCosh",
    "Logistic",
    "Loss",
    "LossTraits",
    "Pinball",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "from_jax",
    "from_torch",
]


class Logistic(NamedTuple):
    """Logistic loss ln(1 + exp(shift - m)) of the margin m = y z, labels -1 and +1.

    Parameters
    ----------
    cap : float, default=1.0
        Largest slope, in (0, 1]. Below the margin where the logistic slope reaches `cap` the loss continues as a
        straight line. It stays convex and differentiable, and the noise is proportional to `cap`.
    shift : float, default=0.0
        Required margin, at least 0. A shifted loss is steeper at z = 0 for the same largest slope: more signal for the
        same noise. `log_odds` corrects probabilities for the shift and the cap.

    Examples
    --------
    >>> Logistic().slope(0.0, 1.0)
    -0.5
    >>> Logistic(cap=0.5).slope(-3.0, 1.0)
    -0.5
    >>> round(Logistic(shift=1.0).slope(0.0, 1.0), 3)
    -0.731
    """

    cap: float = 1.0
    shift: float = 0.0

    def value(self, z, y):
        """Loss at prediction z."""
        m = y * z - self.shift
        if self.cap < 1.0:
            knot = math.log((1.0 - self.cap) / self.cap)
            if m < knot:
                return math.log1p(math.exp(-knot)) + self.cap * (knot - m)
        return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))

    def slope(self, z, y):
        """Derivative in z."""
        m = y * z - self.shift
        e = math.exp(-abs(m))
        p = (e if m >= 0.0 else 1.0) / (1.0 + e)
        return -y * min(p, self.cap)

    def curvature(self, z, y):
        """Second derivative in z (on the straight part: 0)."""
        m = y * z - self.shift
        e = math.exp(-abs(m))
        p = (e if m >= 0.0 else 1.0) / (1.0 + e)
        return e / ((1.0 + e) * (1.0 + e)) if p < self.cap else 0.0

    def log_odds(self, z: np.ndarray) -> np.ndarray:
        """Log-odds of the label +1 at which a population has z as the minimiser of this loss.

        This is ln of slope(z; -1) over -slope(z; +1), and z itself for the loss without shift and cap.
        """
        up = np.minimum(-np.logaddexp(0.0, -(z + self.shift)), math.log(self.cap))
        down = np.minimum(-np.logaddexp(0.0, z - self.shift), math.log(self.cap))
        return np.asarray(up - down)

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value (and slightly beyond, for rounding)."""
        return min(self.cap, 1.0 / (1.0 + math.exp(-reach * (1.0 + 1e-9) - self.shift)))

    def curvature_bound(self) -> float:
        """Largest curvature: p (1 - p) with p <= cap."""
        return 0.25 if self.cap >= 0.5 else self.cap * (1.0 - self.cap)

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: s (1 - s)."""
        return 0.0, 1.0, -1.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        if not 0.0 < self.cap <= 1.0:
            return "cap must lie in (0, 1]"
        return None if 0.0 <= self.shift <= 20.0 else "shift must lie between 0 and 20"

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("sign", "margin", monotone=True, careful=True, probabilities=True)


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
        """Largest |slope| over predictions up to `reach` in absolute value (and slightly beyond, for rounding)."""
        return min(1.0, (1.0 + reach * (1.0 + 1e-9)) / self.width)

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 1.0 / self.width

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: constant."""
        return self.curvature_bound(), 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(width=self.width)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("sign", "margin", monotone=True)


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

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: constant."""
        return self.curvature_bound(), 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(target=self.target)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("bounded", "squares", target=self.target, scale=self.target, quadratic=True)


class Huber(NamedTuple):
    """Squared loss near the target, absolute loss beyond `threshold`: bounded slope on every domain.

    Targets are clipped to the declared range [-target, target], although privacy does not depend on it.

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

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: constant."""
        return self.curvature_bound(), 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(threshold=self.threshold, target=self.target)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("bounded", "squares", target=self.target, scale=self.target)


class LogCosh(NamedTuple):
    """threshold^2 ln cosh(r / threshold) of the residual r: squared near the target, absolute beyond, and smooth.

    Its curvature vanishes where its slope saturates, so objective perturbation needs less noise for it than for `Huber`
    with the same threshold. Targets are clipped to [-target, target].

    Examples
    --------
    >>> round(LogCosh(threshold=0.5).slope(3.0, 0.0), 4)
    0.5
    """

    threshold: float = 1.0
    target: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        r = abs(z - y) / self.threshold
        return self.threshold * self.threshold * (r + math.log1p(math.exp(-2.0 * r)) - math.log(2.0))

    def slope(self, z, y):
        """Derivative in z."""
        return self.threshold * math.tanh((z - y) / self.threshold)

    def curvature(self, z, y):
        """Second derivative in z."""
        t = math.tanh((z - y) / self.threshold)
        return 1.0 - t * t

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return self.threshold * math.tanh((reach * (1.0 + 1e-9) + self.target) / self.threshold)

    def curvature_bound(self) -> float:
        """Largest curvature."""
        return 1.0

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: 1 - (s / threshold)^2."""
        return 1.0, 0.0, -1.0 / (self.threshold * self.threshold)

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(threshold=self.threshold, target=self.target)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("bounded", "squares", target=self.target, scale=self.target)


class Hinge(NamedTuple):
    """Hinge loss max(0, margin - m) of the margin m = y z, labels -1 and +1. Its curvature is unbounded at a kink.

    Examples
    --------
    >>> Hinge().slope(0.5, 1.0), Hinge().slope(1.5, 1.0)
    (-1.0, 0.0)
    """

    margin: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        return max(self.margin - y * z, 0.0)

    def slope(self, z, y):
        """Derivative in z, and 0 at the kink, which is a subgradient there."""
        return -y if y * z < self.margin else 0.0

    def curvature(self, z, y):
        """Second derivative in z where it exists."""
        return 0.0

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the slope jumps, and the slopes before and after: the loss is the larger of the two lines."""
        after = np.where(y > 0.0, 0.0, 1.0)
        return self.margin * y, after - 1.0, after

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return 1.0

    def curvature_bound(self) -> float:
        """Largest curvature: infinite, at the kink."""
        return math.inf

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: here a is infinite."""
        return math.inf, 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(margin=self.margin)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("sign", "hinge", scale=self.margin, monotone=True, kinked=True)


class Absolute(NamedTuple):
    """Absolute loss |z - y|, targets clipped to [-target, target]. Its curvature is unbounded at a kink.

    Examples
    --------
    >>> Absolute().slope(0.5, 1.0), Absolute().slope(2.0, 1.0)
    (-1.0, 1.0)
    """

    target: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        return abs(z - y)

    def slope(self, z, y):
        """Derivative in z, and 0 at the kink, which is a subgradient there."""
        return 1.0 if z > y else -1.0 if z < y else 0.0

    def curvature(self, z, y):
        """Second derivative in z where it exists."""
        return 0.0

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the slope jumps, and the slopes before and after: the loss is the larger of the two lines."""
        return y, np.full(len(y), -1.0), np.ones(len(y))

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return 1.0

    def curvature_bound(self) -> float:
        """Largest curvature: infinite, at the kink."""
        return math.inf

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: here a is infinite."""
        return math.inf, 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(target=self.target)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("bounded", "absolute", target=self.target, scale=self.target, kinked=True, quantile=0.5)


class Pinball(NamedTuple):
    """Pinball loss of quantile regression: quantile (y - z) below the target, (1 - quantile) (z - y) above it.

    Its population minimiser is that quantile of the target. Targets are clipped to [-target, target]. Its
    curvature is unbounded at a kink.

    Examples
    --------
    >>> Pinball(0.75).slope(0.5, 1.0), Pinball(0.75).slope(2.0, 1.0)
    (-0.75, 0.25)
    """

    quantile: float = 0.5
    target: float = 1.0

    def value(self, z, y):
        """Loss at prediction z."""
        return (1.0 - self.quantile) * (z - y) if z > y else self.quantile * (y - z)

    def slope(self, z, y):
        """Derivative in z, and 0 at the kink, which is a subgradient there."""
        return 1.0 - self.quantile if z > y else -self.quantile if z < y else 0.0

    def curvature(self, z, y):
        """Second derivative in z where it exists."""
        return 0.0

    def kinks(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the slope jumps, and the slopes before and after: the loss is the larger of the two lines."""
        return y, np.full(len(y), -self.quantile), np.full(len(y), 1.0 - self.quantile)

    def slope_bound(self, reach: float) -> float:
        """Largest |slope| over predictions up to `reach` in absolute value."""
        return max(self.quantile, 1.0 - self.quantile)

    def curvature_bound(self) -> float:
        """Largest curvature: infinite, at the kink."""
        return math.inf

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: here a is infinite."""
        return math.inf, 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        if not 0.0 < self.quantile < 1.0:
            return "quantile must lie strictly between 0 and 1"
        return first_not_positive(target=self.target)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits(
            "bounded", "absolute", target=self.target, scale=self.target, kinked=True, quantile=self.quantile
        )


class Linear(NamedTuple):
    """Linear loss -steepness y z, labels -1 and +1: the worst case of every Lipschitz loss, used by the audit.

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

    def curvature_law(self) -> tuple[float, float, float]:
        """Curvature is at most a + b s + c s^2 where |slope| is s: constant."""
        return self.curvature_bound(), 0.0, 0.0

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        return first_not_positive(steepness=self.steepness)

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("sign", None, monotone=True, constant=True)


class Softmax(NamedTuple):
    """Cross-entropy of K classes, -ln p_y with p the softmax of z - shift e_y; labels are class indices 0 .. K-1.

    Weights are a K x d matrix, fitted jointly. Predictions z are vectors, so its methods work on whole batches.

    Parameters
    ----------
    classes : int
    shift : float, default=0.0
        Required margin, as in `Logistic`.

    Examples
    --------
    >>> Softmax(3).slopes(np.zeros((1, 3)), np.array([0.0])).round(3)
    array([[-0.667,  0.333,  0.333]])
    """

    classes: float
    shift: float = 0.0

    def values(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of every record at its predictions."""
        own = np.arange(len(Z)), y.astype(np.intp)
        shifted = np.array(Z)
        shifted[own] -= self.shift
        top = shifted.max(axis=1)
        return np.asarray(np.log(np.exp(shifted - top[:, None]).sum(axis=1)) + (top - shifted[own]))

    def slopes(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradient in z, one row per record: p - e_y."""
        P = self.probabilities(Z, y)
        P[np.arange(len(P)), y.astype(np.intp)] -= 1.0
        return P

    def probabilities(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Softmax of z - shift e_y."""
        P = np.array(Z)
        P[np.arange(len(P)), y.astype(np.intp)] -= self.shift
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        P /= P.sum(axis=1, keepdims=True)
        return P

    def log_odds(self, Z: np.ndarray) -> np.ndarray:
        """Log-probabilities, up to a constant per row, at which a population has z as the minimiser.

        With a = exp(z) and S = sum a, class k has p_k in proportion to a_k (S - (1 - exp(-shift)) a_k).
        """
        A = np.exp(Z - Z.max(axis=1, keepdims=True))
        return np.asarray(np.log(A) + np.log(A.sum(axis=1, keepdims=True) + math.expm1(-self.shift) * A))

    def slope_bound(self, reach: float) -> float:
        """Largest l2 norm of p - e_y."""
        return math.sqrt(2.0)

    def curvature_bound(self) -> float:
        """Largest eigenvalue of diag(p) - p p'."""
        return 0.5

    def check(self) -> str | None:
        """Describe what is wrong with the parameters, or return None."""
        if not (2 <= self.classes <= 10_000 and self.classes == int(self.classes)):
            return "classes must be a whole number of at least 2"
        return None if 0.0 <= self.shift <= 20.0 else "shift must lie between 0 and 20"

    @property
    @cache
    def traits(self) -> LossTraits:
        """Traits of this loss."""
        return LossTraits("class", "classes", outputs=int(self.classes), probabilities=True)


Kinked = Hinge | Absolute | Pinball
Scalar = Logistic | SmoothedHinge | Squared | Huber | LogCosh | Linear | Kinked
Loss = Scalar | Softmax | Convex | Declared


def _has_log_odds(loss: Loss) -> TypeGuard[Logistic | Softmax]:
    return loss.traits.probabilities


def log_odds(loss: Loss, scores: np.ndarray) -> np.ndarray:
    """Log-odds at the scores by the link of the loss, or the scores themselves if the loss has no link.

    Examples
    --------
    >>> log_odds(SmoothedHinge(), np.array([2.0]))
    array([2.])
    """
    return loss.log_odds(scores) if _has_log_odds(loss) else scores


def worst_at_origin(loss: Loss) -> float:
    """Largest loss of a record at prediction 0 if the loss is never negative, else infinity.

    Examples
    --------
    >>> worst_at_origin(Squared(target=2.0)), worst_at_origin(Linear())
    (2.0, inf)
    """
    if isinstance(loss, Softmax):
        return math.log1p((loss.classes - 1.0) * math.exp(loss.shift))
    traits = loss.traits
    if isinstance(loss, Convex):
        return math.inf
    return math.inf if traits.constant else max(loss.value(0.0, traits.target), loss.value(0.0, -traits.target))
