"""What a budget that is spent step by step needs: a claim brought to a form that adds up however the next is chosen.

Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import ndtr, ndtri

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Guarantee, concludes_claim, need_claims, need_positive
from dpconvex.kernel.profiles import GDP, ApproxDP, Composite, Concentrated, Numeric, Profile, gaussian_mu
from dpconvex.rounding import round_down, up

_STEP = 0.2  # distance of the nodes of a curve, in units of mu
_MOST_NODES = 400
_TESTS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])[:, None]  # thresholds between two nodes
_ROUND = 1e-11  # relative, far above the error of a difference of two normal probabilities


@concludes_claim
def gaussian_cover(claim: Claim, aside: float) -> Guarantee:
    """A claim restated as mu-GDP but for a probability: the form that a GDP filter adds up [1]_.

    The curve stays below c + (1 - c) h_mu, where c is `aside` and whatever delta the curve never falls below, and h_mu
    is the curve of mu-GDP. A point (epsilon, delta) has c = delta.

    References
    ----------
    .. [1] docs/proofs/filters.md, Theorems 1 and 2.
    """
    relation, unit = need_claims([claim])
    share = need_positive(aside, "aside")
    mu, lost = _cover(claim.profile, share)
    return Guarantee(Composite((GDP(mu), ApproxDP(0.0, lost))), relation, claim.scope, unit)


@functools.lru_cache(maxsize=64)
def _cover(profile: Profile, aside: float) -> tuple[float, float]:
    """The mu and the probability of a cover."""
    if isinstance(profile, GDP):
        return profile.mu, aside
    if isinstance(profile, ApproxDP):
        return up(-2.0 * float(ndtri(1.0 / (1.0 + math.exp(min(profile.eps, 700.0))))) * (1.0 + 1e-12)), profile.dlt
    lost = up(aside + profile.delta(512.0))
    top = profile.epsilon(lost) if lost < 1.0 else math.inf
    if top == math.inf:
        raise HypothesisError(
            "this guarantee is a curve whose delta does not fall far enough for any Gaussian to cover it"
        )
    if top == 0.0:
        return 0.0, lost
    first = gaussian_mu(top, lost)
    count = math.ceil(min(max(top / (_STEP * first), 4.0), float(_MOST_NODES)))
    nodes = np.linspace(0.0, top * (1.0 + 1e-12), count + 1)
    bounds = np.array([_bound(profile, e) for e in nodes])
    bounds[-1] = min(bounds[-1], lost)  # `top` was rounded up
    low, high = 0.0, 2.0 * first
    while not _covers(nodes, bounds, high, lost):
        low, high = high, 2.0 * high
        if high > 1e4:
            raise HypothesisError("this guarantee is a curve that no Gaussian of useful size covers")
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _covers(nodes, bounds, middle, lost) else (middle, high)
    return up(high), lost


def _bound(profile: Numeric, epsilon: float) -> float:
    """Upper bound on delta, computed for this epsilon alone: curves of several at once are looser."""
    return float(profile.curve()(np.array([epsilon]))[0])


def _covers(nodes: np.ndarray, bounds: np.ndarray, mu: float, lost: float) -> bool:
    """Whether between any two nodes some line below c + (1 - c) h_mu lies above the chord of the curve.

    The lines are those of tests: whoever rejects where the loss exceeds e has P - gamma Q <= h_mu(gamma) for every
    gamma.
    """
    left, right = nodes[:-1], nodes[1:]
    at = left + _TESTS * (right - left)
    hit, false = ndtr(mu / 2.0 - at / mu), ndtr(-mu / 2.0 - at / mu)
    above = np.ones(at.shape, dtype=bool)
    for ends, values in ((left, bounds[:-1]), (right, bounds[1:])):
        line = hit * (1.0 - _ROUND) - np.exp(ends) * false * (1.0 + _ROUND)
        above &= lost + (1.0 - lost) * line >= values
    return bool(above.any(axis=0).all())


def renyi_divergence(profile: Profile, order: float) -> float | None:
    """Upper bound on the Renyi divergence of that order between neighbours; None where the profile does not state one.

    Examples
    --------
    >>> renyi_divergence(GDP(0.5), 8.0), renyi_divergence(Concentrated(0.125), 8.0)
    (1.00000000001, 1.00000000001)
    """
    if isinstance(profile, GDP):
        return up(order * profile.mu**2 / 2.0)
    if isinstance(profile, Concentrated):
        return up(order * profile.rho)
    if isinstance(profile, ApproxDP) and profile.dlt == 0.0:
        eps = profile.eps  # randomised response: (e^{a eps} + e^{(1-a) eps}) / (1 + e^eps)
        log = order * eps + math.log1p(math.exp((1.0 - 2.0 * order) * eps)) - eps - math.log1p(math.exp(-eps))
        return up(max(log, 0.0) / (order - 1.0) * (1.0 + 1e-12) + 1e-15)
    return None


def concentration(profile: Profile) -> float | None:
    """Smallest rho of which the profile is known to be rho-zCDP; None where it is not.

    Examples
    --------
    >>> concentration(GDP(0.5)), concentration(ApproxDP(0.5, 0.0)), concentration(ApproxDP(0.5, 1e-9))
    (0.125000000001, 0.125000000001, None)
    """
    if isinstance(profile, GDP):
        return up(profile.mu**2 / 2.0)
    if isinstance(profile, Concentrated):
        return profile.rho
    return up(profile.eps**2 / 2.0) if isinstance(profile, ApproxDP) and profile.dlt == 0.0 else None


def renyi_limit(budget: Budget, order: float) -> float:
    """Largest Renyi divergence of that order that implies the budget, rounded down; at most 0 if there is none [1]_.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy", Proposition 12.

    Examples
    --------
    >>> round(renyi_limit(Budget(1.0, 1e-6), 20.0), 4)
    0.4818
    """
    if order <= 1.0:
        raise HypothesisError(f"the order of a Renyi divergence must be above 1, got {order:g}")
    slack = (math.log(budget.delta) + math.log(order - 1.0) - order * math.log1p(-1.0 / order)) / (order - 1.0)
    return round_down((budget.epsilon + slack) - 1e-12 * (budget.epsilon + abs(slack)))
