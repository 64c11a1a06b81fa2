"""Points from any log-concave law on a ball or a box, by a Markov chain with UNKNOWN error.

No guarantee may rely on it. Private players refuse it, because they need to know how far a draw is from its law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.gibbs import uniform
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Box, L2Ball

_SHRINKS = 200  # at most about this many halvings turn a chord into a point in float64


@dataclass(frozen=True, eq=False)
class UncertifiedHitAndRun:
    """UNCERTIFIED: approximate draws with density exp(-potential) on a domain, by steps of hit-and-run.

    A step picks a random direction and draws a point of the law on the line in that direction, by shrinking a slice.
    The chain converges to the law, but the error after `steps` is unknown: there is no `tv_error`.

    Parameters
    ----------
    potential : function
        Convex function from a point to a number.
    domain : L2Ball or Box
    start : array of length d
        Point of the domain.
    steps : int

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> law = UncertifiedHitAndRun(lambda x: 9.0 * abs(x[0] - x[1]), L2Ball(1.0), np.zeros(2), steps=30)
    >>> x = law.draw(Source().stream("x"))
    >>> bool(np.linalg.norm(x) <= 1.0), law.certified
    (True, False)
    """

    potential: Callable[[np.ndarray], float]
    domain: L2Ball | Box
    start: np.ndarray
    steps: int
    certified = False

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise InputError("steps must be a whole number of at least 1")

    def draw(self, stream: Stream) -> np.ndarray:
        """One point."""
        x = self.start
        for _ in range(self.steps):
            way = standard_normal(stream, x.shape)
            x = self._along(x, way / np.linalg.norm(way), stream)
        return self.domain.project(x)

    def _along(self, x: np.ndarray, way: np.ndarray, stream: Stream) -> np.ndarray:
        """Draw a point on the line through x by slice sampling with shrinkage (Neal 2003)."""
        low, high = self.domain.chord(x, way)
        level = self.potential(x) - math.log(uniform(stream, 1)[0])
        for share in uniform(stream, _SHRINKS):
            s = low + share * (high - low)
            if self.potential(x + s * way) <= level:
                return x + s * way
            low, high = (s, high) if s < 0.0 else (low, s)
        return x
