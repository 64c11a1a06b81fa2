"""FramedPerturbation: what it releases, in which coordinates, and what it does to the weights."""

import dataclasses

import numpy as np
import pytest
from scipy import optimize, sparse

import dpconvex as dc
from dpconvex.algorithms.framed_perturbation import _frame, _largest_scale
from dpconvex.errors import HypothesisError, InputError
from dpconvex.testing.noiseless import run_without_noise

LOGISTIC = dc.Problem(dc.losses.Logistic())
BUDGET = dc.Budget(1.0, 1e-6, "zero_out")
FRAMED = dc.algorithms.FramedPerturbation()


def table(n=3000, d=6, seed=0):
    """Rows with a large mean, and features of very different spread, all of which count."""
    rng = np.random.default_rng(seed)
    X = 0.4 + rng.normal(size=(n, d)) * 0.3 * 0.5 ** np.arange(d)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    spread = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.where(spread.sum(axis=1) + rng.logistic(size=n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_without_noise_it_is_the_minimiser_in_the_frame_brought_back(kind):
    X, y = table()
    plan = FRAMED.plan(LOGISTIC, n=len(y), d=X.shape[1], budget=BUDGET)
    port, w = run_without_noise(plan, kind(X), y)
    assert port.values("rows")[0] == pytest.approx(X.sum(axis=0))
    assert port.values("squares")[0] == pytest.approx((X**2).sum(axis=0))
    frame, inside = _frame(plan, X.sum(axis=0), (X**2).sum(axis=0)), FRAMED.inside(plan.problem, plan.d)
    assert inside.l2 == pytest.approx(3.0 * plan.problem.l2)
    Z = frame.rows(X)
    lengths = np.linalg.norm(Z, axis=1)
    Z *= np.minimum(1.0, 3.0 / lengths)[:, None]
    weights = np.minimum(1.0, 1.0 / np.minimum(lengths, 3.0))
    assert 0.5 < weights.mean() < 1.0  # a typical row is a little longer than 1

    def objective(v):
        margins = y * (Z @ v)
        slopes = -weights * y * np.exp(-np.logaddexp(0.0, margins))
        return weights @ np.logaddexp(0.0, -margins) + inside.l2 / 2 * v @ v, Z.T @ slopes + inside.l2 * v

    best = optimize.minimize(objective, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-6}).x
    assert port.values("output")[0] == pytest.approx(best, rel=1e-3, abs=1e-3)
    assert w == pytest.approx(frame.weights(port.values("output")[0]))


def test_the_frame_takes_the_mean_out_and_evens_the_features_out():
    X, y = table()
    plan = FRAMED.plan(LOGISTIC, n=len(y), d=6, budget=dc.Budget(8.0, 1e-6, "zero_out"))
    Z = _frame(plan, X.sum(axis=0), (X**2).sum(axis=0)).rows(X)
    assert np.linalg.norm(Z.mean(axis=0)) < 0.5 * np.sqrt((Z**2).sum(axis=1).mean())
    assert np.ptp(np.log(Z.std(axis=0))) < 0.5 * np.ptp(np.log(X.std(axis=0)))


def test_where_noise_hides_all_the_frame_leaves_rows_as_they_are():
    plan = FRAMED.plan(LOGISTIC, n=20, d=6, budget=dc.Budget(0.1, 1e-6, "zero_out"))
    frame = _frame(plan, np.full(6, 1.0), np.zeros(6))
    assert frame.damping == 1.0
    assert np.ptp(frame.scales) == 0.0


@pytest.mark.parametrize("power", [0.0, 0.8, 1.0])
def test_no_release_makes_a_scale_larger_than_the_plan_allows_for(power, rng):
    algorithm = dc.algorithms.FramedPerturbation(power=power)
    plan = algorithm.plan(dataclasses.replace(LOGISTIC, intercept=0.5), n=50, d=4, budget=BUDGET)
    row = plan.problem.row_bound(4).value
    bound = _largest_scale(0.9, 5, plan.releases[1].scale / (50 * row**2))
    most = 0.0
    for _ in range(300):
        size = 10.0 ** rng.uniform(-3, 6)
        frame = _frame(plan, size * rng.normal(size=5), size * rng.normal(size=5) * rng.integers(0, 2, 5))
        assert np.isfinite([*frame.scales, *frame.axis, frame.damping]).all()
        most = max(most, row * frame.scales.max())
    assert most <= bound * (1 + 1e-12)


def test_it_beats_objective_perturbation_where_features_are_uneven():
    X, y = table(n=6000)
    found = {}
    for algorithm in (FRAMED, dc.algorithms.ObjectivePerturbation()):
        plan = algorithm.plan(LOGISTIC, n=6000, d=6, budget=dc.Budget(2.0, 1e-6))
        right = [np.mean(np.sign(X @ plan.run(X, y, dataset="uneven", seed=s).weights) == y) for s in range(6)]
        found[type(algorithm).__name__] = np.mean(right)
    assert found["FramedPerturbation"] > found["ObjectivePerturbation"] + 0.01


def test_plans_print_the_shares_and_receipts_name_all_releases():
    X, y = table(n=200)
    plan = FRAMED.plan(LOGISTIC, n=200, d=6, budget=BUDGET)
    assert "2% of mu^2" in str(plan)
    assert "6% of mu^2" in str(plan)
    solution = plan.run(X, y, dataset="shares", seed=0)
    assert [r.name for r in plan.releases] == ["rows", "squares", "objective", "output"]
    assert all(name in str(solution.receipt.to_json()) for name in ("squared_entries_sum", "weighted_rows"))
    assert dc.verify(solution.receipt)
    assert solution.weights.shape == (6,)


def test_what_it_does_not_take_is_refused():
    for options in ({"rows_share": 0.0}, {"squares_share": 0.5}, {"power": 1.5}, {"radius": 0.0}, {"stretch": 0.5}):
        with pytest.raises(InputError, match=next(iter(options))):
            dc.algorithms.FramedPerturbation(**options)
    for loss in (dc.losses.Squared(), dc.losses.Linear(), dc.losses.Hinge()):
        with pytest.raises(HypothesisError):
            FRAMED.plan(dc.Problem(loss, dc.domains.L2Ball(1.0)), n=100, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="delta"):
        FRAMED.plan(LOGISTIC, n=100, d=2, budget=dc.Budget(1.0, 0.0))
    plan = FRAMED.plan(LOGISTIC, n=100, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="sample_weight"):
        plan.run(np.zeros((100, 2)), np.ones(100), sample_weight=np.ones(100))
    assert FRAMED.in_memory(LOGISTIC)
