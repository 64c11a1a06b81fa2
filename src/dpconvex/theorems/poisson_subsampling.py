"""Noisy sums over Poisson samples of the records."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    SAMPLING,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_gaussian,
    need_positive,
    need_unit,
)
from dpconvex.kernel.curves import (
    Array,
    Curve,
    symmetric,
)
from dpconvex.kernel.profiles import GDP, Numeric
from dpconvex.rounding import ULP, round_down, up
from dpconvex.theorems.computed_sums import computed_clip

# dp-accounting rounds to the safe side wherever it discretises or truncates, but convolves by FFT in float64. The
# error of that was measured as at most about 3e-17 per step (docs/proofs/poisson_subsampling.md), and this is added.
_FFT_SLACK = 1e-15


@dataclass(frozen=True)
class SubsampledGaussian(Numeric):
    """Noisy sums over Poisson samples: each record takes part with a given probability in each of `steps` steps.

    Under both relations `ratio` is the scale of the noise divided by the largest norm of one record's contribution; a
    replaced record moves a sum that contains it by twice that norm. Steps are composed by the privacy loss
    distributions of dp-accounting. The curve is computed, not stored.

    Examples
    --------
    >>> round(SubsampledGaussian("zero_out", 0.01, 1.0, 1000).epsilon(1e-6), 2)
    2.12
    >>> round(SubsampledGaussian("replace_one", 0.01, 1.0, 1000).epsilon(1e-6), 2)
    3.21
    """

    relation: str
    probability: float
    ratio: float
    steps: int

    def curve(self) -> Curve:
        """Upper bound on delta at every real epsilon."""
        loss, slack = _sampled_loss(self), _FFT_SLACK * (self.steps + 1)

        def forward(e: Array) -> Array:
            order = np.argsort(e)
            out = np.empty_like(e)
            out[order] = loss.get_delta_for_epsilon(e[order])
            return np.asarray(np.clip(out, 0.0, 1.0) * (1.0 + 1e-9) + slack)

        return symmetric(forward)


@functools.lru_cache(maxsize=64)
def _sampled_loss(profile: SubsampledGaussian) -> Any:
    """Privacy loss distribution of all steps. dp-accounting reads REPLACE_ONE as we do: two opposite contributions."""
    from dp_accounting.pld import privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    replaced = profile.relation == "replace_one"
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
    # A sixteenth of the standard deviation of one step's loss costs less than 0.1% of epsilon. It is a power of two,
    # to be the same on every machine.
    spread = (2.0 if replaced else 1.0) * profile.probability / profile.ratio
    interval = min(math.ldexp(1.0, math.floor(math.log2(spread / 16.0))), 2.0**-7)
    one = privacy_loss_distribution.from_gaussian_mechanism(
        profile.ratio,
        sampling_prob=profile.probability,
        value_discretization_interval=interval,
        neighboring_relation=relation,
    )
    return one.self_compose(profile.steps)


@concludes_claim
def poisson_subsampling(
    clip: float, relation: str, sample: Release, release: Release, unit: int | str = 1
) -> Guarantee:
    """Sums over Poisson samples of one vector per record, each shortened to l2 norm `clip`, plus Gaussian noise.

    At each step every record is chosen independently with the probability of `sample`; samples are never released. The
    sums may depend on what earlier steps released, and all of them may be released. The proof uses dominating pairs
    [1]_, here also for replaced records. With unit "person" there is one vector per person, and people are sampled: see
    docs/proofs/people.md. Where the release lies on a grid, twice the rounding of a sum over all records is added to
    `clip` (`computed_clip`).

    References
    ----------
    .. [1] Zhu, Dong, Wang (2022), "Optimal accounting of differential privacy via characteristic function".
    """
    check_relation(relation)
    need_unit(unit)
    c, noise = need_positive(clip, "clip"), need_gaussian(release, "release", grid=True)
    if not isinstance(sample, Release) or sample.law != SAMPLING or len(sample.shape) != 1 or sample.shape[0] < 1:
        raise HypothesisError(f"sample must be a Release of law {SAMPLING!r}, one choice per record")
    if not 0.0 < sample.scale <= 1.0:
        raise HypothesisError("sample: the probability must lie in (0, 1]")
    if sample.times != noise.times:
        raise HypothesisError("sample and release must be drawn equally often, once per step")
    if noise.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    if noise.grid is not None:
        c = computed_clip(c, sample.shape[0], math.prod(noise.shape))
    ratio = round_down(noise.scale / c * (1.0 - 4 * ULP))
    if sample.scale == 1.0:  # every record takes part: a Gaussian release each step
        return Guarantee(GDP(up(math.sqrt(noise.times) * MOVES[relation] / ratio)), relation, Scope.EVERY, unit)
    return Guarantee(SubsampledGaussian(relation, sample.scale, ratio, noise.times), relation, Scope.EVERY, unit)
