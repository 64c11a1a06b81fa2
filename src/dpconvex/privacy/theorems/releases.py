"""Noise on vectors: one Gaussian release, the moments of a table together, or one a step over secret samples."""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError
from dpconvex.privacy.budget import MOVES, check_relation
from dpconvex.privacy.claims import (
    SAMPLING,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_fact,
    need_gaussian,
    need_one_draw,
    need_positive,
    need_unit,
    unit_of,
)
from dpconvex.privacy.profiles import GDP, SubsampledGaussian
from dpconvex.privacy.theorems.slack import ULP, up
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_down


@concludes_claim
def gaussian(sensitivity: Fact, release: Release) -> Guarantee:
    """Gaussian noise of scale sigma on a vector of sensitivity s is s/sigma-GDP (Dong, Roth, Su 2022, Thm 2.7).

    A release drawn k times is sqrt(k) s/sigma-GDP: each of the k values has that sensitivity, also when it is chosen
    after the earlier ones were released. The claim is about whose change the sensitivity bounds: a record's, or a
    person's.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    if need_gaussian(release, "release").scale == 0.0 and s > 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    mu = up(math.sqrt(release.times) * s / release.scale) if s > 0.0 else 0.0
    return Guarantee(GDP(mu), check_relation(sensitivity.relation), Scope.EVERY, unit_of(sensitivity))


@concludes_claim
def noisy_moments(
    row: Fact,
    target: float,
    relation: str,
    eigenvalue: Release,
    second: Release,
    cross: Release,
    unit: int | str = 1,
) -> Guarantee:
    """Gaussian noise on A = sum x x', its smallest eigenvalue, and v = sum y x, where |x| <= R and |y| <= target.

    No record moves all three as far as each alone. Let s, l and m be R^2, R^2 and R target, each over the scale of the
    noise on A, the eigenvalue and v, and r^2 = 2 s^2 + l^2. If a record is replaced, mu = r + m^2/r where m < r, and
    2 m beyond; if one is masked, mu^2 = s^2 + l^2 + m^2. A is released as its entries on and above the diagonal, those
    above times sqrt 2. With unit "person" each person adds a mean of x x' and y x over his or her rows, or less of
    them. Proof: docs/proofs/moment_sums.md.
    """
    check_relation(relation)
    need_unit(unit)
    radius, bound = need_fact(row, Kind.ROW_BOUND, "row"), need_positive(target, "target")
    size = math.prod(need_one_draw(cross, "cross").shape)
    shapes = {"eigenvalue": (1,), "second": (size * (size + 1) // 2,), "cross": (size,)}
    for name, release in (("eigenvalue", eigenvalue), ("second", second), ("cross", cross)):
        if need_one_draw(release, name).shape != shapes[name]:
            raise HypothesisError(f"{name} must have the shape {shapes[name]}, got {release.shape}")
    m, s, ell = radius * bound / cross.scale, radius * radius / second.scale, radius * radius / eigenvalue.scale
    if relation == "zero_out":
        mu = math.hypot(m, s, ell)
    else:
        r = math.hypot(s, s, ell)
        mu = r + m * (m / r) if m < r else 2.0 * m
    return Guarantee(GDP(up(mu)), relation, Scope.EVERY, unit)


@concludes_claim
def poisson_subsampling(
    clip: float, relation: str, sample: Release, release: Release, unit: int | str = 1
) -> Guarantee:
    """Sums over Poisson samples of one vector a record, each shortened to l2 norm `clip`, plus Gaussian noise.

    At each step every record is chosen on its own with the probability of `sample`, afresh; who was chosen is never
    released. The sums may depend on what earlier steps released. Covers every noisy sum. (Dominating pairs: Zhu,
    Dong, Wang 2022; here also for a record that is replaced.) With unit "person" it is one vector a person, and people
    are chosen: see docs/proofs/people.md.
    """
    check_relation(relation)
    need_unit(unit)
    c, noise = need_positive(clip, "clip"), need_gaussian(release, "release")
    if not isinstance(sample, Release) or sample.law != SAMPLING or len(sample.shape) != 1 or sample.shape[0] < 1:
        raise HypothesisError(f"sample must be a Release of law {SAMPLING!r}, one choice a record")
    if not 0.0 < sample.scale <= 1.0:
        raise HypothesisError("sample: the probability must lie in (0, 1]")
    if sample.times != noise.times:
        raise HypothesisError("sample and release must be drawn equally often, once a step")
    if noise.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    ratio = round_down(noise.scale / c * (1.0 - 4 * ULP))
    if sample.scale == 1.0:  # every record takes part: a Gaussian release each step
        return Guarantee(GDP(up(math.sqrt(noise.times) * MOVES[relation] / ratio)), relation, Scope.EVERY, unit)
    return Guarantee(SubsampledGaussian(relation, sample.scale, ratio, noise.times), relation, Scope.EVERY, unit)
