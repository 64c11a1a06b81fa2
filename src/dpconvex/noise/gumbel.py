"""The largest of several numbers under Gumbel noise, decided exactly.

A 64-bit word says in which cell of width 2^-64 a uniform variate lies. Float64 mostly tells which number is the largest
under noise; for those that may be, more words are drawn, and the decision is made in decimals of as many digits.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

import numpy as np

from dpconvex.noise.source import Stream

# Bound on the relative error of a noisy entry in float64, and of its parts: about thirty times that of four correctly
# rounded operations and two logarithms.
_SLACK = 2.0**-47
_HALF = np.uint64(2**63)


def noisy_argmax(stream: Stream, values: np.ndarray, scale: float) -> int:
    """Index j of the largest values_j + scale G_j, with independent G_j of distribution function exp(-e^-x).

    Given uniform words the law of the index is exactly in proportion to exp(values_j / scale). Values are finite.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> noisy_argmax(Source().stream("x"), np.array([0.0, 1e9, 0.0]), 1.0)
    1
    """
    words = stream.words(values.size)
    noisy, error = _keys(words, (values - values.max()) / scale)
    open_ = np.flatnonzero(noisy + error >= (noisy - error).max())
    if open_.size == 1:
        return int(open_[0])
    cells = {int(j): int(words[j]) for j in open_}
    return _decide(stream, cells, {j: Decimal(float(values[j])) for j in cells}, Decimal(float(scale)))


def _keys(words: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift plus Gumbel variate, each with a bound on how far it is from that of any point in the cell of its word."""
    low = words < _HALF
    near = np.minimum(words, ~words).astype(np.float64)  # the cell begins that many cells from the nearer end
    tail = (near + 0.5) * 2.0**-64
    exponential = np.log(tail)  # less than 0
    exponential[low] = np.log1p(-tail[low])
    noisy = shifts - np.log(-exponential)
    with np.errstate(divide="ignore"):
        return noisy, 1.0 / near + _SLACK * (50.0 + 2.0 * np.abs(shifts))  # a variate is at most 46 here


def _decide(stream: Stream, cells: dict[int, int], values: dict[int, Decimal], scale: Decimal) -> int:
    """Draw more words for the entries that may be the largest, until one is."""
    bits = 64
    while len(cells) > 1:
        more = stream.words(len(cells))
        cells = {j: (cell << 64) | int(word) for (j, cell), word in zip(cells.items(), more, strict=True)}
        bits += 64
        ends = {j: _ends(cell, bits, values[j], scale) for j, cell in cells.items()}
        highest = max(low for low, _ in ends.values())
        cells = {j: cell for j, cell in cells.items() if ends[j][1] >= highest}
    return next(iter(cells))


def _ends(cell: int, bits: int, value: Decimal, scale: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds on value / scale + G, where e^-G = -ln(1 - tail) and the tail is in the cell, in units of 2^-bits.

    Every operation is correctly rounded at `bits` + 40 digits. The logarithm of a number as close to 1 as 2^-bits
    loses less than bits / 3 of them.
    """
    found = []
    with localcontext(Context(prec=bits + 40)):
        shift, whole = value / scale, 1 << bits
        for rest, side in ((whole - cell - 1, -1), (whole - cell, 1)):
            if rest in (0, whole):
                found.append(Decimal("Infinity") * side)
                continue
            gumbel = -(-(Decimal(rest) / Decimal(whole)).ln()).ln()
            error = (1 + abs(shift) + abs(gumbel)).scaleb(-bits // 2 - 20)
            found.append(shift + gumbel + side * error)
    return found[0], found[1]
