"""Noise with density proportional to exp(-|z|_r^2 / 2): its level sets are l_r spheres."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gamma, gammainccinv, gammaincinv

from dpconvex.errors import InputError
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source, Stream
from dpconvex.problem.geometry import dual_exponent, kappa, lp_norms, smooth_exponent

_HALF = np.uint64(2**62)
_LAST = np.uint64(2**63 - 1)


def standard_generalised(stream: Stream, shape: tuple[int, ...], r: float) -> np.ndarray:
    """Draw one vector with density proportional to exp(-|z|_r^2 / 2), 2 <= r < infinity, in the given shape.

    Radius |z|_r and direction z/|z|_r are independent. The radius is distributed as that of a normal vector of the same
    dimension. The direction has the cone measure of the l_r sphere, which is the law of g/|g|_r for independent g_i
    with density proportional to exp(-|g|^r). Two words of 64 bits are used per entry. The arithmetic is float64, and
    receipts say so.

    Examples
    --------
    >>> standard_generalised(Source().stream("x"), (2, 3), 4.0).shape
    (2, 3)
    """
    if not 2.0 <= r < math.inf:
        raise InputError("the exponent r of generalised Gaussian noise must be finite and at least 2")
    radius = float(np.linalg.norm(standard_normal(stream, (math.prod(shape),))))
    direction = _power_law(stream, math.prod(shape), r)
    return np.asarray(direction * (radius / lp_norms(direction, r))).reshape(shape)


def _power_law(stream: Stream, count: int, r: float) -> np.ndarray:
    """Independent variates with density proportional to exp(-|g|^r), so that |g|^r has the gamma law of shape 1/r.

    They are drawn by inversion: one bit for the sign and 63 for the smaller tail probability, on a grid of width 2^-63.
    """
    words = stream.words(count)
    bits = words >> np.uint64(1)
    low = bits < _HALF
    tail = (np.where(low, bits, _LAST - bits).astype(np.float64) + 0.5) * 2.0**-63
    near = np.where(low, tail, 1.0 - tail) * gamma(1.0 + 1.0 / r)  # the quantile where |g|^r is negligible beside 1
    with np.errstate(under="ignore"):
        far = np.where(low, gammaincinv(1.0 / r, tail), gammainccinv(1.0 / r, tail)) ** (1.0 / r)
        size = np.where(near**r < 1e-17, near, far)  # the power may underflow there
    return np.asarray(np.where(words & np.uint64(1), -size, size))


class GeneralizedGaussian:
    """Noise for vectors bounded in l_q, 1/p + 1/q = 1, with density proportional to exp(-|z|_r^2 / (2 sigma^2)).

    Here r is the smooth exponent of `dpconvex.problem.geometry`: at most q, and 2 (Gaussian noise) if d is small or p
    is 2. E |z|_r^2 = d sigma^2. Its privacy guarantee is stated by the theorem `generalised_gaussian`.

    Parameters
    ----------
    p : float
        In (1, 2].
    d : int
        Dimension.
    sigma : float
        Scale of the noise.
    source : Source
    name : str
        The same name gives the same noise, so use each name only once.

    Examples
    --------
    >>> noise = GeneralizedGaussian(1.5, 50, 2.0, Source())
    >>> noise.r, round(noise.kappa, 12), noise.draw().shape
    (3.0, 2.0, (50,))
    """

    def __init__(self, p: float, d: int, sigma: float, source: Source, name: str = "generalised gaussian") -> None:
        q = dual_exponent(p)
        if not 1.0 < p <= 2.0:
            raise InputError(f"p must lie in (1, 2], got {p}")
        if isinstance(sigma, bool) or not (isinstance(sigma, int | float) and 0.0 < sigma < math.inf):
            raise InputError("sigma must be a positive, finite number")
        if not isinstance(source, Source):
            raise InputError(f"source must be a Source, got {type(source).__name__}")
        self.r, self.kappa = smooth_exponent(q, d), kappa(q, d)
        self.d, self.sigma = int(d), float(sigma)
        self._stream = source.stream(name)

    def draw(self) -> np.ndarray:
        """Return a fresh vector of noise."""
        return self.sigma * standard_generalised(self._stream, (self.d,), self.r)
