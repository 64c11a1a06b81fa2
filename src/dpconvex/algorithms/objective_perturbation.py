"""Objective perturbation: minimise the objective tilted by a random linear term, and release the minimiser.

One release pays for the whole fit: no step size, no number of steps. The minimiser is computed to a certificate fixed
in advance, and a little output noise covers what the certificate leaves open (Su, Zhao, Wang 2023, Algorithms 1 and 5,
with an exact profile for linear models). Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.options import check_choice, check_domain, check_positive, check_within, given
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.calibrate import calibrate_sigma
from dpconvex.kernel.claims import Claim, Release
from dpconvex.loops.rows import Rows
from dpconvex.noise.gaussian import LONGEST
from dpconvex.plan.plan import Plan, check_public
from dpconvex.plan.port import NoisePort
from dpconvex.problem.losses import Kinked, LogCosh, Logistic, Softmax
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import objective_perturbation, objective_perturbation_softmax, post_process

ACCOUNTINGS = ("sharp", "coupled", "published", "paper")
OUTPUT_SHARE = 0.05  # of mu, spent on the output noise: it costs 0.1% more noise in the objective


@dataclass(frozen=True)
class Solve:
    """What the solver is asked for: |gradient| <= tolerance, certified."""

    tolerance: float


@dataclass(frozen=True)
class ObjectivePerturbation(Algorithm):
    """Private minimiser of sum_i loss + (l2/2)|w|^2 for linear models, exactly accounted.

    Parameters
    ----------
    accounting : {"sharp", "coupled", "published", "paper"}
        How the noise is calibrated: by the bound of the proof note, by its simpler form, as published by Redberg,
        Koskela and Wang (2023), or with the constants of Su, Zhao and Wang (2023), corrected. Only the first is for
        use; the others show the gain.
    output_share : float
        Part of mu given to the output noise.
    precision : float, optional
        Gradient that the output noise has to cover, in units of the noise on one sum of gradients, or what float64 can
        certify if that is more; the point is found a thousand times as closely, float64 permitting. By default so large
        that output noise adds 0.25% to the excess loss, which depends on n.

    Notes
    -----
    The problem needs l2 > 0. If it has none, the plan takes the smallest weight at which regularisation costs
    (nearly) no noise, `default_l2`, and says so.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> plan = dc.algorithms.ObjectivePerturbation().plan(
    ...     dc.Problem(dc.losses.Logistic()), n=1000, d=3, budget=dc.Budget(1.0, 1e-6)
    ... )
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, round(plan.problem.l2, 2), bool(dc.verify(solution.receipt))
    ((3,), 1.7, True)
    """

    takes = frozenset({"sample_weight"})

    accounting: str = "sharp"
    output_share: float = OUTPUT_SHARE
    precision: float | None = None

    def __post_init__(self) -> None:
        check_choice("accounting", self.accounting, ACCOUNTINGS)
        check_within("output_share", self.output_share, 0.0, 1.0, "()")
        for name, value in given(self, "precision"):
            check_positive(name, value)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix regularisation, tolerance and noise from public facts."""
        from dpconvex.sums.solver import least_tolerance, worst_at_origin

        check_public(n, d, budget)
        n, d = int(n), int(d)
        check_domain(self, problem.domain)
        if isinstance(problem.loss, Kinked):
            raise HypothesisError(
                f"{type(problem.loss).__name__} has a kink: use SmoothedHinge, Huber or LogCosh, or PhasedERM"
            )
        if not problem.l2:
            problem = replace(problem, l2=default_l2(problem, d, budget))
        shape, row, slope = problem.weight_shape(d), problem.row_bound(d), problem.loss.slope_bound(math.inf)
        if not math.isfinite(slope):
            raise HypothesisError(
                f"{type(problem.loss).__name__} has unbounded slope; objective perturbation needs one such as LogCosh"
            )
        bend = n * problem.loss.curvature_bound() * row.value**2
        if not bend:
            raise HypothesisError(f"{type(problem.loss).__name__} has no curvature: there is no minimiser to perturb")
        prove: Callable[[Release, Release, float], Claim]
        if isinstance(problem.loss, Softmax):
            if self.accounting != "sharp":
                raise InputError("Softmax has one accounting, 'sharp'")
            prove = partial(objective_perturbation_softmax, problem.classes(), row, problem.l2, budget.relation)
        else:
            facts = problem.slope(), problem.slope_width(), problem.curvature_law(), problem.monotone_margin(), row
            prove = partial(objective_perturbation, *facts, problem.l2, budget.relation, accounting=self.accounting)
        size, mu_out = math.prod(shape), self.output_share * budget.mu
        sigma = _floor(slope, row.value, budget)
        if self.precision is None:  # output noise that adds 0.25% to the excess risk of the tilt
            tolerance = mu_out * problem.l2 * 0.05 * sigma * size / (bend + size * problem.l2) / 2.0
        else:
            tolerance = self.precision * sigma

        def claim(scale: float, tolerance: float, blur: float) -> Claim:
            tilt, output = Release("objective", "gaussian", scale, shape), Release("output", "gaussian", blur, shape)
            return post_process(prove(tilt, output, tolerance), "projection onto the domain")

        def calibrated(tolerance: float) -> tuple[float, float, float]:
            """The scale of the tilt, the tolerance, and the scale of the output, which is in proportion to it."""
            tolerance = round_up(tolerance)
            blur = round_up(2.0 * tolerance / (problem.l2 * mu_out))
            guess = claim(sigma, tolerance, blur).profile
            build = partial(replace, guess)  # type: ignore[type-var]
            return calibrate_sigma(budget.epsilon, budget.delta, build, sigma), tolerance, blur

        def least(tilt: float) -> float:
            found = least_tolerance(problem, n, d, LONGEST * tilt * math.sqrt(size))
            if not math.isfinite(found):
                raise HypothesisError("float64 cannot certify a minimiser of so many records, or of so small an l2")
            return found

        tilt, tolerance, blur = calibrated(tolerance)
        # Whatever tilt is drawn, its minimiser has to be certifiable: a run must not fail by its own noise.
        while not tolerance >= (certifiable := least(tilt)):
            tilt, tolerance, blur = calibrated(1.01 * certifiable)
        excess = excess_loss(problem, n, d, tilt, blur, tolerance)
        utility = f"mean loss, l2 term included, on average at most {excess:.2g} above its minimum"
        if excess >= (zero := worst_at_origin(problem.loss)):
            utility += f" (vacuous: weights of zero are within {zero:.2g})"
        # Closer than the claim asks for: where the solver stopped is then out of sight, not only covered by noise.
        asked = tolerance if self.precision is None else round_up(max(1e-3 * tolerance, certifiable))
        made = claim(tilt, tolerance, blur)
        return Plan(self, problem, n, d, budget, made, (Solve(asked),), n, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Minimise the tilted objective to its certificate, and perturb the minimiser."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.solver import minimise

        problem, sums = plan.problem, open_sums(rows, y)
        tilt = port.lend("objective", minimise)
        point = minimise(sums, problem.loss, problem.l2, tilt, plan.schedule[0].tolerance, domain=problem.domain)
        port.add("output", point)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project the noisy minimiser."""
        return plan.problem.domain.project(port.released("output"))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the noise, for a person."""
        tilt, blur = plan.releases
        slope, row = plan.problem.loss.slope_bound(math.inf), plan.problem.row_bound(plan.d).value
        times = tilt.scale / _floor(slope, row, plan.budget)
        return [
            f"objective   tilted by noise {tilt.scale:.4g}, {times:.3f} times that of one Gaussian release "
            f"({self.accounting} accounting)",
            f"minimiser   to |gradient| <= {plan.schedule[0].tolerance:.3g}, output noise {blur.scale:.3g}",
            "passes      as many as the certificate takes; the cost below is that of one",
        ]


def _floor(slope: float, row: float, budget: Budget) -> float:
    """Noise with which one sum of gradients could be released."""
    return budget.moves * slope * row / budget.mu


def excess_loss(problem: Problem, n: int, d: int, tilt: float, blur: float, tolerance: float) -> float:
    """Bound the mean over the noise of F(w)/n - min F/n, for F = sum_i loss + (l2/2)|w|^2 at the released w.

    Proposition 13 of the proof note: noise of scale `tilt` in the objective, `blur` in the output, and a certificate.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> round(excess_loss(Problem(Logistic(), l2=2.0), n=1000, d=4, tilt=10.0, blur=0.0, tolerance=0.0), 9)
    0.1
    """
    size, row, loss = math.prod(problem.weight_shape(d)), problem.row_bound(d).value, problem.loss
    spread = blur * math.sqrt(size)
    smoothness = n * loss.curvature_bound() * row**2 + problem.l2
    total = (tilt * math.sqrt(size) + tolerance) ** 2 / (2.0 * problem.l2) + smoothness / 2.0 * spread**2
    reach = problem.domain.reach(size)
    if math.isfinite(reach):
        total += (n * loss.slope_bound(math.inf) * row + problem.l2 * reach) * spread
    return total / n


def default_l2(problem: Problem, d: int, budget: Budget) -> float:
    """Regularisation, on the scale of the sum, at which its own cost in privacy vanishes: a multiple of R^2/epsilon.

    The multiple is that of the loss: small where the curvature vanishes with the slope's freedom (Logistic, LogCosh),
    four times the largest curvature otherwise, or for a capped logistic loss ten times that left at the cap. Twice as
    much under replace_one, and a little more in high dimension.
    """
    loss = problem.loss
    if isinstance(loss, Softmax):
        multiple = 10.0
    elif isinstance(loss, Logistic):
        multiple = max(0.85, 10.0 * loss.cap * (1.0 - loss.cap))
    elif isinstance(loss, LogCosh):
        multiple = 1.5
    else:
        multiple = 4.0 * loss.curvature_bound()
    size, row = problem.weight_shape(d)[-1], problem.row_bound(d).value
    return round_up(multiple * budget.moves * row**2 / budget.epsilon * max(1.0, (size / 100.0) ** 0.25))
