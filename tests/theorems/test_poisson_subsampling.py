"""Poisson sampling: one step by integration, compositions by other accountants, conventions pinned, refusals."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import SAMPLING, Release, Scope
from dpconvex.kernel.profiles import GDP, Composite
from dpconvex.theorems import poisson_subsampling
from dpconvex.theorems.poisson_subsampling import SubsampledGaussian

RELATIONS = ["replace_one", "zero_out"]


def exact_step(relation, q, ratio, epsilon):
    """Hockey-stick divergence of one step by adaptive quadrature; the larger order for zero_out."""
    r = 1.0 / ratio

    def mixture(x, a):
        return (1 - q) * norm.pdf(x) + q * norm.pdf(x, a)

    pairs = {
        "replace_one": [(lambda x: mixture(x, -r), lambda x: mixture(x, r))],
        "zero_out": [(lambda x: mixture(x, r), norm.pdf), (norm.pdf, lambda x: mixture(x, r))],
    }[relation]
    return max(
        quad(lambda x, p=p, s=s: max(p(x) - math.exp(epsilon) * s(x), 0.0), -14, 14, limit=2000, epsabs=1e-13)[0]
        for p, s in pairs
    )


def composed_by_recursion(relation, q, ratio, steps, epsilons):
    """h_{k+1}(eps) = E_P h_k(eps - loss), from no step at all, (1 - e^eps)_+: exact up to interpolation."""
    r, x = 1.0 / ratio, np.linspace(-10, 10, 2001)
    eps = np.linspace(-8.0, 8.0, 4001)

    def mixture(a):
        return (1 - q) * norm.pdf(x) + q * norm.pdf(x, a)

    pairs = [(mixture(-r), mixture(r))]
    if relation == "zero_out":
        pairs = [(mixture(r), norm.pdf(x)), (norm.pdf(x), mixture(r))]
    curves = []
    for p, other in pairs:
        loss, mass = np.log(p / other), p * (x[1] - x[0])
        h = np.maximum(-np.expm1(eps), 0.0)
        for _ in range(steps):
            h = np.array([mass @ np.interp(e - loss, eps, h) for e in eps])
        curves.append(np.interp(epsilons, eps, h))
    return np.max(curves, axis=0)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "ratio"), [(0.01, 0.7), (0.1, 1.5), (0.5, 2.0)])
def test_one_step_is_the_integral_rounded_up(relation, q, ratio):
    profile = SubsampledGaussian(relation, q, ratio, 1)
    for epsilon in (0.0, 0.02, 0.2, 0.7):
        exact = exact_step(relation, q, ratio, epsilon)
        assert exact * (1 - 1e-7) - 1e-12 <= profile.delta(epsilon) <= exact * 1.05 + 1e-6


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "ratio", "steps"), [(0.1, 1.5, 2), (0.1, 2.0, 30), (0.02, 1.0, 200)])
def test_compositions_agree_with_the_accountant_of_dp_accounting(relation, q, ratio, steps):
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    profile = SubsampledGaussian(relation, q, ratio, steps)
    theirs = NeighboringRelation.REPLACE_ONE if relation == "replace_one" else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(theirs, value_discretization_interval=1e-3)
    accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(ratio)), steps)
    for delta in (1e-3, 1e-6):
        assert profile.epsilon(delta) == pytest.approx(accountant.get_epsilon(delta), rel=3e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "ratio", "steps"), [(0.1, 1.5, 2), (0.3, 1.2, 4)])
def test_short_compositions_agree_with_a_recursion_over_densities(relation, q, ratio, steps):
    profile = SubsampledGaussian(relation, q, ratio, steps)
    epsilons = (0.2, 0.6, 1.5)
    for epsilon, exact in zip(epsilons, composed_by_recursion(relation, q, ratio, steps, epsilons), strict=True):
        assert exact * (1 - 1e-3) - 1e-9 <= profile.delta(epsilon) <= exact * 1.03 + 1e-6


def test_the_convention_of_dp_accounting_is_pinned():
    """Noise is in units of one contribution: replaced records stand twice as far apart, in PLD but not in RDP."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    event = dp_event.GaussianDpEvent(8.0)
    found = {}
    for kind in (PLDAccountant, RdpAccountant):
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
            accountant = kind(neighboring_relation=relation)
            accountant.compose(event, 4)
            found[kind, relation.name] = accountant.get_epsilon(1e-6)
    add, replace = "ADD_OR_REMOVE_ONE", "REPLACE_ONE"
    assert found[PLDAccountant, add] == pytest.approx(GDP(2 / 8).epsilon(1e-6), rel=1e-3)
    assert found[PLDAccountant, replace] == pytest.approx(GDP(4 / 8).epsilon(1e-6), rel=1e-3)
    assert found[RdpAccountant, add] == found[RdpAccountant, replace]
    for relation, moves in (("zero_out", 1.0), ("replace_one", 2.0)):
        nearly = SubsampledGaussian(relation, 1.0 - 1e-9, 8.0, 4)
        assert nearly.epsilon(1e-6) == pytest.approx(GDP(2 * moves / 8.0).epsilon(1e-6), rel=2e-3)


@pytest.mark.parametrize("relation", RELATIONS)
def test_more_noise_fewer_steps_and_rarer_records_cost_less(relation):
    base = SubsampledGaussian(relation, 0.05, 2.0, 100).epsilon(1e-6)
    for other in ((0.05, 2.1, 100), (0.05, 2.0, 90), (0.045, 2.0, 100)):
        assert SubsampledGaussian(relation, *other).epsilon(1e-6) < base
    plain = GDP({"replace_one": 2.0, "zero_out": 1.0}[relation] / 2.0 * 10.0).epsilon(1e-6)
    assert base < 0.25 * plain


def test_what_the_convolution_cannot_resolve_is_added():
    profile = SubsampledGaussian("zero_out", 0.01, 1.0, 1000)
    assert profile.delta(40.0) >= 1e-12
    assert profile.epsilon(1e-13) == math.inf
    assert SubsampledGaussian("zero_out", 0.01, 1.0, 1000) == profile


def test_it_composes_with_gaussians():
    part = SubsampledGaussian("replace_one", 0.05, 3.0, 50)
    both = Composite((part, GDP(0.3)))
    assert max(part.epsilon(1e-6), GDP(0.3).epsilon(1e-6)) < both.epsilon(1e-6)
    assert both.epsilon(1e-6) < part.epsilon(5e-7) + GDP(0.3).epsilon(5e-7)


def sample(q=0.1, n=10, times=5):
    return Release("sample", SAMPLING, q, (n,), times)


def noise(scale=2.0, times=5):
    return Release("gradients", "gaussian", scale, (3,), times)


def test_the_theorem_states_the_profile():
    claim = poisson_subsampling(0.5, "zero_out", sample(), noise())
    assert claim.profile == SubsampledGaussian("zero_out", 0.1, pytest.approx(4.0, rel=1e-11), 5)
    assert claim.profile.ratio <= 4.0
    assert claim.scope is Scope.EVERY
    assert [r.name for r in claim.releases] == ["sample", "gradients"]
    full = poisson_subsampling(0.5, "replace_one", sample(1.0), noise())
    assert full.profile.mu == pytest.approx(2.0 * 0.5 / 2.0 * math.sqrt(5.0), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, "zero_out", sample(), noise()), "clip"),
        ((math.inf, "zero_out", sample(), noise()), "clip"),
        ((1.0, "zero_out", Release("x", "gaussian", 1.0, (3,), 5), noise()), "sample must be"),
        ((1.0, "zero_out", sample(), Release("x", SAMPLING, 0.1, (3,), 5)), "Gaussian"),
        ((1.0, "zero_out", sample(0.0), noise()), "probability"),
        ((1.0, "zero_out", sample(1.5), noise()), "probability"),
        ((1.0, "zero_out", sample(n=0), noise()), "one choice per record"),
        ((1.0, "zero_out", sample(times=4), noise()), "equally often"),
        ((1.0, "zero_out", sample(), noise(0.0)), "no noise"),
    ],
)
def test_each_broken_hypothesis_is_refused(arguments, message):
    with pytest.raises(HypothesisError, match=message):
        poisson_subsampling(*arguments)


def test_a_private_number_of_records_is_refused():
    with pytest.raises(InputError, match="number of records"):
        poisson_subsampling(1.0, "add_remove", sample(), noise())
