"""What an algorithm declares for the audit: what to attack, the worst neighbouring data sets, and mistakes to catch.

A claim covers every problem that satisfies its facts. The attacker may therefore drop the projection and use any other
loss that satisfies them. With linear losses of the largest slope, outputs are exactly Gaussian and the effect of the
changed record never shrinks. Rows are twice as long as their bound, and weights (where the algorithm takes any) are
twice their cap, so that the code which enforces these bounds is attacked as well.

Neighbours that only one algorithm needs are built in its own file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import ndtri

from dpconvex.data.arrays import open_weights
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, SAMPLING, Scope
from dpconvex.loops.rows import EVEN, Dense, Records
from dpconvex.plan.port import NoisePort
from dpconvex.problem import bounds, losses
from dpconvex.problem.domains import Everywhere, L2Ball
from dpconvex.problem.facts import Kind
from dpconvex.problem.geometry import lp_norms
from dpconvex.problem.problem import Problem
from dpconvex.problem.renyi_law import OWN_LAW, RenyiLaw, Uniform
from dpconvex.theorems.generalised_gaussian import exponent_of
from dpconvex.theorems.laplace import LAPLACE

if TYPE_CHECKING:
    from dpconvex.algorithms.base import Algorithm
    from dpconvex.plan.plan import Plan

__all__ = [
    "ANYWHERE",
    "BOTH",
    "BUT_SILENT",
    "LOGISTIC",
    "LONG",
    "NONE",
    "NOT_CAPPED",
    "NOT_CLIPPED",
    "ONE_NORM_FOR_ANOTHER",
    "ONE_RELATION",
    "OWN_NOISE",
    "PURE",
    "ROWS_AS_PEOPLE",
    "ROWS_TOO_LONG",
    "SHARED_BY_CLASSES",
    "SIGNS",
    "SOFTMAX",
    "SQUARED",
    "TWO_CLASSES",
    "Attack",
    "Data",
    "Mutant",
    "Pair",
    "Setting",
    "Statistic",
    "Victim",
    "attacked_records",
    "axis",
    "clip_coordinates",
    "dense",
    "descent_pair",
    "group_size",
    "linear_pair",
    "linear_pairs",
    "mirrored_pair",
    "noiseless",
    "own_pair",
    "worst_pairs",
]

Data = tuple[Dense, np.ndarray]
Statistic = Callable[[np.ndarray], np.ndarray]  # one number per row of released values

LONG = 2.0  # length of the rows, in units of their bound
ONE_RELATION = ("replace_one",)
BOTH = ("replace_one", "zero_out")
LOGISTIC = Problem(losses.Logistic(), domain=L2Ball(8.0))
SQUARED = Problem(losses.Squared(), domain=L2Ball(2.0))
SIGNS = Problem(losses.Logistic(), feature_bound=bounds.Linf(1.0))
SOFTMAX = Problem(losses.Softmax(3))
TWO_CLASSES = Problem(losses.Softmax(2), domain=L2Ball(8.0))


def _normal(uniform: Uniform) -> np.ndarray:
    return np.asarray(ndtri(uniform(1)))


OWN_NOISE = RenyiLaw(_normal, size=1, second_moment=1.0, name="normal")  # whose curve of divergences is attained


# What is attacked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """An algorithm with its options, a problem, and the public facts of a small data set.

    Examples
    --------
    >>> import dpconvex as dc
    >>> Setting(dc.algorithms.MeanDirection(), LOGISTIC, d=2).plan("zero_out").claim.relation
    'zero_out'
    """

    algorithm: Any
    problem: Problem
    d: int = 1
    n: int = 24
    epsilon: float = 4.0
    delta: float = 1e-6

    def plan(self, relation: str = "replace_one") -> Plan:
        """Plan for neighbours of that relation."""
        budget = Budget(self.epsilon, self.delta, relation)
        plan: Plan = self.algorithm.plan(self.problem, n=self.n, d=self.d, budget=budget)
        return plan


@dataclass(frozen=True, kw_only=True)
class Attack(Setting):
    """A setting in which the claim is attacked.

    Parameters
    ----------
    name : str
        Name in the report; by default the name of the algorithm.
    share : float
        Share of the runs of the whole audit that this attack takes.
    least : float
        Fraction of the claim that the attack has to find: 0.97 where the worst neighbours are known and outputs are
        Gaussian, as far as chance allows: with N runs a side the bound lies 2.6 standard errors sqrt(2/N)/mu below the
        claim, which is exact, on average, and four more leave 1 - 6.6 sqrt(2/N)/mu. At a mu of 0.84, that of most
        settings, this is 0.95 for 50,000 runs, 0.93 for 25,000 and 0.90 for 12,500. 0 requires only that the claim is
        not refuted.
    relations : tuple of str
        Relations under which the claim is attacked, with one line of the report for each.
    seed : int, optional
        Seed of the first of these lines; the other lines take the seeds after it. Similar plans turn the same noise
        into the same statistic, so each line needs its own seed. By default the next seed that no attack declares.

    Examples
    --------
    >>> import dpconvex as dc
    >>> Attack(dc.algorithms.MeanDirection(), LOGISTIC).title
    'MeanDirection'
    """

    name: str = ""
    share: float = 1 / 8
    least: float = 0.97
    relations: tuple[str, ...] = BOTH
    seed: int | None = None

    @property
    def title(self) -> str:
        """Name in the report."""
        return self.name or type(self.algorithm).__name__


@dataclass(frozen=True, kw_only=True)
class Victim(Setting):
    """A setting in which mutants are tried under replace_one, and how many runs it takes to catch them."""

    n: int = 12
    runs: int = 4000


@dataclass(frozen=True)
class Pair:
    """Neighbouring data sets, the plan to run on them, and the statistic to tell them apart.

    With law "gaussian" the released values are an affine function of the noise, and the best statistic is computed; one
    that is given is normal on both sides, with one variance.
    With law "any" and no statistic, one is learnt from pilot runs. With `transcript` the statistic is the exact
    log-likelihood ratio of everything released, which is Gaussian if the data sets are equally far apart at every
    release. The attacker sees everything that the claim allows to be released or, where `seen` is given, the values of
    those releases: for claims that also cover what a run keeps to itself.
    """

    plan: Plan
    plain: Data
    changed: Data
    words: str
    law: str = "gaussian"
    statistic: Statistic | None = None
    transcript: bool = False
    seen: tuple[str, ...] = ()


# Mistakes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A way to break a run, such as a careless change might. The audit must catch every mutant.

    Parameters
    ----------
    name : str
    noise : float or callable
        Factor on all noise, or a function from the plan to it.
    silent : bool
        The first draw of noise is left out.
    shared : {"", "draws", "classes"}
        Every draw repeats the first one, or every class repeats the noise of the first class.
    swapped : bool
        The noise is calibrated for masking a record, but the claim is about replacing one.
    twice : bool
        The attacked record is read a second time in place of the next one (or of the one before, if it is the last).
    averaged : bool
        The mean of all noisy values is released instead of the last.
    clip : float
        Factor on the length to which gradients are clipped.
    unbounded : bool
        Rows are used as given, without shortening them to the feature bound.
    heavy : bool
        Weights above their cap are used as given, without clipping them.
    sampling : float
        Factor on the probability that a record is sampled, or that a bit of a secret order is set. If infinite, every
        record is sampled, and records stay in the given order.
    shaped : bool
        A mistake in generalised Gaussian noise, for plans that use it.
    shape : float
        Exponent of the generalised Gaussian noise that is drawn; 0 keeps the exponent of the claim.
    apart : bool
        Every row is treated as a different person: rows are clipped (and sampled) instead of people.
    whole : bool
        The noise of all rounds of a running sum has the last scale, instead of a scale of its own per round.
    change : callable, optional
        Any other mistake in the schedule or the problem: a function from a plan to the broken plan. It returns the
        same plan if it does not break it.
    pure : bool
        Whether it is about plans with delta = 0, whose noise is Laplace or Gumbel noise.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=20, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> Mutant("half the noise", noise=0.5).breaks(plan), Mutant("classes", shared="classes").breaks(plan)
    (True, False)
    """

    name: str
    noise: float | Callable[[Plan], float] = 1.0
    silent: bool = False
    shared: str = ""
    swapped: bool = False
    twice: bool = False
    averaged: bool = False
    clip: float = 1.0
    unbounded: bool = False
    heavy: bool = False
    sampling: float = 1.0
    shaped: bool = False
    shape: float = 0.0
    apart: bool = False
    whole: bool = False
    change: Callable[[Plan], Plan] | None = None
    pure: bool = False

    def breaks(self, plan: Plan) -> bool:
        """Whether the mutant breaks the claim of this plan: some mistakes need several phases, draws or classes."""
        if self.pure and plan.budget.delta:
            return False
        if self.apart:
            return plan.claim.unit == PERSON
        if self.shaped:
            return exponent_of(plan.releases[-1].law) is not None
        if callable(self.noise):
            return self.noise(plan) != 1.0
        if self.sampling != 1.0:
            return any(r.law == SAMPLING for r in plan.releases)
        if self.swapped:
            return plan.budget.relation == "replace_one"
        if self.heavy:
            return plan.claim.unit != PERSON and len(self.weights(plan, plan.n)) > 0
        if self.shared == "classes":
            return plan.problem.loss.traits.outputs > 1
        if self.shared == "draws":
            return plan.claim.scope is Scope.EVERY and len(plan.releases) > 1
        if self.whole:  # the scales shrink, so later noise is too small for an earlier round
            return any(getattr(part, "power", 1.0) < 1.0 for part in plan.schedule)
        if self.averaged:
            return plan.claim.scope is Scope.LAST and len(plan.releases) > 1
        return self.change is None or self.change(plan) is not plan

    def plan(self, plan: Plan) -> Plan:
        """Return the plan with its noise, schedule or problem broken."""
        if self.swapped:
            lighter = Budget(plan.budget.epsilon, plan.budget.delta, "zero_out")
            return _declared(plan).plan(plan.problem, n=plan.n, d=plan.d, budget=lighter)
        if self.clip != 1.0:
            return replace(plan, schedule=tuple(replace(s, clip=self.clip * s.clip) for s in plan.schedule))
        return plan if self.change is None else self.change(plan)

    def factor(self, plan: Plan) -> float:
        """Factor on all noise of that plan."""
        return self.noise(plan) if callable(self.noise) else self.noise

    def weights(self, plan: Plan, count: int) -> np.ndarray:
        """Weights of twice their cap, as the loops receive them; an empty array if the algorithm takes no weights."""
        if "sample_weight" not in _declared(plan).takes:
            return EVEN
        given = np.full(count, 2.0)
        return given if self.heavy else open_weights(given, 1.0, count)

    def labels(self, y: np.ndarray, record: int) -> np.ndarray:
        """Labels as a broken run reads them. All rows of the attacked pair are equal, so only labels matter."""
        if self.twice:
            y = y.copy()
            y[record + 1 if record + 1 < len(y) else record - 1] = y[record]
        return y


def _declared(plan: Plan) -> Algorithm:
    return cast("Algorithm", plan.algorithm)


def clip_coordinates(plan: Plan) -> Plan:
    """Clip every coordinate of a gradient instead of its norm."""
    if all(part.q == np.inf for part in plan.schedule):
        return plan
    return replace(plan, schedule=tuple(replace(part, q=np.inf) for part in plan.schedule))


NONE = Mutant("none")
ANYWHERE = (
    Mutant("noise x 0.7", noise=0.7),
    Mutant("noise halved", noise=0.5),
    Mutant("first draw of noise left out", silent=True),
    Mutant("noise for masking, promise for replacing", swapped=True),
    Mutant("record used twice", twice=True),
)
PURE = tuple(  # the same where delta is 0
    replace(mutant, name=f"{mutant.name}, delta = 0", pure=True)
    for mutant in ANYWHERE
    if mutant.noise == 0.5 or mutant.swapped or mutant.twice
)
BUT_SILENT = tuple(mutant for mutant in ANYWHERE if not mutant.silent)  # where later draws cover every record alone
ROWS_TOO_LONG = Mutant("rows not brought back to their bound", unbounded=True)
NOT_CAPPED = Mutant("weights not clipped to their cap", heavy=True)
NOT_CLIPPED = Mutant("clip missing", clip=1e9)


def _l2_for_l1(plan: Plan) -> float:
    return 1.0 / math.sqrt(math.prod(plan.releases[-1].shape)) if plan.releases[-1].law == LAPLACE else 1.0


ONE_NORM_FOR_ANOTHER = Mutant("Laplace noise for the sensitivity in l2", noise=_l2_for_l1)
SHARED_BY_CLASSES = Mutant("one noise for all classes", shared="classes")
ROWS_AS_PEOPLE = Mutant("rows clipped, not people", apart=True)


# Data sets ----------------------------------------------------------------------------------------------------------


def group_size(plan: Plan) -> int:
    """How many records a neighbour changes: the number in the claim, or two if the first two belong to one person."""
    return plan.claim.unit if isinstance(plan.claim.unit, int) else 2


def axis(plan: Plan, j: int) -> np.ndarray:
    """A row along feature j, twice as long as its bound."""
    row = np.zeros(plan.d)
    row[j] = LONG * plan.problem.feature_bound.l2(plan.d)
    return row


def dense(plan: Plan, X: np.ndarray, mutant: Mutant) -> Dense:
    """Rows as the loops receive them. If the claim is about people, the first two rows belong to one person."""
    radius = float(plan.problem.feature_bound.l2(plan.d)) * (LONG if mutant.unbounded else 1.0)
    rows = Dense(X, radius, plan.problem.intercept, mutant.weights(plan, len(X)))
    if plan.claim.unit != PERSON:
        return rows
    everyone = np.arange(len(X))
    return rows._replace(people=everyone if mutant.apart else np.maximum(everyone - 1, 0))


class _SilentPort(NoisePort):
    """A port without noise. Its samples are empty, and its random orders are the original order of the records."""

    exact = False

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.claim, None)  # type: ignore[arg-type]

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return np.empty(0, dtype=np.int64)


def noiseless(plan: Plan, data: Data) -> np.ndarray:
    """Return every value that a run without noise gives to its last release, one per row."""
    port, release = _SilentPort(plan), plan.releases[-1]
    plan.algorithm.execute(plan, *data, port)
    return port.history(release.name).reshape(release.times, -1)


# Neighbours ---------------------------------------------------------------------------------------------------------


def worst_pairs(plan: Plan, mutant: Mutant) -> list[Pair]:
    """Worst neighbours that the algorithm of a plan declares; refused if no data set can represent them."""
    masked = plan.budget.relation != "replace_one"
    if masked and plan.problem.intercept and plan.problem.loss.traits.outputs > 1:
        raise InputError(
            "a softmax with a constant feature cannot be audited under zero_out, because no row acts like a masked "
            "record: plan with the relation replace_one"
        )
    return [as_records(plan, pair) for pair in _declared(plan).neighbours(plan, mutant)]


@dataclass(frozen=True)
class _Steepest:
    """Gradients of the linear loss -steepness y <x, w>, as a loss of a record."""

    steepness: float

    def __call__(self, w: np.ndarray, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return -self.steepness * y, X.reshape(len(X), *w.shape)


def as_records(plan: Plan, pair: Pair) -> Pair:
    """The pair with its linear loss as a loss of a record, if that is what the plan is for."""
    declared = plan.problem.loss
    if not isinstance(declared, losses.Convex):
        return pair
    steep = cast(losses.Linear, pair.plan.problem.loss)
    loss = replace(declared, gradients=_Steepest(steep.steepness), per_record=False, code="")
    broken = replace(pair.plan, problem=replace(pair.plan.problem, loss=loss))

    def lifted(data: Data) -> Any:
        rows, y = data
        long = rows.radius / np.maximum(np.linalg.norm(rows.X, axis=1, keepdims=True), rows.radius)
        return Records(long * rows.X, y, rows.weights, rows.people), y

    return replace(pair, plan=broken, plain=lifted(pair.plain), changed=lifted(pair.changed))


def attacked_records(plan: Plan) -> list[int]:
    """Positions worth attacking: the ends and middle of phases, or a single record if all are used in the same way."""
    ends = {0, plan.n // 2, plan.n - group_size(plan)}
    for phase in plan.schedule:
        if hasattr(phase, "records"):
            ends |= {phase.records.start, phase.records.stop - group_size(plan)}
    return sorted(max(0, record) for record in ends)


def linear_pairs(plan: Plan, mutant: Mutant) -> list[Pair]:
    """Linear pairs at every position worth attacking; under Laplace noise at the last alone, which stands for all."""
    if plan.releases[-1].law == LAPLACE:
        return [linear_pair(plan, max(attacked_records(plan)), mutant)]
    return [linear_pair(plan, record, mutant) for record in attacked_records(plan)]


def linear_pair(plan: Plan, record: int, mutant: Mutant, steepness: float | None = None) -> Pair:
    """Linear losses of the largest slope along one direction, on an unbounded domain; one label flipped or masked.

    The direction is that of one feature, or under Laplace noise the diagonal, which is longest in l1. For a softmax see
    `_classes_pair`.
    """
    n, d = plan.n, plan.d
    if plan.problem.loss.traits.outputs > 1:
        return _classes_pair(plan, record, mutant)
    if steepness is None:
        facts = plan.problem.facts(n, d)
        steepness = facts[Kind.LIPSCHITZ].value / facts[Kind.ROW_BOUND].value
    attacked = mutant.plan(plan)
    attacked = replace(attacked, problem=replace(attacked.problem, loss=losses.Linear(steepness), domain=Everywhere()))
    group = slice(record, record + group_size(plan))
    plain = np.where(np.arange(n) % 2 == record % 2, 1.0, -1.0)
    plain[group] = 1.0
    changed = plain.copy()
    changed[group] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    pure = plan.releases[-1].law == LAPLACE
    row = np.full(d, LONG * plan.problem.feature_bound.l2(d) / math.sqrt(d)) if pure else axis(plan, 0)
    rows = dense(plan, np.tile(row, (n, 1)), mutant)
    words = f"linear pair, record {record} of {n}"
    pair = Pair(attacked, (rows, mutant.labels(plain, record)), (rows, mutant.labels(changed, record)), words)
    return _told_apart(plan, pair) if pure else pair


def _classes_pair(plan: Plan, record: int, mutant: Mutant) -> Pair:
    """A softmax with a margin of 20, whose gradients hardly depend on the weights; one row reversed or masked.

    With two classes its gradients have their largest length; with K, the others share the gradient, and it is shorter
    by the root of K / (2 K - 2).
    """
    n = plan.n
    attacked, loss = mutant.plan(plan), losses.Softmax(plan.problem.loss.traits.outputs, 20.0)
    attacked = replace(attacked, problem=replace(attacked.problem, loss=loss, domain=Everywhere()))
    group = slice(record, record + group_size(plan))
    plain = np.where(np.arange(n) % 2 == record % 2, 1.0, -1.0)
    plain[group] = 1.0
    changed = plain.copy()
    changed[group] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    sides = [mutant.labels(signs, record)[:, None] * axis(plan, 0) for signs in (plain, changed)]
    first, second = ((dense(plan, X, mutant), np.zeros(n)) for X in sides)
    return Pair(attacked, first, second, f"softmax with a margin, record {record} of {n}")


def _told_apart(plan: Plan, pair: Pair) -> Pair:
    """The pair with the log-likelihood ratio of its releases of Laplace noise, where no release depends on another.

    Between the two sums and far out the ratio is level, so that the last bits of what a replay computes would order
    runs: bits of float64, which tell the data sets apart, and which no run releases. Releases are on their grids.
    """
    plain, changed = (
        _unperturbed(pair.plan, data, [r.name for r in plan.releases]) for data in (pair.plain, pair.changed)
    )
    weights, grids = (
        np.concatenate([np.full(math.prod(r.shape), number) for r, number in zip(plan.releases, numbers, strict=True)])
        for numbers in ([1.0 / r.scale for r in plan.releases], [r.grid for r in plan.releases])
    )

    def statistic(released: np.ndarray) -> np.ndarray:
        shown = grids * np.rint(released / grids)
        return np.asarray((np.abs(shown - plain) - np.abs(shown - changed)) @ weights)

    return replace(pair, law="any", statistic=statistic)


def _unperturbed(plan: Plan, data: Data, names: list[str]) -> np.ndarray:
    """What a run without noise releases, all of it, as a vector."""
    port = _SilentPort(plan)
    plan.algorithm.execute(plan, *data, port)
    return np.concatenate([port.history(name).ravel() for name in names])


def own_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The plan with its own loss and domain: all rows at the bound, and one of them reversed or masked."""
    if plan.budget.relation == "zero_out" and plan.problem.intercept:
        raise InputError(
            "neighbours='own' cannot be used under zero_out with a constant feature, because no row acts like a masked "
            "record: use neighbours='worst'"
        )
    X, traits = np.tile(axis(plan, 0), (plan.n, 1)), plan.problem.loss.traits
    y = np.full(plan.n, 0.0 if traits.labels == "class" else traits.target)
    changed = X.copy()
    changed[: group_size(plan)] *= -1.0 if plan.budget.relation == "replace_one" else 0.0
    if mutant.twice:
        changed[group_size(plan)] = changed[0]
    words = f"the plan's own problem, record 0 of {plan.n} turned round or masked"
    return Pair(mutant.plan(plan), (dense(plan, X, mutant), y), (dense(plan, changed, mutant), y), words, "any")


def descent_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record against its mirror image (or none), all other records 0, a steep loss and negligible steps.

    Steps are post-processing, so the claim does not depend on them. A linear loss a thousand times as steep as the clip
    gives every gradient of the record its largest length. So does a softmax with a margin of 20, whose other classes
    share the gradient evenly at the start. The mirror image has the opposite gradient and moves the sum of rows as far
    as possible. With a constant feature, only a flipped label reverses a gradient.
    """
    X, problem = np.zeros((plan.n, plan.d)), plan.problem
    several, replaced = problem.loss.traits.outputs > 1, plan.budget.relation == "replace_one"
    y = np.zeros(plan.n) if several else np.ones(plan.n)
    used = group_size(plan) + mutant.twice
    X[:used] = axis(plan, 0)
    changed, labels = X.copy(), y.copy()
    if problem.intercept and not several:
        labels[:used] = -1.0 if replaced else 0.0
    else:
        changed[:used] *= -1.0 if replaced else 0.0
    row, clip = problem.row_bound(plan.d).value, plan.schedule[0].clip
    steep = losses.Softmax(problem.loss.traits.outputs, 20.0) if several else losses.Linear(1e3 * clip / row)
    broken = mutant.plan(plan)
    attacked = _at_rest(replace(broken, problem=replace(broken.problem, loss=steep, domain=Everywhere())))
    data = (dense(plan, X, mutant), y), (dense(plan, changed, mutant), labels)
    return Pair(
        attacked, *data, f"one record against its {'mirror image' if replaced else 'absence'}, the steepest loss"
    )


def mirrored_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record with equal features, its label flipped or masked; all other records 0, a steep loss, negligible steps.

    Among gradients of the same l_q norm, this one is longest in l2. It is also the worst case for generalised Gaussian
    noise of exponent r. If a mutant uses the record twice, it is both the first and the last, in two batches.
    """
    broken, clip, size = mutant.plan(plan), plan.schedule[0].clip, math.sqrt(plan.d)
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = [0, -1] if mutant.twice else [0]
    X[used] = LONG * plan.problem.feature_bound.l2(plan.d) / size
    labels = y.copy()
    labels[used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    steep = losses.Linear(1e3 * size * clip / plan.problem.feature_bound.l2(plan.d))
    attacked = _at_rest(replace(broken, problem=replace(broken.problem, loss=steep)))
    rows = dense(plan, X, mutant)
    words = f"one record against its {'mirror image' if plan.budget.relation == 'replace_one' else 'absence'}"
    pair = Pair(attacked, (rows, y), (rows, labels), f"{words}, all features alike, the steepest loss")
    release = plan.releases[-1]
    if release.law.startswith(OWN_LAW):
        return replace(pair, law="any")
    if (r := exponent_of(release.law)) is None or mutant.shape == 2.0:  # drawn from the normal law
        return pair
    sound = replace(attacked, schedule=tuple(replace(s, clip=clip) for s in attacked.schedule))
    plain, changed = noiseless(sound, pair.plain), noiseless(sound, pair.changed)

    def statistic(released: np.ndarray) -> np.ndarray:
        steps = released.reshape(len(released), release.times, -1)
        gaps = lp_norms(steps - plain, r) ** 2 - lp_norms(steps - changed, r) ** 2
        return np.asarray(gaps.sum(axis=1) / (2.0 * release.scale**2))

    return replace(pair, law="any", statistic=statistic)


def _at_rest(plan: Plan) -> Plan:
    """The plan with steps so small that the weights hardly move."""
    return replace(plan, schedule=tuple(replace(s, rate=1e-12 * s.rate) for s in plan.schedule))
