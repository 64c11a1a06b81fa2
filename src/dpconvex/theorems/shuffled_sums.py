"""Noisy sums over batches in a secret order: amplification by shuffling."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import (
    SAMPLING,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_gaussian,
)
from dpconvex.rounding import up
from dpconvex.theorems.computed_sums import sum_error
from dpconvex.theorems.disjoint_sums import _need_sums, _ratio
from dpconvex.theorems.numerics.shuffling import ShuffledSums
from dpconvex.theorems.schedules import Schedule

BITS = 256  # largest number of bits per record from which an order is drawn


@concludes_claim
def shuffled_sums(
    clip: float, q: float, relation: str, batches: Schedule, order: Release, release: Release
) -> Guarantee:
    """`disjoint_sums` for records in a uniformly random order that stays secret: the better of two curves.

    Gaussian noise on the sum of b records is the sum of independent noise on each. The sums can therefore be computed
    from individually noised vectors in a secret order, which is amplification by shuffling [1]_ [2]_, here for Gaussian
    noise itself. Records are sorted by `order.times` secret fair bits each, and the order is never released. Proof:
    docs/proofs/shuffled_sums.md.

    References
    ----------
    .. [1] Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta (2019), "Amplification by shuffling: from local
       to central differential privacy via anonymity".
    .. [2] Feldman, McMillan, Talwar (2021), "Hiding among the clones: a simple and nearly optimal analysis of privacy
       amplification by shuffling".
    """
    sizes = _need_sums(clip, q, relation, batches, release)
    need_gaussian(release, "release", grid=True)
    n, ratio, blur = int(sizes.sum()), _ratio(clip, q, release), 0.0
    if release.grid is not None:
        blur = order_blur(int(sizes.max()), len(sizes), math.prod(release.shape), ratio)
    if not isinstance(order, Release) or order.law != SAMPLING or order.scale != 0.5 or order.shape != (n,):
        raise HypothesisError(
            f"order must be a Release of law {SAMPLING!r} and scale 0.5: one fair bit per record, kept secret"
        )
    if not 1 <= order.times <= BITS:
        raise HypothesisError(f"order must have between 1 and {BITS} bits per record")
    return Guarantee(ShuffledSums(relation, n, int(sizes.max()), ratio, order.times, blur), relation, Scope.EVERY)


def order_blur(batch: int, steps: int, size: int, ratio: float) -> float:
    """How far rounding moves the sums of all steps together, in units of the noise."""
    blur = up(sum_error(batch, size) * math.sqrt(steps) / ratio)
    if blur > 1e-2:
        raise HypothesisError("rounding moves these sums by more than a hundredth of the noise: take smaller batches")
    return blur
