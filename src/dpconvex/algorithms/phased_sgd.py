"""Phased-SGD: private SCO in one pass (FKT20 Algorithm 2), with exact sensitivities and exact accounting.

The records are cut into a few consecutive phases. Each phase is one pass of projected SGD from where the last one
ended; Gaussian noise is added to its averaged iterate, and the result is projected. Later phases take smaller steps,
so that their influence and their noise shrink together. Proof: docs/proofs/phased_sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpconvex.errors import HypothesisError, InputError
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan, check_public
from dpconvex.plan.port import NoisePort
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.calibrate import telescope
from dpconvex.privacy.claims import Claim, Release, Scope
from dpconvex.privacy.schedules import Constant, Growing, Schedule
from dpconvex.privacy.theorems import (
    gaussian,
    gradient_sensitivity,
    iterate_weights,
    noisy_contraction,
    parallel,
    phase_contraction,
    post_process,
    stable_sgd,
)
from dpconvex.problem.facts import Fact
from dpconvex.problem.losses import Softmax
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_down, round_up


@dataclass(frozen=True)
class Phase:
    """One pass over records[start:stop]."""

    name: str
    records: range
    steps: Schedule
    weighting: str

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Step of every record, and the weight of the iterates from there on."""
        steps = self.steps.values()
        tails = np.cumsum(iterate_weights(steps, self.weighting)[::-1])[::-1]
        return steps, tails / tails[0]  # weights that sum to exactly 1 keep the phase a contraction


@dataclass(frozen=True)
class PhasedSGD:
    """Private stochastic convex optimisation in one pass.

    Parameters
    ----------
    constants : {"tight", "paper"}
        "paper" takes the printed step sizes and noise; the guarantee stated is still the one proved here, which
        shows what the printed constants waste.
    phases : int, optional
        Number of phases; by default 2 (as many as n allows).
    ratio : float
        Step of a phase relative to the phase before, in (0, 1]. Phases shrink by half.
    step : float, optional
        First step of the first phase, at most 2 over the smoothness. By default see `default_step`.
    distance : float, optional
        Guess of the distance to the solution, for the default step; by default the radius of the domain, or 5 over
        the row bound where the domain is unbounded. It matters for accuracy, never for privacy.
    growing : bool
        Steps that grow as 1/sqrt(1 - t/T) within a phase, with the average weighted in proportion: the pass goes
        twice as far, and still no record has more influence than the first. Otherwise constant steps and a plain
        average.
    release : {"last iterate", "every iterate"}
        What may leave the run. Noise that covers later phases protects earlier ones if only the end is released.

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

    constants: str = "tight"
    phases: int | None = None
    ratio: float = 0.5
    step: float | None = None
    distance: float | None = None
    growing: bool = True
    release: str = "last iterate"

    def __post_init__(self) -> None:
        if self.constants not in ("tight", "paper"):
            raise InputError(f"constants must be 'tight' or 'paper', got {self.constants!r}")
        if self.release not in (Scope.LAST, Scope.EVERY):
            raise InputError(f"release must be '{Scope.LAST}' or '{Scope.EVERY}', got {self.release!r}")
        if self.phases is not None and (isinstance(self.phases, bool) or not isinstance(self.phases, int)):
            raise InputError(f"phases must be a whole number, got {type(self.phases).__name__}")
        if self.phases is not None and not 1 <= self.phases <= 60:
            raise InputError(f"phases must lie between 1 and 60, got {self.phases}")
        if not 0.0 < self.ratio <= 1.0:
            raise InputError(f"ratio must lie in (0, 1], got {self.ratio}")
        for name in ("step", "distance"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0.0 < value < math.inf):
                raise InputError(f"{name} must be a positive, finite number")

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix schedule and noise from public facts."""
        check_public(n, d, budget)
        n, d = int(n), int(d)
        if isinstance(problem.loss, Softmax):
            raise HypothesisError("PhasedSGD takes losses of one prediction; for Softmax use NoisyGD")
        make = self._paper if self.constants == "paper" else self._tight
        phases, claim = make(problem, n, d, budget)
        utility = self._utility(problem, n, d, phases, claim)
        return Plan(self, problem, n, d, budget, claim, phases, gradient_evaluations=n, utility=utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Run the phases in order."""
        from dpconvex.loops.stream import Pass

        loss, domain = plan.problem.loss, plan.problem.domain
        w = np.zeros(plan.problem.weight_shape(plan.d))
        for phase in plan.schedule:
            steps, tails = phase.arrays
            descent = Pass(w, steps, tails, plan.problem.l2 / plan.n, phase.records.start)
            average = descent.advance(rows, y, loss, domain, phase.records.stop).average
            w = domain.project(port.add(phase.name, average))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project what the last phase released."""
        return plan.problem.domain.project(port.released(plan.schedule[-1].name))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the schedule, for a person."""
        scales = {r.name: r.scale for r in plan.releases}
        return [
            f"{p.name:<12}{len(p.records)} records, steps {p.steps.values()[0]:.4g} to {p.steps.values()[-1]:.4g}, "
            f"noise {scales[p.name]:.4g}"
            for p in plan.schedule
        ]

    # ---------------------------------------------------------------------------------------------------------------

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], Claim]:
        cuts = _halving(n, self.phases or min(2, n))
        beta = problem.smoothness(n, d).value
        cap = round_down(2.0 / beta) if beta else math.inf
        first = self.step or min(round_down(self._default_step(problem, n, d, budget)), cap)
        phases = tuple(
            Phase(
                f"phase {i + 1}",
                range(a, b),
                Growing(first * self.ratio**i, b - a, cap) if self.growing else Constant(first * self.ratio**i, b - a),
                "steps" if self.growing else "uniform",
            )
            for i, (a, b) in enumerate(pairwise(cuts))
        )
        if first > cap:
            raise HypothesisError(
                f"step {first:g} is above 2/beta = {cap:g}: gradient steps would not contract; take a smaller step"
            )
        moves, factors = _phase_facts(problem, n, d, budget, phases)
        if self.release == Scope.EVERY:
            shape = [f.value for f in moves]
        else:
            shape = telescope([f.value for f in moves], [f.value for f in factors])
        unit = self._claim(problem, d, phases, moves, factors, shape)
        scale = unit.profile.mu / budget.mu * (1.0 + 1e-11)  # type: ignore[union-attr]
        return phases, self._claim(problem, d, phases, moves, factors, [round_up(scale * v) for v in shape])

    def _paper(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[tuple[Phase, ...], Claim]:
        """FKT20 Algorithm 2 and Theorem 4.4 as printed, on whole phases: none is empty, none share a record."""
        if (self.phases, self.ratio, self.step, self.distance, self.growing) != (None, 0.5, None, None, True):
            raise InputError("constants='paper' fixes phases, ratio, step, distance and growing: leave them unset")
        (size,) = problem.weight_shape(d)
        lipschitz, reach = problem.lipschitz(d).value, problem.domain.reach(size)
        if not math.isfinite(reach):
            raise HypothesisError("constants='paper' needs a bounded domain: its step is set by the radius")
        rho = budget.epsilon / (2.0 * math.sqrt(math.log(1.0 / budget.delta)))
        eta = reach / lipschitz * min(4.0 / math.sqrt(n), rho / math.sqrt(size))
        cuts = _halving(n, math.ceil(math.log2(n)))
        phases = tuple(
            Phase(f"phase {i}", range(a, b), Constant(eta * 4.0**-i, b - a), "uniform")
            for i, (a, b) in enumerate(pairwise(cuts), start=1)
        )
        moves, factors = _phase_facts(problem, n, d, budget, phases)
        scales = [4.0 * lipschitz * eta * 4.0**-i / rho for i in range(1, len(phases) + 1)]
        return phases, self._claim(problem, d, phases, moves, factors, scales)

    def _claim(
        self,
        problem: Problem,
        d: int,
        phases: tuple[Phase, ...],
        moves: list[Fact],
        factors: list[Fact],
        scales: list[float],
    ) -> Claim:
        shape = problem.weight_shape(d)
        releases = [Release(p.name, "gaussian", s, shape) for p, s in zip(phases, scales, strict=True)]
        if self.release == Scope.LAST:
            claim = noisy_contraction(moves, factors, releases, period=len(phases))
        else:
            claim = parallel(
                [gaussian(m, r) for m, r in zip(moves, releases, strict=True)], [p.records for p in phases]
            )
        return post_process(claim, "projection onto the domain")

    def _utility(self, problem: Problem, n: int, d: int, phases: tuple[Phase, ...], claim: Claim) -> str:
        """Theorem 4 of docs/proofs/phased_sgd.md: expected excess population loss of independent records."""
        if problem.l2:
            return "no bound is proved with l2 > 0"
        (size,) = problem.weight_shape(d)
        reach, lipschitz = problem.domain.reach(size), problem.lipschitz(d).value
        distance = self.distance or (reach if math.isfinite(reach) else 5.0 / problem.row_bound(d).value)
        sums = [(p.arrays[0].sum(), (p.arrays[0] ** 2).sum()) for p in phases]
        scales = [r.scale for r in claim.releases]
        bound = distance**2 / (2.0 * sums[0][0]) + 1.5 * lipschitz**2 * sum(q / s for s, q in sums)
        trace = problem.smoothness(n, d).value
        free = not math.isfinite(reach)  # without projection noise pays for the trace of the Hessian only
        for scale, (s, _) in zip(scales, sums[1:], strict=False):
            bound += 0.5 * scale**2 * (min(size / s, trace) if free else size / s)
        bound += 0.5 * trace * scales[-1] ** 2 if free else lipschitz * scales[-1] * math.sqrt(size)
        return (
            f"expected excess loss at most {bound:.4g} for a solution within {distance:g} (worst case; expect far less)"
        )

    def _default_step(self, problem: Problem, n: int, d: int, budget: Budget) -> float:
        row = problem.row_bound(d).value
        reach = problem.domain.reach(problem.weight_shape(d)[0])
        distance = self.distance or (reach if math.isfinite(reach) else 5.0 / row)
        return default_step(
            n=n,
            distance=distance,
            lipschitz=problem.lipschitz(d).value,
            smoothness=problem.smoothness(n, d).value,
            sensitivity=gradient_sensitivity(problem.lipschitz(d), budget.relation),
            mu=budget.mu,
        )


def _halving(n: int, phases: int) -> list[int]:
    """Cut points of phases that shrink by half, by cumulative floors; empty phases are dropped, the end is n.

    Examples
    --------
    >>> _halving(20, 3)
    [0, 11, 17, 20]
    """
    whole = sum(0.5**i for i in range(phases))
    cuts = [0, *(int(n * sum(0.5**j for j in range(i)) / whole) for i in range(1, phases)), n]
    return sorted(set(cuts))


def _phase_facts(
    problem: Problem, n: int, d: int, budget: Budget, phases: tuple[Phase, ...]
) -> tuple[list[Fact], list[Fact]]:
    lipschitz, beta, m = problem.lipschitz(d), problem.smoothness(n, d), problem.strong_convexity(n)
    moves = [stable_sgd(lipschitz, beta, m, budget.relation, p.steps, p.weighting) for p in phases]
    return moves, [phase_contraction(beta, m, p.steps, p.weighting) for p in phases]


def default_step(
    *, n: int, distance: float, lipschitz: float, smoothness: float, sensitivity: float, mu: float
) -> float:
    """First step that balances progress against privacy noise, held below the step that gradient noise allows.

    Growing steps from eta advance about 2 n eta in all and leave a bias of D^2 / (4 n eta). Noise of standard
    deviation Delta eta / mu in every coordinate costs about smoothness/2 times its square, in any dimension, for the
    Hessian of a linear model has a trace of at most the smoothness of one record. The sum is least where
    eta^3 = D^2 mu^2 / (4 n smoothness Delta^2). Noise of the gradients themselves asks for at most D / (L sqrt n).
    A rule of thumb for accuracy (docs/proofs/phased_sgd.md says where it is exact); privacy holds for any step.

    Examples
    --------
    >>> round(default_step(n=20000, distance=8, lipschitz=1, smoothness=0.25, sensitivity=2, mu=0.1872), 4)
    0.0304
    """
    plain = distance / (lipschitz * math.sqrt(n))
    if smoothness == 0.0:
        return plain
    return min(plain, float(distance**2 * mu**2 / (4.0 * n * smoothness * sensitivity**2)) ** (1.0 / 3.0))
