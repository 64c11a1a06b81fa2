"""Passes of projected SGD over records of a loss of the user's own: the steps of `stream`, a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.loops.rows import Records

__all__ = ["descend_records", "walk_records"]


def _step(records: Records, loss: Any, which: Any, count: int, eta: float, l2: float, w: np.ndarray) -> np.ndarray:
    """Where a step along the mean gradient of some records leads, before projection."""
    some = records.take(which)
    return np.asarray((1.0 - eta * l2) * w - eta / count * loss.total(w, (some.X, some.y)))


def descend_records(
    records: Records, loss: Any, domain: Any, order: np.ndarray, cuts: np.ndarray, steps: np.ndarray,
    weights: np.ndarray, l2: float, w: np.ndarray, average: np.ndarray,
) -> None:  # fmt: skip
    """Take a step for each batch, and add up the weighted average.

    Examples
    --------
    >>> from dpconvex.problem.domains import Everywhere
    >>> from dpconvex.problem.losses import Convex
    >>> away, records = Convex(lambda w, X, y: w - X, smoothness=1.0), Records(np.ones((4, 2)), None)
    >>> w, average, half = np.zeros(2), np.zeros(2), np.full(2, 0.5)
    >>> descend_records(records, away, Everywhere(), np.empty(0, int), np.array([0, 2, 4]), half, half, 0.0, w, average)
    >>> w, average
    (array([0.75, 0.75]), array([0.625, 0.625]))
    """
    for t, eta in enumerate(steps):
        places = slice(int(cuts[t]), int(cuts[t + 1]))
        count = places.stop - places.start
        moved = _step(records, loss, order[places] if len(order) else places, count, float(eta), l2, w)
        w[...] = domain.project(moved)
        average += weights[t] * w


def walk_records(
    records: Records, loss: Any, domain: Any, order: np.ndarray, cuts: np.ndarray, steps: np.ndarray,
    shape: np.ndarray, l2: float, w: np.ndarray, noise: np.ndarray, first: int, stop: int, end: int,
) -> None:  # fmt: skip
    """Take the steps first, ..., stop - 1 over batches in turn, each with noise and projected but for step `end`."""
    batches = len(cuts) - 1
    for t in range(first, stop):
        places = slice(int(cuts[t % batches]), int(cuts[t % batches + 1]))
        count = places.stop - places.start
        moved = _step(records, loss, order[places] if len(order) else places, count, float(steps[t]), l2, w)
        w[...] = moved if t == end else domain.project(moved + shape[t] * noise[t - first])
