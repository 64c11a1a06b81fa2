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

from dpconvex.errors import RowError
from dpconvex.loops.exact import squared_norm
from dpconvex.loops.protocol import OPTIONS, compiled
from dpconvex.loops.records import walk_records
from dpconvex.loops.rows import NOT_FINITE, AnyRows, Dense, Records, Rows
from dpconvex.loops.threads import LATE, OFF, apart, arrive, available, read_ahead, share, wait
from dpconvex.noise.inversion import round_sum
from dpconvex.noise.rounded import Variates, limits
from dpconvex.problem.losses import Softmax
from dpconvex.theorems.computed_steps import walk_grids
from dpconvex.theorems.computed_sums import BLOCK

_FOLD = 2.0**-4  # smallest factor of the vectors: below it they would be much longer than the point
_PART = 128  # rows at least in a part of a batch that a thread adds up by itself
_PARTS = 16  # parts of a batch at most
_WORTH = 2**15  # weights that are moved, at least, in all parts and steps, for threads to be worth starting
_OFTEN, _EVERY = 8, 16  # how often threads may be late: that many times, and once in so many steps
_SHORT = 256, 2048  # bytes of a row that the processor is slow to read ahead of by itself
ROOM = 16  # rows that stay in the nearest cache between being measured and being added


def _add_gradients(rows, y, loss, order, start, stop, w, g, room):
    """Add to g the gradients at w of the rows at places start, ..., stop - 1; return how many are not finite."""
    wild = 0
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        shorten, row2 = rows.length(i)
        wild += 1 if row2 == math.inf else 0
        rows.add(i, shorten, loss.slope(rows.dot(i, shorten, w), y[i]), g)
    return wild


def _add_dense_gradients(rows, y, loss, order, start, stop, w, g, room):
    """The same, some rows at a time, which stay in the nearest cache between the two things that are done to them.

    Rows are measured one after the other, which is how memory is read fastest, and added four together, so that the
    sums are loaded and stored once for them. `room` holds what was measured, then factors and predictions.
    """
    X, radius, constant = rows.X, rows.radius, rows.constant
    d = X.shape[1]
    shift = constant * w[d] if constant != 0.0 else 0.0
    wild = 0
    places = order.shape[0] if order.shape[0] > 0 else X.shape[0]
    line = 64 // X.itemsize
    lines = (d + line - 1) // line if _SHORT[0] <= d * X.itemsize <= _SHORT[1] else 0
    for first in range(start, stop, ROOM):
        count = min(ROOM, stop - first)
        for k in range(count):
            i = order[first + k] if order.shape[0] > 0 else first + k
            if lines > 0:
                ahead = min(first + k + ROOM, places - 1)
                ahead = order[ahead] if order.shape[0] > 0 else ahead
                for piece in range(lines):
                    read_ahead(X, ahead * d + piece * line)
            norm2 = z = 0.0
            for j in range(d):
                x = np.float64(X[i, j])
                norm2 += x * x
                z += x * w[j]
            room[0, k], room[1, k] = norm2, z
        beyond = 0
        for k in range(count):  # roots and quotients of several rows at once
            beyond += 0 if room[0, k] < math.inf else 1
            shorten = radius / max(radius, math.sqrt(room[0, k]))  # no branch: rows at the bound would mislead it
            room[0, k], room[1, k] = shorten, shorten * room[1, k] + shift
        if beyond > 0:
            for k in range(count):
                i = order[first + k] if order.shape[0] > 0 else first + k
                wild += 1 if rows.length(i)[1] == math.inf else 0
                room[1, k] = room[1, k] if room[0, k] > 0.0 else shift  # a row of zeros
        for k in range(count):
            i = order[first + k] if order.shape[0] > 0 else first + k
            p = loss.slope(room[1, k], y[i])
            if constant != 0.0:
                g[d] += constant * p
            room[1, k] = room[0, k] * p
        fours = count // 4 * 4
        for k in range(0, fours, 4):
            p0, p1, p2, p3 = room[1, k], room[1, k + 1], room[1, k + 2], room[1, k + 3]
            i0, i1, i2, i3 = first + k, first + k + 1, first + k + 2, first + k + 3
            if order.shape[0] > 0:
                i0, i1, i2, i3 = order[i0], order[i1], order[i2], order[i3]
            for j in range(d):
                g[j] += (
                    p0 * np.float64(X[i0, j])
                    + p1 * np.float64(X[i1, j])
                    + (p2 * np.float64(X[i2, j]) + p3 * np.float64(X[i3, j]))
                )
        for k in range(fours, count):
            i = order[first + k] if order.shape[0] > 0 else first + k
            p = room[1, k]
            for j in range(d):
                g[j] += p * np.float64(X[i, j])
    return wild


def _add_class_gradients(rows, y, loss, order, start, stop, w, g, room):
    """The same for a softmax, whose weights are one vector of features after the other; `room` holds one row's."""
    wild, classes = 0, int(loss.classes)
    size = w.shape[0] // classes
    residuals = room[0]
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        shorten, row2 = rows.length(i)
        wild += 1 if row2 == math.inf else 0
        label, top = int(y[i]), -math.inf
        for c in range(classes):
            z = rows.dot(i, shorten, w[c * size : (c + 1) * size]) - (loss.shift if c == label else 0.0)
            residuals[c] = z
            top = max(top, z)
        total = 0.0
        for c in range(classes):
            residuals[c] = math.exp(residuals[c] - top)
            total += residuals[c]
        for c in range(classes):
            p = residuals[c] / total - (1.0 if c == label else 0.0)
            rows.add(i, shorten, p, g[c * size : (c + 1) * size])
    return wild


def _choose_gradients(rows, y, loss, order, start, stop, w, g, room):
    if loss.instance_class is Softmax:
        return _add_class_gradients
    return _add_dense_gradients if rows.instance_class is Dense else _add_gradients


_overload: Any = overload
_overload(_add_gradients, jit_options=OPTIONS)(_choose_gradients)


@compiled
def descend(rows, y, loss, domain, order, steps, tails, l2, v, m, numbers, every, origin, start, stop):
    """Take the rows at places start, ..., stop - 1, one a step; return how many are not finite.

    The squared norm of the point is computed anew after `every` steps, and kept up to date in between.
    """
    if start == stop:
        return 0
    wild = 0
    a, k, norm2 = numbers[0], numbers[1], numbers[2]
    size = v.shape[0]
    ordered = order.shape[0] > 0
    i = order[start] if ordered else start
    shorten, row2 = rows.length(i)
    for place in range(start, stop):
        if (place - origin) % every == 0:
            norm2 = 0.0
            for j in range(size):
                norm2 += v[j] * v[j]
            norm2 *= a * a
        wild += 1 if row2 == math.inf else 0
        eta = steps[place - origin]
        theta = tails[place - origin]
        z = a * rows.dot(i, shorten, v)
        # The length of the next row does not wait for this row's slope.
        following = min(place + 1, stop - 1)
        following = order[following] if ordered else following
        next_shorten, next_row2 = rows.length(following)
        move = -eta * loss.slope(z, y[i])
        shrink = 1.0 - eta * l2
        if abs(a * shrink) < _FOLD or shrink < 0.0:  # fold the factor into the vectors before it gets small
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
    return wild


@compiled
def _sum_gradients(rows, y, loss, order, start, stop, w, g, block, room):
    """Set g to the sum of the gradients at places start, ..., stop - 1, a block of rows after the other.

    What rounding does to a sum grows with the rows in a block and with the number of blocks, not with their product.
    """
    wild, many = 0, max(BLOCK, g.shape[0])
    for j in range(g.shape[0]):
        g[j] = 0.0
    if stop - start <= many:
        return _add_gradients(rows, y, loss, order, start, stop, w, g, room)
    for first in range(start, stop, many):
        for j in range(g.shape[0]):
            block[j] = 0.0
        wild += _add_gradients(rows, y, loss, order, first, min(first + many, stop), w, block, room)
        for j in range(g.shape[0]):
            g[j] += block[j]
    return wild


@compiled
def descend_batches(rows, y, loss, domain, order, cuts, steps, weights, l2, w, average, g, block, room):
    """Take a step for each batch, and add up the weighted average; return how many rows are not finite."""
    wild = 0
    for t in range(steps.shape[0]):
        start, stop = cuts[t], cuts[t + 1]
        wild += _sum_gradients(rows, y, loss, order, start, stop, w, g, block, room)
        move, shrink = steps[t] / (stop - start), 1.0 - steps[t] * l2
        norm2 = 0.0
        for j in range(w.shape[0]):
            w[j] = domain.clip(shrink * w[j] - move * g[j])
            norm2 += w[j] * w[j]
        back, theta = domain.rescale(norm2), weights[t]
        for j in range(w.shape[0]):
            w[j] *= back
            average[j] += theta * w[j]
    return wild


@compiled
def _share_of_step(rows, y, loss, order, start, stop, w, parts, block, room, member, size):
    """Add up gradients of every part of a batch that falls to a member; return how many rows are not finite."""
    wild = 0
    many = parts.shape[0]
    for p in range(member, many, size):
        first, last = start + (stop - start) * p // many, start + (stop - start) * (p + 1) // many
        wild += _sum_gradients(rows, y, loss, order, first, last, w, parts[p], block, room)
    return wild


@compiled
def _assist(rows, y, loss, order, cuts, w, parts, block, room, first, last, counters, member, size):
    """Do a member's share of every step; return how many rows are not finite."""
    wild = 0
    batches = cuts.shape[0] - 1
    for t in range(first, last):
        if wait(counters, 0, t + 1) == OFF:
            break
        start, stop = cuts[t % batches], cuts[t % batches + 1]
        wild += _share_of_step(rows, y, loss, order, start, stop, w, parts, block, room, member, size)
        arrive(counters, member, t + 1)
    return wild


@compiled
def _way_back(domain, w, norm2):
    """Factor that brings a point into the domain, from its squared norm as plain sums give it.

    A point that may lie outside is measured again, more closely: what the projection is off by would otherwise grow
    with the number of weights, at every step.
    """
    if domain.rescale(norm2 * (1.0 + 2.0**-52 * (w.shape[0] + 16.0))) == 1.0:
        return 1.0
    return domain.rescale(squared_norm(w))


@compiled
def _walk(
    rows, y, loss, domain, order, cuts, steps, nu, grids, l2, x, w, parts, block, room, normal, words, limits, unsure,
    begin, first, last, counters, size,
):  # fmt: skip
    """Take steps first, ..., last - 1; return how many rows are wild, and the step at which the walk stops.

    A step projects the noisy point x to w, takes a gradient step from there, and rounds that and its noise to the grid,
    which is x again. Row t - begin of `normal` and `words` is the noise of step t; steps beyond it have none, and leave
    x where the gradient leads. The walk stops early where float64 does not show what some real variate rounds to: then
    x is the value of that step, and the row of `normal` the sums so far.
    """
    wild = late = 0
    batches = cuts.shape[0] - 1
    g = parts[0]
    for t in range(first, last):
        norm2 = 0.0
        for j in range(w.shape[0]):
            w[j] = domain.clip(x[j])
            norm2 += w[j] * w[j]
        back = _way_back(domain, w, norm2)
        if back != 1.0:
            for j in range(w.shape[0]):
                w[j] *= back
        start, stop = cuts[t % batches], cuts[t % batches + 1]
        if size > 1:
            arrive(counters, 0, t + 1)
        wild += _share_of_step(rows, y, loss, order, start, stop, w, parts, block, room, 0, size)
        for member in range(1, size):
            came = wait(counters, member, t + 1)
            if came == OFF:
                return wild, t
            late += 1 if came == LATE and t > first else 0  # at first they have to be woken
        if late > _OFTEN + (t - first) // _EVERY:  # the processors are wanted elsewhere: go on alone
            arrive(counters, 0, -1)
            size, late = 1, 0
        for p in range(1, parts.shape[0]):  # always in this order, whoever added up a part
            for j in range(w.shape[0]):
                g[j] += parts[p, j]
        move, shrink = steps[t] / (stop - start), 1.0 - steps[t] * l2
        for j in range(w.shape[0]):
            x[j] = shrink * w[j] - move * g[j]
        row = t - begin
        if row < normal.shape[0] and nu[t] > 0.0:
            sums = normal[row]
            if grids[t] == 0.0:
                for j in range(w.shape[0]):
                    x[j] += nu[t] * sums[j]
            elif round_sum(words[row], x, nu[t] / grids[t], grids[t], limits, sums, unsure) > 0:
                return wild, t
            else:
                for j in range(w.shape[0]):
                    x[j] = sums[j]
    return wild, last


def room_for(loss: Any) -> int:
    """Numbers of one kind that adding up gradients needs room for: some rows' at a time, or those of all classes.

    Examples
    --------
    >>> room_for(Softmax(100)), room_for(Softmax(3))
    (100, 16)
    """
    return max(ROOM, loss.traits.outputs)


IN_PLACE = np.empty(0, dtype=np.int64)  # the order of rows that stand in their places


class Chain:
    """Noisy SGD over batches: a projection, a gradient step, noise, and rounding to a grid, over and over.

    Parameters
    ----------
    size : int or tuple of int
        Number of weights, or their shape; the walk starts at the origin, or where it is placed.
    cuts : ndarray of int
        Where batches start and end: batch j holds the places cuts[j], ..., cuts[j + 1] - 1. They are used in turn.
    steps : ndarray
        Step size of each step.
    shape : ndarray
        Factor on the noise of each step.
    far : float
        How far from the origin a step can lead, which bounds from below how fine a grid may be.
    l2 : float
        Quadratic term of one record.
    order : ndarray of int
        Row at each place; empty means that rows stand in their places.
    """

    loop = staticmethod(_walk)  # what uses the noise, and what receipts name

    def __init__(
        self,
        size: int | tuple[int, ...],
        cuts: np.ndarray,
        steps: np.ndarray,
        shape: np.ndarray,
        far: float,
        l2: float = 0.0,
        order: np.ndarray = IN_PLACE,
        threads: int | None = None,
    ) -> None:
        self._point, self._threads = np.zeros(size), available() if threads is None else threads
        self._flat = self._point.reshape(-1)  # the same numbers, as loops see them
        self._cuts, self._steps, self._shape, self._order = cuts, steps, shape, order
        self._far, self._l2, self._at = far, float(l2), 0

    @property
    def point(self) -> np.ndarray:
        """Where the walk is: the last noisy point, before its projection."""
        return self._point.copy()

    def advance(self, rows: AnyRows, y: np.ndarray, loss: Any, domain: Any, noise: Variates) -> None:
        """Take a step for every row of noise, as long as the last step is not among them."""
        begin, many, count = self._at, len(noise.normal), len(self._flat)
        normal, unsure = noise.normal.reshape(many, -1), np.zeros(count, dtype=np.bool_)
        words = noise.words.reshape(len(noise.words), -1)
        nu = noise.scale * self._shape
        grids = walk_grids(self._shape, noise.grid, self._far) if noise.grid else np.zeros(len(nu))
        stop = min(begin + many, len(self._steps) - 1)
        if isinstance(rows, Records):
            self._over_records(rows, loss, domain, nu, noise.normal, stop, -1)
            return
        while self._at < stop:
            self._run(rows, y, loss, domain, stop, nu, grids, normal, words, begin, unsure)
            if self._at < stop:
                row, first = normal[self._at - begin], (self._at - begin) * count
                for j in np.flatnonzero(unsure).tolist():
                    given = float(self._flat[j]), float(nu[self._at]), float(grids[self._at])
                    row[j] = noise.settle(first + j, *given)
                self._flat[:] = row
                self._at += 1

    def step(self, rows: AnyRows, y: np.ndarray, loss: Any, domain: Any) -> np.ndarray:
        """Take one gradient step and return where it leads, without noise."""
        if self._at == len(self._steps):
            raise ValueError("the walk has ended")
        if isinstance(rows, Records):
            self._over_records(rows, loss, domain, self._shape, self._point[None], self._at + 1, self._at)
            return self.point
        none = np.empty((0, len(self._flat)))
        words, unsure = np.empty((0, 0), dtype=np.uint64), np.empty(0, dtype=np.bool_)
        self._run(rows, y, loss, domain, self._at + 1, self._shape, self._shape, none, words, self._at, unsure)
        return self.point

    def place(self, point: np.ndarray) -> None:
        """Go on from another point."""
        self._point[:] = point

    def _over_records(
        self, rows: Records, loss: Any, domain: Any, nu: np.ndarray, noise: np.ndarray, stop: int, end: int
    ) -> None:
        """Go on to step `stop` over records of a loss of the user's own, whose rounding no theorem bounds."""
        walk_records(
            rows, loss, domain, self._order, self._cuts, self._steps, nu, self._l2, self._point, noise, self._at, stop,
            end,
        )  # fmt: skip
        self._at = stop

    def _run(self, rows: Rows, y: np.ndarray, loss: Any, domain: Any, stop: int, *noise: Any) -> None:
        """Go on to step `stop`, or to the first one whose rounding float64 does not show."""
        many, count, wide = self._parts(rows), len(self._flat), room_for(loss)
        size = min(many, self._threads) if many * (stop - self._at) * count >= _WORTH else 1
        w, parts, blocks, found = np.empty(count), apart(many, count), apart(size, count), [0] * size
        room = apart(size, 2 * wide).reshape(size, 2, wide)

        def lead(counters: np.ndarray, size: int) -> None:
            nu, grids, normal, words, begin, unsure = noise
            found[0], self._at = _walk(
                rows, y, loss, domain, self._order, self._cuts, self._steps, nu, grids, self._l2, self._flat, w, parts,
                blocks[0], room[0], normal, words, limits(), unsure, begin, first, stop, counters, size,
            )  # fmt: skip

        def assist(counters: np.ndarray, member: int) -> None:
            found[member] = _assist(
                rows, y, loss, self._order, self._cuts, w, parts, blocks[member], room[member], first, stop, counters,
                member, size,
            )  # fmt: skip

        first = self._at
        share(size, lead, assist)
        if any(found):
            raise RowError(NOT_FINITE)

    def _parts(self, rows: Rows) -> int:
        """Parts of a batch that are added up apart: a matter of the batch, not of the threads, so sums are the same."""
        batch = int(np.diff(self._cuts).min())
        if not isinstance(rows, Dense) or batch < 2 * _PART:
            return 1
        return min(2 ** int(math.log2(batch / _PART)), _PARTS)
