"""The compiled sampler against exact quantiles."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from dpconvex.noise.gaussian import LONGEST, standard_normal
from dpconvex.noise.inversion import invert
from dpconvex.noise.source import Source


def variates(words):
    out = np.empty(len(words))
    invert(np.array(words, dtype=np.uint64), out)
    return out


def test_every_size_of_tail_is_inverted_to_the_last_digits():
    rng = np.random.default_rng(0)
    edges = [int(p * 2.0**64) << 1 for p in (0.0749999, 0.075, 0.0750001, np.exp(-25.0))]
    words = [0, 1, 2, 2**64 - 1, 2**64 - 2, *(1 << k for k in range(1, 64)), *edges]
    words += rng.integers(0, 2**64, 200, dtype=np.uint64).tolist()
    with mp.workdps(40):
        for word, found in zip(words, variates(words), strict=True):
            tail = float(((word >> 1) + 0.5) * 2.0**-64)
            start = float(ndtri(tail)) or -1e-19
            exact = mp.findroot(lambda z, t=tail: mp.ncdf(z) - mp.mpf(t), start)
            expected = float(exact) * (1 - 2 * (word & 1))
            assert found == pytest.approx(expected, rel=2e-15, abs=1e-18)
            assert abs(found) < LONGEST


def test_signs_are_one_bit_and_tails_the_others():
    words = np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64)
    assert np.array_equal(variates(words), -variates(words ^ np.uint64(1)))
    ordered = np.sort(words >> np.uint64(1)) << np.uint64(1)
    assert (np.diff(variates(ordered)) >= 0.0).all()


def test_drawing_in_pieces_is_drawing_at_once():
    whole = standard_normal(Source(3).stream("x"), (70_000,))
    stream = Source(3).stream("x")
    parts = [standard_normal(stream, (k,)) for k in (1, 32_767, 32_768, 4_464)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert standard_normal(Source(3).stream("y"), (0, 4)).shape == (0, 4)


def test_the_law_is_normal():
    x = standard_normal(Source(5).stream("law"), (400_000,))
    assert kstest(x, "norm").pvalue > 1e-3
    assert abs((x**4).mean() - 3.0) < 6 * np.sqrt(96 / 400_000)
