"""Losses that private players take: read so that none is steeper than was said, added up, and their Gibbs laws.

Whatever is done to a loss here depends on that loss alone. Only its form is ever refused: an error that depended on its
numbers would be a release of its own. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import FormError, InputError
from dpconvex.games.losses import Absolute, Hinge, Linear, Logistic, Quadratic, Separable
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, GibbsInterval, GibbsProduct
from dpconvex.noise.rejection import GibbsRejection, logistic_rise
from dpconvex.problem.domains import Box, L2Ball

LARGEST = 1e100  # what numbers of a loss are brought within: no product of two overflows
Law = GibbsBall | GibbsBox | GibbsProduct | GibbsRejection


class Separate(NamedTuple):
    """A convex loss up to a constant: sum_j slope_j x_j + curvature_j x_j^2 / 2 + weight_j max(x_j - kink_j, 0).

    Examples
    --------
    >>> Separate(*np.array([[-1.0], [0.0], [0.5], [2.0]])).weight  # |x - 0.5|
    array([2.])
    """

    slope: np.ndarray
    curvature: np.ndarray
    kink: np.ndarray
    weight: np.ndarray


class Smooth(NamedTuple):
    """A logistic loss: weight ln(1 + exp(<row, x>)).

    Examples
    --------
    >>> Smooth(np.array([-1.0, 0.0]), 0.5).weight
    0.5
    """

    row: np.ndarray
    weight: float


Read = np.ndarray | Separate | Smooth


class Tries(NamedTuple):
    """How often the law of a sum with `Smooth` losses is tried to be drawn from: public numbers.

    Parameters
    ----------
    smoothness : float
        Largest curvature that the sum of all smooth losses of a game can have.
    most : int
        Proposals for one draw.
    """

    smoothness: float
    most: int


class Sum:
    """Sum of losses, linear, `Separate` or `Smooth`: differences of values, and the Gibbs law.

    On a ball in more than one dimension, and beside smooth losses, losses have no kinks and the same curvature in every
    coordinate.

    Examples
    --------
    >>> total = Sum(L2Ball(1.0), 1, lam=1.0, beta=1.0)
    >>> total.add(Separate(*np.array([[-1.0], [0.0], [0.5], [2.0]])))
    >>> total.difference(np.array([1.0]), np.array([0.5]))
    0.5
    """

    def __init__(
        self, domain: L2Ball | Box, dimension: int, lam: float, beta: float, tries: Tries | None = None
    ) -> None:  # fmt: skip
        self._domain, self._lam, self._beta, self._tries = domain, lam, beta, tries
        self.tilt = np.zeros(dimension)
        self._curvature = np.zeros(dimension)
        self._kinks: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._smooth: list[Smooth] = []

    def add(self, loss: Read) -> None:
        """Add a loss."""
        if isinstance(loss, Smooth):
            self._smooth.append(loss)
            return
        if not isinstance(loss, Separate):
            self.tilt += loss
            return
        self.tilt += loss.slope
        self._curvature += loss.curvature
        if loss.weight.any():
            self._kinks.append(loss.kink)
            self._weights.append(loss.weight)

    def difference(self, x: np.ndarray, y: np.ndarray) -> float:
        """Value at x less that at y."""
        value = float(self.tilt @ (x - y))
        if self._curvature.any():
            value += 0.5 * float(self._curvature @ ((x - y) * (x + y)))
        if self._kinks:
            kinks = np.array(self._kinks)
            bend = np.maximum(x - kinks, 0.0) - np.maximum(y - kinks, 0.0)
            value += float((np.array(self._weights) * bend).sum())
        if self._smooth:
            rows, weights = self._margins()
            value += float(weights @ logistic_rise(rows @ y, rows @ (x - y)))
        return value

    @property
    def kinks(self) -> np.ndarray:
        """Where losses have kinks, in any order."""
        return np.concatenate([k[w > 0.0] for k, w in zip(self._kinks, self._weights, strict=True)] or [np.zeros(0)])

    def _margins(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and weights of the smooth losses."""
        return np.array([loss.row for loss in self._smooth]), np.array([loss.weight for loss in self._smooth])

    def law(self) -> Law:
        """Density in proportion to exp(-beta (sum + lam |x - centre|^2 / 2)) on the domain."""
        tilt, curvature = self._beta * self.tilt, self._beta * (self._lam + self._curvature)
        if self._kinks or (curvature != curvature[0]).any():
            assert not self._smooth
            return self._product(tilt, curvature)
        plain = self._plain(tilt, float(curvature[0]))
        if not self._smooth:
            return plain
        assert self._tries is not None
        rows, weights = self._margins()
        return GibbsRejection(
            plain, rows, self._beta * weights, self._beta * self._tries.smoothness, self._tries.most
        )  # fmt: skip

    def _plain(self, tilt: np.ndarray, curvature: float) -> GibbsBall | GibbsBox:
        domain = self._domain
        if isinstance(domain, L2Ball):
            return GibbsBall(tilt, curvature, domain.radius)
        middle = (domain.lo + domain.hi) / 2.0
        return GibbsBox(tilt - self._beta * self._lam * middle, curvature, domain.lo, domain.hi)

    def _product(self, tilt: np.ndarray, curvature: np.ndarray) -> GibbsProduct:
        lo, hi = _ends(self._domain)
        middle = self._lam / (self._lam + self._curvature) * (lo + hi) / 2.0  # where both squares together are least
        kinks, weights = np.reshape([self._kinks, self._weights], (2, len(self._kinks), tilt.size))
        parts = []
        for j, bent in enumerate(weights.T > 0.0):
            parts.append(
                GibbsInterval(
                    float(tilt[j]), kinks[bent, j], self._beta * weights[bent, j], float(curvature[j]),
                    float(middle[j]), lo, hi,
                )
            )  # fmt: skip
        return GibbsProduct(tuple(parts))


def read_loss(
    loss: Any, dimension: int, domain: L2Ball | Box, lipschitz: float, who: str, smoothness: float | None = None
) -> Read:  # fmt: skip
    """A loss whose law can be drawn from, no steeper than lipschitz anywhere on the domain.

    With `smoothness`, logistic losses are taken, made no more curved than that, and losses with kinks are not.

    Examples
    --------
    >>> read_loss(np.array([3.0, 4.0]), 2, L2Ball(1.0), 1.0, "Pomer").round(12)
    array([0.6, 0.8])
    >>> read_loss(Absolute(np.array([1.0]), 0.5), 1, L2Ball(1.0), 1.0, "Pomer").kink
    array([0.5])
    >>> read_loss(Quadratic(np.zeros(2), 3.0), 2, L2Ball(1.0), 1.0, "Pomer").curvature.round(12)
    array([1., 1.])
    >>> round(read_loss(Logistic(np.array([0.0, 2.0]), 1.0), 2, L2Ball(1.0), 1.0, "Pomer", smoothness=0.25).weight, 12)
    0.25
    """
    if isinstance(loss, Logistic):
        if smoothness is None:
            raise InputError(
                f"{who} takes losses.Logistic if it is told beforehand how curved they are: give smoothness=, which is "
                "|a|^2 / 4 for the longest row a"
            )
        return _smooth(loss, dimension, lipschitz, smoothness)
    if isinstance(loss, Quadratic):
        return _flattened(_quadratic(loss, dimension), domain, lipschitz)
    if isinstance(loss, Separable | Absolute | Hinge) and smoothness is not None:
        raise InputError(
            f"{who} with smoothness= takes gradients, losses.Linear, losses.Quadratic and losses.Logistic: for kinks "
            "beside them there is no sampler with a proved error"
        )
    if isinstance(loss, Separable):
        if isinstance(domain, L2Ball) and dimension > 1:
            raise InputError(f"{who} takes losses.Separable on a Box only: on a ball coordinates are not independent")
        if len(loss.parts) != dimension:
            raise FormError(f"a separable loss must have {dimension} parts")
        parts = [_part(part, _ends(domain)) for part in loss.parts]
        return _flattened(Separate(*map(np.concatenate, zip(*parts, strict=True))), domain, lipschitz)
    if isinstance(loss, Absolute | Hinge):
        if dimension != 1:
            raise InputError(
                f"{who} takes losses with a kink in dimension 1 only, and on a Box as parts of losses.Separable: there "
                "is no sampler with a proved error for more. UncertifiedLazyGibbs plays them, without privacy"
            )
        return _flattened(_part(loss, _ends(domain)), domain, lipschitz)
    if isinstance(loss, Linear):
        loss = loss.g
    elif callable(loss) or hasattr(loss, "gradient") or hasattr(loss, "value"):
        raise InputError(
            f"{who} takes a gradient, losses.Linear or losses.Quadratic, with smoothness= losses.Logistic, in "
            f"dimension 1 losses.Absolute and losses.Hinge, and on a Box losses.Separable, not {type(loss).__name__}: "
            "only for these are there samplers with a proved error"
        )
    return _shortened(_vector(loss, dimension), lipschitz)


def _smooth(loss: Logistic, d: int, lipschitz: float, smoothness: float) -> Smooth:
    """The loss, or what of it is no steeper than |row| and no more curved than |row|^2 / 4 allow."""
    row = np.clip(-float(_vector([loss.b], 1)[0]) * _vector(loss.a, d), -LARGEST, LARGEST)
    length = float(np.linalg.norm(row))
    if length == 0.0:
        return Smooth(row, 0.0)
    most = min(lipschitz / length, 4.0 * smoothness / length / length)
    return Smooth(row, min(1.0, most * (1.0 - (d + 32) * 2.3e-16)))


def _quadratic(loss: Quadratic, d: int) -> Separate:
    kappa = float(_vector([loss.strong_convexity], 1)[0])
    if kappa < 0.0:  # another kind of function: a matter of form
        raise FormError("the strong convexity of a loss must be at least 0: losses are convex")
    g = np.zeros(d) if loss.g is None else _vector(loss.g, d)
    return Separate(g - kappa * _vector(loss.centre, d), np.full(d, kappa), np.zeros(d), np.zeros(d))


def _part(loss: Any, ends: tuple[float, float]) -> Separate:
    """A loss of one number on an interval."""
    if isinstance(loss, Quadratic):
        return _quadratic(loss, 1)
    none = np.zeros(1)
    if isinstance(loss, Linear):
        return Separate(_vector(loss.g, 1), none, none, none)
    if not isinstance(loss, Absolute | Hinge):
        raise FormError("a part of a separable loss must be Linear, Absolute, Hinge or Quadratic")
    a, b = float(_vector(loss.a, 1)[0]), float(_vector([loss.b], 1)[0])
    c = a if isinstance(loss, Absolute) else -b * a  # its slope is -|c|, 0 or |c|
    if c == 0.0:
        return Separate(none, none, none, none)
    kink = b / a if isinstance(loss, Absolute) else -1.0 / c
    left, right = (-abs(c), abs(c)) if isinstance(loss, Absolute) else (min(c, 0.0), max(c, 0.0))
    if not ends[0] < kink < ends[1]:  # no kink that matters: linear, up to a constant
        return Separate(np.array([left if kink >= ends[1] else right]), none, none, none)
    return Separate(np.array([left]), none, np.array([kink]), np.array([right - left]))


def _flattened(loss: Separate, domain: L2Ball | Box, lipschitz: float) -> Separate:
    """The loss, or what of it is no steeper than lipschitz on the domain. The slope of a part rises from end to end."""
    lo, hi = _ends(domain)
    ends = loss.slope + loss.curvature * lo, loss.slope + loss.curvature * hi + loss.weight
    most = np.maximum(*np.abs(ends))
    if isinstance(domain, L2Ball) and most.size > 1:
        most = np.append(np.abs(loss.slope), loss.curvature[0] * domain.radius)
    top = float(most.max())
    if top == 0.0:
        return loss
    unit = most / top  # in units of the largest entry, no square overflows
    length = float(np.linalg.norm(unit))
    if isinstance(domain, L2Ball) and loss.slope.size > 1:  # |slope + curvature x| is largest where both agree
        length = float(np.linalg.norm(unit[:-1]) + unit[-1])
    limit = lipschitz * (1.0 - (most.size + 32) * 2.3e-16)
    if length * top <= limit:
        return loss
    flat = limit / length
    slope, curvature, weight = (v / top * flat for v in (loss.slope, loss.curvature, loss.weight))
    return Separate(slope, curvature, loss.kink, weight)


def _shortened(g: np.ndarray, lipschitz: float) -> np.ndarray:
    limit = lipschitz * (1.0 - (g.size + 16) * 2.3e-16)
    top = float(np.abs(g).max())
    if top == 0.0:
        return g
    unit = g / top  # in units of the largest entry, no square overflows
    length = float(np.linalg.norm(unit))
    return unit * (limit / length if length * top > limit else top)


def _vector(value: Any, d: int) -> np.ndarray:
    """Numbers of a loss, brought within what float64 can multiply."""
    try:
        v = np.asarray(value)
    except ValueError:  # rows of different lengths
        v = np.zeros(0)
    if v.dtype == object and all(isinstance(number, int) for number in v.flat):  # beyond 64 bits
        v = np.array([min(max(number, -LARGEST), LARGEST) for number in v.flat], dtype=float).reshape(v.shape)
    if v.shape != (d,) or v.dtype.kind not in "biuf" or not np.isfinite(v).all():
        raise FormError(f"a loss must hold {d} finite numbers")
    with np.errstate(over="ignore"):  # of numbers with more than 64 bits
        return np.clip(v.astype(np.float64), -LARGEST, LARGEST)


def _ends(domain: L2Ball | Box) -> tuple[float, float]:
    return (-domain.radius, domain.radius) if isinstance(domain, L2Ball) else (domain.lo, domain.hi)
