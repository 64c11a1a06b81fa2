"""Noise in float64: what real numbers promise, and what a sum of two float64 numbers gives away."""

from __future__ import annotations

import numpy as np

from dpconvex.audit.function import Case
from dpconvex.audit.gallery.exhibit import Exhibit, Sum
from dpconvex.audit.machine.likelihood import leading_words
from dpconvex.audit.machine.tails import attained, float_tail
from dpconvex.audit.stated import Stated
from dpconvex.kernel.profiles import GDP, gaussian_mu
from dpconvex.noise.inversion import invert

EPSILON, DELTA = 0.01, 1e-6
SIGMA = 2.0 / gaussian_mu(EPSILON, DELTA)  # for sums that one record moves by 2 at most
PLAIN, CHANGED = np.zeros((1, 8)), np.full((1, 8), 0.1)  # one record, and another, 0.28 apart
FINE = 1e-30  # a delta that 64-bit words cannot keep


def in_float64(records: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Sums plus Gaussian noise, both float64, a run a row."""
    sums = records.sum(axis=0)
    words = rng.integers(0, 2**64, size=runs * sums.size, dtype=np.uint64)
    noise = np.empty(words.size)
    invert(words, noise)
    return np.asarray(sums + SIGMA * noise.reshape(runs, -1))


def reachable(released: np.ndarray) -> np.ndarray:
    """How many more numbers of a row can be reached from the changed sums than from the plain ones."""

    def ways(y: float, value: float) -> float:
        return float(leading_words(y, value, SIGMA) > 0.0)

    pairs = [zip(row.tolist(), PLAIN[0].tolist(), CHANGED[0].tolist(), strict=True) for row in released]
    return np.array([sum(ways(y, b) - ways(y, a) for y, a, b in row) for row in pairs])


def cut_off() -> Sum:
    """Delta of float64 noise at epsilon 1, where real noise would have 1e-30: by counting words."""
    apart = gaussian_mu(1.0, FINE)
    return Sum("delta at epsilon 1", FINE, attained(1.0, apart, float_tail))


POROUS = Exhibit(
    "Gaussian noise in float64",
    "Mironov (2012) for Laplace noise; any library that adds float64 noise to float64 values",
    "A sum of sensitivity s plus noise s/mu Z is mu-GDP.",
    "The theorem is about real numbers. A float64 sum of a value and a variate takes some float64 numbers and not "
    "others, and which depends on the value: a released number tells which values it can have come from.",
    "The noise of the library: the exact sum with a real normal variate, rounded to a public grid.",
    Case(
        "float64 noise", in_float64, PLAIN, CHANGED, Stated(GDP(gaussian_mu(EPSILON, DELTA)), "replace_one", DELTA),
        batch=True, statistic=reachable,
    ),
    runs=2000,
)  # fmt: skip

BOUNDED = Exhibit(
    "Gaussian noise from 64-bit words",
    "any library that inverts a 64-bit uniform variate",
    "The same, for every delta.",
    "No variate is beyond 9.16 standard deviations, so outputs that are possible on one data set are impossible on the "
    "other, whatever epsilon is.",
    "More words where one is not enough: the noise of the library has no largest variate.",
    exact=cut_off,
)
