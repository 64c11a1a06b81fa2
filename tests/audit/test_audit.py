"""A slice of `make audit`: fixed seeds, thresholds fixed in advance. At epsilon 4 few runs see what is to be seen."""

import numpy as np
import pytest
from scipy.special import ndtr

import dpconvex as dc
from dpconvex.audit.bounds import above_curve, clopper_pearson, epsilon_at, gaussian_mu_lower, mu_between
from dpconvex.audit.neighbours import attacked_records
from dpconvex.errors import InputError
from dpconvex.privacy.profiles import GDP

PROBLEMS = [
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0)),
    dc.Problem(dc.losses.Squared(), domain=dc.domains.Box(-1.0, 1.0), intercept=0.5, l2=1.0),
]


def plan_for(problem, relation="replace_one", n=24, **options):
    return dc.algorithms.PhasedSGD(**options).plan(problem, n=n, d=1, budget=dc.Budget(4.0, 1e-6, relation))


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: str(p.loss))
@pytest.mark.parametrize(
    "options", [{}, {"growing": False}, {"release": "every iterate"}, {"constants": "paper"}], ids=str
)
def test_claims_stand(problem, relation, options):
    report = dc.audit.audit(plan_for(problem, relation, **options), runs=8000, seed=1)
    assert not report.refuted
    assert report.epsilon_lower <= report.claimed_epsilon


def test_the_attack_is_tight_on_the_linear_pair():
    report = dc.audit.audit(plan_for(PROBLEMS[0]), runs=60_000, seed=1)
    assert not report.refuted
    assert 0.96 < report.mu_lower / report.claimed_mu <= 1.0


@pytest.mark.parametrize("mutant", dc.audit.MUTANTS["PhasedSGD"], ids=lambda m: m.name)
def test_every_mutant_is_caught(mutant):
    report = dc.audit.audit(plan_for(PROBLEMS[0]), runs=20_000, seed=1, mutant=mutant)
    assert report.refuted
    assert "REFUTED" in str(report)


def test_a_mutant_without_the_known_law_is_caught_by_thresholds_alone():
    """The law-free part of the test sees noise x 0.7 too, against the whole curve."""
    plan = plan_for(PROBLEMS[0])
    mu = plan.claim.profile.mu / 0.7
    t = mu / 2
    fpr, tpr = (
        clopper_pearson(int(20_000 * ndtr(-t)), 20_000, 1e-3)[1],
        clopper_pearson(int(20_000 * ndtr(t)), 20_000, 1e-3)[0],
    )
    assert above_curve(fpr, tpr, plan.claim.delta)


def test_bounds_against_exact_values():
    rng = np.random.default_rng(0)
    plain, changed = rng.normal(size=100_000), rng.normal(size=100_000) + 0.5
    assert 0.48 < gaussian_mu_lower(plain, changed, 0.01) < 0.5
    assert mu_between(float(ndtr(-0.3)), float(ndtr(0.7))) == pytest.approx(1.0)
    assert epsilon_at(0.1, 0.1 * np.e + 1e-6, 1e-6) == pytest.approx(1.0)
    assert epsilon_at(0.5, 0.4, 1e-6) == 0.0
    for error in (0.05, 0.001):
        low, high = clopper_pearson(7, 50, error)
        upper_tail = sum(
            np.prod([(50 - i) / (i + 1) for i in range(k)]) * low**k * (1 - low) ** (50 - k) for k in range(7, 51)
        )
        assert upper_tail == pytest.approx(error, rel=1e-6)
        assert low < 7 / 50 < high
    assert clopper_pearson(0, 10, 0.01)[0] == 0.0
    assert clopper_pearson(10, 10, 0.01)[1] == 1.0


def test_a_test_on_the_curve_does_not_refute_and_one_above_does():
    mu = 1.0
    t = 0.4
    fpr, tpr = float(ndtr(-t)), float(ndtr(mu - t))
    assert not above_curve(fpr, tpr, GDP(mu * 1.0001).delta)
    assert above_curve(fpr, tpr, GDP(mu * 0.99).delta)


def test_the_places_attacked_hold_every_end_of_a_phase():
    plan = plan_for(PROBLEMS[0])
    assert {0, 15, 16, 23} <= set(attacked_records(plan))


@pytest.mark.parametrize("options", [{"runs": 10}, {"runs": 1e5}, {"confidence": 1.0}, {"confidence": 0.1}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        dc.audit.audit(plan_for(PROBLEMS[0]), **options)


OTHERS = [
    (dc.algorithms.NoisyGD(steps=3), PROBLEMS[0], "replace_one", 0.9),
    (dc.algorithms.NoisyGD(steps=3), PROBLEMS[1], "zero_out", 0.9),
    (dc.algorithms.MeanDirection(), PROBLEMS[0], "replace_one", 0.9),
    (dc.algorithms.SufficientStatistics(), dc.Problem(dc.losses.Squared()), "zero_out", 0.9),
    (dc.algorithms.SufficientStatistics(), dc.Problem(dc.losses.Squared()), "replace_one", 0.45),
]


@pytest.mark.parametrize(("algorithm", "problem", "relation", "ratio"), OTHERS)
def test_other_gaussian_claims_stand_and_are_attained(algorithm, problem, relation, ratio):
    plan = algorithm.plan(problem, n=12, d=1, budget=dc.Budget(4.0, 1e-6, relation))
    report = dc.audit.audit(plan, runs=6000, seed=1)
    assert not report.refuted
    assert report.mu_lower >= ratio * report.claimed_mu


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.LogCosh(0.5)], ids=str)
def test_objective_perturbation_stands_and_is_attained(loss, relation):
    plan = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(loss), n=12, d=1, budget=dc.Budget(4.0, 1e-6, relation)
    )
    report = dc.audit.audit(plan, runs=2000, seed=1)
    assert not report.refuted
    assert report.epsilon_lower >= 0.8 * report.claimed_epsilon


EVERY_MUTANT = [
    *((a, p, r, m) for a, p, r, ratio in OTHERS if ratio > 0.5 for m in dc.audit.MUTANTS[type(a).__name__]),
    *(
        (dc.algorithms.ObjectivePerturbation(), dc.Problem(dc.losses.LogCosh(0.5)), "replace_one", m)
        for m in dc.audit.MUTANTS["ObjectivePerturbation"]
    ),
]


@pytest.mark.parametrize(
    ("algorithm", "problem", "relation", "mutant"), EVERY_MUTANT, ids=lambda v: getattr(v, "name", type(v).__name__)
)
def test_every_mutant_of_the_others_is_caught(algorithm, problem, relation, mutant):
    plan = algorithm.plan(problem, n=12, d=1, budget=dc.Budget(4.0, 1e-6, relation))
    assert dc.audit.audit(plan, runs=4000, seed=1, mutant=mutant).refuted


def test_every_algorithm_has_mutants():
    assert set(dc.audit.MUTANTS) == set(dc.algorithms.REGISTRY)


def test_softmax_plans_are_refused():
    plan = dc.algorithms.NoisyGD(steps=3).plan(dc.Problem(dc.losses.Softmax(3)), n=12, d=1, budget=dc.Budget(4.0, 1e-6))
    with pytest.raises(InputError, match="one prediction"):
        dc.audit.audit(plan, runs=2000)
