"""Laplace noise: its claim against exact probabilities on a grid, refusals, and what asks for delta = 0."""

import math

import numpy as np
import pytest

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Bounded, Release, concludes_fact
from dpconvex.kernel.profiles import GDP, ApproxDP, Concentrated
from dpconvex.plan.people import protect_people
from dpconvex.problem.facts import Kind
from dpconvex.theorems import clipped_sum, computed_sum
from dpconvex.theorems.bounded_support import need_support

PURE = dc.Budget(1.0, 0.0)
BALL = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(2.0))
SPARSE = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(2.0), dc.bounds.Linf(1.0))
PLANS = {
    "MeanDirection": (dc.algorithms.MeanDirection(), BALL),
    "PhasedERM": (dc.algorithms.PhasedERM(), BALL),
    "kinked": (dc.algorithms.PhasedERM(), dc.Problem(dc.losses.Hinge(), dc.domains.L2Ball(2.0))),
    "FrankWolfe": (dc.algorithms.FrankWolfe(), SPARSE),
}


@concludes_fact
def assumed_move(value: float) -> Bounded:
    return Bounded(Kind.SENSITIVITY, value, "assumed by a test", "replace_one")


def upper(x):
    """Probability of a Laplace variate above x."""
    return 0.5 * math.exp(-x) if x >= 0.0 else 1.0 - 0.5 * math.exp(x)


def test_the_claim_bounds_the_ratio_of_every_multiple_and_is_attained():
    scale, grid, moved = 1.3, 1.0, 0.7
    claim = theorems.laplace(assumed_move(moved), Release("x", "laplace", scale, ()))
    for offset in (0.0, 0.2, 0.5):
        ratios = []
        for k in range(-12, 13):
            p, q = (
                upper((k - 0.5) * grid / scale - v / scale) - upper((k + 0.5) * grid / scale - v / scale)
                for v in (offset, offset + moved)
            )
            ratios.append(abs(math.log(p / q)))
        assert max(ratios) <= claim.epsilon(0.0) * (1 + 1e-6)
        assert max(ratios) == pytest.approx(moved / scale, rel=1e-6)


def test_numbers_draws_and_combinations():
    claim = theorems.laplace(assumed_move(2.0), Release("x", "laplace", 6.0, (3, 3), times=2))
    assert claim.profile == ApproxDP(claim.profile.eps, 0.0)
    assert claim.epsilon(0.0) == pytest.approx(2 * 3 * 2.0 / 6.0, rel=1e-11)
    other = theorems.laplace(assumed_move(1.0), Release("y", "laplace", 2.0, (4,)))
    assert theorems.compose([claim, other]).epsilon(0.0) == pytest.approx(3.0, rel=1e-10)
    assert theorems.parallel([claim, other], [range(3), range(3, 5)]).epsilon(0.0) == pytest.approx(2.0, rel=1e-10)
    assert theorems.group(claim, 3).epsilon(0.0) == pytest.approx(6.0, rel=1e-10)
    with_delta = theorems.gaussian(assumed_move(1.0), Release("z", "gaussian", 2.0, (4,)))
    assert theorems.compose([claim, with_delta]).epsilon(0.0) == math.inf
    assert math.isfinite(theorems.compose([claim, with_delta]).epsilon(1e-6))


def test_refusals():
    release = Release("x", "laplace", 6.0, (3,), grid=2.0**-20)
    with pytest.raises(HypothesisError, match="must be a Fact"):
        theorems.laplace(2.0, release)
    with pytest.raises(HypothesisError, match="law 'laplace'"):
        theorems.laplace(assumed_move(1.0), Release("x", "gaussian", 6.0, (3,)))
    with pytest.raises(HypothesisError, match="computed_sum"):
        theorems.laplace(clipped_sum(1.0, "zero_out"), release)
    with pytest.raises(HypothesisError, match="no noise"):
        theorems.laplace(assumed_move(1.0), Release("x", "laplace", 0.0, (3,)))
    with pytest.raises(HypothesisError, match="next to no noise"):
        theorems.laplace(assumed_move(1.0), Release("x", "laplace", 1e-9, (3,)))
    assert theorems.laplace(computed_sum(clipped_sum(1.0, "zero_out"), 10, 3), release).relation == "zero_out"


def test_a_budget_without_delta_has_no_mu_and_curves_no_epsilon():
    with pytest.raises(HypothesisError, match="pure privacy"):
        _ = PURE.mu
    for profile in (GDP(1.0), Concentrated(0.1)):
        assert profile.epsilon(0.0) == math.inf
    assert GDP(0.0).epsilon(0.0) == 0.0
    for bad in (-1e-9, 1e-301, 1.0, math.nan):
        with pytest.raises(InputError, match="delta must be 0"):
            dc.Budget(1.0, bad)


@pytest.mark.parametrize("name", PLANS)
def test_pure_plans_keep_their_budget_and_use_it_up(name):
    algorithm, problem = PLANS[name]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    for relation in ("replace_one", "zero_out"):
        plan = algorithm.plan(problem, n=60, d=3, budget=dc.Budget(2.0, 0.0, relation))
        assert 2.0 * (1 - 1e-9) <= plan.claim.epsilon(0.0) <= 2.0
        assert plan.claim.delta(2.0) == 0.0
        assert "(2, 0)-DP" in str(plan)
        solution = plan.run(X, y, dataset=f"pure {name} {relation}")
        assert np.isfinite(solution.weights).all()
        assert dc.verify(solution.receipt)
        assert solution.receipt.delta == 0.0


def test_a_person_of_several_records_and_an_account():
    plan = protect_people(
        lambda b: dc.algorithms.MeanDirection().plan(BALL, n=60, d=3, budget=b), dc.Budget(3.0, 0.0), 3
    )
    assert plan.claim.unit == 3
    assert 3.0 * (1 - 2e-9) <= plan.claim.epsilon(0.0) <= 3.0
    dc.limit("pure people", dc.Budget(1.5, 0.0))
    X, y = np.ones((60, 3)), np.ones(60)
    first = dc.algorithms.MeanDirection().plan(BALL, n=60, d=3, budget=PURE)
    first.run(X, y, dataset="pure people")
    with pytest.raises(dc.errors.BudgetError, match="beyond its limit"):
        first.run(X, y, dataset="pure people")
    with pytest.raises(dc.errors.BudgetError, match="beyond its limit"):
        dc.algorithms.MeanDirection().plan(BALL, n=60, d=3, budget=dc.Budget(0.1, 1e-6)).run(
            X, y, dataset="pure people"
        )
    dc.limit("pure people", None)


@pytest.mark.filterwarnings("ignore")
def test_all_others_refuse():
    for name in dc.algorithms.names():
        kind = dc.algorithms.get(name)
        if not kind().needs.pure:
            assert "pure" in kind().needs.complaint(SPARSE, None, pure=True)
    others = (
        lambda: dc.choose(BALL, n=60, d=3, budget=PURE),
        lambda: dc.algorithms.PrivateFTRL().plan_stream(BALL, d=3, budget=PURE),
        lambda: dc.algorithms.PhasedERM(constants="paper").plan(BALL, n=60, d=3, budget=PURE),
    )
    for call in others:
        with pytest.raises(HypothesisError, match="delta"):
            call()


@pytest.mark.parametrize("budget", [PURE, dc.Budget(1.0, 1e-6)])
def test_noise_without_a_grid_is_refused(budget):
    claim = theorems.laplace(assumed_move(1.0), Release("x", "laplace", 1.0, ()))
    with pytest.raises(HypothesisError, match="has to lie on a grid"):
        need_support(claim, budget)
    gaussian = theorems.gaussian(assumed_move(1.0), Release("x", "gaussian", 1.0, ()))
    with pytest.raises(HypothesisError, match="float64 noise cannot keep"):
        need_support(gaussian, PURE)
