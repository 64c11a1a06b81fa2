"""Numbers as pairs of float64, a high part and what is left: twice the precision.

A pair (high, low) stands for high + low, with |low| at most half a unit in the last place of high. Errors of sums and
products are found exactly (two-sum; Dekker's product), so each operation is right to 16 u^2 of its result, u = 2^-53:
docs/proofs/computed_sums.md. Operations keep their order whoever calls them, or the low parts would mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpconvex.compiling import compile_cached

SPLIT = 2.0**27 + 1.0


def _exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    return compile_cached(function, _nrt=False)


@_exactly
def two_sum(a, b):
    """Return the sum and its error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@_exactly
def two_product(a, b):
    """Return the product and its error (Dekker)."""
    p = a * b
    t = SPLIT * a
    a1 = t - (t - a)
    t = SPLIT * b
    b1 = t - (t - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@_exactly
def plus(a, a_low, b, b_low):
    """Return the sum of two pairs."""
    s, e = two_sum(a, b)
    t, f = two_sum(a_low, b_low)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


@_exactly
def times(a, a_low, b, b_low):
    """Return the product of two pairs."""
    p, e = two_product(a, b)
    return two_sum(p, e + (a * b_low + a_low * b))


@_exactly
def over(a, a_low, b, b_low):
    """Return the quotient of two pairs."""
    q = a / b
    p, e = two_product(q, b)
    r, r_low = plus(a, a_low, -p, -(e + q * b_low))
    return two_sum(q, (r + r_low) / b)
