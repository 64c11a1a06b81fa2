"""Renyi divergences of some orders, or of all, as a curve, and what a distance between laws adds to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.kernel.curves import Array, Curve, symmetric
from dpconvex.kernel.profiles import Numeric, concentrated_delta


@dataclass(frozen=True)
class Renyi(Numeric):
    """Renyi divergences of at most a rho for each of the orders a (none: for all), up to a distance between laws.

    What is released is within `distance`, in total variation, of something whose divergences are bounded so.

    Examples
    --------
    >>> [round(Renyi(0.02436, orders).epsilon(1e-6), 3) for orders in ((), (2.0, 8.0, 32.0), (2.0,))]
    [1.0, 1.082, 12.478]
    >>> Renyi(0.02436, (), 1e-9).epsilon(1e-6) > 1.0
    True
    """

    rho: float
    orders: tuple[float, ...] = ()
    distance: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.rho <= 1e5:
            raise InputError("rho must lie between 0 and 1e5; larger values give practically no privacy")
        if not 0.0 <= self.distance <= 1.0:
            raise InputError("the distance between two laws lies between 0 and 1")

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        return symmetric(self._forward)

    def _forward(self, epsilon: Array) -> Array:
        if self.rho == 0.0:
            found = np.zeros_like(epsilon)
        elif not self.orders:
            found = concentrated_delta(epsilon, self.rho)
        else:
            found = np.min([_of_order(epsilon, order, order * self.rho) for order in self.orders], axis=0)
        with np.errstate(over="ignore"):
            apart = self.distance * (1.0 + np.exp(epsilon)) if self.distance else 0.0
        return np.asarray(np.minimum((found + apart) * (1.0 + 1e-12), 1.0))


def _of_order(epsilon: Array, order: float, divergence: float) -> Array:
    """Delta where the divergence of one order is bounded (docs/proofs/generalised_gaussian.md), rounded up."""
    x = order - 1.0
    terms = x * divergence, x * epsilon, x * math.log1p(-1.0 / order), math.log(order)
    slack = 1e-9 + 1e-14 * sum(np.abs(t) for t in terms)
    return np.asarray(np.exp(np.minimum(terms[0] - terms[1] + terms[2] - terms[3] + slack, 0.0)))
