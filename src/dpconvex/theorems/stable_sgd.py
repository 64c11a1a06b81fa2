"""Sensitivity of one pass of SGD."""

from __future__ import annotations

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import Bounded, concludes_fact, need_fact
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import ULP, round_up
from dpconvex.theorems.clipped_sum import gradient_sensitivity
from dpconvex.theorems.schedules import Schedule, check_schedule


def iterate_weights(steps: np.ndarray, weighting: str) -> np.ndarray:
    """Weights, which sum to 1, of the iterates after each step in the released average.

    Examples
    --------
    >>> iterate_weights(np.array([1.0, 3.0]), "steps")
    array([0.25, 0.75])
    """
    if weighting == "uniform":
        return np.full(len(steps), 1.0 / len(steps))
    if weighting == "steps" and steps.max() > 0.0:
        return np.asarray(steps / steps.sum())
    raise HypothesisError(f"weighting must be 'uniform' or 'steps' (with a step above 0), got {weighting!r}")


def step_contractions(smoothness: Fact, strong_convexity: Fact, steps: np.ndarray) -> np.ndarray:
    """Lipschitz constants of gradient steps of these sizes, rounded up and at most 1."""
    beta = need_fact(smoothness, Kind.SMOOTHNESS, "smoothness")
    m = need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity")
    if m > beta:
        raise HypothesisError("strong convexity cannot exceed smoothness")
    if beta * steps.max() > 2.0:
        raise HypothesisError(
            f"largest step {steps.max():.6g} is above 2/beta = {2.0 / beta:.6g}: "
            "gradient steps would no longer be contractions; take a smaller step"
        )
    contractions = np.maximum(np.abs(1.0 - steps * m), np.abs(1.0 - steps * beta))
    return np.asarray(np.minimum(1.0, contractions + 4 * ULP))


def pass_influences(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    steps: Schedule,
    weighting: str,
    batch: int,
) -> np.ndarray:
    """How far a changed record of each step moves the weighted average of a pass, rounded up."""
    check_relation(relation)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise HypothesisError("batch must be a whole number of at least 1")
    eta = check_schedule(steps, "steps")
    c = step_contractions(smoothness, strong_convexity, eta)
    theta = iterate_weights(eta, weighting)
    if c.min() == 1.0:
        influence = np.cumsum(theta[::-1])[::-1]
    else:
        influence = np.empty_like(theta)
        tail = 0.0
        for t in range(len(theta) - 1, -1, -1):
            tail = theta[t] + (c[t + 1] * tail if t + 1 < len(theta) else 0.0)
            influence[t] = tail
    rounding = 1.0 + (len(theta) + 16) * 2 * ULP
    return np.asarray(gradient_sensitivity(lipschitz, relation) / batch * rounding * (eta * influence))


@concludes_fact
def stable_sgd(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    steps: Schedule,
    weighting: str,
    batch: int = 1,
) -> Bounded:
    """Sensitivity of the weighted average of one pass of projected SGD, at least `batch` records per step.

    A change of a record of step t moves the iterate after it by at most eta_t/batch times the change of a gradient, and
    later steps contract it: s = Delta/batch max_t eta_t U_t with U_t = theta_t + c_{t+1} U_{t+1}. Linear losses attain
    it. This is a sharp form of Lemma 4.3 of [1]_, after [2]_.

    References
    ----------
    .. [1] Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time"
       (FKT20).
    .. [2] Hardt, Recht, Singer (2016), "Train faster, generalize better: stability of stochastic gradient descent".
    """
    moves = pass_influences(lipschitz, smoothness, strong_convexity, relation, steps, weighting, batch)
    return Bounded(Kind.SENSITIVITY, round_up(float(moves.max())), "stability of one pass of projected SGD", relation)


@concludes_fact
def phase_contraction(smoothness: Fact, strong_convexity: Fact, steps: Schedule, weighting: str) -> Bounded:
    """Lipschitz constant of the weighted average of one pass in its starting point: sum_t theta_t c_1 ... c_t."""
    eta = check_schedule(steps, "steps")
    c = step_contractions(smoothness, strong_convexity, eta)
    value = float(iterate_weights(eta, weighting) @ np.cumprod(c)) * (1.0 + (len(eta) + 16) * 2 * ULP)
    return Bounded(Kind.CONTRACTION, min(1.0, round_up(value)), "contraction of one pass of projected SGD")
