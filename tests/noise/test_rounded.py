"""The rounded Gaussian against high precision: every kind of word, its law by chi-square, and its edges."""

from __future__ import annotations

import math
import random
import sys
from itertools import pairwise, repeat

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from dpconvex.errors import InputError
from dpconvex.noise import inversion, rounded
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.rounded import rounded_gaussian
from dpconvex.noise.source import Source
from dpconvex.pairs import two_sum

MIDDLE = (1 << 63,)
END = 16  # words that a variate may ask for in these tests


class Forced:
    """A stream whose words are given, and for each place the same further words, followed by zeros."""

    def __init__(self, words, further=MIDDLE):
        self._words, self._further, self.drawn = np.array(words, dtype=np.uint64), further, 0

    def words(self, count):
        self.drawn += count
        return self._words[self.drawn - count : self.drawn]

    def beside(self, place):
        assert 0 <= place < len(self._words)
        return Forced([*self._further, *[0] * (END - len(self._further))])


def drawn(words, value, ratio, further=MIDDLE):
    """Multiples of the grid that these words lead to."""
    values = np.full(len(words), value, dtype=float)
    return rounded_gaussian(Forced(words, further), values, ratio, 1.0).astype(int).tolist()


def is_nearest(whole, word, value, ratio, further=MIDDLE):
    """Whether value + ratio z is next to that whole number, z the variate of a word and its further words: 700 bits."""
    with mpmath.workdps(220):
        tail = sum(mpmath.ldexp(w, -64 * k) for k, w in enumerate((word >> 1, *further), 1))
        probability = 1 - tail if word & 1 else tail
        low, high = (
            mpmath.ncdf((whole + side - mpmath.mpf(value)) / mpmath.mpf(ratio))
            for side in (mpmath.mpf("-0.5"), mpmath.mpf("0.5"))
        )
        return low < probability < high


def straddling(value, ratio, boundary):
    """The word whose cell of tail probability holds a boundary between whole numbers, and where in the cell that is."""
    with mpmath.workdps(220):
        bound = (mpmath.mpf(boundary) - mpmath.mpf(value)) / mpmath.mpf(ratio)
        tail = mpmath.erfc(abs(bound) / mpmath.sqrt(2)) / 2 * 2**64
        cell = int(mpmath.floor(tail))
        share = (tail - cell) * 2**64
        return cell << 1 | (bound > 0), int(share), int((share - int(share)) * 2**64)


TAILS = [0, 1, 2, 3, 5, 2**10, 2**30, 2**44, 2**45 - 1, 2**45, 2**45 + 1, 2**50, 2**60, 2**62, 2**63 - 1]


@pytest.mark.parametrize("ratio", [0.125, 1.0, 2.0**20 / 3.0, 2.0**40])
def test_every_size_of_tail_on_both_sides(ratio):
    words = [tail << 1 | side for tail in TAILS for side in (0, 1)]
    words += np.random.default_rng(0).integers(0, 2**64, 20, dtype=np.uint64).tolist()
    for value in (0.0, 0.3, -12.5):
        found = drawn(words, value, ratio)
        assert all(is_nearest(whole, word, value, ratio) for whole, word in zip(found, words, strict=True))


@pytest.mark.parametrize("further", [(0, 0, 5), (0, 0, 0, 0, 2**63), (2**64 - 1,) * 3 + (2**63,), (1,), (2**44,)])
@pytest.mark.parametrize("ratio", [1.0, 1e6])
def test_the_support_has_no_end(ratio, further):
    for word in (0, 1, 2, 3):
        (whole,) = drawn([word], 0.2, ratio, further)
        assert is_nearest(whole, word, 0.2, ratio, further)
    assert abs(drawn([1], 0.2, ratio, (0, 0, 0, 0, 2**63))[0]) > 20.0 * ratio


CELLS = [(0.0, 1.0), (0.3, 0.125), (-0.7, 3.0), (0.25, 1e5), (7.1, 2.0**33)]


def mistakes(draw=drawn):
    """Wrong results among words whose cells hold a boundary, on each side of it."""
    wrong = 0
    for value, ratio in CELLS:
        for sigmas in (-7.0, -4.6, -1.0, 0.01, 0.6, 3.0, 4.63, 8.9):
            boundary = math.floor(value + sigmas * ratio) + 0.5
            word, share, _ = straddling(value, ratio, boundary)
            found = [draw([word], value, ratio, (further,))[0] for further in (share - 1, share + 1)]
            outer, inner = (boundary + 0.5, boundary - 0.5) if word & 1 else (boundary - 0.5, boundary + 0.5)
            wrong += found != [outer, inner]  # less of the tail is farther out
    return wrong


def test_a_cell_that_holds_a_boundary_is_split_where_it_lies():
    assert mistakes() == 0


def without_integers(patch):
    honest = inversion.round_sum
    patch.setattr(inversion, "round_sum", lambda *arguments: honest(*arguments) * 0)


def without_room(patch):
    patch.setattr(rounded, "ERROR", 0.0)


def without_further_words(patch):
    patch.setattr(rounded, "_further", lambda stream, place: repeat(2**63))


@pytest.mark.parametrize("mutant", [without_integers, without_room, without_further_words])
def test_mutants_are_found(mutant, monkeypatch):
    mutant(monkeypatch)
    assert mistakes() > 0


def verdicts(compare, count=40, seed=5):
    """Wrong verdicts of pairs about the cell that holds a boundary and its two neighbours, and about cells far away."""
    rng, wrong = random.Random(seed), 0
    for _ in range(count):
        value, ratio = rng.uniform(-0.5, 0.5), 2.0 ** rng.uniform(-3.0, 40.0)
        sigmas = rng.choice((1e-9, 1e-3, 0.1, 1.0, 2.0, 3.0, 4.0, 4.6)) * rng.uniform(0.5, 1.0)
        boundary = math.floor(value + sigmas * ratio) + 0.5
        if not 0.0 < boundary - value < 4.62 * ratio:
            continue
        word, share, _ = straddling(value, ratio, boundary)
        assert 2**40 < share < 2**64 - 2**40  # so far from the next cells pairs have to tell
        high, low = two_sum(boundary, -value)
        for cell, right in ((-(2**44), 1), (-1, 1), (0, 0), (1, -1), (2**44, -1)):
            tail = (word >> 1) + cell
            if tail < 2**63:
                wrong += compare(high, low, ratio, np.uint64(tail)) != right
    return wrong


def test_pairs_tell_on_which_side_of_every_cell_but_its_own_a_boundary_lies():
    assert verdicts(inversion.compare_pairs, 400) == 0


@pytest.mark.parametrize("mutant", ["low parts of products", "low parts of sums", "sqrt(2 pi)", "terms", "cell"])
def test_pairs_that_are_no_pairs_are_found(mutant, monkeypatch):
    plain = inversion._compare_pairs
    assert verdicts(plain) == 0
    if mutant == "low parts of products":
        monkeypatch.setattr(inversion, "times", lambda a, a_low, b, b_low: (a * b, 0.0))
    if mutant == "low parts of sums":
        monkeypatch.setattr(inversion, "plus", lambda a, a_low, b, b_low: (a + b, 0.0))
    if mutant == "sqrt(2 pi)":
        monkeypatch.setattr(inversion, "_ROOT_TWO_PI", (inversion._ROOT_TWO_PI[0], 0.0))
    if mutant == "terms":
        monkeypatch.setattr(inversion, "_LAST", 2.0**-50)
    if mutant == "cell":
        monkeypatch.setattr(inversion, "_ROOM", -(2.0**-64))
    assert verdicts(plain) > 0


def test_pairs_know_the_root_of_two_pi():
    with mpmath.workdps(60):
        exact, (high, low) = mpmath.sqrt(2 * mpmath.pi), inversion._ROOT_TWO_PI
        assert abs((mpmath.mpf(high) + mpmath.mpf(low)) / exact - 1) < 2.0**-108


@pytest.mark.parametrize(("ratio", "least"), [(2.0**37 / 1.7, 200), (2.0**40, 5000)])
def test_pairs_say_what_integers_say(ratio, least, monkeypatch):
    """All that float64 leaves open, and what pairs do is to ask integers for next to nothing of it."""
    words = np.random.default_rng(9).integers(0, 2**64, 100_000, dtype=np.uint64)
    values = np.random.default_rng(10).normal(size=words.size) * 10.0
    found, unsure = np.empty(words.size), np.zeros(words.size, dtype=np.bool_)
    inversion.invert(words, found)
    normal = found.copy()
    left = inversion.round_sum(words, values, ratio, 1.0, rounded.limits(), found, unsure)
    assert left == unsure.sum() <= 3
    first, open_ = normal.copy(), np.zeros(words.size, dtype=np.bool_)
    error, deep, most = rounded.limits()
    with monkeypatch.context() as patch:
        patch.setattr(inversion, "nearest", lambda word, offset, x, ratio: (0.0, False))
        assert inversion._round_sum(words, values, ratio, 1.0, (error, deep, most), first, open_) > least
    for i in np.flatnonzero(open_ & ~unsure).tolist():
        assert found[i] == rounded.settle(Forced(words), i, int(words[i]), float(values[i]), ratio, 1.0)


def test_rounding_the_value_first_is_found():
    assert mistakes(lambda words, value, *rest: drawn(words, np.rint(value), *rest)) > 0


def test_a_boundary_is_told_apart_by_the_second_further_word():
    word, share, rest = straddling(0.0, 100.0, 80.5)
    found = [drawn([word], 0.0, 100.0, (share, further)) for further in (rest - 1, rest + 1)]
    assert found == [[81], [80]]


def chi_square(value, ratio, count, seed, reach=6.0):
    """p-value of the counts of every multiple of the grid; those of fewer than 5 expected draws join the likeliest."""
    found = rounded_gaussian(Source(seed).stream("law"), np.full(count, value), ratio, 1.0).astype(int)
    low, high = math.floor(value - reach * ratio), math.ceil(value + reach * ratio)
    with mpmath.workdps(30):
        ends = [mpmath.ncdf((k - mpmath.mpf("0.5") - mpmath.mpf(value)) / ratio) for k in range(low, high + 2)]
        expected = np.array([float(b - a) for a, b in pairwise(ends)]) * count
    counts = np.bincount(found - low, minlength=len(expected))[: len(expected)]
    large = expected >= 5.0
    large[expected.argmax()] = False
    observed = np.append(counts[large], count - counts[large].sum())
    wanted = np.append(expected[large], count - expected[large].sum())
    return chi2.sf(((observed - wanted) ** 2 / wanted).sum(), large.sum())


LAWS = [(0.0, 0.125), (0.5, 0.125), (0.3, 0.4), (-3.7, 1.0), (0.5, 3.0), (1e6 + 0.1, 7.3), (0.49, 50.0)]


@pytest.mark.parametrize(("value", "ratio"), LAWS)
def test_the_law_by_chi_square(value, ratio):
    assert chi_square(value, ratio, 200_000, 0) > 1e-4


@pytest.mark.heavy
@pytest.mark.parametrize(("value", "ratio"), LAWS)
def test_the_law_by_chi_square_on_ten_million(value, ratio):
    assert chi_square(value, ratio, 10_000_000, 1) > 1e-4


def test_the_chi_square_finds_a_value_that_was_rounded_first(monkeypatch):
    honest = rounded_gaussian
    monkeypatch.setattr(sys.modules[__name__], "rounded_gaussian", lambda s, v, *rest: honest(s, np.rint(v), *rest))
    assert chi_square(0.3, 0.4, 200_000, 0) < 1e-9


def test_the_sign_of_zero_does_not_tell_the_side():
    words = np.random.default_rng(2).integers(0, 2**64, 200, dtype=np.uint64)
    for value in (-0.2, -0.0, 0.0, 0.2, -(2.0**-1074)):
        found = rounded_gaussian(Forced(words), np.full(200, value), 0.125, 1.0)
        assert (found == 0.0).any()
        assert not np.signbit(found[found == 0.0]).any()


def test_values_are_clamped_and_results_are_exact_whole_numbers():
    values = np.array([np.inf, 2.0**60, 2.0**52, -(2.0**52), rounded.MOST - 1.0, -1e300, -np.inf])
    found = rounded_gaussian(Source(0).stream("x"), values, 2.0**30, 1.0)
    assert (np.abs(found) <= 2.0**53).all()
    assert (found == np.rint(found)).all()
    assert (np.abs(found - np.clip(values, -rounded.MOST, rounded.MOST)) < 8 * 2.0**30).all()
    beyond = [drawn([word], 2.0**60 * side, 2.0**40, (0, 0, 5))[0] for word, side in ((0, -1), (1, 1))]
    assert beyond[0] == -beyond[1] < -(2**52)


def test_results_past_the_last_whole_number_are_returned_as_that(monkeypatch):
    monkeypatch.setattr(rounded, "LARGEST", 8.0)
    monkeypatch.setattr(rounded, "MOST", 4.0)
    assert drawn([0, 1], 0.0, 1.0, (2**40,)) == [-8, 8]
    assert drawn([0, 1], 100.0, 1.0) == [-5, 8]  # 4 and 9 standard deviations


def test_nan_counts_as_zero():
    found = rounded_gaussian(Source(0).stream("x"), np.full(9, np.nan), 1.0, 2.0**-40)
    assert np.array_equal(found, rounded_gaussian(Source(0).stream("x"), np.zeros(9), 1.0, 2.0**-40))


def test_grids_of_every_size_give_the_same_multiples():
    values = np.random.default_rng(3).normal(size=500) * 10
    reference = rounded_gaussian(Source(0).stream("x"), values, 3.0, 1.0)
    for grid in (2.0**-960, 2.0**-20, 2.0**300, 2.0**960):
        found = rounded_gaussian(Source(0).stream("x"), values * grid, 3.0 * grid, grid)
        assert np.array_equal(found / grid, reference)


def test_one_word_for_each_variate_whatever_the_values():
    """Equal seeds give equal noise on any data, in pieces or at once, so that noise cancels where a test needs it."""
    values = np.random.default_rng(4).normal(size=70_000)
    whole = rounded_gaussian(Source(3).stream("x"), values, 1.0, 2.0**-40)
    stream, first, parts = Source(3).stream("x"), 0, []
    for size in (0, 1, 32_767, 32_768, 4_464):
        parts.append(rounded_gaussian(stream, values[first : first + size], 1.0, 2.0**-40))
        first += size
        assert stream.drawn == first
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.abs(rounded_gaussian(Source(3).stream("x"), values + 5.0, 1.0, 2.0**-40) - whole - 5.0).max() < 2.0**-38
    noise = values + standard_normal(Source(3).stream("x"), (70_000,))
    assert np.abs(whole - noise).max() < 2.0**-38


def test_shapes_are_kept_and_values_are_not_changed():
    assert rounded_gaussian(Source(0).stream("x"), np.empty((0, 3)), 1.0, 1.0).shape == (0, 3)
    assert rounded_gaussian(Source(0).stream("x"), np.array(0.5), 1.0, 1.0).shape == ()
    values = np.arange(12.0).reshape(3, 4).T[::2]
    values.setflags(write=False)
    found = rounded_gaussian(Source(0).stream("x"), values, 1.0, 1.0)
    flat = rounded_gaussian(Source(0).stream("x"), values.ravel(), 1.0, 1.0)
    assert np.array_equal(found, flat.reshape(2, 3))


@pytest.mark.parametrize("grid", [0.0, -1.0, 0.75, np.nan, np.inf, 5e-324, 2.0**-961, 2.0**961])
def test_grids_that_are_refused(grid):
    with pytest.raises(InputError, match="power of two"):
        rounded_gaussian(Source(0).stream("x"), np.zeros(1), 1.0, grid)


@pytest.mark.parametrize("scale", [0.0, -1.0, 0.1249, 2.0**41, np.nan, np.inf, 5e-324])
def test_scales_that_are_refused(scale):
    with pytest.raises(InputError, match="1/8"):
        rounded_gaussian(Source(0).stream("x"), np.zeros(1), scale, 1.0)
