"""The error that noise adds to released weights, estimated from released values: docs/proofs/noise_intervals.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpconvex.problem.problem import Problem


class Law(NamedTuple):
    """Law of the error from noise, in standard errors: a mixture of normal laws per weight, with one part per draw."""

    covers: str  # what intervals around the released weights cover, in words
    std_errors: np.ndarray
    shifts: np.ndarray  # means, a row per draw
    spreads: np.ndarray  # standard deviations


@dataclass(frozen=True)
class Released:
    """What is known about a run after it has finished.

    Attributes
    ----------
    problem, n, d : the public facts
    weights : array, the released weights
    scales : mapping from the name of a release to the scale of its noise
    kept : mapping from the name of a release to its released values, or None if they were not kept
    seed : int, seed of the simulation, so that repeated reports of a run agree
    hessian : array or None, the noisy Hessian of the objective, if it was released
    hessian_scale : float, the scale of the noise on the Hessian
    """

    problem: Problem
    n: int
    d: int
    weights: np.ndarray
    scales: Mapping[str, float]
    kept: Mapping[str, np.ndarray] | None
    seed: int
    hessian: np.ndarray | None = None
    hessian_scale: float = 0.0


def added_law(scale: float, weights: np.ndarray, covers: str) -> Law:
    """Law of noise of that scale added directly to the weights."""
    return Law(covers, np.full(weights.shape, scale), np.zeros((1, weights.size)), np.ones((1, weights.size)))


def last_phase_law(released: Released) -> Law:
    """Law of the noise of the last phase, the last of the releases named "phase 1", "phase 2" and so on."""
    covers = (
        "the result of the last phase before its noise was added. Its starting point holds the noise of earlier "
        "phases, which is not included"
    )
    phases = [scale for name, scale in released.scales.items() if name.startswith("phase")]
    return added_law(phases[-1], released.weights, covers)


def raised(matrix: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric matrix with its eigenvalues raised to at least the floor, and its inverse.

    Examples
    --------
    >>> matrix, inverse = raised(np.diag([4.0, -1.0]), 2.0)
    >>> matrix.diagonal(), inverse.diagonal()
    (array([4., 2.]), array([0.25, 0.5 ]))
    """
    values, vectors = np.linalg.eigh(matrix)
    values, turned = np.maximum(values, floor)[..., None, :], np.swapaxes(vectors, -1, -2)
    return (vectors * values) @ turned, (vectors / values) @ turned


def row_norms(matrix: np.ndarray) -> np.ndarray:
    """Norm of every row."""
    return np.asarray(np.sqrt(np.square(matrix).sum(axis=-1)))


def symmetric_draws(seed: int, scale: float, size: int) -> np.ndarray:
    """Draws of symmetric noise matrices of that scale."""
    rng = np.random.default_rng(seed)
    # A few draws suffice for a large matrix, because its inverse averages over many entries.
    square = rng.normal(size=(int(np.clip(3e7 / size**3, 10, 500)), size, size))
    return np.asarray(0.5 * scale * (square + np.swapaxes(square, -1, -2)))
