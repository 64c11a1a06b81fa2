"""A slice of `make audit`: fixed seeds, thresholds fixed in advance. At epsilon 4 few runs see what is to be seen."""

import numpy as np
import pytest
from scipy.special import ndtr

import dpconvex as dc
from dpconvex.audit.neighbours import attacked_records
from dpconvex.audit.bounds import above_curve, clopper_pearson, epsilon_at, gaussian_mu_lower, mu_between
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
