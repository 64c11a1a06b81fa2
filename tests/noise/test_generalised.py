"""Generalised Gaussian noise against its law: radius, moments by quadrature, the Gaussian cases, and the tails."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import chdtr, gammainc, gammaincc, ndtr

from dpconvex.errors import InputError
from dpconvex.noise.generalised import _Digits, _settled, _tried, fill, rounded_generalised, rounded_laplace
from dpconvex.noise.source import Source
from dpconvex.problem.geometry import lp_norms


def draws(d, r, count, seed=0):
    stream = Source(seed).stream("law")
    return np.array([rounded_generalised(stream, np.zeros(d), 1.0, 2.0**-30, r) for _ in range(count)])


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
    assert kolmogorov(0.93 * sample.ravel(), ndtr) > 1.95
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


@pytest.mark.parametrize("r", [1.0, 2.0, 3.0, 17.0])
def test_the_power_law_is_followed(r):
    sample = _Digits.draw(Source(1).stream("power"), 100_000, r).sizes

    def law(x):
        return 0.5 + 0.5 * np.sign(x) * gammainc(1.0 / r, np.abs(x) ** r)

    assert kolmogorov(sample, law) < 1.95
    assert kolmogorov(1.03 * sample, law) > 1.95
    assert (np.sort(np.abs(sample)) > 1.0).mean() == pytest.approx(gammaincc(1.0 / r, 1.0), abs=6e-3)


class Words:
    """A stream that gives chosen words, then zeros."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) if self.left else 0 for _ in range(count)], dtype=np.uint64)


def kept(first, cell, height, r):
    """What float64 says of one try: True, False, or None where it is not certain."""
    room = np.empty(1), np.empty(1, dtype=np.int64), np.empty(1, dtype=np.uint64)
    done, _, open_ = fill(np.array([[first, cell, height]], dtype=np.uint64), 0, r, *room, 0)
    return None if open_ else bool(done)


@pytest.mark.parametrize("r", [1.0, 2.0, 3.7, 11.0])
@pytest.mark.parametrize("j", [0, 1, 2, 5])
def test_tries_at_the_edge_are_decided_by_more_words_as_in_high_precision(r, j):
    rng = np.random.default_rng(0)
    first = 2 << j | 1
    for cell in [0, 2**64 - 1, *(int(c) for c in rng.integers(0, 2**64, 6, dtype=np.uint64))]:
        with mpmath.workdps(80):
            edge = mpmath.mpf(2) ** (64 + j) * mpmath.exp(-((j + (cell + mpmath.mpf(0.5)) / 2**64) ** r))
            height = int(mpmath.floor(edge))
        if height < 2**20 or height >= 2**64 - 2**20:
            continue
        assert kept(first, cell, height, r) is None
        assert _tried(Words(2**63 + 1, 0), first, cell, height - 2**19, r) == (1, j, cell, 64)
        assert _tried(Words(2**63 + 1, 0), first, cell, height + 2**19, r) is None
        fraction = int((edge - height) * mpmath.mpf(2) ** 64)
        for further, wanted in ((fraction - 2**62, True), (fraction + 2**62, False)):
            if 0 <= further < 2**64:
                found = _tried(Words(2**63, further), first, cell, height, r)
                assert (found == (1, j, cell << 64 | 2**63, 128)) if wanted else found is None
        for off in (-(2**45), 2**45):
            if 0 < height + off < 2**64:
                assert kept(first, cell, height + off, r) in (off < 0, None)


@pytest.mark.parametrize("r", [2.0, 6.0])
def test_tries_away_from_the_edge_are_decided_in_float64_and_rightly(r):
    words = Source(4).stream("x").words(3000).reshape(-1, 3)
    found = [kept(*map(int, row), r) for row in words]
    assert None not in found
    for row, kept_ in zip(words[:300], found, strict=False):
        assert (_tried(Words(), *map(int, row), r) is not None) == kept_


def test_variates_are_not_bounded():
    """Inverting 64 bits reached 6.7 for r = 2; here words of zeros, the least likely ones, keep any whole part."""
    for j in (9, 20, 30):
        sign, whole, _, bits = _tried(Words(), 2 << j, 0, 0, 2.0)
        assert (sign, whole) == (-1, j)
        assert bits > 64
    assert kept(1, 0, 0, 2.0) is None


def high_precision(radial, angular, r):
    """The noise of some digits, to 60 places."""
    with mpmath.workdps(60):
        h, g = ([mpmath.mpf(str(x)) for x in digits.decimals()] for digits in (radial, angular))
        stretch = mpmath.sqrt(2 * sum(x * x for x in h)) / sum(abs(x) ** r for x in g) ** (1 / mpmath.mpf(r))
        return [stretch * x for x in g]


def test_vectors_are_rounded_as_in_high_precision():
    """On a grid so fine that some are decided in decimals, and on a coarser one where hardly any are."""
    longer = 0
    for seed in range(80):
        d, r, grid = 1 + seed % 5, 2.0 + seed % 7 / 2.0, 2.0 ** -(42 if seed % 2 else 20)
        value, stream = np.random.default_rng(seed).normal(size=d), Source(seed).stream("x")
        found = rounded_generalised(stream, value, 0.7, grid, r) / grid
        again = Source(seed).stream("x")
        radial, angular = _Digits.draw(again, d, 2.0), _Digits.draw(again, d, r)
        more = stream.drawn > again.drawn
        if more:
            radial, angular = radial.longer(again), angular.longer(again)
        longer += more
        with mpmath.workdps(60):
            sums = [
                (v + mpmath.mpf(0.7) * x) / grid for v, x in zip(value, high_precision(radial, angular, r), strict=True)
            ]
            np.testing.assert_array_equal(found, [float(mpmath.nint(x)) for x in sums])
    assert 5 < longer < 40


def test_vectors_between_multiples_take_more_digits():
    """Values that bring all entries to the middle of two multiples. The mutant is float64 alone, which errs there."""
    wrong = 0
    for seed in range(30):
        stream = Source(seed).stream("x")
        radial, angular = _Digits.draw(stream, 3, 2.0), _Digits.draw(stream, 3, 4.0)
        place = stream.drawn
        free = np.array([float(x) for x in high_precision(radial, angular, 4.0)])
        value = np.round(free * 2.0**20) * 2.0**-20 + 2.0**-21 - free
        taken = Source(seed).stream("x")
        found = rounded_generalised(taken, value, 1.0, 2.0**-20, 4.0)
        assert taken.drawn == place + 6
        noise = high_precision(radial.longer(stream), angular.longer(stream), 4.0)
        with mpmath.workdps(60):
            wanted = [float(mpmath.nint((mpmath.mpf(v) + x) * 2**20)) for v, x in zip(value, noise, strict=True)]
        np.testing.assert_array_equal(found * 2.0**20, wanted)
        plain = math.sqrt(2.0) * np.linalg.norm(radial.sizes) / lp_norms(angular.sizes, 4.0) * angular.sizes
        wrong += int((np.rint((value + plain) * 2.0**20) != wanted).sum())
    assert wrong > 5


def test_values_that_are_not_finite_are_released_like_others():
    noisy = rounded_generalised(Source(0).stream("x"), np.array([math.nan, math.inf, -1e300]), 1.0, 2.0**-20, 3.0)
    assert abs(noisy[0]) < 40.0
    assert noisy[1] == pytest.approx(2.0**32)
    assert noisy[2] == pytest.approx(-(2.0**32))


@pytest.mark.parametrize("r", [1.9, math.inf, math.nan])
def test_no_noise_of_other_exponents(r):
    with pytest.raises(InputError, match="at least 2"):
        rounded_generalised(Source(0).stream("x"), np.zeros(3), 1.0, 2.0**-20, r)


def test_no_grid_that_is_not_a_power_of_two():
    with pytest.raises(InputError, match="power of two"):
        rounded_generalised(Source(0).stream("x"), np.zeros(3), 1.0, 1e-6, 3.0)


# Laplace noise ------------------------------------------------------------------------------------------------------


def test_rounded_laplace_noise_has_the_law_of_the_rounded_variate():
    scale, offset, count = 1.7, 0.3, 200_000
    found = rounded_laplace(Source(2).stream("laplace"), np.full(count, offset), scale, 1.0)
    below = [
        0.5 * math.exp(-abs(x)) if x < 0 else 1 - 0.5 * math.exp(-x) for x in (np.arange(-9, 9) + 0.5 - offset) / scale
    ]
    expected = np.diff(below)
    counts = np.array([(found == k).sum() for k in range(-8, 9)])
    assert ((counts - count * expected) ** 2 / (count * expected)).sum() < 42.0  # chi-squared, 17 cells
    assert abs(found).max() > 15.0


def test_places_that_float64_leaves_open_are_decided_as_fractions_say():
    ratio = 2.0**40
    stream = Source(3).stream("laplace")
    noisy = rounded_laplace(stream, np.full(2000, 0.25), 1.0, 1.0 / ratio)
    assert (noisy * ratio == np.rint(noisy * ratio)).all()
    digits = _Digits(np.array([0.75]), np.array([0]), [3 << 62], np.array([64]))  # 3/4 and what further digits say
    for further, wanted in ((0, 1), (2**63, 1), (2**64 - 1, 1)):
        assert _settled(Words(further), digits, 0, Fraction(0), Fraction(1)) == wanted
    digits = _Digits(np.array([0.5]), np.array([0]), [1 << 63], np.array([64]))  # just above a half
    assert _settled(Words(1), digits, 0, Fraction(0), Fraction(1)) == 1
    assert _settled(Words(1), digits._replace(sizes=np.array([-0.5])), 0, Fraction(0), Fraction(1)) == -1
    below = digits._replace(cells=[(1 << 63) - 1])
    assert _settled(Words(2**64 - 1, 2**63), below, 0, Fraction(0), Fraction(1)) == 0
    assert _settled(Words(5), digits, 0, Fraction(-1, 2**70), Fraction(1)) in (0, 1)


def test_values_of_laplace_noise_are_clamped_and_nothing_is_not_a_number():
    given = np.array([math.nan, math.inf, -math.inf, 1e308, 0.0])
    noisy = rounded_laplace(Source(4).stream("laplace"), given, 1.0, 2.0**-20)
    assert np.isfinite(noisy).all()
    assert noisy[1] == pytest.approx(2.0**32)
    assert abs(noisy[0]) < 100.0
    with pytest.raises(InputError, match="power of two"):
        rounded_laplace(Source(4).stream("laplace"), given, 1.0, 0.3)
