"""Sums over people: the rows of one person are added up, and their sum is clipped as one vector.

Only the lengths of people's sums are computed one person at a time, in a compiled loop that holds one sum; the clipped
sums are then added up like those of any other batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex.loops.protocol import compiled
from dpconvex.loops.rows import Dense, Rows
from dpconvex.sums.memory import UNIT, Batch


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


def taken(rows: Rows, members: np.ndarray) -> Any:
    """Copy of the rows of those numbers, in that order, with what is said of them.

    Examples
    --------
    >>> rows = Dense(np.array([[3.0], [1.0], [2.0]]), 4.0, 0.0, people=np.array([0, 1, 0]))
    >>> taken(rows, np.array([2, 0])).X.ravel(), taken(rows, np.array([2, 1])).people
    (array([2., 3.]), array([0, 1]))
    """
    if len(rows.weights):
        rows = rows._replace(weights=rows.weights[members])
    if len(rows.people):
        rows = rows._replace(people=rows.people[members])
    if isinstance(rows, Dense):
        return rows._replace(X=rows.X[members])
    starts = rows.indptr[members]
    counts = rows.indptr[members + 1] - starts
    ends = np.concatenate([[0], np.cumsum(counts)])
    entries = np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])
    return rows._replace(data=rows.data[entries], indices=rows.indices[entries], indptr=ends)


class PeopleBatch(Batch):
    """A batch of rows that say whose they are (`rows.people`, a number from 0 for each), brought into people's order.

    Parameters
    ----------
    rows : Dense or CSR
        Copied, unless the rows of each person stand together already, in the order of their numbers.
    n : int
        Number of rows.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Which row stands at each place of the batch.

    Examples
    --------
    >>> rows = Dense(np.array([[3.0], [1.0], [2.0]]), 4.0, 0.0, people=np.array([0, 1, 0]))
    >>> batch = PeopleBatch(rows, 3)
    >>> batch.order, batch.lengths(np.ones(3)).round(6)
    (array([0, 2, 1]), array([5., 1.]))
    >>> batch.clipped_sweep(np.array([1.0]), np.sign, 2.0).round(6)  # 2 of the first person, 1 of the second
    array([3.])
    """

    def __init__(self, rows: Rows, n: int) -> None:
        self.order = np.argsort(rows.people, kind="stable")
        together = bool((np.diff(rows.people) >= 0).all())
        super().__init__(rows if together else taken(rows, self.order), n)
        self._people = self.rows.people
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(self._people))])

    def lengths(self, R: np.ndarray) -> np.ndarray:
        """Norm of every person's sum of omega_i r_i x_i, never below the true one.

        A sum of k terms, the terms themselves and the norm of `size` coordinates for each of K classes are off by at
        most (k + size + K + 16) u times the sum of the terms' norms; four times that is added.
        """
        R = np.ascontiguousarray((self.weights * R.T).T.reshape(self.n, -1))
        squares, classes = np.zeros(len(self._ends) - 1), R.shape[1]
        if isinstance(self.rows, Dense):
            _dense(self.rows, self.shorten, R, self._ends, np.zeros((classes, self.size)), squares)
        else:
            _thin(self.rows, self.shorten, R, self._ends, np.zeros((self.size, classes)), squares)
        terms = np.bincount(self._people, np.linalg.norm(R, axis=1) * self.norms, minlength=len(squares))
        return np.asarray(np.sqrt(squares) + 4.0 * UNIT * (np.diff(self._ends) + self.size + classes + 16) * terms)

    def clipped_sweep(self, W: np.ndarray, respond: Callable[[np.ndarray], np.ndarray], clip: float) -> np.ndarray:
        """Return the sum over people of their sums of omega_i r_i x_i, each shortened to `clip`; r = respond(X w)."""
        R = respond(self.predict(W))
        factor = clip / np.maximum(self.lengths(R), clip)
        return self.adjoint((factor[self._people] * R.T).T)
