"""Samples of records: each is chosen independently with the same probability."""

from __future__ import annotations

import numpy as np

from dpconvex.noise.source import Stream


def chosen(stream: Stream, count: int, probability: float) -> np.ndarray:
    """Indices of the chosen records: one 64-bit word per record is compared with a threshold.

    The probability that results is never above `probability`.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> chosen(Source().stream("x"), 5, 1.0)
    array([0, 1, 2, 3, 4])
    """
    if probability >= 1.0:
        return np.arange(count)
    return np.flatnonzero(stream.words(count) < np.uint64(int(probability * 2.0**64)))
