"""Secret numbers: how often a mechanism is repeated, and which of several is run."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from dpconvex.noise.source import Stream


def _probabilities(law: str, parameter: float) -> np.ndarray:
    """Probabilities of 1, 2, ..., until less than 2^-66 is left."""
    if law == "poisson":  # conditioned on being at least 1
        k = np.arange(1.0, math.ceil(parameter + 12.0 * math.sqrt(parameter) + 60.0))
        return np.asarray(np.exp(k * math.log(parameter) - parameter - gammaln(k + 1.0)) / -math.expm1(-parameter))
    k = np.arange(1.0, math.ceil(46.0 / -math.log1p(-parameter)) + 2.0)
    powers = np.exp(k * math.log1p(-parameter))
    if law == "geometric":
        return np.asarray(parameter / (1.0 - parameter) * powers)
    return np.asarray(powers / (k * -math.log(parameter)))


def repetitions(stream: Stream, law: str, parameter: float) -> int:
    """Draw a number >= 1 from one 64-bit word, with a geometric, logarithmic or (conditioned on >= 1) Poisson law.

    The word is compared with the probabilities of more than k. These are summed from the far end, so that the tail has
    the full relative accuracy of float64, and each is attained up to 2^-64.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> repetitions(Source().stream("x"), "geometric", 0.999999999999) == 1
    True
    """
    more = np.cumsum(_probabilities(law, parameter)[::-1])[::-1][1:]  # than 1, 2, ...
    u = (float(stream.words(1)[0]) + 0.5) * 2.0**-64
    return 1 + int(np.searchsorted(-more, -u))


def one_of(stream: Stream, count: int) -> int:
    """Draw a number below `count` uniformly; words beyond the last multiple of `count` are rejected.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> one_of(Source().stream("x"), 1)
    0
    """
    whole = 2**64 // count * count
    while True:
        word = int(stream.words(1)[0])
        if word < whole:
            return word % count
