"""The quantile function of the normal distribution, compiled, and sums with its values rounded to a grid.

Rational approximations of Wichura (1988), algorithm AS 241, whose relative error is about 1e-16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.compiling import compile_cached, digest_folders
from dpconvex.pairs import over, plus, times, two_sum

# Numerators and denominators, constant term first: in 0.180625 - q^2 for tails of 0.5 - q > 0.075, and below that in
# r - 1.6 or, beyond 5, r - 5, where r^2 = -ln(tail).
_CENTRE = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_CENTRE_BELOW = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)  # fmt: skip
_TAIL = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
    1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_TAIL_BELOW = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
)  # fmt: skip
_FAR = (
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
_FAR_BELOW = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
)  # fmt: skip
_RARE = np.uint64(int(0.075 * 2.0**64))
_SOURCES = digest_folders(Path(__file__).parent)


def _for_this_version(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile with a cache of this version's own: numba looks for changes in this file only."""
    function.__qualname__ += f".{_SOURCES[:16]}"
    return compile_cached(function, **options)


def _polynomial(c, x):
    return ((((((c[7] * x + c[6]) * x + c[5]) * x + c[4]) * x + c[3]) * x + c[2]) * x + c[1]) * x + c[0]


_polynomial = compile_cached(_polynomial, inline="always")


def _invert(words, out):
    """Normal variates of uniform words: one bit for the sign, 63 for the tail probability."""
    for i in range(words.shape[0]):  # all of them by the formula for the centre, in vector registers
        tail = (np.float64(words[i] >> np.uint64(1)) + 0.5) * 2.0**-64
        sign = 1.0 - 2.0 * np.float64(words[i] & np.uint64(1))
        q = tail - 0.5
        r = 0.180625 - q * q
        out[i] = sign * q * _polynomial(_CENTRE, r) / _polynomial(_CENTRE_BELOW, r)
    for i in range(words.shape[0]):  # then the tails, one variate in seven
        if words[i] >> np.uint64(1) < _RARE:
            tail = (np.float64(words[i] >> np.uint64(1)) + 0.5) * 2.0**-64
            sign = 1.0 - 2.0 * np.float64(words[i] & np.uint64(1))
            far = math.sqrt(-math.log(tail))
            if far <= 5.0:
                out[i] = -sign * _polynomial(_TAIL, far - 1.6) / _polynomial(_TAIL_BELOW, far - 1.6)
            else:
                out[i] = -sign * _polynomial(_FAR, far - 5.0) / _polynomial(_FAR_BELOW, far - 5.0)


invert = compile_cached(_invert, fastmath={"contract"})


_ROOT_TWO_PI = 2.5066282746310007, -1.8328579980459167e-16
_LAST = 2.0**-110  # terms of the series below this are left out
_ROOM = 2.0**-88  # more than all rounding of the series, relative to the larger side of a comparison


def _compare_pairs(high, low, ratio, tail):
    """Return 1 if |Z| > b = (high + low)/ratio > 0 for all tail probabilities in 2^-64 (tail + [0, 1]), -1 if below.

    0 where pairs do not tell. What `rounded._compare` does in integers: Phi(b) - 1/2 is odd / (sqrt(2 pi) even).
    """
    b, b_low = over(high, low, ratio, 0.0)
    half, half_low = times(b, b_low, 0.5 * b, 0.5 * b_low)
    above, above_low, below, below_low = b, b_low, 1.0, 0.0
    odd, odd_low, even, even_low, k = b, b_low, 1.0, 0.0, 0.0
    while below >= _LAST:
        k += 1.0
        above, above_low = times(above, above_low, half, half_low)
        above, above_low = over(above, above_low, k + 0.5, 0.0)
        below, below_low = times(below, below_low, half, half_low)
        below, below_low = over(below, below_low, k, 0.0)
        odd, odd_low = plus(odd, odd_low, above, above_low)
        even, even_low = plus(even, even_low, below, below_low)
    even, even_low = times(even, even_low, _ROOT_TWO_PI[0], _ROOT_TWO_PI[1])
    rest = np.uint64(2**63) - tail  # of 1/2 - U, in units of 2^-64
    most, most_low = two_sum(np.float64(rest >> np.uint64(32)) * 2.0**32, np.float64(rest & np.uint64(2**32 - 1)))
    most, most_low = times(even, even_low, 2.0**-64 * most, 2.0**-64 * most_low)
    apart, _ = plus(odd, odd_low, -most, -most_low)
    if apart < -(2.0**-64 + _ROOM) * even:
        return 1
    return -1 if apart > _ROOM * even else 0


compare_pairs = _for_this_version(_compare_pairs)


def _nearest(word, offset, x, ratio):
    """The whole number next to offset + ratio Z, of which x is a float64 value, and whether pairs tell it."""
    near = np.rint(x)
    boundary, sign = near + math.copysign(0.5, x - near), 1.0 if word & np.uint64(1) else -1.0
    high, low = two_sum(sign * boundary, -sign * offset)
    verdict = compare_pairs(high, low, ratio, word >> np.uint64(1)) if high > 0.0 else 1
    return boundary + 0.5 * sign * verdict, verdict != 0


nearest = _for_this_version(_nearest)


def _round_sum(words, value, ratio, grid, limits, out, unsure):
    """Replace each variate z in out by the multiple of grid next to value + ratio grid z, and count the unsure ones."""
    error, deep, most = limits
    room, per_grid, count = 0.5 - ratio * error, 1.0 / grid, 0
    for i in range(words.shape[0]):
        v = value[i] * per_grid
        v = min(max(v, -most), most) if v == v else 0.0
        whole = np.rint(v)
        x = (v - whole) + ratio * out[i]  # the difference is exact
        near = np.rint(x)
        unsure[i] = (abs(x - near) >= room) | (words[i] >> np.uint64(1) < np.uint64(deep))
        count += unsure[i]
        rounded = (whole + near) * grid + 0.0  # never -0.0: its sign would tell on which side of 0 the value is
        out[i] = out[i] if unsure[i] else rounded
    if count == 0:
        return 0
    for i in range(words.shape[0]):
        if unsure[i] and words[i] >> np.uint64(1) >= np.uint64(deep):
            v = value[i] * per_grid
            v = min(max(v, -most), most) if v == v else 0.0
            whole = np.rint(v)
            near, sure = nearest(words[i], v - whole, (v - whole) + ratio * out[i], ratio)
            if sure:
                out[i], unsure[i], count = (whole + near) * grid + 0.0, False, count - 1
    return count


round_sum = _for_this_version(_round_sum, fastmath={"contract"})
