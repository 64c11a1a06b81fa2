"""Points from Gibbs laws kept by coins: the curve against exact calculations, and every hypothesis."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, norm

import dpconvex as dc
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Release, Scope
from dpconvex.kernel.profiles import GDP, gaussian_delta
from dpconvex.noise.gibbs import GibbsBall, GibbsBox
from dpconvex.theorems import compose, gaussian, gibbs_draws, gibbs_switching, gradient_sum
from dpconvex.theorems.gibbs_switching import EXACT, GIBBS, ONE_SAMPLE, REFERENCE
from dpconvex.theorems.numerics.switching import _ORDERS, Switching, renyi_coin

PROBLEM = dc.Problem(dc.losses.Linear(), dc.domains.L2Ball(1.0), dc.bounds.L2(2.0))
FACT = PROBLEM.lipschitz(3)
POINTS = Release("points", GIBBS, 40.0, (3,), 25)
COINS = Release("coins", REFERENCE, 0.2, (1,), 100)


def hockey_stick(p, q, eps):
    return float(np.maximum(p - math.exp(eps) * q, 0.0).sum())


# One draw: Theorem 1 ------------------------------------------------------------------------------------------------


def test_laws_on_an_interval_are_no_further_apart_than_gaussians():
    """Sums of convex losses in one dimension, one of them replaced: every hockey-stick divergence, both orders."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        lo, hi = -rng.uniform(0.05, 6.0), rng.uniform(0.05, 6.0)
        x = np.linspace(lo, hi, 4001)
        kinks, signs = rng.uniform(lo, hi, 6), rng.choice([-1.0, 1.0], 6)
        common = sum(rng.uniform(0.0, 3.0) * np.maximum(s * (x - k), 0.0) for k, s in zip(kinks, signs, strict=True))
        curvature, steep = rng.uniform(0.1, 4.0), rng.uniform(0.1, 2.0)
        one, two = (
            steep * rng.choice([np.abs(x - rng.uniform(lo, hi)), rng.choice([-1.0, 1.0]) * x]) for _ in range(2)
        )
        p, q = (np.exp(-(v := common + own + curvature * x**2 / 2) + v.min()) for own in (one, two))
        p, q = p / p.sum(), q / q.sum()
        mu = 2.0 * steep / math.sqrt(curvature)
        for eps in (0.0, 0.3, 1.0, 3.0):
            for a, b in ((p, q), (q, p)):
                bound = gaussian_delta(eps, mu)
                worst = max(worst, hockey_stick(a, b, eps) / bound if bound > 1e-9 else 0.0)
                assert hockey_stick(a, b, eps) <= bound * (1 + 1e-3) + 1e-9
    assert worst > 0.8  # and the bound is met, nearly


@pytest.mark.parametrize("d", [1, 3, 20])
def test_the_ratio_of_normalising_constants_moves_by_two_eta_squared_at_most(d):
    rng = np.random.default_rng(d)
    lam, beta, block = 2.0, 0.3, 3.0
    eta, most = math.sqrt(beta / lam), 0.0
    for _ in range(3400):
        s, g, h = rng.normal(size=(3, d))
        s *= rng.choice([0.0, 1.0, 30.0])
        g *= block / np.linalg.norm(g)
        h *= 2.0 / np.linalg.norm(h)
        if rng.random() < 0.3:
            h = 2.0 * g / np.linalg.norm(g)
        box, size = rng.random() < 0.5, float(rng.choice([0.5, 3.0, 20.0]))

        def law(tilt, box=box, size=size):
            tilt = beta * tilt
            return GibbsBox(tilt, beta * lam, -size, size) if box else GibbsBall(tilt, beta * lam, size)

        one = law(s).log_ratio(beta * (s + g))
        two = law(s + h).log_ratio(beta * (s + h + g))
        most = max(most, abs(one - two))
    assert most <= 2.0 * block * eta**2 * (1.0 + 1e-9)
    assert most > 0.9 * 2.0 * block * eta**2


@pytest.mark.parametrize("d", [1, 2])
def test_a_secret_draw_moves_the_chance_to_keep_by_the_same_ratio_at_most(d):
    """Lemma 6 of the note: sums of convex losses on a grid, one replaced, and any cut function of the block's loss."""
    rng, closest = np.random.default_rng(d), 0.0
    size = 4001 if d == 1 else 201
    for _ in range(300 if d == 1 else 200):
        wide = rng.uniform(0.3, 6.0)
        axis = np.linspace(-wide, wide, size)
        x = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)

        def loss(x=x, wide=wide):
            """No steeper than 1: linear, absolute, hinge or logistic."""
            a = rng.normal(size=d)
            a /= np.linalg.norm(a)
            z, b = x @ a, rng.uniform(-wide, wide)
            return [z, np.abs(z - b), np.maximum(z - b, 0.0), np.logaddexp(0.0, z - b)][rng.integers(4)]

        block, lam, beta = int(rng.integers(1, 4)), rng.uniform(0.2, 3.0), 10 ** rng.uniform(-1.5, 0.5)
        own = sum(loss() for _ in range(block))
        common = sum((loss() for _ in range(int(rng.integers(0, 5)))), np.zeros(len(x)))
        first, second = loss(), loss()
        if rng.random() < 0.5:
            own = block * x[:, 0]
            first, second = x[:, 0], -x[:, 0]
        base = common + own + lam * (x**2).sum(axis=1) / 2.0
        laws = [np.exp(-beta * (v - v.min())) for v in (base + first, base + second)]
        w, shift = 10 ** rng.uniform(-1, 0.5), beta * rng.choice(own)
        keep = np.exp(np.clip(beta * own - shift, -w, w))
        p, q = (law / law.sum() for law in laws)
        ratio, stated = abs(math.log((p @ keep) / (q @ keep))), 2.0 * block * beta / lam
        assert ratio <= stated * (1 + 1e-3) + 1e-6
        closest = max(closest, ratio / stated)
        for eps in (0.0, 0.3, 1.0):  # and Theorem 1 for the laws themselves
            bound = gaussian_delta(eps, 2.0 * math.sqrt(beta / lam))
            assert max(hockey_stick(p, q, eps), hockey_stick(q, p, eps)) <= bound * (1 + 1e-3) + 1e-4
    assert closest > 0.8


# Coins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.01, 2.0, 5.0, 40.0])
def test_the_worst_coins_are_at_the_ends(order):
    def renyi(p, q):
        return math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)

    rng = np.random.default_rng(1)
    least, most, c = 0.3, 0.9, 0.05
    ends = max(renyi(least, most), renyi(most, least))
    near = max(renyi(most, most * math.exp(-c)), renyi(most * math.exp(-c), most))
    for _ in range(2000):
        p, q = rng.uniform(least, most, 2)
        assert renyi(p, q) <= ends * (1 + 1e-12)
        q = min(max(p * math.exp(rng.uniform(-c, c)), least), most)
        assert renyi(p, q) <= near * (1 + 1e-9)


def test_renyi_divergences_of_coins_keep_their_digits():
    from mpmath import log, mp, mpf

    mp.dps = 60
    for p, c in ((0.99, 1e-7), (0.9, 1e-3), (0.5, 0.5), (0.999, 5.0)):
        q = p * math.exp(-c)
        found = renyi_coin(p, q)
        for i in (0, 29, 120, 200, 328):
            a = mpf(_ORDERS[i])
            both = [
                log(mpf(x) ** a * mpf(y) ** (1 - a) + (1 - mpf(x)) ** a * (1 - mpf(y)) ** (1 - a)) / (a - 1)
                for x, y in ((p, q), (q, p))
            ]
            assert float(max(both)) <= found[i] <= float(max(both)) * (1 + 1e-8) + 1e-15


# The curve ----------------------------------------------------------------------------------------------------------


def exact_delta(eps, least, most, mu):
    """Coin and Gaussian by summation on a fine grid, both orders."""
    z = np.linspace(-12.0, 12.0 + mu, 200_001)
    h = z[1] - z[0]
    out = []
    for p, q in ((most, least), (least, most)):
        f, g = norm.pdf(z - mu) * h, norm.pdf(z) * h
        out.append(
            hockey_stick(p * f, q * g, eps) + hockey_stick((1 - p) * f, (1 - q) * g, eps),
        )
    return max(out)


@pytest.mark.parametrize(
    ("least", "most", "mu"), [(0.5, 0.6, 0.2), (0.93, 0.95, 0.5), (0.1, 0.9, 1.5), (0.4, 0.4, 0.7)]
)
def test_the_curve_of_a_coin_and_draws_is_exact(least, most, mu):
    profile = Switching(least, most, mu, 0.0, 0, 0.0)
    for eps in (0.0, 0.2, 1.0, 2.5):
        assert profile.delta(eps) == pytest.approx(exact_delta(eps, least, most, mu), rel=2e-4, abs=1e-9)
    assert Switching(0.4, 0.4, mu, 0.0, 0, 0.0).epsilon(1e-6) == pytest.approx(GDP(mu).epsilon(1e-6), rel=1e-4)


def test_many_coins_are_no_cheaper_than_they_are():
    """Against composition of the exact laws of 30 coins, all in one direction, and a Gaussian."""
    most, c, coins, mu = 0.8, 0.1, 30, 0.4
    profile = Switching(0.5, most, mu, c, coins, 0.0)
    z, loss = np.linspace(-12.0, 12.4, 20_001), []
    weights = norm.pdf(z - mu) * (z[1] - z[0])
    for p, q in ((most, most * math.exp(-c)), (most * math.exp(-c), most)):
        k = np.arange(coins + 1)
        of_coins = k * math.log(p / q) + (coins - k) * math.log((1 - p) / (1 - q))
        for eps in (0.5, 1.5, 3.0):
            gain = -np.expm1(np.minimum(eps - of_coins[:, None] - (mu * z - mu**2 / 2)[None, :], 0.0))
            loss.append((eps, float(binom.pmf(k, coins, p) @ gain @ weights)))
    for eps, delta in loss:
        assert profile.delta(eps) >= delta
    assert Switching(0.5, most, mu, c, coins, 0.0).delta(3.0) > Switching(0.5, most, mu, 0.0, 0, 0.0).delta(3.0)


def test_an_error_of_the_draws_goes_into_delta():
    clean, off = (Switching(0.5, 0.6, 0.2, 0.0, 0, e) for e in (0.0, 1e-7))
    assert off.delta(1.0) == pytest.approx(clean.delta(1.0) + (1 + math.e) * 1e-7, rel=1e-4)


# The theorems -------------------------------------------------------------------------------------------------------


def test_the_claim_is_what_the_proof_says():
    claim = gibbs_switching(FACT, "replace_one", POINTS, COINS, 0.9, 202, 2)
    eta = 2.0 / 40.0
    assert claim.scope is Scope.EVERY
    assert claim.unit == 1
    assert claim.profile.mu == pytest.approx(2 * eta * 5.0)
    assert claim.profile.least == pytest.approx(0.9 * math.exp(-0.4), rel=1e-9)
    assert claim.delta(2.0) == pytest.approx(exact_delta(2.0, 0.9 * math.exp(-0.4), 0.9, 0.5), rel=1e-3)
    masked = gibbs_switching(FACT, "zero_out", POINTS, COINS, 0.9, 202, 2)
    assert masked.profile.mu == pytest.approx(eta * 5.0)
    exact = gibbs_switching(FACT, "replace_one", POINTS, Release("coins", EXACT, 0.2, (1,), 100), 0.9, 202, 2, 1e-9)
    assert exact.profile.ratio == pytest.approx(2 * 2 * eta**2 + 2e-9)
    assert exact.profile.coins == 99
    assert exact.epsilon(1e-6) > claim.epsilon(1e-6)
    secret = Release("coins", ONE_SAMPLE, 0.2, (1,), 100)
    hidden = gibbs_switching(FACT, "replace_one", POINTS, secret, 0.9, 202, 2, 1e-9, 1e-12)
    assert (hidden.profile.ratio, hidden.profile.coins) == (exact.profile.ratio, 99)
    assert hidden.profile.error == pytest.approx((25 + 100) * 1e-12)
    assert gibbs_switching(FACT, "replace_one", POINTS, COINS, 0.9, 202, 2, 0.0, 1e-12).profile.error == pytest.approx(
        25e-12
    )
    draws = gibbs_draws(FACT, "replace_one", POINTS, 52, 2)
    assert isinstance(draws.profile, GDP)
    assert draws.profile.mu == pytest.approx(0.5)
    assert draws.epsilon(1e-6) < claim.epsilon(1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lipschitz": 2.0}, "must be a Fact"),
        ({"lipschitz": PROBLEM.diameter(3)}, "LIPSCHITZ"),
        ({"points": Release("points", "gaussian", 40.0, (3,), 25)}, "law 'gibbs'"),
        ({"points": Release("points", GIBBS, 0.0, (3,), 25)}, "no noise"),
        ({"points": Release("points", GIBBS, 40.0, (3,), 101)}, "as many as points"),
        ({"coins": Release("coins", "gaussian", 0.2, (1,), 100)}, "Release of law"),
        ({"coins": Release("coins", REFERENCE, 0.0, (1,), 100)}, "positive"),
        ({"most": 1.0}, "below 1"),
        ({"most": 0.0}, "positive"),
        ({"block": 0}, "block"),
        ({"block": 1.5}, "block"),
        ({"horizon": 203}, "every block"),
        ({"horizon": True}, "horizon"),
        ({"coins": Release("coins", REFERENCE, 8.1, (1,), 100)}, "at most 8"),
        ({"slack": -1.0}, "slack"),
        ({"error": math.nan}, "error"),
    ],
)
def test_every_hypothesis_is_checked(change, words):
    arguments = {
        "lipschitz": FACT, "relation": "replace_one", "points": POINTS, "coins": COINS, "most": 0.9, "horizon": 202,
        "block": 2,
    }  # fmt: skip
    with pytest.raises(HypothesisError, match=words):
        gibbs_switching(**{**arguments, **change})


def test_draws_by_the_clock_are_one_a_block():
    with pytest.raises(HypothesisError, match="every block"):
        gibbs_draws(FACT, "replace_one", POINTS, 53, 2)


def test_an_error_of_draws_by_the_clock_goes_into_delta():
    clean, off = (gibbs_draws(FACT, "replace_one", POINTS, 52, 2, error) for error in (0.0, 1e-9))
    assert off.delta(1.0) == pytest.approx(clean.delta(1.0) + 25 * (1 + math.e) * 1e-9, rel=1e-5)
    for wrong in (-1e-9, 2.0, math.nan, True):
        with pytest.raises(HypothesisError, match="error"):
            gibbs_draws(FACT, "replace_one", POINTS, 52, 2, wrong)


def test_claims_of_games_add_up_with_others():
    claim = gibbs_switching(FACT, "replace_one", POINTS, COINS, 0.9, 202, 2)
    other = gaussian(gradient_sum(FACT, "replace_one"), Release("sum", "gaussian", 10.0, (3,)))
    both = compose([claim, other])
    assert claim.epsilon(1e-6) < both.epsilon(1e-6) < claim.epsilon(1e-6) + other.epsilon(1e-6)


def test_coins_of_the_proof_are_gaussian_at_most_in_sum():
    """Ber(k) against Ber(k') is mu-GDP with mu the distance of their normal quantiles (Remark 1 of the note)."""
    rng = np.random.default_rng(4)
    for p, q in rng.uniform(0.01, 0.99, (200, 2)):
        mu = abs(norm.ppf(p) - norm.ppf(q))
        for eps in (0.0, 0.5, 2.0):
            exact = max(p - math.exp(eps) * q, 0.0) + max((1 - p) - math.exp(eps) * (1 - q), 0.0)
            bound = ndtr(-eps / mu + mu / 2) - math.exp(eps) * ndtr(-eps / mu - mu / 2)
            assert exact <= bound + 1e-12
