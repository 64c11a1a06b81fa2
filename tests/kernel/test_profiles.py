import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpconvex as dc
from dpconvex.calibrate import threshold
from dpconvex.errors import InputError
from dpconvex.kernel.profiles import GDP, ApproxDP, gaussian_delta
from dpconvex.rounding import round_down, round_up
from dpconvex.theorems.noisy_contraction import telescope


def exact_delta(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 0.236704), (0.1, 0.027545), (4.0, 0.837859)])
def test_budget_mu_matches_the_analytic_gaussian(epsilon, mu):
    assert dc.Budget(epsilon, 1e-6).mu == pytest.approx(mu, abs=1e-5)


@settings(max_examples=1500)
@given(st.floats(0.0, 60.0), st.floats(1e-5, 30.0))
def test_gaussian_delta_to_ten_digits(epsilon, mu):
    exact = exact_delta(epsilon, mu)
    if exact > mpmath.mpf("1e-300"):
        assert abs(gaussian_delta(epsilon, mu) / exact - 1) < 1e-10


@settings(max_examples=300)
@given(st.floats(-20.0, 0.0), st.floats(1e-4, 20.0))
def test_gaussian_delta_at_negative_epsilon(epsilon, mu):
    assert gaussian_delta(epsilon, mu) == pytest.approx(float(exact_delta(epsilon, mu)), rel=1e-9, abs=1e-15)


@settings(max_examples=10_000)
@given(st.floats(math.log(1e-4), math.log(50.0)), st.floats(math.log(1e-30), math.log(0.5)))
def test_calibrated_noise_never_exceeds_its_target(log_epsilon, log_delta):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    mu = dc.Budget(epsilon, delta).mu
    sensitivity = 2.0
    noise = round_up(sensitivity / mu)
    claim = GDP(round_up(sensitivity / noise))
    assert claim.epsilon(delta) <= epsilon
    assert claim.delta(epsilon) <= delta


@settings(max_examples=200)
@given(st.floats(1e-3, 20.0), st.floats(math.log(1e-20), math.log(0.5)))
def test_budget_mu_is_sound_and_tight_against_exact_arithmetic(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = dc.Budget(epsilon, delta).mu
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu * (1 + 1e-8)) > delta


def test_gdp_edges():
    assert GDP(0.0).delta(0.0) == 0.0
    assert GDP(0.0).epsilon(1e-9) == 0.0
    assert GDP(2.0).delta(0.0) == pytest.approx(2 * 0.8413447460685429 - 1, rel=1e-8)
    assert GDP(0.1).epsilon(0.5) == 0.0
    for bad in (1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            GDP(1.0).epsilon(bad)
    with pytest.raises(InputError):
        GDP(-1.0)
    for bad in (math.inf, math.nan, 1e5):
        with pytest.raises(InputError):
            GDP(bad)


def test_approx_dp_is_the_weakest_curve_through_its_point():
    profile = ApproxDP(1.0, 1e-6)
    assert profile.delta(1.0) == 1e-6
    assert profile.delta(2.0) == 1e-6
    # Randomised response attains the curve: with probability 1/(1+e) the answer is flipped.
    assert ApproxDP(1.0, 0.0).delta(0.5) == pytest.approx((math.e - math.exp(0.5)) / (1 + math.e))
    assert profile.delta(0.0) == pytest.approx(1 - (1 - 1e-6) * 2 / (1 + math.e))
    assert ApproxDP(1e-17, 0.0).delta(0.0) > 0.0
    # At negative epsilon: P - e^eps Q over the whole space is 1 - e^eps already.
    assert ApproxDP(1.0, 0.0).delta(-2.0) == pytest.approx(1 - math.exp(-2.0))
    assert ApproxDP(1.0, 0.0).delta(-0.5) > ApproxDP(1.0, 0.0).delta(0.0)
    assert profile.epsilon(1e-6) == 1.0
    assert math.isinf(profile.epsilon(1e-9))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": -1.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": math.nan, "delta": 1e-6}, "epsilon"),
        ({"epsilon": math.inf, "delta": 1e-6}, "epsilon"),
        ({"epsilon": "one", "delta": 1e-6}, "epsilon must be a number, got str"),
        ({"epsilon": "1", "delta": 1e-6}, "epsilon must be a number, got str"),
        ({"epsilon": True, "delta": 1e-6}, "epsilon must be a number, got bool"),
        ({"epsilon": 1.0, "delta": "1e-6"}, "delta must be a number, got str"),
        ({"epsilon": [1.0], "delta": 1e-6}, "epsilon must be a number, got list"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta"),
        ({"epsilon": 1.0, "delta": None}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-6, "relation": "swap"}, "relation"),
        ({"epsilon": 1.0, "delta": 1e-6, "relation": "add_remove"}, "add_remove"),
    ],
)
def test_bad_budgets_name_the_argument(arguments, name):
    with pytest.raises(InputError, match=name):
        dc.Budget(**arguments)


def test_budget_takes_numpy_numbers():
    assert dc.Budget(np.float32(1.0), np.float64(1e-6)).mu == dc.Budget(1.0, 1e-6).mu


@given(st.floats(1e-200, 1e200))
def test_rounding_is_to_the_safe_side(x):
    assert round_down(x) <= x <= round_up(x)
    assert round_up(x) - round_down(x) <= 2.0e-11 * x
    assert round_up(round_up(x)) == round_up(x)


@given(st.floats(1e-9, 1e9))
def test_threshold_finds_neighbouring_floats(x):
    low, high = threshold(lambda t: t >= x, 1e-12, 1e12)
    assert low < x <= high
    assert high == math.nextafter(low, math.inf)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.3, 1.0)), min_size=1, max_size=6))
def test_telescoped_noise_gives_every_phase_at_least_what_it_needs(chain):
    s, c = [p[0] for p in chain], [p[1] for p in chain]
    noise = telescope(s, c)
    for j in range(len(s)):
        gamma = [math.prod(c[i + 1 :]) for i in range(len(s))]
        tail = sum((gamma[i] * noise[i]) ** 2 for i in range(j, len(s)))
        need = max((gamma[i] * s[i]) ** 2 for i in range(j, len(s)))
        assert tail == pytest.approx(need, rel=1e-9)
