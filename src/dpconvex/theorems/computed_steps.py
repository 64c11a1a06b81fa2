"""Gradient steps as float64 computes them: how far they are from exact ones, and how far two walks drift apart for it.

A computed step is within an error e of a contraction, so it moves two points apart by at most 2e more than the
contraction does. Proof: docs/proofs/computed_steps.md.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Bounded,
    Derivation,
    Release,
    concludes_fact,
    need_fact,
    need_one_origin,
    need_positive,
)
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import ULP, round_up, up
from dpconvex.theorems.computed_sums import BLOCK, MOST, UNIT
from dpconvex.theorems.schedules import Schedule, check_schedule

SLACK: Final = 1.03  # covers (1 + k u)^k for every k here, and points that rounding has moved by a hundredth
SMALL: Final = 1e-290  # covers products that underflow
GRID_SHARE: Final = 5e-6  # of mu, that the grid of a walk may add to it
LARGEST: Final = 1e140  # lengths: their squares stay in the range of float64


class Steps(NamedTuple):
    """What rounding in a gradient step depends on, all of it public.

    Parameters
    ----------
    numbers : int
        Number of weights.
    row, lipschitz, curvature : float
        Largest norm of a row, and of a gradient, and Lipschitz constant of the slope; infinite for a loss with kinks.
    reach : float
        Largest norm of a point at which a gradient is taken.
    ridge : float
        The quadratic term of a record; for 0 no point is shortened.
    """

    numbers: int
    row: float
    lipschitz: float
    curvature: float
    reach: float
    ridge: float

    def gradients(self) -> float:
        """Bound the error of one record's computed gradient."""
        k, far = self.numbers, self.row * self.reach
        prediction = (2.0 * k + 16.0) * far
        slope = self.curvature * (prediction + 16.0 * (far + 20.0)) + 17.0 * self.lipschitz / self.row
        return SLACK * UNIT * (self.row * slope + (k + 24.0) * self.lipschitz)

    def sums(self, batch: np.ndarray) -> np.ndarray:
        """Bound what adding up a batch adds to the error of its mean gradient."""
        return np.asarray(SLACK * UNIT * self.lipschitz * (np.minimum(batch, self.block) + batch / self.block + 48.0))

    @property
    def block(self) -> float:
        """Rows that are added up before their sum joins the total."""
        return float(max(BLOCK, self.numbers))

    def longest(self, eta: np.ndarray) -> np.ndarray:
        """Largest norm of a point before it is projected."""
        return np.asarray(np.maximum(1.0, eta * self.ridge - 1.0) * self.reach + eta * self.lipschitz)

    def updates(self, eta: np.ndarray) -> np.ndarray:
        """Bound the rounding of (1 - eta ridge) w - eta g, of which the first product is exact without a ridge."""
        shortening = 2.0 * self.longest(eta) + eta * self.ridge * self.reach if self.ridge else 0.0
        return np.asarray(SLACK * UNIT * (self.longest(eta) + 3.0 * eta * self.lipschitz + shortening))

    def projection(self) -> float:
        """Bound the error of a projection onto a ball or a box."""
        return SLACK * UNIT * (0.5 * self.numbers + 8.0) * self.reach

    def close_projection(self) -> float:
        """Bound the same where points that may lie outside are measured with the errors of their sums."""
        return SLACK * UNIT * (3.5 + UNIT * (self.numbers + 2.0) ** 2) * self.reach

    def over_batches(self, eta: np.ndarray, batch: np.ndarray, projection: float) -> np.ndarray:
        """Bound the error of steps over batches, with that of their projections."""
        return np.asarray(self.updates(eta) + eta * (self.gradients() + self.sums(batch)) + projection + SMALL)

    def visible(self, eta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Bound the error of a released step from a released point: its gradients are those of computed slopes."""
        off = SLACK * UNIT * (self.numbers + 48.0) * self.lipschitz + self.sums(batch)
        return np.asarray(2.0 * self.updates(eta) + eta * off + SMALL)

    def one_by_one(self, eta: np.ndarray, projects: bool) -> np.ndarray:
        """Bound the error of steps over one record each, and what each adds to that of the average."""
        u, far, move = SLACK * UNIT, self.longest(eta), eta * self.lipschitz
        found = 12.0 * u * far + eta * self.gradients() + 640.0 * u * far
        if projects:  # a squared norm is kept up to date for as many steps as `refresh` says
            k, every = self.numbers, refresh(self.numbers)
            each = np.append(far * (40.0 * far + (7.0 * k + 120.0) * move), np.zeros(-len(eta) % every))
            since = np.repeat(each.reshape(-1, every).sum(axis=1), every)[: len(eta)]
            found = found + u * ((k + 8.0) * far.max() ** 2 + since) / self.reach + 4.0 * u * far
        return np.asarray(found + SMALL)


def refresh(numbers: int) -> int:
    """Steps after which a pass computes the squared norm of its point anew.

    Examples
    --------
    >>> refresh(50), refresh(100_000), refresh(10_000_000)
    (128, 3125, 4096)
    """
    return min(4096, max(128, numbers // 32))


def steps_of(
    lipschitz: Fact, row: Fact, smoothness: Fact | None, strong_convexity: Fact, numbers: int, reach: float
) -> Steps:
    """Facts about steps, checked. Without smoothness, that of a loss with kinks."""
    L, R = need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz"), need_fact(row, Kind.ROW_BOUND, "row")
    curvature, m = math.inf, need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity")
    if smoothness is not None:
        beta = need_fact(smoothness, Kind.SMOOTHNESS, "smoothness")
        curvature = up(max(beta - m, 0.0) / R**2) if R else 0.0
    if isinstance(numbers, bool) or not isinstance(numbers, int) or not 1 <= numbers <= MOST:
        raise HypothesisError("numbers must be a whole number between 1 and 2^40")
    if not max(reach, R, R * reach, L) < LARGEST:
        raise HypothesisError("points, rows or gradients of that size could overflow float64: scale down the rows")
    if 0.0 < reach < 1.0 / LARGEST:
        raise HypothesisError("squares of points of that size could underflow float64: scale down the rows")
    return Steps(numbers, max(R, 1.0 / LARGEST), L, curvature, reach, m)


@concludes_fact
def pass_drift(
    lipschitz: Fact,
    row: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    steps: Schedule,
    batch: int,
    numbers: int,
    reach: float,
    inside: bool,
    origin: Fact | None = None,
) -> Bounded:
    """How much further apart two passes of projected SGD can end because float64 computes them.

    Both passes start within `reach` of the origin, take `batch` to 2 `batch` records per step, and average `numbers`
    weights. If `inside`, every point is projected onto a ball or a box in that reach. Otherwise none is, and `origin`,
    the loss of a record at weights of zero, helps to bound how far they go.
    """
    check_relation(relation)
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MOST:
        raise HypothesisError("batch must be a whole number between 1 and 2^40")
    if not isinstance(inside, bool):
        raise HypothesisError("inside must be True or False")
    eta, start = check_schedule(steps, "steps"), 0.0 if reach == 0.0 else need_positive(reach, "reach")
    far = start if inside else travelled(lipschitz, strong_convexity, eta, start, origin)
    how = steps_of(lipschitz, row, smoothness, strong_convexity, numbers, far)
    many, sizes = len(eta), np.full(len(eta), 2.0 * batch)
    each = how.one_by_one(eta, inside) if batch == 1 else how.over_batches(eta, sizes, inside * how.projection())
    average = SLACK * UNIT * (80.0 + (0.0 if batch == 1 else many + 8.0)) * float(how.longest(eta).max())
    error = how.projection() + float(each.sum()) * (1.0 + many * ULP) + average
    if inside:
        error = min(error, how.reach)  # two points of the domain are no further apart than that, twice
    elif error > 0.01 * far:
        raise HypothesisError("rounding could add up to a hundredth of the points: take a bounded domain or less steps")
    return Bounded(Kind.SENSITIVITY, round_up(2.0 * error), "rounding of one pass of projected SGD", relation)


def travelled(
    lipschitz: Fact, strong_convexity: Fact, eta: np.ndarray, start: float, origin: Fact | None = None
) -> float:
    """Largest norm of a point of an exact pass without projections.

    A step moves a point by at most eta L. If the loss at zero is at most l and no loss is negative, convexity also
    gives |w - eta g|^2 <= |w|^2 + 2 eta l + (eta L)^2, as long as eta times the strong convexity is at most 1.
    """
    L, m = (
        need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz"),
        need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity"),
    )
    far = start + L * float(eta.sum())
    if origin is not None and m * float(eta.max()) <= 1.0:
        zero = need_fact(origin, Kind.LOSS_AT_ORIGIN, "origin")
        far = min(far, math.sqrt(start**2 + 2.0 * zero * float(eta.sum()) + L**2 * float((eta**2).sum())))
    return far * (1.0 + (len(eta) + 16) * 2 * ULP)


@concludes_fact
def computed_pass(sensitivity: Fact, drift: Fact) -> Bounded:
    """Sensitivity of the average of one pass as float64 computes it: that of the exact average, and the drift."""
    made = [fact.derivation.theorem for fact in (sensitivity, drift) if isinstance(fact.derivation, Derivation)]
    if made != ["stable_sgd", "pass_drift"]:
        raise HypothesisError("sensitivity must be that of stable_sgd, and drift that of pass_drift")
    s, more = (need_fact(f, Kind.SENSITIVITY, "sensitivity") for f in (sensitivity, drift))
    need_one_origin("pass", sensitivity, drift)
    if sensitivity.relation != drift.relation:
        raise HypothesisError("sensitivity and drift must be about one relation")
    return Bounded(
        Kind.SENSITIVITY, up(s + more), f"{sensitivity.source}, as float64 computes it", sensitivity.relation
    )


def need_about(drift: Fact, release: Release, *facts: Fact) -> None:
    """Refuse a drift that is about another number of weights than a release, or about other facts than these."""
    made = drift.derivation
    if isinstance(made, Derivation) and made.theorem == "pass_drift":
        if made.arguments["numbers"] != math.prod(release.shape):
            raise HypothesisError(f"the drift for release {release.name!r} is about another number of weights")
        if any(
            fact.kind.name.lower() in made.arguments and made.arguments[fact.kind.name.lower()] != fact
            for fact in facts
        ):
            raise HypothesisError(f"the drift for release {release.name!r} rests on other facts")


def walk_grids(shape: np.ndarray, grid: float, far: float) -> np.ndarray:
    """Grid of every step of a walk: that of the loudest, smaller by a power of two where the noise is; 0 without noise.

    It is no finer than points up to `far` can be told apart on it.

    Examples
    --------
    >>> walk_grids(np.array([1.0, 0.3, 0.0]), 2.0**-20, 1.0) * 2.0**20
    array([1.  , 0.25, 0.  ])
    """
    least = math.ldexp(1.0, math.frexp(far * (1.0 + 2.0**-7))[1] - 53)
    return np.where(shape > 0.0, np.maximum(np.ldexp(grid, np.frexp(shape)[1] - 1), least), 0.0)


def walk_drifts(
    how: Steps, eta: np.ndarray, batch: np.ndarray, contractions: np.ndarray, grids: np.ndarray
) -> np.ndarray:
    """How much further apart every step of a walk can take two points, the rounding of the points before included."""
    cells = np.append(0.0, contractions[1:] * grids[:-1] * math.sqrt(how.numbers))
    return np.asarray((2.0 * how.over_batches(eta, batch, how.close_projection()) + cells) * (1.0 + 8 * ULP))


def grid_for(scale: float, cost: float, allowed: float, reach: float) -> float:
    """The largest grid, a power of two, that costs no more than is allowed; 2^-38 to 2^-20 of the scale of the noise.

    `cost` is that of a grid as wide as the noise. Coarser where points up to `reach` take more than 2^51 multiples.

    Examples
    --------
    >>> import math
    >>> [math.log2(grid_for(1.0, cost, 1e-6, 1.0)) for cost in (0.0, 10.0, 1e9)]
    [-20.0, -24.0, -38.0]
    """
    share = min(max(allowed / max(cost, allowed * 2.0**-60), 2.0**-38), 2.0**-20)
    fine = math.ldexp(0.5, math.frexp(share * scale)[1])
    return max(fine, math.ldexp(1.0, math.frexp(reach)[1] - 51)) if reach else fine


def need_grids(noise: np.ndarray, grids: np.ndarray) -> None:
    """Refuse noise of steps that is too small for its grid to be drawn."""
    if not (noise[grids > 0.0] >= 0.125 * grids[grids > 0.0]).all():
        raise HypothesisError(
            "the noise of some step is too small beside the points that it is added to for float64: take more noise, "
            "or a smaller domain"
        )
