"""The average of the iterates, released under the accounting of the last one."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.audit.function import Case
from dpconvex.audit.gallery.exhibit import Exhibit
from dpconvex.audit.stated import Stated
from dpconvex.kernel.profiles import GDP

STEPS, FLAT = 1000, 14  # the second is about (1.5 STEPS)^(1/3) and makes the average worst


def average_iterate(x: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Noisy SGD on one record with loss -x w, then flat losses, then bowls that pull w to 0; the mean of all iterates.

    All losses are convex, 1-Lipschitz and smooth enough for steps of 1. Batch sizes grow as sqrt(T/(T - t + 1)), so
    that every record has the parameter 1 in the last iterate; noise 2/sqrt(T) a step.
    """
    w, total = np.zeros(runs), np.zeros(runs)
    for t in range(STEPS):
        gradient = -x[0] if t == 0 else 0.0 if t < FLAT else np.clip(w, -1.0, 1.0)
        w = w - gradient + 2.0 / math.sqrt(STEPS) * rng.standard_normal(runs)
        total += w
    return total / STEPS


EXHIBIT = Exhibit(
    "Averaged iterates under last-iterate accounting",
    "Feldman, Koren, Talwar (2020), arXiv:2005.04763, Section 6 (the paper warns of it; code that averages repeats it)",
    "The last iterate of noisy contractions is 1-GDP, so their average is.",
    "An early iterate shows an early record under little noise. Averaged over a flat stretch it stays visible, while "
    "the later iterates, which forgot the record, add almost nothing: mu grows like T^(1/3).",
    "`noisy_contraction` covers the last iterate only, and refuses anything else.",
    Case(
        "averaged iterates",
        average_iterate,
        np.array([1.0] + [0.0] * (STEPS - 1)),
        np.array([-1.0] + [0.0] * (STEPS - 1)),
        Stated(GDP(1.0), "replace_one", 1e-6),
        batch=True,
    ),
    runs=100_000,
)
