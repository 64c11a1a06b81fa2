"""Budgets that noise of bounded support cannot keep.

Noise of releases without a grid is made of float64 variates, none beyond 9.16 standard deviations, while claims are
about laws without bounds. No algorithm of the library has such a release. Proof of what they cost:
docs/proofs/bounded_support.md.
"""

from __future__ import annotations

import math
from typing import Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release
from dpconvex.theorems.laplace import LAPLACE
from dpconvex.theorems.numerics.repeated import SLOPES, mean_count

BEYOND: Final = 2.0**-64  # mass of a normal law beyond the largest variates of 63 bits and a sign, on both sides
SHARE: Final = 0.01  # of delta, that the bounded support of all variates together may add at most


def bounded_variates(claim: Claim) -> float:
    """How many variates of bounded support a run of the claim draws, on average over secret numbers of repetitions.

    Examples
    --------
    >>> from dpconvex.kernel.claims import Release
    >>> from dpconvex.theorems import clipped_sum, gaussian
    >>> bounded_variates(gaussian(clipped_sum(1.0, "zero_out"), Release("sum", "gaussian", 5.0, (4,), 20)))
    80.0
    """
    runs = math.prod(mean_count(r.law, r.scale) for r in claim.releases if r.law in SLOPES)
    return runs * sum(_variates(r) for r in claim.releases)


def _variates(release: Release) -> float:
    return (
        float(release.times * math.prod(release.shape)) if release.law == "gaussian" and release.grid is None else 0.0
    )


def need_support(claim: Claim, budget: Budget) -> None:
    """Refuse a budget that the bounded support of such noise could exceed by more than a hundredth of delta.

    Laplace noise without a grid is refused under every budget: what float64 cannot reach has no ratio.
    """
    if any(r.law == LAPLACE and r.grid is None for r in claim.releases):
        raise HypothesisError("Laplace noise has to lie on a grid: sums in float64 are impossible under a neighbour")
    count = bounded_variates(claim)
    more = math.log(max(count, 1e-300) * BEYOND) + float(budget.epsilon) + math.log1p(math.exp(-budget.epsilon))
    if count and not (budget.delta and more <= math.log(SHARE * budget.delta)):
        raise HypothesisError(
            f"float64 noise cannot keep epsilon = {budget.epsilon:g} at delta = {budget.delta:g}: none of its "
            f"{count:.3g} variates lies beyond 9.16 standard deviations, which may cost a delta of "
            f"{math.exp(min(more, 0.0)):.2g}. Take a smaller epsilon, a larger delta, fewer variates, or a grid "
            "for the release"
        )
