"""Geometry of l_p: the constant of regularity against a search, strong convexity on pairs, and the map's inverse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpconvex.errors import InputError
from dpconvex.problem.geometry import dual_exponent, kappa, lp_norms, mirror_map, smooth_exponent

EXPONENTS, SIZES = (1.05, 1.2, 1.5, 1.8), (2, 50, 1000)


def _pairs(d: int, count: int):
    """Pairs of points: dense, spiky, sparse, and close to one another."""
    rng = np.random.default_rng(d)
    for k in range(count):
        x, y = rng.normal(size=(2, d)) * np.exp(rng.normal(size=(2, 1)))
        if k % 4 == 1:
            x, y = x**5, y**5
        elif k % 4 == 2:
            x, y = (v * (rng.random(d) < 0.2) for v in (x, y))
        elif k % 4 == 3:
            y = x + 0.01 * y
        yield x, y


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("p", EXPONENTS)
def test_the_mirror_map_is_strongly_convex(p, d):
    phi = mirror_map(p, d)
    for x, y in _pairs(d, 200):
        if (gap := float(lp_norms(x - y, p))) > 0.0:
            assert 2.0 * phi.divergence(x, y) >= gap**2 * (1.0 - 1e-9)


def test_the_map_of_the_published_constant_would_not_be_strongly_convex():
    """With kappa/(kappa - 1) = 2 in place of the dual exponent, p = 1.5: |w|_2^2 falls short once d > 8."""
    v = np.ones(27)
    assert 2.0 * float(v @ v) < float(lp_norms(v, 1.5)) ** 2 <= 2.0 * mirror_map(1.5, 27).divergence(v, 0 * v) + 1e-9


@pytest.mark.parametrize("d", [1, 2, 7, 8, 100, 10_000])
@pytest.mark.parametrize("q", [2.0, 2.5, 3.0, 8.0, 21.0, 1e3, math.inf])
def test_kappa_is_the_least_over_r(q, d):
    grid = np.linspace(2.0, min(q, 60.0), 200_001)
    least = float(((grid - 1.0) * d ** (2.0 / grid - 2.0 / q)).min())
    assert least * (1 - 1e-7) <= kappa(q, d) <= least * (1 + 1e-12)
    assert 2.0 <= smooth_exponent(q, d) <= q


def test_kappa_of_known_cases():
    assert kappa(math.inf, 100) == pytest.approx(22.1, abs=0.05)
    assert kappa(21.0, 100) == pytest.approx(14.3, abs=0.05)
    for d in (1, 2, 50, 1000):
        assert kappa(2.0, d) == 1.0
        values = [kappa(q, d) for q in (2.0, 2.1, 2.5, 3.0, 5.0, 10.0, 30.0, 100.0, 1e6, math.inf)]
        assert all(a <= b * (1 + 1e-15) for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("d", [1, 2, 50, 1000])
@pytest.mark.parametrize("p", [1.001, *EXPONENTS, 2.0])
def test_the_inverse_undoes_the_slope(p, d):
    phi, rng = mirror_map(p, d), np.random.default_rng(1)
    for scale in (1e-150, 1.0, 1e150):
        y = scale * rng.normal(size=d)
        np.testing.assert_allclose(phi.slope(phi.inverse(y)), y, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_array_equal(phi.inverse(np.zeros(d)), np.zeros(d))
    np.testing.assert_array_equal(phi.slope(np.zeros(d)), np.zeros(d))


@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
def test_the_slope_is_the_gradient(p):
    phi, w = mirror_map(p, 6), np.array([0.3, -1.2, 2.0, 0.7, -0.1, 0.9])
    for j in range(6):
        step = 1e-6 * np.eye(6)[j]
        numeric = (phi.value(w + step) - phi.value(w - step)) / 2e-6
        assert phi.slope(w)[j] == pytest.approx(numeric, rel=1e-6)


def test_norms_and_dual_exponents():
    rows = np.random.default_rng(2).normal(size=(5, 9))
    for p in (1.0, 1.3, 2.0, 7.0, math.inf):
        np.testing.assert_allclose(lp_norms(rows, p), np.linalg.norm(rows, p, axis=1), rtol=1e-13)
        assert dual_exponent(dual_exponent(p)) == pytest.approx(p)
    assert lp_norms(np.zeros((2, 0)), 3.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("q", [1.9, 0.0, -math.inf, math.nan, True, "3"])
def test_refuses_what_is_no_dual_exponent(q):
    with pytest.raises(InputError, match="q must be"):
        kappa(q, 10)


@pytest.mark.parametrize("d", [0, -1, 2.0, True])
def test_refuses_what_is_no_dimension(d):
    with pytest.raises(InputError, match="d must be"):
        kappa(3.0, d)


@pytest.mark.parametrize("p", [0.5, math.nan, "2", True])
def test_refuses_what_is_no_exponent(p):
    with pytest.raises(InputError, match="exponent"):
        dual_exponent(p)


@pytest.mark.parametrize("p", [1.0, 2.1, math.inf])
def test_no_mirror_map_beyond_its_range(p):
    with pytest.raises(InputError, match=r"\(1, 2\]"):
        mirror_map(p, 3)
