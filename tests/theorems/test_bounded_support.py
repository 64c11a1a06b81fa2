"""Budgets that the bounded support of noise without a grid cannot keep: refused once, for every algorithm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import dpconvex as dc
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Release
from dpconvex.noise.inversion import invert
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.theorems import gaussian, private_selection
from dpconvex.theorems.bounded_support import BEYOND, SHARE, bounded_variates, need_support

PROBLEM = dc.Problem(dc.losses.Logistic())


def test_the_mass_beyond_is_that_of_the_sampler():
    longest = np.empty(2)
    invert(np.array([0, 1], dtype=np.uint64), longest)
    assert 2.0 * ndtr(-longest.max()) == pytest.approx(BEYOND, rel=1e-12)


def attained(epsilon, mu):
    """Largest delta at epsilon of the sampler's cells, moved by mu: events beyond the k largest variates."""
    words = np.array([2 * k for k in (0, 1, 3, 10, 100, 10**4, 10**6, 10**9)], dtype=np.uint64)
    z = np.empty(words.size)
    invert(words, z)
    cells = (words >> np.uint64(1)).astype(float)
    return max(float(ndtr(mu - abs(at))) - math.exp(epsilon) * k * 2.0**-64 for k, at in zip(cells, z, strict=True))


@pytest.mark.parametrize(("epsilon", "delta"), [(28.0, 1e-6), (50.0, 1e-6), (8.0, 1e-15), (1.0, 1e-30)])
def test_budgets_that_were_exceeded_are_refused_and_grids_keep_them(epsilon, delta):
    budget = dc.Budget(epsilon, delta)
    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="replace_one")
    with pytest.raises(HypothesisError, match="float64 noise cannot keep"):
        need_support(gaussian(moved, Release("z", "gaussian", 5.0, (2,))), budget)
    for algorithm in (dc.algorithms.MeanDirection(), dc.algorithms.PhasedSGD(), dc.algorithms.NoisySGD(shuffle=True)):
        kept = algorithm.plan(PROBLEM, n=100, d=2, budget=budget)
        assert bounded_variates(kept.claim) == 0.0
    if epsilon >= 28.0:  # what one float64 variate at this noise would have attained
        assert attained(epsilon, budget.mu) > delta


def test_the_line_is_where_it_is_said_to_be():
    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="replace_one")
    claim = gaussian(moved, Release("z", "gaussian", 5.0, (5,), 2))
    assert bounded_variates(claim) == 10.0
    edge = (1.0 + math.e) * 10.0 * BEYOND / SHARE
    need_support(claim, dc.Budget(1.0, 1.01 * edge))
    with pytest.raises(HypothesisError, match="standard deviations"):
        need_support(claim, dc.Budget(1.0, 0.99 * edge))


def test_secret_repetitions_count():
    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")
    one = gaussian(moved, Release("z", "gaussian", 5.0, (3,)))
    assert bounded_variates(private_selection(one, Release("runs", "geometric", 0.1, (1,)))) == pytest.approx(30.0)
