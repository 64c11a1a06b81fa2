"""Standard normal variates by inversion of the distribution function."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.noise.source import Stream

LONGEST = 9.2  # bound on the absolute value of every variate
_PIECE = 2**15  # variates drawn at a time, few enough to stay in the cache


def standard_normal(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    """Independent N(0, 1) variates: one bit for the sign, 63 for the tail probability.

    The tail probability lies on a grid of width 2^-64 between 2^-65 and 1/2, so a variate reaches 9.1 standard
    deviations and its tail is as fine as its centre. The arithmetic is float64, and receipts say so.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> standard_normal(Source().stream("x"), (2, 3)).shape
    (2, 3)
    """
    from dpconvex.noise.inversion import invert

    out = np.empty(math.prod(shape))
    for first in range(0, out.size, _PIECE):
        part = out[first : first + _PIECE]
        invert(stream.words(part.size), part)
    return out.reshape(shape)


def standard_normals(words: np.ndarray) -> np.ndarray:
    """The variates of `standard_normal` for words that were drawn."""
    from dpconvex.noise.inversion import invert

    out = np.empty(words.size)
    invert(words, out)
    return out
