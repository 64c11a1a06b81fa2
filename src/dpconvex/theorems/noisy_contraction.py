"""The last point of a noisy chain of contractions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.claims import (
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_fact,
    need_gaussian,
    need_one_origin,
    need_records,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import ULP, round_up


def telescope(sensitivities: Sequence[float], contractions: Sequence[float]) -> list[float]:
    """Least noise, for mu = 1, of a chain of steps of which only the last point is released.

    Step i moves by at most s_i when its records change and contracts by c_i; then noise is added. Step j is protected
    by all noise from j on, seen through the later contractions: with Gamma_j the product of c_i over i > j, the sum of
    (Gamma_i nu_i)^2 over i >= j must be at least max_{i >= j} (Gamma_i s_i)^2.

    Examples
    --------
    >>> [round(v, 4) for v in telescope([2.0, 1.0], [1.0, 1.0])]
    [1.7321, 1.0]
    """
    noise = [0.0] * len(sensitivities)
    gamma, needed = 1.0, 0.0
    for j in reversed(range(len(sensitivities))):
        target = max(needed, (gamma * sensitivities[j]) ** 2)
        noise[j] = math.sqrt(target - needed) / gamma if target > needed else 0.0
        gamma, needed = gamma * contractions[j], target
    return noise


def chain_mu(s: np.ndarray, c: np.ndarray, nu: np.ndarray, period: int) -> float:
    """Exact GDP parameter of the last point of X_t = phi_t(X_{t-1}) + N(0, nu_t^2), c_t-Lipschitz phi_t.

    Records fall into `period` classes; class j is used at steps j, j + period, j + 2 period, ... and a change of it
    moves phi_t by at most s_t there. Returns the largest parameter over classes (infinite without noise).

    In coordinates rescaled by Gamma_t = c_{t+1} ... c_T every map is nonexpansive. The cheapest way to absorb the
    shifts is the greatest convex minorant of their staircase, as a function of the variance added so far: mu^2 is the
    sum of rise^2/run over its segments (docs/proofs/noisy_contraction.md).
    """
    steps = len(s)
    unit_s, unit_nu = s.max(), nu.max()
    if unit_s == 0.0 or unit_nu == 0.0:
        return 0.0 if unit_s == 0.0 else math.inf
    s, nu = s / unit_s, nu / unit_nu  # squares stay in range
    gamma = np.ones(steps)
    gamma[:-1] = np.cumprod(c[:0:-1])[::-1]
    gamma = np.maximum(gamma, 1e-140)  # assumes less contraction, which is safe, and keeps squares in range
    s, variance = gamma * s, (gamma * nu) ** 2
    remaining = np.cumsum(variance[::-1])[::-1]  # summed from the end, so that small noise of late steps is not lost
    rounding = unit_s / unit_nu * (1.0 + 4 * (steps + 8) * ULP)
    if period == steps:  # each record is used once: a single segment from its step to the end
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
    releases[t]. Each record belongs to one of `period` disjoint batches, used cyclically: step t uses batch t mod
    period. Only the last point may be released: an average of the points can be far less private ([2]_, section 6). The
    proof is by shifted interpolation [1]_. Theorem 3.1 of [2]_ is the case of one pass.

    References
    ----------
    .. [1] Bok, Su, Altschuler (2024), "Shifted interpolation for differential privacy".
    .. [2] Feldman, Koren, Talwar (2020), "Private stochastic convex optimization: optimal rates in linear time"
       (FKT20).
    """
    steps = len(releases)
    if steps == 0 or len(sensitivities) != steps or len(contractions) != steps:
        raise HypothesisError("sensitivities, contractions and releases must name every step, at least one")
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
        raise HypothesisError("each step of a chain must have its own release, drawn once")
    need_records(sensitivities)
    for step in zip(sensitivities, contractions, strict=True):
        need_one_origin("step", *step)
    if len({f.relation for f in sensitivities}) > 1:
        raise HypothesisError("sensitivities must be about one relation")
    if c.max() > 1.0:
        raise HypothesisError("every step must be a contraction (factor at most 1)")
    mu = chain_mu(s, c, nu, period)
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu)), check_relation(sensitivities[0].relation), Scope.LAST)
