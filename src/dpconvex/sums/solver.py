"""Minimise a regularised sum of losses to a certificate: a point and a proven distance to the minimiser.

    J(w) = sum_i omega_i loss(<x_i, w>; y_i) + (l2/2) |w|^2 + <tilt, w>     over a convex domain K

with the weights omega_i in [0, 1] by which sums count records; bounds stated for omega_i = 1 hold for all. J is
l2-strongly convex, so for any r in grad J(w) + N_K(w), the gradient plus the normal cone of the domain,

    |w - w*| <= |r| / l2.

`minimise` returns w with |r| <= tolerance, where |r| is the computed norm plus a bound on everything rounding can have
done to it (`accuracy.rounding`; for the logistic loss, where that is too much for the tolerance, the gradient is
computed in twice the precision: `careful`). How w was found does not matter. Newton's method finds it in a few
passes, from a start that a part of the rows suggests and with Hessians that may be stale or in single precision;
accelerated projected gradient steps, whose progress is known in advance, stand behind it. The stopping rule and the
bounds on the work use public facts alone; what is released is w, never the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import linalg

from dpconvex.errors import InputError, ReleaseError
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.losses import Loss, worst_at_origin
from dpconvex.problem.problem import Problem
from dpconvex.sums.accuracy import Accumulation, length_of
from dpconvex.sums.closest import closest, holds, least
from dpconvex.sums.protocol import Bend, Slopes, Sums
from dpconvex.sums.threads import one_blas_thread
from dpconvex.theorems.computed_sums import UNIT

__all__ = ["Work", "farthest", "least_tolerance", "minimise", "most_work"]

_FACTORED = 512  # up to this size the Hessian is formed and factored
_GOOD = 30.0  # a Newton step that takes this off the residual needs no search, and the next one no new Hessian
_PER_HESSIAN = 25.0  # features for which a Hessian takes as long as one pass for a gradient
_EVERY = 8  # one row of every so many is enough to find out where to start
_ENOUGH = 2**22  # numbers in these rows, and of larger data one row of more
_PATIENCE = 40  # Newton steps allowed to halve the residual
_PRODUCTS = 250  # Hessian-vector products for one direction
_CORRECTIONS = 12  # multipliers of a ball, or faces of a box, tried for one step
_TRIALS = 50  # points tried along one direction
_GAIN = 10.0  # what a round of gradient steps takes off the residual
_CHECK = 16  # gradient steps between two looks at the residual
_STUCK = "the solver did not reach its certificate; the run stays charged"


class Work(NamedTuple):
    """The most work a run may take.

    In each round: Newton steps, as long as one of every `newton` in a row halves the residual, then gradient steps.
    """

    rounds: int
    newton: int
    gradient: int


class _Point(NamedTuple):
    w: np.ndarray
    gradient: np.ndarray
    residual: np.ndarray  # the element of gradient + normal cone of least norm
    multiplier: float  # residual = gradient + multiplier w, on the boundary of a ball
    length: float  # norm of the residual, as computed
    certified: float  # norm of the residual, whatever rounding did


@one_blas_thread()
def minimise(
    sums: Sums,
    loss: Loss,
    l2: float,
    tilt: np.ndarray,
    tolerance: float,
    *,
    curvature: float | None = None,
    domain: Domain = Everywhere(),  # noqa: B008
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return a point of the domain within tolerance / l2 of the minimiser of J.

    Parameters
    ----------
    sums : Sums
        Over the records.
    loss : Loss
        A scalar loss, or `Softmax` with weights of shape (K, size).
    l2 : float
        Weight of the quadratic term, positive.
    tilt : ndarray
        Linear term, of the shape of the weights.
    tolerance : float
        Bound on the norm of an element of grad J + N_K at the point returned, rounding included. At least half of
        `least_tolerance` for a tilt of this norm.
    curvature : float, optional
        Lipschitz constant of the slope; by default what the loss states.
    domain : Domain, default=Everywhere()
    start : ndarray, optional
        Where to start; by default at what a part of the rows suggests.

    Raises
    ------
    InputError
        If float64 cannot certify the tolerance; found out before the data is used.
    ReleaseError
        If the work stated by `most_work` was not enough, with a message that does not depend on the data.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.memory import open_sums
    >>> sums = open_sums(Dense(np.array([[1.0], [1.0]]), 1.0, 0.0), np.array([1.0, 0.5]))
    >>> minimise(sums, Squared(), 1.0, np.array([0.0]), 1e-9).round(6)
    array([0.5])
    """
    curvature = loss.curvature_bound() if curvature is None else curvature
    shape = loss.traits.weight_shape(sums.size)
    origin = np.zeros(shape) if start is None else np.array(start, dtype=np.float64)
    if np.shape(tilt) != shape or origin.shape != shape:
        raise InputError(f"tilt and start must have the shape of the weights, {shape}")
    facts = _facts(loss, l2, domain, sums.error(), curvature)._replace(tilt=length_of(tilt))
    if not 2.0 * tolerance >= facts.least_tolerance():
        raise InputError(f"a tolerance of {tolerance:.3g} is below what float64 can certify: see least_tolerance")
    tilt = np.asarray(tilt, dtype=np.float64)
    solver = _Solver(sums, tilt, tolerance, facts)
    origin = solver.inside(origin)
    steepness = facts.gradient(length_of(origin))
    work = most_work(facts, tolerance, steepness)
    begin, model = (origin, None) if start is not None else _glance(sums, tilt, facts, origin)
    point = solver.at(begin)
    if point.length > steepness:  # the bound on the work counts from there
        point, model = solver.at(origin), None
    for _ in range(work.rounds):
        point, model = solver.newton(point, work.newton, model), None
        point = point if point.certified <= tolerance else closest(solver, point)
        if point.certified <= tolerance:
            return point.w
        point = solver.descend(point, work.gradient)
        if point.certified <= tolerance:
            return point.w
    raise ReleaseError(_STUCK)


def least_tolerance(problem: Problem, n: int, d: int, tilt: float = 0.0, sums: Accumulation | None = None) -> float:
    """Least tolerance that `minimise` is sure to certify on any n records of d features: a public number.

    Four times the rounding of a gradient, as carefully as it can be computed, at any point that could be returned.

    Parameters
    ----------
    problem : Problem
        With l2 > 0.
    n, d : int
        Number of records, and of features without the constant one.
    tilt : float
        Norm of the tilt, or a bound on it.
    sums : Accumulation, optional
        How far the sums can be off, if not as those of the rows of the problem.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> f"{least_tolerance(Problem(Logistic(), l2=1.0), n=10_000, d=100):.0e}"
    '4e-13'
    """
    return _public(problem, n, d, sums)._replace(tilt=tilt).least_tolerance()


def farthest(problem: Problem, n: int, d: int, tilt: float = 0.0, sums: Accumulation | None = None) -> float:
    """Largest norm of the minimiser on any n records of d features: a public number.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> round(farthest(Problem(Logistic(), l2=1.0), n=100, d=10), 2)
    11.77
    """
    return _public(problem, n, d, sums)._replace(tilt=tilt).reach()


@lru_cache(maxsize=16)
def _public(problem: Problem, n: int, d: int, sums: Accumulation | None) -> _Facts:
    sums = sums or Accumulation(n, problem.weight_shape(d)[-1], problem.row_bound(d).value)
    return _facts(problem.loss, problem.l2, problem.domain, sums, problem.loss.curvature_bound())


def _facts(loss: Loss, l2: float, domain: Domain, sums: Accumulation, curvature: float) -> _Facts:
    """What is public about J without a tilt."""
    ends = domain.reach(loss.traits.outputs * sums.size)
    bounds = loss.slope_bound(math.inf), loss.slope_bound(0.0), worst_at_origin(loss), ends
    return _Facts(loss, l2, domain, sums, 0.0, curvature, *bounds)


class _Facts(NamedTuple):
    """What is public about J, and what follows from it."""

    loss: Loss
    l2: float
    domain: Domain
    sums: Accumulation
    tilt: float
    curvature: float
    steepest: float  # largest slope anywhere, perhaps infinite
    slope_at_origin: float  # the largest there
    loss_at_origin: float  # the largest there
    ends: float  # largest norm in the domain

    @property
    def smoothness(self) -> float:
        return self.curvature * self.sums.row**2 * self.sums.n + self.l2

    def slope(self, norm: float) -> float:
        """Largest slope at points of up to this norm."""
        return self.loss.slope_bound(self.sums.row * norm)

    def gradient(self, norm: float, slope: float | None = None) -> float:
        """Largest gradient of J at points of up to this norm, with slopes of up to `slope`."""
        slope = self.slope(norm) if slope is None else slope
        return self.sums.n * self.sums.row * slope + self.l2 * norm + self.tilt

    def reach(self) -> float:
        """Largest norm of the minimiser.

        |w*| <= |grad J(0)| / l2 by strong convexity; and J(w*) <= J(0) with losses of at least 0 leaves
        (l2/2) |w*|^2 - |tilt| |w*| <= sum_i omega_i loss(0; y_i).
        """
        steep = self.tilt / self.l2
        shallow = steep + math.sqrt(steep**2 + 2.0 * self.sums.n * self.loss_at_origin / self.l2)
        return min(self.gradient(0.0, self.slope_at_origin) / self.l2, shallow, self.ends)

    def rounding(self, norm: float, careful: bool = False, slope: float | None = None, pairs: bool = False) -> float:
        """Bound the error of the residual at a point of this norm, with the gradient in float64 or in pairs of it.

        `slope` bounds slopes there; by default what the loss says of that norm.
        On the sphere of a ball the point is off by up to 8 u R: the residual by (smoothness + multiplier) 8 u R, and
        the distance to w* by 8 u R more. That is not so if points may be `pairs` (`closest`).
        """
        if careful:
            error = self.sums.careful(norm, self.curvature, self.l2, self.tilt)
        else:
            slope = self.slope(norm) if slope is None else slope
            error = self.sums.gradient(slope, norm, self.curvature, self.loss.traits.outputs, self.l2, self.tilt)
        if (domain := self.domain.traits).norm == 2.0:
            off = 16.0 * UNIT * (self.smoothness * domain.radius + self.gradient(norm, slope))
            held = pairs and holds(self.loss)
            error += min(off, least(self.sums, domain.radius, self.l2, self.curvature)) if held else off
        return error

    def least_tolerance(self) -> float:
        """Least tolerance t (up to a factor of 2) with t >= 4 rounding(|w|) wherever |w - w*| <= t / l2."""
        if not 0.0 < self.l2 < math.inf:
            raise InputError("l2 must be positive and finite: without it no distance to a minimiser can be certified")
        reach, careful = self.reach(), self.loss.traits.careful
        found = 4.0 * self.rounding(reach, careful, pairs=careful)
        while math.isfinite(found) and found < 4.0 * self.rounding(reach + found / self.l2, careful, pairs=careful):
            found *= 2.0
        return found


def most_work(facts: _Facts, tolerance: float, steepness: float) -> Work:
    """Return a bound on the work from a start with a gradient of up to `steepness`: it is enough in exact arithmetic.

    With kappa = smoothness / l2, k accelerated steps from w_0 leave J(w_k) - J* <= (1 - 1/sqrt(kappa))^k |r_0|^2 / l2
    (Nesterov 2018, Thm 2.2.3), and one more projected step has |r|^2 <= 8 smoothness (J - J*). So
    sqrt(kappa) ln(8 kappa gain^2) steps reduce |r| by the gain of a round, and rounds are counted from the largest
    residual at the start down to half of the tolerance. Newton steps only ever shorten this.
    """
    kappa = facts.smoothness / facts.l2
    rounds = math.log(max(2.0 * steepness / tolerance, 1.0), _GAIN)
    steps = math.sqrt(kappa) * math.log(8.0 * kappa * _GAIN**2)
    return Work(math.ceil(rounds) + 1, _PATIENCE, math.ceil(steps) + _CHECK)


def _glance(sums: Sums, tilt: np.ndarray, facts: _Facts, origin: np.ndarray) -> tuple[np.ndarray, _Factored | None]:
    """Point to start from, roughly the minimiser for one row of every so many, and roughly the curvature there.

    At most 4 log2(sqrt n) + 4 Newton steps: one of every 4 halves the residual, until it is 1/sqrt(n) of the first.
    """
    if sums.n < 16 * _EVERY * origin.size:
        return origin, None
    every = max(_EVERY, -(-sums.n * sums.size // max(_ENOUGH, 16 * origin.size * sums.size)))
    few = sums.view(0, sums.n, every)
    facts = facts._replace(sums=few.error(), l2=facts.l2 / every, tilt=facts.tilt / every)
    solver = _Solver(few, tilt / every, 0.0, facts)
    point = solver.at(origin)
    solver.tolerance = point.length / math.sqrt(few.n)  # closer than chance allows is no use
    found, last = solver.newton(point, 4).w, solver.formed
    return found, None if last is None else last.times(every)


class _Solver:
    """J on the data, with the steps that lower it."""

    def __init__(self, sums: Sums, tilt: np.ndarray, tolerance: float, facts: _Facts) -> None:
        self.sums, self.tilt, self.tolerance, self.facts = sums, tilt, tolerance, facts
        self.loss, self.l2, self.domain = facts.loss, facts.l2, facts.domain
        self.formed: _Factored | None = None  # the last Hessian

    def inside(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the domain; the norm of a point on a sphere is right to 4 units."""
        traits = self.domain.traits
        if not traits.bounded:
            return w
        if traits.norm != 2.0:
            return self.domain.project(w)
        norm = _exact_norm(w)
        return w * (traits.radius / norm) if norm > traits.radius else w

    def gradient(self, w: np.ndarray, keep: bool = False) -> np.ndarray:
        """Gradient of J at w; `keep` if its curvature or a line through w may be asked for next."""
        return self.sums.sweep(Slopes(self.loss, w), keep=keep) + self.l2 * w + self.tilt

    def at(self, w: np.ndarray) -> _Point:
        """Everything about w, certificate included."""
        g = self.gradient(w, keep=True)
        r, multiplier = _residual(self.domain, w, g)
        length, error = length_of(r), self.facts.rounding(length_of(w), slope=self.facts.steepest)
        if length - error <= self.tolerance:  # slopes near w matter only where the certificate may hold
            error = self.facts.rounding(length_of(w))
        # Within the error of the tolerance, and not sure to be within the tolerance: look closer, if that may do.
        careful = self.facts.rounding(length_of(w), careful=True) if self.loss.traits.careful else math.inf
        if length - error <= self.tolerance < length + error and careful <= self.tolerance:
            g, error = self.closer(w), careful
            r, multiplier = _residual(self.domain, w, g)
            length = length_of(r)
        return _Point(w, g, r, multiplier, length, length + error)

    def closer(self, w: np.ndarray) -> np.ndarray:
        """Gradient of J at w, in twice the precision."""
        return self.sums.careful(self.loss, w, self.l2 * w + self.tilt)

    def newton(self, point: _Point, patience: int, model: _Model | None = None) -> _Point:
        """Newton steps until the certificate holds, or `patience` of them in a row did not halve the residual.

        The first may take a model from elsewhere. One that is not of the point is used as long as it serves.
        """
        best, goal, left, scale = point, point.length / 2.0, patience, point.length or 1.0
        while left and best.certified > self.tolerance and not self.coarse(best):
            left -= 1
            fresh = model is None
            if model is None:
                model = self.model(point)
            full = self.at(self.inside(self.aim(point, model, scale)))
            good = full.length <= point.length / _GOOD or self.near(point.length, full.length)
            if good or fresh or full.length <= point.length / 2.0:
                point = self.search(point, full) if fresh and not good else full
            if isinstance(model, _Iterated) or not good:
                model = None  # J has another curvature here
            best = point if point.length < best.length else best
            if 0.0 < best.length <= goal:  # nothing is left to halve of a residual of zero
                goal, left = best.length / 2.0, patience
        return best

    def coarse(self, point: _Point) -> bool:
        """Whether float64 numbers are too coarse for the tolerance, and for a residual much shorter than this one."""
        norm = length_of(point.w)
        if not holds(self.loss) or self.facts.rounding(norm, careful=True) <= self.tolerance:
            return False
        return point.length <= self.facts.rounding(norm)

    def near(self, before: float, now: float) -> bool:
        """Whether steps as good as the last one reach the tolerance in fewer passes than a Hessian takes time for."""
        steps = self.sums.size / _PER_HESSIAN
        return now < 0.1 * before and now * (now / before) ** steps <= self.tolerance

    def search(self, point: _Point, full: _Point) -> _Point:
        """Search the line, or inside a bounded domain the segment, for the point where J stops falling.

        Predictions along the line follow from those at two points, so a trial costs O(n). Inside a bounded domain the
        full step is taken if it halves the residual: on a sphere J hardly falls any more when the residual does.
        """
        if self.domain.traits.bounded:
            if full.length <= point.length / 2.0:
                return full
            if not np.vdot(point.gradient, full.w - point.w) < 0.0:
                full = self.at(self.inside(point.w - point.gradient / self.facts.smoothness))
        move = full.w - point.w
        linear = float(np.vdot(self.l2 * point.w + self.tilt, move))
        quadratic = self.l2 * float(np.vdot(move, move))

        def derivatives(t: float) -> tuple[float, float]:
            ((first, second),) = self.sums.along(self.loss, point.w, full.w, (t,)).tolist()
            return first + linear + t * quadratic, second + quadratic

        longest = 1.0 if self.domain.traits.bounded else math.inf
        t = _fall(derivatives, float(np.vdot(point.gradient, move)), longest)
        return full if t == 1.0 else self.at(self.inside(point.w + t * move))

    def model(self, point: _Point) -> _Model:
        """Curvature of J at the point."""
        if self.loss.traits.outputs > 1 or self.sums.size > _FACTORED:
            return _Iterated(self.sums, self.loss, point.w, self.l2)
        # Single precision rounds by little beside l2 here, and neither overflows nor underflows.
        single = self.facts.smoothness < 1e6 * self.l2 and 1e-9 < self.sums.row < 1e9
        self.formed = _Factored(self.sums.hessian(self.loss, point.w, single), self.l2)
        return self.formed

    def aim(self, point: _Point, model: _Model, scale: float) -> np.ndarray:
        """Minimiser over the domain of the quadratic function with the gradient of J at the point and the curvature."""
        close = max(min(0.1, math.sqrt(point.length / scale)) * point.length, self.tolerance / 8.0)
        traits = self.domain.traits
        if traits.norm == 2.0:
            return _aim_within_ball(model, traits.radius, point, close)
        if traits.interval is not None and traits.bounded:
            return _aim_within_box(model, traits.interval, point, close)
        return point.w + model.solve(0.0, -point.gradient, close, np.ones(point.w.shape, dtype=bool))

    def descend(self, point: _Point, steps: int) -> _Point:
        """Accelerated projected gradient steps until the residual has fallen by the gain of a round.

        The pace is that of an l2-strongly convex function with the stated smoothness: nothing is tuned to the data.
        """
        smoothness, goal = self.facts.smoothness, point.length / _GAIN
        root = math.sqrt(smoothness / self.l2)
        momentum = (root - 1.0) / (root + 1.0)
        # Steps along gradients that rounding may have changed by as much as they are long would prove nothing.
        fine = self.loss.traits.careful and goal < 4.0 * self.facts.rounding(length_of(point.w))
        gradient = self.closer if fine else self.gradient
        best, w, ahead = point, point.w, point.w
        for k in range(1, steps + 1):
            previous, w = w, self.inside(ahead - gradient(ahead) / smoothness)
            ahead = w + momentum * (w - previous)
            if k % _CHECK == 0 or k == steps:
                now = self.at(self.inside(w - gradient(w) / smoothness))
                best = now if now.length < best.length else best
                if best.length <= goal or best.certified <= self.tolerance:
                    break
        return best


def _exact_norm(v: np.ndarray) -> float:
    """Euclidean norm, right to 4 units in the last place."""
    return math.sqrt(math.fsum(np.square(np.ravel(v)).tolist()))


def _residual(domain: Domain, w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the element of g + N(w) of least norm, and the multiplier of w in it (0 but on the sphere of a ball)."""
    traits = domain.traits
    if traits.interval is not None:
        return np.where(_blocked(traits.interval, w, g), 0.0, g), 0.0
    if traits.norm == 2.0 and _exact_norm(w) >= traits.radius * (1.0 - 8.0 * UNIT):
        multiplier = max(0.0, -float(np.vdot(g, w)) / float(np.vdot(w, w)))
        return g + multiplier * w, multiplier
    return g, 0.0


def _blocked(interval: tuple[float, float], w: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Coordinates at an end of their interval which the gradient pushes outward."""
    lo, hi = interval
    return ((w <= lo) & (g >= 0.0)) | ((w >= hi) & (g <= 0.0))


def _aim_within_ball(model: _Model, radius: float, point: _Point, close: float) -> np.ndarray:
    """Solve (H + mu) (v - w) = -(g + mu w) for mu = 0 with |v| <= R, or for mu > 0 with |v| = R.

    Newton's method finds mu: 1/|v| is concave in it, so from the second trial on it rises to the root from the left
    (Conn, Gould & Toint 2000, section 7.3).
    """
    every = np.ones(point.w.shape, dtype=bool)
    mu = point.multiplier
    v = point.w + model.solve(mu, -point.residual, close, every)
    for _ in range(_CORRECTIONS):
        norm = length_of(v)
        gap = norm - radius
        if norm == 0.0 or (mu == 0.0 and gap <= 0.0) or abs(gap) <= 1e-2 * length_of(v - point.w):
            break
        fall = float(np.vdot(v, model.solve(mu, v, 0.1 * norm, every))) / norm  # -d|v|/dmu
        mu = max(0.0, mu + gap / fall * norm / radius)
        v = point.w + model.solve(mu, -(point.gradient + mu * point.w), close, every)
    return v * (radius / _exact_norm(v)) if mu > 0.0 and v.any() else v


def _aim_within_box(model: _Model, interval: tuple[float, float], point: _Point, close: float) -> np.ndarray:
    """Minimise the model over the box, face by face: solve over the coordinates free to move, clip, look again.

    Nothing forbids this to cycle, so the best point met is returned: it lowers the model, if any was met that does.
    """
    v, slope, best, lowest = point.w, point.gradient, point.w, 0.0
    for _ in range(_CORRECTIONS):
        free = ~_blocked(interval, v, slope)
        if length_of(slope * free) <= close:
            break
        v = np.clip(v + model.solve(0.0, -slope * free, close, free), *interval)
        slope = point.gradient + model.product(v - point.w)
        value = 0.5 * float(np.vdot(v - point.w, point.gradient + slope))
        if value < lowest:
            best, lowest = v, value
    return best


class _Factored:
    """The Hessian H = X' diag(omega h) X + l2 as a matrix."""

    def __init__(self, H: np.ndarray, l2: float) -> None:
        self._H = H
        self._H.flat[:: len(self._H) + 1] += l2

    def times(self, factor: float) -> _Factored:
        """The Hessian of so many times the objective."""
        return _Factored(factor * self._H, 0.0)

    def product(self, v: np.ndarray) -> np.ndarray:
        """Return H v."""
        return np.asarray(self._H @ v)

    def solve(self, mu: float, b: np.ndarray, close: float, free: np.ndarray) -> np.ndarray:
        """Return p with (H + mu) p = b over the free coordinates, 0 elsewhere."""
        p = np.zeros_like(b)
        p[free] = _cholesky(self._H if free.all() else self._H[np.ix_(free, free)], mu, b[free])
        return p


class _Iterated:
    """The Hessian, known by its products alone: nothing of size x size is formed."""

    def __init__(self, sums: Sums, loss: Loss, w: np.ndarray, l2: float) -> None:
        self._sums, self._loss, self._w, self._l2 = sums, loss, w, l2
        self._diagonal = sums.diagonal(loss, w) + l2

    def product(self, v: np.ndarray) -> np.ndarray:
        """Return H v."""
        return self._sums.sweep(Bend(self._loss, self._w, v)) + self._l2 * v

    def solve(self, mu: float, b: np.ndarray, close: float, free: np.ndarray) -> np.ndarray:
        """Return p with |(H + mu) p - b| <= close over the free coordinates, 0 elsewhere."""
        return _conjugate_gradients(lambda v: free * (self.product(v) + mu * v), free * b, self._diagonal + mu, close)


_Model = _Factored | _Iterated


def _cholesky(H: np.ndarray, ridge: float, b: np.ndarray) -> np.ndarray:
    """Solve (H + ridge) p = b by Cholesky, with a larger ridge where rounding asks for one."""
    trace = float(np.trace(H))
    for more in (0.0, *(UNIT * trace * 100.0**k for k in range(1, 8))):
        A = H.copy()
        A.flat[:: len(A) + 1] += ridge + more
        try:
            factor = linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            continue
        return np.asarray(linalg.cho_solve(factor, b, check_finite=False))
    return b / (trace + ridge)


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, diagonal: np.ndarray, enough: float
) -> np.ndarray:
    """Approximate solution of A p = b with |A p - b| <= enough, preconditioned by the diagonal of A.

    Stopped early it is still a direction of descent: <b, p> > 0.
    """
    p, rest = np.zeros_like(b), b.copy()
    scaled = rest / diagonal
    towards, energy = scaled, float(np.vdot(rest, scaled))
    for _ in range(_PRODUCTS if energy > 0.0 else 0):
        image = product(towards)
        bent = float(np.vdot(towards, image))
        if not bent > 0.0:  # a direction so short that its square is 0
            break
        step = energy / bent
        p += step * towards
        rest -= step * image
        scaled = rest / diagonal
        before, energy = energy, float(np.vdot(rest, scaled))
        if length_of(rest) <= enough or energy <= 0.0:
            break
        towards = scaled + (energy / before) * towards
    return p


def _fall(derivatives: Callable[[float], tuple[float, float]], initial: float, longest: float) -> float:
    """Find t in (0, longest] where the derivative, rising from `initial` < 0, is within a tenth of it from 0.

    Newton's method on the derivative inside a bracket, which every third trial halves. Where the trials run out the
    left end of the bracket is returned, for the function falls all the way there (the right end if the left is 0).
    """
    low, high, t = 0.0, math.inf, 1.0
    for trial in range(_TRIALS):
        first, second = derivatives(t)
        if abs(first) <= -0.1 * initial or (first <= 0.0 and t >= longest):
            return t
        low, high = (t, high) if first < 0.0 else (low, t)
        newton = t - first / second if second > 0.0 else math.inf
        middle = 0.5 * (low + high) if high < math.inf else 8.0 * t
        steady = trial % 3 != 2 and low < newton < min(high, 8.0 * t)
        t = min(newton if steady else middle, longest)
    return low or high
