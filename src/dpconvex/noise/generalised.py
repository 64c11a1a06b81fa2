"""Noise with density proportional to exp(-|z|_r^2 / 2), or to exp(-|z|_1) (Laplace), rounded to a grid exactly.

Radius |z|_r and direction z/|z|_r are independent. The radius is distributed as that of a normal vector of the same
dimension. The direction has the cone measure of the l_r sphere, which is the law of g/|g|_r for independent g_i with
density proportional to exp(-|g|^r). All of these are built from variates whose binary digits are known as far as they
were drawn. Where float64 does not show to which multiples of the grid a vector rounds, more digits are drawn.
Proofs: docs/proofs/generalised_gaussian.md and docs/proofs/laplace.md.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpconvex.compiling import compile_cached
from dpconvex.errors import InputError
from dpconvex.noise.source import Stream

MOST = 2.0**52  # multiples of the grid to which values are clamped
_ROOM = 2.0**-50  # per unit of r + 16, bound on the relative error of an entry in float64


def rounded_generalised(stream: Stream, value: np.ndarray, scale: float, grid: float, r: float) -> np.ndarray:
    """Round value + scale Z to whole multiples of a grid, as if Z and the sum were real numbers.

    Z has density proportional to exp(-|z|_r^2 / 2), 2 <= r < infinity, in the shape of `value`. Every multiple of the
    grid is possible under every value. Values are clamped to 2^52 multiples of the grid, and NaN counts as 0.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> noisy = rounded_generalised(Source().stream("x"), np.zeros((2, 3)), 1.0, 2.0**-20, 4.0)
    >>> noisy.shape, bool((noisy * 2.0**20 % 1.0 == 0.0).all())
    ((2, 3), True)
    """
    if not 2.0 <= r < math.inf:
        raise InputError("the exponent r of generalised Gaussian noise must be finite and at least 2")
    whole, offset = in_grids(value, grid)
    d, ratio = value.size, scale / grid  # the quotient is exact
    radial, angular = _Digits.draw(stream, d, 2.0), _Digits.draw(stream, d, r)
    radius, length = math.sqrt(2.0) * _norm(radial.sizes, 2.0), _norm(angular.sizes, r)
    z = ratio * radius / length * angular.sizes if length else angular.sizes
    near = np.rint(offset + z)
    error = (r + 16.0) * _ROOM * (1.0 + np.abs(z)) + ratio * (radius + 1.0) * (
        d / length if length else math.inf
    ) * 2.0**-60
    unsure = np.flatnonzero(np.abs(offset + z - near) + error >= 0.5)
    if unsure.size:
        exact = _decide(stream, radial, angular, r, [(int(i), float(offset[i])) for i in unsure], ratio)
        near[unsure] = exact
    return np.asarray(((whole + near) * grid + 0.0).reshape(value.shape))  # never -0.0


def rounded_laplace(stream: Stream, value: np.ndarray, scale: float, grid: float) -> np.ndarray:
    """Round value + scale Z to whole multiples of a grid, as if Z and the sum were real numbers.

    The entries of Z are independent, with density exp(-|z|) / 2. Every multiple of the grid is possible under every
    value, up to 2^53 of them on either side. Values are clamped to 2^52 multiples of the grid, and NaN counts as 0.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> noisy = rounded_laplace(Source().stream("x"), np.zeros((2, 3)), 1.0, 2.0**-20)
    >>> noisy.shape, bool((noisy * 2.0**20 % 1.0 == 0.0).all())
    ((2, 3), True)
    """
    whole, offset = in_grids(value, grid)
    ratio, digits = scale / grid, _Digits.draw(stream, value.size, 1.0)  # the quotient is exact
    z = ratio * digits.sizes
    near = np.rint(offset + z)
    error = 17.0 * _ROOM * (1.0 + np.abs(z)) + ratio * 2.0**-60
    total = whole + near
    for i in np.flatnonzero(np.abs(offset + z - near) + error >= 0.5).tolist():
        exact = int(whole[i]) + _settled(stream, digits, i, Fraction(float(offset[i])), Fraction(ratio))
        total[i] = max(-2 * int(MOST), min(2 * int(MOST), exact))
    return np.asarray((total * grid + 0.0).reshape(value.shape))  # never -0.0


def _settled(stream: Stream, digits: _Digits, i: int, offset: Fraction, ratio: Fraction) -> int:
    """Nearest whole number to offset + ratio z_i, with as many more digits as that takes."""
    cell, bits, whole = digits.cells[i], int(digits.bits[i]), int(digits.whole[i])
    signed = ratio if digits.sizes[i] > 0.0 else -ratio
    while True:
        middle = offset + signed * (whole + Fraction(2 * cell + 1, 1 << bits + 1))
        found = round(middle)
        if abs(middle - found) + ratio / (1 << bits + 1) < Fraction(1, 2):
            return found
        cell, bits = (cell << 64) | int(stream.words(1)[0]), bits + 64


def in_grids(value: np.ndarray, grid: float) -> tuple[np.ndarray, np.ndarray]:
    """Clamped values in multiples of the grid: the nearest whole numbers, and how far off they are, both exact."""
    if math.frexp(grid)[0] != 0.5:
        raise InputError(f"the grid must be a power of two, got {grid!r}")
    with np.errstate(over="ignore"):
        centre = np.clip(np.nan_to_num(value.ravel() / grid, nan=0.0, posinf=MOST, neginf=-MOST), -MOST, MOST)
    whole = np.rint(centre)
    return whole, centre - whole


def _norm(sizes: np.ndarray, r: float) -> float:
    """The l_r norm, whose sum is rounded once."""
    top = float(np.abs(sizes).max())
    with np.errstate(under="ignore"):
        return top * math.fsum((np.abs(sizes) / top) ** r) ** (1.0 / r) if top else 0.0


def _decide(
    stream: Stream, radial: _Digits, angular: _Digits, r: float, places: list[tuple[int, float]], ratio: float
) -> list[int]:
    """Nearest whole numbers to offset + ratio z_i for some entries, with as many more digits as that takes."""
    while True:
        radial, angular = radial.longer(stream), angular.longer(stream)
        bits = min(radial.bits.min(), angular.bits.min())
        with localcontext(Context(prec=int(bits) // 3 + 40)):
            squares, power, d = [h * h for h in radial.decimals()], Decimal(r), len(radial.bits)
            g = angular.decimals()
            radius = (2 * sum(squares, Decimal(0))).sqrt()
            length = sum((abs(x) ** power for x in g), Decimal(0)) ** (1 / power)
            unit = Decimal(2) ** -int(bits)
            if length <= 4 * d * unit:
                continue
            stretch = radius / length
            error = Decimal(ratio) * 8 * (1 + stretch) * (d + 1) * unit
            exact = [Decimal(offset) + Decimal(ratio) * stretch * g[i] for i, offset in places]
            found = [int(x.to_integral_value()) for x in exact]
            if all(abs(x - k) + error < Decimal("0.5") for x, k in zip(exact, found, strict=True)):
                return found


class _Digits(NamedTuple):
    """Independent variates with density proportional to exp(-|x|^r): sign (whole + [cell, cell + 1] / 2^bits)."""

    sizes: np.ndarray  # in float64, with their signs
    whole: np.ndarray
    cells: list[int]
    bits: np.ndarray

    @staticmethod
    def draw(stream: Stream, count: int, r: float) -> _Digits:
        """Draw by rejection from a uniform fraction and a geometric whole part, decided on as many digits as needed."""
        sizes, whole, cells = np.empty(count), np.empty(count, dtype=np.int64), np.empty(count, dtype=np.uint64)
        rare: dict[int, tuple[int, int]] = {}
        done = 0
        while done < count:
            words = stream.words(3 * (5 * (count - done) // 2 + 8)).reshape(-1, 3)
            at = 0
            while at < len(words) and done < count:
                done, at, open_ = fill(words, at, r, sizes, whole, cells, done)
                if open_:
                    first, fraction, height = (int(word) for word in words[at])
                    kept = _tried(stream, first, fraction, height, r)
                    at += 1
                    if kept is not None:
                        sign, whole[done], cell, width = kept
                        sizes[done] = sign * (whole[done] + (cell + 0.5) / 2**width)
                        rare[done] = cell, width
                        done += 1
        bits = np.full(count, 64)
        known = [int(cell) for cell in cells]
        for i, (cell, width) in rare.items():
            known[i], bits[i] = cell, width
        return _Digits(sizes, whole, known, bits)

    def longer(self, stream: Stream) -> _Digits:
        """The same variates with 64 more digits."""
        more = [(cell << 64) | int(word) for cell, word in zip(self.cells, stream.words(len(self.cells)), strict=True)]
        return self._replace(cells=more, bits=self.bits + 64)

    def decimals(self) -> list[Decimal]:
        """Middles of the cells."""
        return [
            (Decimal(2 * cell + 1) / Decimal(1 << int(bits) + 1) + int(j)).copy_sign(Decimal(float(size)))
            for cell, j, bits, size in zip(self.cells, self.whole, self.bits, self.sizes, strict=True)
        ]


def _fill(words, at, r, sizes, whole, cells, done):
    """Try one row of words after another until the variates are complete, the words used up, or a try is not certain.

    The first word is a sign and, by its trailing zeros, a whole part j of probability 2^-(j + 1). With the fraction u
    of the second and v of the third the try is kept if v < 2^j exp(-(j + u)^r), which is at most 1 there.
    """
    while done < sizes.shape[0] and at < words.shape[0]:
        first = words[at, 0] >> np.uint64(1)
        if first == 0:
            return done, at, True
        j = 0
        while first & np.uint64(1) == 0:
            first >>= np.uint64(1)
            j += 1
        x = j + (np.float64(words[at, 1]) + 0.5) * 2.0**-64
        power = min(x**r, 1e4)
        height = np.float64(words[at, 2]) + 0.5
        gap = math.log(2.0) * (j + 64) - power - math.log(height)
        slack = 1.0 / height + (1.0 + power) * (r + 16.0) * 2.0**-50
        if abs(gap) <= slack or height < 1.0:
            return done, at, True
        if gap > 0.0:
            sizes[done] = x if words[at, 0] & np.uint64(1) else -x
            whole[done], cells[done] = j, words[at, 1]
            done += 1
        at += 1
    return done, at, False


fill = compile_cached(_fill)


def _tried(stream: Stream, first: int, cell: int, height: int, r: float) -> tuple[int, int, int, int] | None:
    """Sign, whole part, cell and its binary digits of a try that is kept; None if it is not. Decided in decimals."""
    sign, rest, j, bits = (1 if first & 1 else -1), first >> 1, 0, 64
    while rest == 0:
        j, rest = j + (63 if j == 0 else 64), int(stream.words(1)[0])
    j += (rest & -rest).bit_length() - 1
    while True:
        with localcontext(Context(prec=bits // 3 + 60)):
            unit, power = Decimal(1 << bits), Decimal(r)
            near, far = (j * Decimal(2).ln() - (j + Decimal(end) / unit) ** power for end in (cell, cell + 1))
            error = (1 + abs(far)).scaleb(-bits // 3 - 30)
            if (Decimal(height + 1) / unit).ln() < far - error:
                return sign, j, cell, bits
            if height and (Decimal(height) / unit).ln() > near + error:
                return None
        more = stream.words(2)
        cell, height, bits = (cell << 64) | int(more[0]), (height << 64) | int(more[1]), bits + 64
