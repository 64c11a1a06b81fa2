"""Certified minimisers: facts against exact calculations, and one refusal for each hypothesis."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Bounded, Release, concludes_fact
from dpconvex.problem.facts import Kind

PROBLEM = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0), l2=20.0)
L, M = PROBLEM.lipschitz(3), PROBLEM.strong_convexity(100)


@concludes_fact
def taken(kind: str, value: float, relation: str | None = None) -> Bounded:
    """A fact for tests."""
    return Bounded(Kind[kind], value, "taken by a test", relation)


@pytest.mark.parametrize(("relation", "moves"), [("replace_one", 2.0), ("zero_out", 1.0)])
def test_the_sensitivity_is_that_of_the_exact_minimiser_and_two_certificates(relation, moves):
    fact = theorems.certified_erm(L, M, relation, range(10, 60), 40.0, 0.003)
    assert fact.value == pytest.approx(moves * 1.0 / (40.0 + 10.0) + 0.006, rel=1e-9)
    assert fact.value >= moves * 1.0 / 50.0 + 0.006
    assert fact.relation == relation
    assert theorems.certified_drift(0.003, relation).value == pytest.approx(0.006)
    assert theorems.proximal_contraction(M, range(10, 60), 40.0).value == pytest.approx(0.8)
    assert theorems.proximal_contraction(taken("STRONG_CONVEXITY", 0.0), range(5), 40.0).value == 1.0


def test_straight_losses_attain_the_sensitivity_and_the_contraction():
    """min <g, w> + ridge/2 |w|^2 + weight/2 |w - v|^2 is at (weight v - g) / (weight + ridge)."""
    weight, ridge, g = 40.0, 10.0, 1.0
    exact = (weight * 0.3 - g) / (weight + ridge), (weight * 0.3 + g) / (weight + ridge)
    assert abs(exact[0] - exact[1]) == pytest.approx(
        theorems.certified_erm(L, M, "replace_one", range(50), weight, 1e-12).value, rel=1e-9
    )


def chain(s, drift, c, nu, records=None, grids=None):
    return theorems.certified_chain(
        [taken("SENSITIVITY", v, "replace_one") for v in s],
        [taken("SENSITIVITY", v, "replace_one") for v in drift],
        [taken("CONTRACTION", v) for v in c],
        [
            Release(f"phase {i}", "gaussian", v, (1,), grid=g)
            for i, (v, g) in enumerate(zip(nu, grids or [None] * len(nu), strict=True))
        ],
        records or [range(10 * i, 10 * i + 10) for i in range(len(s))],
    )


def cheapest(s, c, nu):
    """Least sum (a/nu)^2 over shifts with z_t = c_t z_{t-1} + s_t - a_t >= 0 and z_T = 0, by a general solver."""

    def gaps(a):
        z, out = 0.0, []
        for t in range(len(s)):
            z = c[t] * z + s[t] - a[t]
            out.append(z)
        return np.array(out)

    best = minimize(
        lambda a: np.sum((a / nu) ** 2),
        np.array(s),
        method="SLSQP",
        bounds=[(0.0, None)] * len(s),
        constraints=[
            {"type": "ineq", "fun": lambda a: gaps(a)[:-1]},
            {"type": "eq", "fun": lambda a: gaps(a)[-1]},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return math.sqrt(best.fun)


def test_the_chain_equals_the_quadratic_program():
    rng = np.random.default_rng(3)
    for _ in range(40):
        k = int(rng.integers(2, 5))
        s, drift = rng.uniform(0.2, 1.0, k), rng.uniform(0.0, 0.3, k)
        c, nu = rng.uniform(0.3, 1.0, k), rng.uniform(0.2, 1.0, k)
        each = [cheapest([*np.zeros(j), s[j], *drift[j + 1 :]], c, nu) for j in range(k)]
        assert chain(s, drift, c, nu).profile.mu == pytest.approx(max(each), rel=1e-4)


def test_a_drifting_linear_chain_is_as_far_apart_as_claimed():
    """Maps x -> c x + u that drift by as much as they may: shift over deviation of the last point."""
    s, drift, c, nu = [1.0, 0.5], [0.2, 0.2], [1.0, 0.7], [0.6, 0.8]
    first = (c[1] * s[0] + drift[1]) / math.hypot(c[1] * nu[0], nu[1])
    second = s[1] / nu[1]
    assert chain(s, drift, c, nu).profile.mu == pytest.approx(max(first, second), rel=1e-9)
    without = theorems.noisy_contraction(
        [taken("SENSITIVITY", v, "replace_one") for v in s],
        [taken("CONTRACTION", v) for v in c],
        [Release(f"phase {i}", "gaussian", v, (1,)) for i, v in enumerate(nu)],
        2,
    )
    assert chain(s, [0.0, 0.0], c, nu).profile.mu == pytest.approx(without.profile.mu, rel=1e-9)
    assert chain(s, drift, c, nu).profile.mu > without.profile.mu * 1.1


def last_point(s, drift, c, nu, grids, offset, y):
    """Exact density at y of the last point of a chain x -> c x + shift + noise, rounded after every phase."""
    points, mass = np.array([offset]), np.ones(1)
    for k in range(len(nu)):
        centres = c[k] * points + (s[0] if k == 0 else drift[k]) / 2.0
        if k == len(nu) - 1:
            return np.exp(-0.5 * ((y[:, None] - centres) / nu[k]) ** 2) @ mass / (nu[k] * math.sqrt(2.0 * math.pi))
        cells = np.arange(-100, 101)
        ends = np.append(cells - 0.5, 100.5) * grids[k]
        mass = np.diff(ndtr((ends[:, None] - centres) / nu[k]), axis=0) @ mass
        points = cells * grids[k]


@pytest.mark.parametrize("steps", [2, 4])
def test_a_chain_that_is_rounded_after_every_phase_stays_below_the_claim(steps):
    """Coarse grids, and values near the boundary of a cell; the claim for real points is exceeded."""
    rng, naive = np.random.default_rng(5), 0.0
    for _ in range(12):
        grids = 2.0 ** rng.integers(-3, 1, steps).astype(float)
        nu, c = grids * rng.uniform(0.13, 0.5, steps) * 2.0 ** np.arange(steps), rng.choice([1.0, 0.8], steps)
        s, drift = [rng.uniform(0.02, 0.3) * grids[0]] * steps, rng.uniform(0.0, 0.05, steps)
        claimed, bare = (chain(s, drift, c, nu, grids=g).profile for g in ([float(v) for v in grids], None))
        offset = float(grids[0]) * rng.choice([0.5, 0.1])
        y = np.linspace(-6.0, 6.0, 2501) * (nu.sum() + grids.max())
        P, Q = (last_point([sign * v for v in s], sign * drift, c, nu, grids, offset, y) for sign in (1.0, -1.0))
        for eps in (0.0, 0.3):
            exact = float(np.maximum(P - math.exp(eps) * Q, 0.0).sum() * (y[1] - y[0]))
            assert exact <= claimed.delta(eps) + 1e-9
            naive = max(naive, exact / max(bare.delta(eps), 1e-3))
    assert naive > 1.1


def test_each_broken_hypothesis_is_refused():
    part = range(0, 10)
    with pytest.raises(HypothesisError, match="LIPSCHITZ"):
        theorems.certified_erm(M, M, "zero_out", part, 1.0, 0.1)
    with pytest.raises(HypothesisError, match="STRONG_CONVEXITY"):
        theorems.certified_erm(L, L, "zero_out", part, 1.0, 0.1)
    with pytest.raises(InputError, match="relation"):
        theorems.certified_erm(L, M, "add_remove", part, 1.0, 0.1)
    for records in (range(0), range(0, 10, 2), 10):
        with pytest.raises(HypothesisError, match="records"):
            theorems.certified_erm(L, M, "zero_out", records, 1.0, 0.1)
    for weight in (0.0, -1.0, math.inf, True):
        with pytest.raises(HypothesisError, match="weight"):
            theorems.certified_erm(L, M, "zero_out", part, weight, 0.1)
        with pytest.raises(HypothesisError, match="weight"):
            theorems.proximal_contraction(M, part, weight)
    for distance in (0.0, math.nan):
        with pytest.raises(HypothesisError, match="distance"):
            theorems.certified_erm(L, M, "zero_out", part, 1.0, distance)
        with pytest.raises(HypothesisError, match="distance"):
            theorems.certified_drift(distance, "zero_out")
    fine = ([1.0, 1.0], [0.1, 0.1], [1.0, 1.0], [1.0, 1.0])
    assert chain(*fine).profile.mu > 0.0
    with pytest.raises(HypothesisError, match="every phase"):
        chain([1.0], *fine[1:])
    with pytest.raises(HypothesisError, match="overlap"):
        chain(*fine, records=[range(0, 10), range(9, 20)])
    with pytest.raises(HypothesisError, match="contraction"):
        chain(fine[0], fine[1], [1.0, 1.1], fine[3])
    with pytest.raises(HypothesisError, match="no noise"):
        chain(fine[0], fine[1], fine[2], [1.0, 0.0])
    facts = [taken("SENSITIVITY", 1.0, r) for r in ("replace_one", "zero_out")]
    factors = [taken("CONTRACTION", 1.0)] * 2
    releases = [Release(f"phase {i}", "gaussian", 1.0, (1,)) for i in (1, 2)]
    ranges = [range(0, 10), range(10, 20)]
    with pytest.raises(HypothesisError, match="one relation"):
        theorems.certified_chain(facts, facts, factors, releases, ranges)
    odd = [releases[0], Release("phase 2", "gaussian", 1.0, (2,))]
    with pytest.raises(HypothesisError, match="shape"):
        theorems.certified_chain(facts[:1] * 2, facts[:1] * 2, factors, odd, ranges)
