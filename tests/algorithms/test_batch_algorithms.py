"""What is particular to objective perturbation, NoisyGD, sufficient statistics, mean direction, and to the choice."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.algorithms import noisy_gd
from dpconvex.algorithms.objective_perturbation import default_l2, excess_loss
from dpconvex.algorithms.sufficient_statistics import flattened, unflattened
from dpconvex.chooser.forms import largest_slope
from dpconvex.errors import HypothesisError, ReleaseError
from dpconvex.kernel.profiles import _at_node
from dpconvex.sums import solver as newton
from dpconvex.sums.protocol import Frame
from dpconvex.sums.rowwise import shortened
from dpconvex.testing.noiseless import run_without_noise


def solved(plan, X, y):
    return run_without_noise(plan, X, y)[1]


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


@pytest.mark.parametrize("domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.4)], ids=str)
def test_the_loss_is_above_its_minimum_by_no_more_than_stated(people, domain):
    X, y = people
    problem = dc.Problem(dc.losses.Logistic(), domain=domain, feature_bound=2.0, l2=20.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=400, d=3, budget=dc.Budget(1.0, 1e-6))

    def mean_loss(w):
        return (np.logaddexp(0, -y * (X @ w)).sum() + 10.0 * w @ w) / 400

    least = mean_loss(domain.project(solved(plan, X, y)))
    found = np.mean([mean_loss(plan.run(X, y, seed=s).weights) for s in range(40)]) - least
    tilt, output = plan.releases
    stated = excess_loss(problem, 400, 3, tilt.scale, output.scale, plan.schedule[0].tolerance)
    assert 0.0 < found <= stated
    assert f"at most {stated:.2g} above its minimum" in plan.utility
    if isinstance(domain, dc.domains.Everywhere):
        assert found > 0.05 * stated  # not far from what the noise does


def test_a_bound_that_says_nothing_is_called_vacuous():
    problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-9)
    plans = [dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=5, budget=budget) for n in (20, 10**6)]
    assert ["vacuous" in plan.utility for plan in plans] == [True, False]


@pytest.mark.parametrize(
    ("loss", "multiple"),
    [
        (dc.losses.Logistic(), 0.85),
        (dc.losses.Logistic(shift=2.0), 0.85),
        (dc.losses.Logistic(cap=0.5), 2.5),
        (dc.losses.LogCosh(0.5), 1.5),
        (dc.losses.SmoothedHinge(0.5), 8.0),
        (dc.losses.Softmax(4), 2.5),
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


def test_weights_of_several_classes_are_regularised_where_noise_is_little_too():
    l2 = [
        default_l2(dc.Problem(dc.losses.Softmax(4), feature_bound=2.0), 81, dc.Budget(e, 1e-6)) for e in (1, 500, 900)
    ]
    assert l2 == pytest.approx([20.0, 1.0, 1.0])


def test_plain_logistic_costs_what_one_gaussian_release_costs():
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        budget = dc.Budget(epsilon, 1e-6, "zero_out")
        problem = dc.Problem(dc.losses.Logistic(), l2=1.0 / epsilon)
        plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=1000, d=5, budget=budget)
        assert plan.releases[0].scale <= 1.005 / budget.mu
        half = dc.Problem(dc.losses.Logistic(cap=0.5), l2=1.0 / epsilon)
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
        steps: dc.algorithms.NoisyGD(steps=steps, clip=0.5, mean_share=0.0)
        .plan(problem, n=100, d=2, budget=budget)
        .releases[0]
        .scale
        for steps in (1, 4, 100)
    }
    assert scales[1] == pytest.approx(2 * 0.5 / budget.mu, rel=1e-9)
    assert scales[4] == pytest.approx(2 * scales[1], rel=1e-9)
    assert scales[100] == pytest.approx(10 * scales[1], rel=1e-9)


def test_noisy_gd_pays_for_the_mean_row():
    budget = dc.Budget(1.0, 1e-6)
    algorithm = dc.algorithms.NoisyGD(steps=9, clip=0.5, mean_share=0.2)
    plan = algorithm.plan(dc.Problem(dc.losses.Softmax(3), feature_bound=3.0), n=100, d=2, budget=budget)
    scales = {r.name: (r.scale, r.shape, r.times) for r in plan.releases}
    assert scales["rows"] == (pytest.approx(2 * 3.0 / (budget.mu * 0.2**0.5), rel=1e-9), (2,), 1)
    assert scales["gradients"] == (pytest.approx(3 * 2 * 0.5 / (budget.mu * 0.8**0.5), rel=1e-9), (3, 2), 9)
    assert budget.mu * (1 - 1e-9) < plan.claim.profile.mu <= budget.mu
    assert "mean row" in str(plan)


@pytest.mark.parametrize(
    "extra", [{"l2": 1.0}, {"domain": dc.domains.L2Ball(2.0)}, {"domain": dc.domains.Box()}], ids=str
)
def test_noisy_gd_leaves_the_mean_row_where_coordinates_matter(extra):
    plan = dc.algorithms.NoisyGD().plan(
        dc.Problem(dc.losses.Logistic(), **extra), n=100, d=2, budget=dc.Budget(1.0, 1e-6)
    )
    assert [r.name for r in plan.releases] == ["gradients"]


def test_noisy_gd_in_the_frame_of_the_mean_row_has_the_same_minimiser(people):
    X, y = people
    X = np.hstack([X, np.ones((400, 1))])
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=2.0)
    algorithm = dc.algorithms.NoisyGD(steps=6000, clip=8.0, momentum=0.5, horizon=24000.0)
    plan = algorithm.plan(problem, n=400, d=4, budget=dc.Budget(800.0, 1e-6))
    assert plan.releases[0].name == "rows"
    y[::5] *= -1.0  # no margin, or there would be no minimiser
    assert np.abs(solved(plan, X, y) - ridge_logistic(X, y, 0.0)).max() < 1e-4


@pytest.mark.parametrize("size", [1e-98, 1.0, 1e98])
@pytest.mark.parametrize("damping", [0.1, 0.7, 1.0])
def test_lengths_in_a_frame_are_never_below_the_true_ones(damping, size, rng):
    d = 300
    axis = rng.normal(size=d)
    axis /= np.linalg.norm(axis)
    X = size * (rng.normal(size=(50, 1)) * axis + 10.0 ** rng.uniform(-9, 0, (50, 1)) * rng.normal(size=(50, d)))
    frame = Frame(axis, damping, 0.6)
    found = frame.lengths(np.sqrt(np.sum(X**2, axis=1)), X @ axis)
    precise, along = X.astype(np.longdouble), axis.astype(np.longdouble)
    true = np.sqrt(np.sum(((precise - (1 - damping) * np.outer(precise @ along, along)) / 0.6) ** 2, axis=1))
    assert (found >= true).all()
    assert np.allclose(found, np.float64(true), rtol=1e-7, atol=1e-8 * size)


def test_rows_are_no_longer_than_their_bound_in_the_mean_square_of_the_frame(rng):
    n, d = 3000, 8
    X = rng.normal(size=(n, d)) + np.arange(d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    plan = dc.algorithms.NoisyGD(steps=2).plan(dc.Problem(dc.losses.Softmax(2)), n=n, d=d, budget=dc.Budget(8.0, 1e-6))
    port, _ = run_without_noise(plan, X, np.zeros(n))
    frame = noisy_gd._frame(plan, port)
    rows = frame(X)
    assert frame.damping < 0.3
    assert 0.8 < np.mean(np.sum(rows**2, axis=1)) <= 1.0
    assert np.allclose(rows, X @ frame(np.eye(d)))
    fewer = dc.algorithms.NoisyGD(steps=2).plan(dc.Problem(dc.losses.Softmax(2)), n=9, d=d, budget=dc.Budget(0.1, 1e-6))
    port, _ = run_without_noise(fewer, X[:9], np.zeros(9))
    assert np.array_equal(noisy_gd._frame(fewer, port)(X), X)  # noise could explain the mean: stay as it is


def test_a_common_row_costs_little(rng):
    """Rows that share most of their length are told apart better in the frame of their mean."""
    n, d = 5000, 30
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(3, d))[y] + 2.0 * rng.normal(size=(n, d))
    X = 0.3 * X / np.linalg.norm(X, axis=1, keepdims=True)
    X[:, 0] += 0.9
    problem, budget = dc.Problem(dc.losses.Softmax(3), feature_bound=1.2), dc.Budget(0.2, 1e-6)
    right = {}
    for share in (0.0, 0.02):
        plan = dc.algorithms.NoisyGD(mean_share=share).plan(problem, n=n, d=d, budget=budget)
        right[share] = np.mean([np.mean(plan.run(X, y, seed=s).predict(X).argmax(axis=1) == y) for s in range(3)])
    assert right[0.02] > right[0.0] + 0.01


@pytest.mark.parametrize("runs", [1500, pytest.param(4000, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("mutant", [None, {"noise": 0.7}, {"twice": True}, {"clip": 1e9}], ids=str)
def test_the_audit_of_a_run_with_a_mean_row(mutant, runs):
    plan = dc.algorithms.NoisyGD(steps=3, mean_share=0.1).plan(
        dc.Problem(dc.losses.Logistic()), n=12, d=1, budget=dc.Budget(4.0, 1e-6)
    )
    assert plan.releases[0].name == "rows"
    broken = {"mutant": dc.audit.Mutant("broken", **mutant)} if mutant else {}
    assert dc.audit.audit(plan, runs=runs, seed=1, **broken).refuted is bool(mutant)


@pytest.mark.parametrize(
    ("algorithm", "option"),
    [
        *(("NoisyGD", {"mean_share": v}) for v in (1.0, -0.1, "a", True)),
        *(("NoisyGD", {"momentum": v}) for v in (1.0, "a", True)),
        *(("NoisyGD", {"clip": v}) for v in (0.0, "a", True)),
        *(("NoisyGD", {"horizon": v}) for v in (np.inf, "a")),
        *(("NoisyGD", {"steps": v}) for v in (0, 1.5, True)),
        *(("ObjectivePerturbation", {"output_share": v}) for v in (0.0, 1.0, "a", True)),
        *(("ObjectivePerturbation", {"accounting": v}) for v in ("best", 1, [])),
        *(("ObjectivePerturbation", {"precision": v}) for v in (0.0, -1.0, np.nan, np.inf, "a", True)),
    ],
    ids=str,
)
def test_bad_options_are_named(algorithm, option):
    with pytest.raises(dc.errors.InputError, match=f"^{next(iter(option))} must"):
        getattr(dc.algorithms, algorithm)(**option)


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
    ("loss", "epsilon", "algorithm", "chosen"),
    [
        (dc.losses.Logistic(), 1.0, "ObjectivePerturbation", dc.losses.Logistic),
        (dc.losses.Squared(2.0), 1.0, "ObjectivePerturbation", dc.losses.LogCosh),
        (dc.losses.Huber(0.5), 1.0, "ObjectivePerturbation", dc.losses.Huber),
        (dc.losses.SmoothedHinge(0.5), 1.0, "ObjectivePerturbation", dc.losses.SmoothedHinge),
        (dc.losses.Softmax(3), 16.0, "ObjectivePerturbation", dc.losses.Softmax),
        (dc.losses.Softmax(3), 4.0, "NoisyGD", dc.losses.Softmax),  # under more noise
    ],
    ids=str,
)
def test_choose_shapes_plain_losses(loss, epsilon, algorithm, chosen):
    plan = dc.choose(dc.Problem(loss), n=5000, d=10, budget=dc.Budget(epsilon, 1e-6))
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


def test_the_slope_of_a_regression_loss_falls_with_noise():
    problem, budget = dc.Problem(dc.losses.Squared(3.0)), dc.Budget(1.0, 1e-10)
    slopes = [3.0 * largest_slope(problem, n, 20, budget) for n in (100, 2000, 10**9)]
    assert slopes[0] == pytest.approx(0.2 * 3.0)
    assert 0.2 * 3.0 < slopes[1] < 0.5 * 3.0
    assert slopes[2] == 0.5 * 3.0
    assert dc.choose(problem, n=2000, d=20, budget=budget).problem.loss.threshold == pytest.approx(slopes[1])


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


@pytest.mark.parametrize("loss", [dc.losses.Hinge(), dc.losses.Absolute(), dc.losses.Pinball(0.3)])
def test_a_loss_with_a_kink_is_refused_by_objective_perturbation_and_chosen_for_phased_erm(loss):
    problem, budget = dc.Problem(loss, domain=dc.domains.L2Ball(2.0)), dc.Budget(1.0, 1e-6)
    with pytest.raises(HypothesisError, match="PhasedERM"):
        dc.algorithms.ObjectivePerturbation().plan(problem, n=1000, d=3, budget=budget)
    assert type(dc.choose(problem, n=20_000, d=3, budget=budget).algorithm) is dc.algorithms.PhasedERM


@pytest.mark.parametrize(("n", "l2", "precision"), [(2, 5e-4, None), (50, 1e-3, None), (20, 0.1, 1e-12)])
def test_no_draw_of_the_noise_makes_a_fit_fail(n, l2, precision, rng):
    """A refusal that depends on the tilt would leave a truncated law, about which nothing is proved."""
    problem = dc.Problem(dc.losses.Logistic(), l2=l2)
    algorithm = dc.algorithms.ObjectivePerturbation(precision=precision)
    plan = algorithm.plan(problem, n=n, d=2, budget=dc.Budget(1.0, 1e-6))
    X = rng.normal(size=(n, 2))
    for seed in range(10):
        plan.run(X, np.where(X[:, 0] > 0, 1.0, -1.0), seed=seed)


def test_a_bound_that_is_level_beyond_its_epsilon_is_met_soon():
    # Curves end at a delta of 1e-25, so bounds for pairs of neighbours are level and not monotone from some epsilon on.
    _at_node.cache_clear()
    budget = dc.Budget(200.0, 20_000**-1.1)
    plan = dc.algorithms.ObjectivePerturbation().plan(dc.Problem(dc.losses.Softmax(3)), n=20_000, d=100, budget=budget)
    assert plan.claim.epsilon(budget.delta) <= budget.epsilon
    assert _at_node.cache_info().misses < 400
