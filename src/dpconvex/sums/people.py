"""Sums over people: the rows of one person are added up, and their sum is clipped as one vector.

Only the lengths of people's sums are computed one person at a time, in a compiled loop that holds one sum; the clipped
sums are then added up like any others (`Memory.people`).
"""

from __future__ import annotations

import numpy as np

from dpconvex.loops.protocol import compiled
from dpconvex.loops.rows import Dense
from dpconvex.sums.accuracy import UNIT
from dpconvex.sums.matrix import Matrix


@compiled
def _dense(rows, shorten, r, ends, total, squares):
    X, d = rows.X, rows.X.shape[1]
    for p in range(squares.shape[0]):
        for i in range(ends[p], ends[p + 1]):
            for k in range(r.shape[1]):
                q = r[i, k] * shorten[i]
                for j in range(d):
                    total[k, j] += q * np.float64(X[i, j])
                if rows.constant != 0.0:
                    total[k, d] += r[i, k] * rows.constant
        for k in range(total.shape[0]):
            for j in range(total.shape[1]):
                squares[p] += total[k, j] * total[k, j]
                total[k, j] = 0.0


@compiled
def _thin(rows, shorten, r, ends, total, squares):
    for p in range(squares.shape[0]):
        for i in range(ends[p], ends[p + 1]):
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                x, at = shorten[i] * np.float64(rows.data[e]), np.uint64(rows.indices[e])
                for k in range(r.shape[1]):
                    total[at, k] += r[i, k] * x
            if rows.constant != 0.0:
                for k in range(r.shape[1]):
                    total[rows.d, k] += r[i, k] * rows.constant
        for i in range(ends[p], ends[p + 1]):  # only what was touched; an entry met again is 0 by then
            for e in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
                at = np.uint64(rows.indices[e])
                for k in range(r.shape[1]):
                    squares[p] += total[at, k] * total[at, k]
                    total[at, k] = 0.0
        if rows.constant != 0.0:
            for k in range(r.shape[1]):
                squares[p] += total[rows.d, k] * total[rows.d, k]
                total[rows.d, k] = 0.0


def person_lengths(matrix: Matrix, R: np.ndarray) -> np.ndarray:
    """Norm of every person's sum of omega_i r_i x_i, never below the true one; rows stand in the order of people.

    A sum of k terms, the terms themselves and the norm of `size` coordinates for each of K classes are off by at
    most (k + size + K + 16) u times the sum of the terms' norms; four times that is added.

    Examples
    --------
    >>> rows = Dense(np.array([[3.0], [2.0], [1.0]]), 4.0, 0.0, people=np.array([0, 0, 1]))
    >>> person_lengths(Matrix(rows, 3), np.ones(3)).round(6)
    array([5., 1.])
    """
    people = matrix.rows.people
    ends = np.concatenate([[0], np.cumsum(np.bincount(people))])
    R = np.ascontiguousarray((matrix.weights * R.T).T.reshape(matrix.n, -1))
    squares, classes = np.zeros(len(ends) - 1), R.shape[1]
    if isinstance(matrix.rows, Dense):
        _dense(matrix.rows, matrix.shorten, R, ends, np.zeros((classes, matrix.size)), squares)
    else:
        _thin(matrix.rows, matrix.shorten, R, ends, np.zeros((matrix.size, classes)), squares)
    terms = np.bincount(people, np.linalg.norm(R, axis=1) * matrix.norms, minlength=len(squares))
    return np.asarray(np.sqrt(squares) + 4.0 * UNIT * (np.diff(ends) + matrix.size + classes + 16) * terms)


def averaged(matrix: Matrix) -> np.ndarray:
    """Weights of the rows, with those of each person, where they add up to more than 1, divided by their sum.

    Examples
    --------
    >>> averaged(Matrix(Dense(np.ones((4, 1)), 1.0, 0.0, people=np.array([0, 1, 0, 0])), 4)).round(6)
    array([0.333333, 1.      , 0.333333, 0.333333])
    """
    people, weights = matrix.rows.people, matrix.weights
    room = 1.0 + 2.0**-52 * (np.bincount(people) + 4)  # the sum of k weights is off by less than that
    totals = np.maximum(1.0, np.bincount(people, weights) * room)
    return np.asarray(weights / totals[people])
