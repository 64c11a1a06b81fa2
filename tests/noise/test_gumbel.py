"""Choices under Gumbel noise against the exponential mechanism: by enumeration, in the tails, and at ties of words."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import numpy as np
import pytest

from dpconvex.noise.gumbel import _ends, _keys, noisy_argmax
from dpconvex.noise.source import Source


class Words:
    """A stream that gives chosen words, and counts them."""

    def __init__(self, *words):
        self.all, self.left, self.taken = words, list(words), 0

    def words(self, count):
        self.taken += count
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


def softmax(values):
    weight = np.exp(values - values.max())
    return weight / weight.sum()


def test_the_largest_under_gumbel_noise_is_the_exponential_mechanism():
    values, stream = np.array([0.0, 2.0, 5.0]), Source(1).stream("choice")
    seen = np.bincount([noisy_argmax(stream, values, 2.0) for _ in range(60_000)], minlength=3) / 60_000
    wanted = softmax(values / 2.0)
    assert (abs(seen - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 60_000)).all()
    assert (abs(seen - softmax(values)) > 4 * np.sqrt(wanted / 60_000)).any()


def gumbel_of(cell, bits):
    return -mpmath.log(-mpmath.log(1 - cell / mpmath.mpf(2) ** bits))


EDGES = [1, 2, 3, 2**20, 2**40 + 1, 2**62, 2**63 - 1, 2**63, 2**63 + 2**50, 2**64 - 2**20, 2**64 - 3, 2**64 - 2]


@pytest.mark.parametrize("shift", [0.0, -7.0, -1e12])
def test_float_intervals_hold_the_whole_cell(shift):
    """Also for every hundredth place of the keystream; an interval a hundred times as narrow does not."""
    words = np.array(EDGES + Source(2).stream("x").words(2000).tolist(), dtype=np.uint64)
    noisy, error = _keys(words, np.full(words.size, shift))
    with mpmath.workdps(60):
        for word, middle, within in zip(words.tolist(), noisy, error, strict=True):
            for cell in (word, word + 1):
                off = abs(shift + gumbel_of(mpmath.mpf(cell), 64) - mpmath.mpf(float(middle)))
                assert off <= within
    assert (error[len(EDGES) :] < 1e-10 * (1.0 - shift)).mean() > 0.99
    ends = _keys(np.array([0, 2**64 - 1], dtype=np.uint64), np.zeros(2))[1]
    assert np.isinf(ends).all()  # cells that reach to infinity


@pytest.mark.parametrize(("cell", "bits"), [(5, 128), (2**127, 128), (2**128 - 2, 128), (2**190 + 1, 192)])
def test_decimal_intervals_hold_the_cell_and_are_narrow(cell, bits):
    low, high = _ends(cell, bits, Decimal("0.1"), Decimal(3))
    with mpmath.workdps(120):
        shift = mpmath.mpf("0.1") / 3
        outer, inner = (shift + gumbel_of(mpmath.mpf(end), bits) for end in (cell, cell + 1))
        assert mpmath.mpf(str(low)) <= inner < outer <= mpmath.mpf(str(high))
        assert inner - mpmath.mpf(str(low)) < mpmath.mpf(2) ** -(bits + 2)


def test_equal_words_are_decided_by_further_words():
    """The smaller tail gives the larger variate; one word more decides, or one more than that."""
    zeros = np.zeros(2)
    for more, winner, taken in (([1, 3], 0, 4), ([3, 1], 1, 4), ([7, 7, 9, 6], 1, 6)):
        stream = Words(2**63 + 12345, 2**63 + 12345, *more)
        assert (noisy_argmax(stream, zeros, 1.0), stream.taken) == (winner, taken)
    stream = Words(3, 2**63)
    assert (noisy_argmax(stream, zeros, 1.0), stream.taken) == (0, 2)


@pytest.mark.parametrize("gap", [10.0, 60.0, 130.0, 1000.0])
def test_no_choice_is_impossible(gap):
    """Forced words: an entry however far behind wins."""
    words = [[0] * 40, [2**64 - 1] * 40]  # of the entry behind, as large as it gets; of the other, as small
    order = [word for pair in zip(*words, strict=True) for word in pair]
    assert noisy_argmax(Words(*order), np.array([0.0, gap]), 1.0) == 0
    assert noisy_argmax(Words(*order[::-1]), np.array([gap, 0.0]), 1.0) == 1


def test_variates_of_bounded_support_would_choose_otherwise():
    """The middle of the last cells, in float64."""
    words, values = [0, 2**64 - 1], np.array([0.0, 130.0])
    assert np.argmax(_keys(np.array(words, dtype=np.uint64), values - 130.0)[0]) == 1
    assert noisy_argmax(Words(*words * 40), values, 1.0) == 0


@pytest.mark.parametrize("offset", [0.0, 1e9, -3e200])
def test_what_is_common_to_all_entries_cancels(offset):
    values = np.array([0.0, 1.0, 3.0]) + offset
    alone = noisy_argmax(Source(5).stream("x"), values - values.max(), 1.0)
    assert noisy_argmax(Source(5).stream("x"), values, 1.0) == alone


def test_near_ties_agree_with_high_precision():
    """Shifts that bring two keys as close as float64 can tell: it leaves them open, and decimals decide rightly."""
    stream, open_ = Source(7).stream("x"), 0
    for _ in range(150):
        first, second, *more = stream.words(6).tolist()
        with mpmath.workdps(60):
            gap = float(gumbel_of(mpmath.mpf(first), 64) - gumbel_of(mpmath.mpf(second), 64))
            given = Words(first, second, *more)
            found = noisy_argmax(given, np.array([0.0, gap]), 1.0)
            full = [
                gumbel_of(mpmath.mpf((word << 64) | rest), 128) for word, rest in zip(given.all, more, strict=False)
            ]
            assert found == int(mpmath.mpf(gap) + full[1] > full[0])
            open_ += given.taken > 2
    assert open_ == 150
