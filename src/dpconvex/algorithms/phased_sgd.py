"""Phased-SGD: private SCO in one pass (FKT20 Algorithm 2), with exact sensitivities and exact accounting.

The records are divided into a few consecutive phases. Each phase is one pass of projected SGD from the end of the
previous phase. Gaussian noise is added to its averaged iterate, and the result is projected. Later phases take smaller
steps, so their sensitivity and their noise shrink together. Proof: docs/proofs/phased_sgd.md.

On an l_p ball with p >= 2 the iterates are not projected, only the released result is (Su, Zhao, Wang 2023, Algorithm
6): a projection computed by iteration is inexact, and would break the contraction on which the noise relies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    ONE_RELATION,
    ROWS_TOO_LONG,
    SHARED_BY_CLASSES,
    TWO_CLASSES,
    Attack,
    Mutant,
    Victim,
)
from dpconvex.algorithms.base import ROWWISE_OR_LP, Algorithm, Needs
from dpconvex.algorithms.cuts import even_batches, halving
from dpconvex.algorithms.noise_law import Law, Released, last_phase_law
from dpconvex.algorithms.options import check_constants, check_options, printed
from dpconvex.algorithms.walks import check_contracts
from dpconvex.calibrate import meet
from dpconvex.data.arrays import Batches
from dpconvex.errors import HypothesisError, InputError, RowError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import ORDER, Claim, Release, Scope
from dpconvex.loops.records import descend_records
from dpconvex.loops.rows import NOT_FINITE, AnyRows, Records, Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.domains import Domain, Everywhere, L2Ball, LpBall
from dpconvex.problem.facts import Fact
from dpconvex.problem.losses import Logistic, worst_at_origin
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_down, round_up
from dpconvex.theorems import (
    chain_mu,
    computed_pass,
    gaussian,
    gradient_sensitivity,
    iterate_weights,
    noisy_contraction,
    parallel,
    pass_drift,
    phase_contraction,
    post_process,
    secret_order,
    shuffled,
    stable_sgd,
)
from dpconvex.theorems.computed_steps import GRID_SHARE, grid_for, refresh, travelled
from dpconvex.theorems.noisy_contraction import telescope
from dpconvex.theorems.numerics.mixtures import Mixture
from dpconvex.theorems.schedules import Constant, Growing, Schedule

LEAST_NOISE = 0.01  # of the noise that a phase would need by itself: every phase adds some, so that all are on grids
FAR = 9.0  # standard deviations: further than noise goes, all but once in 10^17 phases


@dataclass(frozen=True)
class Phase:
    """One pass over records[start:stop], with at least `batch` of them per step."""

    name: str
    records: range
    steps: Schedule
    weighting: str
    batch: int = 1
    reach: float = 0.0  # norm of the starting point at most: where the domain has no end, it is brought back

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Step size of every record, and the total averaging weight of the iterates from that record on."""
        steps = self.steps.values()
        tails = np.cumsum(iterate_weights(steps, self.weighting)[::-1])[::-1]
        return steps, tails / tails[0]  # the phase is a contraction only if the weights sum to exactly 1

    @property
    def cuts(self) -> np.ndarray:
        """Where the batches start and end."""
        sizes = even_batches(len(self.records), self.steps.length).values()
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64) + self.records.start


class _Descent:
    """The pass of one phase, which may be interrupted at `stops` and resumed there.

    The state is that of the loops: the point and the average or, with one record per step, vectors and numbers from
    which both are computed.
    """

    def __init__(self, point: np.ndarray, phase: Phase, problem: Problem, n: int, order: np.ndarray | None) -> None:
        from dpconvex.loops import stream

        self._loops, self._origin = stream, phase.records.start
        traits = problem.loss.traits
        self._single = phase.batch == 1 and not traits.records and traits.outputs == 1
        self._order = stream.IN_PLACE if order is None else order
        self._loss, self._domain, self._l2 = problem.loss, _walked(problem.domain), problem.l2 / n
        self._steps, tails = phase.arrays
        w, self._shape = np.array(point, dtype=np.float64), point.shape
        w = w if traits.records else w.reshape(-1)
        self.stops = phase.cuts
        if self._single:
            self._weights = tails
            self._state: tuple[np.ndarray, ...] = w, w.copy(), np.array([1.0, 0.0, 0.0])
        else:
            self._weights = tails - np.append(tails[1:], 0.0)
            self._state = w, np.zeros_like(w)
        self._every = refresh(len(w))

    def advance(self, rows: AnyRows, y: np.ndarray, first: int, last: int, at: int | None = None) -> None:
        """Use the records at places first, ..., last - 1. The rows begin at place `at`, by default `first`."""
        at = first if at is None else at
        data = rows, y, self._loss, self._domain, self._order
        if self._single:
            places = self._origin - at, first - at, last - at
            wild = self._loops.descend(*data, self._steps, self._weights, self._l2, *self._state, self._every, *places)
        else:
            a, b = np.searchsorted(self.stops, [first, last])
            schedule = self.stops[a : b + 1] - at, self._steps[a:b], self._weights[a:b], self._l2
            if isinstance(rows, Records):
                descend_records(rows, self._loss, self._domain, self._order, *schedule, *self._state)
                return
            room = *np.zeros((2, len(self._state[0]))), np.empty((2, self._loops.room_for(self._loss)))
            wild = self._loops.descend_batches(*data, *schedule, *self._state, *room)
        if wild:
            raise RowError(NOT_FINITE)

    @property
    def average(self) -> np.ndarray:
        """Weighted average of the iterates."""
        if self._single:
            v, m, numbers = self._state
            return np.asarray(m + numbers[1] * v)
        return self._state[1].reshape(self._shape)


@dataclass(frozen=True)
class PhasedSGD(Algorithm):
    """Private stochastic convex optimisation in one pass.

    Parameters
    ----------
    constants : {"tight", "paper"}
        "paper" uses the printed step sizes and noise; the stated guarantee is still the one proved here, which shows
        how much the printed constants waste.
    phases : int, optional
        Number of phases; by default 2 (as many as n allows).
    ratio : float
        Step of a phase relative to the phase before, in (0, 1]. Phases shrink by half.
    step : float, optional
        First step of the first phase, at most 2 over the smoothness. By default see `default_step`.
    distance : float, optional
        Guess of the distance to the solution, for the default step; by default the radius of the domain, or 5 over
        the row bound if the domain is unbounded. It affects accuracy, never privacy.
    growing : bool
        Let the steps grow as 1/sqrt(1 - t/T) within a phase, and weight the average in proportion. The iterates then
        move twice as far, while no record has more influence than the first. Otherwise steps are constant, and the
        average is unweighted.
    release : {"last iterate", "every iterate"}
        What may be released. If only the last iterate is, the noise of later phases also protects earlier ones.
    batch : int, optional
        Records per step. Progress and sensitivity shrink together as it grows, so it affects speed but not the noise.
        By default 1, and up to 64 for data sets of at least 32,768 records and at most 2048 features.
    shuffle : {False, True, "secret"}
        True takes the records in a random order, drawn without looking at them. "secret" also relies on the order
        remaining secret, and adds less noise for the same budget.
    layout : {"halving", "localisation", "reduction"}
        Phases, each half as long as the one before. With l2 above 0 also the few equal phases of FKT20 Theorem 5.3, or
        runs on increasing numbers of records around increasingly accurate solutions (Theorem 5.1).

    References
    ----------
    FKT20: Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time",
    Algorithm 2 and Theorems 5.1 and 5.3. Su, Zhao, Wang (2023), Algorithm 6.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=1000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, solution.receipt.epsilon <= 2.0
    ((3,), True)
    """

    needs = Needs(ROWWISE_OR_LP, classes=True, kinks=False, records=True)
    suits = "smooth losses, one pass over many records; squared loss needs a ball or a box; l_p balls with p >= 2"
    reads = "1"

    constants: str = "tight"
    phases: int | None = None
    ratio: float = 0.5
    step: float | None = None
    distance: float | None = None
    growing: bool = True
    release: str = "last iterate"
    batch: int | None = None
    shuffle: bool | str = False
    layout: str = "halving"

    def __post_init__(self) -> None:
        check_options(
            self, one_of={"layout": ("halving", "localisation", "reduction"), "release": Scope},
            whole={"phases": 60, "batch": None}, positive=["step", "distance"], within={"ratio": (0.0, 1.0, "(]")},
        )  # fmt: skip
        if self.shuffle not in (False, True, "secret"):
            raise InputError(f"shuffle must be False, True or 'secret', got {self.shuffle!r}")
        if self.shuffle == "secret" and self.release == Scope.EVERY:
            raise HypothesisError("shuffle='secret': releasing every iterate releases the order too; use shuffle=True")
        check_constants(self, __name__)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix schedule and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        if self.batch is not None and self.batch > n:
            raise InputError(f"batch must not exceed the number of records, got {self.batch} of {n}")
        if self.layout != "halving" and not problem.l2:
            raise HypothesisError(f"layout={self.layout!r} needs strong convexity: set l2 above 0, or use 'halving'")
        if as_printed := printed(self, __name__):
            phases, scales = as_printed(problem, n, d, budget)
            facts = _facts(problem, n, d, phases, _ideal_facts(problem, n, d, budget, phases))
            claim = self._claim(problem, n, d, budget, phases, scales, facts)
        else:
            phases, claim = self._tight(problem, n, d, budget)
        utility = self._utility(problem, n, d, phases, claim)
        return Plan(self, problem, n, d, budget, claim, phases, gradient_evaluations=n, utility=utility)

    @property
    def streams(self) -> bool:
        """Whether rows are read once, in the given order, so that they may arrive in batches."""
        return not self.shuffle

    def in_memory(self, problem: Problem) -> str | None:
        """Why a run needs all rows in memory: a random order does."""
        return "with shuffle reads rows in another order than that of the parts" if self.shuffle else None

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Run the phases in order."""
        from dpconvex.loops.stream import descend, descend_batches

        order = None
        if self.shuffle:
            single = all(phase.batch == 1 for phase in plan.schedule)
            loop = descend_records if isinstance(rows, Records) else descend if single else descend_batches
            order = port.lend_order("order", loop)
        self._execute(plan, port, order, lambda stops, job: job(rows, y, stops[0], stops[-1], at=0))

    def execute_batches(self, plan: Plan, batches: Batches, port: NoisePort) -> None:
        """Run on rows that arrive in batches, with exactly the same result as `execute`."""
        self._execute(plan, port, None, batches.use)

    def _execute(self, plan: Plan, port: NoisePort, order: np.ndarray | None, use: Callable[..., None]) -> None:
        noisy = plan.problem.begin(plan.d)
        for phase in plan.schedule:
            descent = _Descent(_start(plan.problem, phase).project(noisy), phase, plan.problem, plan.n, order)
            use(descent.stops, descent.advance)
            noisy = port.add(phase.name, descent.average)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project what the last phase released."""
        return plan.problem.domain.project(port.released(plan.schedule[-1].name))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the schedule, for a person."""
        scales = {r.name: r.scale for r in plan.releases}
        lines = [
            f"{p.name:<12}{len(p.records)} records, steps {p.steps.values()[0]:.4g} to {p.steps.values()[-1]:.4g}, "
            + (f"{p.batch} records per step, " if p.batch > 1 else "")
            + f"noise {scales[p.name]:.4g}"
            for p in plan.schedule
        ]
        if not plan.problem.domain.traits.inside:
            lines.append("end         projected onto the domain; the iterates are not")
        words = "order       of the records random" + (", and secret" if self.shuffle == "secret" else "")
        return [*lines, words] if self.shuffle else lines

    def noise_law(self, released: Released) -> Law:
        """Noise of the last phase."""
        return last_phase_law(released)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        bounded = Problem(Logistic(), domain=LpBall(4.0, 1.0))
        every = cls(release="every iterate")
        return (
            Attack(cls(), LOGISTIC, epsilon=1.0, share=1.0, relations=ONE_RELATION, seed=0),
            Attack(cls(), LOGISTIC, seed=1),
            Attack(cls(growing=False), LOGISTIC, name="PhasedSGD, constant steps", seed=3),
            Attack(cls(phases=3), LOGISTIC, name="PhasedSGD, three phases", seed=5),
            Attack(cls(), bounded, name="PhasedSGD on an l4 ball", relations=ONE_RELATION, seed=7),
            Attack(every, LOGISTIC, name="PhasedSGD, every iterate", seed=8),
            Attack(
                cls(), TWO_CLASSES, name="PhasedSGD, softmax", share=1 / 16, least=0.95, relations=ONE_RELATION, seed=79
            ),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return (
            *ANYWHERE,
            ROWS_TOO_LONG,
            Mutant("phases overlap by one record", change=_overlapping),
            Mutant("average released under a last-iterate claim", averaged=True),
            Mutant("one noise for all phases", shared="draws"),
            SHARED_BY_CLASSES,
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (
            Victim(cls(), LOGISTIC, runs=10_000),
            Victim(cls(release="every iterate"), LOGISTIC, runs=10_000),
            Victim(cls(), TWO_CLASSES, runs=10_000),
        )

    # ---------------------------------------------------------------------------------------------------------------

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], Claim]:
        cap = check_contracts(self.step, problem.smoothness(n, d).value)
        batch = self.batch or _default_batch(n, math.prod(problem.weight_shape(d)))
        growing = self.growing and self.layout != "localisation"
        phases = tuple(
            _phase(f"phase {i}", range(a, b), first, batch, cap, growing)
            for i, (a, b, first) in enumerate(self._layout(problem, n, d, budget, batch, cap), start=1)
        )
        ideal = _ideal_facts(problem, n, d, budget, phases)
        moves, factors = ([fact.value for fact in facts] for facts in ideal)
        least = telescope(moves, factors) if self.release == Scope.LAST else moves
        shape = [max(a, LEAST_NOISE * b) for a, b in zip(least, moves, strict=True)]
        phases = placed(problem, n, d, phases, [2.0 * max(moves) / budget.mu] * len(phases))
        facts = _facts(problem, n, d, phases, ideal)  # how far a phase starts does not enter those that are ideal

        def build(scales: list[float]) -> Claim:
            return self._claim(problem, n, d, budget, phases, scales, facts)

        if self.shuffle != "secret":
            return phases, meet(build, shape, budget)[1]
        claim = build(shape)
        while True:
            factor = _secret_factor(claim.profile, budget)  # type: ignore[arg-type]
            shape = [round_up(factor * v) for v in shape]
            claim = build(shape)
            if claim.delta(budget.epsilon) <= budget.delta:
                return phases, claim

    def _layout(
        self, problem: Problem, n: int, d: int, budget: Budget, batch: int, cap: float
    ) -> list[tuple[int, int, float]]:
        """Start, end and first step of each phase: phases shrink by half, and steps by `ratio`."""
        if self.layout != "halving":
            from dpconvex.algorithms.as_printed.phased_sgd import LAYOUTS

            return LAYOUTS[self.layout](self, problem, n, d, budget, batch, cap)
        cuts = halving(n, self.phases or min(2, n))
        first = self.step or capped_step(problem, n, n, d, budget, self._distance(problem, d), batch, cap)
        return [(a, b, first * self.ratio**i) for i, (a, b) in enumerate(pairwise(cuts))]

    def _distance(self, problem: Problem, d: int) -> float:
        """Guess of the distance to the solution."""
        reach = problem.farthest(d)
        return self.distance or (reach if math.isfinite(reach) else 5.0 / problem.row_bound(d).value)

    def _claim(
        self,
        problem: Problem,
        n: int,
        d: int,
        budget: Budget,
        phases: tuple[Phase, ...],
        scales: list[float],
        facts: PhaseFacts,
    ) -> Claim:
        shape, order = problem.weight_shape(d), Release("order", ORDER, 1.0, (n,))
        moves, factors, drifts, ends = facts
        cost = _grid_cost(factors, scales, math.prod(shape)) if self.release == Scope.LAST else 0.0
        grids = [grid_for(s, cost, GRID_SHARE * budget.mu, far) for s, far in zip(scales, ends, strict=True)]
        releases = [
            Release(p.name, "gaussian", s, shape, grid=None if drifts is None else grid)
            for p, s, grid in zip(phases, scales, grids, strict=True)
        ]
        if self.shuffle == "secret":
            of_steps = problem.lipschitz(d), problem.smoothness(n, d), problem.strong_convexity(n)
            claim = secret_order(
                *of_steps, budget.relation, [p.steps for p in phases], [len(p.records) for p in phases],
                phases[0].weighting, min(p.batch for p in phases), releases, order, drifts,
            )  # fmt: skip
            return post_process(claim, "projection onto the domain")
        if self.release == Scope.LAST:
            claim = noisy_contraction(moves, factors, releases, period=len(phases), drifts=drifts)
        else:
            seen = moves if drifts is None else [computed_pass(*pair) for pair in zip(moves, drifts, strict=True)]
            claim = parallel([gaussian(m, r) for m, r in zip(seen, releases, strict=True)], [p.records for p in phases])
        if self.shuffle:
            claim = shuffled(claim, order)
        return post_process(claim, "projection onto the domain")

    def _utility(self, problem: Problem, n: int, d: int, phases: tuple[Phase, ...], claim: Claim) -> str:
        """Describe the expected excess population loss for independent records: Theorem 4 of the proof note."""
        if problem.l2:
            return "no bound is proved with l2 > 0"
        size = math.prod(problem.weight_shape(d))
        lipschitz, distance = problem.lipschitz(d).value, self._distance(problem, d)
        sums = [(p.arrays[0].sum(), (p.arrays[0] ** 2).sum()) for p in phases]
        scales = [r.scale for r in claim.releases]
        bound = distance**2 / (2.0 * sums[0][0]) + 1.5 * lipschitz**2 * sum(q / s for s, q in sums)
        trace = _trace(problem, n, d)
        free = not _walked(problem.domain).traits.bounded  # noise then costs only the trace of the Hessian
        for scale, (s, _) in zip(scales, sums[1:], strict=False):
            bound += 0.5 * scale**2 * (min(size / s, trace) if free else size / s)
        bound += 0.5 * trace * scales[-1] ** 2 if free else lipschitz * scales[-1] * math.sqrt(size)
        where = "" if problem.domain.traits.inside else "before projection, "
        return (
            f"{where}expected excess loss at most {bound:.4g} for a solution within {distance:g}"
            f"{' of the start' if problem.start is not None else ''} "
            "(worst case; expect far less)"
        )


def placed(problem: Problem, n: int, d: int, phases: tuple[Phase, ...], scales: list[float]) -> tuple[Phase, ...]:
    """State how far from the origin every phase starts: the reach of the domain, or as far as the phases before go.

    Noise of those scales goes further once in 10^17 runs. Such a start is brought back, which costs nothing.
    """
    domain, size = _walked(problem.domain), math.prod(problem.weight_shape(d))
    if problem.loss.traits.records:
        return phases
    start, found = domain.reach(size) if domain.traits.bounded else float(np.linalg.norm(problem.begin(d))), []
    for phase, scale in zip(phases, scales, strict=True):
        found.append(replace(phase, reach=start))
        if not domain.traits.bounded:
            start = round_up(_end(problem, n, d, found[-1]) + scale * (math.sqrt(size) + FAR), 6)
    return tuple(found)


def _start(problem: Problem, phase: Phase) -> Domain:
    """Domain onto which the starting point of a phase is projected."""
    domain = _walked(problem.domain)
    return domain if domain.traits.bounded or problem.loss.traits.records else L2Ball(phase.reach)


def _end(problem: Problem, n: int, d: int, phase: Phase) -> float:
    """How far from the origin a phase ends at most."""
    if _walked(problem.domain).traits.bounded:
        return phase.reach
    return travelled(problem.lipschitz(d), problem.strong_convexity(n), phase.arrays[0], phase.reach, _origin(problem))


def _origin(problem: Problem) -> Fact | None:
    """Loss of a record at weights of zero, where that bounds how far a run goes."""
    return problem.loss_at_origin() if math.isfinite(worst_at_origin(problem.loss)) else None


class PhaseFacts(NamedTuple):
    """Sensitivity, contraction and drift of every phase, and how far from the origin it ends."""

    moves: list[Fact]
    factors: list[Fact]
    drifts: list[Fact] | None
    ends: list[float]


def _facts(
    problem: Problem, n: int, d: int, phases: tuple[Phase, ...], ideal: tuple[list[Fact], list[Fact]]
) -> PhaseFacts:
    size, relation = math.prod(problem.weight_shape(d)), str(ideal[0][0].relation)
    if problem.loss.traits.records:  # nothing is known of the rounding in a loss of the user's own
        return PhaseFacts(*ideal, None, [0.0 for _ in phases])
    of_steps = problem.lipschitz(d), problem.row_bound(d), problem.smoothness(n, d), problem.strong_convexity(n)
    inside = _walked(problem.domain).traits.bounded
    origin = None if inside else _origin(problem)
    return PhaseFacts(
        *ideal,
        [pass_drift(*of_steps, relation, p.steps, p.batch, size, p.reach, inside, origin) for p in phases],
        [_end(problem, n, d, p) for p in phases],
    )


def _ideal_facts(
    problem: Problem, n: int, d: int, budget: Budget, phases: tuple[Phase, ...]
) -> tuple[list[Fact], list[Fact]]:
    lipschitz, beta, m = problem.lipschitz(d), problem.smoothness(n, d), problem.strong_convexity(n)
    moves = [stable_sgd(lipschitz, beta, m, budget.relation, p.steps, p.weighting, p.batch) for p in phases]
    return moves, [phase_contraction(beta, m, p.steps, p.weighting) for p in phases]


def _grid_cost(factors: list[Fact], scales: list[float], size: int) -> float:
    """What grids as wide as the noise would add to mu."""
    c, nu = np.array([f.value for f in factors]), np.array(scales)
    return chain_mu(np.append(0.0, c[1:] * nu[:-1] * math.sqrt(size)), c, nu, 1)


def _trace(problem: Problem, n: int, d: int) -> float:
    """Bound on the trace of one record's Hessian: for a linear model its only curvature is along the row.

    For a softmax it is 1 - |p|^2 times the squared row, below twice the largest eigenvalue.
    """
    traits = problem.loss.traits
    most = math.prod(problem.weight_shape(d)) if traits.records else min(traits.outputs, 2)
    return problem.smoothness(n, d).value * most


def _walked(domain: Domain) -> Domain:
    """Domain onto which the iterates are projected: `Everywhere` if only the result is projected."""
    return domain if domain.traits.inside else Everywhere()


def capped_step(
    problem: Problem, used: int, n: int, d: int, budget: Budget, distance: float, batch: int, cap: float
) -> float:
    """Default first step of a run over `used` of n records, at most the cap; it grows with the batch size."""
    step = default_step(
        n=used,
        distance=distance,
        lipschitz=problem.lipschitz(d).value,
        smoothness=_trace(problem, n, d),
        sensitivity=gradient_sensitivity(problem.lipschitz(d), budget.relation),
        mu=budget.mu,
    )
    return min(round_down(batch * step), cap)


def _phase(name: str, records: range, first: float, batch: int, cap: float, growing: bool) -> Phase:
    batch = min(batch, len(records))
    length = len(records) // batch
    steps: Schedule = Growing(first, length, cap) if growing else Constant(first, length)
    return Phase(name, records, steps, "steps" if growing else "uniform", batch)


def _default_batch(n: int, size: int) -> int:
    """Records per step: up to 64, and 1 beyond 2048 weights, since a batch of sparse rows would update them all."""
    return max(1, min(64, n // 16_384)) if size <= 2048 else 1


def _secret_factor(unit: Mixture, budget: Budget) -> float:
    """Factor on the noise of a unit claim with which it meets the budget."""

    def meets(scale: float) -> bool:
        scaled = Mixture(tuple(mu / scale for mu in unit.mus), unit.weights)
        return scaled.delta(budget.epsilon) <= budget.delta

    low, high = 0.0, max(unit.mus) / budget.mu * (1.0 + 1e-6)
    for _ in range(44):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high * (1.0 + 1e-9)


def default_step(
    *, n: int, distance: float, lipschitz: float, smoothness: float, sensitivity: float, mu: float
) -> float:
    """First step that balances progress against privacy noise, limited by the noise of the gradients themselves.

    Growing steps from eta advance about 2 n eta in total and leave a bias of D^2 / (4 n eta). Noise of standard
    deviation Delta eta / mu in every coordinate costs about smoothness/2 times its square in any dimension, because the
    Hessian of a linear model has trace at most the smoothness of one record. The sum is least where
    eta^3 = D^2 mu^2 / (4 n smoothness Delta^2). The noise of the gradients themselves limits eta to D / (L sqrt n).
    This is a rule of thumb for accuracy (docs/proofs/phased_sgd.md says where it is exact); privacy holds for any step.

    Examples
    --------
    >>> round(default_step(n=20000, distance=8, lipschitz=1, smoothness=0.25, sensitivity=2, mu=0.1872), 4)
    0.0304
    """
    plain = distance / (lipschitz * math.sqrt(n))
    if smoothness == 0.0:
        return plain
    return min(plain, float(distance**2 * mu**2 / (4.0 * n * smoothness * sensitivity**2)) ** (1.0 / 3.0))


def _overlapping(plan: Plan) -> Plan:
    """Plan in which every later phase reads the last record of the previous phase again."""
    if len(plan.schedule) == 1:
        return plan
    phases = [plan.schedule[0]]
    for phase in plan.schedule[1:]:
        records = range(phase.records.start - 1, phase.records.stop)
        phases.append(replace(phase, records=records, steps=replace(phase.steps, length=len(records))))
    return replace(plan, schedule=tuple(phases))
