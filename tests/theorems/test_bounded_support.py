"""Budgets that the bounded support of lent noise cannot keep: refused once, for every algorithm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import dpconvex as dc
from dpconvex.errors import HypothesisError
from dpconvex.noise.inversion import invert
from dpconvex.theorems.bounded_support import BEYOND, SHARE, bounded_variates

PROBLEM = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0))


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
    with pytest.raises(HypothesisError, match="float64 noise cannot keep"):
        dc.algorithms.PhasedSGD().plan(PROBLEM, n=100, d=2, budget=budget)
    kept = dc.algorithms.MeanDirection().plan(dc.Problem(dc.losses.Logistic()), n=100, d=2, budget=budget)
    assert bounded_variates(kept.claim) == 0.0
    if epsilon >= 28.0:  # what one float64 variate at this noise would have attained
        assert attained(epsilon, 2.0 / kept.releases[0].scale) > delta


def test_the_line_is_where_it_is_said_to_be():
    plan = dc.algorithms.PhasedSGD().plan(PROBLEM, n=1000, d=5, budget=dc.Budget(1.0, 1e-6))
    count = bounded_variates(plan.claim)
    assert count == sum(math.prod(r.shape) * r.times for r in plan.releases)
    edge = (1.0 + math.e) * count * BEYOND / SHARE
    for delta, kept in ((1.01 * edge, True), (0.99 * edge, False)):
        plan_it = lambda delta=delta: dc.algorithms.PhasedSGD().plan(  # noqa: E731
            PROBLEM, n=1000, d=5, budget=dc.Budget(1.0, delta)
        )
        if kept:
            assert bounded_variates(plan_it().claim) == count
        else:
            with pytest.raises(HypothesisError, match="standard deviations"):
                plan_it()


def test_secret_repetitions_count():
    from dpconvex.kernel.claims import Release
    from dpconvex.problem.facts import Kind, state_fact
    from dpconvex.theorems import gaussian, private_selection

    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")
    one = gaussian(moved, Release("z", "gaussian", 5.0, (3,)))
    assert bounded_variates(private_selection(one, Release("runs", "geometric", 0.1, (1,)))) == pytest.approx(30.0)
