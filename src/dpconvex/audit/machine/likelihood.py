"""How likely a released number is under a value: exactly, for noise added in float64 and for noise on a grid."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpconvex.kernel.claims import Release
from dpconvex.noise.inversion import invert
from dpconvex.theorems.laplace import LAPLACE

_WINDOW, _WIDEST = 512, 2**15  # words on either side of the likeliest one; beyond that their number is integrated
_TAILS = 2.0**63  # tail words
_REACH = 9.3  # standard deviations, more than any variate


def log_likelihood(release: Release, exact: bool, released: np.ndarray, value: np.ndarray) -> float:
    """Logarithm of the probability of a released vector; -inf if it is impossible.

    Examples
    --------
    >>> release = Release("sum", "gaussian", 1.0, (2,), grid=2.0**-20)
    >>> y = np.array([0.5, 0.25])
    >>> log_likelihood(release, True, y, np.array([0.1, 0.2])) > log_likelihood(release, True, y, np.array([9.0, 9.0]))
    True
    >>> log_likelihood(release, True, y + 2.0**-30, y), log_likelihood(release, True, -0.0 * y, y)
    (-inf, -inf)
    """
    pairs = zip(released.ravel().tolist(), value.ravel().tolist(), strict=True)
    if release.law == LAPLACE:
        of = _log_laplace_cell if exact else _log_laplace
        return sum(of(y, v, release.scale, float(release.grid or 0.0)) for y, v in pairs)
    if exact and release.grid is not None:
        return sum(_log_cell(y, v, release.scale, release.grid) for y, v in pairs)
    return sum(math.log(words) if (words := leading_words(y, v, release.scale)) else -math.inf for y, v in pairs)


def _log_cell(y: float, value: float, scale: float, grid: float) -> float:
    """Logarithm of the probability that value + scale Z rounds to y."""
    whole = y / grid
    if whole != np.rint(whole) or (y == 0.0 and math.copysign(1.0, y) < 0.0):
        return -math.inf
    middle, half = (y - value) / scale, 0.5 * grid / scale
    low, high = log_ndtr(-abs(middle) - half), log_ndtr(half - abs(middle))  # the lower tail, which does not cancel
    return float(high + math.log1p(-math.exp(low - high)))


def _log_laplace_cell(y: float, value: float, scale: float, grid: float) -> float:
    """Logarithm of the probability that value + scale Z rounds to y, for a Laplace variate Z."""
    whole = y / grid
    if whole != np.rint(whole) or (y == 0.0 and math.copysign(1.0, y) < 0.0):
        return -math.inf
    middle, half = abs(y - value) / scale, 0.5 * grid / scale
    if middle >= half:
        return -middle + math.log(math.sinh(half))
    return math.log(-math.expm1(math.log(math.cosh(middle)) - half))


def _log_laplace(y: float, value: float, scale: float, grid: float) -> float:
    """The same for float64 noise, whose variates are multiples of 2^-40, up to a constant."""
    near = np.rint((y - value) / scale * 2.0**40) + np.arange(-4, 5)
    return -abs(y - value) / scale if (value + scale * (near * 2.0**-40) == y).any() else -math.inf


def leading_words(y: float, value: float, scale: float) -> float:
    """How many of the 2^64 words w of the float64 sampler give value + scale z(w) == y.

    Examples
    --------
    >>> words = np.array([2**63 + 12345], dtype=np.uint64)
    >>> z = np.empty(1)
    >>> invert(words, z)
    >>> y = float((0.3 + 2.0 * z)[0])
    >>> leading_words(y, 0.3, 2.0) > 0, leading_words(y, 0.3 + 2.0**-50, 2.0) >= 0
    (True, True)
    """
    z = (y - value) / scale
    if abs(z) > _REACH:
        return 0.0
    step, window = _step(z), _WINDOW
    while window <= _WIDEST:
        tails = _near(z, step, window)
        hit = (value + scale * _variates(tails, z > 0.0)) == y
        if not (hit[0] and tails[0] >= step) and not (hit[-1] and tails[-1] < _TAILS - step):
            opposite = (value + scale * _variates(tails, z <= 0.0)) == y if abs(z) < 1e-10 else hit[:0]
            return float(hit.sum() + opposite.sum()) * step
        window *= 8
    half = 0.5 * float(np.spacing(abs(y))) / scale
    return float(ndtr(half - abs(z)) - ndtr(-half - abs(z))) * 2.0**64


def _step(z: float) -> float:
    """How many tail words round to one float64 number there."""
    return max(1.0, float(np.spacing(ndtr(-abs(z)) * 2.0**64)))


def _near(z: float, step: float, window: int) -> np.ndarray:
    """Tail words about the one of that variate, one of each that float64 tells apart."""
    middle = math.floor(ndtr(-abs(z)) * 2.0**64 / step)
    words = (middle + np.arange(-window, window + 1)) * step
    return np.asarray(words[(words >= 0.0) & (words < _TAILS)].astype(np.uint64))


def _variates(tails: np.ndarray, positive: bool) -> np.ndarray:
    out = np.empty(tails.size)
    invert((tails << np.uint64(1)) | np.uint64(positive), out)
    return out
