"""What is particular to objective perturbation, NoisyGD, sufficient statistics, mean direction, and to the choice."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from still import without_noise

import dpconvex as dc
from dpconvex.algorithms.noisy_gd import shortened
from dpconvex.algorithms.objective_perturbation import default_l2
from dpconvex.algorithms.sufficient_statistics import flattened, unflattened
from dpconvex.errors import ReleaseError
from dpconvex.loops import newton


def solved(plan, X, y):
    return without_noise(plan, X, y)[1]


@pytest.fixture
def people(rng):
    X = rng.normal(size=(400, 3)) / 4
    return X, np.where(X @ [2.0, -1.0, 0.5] + 0.2 * rng.normal(size=400) > 0, 1.0, -1.0)


def ridge_logistic(X, y, l2, shift=0.0):
    def objective(w):
        return np.logaddexp(0, shift - y * (X @ w)).sum() + l2 / 2 * w @ w

    return minimize(objective, np.zeros(X.shape[1]), method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_objective_perturbation_without_noise_is_the_minimiser(people, shift):
    X, y = people
    problem = dc.Problem(dc.losses.Logistic(shift=shift), feature_bound=2.0, l2=3.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=400, d=3, budget=dc.Budget(1.0, 1e-6))
    found, exact = solved(plan, X, y), ridge_logistic(X, y, 3.0, shift)
    assert np.abs(found - exact).max() < 1e-5
    assert np.abs(found - exact).max() <= plan.schedule[0].tolerance / 3.0 + 1e-7


def test_a_large_budget_gives_the_optimum_back(rng):
    n = 200_000
    X = rng.normal(size=(n, 2)) / 4
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=2.0, l2=10.0)
    errors = []
    for epsilon in (10.0, 400.0):
        plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=2, budget=dc.Budget(epsilon, 1e-6))
        errors.append(np.abs(plan.run(X, y, seed=1).weights - solved(plan, X, y)).max())
    assert errors[1] < 5e-3
    assert errors[1] < 0.2 * errors[0]
    assert np.abs(solved(plan, X, y) - ridge_logistic(X, y, 10.0)).max() < 1e-6


def test_a_solver_that_fails_stays_charged_and_says_nothing(people, monkeypatch):
    X, y = people
    plan = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(dc.losses.Logistic()), n=400, d=3, budget=dc.Budget(1.0, 1e-6)
    )
    monkeypatch.setattr(newton, "most_work", lambda *args: newton.Work(0, 0, 0))
    with pytest.raises(ReleaseError, match="certificate"):
        plan.run(X, y, dataset="solver fails")
    assert len(dc.account("solver fails").claims) == 1


@pytest.mark.parametrize(
    ("loss", "multiple"),
    [
        (dc.losses.Logistic(), 0.85),
        (dc.losses.Logistic(shift=2.0), 0.85),
        (dc.losses.HalfClippedLogistic(), 2.5),
        (dc.losses.LogCosh(0.5), 1.5),
        (dc.losses.SmoothedHinge(0.5), 20.0),
        (dc.losses.Softmax(4), 10.0),
    ],
    ids=str,
)
def test_default_regularisation_is_a_multiple_of_row_squared_over_epsilon(loss, multiple):
    problem = dc.Problem(loss, feature_bound=2.0)
    for relation, factor in (("zero_out", 1.0), ("replace_one", 2.0)):
        l2 = default_l2(problem, 50, dc.Budget(0.5, 1e-6, relation))
        assert l2 == pytest.approx(multiple * factor * 4.0 / 0.5, rel=1e-9)
    assert default_l2(problem, 1600, dc.Budget(0.5, 1e-6)) == pytest.approx(
        2 * default_l2(problem, 100, dc.Budget(0.5, 1e-6))
    )


def test_plain_logistic_costs_what_one_gaussian_release_costs():
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        budget = dc.Budget(epsilon, 1e-6, "zero_out")
        problem = dc.Problem(dc.losses.Logistic(), l2=1.0 / epsilon)
        plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=1000, d=5, budget=budget)
        assert plan.releases[0].scale <= 1.005 / budget.mu
        half = dc.Problem(dc.losses.HalfClippedLogistic(), l2=1.0 / epsilon)
        plan = dc.algorithms.ObjectivePerturbation().plan(half, n=1000, d=5, budget=budget)
        assert plan.releases[0].scale <= 1.3 * 0.5 / budget.mu


def test_constrained_minimisers_stay_inside(people):
    X, y = people
    for domain in (dc.domains.L2Ball(0.5), dc.domains.Box(-0.2, 0.3)):
        problem = dc.Problem(dc.losses.Logistic(), domain=domain, feature_bound=2.0, l2=1.0)
        plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=400, d=3, budget=dc.Budget(1.0, 1e-6))
        w = solved(plan, X, y)
        assert np.allclose(domain.project(w), w)
        slope = X.T @ (-y / (1 + np.exp(y * (X @ w)))) + w
        assert np.allclose(domain.project(w - 1e-3 * slope), w, atol=1e-7)  # no step leads on


def test_noisy_gd_without_noise_minimises_the_clipped_loss(people):
    X, y = people
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=2.0, l2=20.0)
    algorithm = dc.algorithms.NoisyGD(steps=3000, clip=5.0, momentum=0.5, horizon=6000.0)
    plan = algorithm.plan(problem, n=400, d=3, budget=dc.Budget(1.0, 1e-6))
    assert np.abs(solved(plan, X, y) - ridge_logistic(X, y, 20.0)).max() < 1e-5


def test_noisy_gd_accounts_for_every_step():
    budget = dc.Budget(1.0, 1e-6)
    problem = dc.Problem(dc.losses.Logistic())
    scales = {
        steps: dc.algorithms.NoisyGD(steps=steps, clip=0.5).plan(problem, n=100, d=2, budget=budget).releases[0].scale
        for steps in (1, 4, 100)
    }
    assert scales[1] == pytest.approx(2 * 0.5 / budget.mu, rel=1e-9)
    assert scales[4] == pytest.approx(2 * scales[1], rel=1e-9)
    assert scales[100] == pytest.approx(10 * scales[1], rel=1e-9)


def test_gradients_are_shortened_to_the_clip(rng):
    R, norms = rng.normal(size=(200, 4)) * 3, rng.random(200) * 2
    clipped = shortened(R, norms, 0.7)
    assert (np.linalg.norm(clipped, axis=1) * norms <= 0.7 * (1 + 1e-12)).all()
    short = np.linalg.norm(R, axis=1) * norms <= 0.7
    assert np.array_equal(clipped[short], R[short])


def test_sufficient_statistics_without_noise_is_ridge_regression(people):
    X, _ = people
    y = np.clip(X @ [0.5, -0.3, 0.1], -1, 1)
    problem = dc.Problem(dc.losses.Squared(), feature_bound=2.0, l2=2.0)
    plan = dc.algorithms.SufficientStatistics().plan(problem, n=400, d=3, budget=dc.Budget(100.0, 1e-6))
    second, cross = X.T @ X, X.T @ y
    scale = {r.name: r.scale for r in plan.releases}
    least = max(0.0, np.linalg.eigvalsh(second)[0] - 1.96 * scale["eigenvalue"])
    ridge = max(2.0, 1.96 * 3**0.5 * scale["second"] - least)
    assert np.allclose(solved(plan, X, y), np.linalg.solve(second + ridge * np.eye(3), cross), atol=1e-9)


def test_flattening_is_an_isometry(rng):
    A = rng.normal(size=(5, 5))
    A = A + A.T
    assert np.linalg.norm(flattened(A)) == pytest.approx(np.linalg.norm(A))
    assert np.allclose(unflattened(flattened(A), 5), A)


def test_mean_direction_without_noise_is_one_step(people):
    X, y = people
    plan = dc.algorithms.MeanDirection().plan(
        dc.Problem(dc.losses.Logistic(), feature_bound=2.0), n=400, d=3, budget=dc.Budget(1.0, 1e-6)
    )
    assert np.allclose(solved(plan, X, y), 0.5 * X.T @ y / (400 * 0.25 * 4.0))


# The choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "algorithm", "chosen"),
    [
        (dc.losses.Logistic(), "ObjectivePerturbation", dc.losses.Logistic),
        (dc.losses.Squared(2.0), "ObjectivePerturbation", dc.losses.LogCosh),
        (dc.losses.Huber(0.5), "ObjectivePerturbation", dc.losses.Huber),
        (dc.losses.SmoothedHinge(0.5), "ObjectivePerturbation", dc.losses.SmoothedHinge),
        (dc.losses.Softmax(3), "NoisyGD", dc.losses.Softmax),
    ],
    ids=str,
)
def test_choose_shapes_plain_losses(loss, algorithm, chosen):
    plan = dc.choose(dc.Problem(loss), n=5000, d=10, budget=dc.Budget(1.0, 1e-6))
    assert type(plan.algorithm).__name__ == algorithm
    assert type(plan.problem.loss) is chosen
    assert getattr(plan.problem.loss, "target", None) == getattr(loss, "target", None)


def test_choose_keeps_what_was_asked_for():
    for loss in (dc.losses.Logistic(cap=0.5), dc.losses.Logistic(shift=0.3), dc.losses.LogCosh(2.0)):
        problem = dc.Problem(loss, l2=7.0, domain=dc.domains.L2Ball(3.0))
        plan = dc.choose(problem, n=5000, d=10, budget=dc.Budget(1.0, 1e-6))
        assert plan.problem == problem


def test_the_shift_grows_with_the_noise_and_vanishes_with_it():
    problem = dc.Problem(dc.losses.Logistic())
    shifts = [
        dc.choose(problem, n=n, d=20, budget=dc.Budget(1.0, 1e-10)).problem.loss.shift for n in (100, 10_000, 10**9)
    ]
    assert shifts[0] == 2.0
    assert 0.0 < shifts[1] < 2.0
    assert shifts[2] == 0.0


@pytest.mark.parametrize(
    ("change", "name"),
    [({"n": 0}, "n"), ({"d": 0}, "d"), ({"budget": 1.0}, "budget"), ({"problem": dc.losses.Logistic()}, "problem")],
)
def test_choose_checks_its_arguments(change, name):
    arguments = {"problem": dc.Problem(dc.losses.Logistic()), "n": 9, "d": 2, "budget": dc.Budget(1.0, 1e-6), **change}
    with pytest.raises(dc.errors.InputError, match=f"^{name} must"):
        dc.choose(arguments.pop("problem"), **arguments)


def test_linear_losses_go_to_phased_sgd():
    problem = dc.Problem(dc.losses.Linear(), domain=dc.domains.L2Ball(1.0))
    assert type(dc.choose(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6)).algorithm).__name__ == "PhasedSGD"


def test_predictions_are_calibrated_by_the_link(rng):
    n = 40_000
    X = np.hstack([rng.uniform(-1, 1, size=(n, 1)), np.zeros((n, 1))])
    p = 1 / (1 + np.exp(-3 * X[:, 0]))
    y = np.where(rng.random(n) < p, 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(shift=1.0), feature_bound=1.0, l2=1.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=2, budget=dc.Budget(8.0, 1e-6))
    plain = dataclasses.replace(problem, loss=dc.losses.Logistic())
    solution = plan.run(X, y, seed=1)
    # A shifted loss bends the score, so the fit is not exact; it is far closer through its own link.
    assert np.abs(solution.predict(X) - p).mean() < 0.03
    raw = 1 / (1 + np.exp(-X @ solution.weights))
    assert np.abs(solution.predict(X) - p).mean() < 0.5 * np.abs(raw - p).mean()
    exact = dc.algorithms.ObjectivePerturbation().plan(plain, n=n, d=2, budget=dc.Budget(8.0, 1e-6)).run(X, y, seed=1)
    assert np.abs(exact.predict(X) - p).mean() < 0.02
