"""Objective perturbation: minimise the objective tilted by a random linear term, and release the minimiser.

The whole fit costs one release, and there is no step size or number of steps to choose. The minimiser is computed to a
certified accuracy fixed in advance, and a little output noise covers the remaining error (Su, Zhao, Wang 2023,
Algorithms 1 and 5, with an exact profile for linear models). Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    LONG,
    NOT_CAPPED,
    ROWS_TOO_LONG,
    SHARED_BY_CLASSES,
    SOFTMAX,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
    linear_pair,
)
from dpconvex.algorithms.base import Algorithm, Needs
from dpconvex.algorithms.noise_law import Law, Released, raised, row_norms, symmetric_draws
from dpconvex.algorithms.options import check_options
from dpconvex.calibrate import calibrate_sigma
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.kernel.profiles import Composite
from dpconvex.loops.rows import Rows
from dpconvex.noise.rounded import LARGEST_RATIO
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.domains import Everywhere
from dpconvex.problem.losses import LogCosh, Logistic, worst_at_origin
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.sums.accuracy import Accumulation
from dpconvex.theorems import objective_perturbation, objective_perturbation_softmax, post_process
from dpconvex.theorems.excess import MostExcess, check_beta, tail
from dpconvex.theorems.numerics.objective import ACCOUNTINGS
from dpconvex.theorems.objective_perturbation import longest_tilt

FINE = 39  # the tilt lies on a grid of 2^-39 of the noise on one sum of gradients, or finer
PRECISION = 1e-7  # precision of weighted fits, in units of the noise; float64 certifies it up to about 10,000 records
LENGTH = 18.0  # of the weights of a class on typical tables, over the row bound
OUTPUT_SHARE = 0.05  # fraction of mu spent on the output noise, which costs 0.1% more noise in the objective


@dataclass(frozen=True)
class Solve:
    """The accuracy required of the solver: |gradient| <= tolerance, certified."""

    tolerance: float


@dataclass(frozen=True)
class ObjectivePerturbation(Algorithm):
    """Private minimiser of sum_i loss + (l2/2)|w|^2 for linear models, with exact accounting.

    Parameters
    ----------
    accounting : {"sharp", "coupled", "published", "paper"}
        How the noise is calibrated: by the bound of the proof note ("sharp"), by a simpler form of it ("coupled"), as
        published by Redberg, Koskela and Wang (2023), or with the corrected constants of Su, Zhao and Wang (2023). Use
        "sharp"; the others are there for comparison.
    output_share : float
        Fraction of mu spent on the output noise.
    precision : float, optional
        Norm of the gradient that the output noise has to cover, in units of the noise on one sum of gradients; raised
        to what float64 can certify if necessary. The minimiser is computed a thousand times more accurately where
        float64 permits. By default chosen, depending on n, so that output noise adds 0.01% to the excess loss.

    Notes
    -----
    The algorithm needs l2 > 0. If the problem has l2 = 0, the plan uses `default_l2`, the smallest l2 at which the
    cost of too little regularisation (nearly) vanishes, and says so.

    References
    ----------
    Su, Zhao, Wang (2023), Algorithms 1 and 5. Redberg, Koskela, Wang (2023), "Improving the privacy and practicality of
    objective perturbation for differentially private linear learners".

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

    needs = Needs(classes=True, kinks=False, starts=False)
    suits = "logistic, smoothed hinge, Huber and log-cosh losses, softmax"
    reads = "a solve"
    takes = frozenset({"sample_weight"})
    vectors, matrices = 6.0, 3.0
    shifts_margin = True
    leads = frozenset({"margin", "classes", "smoothed hinge", "squares", "bounded squares"})

    accounting: str = "sharp"
    output_share: float = OUTPUT_SHARE
    precision: float | None = None

    def __post_init__(self) -> None:
        check_options(
            self, one_of={"accounting": ACCOUNTINGS}, within={"output_share": (0.0, 1.0, "()")}, positive=["precision"],
        )  # fmt: skip

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix regularisation, tolerance and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        if not problem.l2:
            problem = replace(problem, l2=self.least_l2(problem, d, budget))
        row, slope = problem.row_bound(d), problem.loss.slope_bound(math.inf)
        if not math.isfinite(slope):
            raise HypothesisError(
                f"{type(problem.loss).__name__} has unbounded slope, and objective perturbation needs a bounded one: "
                "use a loss such as LogCosh"
            )
        if not problem.loss.curvature_bound():
            raise HypothesisError(f"{type(problem.loss).__name__} has no curvature: there is no minimiser to perturb")
        prove: Prove
        if problem.loss.traits.outputs > 1:
            if self.accounting != "sharp":
                raise InputError("Softmax has one accounting, 'sharp'")
            prove = partial(objective_perturbation_softmax, problem.classes(), row, problem.l2, budget.relation)
        else:
            facts = problem.slope(), problem.slope_width(), problem.curvature_law(), problem.monotone_margin(), row
            prove = partial(objective_perturbation, *facts, problem.l2, budget.relation, accounting=self.accounting)
        mu_out, sigma = self.output_share * budget.mu, _floor(slope, row.value, budget)
        found = calibrated(problem, n, d, budget, prove, sigma, mu_out, self.precision)
        tilt, output, tolerance = found.tilt, found.output, found.tolerance
        excess = excess_loss(problem, n, d, tilt.scale, output.scale, tolerance)
        utility = f"mean loss, l2 term included, on average at most {excess:.2g} above its minimum"
        if excess >= (zero := worst_at_origin(problem.loss)):
            utility += f" (vacuous: weights of zero are within {zero:.2g})"
        # More accurate than the claim requires: where the solver stopped is then invisible, not only covered by noise.
        asked = tolerance if self.precision is None else round_up(max(1e-3 * tolerance, found.certifiable))
        made = post_process(prove(tilt, output, tolerance), "projection onto the domain")
        return Plan(self, problem, n, d, budget, made, (Solve(asked),), n, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Minimise the tilted objective to the certified tolerance, and perturb the minimiser."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.solver import minimise

        problem, sums = plan.problem, open_sums(rows, y)
        tilt = shortened(port.lend("objective", minimise), longest_tilt(plan.releases[0]))
        point = minimise(sums, problem.loss, problem.l2, tilt, plan.schedule[0].tolerance, domain=problem.domain)
        port.add("output", point)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Project the noisy minimiser."""
        return plan.problem.domain.project(port.released("output"))

    def most_excess(self, plan: Plan, beta: float | None = None, moment: float | None = None) -> MostExcess:
        """Bound the excess of the mean loss of the records, l2 term included: Proposition 13 of the proof note."""
        check_beta(beta, moment)
        (tilt, output), cells = plan.releases, 0.5 * math.sqrt(math.prod(plan.problem.weight_shape(plan.d)))
        tolerance = plan.schedule[0].tolerance + cells * (tilt.grid or 0.0)
        blur = output.scale + (output.grid or 0.0)
        value = excess_loss(plan.problem, plan.n, plan.d, tilt.scale, blur, tolerance, beta)
        return MostExcess(value, beta, over="records")

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

    def solved(self, plan: Plan, port: NoisePort, X: np.ndarray) -> tuple[Problem, np.ndarray, np.ndarray]:
        """Problem that the solver was given, and the rows with their weights: by plain arithmetic, for checks."""
        return plan.problem, X, np.ones(len(X))

    def for_weights(self) -> ObjectivePerturbation:
        """Variant whose output noise does not depend on n."""
        return replace(self, precision=PRECISION)

    def least_l2(self, problem: Problem, d: int, budget: Budget) -> float:
        """Regularisation that a plan uses if the problem has none: `default_l2`."""
        return default_l2(problem, d, budget)

    def asks_hessian(self, problem: Problem) -> bool:
        """Whether the Hessian is needed: the noise moves the minimiser by its inverse. For Softmax no law is known."""
        return problem.loss.traits.outputs == 1

    def noise_law(self, released: Released) -> Law | None:
        """Law of -H^-1 b: noise b in the objective moves the minimiser by that to first order. H is known up to noise.

        The eigenvalues of H are at least l2. Those that noise alone could explain, up to sigma sqrt(2 d) above l2, are
        replaced by l2; the noise in the others is averaged over.
        """
        hessian, noise, l2 = released.hessian, released.hessian_scale, released.problem.l2
        if hessian is None:
            return None
        size = len(hessian)
        values, vectors = np.linalg.eigh(hessian)
        known = vectors[:, values >= l2 + noise * math.sqrt(2.0 * size)]
        sure = known @ known.T
        matrix = sure @ hessian @ sure + l2 * (np.eye(size) - sure)

        def errors(matrix: np.ndarray) -> np.ndarray:
            return np.hypot(released.scales["objective"] * row_norms(raised(matrix, l2)[1]), released.scales["output"])

        found = errors(matrix)
        again = errors(matrix + sure @ symmetric_draws(released.seed, noise, size) @ sure)
        covers = "the minimiser of the same objective, its l2 term included, on the same rows without noise"
        return Law(covers, found, np.zeros_like(again), found / again)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        log_cosh, capped = Problem(LogCosh(0.5)), Problem(Logistic(cap=0.5))
        settings = (
            ("log-cosh", log_cosh, 1, 54),
            ("logistic", LOGISTIC, 3, 56),
            ("capped", capped, 1, 58),
            ("softmax", SOFTMAX, 1, 60),
        )
        return tuple(
            Attack(cls(), problem, d, name=f"ObjectivePerturbation, {words}", share=1 / 80, least=0.0, seed=seed)
            for words, problem, d, seed in settings
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        weak = Mutant("regularisation missing", change=_hardly_regularised)
        return *ANYWHERE, ROWS_TOO_LONG, NOT_CAPPED, weak, SHARED_BY_CLASSES

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(), Problem(LogCosh(0.5)), runs=2000), Victim(cls(), SOFTMAX, runs=2000)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        replaced = plan.budget.relation == "replace_one"
        if plan.problem.loss.traits.outputs > 1:
            return [_perturbed_pair(plan, mutant, kind) for kind in (("label", "mirror") if replaced else ("label",))]
        # Straight at its largest slope: curvature 0 keeps to every law.
        straight = linear_pair(plan, 0, mutant, plan.problem.slope().value)
        masked_rows = not replaced and not plan.problem.intercept  # a row of 0 stands for a masked record
        return [straight, *([_perturbed_pair(plan, mutant, "label")] if replaced or masked_rows else [])]


Prove = Callable[[Release, Release, float], Claim]
"""From the tilt, the output noise and the tolerance of the solver to the claim."""


class Calibrated(NamedTuple):
    """Noise that meets a budget, the tolerance that it was planned for, and the least that could be certified."""

    tilt: Release
    output: Release
    tolerance: float
    certifiable: float


def calibrated(
    problem: Problem,
    n: int,
    d: int,
    budget: Budget,
    prove: Prove,
    sigma: float,
    mu_out: float,
    precision: float | None = None,
    sums: Accumulation | None = None,
) -> Calibrated:
    """Noise and tolerance for the minimiser of a problem with l2, as little of both as the budget allows.

    Parameters
    ----------
    problem, n, d, budget
    prove : callable
        Returns the claim; parts of its profile that have a `sigma` depend on the scale of the tilt.
    sigma : float
        Scale of the tilt to start from: that of noise on one sum of gradients.
    mu_out : float
        What the output noise may cost.
    precision : float, optional
        As in `ObjectivePerturbation`.
    sums : Accumulation, optional
        How far the sums can be off, if not as those of the rows of the problem.
    """
    from dpconvex.sums.solver import farthest, least_tolerance

    shape, row = problem.weight_shape(d), problem.row_bound(d).value
    size, bend = math.prod(shape), n * problem.loss.curvature_bound() * row**2
    if precision is None:  # output noise moves a weight by 1% as far as the tilt does, at most
        allowed = mu_out * problem.l2 * 0.009 * sigma * size / (bend + size * problem.l2) / 2.0
        tolerance = max(allowed - 0.5 * grid_of(sigma, FINE) * math.sqrt(size), allowed / 2.0)
    else:
        tolerance = precision * sigma

    def noise(scale: float, grid: float, tolerance: float) -> tuple[Release, Release]:
        """The tilt, and the output noise for its grid and that tolerance."""
        blur = round_up(2.0 * (tolerance + 0.5 * grid * math.sqrt(size)) / (problem.l2 * mu_out))
        tilt = Release("objective", "gaussian", scale, shape, grid=grid)
        reach = min(farthest(problem, n, d, longest_tilt(tilt), sums), 2.0**50 * blur)
        return tilt, Release("output", "gaussian", blur, shape, grid=grid_of(blur, reach=reach))

    def fitted(tolerance: float) -> tuple[Release, Release, float]:
        """The noise for that tolerance, which is rounded up."""
        tolerance, scale = round_up(tolerance), sigma
        while True:
            grid = grid_of(scale, FINE)
            build = partial(_with_sigma, prove(*noise(scale, grid, tolerance), tolerance).profile)
            scale = calibrate_sigma(budget.epsilon, budget.delta, build, sigma)
            if scale <= LARGEST_RATIO * grid:  # else much larger than it was thought, and the grid too fine for it
                return *noise(scale, grid, tolerance), tolerance

    def least(tilt: Release) -> float:
        found = least_tolerance(problem, n, d, longest_tilt(tilt), sums)
        if not math.isfinite(found):
            raise HypothesisError(
                "float64 cannot certify a minimiser of so many records with so small an l2: increase l2"
            )
        return found

    tilt, output, tolerance = fitted(tolerance)
    # The minimiser must be certifiable for every tilt that can be drawn: noise must not make a run fail.
    while not tolerance >= (certifiable := least(tilt)):
        tilt, output, tolerance = fitted(1.01 * certifiable)
    return Calibrated(tilt, output, tolerance, certifiable)


def _with_sigma(profile: Any, sigma: float) -> Any:
    """The profile for another scale of the tilt, of whichever part has one."""
    if isinstance(profile, Composite):
        return Composite(tuple(_with_sigma(p, sigma) if hasattr(p, "sigma") else p for p in profile.parts))
    return replace(profile, sigma=sigma)


def shortened(tilt: np.ndarray, longest: float) -> np.ndarray:
    """The tilt, shortened where it is longer than any for which the certificate was planned.

    Examples
    --------
    >>> shortened(np.array([3.0, 4.0]), 1.0)
    array([0.6, 0.8])
    """
    length = float(np.linalg.norm(tilt))
    return tilt if length <= longest else tilt * (longest / length)


def _floor(slope: float, row: float, budget: Budget) -> float:
    """Scale of the noise with which one sum of gradients could be released."""
    return budget.moves * slope * row / budget.mu


def excess_loss(
    problem: Problem, n: int, d: int, tilt: float, blur: float, tolerance: float, beta: float | None = None
) -> float:
    """Bound F(w)/n - min F/n for F = sum_i loss + (l2/2)|w|^2 at the released w: its mean, or but for probability beta.

    See Proposition 13 of the proof note. Noise has scale `tilt` in the objective and `blur` in the output, and the
    minimiser is certified to `tolerance`.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> round(excess_loss(Problem(Logistic(), l2=2.0), n=1000, d=4, tilt=10.0, blur=0.0, tolerance=0.0), 9)
    0.1
    """
    size, row, loss = math.prod(problem.weight_shape(d)), problem.row_bound(d).value, problem.loss
    far = tail(beta, 2)
    length = math.sqrt(size) + far
    pushed = tilt * length + tolerance
    total = pushed**2 / (2.0 * problem.l2)
    reach, spread = problem.domain.reach(size), blur * length
    if math.isfinite(reach):  # the tilt hides no more than its width over the domain
        across = problem.domain.diameter(size)
        total = min(total, tilt * (problem.domain.gaussian_width(size) + across * far) + tolerance * across)
        total += (n * loss.slope_bound(math.inf) * row + problem.l2 * reach) * spread
    elif beta is not None:
        total += pushed * spread
    smoothness = n * loss.curvature_bound() * row**2 + problem.l2
    return (total + smoothness / 2.0 * spread**2) / n


def default_l2(problem: Problem, d: int, budget: Budget) -> float:
    """Regularisation, on the scale of the sum, at which its effect on the noise vanishes: a multiple of R^2/epsilon.

    The multiple depends on the loss. It is small where the curvature vanishes at the largest slopes (Logistic,
    LogCosh), and otherwise four times the largest curvature; for a capped logistic loss it is ten times the curvature
    left at the cap. It is doubled under replace_one, and slightly larger in high dimension. For several classes it is
    at least d (R / 18)^2, as if the weights of a class had length 18 / R.
    """
    loss, least = problem.loss, 0.0
    size, row = problem.weight_shape(d)[-1], problem.row_bound(d).value
    if loss.traits.outputs > 1:
        multiple = 2.5  # with K x d weights, regularisation costs more than the 5 to 20% of noise that it saves
        least = size * (row / LENGTH) ** 2  # ridge of Hoerl and Kennard: against fitting chance where noise is little
    elif loss.traits.probabilities:
        cap = loss.slope_bound(math.inf)
        multiple = max(0.85, 10.0 * cap * (1.0 - cap))
    elif any(loss.curvature_law()[1:]):  # type: ignore[union-attr]  # curvature that falls where the slope grows
        multiple = 1.5
    else:
        multiple = 4.0 * loss.curvature_bound()
    against_noise = multiple * budget.moves * row**2 / budget.epsilon * max(1.0, (size / 100.0) ** 0.25)
    return round_up(max(against_noise, least))


def _hardly_regularised(plan: Plan) -> Plan:
    return replace(plan, problem=replace(plan.problem, l2=0.02 * plan.problem.l2))


def _perturbed_pair(plan: Plan, mutant: Mutant, kind: str) -> Pair:
    """One record against its mirror image (or none), all other records 0: the minimiser then has an explicit density.

    With kind "label" the replaced record has another label, with "mirror" the opposite row.
    """
    problem = plan.problem
    several = problem.loss.traits.outputs > 1
    X, y = np.zeros((plan.n, plan.d)), np.zeros(plan.n) if several else np.ones(plan.n)
    used = group_size(plan) + mutant.twice
    X[:used] = axis(plan, 0)
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        changed[:used] = 0.0
    elif kind == "mirror":
        changed[:used] *= -1.0
    else:
        labels[:used] = 1.0 if several else -1.0
    sigma = plan.releases[0].scale
    plain_records = _distinct(plan, X, y, used)
    changed_records = _distinct(plan, changed, labels, used)

    def statistic(released: np.ndarray) -> np.ndarray:
        return log_density(problem, sigma, *changed_records, released) - log_density(
            problem, sigma, *plain_records, released
        )

    attacked = replace(mutant.plan(plan), problem=replace(mutant.plan(plan).problem, domain=Everywhere()))
    words = f"one record against its {kind if plan.budget.relation == 'replace_one' else 'absence'}"
    data = (dense(plan, X, mutant), y), (dense(plan, changed, mutant), labels)
    return Pair(attacked, *data, f"{words}, exact likelihood ratio", "any", statistic)


def _distinct(plan: Plan, X: np.ndarray, y: np.ndarray, used: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The attacked record and one of the others, as the loops receive them, and how often each is in the data."""
    bounded = X[[0, -1]] / LONG
    rows = np.column_stack([bounded, np.full(2, plan.problem.intercept)]) if plan.problem.intercept else bounded
    return rows, y[[0, -1]], np.array([float(used), float(plan.n - used)])


def log_density(
    problem: Problem, sigma: float, X: np.ndarray, y: np.ndarray, weight: np.ndarray, released: np.ndarray
) -> np.ndarray:
    """Log-density, up to a constant, of the minimiser of the objective tilted by N(0, sigma^2), at released points.

    The density is phi(|gradient| / sigma) times the determinant of the Hessian. By Sylvester's identity, a determinant
    of the size of the number of records (times classes) is enough.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.LogCosh(0.5), l2=1.0)
    >>> one, none = np.ones((1, 1)), np.zeros((1, 1))
    >>> at = np.array([[0.3]])
    >>> log_density(problem, 1.0, none, np.ones(1), np.ones(1), at).round(4)  # l2 w is standard normal
    array([-0.045])
    >>> bool(log_density(problem, 1.0, one, np.ones(1), np.ones(1), at) != -0.045)
    True
    """
    from dpconvex.sums.rowwise import curvatures, slopes

    count, records, size = len(released), len(X), X.shape[1]
    W = released.reshape(count, -1, size)
    Z = np.einsum("nkj,ij->nik", W, X).reshape(count * records, -1)
    labels = np.tile(y, count)
    if problem.loss.traits.outputs > 1:
        S = slopes(problem.loss, Z, labels)
        P = curvatures(problem.loss, Z, labels)
        root = np.sqrt(P)
        half = np.eye(P.shape[1]) * root[:, :, None] - P[:, :, None] * root[:, None, :]  # half half' = diag p - p p'
    else:
        flat = np.ascontiguousarray(Z[:, 0])
        S = slopes(problem.loss, flat, labels)[:, None]
        half = np.sqrt(curvatures(problem.loss, flat, labels))[:, None, None]
    K = S.shape[1]
    S, half = S.reshape(count, records, K), half.reshape(count, records, K, K)
    gradient = np.einsum("nik,i,ij->nkj", S, weight, X) + problem.l2 * W
    gram = (X @ X.T) * np.sqrt(np.outer(weight, weight)) / problem.l2
    inner = np.einsum("niab,njac,ij->nibjc", half, half, gram).reshape(count, records * K, records * K)
    _, determinant = np.linalg.slogdet(np.eye(records * K) + inner)
    return np.asarray(-0.5 * np.square(gradient / sigma).sum(axis=(1, 2)) + determinant)
