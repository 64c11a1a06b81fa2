"""Generalised Gaussian noise: divergences by quadrature, the curve of zCDP, and what the theorem refuses."""

from __future__ import annotations

import dataclasses
import json
import math

import mpmath
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.kernel.claims import PERSON, Release
from dpconvex.kernel.profiles import (
    GDP,
    ApproxDP,
    Composite,
    Concentrated,
    Grouped,
    concentrated_delta,
    concentrated_rho,
)
from dpconvex.kernel.receipt import encode
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort
from dpconvex.problem.geometry import kappa, lp_norms, smooth_exponent
from dpconvex.theorems import clipped_sum, compose, gaussian, generalised_gaussian, group, parallel
from dpconvex.theorems.computed_sums import sum_error
from dpconvex.theorems.generalised_gaussian import exponent_of, generalised_law
from dpconvex.verify import _decode

GRID = np.linspace(-20.0, 20.0, 801)
X, Y = np.meshgrid(GRID, GRID)


def half_square(x, y, r):
    return (np.abs(x) ** r + np.abs(y) ** r) ** (2.0 / r) / 2.0


def divergence(r, alpha, u):
    """D_alpha of exp(-|z - u|_r^2 / 2) against exp(-|z|_r^2 / 2) in two dimensions, by quadrature."""
    still, moved = half_square(X, Y, r), half_square(X - u[0], Y - u[1], r)
    return math.log(np.exp(-alpha * moved + (alpha - 1.0) * still).sum() / np.exp(-still).sum()) / (alpha - 1.0)


@pytest.mark.parametrize("r", [2.0, 3.0, 4.0, 8.0])
@pytest.mark.parametrize("alpha", [1.1, 2.0, 5.0])
def test_the_divergence_is_below_the_bound(r, alpha):
    for size in (0.1, 0.5, 1.5):
        for angle in (0.0, 0.2, math.pi / 8, math.pi / 4):
            u = np.array([math.cos(angle), math.sin(angle)])
            u *= size / float(lp_norms(u, r))
            release = Release("z", generalised_law(r), 1.0, (2,))
            rho = generalised_gaussian(size, r, "zero_out", release).profile.rho
            found = divergence(r, alpha, u)
            assert found <= alpha * rho * (1.0 + 1e-6)
            if r == 2.0:
                assert found == pytest.approx(alpha * rho, rel=1e-6)
            assert found > 0.1 * alpha * rho  # the bound is of the right size


@pytest.mark.parametrize("r", [3.0, 8.0])
def test_the_delta_of_a_pair_is_below_the_curve(r):
    u = np.full(2, 0.7)
    size = float(lp_norms(u, r))
    profile = generalised_gaussian(size, r, "zero_out", Release("z", generalised_law(r), 1.0, (2,))).profile
    still, moved = np.exp(-half_square(X, Y, r)), np.exp(-half_square(X - u[0], Y - u[1], r))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        exact = np.maximum(moved - math.exp(epsilon) * still, 0.0).sum() / still.sum()
        assert exact <= profile.delta(epsilon)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("q", "d"), [(2.0, 7), (3.0, 50), (21.0, 100), (1e6, 100)])
def test_rho_is_kappa_times_the_squared_sensitivity(relation, q, d):
    s, sigma = (2.0 if relation == "replace_one" else 1.0) * 0.3, 1.7
    release = Release("z", generalised_law(smooth_exponent(q, d)), sigma, (d,), times=4)
    claim = generalised_gaussian(0.3, q, relation, release)
    assert claim.profile.rho == pytest.approx(4 * kappa(q, d) * s**2 / (2.0 * sigma**2), rel=1e-11)
    assert claim.profile.rho >= 4 * kappa(q, d) * s**2 / (2.0 * sigma**2)
    assert (claim.relation, claim.unit, claim.releases) == (relation, 1, (release,))


def test_vectors_short_in_a_norm_below_r_need_no_more():
    release = Release("z", generalised_law(4.0), 1.0, (30,))
    below, at = (generalised_gaussian(1.0, q, "zero_out", release).profile.rho for q in (2.0, 4.0))
    assert below == at == pytest.approx(1.5)
    matrix = Release("z", generalised_law(4.0), 1.0, (5, 6))
    assert generalised_gaussian(1.0, 8, "zero_out", matrix).profile.rho == pytest.approx(1.5 * 30**0.25)
    assert generalised_gaussian(1.0, 4.0, "zero_out", release, PERSON).unit == PERSON


def test_on_a_grid_the_rounding_of_the_sum_counts():
    free, grid = (Release("z", generalised_law(3.0), 1.0, (3,), grid=grid) for grid in (None, 2.0**-20))
    rho = generalised_gaussian(1.0, 3.0, "zero_out", free).profile.rho
    computed = generalised_gaussian(1.0, 3.0, "zero_out", grid, n=10**6).profile.rho
    assert computed == pytest.approx(rho * (1.0 + 2.0 * sum_error(10**6, 3)) ** 2, rel=1e-11)
    assert computed > rho * (1.0 + 1e-7)


@pytest.mark.parametrize(
    "change",
    [
        {"clip": 0.0},
        {"clip": math.inf},
        {"clip": "1"},
        {"q": 0.5},
        {"q": math.nan},
        {"q": math.inf},
        {"q": True},
        {"unit": 2},
        {"release": Release("z", generalised_law(3.0), 1.0, (3,), grid=2.0**-20)},  # of a sum over no records
        {"release": Release("z", generalised_law(3.0), 1.0, (3,), grid=2.0**-20), "n": 9, "unit": PERSON},
        {"release": Release("z", "gaussian", 1.0, (3,))},
        {"release": Release("z", generalised_law(1.5), 1.0, (3,))},
        {"release": Release("z", generalised_law(math.inf), 1.0, (3,))},
        {"release": Release("z", generalised_law(math.nan), 1.0, (3,))},
        {"release": Release("z", generalised_law(3.0), 0.0, (3,))},
        {"release": 1.0},
    ],
    ids=str,
)
def test_hypotheses_are_checked(change):
    release = Release("z", generalised_law(3.0), 1.0, (3,))
    with pytest.raises(HypothesisError):
        generalised_gaussian(**{"clip": 1.0, "q": 3.0, "relation": "zero_out", "release": release, **change})
    with pytest.raises(InputError, match="add_remove"):
        generalised_gaussian(1.0, 3.0, "add_remove", release)
    with pytest.raises(HypothesisError, match="Gaussian noise only"):
        gaussian(clipped_sum(1.0, "zero_out"), release)


def exact_delta(epsilon, rho):
    """The least over orders, in 40 digits."""
    with mpmath.workdps(40):
        e, r = mpmath.mpf(epsilon), mpmath.mpf(rho)
        low, high = mpmath.mpf(-400), mpmath.mpf(40)
        for _ in range(140):
            middle = (low + high) / 2
            x = mpmath.exp(middle)
            low, high = (low, middle) if (1 + 2 * x) * r - e + mpmath.log(x / (1 + x)) > 0 else (middle, high)
        x = mpmath.exp(low)
        return float(mpmath.exp(x * ((1 + x) * r - e + mpmath.log(x / (1 + x))) - mpmath.log(1 + x)))


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.02, 1.0, 30.0])
def test_the_curve_is_the_optimal_conversion_rounded_up(rho):
    for c in (0.0, 0.1, 1.0, 3.0, 8.0):
        epsilon = c * (rho + math.sqrt(rho))
        exact = exact_delta(epsilon, rho)
        assert exact <= concentrated_delta(np.array([epsilon]), rho)[0] <= exact * (1.0 + 1e-7)
        assert exact <= Concentrated(rho).delta(epsilon) <= max(exact * 1.003, 1e-24)
    # below the simple conversion, above what the Gaussian of the same rho has
    simple = rho + 2.0 * math.sqrt(rho * math.log(1e6))
    assert GDP(math.sqrt(2.0 * rho)).epsilon(1e-6) < Concentrated(rho).epsilon(1e-6) < simple


def test_epsilon_and_delta_agree():
    profile = Concentrated(0.05)
    for delta in (1e-20, 1e-9, 1e-3, 0.05):
        assert profile.delta(profile.epsilon(delta)) <= delta * (1.0 + 1e-12)
        assert profile.delta(profile.epsilon(delta) * (1 - 1e-6)) > delta
    assert Concentrated(0.0).epsilon(1e-9) == 0.0
    assert profile.to_json() == {"kind": "Concentrated", "rho": 0.05}
    with pytest.raises(InputError):
        Concentrated(-1.0)
    with pytest.raises(InputError):
        Concentrated(math.nan)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 8.0, 100.0, 1e3])
@pytest.mark.parametrize("delta", [1e-20, 1e-6, 0.1])
def test_calibration_keeps_to_the_budget(epsilon, delta):
    rho = concentrated_rho(epsilon, delta)
    assert 0.0 < Concentrated(rho).epsilon(delta) <= epsilon
    if epsilon < 500.0:
        assert Concentrated(rho * 1.001).epsilon(delta) > epsilon * 0.9999


def test_a_delta_below_the_floor_is_refused():
    with pytest.raises(InputError, match="smaller"):
        concentrated_rho(1.0, 1e-23)


def claims(*scales, relation="zero_out"):
    return [
        generalised_gaussian(1.0, 3.0, relation, Release(f"r{i}", generalised_law(3.0), s, (9,)))
        for i, s in enumerate(scales)
    ]


def test_rho_adds_and_groups_by_the_square():
    parts = claims(10.0, 20.0)
    total = compose(parts)
    assert isinstance(total.profile, Concentrated)
    assert total.profile.rho == pytest.approx(1 / 100 + 1 / 400)
    assert group(total, 3).profile.rho == pytest.approx(9 * total.profile.rho)
    assert group(total, 3).epsilon(1e-6) < Grouped(total.profile, 3).epsilon(1e-6)
    assert parallel(parts, [range(0, 5), range(5, 9)]).profile == max((p.profile for p in parts), key=lambda p: p.rho)


def test_it_composes_with_other_profiles_and_never_becomes_gaussian():
    part = claims(10.0)[0]
    normal = gaussian(clipped_sum(1.0, "zero_out"), Release("n", "gaussian", 8.0, (2,)))
    both = compose([normal, part, normal_again()])
    assert isinstance(both.profile, Composite)
    assert {type(p) for p in both.profile.parts} == {GDP, Concentrated}
    low = GDP(math.hypot(0.125, 0.125)).epsilon(1e-6)
    simple = Concentrated(part.profile.rho + 2 * 0.125**2 / 2).epsilon(1e-6)  # a Gaussian is mu^2/2-zCDP
    assert low < both.epsilon(1e-6) <= 1.02 * simple
    point = Composite((part.profile, ApproxDP(0.5, 1e-7)))
    assert point.epsilon(2e-6) <= part.profile.epsilon(1.9e-6) + 0.5 * (1 + 1e-4)


def normal_again():
    return gaussian(clipped_sum(1.0, "zero_out"), Release("m", "gaussian", 8.0, (2,)))


def test_the_derivation_reads_back():
    claim = group(compose(claims(10.0, 20.0)), 2)
    plain = json.loads(json.dumps(encode(claim)))
    again = _decode(plain, {}, 0.0)
    assert (again.profile, again.unit, again.releases) == (claim.profile, 2, claim.releases)
    first = plain["from"]["claim"]["from"]["claims"][0]
    for field, other in (("q", 3.1), ("clip", 1.1)):
        kept, first["from"][field] = first["from"][field], other
        with pytest.raises(dc.errors.VerificationError, match="generalised_gaussian"):
            _decode(plain, {}, 0.0)
        first["from"][field] = kept
    assert _decode(plain, {}, 0.0).profile == claim.profile


def test_the_port_draws_the_law():
    release = Release("z", generalised_law(3.0), 2.0, (4, 5), times=300)
    claim = generalised_gaussian(1.0, 3.0, "zero_out", release)
    port = NoisePort(claim, Source(0))
    values = np.array([port.add("z", np.zeros((4, 5))).ravel() for _ in range(300)])
    squares = lp_norms(values, 3.0) ** 2 / 4.0
    assert abs(squares.mean() - 20.0) < 3.5 * math.sqrt(2 * 20.0 / 300)
    assert len(np.unique(values)) == values.size
    with pytest.raises(ReleaseError, match="drawn before"):
        port.add("z", np.zeros((4, 5)))
    assert exponent_of(dataclasses.replace(release, law="gaussian").law) is None
