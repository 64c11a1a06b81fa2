"""Standard Gumbel variates by inversion of the distribution function."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.noise.source import Stream

_HALF = np.uint64(2**63)


def standard_gumbel(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    """Independent variates with distribution function exp(-e^-x): minus the logarithm of an exponential variate.

    The exponential variate is computed from its smaller tail probability, which lies on a grid of width 2^-64 between
    2^-65 and 1/2. Both tails are therefore as fine as the centre, and a variate lies between -3.9 and 45.1. Each takes
    64 bits. The arithmetic is float64, and receipts say so.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> standard_gumbel(Source().stream("x"), (2, 3)).shape
    (2, 3)
    """
    words = stream.words(math.prod(shape))
    low = words < _HALF
    tail = (np.where(low, words, ~words).astype(np.float64) + 0.5) * 2.0**-64
    exponential = np.where(low, -np.log1p(-tail), -np.log(tail))
    return np.asarray(-np.log(exponential).reshape(shape))
