"""NoisySGD: projected SGD with noise inside every step, which releases only the last point (FKT20 Algorithm 1).

A gradient step on a smooth convex loss never moves two points further apart, so the noise of later steps also hides
what earlier steps have read. Records used early need little noise of their own, and a record used in several passes
costs little more than its last use. Any public schedule is accounted for exactly, and one factor scales its noise to
the budget. Proof: docs/proofs/noisy_sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    BUT_SILENT,
    LOGISTIC,
    ONE_RELATION,
    ROWS_TOO_LONG,
    SHARED_BY_CLASSES,
    TWO_CLASSES,
    Attack,
    Mutant,
    Pair,
    Victim,
    group_size,
    linear_pair,
    linear_pairs,
)
from dpconvex.algorithms.base import Algorithm, Needs
from dpconvex.algorithms.options import check_constants, check_options, check_whole, check_within, printed
from dpconvex.algorithms.walks import (
    Cyclic,
    Planned,
    Public,
    Snowball,
    SnowballJNN,
    Telescoped,
    Walk,
    check_contracts,
    plan_walk,
)
from dpconvex.calibrate import meet, noise_factor
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import ORDER, Claim, Release, Scope, grid_of
from dpconvex.loops.records import walk_records
from dpconvex.loops.rows import Records, Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.domains import Domain, L2Ball
from dpconvex.problem.losses import worst_at_origin
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import gradient_sensitivity, noise_shape, noisy_sgd, noisy_steps, post_process, shuffled
from dpconvex.theorems.computed_steps import GRID_SHARE, grid_for
from dpconvex.theorems.noisy_sgd import farthest, grid_cost
from dpconvex.theorems.schedules import Constant, Growing, Listed

_BLOCK = 1 << 18  # variates drawn at a time


@dataclass(frozen=True)
class NoisySGD(Algorithm):
    """Projected SGD over batches with noise in every step, which releases only the last point.

    Parameters
    ----------
    schedule : "auto", Telescoped, Cyclic, Snowball, SnowballJNN or Walk
        With "auto", a planner picks passes, batches, steps and the shape of the noise from public facts alone. A family
        leaves its free parameters to the planner; a `Walk` states everything.
    constants : {"tight", "paper"}
        "paper" uses the printed batches, steps and noise of `Snowball` and `SnowballJNN`; the stated guarantee is still
        the one proved here.
    passes : int
        Largest number of passes over the data that "auto" may take.
    step : float, optional
        First step, at most 2 over the smoothness; by default the planner's choice.
    distance : float, optional
        Guess of the distance to the solution, for the planner; by default the radius of the domain, or 5 over the row
        bound if the domain is unbounded. It affects accuracy, never privacy.
    release : {"last iterate", "every iterate"}
        What may be released. Releasing every iterate needs more noise, because no step hides another (composition).
    average : float
        Fraction of the steps, counted from the end, whose points are averaged, in [0, 1]; 0 takes the last point alone.
        An average needs `release="every iterate"`, because it can be far less private than the last point.
    shuffle : bool
        Take the records in a random order, drawn without looking at them.

    References
    ----------
    FKT20: Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time",
    Algorithm 1 and Theorems 3.5 and 3.6.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.NoisySGD().plan(problem, n=2000, d=3, budget=dc.Budget(1.0, 1e-6))
    >>> solution = plan.run(X, y)
    >>> bool(np.mean(np.sign(X @ solution.weights) == y) > 0.9), solution.receipt.epsilon <= 1.0
    (True, True)
    """

    suits = "smooth losses; the last point of one or more passes"
    reads = "1 to 20"

    parts = (Telescoped, Cyclic, Snowball, SnowballJNN, Walk)

    schedule: str | Telescoped | Cyclic | Snowball | SnowballJNN | Walk = "auto"
    constants: str = "tight"
    passes: int = 20
    step: float | None = None
    distance: float | None = None
    release: str = Scope.LAST.value
    average: float = 0.0
    shuffle: bool = False

    def __post_init__(self) -> None:
        if self.schedule != "auto" and not isinstance(
            self.schedule, Telescoped | Cyclic | Snowball | SnowballJNN | Walk
        ):
            raise InputError("schedule must be 'auto', Telescoped, Cyclic, Snowball, SnowballJNN or a Walk")
        check_options(
            self, one_of={"release": Scope}, flags=["shuffle"], whole={"passes": 1000}, positive=["step", "distance"],
            within={"average": (0.0, 1.0, "[]")},
        )  # fmt: skip
        if self.average and self.release == Scope.LAST:
            raise HypothesisError(
                "average: noise that covers the last point does not cover an average of the points before it; "
                "use release='every iterate', which is accounted for by composition"
            )
        _check_schedule(self.schedule)
        if isinstance(self.schedule, Walk) and (self.step, self.distance) != (None, None):
            raise InputError("a Walk has its own steps: leave step and distance unset")
        check_constants(self, __name__)

    @property
    def needs(self) -> Needs:
        """Requirements; the composition used for "every iterate" does not need smooth losses."""
        return Needs(classes=True, kinks=self.release == Scope.EVERY, records=True)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix walk and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        walk, scale, utility = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        walk = self._bounded(problem, n, d, walk, scale)
        claim = self._claim(problem, n, d, budget, walk, scale)
        used = len(walk.records) * walk.epochs
        return Plan(self, problem, n, d, budget, claim, (walk,), gradient_evaluations=used, utility=utility)

    def in_memory(self, problem: Problem) -> str | None:
        """Why a run needs all rows in memory."""
        return "walks over the rows step by step, in an order of its own"

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Walk over the batches."""
        from dpconvex.loops.stream import IN_PLACE, Chain

        walk: Walk = plan.schedule[0]
        releases = {r.name: r for r in plan.releases}
        eta = walk.steps.values()
        shape, order = noise_shape(eta, walk.noise), IN_PLACE
        loop = walk_records if isinstance(rows, Records) else Chain.loop
        if "order" in releases:
            order = port.lend_order("order", loop)
        cuts = np.concatenate([[0], np.cumsum(walk.batches.values())]).astype(np.int64)
        problem, reach = plan.problem, walk.reach or 0.0
        domain = _walked(problem, reach)
        far = farthest(problem.lipschitz(plan.d), eta, reach)
        chain = Chain(problem.weight_shape(plan.d), cuts, eta, shape, far, problem.l2 / plan.n, order)
        chain.place(problem.begin(plan.d))
        data = rows, y, problem.loss, domain
        if "steps" in releases:
            for relative in shape:
                chain.place(domain.project(relative * port.add("steps", chain.step(*data) / relative)))
            return
        if "walk" in releases:
            for _ in range(releases["walk"].times):
                chain.advance(*data, port.lend_variates("walk", loop))
        port.add("end", chain.step(*data))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project the last point, or average the points that were released."""
        domain = plan.problem.domain
        if plan.claim.scope is Scope.LAST:
            return domain.project(port.released("end"))
        walk: Walk = plan.schedule[0]
        shape = noise_shape(walk.steps.values(), walk.noise)
        kept = max(1, round(self.average * len(shape)))
        points = zip(shape[-kept:], port.history("steps")[-kept:], strict=True)
        return np.mean([domain.project(relative * noisy) for relative, noisy in points], axis=0)

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the walk, for a person."""
        walk: Walk = plan.schedule[0]
        eta, sizes = walk.steps.values(), walk.batches.values()
        scales = {r.name: r.scale for r in plan.releases}
        batch = f"{sizes.min():g}" if sizes.min() == sizes.max() else f"{sizes.min():g} to {sizes.max():g}"
        shape = noise_shape(eta, walk.noise)
        first = scales.get("walk", scales.get("steps", 0.0)) * shape[0]
        last = scales["end"] if "end" in scales else scales["steps"] * shape[-1]
        return [
            f"walk        {len(eta)} steps, {walk.epochs} passes over {len(sizes)} batches of {batch} records",
            f"steps       {eta[0]:.4g} to {eta[-1]:.4g}, noise {first:.4g} to {last:.4g}"
            + (", records in random order" if self.shuffle else ""),
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        every = cls(schedule=Telescoped(steps=4), release="every iterate")
        return (
            Attack(cls(), LOGISTIC, least=0.0, seed=12),
            Attack(every, LOGISTIC, name="NoisySGD, every iterate", seed=14),
            Attack(
                every, TWO_CLASSES, name="NoisySGD, softmax", share=1 / 32, least=0.93, relations=ONE_RELATION, seed=80,
            ),
        )  # fmt: skip

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, SHARED_BY_CLASSES

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(), LOGISTIC), Victim(cls(), TWO_CLASSES)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        pairs = linear_pairs(plan, mutant)
        if mutant.twice and plan.problem.loss.traits.outputs > 1:  # a softmax cannot be twice as steep
            return pairs
        return [*pairs, _forgetful_pair(plan, mutant)]

    # ---------------------------------------------------------------------------------------------------------------

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Walk, float, str]:
        """Walk, scale of the noise, and what to expect."""
        walk, risk = self._planned(self._public(problem, n, d, budget))
        exact = noise_factor(self._claim(problem, n, d, budget, walk, 1.0, computed=False), budget)
        walk = self._bounded(problem, n, d, walk, exact)
        (scale,), _ = meet(lambda scales: self._claim(problem, n, d, budget, walk, scales[0]), [exact], budget)
        if not math.isfinite(risk):
            return walk, scale, "no bound is proved"
        return walk, scale, f"expected excess loss about {risk:.3g} on the planner's model (a guess, not a bound)"

    def _public(self, problem: Problem, n: int, d: int, budget: Budget) -> Public:
        size = math.prod(problem.weight_shape(d))
        row, lipschitz = problem.row_bound(d).value, problem.lipschitz(d)
        reach, curvature = problem.farthest(d), problem.loss.curvature_bound()
        if self.release == Scope.LAST:
            beta = problem.smoothness(n, d).value
        else:  # composition needs no smoothness: for a loss with kinks, plan as if they were rounded off
            curvature = min(curvature, lipschitz.value / row)
            beta = curvature * row**2 + problem.l2 / n
        cap = check_contracts(self.step if self.release == Scope.LAST else None, beta)
        return Public(
            n=n,
            size=size,
            slope=lipschitz.value / row,
            row=row,
            curvature=curvature,
            ridge=problem.l2 / n,
            distance=self.distance or (reach if math.isfinite(reach) else 5.0 / row),
            sensitivity=gradient_sensitivity(lipschitz, budget.relation),
            mu=budget.mu,
            cap=cap,
            every=self.release == Scope.EVERY,
        )

    def _planned(self, public: Public) -> Planned:
        if isinstance(self.schedule, Walk):
            if len(self.schedule.records) > public.n:
                raise InputError(
                    f"schedule: the batches hold {len(self.schedule.records)} records, but n is {public.n}: "
                    "take fewer or smaller batches"
                )
            return Planned(self.schedule, math.inf)
        family: Any = None if self.schedule == "auto" else self.schedule
        needed = getattr(family, "batches", None) or getattr(family, "steps", None)
        if isinstance(needed, int) and needed > public.n:
            raise InputError(f"schedule: {needed} batches need as many records, but n is {public.n}: take fewer")
        return plan_walk(public, family, passes=self.passes, step=self.step)

    def _bounded(self, problem: Problem, n: int, d: int, walk: Walk, scale: float) -> Walk:
        """State how far from the origin a walk goes: the reach of the domain, or about twice as far as it ever does."""
        size = math.prod(problem.weight_shape(d))
        if problem.loss.traits.records:
            return walk
        if problem.domain.traits.bounded:
            return walk._replace(reach=problem.domain.reach(size))
        if walk.reach is not None:
            return walk
        eta, origin, start = walk.steps.values(), worst_at_origin(problem.loss), float(np.linalg.norm(problem.begin(d)))
        lipschitz = problem.lipschitz(d).value
        far = start + lipschitz * float(eta.sum())
        if math.isfinite(origin):
            far = min(far, math.sqrt(start**2 + 2.0 * origin * float(eta.sum()) + lipschitz**2 * float(eta @ eta)))
        shape = noise_shape(eta, walk.noise)
        return walk._replace(
            reach=round_up(far + 2.0 * scale * float(np.linalg.norm(shape)) * (math.sqrt(size) + 9.0), 6)
        )

    def _claim(
        self, problem: Problem, n: int, d: int, budget: Budget, walk: Walk, scale: float, computed: bool = True
    ) -> Claim:
        """Claim of a walk whose noise is the scale times its shape, as float64 computes it or in real arithmetic.

        Of the rounding in a loss of the user's own nothing is known: its walks are not on a grid.
        """
        size, computed = problem.weight_shape(d), computed and not problem.loss.traits.records
        eta = walk.steps.values()
        shape = noise_shape(eta, walk.noise)
        common = budget.relation, walk.records, walk.batches, walk.steps, walk.noise
        row, reach = (problem.row_bound(d), walk.reach) if computed else (None, None)
        far = farthest(problem.lipschitz(d), eta, walk.reach or 0.0)
        scale, last = round_up(scale), round_up(scale * float(shape[-1]))
        if self.release == Scope.EVERY:
            least = float(shape[shape > 0.0].min(initial=1.0))
            grid = grid_of(scale, reach=far / least) if computed else None
            release = Release("steps", "gaussian", scale, size, times=len(eta), grid=grid)
            ridge = problem.strong_convexity(n) if computed else None
            claim = noisy_steps(problem.lipschitz(d), *common, release, row, reach, ridge)
        else:
            smoothness, convexity = problem.smoothness(n, d), problem.strong_convexity(n)
            grid = None
            if computed:
                cost = grid_cost(smoothness, convexity, eta, np.append(scale * shape[:-1], last), math.prod(size))
                grid = grid_for(scale, cost, GRID_SHARE * budget.mu, 0.0)
            rows = max(1, min(len(eta) - 1, _BLOCK // math.prod(size)))
            noise = None
            if len(eta) > 1:
                noise = Release("walk", "gaussian", scale, (rows, *size), -(-(len(eta) - 1) // rows), grid)
            end = Release("end", "gaussian", last, size, grid=grid_of(last, reach=far) if computed else None)
            claim = noisy_sgd(problem.lipschitz(d), smoothness, convexity, *common, noise, end, row, reach)
        if self.shuffle:
            claim = shuffled(claim, Release("order", ORDER, 1.0, (n,)))
        return post_process(claim, "projection onto the domain" if self.release == Scope.LAST else "averaging")


def _walked(problem: Problem, reach: float) -> Domain:
    """Domain onto which points are projected: a ball of that reach where it has no end, but for losses of one's own."""
    free = problem.domain.traits.bounded or problem.loss.traits.records
    return problem.domain if free else L2Ball(reach)


@dataclass(frozen=True)
class SnowballSGD(NoisySGD):
    """NoisySGD in one pass over batches that grow towards the end (FKT20 Theorem 3.5, and 5.4 where l2 > 0).

    The preset `NoisySGD(schedule=Snowball())`; parameters are those of `NoisySGD`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.SnowballSGD().plan(problem, n=20_000, d=50, budget=dc.Budget(1.0, 1e-6))
    >>> plan.gradient_evaluations, plan.claim.scope.value
    (20000, 'last iterate')
    """

    suits = "smooth losses; one pass over batches that grow"
    reads = "1"

    schedule: str | Telescoped | Cyclic | Snowball | SnowballJNN | Walk = Snowball()

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        return (Attack(cls(), LOGISTIC, seed=16),)

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *BUT_SILENT, ROWS_TOO_LONG  # the last draw alone covers every record


def _check_schedule(schedule: object) -> None:
    """Check the fields of a schedule."""
    if isinstance(schedule, Walk):
        for name in ("batches", "steps"):
            if not isinstance(getattr(schedule, name), Constant | Growing | Listed):
                raise InputError(f"schedule: {name} must be Constant, Growing or Listed")
        return
    for name in ("steps", "batches", "epochs"):
        value = getattr(schedule, name, None)
        if value is not None and value != "most":
            check_whole(f"schedule: {name}", value, 1_000_000 if name != "epochs" else 1000)
    for name, high in (("power", 4.0), ("tau", 1.0)):
        value = getattr(schedule, name, None)
        if value is not None:
            check_within(f"schedule: {name}", value, 0.0, high)
    if isinstance(schedule, Telescoped) and schedule.steps == "most":
        raise InputError("schedule: steps of Telescoped must be a whole number")


def _forgetful_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The linear pair at the last record used, on a ball so small that only the last noise affects the output."""
    walk: Walk = plan.schedule[0]
    last = walk.records.stop - group_size(plan)
    pair = linear_pair(plan, last, replace(mutant, twice=False))
    for _, y in (pair.plain, pair.changed) if mutant.twice else ():
        y[last] *= 2.0  # a second use in the same step, because the small ball would hide one in an earlier step
    least = float(walk.steps.values().min()) * plan.problem.lipschitz(plan.d).value
    small = replace(pair.plan, problem=replace(pair.plan.problem, domain=L2Ball(1e-9 * least / plan.n)))
    return replace(pair, plan=small, words=f"{pair.words}, on a ball that forgets")
