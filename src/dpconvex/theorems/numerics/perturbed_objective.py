"""Profiles of objective perturbation: a minimiser, released with Gaussian noise of its own."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from dpconvex.kernel.curves import (
    Curve,
    with_gaussian,
)
from dpconvex.kernel.profiles import Numeric
from dpconvex.theorems.numerics.objective import Setting, SoftmaxSetting, profile_curve, softmax_curve

_LAST = 300.0  # epsilon beyond which a curve falls no further


def _level(curve: Curve) -> Curve:
    """The same curve up to epsilon = 300, and level from there on: it includes that long tilts are shortened."""
    return lambda eps: curve(np.minimum(eps, _LAST))


def _blur_nodes(mu_out: float, mu: float) -> int:
    return 2 * math.ceil(min(max(120.0 * mu_out / mu, 12.0), 120.0)) + 1


@dataclass(frozen=True)
class PerturbedObjective(Numeric):
    """The minimiser of a tilted objective of a linear model, with what is needed to release it (mu_out-GDP).

    Fields as in `objective.Setting`; accounting names the bound. The curve is computed, not stored.

    Examples
    --------
    >>> from dpconvex.kernel.profiles import GDP
    >>> plain = PerturbedObjective("zero_out", "sharp", 1.0, 1.0, True, (0.0, 1.0, -1.0), 1.0, 1.0, 4.2252, 0.0)
    >>> round(plain.epsilon(1e-6), 3), round(GDP(1 / 4.2252).epsilon(1e-6), 3)
    (1.0, 1.0)
    """

    relation: str
    accounting: str
    slope: float
    width: float
    monotone: bool
    law: tuple[float, float, float]
    radius: float
    l2: float
    sigma: float
    mu_out: float

    @property
    def setting(self) -> Setting:
        """What the bounds depend on."""
        return Setting(self.slope, self.width, self.monotone, self.law, self.radius, self.l2, self.sigma)

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        s = self.setting
        bare = profile_curve(s, self.relation, self.accounting)
        return _level(with_gaussian(bare, self.mu_out, _blur_nodes(self.mu_out, s.mu)))

    def blurred(self, mu: float) -> Curve:
        """Its own Gaussian takes up the other: one integration."""
        return dataclasses.replace(self, mu_out=math.hypot(self.mu_out, mu)).curve()

    def without_gaussian(self) -> tuple[Numeric, float]:
        """The minimiser alone, and the noise it is released with."""
        return dataclasses.replace(self, mu_out=0.0), self.mu_out


@dataclass(frozen=True)
class PerturbedSoftmax(Numeric):
    """The minimiser of a tilted objective of a softmax, with what is needed to release it (mu_out-GDP).

    Examples
    --------
    >>> round(PerturbedSoftmax("zero_out", 3, 1.0, 10.0, 6.0, 0.0).epsilon(1e-6), 2)
    1.03
    """

    relation: str
    classes: int
    radius: float
    l2: float
    sigma: float
    mu_out: float

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        s = SoftmaxSetting(self.classes, self.radius, self.l2, self.sigma)
        return _level(with_gaussian(softmax_curve(s, self.relation), self.mu_out, _blur_nodes(self.mu_out, s.mu)))

    def blurred(self, mu: float) -> Curve:
        """Its own Gaussian takes up the other: one integration."""
        return dataclasses.replace(self, mu_out=math.hypot(self.mu_out, mu)).curve()

    def without_gaussian(self) -> tuple[Numeric, float]:
        """The minimiser alone, and the noise it is released with."""
        return dataclasses.replace(self, mu_out=0.0), self.mu_out
