"""Minimise a regularised sum of losses with kinks to a certificate: a point and a proven distance to the minimiser.

    P(w) = sum_i max(a_i (z_i - k_i), b_i (z_i - k_i)) + (m/2) |w - c|^2,   z_i = <x_i, w>,   over a convex domain K

Its dual has one variable a_i <= alpha_i <= b_i a record, and alpha leads to the point

    w(alpha) = Proj_K(c - X' alpha / m).

The gap between the two objectives is a sum of terms (b - alpha)(z - k)_+ + (alpha - a)(k - z)_+ of at least 0, and

    |w(alpha) - w*|^2 <= gap / m

because P is m-strongly convex and so is the dual along w: nothing is asked of the losses, and rounding is bounded in
advance (docs/proofs/certified_erm.md). Stochastic dual coordinate ascent (Shalev-Shwartz & Zhang 2013) finds alpha in
a few hundred passes; accelerated ascent with a known number of steps stands behind it. The order of the records, the
stopping rule and the bounds on the work are public; what is released is w, never the number of steps.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.loops.protocol import compiled
from dpconvex.problem.domains import Domain, Everywhere, Rowwise, is_rowwise
from dpconvex.problem.losses import Kinked
from dpconvex.sums.memory import Memory
from dpconvex.sums.protocol import Sums
from dpconvex.theorems.computed_sums import BLOCK, UNIT, accumulation

_PASSES = 5000  # of coordinate ascent
_CHECK = 10  # passes, or accelerated steps, between two looks at the gap
_STUCK = "the solver did not reach its certificate; the run stays charged"


@compiled
def _lengths(rows, shorten, squares):
    for i in range(squares.shape[0]):
        shorten[i], squares[i] = rows.length(i)


@compiled
def _ascend(rows, order, shorten, squares, at, low, high, weight, domain, alpha, v, w):
    # One pass over the records: v = c - X' alpha / weight, and scale w its projection (w is v, or v clipped).
    norm2 = 0.0
    for j in range(v.shape[0]):
        norm2 += v[j] * v[j]
        w[j] = domain.clip(v[j])
    scale = domain.rescale(norm2)
    for k in range(order.shape[0]):
        i = order[k]
        inner = rows.dot(i, shorten[i], w)
        gain = (scale * inner - at[i]) * weight
        if squares[i] > 0.0:
            new = min(max(alpha[i] + gain / squares[i], low[i]), high[i])
        else:
            new = high[i] if gain > 0.0 else low[i] if gain < 0.0 else alpha[i]
        p = (alpha[i] - new) / weight
        if p != 0.0:
            alpha[i] = new
            rows.add(i, shorten[i], p, v)
            for j in range(v.shape[0] if domain.clips() else 0):
                w[j] = domain.clip(v[j])
            norm2 += 2.0 * p * inner + p * p * squares[i]
            scale = domain.rescale(norm2)


class Facts(NamedTuple):
    """What is public about P: enough to bound rounding, and the work."""

    n: int
    size: int
    row: float  # largest norm of a row
    steep: float  # largest |slope|
    width: float  # largest jump of a slope at a kink
    kink: float  # largest |k|
    weight: float  # m
    centre: float  # largest norm of c
    domain: Domain

    def reach(self) -> float:
        """Largest norm of w*, for a centre in the domain.

        m |w* - c| <= |subgradient of the losses|; and m |w* - c|^2 <= P(c), for P is at least (m/2) |w - c|^2.
        """
        steep, square = self.n * self.row * self.steep, self.n * self.steep * (self.row * self.centre + self.kink)
        away = min(steep / self.weight, math.sqrt(square / self.weight))
        return min(self.domain.reach(self.size), self.centre + away)

    def rounding(self, norm: float) -> tuple[float, float]:
        """Bounds on the error of c - X' alpha / m with its projection to a point of this norm, and of the gap there.

        With u = 2^-53: sums over records are added up 1024 at a time and the blocks in pairs, predictions 1024 features
        at a time and then over blocks (see `accuracy.rounding`); a projection onto a ball is off by (size + 8) u of its
        norm.
        """
        if (BLOCK + (self.size + self.n) / BLOCK) * UNIT > 1e-3:
            return math.inf, math.inf
        u = 1.01 * UNIT
        step = (accumulation(self.n) + 8) * u * self.n * self.row * self.steep / self.weight + 4 * u * self.centre
        back = (self.size + 8) * u * norm
        prediction = (min(self.size, BLOCK) + self.size / BLOCK + 8) * u * self.row * norm
        gap = self.n * self.width * (prediction + self.row * back) + self.weight * step**2 / 2.0
        return step + back, gap + 1e-290

    def least_distance(self) -> float:
        """Least distance that is sure to be certified on any data: four times what rounding alone would leave."""
        least = 0.0
        for _ in range(3):  # the point returned is within that distance of w*
            step, gap = self.rounding(self.reach() + least)
            least = 4.0 * (step + math.sqrt(gap / self.weight))
        return least * 1.01

    def steps(self, distance: float) -> int:
        """Accelerated steps that are enough in exact arithmetic, whatever the data (docs/proofs/certified_erm.md)."""
        return math.ceil(2.0 * self.n * self.row * self.width / (self.weight * distance)) + 1


def minimise_kinked(
    sums: Sums,
    loss: Kinked,
    weight: float,
    centre: np.ndarray,
    distance: float,
    *,
    domain: Domain = Everywhere(),  # noqa: B008
) -> np.ndarray:
    """Return a point within `distance` of the minimiser of P over the domain.

    Parameters
    ----------
    sums : Sums
        Over records in memory: ascent is one record at a time, and no sum.
    loss : Hinge, Absolute or Pinball
    weight : float
        m, positive.
    centre : ndarray
        c, of the shape of the weights.
    distance : float
        At least half of `Facts.least_distance`.
    domain : Domain, default=Everywhere()

    Raises
    ------
    InputError
        If float64 cannot certify the distance, or rows are elsewhere; found out before the data is used.
    ReleaseError
        If the work known to be enough was not, with a message that does not depend on the data.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Absolute
    >>> sums = Memory(Dense(np.ones((3, 1)), 1.0, 0.0), np.array([0.1, 0.5, 0.9]))
    >>> minimise_kinked(sums, Absolute(), 0.1, np.zeros(1), 1e-5).round(4)
    array([0.5])
    """
    if not isinstance(sums, Memory):
        raise InputError(f"{type(loss).__name__} is minimised one record at a time: for that rows must be in memory")
    if not is_rowwise(domain):
        raise HypothesisError(
            f"{type(domain).__name__} cannot be projected onto after every row, as this solver does: use Everywhere, "
            "L2Ball or Box"
        )
    dual = _Dual(sums, loss, weight, np.asarray(centre, dtype=np.float64), domain)
    if not 2.0 * distance >= dual.facts.least_distance():
        raise InputError(f"a distance of {distance:.3g} is below what float64 can certify: see Facts.least_distance")
    alpha = np.zeros(sums.n)
    for k in range(_PASSES // _CHECK):
        w, within = dual.certify(alpha)
        if within <= distance:
            return w
        dual.ascend(alpha, np.random.default_rng(k).permutation(sums.n))
    for w, within in dual.accelerate(alpha, dual.facts.steps(distance)):
        if within <= distance:
            return w
    raise ReleaseError(_STUCK)


def kinked_facts(loss: Kinked, n: int, size: int, row: float, weight: float, centre: float, domain: Domain) -> Facts:
    """Facts for n records with rows of up to that norm, and a centre of up to that norm.

    Examples
    --------
    >>> from dpconvex.problem.losses import Hinge
    >>> f"{kinked_facts(Hinge(), 10_000, 50, 1.0, 30.0, 8.0, Everywhere()).least_distance():.0e}"
    '7e-05'
    """
    (at,), (low,), (high,) = loss.kinks(np.array([loss.traits.target]))
    return Facts(n, size, row, loss.slope_bound(math.inf), float(high - low), float(at), weight, centre, domain)


class _Dual:
    """The dual of P on the data."""

    def __init__(self, sums: Memory, loss: Kinked, weight: float, centre: np.ndarray, domain: Rowwise) -> None:
        self.matrix, self.weight, self.centre, self.domain = sums.matrix, weight, centre, domain
        self.at, self.low, self.high = loss.kinks(sums.y)
        norm = math.sqrt(float(centre @ centre)) * (1.0 + (sums.size + 8) * UNIT)
        self.facts = kinked_facts(loss, sums.n, sums.size, sums.row, weight, norm, domain)
        self._shorten, self._squares = np.empty(sums.n), np.empty(sums.n)
        _lengths(self.matrix.rows, self._shorten, self._squares)

    def free(self, alpha: np.ndarray) -> np.ndarray:
        """Return c - X' alpha / m."""
        return np.asarray(self.centre - self.matrix.adjoint(alpha) / self.weight)

    def excess(self, alpha: np.ndarray, w: np.ndarray) -> float:
        """Sum of the losses at w minus what alpha says of them, term by term at least 0."""
        r = self.matrix.predict(w) - self.at
        terms = (self.high - alpha) * np.maximum(r, 0.0) + (alpha - self.low) * np.maximum(-r, 0.0)
        return float(terms.sum()) * (1.0 + 1e-12)

    def certify(self, alpha: np.ndarray, witness: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return w(alpha) and a bound on its distance to w*, whatever rounding did.

        A witness w' in the domain gives the other bound |w(alpha) - w*|^2 <= 2 (P(w') - D(alpha)) / m.
        """
        free = self.free(alpha)
        w = self.domain.project(free)
        error, slack = self.facts.rounding(math.sqrt(float(w @ w)) * (1.0 + (len(w) + 8) * UNIT))
        if witness is None:
            return w, error + math.sqrt((self.excess(alpha, w) + slack) / self.weight)
        move = witness - w
        pull = self.weight * (0.5 * float(move @ move) + float((w - free) @ move))
        return w, error + math.sqrt(2.0 * (self.excess(alpha, witness) + max(pull, 0.0) + slack) / self.weight)

    def ascend(self, alpha: np.ndarray, order: np.ndarray) -> None:
        """Passes of coordinate ascent, in place."""
        v = self.free(alpha)
        w = np.empty_like(v) if self.domain.clips() else v
        for _ in range(_CHECK):
            _ascend(
                self.matrix.rows, order, self._shorten, self._squares, self.at, self.low, self.high, self.weight,
                self.domain, alpha, v, w,
            )  # fmt: skip

    def accelerate(self, alpha: np.ndarray, steps: int) -> Any:
        """Yield certified points of accelerated ascent with averaged witnesses (Tseng 2008, Algorithm 1)."""
        smooth = max(float(self._squares.sum()), 1e-290) / self.weight
        far, theta, total = (self.low + self.high) / 2.0, 1.0, 0.0
        alpha, witness = far, np.zeros_like(self.centre)
        for k in range(1, steps + 1):
            between = (1.0 - theta) * alpha + theta * far
            w = self.domain.project(self.free(between))
            slopes = self.matrix.predict(w) - self.at
            far = np.clip(far + slopes / (theta * smooth), self.low, self.high)
            alpha = np.clip((1.0 - theta) * alpha + theta * far, self.low, self.high)
            total += 1.0 / theta
            witness = witness + (w - witness) / (theta * total)
            if k % _CHECK == 0 or k == steps:
                yield self.certify(alpha, witness)
            theta = (math.sqrt(theta**4 + 4.0 * theta**2) - theta**2) / 2.0
