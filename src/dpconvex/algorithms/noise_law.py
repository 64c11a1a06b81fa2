"""How far noise has moved released weights, computed from what was released: docs/proofs/noise_intervals.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpconvex.problem.problem import Problem


class Law(NamedTuple):
    """How far noise moved released weights, in standard errors: a mixture of normal laws per weight, one per draw."""

    covers: str  # what intervals around the released weights cover, in words
    std_errors: np.ndarray
    shifts: np.ndarray  # means, a row per draw
    spreads: np.ndarray  # standard deviations


@dataclass(frozen=True)
class Released:
    """What is known of a run when it is over.

    Attributes
    ----------
    problem, n, d : the public facts
    weights : array, the released weights
    scales : mapping, the scale of every release by its name
    kept : mapping or None, every released value by the name of its release, if they were kept
    seed : int, for draws that are the same whenever the same run is reported
    hessian : array or None, the Hessian of the objective with noise, if that was released too
    hessian_scale : float, the scale of that noise
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
    """Noise of that scale, added to the weights themselves."""
    return Law(covers, np.full(weights.shape, scale), np.zeros((1, weights.size)), np.ones((1, weights.size)))


def last_phase_law(released: Released) -> Law:
    """Noise of the last of the releases that are called "phase 1", "phase 2" and so on."""
    covers = (
        "what the last phase found before its noise was added. Where the phase began holds the noise of earlier "
        "phases, which is not in these numbers"
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
    """Symmetric matrices of noise of that scale."""
    rng = np.random.default_rng(seed)
    # Few draws are enough for a large matrix: its inverse averages over many entries.
    square = rng.normal(size=(int(np.clip(3e7 / size**3, 10, 500)), size, size))
    return np.asarray(0.5 * scale * (square + np.swapaxes(square, -1, -2)))
