"""New claims from given ones: parallel and sequential composition, post-processing, group privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import PERSON, Claim, Guarantee, Scope, concludes_claim, need_claims, need_disjoint
from dpconvex.kernel.profiles import GDP, ApproxDP, Composite, Concentrated, Grouped, Largest, Profile
from dpconvex.rounding import ULP, up

_ORDER = (Scope.LAST, Scope.EVERY)


@concludes_claim
def parallel(claims: Sequence[Claim], records: Sequence[range]) -> Guarantee:
    """Parallel composition: claims about disjoint ranges of record indices, fixed in advance, cost the largest of them.

    This holds for ranges of indices only. If records were split by value, a replaced record could move to another part.
    Later claims may depend on what earlier ones released.
    """
    relation, unit = need_claims(claims)
    if len(records) != len(claims):
        raise HypothesisError("records must hold one non-empty range of indices (step 1) per claim")
    need_disjoint(records)
    if unit != 1:
        raise HypothesisError("claims about groups of records do not compose in parallel: a group can span the ranges")
    return Guarantee(_combine(claims, max, max, Largest), relation, _least_scope(claims))


@concludes_claim
def compose(claims: Sequence[Claim]) -> Guarantee:
    """Sequential composition of claims about the same records.

    For GDP the squares of mu add up [1]_; rho and (epsilon, delta) add up. This also holds if each mechanism depends on
    what the earlier ones released, and as a filter: stop before the sum of the squares of mu would exceed the budget,
    however the next mechanism was chosen. Other profiles, and mixtures, compose as curves. These hold for mechanisms
    that depend on earlier releases, but not as a filter.

    References
    ----------
    .. [1] Dong, Roth, Su (2022), "Gaussian differential privacy", Corollary 3.3.
    """
    relation, unit = need_claims(claims)
    return Guarantee(
        _combine(claims, lambda mus: up(math.hypot(*mus)), lambda parts: up(math.fsum(parts)), Composite),
        relation,
        _least_scope(claims),
        unit,
    )


@concludes_claim
def post_process(claim: Claim, how: str) -> Guarantee:
    """Post-processing: what is computed from a release without the data costs nothing more."""
    relation, unit = need_claims([claim])
    if not isinstance(how, str):
        raise HypothesisError("how must describe in words what is done to the release")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def fresh_run(claim: Claim, label: str) -> Guarantee:
    """The same claim for one of several runs with independent noise: its releases are renamed to label/name."""
    relation, unit = need_claims([claim])
    if not isinstance(label, str) or not label:
        raise HypothesisError("label must name the run")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def group(claim: Claim, size: int) -> Guarantee:
    """Group privacy for `size` records of one person: mu is multiplied by the size [1]_, and rho by its square.

    Other profiles chain `size` steps of epsilon/size each.

    References
    ----------
    .. [1] Dong, Roth, Su (2022), "Gaussian differential privacy", Theorem 2.14.
    """
    relation, unit = need_claims([claim])
    return Guarantee(_chained(claim.profile, _need_size(size)), relation, claim.scope, size * unit)


@concludes_claim
def rows_of_person(claim: Claim, size: int) -> Guarantee:
    """A claim about all the rows of one person, restated for any `size` of these rows, which stay that person's.

    Replacing some of the rows of a person is one change of the rows of that person. Masking some of them takes two
    steps: masking the person, then unmasking the other rows. (docs/proofs/people.md)
    """
    relation, unit = need_claims([claim])
    if unit != PERSON:
        raise HypothesisError("claim must be about all the rows of one person")
    profile = claim.profile if relation == "replace_one" else _chained(claim.profile, 2)
    return Guarantee(profile, relation, claim.scope, _need_size(size))


def _need_size(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise HypothesisError("size must be a whole number of at least 1")
    return size


def _chained(profile: Profile, size: int) -> Profile:
    """What a profile becomes over a chain of `size` neighbours."""
    if isinstance(profile, GDP):
        return GDP(up(size * profile.mu))
    if isinstance(profile, Concentrated):
        return Concentrated(up(size * size * profile.rho))
    if not isinstance(profile, ApproxDP):
        inner, steps = (profile.part, profile.size) if isinstance(profile, Grouped) else (profile, 1)
        return Grouped(inner, size * steps)
    # M_0, ..., M_k with P_i <= e^eps P_{i+1} + dlt chain to k eps and dlt (1 + e^eps + ... + e^{(k-1) eps}).
    try:
        dlt = math.fsum(profile.dlt * math.exp(i * profile.eps) for i in range(size))
        dlt *= 1.0 + (size * profile.eps + 8.0) * 2.0 * ULP
    except OverflowError:
        dlt = 1.0
    return ApproxDP(up(size * profile.eps), min(1.0, dlt))


def _combine(
    claims: Sequence[Claim],
    mus: Callable[[list[float]], float],
    points: Callable[[list[float]], float],
    mixture: type[Composite] | type[Largest],
) -> Profile:
    """One profile for all claims. Those of one kind are merged; a mixture is used if several kinds are left."""
    profiles: list[Profile] = []
    for profile in (c.profile for c in claims):
        profiles.extend(profile.parts if isinstance(profile, mixture) else (profile,))
    parts: list[Profile] = [p for p in profiles if not isinstance(p, GDP | ApproxDP | Concentrated)]
    if gaussians := [p for p in profiles if isinstance(p, GDP)]:
        parts.append(GDP(mus([p.mu for p in gaussians])))
    if concentrated := [p for p in profiles if isinstance(p, Concentrated)]:
        parts.append(Concentrated(points([p.rho for p in concentrated])))
    if single := [p for p in profiles if isinstance(p, ApproxDP)]:
        parts.append(ApproxDP(points([p.eps for p in single]), min(1.0, points([p.dlt for p in single]))))
    return parts[0] if len(parts) == 1 else mixture(tuple(parts))


def _least_scope(claims: Sequence[Claim]) -> Scope:
    return min((c.scope for c in claims), key=_ORDER.index)
