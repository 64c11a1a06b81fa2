"""MirrorDescent: the step against its definition, convergence, norms of rows, noise of either law, and refusals."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.algorithms.mirror_descent import (
    MirrorDescent,
    MirrorPath,
    mirrored,
    noise_length,
)
from dpconvex.audit.replay import shaped
from dpconvex.audit.suite import subjects
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError, VerificationError
from dpconvex.kernel.claims import Release
from dpconvex.kernel.profiles import GDP, Concentrated
from dpconvex.noise.generalised import rounded_generalised
from dpconvex.noise.source import Source
from dpconvex.plan.people import protect_people
from dpconvex.problem.geometry import dual_exponent, kappa, lp_norms, mirror_map
from dpconvex.sums.lengths import row_lengths
from dpconvex.sums.matrix import Matrix
from dpconvex.testing.noiseless import run_without_noise
from dpconvex.theorems.generalised_gaussian import generalised_law

SIGNS = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Linf(1.0))
BUDGET = dc.Budget(2.0, 1e-6)


def sparse_signs(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n, d))
    score = 2.0 * X[:, 0] - 1.4 * X[:, 1] + X[:, 2]
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)


@pytest.mark.parametrize("p", [1.05, 1.3, 2.0])
def test_a_step_minimises_what_it_should(p, rng):
    """<g, w> + beta D(w, w_t) + alpha Phi(w), against random perturbations of the answer."""
    d, n = 12, 40
    plan = MirrorDescent(p=p, steps=3).plan(SIGNS, n=n, d=d, budget=BUDGET)
    recipe, phi = plan.schedule[0], mirror_map(p, d)
    alpha_and_beta = 1.0 / recipe.rate
    beta = recipe.keep * alpha_and_beta
    path = MirrorPath(plan)
    for _ in range(3):
        before, g = path.point, rng.normal(size=d)
        path.move(n * g)

        def objective(w, g=g, before=before):
            return g @ w + beta * phi.divergence(w, before) + (alpha_and_beta - beta) * phi.value(w)

        least = objective(path.point)
        for _ in range(50):
            near = path.point + rng.normal(size=d) * np.abs(path.point).max() * 10.0 ** rng.uniform(-4, 0)
            assert objective(near) >= least - 1e-12 * (1.0 + abs(least))


def test_the_average_has_growing_weights(rng):
    plan = MirrorDescent(steps=6).plan(SIGNS, n=30, d=4, budget=BUDGET)
    path, points = MirrorPath(plan), []
    for _ in range(6):
        path.move(rng.normal(size=4))
        points.append(path.point)
    weights = plan.schedule[0].growth ** np.arange(6)
    np.testing.assert_allclose(path.average, weights @ np.array(points) / weights.sum(), rtol=1e-12)


def test_points_stay_in_the_domain(rng):
    for domain in (dc.domains.L1Ball(0.3), dc.domains.LpBall(4.0, 0.5), dc.domains.LpBall(1.3, 0.5)):
        problem = dataclasses.replace(SIGNS, domain=domain)
        path = MirrorPath(MirrorDescent(steps=6).plan(problem, n=30, d=40, budget=BUDGET))
        for _ in range(6):
            path.move(rng.normal(size=40) * 1000.0)
            assert lp_norms(path.point, domain.traits.norm) <= domain.radius * (1.0 + 1e-12)
    np.testing.assert_allclose(lp_norms(path.point, 1.3), 0.5)  # the ball is of the mirror map's own norm


def test_more_records_help_for_long():
    """With a fixed number of steps and shortened gradients, the excess stood still from some thousand records on."""
    X, y = sparse_signs(20_000, 30, seed=1)
    fresh, labels = sparse_signs(40_000, 30, seed=2)
    least = np.logaddexp(0.0, -labels * (fresh[:, :3] @ [2.0, -1.4, 1.0])).mean()
    found = []
    for n in (1250, 20_000):
        plan = MirrorDescent().plan(SIGNS, n=n, d=30, budget=dc.Budget(4.0, 1e-6))
        weights = plan.run(X[:n], y[:n], seed=0).weights
        found.append(np.logaddexp(0.0, -labels * (fresh @ weights)).mean() - least)
    assert found[1] < found[0] / 4.0  # a rate of n^-1/2


def test_the_exponent_two_is_regularised_gradient_descent(rng):
    plan = MirrorDescent(p=2.0, steps=5).plan(SIGNS, n=20, d=3, budget=BUDGET)
    recipe, path, w = plan.schedule[0], MirrorPath(plan), np.zeros(3)
    for _ in range(5):
        g = rng.normal(size=3)
        path.move(g)
        w = recipe.keep * w - recipe.rate * g / 20
        np.testing.assert_allclose(path.point, w, rtol=1e-12)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0])
def test_without_noise_it_reaches_the_regularised_minimum(p):
    """At factor 1/(1 + alpha/(2 beta)) a step, or better, in the divergence of the mirror map."""
    n, d, shrink = 400, 4, 0.5
    X, y = sparse_signs(n, d)
    phi, row = mirror_map(p, d), SIGNS.dual_row_bound(d, dual_exponent(p))
    beta = 0.25 * row**2
    plan = MirrorDescent(p=p, steps=40).plan(SIGNS, n=n, d=d, budget=BUDGET)
    recipe = mirrored(40, 1.0 / beta, shrink, 10.0 * row, dual_exponent(p))
    plan = dataclasses.replace(plan, schedule=(recipe,))

    def objective(w):
        return np.logaddexp(0.0, -y * (X @ w)).mean() + shrink * beta * phi.value(w)

    best = minimize(objective, np.full(d, 0.1), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}).x
    port, _ = run_without_noise(plan, X, y)
    path, before = MirrorPath(plan), phi.divergence(best, np.zeros(d))
    for gradient in port.history("gradients"):
        path.move(gradient)
        now = phi.divergence(best, path.point)
        assert now <= before / (1.0 + shrink / 2.0) + 1e-8
        before = now
    assert before < 1e-6


@pytest.mark.parametrize("q", [2.0, 3.0, 21.0, 1001.0])
def test_lengths_of_rows(q, rng):
    n, d = 50, 9
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[0], X[1] = 0.0, 1e-200
    for bound, intercept in ((dc.bounds.L2(1.0), 0.0), (dc.bounds.Linf(0.5), 0.7), (dc.bounds.Lp(3, 2.0), 0.0)):
        problem = dc.Problem(dc.losses.Huber(), feature_bound=bound, intercept=intercept)
        top = problem.dual_row_bound(d, q)
        for given in (X, sparse.csr_matrix(X), X.astype(np.float32)):
            rows, _ = open_rows(given, np.zeros(n), problem, n, d)
            matrix = Matrix(rows, n)
            exact = lp_norms(np.stack([matrix.adjoint(np.eye(n)[i]) for i in range(n)]), q)
            found = row_lengths(matrix, q)
            assert (found >= exact).all()
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-147)
            assert (found <= top * (1.0 + 1e-6)).all()  # single precision is brought back in single precision


def test_bounds_of_rows_in_columns():
    bound = dc.bounds.Columns(lo=(0.0, -3.0), hi=(4.0, 1.0))
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=bound, intercept=2.0)
    assert problem.dual_row_bound(2, 3.0) == pytest.approx((4**3 + 3**3 + 2**3) ** (1 / 3))
    with pytest.raises(InputError, match="columns"):
        problem.dual_row_bound(3, 3.0)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("noise", ["gaussian", "generalised"])
def test_noise_is_what_the_claim_needs_and_no_more(noise, relation):
    d, budget = 100, dc.Budget(1.0, 1e-6, relation)
    plan = MirrorDescent(p=1.2, steps=30, noise=noise).plan(SIGNS, n=1000, d=d, budget=budget)
    (release,), recipe = plan.releases, plan.schedule[0]
    s = budget.moves * recipe.clip
    assert (release.times, release.shape) == (30, (d,))
    if noise == "gaussian":
        assert isinstance(plan.claim.profile, GDP)
        assert release.scale == pytest.approx(math.sqrt(30) * s * d ** (0.5 - 1 / 6) / budget.mu, rel=1e-9)
    else:
        rho = plan.claim.profile.rho
        assert isinstance(plan.claim.profile, Concentrated)
        assert rho == pytest.approx(30 * kappa(6.0, d) * s**2 / (2 * release.scale**2), rel=1e-9)
    assert 0.9999 < plan.claim.epsilon(1e-6) <= 1.0
    solution = plan.run(*sparse_signs(1000, d), dataset=f"mirror {noise}")
    assert dc.verify(solution.receipt)
    edited = dc.Receipt.from_json(solution.receipt.to_json().replace(str(release.scale), str(release.scale / 2)))
    with pytest.raises(VerificationError):
        dc.verify(edited)


@pytest.mark.parametrize(("d", "r"), [(30, 2.0), (30, 4.0), (200, 8.0)])
def test_lengths_of_noise_against_draws(d, r):
    stream = Source(3).stream("noise")
    law = "gaussian" if r == 2.0 else generalised_law(r)
    draws = np.array([rounded_generalised(stream, np.zeros(d), 1.0, 2.0**-30, r) for _ in range(1500)])
    for q in (2.0, 3.0, 9.0):
        t = min(q, 2.0 * math.log(d))
        expected = (lp_norms(3.0 * draws, t) ** t).mean() ** (1.0 / t)
        assert noise_length(Release("z", law, 3.0, (d,)), q) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("d", [5, 100, 5000])
@pytest.mark.parametrize("p", [1.001, 1.2, 1.5, 1.9, 2.0])
def test_the_shorter_noise_is_taken(p, d):
    plans = {
        noise: MirrorDescent(p=p, steps=10, noise=noise).plan(SIGNS, n=1000, d=d, budget=BUDGET)
        for noise in ("gaussian", "generalised", "shorter")
    }
    q = dual_exponent(p)
    length = {noise: noise_length(plan.releases[0], q) for noise, plan in plans.items()}
    assert length["shorter"] == min(length["gaussian"], length["generalised"])
    assert length["generalised"] < 3.0 * length["gaussian"]
    if d == 5 or p == 2.0:  # no smooth norm but l2 itself
        assert plans["generalised"].releases[0].law == "gaussian"


def test_a_delta_too_small_for_curves_has_gaussian_noise():
    tiny = dc.Budget(1.0, 1e-40)
    plan = MirrorDescent().plan(SIGNS, n=1000, d=50, budget=tiny)
    assert plan.releases[0].law == "gaussian"
    with pytest.raises(InputError, match="smaller"):
        MirrorDescent(noise="generalised").plan(SIGNS, n=1000, d=50, budget=tiny)


@pytest.mark.parametrize("noise", ["gaussian", "generalised"])
def test_several_rows_of_one_person(noise):
    def make(budget):
        return MirrorDescent(steps=5, noise=noise).plan(SIGNS, n=300, d=20, budget=budget)

    for epsilon in (0.5, 4.0):
        for rows in (2, 5):
            plan = protect_people(make, dc.Budget(epsilon, 1e-6), rows)
            assert plan.claim.unit == rows
            assert 0.3 * epsilon < plan.claim.epsilon(1e-6) <= epsilon


def test_few_weights_among_many_features_are_found_better_than_by_gradient_descent():
    n, d, budget = 4000, 150, dc.Budget(1.0, 1e-6)
    X, y = sparse_signs(n, d)

    def loss(algorithm):
        plan = algorithm.plan(SIGNS, n=n, d=d, budget=budget)
        weights = [plan.run(X, y, seed=seed).weights for seed in range(2)]
        return np.mean([np.logaddexp(0.0, -y * (X @ w)).mean() for w in weights])

    near_one, two = loss(MirrorDescent(p=1.1)), loss(MirrorDescent(p=2.0))
    assert near_one < two - 0.05
    assert near_one < loss(dc.algorithms.NoisyGD())


def test_the_paper_constants():
    n, d, budget = 20_000, 30, dc.Budget(1.0, 1e-6)
    plan = MirrorDescent(p=1.5, constants="paper").plan(SIGNS, n=n, d=d, budget=budget)
    recipe = plan.schedule[0]
    steps = round((n * math.sqrt(kappa(3.0, d) / (d * math.log(1e6)))) ** 0.4)
    assert recipe.steps == steps
    beta, alpha = 0.25 * d ** (2 / 3), 4 * 0.25 * d ** (2 / 3) / (steps + 1) * math.log2(n / steps)
    assert recipe.rate == pytest.approx(1.0 / (alpha + beta))
    assert recipe.keep == pytest.approx(beta / (alpha + beta))
    assert recipe.growth == pytest.approx(1.0 + alpha / (2.0 * beta))
    assert recipe.clip == pytest.approx(d ** (1 / 3))
    assert plan.releases[0].law == generalised_law(dual_exponent(1.5))
    assert (
        MirrorDescent(p=1.5, constants="paper", noise="gaussian").plan(SIGNS, n=n, d=d, budget=budget).releases[0].law
        == "gaussian"
    )


def test_weights_of_records_count():
    X, y = sparse_signs(200, 5)
    plan = MirrorDescent(steps=20).plan(SIGNS, n=200, d=5, budget=dc.Budget(500.0, 1e-6))
    half = np.where(np.arange(200) < 100, 2.0, 0.0)
    weighted = plan.run(X, y, sample_weight=half, weight_cap=2.0, seed=1).weights
    turned = plan.run(X, np.where(half > 0, y, -y), sample_weight=half, weight_cap=2.0, seed=1).weights
    np.testing.assert_allclose(weighted, turned)


def test_the_noise_of_the_audit_has_the_law_of_the_run(rng):
    for d, r in ((9, 2.5), (4, 8.0)):
        replayed = np.array([shaped(z, r) for z in rng.normal(size=(4000, d))])
        stream = Source(5).stream("law")
        drawn = np.array([rounded_generalised(stream, np.zeros(d), 1.0, 2.0**-30, r) for _ in range(4000)])
        for f in (np.abs, np.square, partial(lp_norms, p=r), lambda z: np.abs(z).max(axis=1)):
            a, b = f(replayed), f(drawn)
            assert abs(a.mean() - b.mean()) < 4.0 * math.sqrt((a.var() + b.var()) / 4000)
    assert not shaped(np.zeros(3), 4.0).any()


def test_the_audit_does_not_refute_it():
    for subject in subjects():
        if subject.name.startswith("MirrorDescent"):
            report = subject.audit(runs=40_000)
            assert not report.refuted, subject.name
            assert report.ratio >= min(subject.least, 0.9), subject.name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"p": 1.0}, "p must"),
        ({"p": 2.1}, "p must"),
        ({"p": math.nan}, "p must"),
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"clip": 0.0}, "clip"),
        ({"horizon": -1.0}, "horizon"),
        ({"noise": "laplace"}, "noise"),
        ({"constants": "loose"}, "constants"),
        ({"constants": "paper", "steps": 3}, "leave them out"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        MirrorDescent(**options)


def test_domains_other_than_balls_are_refused():
    with pytest.raises(HypothesisError, match="Everywhere"):
        MirrorDescent().plan(dataclasses.replace(SIGNS, domain=dc.domains.Box(-1.0, 1.0)), n=10, d=2, budget=BUDGET)
    with pytest.raises(HypothesisError, match="kink"):
        MirrorDescent().plan(dataclasses.replace(SIGNS, loss=dc.losses.Hinge()), n=10, d=2, budget=BUDGET)
