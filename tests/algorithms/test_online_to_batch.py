"""OnlineToBatch: bounds of the differences, learners, noise, what it refuses, and how it compares."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.algorithms.attacks import NONE, worst_pairs
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.online_to_batch import LEARNERS, Conversion, OnlineToBatch
from dpconvex.audit.replay import both_values, correlation, log_ratios, noise_size, run_once, whitened
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError
from dpconvex.games import learners
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort
from dpconvex.testing.noiseless import run_without_noise

BALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
BUDGET = dc.Budget(1.0, 1e-6)


def made(n, d, rng):
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, np.where(X[:, 0] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)


def test_noise_is_what_one_gaussian_release_needs():
    plan = OnlineToBatch(clip=0.25).plan(BALL, n=1000, d=3, budget=BUDGET)
    assert plan.releases[0].scale == pytest.approx(2 * 0.25 / BUDGET.mu)
    assert plan.claim.profile.mu == pytest.approx(BUDGET.mu)
    assert plan.claim.scope == "every iterate"
    masked = OnlineToBatch(clip=0.25).plan(BALL, n=1000, d=3, budget=dc.Budget(1.0, 1e-6, "zero_out"))
    assert masked.releases[0].scale == pytest.approx(0.25 / BUDGET.mu)


@pytest.mark.parametrize("constants", ["tight", "paper"])
@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.Huber(0.5), dc.losses.SmoothedHinge(0.5)])
def test_no_difference_exceeds_its_bound(constants, power, loss, rng):
    """Where the facts are true, clip=1 never acts, so the theory of the paper speaks of what is run."""
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(3.0))
    recipe = OnlineToBatch(power=power, constants=constants).plan(problem, n=50, d=2, budget=BUDGET).schedule[0]
    largest = 0.0
    for _ in range(3000):
        t = int(rng.integers(1, 40))
        before, play = (problem.domain.project(3.0 * rng.normal(size=2)) for _ in range(2))
        weights = np.arange(1.0, t + 1) ** power
        point = before + weights[-1] / weights.sum() * (play - before) if t > 1 else play
        before = before if t > 1 else point
        x = rng.normal(size=2)
        x, y = x / np.linalg.norm(x), float(rng.choice([-1.0, 1.0]))
        difference = weights[-1] * loss.slope(x @ point, y) - (t - 1.0) ** power * loss.slope(x @ before, y)
        cap = recipe.cap(t, np.linalg.norm(point - before), np.linalg.norm(play - before))
        largest = max(largest, abs(difference) / cap)
    assert 0.3 < largest <= 1.0 + 1e-12 if constants == "tight" else 0.1 < largest <= 1.0


def test_a_round_adds_clipped_differences_of_its_own_records(rng):
    n, rounds = 20, 5
    X, y = made(n, 2, rng)
    plan = OnlineToBatch(rounds=rounds, clip=0.3).plan(BALL, n=n, d=2, budget=BUDGET)
    port, weights = run_without_noise(plan, X, y)
    sums, recipe = port.history("sums"), plan.schedule[0]
    player, total = recipe.learner.player(2), 0.0
    point, expected = np.zeros(2), np.zeros(2)
    for t in range(1, rounds + 1):
        play, before = player.play(), point
        total += t
        point = before + t / total * (play - before)
        move = np.linalg.norm(point - before)
        cap = min(recipe.lipschitz + (t - 1) * 0.25 * move, (2 * t - 1) * recipe.lipschitz)
        for i in range((t - 1) * 4, t * 4):
            x = X[i] / max(1.0, np.linalg.norm(X[i]))
            r = t * BALL.loss.slope(x @ point, y[i]) - (t - 1) * BALL.loss.slope(x @ before, y[i])
            expected = expected + r * x * min(1.0, 0.3 * cap / (abs(r) * np.linalg.norm(x))) / 4
        assert np.allclose(sums[t - 1], expected, atol=1e-12)
        player.observe(sums[t - 1])
    after = rounds + 1
    assert np.allclose(weights, point + after / (total + after) * (player.play() - point), atol=1e-12)


def test_without_noise_it_reaches_the_minimum(rng):
    X, y = made(5000, 3, rng)
    y[rng.random(5000) < 0.3] *= -1.0
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    plan = OnlineToBatch(clip=1.0, step=1.0).plan(problem, n=5000, d=3, budget=BUDGET)
    _, w = run_without_noise(plan, X, y)
    Z = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))

    def loss(v):
        return np.logaddexp(0, -y * (Z @ v)).mean()

    least = minimize(loss, np.zeros(3)).fun
    assert least < loss(w) < least + 0.005 < loss(np.zeros(3)) - 0.01


@pytest.mark.parametrize("name", sorted(LEARNERS))
@pytest.mark.parametrize("constants", ["tight", "paper"])
def test_every_learner_plays(name, constants, rng):
    n = 400
    X, y = made(n, 2, rng)
    problem = dataclasses.replace(BALL, l2=4.0)
    budget = dc.Budget(20.0, 1e-6)
    plan = OnlineToBatch(learner=LEARNERS[name], constants=constants).plan(problem, n=n, d=2, budget=budget)
    assert plan.to_json()["algorithm"]["learner"] == name
    if constants == "tight":
        w = np.mean([plan.run(X, y, seed=s).weights for s in range(5)], axis=0)
        assert w[0] > abs(w[1])
    assert dc.verify(plan.run(X, y, dataset="learners").receipt)


@pytest.mark.parametrize("noise", ["tree", "honaker", "blt"])
def test_the_noise_of_a_run_has_the_covariance_of_its_law(noise, rng):
    """Increments in units of their scales, whitened by the exact covariance."""
    n, rounds, runs = 40, 8, 300
    plan = OnlineToBatch(rounds=rounds, noise=noise).plan(BALL, n=n, d=3, budget=BUDGET)
    release = plan.releases[0]
    found = []
    for seed in range(runs):
        port = NoisePort(plan.claim, Source(seed))
        sums = port.accumulate("sums", np.zeros((rounds, 3)), np.ones(rounds)) / release.scale
        found.append(whitened(release.law, np.diff(sums, axis=0, prepend=0.0)))
    white = np.concatenate(found, axis=1)
    assert np.abs(np.cov(white) - np.eye(rounds)).max() < 6.0 / np.sqrt(3 * runs)


@pytest.mark.parametrize("noise", ["tree", "honaker", "blt"])
def test_a_record_costs_no_more_than_the_claim_in_any_round(noise):
    L = correlation(f"prefix sums by {noise}", 20)
    cost = (np.linalg.inv(L) ** 2).sum(axis=0)
    assert cost.max() <= 1.0 + 1e-9
    assert noise == "honaker" or cost.max() == pytest.approx(1.0)


@pytest.mark.parametrize("noise", ["tree", "honaker", "blt"])
def test_the_audit_knows_the_likelihood_of_a_transcript(noise, rng):
    """With a learner at rest the sums are a Gaussian vector, whose covariance is read off runs on unit vectors."""
    plan = OnlineToBatch(rounds=4, noise=noise).plan(BALL, n=8, d=2, budget=BUDGET)
    still, moving = worst_pairs(plan, NONE)
    size = noise_size(still.plan)
    plain, changed = (run_once(still.plan, NONE, side, np.zeros(size)) for side in (still.plain, still.changed))
    spread = np.array([run_once(still.plan, NONE, still.plain, unit) - plain for unit in np.eye(size)])
    inverse = np.linalg.inv(spread.T @ spread)
    z = rng.normal(size=size)
    out = run_once(still.plan, NONE, still.plain, z)
    near, far = out - plain, out - changed
    expected = (near @ inverse @ near - far @ inverse @ far) / 2.0
    assert log_ratios(still.plan, NONE, still.plain, still.changed, z)[0] == pytest.approx(expected, rel=1e-6)
    apart = np.sqrt((changed - plain) @ inverse @ (changed - plain))
    assert apart <= BUDGET.mu * (1 + 1e-9)
    assert noise == "honaker" or apart == pytest.approx(BUDGET.mu, rel=1e-6)
    # The learner as it is has scales that depend on the path; on every path the data sets are no further apart.
    for _ in range(20):
        port, shadow = both_values(moving.plan, NONE, moving.plain, moving.changed, rng.normal(size=size))
        gap = np.array([a[1] - b[1] for a, b in zip(port.given, shadow.given, strict=True)])
        far = np.linalg.norm(whitened(plan.releases[0].law, gap)) / plan.releases[0].scale
        assert far <= BUDGET.mu * (1 + 1e-9)


@pytest.mark.parametrize("record", [0, 3, 7])
@pytest.mark.parametrize("noise", ["tree", "honaker", "blt"])
def test_transcripts_on_neighbours_are_within_mu_in_every_round(noise, record, rng):
    X, y = made(8, 2, rng)
    plan = OnlineToBatch("OptimisticDescent", rounds=4, noise=noise, step=0.5).plan(BALL, n=8, d=2, budget=BUDGET)
    rows, labels = open_rows(X, y, BALL, 8, 2)
    other, flipped = X.copy(), y.copy()
    other[record], flipped[record] = 5.0 * rng.normal(size=2), -y[record]
    neighbours = open_rows(other, flipped, BALL, 8, 2)
    port, shadow = both_values(plan, NONE, (rows, labels), neighbours, rng.normal(size=noise_size(plan)))
    gap = np.array([a[1] - b[1] for a, b in zip(port.given, shadow.given, strict=True)])
    assert np.flatnonzero(np.abs(gap).sum(axis=1)).tolist() == [record // 2]
    shifts = np.cumsum((whitened(plan.releases[0].law, gap) ** 2).sum(axis=1)) / plan.releases[0].scale ** 2
    assert (shifts <= BUDGET.mu**2 * (1 + 1e-9)).all()


def test_what_looks_inside_sees_running_sums():
    plan = OnlineToBatch(rounds=3).plan(BALL, n=6, d=2, budget=BUDGET)
    (move,) = dc.audit.sensitivities(plan, tries=40, seed=1)
    assert move.stated == pytest.approx(1.0, abs=1e-9)
    assert 0.99 < move.found <= 1.0 + 1e-9
    assert all(check.passed for check in dc.audit.shared_noise(plan, runs=150))


def test_scales_are_computed_from_released_values_alone(rng):
    """Two data sets that release the same values have the same scales."""
    X, y = made(12, 2, rng)
    plan = OnlineToBatch(rounds=4).plan(BALL, n=12, d=2, budget=BUDGET)
    still, _ = run_without_noise(plan, X, y)
    seen = []

    class Watch:
        def __init__(self, port):
            self._port = port

        def accumulate(self, name, increments, scales):
            seen[-1].append(tuple(scales))
            done = len(seen[-1])
            return still.history(name)[done - 1 : done]

    for rows in (X, -3.0 * X[::-1]):
        seen.append([])
        plan.algorithm.execute(plan, *open_rows(rows, y, BALL, 12, 2), Watch(still))
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 1


def test_sparse_float32_and_weights(rng):
    X, y = made(60, 3, rng)
    X[np.abs(X) < 0.3] = 0.0
    plan = OnlineToBatch(rounds=7).plan(BALL, n=60, d=3, budget=BUDGET)
    dense = plan.run(X, y, seed=1).weights
    assert np.allclose(plan.run(sparse.csr_matrix(X), y, seed=1).weights, dense, atol=1e-9)
    assert np.allclose(plan.run(X.astype(np.float32), y, seed=1).weights, dense, atol=1e-5)
    assert np.array_equal(plan.run(X, y, seed=1, sample_weight=np.ones(60)).weights, dense)
    half = np.where(np.arange(60) < 30, 1.0, 0.0)
    assert not np.allclose(plan.run(X, y, seed=1, sample_weight=half).weights, dense)
    others = X.copy()
    others[30:] *= -1.0
    masked = plan.run(X, y, seed=1, sample_weight=half).weights
    assert np.allclose(plan.run(others, y, seed=1, sample_weight=half).weights, masked)


def test_all_records_are_read_once():
    plan = OnlineToBatch(rounds=7).plan(BALL, n=60, d=3, budget=BUDGET)
    sizes = plan.schedule[0].batches.values()
    assert sizes.sum() == 60
    assert set(sizes) == {8.0, 9.0}
    assert plan.gradient_evaluations == 120


@pytest.mark.parametrize("loss", [dc.losses.Hinge(), dc.losses.Absolute(), dc.losses.Squared()])
def test_losses_with_kinks_or_without_bounds_need_no_more(loss, rng):
    problem = dc.Problem(loss)
    plan = OnlineToBatch().plan(problem, n=300, d=2, budget=BUDGET)
    X, y = made(300, 2, rng)
    assert np.isfinite(plan.run(X, y).weights).all()
    with pytest.raises(HypothesisError):
        OnlineToBatch(constants="paper").plan(problem, n=300, d=2, budget=BUDGET)


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "Nobody"},
        {"learner": None},
        {"rounds": 0},
        {"rounds": 2.5},
        {"power": 0.0},
        {"power": float("nan")},
        {"power": 0.9, "noise": "tree"},
        {"noise": "laplace"},
        {"noise": np.ones(3)},
        {"noise": ["blt"]},
        {"noise": len},
        {"clip": 0.0},
        {"clip": 1.5},
        {"step": -1.0},
        {"step": float("inf")},
        {"step": 1.0, "learner": "ParameterFree"},
        {"constants": "loose"},
        {"constants": "paper", "clip": 0.5},
        {"constants": "paper", "rounds": 5},
        {"constants": "paper", "noise": "honaker"},
        {"constants": "paper", "power": 0.5},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError):
        OnlineToBatch(**options)


def test_problems_it_cannot_take_are_refused():
    with pytest.raises(InputError, match="rounds must not exceed"):
        OnlineToBatch(rounds=11).plan(BALL, n=10, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="strong convexity"):
        OnlineToBatch(learner="StronglyConvexDescent").plan(BALL, n=10, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="bounded domain"):
        OnlineToBatch(constants="paper").plan(dc.Problem(dc.losses.Logistic()), n=10, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="beyond this budget"):
        OnlineToBatch(constants="paper").plan(BALL, n=10, d=2, budget=dc.Budget(60.0, 0.5 / 10))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_refused_before_anything_is_released(bad, rng):
    X, y = made(20, 2, rng)
    X[-1, 0] = bad
    plan = OnlineToBatch(rounds=4).plan(BALL, n=20, d=2, budget=BUDGET)
    with pytest.raises(InputError):
        plan.run(X, y)


def test_printed_constants_are_worse(rng):
    n = 2000
    X, y = made(n, 3, rng)
    budget = dc.Budget(4.0, 1e-6)
    losses = {}
    for constants in ("tight", "paper"):
        plan = OnlineToBatch(constants=constants).plan(BALL, n=n, d=3, budget=budget)
        w = [plan.run(X, y, seed=s).weights for s in range(3)]
        losses[constants] = np.mean([np.logaddexp(0, -y * (X @ v)).mean() for v in w])
    assert losses["tight"] < losses["paper"] - 0.01
    assert plan.claim.epsilon(1e-6) < 4.0


# Parameter-free -----------------------------------------------------------------------------------------------------


def _noise_labels(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.where(rng.random(n) < 0.5, 1.0, -1.0)


def test_where_the_start_is_the_solution_little_is_paid_whatever_the_domain():
    """Labels that do not depend on the rows: the excess loss of w is that over w = 0, here on the population."""
    budget, lost = dc.Budget(1.0, 1e-6), {}
    test = _noise_labels(20_000, 10, np.random.default_rng(1))[0]
    for radius in (20.0, 200.0):
        problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(radius))
        for learner in ("ParameterFree", "SubgradientDescent"):
            found = []
            for seed in range(3):
                X, y = _noise_labels(1000, 10, np.random.default_rng(seed))
                plan = OnlineToBatch(learner).plan(problem, n=1000, d=10, budget=budget)
                m = test @ plan.run(X, y, seed=seed).weights
                found.append(np.mean(np.logaddexp(0.0, m) + np.logaddexp(0.0, -m)) / 2.0 - math.log(2.0))
            lost[learner, radius] = float(np.mean(found))
    for radius in (20.0, 200.0):
        assert lost["ParameterFree", radius] < 0.01
        assert lost["ParameterFree", radius] < lost["SubgradientDescent", radius] / 2.0
    assert lost["ParameterFree", 200.0] == pytest.approx(lost["ParameterFree", 20.0], abs=2e-3)


def test_the_bound_of_the_regularised_game_holds_against_errors_of_any_direction():
    """The proposition of the note, with errors as long as they may be, away from the start or along the gradient."""
    rng, rounds, d = np.random.default_rng(2), 60, 3
    for trial in range(12):
        centre, power = rng.normal(size=d) * 10 ** rng.uniform(-1, 0.5), float(rng.integers(1, 4))
        xi = ((float(rng.uniform(0.01, 3.0)), power - 1.0),)
        nu = ((float(rng.uniform(0.0, 0.1)), power),)
        learner = learners.ParameterFree(dc.domains.L2Ball(5.0), 10.0, 1.0)
        recipe = Conversion(learner, even_batches(rounds, rounds), power, 1.0, 1.0, 1.0, printed=False, xi=xi, nu=nu)
        player, x, total, regret, spent = learner.player(d), np.zeros(d), 0.0, [], 0.0
        for t in range(1, rounds + 1):
            w, beta = player.play(), float(t) ** power
            total += beta
            x = x + beta / total * (w - x)
            length = sum(a * t**p for a, p in xi)
            curved = sum(a * t**p for a, p in nu)
            slope = (x - centre) / math.sqrt(1.0 + (x - centre) @ (x - centre))
            way = (-w, slope, rng.normal(size=d))[trial % 3]
            error = length * way / max(float(np.linalg.norm(way)), 1e-12)
            regret.append((beta * slope + error, w, length, curved))
            player.observe(beta * slope + error + recipe.pull(t, w))
        for u in (centre, np.zeros(d), -centre):
            far = float(np.linalg.norm(u))
            spent = sum(
                s @ (w - u) + a * (np.linalg.norm(w) - far) + b * (w @ w - far**2) for s, w, a, b in regret
            ) + sum(2.0 * a * far + b * far**2 for _, _, a, b in regret)
            value = [math.sqrt(1.0 + (v - centre) @ (v - centre)) for v in (x, u)]
            assert total * (value[0] - value[1]) <= spent + 1e-9 * total


def test_the_printed_regulariser_is_that_of_the_theorem():
    problem, budget = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(2.0)), dc.Budget(1.0, 1e-6)
    n, d, G, H, D = 500, 4, problem.lipschitz(4).value, 0.25, 4.0
    recipe = OnlineToBatch("ParameterFree", constants="paper").plan(problem, n=n, d=d, budget=budget).schedule[0]
    phi = math.sqrt(math.log(20 * d * n * math.log(2 * (1 + D * H / G) * n) / 0.05))
    A, B, rho = 8 * math.sqrt(2), 8 * math.sqrt(d), 1.0 / (2 * math.sqrt(math.log(1e6)))
    assert recipe.power == 3.0
    for t in (1, 20, n):
        noisy = B * (G + D * H) * phi * math.log2(2 * n) * t**2 / rho
        off = np.array([0.0, 3.0, 4.0, 0.0])
        expected = (A * G * phi * t**2.5 + noisy) / 5.0 + 2 * 28 * A * H * phi * t**2.5
        assert recipe.pull(t, off) == pytest.approx(expected * off)
        assert not recipe.pull(t, 0.0 * off).any()
    longest = G * n**3 + A * (2 * G + 57 * D * H) * phi * n**2.5 + 2 * noisy
    assert recipe.learner.lipschitz == pytest.approx(longest)
    assert not OnlineToBatch("FTRL", constants="paper").plan(problem, n=n, d=d, budget=budget).schedule[0].xi
    with pytest.raises(InputError, match="power=3"):
        OnlineToBatch("ParameterFree", constants="paper", power=2.0).plan(problem, n=n, d=d, budget=budget)


def test_optimistic_steps_that_adapt_show_the_fast_rate_where_gradients_do_not_vary():
    """Rounds that all hold the same five records, or records at random: exponents over 25, 100, 400 rounds."""
    domain, rows, exponents = dc.domains.L2Ball(3.0), np.diag(1.0 / np.arange(1, 6)), {}
    problem = dc.Problem(dc.losses.Squared(target=2.0), domain=domain)
    for varies in (False, True):
        excess = []
        for rounds in (25, 100, 400):
            found = []
            for seed in range(3):
                rng, n = np.random.default_rng(seed), 100 * rounds
                X = rows[rng.integers(0, 5, n)] if varies else np.tile(rows, (n // 5, 1))
                y = 0.8 * X.sum(axis=1) + (0.3 * rng.choice([-1.0, 1.0], n) if varies else 0.0)
                algorithm = OnlineToBatch(learners.OptimisticDescent(domain), rounds=rounds, clip=1.0)
                weights = algorithm.plan(problem, n=n, d=5, budget=dc.Budget(1000.0, 1e-6)).run(X, y, seed=seed).weights
                found.append(float((np.diag(rows) ** 2 * (weights - 0.8) ** 2).sum()))
            excess.append(np.mean(found))
        exponents[varies] = math.log(excess[2] / excess[0]) / math.log(16.0)
    assert exponents[False] <= -1.5 + 0.15  # Theorem 6 of the paper says 3/2; a quadratic does better
    assert exponents[False] < exponents[True] - 0.3
