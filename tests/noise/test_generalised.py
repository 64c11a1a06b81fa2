"""Generalised Gaussian noise against its law: radius, moments by quadrature, the Gaussian cases, and the tails."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import chdtr, gammainc, gammaincc, ndtr

import dpconvex as dc
from dpconvex.errors import InputError
from dpconvex.noise.generalised import GeneralizedGaussian, _power_law, standard_generalised
from dpconvex.noise.source import Source
from dpconvex.problem.geometry import lp_norms


def draws(d, r, count, seed=0):
    stream = Source(seed).stream("law")
    return np.array([standard_generalised(stream, (d,), r) for _ in range(count)])


def kolmogorov(sample, law):
    x = np.sort(sample)
    cdf, steps = law(x), np.arange(len(x) + 1) / len(x)
    return max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()) * len(x) ** 0.5


@pytest.mark.parametrize(("d", "r"), [(1, 2.0), (2, 3.0), (10, 2.0), (10, 4.0), (50, 8.0), (100, 30.0)])
def test_the_squared_radius_is_chi_squared(d, r):
    squares = lp_norms(draws(d, r, 4000), r) ** 2
    assert abs(squares.mean() - d) < 3.0 * math.sqrt(2.0 * d / 4000)
    assert kolmogorov(squares, lambda x: chdtr(d, x)) < 1.95
    assert kolmogorov(1.2 * squares, lambda x: chdtr(d, x)) > 1.95  # the test can fail


@pytest.mark.parametrize("d", [1, 2, 20])
def test_r_of_two_is_standard_normal(d):
    sample = draws(d, 2.0, 20_000 // d)
    assert kolmogorov(sample.ravel(), ndtr) < 1.95
    assert kolmogorov(0.95 * sample.ravel(), ndtr) > 1.95
    if d > 1:
        assert kolmogorov((sample[:, 0] + sample[:, 1]) / math.sqrt(2.0), ndtr) < 1.95


@pytest.mark.parametrize("r", [2.0, 3.0, 8.0])
def test_one_dimension_is_normal_for_every_r(r):
    assert kolmogorov(draws(1, r, 20_000).ravel(), ndtr) < 1.95


@pytest.mark.parametrize("r", [2.0, 3.0, 4.0, 8.0])
def test_moments_in_two_dimensions_against_quadrature(r):
    grid = (np.arange(1500) + 0.5) * 0.006  # midpoints up to 9
    x, y = np.meshgrid(grid, grid)
    weight = np.exp(-((x**r + y**r) ** (2.0 / r)) / 2.0)
    sample = np.abs(draws(2, r, 15_000))
    for f in (lambda x, y: x, lambda x, y: x * x, lambda x, y: x * x * y * y, lambda x, y: np.minimum(x, y)):
        values = f(sample[:, 0], sample[:, 1])
        exact = (f(x, y) * weight).sum() / weight.sum()
        assert abs(values.mean() - exact) < 3.5 * values.std() / math.sqrt(len(values))


def test_entries_are_symmetric_and_alike():
    sample = draws(6, 4.0, 8000)
    assert np.abs(sample.mean(axis=0)).max() < 4.0 * sample.std() / math.sqrt(8000)
    assert np.abs((sample**2).mean(axis=0) / (sample**2).mean() - 1.0).max() < 0.06
    assert np.abs(np.corrcoef(sample, rowvar=False) - np.eye(6)).max() < 0.05


@pytest.mark.parametrize("r", [2.0, 3.0, 17.0])
def test_the_power_law_is_followed_and_its_quantiles_are_right(r):
    sample = _power_law(Source(1).stream("power"), 100_000, r)

    def law(x):
        return 0.5 + 0.5 * np.sign(x) * gammainc(1.0 / r, np.abs(x) ** r)

    assert kolmogorov(sample, law) < 1.95
    assert kolmogorov(1.02 * sample, law) > 1.95
    with mpmath.workdps(40):
        for bits in (2**62 // 1000, 2**61, 2**62 + 2**60, 2**63 - 2**40):
            size = abs(float(_power_law(_Words([2 * bits]), 1, r)[0]))
            found = mpmath.gammainc(mpmath.mpf(1) / r, 0, mpmath.mpf(size) ** r, regularized=True)
            assert float(found) == pytest.approx((bits + 0.5) * 2.0**-63, rel=1e-10)


class _Words:
    def __init__(self, words):
        self._words = words

    def words(self, count):
        return np.array(self._words, dtype=np.uint64)


@pytest.mark.parametrize("r", [2.0, 5.0, 40.0, 1e4])
def test_tails_are_finite_and_as_fine_as_the_centre(r):
    words = [0, 1, 2**64 - 1, 2**64 - 2, 2**63 - 1, 2**63]
    values = _power_law(_Words(words), 6, r)
    assert np.isfinite(values).all()
    assert values[0] == -values[1] > 0.0
    assert values[0] == pytest.approx(2.0**-64 * math.gamma(1.0 + 1.0 / r), rel=1e-12)
    assert gammaincc(1.0 / r, abs(values[2]) ** r) == pytest.approx(2.0**-64, rel=1e-6)
    assert abs(values[4]) == pytest.approx(abs(values[5]), rel=1e-12)  # where the two tails meet


def test_the_noise_of_a_source():
    noise = dc.noise.GeneralizedGaussian(1.5, 50, 3.0, Source(2))
    first, second = noise.draw(), noise.draw()
    assert first.shape == (50,)
    assert not np.intersect1d(first, second).size
    np.testing.assert_array_equal(first, GeneralizedGaussian(1.5, 50, 3.0, Source(2)).draw())
    np.testing.assert_array_equal(first, 3.0 * standard_generalised(Source(2).stream("generalised gaussian"), (50,), 3))
    squares = np.array([lp_norms(noise.draw(), noise.r) ** 2 for _ in range(2000)])
    assert squares.mean() == pytest.approx(50 * 9.0, abs=3.0 * squares.std() / math.sqrt(2000))
    assert (noise.r, GeneralizedGaussian(2.0, 9, 1.0, Source(0)).r) == (pytest.approx(3.0), 2.0)
    assert GeneralizedGaussian(1.01, 3, 1.0, Source(0)).r == 2.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p": 1.0}, "p must lie"),
        ({"p": 2.5}, "p must lie"),
        ({"p": math.nan}, "exponent"),
        ({"d": 0}, "d must be"),
        ({"d": 2.0}, "d must be"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": math.inf}, "sigma"),
        ({"sigma": "1"}, "sigma"),
        ({"source": 7}, "source"),
    ],
)
def test_refusals(change, words):
    with pytest.raises(InputError, match=words):
        GeneralizedGaussian(**{"p": 1.5, "d": 4, "sigma": 1.0, "source": Source(0), **change})


@pytest.mark.parametrize("r", [1.9, math.inf, math.nan])
def test_no_noise_of_other_exponents(r):
    with pytest.raises(InputError, match="at least 2"):
        standard_generalised(Source(0).stream("x"), (3,), r)
