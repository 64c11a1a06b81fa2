"""What is particular to PhasedERM: certificates, replaced and masked records, printed constants, the reduction."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from exact import exact_minimiser
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.phased_erm import default_weight, excess_bound, least_distance, mean_curvature, minimiser
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.sums import sdca
from dpconvex.sums.matrix import predictions
from dpconvex.sums.memory import open_sums
from dpconvex.testing.noiseless import run_without_noise

LOSSES = [
    dc.losses.Logistic(),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Huber(0.5),
    dc.losses.Squared(),
    dc.losses.Hinge(),
    dc.losses.Hinge(0.5),
    dc.losses.Absolute(),
    dc.losses.Pinball(0.8),
]
DOMAINS = [dc.domains.Everywhere(), dc.domains.L2Ball(0.7), dc.domains.Box(-0.3, 0.4)]


def data_for(loss, n, d, rng):
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / rng.uniform(0.3, 1.0, (n, 1)))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if loss.traits.labels == "sign" else np.clip(
        X @ rng.normal(size=d) + 0.3 * rng.normal(size=n), -1.0, 1.0
    )


@pytest.mark.parametrize("domain", [dc.domains.L1Ball(1.0), dc.domains.LpBall(3.0, 1.0), dc.domains.Simplex()], ids=str)
def test_a_kinked_solver_refuses_domains_without_a_projection_by_rows(domain):
    sums = open_sums(*open_rows(np.ones((3, 2)), np.zeros(3), dc.Problem(dc.losses.Absolute()), 3, 2))
    with pytest.raises(HypothesisError, match="after every row"):
        sdca.minimise_kinked(sums, dc.losses.Absolute(), 1.0, np.zeros(2), 1e-3, domain=domain)


@pytest.mark.parametrize("seed", range(200))
def test_a_certificate_holds_against_a_minimiser_solved_to_1e_13(seed):
    rng = np.random.default_rng(seed)
    loss, domain = LOSSES[seed % len(LOSSES)], DOMAINS[(seed // len(LOSSES)) % 3]
    if loss == dc.losses.Squared() and not math.isfinite(domain.reach(1)):
        domain = DOMAINS[1]
    n, d = int(rng.integers(5, 60)), int(rng.integers(1, 5))
    problem = dc.Problem(loss, domain=domain, l2=float(rng.choice([0.0, 2.0])))
    X, y = data_for(loss, n, d, rng)
    start = domain.project(rng.normal(size=d) * 0.3)
    weight, ridge = float(10 ** rng.uniform(-1, 2)), problem.l2
    rows, y = open_rows(X, y, problem, n, d)
    X = np.stack([predictions(rows, e, n) for e in np.eye(d)], axis=1)
    scale = 2.0 * problem.lipschitz(d).value / (weight + ridge)
    least = least_distance(problem, n, d, ridge, weight, float(np.linalg.norm(start)))
    fine = minimiser(open_sums(rows, y), problem, ridge, weight, start, max(1e-7 * scale, least))
    exact = exact_minimiser(X, y, loss, domain, ridge, weight, start, fine, near=max(1e-4 * scale, 1e-9))
    assert np.linalg.norm(fine - exact) <= max(1e-7 * scale, least)
    for share in (0.2, 0.02, 0.001):
        within = max(share * scale, least)
        found = minimiser(open_sums(rows, y), problem, ridge, weight, start, within)
        assert np.linalg.norm(found - exact) <= within


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_neighbours_move_every_phase_by_no_more_than_stated(loss, domain, relation, rng):
    """Brute force, with the noise off and the start of every phase held: replaced and masked records, extremes too."""
    if loss == dc.losses.Squared() and domain == dc.domains.Everywhere():
        domain = dc.domains.L2Ball(2.0)
    n, d = 14, 2
    problem = dc.Problem(loss, domain=domain, l2=2.0)
    plan = dc.algorithms.PhasedERM().plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    stated = {r.name: f.value for r, f in zip(plan.releases, _arguments(plan)["sensitivities"], strict=True)}
    drifts = {r.name: f.value for r, f in zip(plan.releases, _arguments(plan)["drifts"], strict=True)}
    X, y = data_for(loss, n, d, rng)
    still, _ = run_without_noise(plan, X, y)
    for record in range(n):
        for size in (0.0, 1.0, 100.0):
            changed, labels = X.copy(), y.copy()
            changed[record] = -X[record] * size if size != 1.0 else rng.normal(size=d)
            if loss.traits.labels == "sign":
                labels[record] *= -1.0
            if relation == "zero_out":  # a row of zeros has no gradient, and without a constant feature no loss either
                changed[record] = 0.0
            moved, _ = run_without_noise(plan, changed, labels, past=still)
            for phase in plan.schedule:
                bound = (stated if record in phase.records else drifts)[phase.name]
                gap = np.linalg.norm(moved.history(phase.name)[0] - still.history(phase.name)[0])
                assert gap <= bound * (1 + 1e-9)


def _arguments(plan):
    claim = plan.claim.derivation.arguments["claim"]
    assert claim.derivation.theorem == "certified_chain"
    return claim.derivation.arguments


@pytest.mark.parametrize("loss", [dc.losses.Linear(), dc.losses.Hinge(100.0)], ids=str)
def test_the_stated_sensitivity_is_attained(loss):
    """Losses that are straight where it matters: the exact part of the sensitivity is all used."""
    problem = dc.Problem(loss)
    plan = dc.algorithms.PhasedERM(phases=1, weight=5.0).plan(problem, n=4, d=1, budget=dc.Budget(1.0, 1e-6))
    X, y = np.ones((4, 1)), np.array([1.0, 1.0, -1.0, 1.0])
    still, _ = run_without_noise(plan, X, y)
    moved, _ = run_without_noise(plan, X, np.array([1.0, 1.0, 1.0, 1.0]))
    gap = abs(moved.history("phase 1") - still.history("phase 1")).item()
    within = plan.schedule[0].within
    assert gap == pytest.approx(2.0 / 5.0, abs=2 * within)
    assert gap <= 2.0 / 5.0 + 2 * within


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("loss", [dc.losses.Hinge(), dc.losses.Absolute(), dc.losses.Pinball(0.8)], ids=str)
def test_the_accelerated_steps_reach_the_certificate_alone(loss, domain, rng, monkeypatch):
    """The bound on the work is enough where coordinate ascent does nothing."""
    problem = dc.Problem(loss, domain=domain)
    X, y = data_for(loss, 25, 3, rng)
    rows, y = open_rows(X, y, problem, 25, 3)
    arguments = (problem, 0.0, 4.0, np.zeros(3), 0.01)
    slow = []
    with monkeypatch.context() as m:
        m.setattr(sdca._Dual, "ascend", lambda self, alpha, order: slow.append(1))
        m.setattr(sdca, "_PASSES", 2 * sdca._CHECK)
        alone = minimiser(open_sums(rows, y), *arguments)
    assert slow
    assert np.linalg.norm(alone - minimiser(open_sums(rows, y), *arguments)) <= 0.02


def test_a_solver_that_gives_up_raises_without_data_and_the_run_stays_charged(rng, monkeypatch):
    problem = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(1.0))
    plan = dc.algorithms.PhasedERM().plan(problem, n=30, d=2, budget=dc.Budget(1.0, 1e-6))
    X, y = data_for(problem.loss, 30, 2, rng)
    monkeypatch.setattr(sdca, "_PASSES", 0)
    monkeypatch.setattr(sdca.Facts, "steps", lambda self, distance: 0)
    with pytest.raises(ReleaseError, match=r"^the solver did not reach its certificate; the run stays charged$"):
        plan.run(X, y, dataset="gives up")
    assert dc.account("gives up").total().epsilon(1e-6) == pytest.approx(1.0, rel=1e-3)


def test_sparse_rows_zero_rows_and_float32_give_the_same_point(rng):
    problem = dc.Problem(dc.losses.Hinge(), domain=dc.domains.Box(-0.5, 0.5), intercept=0.5)
    X, y = data_for(problem.loss, 40, 3, rng)
    X[:5] = 0.0
    plan = dc.algorithms.PhasedERM().plan(problem, n=40, d=3, budget=dc.Budget(1.0, 1e-6))
    dense, _ = run_without_noise(plan, X, y)
    for other in (sparse.csr_array(X), X.astype(np.float32)):
        port, _ = run_without_noise(plan, other, y)
        for phase in plan.schedule:
            gap = np.linalg.norm(port.history(phase.name) - dense.history(phase.name))
            assert gap <= 4 * sum(p.within for p in plan.schedule) + 1e-4


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_printed_constants_state_what_they_give(relation):
    problem = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
    printed = dc.algorithms.PhasedERM(constants="paper")
    plan = printed.plan(problem, n=1000, d=5, budget=dc.Budget(1.0, 1e-6, relation))
    s = 3.0 if relation == "replace_one" else 2.5
    assert plan.claim.profile.mu == pytest.approx(s / 4 / math.sqrt(math.log(1e6)), rel=1e-9)
    assert [len(p.records) for p in plan.schedule][:3] == [500, 250, 125]
    with pytest.raises(ReleaseError, match="within its budget"):
        printed.plan(problem, n=1000, d=5, budget=dc.Budget(16.0, 1e-6))
    with pytest.raises(HypothesisError, match="bounded domain"):
        printed.plan(dc.Problem(dc.losses.Hinge()), n=1000, d=5, budget=dc.Budget(1.0, 1e-6))
    with pytest.raises(InputError, match="leave them unset"):
        dc.algorithms.PhasedERM(constants="paper", ratio=2.0).plan(problem, n=1000, d=5, budget=dc.Budget(1.0, 1e-6))


@pytest.mark.parametrize("loss", [dc.losses.Hinge(), dc.losses.Logistic()], ids=str)
def test_printed_phases_that_float64_cannot_certify_are_left_out(loss):
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(4.0))
    n, d = 2**24, 50
    plan = dc.algorithms.PhasedERM(constants="paper").plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-9))
    assert 5 < len(plan.schedule) < 24
    for p in plan.schedule:
        assert p.within >= least_distance(problem, len(p.records), d, 0.0, p.weight, 4.0)


@pytest.mark.parametrize("n", [2, 3, 7, 100, 20_000])
@pytest.mark.parametrize("reduction", [False, True])
@pytest.mark.parametrize("phases", [None, 1, 4])
def test_phases_are_disjoint_non_empty_and_use_every_record(n, reduction, phases):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0), l2=1.0)
    algorithm = dc.algorithms.PhasedERM(reduction=reduction, phases=phases)
    plan = algorithm.plan(problem, n=n, d=2, budget=dc.Budget(1.0, 1e-9))
    assert [i for p in plan.schedule for i in p.records] == list(range(n))
    assert all(len(p.records) for p in plan.schedule)


def test_the_reduction_grows_its_runs_and_its_weights():
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), l2=2000.0)
    budget = dc.Budget(4.0, 1e-6)
    plan = dc.algorithms.PhasedERM(reduction=True, phases=1).plan(problem, n=20_000, d=5, budget=budget)
    sizes, weights = [len(p.records) for p in plan.schedule], [p.weight for p in plan.schedule]
    assert len(sizes) == math.ceil(math.log2(math.log2(20_000)))
    assert all(1.9 < b / a < 2.1 for a, b in pairwise(sizes))
    assert all(b > a for a, b in pairwise(weights))
    with pytest.raises(HypothesisError, match="l2 > 0"):
        dc.algorithms.PhasedERM(reduction=True).plan(dataclasses.replace(problem, l2=0.0), n=100, d=5, budget=budget)
    with pytest.raises(InputError, match="weight unset"):
        dc.algorithms.PhasedERM(reduction=True, weight=1.0).plan(problem, n=100, d=5, budget=budget)


def test_the_stated_bound_on_accuracy_holds_on_average(rng):
    problem = dc.Problem(dc.losses.Absolute(), domain=dc.domains.L2Ball(2.0))
    n, d, truth = 400, 2, np.array([0.6, -0.3])
    plan = dc.algorithms.PhasedERM(distance=1.0).plan(problem, n=n, d=d, budget=dc.Budget(4.0, 1e-5))
    fresh = rng.normal(size=(20_000, d)) / 3
    noise = 0.1 * rng.normal(size=20_000)
    excess = []
    for seed in range(20):
        X = rng.normal(size=(n, d)) / 3
        w = plan.run(X, X @ truth + 0.1 * rng.normal(size=n), seed=seed, dataset="accuracy").weights
        excess.append(np.mean(np.abs(fresh @ (w - truth) - noise)) - np.mean(np.abs(noise)))
    bound = excess_bound(problem, n, d, plan.schedule, [r.scale for r in plan.releases], 1.0)
    assert 0.0 < np.mean(excess) < bound
    assert f"{bound:.4g}" in plan.utility


@pytest.mark.parametrize("loss", [dc.losses.Absolute(), dc.losses.Pinball(0.5), dc.losses.LogCosh(0.5)], ids=str)
def test_much_noise_leaves_something_of_a_regression(loss, rng):
    n, d = 500, 5
    X = rng.normal(size=(n, d))
    X[:, 0] = 1.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.clip(0.5 * X[:, 0] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n), -1.0, 1.0)
    plan = dc.algorithms.PhasedERM().plan(dc.Problem(loss), n=n, d=d, budget=dc.Budget(0.1, 1e-4, "zero_out"))

    def lost(w):
        return np.mean([loss.value(z, t) for z, t in zip(X @ w, y, strict=True)])

    runs = [lost(plan.run(X, y, seed=seed, dataset="much noise").weights) for seed in range(10)]
    assert np.mean(runs) < 0.8 * lost(np.zeros(d))


def test_the_default_weight_follows_its_rule():
    problem, budget = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(8.0)), dc.Budget(1.0, 1e-6)
    q = 2.0 / (1000 * budget.mu)
    rule = (2.0 * 0.5 * (q / 4.0) ** 2) ** (1 / 3) + 0.5 * (q / 0.15) ** 2
    assert default_weight(problem, 1000, 5, budget, 4.0) == pytest.approx(1000 * rule)
    free = dc.Budget(1000.0, 1e-6)
    assert default_weight(problem, 1000, 5, free, 4.0) == pytest.approx(1000 * 0.1 / (4.0 * math.sqrt(1000)))
    by_budget = [default_weight(problem, 1000, 5, dc.Budget(e, 1e-6), 4.0) for e in (1e-3, 0.1, 1.0, 10.0)]
    assert by_budget == sorted(by_budget, reverse=True)
    linear = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
    assert 0.0 < default_weight(linear, 2, 1, budget, 0.5) < math.inf


@pytest.mark.parametrize("loss", [*LOSSES, dc.losses.Pinball(0.2, 3.0), dc.losses.Huber(0.1, 5.0)], ids=str)
def test_curvature_of_the_mean_is_the_rise_of_the_slope_over_its_range(loss, rng):
    size = getattr(loss, "target", getattr(loss, "margin", 1.0))
    found = mean_curvature(loss)
    assert found <= loss.curvature_bound()
    if loss.traits.labels == "bounded":
        spread = rng.uniform(-size, size, size=4000)
        rise = np.mean([loss.slope(0.2 * size, t) - loss.slope(-0.2 * size, t) for t in spread]) / (0.4 * size)
        assert found == pytest.approx(rise, rel=0.2)


def test_targets_and_margins_set_the_scale_of_the_distance():
    def within(loss, **facts):
        plan = dc.algorithms.PhasedERM().plan(dc.Problem(loss, **facts), n=100, d=2, budget=dc.Budget(1.0, 1e-4))
        return float(plan.utility.split("within ")[1].split()[0])

    assert within(dc.losses.Absolute(target=3.0), feature_bound=2.0) == 1.5
    assert within(dc.losses.Hinge(0.5)) == 2.5
    assert within(dc.losses.Logistic()) == 5.0
    assert within(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)) == 2.0
    assert within(dc.losses.Absolute(), domain=dc.domains.L2Ball(100.0)) == 1.0


def test_a_tolerance_below_float64_is_refused():
    for loss in (dc.losses.Logistic(), dc.losses.Hinge()):
        problem = dc.Problem(loss, domain=dc.domains.L2Ball(1.0))
        with pytest.raises(InputError, match="float64"):
            dc.algorithms.PhasedERM(tolerance=1e-14).plan(problem, n=1000, d=2, budget=dc.Budget(1.0, 1e-6))
        rows, y = open_rows(np.eye(2), [1, -1], problem, 2, 2)
        with pytest.raises(InputError, match="float64"):
            minimiser(open_sums(rows, y), problem, 0.0, 1.0, np.zeros(2), 1e-17)


@pytest.mark.parametrize(
    "options",
    [
        {"constants": "loose"},
        {"phases": 0},
        {"phases": 61},
        {"phases": 1.5},
        {"phases": True},
        {"ratio": 0.5},
        {"ratio": math.nan},
        {"ratio": None},
        {"weight": 0.0},
        {"weight": "heavy"},
        {"distance": -1.0},
        {"tolerance": 0.0},
        {"tolerance": True},
        {"reduction": 1},
        {"release": "average"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        dc.algorithms.PhasedERM(**options)
