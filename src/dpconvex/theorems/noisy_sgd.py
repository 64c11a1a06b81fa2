"""Noisy SGD: its last point, every point, and records in a random order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Claim,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_claims,
    need_gaussian,
    need_one_draw,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact
from dpconvex.rounding import ULP, round_up
from dpconvex.theorems.clipped_sum import gradient_sensitivity
from dpconvex.theorems.noisy_contraction import chain_mu
from dpconvex.theorems.numerics.mixtures import Mixture
from dpconvex.theorems.schedules import Schedule, check_schedule
from dpconvex.theorems.stable_sgd import iterate_weights, pass_influences, step_contractions


def noise_shape(eta: np.ndarray, noise: Schedule | float) -> np.ndarray:
    """Noise of every step up to a common factor, from a schedule or from a number tau in [0, 1].

    With tau the variance of step t is tau eta_t^2 + (1 - tau) (eta_t^2 - eta_{t+1}^2). For tau = 1 the noise is
    proportional to the steps. For tau = 0 each step adds only the noise that later steps, which are smaller, do not.

    Examples
    --------
    >>> noise_shape(np.array([1.0, 0.6]), 0.0)
    array([0.8, 0.6])
    """
    if isinstance(noise, int | float):
        if not 0.0 <= noise <= 1.0:
            raise HypothesisError(f"noise must be a schedule or a number in [0, 1], got {noise:g}")
        squares = eta**2
        falls = np.maximum(squares - np.append(squares[1:], 0.0), 0.0)
        return np.asarray(np.sqrt(noise * squares + (1.0 - noise) * falls))
    shape = check_schedule(noise, "noise")
    if len(shape) != len(eta):
        raise HypothesisError("noise must hold a value for every step")
    return shape


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
) -> Guarantee:
    """Privacy of the last point of projected noisy SGD over batches fixed in advance, used in turn.

    Step t moves the point along the mean gradient of batch t mod len(batches), adds noise and projects. The noise of
    every step but the last is the next row of `walk` times `noise_shape`; that of the last is `end`. Averages and
    earlier points are not covered. This is `noisy_contraction` with schedules in place of lists. Theorem 3.1 of [1]_ is
    the case of one pass over convex losses, as a bound on Renyi divergences.

    References
    ----------
    .. [1] Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time"
       (FKT20).
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    c = step_contractions(smoothness, strong_convexity, eta)
    last, shape = need_one_draw(end, "end"), noise_shape(eta, noise)
    rows = 0
    if walk is not None:
        if need_gaussian(walk, "walk").shape[1:] != last.shape:
            raise HypothesisError("walk must hold rows of the shape of end")
        rows = walk.times * walk.shape[0]
    if rows < len(eta) - 1:
        raise HypothesisError("walk must hold a row of noise for every step but the last")
    nu = np.append((walk.scale if walk is not None else 0.0) * shape[:-1], last.scale)
    mu = chain_mu(s, c, nu, period)
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu * (1.0 + 32 * ULP))), relation, Scope.LAST)


@concludes_claim
def noisy_steps(
    lipschitz: Fact,
    relation: str,
    records: range,
    batches: Schedule,
    steps: Schedule,
    noise: Schedule | float,
    release: Release,
) -> Guarantee:
    """Privacy of every point of noisy SGD over batches fixed in advance, used in turn: composition.

    Step t releases the point it moved to, before projection and divided by its `noise_shape`, plus `release`. For a
    record, the squared costs of the steps that use its batch add up. Only gradients need to be bounded. What is
    computed from the released points, such as an average, costs nothing more.
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    shape = noise_shape(eta, noise)
    if need_gaussian(release, "release").scale == 0.0 or (shape[s > 0.0] == 0.0).any():
        raise HypothesisError("every step that moves must have noise, because every point is released")
    if release.times != len(eta):
        raise HypothesisError("release must be drawn once per step")
    cost = np.divide(s, release.scale * shape, out=np.zeros_like(s), where=s > 0.0)
    mu = math.sqrt(float((cost.reshape(-1, period) ** 2).sum(axis=0).max()))
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
) -> Guarantee:
    """Privacy of the last point of passes of projected SGD over records in a uniformly random order that stays secret.

    Pass i uses the next sizes[i] records, at least `batch` per step, averages its iterates and adds releases[i]. If the
    order is known, the guarantee for a record depends on its place. If the order is secret, the curve delta(epsilon) is
    the mean of the curves over all places, because the divergence is jointly convex.
    """
    if not passes or not len(passes) == len(sizes) == len(releases):
        raise HypothesisError("passes, sizes and releases must name every pass, at least one")
    if len(need_one_draw(order, "order").shape) != 1 or order.shape[0] != sum(sizes):
        raise HypothesisError("order must hold one variate per record")
    facts = lipschitz, smoothness, strong_convexity
    gamma, needed, mus, counts = 1.0, 0.0, [], []
    for steps, size, release in zip(reversed(passes), reversed(sizes), reversed(releases), strict=True):
        noise = need_gaussian(release, "releases").scale
        if release.shape != releases[0].shape or release.times != 1:
            raise HypothesisError("releases of one chain must share a shape, and be drawn once each")
        moves = pass_influences(*facts, relation, steps, weighting, batch)
        if not len(moves) * batch <= size:
            raise HypothesisError("sizes must hold the records of every step")
        needed += (gamma * noise) ** 2
        if needed == 0.0:
            raise HypothesisError("some record is followed by no noise at all")
        slack = 1.0 + (len(moves) + 64) * 2 * ULP
        mus.append(gamma * moves / math.sqrt(needed) * slack)
        share, more = divmod(size, len(moves))  # batch sizes differ by at most one, larger batches last
        counts.append(np.append(np.full(len(moves) - more, share), np.full(more, share + 1)))
        eta = check_schedule(steps, "steps")
        c = step_contractions(smoothness, strong_convexity, eta)
        gamma *= min(1.0, float(iterate_weights(eta, weighting) @ np.cumprod(c)) * slack)
    profile = Mixture.of(np.concatenate(mus), np.concatenate(counts))
    return Guarantee(profile, relation, Scope.LAST)


@concludes_claim
def shuffled(claim: Claim, order: Release) -> Guarantee:
    """A run on the records in a random order that does not depend on them keeps its claim.

    The order is that of independent Gaussian variates, one per record. Two data sets that differ in one place also
    differ in one place after reordering, so the claim holds given the order, whether or not the order is released.
    """
    relation, unit = need_claims([claim])
    if len(need_one_draw(order, "order").shape) != 1:
        raise HypothesisError("order must hold one variate per record")
    return Guarantee(claim.profile, relation, claim.scope, unit)
