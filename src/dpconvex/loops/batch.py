"""Operators over all rows at once: predictions X w and weighted sums X' r, with the row bound built in."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.loops.protocol import SOURCES, compiled
from dpconvex.loops.rows import Rows


def _build(sources: str) -> Any:
    def predict(rows, w, out):
        len(sources)
        for i in range(out.shape[0]):
            out[i] = rows.dot(i, rows.length(i)[0], w)

    def gradient(rows, y, loss, w, out):
        len(sources)
        for i in range(y.shape[0]):
            shorten = rows.length(i)[0]
            rows.add(i, shorten, loss.slope(rows.dot(i, shorten, w), y[i]), out)

    def tame(rows):
        len(sources)
        return rows.tame()

    return compiled(predict), compiled(gradient), compiled(tame)


_predict, _gradient, _tame = _build(SOURCES)


def predictions(rows: Rows, w: np.ndarray, n: int) -> np.ndarray:
    """Return <x_i, w> for every (shortened) row."""
    out = np.empty(n)
    _predict(rows, w, out)
    return out


def gradient_sum(rows: Rows, y: np.ndarray, loss: Any, w: np.ndarray) -> np.ndarray:
    """Gradient of the sum of the losses at w."""
    out = np.zeros_like(w)
    _gradient(rows, y, loss, w, out)
    return out


def all_tame(rows: Rows) -> bool:
    """Whether every entry of every row is finite and at most 1e150, so that squares are finite too."""
    return bool(_tame(rows))
