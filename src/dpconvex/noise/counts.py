"""Secret numbers and orders: how often a mechanism is repeated, which of several is run, and who comes first."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal, localcontext

import numpy as np

from dpconvex.noise.source import Stream

_SPARE = 40  # digits beyond those of the uniform variate; half of them are more than the sums below lose


def repetitions(stream: Stream, law: str, parameter: float) -> int:
    """Draw a number >= 1 with a geometric, logarithmic or (conditioned on >= 1) Poisson law.

    A uniform variate, known to 64 bits, is compared with the sums of the first probabilities, in decimals. Where that
    does not decide, 64 bits more of it are drawn. Given uniform words the law is exact.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> repetitions(Source().stream("x"), "geometric", 0.999999999999) == 1
    True
    """
    cell, bits, found = 0, 0, None
    while found is None:
        cell, bits = (cell << 64) | int(stream.words(1)[0]), bits + 64
        with localcontext(Context(prec=bits // 3 + _SPARE)):
            found = _placed(cell, bits, law, Decimal(parameter))
    return found


def _placed(cell: int, bits: int, law: str, parameter: Decimal) -> int | None:
    """The number whose probabilities reach the cell, in units of 2^-bits; None where the cell holds an end of it."""
    whole = Decimal(1 << bits)
    low, high, error = Decimal(cell) / whole, Decimal(cell + 1) / whole, Decimal(1).scaleb(-bits // 3 - _SPARE // 2)
    total = Decimal(0)
    for k, probability in enumerate(_probabilities(law, parameter), 1):
        total += probability
        if high <= total - error:
            return k
        if low < total + error:
            return None
    raise AssertionError  # the series does not end


def _probabilities(law: str, parameter: Decimal) -> Iterator[Decimal]:
    """Probabilities of 1, 2, and so on, in the precision of the context."""
    k = 1
    if law == "poisson":  # conditioned on being at least 1
        term = parameter / (parameter.exp() - 1)
        while True:
            yield term
            k += 1
            term *= parameter / k
    rest = 1 - parameter
    term = parameter if law == "geometric" else -rest / parameter.ln()
    while True:
        yield term if law == "geometric" else term / k
        k += 1
        term *= rest


def random_order(stream: Stream, count: int) -> np.ndarray:
    """Draw an order of `count` things uniformly: that of 64-bit words, and of further ones as long as any are equal.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> sorted(random_order(Source().stream("x"), 3).tolist())
    [0, 1, 2]
    """
    words = [stream.words(count)]
    while True:
        order = np.lexsort(words[::-1])
        if not np.logical_and.reduce([w[order[1:]] == w[order[:-1]] for w in words]).any():
            return order
        words.append(stream.words(count))


def one_of(stream: Stream, count: int) -> int:
    """Draw a number below `count` uniformly; words beyond the last multiple of `count` are rejected.

    Examples
    --------
    >>> from dpconvex.noise.source import Source
    >>> one_of(Source().stream("x"), 1)
    0
    """
    whole = 2**64 // count * count
    while True:
        word = int(stream.words(1)[0])
        if word < whole:
            return word % count
