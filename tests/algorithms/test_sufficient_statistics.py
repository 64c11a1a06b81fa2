"""SufficientStatistics: one joint claim for three releases, and the noise that follows from it."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import InputError, VerificationError
from dpconvex.privacy.receipt import Receipt, digest


def plan_for(row=1.0, target=1.0, n=100, d=3, epsilon=1.0, relation="replace_one", **options):
    problem = dc.Problem(dc.losses.Squared(target), feature_bound=row, **options)
    budget = dc.Budget(epsilon, 1e-6, relation)
    return dc.algorithms.SufficientStatistics().plan(problem, n=n, d=d, budget=budget)


def scales(plan):
    return {r.name: r.scale for r in plan.releases}


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_whole_budget_is_spent_and_no_more(relation):
    rng = np.random.default_rng(0)
    for trial in range(200):
        row, target = np.exp(3.0 * rng.normal(size=2))
        plan = plan_for(
            row, target, d=int(rng.integers(1, 40)), epsilon=float(np.exp(rng.normal())), relation=relation,
            intercept=float(row) * (trial % 2),
        )  # fmt: skip
        mu = plan.claim.profile.mu
        assert plan.budget.mu * (1 - 1e-9) <= mu <= plan.budget.mu


@pytest.mark.parametrize(("relation", "factor"), [("replace_one", 13 / 6), ("zero_out", 1.5)])
@pytest.mark.parametrize(("row", "target"), [(1.0, 1.0), (1e-6, 1e4), (300.0, 0.02)])
def test_the_noise_is_in_proportion_to_what_a_record_adds(row, target, relation, factor):
    plan = plan_for(row, target, relation=relation)
    scale = scales(plan)
    assert scale["second"] == pytest.approx(factor / plan.budget.mu * row**2, rel=1e-9)
    assert scale["cross"] == pytest.approx(factor / plan.budget.mu * row * target, rel=1e-9)
    assert scale["eigenvalue"] == pytest.approx(2 * scale["second"], rel=1e-9)
    assert list(scale) == ["eigenvalue", "second", "cross"]


def test_it_takes_less_noise_than_three_separate_claims():
    """A third of mu^2 for each of three worst cases would take sqrt 3 times the move of each, over mu."""
    scale, mu = scales(plan_for()), dc.Budget(1.0, 1e-6).mu
    assert scale["second"] / (math.sqrt(3) * math.sqrt(2) / mu) == pytest.approx(0.885, abs=1e-3)
    assert scale["cross"] / (math.sqrt(3) * 2 / mu) == pytest.approx(0.625, abs=1e-3)


def test_a_receipt_with_less_noise_than_proved_does_not_verify():
    plan = plan_for(n=50)
    rng = np.random.default_rng(1)
    receipt = plan.run(rng.normal(size=(50, 3)), rng.normal(size=50), dataset="moments").receipt
    assert dc.verify(receipt)
    assert "noisy_moments" in str(receipt)
    for name in ("eigenvalue", "second", "cross"):
        data = json.loads(receipt.to_json())
        data["claim"]["from"]["claim"]["from"][name]["scale"] *= 0.99
        plan_fields = ("library", "algorithm", "problem", "n", "d", "budget", "claim", "gradient_evaluations")
        data["plan"] = digest({k: data[k] for k in plan_fields})
        data["digest"] = digest({k: v for k, v in data.items() if k != "digest"})
        with pytest.raises(VerificationError, match="noisy_moments"):
            dc.verify(Receipt(data))


@pytest.mark.parametrize(("relation", "least"), [("replace_one", 0.785), ("zero_out", 0.79)])
def test_it_predicts(relation, least):
    """The moments of 5000 records in 10 dimensions at epsilon 1; without privacy R^2 is 0.797."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=10)
    w /= np.linalg.norm(w)

    def draw(n):
        X = rng.normal(size=(n, 10))
        return X, X @ w + 0.5 * rng.normal(size=n)

    (X, y), (new, truth) = draw(5000), draw(20_000)
    plan = plan_for(1.3 * math.sqrt(10), 3.0, n=5000, d=10, relation=relation)
    found = [plan.run(X, y, seed=s, dataset="moments").weights for s in range(20)]
    assert np.mean([1 - np.mean((truth - new @ v) ** 2) / truth.var() for v in found]) > least


def test_small_and_odd_data():
    for d, n in ((1, 2), (1, 30), (4, 2)):
        plan = plan_for(n=n, d=d)
        for X in (np.zeros((n, d)), np.ones((n, d)), np.full((n, d), 1e300), sparse.csr_array((n, d))):
            solution = plan.run(X, np.full(n, 1e6), dataset="moments")
            assert np.isfinite(solution.weights).all()
            assert dc.verify(solution.receipt)
    plan = plan_for(n=3, d=2)
    for X, y in (
        (np.full((3, 2), np.nan), np.ones(3)),
        (np.ones((3, 2)), [1.0, np.inf, 0.0]),
        (np.ones((3, 1)), np.ones(3)),
    ):
        with pytest.raises(InputError):
            plan.run(X, y, dataset="moments")
