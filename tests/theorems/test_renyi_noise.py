"""Noise of declared divergences: the claim against exact laws on the grid, and a refusal for each hypothesis."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.errors import DpconvexError, HypothesisError, InputError
from dpconvex.kernel.claims import Release
from dpconvex.kernel.profiles import GDP, Concentrated
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.theorems import compose, group, renyi_noise
from dpconvex.theorems.numerics.renyi import Renyi
from dpconvex.theorems.renyi_noise import draw_distance


def law(size=1, **declared):
    return dc.noise.RenyiLaw(
        lambda uniform: ndtri(uniform(size)), size=size, **{"second_moment": float(size), **declared}
    )


def claim(
    made, scale=2.0, which="sums", times=1, clip=1.0, q=2.0, relation="zero_out", n=10, grid=0.5, name="x", **more
):
    release = Release(name, made.law, scale, (made.size,), times, grid)
    return renyi_noise(clip, q, relation, made.fact(), release, which, n, **more)


def released(cdf, value, scale, grid, width=400):
    """Probabilities of the multiples -width .. width of the grid: the hat function around each, averaged."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    found = []
    for k in range(-width, width + 1):
        # P(floor(s + U) = k) is the mean of P(k - U <= s < k + 1 - U)
        ends = [(k - u + shift) * grid for u in (nodes + 1.0) / 2.0 for shift in (0.0, 1.0)]
        mass = cdf((np.array(ends[1::2]) - value) / scale) - cdf((np.array(ends[::2]) - value) / scale)
        found.append(float(weights @ mass) / 2.0)
    return np.array(found)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def logistic(x):
    return 1.0 / (1.0 + np.exp(-np.clip(x, -700.0, 700.0)))


@pytest.mark.parametrize(("cdf", "kappa", "moment"), [(ndtr, 1.0, 1.0), (logistic, 0.5, np.pi**2 / 3)])
@pytest.mark.parametrize("value", [0.0, 0.13])
def test_the_claim_bounds_the_exact_law_on_its_grid(cdf, kappa, moment, value):
    scale, grid = 1.3, 0.25
    found = claim(law(kappa=kappa, second_moment=moment), scale=scale, grid=grid)
    p, q = (released(cdf, v, scale, grid) for v in (value, value + 1.0))
    assert abs(p.sum() - 1.0) < 1e-9
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0):
        exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        assert exact <= found.delta(epsilon)
        assert exact > 0.02 * found.delta(epsilon) or exact < 1e-9


def coarse_law(step, value, scale=2.0, grid=0.25):
    """Probabilities of multiples of the grid where normal variates are rounded to multiples of a step."""
    points = np.arange(-80, 81) * 0.125
    points = points[np.isclose(points % step, 0.0)]
    found = np.zeros(4000)
    for x, mass in zip(points, ndtr(points + step / 2) - ndtr(points - step / 2), strict=True):
        s = (value + scale * x) / grid
        k = math.floor(s)
        found[2000 + k] += mass * (1.0 - (s - k))
        found[2001 + k] += mass * (s - k)
    return found


@pytest.mark.parametrize("step", [0.125, 0.25])
def test_variates_that_are_as_coarse_as_the_grid_have_to_be_paid_for(step):
    moved, sample = 0.03, np.random.default_rng(0).normal(size=100_000)
    off = float(np.abs(np.rint(sample / step) * step - sample).mean())  # coupled with the nearest multiple
    believed = claim(law(), grid=0.25, clip=moved).profile
    true = Renyi(believed.rho, (), min(1.0, draw_distance(1.0, 2.0, 1.0, off, 8.0)))
    p, q = coarse_law(step, 0.0), coarse_law(step, moved)
    for epsilon in (0.0, 0.5, 3.0):
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= true.delta(epsilon)
    if step == 0.25:  # some outputs are possible under one value alone: what a false accuracy claims is false
        assert hockey_stick(q, p, 3.0) > 0.1 > believed.delta(3.0)


def test_normal_noise_costs_what_its_divergences_say():
    for which, times, draws in (("sums", 5, 5), ("batches", 5, 1)):
        for relation, moves in (("zero_out", 1.0), ("replace_one", 2.0)):
            profile = claim(law(), which=which, times=times, relation=relation).profile
            assert profile.rho == pytest.approx(draws * moves**2 / 8.0, rel=1e-9)
            assert profile.rho >= draws * moves**2 / 8.0
            assert GDP(math.sqrt(2.0 * profile.rho)).delta(1.0) <= profile.delta(1.0)
    for times in (1, 2, 3, 4, 7, 8, 1000):
        profile = claim(law(), which="tree", times=times, n=times, batch=1).profile
        assert profile.rho == pytest.approx((math.floor(math.log2(times)) + 1) / 8.0, rel=1e-6)


@pytest.mark.parametrize(
    ("q", "norm", "stretch"), [(2.0, 2.0, 1.0), (4.0, 2.0, 9**0.25), (2.0, 4.0, 1.0), (2.0, 1.0, 3.0)]
)
def test_a_clip_in_one_norm_is_measured_in_that_of_the_law(q, norm, stretch):
    profile = claim(law(9, norm=norm, kappa=3.0), q=q).profile
    assert profile.rho == pytest.approx(1.5 * (stretch / 2.0) ** 2, rel=1e-9)


def test_few_orders_say_less_and_all_say_what_concentrated_privacy_says():
    some, every = (claim(law(orders=orders)).profile for orders in ((1.5, 4.0, 16.0), ()))
    for epsilon in (0.1, 1.0, 3.0):
        assert Concentrated(every.rho).delta(epsilon) <= every.delta(epsilon) <= some.delta(epsilon)
        bounds = [(a - 1) * (a * some.rho - epsilon + math.log(1 - 1 / a)) - math.log(a) for a in (1.5, 4.0, 16.0)]
        assert some.delta(epsilon) == pytest.approx(min(1.0, math.exp(min(bounds))), rel=1e-3)
    two = compose([claim(law()), claim(law(), name="y")])
    assert every.delta(1.0) < two.delta(1.0) <= Renyi(2.0 * every.rho, (), 3.0 * every.distance).delta(1.0) * 1.2
    assert group(claim(law()), 2).delta(1.0) > every.delta(1.0)


def test_rounding_of_sums_is_charged():
    few, many = (claim(law(), which="batches", times=100, n=n).profile.rho for n in (100, 10**9))
    assert 1.0 < many / few < 1.001 * (1.0 + 4.0 * 100 * 1e-4)


FACT = law(3).fact()
GOOD = {
    "clip": 1.0, "q": 2.0, "relation": "zero_out", "law": FACT, "which": "sums", "n": 10,
    "release": Release("x", law(3).law, 2.0, (3,), 4, 0.5),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clip": 0.0}, "clip"),
        ({"q": math.inf}, "exponent"),
        ({"q": 0.5}, "exponent"),
        ({"relation": "add_remove"}, "relation"),
        ({"law": 1.0}, "law must be a Fact"),
        ({"law": state_fact(Kind.LIPSCHITZ, 1.0, "a test")}, "law must be a Fact"),
        ({"law": law(3, kappa=0.5).fact()}, "the law that the fact is about"),
        ({"release": Release("x", "gaussian", 2.0, (3,), 4, 0.5)}, "the law that the fact is about"),
        ({"release": Release("x", law(3).law, 2.0, (4,), 4, 0.5)}, "4 numbers, the law 3"),
        ({"release": Release("x", law(3).law, 2.0, (3,), 4)}, "lie on a grid"),
        ({"release": Release("x", law(3).law, 0.0, (3,), 4)}, "must have noise"),
        ({"n": 0}, "number of records"),
        ({"n": 10.0}, "number of records"),
        ({"which": "forest"}, "which must be"),
        ({"which": "tree"}, "a tree needs batch"),
        ({"which": "tree", "batch": 2}, "a tree needs batch"),  # 4 rounds of 2 records do not hold 10
        ({"clip": 1e9}, "next to no noise"),
    ],
)
def test_refusals(change, words):
    assert renyi_noise(**GOOD).relation == "zero_out"
    with pytest.raises(DpconvexError, match=words):
        renyi_noise(**{**GOOD, **change})


def test_variates_that_are_too_inaccurate_are_refused():
    with pytest.raises(HypothesisError, match="too inaccurate"):
        claim(law(accuracy=0.01))
    with pytest.raises(InputError, match="distance"):
        Renyi(0.1, (), 1.5)
    with pytest.raises(InputError, match="rho"):
        Renyi(-0.1)
