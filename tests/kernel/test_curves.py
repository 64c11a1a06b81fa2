"""Composition of several curves: exact where the answer is known, above it always, and fast."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import time

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpconvex.kernel.curves import Loss, composed, discretised, gaussian_curve, symmetric
from dpconvex.kernel.profiles import GDP, ApproxDP, Composite, Grouped, Largest
from dpconvex.theorems.numerics.perturbed_objective import PerturbedObjective


def gaussian(mu):
    """A Gaussian known as a curve only."""
    return Largest((GDP(mu),))


def response(eps, dlt=0.0):
    """Randomised response known as a curve only."""
    return Largest((ApproxDP(eps, dlt),))


def logistic(eps, sigma, relation="zero_out", mu_out=0.0):
    return PerturbedObjective(relation, "sharp", 1.0, 1.0, True, (0.0, 1.0, -1.0), 1.0, 1.0 / eps, sigma, mu_out)


def responses(counts, eps):
    """Exact delta of independent randomised responses: {epsilon of one: how many}."""
    losses, mass = np.zeros(1), np.ones(1)
    for one, times in counts.items():
        k = np.arange(times + 1)
        losses = (losses[:, None] + one * (2 * k - times)).ravel()
        mass = (mass[:, None] * binom.pmf(k, times, 1 / (1 + math.exp(-one)))).ravel()
    return float(mass @ np.maximum(-np.expm1(eps - losses), 0.0))


def test_gaussians_alone_add_in_squares():
    whole = Composite((GDP(0.3), GDP(0.4), GDP(1.2)))
    for delta in (1e-3, 1e-6, 1e-10):
        assert whole.epsilon(delta) == pytest.approx(GDP(1.3).epsilon(delta), rel=1e-4)


@pytest.mark.parametrize("times", [2, 10, 35])
@pytest.mark.parametrize("mu", [0.003, 0.1, 0.7, 2.0])
def test_copies_of_a_gaussian_curve(times, mu):
    whole, exact = Composite((gaussian(mu),) * times), GDP(math.sqrt(times) * mu)
    for delta in (1e-3, 1e-6, 1e-12):
        assert 1 - 1e-9 <= whole.epsilon(delta) / exact.epsilon(delta) <= 1.001
    mixed = Composite((gaussian(mu),) * (times - 1) + (GDP(0.6 * mu), GDP(0.8 * mu), gaussian(1e-3 * mu)))
    assert 1 <= mixed.epsilon(1e-6) / exact.epsilon(1e-6) <= 1.002


def test_gaussians_of_very_different_size():
    mus = [1.5, *[0.02] * 1000]
    whole, exact = Composite(tuple(gaussian(m) for m in mus)), GDP(math.hypot(*mus))
    assert 1 <= whole.epsilon(1e-6) / exact.epsilon(1e-6) <= 1.002


@pytest.mark.parametrize("counts", [{0.5: 2}, {0.5: 20}, {0.25: 30}, {0.3: 17}, {0.1: 8, 0.7: 5}, {2.0: 3}])
def test_randomised_response(counts):
    most = sum(e * k for e, k in counts.items())
    curves = Composite(tuple(response(e) for e, k in counts.items() for _ in range(k)))
    points = Composite(tuple(ApproxDP(e, 0.0) for e, k in counts.items() for _ in range(k)))
    for share in (0.1, 0.3, 0.6, 0.9):
        exact = responses(counts, share * most)
        assert exact * (1 - 1e-9) <= curves.delta(share * most) <= exact * 1.02 + 1e-15
        assert exact <= points.delta(share * most)


def test_the_delta_of_points_known_as_curves():
    whole = Composite((response(0.5, 1e-4),) * 3)
    want = 1 - (1 - 1e-4) ** 3
    assert whole.delta(2.0) == pytest.approx(want, rel=1e-6)
    assert whole.delta(1.0) == pytest.approx(want + (1 - want) * responses({0.5: 3}, 1.0), rel=1e-3)
    assert whole.delta(1.0) >= want + (1 - want) * responses({0.5: 3}, 1.0)
    shifted = Composite((gaussian(0.3), gaussian(0.4), ApproxDP(0.5, 1e-6)))
    assert shifted.delta(1.5) == pytest.approx(GDP(0.5).delta(1.0) + 1e-6, rel=0.01)
    assert shifted.delta(1.5) >= GDP(0.5).delta(1.0) + 1e-6


def test_never_below_two_parts_integrated():
    first, second = 0.8, 0.35
    x = np.linspace(-12, 12, 40001)
    for eps in (0.0, 0.1, 0.5, 1.0, 3.0, 5.0):
        inner = gaussian_curve(eps - first * x - first**2 / 2, second)
        exact = float(np.sum(inner * norm.pdf(x)) * (x[1] - x[0]))
        assert Composite((gaussian(first), gaussian(second))).delta(eps) >= exact * (1 - 1e-8)
    # Two points against a Gaussian: losses +-a.
    a, mu = 0.37, 0.45
    p = 1 / (1 + math.exp(-a))
    whole = Composite((response(a), gaussian(mu)))
    for eps in (0.0, 0.1, 0.37, 1.0, 2.0):
        both = gaussian_curve(np.array([eps - a, eps + a]), mu)
        exact = p * both[0] + (1 - p) * both[1]
        assert exact * (1 - 1e-8) <= whole.delta(eps) <= exact * 1.01


@pytest.mark.parametrize(
    ("curve", "convex"),
    [
        (symmetric(lambda e: gaussian_curve(e, 0.3)), True),
        (symmetric(lambda e: gaussian_curve(e, 30.0)), True),
        (symmetric(lambda e: gaussian_curve(e, 1e-4)), True),
        (Largest((GDP(0.3), ApproxDP(0.4, 1e-3))).curve(), True),
        (Grouped(ApproxDP(0.4, 1e-3), 2).curve(), False),
        (symmetric(lambda e: np.zeros_like(e)), True),
        (symmetric(lambda e: np.ones_like(e)), True),
    ],
)
def test_a_discretised_curve_lies_above_the_curve(curve, convex):
    loss = discretised(curve)
    assert (loss.mass >= 0).all()
    assert loss.mass.sum() + loss.lost == pytest.approx(1.0, abs=1e-9)
    losses = np.ldexp(1.0, loss.level) * (loss.bottom + np.arange(len(loss.mass)))
    eps = np.unique(np.concatenate((np.linspace(losses[0] - 1, losses[-1] + 1, 999), losses)))
    if convex:
        assert (loss.curve(eps) >= curve(eps) * (1 - 1e-9) - 1e-24).all()
    ahead = eps[(eps >= 0) & (eps <= losses[-1])]
    assert (loss.curve(ahead) <= np.minimum.accumulate(curve(ahead)) * 1.01 + 5e-3).all()


def test_losses_only_move_up():
    rng = np.random.default_rng(0)
    eps = np.linspace(-3, 6, 200)
    for _ in range(20):
        a, b = (Loss(level, int(rng.integers(-9, 3)), rng.dirichlet(np.ones(9)) * 0.99, 0.01) for level in (-2, -4))
        at, bt = (2.0**c.level * (c.bottom + np.arange(9)) for c in (a, b))
        gain = np.maximum(-np.expm1(eps[:, None, None] - at[:, None] - bt), 0.0)
        exact = 1 - 0.99**2 + np.einsum("eij,i,j->e", gain, a.mass, b.mass)
        got = composed([(a, 1), (b, 1)]).curve(eps)
        assert (got >= exact).all()
        assert got == pytest.approx(exact, rel=0.1, abs=0.01)
        alike = composed([(a, 5)]).curve(eps)
        assert alike == pytest.approx(composed([(a, 2), (a, 1), (a, 2)]).curve(eps), rel=1e-9)


def test_more_parts_cost_more_and_their_order_does_not_matter():
    parts = [logistic(1.0, 5.0, mu_out=0.02), gaussian(0.1), response(0.3), GDP(0.2), ApproxDP(0.1, 1e-7)]
    parts += [logistic(0.5, 8.0), Grouped(GDP(0.05), 2)]
    totals = [Composite(tuple(parts[:k])).epsilon(1e-6) for k in range(1, len(parts) + 1)]
    assert totals == sorted(totals)
    shuffled = parts.copy()
    random.Random(3).shuffle(shuffled)
    assert Composite(tuple(shuffled)).epsilon(1e-6) == pytest.approx(totals[-1], rel=1e-12)
    nested = Composite((Composite(tuple(parts[:3])), Composite(tuple(parts[3:]))))
    assert nested.epsilon(1e-6) == pytest.approx(totals[-1], rel=1e-12)


def test_many_runs_of_objective_perturbation():
    start = time.process_time()
    sigma = 1.001 / 0.23670438  # (1, 1e-6)
    whole = Composite((logistic(1.0, sigma),) * 35)
    exact = GDP(math.sqrt(35) / sigma).epsilon(1e-6)
    assert exact <= whole.epsilon(1e-6) <= 1.1 * exact  # the bound of one run is up to 1.3 times the Gaussian's
    heavy = Composite((dataclasses.replace(whole.parts[0], l2=4.0),) * 35)
    assert exact <= heavy.epsilon(1e-6) <= 1.005 * exact  # here it is not
    sizes = (0.2, 0.5, 1.0, 3.0)
    mixed = Composite(tuple(logistic(e, 9.0 / e, "replace_one", 0.01 * e) for e in sizes) * 9)
    exact = GDP(math.sqrt(9 * sum((2 * e / 9) ** 2 + (0.01 * e) ** 2 for e in sizes))).epsilon(1e-6)
    assert exact <= mixed.epsilon(1e-6) <= 1.15 * exact
    assert time.process_time() - start < 20


def test_the_plain_form():
    whole = Composite((logistic(1.0, 5.0), logistic(1.0, 5.0), GDP(0.2), ApproxDP(0.1, 1e-7)))
    plain = json.loads(json.dumps(whole.to_json()))
    assert plain["kind"] == "Composite"
    assert [p["kind"] for p in plain["parts"]] == ["PerturbedObjective", "PerturbedObjective", "GDP", "ApproxDP"]
    first = {k: tuple(v) if isinstance(v, list) else v for k, v in plain["parts"][0].items() if k != "kind"}
    again = Composite((PerturbedObjective(**first),) * 2 + whole.parts[2:])
    assert again == whole
    assert again.epsilon(1e-6) == whole.epsilon(1e-6)
