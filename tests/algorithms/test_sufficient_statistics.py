"""SufficientStatistics: one joint claim for three releases, and the noise that follows from it."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.sufficient_statistics import flattened
from dpconvex.data.arrays import open_people, open_rows
from dpconvex.errors import InputError, VerificationError
from dpconvex.kernel.receipt import sealed
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Labels


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
        data["claim"]["derivation"]["from"]["claim"]["from"][name]["scale"] *= 0.99
        with pytest.raises(VerificationError, match="its plan makes another one"):
            dc.verify(sealed(data))


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


# People -----------------------------------------------------------------------------------------------------------


def person_moments(plan, X, y, owner, weights=None):
    """What is released, without noise, in units of the noise: the eigenvalue, the matrix and the vector."""
    rows, targets = open_rows(X, y, plan.problem, len(y), X.shape[1])
    rows = rows._replace(people=open_people(owner, len(y))[0])
    if weights is not None:
        rows = rows._replace(weights=weights)
    sums = open_sums(rows, targets).averaged()
    second, scale = sums.hessian(plan.problem.loss, np.zeros(sums.size)), {r.name: r.scale for r in plan.releases}
    parts = [np.linalg.eigvalsh(second)[:1] / scale["eigenvalue"], flattened(second) / scale["second"]]
    return np.concatenate([*parts, sums.sweep(Labels()) / scale["cross"]])


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("d", [1, 3])
def test_no_change_of_one_person_moves_the_moments_by_more_than_stated(relation, d, rng):
    problem = dc.Problem(dc.losses.Squared(target=1.0), feature_bound=2.0)
    plan = dc.algorithms.SufficientStatistics(per_person=True).plan(
        problem, n=20, d=d, budget=dc.Budget(4.0, 1e-6, relation)
    )
    X, y, owner = 2 * rng.normal(size=(9, d)), rng.uniform(-1, 1, 9), 1 + np.arange(9) % 3
    seen = []
    for rows in (0, 1, 2, 7, 30):
        for _ in range(20):
            x, t = 9 * rng.normal(size=(rows, d)), np.sign(rng.normal(size=rows))
            if rows % 2:  # all alike, as long as may be: the worst that a person can do
                x, t = np.tile(x[:1], (rows, 1)), np.tile(t[:1], rows)
            weights = np.concatenate([np.ones(9), rng.uniform(0.5, 1, rows)])
            seen.append(
                person_moments(plan, np.vstack([X, x]), np.r_[y, t], np.r_[owner, np.zeros(rows, int)], weights)
            )
    nobody = seen[0]
    others = [nobody] if relation == "zero_out" else seen
    worst = max(np.linalg.norm(a - b) for a in seen for b in others)
    assert 0.5 * plan.budget.mu < worst <= plan.budget.mu


def test_people_of_one_row_are_rows_and_a_row_said_ten_times_is_one(rng):
    problem, budget = dc.Problem(dc.losses.Squared()), dc.Budget(2.0, 1e-6)
    X, y = rng.uniform(-0.5, 0.5, size=(40, 2)), rng.uniform(-1, 1, 40)
    rows = dc.algorithms.SufficientStatistics().plan(problem, n=40, d=2, budget=budget)
    people = dc.algorithms.SufficientStatistics(per_person=True).plan(problem, n=40, d=2, budget=budget)
    assert np.allclose(
        rows.run(X, y, seed=1).weights, people.run(X, y, groups=np.arange(40), seed=1).weights, rtol=1e-9
    )
    assert people.claim.unit == "person"
    assert "mean of a person's rows" in str(people)
    owner = np.arange(40)
    once = person_moments(people, X, y, owner)
    tenfold = person_moments(people, np.repeat(X, 10, axis=0), np.repeat(y, 10), np.repeat(owner, 10))
    assert np.allclose(once, tenfold, rtol=1e-12)
    sparse_run = people.run(sparse.csr_array(X), y, groups=owner % 7, seed=3).weights
    assert np.allclose(sparse_run, people.run(X, y, groups=owner % 7, seed=3).weights, rtol=1e-9)
    with pytest.raises(InputError, match="say whose each row is"):
        people.run(X, y)
    with pytest.raises(InputError, match="per_person=True"):
        rows.run(X, y, groups=owner)


def test_a_ridge_regression_of_people_names_the_person_on_its_receipt(rng):
    X, y = rng.uniform(-0.5, 0.5, size=(300, 2)), rng.uniform(-1, 1, 300)
    model = dc.PrivateRidge(feature_bound=1.0, target_range=(-1, 1), algorithm="SufficientStatistics")
    model.fit(X, y, groups=np.arange(300) // 3)
    assert model.receipt_.data["dataset"]["unit"] == "person"
    assert dc.verify(model.receipt_)
