"""Gibbs laws of logistic losses: against integration, and the bound on how often proposals are accepted."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import kstest

from dpconvex.errors import InputError
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, GibbsInterval
from dpconvex.noise.rejection import _GAP, GibbsRejection, least_acceptance
from dpconvex.noise.source import Source

P_VALUE = 1e-3  # fixed beforehand, as are seeds and sizes


def some_law(rng, d, box=False, tries=10**4):
    """A law of any shape: flat or steep, in the middle of its domain or at the edge."""
    n, curvature = int(rng.integers(1, 60)), 10 ** rng.uniform(-1, 2)
    tilt = rng.normal(size=d) * 10 ** rng.uniform(-1, 2.5)
    base = GibbsBox(tilt, curvature, -0.5, 1.0) if box else GibbsBall(tilt, curvature, 1.5)
    rows = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1)
    weights = rng.uniform(size=n) * curvature * 10 ** rng.uniform(-2, 0.5) / max(1.0, float((rows**2).sum() / n))
    return GibbsRejection(base, rows, weights, 0.25 * float(weights @ (rows**2).sum(axis=1)), tries)


def potential(law, x):
    return (
        x @ law.base.tilt + law.base.curvature / 2 * (x**2).sum(axis=-1) + np.logaddexp(0, x @ law.rows.T) @ law.weights
    )


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_points_in_two_dimensions_against_a_grid(seed, box):
    law = some_law(np.random.default_rng(seed), 2, box)
    drawn = law.draw(Source(seed).stream("x"), 4000)
    lo, hi = (-0.5, 1.0) if box else (-1.5, 1.5)
    grid = lo + (hi - lo) * (np.arange(800) + 0.5) / 800
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    v = potential(law, x.reshape(-1, 2)).reshape(800, 800)
    inside = True if box else (x**2).sum(axis=-1) <= 1.5**2
    mass = np.where(inside, np.exp(-(v - v.min())), 0.0)
    for j in range(2):
        cdf = np.append(0.0, np.cumsum(mass.sum(axis=1 - j)))
        ends = np.linspace(lo, hi, 801)
        assert kstest(np.interp(drawn[:, j], ends, cdf / cdf[-1]), "uniform").pvalue > P_VALUE
    assert (drawn >= lo).all()
    assert (drawn <= hi).all()


@pytest.mark.parametrize("box", [False, True])
def test_the_bound_on_acceptance_holds_by_integration(box):
    """In one dimension, 300 laws: share of accepted proposals = mean of exp(-rise above the tangent), on a grid."""
    rng, closest = np.random.default_rng(7), 0.0
    lo, hi = (-0.5, 1.0) if box else (-1.5, 1.5)
    x = np.linspace(lo, hi, 4001)
    for _ in range(300):
        law = some_law(rng, 1, box)
        at = law._least()
        slopes = law.weights * expit(law.rows @ at)
        tangent = (law.base.tilt + slopes @ law.rows)[0] * x + law.base.curvature / 2 * x**2
        envelope = np.exp(-(tangent - tangent.min()))
        above = law._above(x[:, None], at, slopes)
        share = float((envelope * np.exp(-above)).sum() / envelope.sum())
        stated = least_acceptance(1, law.base.curvature, law.smoothness)
        assert share >= stated
        assert above.min() > -1e-9 * max(1.0, float(law.weights.sum()))
        closest = max(closest, stated / share)
    assert closest > 0.9


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("d", [1, 4, 30])
def test_the_tangent_is_taken_where_the_whole_is_least(d, box):
    rng = np.random.default_rng(d)
    for _ in range(60):
        law = some_law(rng, d, box)
        x = law._least()
        g = law.base.tilt + law.base.curvature * x + (law.weights * expit(law.rows @ x)) @ law.rows
        far = -np.where(g > 0, -0.5, 1.0) @ g if box else 1.5 * np.linalg.norm(g)
        assert far + g @ x <= _GAP + 1e-9
        assert np.linalg.norm(x) <= 1.5 + 1e-12 if not box else x.min() >= -0.5


def test_the_error_is_that_of_tries_that_all_fail():
    """With few tries the law is off, and by no more than is said: total variation on a grid of cells."""
    base, rows = GibbsBall(np.zeros(1), 0.2, 4.0), np.array([[3.0], [-3.0]])
    for tries in (1, 2, 4):
        law = GibbsRejection(base, rows, np.array([2.0, 2.0]), 9.0, tries)
        edges = np.linspace(-4.0, 4.0, 41)
        fine = np.linspace(-4.0, 4.0, 40_001)
        mass = np.exp(-(potential(law, fine[:, None]) - potential(law, np.zeros((1, 1)))))
        exact = np.histogram(fine, edges, weights=mass)[0] / mass.sum()
        drawn = law.draw(Source(tries).stream("x"), 40_000)[:, 0]
        off = 0.5 * np.abs(np.histogram(drawn, edges)[0] / 40_000 - exact).sum()
        assert off <= law.tv_error + 0.02
        if tries == 1:
            assert off > 0.3
        assert law.tv_error == pytest.approx((1 - math.exp(-0.05) / math.sqrt(46.0)) ** tries)


def test_without_losses_it_is_the_base():
    base = GibbsBox(np.array([1.0, -2.0]), 3.0, -1.0, 1.0)
    law = GibbsRejection(base, np.zeros((0, 2)), np.zeros(0), 0.0, 5)
    x = law.draw(Source(3).stream("x"), 5000)
    fresh = base.draw(Source(4).stream("x"), 5000)
    assert all(kstest(x[:, j], fresh[:, j]).pvalue > P_VALUE for j in range(2))


@pytest.mark.parametrize(
    "change",
    [
        {"base": GibbsBall(np.zeros(2), 0.0, 1.0)},
        {"base": GibbsInterval(0.0, np.zeros(0), np.zeros(0), 1.0, 0.0, -1.0, 1.0)},
        {"rows": np.ones((3, 1))},
        {"rows": np.full((3, 2), math.nan)},
        {"weights": -np.ones(3)},
        {"weights": np.full(3, math.inf)},
        {"smoothness": -1.0},
        {"smoothness": math.nan},
        {"tries": 0},
    ],
)
def test_laws_that_are_none_are_refused(change):
    good = {
        "base": GibbsBall(np.zeros(2), 1.0, 1.0), "rows": np.ones((3, 2)), "weights": np.ones(3), "smoothness": 2.0,
        "tries": 9,
    }  # fmt: skip
    GibbsRejection(**good)
    with pytest.raises(InputError):
        GibbsRejection(**{**good, **change})
