"""The compiled sampler against exact quantiles."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from dpconvex.noise.gaussian import LONGEST, standard_normal
from dpconvex.noise.inversion import _CENTRE, _CENTRE_BELOW, _TAIL, _TAIL_BELOW, invert
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


# How far the rational functions are from the quantiles, proved with interval arithmetic: on short intervals both are
# Taylor polynomials about the middle plus a remainder, whose coefficient is bounded over the whole interval.

ORDER = 14


def multiply(a, b):
    return [sum((a[i] * b[k - i] for i in range(k + 1)), mp.iv.mpf(0)) for k in range(min(len(a), len(b)))]


def divide(a, b):
    quotient = []
    for k in range(len(a)):
        quotient.append((a[k] - sum((quotient[i] * b[k - i] for i in range(k)), mp.iv.mpf(0))) / b[0])
    return quotient


def polynomial(coefficients, series):
    total = [mp.iv.mpf(0)] * len(series)
    for c in reversed(coefficients):
        total = multiply(total, series)
        total[0] += c
    return total


def variable(x):
    return [x, mp.iv.mpf(1), *[mp.iv.mpf(0)] * (ORDER - 1)]


def inverse_density(z):
    return mp.iv.sqrt(2 * mp.iv.pi) * mp.iv.exp(z * z / 2)


def centre(q, z):
    """Coefficients of the rational function of q = tail - 1/2, and of the quantile: z' = u, u' = z u^2."""
    x = variable(q)
    r = [-c for c in multiply(x, x)]
    r[0] += 0.180625
    quantile, u = [z], [inverse_density(z)]
    for k in range(ORDER):
        quantile.append(u[k] / (k + 1))
        u.append(multiply(quantile[:-1], multiply(u, u))[k] / (k + 1))
    return divide(multiply(x, polynomial(_CENTRE, r)), polynomial(_CENTRE_BELOW, r)), quantile


def tail(s, z):
    """The same in s, tail = exp(-s^2): z' = 2 s m, m' = 2 s m (z m - 1), m the Mills ratio."""
    x = variable(s)
    shifted = [x[0] - 1.6, *x[1:]]
    quantile, m = [z], [mp.iv.exp(-s * s) * inverse_density(z)]
    for k in range(ORDER):
        rise = multiply(x, m)
        quantile.append(2 * rise[k] / (k + 1))
        product = multiply(quantile, m)
        m.append(2 * multiply(rise, [product[0] - 1, *product[1:]])[k] / (k + 1))
    return divide(polynomial(_TAIL, shifted), polynomial(_TAIL_BELOW, shifted)), quantile


def enclosed(ends):
    return mp.iv.mpf([min(ends) - mp.mpf(10) ** -30, max(ends) + mp.mpf(10) ** -30])


def apart(series, quantile, low, high):
    """Bound on the distance between the rational function and the quantile on an interval."""
    middle, width = (low + high) / 2, (high - low) / 2
    at = series(mp.iv.mpf(middle), enclosed([quantile(middle)]))
    within = series(mp.iv.mpf([low, high]), enclosed([quantile(low), quantile(high)]))
    terms = [*(abs(a - b) for a, b in zip(*at, strict=True))][:-1]
    terms.append(abs(within[0][-1] - within[1][-1]))
    return float(sum(t * mp.iv.mpf(width) ** k for k, t in enumerate(terms)).b)


def distances(pieces, chosen):
    """Bounds on some of the pieces of both ranges: tails from 0.075 to 1/2, and from 2^-19 to 0.075 (and a little)."""
    with mp.workdps(40):
        mp.iv.dps = 40
        ranges = (
            (centre, lambda q: mp.sqrt(2) * mp.erfinv(2 * q), mp.mpf("-0.4250001"), mp.mpf(0)),
            (tail, lambda s: mp.sqrt(2) * mp.erfinv(1 - 2 * mp.exp(-s * s)), mp.mpf("1.609"), mp.mpf("3.63")),
        )
        for series, quantile, low, high in ranges:
            step = (high - low) / pieces
            yield from (apart(series, quantile, low + i * step, low + (i + 1) * step) for i in chosen)


def test_the_rational_functions_are_the_quantiles_to_1e_15():
    found = list(distances(120, (0, 1, 40, 80, 118, 119)))
    assert 1e-18 < max(found) < 1e-15


@pytest.mark.heavy
def test_the_rational_functions_are_the_quantiles_to_1e_15_everywhere():
    assert max(distances(120, range(120))) < 1e-15
