"""Values plus noise of float64 variates, brought to a grid by randomised rounding.

Where variates are known to some accuracy only, no rounding is exact. A value s becomes floor(s + U) with U uniform in
[0, 1): a change of s by x changes the result with a probability of at most x, so that the law of what is released is as
near to that of exact variates as they are, in units of the grid. Proof: docs/proofs/renyi_noise.md.
"""

from __future__ import annotations

import numpy as np

from dpconvex.noise.generalised import MOST, in_grids
from dpconvex.noise.source import Stream


def dithered(stream: Stream, value: np.ndarray, scale: float, grid: float, variates: np.ndarray) -> np.ndarray:
    """Bring value + scale times variates to whole multiples of a grid, at random to one of the two next to it.

    Values are clamped to 2^52 multiples of the grid, results to twice that, and NaN counts as 0.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> noisy = dithered(Source().stream("x"), np.zeros((2, 3)), 1.0, 0.125, np.full(6, 0.3))
    >>> noisy.shape, bool(np.isin(noisy, [0.25, 0.375]).all())
    ((2, 3), True)
    """
    whole, offset = in_grids(value, grid)
    with np.errstate(over="ignore"):
        total = np.clip(offset + scale / grid * variates, -4.0 * MOST, 4.0 * MOST)
    below = np.floor(total)
    above = (stream.words(total.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < total - below
    return np.asarray((np.clip(whole + (below + above), -2.0 * MOST, 2.0 * MOST) * grid + 0.0).reshape(value.shape))
