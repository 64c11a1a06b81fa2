"""Bounds on what an observer learns, against cases that can be worked out exactly."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.kernel.profiles import GDP, ApproxDP, Composite, Grouped
from dpconvex.report.observer import Observer, belief

MUS = [1e-3, 0.05, 0.2367, 1.0, 2.0, 5.0]


@pytest.mark.parametrize("mu", MUS)
def test_a_gaussian_pair(mu):
    """L is N(mu^2/2, mu^2) under P and N(-mu^2/2, mu^2) under Q: every bound has an exact counterpart below it."""
    observer = Observer(GDP(mu), 1e-6)
    assert ndtr(mu / 2) <= observer.coin <= ndtr(mu / 2) * (1 + 1e-8)
    for alpha in (0.001, 0.05, 0.3, 0.9):
        exact = ndtr(ndtri(alpha) + mu)
        assert exact <= observer.detection(alpha) <= min(exact * 1.003 + 1e-4, 1.0)

    def beyond(s):
        return ndtr(mu / 2 - s / mu) + ndtr(-mu / 2 - s / mu)

    exact = brentq(lambda s: beyond(s) - 2e-6, 0.0, 100.0)
    assert exact <= observer.shift(2e-6) <= 1.06 * exact
    assert beyond(2 * exact) <= observer.excess(2 * exact)


def randomised(eps, dlt):
    """The worst pair for one point: with chance dlt the answer is shown, otherwise randomised response at eps."""
    say = 1.0 / (1.0 + math.exp(-eps))
    p = np.array([dlt, 0.0, (1 - dlt) * say, (1 - dlt) * (1 - say)])
    return p, p[[1, 0, 3, 2]]


@pytest.mark.parametrize(("eps", "dlt"), [(1.0, 1e-6), (0.1, 1e-3), (4.0, 0.01), (20.0, 1e-9)])
def test_randomised_response(eps, dlt):
    p, q = randomised(eps, dlt)
    observer = Observer(ApproxDP(eps, dlt), dlt)
    assert observer.coin == pytest.approx(0.5 * (1 + 0.5 * np.abs(p - q).sum()), rel=1e-6)
    for alpha in (0.001, 0.05, 0.5):
        ratio = np.divide(p, q, out=np.full(4, np.inf), where=q > 0)
        best, left = 0.0, alpha  # Neyman and Pearson: the largest ratios first
        for i in np.argsort(-ratio):
            share = 1.0 if q[i] <= left else left / q[i]
            best, left = best + share * p[i], left - share * q[i]
        assert best <= observer.detection(alpha) * (1 + 1e-9)
        assert observer.detection(alpha) <= best * 1.02 + 1e-6
    assert eps < observer.shift(2 * dlt) <= eps + math.log(2 + math.exp(-eps)) + 1e-6
    assert dlt <= observer.excess(3 * eps) <= 1.0  # the answer is shown now and then, whatever the shift


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_curve_of_objective_perturbation(relation):
    """One Gaussian release of the gradient lies below its curve; the bounds must lie between it and the point."""
    budget = dc.Budget(1.0, 1e-6, relation)
    claim = dc.choose(dc.Problem(dc.losses.Logistic()), n=2000, d=3, budget=budget).claim
    observer = Observer(claim.profile, 1e-6)
    point = Observer(ApproxDP(claim.epsilon(1e-6), 1e-6), 1e-6)
    assert 0.5 < observer.coin < point.coin
    assert 0.05 < observer.detection(0.05) < point.detection(0.05)
    assert claim.epsilon(1e-6) < observer.shift(2e-6) < point.shift(2e-6)


@pytest.mark.parametrize("profile", [Composite((GDP(0.3), ApproxDP(0.5, 1e-6))), Grouped(GDP(0.1), 3)])
def test_other_curves(profile):
    observer = Observer(profile, 1e-5)
    assert 0.5 < observer.coin < 1.0
    assert 0.05 < observer.detection(0.05) < 1.0
    assert profile.epsilon(1e-5) < observer.shift(2e-5) < 3 * profile.epsilon(1e-5)


def test_beliefs_of_many_simulated_observers(rng):
    """Odds of observers who know the Gaussian mechanism, whatever the truth and the prior are."""
    mu, draws = 1.5, 2_000_000
    chance = 2e-3
    shift = Observer(GDP(mu), 1e-3).shift(chance)
    for truth in (0.0, mu):
        x = truth + rng.standard_normal(draws)
        posterior = 1.0 / (1.0 + 9.0 * np.exp(-(mu * x - mu**2 / 2)))  # prior 10%
        low, high = belief(0.1, shift)
        outside = np.mean((posterior < low) | (posterior > high))
        assert 0.0 < outside <= chance


def test_nothing_is_learned_where_there_is_nothing_to_learn():
    observer = Observer(GDP(0.0), 1e-6)
    assert observer.coin == 0.5
    assert observer.detection(0.05) == pytest.approx(0.05)
    assert observer.shift(2e-6) < 1e-2


def test_hopeless_budgets_give_empty_bounds_and_no_overflow():
    observer = Observer(ApproxDP(1000.0, 1e-6), 1e-6)
    assert (observer.coin, observer.detection(0.05)) == (1.0, 1.0)
    assert belief(0.5, observer.shift(2e-6))[1] == 1.0


def test_bad_questions():
    observer = Observer(GDP(1.0), 1e-6)
    for ask, value in ((observer.detection, 1.5), (observer.shift, 1e-6), (observer.excess, 0.1)):
        with pytest.raises(InputError):
            ask(value)


@pytest.mark.parametrize(("prior", "shift"), [(0.01, 0.0), (0.5, 1.0), (0.999, 3.0), (1e-9, 800.0)])
def test_beliefs_move_by_the_shift(prior, shift):
    low, high = belief(prior, shift)
    assert low <= prior * (1 + 1e-12)
    assert high >= prior * (1 - 1e-12)
    if shift < 100:
        odds = prior / (1 - prior)
        assert high / (1 - high) == pytest.approx(odds * math.exp(shift))
        assert low / (1 - low) == pytest.approx(odds * math.exp(-shift))
