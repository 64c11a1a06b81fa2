"""Noisy SGD: its last point, every point, and records in a random order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    ORDER,
    Claim,
    Derivation,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_claims,
    need_fact,
    need_gaussian,
    need_one_draw,
    need_positive,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import ULP, round_up
from dpconvex.theorems.clipped_sum import gradient_sensitivity
from dpconvex.theorems.computed_steps import Steps, need_about, need_grids, steps_of, walk_drifts, walk_grids
from dpconvex.theorems.noisy_contraction import chain_mu, grid_drifts
from dpconvex.theorems.numerics.mixtures import Mixture
from dpconvex.theorems.schedules import Schedule, check_schedule
from dpconvex.theorems.stable_sgd import iterate_weights, pass_influences, step_contractions


def noise_shape(eta: np.ndarray, noise: Schedule | float) -> np.ndarray:
    """Noise of every step in units of the largest, from a schedule or from a number tau in [0, 1].

    With tau the variance of step t is in proportion to tau eta_t^2 + (1 - tau) (eta_t^2 - eta_{t+1}^2). For tau = 1 the
    noise is proportional to the steps. For tau = 0 each step adds only the noise that later, smaller steps do not.

    Examples
    --------
    >>> noise_shape(np.array([1.0, 0.6]), 0.0)
    array([1.  , 0.75])
    """
    if isinstance(noise, int | float):
        if not 0.0 <= noise <= 1.0:
            raise HypothesisError(f"noise must be a schedule or a number in [0, 1], got {noise:g}")
        squares = eta**2
        falls = np.maximum(squares - np.append(squares[1:], 0.0), 0.0)
        shape = np.sqrt(noise * squares + (1.0 - noise) * falls)
    else:
        shape = check_schedule(noise, "noise")
        if len(shape) != len(eta):
            raise HypothesisError("noise must hold a value for every step")
    return np.asarray(shape / shape.max()) if shape.max() > 0.0 else shape


def _influences(
    lipschitz: Fact, relation: str, records: range, batches: Schedule, steps: Schedule
) -> tuple[np.ndarray, np.ndarray, int]:
    """Step sizes, the distance by which a changed record moves each step, and the number of batches."""
    check_relation(relation)
    eta, sizes = check_schedule(steps, "steps"), check_schedule(batches, "batches")
    if (sizes < 1.0).any() or (sizes != np.floor(sizes)).any():
        raise HypothesisError("batches must be whole numbers of at least 1")
    if not isinstance(records, range) or records.step != 1 or len(records) != int(sizes.sum()):
        raise HypothesisError("records must be the range of indices that the batches divide completely")
    if len(eta) % len(sizes):
        raise HypothesisError("steps must go through the batches a whole number of times")
    moves = gradient_sensitivity(lipschitz, relation) * eta / np.tile(sizes, len(eta) // len(sizes))
    return eta, moves, len(sizes)


@concludes_claim
def noisy_sgd(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    records: range,
    batches: Schedule,
    steps: Schedule,
    noise: Schedule | float,
    walk: Release | None,
    end: Release,
    row: Fact | None = None,
    reach: float | None = None,
) -> Guarantee:
    """Privacy of the last point of projected noisy SGD over batches fixed in advance, used in turn.

    Step t moves the point along the mean gradient of batch t mod len(batches), adds noise and projects. The noise of
    every step but the last is the next row of `walk` times `noise_shape`; that of the last is `end`. Averages and
    earlier points are not covered. This is `noisy_contraction` with schedules in place of lists. Theorem 3.1 of [1]_ is
    the case of one pass over convex losses, as a bound on Renyi divergences.

    Releases on a grid are those of computed steps: noisy points are rounded to the grid of `walk`, exactly, and then
    projected onto a ball or a box within `reach` of the origin. That, and the rounding of every step, is charged as
    drift (docs/proofs/computed_steps.md).

    References
    ----------
    .. [1] Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time"
       (FKT20).
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    c = step_contractions(smoothness, strong_convexity, eta)
    computed = end.grid is not None if isinstance(end, Release) else False
    last, shape = need_one_draw(end, "end", grid=computed), noise_shape(eta, noise)
    rows = 0
    if walk is not None:
        if (need_gaussian(walk, "walk", grid=computed).grid is None) == computed:
            raise HypothesisError("walk and end must both lie on a grid, or neither")
        if walk.shape[1:] != last.shape:
            raise HypothesisError("walk must hold rows of the shape of end")
        rows = walk.times * walk.shape[0]
    if rows < len(eta) - 1:
        raise HypothesisError("walk must hold a row of noise for every step but the last")
    nu = np.append((walk.scale if walk is not None else 0.0) * shape[:-1], last.scale)
    mu = chain_mu(s, c, nu, period)
    if computed:
        how = need_steps(lipschitz, row, smoothness, strong_convexity, last, reach)
        grids = np.zeros(len(eta))
        if walk is not None:
            grids = walk_grids(shape, float(walk.grid or 0.0), farthest(lipschitz, eta, how.reach))
            need_grids(nu[:-1], grids[:-1])
        mu += chain_mu(walk_drifts(how, eta, _tiled(batches, len(eta)), c, grids), c, nu, 1)
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu * (1.0 + 32 * ULP))), relation, Scope.LAST)


def farthest(lipschitz: Fact, steps: np.ndarray, reach: float) -> float:
    """Largest norm of a point before its projection and its noise."""
    return reach + float(steps.max()) * need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz")


def grid_cost(smoothness: Fact, strong_convexity: Fact, steps: np.ndarray, noise: np.ndarray, numbers: int) -> float:
    """What the grids of a walk would add to mu if they were as wide as the noise."""
    c = step_contractions(smoothness, strong_convexity, steps)
    return chain_mu(np.append(0.0, c[1:] * noise[:-1] * math.sqrt(numbers)), c, noise, 1)


def need_steps(
    lipschitz: Fact,
    row: Fact | None,
    smoothness: Fact | None,
    strong_convexity: Fact | None,
    release: Release,
    reach: float | None,
) -> Steps:
    """What rounding in the steps of a walk depends on; all of it but the smoothness must be stated."""
    if row is None or reach is None or strong_convexity is None:
        raise HypothesisError(
            "computed steps: state row, the row bound, reach, the largest norm of their points, and strong_convexity"
        )
    size = math.prod(release.shape)
    return steps_of(lipschitz, row, smoothness, strong_convexity, size, need_positive(reach, "reach"))


def _tiled(batches: Schedule, steps: int) -> np.ndarray:
    """Size of the batch of every step."""
    sizes = check_schedule(batches, "batches")
    return np.tile(sizes, steps // len(sizes))


@concludes_claim
def noisy_steps(
    lipschitz: Fact,
    relation: str,
    records: range,
    batches: Schedule,
    steps: Schedule,
    noise: Schedule | float,
    release: Release,
    row: Fact | None = None,
    reach: float | None = None,
    strong_convexity: Fact | None = None,
) -> Guarantee:
    """Privacy of every point of noisy SGD over batches fixed in advance, used in turn: composition.

    Step t releases the point it moved to, before projection and divided by its `noise_shape`, plus `release`. For a
    record, the squared costs of the steps that use its batch add up. Only gradients need to be bounded. What is
    computed from the released points, such as an average, costs nothing more.

    A release on a grid is that of computed steps, from points within `reach` of the origin: their rounding moves every
    step, whether it uses the record or not.
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    shape = noise_shape(eta, noise)
    if need_gaussian(release, "release", grid=True).scale == 0.0 or (shape[s > 0.0] == 0.0).any():
        raise HypothesisError("every step that moves must have noise, because every point is released")
    if release.times != len(eta):
        raise HypothesisError("release must be drawn once per step")
    cost = np.divide(s, release.scale * shape, out=np.zeros_like(s), where=s > 0.0)
    mu = math.sqrt(float((cost.reshape(-1, period) ** 2).sum(axis=0).max()))
    if release.grid is not None:
        off = need_steps(lipschitz, row, None, strong_convexity, release, reach).visible(eta, _tiled(batches, len(eta)))
        still = np.divide(2.0 * off, release.scale * shape, out=np.zeros_like(off), where=shape > 0.0)
        mu += math.sqrt(float((still**2).sum()))
    return Guarantee(GDP(round_up(mu * (1.0 + (len(eta) + 32) * ULP))), relation, Scope.EVERY)


@concludes_claim
def secret_order(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    passes: Sequence[Schedule],
    sizes: Sequence[int],
    weighting: str,
    batch: int,
    releases: Sequence[Release],
    order: Release,
    drifts: Sequence[Fact] | None = None,
) -> Guarantee:
    """Privacy of the last point of passes of projected SGD over records in a uniformly random order that stays secret.

    Pass i uses the next sizes[i] records, at least `batch` per step, averages its iterates and adds releases[i]. If the
    order is known, the guarantee for a record depends on its place. If the order is secret, the curve delta(epsilon) is
    the mean of the curves over all places, because the divergence is jointly convex.

    Releases on a grid need drifts, as in `noisy_contraction`: their cost joins that of every place.
    """
    if not passes or not len(passes) == len(sizes) == len(releases):
        raise HypothesisError("passes, sizes and releases must name every pass, at least one")
    if need_order(order).shape[0] != sum(sizes):
        raise HypothesisError("order must hold one place per record")
    facts = lipschitz, smoothness, strong_convexity
    gamma, needed, mus, counts, factors = 1.0, 0.0, [], [], []
    for steps, size, release in zip(reversed(passes), reversed(sizes), reversed(releases), strict=True):
        scale = need_gaussian(release, "releases", grid=drifts is not None).scale
        if release.shape != releases[0].shape or release.times != 1:
            raise HypothesisError("releases of one chain must share a shape, and be drawn once each")
        moves = pass_influences(*facts, relation, steps, weighting, batch)
        if not len(moves) * batch <= size:
            raise HypothesisError("sizes must hold the records of every step")
        needed += (gamma * scale) ** 2
        if needed == 0.0:
            raise HypothesisError("some record is followed by no noise at all")
        slack = 1.0 + (len(moves) + 64) * 2 * ULP
        mus.append(gamma * moves / math.sqrt(needed) * slack)
        share, more = divmod(size, len(moves))  # batch sizes differ by at most one, larger batches last
        counts.append(np.append(np.full(len(moves) - more, share), np.full(more, share + 1)))
        eta = check_schedule(steps, "steps")
        c = step_contractions(smoothness, strong_convexity, eta)
        factors.append(min(1.0, float(iterate_weights(eta, weighting) @ np.cumprod(c)) * slack))
        gamma *= factors[-1]
    places = np.concatenate(mus)
    if drifts is not None:
        if len(drifts) != len(passes) or any(fact.relation != relation for fact in drifts):
            raise HypothesisError("drifts must name every pass, about the relation")
        for fact, release, steps in zip(drifts, releases, passes, strict=True):
            need_about(fact, release, *facts)
            if isinstance(fact.derivation, Derivation) and fact.derivation.arguments.get("steps", steps) != steps:
                raise HypothesisError("drifts must be about the steps of their passes")
        kept = np.array(factors[::-1])
        moved = np.array([need_fact(f, Kind.SENSITIVITY, "drifts") for f in drifts]) + grid_drifts(kept, releases)
        noise = np.array([release.scale for release in releases])
        places = (places + chain_mu(moved, kept, noise, 1)) * (1.0 + 16 * ULP)
    return Guarantee(Mixture.of(places, np.concatenate(counts)), relation, Scope.LAST)


@concludes_claim
def shuffled(claim: Claim, order: Release) -> Guarantee:
    """A run on the records in a random order that does not depend on them keeps its claim.

    The order is uniformly random, drawn without looking at the records. Two data sets that differ in one place also
    differ in one place after reordering, so the claim holds given the order, whether or not the order is released.
    """
    relation, unit = need_claims([claim])
    need_order(order)
    return Guarantee(claim.profile, relation, claim.scope, unit)


def need_order(order: object) -> Release:
    """Return a release that is a random order of records, drawn once."""
    if not isinstance(order, Release) or order.law not in (ORDER, "gaussian") or order.times != 1:  # earlier receipts
        raise HypothesisError(f"order must be a Release of law {ORDER!r}, drawn once")
    if len(order.shape) != 1:
        raise HypothesisError("order must hold one place per record")
    return order
