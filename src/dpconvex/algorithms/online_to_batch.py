"""OnlineToBatch: an online learner, fed with noisy running sums of gradient differences (ZTC22 Algorithm 1).

Records are read once, in rounds of a few records. A learner plays w_t; the point x_t is the average of its plays with
weights beta_t = t^k. It moves less and less, so the difference beta_t grad(x_t) - beta_{t-1} grad(x_{t-1}) for one
record is far shorter than the gradients themselves. Running sums of such differences estimate beta_t grad F(x_t), and
with correlated noise all of them together cost no more privacy than one. ZTC22 is Zhang, Tran and Cutkosky (2022).
Proof: docs/proofs/online_to_batch.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    NOT_CLIPPED,
    ONE_RELATION,
    OWN_NOISE,
    SHARED_BY_CLASSES,
    TWO_CLASSES,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
)
from dpconvex.algorithms.base import ROWWISE_OR_L1, Algorithm, Needs
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.options import check_constants, check_options, printed
from dpconvex.algorithms.own_noise import Tree, check_noise, least_own_noise
from dpconvex.calibrate import gaussian_scale
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games import learners
from dpconvex.games.own import OwnLearner
from dpconvex.games.player import Learner
from dpconvex.games.steps import Step
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.noise.prefix_sum import PrefixSum
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem import domains
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.facts import Fact
from dpconvex.problem.losses import Linear, Loss, Softmax
from dpconvex.problem.problem import Problem
from dpconvex.problem.renyi_law import OWN_LAW, RenyiLaw
from dpconvex.theorems import clipped_sum, computed_rounds, correlated_noise, post_process
from dpconvex.theorems.schedules import Listed

_NAMES = (
    "SubgradientDescent", "OnlineMirrorDescent", "FTRL", "DiagonalFTRL", "OptimisticDescent", "StronglyConvexDescent",
    "ParameterFree",
)  # fmt: skip
LEARNERS: dict[str, Any] = {name: getattr(learners, name) for name in _NAMES}
_DOMAINS = (domains.Everywhere, domains.L2Ball, domains.Box, domains.L1Ball)
PARTS = (
    *LEARNERS.values(), *_DOMAINS, *get_args(Step), learners.PNorm, learners.Entropy, OwnLearner,
    RenyiLaw,
)  # fmt: skip
STEPLESS = ("DiagonalFTRL", "StronglyConvexDescent", "ParameterFree")
NOISE = ("blt", "tree", "honaker")
_FAR = 0.1  # how far noise alone may move the learner, as a fraction of the distance to the solution
_WEALTH = 0.3  # of ParameterFree, as a fraction of the regret of descent with the best step
Terms = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Conversion:
    """The public recipe: the learner, the number of records per round, and the largest length of their differences.

    In round t the difference of each record is clipped to `clip` times `cap`, and the noise scales with the cap. The
    learner's loss is regularised by xi_t |w - x_1| + nu_t |w - x_1|^2 at its play w: ZTC22 Theorem 11. `xi` and `nu`
    are sums of terms (a, p), a t^p.
    """

    learner: Learner | OwnLearner
    batches: Listed
    power: float
    clip: float
    lipschitz: float
    smoothness: float
    printed: bool
    xi: Terms = ()
    nu: Terms = ()

    def pull(self, t: int, off: np.ndarray) -> np.ndarray:
        """Gradient of the regulariser in round t, at a play that is `off` from x_1; 0 at x_1 itself."""
        length = float(np.linalg.norm(off))
        if not self.xi or length == 0.0:
            return np.zeros_like(off)
        xi, nu = (sum(a * float(t) ** p for a, p in terms) for terms in (self.xi, self.nu))
        return np.asarray((xi / length + 2.0 * nu) * off)

    def cap(self, t: int, moved: float, farthest: float) -> float:
        """Bound on the length of differences in round t, for a loss with the stated slope and smoothness.

        The distance of x_t from x_{t-1} is `moved`, and no play so far was further than `farthest` from the point
        before it.
        """
        if self.printed:
            from dpconvex.algorithms.as_printed.online_to_batch import cap

            return cap(self, t, farthest)
        now, before = t**self.power, (t - 1.0) ** self.power
        near = (now - before) * self.lipschitz + before * self.smoothness * moved
        return min(near, (now + before) * self.lipschitz)


@dataclass(frozen=True)
class OnlineToBatch(Algorithm):
    """Private stochastic optimisation by an online learner that sees noisy running sums of gradient differences.

    Parameters
    ----------
    learner : str, class or object
        One of `dpconvex.games.learners` or its name, whose options are then set from the problem and `step`, or an
        instance with options of yours. Or a learner of your own: any object with a method `player(d)` (`player(d,
        start)` where the problem has a start) that enters a game; the player it returns has `play()` and
        `observe(gradient)`. It plays on the domain of the problem: plays elsewhere are projected.
    rounds : int, optional
        Number of rounds, at most n; by default 100, or n if that is less.
    power : float, optional
        k in the weights beta_t = t^k, from 0.1 to 8; by default 1 (3 for `ParameterFree` with constants="paper").
    noise : {"blt", "tree", "honaker"} or RenyiLaw
        How the noise of the rounds is correlated: see `dpconvex.noise.PrefixSum`. Or a law of your own, a
        `dpconvex.noise.RenyiLaw`, on the nodes of a binary tree.
    clip : float, optional
        Length to which the gradient difference of each record is clipped, as a fraction of the largest length that the
        slope and the smoothness of the loss allow; by default 0.5.
    step : float, optional
        Step of the learner, if it takes one; by default computed from public facts.
    constants : {"tight", "paper"}
        "paper" uses rounds of one record, the printed sizes of the noise on a tree and the steps of the theorems; the
        stated guarantee is still the one proved here.

    References
    ----------
    ZTC22: Zhang, Tran, Cutkosky (2022), "Differentially private online-to-batch for smooth losses", Algorithm 1.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.OnlineToBatch().plan(problem, n=2000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> bool(np.mean(np.sign(X @ solution.weights) == y) > 0.9), solution.iterates["sums"].shape
    (True, (100, 3))
    """

    needs = Needs(ROWWISE_OR_L1, classes=True, records=True)
    suits = "all losses; any online learner, running sums under correlated noise, every point released"
    reads = "2"
    takes = frozenset({"sample_weight"})
    parts = PARTS

    learner: str | type | Learner | OwnLearner = "SubgradientDescent"
    rounds: int | None = None
    power: float | None = None
    noise: str | RenyiLaw = "blt"
    clip: float | None = None
    step: float | None = None
    constants: str = "tight"

    def __post_init__(self) -> None:
        if isinstance(self.learner, type) and LEARNERS.get(self.learner.__name__) is self.learner:
            object.__setattr__(self, "learner", self.learner.__name__)
        if self.learner is None or (isinstance(self.learner, str) and self.learner not in LEARNERS):
            raise InputError(
                f"learner must be one of {', '.join(LEARNERS)}, or a learner of your own: an object with a method "
                f"player(d), got {self.learner!r}"
            )
        if not isinstance(self.learner, (str, OwnLearner)) and type(self.learner) not in LEARNERS.values():
            object.__setattr__(self, "learner", OwnLearner(self.learner))
        check_options(
            self, whole={"rounds": 10**6}, positive=["step"],
            within={"power": (0.1, 8.0, "[]"), "clip": (1e-3, 1.0, "[]")},
        )  # fmt: skip
        check_noise(self.noise, NOISE)
        if self.step is not None and (self.learner in STEPLESS or not isinstance(self.learner, str)):
            raise InputError(f"{self.named} takes no step: leave it unset")
        if self.noise == "tree" and self.power is not None and self.power < 1.0:
            raise InputError(f"power must be at least 1 with noise='tree', got {self.power!r}; or use noise='blt'")
        check_constants(self, __name__)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix learner, rounds and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        if self.named == "StronglyConvexDescent" and not problem.l2:
            raise HypothesisError(
                "StronglyConvexDescent needs strong convexity: set l2 above 0, or use another learner"
            )
        if self.rounds is not None and self.rounds > n:
            raise InputError(f"rounds must not exceed the number of records, got {self.rounds} of {n}")
        recipe, scale, utility = (printed(self, __name__) or self._tight)(problem, n, d, budget)
        claim = self._claim(problem, n, d, budget, recipe, scale)
        return Plan(
            self, problem, n, d, budget, claim, (recipe,),
            gradient_evaluations=2 * n, utility=utility,
        )  # fmt: skip

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Play round after round; records are used only in the running sums."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Difference

        recipe: Conversion = plan.schedule[0]
        loss, game, sums = plan.problem.loss, _Game(plan), open_sums(rows, y)
        shape, own = plan.problem.weight_shape(plan.d), self._tree()
        ends = np.cumsum(recipe.batches.values()).astype(np.int64).tolist()
        for start, stop in pairwise([0, *ends]):
            game.play()
            now, before = game.point.reshape(shape), game.before.reshape(shape)
            r = Difference(loss, now, before, game.beta, game.previous, recipe.clip * game.cap)
            increment, scale = sums.view(start, stop).sweep(r) / (stop - start), game.cap / (stop - start)
            if own is None:
                game.observe(port.accumulate("sums", increment[None], [scale])[0])
            else:
                game.observe(own.leave(port.add("nodes", own.enter(increment, scale))))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Replay the game from the noisy sums alone, and return the point after the last of them."""
        game, own = _Game(plan), self._tree()
        released = port.history("sums" if own is None else "nodes")
        for noisy, size in zip(released, plan.schedule[0].batches.values(), strict=True):
            game.play()
            if own is not None:
                own.enter(0.0, game.cap / int(size))
            game.observe(noisy if own is None else own.leave(noisy))
        game.play()
        return plan.problem.domain.project(game.point).reshape(plan.problem.weight_shape(plan.d))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Conversion = plan.schedule[0]
        sizes = r.batches.values()
        size = f"{sizes.min():g}" if sizes.min() == sizes.max() else f"{sizes.min():g} to {sizes.max():g}"
        step = getattr(r.learner, "step", None)
        eta = getattr(r.learner, "eta", None) if step is None else step.eta
        law = plan.releases[0].law.removeprefix("prefix sums by ")
        noise = f"{plan.releases[0].scale:.4g} times that bound on their sums, correlated by {law}"
        if isinstance(self.noise, RenyiLaw):
            noise = f"{self.noise.name}, {plan.releases[0].scale:.4g} times that bound on the nodes of a tree of sums"
        pulls = ["regular     xi |w - x_1|, xi growing as the noise on the sums"] if r.xi else []
        return [
            f"learner     {self.named}"
            + (", of your own" if isinstance(self.learner, OwnLearner) else "" if eta is None else f", step {eta:.4g}"),
            f"rounds      {len(sizes)} of {size} records, weights t^{r.power:g}",
            f"gradients   differences per record clipped to {r.clip:g} of their bound, "
            f"at first {r.cap(1, 0.0, 0.0):.4g}",
            f"noise       {noise}",
            *pulls,
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        tree, shrinking = cls(rounds=3, noise="tree"), cls(rounds=3, power=0.5)
        return (
            Attack(cls(rounds=3), LOGISTIC, share=1 / 16, seed=28),
            Attack(
                tree, LOGISTIC, name="OnlineToBatch, tree", share=1 / 64, least=0.93, relations=ONE_RELATION, seed=30,
            ),
            Attack(
                shrinking, LOGISTIC, name="OnlineToBatch, shrinking scales", share=1 / 64, least=0.93,
                relations=ONE_RELATION, seed=31,
            ),
            Attack(
                cls(rounds=3), TWO_CLASSES, name="OnlineToBatch, softmax", share=1 / 64, least=0.9,
                relations=ONE_RELATION, seed=81,
            ),
            Attack(
                cls(rounds=2, noise=OWN_NOISE), LOGISTIC, name="OnlineToBatch, noise of one's own", share=1 / 160,
                least=0.0, relations=ONE_RELATION, seed=87,
            ),
        )  # fmt: skip

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return (
            *ANYWHERE,
            NOT_CLIPPED,
            NOT_CAPPED,
            SHARED_BY_CLASSES,
            Mutant("last scale on the noise of all rounds", whole=True),
            Mutant("noise for one node of a tree", noise=_one_node),
        )

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (
            Victim(cls(rounds=2), LOGISTIC, runs=1000),
            Victim(cls(rounds=2, power=0.5), LOGISTIC, runs=1000),
            Victim(cls(rounds=2), TWO_CLASSES, runs=400),
            Victim(cls(rounds=4, noise=OWN_NOISE), LOGISTIC, runs=4000),
        )

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        own = plan.releases[-1].law.startswith(OWN_LAW)  # whose density nobody knows: no likelihood of a transcript
        return [_rounds_pair(plan, mutant, resting) for resting in ((True,) if own else (True, False))]

    # ---------------------------------------------------------------------------------------------------------------

    def _tight(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[Conversion, float, str]:
        rounds = self.rounds or min(100, n)
        power = float(self.power or 1.0)
        clip = float(self.clip or 0.5)
        batches = even_batches(n, rounds)
        if isinstance(self.noise, RenyiLaw):
            scale = self._own_claim(self.noise, problem, n, d, budget, batches, clip).releases[0].scale
            spread = math.sqrt(self.noise.second_moment / self.noise.size * rounds.bit_length())
        else:
            scale = gaussian_scale(_moved(problem, batches, clip, d, budget).value, budget.mu)
            spread = PrefixSum(self.noise, rounds).rms_error()
        lipschitz, smoothness = _caps(problem, d)
        size = math.prod(problem.weight_shape(d))
        grown = power * rounds ** (power - 1.0)  # growth of the differences from the first round to the last
        sigma = scale * grown * lipschitz * rounds / n * spread
        row = problem.row_bound(d).value
        far = min(problem.farthest(d), 5.0 / row)
        step = self.step or _FAR * far / (sigma * math.sqrt(rounds * size))
        if self.step is None and smoothness:
            step = min(step, 1.0 / ((power + 1.0) * rounds ** (power - 1.0) * smoothness))
        steep = rounds**power * lipschitz + sigma * math.sqrt(size)
        learner = self.made(problem, d, rounds, step, far, steep)
        # What the noise adds to the loss of a play is its length times that of the play, about.
        noise = math.sqrt(size) * sigma / rounds ** (power - 1.0)
        xi = ((noise, power - 1.0),) if self.named == "ParameterFree" else ()
        recipe = Conversion(learner, batches, power, clip, lipschitz, smoothness, printed=False, xi=xi)
        return recipe, scale, "no bound is proved: differences are clipped, and steps a rule of thumb"

    @property
    def named(self) -> str:
        """Name of the learner."""
        return (
            self.learner
            if isinstance(self.learner, str)
            else getattr(self.learner, "name", type(self.learner).__name__)
        )

    def made(
        self, problem: Problem, d: int, rounds: int, step: float, far: float, steep: float
    ) -> Learner | OwnLearner:
        """The learner on the domain of the problem; `far` and `steep` as for `learner_named`."""
        size = math.prod(problem.weight_shape(d))
        if isinstance(self.learner, OwnLearner):
            return self.learner.on(
                problem.domain, size, None if problem.start is None else problem.begin(d).reshape(-1)
            )
        if isinstance(self.learner, Learner):
            if self.learner.domain != problem.domain:
                raise InputError(f"the learner plays on {self.learner.domain}, the problem is on {problem.domain}")
            return self.learner
        return learner_named(str(self.learner), problem.domain, size, rounds, step, far, steep)

    def _claim(self, problem: Problem, n: int, d: int, budget: Budget, recipe: Conversion, scale: float) -> Claim:
        """Claim of sums in which a record moves one round only, by `clip` times the scale of that round."""
        if isinstance(self.noise, RenyiLaw):
            claim = self._own_claim(self.noise, problem, n, d, budget, recipe.batches, recipe.clip)
            return post_process(claim, "running sums, plays of the learner and their averages")
        backend, rounds = "tree" if recipe.printed else self.noise, recipe.batches.length
        moved, grid = _moved(problem, recipe.batches, recipe.clip, d, budget), grid_of(scale, reach=2.0 * n)
        law, shape = f"prefix sums by {backend}", problem.weight_shape(d)
        claim = correlated_noise(moved, Release("sums", law, scale, shape, times=rounds, grid=grid))
        return post_process(claim, "plays of the learner and their averages")

    def _own_claim(
        self, law: RenyiLaw, problem: Problem, n: int, d: int, budget: Budget, batches: Listed, clip: float
    ) -> Claim:
        """Claim of noise of the user's own on the nodes of a tree (ZTC22 Theorem 3)."""
        rounds, shape = batches.length, problem.weight_shape(d)
        unit = clip * math.sqrt(rounds.bit_length() * math.prod(shape))
        return least_own_noise(
            law, shape, "nodes", rounds, unit, budget, clip=clip, q=2.0, which="tree", n=n,
            batch=int(batches.values().max()),
        )  # fmt: skip

    def _tree(self) -> Tree | None:
        """Running sums under noise of the user's own; None under any other."""
        return Tree() if isinstance(self.noise, RenyiLaw) else None


class _Game:
    """The state computed from the noisy sums: the plays of the learner, and the points that average them."""

    def __init__(self, plan: Plan) -> None:
        self._recipe: Conversion = plan.schedule[0]
        self._ridge = plan.problem.l2 / plan.n
        self._shape = plan.problem.weight_shape(plan.d)
        size = math.prod(self._shape)
        start = None if plan.problem.start is None else plan.problem.begin(plan.d).reshape(-1)
        self._player = self._recipe.learner.player(size, start)
        self._off = self._first = np.zeros(size)  # where the play lies, from the first one
        self._round, self._total, self._farthest = 0, 0.0, 0.0
        self.beta = self.previous = self.cap = 0.0
        self.point = self.before = np.zeros(size)

    def play(self) -> None:
        """Begin a round: the weights of this round and of the one before it, their points, and the cap."""
        self._round += 1
        self.previous, self.beta = self.beta, float(self._round) ** self._recipe.power
        self._total += self.beta
        play = self._player.play()
        self._first = play.copy() if self._round == 1 else self._first
        self._off = play - self._first
        away = play - self.point if self._round > 1 else np.zeros_like(play)
        self.before = self.point if self._round > 1 else play
        self.point = self.before + self.beta / self._total * away
        length = float(np.linalg.norm(away))
        self._farthest = max(self._farthest, length)
        self.cap = self._recipe.cap(self._round, self.beta / self._total * length, self._farthest)

    def observe(self, noisy: np.ndarray) -> None:
        """End a round: the learner receives the noisy sum and the gradient of the data-free quadratic term."""
        gradient = noisy.reshape(-1) + self.beta * self._ridge * self.point + self._recipe.pull(self._round, self._off)
        if isinstance(self._recipe.learner, learners.StronglyConvexDescent):
            self._player.observe(_Bowl(gradient, self.beta * self._ridge / 2.0, self.point))
        else:
            self._player.observe(gradient)


@dataclass(frozen=True)
class _Bowl:
    """<slope, w> + (strong_convexity/2) |w - centre|^2: ZTC22 Lemma 7."""

    slope: np.ndarray
    strong_convexity: float
    centre: np.ndarray

    def gradient(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.slope + self.strong_convexity * (w - self.centre))


def _moved(problem: Problem, batches: Listed, clip: float, d: int, budget: Budget) -> Fact:
    """How far a record moves the increment of its round, in units of the scale."""
    largest, size = int(batches.values().max()), math.prod(problem.weight_shape(d))
    return computed_rounds(clipped_sum(clip, budget.relation), batches.length, largest, size)


def _caps(problem: Problem, d: int) -> tuple[float, float]:
    """Bounds on the gradient and the curvature of a record; stand-ins if the loss has no such bound.

    Differences are clipped, so privacy does not depend on either bound.
    """
    row = problem.row_bound(d).value
    try:
        lipschitz = problem.lipschitz(d).value
    except HypothesisError:
        lipschitz = row
    curvature = lipschitz / row if problem.loss.traits.kinked else problem.loss.curvature_bound()
    return lipschitz, curvature * row**2


def learner_named(name: str, domain: Domain, size: int, rounds: int, step: float, far: float, steep: float) -> Learner:
    """Learner of that name on the domain; `far` guesses the distance to the solution, `steep` the longest gradient."""
    arguments = {
        "OnlineMirrorDescent": (step,),
        "DiagonalFTRL": (far / (3.0 * math.sqrt(size)),),
        "StronglyConvexDescent": (),
        "ParameterFree": (steep, _WEALTH * steep * far * math.sqrt(rounds)),
    }
    made: Learner = LEARNERS[name](domain, *arguments.get(name, (learners.Fixed(step),)))
    return made


def _one_node(plan: Plan) -> float:
    """Noise of the user's own for a record in one node, over that of the claim."""
    own = plan.releases[-1].law.startswith(OWN_LAW)
    return 1.0 / math.sqrt(plan.releases[-1].times.bit_length()) if own else 1.0


def _rounds_pair(plan: Plan, mutant: Mutant, resting: bool) -> Pair:
    """The last record of the first round against its mirror image (or none), all other records 0, the steepest loss.

    The first round has the largest sensitivity (the longest column of the factorisation), and the next record is in
    the second round. A linear loss a thousand times as steep as stated gives the record's difference its largest
    length. With a learner at rest the bounds of the rounds are fixed, and the sums are an affine function of the noise.
    The plan's own learner changes the bounds as it moves; the statistic is then the exact likelihood of the increments.
    """
    broken, recipe = mutant.plan(plan), plan.schedule[0]
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    first = int(recipe.batches.values()[0]) - 1
    used = slice(first, first + group_size(plan) + mutant.twice)
    X[used] = axis(plan, 0)
    opposite = -1.0 if plan.budget.relation == "replace_one" else 0.0
    labels, changed, classes = y.copy(), X.copy(), plan.problem.loss.traits.outputs
    steepest: Loss = Linear(1e3 * recipe.lipschitz / plan.problem.row_bound(plan.d).value)
    if classes > 1:  # a softmax of that margin is as steep as it gets, and longer than the clip
        y, labels, steepest = np.zeros(plan.n), np.zeros(plan.n), Softmax(classes, 20.0)
        changed[used] *= opposite
    else:
        labels[used] = opposite
    problem = replace(broken.problem, loss=steepest)
    schedule = broken.schedule
    if resting:
        problem = replace(problem, domain=Everywhere())
        learner = learners.SubgradientDescent(Everywhere(), learners.Fixed(1e-12))
        schedule = tuple(replace(s, learner=learner) for s in schedule)
    words = (
        f"record {first} of {plan.n}, the steepest loss, {'a learner at rest' if resting else 'the learner as it is'}"
    )
    attacked = replace(broken, problem=problem, schedule=schedule)
    plain, other = (dense(plan, rows, mutant) for rows in (X, changed))
    law = "any" if plan.releases[-1].law.startswith(OWN_LAW) else "gaussian"
    return Pair(attacked, (plain, y), (other, labels), words, law, transcript=not resting)
