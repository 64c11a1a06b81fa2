"""Amplification by shuffling: against enumeration, binomial sums, the published closed form, and its refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import dpconvex as dc
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Release
from dpconvex.kernel.profiles import GDP, Concentrated, gaussian_delta
from dpconvex.theorems import disjoint_sums, shuffled_sums
from dpconvex.theorems.generalised_gaussian import generalised_law
from dpconvex.theorems.numerics.shuffling import ShuffledSums, closed_form, gaussian_steps, hiding, two_points
from dpconvex.theorems.schedules import Listed

EPSILONS = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0])


def shuffled_response(values, flips):
    """Law of all outputs of randomised response on shuffled values, by enumeration over orders and outputs.

    `flips(past)` says whether the next randomiser answers with the complement, given the outputs so far.
    """
    n, law = len(values), {}
    keep = math.exp(LOCAL) / (1.0 + math.exp(LOCAL))
    for order in itertools.permutations(values):
        for outputs in itertools.product((0, 1), repeat=n):
            chance = 1.0 / math.factorial(n)
            for i, (value, output) in enumerate(zip(order, outputs, strict=True)):
                truth = value ^ flips(outputs[:i])
                chance *= keep if output == truth else 1.0 - keep
            law[outputs] = law.get(outputs, 0.0) + chance
    return law


LOCAL = 1.0


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "flips", [lambda past: 0, lambda past: sum(past) % 2, lambda past: int(bool(past) and past[-1] == 1)]
)
def test_never_below_the_truth_for_randomised_response(n, flips):
    """All data sets, all orders, randomisers that look at what was said before."""
    bound = hiding("two points", LOCAL, n - 1, math.exp(-LOCAL)).delta(EPSILONS)
    tightest = np.inf
    for others in itertools.combinations_with_replacement((0, 1), n - 1):
        p, q = (shuffled_response((b, *others), flips) for b in (0, 1))
        for one, two in ((p, q), (q, p)):
            truth = np.array([sum(max(one[z] - math.exp(e) * two[z], 0.0) for z in one) for e in EPSILONS])
            assert (truth <= bound * (1.0 + 1e-9) + 1e-15).all()
            tightest = min(tightest, float(np.min(bound[:3] - truth[:3])))
    assert tightest < 0.25  # and not by much


def test_the_lattice_agrees_with_binomial_sums():
    """(A + D, C - A + 1 - D) against (A + 1 - D, C - A + D), summed as it stands."""
    n, local = 60, 0.7
    weight, share = math.exp(-local), math.exp(local) / (1.0 + math.exp(local))

    def law(first):
        table = np.zeros((n + 2, n + 2))
        for c in range(n):
            for a in range(c + 1):
                chance = binom.pmf(c, n - 1, weight) * binom.pmf(a, c, 0.5)
                table[a + 1, c - a] += chance * (share if first else 1.0 - share)
                table[a, c - a + 1] += chance * (1.0 - share if first else share)
        return table

    p, q = law(True), law(False)
    exact = np.array([np.maximum(p - math.exp(e) * q, 0.0).sum() for e in EPSILONS])
    found = hiding("two points", local, n - 1, weight).delta(EPSILONS)
    assert (found >= exact * (1.0 - 1e-9)).all()
    np.testing.assert_allclose(found[:4], exact[:4], rtol=0.02)


@pytest.mark.parametrize(
    ("local", "closed", "numeric"), [(0.5, 0.094, 0.020), (1.0, 0.214, 0.053), (2.0, 0.501, 0.156)]
)
def test_published_numbers(local, closed, numeric):
    assert closed_form(10_000, local, 1e-6) == pytest.approx(closed, abs=5e-4)
    among = hiding("two points", local, 9999, math.exp(-local))
    low, high = among.delta(np.array([numeric - 1e-3, numeric + 1e-3]))
    assert high < 1e-6 < low


def test_one_sum_and_the_closed_form_need_the_published_noise():
    """kappa = 2, 2 tau = 2, n = 1e4, delta = 1e-6: 2.45 by one sum of 100, 24.5 of 1, 9.45 by the closed form."""
    n, delta, epsilon = 10_000, 1e-6, 0.5

    def rho(sigma, b):
        return 2.0 * 4.0 / (2.0 * b * sigma**2)

    assert Concentrated(rho(2.45, 100)).epsilon(delta) == pytest.approx(epsilon, rel=0.01)
    assert Concentrated(rho(24.5, 1)).epsilon(delta) == pytest.approx(epsilon, rel=0.01)
    local = Concentrated(rho(9.45, 1))
    share = delta / (2.0 * n * (1.0 + math.exp(epsilon)) * 1.3)
    assert closed_form(n, local.epsilon(share), delta / 2.0) == pytest.approx(epsilon, rel=0.02)


def test_the_closed_form_says_where_it_ends():
    with pytest.raises(HypothesisError, match=r"at most ln"):
        closed_form(10_000, 6.0, 1e-6)
    with pytest.raises(HypothesisError, match="more records"):
        closed_form(100, 0.1, 1e-6)


@pytest.mark.parametrize("mu", [0.02, 0.3, 1.0, 3.0])
def test_the_law_of_one_copy(mu, rng):
    """Mass 1, mean 0, and E (t - a)_+ never below that of a sample."""
    law = gaussian_steps(mu)
    t = law.step * (law.bottom + np.arange(len(law.mass)))
    assert 1.0 <= law.mass.sum() + law.lost < 1.0 + 1e-6
    assert abs(law.mass @ t) < 1e-12
    z = rng.normal(size=400_000) + mu * (rng.random(400_000) < 0.5)
    sample = np.tanh((mu * z - mu * mu / 2.0) / 2.0)
    for a in np.linspace(-0.9, 0.9, 7) * t[-1]:
        exact = np.maximum(sample - a, 0.0).mean()
        assert law.mass @ np.maximum(t - a, 0.0) >= exact - 5.0 * sample.std() / math.sqrt(len(sample))
    assert law.mass @ t**2 == pytest.approx((sample**2).mean(), rel=0.02)


def test_copies_of_a_gaussian_hide_as_simulated(rng):
    mu, count, weight = 0.8, 200, 0.3
    found = hiding("gaussian", mu, count, weight).delta(EPSILONS[:3])
    k = rng.binomial(count, weight, size=20_000) + 1
    z = rng.normal(size=(20_000, count + 1)) + mu * (rng.random((20_000, count + 1)) < 0.5)
    t = np.tanh((mu * z - mu * mu / 2.0) / 2.0) * (np.arange(count + 1) < k[:, None])
    x = t.sum(axis=1) / k
    for e, bound in zip(EPSILONS[:3], found, strict=True):
        gains = np.maximum((1.0 + x) - math.exp(e) * (1.0 - x), 0.0)
        assert abs(bound - gains.mean()) < 4.0 * gains.std() / math.sqrt(len(gains)) + 0.06 * bound
        assert bound > gains.mean() - 4.0 * gains.std() / math.sqrt(len(gains))


def test_more_copies_and_rarer_ones():
    deltas = [hiding("gaussian", 0.5, n, 0.2).delta(np.array([0.2]))[0] for n in (10, 100, 1000, 10_000)]
    assert deltas == sorted(deltas, reverse=True)
    deltas = [hiding("gaussian", 0.5, 1000, w).delta(np.array([0.2]))[0] for w in (0.5, 0.1, 0.01)]
    assert deltas == sorted(deltas)
    assert hiding("two points", 1.0, 1, 0.5).delta(np.array([0.0]))[0] <= 2.0 * math.tanh(0.5)
    assert two_points(1.0).mass.sum() == 1.0


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_never_worse_than_one_sum_nor_better_than_all_of_them(relation):
    moves = {"replace_one": 2.0, "zero_out": 1.0}[relation]
    for n, b, ratio in ((1000, 1, 6.0), (1000, 10, 12.0), (1000, 1000, 5.0), (2, 1, 3.0)):
        profile = ShuffledSums(relation, n, b, ratio, 80)
        for e in (0.05, 0.3, 1.0):
            assert profile.delta(e) <= gaussian_delta(e, moves / ratio) * (1.0 + 1e-6) + 1e-15
            assert profile.delta(e) >= gaussian_delta(e, moves / ratio / math.sqrt(max(n / b, 1.0))) * (1.0 - 1e-6)


def test_few_bits_are_paid_for():
    sure, torn = (ShuffledSums("replace_one", 1000, 1, 6.0, bits) for bits in (80, 30))
    assert torn.delta(0.3) > sure.delta(0.3) + 1000**2 * 2.0**-31
    assert torn.delta(0.3) <= gaussian_delta(0.3, 2.0 / 6.0) * (1.0 + 1e-6)


# The theorems ------------------------------------------------------------------------------------------------------

BATCHES = Listed.of([3, 3, 4])
SUMS = Release("gradients", "gaussian", 5.0, (4,), times=3)
ORDER = Release("order", "bernoulli", 0.5, (10,), times=60)


def test_disjoint_sums_cost_what_one_does():
    claim = disjoint_sums(2.0, 2.0, "replace_one", range(10), BATCHES, SUMS)
    assert claim.profile.mu == pytest.approx(2.0 * 2.0 / 5.0, rel=1e-11)
    longer = disjoint_sums(2.0, 4.0, "zero_out", range(10), BATCHES, SUMS)
    assert longer.profile.mu == pytest.approx(2.0 * 4.0**0.25 / 5.0, rel=1e-11)
    shorter = disjoint_sums(2.0, 1.0, "zero_out", range(10), BATCHES, SUMS)
    assert shorter.profile.mu == pytest.approx(2.0 / 5.0, rel=1e-11)
    shaped = Release("gradients", generalised_law(3.0), 5.0, (4,), times=3)
    found = disjoint_sums(2.0, 4.0, "replace_one", range(10), BATCHES, shaped).profile.rho
    assert found == pytest.approx(2.0 * (4.0 ** (1 / 3 - 1 / 4) * 4.0 / 5.0) ** 2 / 2.0, rel=1e-11)
    parts = [
        dc.theorems.gaussian(dc.theorems.clipped_sum(2.0, "replace_one"), Release(f"b{i}", "gaussian", 5.0, (4,)))
        for i in range(3)
    ]
    together = dc.theorems.parallel(parts, [range(0, 3), range(3, 6), range(6, 10)])
    assert claim.profile.mu == pytest.approx(together.profile.mu, rel=1e-11)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clip": 0.0}, "clip"),
        ({"q": math.inf}, "q must"),
        ({"q": 0.5}, "q must"),
        ({"records": range(9)}, "records"),
        ({"records": range(0, 20, 2)}, "records"),
        ({"batches": Listed((2.5, 7.5))}, "whole numbers"),
        ({"batches": Listed.of([5, 5])}, "once per batch"),
        ({"release": Release("gradients", "gaussian", 0.0, (4,), times=3)}, "no noise"),
        ({"release": Release("gradients", "gumbel", 1.0, (4,), times=3)}, "Gaussian"),
        ({"release": Release("gradients", generalised_law(1.5), 1.0, (4,), times=3)}, "at least 2"),
        ({"release": "noise"}, "Release"),
        ({"relation": "add_remove"}, "relation"),
    ],
)
def test_disjoint_sums_refuse(change, words):
    given = {"clip": 2.0, "q": 2.0, "relation": "zero_out", "records": range(10), "batches": BATCHES, "release": SUMS}
    with pytest.raises((HypothesisError, InputError), match=words):
        disjoint_sums(**{**given, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"order": Release("order", "gaussian", 1.0, (10,))}, "one fair bit"),
        ({"order": Release("order", "bernoulli", 0.4, (10,), times=60)}, "one fair bit"),
        ({"order": Release("order", "bernoulli", 0.5, (9,), times=60)}, "one fair bit"),
        ({"order": Release("order", "bernoulli", 0.5, (10,), times=1000)}, "bits"),
        ({"release": Release("gradients", generalised_law(3.0), 5.0, (4,), times=3)}, "Gaussian"),
        ({"batches": Listed.of([5, 5])}, "once per batch"),
    ],
)
def test_shuffled_sums_refuse(change, words):
    given = {"clip": 2.0, "q": 2.0, "relation": "zero_out", "batches": BATCHES, "order": ORDER, "release": SUMS}
    profile = shuffled_sums(**given).profile
    assert (profile.relation, profile.records, profile.batch, profile.bits) == ("zero_out", 10, 4, 60)
    assert profile.ratio == pytest.approx(2.5, rel=1e-11)
    with pytest.raises((HypothesisError, InputError), match=words):
        shuffled_sums(**{**given, **change})


def test_a_profile_of_shuffled_sums_composes():
    claim = shuffled_sums(2.0, 2.0, "replace_one", Listed.of([1] * 200), Release("order", "bernoulli", 0.5, (200,), 60),
                          Release("gradients", "gaussian", 30.0, (4,), times=200))  # fmt: skip
    other = dc.theorems.gaussian(dc.theorems.clipped_sum(1.0, "replace_one"), Release("z", "gaussian", 20.0, (1,)))
    both = dc.theorems.compose([claim, other]).profile
    assert both.delta(0.5) >= max(claim.delta(0.5), GDP(0.1).delta(0.5))
    assert both.epsilon(1e-6) <= claim.epsilon(5e-7) + other.epsilon(5e-7)
