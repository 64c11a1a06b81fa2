"""Neighbouring data sets on which a plan is attacked: for each algorithm, the worst that its hypotheses allow.

A claim speaks of every problem that meets its facts, so the attacker may replace the loss by another one that meets
them and drop the projection: linear losses of the largest slope leave outputs that are exactly Gaussian, and nothing
of the change is forgotten. Rows are twice as long as their bound, and weights (where there are any) twice
their cap, so that bringing them back is under attack as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.frank_wolfe import FrankWolfe
from dpconvex.algorithms.heavy_tailed_sgd import HeavyTailedSGD
from dpconvex.algorithms.mirror_descent import MirrorDescent
from dpconvex.algorithms.noisy_gd import NoisyGD
from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.algorithms.online_to_batch import OnlineToBatch
from dpconvex.algorithms.poisson_sgd import PoissonSGD, clipped_gradients
from dpconvex.algorithms.sufficient_statistics import SufficientStatistics
from dpconvex.algorithms.truncated_mirror_descent import TruncatedMirrorDescent
from dpconvex.audit.measure import Statistic
from dpconvex.audit.mutants import NONE, Mutant
from dpconvex.audit.replay import Data, noise_size, run_once
from dpconvex.errors import InputError
from dpconvex.games.learners import Fixed, SubgradientDescent
from dpconvex.kernel.claims import PERSON, SAMPLING
from dpconvex.loops.rows import Dense
from dpconvex.plan.plan import Plan
from dpconvex.problem.domains import Everywhere, L2Ball, Simplex
from dpconvex.problem.facts import Kind
from dpconvex.problem.geometry import lp_norms
from dpconvex.problem.losses import Linear, Softmax
from dpconvex.problem.problem import Problem
from dpconvex.queries.curvature import Curvature
from dpconvex.queries.evaluation import NUMBERS, HeldOut
from dpconvex.sums.memory import open_sums
from dpconvex.sums.rowwise import curvatures, slopes
from dpconvex.theorems.generalised_gaussian import exponent_of

_LONG = 2.0  # length of the rows, in units of their bound


@dataclass(frozen=True)
class Pair:
    """Neighbouring data sets, the plan to run on them, and the statistic to tell them apart.

    "gaussian": the released values are an affine function of the noise, and the best statistic is computed. Without a
    statistic, and of any law, one is learnt on a pilot. With `transcript` it is the exact log-likelihood ratio of
    everything released, which is Gaussian if the data sets are equally far apart at every release.
    """

    plan: Plan
    plain: Data
    changed: Data
    words: str
    law: str = "gaussian"
    statistic: Statistic | None = None
    transcript: bool = False


def pairs(plan: Plan, mutant: Mutant) -> list[Pair]:
    """Neighbours worth trying for this plan, broken as the mutant says."""
    softmax, replaced = isinstance(plan.problem.loss, Softmax), plan.budget.relation == "replace_one"
    masked_rows = not replaced and not plan.problem.intercept  # a row of 0 stands for a masked record
    if softmax and not (replaced or masked_rows):
        raise InputError("with a constant feature no row of a softmax stands for a masked record: audit replace_one")
    if isinstance(plan.algorithm, ObjectivePerturbation):
        if not softmax:
            exact = [_perturbed_pair(plan, mutant, "label")] if replaced or masked_rows else []
            return [linear_pair(plan, 0, mutant), *exact]
        return [_perturbed_pair(plan, mutant, kind) for kind in (("label", "mirror") if replaced else ("label",))]
    if isinstance(plan.algorithm, SufficientStatistics):
        # The worst turn, and a right angle: it moves the eigenvalue furthest, should that lack its noise.
        turns = (_worst_turn(plan, mutant), math.pi / 2) if replaced else (0.0,)
        return [_moment_pair(plan, mutant, turn) for turn in turns]
    if isinstance(plan.algorithm, NoisyGD):
        return [_descent_pair(plan, mutant)]
    if isinstance(plan.algorithm, MirrorDescent | TruncatedMirrorDescent | HeavyTailedSGD):
        return [_mirror_pair(plan, mutant)]
    if isinstance(plan.algorithm, PoissonSGD):
        return [_sampled_pair(plan, mutant)]
    if isinstance(plan.algorithm, FrankWolfe):
        return [_choice_pair(plan, mutant)]
    if isinstance(plan.algorithm, OnlineToBatch):
        return [_rounds_pair(plan, mutant, still) for still in (True, False)]
    if isinstance(plan.algorithm, Curvature):
        return [_curvature_pair(plan, mutant)]
    if isinstance(plan.algorithm, HeldOut):
        return [_held_out_pair(plan, mutant)]
    tried = [linear_pair(plan, record, mutant) for record in attacked_records(plan)]
    if hasattr(plan.schedule[-1] if plan.schedule else None, "batches"):
        tried.append(_forgetful_pair(plan, mutant))
    return tried


def _changed(plan: Plan) -> int:
    """How many records a neighbour changes: as many as the claim says, or two, the first two, that are one person's."""
    return plan.claim.unit if isinstance(plan.claim.unit, int) else 2


def attacked_records(plan: Plan) -> list[int]:
    """Positions worth attacking: where phases start and end, and the middle; any one record if all are used alike."""
    ends = {0, plan.n // 2, plan.n - _changed(plan)}
    for phase in plan.schedule:
        if hasattr(phase, "records"):
            ends |= {phase.records.start, phase.records.stop - _changed(plan)}
    return sorted(max(0, record) for record in ends)


def linear_pair(plan: Plan, record: int, mutant: Mutant) -> Pair:
    """Linear losses of the largest slope along one direction, on all of space; one label flipped or masked."""
    problem, n, d = plan.problem, plan.n, plan.d
    facts = problem.facts(n, d)
    row = facts[Kind.ROW_BOUND].value
    if isinstance(plan.algorithm, ObjectivePerturbation):
        steepness = facts[Kind.SLOPE].value  # straight at its largest slope: curvature 0 keeps to every law
    else:
        steepness = facts[Kind.LIPSCHITZ].value / row
    attacked = replace(mutant.plan(plan), problem=replace(mutant.plan(plan).problem, loss=Linear(steepness)))
    attacked = replace(attacked, problem=replace(attacked.problem, domain=Everywhere()))
    group = slice(record, record + _changed(plan))
    plain = np.where(np.arange(n) % 2 == record % 2, 1.0, -1.0)
    plain[group] = 1.0
    changed = plain.copy()
    changed[group] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = _rows(plan, np.tile(_axis(plan, 0), (n, 1)), mutant)
    words = f"linear pair, record {record} of {n}"
    return Pair(attacked, (rows, mutant.labels(plain, record)), (rows, mutant.labels(changed, record)), words)


def _forgetful_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The linear pair at the last record that is used, on a ball so small that it forgets all noise but the last."""
    last = plan.schedule[-1].records.stop - _changed(plan)
    pair = linear_pair(plan, last, replace(mutant, twice=False))
    for _, y in (pair.plain, pair.changed) if mutant.twice else ():
        y[last] *= 2.0  # a second use in the same step: the ball would forget one in the step before
    least = float(plan.schedule[-1].steps.values().min()) * plan.problem.lipschitz(plan.d).value
    small = replace(pair.plan, problem=replace(pair.plan.problem, domain=L2Ball(1e-9 * least / plan.n)))
    return replace(pair, plan=small, words=f"{pair.words}, on a ball that forgets")


def own_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The plan as it is, with its own loss and domain: all rows at the bound, and one turned round or masked."""
    if plan.budget.relation == "zero_out" and plan.problem.intercept:
        raise InputError("with a constant feature no row stands for a masked record: attack the worst neighbours")
    X = np.tile(_axis(plan, 0), (plan.n, 1))
    sign = plan.problem.loss.traits.labels == "sign"
    y = np.full(plan.n, 1.0 if sign else float(getattr(plan.problem.loss, "target", 0.0)))
    changed = X.copy()
    changed[: _changed(plan)] *= -1.0 if plan.budget.relation == "replace_one" else 0.0
    if mutant.twice:
        changed[_changed(plan)] = changed[0]
    words = f"the plan's own problem, record 0 of {plan.n} turned round or masked"
    return Pair(mutant.plan(plan), (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), y), words, "any")


def _descent_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record against its mirror image or nothing, the others 0, a steep loss, and steps too small to matter.

    Steps are post-processing, which the claim does not depend on. A linear loss a thousand times as steep as the clip
    makes every gradient of the record as long as it may be, and so does a softmax with a margin of 20, whose other
    classes share the gradient evenly at the start. The mirror image has the opposite gradient, and moves the sum of
    rows as far as that goes; with a constant feature only a flipped label turns a gradient round.
    """
    X = np.zeros((plan.n, plan.d))
    loss, problem = plan.problem.loss, plan.problem
    softmax, replaced = isinstance(loss, Softmax), plan.budget.relation == "replace_one"
    y = np.zeros(plan.n) if softmax else np.ones(plan.n)
    used = _changed(plan) + mutant.twice
    X[:used] = _axis(plan, 0)
    changed, labels = X.copy(), y.copy()
    if problem.intercept and not softmax:
        labels[:used] = -1.0 if replaced else 0.0
    else:
        changed[:used] *= -1.0 if replaced else 0.0
    broken = mutant.plan(plan)
    row = problem.row_bound(plan.d).value
    steep = Softmax(loss.classes, 20.0) if softmax else Linear(1e3 * plan.schedule[0].clip / row)  # type: ignore[union-attr]
    still = tuple(replace(s, rate=1e-12 * s.rate) for s in broken.schedule)
    attacked = replace(broken, problem=replace(broken.problem, loss=steep, domain=Everywhere()), schedule=still)
    data = (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), labels)
    words = f"one record against its {'mirror image' if replaced else 'absence'}, the steepest loss"
    # The mean row, where it is released, sets the coordinates of the gradients: no affine function of the noise.
    centred = plan.releases[0].name == "rows"
    return Pair(attacked, *data, words, "any" if centred and problem.intercept else "gaussian", transcript=centred)


def _sampled_pair(plan: Plan, mutant: Mutant) -> Pair:
    """The pair of `_descent_pair`, whose record is in a sample or not: at every step a mixture of two Gaussians."""
    if plan.problem.intercept:
        raise InputError("samples are attacked without a constant feature, which would mix the other records in")
    pair, sound = _descent_pair(plan, mutant), _descent_pair(plan, NONE)
    recipe, sigma = plan.schedule[0], plan.releases[-1].scale
    everyone, start = np.arange(plan.n), np.zeros(plan.problem.weight_shape(plan.d))
    plain, changed = (
        clipped_gradients(sound.plan, open_sums(*data), everyone, start).ravel() / sigma
        for data in (sound.plain, sound.changed)
    )
    q = recipe.probability

    def log_mixture(steps: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.logaddexp(np.log1p(-q) if q < 1.0 else -np.inf, np.log(q) + steps @ mean - mean @ mean / 2.0)

    def statistic(released: np.ndarray) -> np.ndarray:
        steps = released.reshape(len(released), recipe.steps, -1) / sigma
        return np.asarray((log_mixture(steps, changed) - log_mixture(steps, plain)).sum(axis=1))

    return replace(pair, law="any", statistic=statistic, transcript=False, words=f"{pair.words}, sampled")


def _mirror_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record with all features alike, its label flipped or masked, the others 0, a steep loss, steps too small.

    Such a gradient is longest in l2 among those of its l_q norm, and costs most under noise of the shape of l_r too.
    Used twice, the record is the first and the last, in two batches. In a secret order it is in any batch.
    """
    broken, recipe, size = mutant.plan(plan), plan.schedule[0], math.sqrt(plan.d)
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = [0, -1] if mutant.twice else [0]
    X[used] = _LONG * plan.problem.feature_bound.l2(plan.d) / size
    labels = y.copy()
    labels[used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    steep = Linear(1e3 * size * recipe.clip / plan.problem.feature_bound.l2(plan.d))
    still = tuple(replace(s, rate=1e-12 * s.rate) for s in broken.schedule)
    attacked = replace(broken, problem=replace(broken.problem, loss=steep), schedule=still)
    rows = _rows(plan, X, mutant)
    words = f"one record against its {'mirror image' if plan.budget.relation == 'replace_one' else 'absence'}"
    pair = Pair(attacked, (rows, y), (rows, labels), f"{words}, all features alike, the steepest loss")
    release = plan.releases[-1]
    if plan.releases[0].law == SAMPLING and mutant.sampling == 1.0:
        return _hidden_pair(pair)
    if (r := exponent_of(release.law)) is None or mutant.shape == 2.0:  # drawn from the normal law
        return pair
    sound = replace(attacked, schedule=tuple(replace(s, clip=recipe.clip) for s in still))
    plain, changed = (
        run_once(sound, NONE, data, np.zeros(noise_size(sound))).reshape(release.times, -1)
        for data in (pair.plain, pair.changed)
    )

    def statistic(released: np.ndarray) -> np.ndarray:
        steps = released.reshape(len(released), release.times, -1)
        gaps = lp_norms(steps - plain, r) ** 2 - lp_norms(steps - changed, r) ** 2
        return np.asarray(gaps.sum(axis=1) / (2.0 * release.scale**2))

    return replace(pair, law="any", statistic=statistic)


def _hidden_pair(pair: Pair) -> Pair:
    """The same of records in a secret order: a mixture over the batches that may hold the one."""
    release = pair.plan.releases[-1]
    plain, changed = (
        run_once(pair.plan, NONE, data, np.zeros(noise_size(pair.plan))).reshape(release.times, -1).sum(axis=0)
        / release.scale
        for data in (pair.plain, pair.changed)
    )

    def log_mixture(sums: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.asarray(np.logaddexp.reduce(sums @ mean - mean @ mean / 2.0, axis=1))

    def statistic(released: np.ndarray) -> np.ndarray:
        sums = released.reshape(len(released), release.times, -1) / release.scale
        return log_mixture(sums, changed) - log_mixture(sums, plain)

    return replace(pair, law="any", statistic=statistic, words=f"{pair.words}, in a secret order")


def _worst_turn(plan: Plan, mutant: Mutant) -> float:
    """Angle between a row and its replacement that costs most (docs/proofs/moment_sums.md)."""
    scale = {r.name: r.scale for r in mutant.plan(plan).releases}
    row, target = plan.problem.row_bound(plan.d).value, plan.problem.loss.target  # type: ignore[union-attr]
    matrix = 2.0 / scale["second"] ** 2 + 1.0 / scale["eigenvalue"] ** 2
    return math.acos(min(1.0, (target / (row * scale["cross"])) ** 2 / matrix))


def _choice_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record of the steepest loss against its mirror image or nothing, the others 0.

    A linear loss a thousand times as steep as the clip makes every gradient of the record as large as it may be, at
    every point, so that all choices are alike and what matters is how many of them went one way rather than the other.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.audit.mutants import NONE
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    >>> plan = dc.algorithms.FrankWolfe(steps=3).plan(problem, n=6, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> _choice_pair(plan, NONE).statistic(np.array([[0, 0, 1], [1, 1, 1]]))
    array([-1.,  3.])
    """
    broken = mutant.plan(plan)
    size = plan.problem.weight_shape(plan.d)[0]
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = _changed(plan) + mutant.twice
    X[:used, 0], other = 1.0, size
    if isinstance(plan.problem.domain, Simplex) and plan.d > 1:  # no corner lies opposite the first
        X[:used, 1], other = -1.0, 1
    labels = y.copy()
    labels[:used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = Dense(X, 1.0, 0.0, weights=mutant.weights(plan, plan.n))

    def statistic(corners: np.ndarray) -> np.ndarray:
        return np.asarray((corners == other).sum(axis=1) - (corners == 0).sum(axis=1), dtype=float)

    attacked = replace(broken, problem=replace(broken.problem, loss=Linear(1e3 * plan.schedule[0].clip)))
    words = f"one record against its {'mirror image' if plan.budget.relation == 'replace_one' else 'absence'}"
    return Pair(attacked, (rows, y), (rows, labels), f"{words}, the steepest loss", "any", statistic)


def _rounds_pair(plan: Plan, mutant: Mutant, still: bool) -> Pair:
    """The last record of the first round against its mirror image or nothing, the others 0, the steepest loss.

    The first round has the longest column, and what comes after it is the second. A linear loss a thousand times as
    steep as is said makes the record's difference as long as it may be. With a learner that stands still the bounds of
    the rounds are fixed, and the sums are an affine function of the noise. The learner of the plan sets them as it
    moves; then the sums are told apart by the exact likelihood of their increments.
    """
    broken, recipe = mutant.plan(plan), plan.schedule[0]
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    first = int(recipe.batches.values()[0]) - 1
    used = slice(first, first + _changed(plan) + mutant.twice)
    X[used] = _axis(plan, 0)
    labels = y.copy()
    labels[used] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = _rows(plan, X, mutant)
    problem = replace(broken.problem, loss=Linear(1e3 * recipe.lipschitz / plan.problem.row_bound(plan.d).value))
    schedule = broken.schedule
    if still:
        problem = replace(problem, domain=Everywhere())
        schedule = tuple(replace(s, learner=SubgradientDescent(Everywhere(), Fixed(1e-12))) for s in schedule)
    words = f"record {first} of {plan.n}, the steepest loss, {'a learner at rest' if still else 'the learner as it is'}"
    attacked = replace(broken, problem=problem, schedule=schedule)
    return Pair(attacked, (rows, y), (rows, labels), words, transcript=not still)


def _curvature_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record against its like along another axis, or nothing, the others 0, where the loss bends most: at 0."""
    if plan.problem.intercept or any(plan.algorithm.at):  # type: ignore[attr-defined]
        raise InputError("a Hessian is attacked at weights of zero and without a constant feature")
    X, y = np.zeros((plan.n, plan.d)), np.ones(plan.n)
    used = _changed(plan) + mutant.twice
    X[:used] = _axis(plan, 0)
    changed = X.copy()
    changed[:used] = _axis(plan, 1) if plan.budget.relation == "replace_one" else 0.0
    words = f"one record against {'another axis' if plan.budget.relation == 'replace_one' else 'its absence'}"
    return Pair(mutant.plan(plan), (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), y), words)


def _held_out_pair(plan: Plan, mutant: Mutant) -> Pair:
    """One record against the one that moves the metric furthest; rows at their bound have the surest scores."""
    metrics = plan.algorithm.metrics  # type: ignore[attr-defined]
    if plan.budget.relation != "replace_one" or plan.problem.intercept or len(metrics) > 1:
        raise InputError("an evaluation is attacked metric by metric, under replace_one, without a constant feature")
    X, y = np.zeros((plan.n, plan.d)), np.tile([1.0, -1.0], plan.n)[: plan.n]
    used = _changed(plan) + mutant.twice
    if metrics == ("auc",):  # from above all records of the other class to below them
        y[:] = -1.0
    elif metrics[0] in NUMBERS:  # the others are predicted without error
        X = y[:, None] * _axis(plan, 0)
    X[:used], y[:used] = _axis(plan, 0), 1.0
    changed, labels = X.copy(), y.copy()
    if metrics == ("auc",):
        changed[:used] *= -1.0
    elif metrics == ("calibration",):  # wrong at one end of the scale, and at the other
        y[:used], changed[:used] = -1.0, -_axis(plan, 0)
    else:
        labels[:used] = -1.0
    sides = (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), labels)
    spread = metrics == ("r2",)  # its second release depends on the first
    return Pair(
        mutant.plan(plan), *sides, f"one record that moves {metrics[0]} furthest", "any" if spread else "gaussian",
        transcript=spread,
    )  # fmt: skip


def _moment_pair(plan: Plan, mutant: Mutant, turn: float) -> Pair:
    """One record masked, or turned by an angle and given the opposite target; the others along all axes but the first.

    The record's two rows lie at equal angles from the line between the first two axes. The matrix then grows most along
    the first axis, and the smallest eigenvalue follows it, since the others hold it up along every other axis.
    """
    if plan.problem.intercept:
        raise InputError("the moment pair is for plans without a constant feature")
    X, y = np.zeros((plan.n, plan.d)), np.zeros(plan.n)
    used = _changed(plan) + mutant.twice
    for i in range(used, plan.n if plan.d > 1 else used):
        X[i] = _axis(plan, 1 + (i - used) % (plan.d - 1))
    y[:used] = plan.problem.loss.target  # type: ignore[union-attr]
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        X[:used], changed[:used], labels[:used] = _axis(plan, 0), 0.0, 0.0
        words = "record masked"
    else:
        labels[:used] *= -1.0
        first = _axis(plan, 0)  # in one dimension a row cannot turn: it stays, or vanishes for a right angle
        second = _axis(plan, 1) if plan.d > 1 else first * (turn < math.pi / 2)
        for rows, angle in ((X, math.pi / 4 - turn / 2), (changed, math.pi / 4 + turn / 2)):
            rows[:used] = math.cos(angle) * first + math.sin(angle) * second
        words = f"record turned by {math.degrees(turn):.0f} degrees, target reversed"
    data = (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), labels)
    return Pair(mutant.plan(plan), *data, f"moment pair, {words}")


def _perturbed_pair(plan: Plan, mutant: Mutant, kind: str) -> Pair:
    """One record against its mirror or nothing, the others 0, where the density of the minimiser is explicit.

    kind: "label" gives a replaced record another label, "mirror" the opposite row.
    """
    problem = plan.problem
    softmax = isinstance(problem.loss, Softmax)
    X, y = np.zeros((plan.n, plan.d)), np.zeros(plan.n) if softmax else np.ones(plan.n)
    used = _changed(plan) + mutant.twice
    X[:used] = _axis(plan, 0)
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        changed[:used] = 0.0
    elif kind == "mirror":
        changed[:used] *= -1.0
    else:
        labels[:used] = 1.0 if softmax else -1.0
    sigma = plan.releases[0].scale
    plain_records = _distinct(plan, X, y, used)
    changed_records = _distinct(plan, changed, labels, used)

    def statistic(released: np.ndarray) -> np.ndarray:
        return log_density(problem, sigma, *changed_records, released) - log_density(
            problem, sigma, *plain_records, released
        )

    attacked = replace(mutant.plan(plan), problem=replace(mutant.plan(plan).problem, domain=Everywhere()))
    words = f"one record against its {kind if plan.budget.relation == 'replace_one' else 'absence'}"
    data = (_rows(plan, X, mutant), y), (_rows(plan, changed, mutant), labels)
    return Pair(attacked, *data, f"{words}, exact likelihood ratio", "any", statistic)


def _distinct(plan: Plan, X: np.ndarray, y: np.ndarray, used: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The attacked record and one of the others, as the loops see them, with how often each stands in the data."""
    bounded = X[[0, -1]] / _LONG
    rows = np.column_stack([bounded, np.full(2, plan.problem.intercept)]) if plan.problem.intercept else bounded
    return rows, y[[0, -1]], np.array([float(used), float(plan.n - used)])


def log_density(
    problem: Problem, sigma: float, X: np.ndarray, y: np.ndarray, weight: np.ndarray, released: np.ndarray
) -> np.ndarray:
    """Log-density, up to a constant, of the minimiser of the objective tilted by N(0, sigma^2), at released points.

    phi(|gradient| / sigma) times the determinant of the Hessian; with few records a determinant of their number
    (times classes) is enough, by Sylvester's identity.

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
    count, records, size = len(released), len(X), X.shape[1]
    W = released.reshape(count, -1, size)
    Z = np.einsum("nkj,ij->nik", W, X).reshape(count * records, -1)
    labels = np.tile(y, count)
    if isinstance(problem.loss, Softmax):
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


def _axis(plan: Plan, j: int) -> np.ndarray:
    """A row along feature j, twice as long as it may be."""
    row = np.zeros(plan.d)
    row[j] = _LONG * plan.problem.feature_bound.l2(plan.d)
    return row


def _rows(plan: Plan, X: np.ndarray, mutant: Mutant) -> Dense:
    radius = float(plan.problem.feature_bound.l2(plan.d)) * (_LONG if mutant.unbounded else 1.0)
    rows = Dense(X, radius, plan.problem.intercept, mutant.weights(plan, len(X)))
    if plan.claim.unit != PERSON:
        return rows
    everyone = np.arange(len(X))
    return rows._replace(people=everyone if mutant.apart else np.maximum(everyone - 1, 0))
