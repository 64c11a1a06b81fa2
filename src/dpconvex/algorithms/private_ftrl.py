"""PrivateFTRL: follow the regularised leader on noisy running sums of gradients (AMU20 Algorithm 1, corrected).

Records are read once, in rounds of a few records. The play of a round minimises <S, w> + Psi(w)/eta, where S is the
noisy sum of all gradients so far. Then the gradients of the round, evaluated at the play, are added to the sum. All
sums are released, and so is every play; the run may continue as long as records arrive. AMU20 is Arora, Marinov and
Ullah (2020), whose noise does not protect late records. Here the noise of all rounds is calibrated jointly.
Proof: docs/proofs/private_ftrl.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    ONE_RELATION,
    ROWS_TOO_LONG,
    SHARED_BY_CLASSES,
    TWO_CLASSES,
    Attack,
    Mutant,
    Victim,
)
from dpconvex.algorithms.base import ROWWISE_OR_L1, Algorithm, Needs
from dpconvex.algorithms.options import check_constants, check_options, check_whole, printed
from dpconvex.calibrate import gaussian_scale
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games.potentials import PNorm
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.noise.prefix_sum import LONGEST, PrefixSum, Run
from dpconvex.plan.plan import Plan, check_form
from dpconvex.plan.port import NoisePort
from dpconvex.problem.facts import Fact
from dpconvex.problem.losses import Linear, Loss
from dpconvex.problem.problem import Problem
from dpconvex.theorems import (
    clipped_sum,
    computed_rounds,
    computed_sum,
    correlated_noise,
    gaussian,
    gradient_sum,
    post_process,
)
from dpconvex.theorems.computed_sums import most_rounds
from dpconvex.theorems.excess import (
    MostExcess,
    check_beta,
    leader_excess,
    linear_error,
    linear_excess,
    normal_length,
)

if TYPE_CHECKING:
    from dpconvex.data.arrays import Batches
    from dpconvex.noise.rounds import Rounds
    from dpconvex.sums.memory import Memory
    from dpconvex.sums.protocol import Sums

# How the noise of the rounds is correlated in each mode; `linear` has a single release.
MODES = {name: name for name in ("blt", "tree", "honaker")} | {"composition": "independent", "linear": ""}
ROUNDS = 1000  # default number of rounds
_FAR = 150.0  # size of predictions that the default steps could reach on noise and slopes alone
# For smooth losses twice that where the noise in sums is that of 500 gradients, in l2 norm; less where it is more, by
# its root, and at most 1.2 times as much.
_NOISE, _BOLDEST = 500.0, 1.2
_OVERSHOOT = 4.0
_LONG = 10.0  # for linear losses, in units of the printed step: within 7% of the least bound, that of infinite steps
_ENDS = "a stream may end at any time"
_CHUNK = 2**20  # number of entries of sums that a loop computes at a time


@dataclass(frozen=True)
class Lead:
    """The public recipe: rounds of `batch` records, steps eta / (records so far)^power up to `longest`, the p-norm."""

    batch: int
    eta: float
    p: float
    longest: float
    power: float

    def step(self, before: np.ndarray) -> np.ndarray:
        """Steps of rounds that begin after so many records."""
        return np.asarray(np.minimum(self.eta / np.maximum(before, 1.0) ** self.power, self.longest))


@dataclass(frozen=True)
class PrivateFTRL(Algorithm):
    """Private online learning: follow the regularised leader on noisy running sums, all of which are released.

    `run` returns the weighted mean of the plays, in which later plays count more. `plan.start()` begins a run to which
    records are fed as they arrive. With `plan_stream`, the number of records need not be known beforehand.

    Parameters
    ----------
    mode : {"blt", "tree", "honaker", "composition", "linear"}
        How the noise of the rounds is correlated (see `dpconvex.noise.PrefixSum`). "composition" adds fresh noise to
        every gradient, far more than the other modes need. "linear" is for linear losses, whose gradients do not depend
        on the plays: one sum, released once.
    p : float
        In (1, 2]. Psi is half the squared p-norm over p - 1. Values below 2 need Everywhere, a Box or an L1Ball.
    batch : int, optional
        Largest number of records per round. By default enough for 1000 rounds, or 64 in a stream.
    step : float, optional
        eta in the steps eta / sqrt(records so far); by default computed from public facts.
    fixed : bool
        Take `step` itself in every round, which is best if the number of rounds is known. On a ball,
        `dpconvex.games.rank_players` computes the step with the best proved bound.
    last : bool
        Return the last play instead of the weighted mean of all.
    constants : {"tight", "paper"}
        "paper", with mode="linear": noise and step of Theorems 4.1 and 5.1 of the paper, which hold for linear losses.
        The stated guarantee is still the one proved here.

    References
    ----------
    AMU20: Arora, Marinov, Ullah (2020), "Private FTRL", arXiv:2002.09609v1, Algorithm 1. The gallery of
    `dpconvex.audit` attacks its printed theorems.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3)) / 3
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PrivateFTRL().plan(problem, n=4000, d=3, budget=dc.Budget(2.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> bool(np.mean(np.sign(X @ solution.weights) == y) > 0.9), solution.iterates["sums"].shape
    (True, (1000, 3))
    """

    needs = Needs(ROWWISE_OR_L1, classes=True, records=True)
    suits = "all losses; records that keep coming, a model under one guarantee after each"
    reads = "1"
    takes = frozenset({"sample_weight"})

    mode: str = "blt"
    p: float = 2.0
    batch: int | None = None
    step: float | None = None
    fixed: bool = False
    last: bool = False
    constants: str = "tight"

    def __post_init__(self) -> None:
        check_options(
            self, one_of={"mode": MODES}, whole={"batch": 10**9}, flags=["fixed", "last"],
            within={"p": (1.0, 2.0, "(]"), "step": (0.0, 1e12, "(]")},
        )  # fmt: skip
        if self.fixed and self.step is None:
            raise InputError("fixed=True needs a step, because no default suits every number of rounds: set step")
        check_constants(self, __name__)

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix rounds, steps and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        batch = self.batch or math.ceil(n / ROUNDS)
        if batch > n:
            raise InputError(f"batch must not exceed the number of records, got {batch} of {n}")
        if self.mode == "linear":
            return self._plan_linear(problem, n, d, budget)
        return self._plan(problem, n, d, budget, batch, math.ceil(n / batch), is_open=False)

    def plan_stream(self, problem: Problem, *, d: int, budget: Budget, rounds: int | None = None) -> Plan:
        """Plan for records that arrive over time, with a guarantee for every prefix of the stream.

        Parameters
        ----------
        problem : Problem
        d : int
            Number of features.
        budget : Budget
        rounds : int, optional
            Largest number of rounds; a known limit needs less noise. A call of `feed` with k records takes k / batch
            rounds, rounded up.

        Returns
        -------
        Plan
            Begin the stream with its method `start`.

        Raises
        ------
        HypothesisError
            If the mode is "linear" or the problem has l2 above 0, neither of which works without a number of records.
        """
        check_form(2, d, budget)  # the number of records is unknown
        self.needs.check(self, problem, budget.relation)
        if self.mode == "linear":
            raise HypothesisError("mode 'linear' releases one sum after all records: use another mode for a stream")
        if problem.l2:
            raise HypothesisError("l2 cannot be divided among the unknown number of records of a stream: leave l2 at 0")
        batch = self.batch or 64
        if rounds is not None:
            check_whole("rounds", rounds, LONGEST)
        exact = max(1, most_rounds(batch, math.prod(problem.weight_shape(int(d)))))
        most = min(PrefixSum(MODES[self.mode]).longest(), exact) if rounds is None else rounds
        plan = self._plan(problem, most * batch, int(d), budget, batch, most, is_open=rounds is None)
        return replace(plan, stream=rounds or 0, utility=f"no bound is stated: {_ENDS}")

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Play round after round; records are used only in the running sums."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Slopes

        if self.mode == "linear":
            sums = open_sums(rows, y)
            port.add("sum", sums.sweep(Slopes(plan.problem.loss, np.zeros(sums.size))))
        else:
            self.leader(plan).advance(open_sums(rows, y), port)

    @property
    def streams(self) -> bool:
        """Whether rows are read once, in the given order, so that they may arrive in batches."""
        return self.mode != "linear"

    def execute_batches(self, plan: Plan, batches: Batches, port: NoisePort) -> None:
        """Play on rows that arrive in batches, with the same result as `execute`."""
        from dpconvex.sums.memory import Memory

        leader = self.leader(plan)

        def play(rows: Rows, y: np.ndarray, first: int, last: int) -> None:
            measured = Memory(rows, y)
            measured.open()
            leader.advance(measured, port)

        batches.use(leader.cuts(plan.n), play)

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the plays from the noisy sums, and return their mean."""
        recipe: Lead = plan.schedule[0]
        if self.mode == "linear":
            theta = -recipe.eta / plan.n**recipe.power * port.released("sum")
            start = plan.problem.begin(plan.d)
            return plan.problem.domain.project(PNorm(recipe.p).respond(theta, plan.problem.domain, start))
        leader = self.leader(plan)
        noisy = port.history("sums")
        leader.observe(noisy, np.diff(leader.cuts(plan.n)))
        return leader.weights()

    def leader(self, plan: Plan) -> Leader:
        """Begin a game."""
        return Leader(plan, self.last)

    def most_excess(self, plan: Plan, beta: float | None = None, moment: float | None = None) -> MostExcess:
        """Bound the excess population loss, for independent records: docs/proofs/excess.md."""
        check_beta(beta, moment)
        if plan.stream is not None:
            raise HypothesisError(f"no bound is stated: {_ENDS}")
        return self._excess(plan.problem, plan.n, plan.d, plan.schedule[0], plan.releases[0], beta)

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Lead = plan.schedule[0]
        release = plan.releases[0]
        if self.mode == "linear":
            return [f"query       sum of all gradients, noise {release.scale:.4g}"]
        most = "any number" if "open" in release.law else f"{release.times}"
        return [
            f"rounds      {most} of {r.batch} records at most, steps {r.eta:.4g}"
            + (" / sqrt(records so far)" if r.power else ""),
            f"regulariser half the squared {r.p:g}-norm" + (f" over {r.p - 1:g}" if r.p < 2.0 else ""),
            f"noise       {release.scale:.4g} on every increment, {release.law.removeprefix('prefix sums ')}",
        ]

    # ---------------------------------------------------------------------------------------------------------------

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        tree, fresh = cls("tree", batch=4), cls("composition", batch=4)
        return (
            Attack(cls(batch=4), LOGISTIC, share=1 / 16, seed=32),
            Attack(tree, LOGISTIC, name="PrivateFTRL, tree", share=1 / 16, relations=ONE_RELATION, seed=34),
            Attack(fresh, LOGISTIC, name="PrivateFTRL, composition", share=1 / 16, relations=ONE_RELATION, seed=35),
            Attack(cls("linear"), Problem(Linear()), name="PrivateFTRL, linear", relations=ONE_RELATION, seed=36),
            Attack(
                cls(batch=4), TWO_CLASSES, name="PrivateFTRL, softmax", share=1 / 64, least=0.9,
                relations=ONE_RELATION, seed=82,
            ),
        )  # fmt: skip

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, NOT_CAPPED, SHARED_BY_CLASSES

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(batch=6), LOGISTIC, runs=2000), Victim(cls(batch=6), TWO_CLASSES, runs=2000)

    def _plan(
        self, problem: Problem, n: int, d: int, budget: Budget, batch: int, rounds: int, *, is_open: bool
    ) -> Plan:
        law = f"prefix sums by {MODES[self.mode]}" + (", open horizon" if is_open else "")
        if rounds > LONGEST:
            raise InputError(f"{rounds} rounds are too many: use a larger batch")
        shape = problem.weight_shape(d)
        exact = self._moved(problem, d, budget)
        moved = computed_rounds(exact, rounds, batch, math.prod(shape))
        scale = gaussian_scale(moved.value, budget.mu)
        grid = grid_of(scale, reach=rounds * batch * exact.value)
        release = Release("sums", law, scale, shape, times=rounds, grid=grid)
        noise = PrefixSum(MODES[self.mode], None if is_open else rounds)
        spread = release.scale * noise.rms_error(min(rounds, 10**5))
        return self._made(problem, n, d, budget, batch, spread, correlated_noise(moved, release))

    def _moved(self, problem: Problem, d: int, budget: Budget) -> Fact:
        """Sensitivity of a sum of gradients; those of vectors are clipped, so no fact is needed for it."""
        longest = problem.lipschitz(d)
        if _clips(problem.loss):
            return clipped_sum(longest.value, budget.relation)
        return gradient_sum(longest, budget.relation)

    def _plan_linear(self, problem: Problem, n: int, d: int, budget: Budget) -> Plan:
        if not problem.loss.traits.constant or problem.l2:
            raise HypothesisError(
                "mode 'linear' needs the loss Linear without l2. Gradients of other losses depend on the plays, and "
                "noise of early rounds does not protect the records of late ones: use mode 'blt'"
            )
        shape = problem.weight_shape(d)
        moved = computed_sum(gradient_sum(problem.lipschitz(d), budget.relation), n, math.prod(shape))
        if make := printed(self, __name__):
            scale, eta = make(problem, n, d, budget)
            release, recipe = (
                Release("sum", "gaussian", scale, shape, grid=grid_of(scale)),
                Lead(n, eta, 2.0, math.inf, 0.0),
            )
            claim = post_process(gaussian(moved, release), "the play after the last record")
            utility = self._utility(problem, n, d, recipe, release)
            return Plan(self, problem, n, d, budget, claim, (recipe,), gradient_evaluations=n, utility=utility)
        scale = gaussian_scale(moved.value, budget.mu)
        release = Release("sum", "gaussian", scale, shape, grid=grid_of(scale))
        return self._made(problem, n, d, budget, n, release.scale, gaussian(moved, release))

    def _made(self, problem: Problem, n: int, d: int, budget: Budget, batch: int, spread: float, claim: Claim) -> Plan:
        PNorm(self.p).check(problem.domain, "PrivateFTRL")
        PNorm(self.p).check_start(problem.begin(d).reshape(-1))
        size = math.prod(problem.weight_shape(d))
        row, lipschitz = problem.row_bound(d).value, problem.lipschitz(d).value
        noise = spread * size ** (1.0 - 1.0 / self.p)  # approximate dual norm of the noise
        bend = problem.loss.curvature_bound() * row**2 + problem.l2 / n
        smooth = 0.0 < bend < math.inf
        far = _FAR / row
        if smooth:  # gradients shrink on the way
            far *= 2.0 * min(math.sqrt(_NOISE * lipschitz / noise), _BOLDEST)
        far = min(far, (16.0 if smooth else 12.0) * problem.farthest(d))
        eta = self.step or far / math.sqrt((self.p - 1.0) * (batch * lipschitz + 2.0 * noise) * lipschitz)
        if self.mode == "linear" and not self.step and problem.domain.traits.bounded:
            error = linear_error(n, lipschitz, spread, normal_length(size, self.p), self.p)
            eta = _LONG * math.sqrt(n * self._width(problem, d)) / error
        # Longer steps overshoot, though not immediately: the mean loss has less curvature than the worst record's.
        longest = _OVERSHOOT / (batch * bend) if smooth and not self.step else math.inf
        recipe = Lead(batch, eta, self.p, longest, 0.0 if self.fixed else 0.5)
        made = post_process(claim, "plays of the leader and their mean")
        utility = self._utility(problem, n, d, recipe, claim.releases[0])
        return Plan(self, problem, n, d, budget, made, (recipe,), gradient_evaluations=n, utility=utility)

    def _width(self, problem: Problem, d: int) -> float:
        """Largest excess of the potential at a solution: anywhere in a bounded domain, else within `_distance`."""
        start, across = problem.begin(d).reshape(-1), 1.0 / self.p - 0.5
        if problem.domain.traits.bounded:
            return PNorm(self.p).width(problem.domain, start)
        return (start.size**across * _distance(problem, d)) ** 2 / (2.0 * (self.p - 1.0))

    def _utility(self, problem: Problem, n: int, d: int, recipe: Lead, release: Release) -> str:
        """What is proved of the accuracy, in words."""
        try:
            bound = self._excess(problem, n, d, recipe, release)
        except HypothesisError as error:
            return str(error)
        within = _distance(problem, d)
        start = (problem.lipschitz(d).value + _pull(problem, n, d)) * within
        if bound.value < start:
            return f"{bound} (worst case; expect far less)"
        words = f"vacuous: that of the start is at most {start:.3g}"
        if self.mode != "linear" and recipe.batch < n:
            one, two = (  # of steps eta the bound is a / eta + b eta
                self._excess(problem, n, d, replace(recipe, eta=eta, longest=math.inf), release).value
                for eta in (1.0, 2.0)
            )
            b = (2.0 * two - one) / 3.0
            if (least := 2.0 * math.sqrt((one - b) * b)) < start:
                words += f"; step={math.sqrt((one - b) / b):.2g} has the least bound, {least:.2g}"
        return f"{bound} ({words})"

    def _excess(
        self, problem: Problem, n: int, d: int, recipe: Lead, release: Release, beta: float | None = None
    ) -> MostExcess:
        """Bound the excess population loss for independent records, on average or with probability 1 - beta."""
        bounded = problem.domain.traits.bounded
        if problem.loss.traits.records:
            raise HypothesisError("no bound is proved: gradients of records are clipped")
        if not bounded and problem.l2:
            raise HypothesisError("no bound is proved with l2 on an unbounded domain, where its gradient has none")
        if not bounded and problem.loss.traits.constant:
            raise HypothesisError("no bound is possible: on an unbounded domain a linear loss has no minimiser")
        if not bounded and beta is not None:
            raise HypothesisError("a bound that holds with high probability needs a bounded domain")
        if self.last and self.mode != "linear":
            raise HypothesisError("no bound is proved for the last play")
        size = math.prod(problem.weight_shape(d))
        slope, length = problem.lipschitz(d).value, normal_length(size, recipe.p)
        width, diameter = self._width(problem, d), problem.domain.diameter(size)
        scale = release.scale + 0.5 * (release.grid or 0.0) * math.sqrt(release.times)  # with its rounding
        if self.mode == "linear":
            value = linear_excess(
                n=n, eta=recipe.eta / n**recipe.power, width=width, slope=slope, noise=scale, length=length, p=recipe.p,
                diameter=diameter, beta=beta,
            )  # fmt: skip
        else:
            noise = PrefixSum(MODES[self.mode], release.times)
            value = leader_excess(
                n=n, batch=recipe.batch, step=recipe.step, width=width, slope=slope,
                steep=slope + _pull(problem, n, d), noise=(scale * noise.max_error(), scale * noise.rms_error()),
                length=length, diameter=diameter, beta=beta,
            )  # fmt: skip
        return MostExcess(value, beta, within=math.inf if bounded else _distance(problem, d))


def _distance(problem: Problem, d: int) -> float:
    """How far a solution may be: anywhere in a bounded domain, else where predictions clear margins or meet targets."""
    if problem.domain.traits.bounded:
        return problem.farthest(d)
    return (
        (1.0 if problem.loss.traits.labels == "bounded" else 5.0)
        * problem.loss.traits.scale
        / problem.row_bound(d).value
    )


def _pull(problem: Problem, n: int, d: int) -> float:
    """Largest gradient of the quadratic term, per record."""
    return problem.l2 / n * problem.domain.reach(math.prod(problem.weight_shape(d))) if problem.l2 else 0.0


def _clips(loss: Loss) -> bool:
    """Whether gradients are brought back to their bound: those of a record of the user's own, and of a softmax."""
    return loss.traits.records or loss.traits.outputs > 1


class Leader:
    """The state computed from the noisy sums: the play of the next round, and the mean of the plays (or the last).

    In that mean record i has weight i, so early plays count less and less. Everything is computed from released sums.
    """

    def __init__(self, plan: Plan, last: bool = False) -> None:
        self._plan, self._recipe, self._last = plan, plan.schedule[0], last
        size = math.prod(plan.problem.weight_shape(plan.d))
        self._longest = plan.problem.lipschitz(plan.d).value
        self._start = plan.problem.begin(plan.d).reshape(-1)
        self._ridge = plan.problem.l2 / plan.n
        self._sums, self._pull, self._mean = np.zeros(size), np.zeros(size), np.zeros(size)
        self._records, self._total = 0, 0.0

    @property
    def records(self) -> int:
        """Records read so far."""
        return self._records

    def cuts(self, count: int) -> np.ndarray:
        """Where the rounds of the next `count` records begin, and where the last one ends."""
        return np.append(np.arange(0, count, self._recipe.batch), count)

    def play(self) -> np.ndarray:
        """Point of the next round."""
        return self._respond(self._etas(np.zeros(1))[0])

    def weights(self) -> np.ndarray:
        """Mean of the plays so far, or the first play; with `last` the play of the next round."""
        mean = self._total and not self._last
        found = self._plan.problem.domain.project(self._mean.copy() if mean else self.play())
        return found.reshape(self._plan.problem.weight_shape(self._plan.d))

    def advance(self, sums: Any, port: NoisePort) -> None:
        """Play the rounds of these records."""
        from dpconvex.loops.leader import play

        cuts = self.cuts(sums.n)
        step = max(1, _CHUNK // self._sums.size)
        for first in range(0, len(cuts) - 1, step):
            part = cuts[first : first + step + 1]
            if self._compiled:
                noisy = port.lend_rounds("sums", len(part) - 1, self._loop(sums, part), play)
                self.observe(noisy, np.diff(part))
            else:
                etas = self._etas(part[:-1] - part[0]).tolist()
                for (start, stop), eta in zip(pairwise(part.tolist()), etas, strict=True):
                    self._round(sums.view(start, stop), port, eta)

    def observe(self, noisy: np.ndarray, counts: np.ndarray) -> None:
        """Receive the noisy sums after each of the next rounds, whose numbers of records are `counts`."""
        etas = self._etas(np.concatenate([[0], np.cumsum(counts)[:-1]]))
        if self._euclidean:
            from dpconvex.loops.leader import average

            self._total = average(
                self._plan.problem.domain, counts.astype(float), etas, self._ridge, float(self._records),
                noisy.reshape(len(noisy), -1), self._sums, self._pull, np.empty(self._sums.size), self._mean,
                self._total,
            )  # fmt: skip
            self._records += int(counts.sum())
            return
        for sums, count, eta in zip(noisy, counts.tolist(), etas.tolist(), strict=True):
            self._follow(self._respond(eta), sums, count)

    def state(self) -> dict[str, Any]:
        """Numbers and arrays on which the rest of the run depends; all of them are released."""
        arrays = {name: getattr(self, f"_{name}").copy() for name in ("sums", "pull", "mean")}
        return arrays | {"records": self._records, "total": self._total}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved `state`.

        Raises
        ------
        InputError
            If the state does not fit this plan.
        """
        for name in ("sums", "pull", "mean"):
            array = np.array(saved[name], dtype=float)
            if array.shape != self._sums.shape or not np.isfinite(array).all():
                raise InputError("the saved state does not fit this plan: restore it with the plan it came from")
            setattr(self, f"_{name}", array)
        self._records, self._total = int(saved["records"]), float(saved["total"])

    @property
    def _euclidean(self) -> bool:
        """Whether plays are those of the compiled loops."""
        problem = self._plan.problem
        return problem.start is None and self._recipe.p == 2.0 and problem.domain.traits.rowwise

    @property
    def _compiled(self) -> bool:
        traits = self._plan.problem.loss.traits
        return self._euclidean and not traits.records and traits.outputs == 1

    def _respond(self, eta: float) -> np.ndarray:
        """The play with that step."""
        theta = -eta * (self._sums + self._pull)
        return PNorm(self._recipe.p).respond(theta, self._plan.problem.domain, self._start)

    def _follow(self, w: np.ndarray, sums: np.ndarray, count: int) -> None:
        """Receive the noisy sum after a round of so many records, whose play was w."""
        weight = count * (2.0 * self._records + count + 1.0) / 2.0
        self._total += weight
        self._mean += weight / self._total * (w - self._mean)
        self._pull += self._ridge * count * w
        self._sums = sums.reshape(-1).copy()
        self._records += count

    def _etas(self, later: np.ndarray) -> np.ndarray:
        """Steps of the rounds that begin after so many further records."""
        return self._recipe.step(self._records + later)

    def _loop(self, measured: Memory, cuts: np.ndarray) -> Run:
        """Loop over the rounds between these cuts."""
        from dpconvex.loops.leader import play

        pull, w, block = self._pull.copy(), np.empty(self._sums.size), np.zeros(self._sums.size)
        etas, matrix = self._etas(cuts[:-1] - cuts[0]), measured.matrix

        def run(rounds: Rounds, first: int, at: int, entered: bool, sums: np.ndarray, noisy: np.ndarray) -> int:
            stop = first + len(noisy)
            return int(
                play(
                    matrix.rows, measured.y, matrix.weights, matrix.shorten, self._plan.problem.loss,
                    self._plan.problem.domain, cuts[first : stop + 1], etas[first:stop], self._ridge, rounds, at,
                    entered, sums, pull, w, block, noisy,
                )
            )  # fmt: skip

        return run

    def _round(self, sums: Sums, port: NoisePort, eta: float) -> None:
        from dpconvex.sums.protocol import Clipped, Slopes

        problem = self._plan.problem
        w = self._respond(eta)
        point = w.reshape(problem.weight_shape(self._plan.d))
        clipped = _clips(problem.loss)
        r = Clipped(problem.loss, point, self._longest) if clipped else Slopes(problem.loss, point)
        increment = sums.sweep(r)
        self._follow(w, port.accumulate("sums", increment[None], [1.0])[0], sums.n)
