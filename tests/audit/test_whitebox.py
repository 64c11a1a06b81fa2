"""Checks that look inside a run, and the audit of a single one."""

import json

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.audit import MUTANTS, audit_once, sampler_fit, sensitivities, shared_noise
from dpconvex.audit import whitebox as inside
from dpconvex.errors import InputError

LOGISTIC = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
PLANS = [
    (dc.algorithms.PhasedSGD(), dc.Problem(dc.losses.Linear()), 0.99),
    (dc.algorithms.PhasedSGD(), LOGISTIC, 0.2),
    (dc.algorithms.NoisyGD(steps=3), dc.Problem(dc.losses.Softmax(3)), 0.99),
    (dc.algorithms.MeanDirection(), LOGISTIC, 0.99),
    (dc.algorithms.SufficientStatistics(), dc.Problem(dc.losses.Squared()), 0.9),
    (dc.algorithms.PhasedERM(), dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(8.0)), 0.8),
]


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("algorithm", "problem", "share"), PLANS)
def test_nothing_moves_a_release_by_more_than_stated(algorithm, problem, share, relation):
    plan = algorithm.plan(problem, n=6, d=2, budget=dc.Budget(1.0, 1e-6, relation))
    moves = sensitivities(plan, tries=120, seed=1)
    assert {m.release for m in moves} == {r.name for r in plan.releases}
    for move in moves:
        assert move.holds
        assert move.found >= share * move.stated


@pytest.mark.parametrize("name", ["MeanDirection", "SufficientStatistics"])
def test_a_broken_bound_is_found(name):
    problem = dc.Problem(dc.losses.Squared())
    plan = getattr(dc.algorithms, name)().plan(problem, n=6, d=2, budget=dc.Budget(1.0, 1e-6))
    for mutant in MUTANTS[name]:
        if mutant.unbounded or mutant.twice:
            assert not all(m.holds for m in sensitivities(plan, tries=60, mutant=mutant))


def test_objective_perturbation_rests_on_no_sensitivity():
    plan = dc.algorithms.ObjectivePerturbation().plan(LOGISTIC, n=6, d=2, budget=dc.Budget(1.0, 1e-6))
    assert inside.stated_sensitivities(plan.claim) == {}
    assert sensitivities(plan) == []


@pytest.mark.parametrize(("relation", "moves"), [("replace_one", 2.0), ("zero_out", 1.0)])
def test_sampled_sums_move_as_far_as_stated_and_no_further(relation, moves):
    """At every one of several steps: both data sets are sampled alike after the first as well."""
    algorithm = dc.algorithms.PoissonSGD(0.5, steps=6, clip=0.3)
    plan = algorithm.plan(LOGISTIC, n=6, d=2, budget=dc.Budget(4.0, 1e-6, relation))
    assert inside.stated_sensitivities(plan.claim) == {"gradients": moves * 0.3}
    (move,) = sensitivities(plan, seed=1)
    assert move.holds
    assert move.found >= 0.99 * move.stated
    for mutant in MUTANTS["PoissonSGD"]:
        if not mutant.swapped and mutant.shared != "classes":
            (broken,) = sensitivities(plan, tries=60, seed=1, mutant=mutant)
            assert broken.holds == (not (mutant.twice or mutant.heavy) and mutant.clip == 1.0), mutant.name


def test_the_sampler_fits_and_a_bad_one_would_not(monkeypatch):
    assert all(check.passed for check in sampler_fit(200_000, seed=0))
    honest = inside.standard_normal
    for broken in (lambda x: 1.02 * x, lambda x: x + 0.02, lambda x: np.clip(x, -3.0, 3.0)):
        monkeypatch.setattr(inside, "standard_normal", lambda s, n, broken=broken: broken(honest(s, n)))
        assert not all(check.passed for check in sampler_fit(200_000, seed=0))


def test_no_noise_is_shared():
    plan = dc.algorithms.NoisyGD(steps=2).plan(dc.Problem(dc.losses.Softmax(3)), n=6, d=2, budget=dc.Budget(1.0, 1e-6))
    checks = shared_noise(plan, runs=200)
    assert len(checks) == 4
    assert all(check.passed for check in checks)
    assert json.dumps([check.to_json() for check in checks])


def test_shared_noise_would_be_seen(monkeypatch):
    plan = dc.algorithms.MeanDirection().plan(LOGISTIC, n=6, d=2, budget=dc.Budget(1.0, 1e-6))
    rng = np.random.default_rng(0)

    def twins(plan):
        z = rng.normal()
        return np.array([z, z + 1e-9])

    monkeypatch.setattr(inside, "draw_noise", twins)
    monkeypatch.setattr(inside.multiprocessing, "get_all_start_methods", lambda: [])
    assert [check.passed for check in shared_noise(plan)] == [True, False]
    monkeypatch.setattr(inside, "draw_noise", lambda plan: np.array([0.5, 0.25]) + rng.integers(3))
    assert not shared_noise(plan, runs=50)[0].passed


def canary_plan(relation="replace_one", problem=None, n=160, d=120):
    return dc.algorithms.ObjectivePerturbation().plan(
        problem or dc.Problem(dc.losses.Logistic()), n=n, d=d, budget=dc.Budget(2.0, 1e-5, relation)
    )


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_one_run_leaves_a_true_claim_alone_and_sees_one_without_noise(relation):
    plan = canary_plan(relation)
    assert not audit_once(plan, 120, seed=1).refuted
    bare = audit_once(plan, 120, seed=1, noise=0.01)
    assert bare.refuted
    assert bare.epsilon_lower > bare.claimed_epsilon
    assert "REFUTED" in str(bare)
    assert json.dumps(bare.to_json(), allow_nan=False)


def test_one_run_among_other_records_and_with_fewer_guesses():
    plan = canary_plan()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 120)) / 20
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    report = audit_once(plan, 100, data=(X, y), guesses=40, seed=2)
    assert (report.canaries, report.guesses) == (100, 40)
    assert not report.refuted
    softmax = canary_plan(problem=dc.Problem(dc.losses.Softmax(3)), n=40, d=20)
    assert not audit_once(softmax, 20, seed=1).refuted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"canaries": 0}, "canaries must"),
        ({"canaries": 161}, "canaries must"),
        ({"canaries": 20, "guesses": 21}, "guesses must"),
        ({"canaries": 5}, "take at least 10"),
        ({"canaries": 20, "confidence": 1.0}, "confidence"),
        ({"canaries": 20, "data": (np.zeros((3, 120)), np.ones(3))}, "160"),
    ],
)
def test_bad_canaries_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        audit_once(canary_plan(), **options)
