"""Gaussian noise on a grid: whole multiples of a power of two, with exactly the law of a rounded real variate.

A 64-bit word fixes a sign and a cell of tail probability. Where float64 shows that the whole cell rounds to one
multiple of the grid, that is the result. Elsewhere the cell is compared with the boundaries between multiples in
integers, and narrowed by further words until it lies between two of them: the same result on every machine. Proof:
docs/proofs/rounded_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from dpconvex.errors import InputError
from dpconvex.noise.source import Stream

SMALLEST_RATIO, LARGEST_RATIO = 2.0**-3, 2.0**40  # of scale to grid
LARGEST = 2.0**53  # results in multiples of the grid
MOST = LARGEST - 2.0**45  # values: variates that float64 decides are less than the difference
ERROR = 2.0**-45  # bound on the float64 error of a variate, in standard deviations, for tail words of at least DEEP
DEEP = 2**45  # of 2^63 tail words: those below, one variate in 2^18, are decided in integers
_LARGEST_GRID = 2.0**960  # its inverse and 2^53 times it are normal numbers
_PIECE = 2**15  # variates drawn at a time, few enough to stay in the cache
_GUARD = 32  # binary places of a comparison beyond those of the tail word


def rounded_gaussian(stream: Stream, value: np.ndarray, scale: float, grid: float) -> np.ndarray:
    """Independent variates round(value + scale Z) to a grid, Z a real standard normal: exactly so, for uniform words.

    This is what a Gaussian mechanism on real numbers would release after rounding, so its guarantee holds. Every
    multiple of the grid is possible under every value, up to 2^53 of them on either side; what lies beyond is returned
    as the last of these, which is post-processing.

    Parameters
    ----------
    stream : Stream
        Each variate takes one word of it. The few that need more take them from `stream.beside`.
    value : array of float64
        It need not lie on the grid. It is clamped to 2^53 - 2^45 multiples of the grid on either side, which moves
        no two values further apart. Infinite values are clamped like others, and NaN counts as 0: an error would tell.
    scale : float
        Standard deviation of the noise: 1/8 to 2^40 times the grid.
    grid : float
        A power of two, from 2^-960 to 2^960.

    Returns
    -------
    array of float64
        Whole multiples of the grid, in the shape of `value`.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> noisy = rounded_gaussian(Source().stream("x"), np.array([[0.1, 0.2, 0.3]]), 1.0, 2.0**-20)
    >>> noisy.shape, bool((noisy * 2.0**20 % 1.0 == 0.0).all())
    ((1, 3), True)
    """
    from dpconvex.noise.inversion import invert, round_sum

    ratio = ratio_of(scale, grid)
    values = np.asarray(value, dtype=np.float64).reshape(-1)
    out, unsure = np.empty(values.size), np.empty(min(values.size, _PIECE), dtype=np.bool_)
    for first in range(0, values.size, _PIECE):
        given, part, place = values[first : first + _PIECE], out[first : first + _PIECE], stream.drawn
        words = stream.words(part.size)
        invert(words, part)
        if round_sum(words, given, ratio, grid, limits(), part, unsure):
            for i in np.flatnonzero(unsure[: part.size]).tolist():
                part[i] = settle(stream, place + i, int(words[i]), float(given[i]), ratio, grid)
    return out.reshape(np.shape(value))


def settle(stream: Stream, place: int, word: int, value: float, ratio: float, grid: float) -> float:
    """Decide a variate that float64 leaves open: that of the word at that place of the stream, around the value."""
    return grid * _decide(word, _in_grids(value, grid), Fraction(ratio), _further(stream, place))


def limits() -> tuple[float, int, float]:
    """What `inversion.round_sum` has to know of its float64 variates, and of the largest values."""
    return ERROR, DEEP, MOST


class Variates:
    """Real standard normal variates for values that are not known yet, whose sums are to be rounded to a grid.

    A loop adds multiples of the float64 variates in `normal` and rounds (`inversion.round_sum`). Where it finds that
    float64 does not show what the real variate would give, `settle` does: `rounded_gaussian`, a value at a time.

    Parameters
    ----------
    normal : array of float64
        The variates, which the loop may overwrite.
    words : array of uint64
        What they were made of.
    scale : float
        Standard deviation of the noise.
    grid : float
        A power of two, or 0 for variates that are given: their sums are not rounded.
    further : callable
        Maps a place to further words.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> drawn = Variates.drawn(Source().stream("x"), (3,), 1.0, 2.0**-20)
    >>> drawn.settle(0, 0.3, 1.0, 2.0**-20) * 2.0**20 % 1.0
    0.0
    """

    def __init__(
        self, normal: np.ndarray, words: np.ndarray, scale: float, grid: float, further: Callable[[int], Iterator[int]]
    ) -> None:
        self.normal, self.words, self.scale, self.grid, self._further = normal, words, scale, grid, further

    @classmethod
    def given(cls, normal: np.ndarray, scale: float = 1.0) -> Variates:
        """Variates that are added as they are, for runs that protect nobody."""
        return cls(np.array(normal), np.zeros((1,) * normal.ndim, dtype=np.uint64), scale, 0.0, lambda place: iter(()))

    @classmethod
    def drawn(cls, stream: Stream, shape: tuple[int, ...], scale: float, grid: float) -> Variates:
        """The next variates of a stream, one word each."""
        first = stream.drawn
        words = np.empty(math.prod(shape), dtype=np.uint64)
        for at in range(0, words.size, _PIECE):
            words[at : at + _PIECE] = stream.words(min(_PIECE, words.size - at))
        return cls.of_words(words.reshape(shape), scale, grid, lambda place: _further(stream, first + place))

    @classmethod
    def of_words(
        cls, words: np.ndarray, scale: float, grid: float, further: Callable[[int], Iterator[int]]
    ) -> Variates:
        """The variates of these words, and of further ones at their places."""
        from dpconvex.noise.inversion import invert

        ratio_of(scale, grid)
        normal = np.empty(words.size)
        for at in range(0, words.size, _PIECE):
            invert(words.reshape(-1)[at : at + _PIECE], normal[at : at + _PIECE])
        return cls(normal.reshape(words.shape), words, scale, grid, further)

    def settle(self, place: int, value: float, scale: float, grid: float) -> float:
        """Return the multiple of the grid next to value + scale Z for the variate at that place, by integers."""
        ratio, word = Fraction(ratio_of(scale, grid)), int(self.words.reshape(-1)[place])
        return grid * _decide(word, _in_grids(value, grid), ratio, self._further(place))


def ratio_of(scale: float, grid: float) -> float:
    """Scale in multiples of the grid, which is exact."""
    if not (1.0 / _LARGEST_GRID <= grid <= _LARGEST_GRID and math.frexp(grid)[0] == 0.5):
        raise InputError(f"the grid must be a power of two between 2^-960 and 2^960, got {grid!r}")
    if not SMALLEST_RATIO * grid <= scale <= LARGEST_RATIO * grid:
        raise InputError(f"the scale must be 1/8 to 2^40 times the grid of {grid!r}, got {scale!r}")
    return scale / grid


def _in_grids(value: float, grid: float) -> Fraction:
    """Clamped value in multiples of the grid, without any rounding."""
    most = MOST * grid
    return Fraction(0.0 if math.isnan(value) else min(max(value, -most), most)) / Fraction(grid)


def _further(stream: Stream, place: int) -> Iterator[int]:
    beside = stream.beside(place)
    while True:
        yield int(beside.words(1)[0])


# In integers --------------------------------------------------------------------------------------------------------


def _decide(word: int, centre: Fraction, ratio: Fraction, further: Iterator[int]) -> int:
    """Return round(centre + ratio Z) for the variate Z of a word and, where it needs them, of further words."""
    sign, tail, bits = 1 if word & 1 else -1, word >> 1, 64  # the tail probability of |Z| is in 2^-bits (tail + [0, 1])
    (c_top, c_bottom), (r_top, r_bottom) = centre.as_integer_ratio(), ratio.as_integer_ratio()
    bottom, half = 2 * c_bottom * r_top, c_bottom * r_bottom
    while True:
        size = -float(ndtri_exp(math.log(2 * tail + 1) - (bits + 1) * math.log(2.0)))  # in the cell, or about there
        whole = round(centre + sign * ratio * Fraction(size))
        while True:
            top = 2 * (whole * c_bottom - c_top) * r_bottom  # (whole - centre) / ratio is top / bottom
            above, below = (sign * _compare(sign * (top + side), bottom, tail, bits) for side in (-half, half))
            if above >= 0 >= below:
                break
            whole += 1 if below > 0 else -1
        if above > 0 > below:
            return max(-int(LARGEST), min(int(LARGEST), whole))
        tail, bits = tail << 64 | next(further), bits + 64


def _compare(top: int, bottom: int, tail: int, bits: int) -> int:
    """Return 1 if |Z| > b = top/bottom for all tail probabilities in 2^-bits (tail + [0, 1]), -1 if below, else 0.

    In fixed point, from Phi(b) - 1/2 = sum_k b^(2k+1) / (2k+1)!! / (sqrt(2 pi) sum_k b^(2k) / (2k)!!).
    """
    if top <= 0:
        return 1
    places = bits + _GUARD
    b = (top << places) // bottom
    square = b * b >> places
    above, below, odd, even, k = b, 1 << places, b, 1 << places, 0
    while above or below:
        k += 1
        above = (above * square >> places) // (2 * k + 1)
        below = (below * square >> places) // (2 * k)
        odd, even = odd + above, even + below
    outside = (1 << places - 1) - (odd << places) // (even * _root_of_two_pi(places) >> places)
    error = 2 * k + 2 * (b >> places) + 8  # units of the last place
    if tail + 1 << _GUARD <= outside - error:
        return 1
    return -1 if tail << _GUARD >= outside + error else 0


@lru_cache
def _root_of_two_pi(places: int) -> int:
    """Return sqrt(2 pi) in units of 2^-places, at most 2 too large or too small (Machin's formula)."""
    one = 1 << places + _GUARD
    pi = 4 * (4 * _inverse_tangent(5, one) - _inverse_tangent(239, one))
    return math.isqrt(2 * pi << places + _GUARD) >> _GUARD


def _inverse_tangent(x: int, one: int) -> int:
    """Return arctan(1/x) in units of 1/one, off by at most 2 per term."""
    power, total, k = one // x, 0, 1
    while power:
        total, power, k = total + (power // k if k % 4 == 1 else -(power // k)), power // (x * x), k + 2
    return total
