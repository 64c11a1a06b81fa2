"""Objective perturbation in a private frame: coordinates in which rows carry more signal for the same noise.

Rows of real tables have a large mean, and features of very different spread. Two small releases, the sum of the rows
and that of the squares of their entries, tell both. From them alone follows a linear map that takes most of the mean
row out and partly evens out the spread of the features. Rows that are long in the new coordinates count less, and the
rest of the budget is spent on objective perturbation there. Proof: docs/proofs/framed_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    SHARED_BY_CLASSES,
    SOFTMAX,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.objective_perturbation import (
    OUTPUT_SHARE,
    Solve,
    calibrated,
    default_l2,
    excess_loss,
    shortened,
)
from dpconvex.algorithms.options import check_options
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.loops.rows import Dense, Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem import bounds, losses
from dpconvex.problem.domains import Everywhere
from dpconvex.problem.losses import LogCosh
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import (
    compose,
    computed_sum,
    gaussian,
    moment_sums,
    objective_perturbation,
    objective_perturbation_softmax,
    post_process,
    squared_entries_sum,
    weighted_rows,
)
from dpconvex.theorems.objective_perturbation import longest_tilt

if TYPE_CHECKING:
    from dpconvex.sums.framed import FramedAccumulation, PrivateFrame

FLOOR = 2.0  # standard deviations of its noise that are added to every variance
LEFT_TO_MEAN = 0.1  # squared length kept along the mean row, as a fraction of that of a typical row without it
LEAST_SPREAD = 0.05  # of a typical row, as a fraction of what the raised variances would make it
ALWAYS_LONG = 0.01  # radius at which every row that the audit attacks is longer than 1
SIGNAL = 0.5  # share of the squared length of the mean row that has to be more than noise


class Frame(NamedTuple):
    """The public recipe of the frame."""

    power: float
    radius: float
    stretch: float
    full: float = 1.0  # length up to which rows count in full


@dataclass(frozen=True)
class FramedPerturbation(Algorithm):
    """Objective perturbation after a private change of coordinates, for small budgets and uneven tables.

    Parameters
    ----------
    rows_share, squares_share : float
        Fractions of mu^2 spent on the sum of the rows and on the sum of the squares of their entries.
    power : float
        How far the spread of the features is evened out: 0 leaves it, 1 brings all to the same.
    radius : float
        Length up to which rows count in full, in units of that of a typical row in the frame.
    stretch : float
        Length to which longer rows are shortened, in units of the radius. A row between the two counts by one over its
        length. The objective needs that many times the regularisation.

    Notes
    -----
    l2 refers to rows of the length of the row bound, as for `ObjectivePerturbation`, and is used on rows of length 1 in
    the frame, `stretch` times. If the problem has none, the plan uses `default_l2`. The minimiser is over all of space,
    and what is released is projected onto the domain.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) / 9 + [0.5, 0.3, 0.0]
    >>> y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    >>> plan = dc.algorithms.FramedPerturbation().plan(
    ...     dc.Problem(dc.losses.Logistic()), n=1000, d=3, budget=dc.Budget(1.0, 1e-6)
    ... )
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, bool(dc.verify(solution.receipt))
    ((3,), True)
    """

    needs = Needs(ORIGIN, classes=True, kinks=False, starts=False)
    suits = "the same losses at small epsilon, on rows with a large mean or features of uneven spread"
    reads = "a solve"
    vectors, matrices = 9.0, 3.0
    shifts_margin = True

    rows_share: float = 0.02
    squares_share: float = 0.06
    power: float = 0.8
    radius: float = 0.9
    stretch: float = 3.0

    def __post_init__(self) -> None:
        check_options(
            self,
            within={
                "rows_share": (0.0, 0.5, "()"), "squares_share": (0.0, 0.5, "()"), "power": (0.0, 1.0, "[]"),
                "radius": (0.01, 100.0, "[]"), "stretch": (1.0, 100.0, "[]"),
            },
        )  # fmt: skip

    def in_memory(self, problem: Problem) -> str:
        """Why a run needs all rows in memory."""
        return "measures every row in the frame"

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix the noise of the three releases, the recipe of the frame and the tolerance from public facts."""
        n, d = self.accept(problem, n, d, budget)
        slope = problem.loss.slope_bound(math.inf)
        if not math.isfinite(slope) or not problem.loss.curvature_bound():
            kind = "unbounded slope" if math.isinf(slope) else "no curvature"
            raise HypothesisError(f"{type(problem.loss).__name__} has {kind}: use a loss such as Logistic or LogCosh")
        if not problem.l2:
            problem = replace(problem, l2=self.least_l2(problem, d, budget))
        first = self._moments(problem, n, d, budget)
        inside = self.inside(problem, d)
        rows = weighted_rows(self.stretch)

        def prove(tilt: Release, output: Release, tolerance: float) -> Claim:
            noises = (inside.l2, budget.relation, tilt, output, tolerance)
            if problem.loss.traits.outputs > 1:
                return compose([*first, objective_perturbation_softmax(problem.classes(), rows, *noises)])
            facts = problem.slope(), problem.slope_width(), problem.curvature_law(), problem.monotone_margin(), rows
            return compose([*first, objective_perturbation(*facts, *noises)])

        mu = budget.mu * math.sqrt(1.0 - self.rows_share - self.squares_share)
        sums = self._sums(problem, n, d, first[1].releases[0].scale)
        found = calibrated(
            inside, n, inside_size(problem, d), budget, prove, budget.moves * slope / mu, OUTPUT_SHARE * mu, sums=sums
        )
        excess = excess_loss(inside, n, inside_size(problem, d), found.tilt.scale, found.output.scale, found.tolerance)
        utility = f"mean loss in the frame, l2 term included, on average at most {excess:.2g} above its minimum"
        claim = post_process(prove(found.tilt, found.output, found.tolerance), "the frame, and weights out of it")
        recipe = Frame(self.power, self.radius, self.stretch)
        return Plan(self, problem, n, d, budget, claim, (Solve(found.tolerance), recipe), 3 * n, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Release the two sums, make the frame of them, and minimise the tilted objective in it."""
        from dpconvex.sums.memory import Memory
        from dpconvex.sums.protocol import Ones
        from dpconvex.sums.solver import minimise

        sums = Memory(rows, y)
        sums.open()
        port.add("rows", sums.sweep(Ones()))
        port.add("squares", sums.squared_entries())
        frame, recipe = _frame(plan, port.released("rows"), port.released("squares")), plan.schedule[1]
        framed = sums.framed(frame, recipe.stretch, recipe.full)
        tilt = next(release for release in plan.releases if release.name == "objective")
        lent = shortened(port.lend("objective", minimise), longest_tilt(tilt))
        inside = self.inside(plan.problem, plan.d)
        port.add("output", minimise(framed, inside.loss, inside.l2, lent, plan.schedule[0].tolerance))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Bring the noisy minimiser back to the coordinates of the rows, and project it."""
        frame = _frame(plan, port.released("rows"), port.released("squares"))
        return plan.problem.domain.project(frame.weights(port.released("output")))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the releases, for a person."""
        rows, squares, tilt, blur = plan.releases
        left = 1.0 - self.rows_share - self.squares_share
        return [
            f"rows        their sum with noise {rows.scale:.4g}, {self.rows_share:.0%} of mu^2",
            f"squares     the sum of their squares with noise {squares.scale:.4g}, {self.squares_share:.0%} of mu^2",
            f"objective   in the frame made of them, tilted by noise {tilt.scale:.4g}: the other {left:.0%}",
            f"minimiser   to |gradient| <= {plan.schedule[0].tolerance:.3g}, output noise {blur.scale:.3g}",
            "passes      as many as the certificate takes; the cost below is that of one, and of the two sums",
        ]

    def least_l2(self, problem: Problem, d: int, budget: Budget) -> float:
        """Regularisation that a plan uses if the problem has none: `default_l2`."""
        return default_l2(problem, d, budget)

    def solved(self, plan: Plan, port: NoisePort, X: np.ndarray) -> tuple[Problem, np.ndarray, np.ndarray]:
        """Problem that the solver was given, and the rows with their weights: by plain arithmetic, for checks."""
        recipe: Frame = plan.schedule[1]
        Z = _frame(plan, port.released("rows"), port.released("squares")).rows(X)
        lengths = np.maximum(np.linalg.norm(Z, axis=1), 1e-300)
        factor = np.minimum(1.0, recipe.stretch / lengths)
        return self.inside(plan.problem, plan.d), Z * factor[:, None], np.minimum(1.0, recipe.full / (lengths * factor))

    def _moments(self, problem: Problem, n: int, d: int, budget: Budget) -> list[Claim]:
        """Claims of the two sums."""
        size, row = problem.weight_shape(d)[-1], problem.row_bound(d)
        rows = moment_sums(row, 1.0, budget.relation, "cross")  # of y x with y = 1
        squares = squared_entries_sum(row, budget.relation)
        claims = []
        for name, fact, share in (("rows", rows, self.rows_share), ("squares", squares, self.squares_share)):
            moved = computed_sum(fact, n, size)
            scale = round_up(moved.value / (budget.mu * math.sqrt(share)))
            claims.append(gaussian(moved, Release(name, "gaussian", scale, (size,), grid=grid_of(scale))))
        return claims

    def inside(self, problem: Problem, d: int) -> Problem:
        """The problem as it is in the frame, for rows of length 1."""
        l2 = self.stretch * problem.l2 / problem.row_bound(d).value ** 2
        return Problem(problem.loss, Everywhere(), bounds.L2(1.0), l2=round_up(l2))

    def _sums(self, problem: Problem, n: int, d: int, noise: float) -> FramedAccumulation:
        """How far sums in the frame can be off, whatever is released."""
        from dpconvex.sums.framed import FramedAccumulation

        size, row = inside_size(problem, d), problem.row_bound(d).value
        largest = _largest_scale(self.radius, size, noise / (n * row**2))
        return FramedAccumulation(n, size, 1.01 * max(largest, self.stretch))

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        settings = (("log-cosh", Problem(LogCosh(0.5)), 1, 83), ("softmax", SOFTMAX, 1, 85))
        long = cls(radius=ALWAYS_LONG)
        return tuple(
            Attack(long, problem, d, name=f"FramedPerturbation, {words}", share=1 / 80, least=0.0, seed=seed)
            for words, problem, d, seed in settings
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch.

        Rows beyond their bound would move the two sums alone, which take a small part of the budget: the contract on
        sensitivities finds that, and an attack on the whole claim hardly can.
        """
        return (
            *ANYWHERE,
            Mutant("regularisation missing", change=_hardly_regularised),
            Mutant("long rows count in full", change=_unweighted),
            SHARED_BY_CLASSES,
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        long = cls(radius=ALWAYS_LONG)
        return Victim(long, Problem(LogCosh(0.5)), runs=1000), Victim(long, SOFTMAX, runs=1000)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        replaced, several = plan.budget.relation == "replace_one", plan.problem.loss.traits.outputs > 1
        if not replaced and plan.problem.intercept:
            raise InputError("no row acts like a masked record where there is a constant feature: use intercept 0")
        tried = [_pair(plan, mutant, "mirror" if replaced else "absence")]
        if several and replaced:
            tried.append(_pair(plan, mutant, "label"))
        if not several:  # straight at its largest slope: curvature 0 keeps to every law
            tried.append(_pair(plan, mutant, tried[0].words.split()[-1], plan.problem.slope().value))
        first = replace(tried[0], words="the two sums alone", law="gaussian", statistic=None, seen=("rows", "squares"))
        return [*tried, first]


def inside_size(problem: Problem, d: int) -> int:
    """Features in the frame: those of the rows, the constant one included."""
    return int(problem.weight_shape(d)[-1])


def _largest_scale(radius: float, size: int, noise: float) -> float:
    """Bound on the entries of `PrivateFrame.scales`, times the row bound, whatever was released.

    With raised variances W >= f = FLOOR noise, scales are W^(-power/2) over at least radius sqrt(LEAST_SPREAD sum
    W^(1-power) (1 + LEFT_TO_MEAN)), of which W = f everywhere makes the most.
    """
    typical = LEAST_SPREAD * size * (1.0 + LEFT_TO_MEAN)
    return 1.0 / (radius * math.sqrt(typical * FLOOR * noise))


def _frame(plan: Plan, total: np.ndarray, squares: np.ndarray) -> PrivateFrame:
    """The frame that a plan makes of its two noisy sums."""
    from dpconvex.sums.framed import PrivateFrame

    recipe: Frame = plan.schedule[1]
    row, size = plan.problem.row_bound(plan.d).value, len(total)
    noise = [release.scale / (plan.n * row**k) for k, release in enumerate(plan.releases[:2], start=1)]
    mean = total / (plan.n * row)
    square = float(mean @ mean)
    sure = square - size * noise[0] ** 2  # what noise adds to it taken off
    mean = mean * (sure / square) if sure > SIGNAL * square else np.zeros(size)
    variances = squares / (plan.n * row**2) - mean**2
    raised = np.maximum(variances, 0.0) + FLOOR * noise[1]
    scales = raised ** (-recipe.power / 2.0)
    spread = max(float(scales**2 @ variances), LEAST_SPREAD * float(scales**2 @ raised))  # of a row without the mean
    along = float(np.linalg.norm(scales * mean))
    damping = min(1.0, math.sqrt(LEFT_TO_MEAN * spread) / along) if along else 1.0
    scales /= recipe.radius * math.sqrt(spread * (1.0 + LEFT_TO_MEAN))
    scales = np.minimum(scales, _largest_scale(recipe.radius, size, noise[1])) / row
    return PrivateFrame(scales, mean / np.linalg.norm(mean) if along else mean, damping)


def _hardly_regularised(plan: Plan) -> Plan:
    return replace(plan, problem=replace(plan.problem, l2=0.02 * plan.problem.l2))


def _unweighted(plan: Plan) -> Plan:
    solve, recipe = plan.schedule
    return replace(plan, schedule=(solve, recipe._replace(full=recipe.stretch)))


def _pair(plan: Plan, mutant: Mutant, kind: str, steepness: float | None = None) -> Pair:
    """One record against its mirror image, another label, or its absence, all other records 0; everything is seen.

    Given the two noisy sums, the minimiser has an explicit density. With a steepness, the loss is linear.
    """
    several, constant = plan.problem.loss.traits.outputs > 1, plan.problem.intercept
    X, y = np.zeros((plan.n, plan.d)), np.zeros(plan.n) if several else np.ones(plan.n)
    used = group_size(plan) + mutant.twice
    X[:used] = axis(plan, 0)
    changed, labels = X.copy(), y.copy()
    if kind == "absence":
        changed[:used] = 0.0
    elif kind == "mirror" and not (constant and not several):
        changed[:used] *= -1.0
    else:  # with a constant feature, only a flipped label reverses a gradient
        labels[:used] = 1.0 if several else -1.0
    broken, loss = mutant.plan(plan), plan.problem.loss if steepness is None else losses.Linear(steepness)
    broken = replace(broken, problem=replace(broken.problem, loss=loss, domain=Everywhere()))
    sides = (dense(plan, X, mutant), y), (dense(plan, changed, mutant), labels)

    law = "gaussian" if steepness and plan.schedule[1].radius <= ALWAYS_LONG else "any"

    def statistic(released: np.ndarray) -> np.ndarray:
        parts = np.split(released, np.cumsum([math.prod(r.shape) for r in plan.releases[:2]]), axis=1)
        frames = [_frame(broken, total, squares) for total, squares in zip(*parts[:2], strict=True)]
        plain, other = (_log_density(broken, *side, used, frames, *parts) for side in sides)
        return other - plain

    words = f"{'linear' if steepness else 'own'} loss, everything released, one record against its {kind}"
    return Pair(broken, *sides, words, law, statistic, seen=("rows", "squares", "output"))


def _log_density(
    plan: Plan,
    rows: Dense,
    y: np.ndarray,
    used: int,
    frames: list[PrivateFrame],
    total: np.ndarray,
    squares: np.ndarray,
    points: np.ndarray,
) -> np.ndarray:
    """Log-density of both sums and the minimisers made in their frames, up to a constant, at what runs released.

    All records but the first `used`, which are equal, are rows of 0, so that the Hessian has the rank of one record.
    """
    from dpconvex.sums.memory import Memory
    from dpconvex.sums.protocol import Ones
    from dpconvex.sums.rowwise import curvatures, slopes

    sums, scales, recipe = Memory(rows, y), [r.scale for r in plan.releases], plan.schedule[1]
    inside = FramedPerturbation(stretch=recipe.stretch).inside(plan.problem, plan.d)
    first = sums.matrix.part(np.array([0])).adjoint(np.ones(1))
    Z = np.array([frame.rows(first) for frame in frames])
    lengths = np.maximum(np.linalg.norm(Z, axis=1), 1e-12)
    factor = np.minimum(1.0, recipe.stretch / lengths)
    Z, counts = Z * factor[:, None], used * np.minimum(1.0, recipe.full / (lengths * factor))
    W = points.reshape(len(points), -1, Z.shape[1])
    labels, margins = np.full(len(points), y[0]), np.einsum("nkj,nj->nk", W, Z)
    if inside.loss.traits.outputs > 1:
        S, P = slopes(inside.loss, margins, labels), curvatures(inside.loss, margins, labels)
        bends = np.eye(P.shape[1]) * P[:, :, None] - P[:, :, None] * P[:, None, :]
    else:
        margins = np.ascontiguousarray(margins[:, 0])
        S, bends = (
            slopes(inside.loss, margins, labels)[:, None],
            curvatures(inside.loss, margins, labels)[:, None, None],
        )
    gradients = np.einsum("nk,n,nj->nkj", S, counts, Z) + inside.l2 * W
    gains = (counts * np.square(Z).sum(axis=1) / inside.l2)[:, None, None] * bends
    found = np.linalg.slogdet(np.eye(S.shape[1]) + gains)[1]
    found -= 0.5 * np.square(gradients / scales[2]).sum(axis=(1, 2))
    for sum_, noisy, scale in ((sums.sweep(Ones()), total, scales[0]), (sums.squared_entries(), squares, scales[1])):
        found -= 0.5 * np.square((noisy - sum_) / scale).sum(axis=1)
    return np.asarray(found)
