"""What is particular to PoissonSGD: the sampler is the accountant's, samples stay secret, gradients are clipped."""

import json
import math
import pickle

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.poisson_sgd import clipped_gradients, least_ratio
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.kernel.profiles import GDP
from dpconvex.noise.bernoulli import chosen
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort
from dpconvex.sums.memory import open_sums
from dpconvex.testing.noiseless import NoiselessPort, run_without_noise
from dpconvex.theorems.poisson_subsampling import SubsampledGaussian

PROBLEM = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))


def plan_for(problem=PROBLEM, n=200, d=3, budget=None, **options):
    return dc.algorithms.PoissonSGD(**options).plan(problem, n=n, d=d, budget=budget or dc.Budget(1.0, 1e-6))


# The sampler ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
def test_each_record_is_chosen_on_its_own_with_the_stated_probability(q):
    stream = Source(1).stream("sample")
    n, steps = 400, 4000
    hits = np.zeros((steps, n), dtype=bool)
    for t in range(steps):
        hits[t, chosen(stream, n, q)] = True
    deviation = math.sqrt(q * (1 - q))
    total = hits.sum()
    assert abs(total - q * n * steps) < 5 * deviation * math.sqrt(n * steps)
    each = hits.sum(axis=0)  # the same for every record
    assert abs(each - q * steps).max() < 5 * deviation * math.sqrt(steps)
    sizes = hits.sum(axis=1)  # sizes vary like a binomial: no fixed batch
    assert sizes.var() == pytest.approx(n * q * (1 - q), rel=0.15)
    z = (hits - q) / deviation  # neither neighbours nor consecutive steps know of each other
    for product in (z[:, 1:] * z[:, :-1], z[1:] * z[:-1], z[7:] * z[:-7]):
        assert abs(product.sum()) < 5 * math.sqrt(product.size)


def test_the_probability_is_never_above_the_stated_one():
    class Words:
        def words(self, count):
            return np.array([int(0.3 * 2.0**64) - 1, int(0.3 * 2.0**64), 0, 2**64 - 1], dtype=np.uint64)[:count]

    assert chosen(Words(), 4, 0.3).tolist() == [0, 2]
    assert chosen(Source().stream("x"), 3, 1.0).tolist() == [0, 1, 2]
    assert chosen(Source().stream("x"), 5, 1e-19).tolist() == []


def test_the_run_uses_the_sample_of_the_port_and_no_other(rng):
    plan = plan_for(n=30, d=2, probability=0.3, steps=6)
    X, y = rng.normal(size=(30, 2)), np.sign(rng.normal(size=30))

    class Chosen(NoiselessPort):
        def _choose(self, name, count, probability):
            assert (name, count, probability) == ("sample", 30, 0.3)
            return np.array([3, 17])

    rows, labels = open_rows(X, y, PROBLEM, 30, 2)
    port = Chosen(plan)
    plan.algorithm.execute(plan, rows, labels, port)
    port.close()
    w = np.zeros(2)
    for noisy in port.history("gradients"):
        unit = X[[3, 17]] / np.maximum(1.0, np.linalg.norm(X[[3, 17]], axis=1, keepdims=True))
        slopes = [PROBLEM.loss.slope(float(u @ w), t) for u, t in zip(unit, labels[[3, 17]], strict=True)]
        assert np.allclose(noisy, unit.T @ slopes)
        w = PROBLEM.domain.project(w - plan.schedule[0].rate * noisy / (0.3 * 30))


def test_samples_are_secret(rng):
    plan = plan_for(n=50, d=2, probability=0.2, steps=5)
    X, y = rng.normal(size=(50, 2)), np.sign(rng.normal(size=50))
    port = NoisePort(plan.claim, Source())
    plan.algorithm.execute(plan, *open_rows(X, y, PROBLEM, 50, 2), port)
    assert port.close() == ["sample", "gradients"]
    assert port.kept == ["gradients"]
    for look in (port.released, port.history):
        with pytest.raises(ReleaseError, match="'sample' stays hidden: nothing of it is kept"):
            look("sample")
    assert "sample" not in port._noisy
    solution = plan.run(X, y)
    assert list(solution.iterates) == ["gradients"]
    assert solution.receipt.data["arithmetic"]["drawn"] == ["sample", "gradients"]
    assert dc.verify(dc.Receipt.from_json(json.dumps(solution.receipt.data)))
    assert b"uint64" not in pickle.dumps(solution)


def test_the_port_holds_samples_to_the_plan(small_plan):
    plan = plan_for(n=50, d=2, probability=0.2, steps=2)
    port = NoisePort(plan.claim, Source())
    port.lend_sample("sample", clipped_gradients)
    with pytest.raises(ReleaseError, match="never drawn: sample, gradients"):
        port.close()
    port.lend_sample("sample", clipped_gradients)
    with pytest.raises(ReleaseError, match="is drawn 2 times"):
        port.lend_sample("sample", clipped_gradients)
    with pytest.raises(ReleaseError, match="not a sample"):
        port.lend_sample("gradients", clipped_gradients)
    with pytest.raises(ReleaseError, match="not in the plan"):
        port.lend_sample("other", clipped_gradients)
    with pytest.raises(ReleaseError, match="no sampler"):
        NoisePort(plan.claim, Source()).add("sample", np.zeros(50))
    with pytest.raises(ReleaseError, match="not a sample"):
        NoisePort(small_plan.claim, Source()).lend_sample("phase 1", clipped_gradients)


# Gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [0.1, 0.6, 10.0])
@pytest.mark.parametrize("members", [[], [4], [0, 7, 19], list(range(20))], ids=len)
def test_sums_are_clipped_and_the_same_for_sparse_and_float32(clip, members, rng):
    problem = dc.Problem(dc.losses.Huber(0.5), intercept=0.5, feature_bound=2.0)
    plan = plan_for(problem, n=20, d=4, clip=clip, steps=3, probability=0.5)
    X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.6)
    y, w = rng.normal(size=20), rng.normal(size=5)
    members = np.array(members, dtype=int)
    rows, labels = open_rows(X, y, problem, 20, 4)
    total = np.zeros(5)
    for i in members:
        x = np.append(X[i] * min(1.0, 2.0 / max(np.linalg.norm(X[i]), 1e-300)), 0.5)
        g = problem.loss.slope(float(x @ w), labels[i]) * x
        total += g * min(1.0, clip / max(np.linalg.norm(g), 1e-300))
    for form, tolerance in ((X, 1e-12), (sparse.csr_array(X), 1e-12), (X.astype(np.float32), 1e-5)):
        rows, labels = open_rows(form, y, problem, 20, 4)
        assert np.allclose(clipped_gradients(plan, open_sums(rows, labels), members, w), total, atol=tolerance)


def test_weights_multiply_clipped_gradients_in_every_form(rng):
    problem = dc.Problem(dc.losses.Softmax(3), intercept=0.5)
    plan = plan_for(problem, n=20, d=4, clip=0.2, steps=3, probability=0.5)
    X, y, w = rng.normal(size=(20, 4)), rng.integers(0, 3, 20).astype(float), rng.normal(size=(3, 5))
    weights = rng.random(20) * (rng.random(20) < 0.7)
    members = np.array([0, 3, 7, 8, 19])
    rows, labels = open_rows(X, y, problem, 20, 4)
    total = sum(weights[i] * clipped_gradients(plan, open_sums(rows, labels), np.array([i]), w) for i in members)
    for form in (X, sparse.csr_array(X)):
        rows, labels = open_rows(form, y, problem, 20, 4)
        found = clipped_gradients(plan, open_sums(rows._replace(weights=weights), labels), members, w)
        assert np.allclose(found, total, atol=1e-13)
    a, b = (plan.run(X, y, sample_weight=s * weights, weight_cap=s, seed=1).weights for s in (1.0, 8.0))
    assert np.array_equal(a, b)


def test_a_record_adds_no_more_than_the_clip(rng):
    problem = dc.Problem(dc.losses.Squared(), domain=dc.domains.Box(-5.0, 5.0))
    plan = plan_for(problem, n=6, d=2, clip=0.25, steps=3, probability=0.5)
    X, y = rng.normal(size=(6, 2)) * 1e6, rng.normal(size=6)
    rows, labels = open_rows(X, y, problem, 6, 2)
    for _ in range(50):
        w = rng.normal(size=2) * 5
        for i in range(6):
            assert np.linalg.norm(clipped_gradients(plan, open_sums(rows, labels), np.array([i]), w)) <= 0.25 * (
                1 + 1e-15
            )


# Plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_the_noise_is_the_least_that_meets_the_budget(relation, epsilon):
    budget = dc.Budget(epsilon, 1e-6, relation)
    ratio = least_ratio(0.1, 150, budget)
    assert SubsampledGaussian(relation, 0.1, ratio, 150).epsilon(1e-6) <= epsilon
    assert SubsampledGaussian(relation, 0.1, ratio * 0.998, 150).epsilon(1e-6) > epsilon
    plan = plan_for(budget=budget, probability=0.1, steps=150)
    assert plan.releases[1].scale == pytest.approx(ratio * PROBLEM.lipschitz(3).value, rel=1e-9)


def test_sampling_all_records_is_the_gaussian_mechanism():
    plan = plan_for(probability=1.0, steps=9)
    assert isinstance(plan.claim.profile, GDP)
    assert plan.claim.profile.mu == pytest.approx(dc.Budget(1.0, 1e-6).mu, rel=2e-3)


def test_defaults_follow_from_public_facts():
    large, small = plan_for(n=100_000), plan_for(n=300)
    assert (large.schedule[0].probability, large.schedule[0].steps) == (0.05, 300)
    assert small.schedule[0].probability == pytest.approx(250 / 300, rel=1e-2)
    assert small.schedule[0].steps == 100
    assert large.schedule[0].rate <= 1.0 / PROBLEM.smoothness(100_000, 3).value
    assert large.gradient_evaluations == 300 * 5000
    assert "probability 0.05" in str(large)


@pytest.mark.parametrize("loss", [dc.losses.Logistic(), dc.losses.Hinge(), dc.losses.Absolute()], ids=str)
def test_without_noise_it_comes_close_to_the_minimum(loss, rng):
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(3.0))
    n = 5000
    X = rng.normal(size=(n, 2)) / 2
    y = np.sign(X[:, 0]) if loss.traits.labels == "sign" else np.clip(X @ [0.5, -0.2], -1.0, 1.0)
    plan = plan_for(problem, n=n, d=2, budget=dc.Budget(8.0, 1e-6))
    _, w = run_without_noise(plan, X, y)
    unit = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))

    def risk(w):
        return np.mean([loss.value(z, t) for z, t in zip(unit @ w, y, strict=True)])

    best = min(risk(np.array([a, b])) for a in np.linspace(-3, 3, 31) for b in np.linspace(-1, 1, 11))
    assert risk(w) < best + 0.02


def test_a_rate_beyond_smoothness_and_a_delta_beyond_the_accountant_are_refused():
    with pytest.raises(InputError, match="2/beta"):
        plan_for(rate=8.5)
    with pytest.raises(HypothesisError, match="fewer steps"):
        plan_for(budget=dc.Budget(1.0, 1e-14), steps=1000, probability=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"probability": 0.0},
        {"probability": 1.1},
        {"probability": "half"},
        {"steps": 0},
        {"steps": 2.5},
        {"steps": True},
        {"clip": -1.0},
        {"clip": math.nan},
        {"rate": math.inf},
        {"averaged": 1.5},
        {"averaged": True},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        dc.algorithms.PoissonSGD(**options)


def test_rows_whose_squares_vanish_are_clipped_too():
    X, y = np.zeros((10, 2)), np.zeros(10)
    X[0, 0], y[0] = 1e-170, -1e200
    problem = dc.Problem(dc.losses.Squared(1e200), dc.domains.L2Ball(1.0))
    plan = dc.algorithms.PoissonSGD(clip=1.0, steps=1, probability=1.0).plan(
        problem, n=10, d=2, budget=dc.Budget(1.0, 1e-6)
    )
    found = plan.run(X, y, seed=0, dataset="vanishing squares").weights
    other = plan.run(np.zeros((10, 2)), y, seed=0, dataset="vanishing squares").weights
    assert np.linalg.norm(found - other) <= plan.schedule[0].rate / 10 * 1.01
