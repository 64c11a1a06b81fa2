"""Profiles of a record whose place in a run is drawn at random and kept secret."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpconvex.kernel.curves import Array, Curve, gaussian_curve, symmetric
from dpconvex.kernel.profiles import Numeric

_STEP = 1.005  # ratio of neighbouring parameters kept apart
_LEAST = 0.05  # parameters below this part of the largest are counted as that


@dataclass(frozen=True)
class Mixture(Numeric):
    """The mean of Gaussian profiles: delta(epsilon) = sum_i weights_i delta(epsilon; mus_i).

    Examples
    --------
    >>> even = Mixture.of(np.linspace(0.01, 1.0, 100), np.ones(100))
    >>> round(even.epsilon(1e-6), 2)
    4.21
    >>> round(Mixture((1.0,), (1.0,)).epsilon(1e-6), 2)
    4.89
    """

    mus: tuple[float, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(mus: np.ndarray, counts: np.ndarray) -> Mixture:
        """Mean over places: mus[i] stands counts[i] times. Parameters are raised to a grid, so that few are left."""
        top = float(mus.max())
        if top == 0.0:
            return Mixture((0.0,), (1.0,))
        level = np.ceil(np.log(np.maximum(mus / top, _LEAST)) / np.log(_STEP) - 1e-12).astype(int)
        levels, at = np.unique(level, return_inverse=True)
        weights = np.bincount(at, weights=counts) / counts.sum()
        raised = np.zeros(len(levels))
        np.maximum.at(raised, at, mus)
        return Mixture(tuple(raised.tolist()), tuple(weights.tolist()))

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        mus, weights = np.array(self.mus), np.array(self.weights) * (1.0 + 1e-12)

        def mean(eps: Array) -> Array:
            return np.asarray(np.minimum(gaussian_curve(eps[:, None], mus) @ weights, 1.0))

        return symmetric(mean)
