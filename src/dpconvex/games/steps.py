"""Step sizes: fixed, falling like 1/sqrt(t), or set by the gradients seen so far."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["Adaptive", "Fixed", "Root", "Step"]


class Fixed(NamedTuple):
    """The same step `eta` in every round.

    Examples
    --------
    >>> Fixed(0.1).size(t=4, total=9.0, scale=0.1)
    0.1
    """

    eta: float

    def size(self, t: int, total: float, scale: float) -> float:
        """Step of round t."""
        return scale


class Root(NamedTuple):
    """Step `eta` / sqrt(t) in round t: good for every number of rounds at once.

    Examples
    --------
    >>> Root(0.1).size(t=4, total=9.0, scale=0.1)
    0.05
    """

    eta: float

    def size(self, t: int, total: float, scale: float) -> float:
        """Step of round t."""
        return scale / math.sqrt(t)


class Adaptive(NamedTuple):
    """Step `eta` / sqrt(sum of the squared norms seen so far): AdaGrad-norm.

    By default the learner sets `eta` from the size of its domain. Scaling all gradients changes nothing.

    Examples
    --------
    >>> Adaptive(0.75).size(t=4, total=9.0, scale=0.75)
    0.25
    """

    eta: float | None = None

    def size(self, t: int, total: float, scale: float) -> float:
        """Step of round t; infinite while all norms were 0."""
        return scale / math.sqrt(total) if total > 0.0 else math.inf


Step = Fixed | Root | Adaptive


def paid(width: float, diameter: float, eta: float) -> float:
    """The constant C with sum_t min(eta a_t^2 / (2 s_{t-1}), diameter a_t) <= C s_T, and `width` / eta on top of it.

    s_t^2 = a_1^2 + ... + a_t^2. Lemma 1 of docs/proofs/online_learners.md.
    """
    if math.isinf(diameter):
        return math.inf
    return width / eta + (eta + math.hypot(eta, 2.0 * diameter)) / 2.0


def squares(norms: np.ndarray) -> float:
    """Sum of squares."""
    return float(norms @ norms)


def fixed_or_root(step: Fixed | Root, width: float, norms: np.ndarray) -> float:
    """Bound of these steps: width / eta_T + sum_t eta_t norm_t^2 / 2."""
    t = np.arange(1, norms.size + 1)
    eta = np.full(norms.size, step.eta) if isinstance(step, Fixed) else step.eta / np.sqrt(t)
    return float(width / eta[-1] + (eta * norms**2).sum() / 2.0)
