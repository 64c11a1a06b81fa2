"""What rounding can have done to a sum over rows, stated in advance from public facts: for certificates.

Rows are added up 1024 at a time, and the sums of those blocks as pairs (high, low) of float64 numbers (`matrix`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpconvex.theorems.computed_sums import BLOCK, UNIT, accumulation

__all__ = ["Accumulation"]

SLOPE = 2.0**-90  # bound on the error of a slope computed in twice the precision, beside that of its argument


class Accumulation(NamedTuple):
    """How far sums over n rows of `size` features and of norms up to `row` can be off.

    Examples
    --------
    >>> sums = Accumulation(n=30_000, size=100, row=1.0)
    >>> f"{sums.gradient(1.0, 10.0, 0.25, l2=2.0):.0e}", f"{sums.careful(10.0, 0.25, l2=2.0):.0e}"
    ('5e-09', '9e-15')
    """

    n: int
    size: int
    row: float

    def gradient(
        self, slope: float, reach: float, curvature: float, outputs: int = 1, l2: float = 0.0, tilt: float = 0.0
    ) -> float:
        """Bound the error of a gradient: see `rounding`."""
        return rounding(*self, slope, reach, curvature, outputs=outputs, l2=l2, tilt=tilt)

    def careful(self, reach: float, curvature: float, l2: float = 0.0, tilt: float = 0.0) -> float:
        """Bound the error of a gradient computed in twice the precision: see `careful_rounding`."""
        return careful_rounding(*self, reach, curvature, l2, tilt)


def rounding(
    n: int,
    size: int,
    row: float,
    slope: float,
    reach: float,
    curvature: float,
    *,
    outputs: int = 1,
    l2: float = 0.0,
    tilt: float = 0.0,
) -> float:
    """Bound the rounding error of the computed gradient sum_i omega_i r_i x_i + l2 w + tilt, r_i = l'(<x_i, w>).

    In l2 norm, for any weights omega_i of the records in [0, 1], which are taken to be exact.

    With u = 2^-53 and any order of summation, a sum of k products is off by at most k u (1 + 1e-2) times the sum of
    the absolute products, while k u < 1e-2. Hence:

    - a prediction is added up 1024 features at a time and then over size / 1024 blocks, so it is off by
      e_z = (min(size, 1024) + size / 1024 + 8) u |x_i| |w|: by Cauchy-Schwarz, also for the vector of K predictions;
    - a slope is off by e_r = curvature (e_z + 16 u (|x_i| |w| + 20)) + (16 + outputs) u slope: the error of its
      argument, which may hold a shift of up to 20 and, for a softmax, the largest prediction, then that of
      evaluating it (the exponential and tanh of the C library are taken to be right to 4 units);
    - every coordinate of the sum is added up 1024 rows at a time, each block off by (1024 + 6) u times the sum A of
      its absolute terms omega_i |r_i| |x_ij|, the three products of a term (with omega_i, with the factor that
      shortens the row, with its entry) included. The m = n / 1024 blocks are added to a high part, each time with the
      error of that addition, at most u times the sum so far and exactly known, added to a low part: m numbers of up to
      u A, in total m u A, summed with an error of m u of that. So the pair is off by m^2 u^2 A, and high + low by u A
      more; over all coordinates by (1024 + 8 + m^2 u) u n (slope + e_r) row;
    - the two terms without data are off by 4 u (l2 |w| + |tilt|).

    Parameters
    ----------
    n, size : int
        Number of rows, and of features with the constant one.
    row, slope, reach, curvature : float
        Largest norm of a row, largest norm of a slope at predictions of up to `row * reach`, largest norm of w, and
        Lipschitz constant of the slope.
    outputs : int
        Predictions a row: 1, or the number of classes.
    l2, tilt : float
        Weight of the quadratic term, and norm of the linear term.

    Examples
    --------
    >>> f"{rounding(n=30_000, size=100, row=1.0, slope=1.0, reach=10.0, curvature=0.25):.0e}"
    '5e-09'
    """
    if (BLOCK + (size + n) / BLOCK) * UNIT > 1e-3:
        return math.inf
    u = 1.01 * UNIT
    prediction = prediction_error(size, row, reach)
    each = curvature * (prediction + 16 * u * (row * reach + 20.0)) + (16 + outputs) * u * slope
    total = accumulation(n) * u * n * row * (slope + each)
    return n * row * each + total + 4 * u * (l2 * reach + tilt) + 1e-290


def length_of(v: np.ndarray) -> float:
    """Euclidean norm, rounded up."""
    return math.sqrt(float(np.vdot(v, v))) * (1.0 + (v.size + 8) * UNIT)


def prediction_error(size: int, row: float, reach: float) -> float:
    """Bound the error e_z of a prediction, as in `rounding`."""
    return (min(size, BLOCK) + size / BLOCK + 8) * 1.01 * UNIT * row * reach


def careful_rounding(n: int, size: int, row: float, reach: float, curvature: float, l2: float, tilt: float) -> float:
    """Bound the error of `careful.careful_gradient` in l2 norm, for rest = l2 w + tilt as float64 computes it.

    With u = 2^-53, and pairs whose every sum, product or quotient is off by at most 16 u^2 of itself:

    - a prediction adds up k products exactly but for the sum of their errors, 2k numbers of up to k u |x_i| |w| in
      total 2 k u |x_i| |w|, which is rounded 2k times: with the operations on pairs that follow it is off by
      e_z = 8 (size + 8)^2 u^2 (|x_i| |w| + 20), the shift of up to 20 included;
    - a slope by e_r = curvature e_z + 2^-90: the exponential, operation by operation, is off by less than 2^-97, and
      the quotient by less than 2^-96 (docs/proofs/computed_sums.md);
    - a block of 1024 rows, as a prediction does, by 8 (1024 + 8)^2 u^2 times its absolute sum, and the n / 1024 blocks,
      added as pairs, by 16 u^2 of the absolute sum each;
    - l2 w + tilt by 2 u (l2 |w| + |tilt|), and their sum with the pair by 2 u of the result, which `solver._norm`
      covers.

    Examples
    --------
    >>> f"{careful_rounding(10**9, 100, 1.0, 1e4, 0.25, 1.7, 1e3):.0e}"
    '8e-12'
    """
    square = UNIT**2
    prediction = 8.0 * (size + 8.0) ** 2 * square * (row * reach + 20.0)
    each = curvature * prediction + SLOPE
    total = (8.0 * (BLOCK + 8.0) ** 2 + 16.0 * (n / BLOCK + 1.0)) * square * n * row * (1.0 + each)
    return 1.01 * (n * row * each + total) + 4.0 * UNIT * (l2 * reach + tilt) + 1e-290
