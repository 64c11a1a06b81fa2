"""The theorems. Each checks its hypotheses, names its source and has a proof note of its name in docs/proofs/."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.privacy.budget import MOVES, check_relation
from dpconvex.privacy.claims import (
    SAMPLING,
    Bounded,
    Claim,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    concludes_fact,
    need_claims,
    need_fact,
    need_gaussian,
    need_law,
    need_one_draw,
    need_positive,
)
from dpconvex.privacy.mixtures import Mixture
from dpconvex.privacy.objective import ACCOUNTINGS
from dpconvex.privacy.profiles import (
    GDP,
    ApproxDP,
    Composite,
    Grouped,
    Largest,
    PerturbedObjective,
    PerturbedSoftmax,
    Profile,
    SubsampledGaussian,
)
from dpconvex.privacy.schedules import Schedule, check_schedule
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_down, round_up

_ULP = 2.3e-16
_ORDER = (Scope.LAST, Scope.EVERY)


# Releases --------------------------------------------------------------------------------------------------------


@concludes_claim
def gaussian(sensitivity: Fact, release: Release) -> Guarantee:
    """Gaussian noise of scale sigma on a vector of sensitivity s is s/sigma-GDP (Dong, Roth, Su 2022, Thm 2.7).

    A release drawn k times is sqrt(k) s/sigma-GDP: each of the k values has that sensitivity, also when it is chosen
    after the earlier ones were released.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    if need_gaussian(release, "release").scale == 0.0 and s > 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    mu = _up(math.sqrt(release.times) * s / release.scale) if s > 0.0 else 0.0
    return Guarantee(GDP(mu), check_relation(sensitivity.relation), Scope.EVERY)


@concludes_claim
def poisson_subsampling(clip: float, relation: str, sample: Release, release: Release) -> Guarantee:
    """Sums over Poisson samples of one vector a record, each shortened to l2 norm `clip`, plus Gaussian noise.

    At each step every record is chosen on its own with the probability of `sample`, afresh; who was chosen is never
    released. The sums may depend on what earlier steps released. Covers every noisy sum. (Dominating pairs: Zhu,
    Dong, Wang 2022; here also for a record that is replaced.)
    """
    check_relation(relation)
    c, noise = need_positive(clip, "clip"), need_gaussian(release, "release")
    if not isinstance(sample, Release) or sample.law != SAMPLING or len(sample.shape) != 1 or sample.shape[0] < 1:
        raise HypothesisError(f"sample must be a Release of law {SAMPLING!r}, one choice a record")
    if not 0.0 < sample.scale <= 1.0:
        raise HypothesisError("sample: the probability must lie in (0, 1]")
    if sample.times != noise.times:
        raise HypothesisError("sample and release must be drawn equally often, once a step")
    if noise.scale == 0.0:
        raise HypothesisError(f"release {release.name!r} has no noise")
    ratio = round_down(noise.scale / c * (1.0 - 4 * _ULP))
    if sample.scale == 1.0:  # every record takes part: a Gaussian release each step
        return Guarantee(GDP(_up(math.sqrt(noise.times) * MOVES[relation] / ratio)), relation, Scope.EVERY)
    return Guarantee(SubsampledGaussian(relation, sample.scale, ratio, noise.times), relation, Scope.EVERY)


# Combining claims ------------------------------------------------------------------------------------------------


@concludes_claim
def parallel(claims: Sequence[Claim], records: Sequence[range]) -> Guarantee:
    """Claims about disjoint ranges of record indices, fixed in advance, cost the largest of them.

    Ranges of indices only: if records were split by value, a replaced record could leave one part and enter another.
    Later claims may depend on what earlier ones released.
    """
    relation, unit = need_claims(claims)
    if len(records) != len(claims):
        raise HypothesisError("records must hold one non-empty range of indices (step 1) per claim")
    _need_disjoint(records)
    if unit != 1:
        raise HypothesisError("claims about groups of records do not compose in parallel: a group can span the ranges")
    return Guarantee(_combine(claims, max, max, Largest), relation, _least_scope(claims))


def _need_disjoint(records: Sequence[range]) -> None:
    if not all(isinstance(r, range) and r.step == 1 and len(r) for r in records):
        raise HypothesisError("records must hold one non-empty range of indices (step 1) per claim")
    ordered = sorted(records, key=lambda r: r.start)
    if any(a.stop > b.start for a, b in pairwise(ordered)):
        raise HypothesisError("records: the ranges overlap")


@concludes_claim
def compose(claims: Sequence[Claim]) -> Guarantee:
    """Claims on the same records: mu adds in squares, (epsilon, delta) adds up (Dong, Roth, Su 2022, Cor 3.3).

    Holds when each mechanism sees what the earlier ones released, and as a filter: stop before the sum of squares
    of mu would exceed the budget, however the next mechanism was chosen. Other profiles, and mixtures, compose as
    curves; these hold for mechanisms that see earlier releases, not as a filter.
    """
    relation, unit = need_claims(claims)
    return Guarantee(
        _combine(claims, lambda mus: _up(math.hypot(*mus)), lambda parts: _up(math.fsum(parts)), Composite),
        relation,
        _least_scope(claims),
        unit,
    )


@concludes_claim
def post_process(claim: Claim, how: str) -> Guarantee:
    """Whatever is computed from a release without the data costs nothing more."""
    relation, unit = need_claims([claim])
    if not isinstance(how, str):
        raise HypothesisError("how must say in words what is done to the release")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def fresh_run(claim: Claim, label: str) -> Guarantee:
    """The same claim for one run among several, each with noise of its own: its releases are named label/name."""
    relation, unit = need_claims([claim])
    if not isinstance(label, str) or not label:
        raise HypothesisError("label must name the run")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def group(claim: Claim, size: int) -> Guarantee:
    """`size` records of one person: mu grows in proportion (Dong, Roth, Su 2022, Thm 2.14).

    Other profiles chain `size` steps of epsilon/size each.
    """
    relation, unit = need_claims([claim])
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise HypothesisError("size must be a whole number of at least 1")
    profile = claim.profile
    if isinstance(profile, GDP):
        return Guarantee(GDP(_up(size * profile.mu)), relation, claim.scope, size * unit)
    if not isinstance(profile, ApproxDP):
        inner, steps = (profile.part, profile.size) if isinstance(profile, Grouped) else (profile, 1)
        return Guarantee(Grouped(inner, size * steps), relation, claim.scope, size * unit)
    # M_0, ..., M_k with P_i <= e^eps P_{i+1} + dlt chain to k eps and dlt (1 + e^eps + ... + e^{(k-1) eps}).
    try:
        dlt = math.fsum(profile.dlt * math.exp(i * profile.eps) for i in range(size))
        dlt *= 1.0 + (size * profile.eps + 8.0) * 2.0 * _ULP
    except OverflowError:
        dlt = 1.0
    return Guarantee(ApproxDP(_up(size * profile.eps), min(1.0, dlt)), relation, claim.scope, size * unit)


def _up(x: float) -> float:
    """Round up a number computed to a few units in the last place."""
    return round_up(x * (1.0 + 4 * _ULP))


def _combine(
    claims: Sequence[Claim],
    mus: Callable[[list[float]], float],
    points: Callable[[list[float]], float],
    mixture: type[Composite] | type[Largest],
) -> Profile:
    """One profile for all claims: Gaussians into one, single points into one, and a mixture if more is left."""
    profiles: list[Profile] = []
    for profile in (c.profile for c in claims):
        profiles.extend(profile.parts if isinstance(profile, mixture) else (profile,))
    parts: list[Profile] = [p for p in profiles if not isinstance(p, GDP | ApproxDP)]
    if gaussians := [p for p in profiles if isinstance(p, GDP)]:
        parts.append(GDP(mus([p.mu for p in gaussians])))
    if single := [p for p in profiles if isinstance(p, ApproxDP)]:
        parts.append(ApproxDP(points([p.eps for p in single]), min(1.0, points([p.dlt for p in single]))))
    return parts[0] if len(parts) == 1 else mixture(tuple(parts))


def _least_scope(claims: Sequence[Claim]) -> Scope:
    return min((c.scope for c in claims), key=_ORDER.index)


# Stability of one pass of projected SGD --------------------------------------------------------------------------


def iterate_weights(steps: np.ndarray, weighting: str) -> np.ndarray:
    """Weights, summing to 1, of the iterates after each step in the released average.

    Examples
    --------
    >>> iterate_weights(np.array([1.0, 3.0]), "steps")
    array([0.25, 0.75])
    """
    if weighting == "uniform":
        return np.full(len(steps), 1.0 / len(steps))
    if weighting == "steps" and steps.max() > 0.0:
        return np.asarray(steps / steps.sum())
    raise HypothesisError(f"weighting must be 'uniform' or 'steps' (with a step above 0), got {weighting!r}")


def gradient_sensitivity(lipschitz: Fact, relation: str) -> float:
    """Largest change of one record's gradient: 2L when it is replaced, L when it is masked."""
    return need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz") * MOVES[relation]


@concludes_fact
def gradient_sum(lipschitz: Fact, relation: str) -> Bounded:
    """Sensitivity of the sum over records of their gradients at one point: that of one record's gradient."""
    check_relation(relation)
    s = round_up(gradient_sensitivity(lipschitz, relation))
    return Bounded(Kind.SENSITIVITY, s, "sum of the gradients of all records at one point", relation)


@concludes_fact
def clipped_sum(clip: float, relation: str) -> Bounded:
    """Sensitivity of a sum of one vector per record, each shortened to l2 norm `clip` before adding."""
    check_relation(relation)
    s = round_up(need_positive(clip, "clip") * MOVES[relation])
    return Bounded(Kind.SENSITIVITY, s, f"sum of one vector per record, each shortened to {clip:g}", relation)


@concludes_fact
def moment_sums(row: Fact, target: float, relation: str, which: str) -> Bounded:
    """Sensitivity of sums over records (x, y) with |x| <= R and |y| <= target, in l2 norm.

    which: "second" is the matrix sum x x' in Frobenius norm, "cross" the vector sum y x, "eigenvalue" the smallest
    eigenvalue of the matrix. Replacing a record moves them by sqrt(2) R^2, 2 R target and R^2, masking one by R^2,
    R target and R^2.
    """
    check_relation(relation)
    radius = need_fact(row, Kind.ROW_BOUND, "row")
    bound = need_positive(target, "target")
    size = {"second": radius**2, "cross": radius * bound, "eigenvalue": radius**2}.get(which)
    if size is None:
        raise HypothesisError(f"which must be 'second', 'cross' or 'eigenvalue', got {which!r}")
    moves = {"second": math.sqrt(2.0), "cross": 2.0, "eigenvalue": 1.0}[which] if relation == "replace_one" else 1.0
    words = {"second": "sum of x x'", "cross": "sum of y x", "eigenvalue": "smallest eigenvalue of the sum of x x'"}
    return Bounded(Kind.SENSITIVITY, _up(moves * size), words[which], relation)


def _step_contractions(smoothness: Fact, strong_convexity: Fact, steps: np.ndarray) -> np.ndarray:
    beta = need_fact(smoothness, Kind.SMOOTHNESS, "smoothness")
    m = need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity")
    if m > beta:
        raise HypothesisError("strong convexity cannot exceed smoothness")
    if beta * steps.max() > 2.0:
        raise HypothesisError(
            f"largest step {steps.max():.6g} is above 2/beta = {2.0 / beta:.6g}: "
            "gradient steps would no longer be contractions; take a smaller step"
        )
    contractions = np.maximum(np.abs(1.0 - steps * m), np.abs(1.0 - steps * beta))
    return np.asarray(np.minimum(1.0, contractions + 4 * _ULP))


def _pass_influences(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    steps: Schedule,
    weighting: str,
    batch: int,
) -> np.ndarray:
    """How far a change of a record of each step moves the weighted average of a pass, rounded up."""
    check_relation(relation)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise HypothesisError("batch must be a whole number of at least 1")
    eta = check_schedule(steps, "steps")
    c = _step_contractions(smoothness, strong_convexity, eta)
    theta = iterate_weights(eta, weighting)
    if c.min() == 1.0:
        influence = np.cumsum(theta[::-1])[::-1]
    else:
        influence = np.empty_like(theta)
        tail = 0.0
        for t in range(len(theta) - 1, -1, -1):
            tail = theta[t] + (c[t + 1] * tail if t + 1 < len(theta) else 0.0)
            influence[t] = tail
    rounding = 1.0 + (len(theta) + 16) * 2 * _ULP
    return np.asarray(gradient_sensitivity(lipschitz, relation) / batch * rounding * (eta * influence))


@concludes_fact
def stable_sgd(
    lipschitz: Fact,
    smoothness: Fact,
    strong_convexity: Fact,
    relation: str,
    steps: Schedule,
    weighting: str,
    batch: int = 1,
) -> Bounded:
    """Sensitivity of the weighted average of one pass of projected SGD, at least `batch` records per step.

    A change of a record of step t moves the iterate after it by at most eta_t/batch times the change of a gradient, and
    later steps contract it: s = Delta/batch max_t eta_t U_t with U_t = theta_t + c_{t+1} U_{t+1}. Linear losses attain
    it. (Sharp form of FKT20 Lemma 4.3, after Hardt, Recht, Singer 2016.)
    """
    moves = _pass_influences(lipschitz, smoothness, strong_convexity, relation, steps, weighting, batch)
    return Bounded(Kind.SENSITIVITY, round_up(float(moves.max())), "stability of one pass of projected SGD", relation)


@concludes_fact
def phase_contraction(smoothness: Fact, strong_convexity: Fact, steps: Schedule, weighting: str) -> Bounded:
    """Lipschitz constant of the weighted average of one pass in the point it starts from: sum_t theta_t c_1 ... c_t."""
    eta = check_schedule(steps, "steps")
    c = _step_contractions(smoothness, strong_convexity, eta)
    value = float(iterate_weights(eta, weighting) @ np.cumprod(c)) * (1.0 + (len(eta) + 16) * 2 * _ULP)
    return Bounded(Kind.CONTRACTION, min(1.0, round_up(value)), "contraction of one pass of projected SGD")


# Last iterate of a noisy contraction -----------------------------------------------------------------------------


def chain_mu(s: np.ndarray, c: np.ndarray, nu: np.ndarray, period: int) -> float:
    """Exact GDP parameter of the last point of X_t = phi_t(X_{t-1}) + N(0, nu_t^2), c_t-Lipschitz phi_t.

    Records fall into `period` classes; class j is used at steps j, j + period, j + 2 period, ... and a change of it
    moves phi_t by at most s_t there. Returns the largest parameter over classes (infinite without noise).

    In coordinates seen from the end (Gamma_t = c_{t+1} ... c_T) every map is nonexpansive, and the cheapest way to
    absorb the shifts is the greatest convex minorant of their staircase, drawn against the variance added so far:
    mu^2 = sum of rise^2/run over its segments (docs/proofs/noisy_contraction.md).
    """
    steps = len(s)
    unit_s, unit_nu = s.max(), nu.max()
    if unit_s == 0.0 or unit_nu == 0.0:
        return 0.0 if unit_s == 0.0 else math.inf
    s, nu = s / unit_s, nu / unit_nu  # squares stay in range
    gamma = np.ones(steps)
    gamma[:-1] = np.cumprod(c[:0:-1])[::-1]
    gamma = np.maximum(gamma, 1e-140)  # a weaker contraction is a weaker hypothesis, and squares stay in range
    s, variance = gamma * s, (gamma * nu) ** 2
    remaining = np.cumsum(variance[::-1])[::-1]  # summed from the end: late noise may be small and must count
    rounding = unit_s / unit_nu * (1.0 + 4 * (steps + 8) * _ULP)
    if period == steps:  # one use per record: a single segment from its step to the end
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where(s > 0.0, s / np.sqrt(remaining), 0.0)
        return float(mu.max() * rounding)
    uses = steps // period
    end = np.zeros((1, period))
    xs = np.concatenate([-remaining.reshape(uses, period), end])
    ys = np.concatenate([-np.cumsum(s.reshape(uses, period)[::-1], axis=0)[::-1], end])
    px, py = np.zeros((2, uses + 1, period))
    top = np.zeros(period, dtype=int)  # points kept so far, per class
    every = np.arange(period)
    for x, y in zip(xs, ys, strict=True):
        while True:  # drop the last point kept while it lies on or above the chord to the new one
            at = np.flatnonzero(top >= 2)
            a, b = top[at] - 2, top[at] - 1
            drop = at[(y[at] - py[b, at]) * (px[b, at] - px[a, at]) <= (py[b, at] - py[a, at]) * (x[at] - px[b, at])]
            if not drop.size:
                break
            top[drop] -= 1
        px[top, every], py[top, every] = x, y
        top += 1
    rise, run = np.diff(py, axis=0), np.diff(px, axis=0)
    live = (np.arange(uses)[:, None] < top - 1) & (rise > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.where(live, rise**2 / np.maximum(run, 0.0), 0.0).sum(axis=0)
    return math.sqrt(float(squares.max())) * float(rounding)


@concludes_claim
def noisy_contraction(
    sensitivities: Sequence[Fact],
    contractions: Sequence[Fact],
    releases: Sequence[Release],
    period: int,
    output: str = Scope.LAST,
) -> Guarantee:
    """Privacy of the last point of a chain of noisy contractions, exact in the class of all contractions.

    Step t maps the point by a contraction, moved by at most sensitivities[t] when a record it uses changes, and adds
    releases[t]. Each record belongs to one of `period` disjoint batches, used cyclically: step t uses batch
    t mod period. Only the last point may be released: an average of the points can be far less private (FKT20
    section 6). (Shifted interpolation: Bok, Su, Altschuler 2024; FKT20 Thm 3.1 is the case of one pass.)
    """
    steps = len(releases)
    if steps == 0 or len(sensitivities) != steps or len(contractions) != steps:
        raise HypothesisError("sensitivities, contractions and releases must name every step, and at least one")
    if isinstance(period, bool) or not isinstance(period, int) or period < 1 or steps % period:
        raise HypothesisError("period must be a whole number that divides the number of steps")
    if output != Scope.LAST:
        raise HypothesisError(f"this accounting covers the {Scope.LAST.value} only, not {output!r}; use composition")
    s = np.array([need_fact(f, Kind.SENSITIVITY, "sensitivities") for f in sensitivities])
    c = np.array([need_fact(f, Kind.CONTRACTION, "contractions") for f in contractions])
    nu = np.array([need_gaussian(r, "releases").scale for r in releases])
    if len({r.shape for r in releases}) > 1:
        raise HypothesisError("releases of one chain must share a shape")
    if any(r.times != 1 for r in releases):
        raise HypothesisError("each step of a chain has a release of its own, drawn once")
    if len({f.relation for f in sensitivities}) > 1:
        raise HypothesisError("sensitivities must be about one relation")
    if c.max() > 1.0:
        raise HypothesisError("every step must be a contraction (factor at most 1)")
    mu = chain_mu(s, c, nu, period)
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu)), check_relation(sensitivities[0].relation), Scope.LAST)


# Noisy SGD ---------------------------------------------------------------------------------------------------------


def noise_shape(eta: np.ndarray, noise: Schedule | float) -> np.ndarray:
    """Noise of every step up to a common factor: a schedule as it is, or the rule of a number tau in [0, 1].

    tau eta_t^2 + (1 - tau) (eta_t^2 - eta_{t+1}^2) is the variance of step t: 1 keeps the noise in proportion to the
    steps, 0 adds only what the next steps, smaller and with less influence, no longer cover.

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
        raise HypothesisError("noise must name a value for every step")
    return shape


def _influences(
    lipschitz: Fact, relation: str, records: range, batches: Schedule, steps: Schedule
) -> tuple[np.ndarray, np.ndarray, int]:
    """Steps, how far a changed record moves each of them, and the number of batches."""
    check_relation(relation)
    eta, sizes = check_schedule(steps, "steps"), check_schedule(batches, "batches")
    if (sizes < 1.0).any() or (sizes != np.floor(sizes)).any():
        raise HypothesisError("batches must be whole numbers of at least 1")
    if not isinstance(records, range) or records.step != 1 or len(records) != int(sizes.sum()):
        raise HypothesisError("records must be the range of indices that the batches cut up, all of it")
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
    earlier points are not covered. (`noisy_contraction`, with schedules in place of lists; FKT20 Thm 3.1 is the case
    of one pass over convex losses, as a bound on Renyi divergences.)
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    c = _step_contractions(smoothness, strong_convexity, eta)
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
    return Guarantee(GDP(round_up(mu * (1.0 + 32 * _ULP))), relation, Scope.LAST)


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

    Step t releases the point it moved to, before projection and in units of `noise_shape`, plus `release`. A record
    pays for the steps that use its batch, in squares. Only gradients need to be bounded; what is computed from the
    released points, averages for instance, costs nothing more.
    """
    eta, s, period = _influences(lipschitz, relation, records, batches, steps)
    shape = noise_shape(eta, noise)
    if need_gaussian(release, "release").scale == 0.0 or (shape[s > 0.0] == 0.0).any():
        raise HypothesisError("every step that moves needs noise of its own where every point is released")
    if release.times != len(eta):
        raise HypothesisError("release must be drawn once a step")
    cost = np.divide(s, release.scale * shape, out=np.zeros_like(s), where=s > 0.0)
    mu = math.sqrt(float((cost.reshape(-1, period) ** 2).sum(axis=0).max()))
    return Guarantee(GDP(round_up(mu * (1.0 + (len(eta) + 32) * _ULP))), relation, Scope.EVERY)


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

    Pass i takes the next sizes[i] records, at least `batch` a step, averages its iterates and adds releases[i]. In an
    order that is known, a record has the guarantee of its place. If nobody knows the order it has the mean over all
    places of their curves delta(epsilon), since the divergence is jointly convex.
    """
    if not passes or not len(passes) == len(sizes) == len(releases):
        raise HypothesisError("passes, sizes and releases must name every pass, and at least one")
    if len(need_one_draw(order, "order").shape) != 1 or order.shape[0] != sum(sizes):
        raise HypothesisError("order must hold one variate per record")
    facts = lipschitz, smoothness, strong_convexity
    gamma, needed, mus, counts = 1.0, 0.0, [], []
    for steps, size, release in zip(reversed(passes), reversed(sizes), reversed(releases), strict=True):
        noise = need_gaussian(release, "releases").scale
        if release.shape != releases[0].shape or release.times != 1:
            raise HypothesisError("releases of one chain must share a shape, and be drawn once each")
        moves = _pass_influences(*facts, relation, steps, weighting, batch)
        if not len(moves) * batch <= size:
            raise HypothesisError("sizes must hold the records of every step")
        needed += (gamma * noise) ** 2
        if needed == 0.0:
            raise HypothesisError("some record is followed by no noise at all")
        slack = 1.0 + (len(moves) + 64) * 2 * _ULP
        mus.append(gamma * moves / math.sqrt(needed) * slack)
        share, more = divmod(size, len(moves))  # batches differ by one record at most, the larger ones last
        counts.append(np.append(np.full(len(moves) - more, share), np.full(more, share + 1)))
        eta = check_schedule(steps, "steps")
        c = _step_contractions(smoothness, strong_convexity, eta)
        gamma *= min(1.0, float(iterate_weights(eta, weighting) @ np.cumprod(c)) * slack)
    profile = Mixture.of(np.concatenate(mus), np.concatenate(counts))
    return Guarantee(cast(Profile, profile), relation, Scope.LAST)


@concludes_claim
def shuffled(claim: Claim, order: Release) -> Guarantee:
    """A run on the records in an order drawn without looking at them keeps its claim.

    The order is that of as many independent Gaussian variates as there are records. Two data sets that differ in one
    place still do in any other order, so the claim holds given the order, whether or not the order is released.
    """
    relation, unit = need_claims([claim])
    if len(need_one_draw(order, "order").shape) != 1:
        raise HypothesisError("order must hold one variate per record")
    return Guarantee(claim.profile, relation, claim.scope, unit)


# Certified minimisers ----------------------------------------------------------------------------------------------


def _phase_weights(strong_convexity: Fact, records: range, weight: float) -> tuple[float, float]:
    """Weight of the proximal term of a phase, and that of its share of the quadratic term."""
    m = need_fact(strong_convexity, Kind.STRONG_CONVEXITY, "strong_convexity")
    if not isinstance(records, range) or records.step != 1 or not len(records):
        raise HypothesisError("records must be a non-empty range of indices (step 1)")
    return need_positive(weight, "weight"), m * len(records)


@concludes_fact
def certified_erm(
    lipschitz: Fact, strong_convexity: Fact, relation: str, records: range, weight: float, distance: float
) -> Bounded:
    """Sensitivity of a point within `distance` of the minimiser of one phase, sum of losses + (weight/2) |w - start|^2.

    The minimiser over any closed convex set moves by at most Delta/m, m = weight + the phase's share of l2, and each of
    the two computed points is within the distance of its own. Needs convex losses, not smooth ones. (Half of what
    FKT20 Lemma 4.7 takes, and no failure probability.)
    """
    check_relation(relation)
    w, ridge = _phase_weights(strong_convexity, records, weight)
    s = gradient_sensitivity(lipschitz, relation) / (w + ridge) + 2.0 * need_positive(distance, "distance")
    return Bounded(Kind.SENSITIVITY, _up(s), "certified minimiser of one phase", relation)


@concludes_fact
def certified_drift(distance: float, relation: str) -> Bounded:
    """Two points computed on the same records are at most twice the distance of the certificate further apart."""
    check_relation(relation)
    drift = _up(2.0 * need_positive(distance, "distance"))
    return Bounded(Kind.SENSITIVITY, drift, "two certified minimisers of the same phase", relation)


@concludes_fact
def proximal_contraction(strong_convexity: Fact, records: range, weight: float) -> Bounded:
    """Lipschitz constant of the exact minimiser of one phase in its start: weight over weight + the share of l2."""
    w, ridge = _phase_weights(strong_convexity, records, weight)
    return Bounded(Kind.CONTRACTION, min(1.0, _up(w / (w + ridge))), "minimiser of one phase as a map of its start")


@concludes_claim
def certified_chain(
    sensitivities: Sequence[Fact],
    drifts: Sequence[Fact],
    contractions: Sequence[Fact],
    releases: Sequence[Release],
    records: Sequence[range],
) -> Guarantee:
    """Privacy of the last point of a chain of certified minimisers, each of records of its own, with noise between.

    Phase i maps its start to a point within a distance of a contraction of it. A record of phase j moves phase j by
    sensitivities[j] and every later phase i, besides what the contraction carries over, by drifts[i]
    (`noisy_contraction` with maps that are contractions up to their drift).
    """
    steps = len(releases)
    if steps == 0 or not len(sensitivities) == len(drifts) == len(contractions) == len(records) == steps:
        raise HypothesisError("sensitivities, drifts, contractions, releases and records must name every phase")
    s = np.array([need_fact(f, Kind.SENSITIVITY, "sensitivities") for f in sensitivities])
    drift = np.array([need_fact(f, Kind.SENSITIVITY, "drifts") for f in drifts])
    c = np.array([need_fact(f, Kind.CONTRACTION, "contractions") for f in contractions])
    nu = np.array([need_gaussian(r, "releases").scale for r in releases])
    if len({r.shape for r in releases}) > 1 or any(r.times != 1 for r in releases):
        raise HypothesisError("releases of one chain must share a shape, and each is drawn once")
    if len({f.relation for f in (*sensitivities, *drifts)}) > 1:
        raise HypothesisError("sensitivities and drifts must be about one relation")
    _need_disjoint(records)
    if c.max() > 1.0:
        raise HypothesisError("every phase must be a contraction (factor at most 1)")
    mu = 0.0
    for j in range(steps):
        jumps = np.concatenate([np.zeros(j), s[j : j + 1], drift[j + 1 :]])
        mu = max(mu, chain_mu(jumps, c, nu, 1))
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu)), check_relation(sensitivities[0].relation), Scope.LAST)


# Objective perturbation --------------------------------------------------------------------------------------------


@concludes_claim
def objective_perturbation(
    slope: Fact,
    width: Fact,
    curvature: Fact,
    monotone: Fact,
    row: Fact,
    l2: float,
    relation: str,
    objective: Release,
    output: Release,
    tolerance: float,
    accounting: str = "sharp",
) -> Guarantee:
    """Privacy of a point near the minimiser of sum_i l_i(<x_i, w>) + (l2/2)|w|^2 + <b, w>, plus noise.

    b is the release `objective`, and is kept secret. A point at which the gradient of that objective is certified to be
    at most `tolerance` in norm is released with the noise `output`; its distance from the minimiser is at most
    tolerance/l2, which costs 2 tolerance/(l2 sigma_out)-GDP. The minimum may be over any closed convex set, with the
    residual of the proof note for the gradient.

    accounting: "sharp" (the smaller of two bounds) and "coupled" hold for slopes of either sign, "published" (Redberg,
    Koskela, Wang 2023) needs l2 above the largest Hessian of a record, "paper" (Su, Zhao, Wang 2023,
    Algorithm 5) has constants that hold. The last two are for comparison.
    """
    check_relation(relation)
    cap = need_positive(need_fact(slope, Kind.SLOPE, "slope"), "slope")
    span = need_fact(width, Kind.SLOPE_WIDTH, "width")
    law = need_law(curvature, cap)
    one_sign = need_fact(monotone, Kind.MONOTONE_MARGIN, "monotone") == 1.0
    if not cap <= span <= 2.0 * cap:
        raise HypothesisError("width must lie between slope and twice slope")
    if one_sign and span != cap:
        raise HypothesisError("a slope of one sign has width equal to its largest size")
    if accounting not in ACCOUNTINGS:
        raise HypothesisError(f"accounting must be one of {', '.join(ACCOUNTINGS)}, got {accounting!r}")
    radius = need_positive(need_fact(row, Kind.ROW_BOUND, "row"), "row")
    mu_out = _output_mu(need_positive(l2, "l2"), objective, output, tolerance)
    profile = PerturbedObjective(
        relation, accounting, cap, span, one_sign, law, radius, float(l2), objective.scale, mu_out
    )
    if accounting == "published" and profile.setting.top_gain >= 1.0:
        raise HypothesisError("the published bound needs l2 above the largest Hessian of one record")
    return Guarantee(profile, relation, Scope.LAST)


@concludes_claim
def objective_perturbation_softmax(
    classes: Fact, row: Fact, l2: float, relation: str, objective: Release, output: Release, tolerance: float
) -> Guarantee:
    """`objective_perturbation` for the cross-entropy of a softmax of K classes, with K x d weights fitted jointly."""
    check_relation(relation)
    count = need_fact(classes, Kind.CLASSES, "classes")
    if count != int(count) or count < 2:
        raise HypothesisError("classes must be a whole number of at least 2")
    radius = need_positive(need_fact(row, Kind.ROW_BOUND, "row"), "row")
    mu_out = _output_mu(need_positive(l2, "l2"), objective, output, tolerance)
    profile = PerturbedSoftmax(relation, int(count), radius, float(l2), objective.scale, mu_out)
    return Guarantee(profile, relation, Scope.LAST)


def _output_mu(l2: float, objective: Release, output: Release, tolerance: float) -> float:
    tilt, blur = need_one_draw(objective, "objective"), need_one_draw(output, "output")
    if tilt.shape != blur.shape:
        raise HypothesisError("objective and output must have the shape of the weights, both of them")
    return _up(2.0 * need_positive(tolerance, "tolerance") / (l2 * blur.scale))
