"""Noise added to the step instead of the gradient."""

from __future__ import annotations

import numpy as np

from dpconvex.audit.function import Case
from dpconvex.audit.gallery.exhibit import Exhibit
from dpconvex.audit.stated import Stated
from dpconvex.kernel.profiles import GDP

ETA, SIGMA = 4.0, 4.0


def last_iterate(x: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Noisy SGD as in the listing, w - eta gradient + noise: one step on the linear loss -x w is enough."""
    w = np.zeros(runs)
    for record in x:
        w += ETA * record + SIGMA * rng.standard_normal(runs)
    return w


EXHIBIT = Exhibit(
    "Noise outside the step",
    "Feldman, Koren, Talwar (2020), arXiv:2005.04763, Algorithm 1 with Theorem 3.1",
    "With steps eta_t and noise sigma_t the last iterate has the parameter "
    "2 L max_t eta_t/(B_t sqrt(sum_{s >= t} eta_s^2 sigma_s^2)).",
    "The theorem is about w - eta (gradient + noise). The listing prints w - eta gradient + noise: with eta above 1 "
    "the noise is too small by that factor, with eta below 1 too large.",
    "Noise inside the step, as in the text of the paper; here the noise port scales it to the iterate.",
    Case(
        "noise outside the step",
        last_iterate,
        np.array([1.0]),
        np.array([-1.0]),
        Stated(GDP(2.0 / SIGMA), "replace_one", 1e-6),
        batch=True,
        law="gaussian",
    ),
    runs=100_000,
)
