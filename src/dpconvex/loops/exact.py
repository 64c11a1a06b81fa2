"""Sums and products together with what rounding takes from them, and a squared norm that is nearly exact."""

from __future__ import annotations

from dpconvex.loops.protocol import compiled_exactly

SPLIT = 2.0**27 + 1.0


@compiled_exactly
def two_sum(a, b):
    """Return the sum and its error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@compiled_exactly
def two_product(a, b):
    """Return the product and its error (Dekker)."""
    p = a * b
    t = SPLIT * a
    a1 = t - (t - a)
    t = SPLIT * b
    b1 = t - (t - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@compiled_exactly
def squared_norm(w):
    """Add up squares, off by little more than half a unit in the last place: docs/proofs/computed_steps.md."""
    total = low = 0.0
    for j in range(w.shape[0]):
        square, error = two_product(w[j], w[j])
        total, missing = two_sum(total, square)
        low += error + missing
    return total + low
