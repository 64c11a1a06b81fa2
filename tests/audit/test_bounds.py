"""Confidence bounds against exact values, and power against simulation."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpconvex.audit.bounds import (
    clopper_pearson,
    epsilon_at,
    gaussian_mu_lower,
    least_runs,
    mu_between,
    one_run_mu_lower,
    one_run_p_value,
    runs_needed,
)
from dpconvex.audit.measure import CURVE, LAW, Evidence, judge, learn_statistic, thresholds, weigh
from dpconvex.audit.stated import ZCDP, Stated
from dpconvex.errors import InputError
from dpconvex.kernel.profiles import GDP, ApproxDP


def test_bounds_against_exact_values():
    rng = np.random.default_rng(0)
    plain, changed = rng.normal(size=100_000), rng.normal(size=100_000) + 0.5
    assert 0.48 < gaussian_mu_lower(plain, changed, 0.01) < 0.5
    assert gaussian_mu_lower(np.zeros(9), np.ones(9), 0.01) == math.inf
    assert gaussian_mu_lower(np.zeros(9), np.zeros(9), 0.01) == 0.0
    assert mu_between(float(ndtr(-0.3)), float(ndtr(0.7))) == pytest.approx(1.0)
    assert epsilon_at(0.1, 0.1 * np.e + 1e-6, 1e-6) == pytest.approx(1.0)
    assert epsilon_at(0.5, 0.4, 1e-6) == 0.0
    for error in (0.05, 0.001):
        low, high = clopper_pearson(7, 50, error)
        upper_tail = sum(math.comb(50, k) * low**k * (1 - low) ** (50 - k) for k in range(7, 51))
        assert upper_tail == pytest.approx(error, rel=1e-6)
        assert low < 7 / 50 < high
    assert clopper_pearson(0, 10, 0.01)[0] == 0.0
    assert clopper_pearson(10, 10, 0.01)[1] == 1.0


def caught(fpr, tpr, mu):
    return judge(Stated(GDP(mu), "replace_one"), [Evidence(((fpr, tpr),))]).caught


def test_a_test_on_the_curve_does_not_refute_and_one_above_does():
    mu, t = 1.0, 0.4
    fpr, tpr = float(ndtr(-t)), float(ndtr(mu - t))
    assert not caught(fpr, tpr, mu * 1.0001)
    assert CURVE in caught(fpr, tpr, mu * 0.99)


def test_error_rates_alone_see_too_little_noise():
    """The law-free part of the test sees noise x 0.7 too, against the whole curve."""
    mu = 0.8379
    t = mu / 0.7 / 2
    fpr = clopper_pearson(int(20_000 * ndtr(-t)), 20_000, 1e-3)[1]
    tpr = clopper_pearson(int(20_000 * ndtr(t)), 20_000, 1e-3)[0]
    assert CURVE in caught(fpr, tpr, mu)


def refuted(plain, changed, mu, law):
    pilot = plain[: len(plain) // 10], changed[: len(changed) // 10]
    claim = Stated(GDP(mu), "replace_one")
    return bool(judge(claim, [weigh(pilot, (plain, changed), claim.delta, 0.01, law)]).caught)


@pytest.mark.parametrize("law", ["gaussian", "any"])
def test_power_is_as_planned(law):
    """With the runs asked for, noise x 0.9 is seen about nine times in ten, and true claims are left alone."""
    mu, trials = 1.5, 60
    runs = runs_needed(mu, law=law)
    rng = np.random.default_rng(1)
    seen = alarms = 0
    for _ in range(trials):
        plain, changed = rng.normal(size=(2, runs))
        seen += refuted(plain, changed + mu / 0.9, mu, law)
        alarms += refuted(plain, changed + mu, mu, law)
    assert seen >= 0.75 * trials  # 0.9 planned; below 0.75 with probability 1e-3
    assert alarms <= 3  # 0.6 expected


def test_runs_needed_grows_as_it_should():
    assert runs_needed(0.2) > runs_needed(1.0) > runs_needed(1.0, noise=0.5)
    assert runs_needed(1.0, law="any") > runs_needed(1.0)
    assert runs_needed(1.0, confidence=0.999) > runs_needed(1.0)
    for bad in ({"mu": 0.0}, {"mu": 1.0, "noise": 1.0}, {"mu": 1.0, "law": "normal"}, {"mu": 1.0, "power": 1.0}):
        with pytest.raises(InputError):
            runs_needed(**bad)


def test_least_runs_is_the_border():
    claim = ApproxDP(3.0, 1e-6)
    needed = least_runs(claim.delta, 0.99)
    outcome = {}
    for runs in (needed, needed - 2):
        apart = np.zeros(runs), np.ones(runs)
        outcome[runs] = judge(Stated(claim, "replace_one"), [weigh(apart, apart, 1e-6, 0.01, "any")]).caught
    assert outcome[needed]
    assert not outcome[needed - 2]
    with pytest.raises(InputError, match="nothing to refute"):
        least_runs(lambda e: 1.0, 0.99)


def test_thresholds_suit_outputs_of_few_values():
    plain, changed = np.array([0.0] * 90 + [1.0] * 10), np.array([0.0] * 10 + [1.0] * 90)
    assert all(0.0 <= t <= 1.0 for t in thresholds(plain, changed, 1e-6))
    assert thresholds(np.zeros(20), np.zeros(20), 1e-6) == [0.0]


def test_a_statistic_is_learnt_where_means_agree():
    rng = np.random.default_rng(0)
    plain, changed = rng.normal(size=(2, 4000, 3))
    changed[:, 1] *= 3.0
    statistic, words = learn_statistic(plain, changed)
    assert words == "distance from the centre"
    assert statistic(changed).mean() > statistic(plain).mean() + 0.3
    changed = rng.normal(size=(4000, 3)) + np.array([0.0, 0.0, 2.0])
    statistic, _ = learn_statistic(plain, changed)
    assert (statistic(changed) > np.median(statistic(plain))).mean() > 0.9


def test_evidence_of_a_gaussian_is_read_as_a_curve():
    evidence = Evidence(((0.1, 0.6),), mu=0.5)
    assert evidence.delta(0.0) == pytest.approx(0.5)
    assert evidence.epsilon(1e-6) >= math.log(0.6 / 0.1) - 1e-4
    judged = judge(Stated(GDP(0.4), "replace_one"), [Evidence((), mu=0.41)])
    assert judged.caught == (LAW,)


def test_zcdp_is_its_own_inverse():
    claim = ZCDP(0.05)
    assert claim.delta(claim.epsilon(1e-5)) == pytest.approx(1e-5)
    assert claim.delta(0.01) == 1.0
    with pytest.raises(InputError, match="rho"):
        ZCDP(0.0)


def test_one_run_bounds_hold_for_randomised_response():
    """Coins told truly with probability 0.7 have epsilon ln(7/3): the bound is exceeded no more often than allowed."""
    rng = np.random.default_rng(2)
    eps = math.log(0.7 / 0.3)
    values = [one_run_p_value(int(rng.binomial(200, 0.7)), 200, 200, eps, 0.0) for _ in range(2000)]
    assert np.mean(np.array(values) <= 0.05) <= 0.065
    assert one_run_p_value(190, 200, 200, eps, 0.0) < 1e-6
    assert one_run_p_value(150, 200, 200, eps, 1e-5) >= one_run_p_value(150, 200, 200, eps, 0.0)


def test_one_run_bounds_hold_for_gaussian_canaries():
    rng = np.random.default_rng(3)
    mu = 1.0
    above = [one_run_mu_lower(int(rng.binomial(300, ndtr(mu / 2))), 300, 300, 0.05) > mu for _ in range(20)]
    assert sum(above) <= 4
    assert one_run_mu_lower(300, 300, 300, 0.05) > 0.9
    assert one_run_mu_lower(150, 300, 300, 0.05) == 0.0
    assert one_run_mu_lower(0, 300, 300, 0.05) == 0.0
