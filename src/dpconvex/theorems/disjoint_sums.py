"""Noisy sums over disjoint batches of records."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_gaussian,
    need_positive,
)
from dpconvex.kernel.profiles import GDP, Concentrated
from dpconvex.rounding import ULP, round_down, up
from dpconvex.theorems.computed_sums import sum_error
from dpconvex.theorems.generalised_gaussian import exponent_of
from dpconvex.theorems.schedules import Schedule, check_schedule


@concludes_claim
def disjoint_sums(
    clip: float, q: float, relation: str, records: range, batches: Schedule, release: Release
) -> Guarantee:
    """Noisy sums over consecutive batches, one per batch, of one vector per record with l_q norm at most `clip`.

    Each record is in one batch, fixed in advance, so all sums together cost as much as one: s/sigma-GDP for Gaussian
    noise, where s = moves clip d^(1/2 - 1/q) for q >= 2 and s = moves clip otherwise, or rho-zCDP as in
    `generalised_gaussian`. The vectors may depend on what earlier batches released. Where the release lies on a grid,
    sums as float64 computes them are meant. Proof: docs/proofs/disjoint_sums.md.
    """
    sizes = _need_sums(clip, q, relation, batches, release)
    if not isinstance(records, range) or records.step != 1 or len(records) != int(sizes.sum()):
        raise HypothesisError("records must be the range of indices that the batches divide completely")
    # A changed record moves the sum of its batch, and rounding, twice the error of a sum, that of every batch.
    wrong = 2.0 * sum_error(int(sizes.max()), math.prod(release.shape)) if release.grid is not None else 0.0
    moves = math.hypot(MOVES[relation] + wrong, wrong * math.sqrt(len(sizes) - 1))
    r = exponent_of(release.law)
    if r is None:
        gaussian = need_gaussian(release, "release", grid=True)
        return Guarantee(GDP(up(moves / _ratio(clip, q, gaussian))), relation, Scope.EVERY)
    if not 2.0 <= r < math.inf:
        raise HypothesisError("a generalised Gaussian law needs a finite r of at least 2")
    moved = moves / _ratio(clip, q, release, r)
    return Guarantee(Concentrated(up((r - 1.0) * moved * moved / 2.0)), relation, Scope.EVERY)


def _need_sums(clip: float, q: float, relation: str, batches: Schedule, release: Release) -> np.ndarray:
    """Check the arguments and return the sizes of the batches."""
    check_relation(relation)
    need_positive(clip, "clip")
    if isinstance(q, bool) or not (isinstance(q, int | float) and 1.0 <= q < math.inf):
        raise HypothesisError(
            "q must be the exponent of a norm, finite and at least 1; entries within c have l2 norm c d^(1/2): "
            "state that, with q = 2"
        )
    sizes = check_schedule(batches, "batches")
    if (sizes < 1.0).any() or (sizes != np.floor(sizes)).any():
        raise HypothesisError("batches must be whole numbers of at least 1")
    if not isinstance(release, Release):
        raise HypothesisError(f"release must be a Release, got {type(release).__name__}")
    if release.times != len(sizes):
        raise HypothesisError("release must be drawn once per batch")
    if release.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    return sizes


def _ratio(clip: float, q: float, release: Release, r: float = 2.0) -> float:
    """Lower bound on the scale of the noise divided by the largest l_r norm of a vector of l_q norm `clip`."""
    stretch = float(math.prod(release.shape)) ** max(0.0, 1.0 / r - 1.0 / q) * (1.0 + 1e-14)
    return round_down(release.scale / (stretch * clip) * (1.0 - 8 * ULP))
