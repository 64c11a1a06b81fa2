"""Budgets that are spent step by step: covers of curves, and what filters add up."""

import math

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import HypothesisError
from dpconvex.kernel.profiles import GDP, ApproxDP, Composite, Concentrated, gaussian_delta
from dpconvex.theorems import gaussian_cover
from dpconvex.theorems.filters import _cover, concentration, renyi_divergence, renyi_limit

BUDGET = dc.Budget(1.0, 1e-6)
ASIDE = 1e-10


def claims():
    of, ball = dc.algorithms, dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    facts = {"n": 20_000, "d": 50, "budget": BUDGET}
    l1 = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L1Ball(4.0))
    return {
        "objective": of.ObjectivePerturbation().plan(dc.Problem(dc.losses.Logistic(), l2=30.0), **facts).claim,
        "poisson": of.PoissonSGD().plan(ball, **facts).claim,
        "corners": of.FrankWolfe().plan(l1, **facts).claim,
        "shuffled": of.PhasedSGD(shuffle="secret").plan(ball, **facts).claim,
        "concentrated": of.MirrorDescent(noise="generalised").plan(dc.Problem(dc.losses.Squared()), **facts).claim,
    }


CLAIMS = claims()


def covered(profile, lost, mu, epsilon):
    """How much a cover leaves above a curve at an epsilon."""
    return lost + (1.0 - lost) * gaussian_delta(epsilon, mu) - profile.delta(epsilon)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_cover_lies_above_the_curve(name):
    profile = CLAIMS[name].profile
    gauss, lost = gaussian_cover(CLAIMS[name], ASIDE).profile.parts
    assert 0.0 < lost.dlt < 2.1 * ASIDE
    top = profile.epsilon(lost.dlt)
    rng = np.random.default_rng(0)
    for epsilon in (0.0, *rng.uniform(0.0, 1.1 * top, 40)):
        assert covered(profile, lost.dlt, gauss.mu, epsilon) >= -1e-9 * profile.delta(epsilon)


@pytest.mark.parametrize(("name", "least", "most"), [
    ("objective", 1.0, 1.03), ("poisson", 1.0, 1.01), ("corners", 1.0, 1.01), ("shuffled", 1.0, 1.01),
    ("concentrated", 1.2, 1.5),
])  # fmt: skip
def test_covers_are_tight_where_a_curve_is_nearly_gaussian(name, least, most):
    assert least < _cover(CLAIMS[name].profile, ASIDE)[0] / BUDGET.mu < most


@pytest.mark.parametrize("name", ["poisson", "shuffled"])
def test_mutant_a_cover_of_a_hundredth_less_is_caught(name):
    """The attack of the test above has the power to fail."""
    profile = CLAIMS[name].profile
    mu, lost = _cover(profile, ASIDE)
    nodes = np.linspace(0.0, profile.epsilon(lost), 200)
    assert min(covered(profile, lost, 0.985 * mu, e) / profile.delta(e) for e in nodes) < -1e-3


def test_a_cover_of_randomised_response_is_attained():
    """At the corner of its curve the two have the same delta."""
    mu, lost = _cover(ApproxDP(1.3, 1e-7), ASIDE)
    assert lost == 1e-7
    assert gaussian_delta(0.0, mu) == pytest.approx(math.tanh(1.3 / 2.0), rel=1e-9)
    assert covered(ApproxDP(1.3, 1e-7), lost, mu, 0.0) >= 0.0


def test_what_has_no_cover_is_refused():
    for profile in (Composite((ApproxDP(0.5, 1.0), GDP(0.3))),):
        with pytest.raises(HypothesisError, match="fall far enough"):
            _cover(profile, ASIDE)
    with pytest.raises(HypothesisError, match="aside"):
        gaussian_cover(CLAIMS["poisson"], 0.0)


# The filter, against exact laws of transcripts


def pair(epsilon, delta):
    """Laws of the worst (epsilon, delta) mechanism on two neighbours."""
    yes, no = math.exp(epsilon) / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(epsilon))
    p = np.array([delta, (1.0 - delta) * yes, (1.0 - delta) * no, 0.0])
    return p, p[::-1]


def transcript(policy, depth, seen=()):
    """Laws of everything that is released when the policy chooses each mechanism from what was seen."""
    if len(seen) == depth:
        return np.ones(1), np.ones(1)
    p, q = pair(*policy(seen))
    rest = [transcript(policy, depth, (*seen, k)) for k in range(4)]
    return np.concatenate([p[k] * rest[k][0] for k in range(4)]), np.concatenate([q[k] * rest[k][1] for k in range(4)])


def divergence(laws, epsilon):
    p, q = laws
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))


def random_policy(rng, squares, deltas):
    """Spend parts of what is left, which depend on what was seen, as a filter allows it."""
    chosen = {(): None}
    left = {(): (squares, deltas)}

    def policy(seen):
        if chosen.get(seen) is None:
            b, d = left[seen[:-1]] if seen else left[()]
            if seen:
                mu, lost = _cover(ApproxDP(*chosen[seen[:-1]]), ASIDE)
                b, d = b - mu**2, d - lost
                left[seen] = b, d
            b, d = b * rng.choice([0.1, 0.5, 1.0]), d * rng.choice([0.0, 0.3, 1.0])
            epsilon = 2.0 * math.atanh(max(0.0, 2.0 * phi(math.sqrt(max(b, 0.0)) / 2.0) - 1.0)) * (1.0 - 1e-9)
            chosen[seen] = (epsilon, max(d, 0.0) * (1.0 - 1e-9))
        return chosen[seen]

    return policy


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def test_no_choice_of_mechanisms_within_the_limits_exceeds_the_budget():
    rng, squares, deltas = np.random.default_rng(1), 0.8, 1e-2
    closest = math.inf
    for _ in range(60):
        laws = transcript(random_policy(rng, squares, deltas), 3)
        for epsilon in np.linspace(0.0, 4.0, 17):
            limit = deltas + (1.0 - deltas) * gaussian_delta(epsilon, math.sqrt(squares))
            for order in (laws, laws[::-1]):
                assert divergence(order, epsilon) <= limit * (1.0 + 1e-9)
            closest = min(closest, limit / max(divergence(laws, epsilon), 1e-300))
    assert closest < 1.3  # and they came near it


def test_mutant_a_budget_held_against_the_curve_of_each_path_is_exceeded():
    """Why only such sums are held against limits: of these two paths, each keeps (epsilon, delta) by its own curve."""
    epsilon, first = 1.0, 0.5
    spend = pair(first, 0.0)
    for much in np.linspace(0.5, 1.2, 8):  # after a high outcome a pure mechanism, after a low one a delta
        target = divergence(transcript(lambda seen, m=much: (first, 0.0) if not seen else (m, 0.0), 2), epsilon)
        if target == 0.0:
            continue
        each = (much, 0.0), (0.0, target)
        for path in each:
            own = divergence(transcript(lambda seen, p=path: (first, 0.0) if not seen else p, 2), epsilon)
            assert own <= target * (1.0 + 1e-9)
        mixed = divergence(transcript(lambda seen, e=each: (first, 0.0) if not seen else e[seen[0] != 1], 2), epsilon)
        assert mixed > target * (1.0 + 0.9 * spend[0][2])
        break
    else:
        pytest.fail("no such path was tried")


# Renyi divergence at one order


@pytest.mark.parametrize("order", [1.5, 4.0, 32.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_divergences_are_exact(order, epsilon):
    p, q = (law[1:3] for law in pair(epsilon, 0.0))
    exact = math.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0)
    assert exact <= renyi_divergence(ApproxDP(epsilon, 0.0), order) <= exact * (1.0 + 1e-6) + 1e-12
    assert exact <= order * concentration(ApproxDP(epsilon, 0.0))
    if order**2 * epsilon**2 > 1000.0:  # beyond the range of float64
        return
    z = np.linspace(-12.0, 12.0 + order * epsilon, 200_001)
    density = np.exp(-(z**2) / 2.0 * (1.0 - order) - (z - epsilon) ** 2 / 2.0 * order) / math.sqrt(2.0 * math.pi)
    exact = math.log(np.trapezoid(density, z)) / (order - 1.0)
    assert exact == pytest.approx(renyi_divergence(GDP(epsilon), order), rel=1e-6, abs=1e-9)


def test_limits_are_those_of_the_conversion():
    """A Gaussian that takes a whole limit keeps the budget; twice the mu does not."""
    for order in (20.0, 32.0, 60.0):
        mu = math.sqrt(2.0 * renyi_limit(BUDGET, order) / order)
        assert GDP(mu).epsilon(1e-6) <= 1.0 < GDP(2.0 * mu).epsilon(1e-6)
    assert renyi_limit(BUDGET, 1.5) < 0.0
    with pytest.raises(HypothesisError, match="order"):
        renyi_limit(BUDGET, 1.0)


def test_what_states_no_divergence_has_none():
    for profile in (ApproxDP(0.5, 1e-9), CLAIMS["objective"].profile):
        assert renyi_divergence(profile, 8.0) is None
        assert concentration(profile) is None
    assert renyi_divergence(Concentrated(0.1), 8.0) == pytest.approx(0.8)
