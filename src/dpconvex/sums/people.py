"""Sums over people: the rows of one person are added up, and their sum is clipped as one vector.

What is clipped is the sum as computed, by its own length: however the rows of a person cancel, what joins the total is
no longer than the clip.
"""

from __future__ import annotations

import math

import numpy as np

from dpconvex.loops.protocol import compiled_exactly
from dpconvex.loops.rows import Dense
from dpconvex.sums.matrix import Matrix, _add

_OFTEN = 2**16  # people added between two times that low parts join the high ones


@compiled_exactly
def _factor(square, size, clip):
    # The norm of `size` numbers is off by less than is added. What overflows counts as nothing.
    length = math.sqrt(square) * (1.0 + (size + 64) * 2.3e-16) + 1e-148
    factor = clip / max(length, clip) if length < 1e150 else 0.0
    return factor if factor >= 1e-290 else 0.0


@compiled_exactly
def _settle(high, low):
    for k in range(high.shape[0]):
        for j in range(high.shape[1]):
            rest, low[k, j] = low[k, j], 0.0
            _add(high[k], low[k], j, rest)


@compiled_exactly
def _dense(rows, shorten, r, ends, clip, total, high, low):
    X, d = rows.X, rows.X.shape[1]
    for p in range(ends.shape[0] - 1):
        for i in range(ends[p], ends[p + 1]):
            for k in range(r.shape[1]):
                q = r[i, k] * shorten[i]
                for j in range(d):
                    total[k, j] += q * np.float64(X[i, j])
                if rows.constant != 0.0:
                    total[k, d] += r[i, k] * rows.constant
        square = 0.0
        for k in range(total.shape[0]):
            for j in range(total.shape[1]):
                square += total[k, j] * total[k, j]
        factor = _factor(square, total.size, clip)
        for k in range(total.shape[0]):
            for j in range(total.shape[1]):
                if factor > 0.0:
                    _add(high[k], low[k], j, factor * total[k, j])
                total[k, j] = 0.0
        if p % _OFTEN == 0:
            _settle(high, low)


@compiled_exactly
def _thin(rows, shorten, r, ends, clip, total, high, low, seen):
    for p in range(ends.shape[0] - 1):
        for i in range(ends[p], ends[p + 1]):
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                x, at = shorten[i] * np.float64(rows.data[e]), np.uint64(rows.indices[e])
                for k in range(r.shape[1]):
                    total[k, at] += r[i, k] * x
            if rows.constant != 0.0:
                for k in range(r.shape[1]):
                    total[k, rows.d] += r[i, k] * rows.constant
        square = 0.0
        for i in range(ends[p], ends[p + 1]):  # only what was touched, each entry once
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                at = np.uint64(rows.indices[e])
                if seen[at] != p:
                    seen[at] = p
                    for k in range(r.shape[1]):
                        square += total[k, at] * total[k, at]
        if rows.constant != 0.0:
            for k in range(r.shape[1]):
                square += total[k, rows.d] * total[k, rows.d]
        factor = _factor(square, total.size, clip)
        for i in range(ends[p], ends[p + 1]):  # an entry met again is 0 by then
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                at = np.uint64(rows.indices[e])
                for k in range(r.shape[1]):
                    if factor > 0.0:
                        _add(high[k], low[k], at, factor * total[k, at])
                    total[k, at] = 0.0
        if rows.constant != 0.0:
            for k in range(r.shape[1]):
                if factor > 0.0:
                    _add(high[k], low[k], rows.d, factor * total[k, rows.d])
                total[k, rows.d] = 0.0
        if p % _OFTEN == 0:
            _settle(high, low)


def people_sum(matrix: Matrix, R: np.ndarray, clip: float) -> np.ndarray:
    """Return the sum over people of their sums of omega_i r_i x_i, each shortened to a norm of `clip`.

    Rows stand in the order of people. The result has one row per column of R, if R has several.

    Examples
    --------
    >>> rows = Dense(np.array([[3.0], [2.0], [1.0]]), 4.0, 0.0, people=np.array([0, 0, 1]))
    >>> people_sum(Matrix(rows, 3), np.ones(3), 4.0).round(6)
    array([5.])
    """
    high, low = people_pair(matrix, R, clip)
    return np.asarray(high + low)


def people_pair(matrix: Matrix, R: np.ndarray, clip: float) -> np.ndarray:
    """Return that sum as a pair of a high and a low part, which those of other people may join."""
    changes = np.flatnonzero(np.diff(matrix.rows.people)) + 1
    ends = np.concatenate([[0], changes, [matrix.n]])
    answers = np.ascontiguousarray((matrix.weights * R.T).T.reshape(matrix.n, -1))
    total, high, low = np.zeros((3, answers.shape[1], matrix.size))
    if isinstance(matrix.rows, Dense):
        _dense(matrix.rows, matrix.shorten, answers, ends, clip, total, high, low)
    else:
        seen = np.full(matrix.size, -1)
        _thin(matrix.rows, matrix.shorten, answers, ends, clip, total, high, low, seen)
    return np.stack([high, low]).reshape(2, *R.shape[1:], matrix.size)


def averaged(people: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights of the rows, with those of each person, where they add up to more than 1, divided by their sum.

    Examples
    --------
    >>> averaged(np.array([0, 1, 0, 0]), np.ones(4)).round(6)
    array([0.333333, 1.      , 0.333333, 0.333333])
    """
    if people.max(initial=0) > 2 * len(people):  # numbers of few people among many
        people = np.unique(people, return_inverse=True)[1]
    room = 1.0 + 2.0**-52 * (np.bincount(people) + 4)  # the sum of k weights is off by less than that
    totals = np.maximum(1.0, np.bincount(people, weights) * room)
    return np.asarray(weights / totals[people])
