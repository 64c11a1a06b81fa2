"""Phased-ERM: private SCO for smooth losses and for losses with kinks (FKT20 Algorithm 3), with exact accounting.

The records are divided into a few consecutive phases. Each phase minimises its losses plus a proximal term around the
end of the previous phase, to a certified accuracy fixed in advance. Gaussian noise is added to the point found, and the
result is projected. Later phases have a heavier proximal term, so their sensitivity and their noise shrink together.
The certificate is a proven distance to the minimiser, rounding included, so there is no failure probability to account
for. Proof: docs/proofs/phased_erm.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.algorithms.added_noise import signal
from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    ONE_NORM_FOR_ANOTHER,
    PURE,
    ROWS_TOO_LONG,
    Attack,
    Mutant,
    Victim,
)
from dpconvex.algorithms.base import Algorithm, Needs
from dpconvex.algorithms.cuts import halving
from dpconvex.algorithms.noise_law import Law, Released, last_phase_law
from dpconvex.algorithms.options import check_constants, check_options, printed
from dpconvex.calibrate import noise_factor
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, Scope, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.domains import L2Ball
from dpconvex.problem.losses import Convex, Loss
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import (
    certified_chain,
    certified_descent,
    certified_drift,
    certified_erm,
    gaussian,
    gradient_sensitivity,
    laplace,
    parallel,
    post_process,
    proximal_contraction,
)
from dpconvex.theorems.computed_sums import UNIT
from dpconvex.theorems.laplace import LAPLACE, laplace_scale
from dpconvex.theorems.noisy_contraction import telescope

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Sums

LEAST_NOISE = 0.01  # in units of the sensitivity of a phase
GRADIENT = 0.15  # norm of the mean gradient at the start, as a fraction of the largest gradient of one record
SMOOTH_SHARE, KINKED_SHARE = 1e-3, 0.02  # certified distance, as a fraction of the sensitivity of the minimiser
SOLVED = 0.99  # fraction of that distance which the solver has to reach; the rest is for the rounding of its start
FINE = 30  # noisy points lie on a grid of 2^-30 of their noise
FAR = 9.0  # standard deviations: starts may lie that much further out than sqrt(d) of them


@dataclass(frozen=True)
class Phase:
    """Minimise over records[start:stop] with a proximal term of weight `weight`, to within the distance `within`.

    A start further than `reach` from the origin is brought back to that distance.
    """

    name: str
    records: range
    weight: float
    within: float
    reach: float


@dataclass(frozen=True)
class PhasedERM(Algorithm):
    """Private stochastic convex optimisation by certified regularised minimisation.

    Parameters
    ----------
    constants : {"tight", "paper"}
        "paper" uses the printed weights, tolerances and noise; the stated guarantee is still the one proved here.
    phases : int, optional
        Number of phases; by default 3 (as many as n allows). Each has half the records of the one before.
    ratio : float
        Weight of the proximal term of a phase relative to the phase before, at least 1.
    weight : float, optional
        Weight of the proximal term of the first phase, on the scale of the sum. By default see `default_weight`.
    distance : float, optional
        Guess of the distance to the solution, for the default weight. By default half the reach of the domain or, if
        that is smaller, the norm that predictions need: the largest target over the row bound, or for labels a margin
        of 5 over it. It affects accuracy, never privacy.
    tolerance : float, optional
        Certified distance as a fraction of the sensitivity of the exact minimiser. By default 0.001 for smooth losses
        and 0.02 for losses with kinks, or what float64 can certify if that is more.
    reduction : bool
        Run on growing parts of the records, each starting where the last one ended and with a smaller guess of the
        distance: the optimal rate for a problem with l2 > 0 (FKT20 Theorem 5.1).
    release : {"last iterate", "every iterate"}
        What may be released. If only the last iterate is, the noise of later phases also protects earlier ones.

    Notes
    -----
    With a budget of delta = 0 the noise is Laplace, and every phase has to cover its own records. A loss of a record
    needs `lipschitz` and `smoothness`: the guarantee rests on both, and on its convexity.

    References
    ----------
    FKT20: Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time",
    Algorithm 3 and Theorem 5.1.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
    >>> plan = dc.algorithms.PhasedERM().plan(problem, n=1000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, solution.receipt.epsilon <= 2.0
    ((3,), True)
    """

    needs = Needs(pure=True, records=True)
    suits = "smooth losses, and those with kinks: hinge, absolute, pinball"
    reads = "a solve"
    vectors, matrices = 6.0, 3.0
    leads = frozenset({"hinge", "absolute"})

    constants: str = "tight"
    phases: int | None = None
    ratio: float = 1.5
    weight: float | None = None
    distance: float | None = None
    tolerance: float | None = None
    reduction: bool = False
    release: str = "last iterate"

    def __post_init__(self) -> None:
        check_options(
            self, one_of={"release": Scope}, whole={"phases": 60}, positive=["weight", "distance", "tolerance"],
            within={"ratio": (1.0, math.inf, "[)")}, flags=["reduction"],
        )  # fmt: skip
        check_constants(self, __name__)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix phases, certificates and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        problem.lipschitz(d)  # refuses an unbounded slope
        if problem.loss.traits.records:
            problem.smoothness(
                n, d
            )  # and records of one's own whose gradients change at any rate: nothing certifies them
        phases, scales = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        claim = self._claim(problem, n, d, budget, phases, scales)
        distance = self.distance or _guess(problem, d)
        spread = 1.0 if budget.delta else math.sqrt(2.0)  # standard deviation of noise of scale 1
        bound = excess_bound(problem, n, d, phases, [spread * s for s in scales], distance)
        return Plan(
            self, problem, n, d, budget, claim, phases, gradient_evaluations=n,
            utility=f"expected excess loss at most {bound:.4g} for a solution within {distance:g}"
            f"{' of the start' if problem.start is not None else ''} "
            "(worst case; expect far less)",
        )  # fmt: skip

    def in_memory(self, problem: Problem) -> str | None:
        """Why a run needs all rows in memory: ascent on a loss with a kink is no sum over rows."""
        loss = type(problem.loss).__name__
        return f"keeps a number for every record of a loss with a kink ({loss})" if problem.loss.traits.kinked else None

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Minimise phase after phase, each to its certified distance."""
        from dpconvex.sums.memory import open_sums

        problem, sums = plan.problem, open_sums(rows, y)
        w = problem.begin(plan.d)
        for phase in plan.schedule:
            ridge = problem.l2 / plan.n * len(phase.records)
            part = sums.view(phase.records.start, phase.records.stop)
            w = L2Ball(phase.reach).project(w) if phase.reach else np.zeros_like(w)
            found = minimiser(part, problem, ridge, phase.weight, w, SOLVED * phase.within)
            w = problem.domain.project(port.add(phase.name, found))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project what the last phase released."""
        return plan.problem.domain.project(port.released(plan.schedule[-1].name))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the schedule, for a person."""
        scales = {r.name: r.scale for r in plan.releases}
        noise = "Laplace noise" if plan.releases[0].law == LAPLACE else "noise"
        return [
            *(
                f"{p.name:<12}{len(p.records)} records, proximal weight {p.weight:.4g}, minimiser to within "
                f"{p.within:.3g}, {noise} {scales[p.name]:.4g}"
                for p in plan.schedule
            ),
            "passes      as many as the certificates take; the cost below is that of one",
        ]

    def noise_law(self, released: Released) -> Law:
        """Noise of the last phase."""
        return last_phase_law(released)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        pure = Attack(cls(phases=1), LOGISTIC, d=2, delta=0.0, name="PhasedERM, pure", share=1 / 80, least=0.0)
        return Attack(cls(), LOGISTIC, share=1 / 80, least=0.0, seed=10), pure

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, *PURE, ONE_NORM_FOR_ANOTHER

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        line, norms = (Victim(cls(phases=1), LOGISTIC, d=d, delta=0.0, runs=3000) for d in (1, 16))
        return Victim(cls(), LOGISTIC, runs=2000), line, norms

    # ---------------------------------------------------------------------------------------------------------------

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], list[float]]:
        if self.reduction:
            from dpconvex.algorithms.as_printed.phased_erm import reduced

            drafts = reduced(self, problem, n, d, budget)
        else:
            drafts = self.drafts(problem, d, budget, range(n), self.distance or _guess(problem, d))
        phases = certified(problem, n, d, budget, drafts, self.tolerance)
        if not budget.delta:
            size = math.prod(problem.weight_shape(d))
            return phases, [laplace_scale(s, size, budget.epsilon) for s in influences(problem, n, d, budget, phases)]
        claim = self._claim(problem, n, d, budget, phases, None)
        scales, factor = [r.scale for r in claim.releases], noise_factor(claim, budget)
        while True:  # once, or twice if the grids became coarser
            scales = [round_up(factor * s) for s in scales]
            claim = self._claim(problem, n, d, budget, phases, scales)
            if (factor := noise_factor(claim, budget)) <= 1.0 + 1e-11:
                return phases, scales

    def drafts(self, problem: Problem, d: int, budget: Budget, records: range, distance: float) -> list[Phase]:
        """Phases of a run over a range of records, without certificates: they halve, and weights grow by the ratio."""
        cuts = [records.start + c for c in halving(len(records), self.phases or min(3, len(records)))]
        first = self.weight or default_weight(problem, cuts[1] - cuts[0], d, budget, distance)
        return [
            Phase("", range(a, b), round_up(first * self.ratio**i), math.inf, 0.0)
            for i, (a, b) in enumerate(pairwise(cuts))
        ]

    def _claim(
        self, problem: Problem, n: int, d: int, budget: Budget, phases: tuple[Phase, ...], scales: list[float] | None
    ) -> Claim:
        """Claim of these scales of noise, or of the least for mu of about 1."""
        lipschitz, convex, relation = problem.lipschitz(d), problem.strong_convexity(n), budget.relation
        moves = [certified_erm(lipschitz, convex, relation, p.records, p.weight, p.within) for p in phases]
        factors = [proximal_contraction(convex, p.records, p.weight) for p in phases]
        # The printed certificates are so loose that the errors of later phases would cost more than shared noise saves.
        chained = self.release == Scope.LAST and self.constants == "tight" and bool(budget.delta)
        if scales is None:
            scales = [f.value for f in moves]
            if chained:  # add a little noise even where that of later phases covers everything
                least = telescope(scales, [f.value for f in factors])
                scales = [max(a, LEAST_NOISE * b) for a, b in zip(least, scales, strict=True)]
        shape = problem.weight_shape(d)
        ridge = problem.l2 / n
        far = [
            _farthest(problem, k, d, p.weight + ridge * k, p.weight, p.reach) for p in phases for k in [len(p.records)]
        ]
        law = "gaussian" if budget.delta else LAPLACE
        releases = [
            Release(p.name, law, s, shape, grid=grid_of(s, FINE, min(reach, 2.0**50 * s)))
            for p, s, reach in zip(phases, scales, far, strict=True)
        ]
        records = [p.records for p in phases]
        if chained:
            drifts = [certified_drift(p.within, relation) for p in phases]
            claim = certified_chain(moves, drifts, factors, releases, records)
        else:
            add = gaussian if budget.delta else laplace
            claim = parallel([add(m, r) for m, r in zip(moves, releases, strict=True)], records)
        if problem.loss.traits.records:
            claim = certified_descent(claim, problem.smoothness(n, d))
        return post_process(claim, "projection onto the domain")


def _guess(problem: Problem, d: int) -> float:
    """Half the reach of the domain, or the norm at which predictions reach the targets or clear margins, if smaller."""
    long = 1.0 if problem.loss.traits.labels == "bounded" else 5.0
    half = 0.5 * problem.farthest(d)
    if problem.loss.traits.records and math.isfinite(half):
        return half  # nothing is known of predictions
    return min(half, long * problem.loss.traits.scale / problem.row_bound(d).value)


def certified(
    problem: Problem, n: int, d: int, budget: Budget, drafts: Sequence[Phase], tolerance: float | None
) -> tuple[Phase, ...]:
    """Name the phases and give each its certified distance."""
    usual = KINKED_SHARE if problem.loss.traits.kinked else SMOOTH_SHARE
    share, size = tolerance or usual, math.prod(problem.weight_shape(d))
    delta, start, phases = gradient_sensitivity(problem.lipschitz(d), budget.relation), 0.0, []
    if problem.start is not None:
        start = round_up(float(np.linalg.norm(problem.begin(d))) * (1.0 + 1e-12))
    for i, draft in enumerate(drafts, start=1):
        ridge = problem.l2 / n * len(draft.records)
        m = _modulus(problem, n, draft)
        least = least_distance(problem, len(draft.records), d, ridge, draft.weight, start)
        if not math.isfinite(least) or (tolerance and least > share * delta / m):
            raise InputError(
                f"float64 cannot certify distances below {least * m / delta:.3g} of the sensitivity on "
                f"{len(draft.records)} records: use a larger tolerance, a bounded domain or a larger weight"
            )
        within = round_up(max(share * delta / m, least))
        phases.append(replace(draft, name=f"phase {i}", within=within, reach=start))
        # Hardly any start is longer: the minimiser is at most that far from the origin, and noise is mostly shorter.
        noise = 2.0 * (delta / m + 2.0 * within) / signal(budget, size) * (math.sqrt(size) + FAR)
        far = _farthest(problem, len(draft.records), d, m, draft.weight, start)
        start = min(problem.domain.reach(size), far + within + noise)
    return tuple(phases)


def influences(problem: Problem, n: int, d: int, budget: Budget, phases: Sequence[Phase]) -> list[float]:
    """How far one record can move the point that each phase finds."""
    delta = gradient_sensitivity(problem.lipschitz(d), budget.relation)
    return [delta / _modulus(problem, n, p) + 2.0 * p.within for p in phases]


def _modulus(problem: Problem, n: int, phase: Phase) -> float:
    """Strong convexity of what a phase minimises: of the proximal term, of l2 and, where declared, of the losses."""
    return phase.weight + problem.strong_convexity(n).value * len(phase.records)


def minimiser(
    sums: Sums, problem: Problem, ridge: float, weight: float, start: np.ndarray, within: float
) -> np.ndarray:
    """Point within that distance of the minimiser of sum_i loss + (ridge/2) |w|^2 + (weight/2) |w - start|^2.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.sums.memory import open_sums
    >>> problem = dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0))
    >>> sums = open_sums(Dense(np.eye(2), 1.0, 0.0), np.array([1.0, 0.5]))
    >>> minimiser(sums, problem, 0.0, 1.0, np.zeros(2), 1e-9).round(6)
    array([0.5 , 0.25])
    """
    from dpconvex.sums.descent import minimise_records
    from dpconvex.sums.sdca import minimise_kinked
    from dpconvex.sums.solver import minimise

    loss, m = problem.loss, weight + ridge
    if isinstance(loss, Convex):
        return minimise_records(sums, loss, m, -weight * start, within * m, domain=problem.domain, start=start)
    if loss.traits.kinked:
        return minimise_kinked(sums, loss, m, weight / m * start, within, domain=problem.domain)  # type: ignore[arg-type]
    return minimise(sums, loss, m, -weight * start, within * m, domain=problem.domain, start=start)


def least_distance(problem: Problem, n: int, d: int, ridge: float, weight: float, start: float) -> float:
    """Smallest distance that can be certified on any n records, from any start of at most that norm.

    The solver reaches `SOLVED` of the distance. The rest covers what the projection of the start, the linear term and
    the weights are off by: docs/proofs/phased_erm.md.
    """
    from dpconvex.sums.descent import least_record_tolerance
    from dpconvex.sums.sdca import kinked_facts
    from dpconvex.sums.solver import least_tolerance

    m, loss, size = weight + ridge, problem.loss, math.prod(problem.weight_shape(d))
    if loss.traits.records:
        least = least_record_tolerance(replace(problem, l2=m), n, d, weight * start) / m
    elif loss.traits.kinked:
        row = problem.row_bound(d).value
        facts = kinked_facts(loss, n, size, row, m, weight / m * start, problem.domain)  # type: ignore[arg-type]
        least = facts.least_distance()
    else:
        least = least_tolerance(replace(problem, l2=m), n, d, weight * start) / m
    far = _farthest(problem, n, d, m, weight, start)
    return max(least / SOLVED, 2.0 * UNIT * ((size + 16) * start + 8.0 * far) / (1.0 - SOLVED))


def _farthest(problem: Problem, n: int, d: int, m: float, weight: float, start: float) -> float:
    """Largest norm of the minimiser of a phase: m w = weight start - (sum of subgradients)."""
    size = math.prod(problem.weight_shape(d))
    return min(problem.domain.reach(size), (n * problem.lipschitz(d).value + weight * start) / m)


def default_weight(problem: Problem, n: int, d: int, budget: Budget, distance: float) -> float:
    """Weight of the proximal term of a first phase of n records, on the scale of the sum.

    Let lambda = weight / n. The bias is lambda D^2 / 2 on the mean loss. Noise of standard deviation q / lambda with
    q = Delta / (n mu) costs beta (q / lambda)^2 / 2, because the Hessian of a linear model has trace at most beta. The
    sum is least at lambda^3 = 2 beta (q / D)^2. Noise that dominates the gradient g needs a larger lambda: nearly all
    the curvature is then lambda, the minimiser -g / lambda gains |g|^2 / lambda, and lambda = beta q^2 / |g|^2 is best,
    with 0.15 of its bound for |g|. The default is the sum of both, and at least 0.1 L / (D sqrt n), because the records
    are a sample. This is a rule of thumb for accuracy; privacy holds for any weight.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> round(default_weight(problem, 10_000, 50, dc.Budget(1.0, 1e-6), 8.0), 1)
    17.8
    """
    lipschitz, bend = problem.lipschitz(d).value, mean_curvature(problem.loss) * problem.row_bound(d).value ** 2
    numbers = math.prod(problem.weight_shape(d))
    if problem.loss.traits.records:  # whose Hessian may have any rank
        bend *= numbers
    q = gradient_sensitivity(problem.lipschitz(d), budget.relation) / (n * signal(budget, numbers))
    private = (2.0 * bend * (q / distance) ** 2) ** (1.0 / 3.0) + bend * (q / (GRADIENT * lipschitz)) ** 2
    return round_up(n * max(private, 0.1 * lipschitz / (distance * math.sqrt(n))))


def mean_curvature(loss: Loss) -> float:
    """Curvature of the mean loss over many records with residuals, or margins, spread evenly over their range.

    It is finite even for a loss with kinks: the rise of the slope over that range, divided by its length.

    Examples
    --------
    >>> import dpconvex as dc
    >>> [mean_curvature(loss) for loss in (dc.losses.Logistic(), dc.losses.Hinge(), dc.losses.Absolute(target=2.0))]
    [0.25, 0.5, 0.5]
    """
    size = loss.traits.scale
    if loss.traits.labels == "bounded":
        rise = loss.slope(size, 0.0) - loss.slope(-size, 0.0)  # type: ignore[union-attr]
    else:
        rise = loss.slope_bound(math.inf)
    return float(min(loss.curvature_bound(), rise / (2.0 * size)))


def excess_bound(
    problem: Problem, n: int, d: int, phases: Sequence[Phase], scales: Sequence[float], distance: float
) -> float:
    """Bound the expected excess population loss for independent records: Theorem 2 of docs/proofs/phased_erm.md."""
    size, own = math.prod(problem.weight_shape(d)), problem.loss.traits.records
    lipschitz, reach, ridge = problem.lipschitz(d).value, problem.domain.reach(size), problem.l2 / n
    free = not math.isfinite(reach)
    # The Hessian of a linear model has rank one, and a trace of at most its largest eigenvalue; others may not.
    bend = problem.loss.curvature_bound() * problem.row_bound(d).value ** 2 * (size if own else 1.0)
    slope = lipschitz * math.sqrt(size) if own else 0.8 * lipschitz

    def cost(scale: float) -> float:
        """Excess loss from noise on a point. If the point is then projected, the direction of the noise is unknown."""
        if free:
            return min(0.5 * bend * scale**2, slope * scale) + 0.5 * ridge * size * scale**2
        return (lipschitz + ridge * reach) * scale * math.sqrt(size)

    bound, square, before = 0.0, distance**2, math.inf
    for phase, scale in zip(phases, scales, strict=True):
        count = len(phase.records)
        m = _modulus(problem, n, phase)
        near = 2.0 * lipschitz / m + 2.0 * phase.within
        bound += min(0.5 * phase.weight / count * square, before)
        bound += lipschitz * near + m * phase.within**2 / count
        square, before = size * scale**2, cost(scale)
    return bound + before
