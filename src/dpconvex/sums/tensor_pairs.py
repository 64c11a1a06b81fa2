"""Sums of tensors as pairs of a high and a low part, and the logistic gradient in twice the precision."""

from __future__ import annotations

from typing import Any

from dpconvex.pairs import plus, times, two_product, two_sum
from dpconvex.problem.losses import Logistic
from dpconvex.sums import careful
from dpconvex.sums.symbols import Graph
from dpconvex.theorems.computed_sums import BLOCK

__all__ = ["careful_pair", "joined"]


def joined(xp: Any, high: Any) -> Any:
    """The sum of blocks (blocks, ...) as a pair, joined by a tree."""
    low = xp.zeros_like(high)
    while high.shape[0] > 1:
        odd = high.shape[0] % 2
        rest = (high[-1:, ...], low[-1:, ...]) if odd else None
        a, b = high[0 : high.shape[0] - odd : 2, ...], high[1 : high.shape[0] : 2, ...]
        total = a + b
        back = total - a
        low = (low[0 : high.shape[0] - odd : 2, ...] + low[1 : high.shape[0] : 2, ...]) + (
            (a - (total - back)) + (b - back)
        )
        high = total
        if rest is not None:
            high, low = xp.concat([high, rest[0]], axis=0), xp.concat([low, rest[1]], axis=0)
    return xp.stack([high[0, ...], low[0, ...]])


_SUM, _PRODUCT = Graph(two_sum, (), 2), Graph(two_product, (), 2)
_PLUS, _TIMES = Graph(plus, (), 4), Graph(times, (), 4)
_SLOPE = Graph(careful.logistic_slope, (), 5)


def careful_pair(xp: Any, X: Any, w: Any, constant: float, y: Any, shorten: Any, omega: Any, loss: Logistic) -> Any:
    """Gradient of the logistic loss over some rows as a pair, in twice the precision: what `careful` does to each."""
    d, zero = X.shape[1], xp.zeros_like(y)
    X = xp.where((shorten > 0.0)[:, None], X, 0.0)
    p, error = _PRODUCT((X, X * 0.0 + w[:d]), xp)
    z, low = _folded(xp, p.T, error.T, careful_blocks=False)
    z, low = _TIMES((z, low, shorten, zero), xp)
    if constant:
        p, error = _PRODUCT((constant + zero, w[d] + zero), xp)
        z, low = _PLUS((z, low, p, error), xp)
    r, r_low = _SLOPE((z, low, y, loss.cap + zero, loss.shift + zero), xp)
    if omega is not None:
        r, r_low = _TIMES((r, r_low, omega, zero), xp)
    s, s_low = _TIMES((r, r_low, shorten, zero), xp)
    p, error = _PRODUCT((X * 0.0 + s[:, None], X), xp)
    error = error + s_low[:, None] * X
    if constant:
        one, one_error = _PRODUCT((r, constant + zero), xp)
        p = xp.concat([p, one[:, None]], axis=1)
        error = xp.concat([error, (one_error + r_low * constant)[:, None]], axis=1)
    return xp.stack(_folded(xp, p, error, careful_blocks=True))


def _folded(xp: Any, high: Any, low: Any, careful_blocks: bool) -> tuple[Any, Any]:
    """Sum over the first axis of pairs, whose low parts are only rounded; blocks of 1024 join as pairs."""
    if careful_blocks and high.shape[0] > BLOCK:
        total: Any = None
        for start in range(0, high.shape[0], BLOCK):
            block = slice(start, min(start + BLOCK, high.shape[0]))
            pair = _folded(xp, high[block, :], low[block, :], False)
            total = pair if total is None else _PLUS((*total, *pair), xp)
        return total
    while high.shape[0] > 1:
        odd = high.shape[0] % 2
        ends = (high[-1:, ...], low[-1:, ...])
        a, b = high[0 : high.shape[0] - odd : 2, ...], high[1 : high.shape[0] : 2, ...]
        total, error = _SUM((a, b), xp)
        low = (low[0 : high.shape[0] - odd : 2, ...] + low[1 : high.shape[0] : 2, ...]) + error
        high = total
        if odd:
            high, low = xp.concat([high, ends[0]], axis=0), xp.concat([low, ends[1]], axis=0)
    made = _SUM((high[0, ...], low[0, ...]), xp)
    return made[0], made[1]
