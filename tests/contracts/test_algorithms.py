"""Every algorithm of the registry: the plan is data-free, the run keeps to it, and what may not be done is refused."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import sparse
from still import without_noise

import dpconvex as dc
from dpconvex.audit.whitebox import stated_sensitivities
from dpconvex.errors import HypothesisError, InputError, ReleaseError
from dpconvex.kernel.claims import Release
from dpconvex.theorems.report_noisy_max import GUMBEL

LOGISTIC = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
CAPPED = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0)
HINGE = dc.Problem(dc.losses.SmoothedHinge(0.5), l2=3.0)
SQUARED = dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Linf(0.5))
HUBER = dc.Problem(dc.losses.Huber(0.5), feature_bound=dc.bounds.Lp(3, 1.0), intercept=0.5)
LOGCOSH = dc.Problem(dc.losses.LogCosh(0.5), feature_bound=2.0)
SOFTMAX = dc.Problem(dc.losses.Softmax(3, shift=1.0), intercept=0.5)
KINK = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
ABSOLUTE = dc.Problem(dc.losses.Absolute(), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0)
PINBALL = dc.Problem(dc.losses.Pinball(0.8), l2=3.0)
SPARSE = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L1Ball(3.0), feature_bound=dc.bounds.Linf(1.0))
LASSO = dc.Problem(dc.losses.Squared(), domain=dc.domains.L1Ball(2.0), feature_bound=dc.bounds.Linf(0.5))
SPARSE_HINGE = dc.Problem(dc.losses.SmoothedHinge(0.5), domain=dc.domains.L1Ball(1.0), l2=3.0)
SPARSE_HUBER = dc.Problem(dc.losses.Huber(0.5), dc.domains.L1Ball(2.0), dc.bounds.Lp(3, 1.0), intercept=2.0)
SPARSE_LOGCOSH = dc.Problem(dc.losses.LogCosh(0.5), dc.domains.L1Ball(2.0), dc.bounds.Linf(2.0))
LP = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), domain=dc.domains.LpBall(4.0, 1.0), intercept=1.0)
LP_HUBER = dc.Problem(dc.losses.Huber(0.5), dc.domains.LpBall(np.inf, 1.0), dc.bounds.Lp(3, 1.0), l2=3.0)
MIXTURE = dc.Problem(dc.losses.Logistic(), domain=dc.domains.Simplex(3.0), feature_bound=dc.bounds.Linf(1.0))
FREE = dc.Problem(dc.losses.Logistic(cap=0.5, shift=0.5), intercept=1.0)
FREE_SQUARED = dc.Problem(dc.losses.Squared(), feature_bound=dc.bounds.Linf(0.5))

CASES = [
    *((dc.algorithms.PhasedSGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.PhasedSGD(release="every iterate"), p) for p in (LOGISTIC, CAPPED)),
    *((dc.algorithms.PhasedSGD(constants="paper"), p) for p in (LOGISTIC, LP)),
    *((dc.algorithms.PhasedSGD(release=r), p) for r in ("last iterate", "every iterate") for p in (LP, LP_HUBER)),
    *((dc.algorithms.PhasedERM(), p) for p in (LOGISTIC, CAPPED, SQUARED, HUBER, KINK, ABSOLUTE, PINBALL)),
    (dc.algorithms.PhasedERM(release="every iterate"), KINK),
    (dc.algorithms.PhasedERM(reduction=True), HINGE),
    *((dc.algorithms.PhasedERM(constants="paper"), p) for p in (LOGISTIC, KINK)),
    *((dc.algorithms.NoisySGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.NoisySGD(release="every iterate", average=0.5), p) for p in (LOGISTIC, CAPPED)),
    (dc.algorithms.NoisySGD(shuffle=True), LOGISTIC),
    *((dc.algorithms.SnowballSGD(), p) for p in (LOGISTIC, HINGE)),
    *((dc.algorithms.NoisyGD(steps=4), p) for p in (LOGISTIC, CAPPED, SQUARED, HUBER, SOFTMAX)),
    (dc.algorithms.NoisyGD(steps=4), dataclasses.replace(SOFTMAX, domain=dc.domains.LpBall(1.5, 1.0))),
    *((dc.algorithms.PoissonSGD(0.2, steps=8), p) for p in (LOGISTIC, CAPPED, HUBER, SOFTMAX, KINK)),
    (dc.algorithms.PoissonSGD(1.0, steps=4), LOGISTIC),
    *((dc.algorithms.OnlineToBatch(rounds=2), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.OnlineToBatch(), p) for p in (LOGISTIC, LOGCOSH)),
    *((dc.algorithms.OnlineToBatch(noise=noise, power=2.0), CAPPED) for noise in ("tree", "honaker", "blt")),
    *((dc.algorithms.OnlineToBatch("OptimisticDescent", power=0.5), p) for p in (LOGISTIC, ABSOLUTE)),
    (dc.algorithms.OnlineToBatch("StronglyConvexDescent"), HINGE),
    (dc.algorithms.OnlineToBatch("ParameterFree"), LOGISTIC),
    (dc.algorithms.OnlineToBatch("DiagonalFTRL", clip=1.0), CAPPED),
    (dc.algorithms.OnlineToBatch(constants="paper"), LOGISTIC),
    *((dc.algorithms.PrivateFTRL(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.PrivateFTRL(mode, batch=2), LOGCOSH) for mode in ("blt", "tree", "honaker", "composition")),
    (dc.algorithms.PrivateFTRL(p=1.5), SPARSE),
    (dc.algorithms.PrivateFTRL("linear"), dc.Problem(dc.losses.Linear(), dc.domains.L2Ball(2.0))),
    *((dc.algorithms.FrankWolfe(), p) for p in (SPARSE, LASSO, SPARSE_HINGE, SPARSE_HUBER, SPARSE_LOGCOSH)),
    *((dc.algorithms.FrankWolfe(steps=20, clip=0.25), p) for p in (SPARSE, MIXTURE)),
    (dc.algorithms.FrankWolfe(), dataclasses.replace(LASSO, domain=dc.domains.Simplex(), intercept=0.5)),
    *((dc.algorithms.MirrorDescent(steps=4), p) for p in (FREE, HINGE, FREE_SQUARED, HUBER, LOGCOSH)),
    *((dc.algorithms.MirrorDescent(p=p, steps=4), HUBER) for p in (1.01, 2.0)),
    *((dc.algorithms.MirrorDescent(noise=noise, steps=4), HUBER) for noise in ("gaussian", "generalised")),
    (dc.algorithms.MirrorDescent(constants="paper"), FREE),
    *((dc.algorithms.TruncatedMirrorDescent(), p) for p in (LOGISTIC, FREE, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.TruncatedMirrorDescent(p=p, truncation=0.3), HUBER) for p in (1.01, 2.0)),
    *((dc.algorithms.TruncatedMirrorDescent(noise=noise, batches=2), HUBER) for noise in ("gaussian", "generalised")),
    *((dc.algorithms.TruncatedMirrorDescent(shuffle=True, batches=b), FREE) for b in (None, 2)),
    (dc.algorithms.TruncatedMirrorDescent(constants="paper"), FREE),
    *((dc.algorithms.HeavyTailedSGD(), p) for p in (LOGISTIC, CAPPED, HINGE, SQUARED, HUBER, KINK, SPARSE)),
    *((dc.algorithms.HeavyTailedSGD(batches=2, norm=norm), CAPPED) for norm in ("coordinates", "l2")),
    (dc.algorithms.HeavyTailedSGD(constants="paper"), LOGISTIC),
    *((dc.algorithms.MeanDirection(), p) for p in (LOGISTIC, CAPPED, SQUARED)),
    (dc.algorithms.SufficientStatistics(), SQUARED),
    *((dc.algorithms.ObjectivePerturbation(), p) for p in (LOGISTIC, CAPPED, HINGE, HUBER, LOGCOSH, SOFTMAX)),
    (dc.algorithms.ObjectivePerturbation(accounting="coupled"), LOGISTIC),
    (dc.algorithms.ObjectivePerturbation(accounting="published"), dataclasses.replace(HINGE, l2=30.0)),
    (dc.algorithms.ObjectivePerturbation(accounting="paper"), dataclasses.replace(LOGISTIC, l2=20.0)),
]
IDS = [f"{type(a).__name__}-{i}-{type(p.loss).__name__}" for i, (a, p) in enumerate(CASES)]
every_case = pytest.mark.parametrize(("algorithm", "problem"), CASES, ids=IDS)
both_relations = pytest.mark.parametrize("relation", ["replace_one", "zero_out"])


def test_every_algorithm_is_under_contract():
    assert {type(a).__name__ for a, _ in CASES} == set(dc.algorithms.REGISTRY)


def data_for(problem, n, d, rng):
    X = rng.normal(size=(n, d))
    if problem.loss.traits.labels == "class":
        return X, rng.integers(0, 3, n).astype(float)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n)


@every_case
@both_relations
def test_plan_run_receipt(algorithm, problem, relation, rng):
    n, d = 50, 3
    budget = dc.Budget(1.0, 1e-6, relation)
    plan = algorithm.plan(problem, n=n, d=d, budget=budget)
    assert plan.to_json() == algorithm.plan(problem, n=n, d=d, budget=budget).to_json()
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    assert plan.claim.epsilon(1e-6) <= 1.0
    assert plan.claim.relation == relation
    if "paper" not in str(algorithm):
        assert plan.claim.epsilon(1e-6) > 0.995
    assert str(plan)
    X, y = data_for(problem, n, d, rng)
    outcomes = []
    for rows in (X, X.astype(np.float32), sparse.csr_matrix(X), sparse.csr_array(X), np.asfortranarray(X)):
        solution = plan.run(rows, y, dataset="contracts", seed=5)
        assert solution.weights.shape == problem.weight_shape(d)
        assert solution.coef.shape == (*problem.weight_shape(d)[:-1], d)
        assert np.isfinite(solution.weights).all()
        assert np.isfinite(solution.predict(rows)).all()
        assert np.allclose(problem.domain.project(solution.weights), solution.weights)
        outcomes.append(solution.weights)
    assert dc.verify(solution.receipt)
    assert dc.verify(dc.Receipt.from_json(solution.receipt.to_json()))
    for other in outcomes[1:]:
        assert np.allclose(other, outcomes[0], atol=1e-3)
    assert np.allclose(outcomes[2], outcomes[0], atol=1e-6)
    released = plan.run(X, y, dataset="contracts").weights
    again = (plan.run(X, y, dataset="contracts").weights for _ in range(99))  # steps may end in the same corner
    assert not all(np.array_equal(released, other) for other in again)


@every_case
def test_a_replaced_record_moves_no_value_by_more_than_stated(algorithm, problem, rng):
    """Given the values released before, which both runs share. (Of choices, test_frank_wolfe.py sees the scores.)"""
    n, d = 12, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    choices = {release.name for release in plan.releases if release.law == GUMBEL}
    stated = {name: bound for name, bound in stated_sensitivities(plan.claim).items() if name not in choices}
    X, y = data_for(problem, n, d, rng)
    still, _ = without_noise(plan, X, y)
    for record in range(n):
        for size in (1.0, 100.0):
            changed, labels = X.copy(), y.copy()
            changed[record] = rng.normal(size=d) * size
            labels[record] = (labels[record] + 1) % 3 if problem.loss.traits.labels == "class" else -labels[record]
            moved, _ = without_noise(plan, changed, labels, past=still)
            for name, bound in stated.items():
                gaps = (moved.values(name) - still.values(name)).reshape(len(still.values(name)), -1)
                assert (np.linalg.norm(gaps, axis=1) <= bound * (1 + 1e-9)).all()


@every_case
def test_the_whole_run_is_invariant_to_what_is_not_data(algorithm, problem, rng):
    """Same data in another container or order of columns held: nothing but the noise and the data decide."""
    n, d = 30, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    X, y = data_for(problem, n, d, rng)
    a = plan.run(X, y, seed=3).weights
    b = plan.run(X.tolist(), y.tolist(), seed=3).weights
    assert np.array_equal(a, b)


@every_case
@pytest.mark.parametrize("n", [2, 3])
def test_few_records_in_one_dimension(algorithm, problem, n, rng):
    problem = dataclasses.replace(problem, feature_bound=dc.bounds.L2(1.0))
    plan = algorithm.plan(problem, n=n, d=1, budget=dc.Budget(1.0, 0.01))
    X, y = data_for(problem, n, 1, rng)
    assert np.isfinite(plan.run(X, y).weights).all()


@every_case
def test_constant_labels_and_constant_columns_fit_like_any_others(algorithm, problem):
    n, d = 20, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    for X in (np.ones((n, d)), np.zeros((n, d))):
        for label in (0.0, 1.0) if problem.loss.traits.labels == "class" else (-1.0, 1.0):
            assert np.isfinite(plan.run(X, np.full(n, label)).weights).all()


@every_case
@pytest.mark.parametrize("size", [1e-200, 1e6, 1e200, 1e307])
def test_magnitude_is_brought_back_never_refused(algorithm, problem, size, rng):
    n, d = 20, 2
    problem = dataclasses.replace(problem, feature_bound=dc.bounds.L2(1.0))
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    X, y = data_for(problem, n, d, rng)
    huge = plan.run(X * size, y, seed=1).weights
    thin = plan.run(sparse.csr_matrix(X * size), y, seed=1).weights
    assert np.isfinite(huge).all()
    assert np.allclose(huge, thin, atol=1e-6)
    if size > 1e3:
        unit = plan.run(X / np.linalg.norm(X, axis=1, keepdims=True), y, seed=1).weights
        assert np.allclose(huge, unit, atol=1e-6)


@every_case
def test_the_mechanism_draws_what_the_claim_names(algorithm, problem, rng):
    plan = algorithm.plan(problem, n=20, d=2, budget=dc.Budget(1.0, 1e-6))
    port, _ = without_noise(plan, *data_for(problem, 20, 2, rng))
    for release in plan.releases:
        assert isinstance(release, Release)
        assert release.scale > 0.0
        if release.law == "bernoulli":  # who was sampled is secret
            with pytest.raises(ReleaseError, match="secret"):
                port.history(release.name)
        else:
            kept = () if release.law == GUMBEL else release.shape  # of a choice nothing but the index
            assert port.history(release.name).shape == (release.times, *kept)


@pytest.mark.parametrize("name", sorted(dc.algorithms.REGISTRY))
@pytest.mark.parametrize(
    ("change", "argument"),
    [({"n": 1}, "n"), ({"n": 10.0}, "n"), ({"d": 0}, "d"), ({"d": True}, "d"), ({"budget": 1.0}, "budget")],
)
def test_bad_public_facts_are_refused(name, change, argument):
    arguments = {"n": 10, "d": 2, "budget": dc.Budget(1.0, 1e-6), **change}
    with pytest.raises(InputError, match=f"^{argument} must"):
        getattr(dc.algorithms, name)().plan(SQUARED, **arguments)


@pytest.mark.parametrize("name", sorted(dc.algorithms.REGISTRY))
def test_a_large_delta_warns(name):
    problem = {"SufficientStatistics": SQUARED, "FrankWolfe": SPARSE, "MirrorDescent": HUBER}.get(name, LOGISTIC)
    with pytest.warns(dc.errors.BudgetWarning, match="1/n"):
        getattr(dc.algorithms, name)().plan(problem, n=100, d=2, budget=dc.Budget(1.0, 0.01))


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (dc.algorithms.PhasedSGD(), SOFTMAX),
        (dc.algorithms.PhasedSGD(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.PhasedSGD(), KINK),
        (dc.algorithms.PhasedERM(), SOFTMAX),
        (dc.algorithms.PhasedERM(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.PhasedERM(reduction=True), LOGISTIC),
        (dc.algorithms.PhasedERM(constants="paper"), dc.Problem(dc.losses.Hinge())),
        (dc.algorithms.ObjectivePerturbation(), KINK),
        (dc.algorithms.OnlineToBatch(), SOFTMAX),
        (dc.algorithms.OnlineToBatch(constants="paper"), HUBER),
        (dc.algorithms.PrivateFTRL(), SOFTMAX),
        (dc.algorithms.PrivateFTRL("linear"), LOGISTIC),
        (dc.algorithms.PrivateFTRL(), dc.Problem(dc.losses.Squared())),
        (dc.algorithms.FrankWolfe(), LOGISTIC),
        (dc.algorithms.PhasedSGD(), SPARSE),
        (dc.algorithms.PhasedSGD(), dataclasses.replace(LOGISTIC, domain=dc.domains.LpBall(1.5, 1.0))),
        (dc.algorithms.PhasedSGD(), dataclasses.replace(SQUARED, domain=dc.domains.LpBall(4.0, 1.0))),
        (dc.algorithms.NoisySGD(), SPARSE),
        (dc.algorithms.SnowballSGD(), SPARSE),
        (dc.algorithms.PhasedERM(), SPARSE),
        (dc.algorithms.ObjectivePerturbation(), SPARSE),
        (dc.algorithms.FrankWolfe(steps=2, clip=1.0), SQUARED),
        (dc.algorithms.FrankWolfe(), dataclasses.replace(SOFTMAX, domain=dc.domains.L1Ball(1.0))),
        (dc.algorithms.FrankWolfe(), dataclasses.replace(KINK, domain=dc.domains.L1Ball(1.0))),
        (dc.algorithms.MirrorDescent(), LOGISTIC),
        (dc.algorithms.MirrorDescent(), SPARSE),
        (dc.algorithms.MirrorDescent(), SOFTMAX),
        (dc.algorithms.MirrorDescent(), PINBALL),
        (dc.algorithms.MirrorDescent(constants="paper"), FREE_SQUARED),
        (dc.algorithms.TruncatedMirrorDescent(), SOFTMAX),
        (dc.algorithms.TruncatedMirrorDescent(), CAPPED),
        (dc.algorithms.TruncatedMirrorDescent(batches=101), LOGISTIC),
        (dc.algorithms.TruncatedMirrorDescent(constants="paper"), PINBALL),
        (dc.algorithms.TruncatedMirrorDescent(constants="paper", shuffle=True), LOGISTIC),
        (dc.algorithms.HeavyTailedSGD(), SOFTMAX),
        (dc.algorithms.HeavyTailedSGD(batches=101), LOGISTIC),
        (dc.algorithms.MeanDirection(), SOFTMAX),
        (dc.algorithms.SufficientStatistics(), LOGISTIC),
        (dc.algorithms.SufficientStatistics(), SOFTMAX),
        (dc.algorithms.ObjectivePerturbation(), SQUARED),
        (dc.algorithms.ObjectivePerturbation(), dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))),
        (dc.algorithms.ObjectivePerturbation(accounting="published"), dataclasses.replace(LOGISTIC, l2=0.1)),
        (dc.algorithms.ObjectivePerturbation(accounting="coupled"), SOFTMAX),
    ],
    ids=str,
)
def test_problems_outside_an_algorithm_are_refused_at_plan_time(algorithm, problem):
    with pytest.raises((HypothesisError, InputError)):
        algorithm.plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))


def test_a_claim_beyond_its_budget_makes_no_plan(small_plan):
    with pytest.raises(ReleaseError, match="within its budget"):
        dataclasses.replace(small_plan, budget=dc.Budget(0.5, 1e-6))
    with pytest.raises(ReleaseError, match="relation"):
        dataclasses.replace(small_plan, budget=dc.Budget(1.0, 1e-6, "zero_out"))


def test_plans_take_numpy_integers(ball_problem):
    arguments = {"budget": dc.Budget(1.0, 1e-6)}
    plan = dc.choose(ball_problem, n=np.int64(50), d=np.int32(2), **arguments)
    assert dc.choose(ball_problem, n=50, d=2, **arguments).to_json() == plan.to_json()


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="PhasedSGD"):
        _ = dc.algorithms.Nothing
    assert dir(dc.algorithms) == list(dc.algorithms.REGISTRY)
