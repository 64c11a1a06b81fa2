"""Chains of minimisers, each computed to a certified distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Bounded,
    Claim,
    Derivation,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    concludes_fact,
    need_claims,
    need_disjoint,
    need_fact,
    need_gaussian,
    need_one_origin,
    need_positive,
    need_records,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import ULP, round_up, up
from dpconvex.theorems.clipped_sum import gradient_sensitivity
from dpconvex.theorems.noisy_contraction import chain_mu, grid_drifts


def _phase_weights(strong_convexity: Fact, records: range, weight: float) -> tuple[float, float]:
    """Weights of the proximal term of a phase and of its share of the quadratic term."""
    m = need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity")
    if not isinstance(records, range) or records.step != 1 or not len(records):
        raise HypothesisError("records must be a non-empty range of indices (step 1)")
    return need_positive(weight, "weight"), m * len(records)


@concludes_fact
def certified_erm(
    lipschitz: Fact, strong_convexity: Fact, relation: str, records: range, weight: float, distance: float
) -> Bounded:
    """Sensitivity of a point within `distance` of the minimiser of one phase, sum of losses + (weight/2) |w - start|^2.

    The minimiser over any closed convex set moves by at most Delta/m, where m is the weight plus the phase's share of
    l2, and each of the two computed points is within the distance of its minimiser. Losses must be convex but need not
    be smooth. The bound is half of that of Lemma 4.7 of [1]_, and holds without a failure probability.

    References
    ----------
    .. [1] Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time"
       (FKT20).
    """
    check_relation(relation)
    w, ridge = _phase_weights(strong_convexity, records, weight)
    s = gradient_sensitivity(lipschitz, relation) / (w + ridge) + 2.0 * need_positive(distance, "distance")
    return Bounded(Kind.SENSITIVITY, up(s), "certified minimiser of one phase", relation)


@concludes_fact
def certified_drift(distance: float, relation: str) -> Bounded:
    """How much further apart two points computed on the same records can be: twice the certified distance."""
    check_relation(relation)
    drift = up(2.0 * need_positive(distance, "distance"))
    return Bounded(Kind.SENSITIVITY, drift, "two certified minimisers of the same phase", relation)


@concludes_fact
def proximal_contraction(strong_convexity: Fact, records: range, weight: float) -> Bounded:
    """Lipschitz constant of the exact minimiser of one phase in its start: weight / (weight + share of l2)."""
    w, ridge = _phase_weights(strong_convexity, records, weight)
    return Bounded(Kind.CONTRACTION, min(1.0, up(w / (w + ridge))), "minimiser of one phase as a map of its start")


@concludes_claim
def certified_descent(claim: Claim, smoothness: Fact) -> Guarantee:
    """The same claim, whose certificates were computed from gradients of losses that are as smooth as a fact says.

    A point on the sphere of a ball is rounded, which moves the gradient by as much as it can change over that distance.
    For losses of the user's own this is on the word of the user, and so it belongs to what a claim rests on.
    """
    relation, unit = need_claims([claim])
    need_fact(smoothness, Kind.SMOOTHNESS, "smoothness")
    return Guarantee(claim.profile, relation, claim.scope, unit)


def _records_of(fact: Fact) -> range | None:
    """The records that a fact is about, if it says."""
    return fact.derivation.arguments.get("records") if isinstance(fact.derivation, Derivation) else None


@concludes_claim
def certified_chain(
    sensitivities: Sequence[Fact],
    drifts: Sequence[Fact],
    contractions: Sequence[Fact],
    releases: Sequence[Release],
    records: Sequence[range],
) -> Guarantee:
    """Privacy of the last point of a chain of certified minimisers of disjoint records, with noise in between.

    Phase i maps its start to a point within a certified distance of a contraction of the start. A record of phase j
    moves phase j by sensitivities[j]. It moves every later phase i by what the contractions carry over, plus drifts[i]
    (`noisy_contraction` with maps that are contractions up to their drift). Where noisy points are rounded to a grid,
    two starts may be a cell further apart than the points that were rounded, which is part of the next drift.
    """
    steps = len(releases)
    if steps == 0 or not len(sensitivities) == len(drifts) == len(contractions) == len(records) == steps:
        raise HypothesisError("sensitivities, drifts, contractions, releases and records must name every phase")
    s = np.array([need_fact(f, Kind.SENSITIVITY, "sensitivities") for f in sensitivities])
    drift = np.array([need_fact(f, Kind.SENSITIVITY, "drifts") for f in drifts])
    c = np.array([need_fact(f, Kind.CONTRACTION, "contractions") for f in contractions])
    nu = np.array([need_gaussian(r, "releases", grid=True).scale for r in releases])
    if len({r.shape for r in releases}) > 1 or any(r.times != 1 for r in releases):
        raise HypothesisError("releases of one chain must share a shape, and each is drawn once")
    need_records((*sensitivities, *drifts))
    if len({f.relation for f in (*sensitivities, *drifts)}) > 1:
        raise HypothesisError("sensitivities and drifts must be about one relation")
    need_disjoint(records)
    for phase in zip(sensitivities, drifts, contractions, records, strict=True):
        need_one_origin("phase", *phase[:3])
        if any(_records_of(fact) not in (None, phase[3]) for fact in phase[:3]):
            raise HypothesisError("records: a phase has facts about other records than its own")
    if c.max() > 1.0:
        raise HypothesisError("every phase must be a contraction (factor at most 1)")
    drift = (drift + grid_drifts(c, releases)) * (1.0 + 4 * ULP)
    mu = 0.0
    for j in range(steps):
        jumps = np.concatenate([np.zeros(j), s[j : j + 1], drift[j + 1 :]])
        mu = max(mu, chain_mu(jumps, c, nu, 1))
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu)), check_relation(sensitivities[0].relation), Scope.LAST)
