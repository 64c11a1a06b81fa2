"""Rounds of running sums: the row of C x that a round adds gets exact noise, and sums are computed from noisy rows.

`enter` takes the increment of a round, and `leave` gives that of the noisy sums. What it gives is a function of rows of
C x after noise, on their grid: nothing else of the increments leaves this file. The rows before noise are computed in
float64, in an order that does not depend on the noise; how far off they are is charged by `computed_rounds`. Proof:
docs/proofs/correlated_noise.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from dpconvex.compiling import compile_cached, digest_folders
from dpconvex.noise.factors import FILTERS, REFINED, Factor, rows_before
from dpconvex.noise.inversion import round_sum
from dpconvex.noise.rounded import DEEP, ERROR, MOST


class Rounds(NamedTuple):
    """The noise of some consecutive rounds, and what is remembered of the rounds before them.

    `memory` holds, before noise, the state of C: of each filter the high and the low part of its value, or in its first
    part the newest node of each level of a tree. The last part is the state of the inverse, computed from noisy rows.
    """

    kind: int
    weights: np.ndarray
    poles: np.ndarray
    inverse: np.ndarray
    memory: np.ndarray  # 3 parts, a row for each filter or level
    before: int  # rounds before these
    firsts: np.ndarray  # first row of the noise of each round, and where the last one ends
    ratio: float  # of the deviation of the noise to the grid; 0 to add the noise as it is
    grid: float
    words: np.ndarray  # a row of words for each row of the noise
    noise: np.ndarray  # standard normal variates; once its round has been entered, the noisy row
    values: np.ndarray  # rows of C x of the round entered last
    unsure: np.ndarray  # which entries of them float64 could not round


def noisy_rounds(
    factor: Factor, memory: np.ndarray, before: int, count: int, words: np.ndarray, noise: np.ndarray, ratio: float,
    grid: float,
) -> Rounds:  # fmt: skip
    """The next `count` rounds, whose rows have these words and variates: rows of words are read with a ratio only."""
    form = factor.form
    shape, firsts = (form.levels + 1, noise.shape[1]), rows_before(form.kind, before, count)
    return Rounds(
        form.kind, form.weights, form.poles, form.inverse, memory, before, firsts, ratio, grid, words,
        noise, np.empty(shape), np.zeros(shape, dtype=np.bool_),
    )  # fmt: skip


def given_rounds(factor: Factor, memory: np.ndarray, before: int, count: int, noise: np.ndarray) -> Rounds:
    """Rounds whose rows get that noise as it is, for looking at what a loop does: never release what comes out."""
    words = np.frombuffer(b"", dtype="<u8").reshape(0, 1)
    return noisy_rounds(factor, memory, before, count, words, noise, 0.0, 1.0)


@register_jitable(fastmath=False, _nrt=False)  # not what the caller allows: low parts are errors of sums
def enter(rounds, r, x):
    """Enter the increment x of round r, and add noise to the rows of C x that end with it.

    Returns how many variates float64 could not round: those have to be settled before `leave`.
    """
    first, last, d = rounds.firsts[r], rounds.firsts[r + 1], x.shape[0]
    values, memory = rounds.values, rounds.memory
    if rounds.kind == FILTERS:
        v = values[0]
        for i in range(d):
            v[i] = x[i]
        for j in range(rounds.weights.shape[0]):
            weight, gap, high, low = rounds.weights[j], rounds.poles[j], memory[0, j], memory[1, j]
            for i in range(d):  # high + low becomes (1 - gap) (high + low) + x, with the error of its sum kept
                h, e = high[i], low[i]
                v[i] += weight * (h + e)
                change = x[i] - gap * h
                total = h + change
                back = total - h
                high[i] = total
                low[i] = (e - gap * e) + ((h - (total - back)) + (change - back))
    else:
        t, level = rounds.before + r + 1, 0
        node = values[0]
        for i in range(d):
            node[i] = x[i]
        while t >> level & 1 == 0:
            left = memory[0, level]
            above = values[level + 1] if rounds.kind == REFINED else node
            for i in range(d):
                above[i] = node[i] + left[i]
            node, level = above, level + 1
        newest = memory[0, level]
        for i in range(d):
            newest[i] = node[i]
    count = 0
    for row in range(first, last):
        if rounds.ratio > 0.0:
            count += round_sum(
                rounds.words[row], values[row - first], rounds.ratio, rounds.grid, (ERROR, DEEP, MOST),
                rounds.noise[row], rounds.unsure[row - first],
            )  # fmt: skip
        else:
            for i in range(d):
                rounds.noise[row, i] += values[row - first, i]
    return count


@register_jitable(fastmath=False, _nrt=False)  # not what the caller allows: low parts are errors of sums
def leave(rounds, r, y):
    """Put the increment of the noisy running sums into y; a function of the noisy rows alone."""
    first, d, memory = rounds.firsts[r], y.shape[0], rounds.memory
    for i in range(d):
        y[i] = rounds.noise[first, i]
    if rounds.kind == FILTERS:
        for j in range(rounds.inverse.shape[0]):  # one pole at a time, so that poles near 1 stay exact
            zero, pole, state = rounds.poles[j] - 1.0, rounds.inverse[j] - 1.0, memory[2, j]
            for i in range(d):
                given = y[i]
                found = given + state[i]
                state[i] = zero * given - pole * found
                y[i] = found
        return
    t, level, nodes, last = rounds.before + r + 1, 0, memory[1], memory[2, 0]
    while t >> level & 1 == 0:
        level += 1
        if rounds.kind == REFINED:  # the average, of least variance, of a node and the sum of the two below it
            share, left, own = 1.0 / (2.0 - 2.0**-level), nodes[level - 1], rounds.noise[first + level]
            for i in range(d):
                y[i] = share * own[i] + (1.0 - share) * (left[i] + y[i])
    newest = nodes[level]
    for i in range(d):
        newest[i] = y[i]
    level += 1
    while t >> level > 0:
        if t >> level & 1:
            for i in range(d):
                y[i] += nodes[level, i]
        level += 1
    for i in range(d):
        total = y[i]
        y[i] = total - last[i]
        last[i] = total


def _add_up(rounds, at, entered, increments, scales, sums, out):
    """Noisy running sums of given increments, from round `at` on, which may be entered already.

    Returns the round whose variates have to be settled, or the number of rounds.
    """
    for t in range(at, out.shape[0]):
        y, scale = out[t], scales[t]
        if t > at or not entered:
            for i in range(y.shape[0]):
                y[i] = increments[t, i] / scale
            if enter(rounds, t, y) > 0:
                return t
        leave(rounds, t, y)
        for i in range(y.shape[0]):
            y[i] = sums[i] + scale * y[i]
            sums[i] = y[i]
    return out.shape[0]


_add_up.__qualname__ += f".{digest_folders(Path(__file__).parent)[:16]}"  # numba looks for changes in this file only
add_up = compile_cached(_add_up, _nrt=False)
