"""The last point of a noisy chain of contractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

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
from dpconvex.theorems.computed_steps import need_about


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
    if period == 1:
        return math.sqrt(_steepest(remaining, s)) * float(rounding)
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


def _steepest(remaining: np.ndarray, s: np.ndarray) -> float:
    """Sum of rise^2/run over the greatest convex minorant of one staircase, measured from its end."""
    kept: list[tuple[float, float]] = []
    for x, y in zip([*(-remaining).tolist(), 0.0], [*(-np.cumsum(s[::-1])[::-1]).tolist(), 0.0], strict=True):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y - y1) * (x1 - x0) > (y1 - y0) * (x - x1):
                break
            kept.pop()
        kept.append((x, y))
    rises = [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(kept)]
    return sum(rise * rise / run if run > 0.0 else math.inf for rise, run in rises if rise > 0.0)


@concludes_claim
def noisy_contraction(
    sensitivities: Sequence[Fact],
    contractions: Sequence[Fact],
    releases: Sequence[Release],
    period: int,
    output: str = Scope.LAST,
    drifts: Sequence[Fact] | None = None,
) -> Guarantee:
    """Privacy of the last point of a chain of noisy contractions, exact in the class of all contractions.

    Step t maps the point by a contraction, moved by at most sensitivities[t] when a record it uses changes, and adds
    releases[t]. Each record belongs to one of `period` disjoint batches, used cyclically: step t uses batch t mod
    period. Only the last point may be released: an average of the points can be far less private ([2]_, section 6). The
    proof is by shifted interpolation [1]_. Theorem 3.1 of [2]_ is the case of one pass.

    Computed steps are contractions up to drifts[t]: they move two points that much further apart, whatever record
    changes. Points that are rounded to a grid need drifts to be stated. Rounding is part of the next step, and is
    charged as drift on top of them.

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
    nu = np.array([need_gaussian(r, "releases", grid=drifts is not None).scale for r in releases])
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
    if drifts is not None:
        if len(drifts) != steps or any(fact.relation != sensitivities[0].relation for fact in drifts):
            raise HypothesisError("drifts must name every step, about the relation of the sensitivities")
        for drift, sensitivity, factor, release in zip(drifts, sensitivities, contractions, releases, strict=True):
            need_one_origin("step", drift, sensitivity, factor)
            need_about(drift, release)
        more = np.array([need_fact(f, Kind.SENSITIVITY, "drifts") for f in drifts])
        mu = (mu + chain_mu(more + grid_drifts(c, releases), c, nu, 1)) * (1.0 + 16 * ULP)
    if not math.isfinite(mu):
        raise HypothesisError("some record is followed by no noise at all")
    return Guarantee(GDP(round_up(mu)), check_relation(sensitivities[0].relation), Scope.LAST)


def grid_drifts(c: np.ndarray, releases: Sequence[Release]) -> np.ndarray:
    """How much further apart every step can take two points because the points before are rounded to a grid."""
    cells = np.array([(r.grid or 0.0) * math.sqrt(math.prod(r.shape)) for r in releases])
    return np.append(0.0, c[1:] * cells[:-1])
