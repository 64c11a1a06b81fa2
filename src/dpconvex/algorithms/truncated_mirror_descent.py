"""TruncatedMirrorDescent: one pass of mirror descent over batches, for gradients with heavy tails.

The records are divided into disjoint batches. The gradient of every record is clipped in the dual norm l_q, so no
assumption on the data is needed. The noisy sum of a batch gives one mirror step on a ball (Algorithm 7). Every record
is in one batch, so all noisy sums together cost as much privacy as one. With `shuffle` the records are put into a
random order that stays secret (Algorithm 4), and the plan takes the better of two bounds.
Proof: docs/proofs/truncated_mirror_descent.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    NOT_CAPPED,
    ONE_RELATION,
    SIGNS,
    Attack,
    Mutant,
    Pair,
    Victim,
    clip_coordinates,
    mirrored_pair,
    noiseless,
)
from dpconvex.algorithms.base import BALLS, Algorithm, Needs
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.disjoint import (
    MOST_BATCHES,
    TYPICAL,
    UTILITY,
    check_range,
    default_reach,
    order_bits,
    parts,
    secret_order,
)
from dpconvex.algorithms.mirror_descent import (
    NOISES,
    Mirrored,
    MirrorPath,
    inner_radius,
    least_noise,
    noise_length,
)
from dpconvex.algorithms.options import check_constants, check_options, check_positive, printed
from dpconvex.algorithms.own_noise import check_noise, least_own_noise, length_of
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import SAMPLING, Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.geometry import MirrorMap, dual_exponent, mirror_map
from dpconvex.problem.problem import Problem
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.rounding import round_up
from dpconvex.theorems import disjoint_sums, post_process, shuffled_sums
from dpconvex.theorems.excess import MostExcess, check_beta, normal_length, truncated_excess
from dpconvex.theorems.numerics.shuffling import ShuffledSums
from dpconvex.theorems.shuffled_sums import order_blur

GROWTH = 4.0  # by default the last point counts e^4 times as much as the first


@dataclass(frozen=True)
class TruncatedMirrorDescent(Algorithm):
    """One pass of noisy mirror descent over disjoint batches, in l_p with 1 < p <= 2, for heavy tails.

    Parameters
    ----------
    p : float
        Norm of the weights, in (1, 2]. Values close to 1 suit problems in which few weights matter.
    shuffle : bool
        Take the records in a random order that stays secret, and rely on it where that helps: for a small epsilon, many
        records and few of them per batch.
    radius : float, optional
        Largest norm of the weights, in the norm of the mirror map. By default the radius of the largest such ball
        inside the domain; on an unbounded domain, 5 (for targets, twice the largest) over the largest entry of a row.
    truncation : float, optional
        Largest norm of one record's gradient, in l_q with 1/p + 1/q = 1; longer gradients are shortened to it. By
        default half the row bound in that norm, times the largest target. Where rows or targets have heavy tails,
        declare generous bounds for them and set this to a few times the length of a typical gradient.
    batches : int, optional
        Number of batches, with one step for each; by default the number that balances progress and noise, at most 2000.
    moment : float, optional
        With constants="paper", sigma: gradients have variance sigma^2 in l_q. By default 1, as the theorem assumes.
    noise : {"shorter", "gaussian", "generalised"} or RenyiLaw
        Law of the noise; "shorter" takes the one of the two that is shorter in l_q at this budget. Or a law of your
        own, a `dpconvex.noise.RenyiLaw`. With `shuffle`, only Gaussian noise is possible.
    constants : {"tight", "paper"}
        "paper" uses truncation, batches and steps of the theorem, for gradients of variance `moment`^2. It sets longer
        gradients to zero and, with `shuffle`, takes the noise of the published closed form; the stated guarantee is
        still the one proved here.

    References
    ----------
    Su, Zhao, Wang (2023), Algorithms 4 and 7.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(4000, 10))
    >>> y = X[:, 0] - 0.5 * X[:, 1] + rng.standard_t(2.1, size=4000)
    >>> problem = dc.Problem(dc.losses.Squared(target=1e6), feature_bound=dc.bounds.Linf(1.0))
    >>> algorithm = dc.algorithms.TruncatedMirrorDescent(radius=2.0, truncation=5.0)
    >>> plan = algorithm.plan(problem, n=4000, d=10, budget=dc.Budget(2.0, 1e-6))
    >>> solution = plan.run(X, y, dataset="heavy tails")
    >>> bool(solution.weights[0] > 0.4), bool(dc.verify(solution.receipt))
    (True, True)
    """

    needs = Needs(BALLS, records=True)
    suits = "losses of one prediction; heavy tails, few weights that matter; records in a secret order"
    reads = "1"
    takes = frozenset({"sample_weight"})
    vectors = 6.0
    parts = (RenyiLaw,)

    p: float = 1.3
    shuffle: bool = False
    radius: float | None = None
    truncation: float | None = None
    batches: int | None = None
    moment: float | None = None
    noise: str | RenyiLaw = "shorter"
    constants: str = "tight"

    def __post_init__(self) -> None:
        check_options(
            self, within={"p": (1.0, 2.0, "(]")}, flags=["shuffle"], positive=["radius", "moment"],
            clips=["truncation"], whole={"batches": None},
        )  # fmt: skip
        check_noise(self.noise, NOISES)
        check_constants(self, __name__)
        if self.moment is not None and self.constants != "paper":
            raise InputError(
                "moment is for constants='paper', which sets the truncation by it: give truncation instead"
            )
        if self.shuffle and self.noise not in ("shorter", "gaussian"):
            raise InputError(
                "shuffle=True needs noise='gaussian': it relies on noise that can be divided among the records, and "
                "no other can"
            )

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        if self.batches is not None and self.batches > n:
            raise InputError(f"batches must not exceed the number of records, got {self.batches} of {n}")
        recipe, claim = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        check_range(n, recipe.clip, claim.releases[-1])
        claim = post_process(claim, "mirror steps on a ball and averaging")
        return Plan(self, problem, n, d, budget, claim, (recipe,), n, UTILITY)

    def in_memory(self, problem: Problem) -> str | None:
        """Why a run needs all rows in memory: a secret order does."""
        return "with shuffle takes the records in a secret order" if self.shuffle else None

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Take one step along the noisy sum of each batch."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Truncated

        recipe, loss, sums = plan.schedule[0], plan.problem.loss, open_sums(rows, y)
        zero, clip = self.constants == "paper", recipe.clip * (1.0 - 1e-14)
        order = secret_order(port, "order", plan.n) if self.shuffle else None
        path = MirrorPath(plan)
        for part in parts(sums, recipe.steps, order):
            with np.errstate(over="ignore", invalid="ignore"):  # predictions may overflow: their slopes become 0
                total = part.sweep(Truncated(loss, path.point, clip, recipe.q, zero))
            path.move(port.add("gradients", total), part.n)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the iterates from the noisy sums alone, and average them."""
        path = MirrorPath(plan)
        sizes = even_batches(plan.n, plan.schedule[0].steps).values().astype(int)
        for gradient, size in zip(port.history("gradients"), sizes, strict=True):
            path.move(gradient, int(size))
        return path.average

    def most_excess(self, plan: Plan, beta: float | None = None, moment: float | None = None) -> MostExcess:
        """Bound the excess population loss above that of the best point of the ball: docs/proofs/excess.md."""
        check_beta(beta)
        problem, r, release = plan.problem, plan.schedule[0], plan.releases[-1]
        if problem.l2 or release.law != "gaussian":
            raise HypothesisError("a bound is proved for Gaussian noise and without l2: take noise='gaussian'")
        rows = not problem.loss.traits.records  # of the length of the gradient of another record nothing is known
        largest = problem.loss.slope_bound(math.inf) * problem.dual_row_bound(plan.d, r.q) if rows else math.inf
        if moment is not None:
            check_positive("moment", moment)
        least = largest if moment is None else min(moment, largest)
        if not math.isfinite(least):
            raise HypothesisError("gradients of this loss have no bound: give their root mean square as moment")
        size, phi = math.prod(release.shape), self._map(problem, plan.d)
        across = float(size) ** (1.0 / self.p - 1.0 / phi.s)
        noise = release.scale + (release.grid or 0.0)  # its rounding included
        value = truncated_excess(
            steps=r.steps, batch=plan.n // r.steps, rate=r.rate, growth=r.growth, clip=r.clip,
            zero=self.constants == "paper", moment=least, cuts=largest > r.clip, noise=noise,
            length=normal_length(size, self.p), kappa=phi.scale, radius=r.radius, diameter=2.0 * r.radius * across,
            beta=beta,
        )  # fmt: skip
        return MostExcess(value, beta, within=r.radius)

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Mirrored = plan.schedule[0]
        release, phi = plan.releases[-1], self._map(plan.problem, plan.d)
        cut = "set to 0 beyond" if self.constants == "paper" else "shortened to"
        lines = [
            f"batches     {r.steps} of {plan.n // r.steps} records or one more, each read once",
            f"descent     steps of {r.rate:.4g} on the mean loss, mirror map {phi.scale:.4g}/2 |w|^2 on the ball of "
            f"radius {r.radius:.4g} in l_{phi.s:.4g}",
            f"gradients   {cut} {r.clip:.4g} in l_{r.q:.4g}, {release.law} noise {release.scale:.4g} on their sum",
        ]
        return [*lines, "order       of the records random, and secret"] if self.shuffle else lines

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        shuffled = cls(p=1.2, batches=24, shuffle=True)
        return (
            Attack(cls(p=1.2, batches=4), SIGNS, d=2, seed=65),
            Attack(
                shuffled, SIGNS, epsilon=2.0, name="TruncatedMirrorDescent, shuffled", share=1 / 20, least=0.0,
                relations=ONE_RELATION, seed=67,
            ),
        )  # fmt: skip

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return (
            *ANYWHERE,
            Mutant("truncation missing", clip=1e9),
            Mutant("truncated in another norm", change=clip_coordinates),
            NOT_CAPPED,
            Mutant("records in the order given, promise about a secret one", sampling=np.inf),
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        # A secret order helps only with many records and a small epsilon.
        shuffled = cls(p=1.6, shuffle=True, batches=24)
        return Victim(cls(p=1.6, batches=3), SIGNS, d=2), Victim(shuffled, SIGNS, n=24, epsilon=0.3)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        pair = mirrored_pair(plan, mutant)
        secret = plan.releases[0].law == SAMPLING and mutant.sampling == 1.0
        return [_hidden_pair(pair) if secret else pair]

    # ---------------------------------------------------------------------------------------------------------------

    def _map(self, problem: Problem, d: int) -> MirrorMap:
        return mirror_map(self.p, math.prod(problem.weight_shape(d)))

    def radius_of(self, problem: Problem, d: int) -> float:
        """Radius of the ball, in the norm of the mirror map: the option `radius`, but at most that of the domain."""
        within = inner_radius(self.p, problem, d)
        return min(self.radius or (math.inf if math.isfinite(within) else default_reach(problem)), within)

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Mirrored, Claim]:
        """The number of batches that balances progress and noise, and the best step for that number.

        With gradients of length G, and noise of length A on the mean over all records, T batches end within
        radius sqrt(kappa (G^2 + (T A)^2) / T) of the least loss, which is best at T = G/A.
        """
        q, radius = dual_exponent(self.p), self.radius_of(problem, d)
        clip = float(self.truncation or 0.5 * problem.dual_row_bound(d, q) * problem.loss.traits.target)
        typical = TYPICAL * clip
        start = Mirrored(1, 1.0, 1.0, 1.0, clip, q, radius)
        alone = "gaussian" if self.shuffle else self.noise
        whole = self._length(self.together(problem, n, d, budget, start, alone).releases[-1], q) / n
        best = min(max(round(typical / whole), 1), n, MOST_BATCHES)
        steps = [self.batches or best]
        if self.shuffle and self.batches is None:  # a secret order helps most with few records per batch
            steps.append(min(n, MOST_BATCHES))
        scale = radius * math.sqrt(self._map(problem, d).scale)
        tried = []
        for count in dict.fromkeys(steps):
            part = replace(start, steps=count)
            if self.shuffle:
                size, bits = math.prod(problem.weight_shape(d)), order_bits(n, budget.delta)
                ratio = least_shuffled_ratio(n, math.ceil(n / count), bits, budget, size)
                claim = self.shuffled(problem, n, d, budget, part, ratio)
            else:
                claim = self.together(problem, n, d, budget, part, self.noise)
            length = math.hypot(typical, self._length(claim.releases[-1], q) * count / n)
            rate = scale / (length * math.sqrt(count))
            tried.append((length / math.sqrt(count), replace(part, rate=rate), claim))
        _, recipe, claim = min(tried, key=lambda one: one[0])
        return replace(recipe, growth=math.exp(GROWTH / recipe.steps)), claim

    def _length(self, release: Release, q: float) -> float:
        """Approximate l_q norm of one draw of the noise."""
        return length_of(self.noise, release, q) if isinstance(self.noise, RenyiLaw) else noise_length(release, q)

    def together(
        self, problem: Problem, n: int, d: int, budget: Budget, recipe: Mirrored, noise: str | RenyiLaw
    ) -> Claim:
        """Noise for one sum."""
        shape = problem.weight_shape(d)
        size = math.prod(shape)
        if isinstance(noise, RenyiLaw):
            unit = recipe.clip * math.sqrt(size)
            return least_own_noise(
                noise, shape, "gradients", recipe.steps, unit, budget, clip=recipe.clip, q=recipe.q, which="batches",
                n=n,
            )  # fmt: skip

        def claim(law: str, scale: float) -> Claim:
            release = Release("gradients", law, scale, shape, recipe.steps, grid_of(scale))
            cut = even_batches(n, recipe.steps)
            return disjoint_sums(recipe.clip, recipe.q, budget.relation, range(n), cut, release)

        return least_noise(noise, recipe.q, recipe.clip * math.sqrt(size), budget, claim)

    def shuffled(self, problem: Problem, n: int, d: int, budget: Budget, recipe: Mirrored, ratio: float) -> Claim:
        """Claim with noise of `ratio` times the longest gradient; a secret order can need less than a single sum."""
        shape, cut = problem.weight_shape(d), even_batches(n, recipe.steps)
        size = math.prod(shape)
        order = Release("order", SAMPLING, 0.5, (n,), order_bits(n, budget.delta))
        longest = recipe.clip * float(size) ** (0.5 - 1.0 / recipe.q)
        scale = round_up(ratio * longest * (1.0 + 1e-11))
        release = Release("gradients", "gaussian", scale, shape, recipe.steps, grid_of(scale))
        return shuffled_sums(recipe.clip, recipe.q, budget.relation, cut, order, release)


def least_shuffled_ratio(n: int, batch: int, bits: int, budget: Budget, size: int = 1) -> float:
    """Least noise on a sum that meets the budget in a secret order, in units of the truncation and to 4 digits.

    Examples
    --------
    >>> import dpconvex as dc
    >>> budget = dc.Budget(0.5, 1e-6)
    >>> [least_shuffled_ratio(10_000, b, 80, budget) for b in (1, 100)], round(budget.moves / budget.mu, 2)
    ([2.254, 16.12], 16.12)
    """
    alone = round_up(budget.moves / budget.mu * (1.0 + 1e-6), 4)

    def meets(ratio: float) -> bool:
        blur = order_blur(batch, math.ceil(n / batch) + 1, size, ratio)
        profile = ShuffledSums(budget.relation, n, batch, ratio, bits, blur)
        return profile.delta(budget.epsilon) <= budget.delta

    low, high = alone / 2.0, alone
    if not meets(0.98 * alone):
        return alone
    while meets(low):
        low, high = low / 2.0, low
    while high > low * (1.0 + 1e-3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return round_up(high, 4)


def _hidden_pair(pair: Pair) -> Pair:
    """The same pair in a secret order: a mixture over the batches that may hold the attacked record."""
    release = pair.plan.releases[-1]
    plain, changed = (noiseless(pair.plan, data).sum(axis=0) / release.scale for data in (pair.plain, pair.changed))

    def log_mixture(sums: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.asarray(np.logaddexp.reduce(sums @ mean - mean @ mean / 2.0, axis=1))

    def statistic(released: np.ndarray) -> np.ndarray:
        sums = released.reshape(len(released), release.times, -1) / release.scale
        return log_mixture(sums, changed) - log_mixture(sums, plain)

    return replace(pair, law="any", statistic=statistic, words=f"{pair.words}, in a secret order")
