"""What rounding takes from sums and products, exactly, whoever calls first."""

from fractions import Fraction

import numpy as np
import pytest

from dpconvex.loops.exact import squared_norm
from dpconvex.loops.protocol import compiled, compiled_exactly
from dpconvex.pairs import two_product, two_sum


@compiled_exactly
def lost(a, b):
    total = a + b
    back = total - a
    return (a - (total - back)) + (b - back)


@compiled
def lost_in_a_loop_that_may_reorder(a, b):
    return lost(a, b)


def test_loops_that_may_reorder_do_not_make_what_they_call_inexact():
    """Such a loop compiles what it calls, if it comes first, and numba would let both take its liberties."""
    expected = lost.py_func(0.1, 0.3)
    assert lost_in_a_loop_that_may_reorder(0.1, 0.3) == lost(0.1, 0.3) == expected != 0.0


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e130])
def test_errors_are_exact(scale, rng):
    for a, b in (scale * rng.normal(size=(50, 2)) * 10.0 ** rng.uniform(-8, 8, (50, 1))).tolist():
        for (value, error), exact in (
            (two_sum(a, b), Fraction(a) + Fraction(b)),
            (two_product(a, b), Fraction(a) * Fraction(b)),
        ):
            assert Fraction(value) + Fraction(error) == exact


@pytest.mark.parametrize("size", [1, 2, 17, 3000])
def test_squared_norms_are_exact_but_for_their_last_place(size, rng):
    for w in (rng.normal(size=size), np.full(size, 0.1), 10.0 ** rng.uniform(-12, 3, size)):
        exact = sum(Fraction(v) ** 2 for v in w.tolist())
        assert abs(Fraction(squared_norm(w)) / exact - 1) <= 1.001 * 2.0**-53
