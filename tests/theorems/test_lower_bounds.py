"""Lower bounds against exact risks of mechanisms, their rates, and refusals."""

import math

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import HypothesisError
from dpconvex.theorems.lower_bounds import least_excess

BALL = dc.Problem(dc.losses.Linear(1.0), domain=dc.domains.L2Ball(1.0))


def floor(problem=BALL, n=1000, d=100, epsilon=0.1, delta=1e-9, relation="replace_one"):
    return least_excess(problem, n=n, d=d, budget=dc.Budget(epsilon, delta, relation))


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_closed_forms(delta):
    for n, d, epsilon in ((10_000, 100, 0.1), (3000, 1000, 0.5), (50_000, 10, 0.05)):
        found = floor(n=n, d=d, epsilon=epsilon, delta=delta)
        assert found.private == pytest.approx(math.sqrt(d) / (4 * n * math.sinh(epsilon)), rel=0.2)
        assert found.statistical == pytest.approx(1 / (4 * math.sqrt(n)), rel=0.01)
        assert found.value == max(found.private, found.statistical)
        assert f"{found.value:.3g}" in str(found)


def test_the_excess_of_linear_losses_is_above_the_bound():
    """The best known: where the noisy mean of the gradients shows to, on the worst of some laws."""
    rng = np.random.default_rng(0)
    n, d, budget = 300, 64, dc.Budget(0.5, 1e-6)
    bound = least_excess(BALL, n=n, d=d, budget=budget)
    worst = 0.0
    for k in (1.0, 10.0, 100.0, 1000.0):
        p = rng.choice([-1.0, 1.0], (400, d)) * np.sqrt(rng.beta(0.5, k / 2, (400, d)))
        mean = (2.0 * rng.binomial(n, (1 + p) / 2) / n - 1.0) / math.sqrt(d)
        noisy = mean + 2.0 / (n * budget.mu) * rng.normal(size=mean.shape)
        w = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
        worst = max(worst, (np.linalg.norm(p, axis=1) - (w * p).sum(axis=1)).mean() / math.sqrt(d))
    assert bound.value < worst < 30 * bound.value


def test_the_risk_of_a_noisy_mean_is_above_the_bound_with_l2():
    for n, d, epsilon in ((1000, 50, 0.2), (200, 500, 1.0), (100_000, 20, 0.01)):
        budget = dc.Budget(epsilon, 1e-8)
        problem = dc.Problem(dc.losses.Linear(1.0), l2=float(n))  # lambda = 1, minimisers within the unit ball
        bound = least_excess(problem, n=n, d=d, budget=budget)
        sampled = 0.5 / n  # of the mean of coins with p = 0
        noise = 0.5 * d * (2.0 / (n * budget.mu)) ** 2
        assert bound.value <= min(sampled + noise, 0.5)
        assert bound.statistical == pytest.approx(0.5 / (1 + math.sqrt(n)) ** 2, rel=1e-9)
        if noise < 0.1:
            assert bound.private == pytest.approx(0.5 * d / (n * math.sinh(epsilon)) ** 2, rel=0.35)


def test_fewer_records_and_less_budget_cannot_help():
    assert floor(n=500).value > floor(n=1000).value > floor(n=2000).value
    assert floor(epsilon=0.05).private > floor(epsilon=0.1).private > floor(epsilon=0.2).private
    assert floor(delta=1e-3).private < floor(delta=0.0).private
    assert floor(relation="zero_out").private < floor().private
    assert floor(epsilon=50.0).private == 0.0
    assert floor(n=10**9).private < floor(n=10**9).statistical
    assert floor(n=2, d=1).value < 1.0  # the whole range of a linear loss


def test_domains():
    box, ball = dc.Problem(dc.losses.Linear(1.0), domain=dc.domains.Box(-0.1, 0.1)), BALL
    assert 0.5 < floor(box, d=100).value / floor(ball, d=100).value < 1.0  # a box in that ball
    l1 = dc.Problem(dc.losses.Linear(1.0), domain=dc.domains.L1Ball(1.0))
    assert floor(l1, d=1).private == pytest.approx(floor(l1, d=4096).private, rel=1e-9)
    assert floor(l1, d=4096).value < floor(ball, d=4096).value
    wide = dc.Problem(dc.losses.Linear(1.0), domain=dc.domains.LpBall(4.0, 1.0))
    assert floor(wide).private > floor(ball).private


def test_plans_say_it_and_others_are_refused():
    plan = dc.algorithms.PhasedSGD().plan(
        dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0)), n=1000, d=5, budget=dc.Budget(1.0, 1e-6)
    )
    assert plan.least_excess() == least_excess(plan.problem, n=1000, d=5, budget=plan.budget)
    for problem in (
        dc.Problem(dc.losses.Linear(1.0)),
        dc.Problem(dc.losses.Softmax(3), dc.domains.L2Ball(1.0)),
        dc.Problem(dc.losses.Linear(1.0), dc.domains.Box(-1.0, 2.0)),
        dc.Problem(dc.losses.Logistic(), dc.domains.Simplex(1.0)),
    ):
        with pytest.raises(HypothesisError):
            floor(problem)
