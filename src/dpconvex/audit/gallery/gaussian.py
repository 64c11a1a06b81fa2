"""A Gaussian mechanism whose variance lacks a factor 2."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.audit.function import Case
from dpconvex.audit.gallery.exhibit import Exhibit
from dpconvex.audit.stated import Stated
from dpconvex.kernel.profiles import ApproxDP

EPSILON, SHARE = 4.0, 1e-6


def release(x: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
    """A sum of sensitivity 1 with the noise of the lemma."""
    return x.sum() + math.sqrt(math.log(1.0 / SHARE)) / EPSILON * rng.standard_normal(runs)


LEMMA = Case(
    "Lemma 4.6", release, np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0]),
    Stated(ApproxDP(EPSILON, 2.0 * SHARE), "replace_one", 2.0 * SHARE), batch=True, law="gaussian",
)  # fmt: skip

EXHIBIT = Exhibit(
    "Gaussian noise of variance (gamma/epsilon)^2 ln(1/delta)",
    "Feldman, Koren, Talwar (2020), arXiv:2005.04763, Lemma 4.6",
    "This noise makes a function of sensitivity gamma (epsilon, 2 delta)-private.",
    "A factor 2 is missing in the variance, and for large epsilon more. At (4, 2e-6) the release has delta 1.7e-4. The "
    "lemma is true for small epsilon: up to 0.57, 0.26 and 0.04 for delta 1e-5, 1e-6 and 1e-8.",
    "The exact Gaussian profile. Phased-ERM of the same paper, which uses the lemma, has slack elsewhere that covers "
    "the gap for epsilon up to about 4.",
    LEMMA,
)
