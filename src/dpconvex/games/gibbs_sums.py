"""Losses as private players read them: scaled down to the stated steepness, added up, and the Gibbs laws of their sums.

What happens to a loss here depends on that loss alone. Only its form can be refused: an error that depended on its
numbers would be a release of its own. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import FormError, InputError
from dpconvex.games.domains import coordinate_range
from dpconvex.games.gibbs_walks import Walk
from dpconvex.games.losses import LogisticLoss, MarginLoss, QuadraticLoss
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, GibbsInterval, GibbsProduct, gibbs_law
from dpconvex.noise.proximal import GibbsProximal, Margins
from dpconvex.noise.rejection import GibbsRejection
from dpconvex.problem.domains import Box, L2Ball

__all__ = ["Separate", "Smooth", "Sum", "Tries", "read_loss"]

LARGEST = 1e100  # what numbers of a loss are brought within: no product of two overflows
Law = GibbsBall | GibbsBox | GibbsProduct | GibbsRejection | GibbsProximal


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
    """A loss <slope, x> + weight phi(<row, x> - offset), phi as in `Margins`: logistic, or a kink that was rounded off.

    Examples
    --------
    >>> Smooth(np.array([-1.0, 0.0]), 0.5).weight
    0.5
    """

    row: np.ndarray
    weight: float
    offset: float = 0.0
    slope: np.ndarray | None = None
    rounded: bool = False


Read = np.ndarray | Separate | Smooth


class Tries(NamedTuple):
    """How many proposals a draw by rejection from the law of a sum with `Smooth` losses gets: public numbers.

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
    coordinate. `draws` says how points are drawn from sums with smooth losses: by rejection or by a walk.

    Examples
    --------
    >>> total = Sum(L2Ball(1.0), 1, lam=1.0, beta=1.0)
    >>> total.add(Separate(*np.array([[-1.0], [0.0], [0.5], [2.0]])))
    >>> total.difference(np.array([1.0]), np.array([0.5]))
    0.5
    """

    def __init__(
        self, domain: L2Ball | Box, dimension: int, lam: float, beta: float, draws: Tries | Walk | None = None
    ) -> None:
        self._domain, self._lam, self._beta, self._draws, self._losses = domain, lam, beta, draws, 0
        self._tilts, self._curvatures = np.zeros((2, dimension)), np.zeros((2, dimension))  # sums, and what they lost
        self._kinks: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._smooth: list[Smooth] = []

    def add(self, loss: Read) -> None:
        """Add a loss."""
        self._losses += 1
        if isinstance(loss, Smooth):
            self._smooth.append(loss)
            if loss.slope is not None:
                _accumulate(self._tilts, loss.slope)
            return
        if isinstance(loss, np.ndarray):
            _accumulate(self._tilts, loss)
            return
        _accumulate(self._tilts, loss.slope)
        _accumulate(self._curvatures, loss.curvature)
        if loss.weight.any():
            self._kinks.append(loss.kink)
            self._weights.append(loss.weight)

    @property
    def tilt(self) -> np.ndarray:
        """Sum of the slopes."""
        return np.asarray(self._tilts.sum(axis=0))

    @property
    def _curvature(self) -> np.ndarray:
        return np.asarray(self._curvatures.sum(axis=0))

    def difference(self, x: np.ndarray, y: np.ndarray) -> float:
        """Value at x less that at y."""
        value = float(self.tilt @ (x - y))
        if self._curvature.any():
            value += 0.5 * float(self._curvature @ ((x - y) * (x + y)))
        if self._kinks:
            kinks = np.array(self._kinks)
            bend = np.maximum(x - kinks, 0.0) - np.maximum(y - kinks, 0.0)
            value += float((np.array(self._weights) * bend).sum())
        return value + sum(part.rise(y, x) for part in self._margins(1.0))

    @property
    def kinks(self) -> np.ndarray:
        """Where losses have kinks, in any order."""
        return np.concatenate([k[w > 0.0] for k, w in zip(self._kinks, self._weights, strict=True)] or [np.zeros(0)])

    def _margins(self, scale: float) -> list[Margins]:
        """The smooth losses times a number: logistic ones, and kinks that were rounded off."""
        kinds = ([loss for loss in self._smooth if loss.rounded == rounded] for rounded in (False, True))
        return [
            Margins(
                np.ascontiguousarray(np.array([loss.row for loss in kind]).T),
                np.array([loss.offset for loss in kind]),
                scale * np.array([loss.weight for loss in kind]),
                kind[0].rounded,
            )
            for kind in kinds
            if kind
        ]

    def law(self) -> Law:
        """Density in proportion to exp(-beta (sum + lam |x - centre|^2 / 2)) on the domain."""
        tilt, curvature = self._beta * self.tilt, self._beta * (self._lam + self._curvature)
        if self._kinks or (curvature != curvature[0]).any():
            assert not self._smooth
            return self._product(tilt, curvature)
        lo, hi = coordinate_range(self._domain)
        plain = gibbs_law(self._domain, tilt - self._beta * self._lam * ((lo + hi) / 2.0), float(curvature[0]))
        if not self._smooth:
            return plain
        parts = self._margins(self._beta)
        if isinstance(self._draws, Tries):
            (logistic,) = parts
            smoothness, most = self._beta * self._draws.smoothness, self._draws.most
            return GibbsRejection(plain, logistic.columns.T, logistic.weights, smoothness, most)
        assert isinstance(self._draws, Walk)
        steep = self._beta * self._draws.smoothness * self._losses
        return GibbsProximal(plain, parts, steep, *self._draws.length(self._losses, self._lam, self._beta))

    def _product(self, tilt: np.ndarray, curvature: np.ndarray) -> GibbsProduct:
        lo, hi = coordinate_range(self._domain)
        middle = self._lam / (self._lam + self._curvature) * (lo + hi) / 2.0  # where both squares together are least
        kinks, weights = np.reshape([self._kinks, self._weights], (2, len(self._kinks), tilt.size))
        parts = []
        for j, bent in enumerate(weights.T > 0.0):
            bends = kinks[bent, j], self._beta * weights[bent, j]
            parts.append(GibbsInterval(float(tilt[j]), *bends, float(curvature[j]), float(middle[j]), lo, hi))
        return GibbsProduct(tuple(parts))


def _accumulate(sums: np.ndarray, more: np.ndarray) -> None:
    """Add to sums in the first row, and what rounding loses to the second (Knuth)."""
    high = sums[0] + more
    share = high - sums[0]
    sums[1] += (sums[0] - (high - share)) + (more - share)
    sums[0] = high


def read_loss(
    loss: Any, dimension: int, domain: L2Ball | Box, lipschitz: float, who: str, smoothness: float | None = None,
    rounding: float | None = None,
) -> Read:  # fmt: skip
    """Read a loss whose Gibbs law can be drawn from, scaled down to be no steeper than lipschitz on the domain.

    With `smoothness`, logistic losses are taken, scaled down to be no more curved than that. With `rounding`, kinks are
    rounded off in any dimension, over that distance to both sides of an absolute loss. With `smoothness` alone kinks
    are refused.

    Returns
    -------
    array, Separate or Smooth
        The gradient of a linear loss, or another loss up to a constant.

    Raises
    ------
    InputError, FormError
        If the loss has a form or a shape that `who`, a player, does not take.

    Examples
    --------
    >>> from dpconvex.games.losses import AbsoluteLoss
    >>> read_loss(np.array([3.0, 4.0]), 2, L2Ball(1.0), 1.0, "Pomer").round(12)
    array([0.6, 0.8])
    >>> read_loss(AbsoluteLoss(np.array([1.0]), 0.5), 1, L2Ball(1.0), 1.0, "Pomer").kink
    array([0.5])
    >>> read_loss(QuadraticLoss(np.zeros(2), 3.0), 2, L2Ball(1.0), 1.0, "Pomer").curvature.round(12)
    array([1., 1.])
    >>> rounded = read_loss(AbsoluteLoss(np.array([0.0, 1.0]), 0.5), 2, L2Ball(1.0), 1.0, "Pomer", rounding=0.1)
    >>> rounded.row, rounded.offset, round(rounded.weight, 12)
    (array([ 0., 10.]), 5.0, 0.2)
    >>> logistic = LogisticLoss(np.array([0.0, 2.0]), 1.0)
    >>> round(read_loss(logistic, 2, L2Ball(1.0), 1.0, "Pomer", smoothness=0.25).weight, 12)
    0.25
    """
    form = getattr(loss, "form", None)
    if form is None and (callable(loss) or hasattr(loss, "gradient") or hasattr(loss, "value")):
        raise InputError(
            f"{who} takes a gradient, losses.LinearLoss or losses.QuadraticLoss, with smoothness= losses.LogisticLoss, "
            "in dimension 1 or with rounding= losses.AbsoluteLoss and losses.HingeLoss, and on a Box "
            f"losses.SeparableLoss, not {type(loss).__name__}: only for these are there samplers with a proved error"
        )
    if form == "logistic":
        if smoothness is None:
            raise InputError(
                f"{who} takes losses.LogisticLoss if it is told beforehand how curved they are: give smoothness=, "
                "which is |a|^2 / 4 for the longest row a"
            )
        return _smooth(loss, dimension, lipschitz, smoothness)
    if form == "quadratic":
        return _flattened(_quadratic(loss, dimension), domain, lipschitz)
    if form not in ("kinked", "separable"):
        return _shortened(_vector(loss.g if form == "linear" else loss, dimension), lipschitz)
    if form == "kinked" and rounding is not None:
        return _rounded(loss, domain, dimension, lipschitz, rounding)
    if smoothness is not None or rounding is not None:
        raise InputError(
            f"{who} with smoothness= takes gradients, losses.LinearLoss, losses.QuadraticLoss and losses.LogisticLoss, "
            "and with rounding= losses.AbsoluteLoss and losses.HingeLoss, whose kinks it rounds off; there is no "
            "sampler with a proved error for kinks as they are, or losses.SeparableLoss, beside these"
        )
    if form == "separable":
        if dimension > 1 and domain.traits.interval is None:
            raise InputError(
                f"{who} takes losses.SeparableLoss on a Box only: on a ball coordinates are not independent"
            )
        if len(loss.parts) != dimension:
            raise FormError(f"a separable loss must have {dimension} parts")
        parts = [_part(part, coordinate_range(domain)) for part in loss.parts]
        return _flattened(Separate(*map(np.concatenate, zip(*parts, strict=True))), domain, lipschitz)
    if dimension != 1:
        raise InputError(
            f"{who} takes losses with a kink as they are in dimension 1 only, and on a Box as parts of "
            'losses.SeparableLoss: give rounding="auto", and it rounds off the kinks of others by so little that its '
            "bound on regret grows by a tenth. UncertifiedLazyGibbs plays them as they are, without privacy"
        )
    return _flattened(_part(loss, coordinate_range(domain)), domain, lipschitz)


def _tamed(loss: MarginLoss, d: int) -> MarginLoss:
    """The same loss with numbers that float64 can multiply."""
    return replace(loss, a=_vector(loss.a, d), b=float(_vector([loss.b], 1)[0]))


def _smooth(loss: LogisticLoss, d: int, lipschitz: float, smoothness: float) -> Smooth:
    """The loss, scaled down where |row| and |row|^2 / 4 exceed lipschitz and smoothness."""
    row = np.clip(_tamed(loss, d).row, -LARGEST, LARGEST)
    length = float(np.linalg.norm(row))
    if length == 0.0:
        return Smooth(row, 0.0)
    most = min(lipschitz / length, 4.0 * smoothness / length / length)
    return Smooth(row, min(1.0, most * (1.0 - (d + 32) * 2.3e-16)))


def _rounded(loss: Any, domain: L2Ball | Box, d: int, lipschitz: float, rounding: float) -> Smooth:
    """The loss, scaled down to be no steeper than lipschitz, with a parabola over 2 `rounding` in place of its kink.

    For a jump of the slope from 0, as of a hinge, half that width will do.
    """
    loss = _tamed(loss, d)
    row = np.clip(loss.row, -LARGEST, LARGEST)
    length = float(np.linalg.norm(row))
    if length == 0.0:
        return Smooth(row, 0.0, rounded=True)
    half = 0.5 * rounding if loss.one_sided else rounding
    beyond = 2.0 * float(domain.reach(d)) + 2.0 * half  # from here on a kink is outside of the domain, wherever it is
    with np.errstate(over="ignore"):
        place = float(np.clip(np.float64(loss.offset) / length, -beyond, beyond))
    slope = min(length, lipschitz) * (1.0 - (d + 32) * 2.3e-16)
    unit = row / length
    if loss.one_sided:
        return Smooth(unit / half, slope * half, place / half, rounded=True)
    return Smooth(unit / half, 2.0 * slope * half, place / half, -slope * unit, rounded=True)


def _quadratic(loss: QuadraticLoss, d: int) -> Separate:
    kappa = float(_vector([loss.strong_convexity], 1)[0])
    if kappa < 0.0:  # another kind of function: a matter of form
        raise FormError("the strong convexity of a loss must be at least 0: losses are convex")
    g = np.zeros(d) if loss.g is None else _vector(loss.g, d)
    return Separate(g - kappa * _vector(loss.centre, d), np.full(d, kappa), np.zeros(d), np.zeros(d))


def _part(loss: Any, ends: tuple[float, float]) -> Separate:
    """A loss of one number on an interval."""
    form, none = getattr(loss, "form", None), np.zeros(1)
    if form == "quadratic":
        return _quadratic(loss, 1)
    if form == "linear":
        return Separate(_vector(loss.g, 1), none, none, none)
    if form != "kinked":
        raise FormError("a part of a separable loss must be a LinearLoss, AbsoluteLoss, HingeLoss or QuadraticLoss")
    loss = _tamed(loss, 1)
    c = float(loss.row[0])
    if c == 0.0:
        return Separate(none, none, none, none)
    kink = loss.offset / c
    left, right = (min(c, 0.0), max(c, 0.0)) if loss.one_sided else (-abs(c), abs(c))
    if not ends[0] < kink < ends[1]:  # no kink that matters: linear, up to a constant
        return Separate(np.array([left if kink >= ends[1] else right]), none, none, none)
    return Separate(np.array([left]), none, np.array([kink]), np.array([right - left]))


def _flattened(loss: Separate, domain: L2Ball | Box, lipschitz: float) -> Separate:
    """The loss, scaled down to be no steeper than lipschitz on the domain. Slopes rise from end to end."""
    lo, hi = coordinate_range(domain)
    ends = loss.slope + loss.curvature * lo, loss.slope + loss.curvature * hi + loss.weight
    most = np.maximum(*np.abs(ends))
    ball = most.size > 1 and domain.traits.interval is None
    if ball:  # |slope + curvature x| is largest where both agree
        most = np.append(np.abs(loss.slope), loss.curvature[0] * hi)
    top = float(most.max())
    if top == 0.0:
        return loss
    unit = most / top  # in units of the largest entry, no square overflows
    length = float(np.linalg.norm(unit[:-1]) + unit[-1]) if ball else float(np.linalg.norm(unit))
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
