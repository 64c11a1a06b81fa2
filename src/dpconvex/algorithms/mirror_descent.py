"""MirrorDescent: noisy regularised mirror descent in l_p, 1 < p <= 2 (Su, Zhao, Wang 2023, Algorithm 3).

The gradient of every record is clipped in the dual norm l_q before it is added to the sum, so the guarantee holds for
any loss. The noise on the sum is either generalised Gaussian with the exponent of the dual norm, or Gaussian for the
implied l2 norm; the plan takes the one that is shorter in l_q at the same budget. Everything after the noisy gradients
is computed from them alone. Proofs: docs/proofs/mirror_descent.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    NOT_CAPPED,
    NOT_CLIPPED,
    ONE_RELATION,
    SIGNS,
    Attack,
    Mutant,
    Pair,
    Victim,
    clip_coordinates,
    mirrored_pair,
)
from dpconvex.algorithms.base import BALLS, Algorithm, Needs
from dpconvex.algorithms.options import check_constants, check_options, printed
from dpconvex.algorithms.own_noise import check_noise, least_own_noise
from dpconvex.calibrate import gaussian_scale
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.kernel.profiles import concentrated_rho
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.geometry import MirrorMap, dual_exponent, kappa, lp_norms, mirror_map, smooth_exponent
from dpconvex.problem.problem import Problem
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.rounding import round_up
from dpconvex.theorems import clipped_sum, computed_sum, gaussian, generalised_gaussian, post_process
from dpconvex.theorems.generalised_gaussian import exponent_of, generalised_law

NOISES = ("shorter", "gaussian", "generalised")
SHRINK = 0.25  # default of alpha (steps + 1) / beta: how far a whole run shrinks the influence of its start
FEW = 400  # steps allowed for any n
LOUD = 2000  # steps of 1/beta that noise has to leave room for: else gradients are clipped at half their length
PER_ROOT = 8.0  # steps per sqrt(n): what T steps leave falls like 1/T, what chance leaves like 1/sqrt(n)
_BLOCK = 4096  # rows measured at a time


@dataclass(frozen=True)
class Mirrored:
    """The public recipe: y <- keep y - rate (gradient of the mean loss), w = the point whose mirror image is y.

    Later points count more in the average: the weight grows by the factor `growth` per step. Points with a norm above
    `radius`, in the norm of the mirror map, are shortened to it.
    """

    steps: int
    rate: float
    keep: float
    growth: float
    clip: float
    q: float
    radius: float = math.inf


@dataclass(frozen=True)
class MirrorDescent(Algorithm):
    """Noisy regularised mirror descent in l_p, for losses of one prediction, on all of space or on a ball.

    On a ball the points are kept within the largest ball of the mirror map's norm inside the domain.

    Parameters
    ----------
    p : float
        Norm of the weights, in (1, 2]. Values close to 1 suit problems with many bounded features of which few matter;
        2 is gradient descent.
    steps : int, optional
        Number of gradients; by default at least 100 and at most 400, or 8 sqrt(n) if that is more: as many steps of
        the largest stable size as the horizon has.
    clip : float, optional
        Largest norm of one record's gradient, in l_q with 1/p + 1/q = 1; by default the row bound in that norm, or half
        of it where noise leaves a short horizon only.
    horizon : float, optional
        Step size times number of steps, on the scale of the mean loss; by default as large as the noise allows.
    noise : {"shorter", "gaussian", "generalised"} or RenyiLaw
        Law of the noise; "shorter" takes the one of the two that is shorter in l_q at this budget. Or a law of your
        own, a `dpconvex.noise.RenyiLaw`.
    constants : {"tight", "paper"}
        "paper" uses the number of steps, step size and regularisation of the theorem, clips gradients only at their
        largest possible norm, and draws generalised Gaussian noise unless `noise` says otherwise. The scale of the
        noise is computed, not taken from the paper, whose constant of regularity is too small for large d.

    References
    ----------
    Su, Zhao, Wang (2023), Algorithm 3.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(2000, 20))
    >>> y = np.sign(X[:, 0] + 0.5 * X[:, 1])
    >>> problem = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Linf(1.0))
    >>> plan = dc.algorithms.MirrorDescent(p=1.3).plan(problem, n=2000, d=20, budget=dc.Budget(4.0, 1e-5))
    >>> solution = plan.run(X, y, dataset="signs")
    >>> solution.weights.shape, bool(dc.verify(solution.receipt))
    ((20,), True)
    """

    needs = Needs(BALLS, kinks=False, records=True)
    suits = "smooth losses of one prediction; few weights that matter among many bounded features"
    reads = "100 or more"
    takes = frozenset({"sample_weight"})
    vectors = 4.0
    parts = (RenyiLaw,)

    p: float = 1.3
    steps: int | None = None
    clip: float | None = None
    horizon: float | None = None
    noise: str | RenyiLaw = "shorter"
    constants: str = "tight"

    def __post_init__(self) -> None:
        check_options(
            self, within={"p": (1.0, 2.0, "(]")}, whole={"steps": 100_000}, clips=["clip"], positive=["horizon"],
        )  # fmt: skip
        check_noise(self.noise, NOISES)
        check_constants(self, __name__)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        recipe, noise = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        recipe = replace(recipe, radius=inner_radius(self.p, problem, d))
        claim = post_process(self._claim(problem, n, d, budget, recipe, noise), "mirror steps and averaging")
        utility = "not bounded beforehand: clipping changes the loss; try the plan on made-up data"
        return Plan(self, problem, n, d, budget, claim, (recipe,), n * recipe.steps, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Descend along noisy gradients."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Clipped

        loss, recipe, sums = plan.problem.loss, plan.schedule[0], open_sums(rows, y)
        path, clip = MirrorPath(plan), recipe.clip * (1.0 - 1e-14)
        for _ in range(recipe.steps):
            path.move(port.add("gradients", sums.sweep(Clipped(loss, path.point, clip, recipe.q))))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the iterates from the noisy gradients alone, and average them."""
        path = MirrorPath(plan)
        for gradient in port.history("gradients"):
            path.move(gradient)
        return path.average

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Mirrored = plan.schedule[0]
        release, phi = plan.releases[0], _map(plan)
        ball = f" on the ball of radius {r.radius:.4g}" if math.isfinite(r.radius) else ""
        return [
            f"descent     {r.steps} steps of {r.rate:.4g} on the mean loss, mirror map {phi.scale:.4g}/2 |w|^2 "
            f"in l_{phi.s:.4g}{ball}, {r.keep:.4g} of the past kept a step",
            f"gradients   clipped to {r.clip:.4g} in l_{r.q:.4g}, {release.law} noise {release.scale:.4g} on their sum",
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        generalised = cls(p=1.2, steps=2, noise="generalised")
        return (
            Attack(cls(p=1.2, steps=2), SIGNS, d=2, seed=62),
            Attack(
                generalised, SIGNS, d=9, name="MirrorDescent, generalised", share=1 / 40, least=0.0,
                relations=ONE_RELATION, seed=64,
            ),
        )  # fmt: skip

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return (
            *ANYWHERE,
            NOT_CLIPPED,
            Mutant("clipped in another norm", change=clip_coordinates),
            NOT_CAPPED,
            Mutant("generalised noise halved", noise=0.5, shaped=True),
            Mutant("noise of another exponent", shaped=True, shape=2.0),
            Mutant("noise for the printed constant of regularity", shaped=True, noise=_printed_factor),
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (
            Victim(cls(p=1.6, steps=3), SIGNS, d=2),
            Victim(cls(p=1.02, steps=1, noise="generalised"), SIGNS, d=49),
        )

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        return [mirrored_pair(plan, mutant)]

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Mirrored, str | RenyiLaw]:
        """Recipe, and the law of the noise."""
        q, row, kappa, beta = geometry(problem, n, d, self.p)
        room = n * budget.mu * kappa / (budget.moves * row)  # horizon times clip
        long = row * (problem.loss.traits.target if problem.loss.traits.records else 1.0)
        clip = self.clip or (long if room / row * beta >= LOUD else 0.5 * long)
        horizon = self.horizon or room / clip
        most = max(FEW, math.ceil(PER_ROOT * math.sqrt(n)))
        steps = self.steps or min(max(math.ceil(horizon * beta), 100), most)
        rate = min(horizon / steps, 1.0 / beta if beta else math.inf)
        return mirrored(steps, rate, SHRINK / (steps + 1.0), clip, q), self.noise

    def _claim(
        self, problem: Problem, n: int, d: int, budget: Budget, recipe: Mirrored, noise: str | RenyiLaw
    ) -> Claim:
        shape = problem.weight_shape(d)
        size = math.prod(shape)
        unit = recipe.clip * math.sqrt(recipe.steps * size)
        if isinstance(noise, RenyiLaw):
            return least_own_noise(
                noise, shape, "gradients", recipe.steps, unit, budget, clip=recipe.clip, q=recipe.q, which="sums", n=n
            )

        def claim(law: str, scale: float) -> Claim:
            release = Release("gradients", law, scale, shape, recipe.steps, grid_of(scale))
            if law != "gaussian":
                return generalised_gaussian(recipe.clip, recipe.q, budget.relation, release, n=n)
            longest = recipe.clip * float(size) ** (0.5 - 1.0 / recipe.q) * (1.0 + 1e-14)  # l2 norm of l_q norm `clip`
            return gaussian(computed_sum(clipped_sum(round_up(longest), budget.relation), n, size), release)

        return least_noise(noise, recipe.q, unit, budget, claim)


def geometry(problem: Problem, n: int, d: int, p: float) -> tuple[float, float, float, float]:
    """Dual exponent, longest row in its norm, scale of the mirror map, and curvature of one record's loss."""
    q, size = dual_exponent(p), math.prod(problem.weight_shape(d))
    row = problem.dual_row_bound(d, q)
    problem.smoothness(n, d)  # refuses losses with a kink, for which there is no step size
    return q, row, mirror_map(p, size).scale, problem.loss.curvature_bound() * row**2 + problem.l2 / n


def inner_radius(p: float, problem: Problem, d: int) -> float:
    """Radius of the largest ball inside the domain, in the norm of the mirror map; infinite on all of space."""
    domain, size = problem.domain.traits, math.prod(problem.weight_shape(d))
    if domain.norm is None:
        return math.inf
    if domain.bounded and problem.start is not None:
        raise HypothesisError("steps stay on a ball around the start: leave out start, or use Everywhere")
    return domain.radius * float(size) ** -max(0.0, 1.0 / domain.norm - 1.0 / mirror_map(p, size).s)


def least_noise(noise: str, q: float, unit: float, budget: Budget, claim: Callable[[str, float], Claim]) -> Claim:
    """Claim for the requested law of noise, or for the one shorter in l_q, at the least scale that meets the budget.

    `claim` maps a law and a scale to a claim about one release. Its mu, or the square root of its rho, is inversely
    proportional to the scale, and about 1 at the scale `unit`.
    """
    size = math.prod(claim("gaussian", unit).releases[0].shape)
    law = generalised_law(smooth_exponent(q, size))

    def plain() -> Claim:
        mu = claim("gaussian", unit).profile.mu  # type: ignore[union-attr]
        return claim("gaussian", gaussian_scale(unit * mu, budget.mu))

    def shaped() -> Claim:
        rho = concentrated_rho(budget.epsilon, budget.delta)
        one = claim(law, unit).profile.rho  # type: ignore[union-attr]
        return claim(law, round_up(unit * math.sqrt(one / rho) * (1.0 + 1e-11)))

    if noise == "gaussian" or smooth_exponent(q, size) == 2.0:
        return plain()
    if noise == "generalised":
        return shaped()
    try:
        both = plain(), shaped()
    except InputError:  # delta is too small for numerical curves to distinguish from 0
        return plain()
    return min(both, key=lambda made: noise_length(made.releases[0], q))


def mirrored(steps: int, rate: float, shrink: float, clip: float, q: float) -> Mirrored:
    """Steps that minimise <g, w> + beta D(w, w_t) + alpha Phi(w), with beta = 1/rate and alpha = shrink beta."""
    return Mirrored(steps, rate / (1.0 + shrink), 1.0 / (1.0 + shrink), 1.0 + shrink / 2.0, clip, q)


def _map(plan: Plan) -> MirrorMap:
    return mirror_map(plan.algorithm.p, math.prod(plan.problem.weight_shape(plan.d)))  # type: ignore[attr-defined]


class MirrorPath:
    """The iterates that follow from noisy gradients, and their average."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._recipe, self._map = plan, plan.schedule[0], _map(plan)
        self.point = self._start = plan.problem.begin(plan.d)
        self.average = np.zeros_like(self.point)
        self._image = np.zeros_like(self.point)
        self._weight = 0.0

    def move(self, gradient: np.ndarray, count: int | None = None) -> None:
        """Take one step along the sum of the gradients of `count` records, or of all.

        On a ball around the start in the norm of the mirror map, the minimiser of <g, w> + D(w, w_t)/rate is the
        unconstrained minimiser, shortened to the radius, because the gradient of the map is proportional to the point.
        """
        plan, r = self._plan, self._recipe
        mean = gradient / (count or plan.n) + plan.problem.l2 / plan.n * self.point
        self._image = r.keep * self._image - r.rate * mean
        away = self._map.inverse(self._image.reshape(-1)).reshape(self._image.shape)
        if (length := float(lp_norms(away.reshape(-1), self._map.s))) > r.radius:
            away, self._image = away * (r.radius / length), self._image * (r.radius / length)
        self.point = self._start + away
        self._weight = self._weight / r.growth + 1.0  # total weight so far, in units of that of the last point
        self.average = self.average + (self.point - self.average) / self._weight


def noise_length(release: Release, q: float) -> float:
    """Approximate l_q norm of one draw of the noise: the t-th root of the mean t-th power of its l_t norm.

    t is q, or 2 ln d if that is less: l_t and l_q are then within a factor of sqrt(e).

    Examples
    --------
    >>> round(noise_length(Release("z", "gaussian", 2.0, (25,)), 2.0), 6)
    10.0
    """
    d, r = math.prod(release.shape), exponent_of(release.law) or 2.0
    t = min(q, max(2.0, 2.0 * math.log(d)))
    # z = R g/|g|_r with |g_i|^r of gamma law 1/r, |g|_r^r of gamma law d/r and R^2/2 of gamma law d/2
    log = math.log(d) + gammaln((t + 1.0) / r) - gammaln(1.0 / r) - gammaln((d + t) / r) + gammaln(d / r)
    log += t / 2.0 * math.log(2.0) + gammaln((d + t) / 2.0) - gammaln(d / 2.0)
    return release.scale * math.exp(log / t)


def _printed_factor(plan: Plan) -> float:
    """Noise for the printed constant of regularity, min(1/(p - 1), ln d), over that of the claim: it is too small."""
    p, (d,) = plan.algorithm.p, plan.releases[-1].shape  # type: ignore[attr-defined]
    return math.sqrt(min(1.0 / (p - 1.0), math.log(d)) / kappa(dual_exponent(p), d))
