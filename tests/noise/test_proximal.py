"""Gibbs laws by a walk: its distance from the law against quadrature, what is accepted, and who is refused."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from dpconvex.errors import InputError
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, gibbs_law
from dpconvex.noise.proximal import (
    GibbsProximal,
    Margins,
    _centre,
    computed_error,
    least_share,
    longest_step,
    rounds_needed,
    walk_distance,
)
from dpconvex.noise.source import Source
from dpconvex.problem.domains import Box, L2Ball

P_VALUE = 1e-3  # fixed beforehand, as are seeds and sizes


def some_margins(rng, d, rounded, n=12, steep=4.0):
    rows = rng.normal(size=(d, n))
    rows /= np.linalg.norm(rows, axis=0)
    return Margins(rows / 0.1, rng.uniform(-0.6, 0.6, n) / 0.1, 0.1 * rng.uniform(0.2, 1.0, n) * steep, rounded)


def curvature(part):
    return float((part.weights * (part.columns**2).sum(axis=0)).sum()) * (0.5 if part.rounded else 0.25)


def phi(part, p):
    return np.where(p <= -1, 0.0, np.where(p >= 1, p, (p + 1) ** 2 / 4)) if part.rounded else np.logaddexp(0.0, p)


def potential(law, x):
    value = x @ law.base.tilt + law.base.curvature / 2 * (x**2).sum(axis=-1)
    return value + sum(phi(part, x @ part.columns - part.offsets) @ part.weights for part in law.parts)


def some_law(rng, box, rounds=60, d=2):
    base = (
        GibbsBox(2.0 * rng.normal(size=d), 30.0, -0.5, 1.0) if box else GibbsBall(2.0 * rng.normal(size=d), 30.0, 1.0)
    )
    parts = [some_margins(rng, d, True), some_margins(rng, d, False)]
    smooth = sum(map(curvature, parts))
    return GibbsProximal(base, parts, smooth, min(longest_step(base.domain, d), 1.5 / smooth), rounds)


@pytest.mark.parametrize("rounded", [True, False])
def test_margins_against_their_formula(rounded):
    rng = np.random.default_rng(0)
    part = some_margins(rng, 3, rounded)
    for scale in (1e-9, 1e-3, 1.0):
        x = rng.normal(size=3)
        y = x + scale * rng.normal(size=3)
        p = part.at(x)
        plain = float(part.weights @ (phi(part, part.at(y)) - phi(part, p)))
        assert part.rise(x, y) == pytest.approx(plain, abs=1e-12)
        slopes = part.slopes(p)
        tangent = plain - part.gradient(slopes) @ (y - x)
        assert part.above(p, slopes, (y - x) @ part.columns) == pytest.approx(tangent, abs=1e-12)
        assert part.above(p, slopes, (y - x) @ part.columns) >= -1e-13
        step = 1e-6 * rng.normal(size=3)
        assert part.rise(x - step, x + step) == pytest.approx(2 * part.gradient(slopes) @ step, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("box", [False, True])
def test_the_distance_in_two_dimensions_is_below_the_bound_by_quadrature(box):
    """The kernel of a round on a grid: what is left after k rounds from the middle, for all k."""
    law = some_law(np.random.default_rng(5), box)
    lo, hi = (-0.5, 1.0) if box else (-1.0, 1.0)
    cells = 44
    axis = lo + (hi - lo) * (np.arange(cells) + 0.5) / cells
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    if not box:
        x = x[(x**2).sum(axis=1) <= 1.0]
    h = law.step
    mass = np.exp(-(potential(law, x) - potential(law, x).min()))
    target = mass / mass.sum()
    wide = np.stack(np.meshgrid(*(2 * [np.arange(lo - 0.75, hi + 0.75, (hi - lo) / cells)]), indexing="ij"), axis=-1)
    y = wide.reshape(-1, 2)
    forward = np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2) / (2.0 * h))
    back = (mass[:, None] * forward).T  # law of x given y
    back /= back.sum(axis=1, keepdims=True)
    forward /= forward.sum(axis=1, keepdims=True)
    middle = np.full(2, (lo + hi) / 2.0 if box else 0.0)
    now = np.exp(-((y - middle) ** 2).sum(axis=1) / (2.0 * h))
    now = (now / now.sum()) @ back
    radius = law.base.domain.diameter(2) / 2.0
    found = []
    for k in range(1, 61):
        bound = walk_distance(radius, law.base.curvature, h, k)
        off = 0.5 * float(np.abs(now - target).sum())
        assert off <= bound + 1e-12, (k, off, bound)
        found.append(off)
        now = (now @ forward) @ back
    assert found[0] > 0.1 > 1e-5 > found[-1]


@pytest.mark.parametrize("box", [False, True])
def test_points_in_two_dimensions_against_a_grid(box):
    law = some_law(np.random.default_rng(1), box)
    need = rounds_needed(law.base.domain.diameter(2) / 2.0, law.base.curvature, law.step, 1e-2)
    law = GibbsProximal(law.base, law.parts, law.smoothness, law.step, need)
    drawn = law.draw(Source(3).stream("x"), 150)
    lo, hi = (-0.5, 1.0) if box else (-1.0, 1.0)
    grid = lo + (hi - lo) * (np.arange(400) + 0.5) / 400
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    v = potential(law, x.reshape(-1, 2)).reshape(400, 400)
    mass = np.where(True if box else (x**2).sum(axis=-1) <= 1.0, np.exp(-(v - v.min())), 0.0)
    for j in range(2):
        cdf = np.append(0.0, np.cumsum(mass.sum(axis=1 - j)))
        ends = np.linspace(lo, hi, 401)
        assert kstest(np.interp(drawn[:, j], ends, cdf / cdf[-1]), "uniform").pvalue > P_VALUE
    assert (law.base.domain.project(drawn[0]) == drawn[0]).all()


def test_linear_losses_are_met_exactly():
    """Without losses the law is that of the base, which can be drawn: the same in twenty dimensions."""
    base = GibbsBall(np.r_[-30.0, np.zeros(19)], 60.0, 1.0)
    none = Margins(np.zeros((20, 0)), np.zeros(0), np.zeros(0), True)
    law = GibbsProximal(base, [none], 0.0, longest_step(base.domain, 20), 250)
    assert law.distance < 1e-2
    one, other = law.draw(Source(1).stream("x"), 60), base.draw(Source(2).stream("x"), 20_000)
    assert kstest(one[:, 0], other[:, 0]).pvalue > P_VALUE
    assert kstest(np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)).pvalue > P_VALUE


@pytest.mark.parametrize("domain", [L2Ball(1.0), Box(-0.3, 0.5)])
@pytest.mark.parametrize("d", [2, 5, 20])
def test_enough_proposals_are_accepted_wherever_the_law_lies(domain, d):
    """Losses that are all alike, with the kink in the middle, at the boundary or far outside."""
    way = np.ones(d) / math.sqrt(d)
    for place in (-3.0, 0.0, 0.9 * float(domain.reach(d)), 3.0):
        part = Margins(way[:, None] / 0.05 * np.ones((1, 50)), np.full(50, place / 0.05), np.full(50, 0.4), True)
        base = gibbs_law(domain, -400.0 * way, 50.0)
        law = GibbsProximal(base, [part], curvature(part), min(longest_step(domain, d), 1.5 / curvature(part)), 40)
        tries, above = [], Margins.above

        def counted(self, *args, tries=tries, above=above):
            tries.append(1)
            return above(self, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Margins, "above", counted)
            law.draw(Source(0).stream("x"))
        assert 40.0 / len(tries) >= least_share(domain, 1.5)


def test_the_mean_on_a_box_is_nearly_exact():
    for place in np.linspace(-3.0, 1.5, 91):  # a box eight deviations wide, in the worst case
        law = GibbsBox(np.array([-64.0 * place]), 64.0, -0.5, 0.5)
        a, b = 8.0 * (-0.5 - place), 8.0 * (0.5 - place)
        sign = -1.0 if a > 0.0 else 1.0  # from the side where the tails are small
        whole = norm.cdf(sign * max(sign * a, sign * b)) - norm.cdf(sign * min(sign * a, sign * b))
        if abs(whole) > 1e-12:
            mean = place + (norm.pdf(a) - norm.pdf(b)) / (8.0 * abs(whole))
            assert abs(float(_centre(law, np.zeros(1))[0]) - mean) * 8.0 <= 2e-4


def test_more_rounds_and_longer_steps_bring_a_walk_closer():
    assert walk_distance(1.0, 10.0, 0.01, 1) == 1.0
    assert walk_distance(1.0, 10.0, 0.01, 400) < walk_distance(1.0, 10.0, 0.01, 300) < 1e-8
    assert rounds_needed(1.0, 10.0, 0.02, 1e-12) < rounds_needed(1.0, 10.0, 0.01, 1e-12)
    for distance in (0.5, 1e-3, 1e-15):
        k = rounds_needed(2.0, 30.0, 1e-3, distance)
        assert walk_distance(2.0, 30.0, 1e-3, k) <= distance
    few, many = (computed_error(5, 1.0, 30.0, 1e-3, k, 0.1, 1e-12) for k in (10, 10_000))
    assert 0.0 < few < many < 1e-11  # what went wrong long ago is forgotten
    assert many < 10_000 / 10 * few


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"base": GibbsBall(np.zeros(2), 0.0, 1.0)}, "positive curvature"),
        ({"parts": [Margins(np.zeros((3, 0)), np.zeros(0), np.zeros(0), True)]}, "dimension 2"),
        ({"smoothness": math.inf}, "smoothness"),
        ({"smoothness": -1.0}, "smoothness"),
        ({"step": 0.0}, "step"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"rounds": 2.0}, "rounds"),
    ],
)
def test_walks_that_are_refused(change, words):
    good = {"base": GibbsBall(np.zeros(2), 1.0, 1.0), "parts": [], "smoothness": 0.0, "step": 0.1, "rounds": 2}
    assert GibbsProximal(**good).draw(Source(0).stream("x")).shape == (1, 2)
    with pytest.raises(InputError, match=words):
        GibbsProximal(**{**good, **change})


@pytest.mark.parametrize(
    "bad",
    [
        {"columns": np.zeros(2)},
        {"offsets": np.zeros(3)},
        {"weights": np.array([1.0, -1.0])},
        {"offsets": np.array([0.0, math.nan])},
        {"columns": np.full((1, 2), math.inf)},
    ],
)
def test_margins_that_are_refused(bad):
    good = {"columns": np.ones((1, 2)), "offsets": np.zeros(2), "weights": np.ones(2), "rounded": True}
    with pytest.raises(InputError):
        Margins(**{**good, **bad})
