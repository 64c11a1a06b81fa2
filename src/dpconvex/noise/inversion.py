"""The quantile function of the normal distribution, compiled, and sums with its values rounded to a grid.

Rational approximations of Wichura (1988), algorithm AS 241, whose relative error is about 1e-16.
"""

from __future__ import annotations

import math

import numpy as np

from dpconvex.compiling import compile_cached

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
        out[i] = (whole + near) * grid + 0.0  # never -0.0: its sign would tell on which side of 0 the value is
    return count


round_sum = compile_cached(_round_sum, fastmath={"contract"})
