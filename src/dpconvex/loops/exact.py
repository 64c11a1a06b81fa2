"""A squared norm that is nearly exact."""

from __future__ import annotations

from dpconvex.loops.protocol import compiled_exactly
from dpconvex.pairs import two_product, two_sum


@compiled_exactly
def squared_norm(w):
    """Add up squares, off by little more than half a unit in the last place: docs/proofs/computed_steps.md."""
    total = low = 0.0
    for j in range(w.shape[0]):
        square, error = two_product(w[j], w[j])
        total, missing = two_sum(total, square)
        low += error + missing
    return total + low
