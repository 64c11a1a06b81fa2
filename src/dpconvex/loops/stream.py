"""Passes of projected SGD: a row at a time, over batches, and over batches with noise in every step.

A row at a time, the point and the running average are kept as

    w = a v          average = m + k v

with numbers a, k and vectors v, m. Shrinking w (by the quadratic term, or back into a ball) then changes two numbers,
and a gradient step touches v and m where the row is not zero: a sparse row costs its non-zeros, average included.
The average is exact, not a by-product: average = w_0 + sum_t Theta_t (w_t - w_{t-1}), where Theta_t is the total
weight of the iterates from step t on, known in advance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from dpconvex.loops.protocol import _OPTIONS as OPTIONS
from dpconvex.loops.protocol import SOURCES, compiled
from dpconvex.loops.rows import Dense, Rows

_REFRESH = 4096  # rows between fresh computations of |w|^2


def _add_gradients(rows, y, loss, order, start, stop, w, g):
    """Add to g the gradients at w of the rows at places start, ..., stop - 1."""
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        shorten, _ = rows.length(i)
        rows.add(i, shorten, loss.slope(rows.dot(i, shorten, w), y[i]), g)


def _add_dense_gradients(rows, y, loss, order, start, stop, w, g):
    """The same, two rows at a time.

    Rows are measured one after the other, which is how memory is read fastest, and added together, so that the sums
    are loaded and stored once for both.
    """
    X, radius, constant = rows.X, rows.radius, rows.constant
    d = X.shape[1]
    shift = constant * w[d] if constant != 0.0 else 0.0
    twos = start + (stop - start) // 2 * 2
    for k in range(start, twos, 2):
        a, b = k, k + 1
        if order.shape[0] > 0:
            a, b = order[a], order[b]
        na = nb = za = zb = 0.0
        for j in range(d):
            x = np.float64(X[a, j])
            na += x * x
            za += x * w[j]
        for j in range(d):
            x = np.float64(X[b, j])
            nb += x * x
            zb += x * w[j]
        sa = radius / math.sqrt(na) if na > radius * radius else 1.0
        sb = radius / math.sqrt(nb) if nb > radius * radius else 1.0
        pa, pb = loss.slope(sa * za + shift, y[a]), loss.slope(sb * zb + shift, y[b])
        if constant != 0.0:
            g[d] += constant * (pa + pb)
        pa, pb = sa * pa, sb * pb
        for j in range(d):
            g[j] += pa * np.float64(X[a, j]) + pb * np.float64(X[b, j])
    for k in range(twos, stop):
        i = order[k] if order.shape[0] > 0 else k
        shorten, _ = rows.length(i)
        rows.add(i, shorten, loss.slope(rows.dot(i, shorten, w), y[i]), g)


def _choose_gradients(rows, y, loss, order, start, stop, w, g):
    return _add_dense_gradients if rows.instance_class is Dense else _add_gradients


_overload: Any = overload
_overload(_add_gradients, jit_options=OPTIONS)(_choose_gradients)


def _build(sources: str) -> Any:
    def descend(rows, y, loss, domain, order, steps, tails, l2, v, m, numbers, origin, start, stop):
        len(sources)  # keeps the digest in the closure, and so in the key of the cache
        if start == stop:
            return
        a, k, norm2 = numbers[0], numbers[1], numbers[2]
        size = v.shape[0]
        ordered = order.shape[0] > 0
        i = order[start] if ordered else start
        shorten, row2 = rows.length(i)
        for place in range(start, stop):
            if (place - start) % _REFRESH == 0:
                norm2 = 0.0
                for j in range(size):
                    norm2 += v[j] * v[j]
                norm2 *= a * a
            eta = steps[place - origin]
            theta = tails[place - origin]
            z = a * rows.dot(i, shorten, v)
            # The length of the next row does not wait for this row's slope.
            following = min(place + 1, stop - 1)
            following = order[following] if ordered else following
            next_shorten, next_row2 = rows.length(following)
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
            i, shorten, row2 = following, next_shorten, next_row2
        numbers[0], numbers[1], numbers[2] = a, k, norm2

    def descend_batches(rows, y, loss, domain, order, cuts, steps, weights, l2, w, average, g):
        len(sources)
        for t in range(steps.shape[0]):
            start, stop = cuts[t], cuts[t + 1]
            for j in range(g.shape[0]):
                g[j] = 0.0
            _add_gradients(rows, y, loss, order, start, stop, w, g)
            move, shrink = steps[t] / (stop - start), 1.0 - steps[t] * l2
            norm2 = 0.0
            for j in range(w.shape[0]):
                w[j] = domain.clip(shrink * w[j] - move * g[j])
                norm2 += w[j] * w[j]
            back, theta = domain.rescale(norm2), weights[t]
            for j in range(w.shape[0]):
                w[j] *= back
                average[j] += theta * w[j]

    def walk(rows, y, loss, domain, order, cuts, steps, shape, l2, w, g, noise, first, last, end):
        len(sources)
        batches = cuts.shape[0] - 1
        for t in range(first, last):
            start, stop = cuts[t % batches], cuts[t % batches + 1]
            for j in range(g.shape[0]):
                g[j] = 0.0
            _add_gradients(rows, y, loss, order, start, stop, w, g)
            move, shrink = steps[t] / (stop - start), 1.0 - steps[t] * l2
            norm2 = 0.0
            if t == end:
                for j in range(w.shape[0]):
                    w[j] = shrink * w[j] - move * g[j]
                return
            nu = shape[t]
            for j in range(w.shape[0]):
                w[j] = domain.clip(shrink * w[j] - move * g[j] + nu * noise[t - first, j])
                norm2 += w[j] * w[j]
            back = domain.rescale(norm2)
            if back != 1.0:
                for j in range(w.shape[0]):
                    w[j] *= back

    return compiled(descend), compiled(descend_batches), compiled(walk)


_descend, _descend_batches, _walk = _build(SOURCES)
IN_PLACE = np.empty(0, dtype=np.int64)  # the order of rows that stand in their places


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
        Place of the first row of the pass.
    order : ndarray of int
        Row at each place; empty means that rows stand in their places.
    """

    def __init__(
        self,
        start_point: np.ndarray,
        steps: np.ndarray,
        tails: np.ndarray,
        l2: float = 0.0,
        origin: int = 0,
        order: np.ndarray = IN_PLACE,
    ) -> None:
        self._v = np.array(start_point, dtype=np.float64)
        self._m = self._v.copy()
        self._numbers = np.array([1.0, 0.0, 0.0])
        self._steps, self._tails, self._order = steps, tails, order
        self._l2, self._origin, self._at = float(l2), origin, origin

    def advance(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any, stop: int) -> Pass:
        """Use the rows up to `stop`."""
        if not self._at <= stop <= self._origin + len(self._steps):
            raise ValueError("stop lies outside the pass")
        _descend(
            rows, y, loss, domain, self._order, self._steps, self._tails, self._l2, self._v, self._m,
            self._numbers, self._origin, self._at, stop,
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


def batch_pass(
    start_point: np.ndarray,
    rows: Rows,
    y: np.ndarray,
    loss: Any,
    domain: Any,
    cuts: np.ndarray,
    steps: np.ndarray,
    weights: np.ndarray,
    l2: float = 0.0,
    order: np.ndarray = IN_PLACE,
) -> np.ndarray:
    """Average, by those weights, of the iterates of one pass of projected SGD over batches.

    Batch t holds the places cuts[t], ..., cuts[t + 1] - 1. A step costs what its rows cost and a few passes over the
    weights.
    """
    w, average = np.array(start_point, dtype=np.float64), np.zeros(len(start_point))
    _descend_batches(
        rows, y, loss, domain, order, cuts, steps, weights, float(l2), w, average, np.zeros_like(w)
    )  # fmt: skip
    return average


class Chain:
    """Noisy SGD over batches: a gradient step, noise, projection, over and over.

    Parameters
    ----------
    size : int
        Number of weights; the walk starts at the origin.
    cuts : ndarray of int
        Where batches start and end: batch j holds the places cuts[j], ..., cuts[j + 1] - 1. They are used in turn.
    steps : ndarray
        Step size of each step.
    shape : ndarray
        Factor on the noise of each step.
    l2 : float
        Quadratic term of one record.
    order : ndarray of int
        Row at each place; empty means that rows stand in their places.
    """

    def __init__(
        self,
        size: int,
        cuts: np.ndarray,
        steps: np.ndarray,
        shape: np.ndarray,
        l2: float = 0.0,
        order: np.ndarray = IN_PLACE,
    ) -> None:
        self._w, self._g = np.zeros(size), np.zeros(size)
        self._cuts, self._steps, self._shape, self._order = cuts, steps, shape, order
        self._l2, self._at = float(l2), 0

    def advance(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any, noise: np.ndarray) -> None:
        """Take a step for every row of noise, as long as the last step is not among them."""
        stop = min(self._at + len(noise), len(self._steps) - 1)
        self._run(rows, y, loss, domain, noise, stop, -1)

    def step(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any) -> np.ndarray:
        """Take one gradient step and return where it leads, without noise and projection."""
        self._run(rows, y, loss, domain, self._w[None], self._at + 1, self._at)
        return self._w.copy()

    def place(self, point: np.ndarray) -> None:
        """Go on from another point."""
        self._w[:] = point

    def _run(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any, noise: np.ndarray, stop: int, end: int) -> None:
        if stop > len(self._steps):
            raise ValueError("the walk has ended")
        _walk(
            rows, y, loss, domain, self._order, self._cuts, self._steps, self._shape, self._l2, self._w, self._g,
            noise, self._at, stop, end,
        )  # fmt: skip
        self._at = stop
