"""One pass of projected SGD, a row at a time.

The point and the running average are kept as

    w = a v          average = m + k v

with numbers a, k and vectors v, m. Shrinking w (by the quadratic term, or back into a ball) then changes two numbers,
and a gradient step touches v and m where the row is not zero: a sparse row costs its non-zeros, average included.
The average is exact, not a by-product: average = w_0 + sum_t Theta_t (w_t - w_{t-1}), where Theta_t is the total
weight of the iterates from step t on, known in advance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.loops.protocol import SOURCES, compiled
from dpconvex.loops.rows import Rows

_REFRESH = 4096  # rows between fresh computations of |w|^2


def _build(sources: str) -> Any:
    def descend(rows, y, loss, domain, steps, tails, l2, v, m, numbers, origin, start, stop):
        len(sources)  # keeps the digest in the closure, and so in the key of the cache
        if start == stop:
            return
        a, k, norm2 = numbers[0], numbers[1], numbers[2]
        size = v.shape[0]
        shorten, row2 = rows.length(start)
        for i in range(start, stop):
            if (i - start) % _REFRESH == 0:
                norm2 = 0.0
                for j in range(size):
                    norm2 += v[j] * v[j]
                norm2 *= a * a
            eta = steps[i - origin]
            theta = tails[i - origin]
            z = a * rows.dot(i, shorten, v)
            # The length of the next row does not wait for this row's slope.
            next_shorten, next_row2 = rows.length(min(i + 1, stop - 1))
            move = -eta * loss.slope(z, y[i])
            shrink = 1.0 - eta * l2
            if abs(a * shrink) < 1e-3 or shrink < 0.0:  # fold the factor into the vectors before it gets small
                for j in range(size):
                    m[j] += (k + theta * (shrink - 1.0) * a) * v[j]
                    v[j] *= a * shrink
                a, k = 1.0, 0.0
            else:
                k += theta * (shrink - 1.0) * a
                a *= shrink
            norm2 = shrink * shrink * norm2 + 2.0 * shrink * move * z + move * move * row2
            p = move / a
            if domain.clips():
                rows.add_clipped(i, shorten, p, v, m, a, k, theta, domain)
                if shrink < 0.0:  # the point was thrown across the origin: no coordinate is known to be inside
                    for j in range(size):
                        inside = domain.clip(v[j])
                        m[j] += theta * (inside - v[j])
                        v[j] = inside
            else:
                rows.add_both(i, shorten, p, v, theta * move - k * p, m)
            back = domain.rescale(norm2)
            k += theta * (back - 1.0) * a
            a *= back
            norm2 *= back * back
            shorten, row2 = next_shorten, next_row2
        numbers[0], numbers[1], numbers[2] = a, k, norm2

    return compiled(descend)


_descend = _build(SOURCES)


class Pass:
    """One pass from `start_point`, resumable: call `advance` for consecutive ranges of rows.

    Parameters
    ----------
    start_point : ndarray
        Where the pass starts, inside the domain.
    steps : ndarray
        Step size of each row of the pass.
    tails : ndarray
        Total weight, in the average, of the iterates from each row on; the first is 1.
    l2 : float
        Quadratic term of one record.
    origin : int
        Index of the first row of the pass.
    """

    def __init__(
        self,
        start_point: np.ndarray,
        steps: np.ndarray,
        tails: np.ndarray,
        l2: float = 0.0,
        origin: int = 0,
    ) -> None:
        self._v = np.array(start_point, dtype=np.float64)
        self._m = self._v.copy()
        self._numbers = np.array([1.0, 0.0, 0.0])
        self._steps, self._tails = steps, tails
        self._l2, self._origin, self._at = float(l2), origin, origin

    def advance(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any, stop: int) -> Pass:
        """Use the rows up to `stop`."""
        if not self._at <= stop <= self._origin + len(self._steps):
            raise ValueError("stop lies outside the pass")
        _descend(
            rows, y, loss, domain, self._steps, self._tails, self._l2, self._v, self._m, self._numbers,
            self._origin, self._at, stop,
        )  # fmt: skip
        self._at = stop
        return self

    @property
    def point(self) -> np.ndarray:
        """Current iterate."""
        return self._numbers[0] * self._v

    @property
    def average(self) -> np.ndarray:
        """Weighted average of the iterates, those to come counted as the current one."""
        return self._m + self._numbers[1] * self._v
