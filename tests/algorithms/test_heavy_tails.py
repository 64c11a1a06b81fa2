"""TruncatedMirrorDescent and HeavyTailedSGD: what is cut short, batches, the ball, the secret order, and refusals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.algorithms import HeavyTailedSGD, TruncatedMirrorDescent
from dpconvex.algorithms.disjoint import order_bits, parts, secret_order
from dpconvex.algorithms.heavy_tailed_sgd import Clipped, clipped_sum_of
from dpconvex.algorithms.mirror_descent import Mirrored, MirrorPath
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.profiles import GDP, Concentrated
from dpconvex.loops.rows import Dense
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort
from dpconvex.problem.geometry import dual_exponent, lp_norms, mirror_map
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Ones
from dpconvex.sums.rowwise import bounded
from dpconvex.testing.noiseless import NoiselessPort, run_without_noise
from dpconvex.theorems.numerics.shuffling import ShuffledSums

BUDGET = dc.Budget(1.0, 1e-6)
WIDE = dc.Problem(dc.losses.Squared(1e6), feature_bound=1e6)
SIGNS = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Linf(1.0))
BOTH = [TruncatedMirrorDescent(batches=3), HeavyTailedSGD(batches=3), HeavyTailedSGD(batches=3, norm="l2")]


def longest(plan, X, y):
    """Largest move of a batch sum, in every norm, over records that are replaced by other wild ones."""
    still, _ = run_without_noise(plan, X, y)
    rng, gaps = np.random.default_rng(7), []
    for record in range(plan.n):
        changed, labels = X.copy(), y.copy()
        changed[record] = rng.standard_t(1, size=plan.d) * 10.0 ** rng.uniform(-2, 5)
        labels[record] = -1e5 * labels[record]
        moved, _ = run_without_noise(plan, changed, labels, past=still)
        gaps.append(moved.values("gradients") - still.values("gradients"))
    return np.array(gaps)


@pytest.mark.parametrize("p", [1.05, 1.3, 2.0])
@pytest.mark.parametrize("shuffle", [False, True])
def test_truncation_is_in_the_norm_of_the_claim(p, shuffle, rng):
    n, d, tau = 12, 5, 0.7
    plan = TruncatedMirrorDescent(p=p, truncation=tau, batches=4, shuffle=shuffle).plan(WIDE, n=n, d=d, budget=BUDGET)
    gaps = longest(plan, rng.standard_t(1, size=(n, d)), rng.standard_t(1, size=n))
    q = dual_exponent(p)
    node = plan.claim.derivation.arguments["claim"].derivation.arguments
    assert (node["clip"], node["q"]) == (tau, plan.schedule[0].q) == (tau, q)
    lengths = lp_norms(gaps, q)
    assert lengths.max() <= 2.0 * tau * (1.0 + 1e-12)
    assert lengths.max() > 1.5 * tau
    assert ((lengths > 0.0).sum(axis=1) == 1).all()  # one batch a record


def test_truncation_to_zero_is_of_the_whole_gradient(rng):
    n, d = 12, 3
    plan = TruncatedMirrorDescent(constants="paper", radius=2.0).plan(SIGNS, n=n, d=d, budget=BUDGET)
    recipe = dataclasses.replace(plan.schedule[0], clip=0.2)  # slopes at 0 are 1/2
    X = rng.choice([-1.0, 1.0], size=(n, d)) * np.where(np.arange(n) % 2, 1.0, 0.1)[:, None]
    port = NoiselessPort(plan)
    broken = dataclasses.replace(plan, schedule=(recipe,))
    plan.algorithm.execute(broken, *open_rows(X, np.ones(n), SIGNS, n, d), port)
    first = port.history("gradients")[0]
    used = n // recipe.steps
    short = X[:used][np.arange(used) % 2 == 0]
    np.testing.assert_allclose(first, -0.5 * short.sum(axis=0), atol=1e-12)


def test_gradients_that_are_no_numbers_count_as_zero():
    slopes = np.array([np.inf, -np.inf, np.nan, 1e308, 0.5])
    for zero in (False, True):
        found = bounded(slopes, np.array([1.0, 1.0, 1.0, 1e10, 1.0]), 1.0, zero)
        assert np.isfinite(found).all()
        assert (found[:3] == 0.0).all()
        assert found[4] == 0.5
        assert abs(found[3]) * 1e10 <= 1.0


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("norm", ["", "coordinates", "l2"])
def test_huge_targets_and_rows_leave_finite_weights(norm, shuffle, rng):
    n, d = 12, 2
    problem = dc.Problem(dc.losses.Squared(1e300), dc.domains.L2Ball(1e220), feature_bound=1e100)
    plain = TruncatedMirrorDescent(batches=3, truncation=1.0, shuffle=shuffle)
    algorithm = HeavyTailedSGD(batches=3, clip=1.0, norm=norm) if norm else plain
    plan = algorithm.plan(problem, n=n, d=d, budget=BUDGET)
    X, y = rng.standard_t(1, size=(n, d)), rng.standard_t(1, size=n)
    X[4:] *= 1e100
    y[4:] *= 1e299
    for rows in (X, sparse.csr_matrix(X)):
        port, weights = run_without_noise(plan, rows, y)
        assert np.isfinite(weights).all()
        assert np.isfinite(port.history("gradients")).all()
        assert np.abs(port.history("gradients")).max() <= 4.0 * (1.0 + 1e-9)


@pytest.mark.parametrize("algorithm", BOTH, ids=str)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_all_batches_cost_what_one_does(algorithm, relation):
    budget = dc.Budget(1.0, 1e-6, relation)
    plans = [dataclasses.replace(algorithm, batches=b).plan(SIGNS, n=1000, d=4, budget=budget) for b in (1, 3, 1000)]
    least, *_, most = sorted(plan.releases[0].scale for plan in plans)
    assert most <= least * (1.0 + 1e-8)  # sums of more records are rounded more
    assert [plan.releases[0].times for plan in plans] == [1, 3, 1000]
    assert all(plan.gradient_evaluations == 1000 for plan in plans)
    assert all(budget.mu * (1.0 - 1e-9) <= plan.claim.profile.mu <= budget.mu for plan in plans)


def test_noise_of_coordinates_is_that_of_their_length():
    d, clip = 9, 0.25
    plan = HeavyTailedSGD(clip=clip).plan(SIGNS, n=1000, d=d, budget=BUDGET)
    assert plan.releases[0].scale == pytest.approx(2.0 * clip * math.sqrt(d) / BUDGET.mu, rel=1e-9)
    plan = HeavyTailedSGD(clip=clip, norm="l2").plan(SIGNS, n=1000, d=d, budget=BUDGET)
    assert plan.releases[0].scale == pytest.approx(2.0 * clip / BUDGET.mu, rel=1e-9)


def test_either_law_of_noise():
    laws = {}
    for noise in ("gaussian", "generalised", "shorter"):
        plan = TruncatedMirrorDescent(p=1.2, noise=noise).plan(SIGNS, n=1000, d=100, budget=BUDGET)
        laws[noise] = plan.releases[0].law
        assert isinstance(plan.claim.profile, Concentrated if noise == "generalised" else GDP)
    assert laws["generalised"].startswith("generalised")
    assert laws["shorter"] == "gaussian"


@pytest.mark.parametrize("given", [np.asarray, sparse.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("q", [2.0, math.inf])
@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_clipped_sums_against_one_record_at_a_time(given, q, constant, rng):
    n, d, clip = 30, 4, 0.3
    X = rng.standard_t(2, size=(n, d)) * (rng.random((n, d)) < 0.7)
    y, w, weights = rng.standard_t(2, size=n), rng.normal(size=d + (constant > 0)), rng.random(n)
    problem = dataclasses.replace(WIDE, intercept=constant)
    rows, labels = open_rows(given(X), y, problem, n, d)
    found = clipped_sum_of(
        open_sums(rows._replace(weights=weights), labels), problem.loss, w, Clipped(1, 1.0, clip, q, 1)
    )
    full = np.column_stack([X, np.full(n, constant)]) if constant else X
    gradients = (full @ w - y)[:, None] * full
    if q == 2.0:
        sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients *= np.minimum(1.0, clip / np.maximum(sizes, 1e-300))
    np.testing.assert_allclose(found, weights @ np.clip(gradients, -clip, clip), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_a_step_minimises_over_the_ball(p, rng):
    d, n, radius = 6, 40, 0.8
    phi = mirror_map(p, d)
    plan = TruncatedMirrorDescent(p=p, radius=radius, batches=4).plan(SIGNS, n=n, d=d, budget=BUDGET)
    path, rate = MirrorPath(plan), plan.schedule[0].rate
    for _ in range(4):
        before, g = path.point, 3.0 * rng.normal(size=d)
        path.move(10 * g, 10)

        def objective(w, g=g, before=before):
            return g @ w + phi.divergence(w, before) / rate

        assert lp_norms(path.point, phi.s) <= radius * (1.0 + 1e-12)
        least = objective(path.point)
        for _ in range(200):
            near = path.point + rng.normal(size=d) * 10.0 ** rng.uniform(-4, 0)
            near *= min(1.0, radius / float(lp_norms(near, phi.s)))
            assert objective(near) >= least - 1e-9 * (1.0 + abs(least))


def test_the_exponent_two_is_projected_gradient_descent(rng):
    plan = TruncatedMirrorDescent(p=2.0, radius=0.5, batches=5).plan(SIGNS, n=20, d=3, budget=BUDGET)
    path, recipe, w = MirrorPath(plan), plan.schedule[0], np.zeros(3)
    for _ in range(5):
        g = rng.normal(size=3)
        path.move(4 * g, 4)
        w = dc.domains.L2Ball(0.5).project(w - recipe.rate * g)
        np.testing.assert_allclose(path.point, w, rtol=1e-10)


def test_the_ball_lies_within_the_domain():
    d = 50
    for p, domain in ((1.3, dc.domains.L2Ball(2.0)), (1.1, dc.domains.L1Ball(2.0)), (1.5, dc.domains.LpBall(1.2, 2.0))):
        problem = dataclasses.replace(SIGNS, domain=domain)
        plan = TruncatedMirrorDescent(p=p).plan(problem, n=1000, d=d, budget=BUDGET)
        s, radius = mirror_map(p, d).s, plan.schedule[0].radius
        rng = np.random.default_rng(0)
        for point in (np.eye(d)[0], np.ones(d), rng.normal(size=d)):
            point = point * (radius / float(lp_norms(point, s)))
            np.testing.assert_allclose(domain.project(point), point, rtol=1e-9)
        asked = dataclasses.replace(plan.algorithm, radius=0.1).plan(problem, n=1000, d=d, budget=BUDGET)
        assert asked.schedule[0].radius == 0.1
    with pytest.raises(HypothesisError, match="does not run on"):
        TruncatedMirrorDescent().plan(dataclasses.replace(SIGNS, domain=dc.domains.Box()), n=100, d=2, budget=BUDGET)


def test_without_noise_it_finds_the_minimum(rng):
    n, d = 20_000, 3
    X = rng.choice([-1.0, 1.0], size=(n, d))
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5, 0.0])), 1.0, -1.0)
    best = minimize(lambda w: np.logaddexp(0.0, -y * (X @ w)).mean(), np.zeros(d)).x
    for algorithm in (TruncatedMirrorDescent(p=1.3, truncation=9.0), HeavyTailedSGD(clip=9.0)):
        plan = algorithm.plan(SIGNS, n=n, d=d, budget=dc.Budget(50.0, 1e-6))
        _, weights = run_without_noise(plan, X, y)
        assert np.abs(weights - best).max() < 0.3


# The secret order --------------------------------------------------------------------------------------------------


def test_every_record_is_in_one_batch(rng):
    n = 23
    sums = open_sums(Dense(2.0 ** np.arange(n)[:, None], 2.0**n, 0.0), np.ones(n))
    for order in (None, rng.permutation(n)):
        seen = list(parts(sums, 5, order))
        assert sum(part.sweep(Ones())[0] for part in seen) == 2.0**n - 1.0
        assert {part.n for part in seen} == {4, 5}


def test_the_order_is_uniform_and_kept_nowhere():
    """All orders of 4 records, by the sampler of a private run: 6 standard deviations."""
    plan = TruncatedMirrorDescent(shuffle=True, batches=2).plan(SIGNS, n=4, d=1, budget=dc.Budget(1.0, 1e-3))
    counts: dict[tuple[int, ...], int] = {}
    runs = 2400
    for _ in range(runs):
        port = NoisePort(plan.claim, Source())
        order = tuple(int(i) for i in secret_order(port, "order", 4))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert max(abs(c - runs / 24) for c in counts.values()) < 6.0 * math.sqrt(runs / 24)
    solution = plan.run(np.ones((4, 1)), np.ones(4), dataset="secret order")
    assert set(solution.iterates) == {"gradients"}
    assert "order" in solution.receipt.data["arithmetic"]["drawn"]
    assert dc.verify(solution.receipt)


def test_bits_make_ties_rare():
    for n, delta in ((2, 1e-2), (10_000, 1e-6), (10**6, 1e-12)):
        assert n**2 * 2.0 ** -(order_bits(n, delta) + 1) <= delta / 4096.0
    assert order_bits(10**9, 1e-300) == 256


def test_a_secret_order_saves_noise_and_a_public_one_would_break_the_promise():
    budget = dc.Budget(0.3, 1e-6)
    plans = [
        TruncatedMirrorDescent(shuffle=s, batches=2000).plan(SIGNS, n=2000, d=1, budget=budget) for s in (True, False)
    ]
    secret, known = (plan.releases[-1].scale for plan in plans)
    assert secret < 0.3 * known
    profile = plans[0].claim.profile
    assert isinstance(profile, ShuffledSums)
    assert 0.299 < profile.epsilon(1e-6) <= 0.3
    assert GDP(2.0 / profile.ratio).delta(0.3) > 1e3 * profile.delta(0.3)  # the same noise, in an order that is known


def test_large_batches_rely_on_one_sum():
    plans = [
        TruncatedMirrorDescent(shuffle=s, batches=4).plan(SIGNS, n=2000, d=3, budget=BUDGET) for s in (True, False)
    ]
    assert plans[0].releases[-1].scale == pytest.approx(plans[1].releases[-1].scale, rel=1e-3)


def test_the_published_noise_for_shuffling_covers_its_claim():
    problem = dataclasses.replace(SIGNS, domain=dc.domains.L2Ball(0.1))
    algorithm = TruncatedMirrorDescent(p=2.0, shuffle=True, constants="paper")
    budget = dc.Budget(0.5, 1e-6)
    plan = algorithm.plan(problem, n=20_000, d=2, budget=budget)
    assert plan.claim.epsilon(1e-6) < 0.5 * budget.epsilon  # which shows what the closed form wastes
    with pytest.raises(HypothesisError, match=r"at most ln"):
        algorithm.plan(problem, n=200, d=2, budget=budget)


# Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (TruncatedMirrorDescent, {"p": 1.0}, "p must"),
        (TruncatedMirrorDescent, {"p": 2.1}, "p must"),
        (TruncatedMirrorDescent, {"shuffle": "secret"}, "shuffle must"),
        (TruncatedMirrorDescent, {"radius": 0.0}, "radius must"),
        (TruncatedMirrorDescent, {"truncation": -1.0}, "truncation must"),
        (TruncatedMirrorDescent, {"truncation": math.nan}, "truncation must"),
        (TruncatedMirrorDescent, {"batches": 0}, "batches must"),
        (TruncatedMirrorDescent, {"batches": 2.0}, "batches must"),
        (TruncatedMirrorDescent, {"noise": "laplace"}, "noise must"),
        (TruncatedMirrorDescent, {"constants": "paper", "batches": 3}, "leave them out"),
        (TruncatedMirrorDescent, {"shuffle": True, "noise": "generalised"}, "gaussian"),
        (HeavyTailedSGD, {"batches": True}, "batches must"),
        (HeavyTailedSGD, {"clip": math.inf}, "clip must"),
        (HeavyTailedSGD, {"norm": "l1"}, "norm must"),
        (HeavyTailedSGD, {"constants": "paper", "clip": 1.0}, "leave them out"),
        (HeavyTailedSGD, {"constants": "loose"}, "constants must"),
        (HeavyTailedSGD, {"moment": 2.0}, "give clip instead"),
        (HeavyTailedSGD, {"order": 3.0}, "give clip instead"),
        (HeavyTailedSGD, {"constants": "paper", "moment": 0.0}, "moment must"),
        (HeavyTailedSGD, {"constants": "paper", "order": 1.5}, "order must"),
        (TruncatedMirrorDescent, {"moment": 2.0}, "give truncation instead"),
        (TruncatedMirrorDescent, {"constants": "paper", "moment": -1.0}, "moment must"),
    ],
)
def test_bad_options_are_refused(kind, options, words):
    with pytest.raises(InputError, match=words):
        kind(**options)


@pytest.mark.parametrize("algorithm", BOTH, ids=str)
def test_wild_rows_are_refused_before_anything_is_released(algorithm):
    plan = algorithm.plan(SIGNS, n=6, d=2, budget=BUDGET)
    for bad in (np.nan, np.inf):
        X = np.ones((6, 2))
        X[5, 1] = bad
        with pytest.raises(InputError):
            plan.run(X, np.ones(6), dataset="wild")
    with pytest.raises(InputError):
        plan.run(np.ones((5, 2)), np.ones(5), dataset="wild")


@pytest.mark.parametrize("algorithm", BOTH, ids=str)
def test_more_batches_than_records_and_a_simplex_are_refused(algorithm):
    with pytest.raises(InputError, match="batches must not exceed"):
        algorithm.plan(SIGNS, n=2, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="does not run on Simplex"):
        algorithm.plan(dataclasses.replace(SIGNS, domain=dc.domains.Simplex(1.0)), n=20, d=2, budget=BUDGET)


def test_recipes_are_read_in_words():
    plan = TruncatedMirrorDescent(shuffle=True).plan(SIGNS, n=500, d=3, budget=BUDGET)
    assert "secret" in str(plan)
    assert "shortened to" in str(plan)
    assert "set to 0 beyond" in str(TruncatedMirrorDescent(constants="paper").plan(SIGNS, n=500, d=3, budget=BUDGET))
    assert "every coordinate" in str(HeavyTailedSGD().plan(SIGNS, n=500, d=3, budget=BUDGET))
    assert isinstance(plan.schedule[0], Mirrored)


def test_rows_whose_squares_vanish_are_clipped_too():
    """A target may be so large that entries below the root of the smallest number matter."""
    loss = dc.losses.Squared(1e200)
    for x in (1e-155, 1e-161, 1e-170):
        for q in (2.0, math.inf):
            rows = Dense(np.array([[x, 0.7 * x]]), 1.0, 0.0)
            total = clipped_sum_of(open_sums(rows, np.array([-1e200])), loss, np.zeros(2), Clipped(1, 1.0, 1.0, q, 1))
            assert lp_norms(total, q) <= 1.0


@pytest.mark.parametrize("algorithm", [HeavyTailedSGD(clip=3e307), TruncatedMirrorDescent(truncation=3e307)])
def test_sums_that_could_leave_float64_are_refused(algorithm):
    with pytest.raises(HypothesisError, match=r"could overflow float64|grid must be"):
        algorithm.plan(WIDE, n=100, d=1, budget=dc.Budget(50.0, 1e-6))


@pytest.mark.parametrize("moment", [0.1, 7.0])
@pytest.mark.parametrize("options", [{}, {"norm": "l2"}, {"order": 4.0}])
def test_a_printed_clip_scales_with_the_moment_and_steps_against_it(moment, options):
    """A loss and its moments s times as large: the same batches, clips s times as large, and the same points."""
    one = HeavyTailedSGD(constants="paper", **options).plan(SIGNS, n=4000, d=3, budget=BUDGET).schedule[0]
    other = (
        HeavyTailedSGD(constants="paper", moment=moment, **options).plan(SIGNS, n=4000, d=3, budget=BUDGET).schedule[0]
    )
    assert other.steps == one.steps
    assert other.clip == pytest.approx(moment * one.clip)
    assert other.rate * other.clip == pytest.approx(one.rate * one.clip)
    signal, k = 4000 * BUDGET.mu / BUDGET.moves, options.get("order", 2.0)
    even = math.sqrt(3) if options.get("norm") == "l2" else 1.0
    assert one.clip == pytest.approx(even * signal ** (1.0 / (2.0 * k - 1.0)))


@pytest.mark.parametrize("moment", [0.5, 7.0])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_printed_truncation_scales_with_the_moment(moment, shuffle):
    """For the loss over s: smoothness over s, and clips s times as large, so that smoothness times radius stays."""
    found = []
    for s in (1.0, moment):
        algorithm = TruncatedMirrorDescent(constants="paper", radius=2.0, moment=s, shuffle=shuffle)
        found.append(algorithm.plan(SIGNS, n=4000, d=3, budget=BUDGET).schedule[0])
    smooth = 2.0 * SIGNS.loss.curvature_bound() * SIGNS.dual_row_bound(3, found[0].q) ** 2
    assert found[1].clip - smooth == pytest.approx(moment * (found[0].clip - smooth))
    assert found[1].rate == pytest.approx(1.0 / max(moment * math.sqrt(found[1].steps), smooth))
    assert found[0].rate == pytest.approx(1.0 / max(math.sqrt(found[0].steps), smooth))
