"""FrankWolfe: a sparse linear model on the l1 ball or a simplex, with one privately chosen feature per step.

Each step selects the corner of the domain in which the linearised loss is least, and moves towards it. Only the index
of one coordinate is released (on a ball, with its sign), not the whole gradient, so noise grows only with the logarithm
of the number of features (Talwar, Thakurta, Zhang 2015; here with the exponential mechanism and sharp composition).
The gradient of every record is scaled down until no entry exceeds `clip`, so the guarantee holds for any loss.
Proof: docs/proofs/frank_wolfe.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    NOT_CAPPED,
    NOT_CLIPPED,
    ONE_RELATION,
    PURE,
    Attack,
    Mutant,
    Pair,
    Victim,
    group_size,
)
from dpconvex.algorithms.base import CORNERS, Algorithm, Needs
from dpconvex.algorithms.options import check_options
from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Release
from dpconvex.loops.rows import Dense, Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.bounds import Linf
from dpconvex.problem.domains import L1Ball, Simplex
from dpconvex.problem.losses import Linear, Logistic, worst_at_origin
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import post_process, report_noisy_max
from dpconvex.theorems.numerics.bounded_range import largest_width
from dpconvex.theorems.report_noisy_max import GUMBEL, moved_entry

MOST_STEPS = 1000


@dataclass(frozen=True)
class Walk:
    """The public recipe: how many corners are chosen, and the largest entry of one record's gradient."""

    steps: int
    clip: float


@dataclass(frozen=True)
class FrankWolfe(Algorithm):
    """Private Frank-Wolfe on the l1 ball or a simplex, for smooth losses of one prediction; most weights stay 0.

    Parameters
    ----------
    steps : int, optional
        Number of corners to choose, at most 1000; by default at most 500, see `default_steps`.
    clip : float, optional
        Largest entry of one record's gradient; by default the largest entry at weights of zero. A value below
        `largest_gradient_entry` means less noise, but also clips the slopes of the loss.

    Notes
    -----
    Bound features entry by entry, with `bounds.Linf` or `bounds.Columns`: the l2 norm of a row plays no role. On a
    `domains.Simplex` the weights are those of a mixture: they start equal, and none is ever negative. With a budget of
    delta = 0 every choice takes its share of epsilon, so fewer corners are chosen.

    References
    ----------
    Talwar, Thakurta, Zhang (2015), "Nearly optimal private LASSO".

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 300))
    >>> y = np.where(X[:, 7] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(4.0), dc.bounds.Linf(1.0))
    >>> plan = dc.algorithms.FrankWolfe(steps=5).plan(problem, n=5000, d=300, budget=dc.Budget(2.0, 1e-6))
    >>> solution = plan.run(X, y)
    >>> bool(dc.verify(solution.receipt)), int(abs(solution.weights).argmax()), len(solution.weights.nonzero()[0]) <= 5
    (True, 7, True)
    """

    needs = Needs(CORNERS, kinks=False, records=True, pure=True)
    suits = "sparse weights among many features: smooth losses on an l1 ball or a simplex"
    reads = "10 to 500"
    takes = frozenset({"sample_weight"})  # weights multiply clipped gradients
    vectors = 4.0

    steps: int | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        check_options(self, whole={"steps": MOST_STEPS}, clips=["clip"])

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix the number of steps and the noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        longest = problem.lipschitz(d).value if problem.loss.traits.records else problem.loss.slope_bound(0.0)
        clip = float(self.clip or round_up(longest * problem.largest_entry()))
        most = largest_gradient_entry(problem, d)
        steps = self.steps or default_steps(problem, n, d, budget, clip)
        width = largest_width(steps, budget.epsilon, budget.delta)
        corners, plus = _corners(problem, d), problem.l2 * _radius(problem)
        scale = round_up(2.0 * moved_entry(clip, budget.relation, n, corners, plus) / width * (1.0 + 1e-11))
        if not n * clip + 64.0 * scale + problem.l2 * _radius(problem) < 1e300:
            raise HypothesisError("sums of such large gradients could overflow float64: scale down the target or rows")
        release = Release("corners", GUMBEL, scale, (corners,), steps)
        claim = post_process(report_noisy_max(clip, budget.relation, release, n, plus), "steps towards the corners")
        utility = _words(problem, excess_loss(problem, n, d, scale, steps), cut=clip < most)
        return Plan(self, problem, n, d, budget, claim, (Walk(steps, clip),), n * steps, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Move towards one privately chosen corner per step."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Clipped

        recipe: Walk = plan.schedule[0]
        loss, l2, radius = plan.problem.loss, plan.problem.l2, _radius(plan.problem)
        sums, clip = open_sums(rows, y), recipe.clip * (1.0 - 1e-14)
        shape = plan.problem.weight_shape(plan.d)
        w, signed = _start(plan), plan.problem.domain.traits.origin
        for t in range(recipe.steps):
            gradient = sums.sweep(Clipped(loss, w.reshape(shape), clip, q=math.inf)).reshape(-1) + l2 * w
            scores = np.concatenate([-gradient, gradient]) if signed else -gradient
            w = stepped(w, port.select("corners", scores), t, radius)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Take the steps again from the chosen corners alone."""
        w = _start(plan)
        for t, corner in enumerate(port.history("corners")):
            w = stepped(w, int(corner), t, _radius(plan.problem))
        return w.reshape(plan.problem.weight_shape(plan.d))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Walk = plan.schedule[0]
        return [
            f"walk        {r.steps} steps of 2/(t + 2) towards corners of the {_where(plan.problem)}, "
            f"at most {r.steps} weights not 0",
            f"corners     chosen among {plan.releases[0].shape[0]}, Gumbel noise {plan.releases[0].scale:.4g} on sums "
            f"of gradients with entries within {r.clip:.4g}",
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        simplex = Problem(Logistic(), domain=Simplex(4.0), feature_bound=Linf(1.0))
        return (
            Attack(cls(steps=6), _sparse(), share=1 / 16, least=0.0, seed=37),
            Attack(cls(steps=2), _sparse(), delta=0.0, name="FrankWolfe, pure", share=1 / 16, least=0.0),
            Attack(
                cls(steps=6),
                simplex,
                d=2,
                name="FrankWolfe on a simplex",
                share=1 / 16,
                least=0.0,
                relations=ONE_RELATION,
                seed=39,
            ),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, NOT_CLIPPED, NOT_CAPPED, *PURE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(steps=2), _sparse(), runs=8000), Victim(cls(steps=2), _sparse(), delta=0.0)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        return [_choice_pair(plan, mutant)]


def stepped(w: np.ndarray, corner: int, t: int, radius: float) -> np.ndarray:
    """Move from w by 2/(t + 2) of the way to a corner, in step t. Corners radius e_j come first, then -radius e_j.

    Examples
    --------
    >>> stepped(np.array([1.0, 0.0]), 3, 2, radius=1.0)
    array([ 0.5, -0.5])
    """
    share = 2.0 / (t + 2.0)
    moved = (1.0 - share) * w
    moved[corner % len(w)] += share * radius if corner < len(w) else -share * radius
    return moved


def largest_gradient_entry(problem: Problem, d: int) -> float:
    """Largest entry of one record's gradient on the domain, where predictions are at most radius times largest entry.

    Examples
    --------
    >>> from dpconvex.problem.bounds import Linf
    >>> from dpconvex.problem.losses import Squared
    >>> largest_gradient_entry(Problem(Squared(), L1Ball(3.0), Linf(0.5)), 10)
    1.25000000075
    """
    problem.row_bound(d)  # checks that the bound is for d columns
    top = problem.largest_entry()
    return round_up(problem.loss.slope_bound(top * _radius(problem)) * top)


def default_steps(problem: Problem, n: int, d: int, budget: Budget, clip: float) -> int:
    """Number of steps beyond which noise outweighs progress, for features that are nearly uncorrelated.

    It is half the number that balances the two terms of the bound if the corners are at distance `radius` from the
    point; in the worst case the distance is twice that.
    """
    corners = max(_corners(problem, d), 2)  # with a single corner the logarithm would be 0
    curvature = problem.loss.curvature_bound() * problem.largest_entry() ** 2 + problem.l2 / n
    signal = n / (budget.moves * clip * math.log(corners))
    if not budget.delta:  # noise grows with the number of steps, not with its root
        return min(max(round(0.5 * math.sqrt(2.0 * curvature * _radius(problem) * signal * budget.epsilon)), 2), 500)
    ideal = 0.5 * (4.0 * curvature * _radius(problem) * signal * budget.mu) ** (2.0 / 3.0)
    return min(max(round(ideal), 10), 500)


def excess_loss(problem: Problem, n: int, d: int, scale: float, steps: int) -> float:
    """Bound the mean over the noise of F(w)/n - min F/n on the domain, F = sum_i loss + (l2/2)|w|^2, at the last point.

    A step of share g turns the excess h into at most (1 - g) h + g R s ln(corners)/n + g^2 C/2, where C/(2R)^2 bounds
    the curvature of the mean loss along differences of l1 norm 1 (proposition of the proof note).

    Examples
    --------
    >>> from dpconvex.problem.bounds import Linf
    >>> from dpconvex.problem.losses import Logistic
    >>> round(excess_loss(Problem(Logistic(), L1Ball(2.0), Linf(1.0)), n=1000, d=50, scale=0.0, steps=200), 3)
    0.039
    """
    corners, radius = _corners(problem, d), _radius(problem)
    bend = (problem.loss.curvature_bound() * problem.largest_entry() ** 2 + problem.l2 / n) * (2.0 * radius) ** 2
    missed = radius * scale * math.log(corners) / n
    excess = 0.0
    for t in range(steps):
        share = 2.0 / (t + 2.0)
        excess = (1.0 - share) * excess + share * missed + share**2 * bend / 2.0
    return excess


def _words(problem: Problem, excess: float, cut: bool) -> str:
    loss = "mean loss, its slopes cut off," if cut else "mean loss"
    words = f"{loss} on average at most {excess:.2g} above its minimum on the {_where(problem)}"
    zero = worst_at_origin(problem.loss)
    return words if excess < zero else f"{words} (vacuous: weights of zero are within {zero:.2g})"


def _radius(problem: Problem) -> float:
    return problem.domain.radius  # type: ignore[union-attr]


def _corners(problem: Problem, d: int) -> int:
    """Number of corners; on a ball there are two per coordinate, one for each sign."""
    return math.prod(problem.weight_shape(d)) * (2 if problem.domain.traits.origin else 1)


def _start(plan: Plan) -> np.ndarray:
    """Where runs start: in the centre of the domain, unless the problem says otherwise."""
    return plan.problem.begin(plan.d).reshape(-1)


def _where(problem: Problem) -> str:
    return "ball" if problem.domain.traits.origin else "simplex"


def _sparse() -> Problem:
    return Problem(Logistic(), domain=L1Ball(4.0), feature_bound=Linf(1.0))


def _choice_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record with the steepest loss against its mirror image (or none), all other records 0.

    A linear loss a thousand times as steep as the clip makes the gradient of the record as large as possible at every
    point. All choices then follow the same law, and the statistic is how many went in each direction.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.algorithms.attacks import NONE
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    >>> plan = dc.algorithms.FrankWolfe(steps=3).plan(problem, n=6, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> _choice_pair(plan, NONE).statistic(np.array([[0, 0, 1], [1, 1, 1]]))
    array([-1.,  3.])
    """
    broken, (size,) = mutant.plan(plan), plan.problem.weight_shape(plan.d)
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = group_size(plan) + mutant.twice
    X[:used, 0], other = 1.0, size
    if _corners(plan.problem, plan.d) == size and plan.d > 1:  # no corner lies opposite the first
        X[:used, 1], other = -1.0, 1
    labels = y.copy()
    labels[:used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = Dense(X, 1.0, 0.0, weights=mutant.weights(plan, plan.n))

    def statistic(corners: np.ndarray) -> np.ndarray:
        return np.asarray((corners == other).sum(axis=1) - (corners == 0).sum(axis=1), dtype=float)

    attacked = replace(broken, problem=replace(broken.problem, loss=Linear(1e3 * plan.schedule[0].clip)))
    words = f"one record against its {'mirror image' if plan.budget.relation == 'replace_one' else 'absence'}"
    return Pair(attacked, (rows, y), (rows, labels), f"{words}, the steepest loss", "any", statistic)
