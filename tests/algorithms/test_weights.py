"""Sample weights, from what is added up to what is released: records count as they say, and never more than one."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.algorithms.attacks import NONE
from dpconvex.algorithms.sufficient_statistics import unflattened
from dpconvex.audit.replay import both_values, noise_size
from dpconvex.data.arrays import open_rows, open_weights
from dpconvex.errors import FormError, HypothesisError, InputError
from dpconvex.sums.rowwise import curvatures, shortened, slopes, values
from dpconvex.testing.noiseless import NoiselessPort

BUDGET = dc.Budget(1.0, 1e-6)
LOGISTIC = dc.Problem(dc.losses.Logistic(), feature_bound=1.5, intercept=0.7)
SOFTMAX = dc.Problem(dc.losses.Softmax(3), feature_bound=1.5)
OBJECTIVE, NOISY, MEAN = dc.algorithms.ObjectivePerturbation, dc.algorithms.NoisyGD, dc.algorithms.MeanDirection
STATISTICS = dc.algorithms.SufficientStatistics
TAKERS = [
    (OBJECTIVE(), LOGISTIC),
    (OBJECTIVE(), dc.Problem(dc.losses.LogCosh(0.5), domain=dc.domains.L2Ball(0.5))),
    (OBJECTIVE(), SOFTMAX),
    (NOISY(steps=5), LOGISTIC),
    (NOISY(steps=5), SOFTMAX),
    (MEAN(), LOGISTIC),
]
SQUARED = dc.Problem(dc.losses.Squared(2.0), feature_bound=1.5)
SUMS = [
    (NOISY(steps=4, clip=0.3), LOGISTIC),
    (NOISY(steps=4), SOFTMAX),
    (NOISY(steps=3, clip=0.5), dc.Problem(dc.losses.Logistic(), l2=1.0)),
    (MEAN(), LOGISTIC),
    (MEAN(), SQUARED),
    (STATISTICS(), SQUARED),
]
FORMS = {"dense": np.asarray, "single": np.float32, "sparse": sparse.csr_array}
every_taker = pytest.mark.parametrize(
    ("algorithm", "problem"), TAKERS, ids=[f"{type(a).__name__}-{p.loss}" for a, p in TAKERS]
)


def labels(problem, n, rng):
    loss = problem.loss
    if loss.traits.labels == "class":
        return rng.integers(0, int(loss.classes), n).astype(float)
    return rng.uniform(-1.0, 1.0, n) if loss.traits.labels == "bounded" else rng.choice([-1.0, 1.0], n)


def data(problem, n, d, rng):
    """Rows with zeros among their entries, some beyond the bound, and weights from 0 to 1."""
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)).astype(np.float32).astype(np.float64)
    return X, labels(problem, n, rng), rng.integers(0, 5, n) / 4.0


def opened(plan, X, y, omega):
    rows, targets = open_rows(X, y, plan.problem, plan.n, plan.d)
    return rows._replace(weights=omega), targets


def still(plan, X, y, omega):
    """Every value that would have been perturbed, and the solution, without noise; omega as the loops see it."""
    port = NoiselessPort(plan)
    plan.algorithm.execute(plan, *opened(plan, X, y, omega), port)
    port.close()
    return port, plan.algorithm.finish(plan, port)


def full_rows(problem, X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X = X * np.minimum(1.0, problem.feature_bound.l2(X.shape[1]) / np.maximum(norms, 1e-300))
    return np.hstack([X, np.full((len(X), 1), problem.intercept)]) if problem.intercept else X


# What is added up --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "loss",
    [dc.losses.Logistic(shift=1.0), dc.losses.SmoothedHinge(0.5), dc.losses.LogCosh(0.5), dc.losses.Softmax(3, 1.0)],
    ids=str,
)
def test_objective_perturbation_without_noise_minimises_the_weighted_objective(loss, form, rng):
    problem = dc.Problem(loss, feature_bound=1.5, intercept=0.7, l2=2.0)
    X, y, omega = data(problem, 60, 3, rng)
    plan = OBJECTIVE(precision=1e-7).plan(problem, n=60, d=3, budget=BUDGET)
    full, shape = full_rows(problem, X), problem.weight_shape(3)

    def objective(w):
        return omega @ values(loss, np.ascontiguousarray(full @ w.reshape(shape).T), y) + w @ w

    best = minimize(objective, np.zeros(np.prod(shape)), method="BFGS", options={"gtol": 1e-9}).x.reshape(shape)
    found = still(plan, FORMS[form](X), y, omega)[1]
    assert np.abs(found - best).max() < 1e-6
    assert np.abs(found - still(plan, X, y, np.ones(60))[1]).max() > 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("problem", [LOGISTIC, SOFTMAX], ids=lambda p: str(p.loss))
def test_noisy_gd_clips_first_and_weighs_then(problem, form, rng):
    X, y, omega = data(problem, 40, 3, rng)
    plan = NOISY(steps=1, clip=0.3).plan(problem, n=40, d=3, budget=BUDGET)
    full = full_rows(problem, X)
    port, _ = still(plan, FORMS[form](X), y, omega)  # noise could explain the mean row: the frame is the identity
    assert np.allclose(port.released("rows"), omega @ full, atol=1e-12)
    Z = np.zeros((40, *problem.weight_shape(3)[:-1]))
    R = problem.loss.slopes(Z, y) if Z.ndim > 1 else np.array([problem.loss.slope(0.0, t) for t in y])
    R = shortened(R, np.linalg.norm(full, axis=1), 0.3)
    assert (np.linalg.norm(np.atleast_2d(R.T), axis=0) * np.linalg.norm(full, axis=1)).max() == pytest.approx(0.3)
    assert np.allclose(port.released("gradients"), (omega * R.T) @ full, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_moments_are_weighted(form, rng):
    X, y, omega = data(SQUARED, 40, 3, rng)
    full = full_rows(SQUARED, X)
    plan = MEAN().plan(SQUARED, n=40, d=3, budget=BUDGET)
    assert np.allclose(still(plan, FORMS[form](X), y, omega)[0].released("direction"), (omega * y) @ full)
    port, _ = still(STATISTICS().plan(SQUARED, n=40, d=3, budget=BUDGET), FORMS[form](X), y, omega)
    second = full.T @ (omega[:, None] * full)
    assert np.allclose(port.released("cross"), (omega * y) @ full)
    assert np.allclose(unflattened(port.released("second"), 3), second)
    assert port.released("eigenvalue")[0] == pytest.approx(np.linalg.eigvalsh(second)[0])


@every_taker
@pytest.mark.parametrize("form", FORMS)
def test_weights_of_one_change_no_bit(algorithm, problem, form, rng):
    X, y, _ = data(problem, 50, 3, rng)
    plan = algorithm.plan(problem, n=50, d=3, budget=BUDGET)
    X = FORMS[form](X)
    plain = plan.run(X, y, seed=3).weights
    for ones in (np.ones(50), np.ones(50, dtype=np.int8), [True] * 50):
        assert np.array_equal(plain, plan.run(X, y, sample_weight=ones, seed=3).weights)
    assert np.array_equal(plain, plan.run(X, y, sample_weight=np.full(50, 7), weight_cap=7, seed=3).weights)


@every_taker
def test_weights_above_the_cap_count_as_the_cap(algorithm, problem, rng):
    X, y, _ = data(problem, 50, 3, rng)
    plan = algorithm.plan(problem, n=50, d=3, budget=BUDGET)
    weights = rng.uniform(0.0, 9.0, 50)
    weights[0] = 1e300
    clipped, half = np.minimum(weights, 2.5), plan.run(X, y, sample_weight=weights, weight_cap=2.5, seed=1).weights
    assert np.array_equal(half, plan.run(X, y, sample_weight=clipped, weight_cap=2.5, seed=1).weights)
    assert np.array_equal(half, plan.run(X, y, sample_weight=clipped / 2.5, seed=1).weights)
    assert not np.array_equal(half, plan.run(X, y, sample_weight=weights, weight_cap=9.0, seed=1).weights)


@every_taker
def test_nobody_and_one_record(algorithm, problem, rng):
    """Two records with one or both weighted 0: the other alone, or the noise alone, and no warning."""
    X, y, _ = data(problem, 2, 1, rng)
    plan = algorithm.plan(problem, n=2, d=1, budget=BUDGET)
    other = X.copy(), y.copy()
    other[0][1], other[1][1] = -5.0, (y[1] + 1) % 3 if problem.loss.traits.labels == "class" else -y[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dc.errors.NotPrivateWarning)
        for weights in ([1.0, 0.0], [0.0, 0.0], [5e-324, 0.0]):
            first, second = (plan.run(*d, sample_weight=weights, seed=2).weights for d in ((X, y), other))
            assert np.array_equal(first, second)
            assert np.isfinite(first).all()


# How far one record moves a release --------------------------------------------------------------------------------


def furthest(plan, rng, weights):
    """Largest distance of neighbours over all releases together, in units of their noise, given the same past."""
    problem, scale, found = plan.problem, {r.name: r.scale for r in plan.releases}, 0.0
    size = 9.0 if problem.loss.traits.labels == "bounded" else 1.0  # targets beyond their bound
    for trial in range(60):
        X, y, omega = data(problem, plan.n, plan.d, rng)
        X[0], y[0], omega[0] = 9.0 * rng.normal(size=plan.d), size * y[0], rng.choice(weights)
        other, targets, others = X.copy(), y.copy(), omega.copy()
        if plan.budget.relation == "replace_one":
            others[0] = rng.choice(weights)
            other[0] = -X[0] if trial % 2 else 9.0 * rng.normal(size=plan.d)
            targets[0] = y[0] if trial % 2 else size * labels(problem, 1, rng)[0]
        else:
            others[0] = 0.0
        pair = opened(plan, X, y, omega), opened(plan, other, targets, others)
        plain, changed = both_values(plan, NONE, *pair, rng.normal(size=noise_size(plan)))
        moved = [(a - b) / scale[name] for (name, a), (_, b) in zip(plain.given, changed.given, strict=True)]
        found = max(found, float(np.linalg.norm(np.concatenate([m.ravel() for m in moved]))))
    return found


@pytest.mark.parametrize(("algorithm", "problem"), SUMS, ids=[f"{type(a).__name__}-{p}" for a, p in SUMS])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_weighted_record_moves_no_sum_by_more_than_stated(algorithm, problem, relation, rng):
    """A neighbour's record may have another weight, and a masked one has none."""
    plan = algorithm.plan(problem, n=12, d=2, budget=dc.Budget(1.0, 1e-6, relation))
    mu = plan.claim.profile.mu
    assert 0.5 * mu < furthest(plan, rng, (0.0, 0.3, 1.0)) <= mu * (1.0 + 1e-9)
    assert furthest(plan, rng, (0.0, 2.0)) > 1.1 * mu  # weights that were not clipped


def density(plan, records, w):
    """Density at points w of the exact minimiser in one dimension, of records (x, y, omega)."""
    problem, sigma = plan.problem, plan.releases[0].scale
    g, h = problem.l2 * w, np.full_like(w, problem.l2)
    for x, y, omega in records:
        g = g + omega * x * slopes(problem.loss, x * w, np.full_like(w, y))
        h = h + omega * x * x * curvatures(problem.loss, x * w, np.full_like(w, y))
    return np.exp(-0.5 * (g / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi)) * h


@pytest.mark.parametrize(
    "loss",
    [
        dc.losses.Logistic(),
        dc.losses.Logistic(cap=0.5),
        dc.losses.SmoothedHinge(0.5),
        dc.losses.Huber(0.5),
        dc.losses.LogCosh(0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_minimiser_of_a_weighted_objective_keeps_to_its_curve(loss, relation, rng):
    """Against the exact divergence, integrated: for weights up to 1 it lies below, for weights of 3 above."""
    plan = OBJECTIVE(precision=1e-9).plan(dc.Problem(loss), n=2, d=1, budget=dc.Budget(1.0, 1e-3, relation))
    w = np.linspace(-1.0, 1.0, 20_001) * (9.0 * plan.releases[0].scale + 4.0) / plan.problem.l2
    curve = {epsilon: plan.claim.profile.delta(epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0)}

    def worst(weights):
        over = []
        for _ in range(40):
            first, second = ((1.0, rng.choice([-1.0, 1.0]), rng.choice(weights)) for _ in range(2))
            base = [(rng.uniform(-1, 1), 1.0, rng.random())]
            other = [*base, second] if relation == "replace_one" else base
            p, q = density(plan, [*base, first], w), density(plan, other, w)
            assert np.trapezoid(p, w) == pytest.approx(1.0, abs=1e-4)  # curvature jumps on the grid
            for epsilon, stated in curve.items():
                apart = max(np.trapezoid(np.maximum(a - np.exp(epsilon) * b, 0.0), w) for a, b in ((p, q), (q, p)))
                over.append(apart / stated)
        return max(over)

    assert worst([0.1, 0.4, 0.7, 1.0]) <= 1.0 + 1e-6
    assert worst([3.0]) > 1.2


def test_the_minimiser_of_a_weighted_softmax_keeps_to_its_curve(rng):
    """Two classes and one feature: the density of two weights, summed over a grid."""
    plan = OBJECTIVE(precision=1e-9).plan(
        dc.Problem(dc.losses.Softmax(2)), n=2, d=1, budget=dc.Budget(1.0, 1e-3, "zero_out")
    )
    problem, sigma = plan.problem, plan.releases[0].scale
    axis = np.linspace(-1.0, 1.0, 801) * (6.0 * sigma + 2.0) / problem.l2
    W = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = (axis[1] - axis[0]) ** 2

    def density(omega):
        y = np.zeros(len(W))
        g = problem.l2 * W + omega * problem.loss.slopes(W, y)
        bent = np.prod(problem.loss.probabilities(W, y), axis=1)  # diag(p) - p p' has the eigenvalues 0 and 2 p_0 p_1
        return np.exp(-0.5 * (g**2).sum(axis=1) / sigma**2) * (problem.l2 + 2.0 * omega * bent)

    none = density(0.0)
    for omega in (0.2, 0.5, 1.0):
        some = density(omega)
        for epsilon in (0.0, 0.5, 1.0):
            stated = plan.claim.profile.delta(epsilon)
            for p, q in ((some, none), (none, some)):
                exact = np.maximum(p / p.sum() - np.exp(epsilon) * q / q.sum(), 0.0).sum()
                assert exact <= stated * (1.0 + 1e-3)
    assert none.sum() * cell * problem.l2 / (2 * np.pi * sigma**2) == pytest.approx(1.0, abs=1e-3)
    heavy = density(3.0)
    assert np.maximum(heavy / heavy.sum() - none / none.sum(), 0.0).sum() > plan.claim.profile.delta(0.0)


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "cap", "word"),
    [
        (np.full(49, 7.25), 1.0, "sample_weight"),
        (np.ones((50, 1)), 1.0, "sample_weight"),
        (1.0, 1.0, "sample_weight"),
        ([], 1.0, "sample_weight"),
        (np.full(50, "a lot"), 1.0, "sample_weight"),
        (np.full(50, "2020-01-01", dtype="datetime64[D]"), 1.0, "sample_weight"),
        (np.ones(50) * 1j, 1.0, "sample_weight"),
        ([[1.0], [1.0, 2.0]] * 25, 1.0, "sample_weight"),
        *((np.ones(50), cap, "weight_cap") for cap in (0.0, -1.0, np.nan, np.inf, True, None, "1", [1.0])),
    ],
    ids=lambda v: str(v)[:20],
)
def test_weights_of_the_wrong_form_are_not_charged_and_draw_nothing(weights, cap, word, rng, monkeypatch):
    X, y, _ = data(LOGISTIC, 50, 3, rng)
    plan = OBJECTIVE().plan(LOGISTIC, n=50, d=3, budget=BUDGET)
    drawn = []
    monkeypatch.setattr("dpconvex.plan.run.Source", lambda seed: drawn.append(seed))
    with pytest.raises(FormError, match=f"^{word}") as refused:
        plan.run(X, y, sample_weight=weights, weight_cap=cap, dataset="bad weights")
    assert dc.account("bad weights").claims == ()
    assert drawn == []
    assert "7.25" not in str(refused.value)


@pytest.mark.parametrize(
    ("cell", "counts"),
    [(-7.25, 0.0), (-np.inf, 0.0), (np.nan, 0.0), (None, 0.0), ("a lot", 0.0), (np.inf, 2.0), (10**400, 2.0)],
    ids=lambda v: str(v)[:20],
)
@pytest.mark.parametrize("all_rows", [False, True])
def test_what_a_row_gives_as_its_weight_refuses_no_run_which_is_charged(cell, counts, all_rows, rng):
    X, y, _ = data(LOGISTIC, 50, 3, rng)
    plan = OBJECTIVE().plan(LOGISTIC, n=50, d=3, budget=BUDGET)
    rest = [] if all_rows else [1.0] * 49
    odd, stated = rest + [cell] * (50 - len(rest)), rest + [counts] * (50 - len(rest))
    found, same = (plan.run(X, y, sample_weight=w, weight_cap=2.0, seed=1).weights for w in (odd, stated))
    assert np.array_equal(found, same)
    assert not np.array_equal(found, plan.run(X, y, sample_weight=np.ones(50), weight_cap=2.0, seed=1).weights)
    name = f"weight {counts} {str(cell)[:9]} {all_rows}"
    plan.run(X, y, sample_weight=odd, weight_cap=2.0, dataset=name)
    assert len(dc.account(name).claims) == 1


def test_algorithms_that_take_no_weights_refuse_them(rng):
    problems = {"SufficientStatistics": dc.Problem(dc.losses.Squared())}
    refused = []
    for name in dc.algorithms.REGISTRY:
        algorithm = getattr(dc.algorithms, name)()
        problem = problems.get(name, dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(2.0)))
        if "sample_weight" not in getattr(algorithm, "takes", ()):
            plan = algorithm.plan(problem, n=50, d=3, budget=BUDGET)
            X, y, omega = data(problem, 50, 3, rng)
            with pytest.raises(InputError, match=f"^{name} takes no sample_weight"):
                plan.run(X, y, sample_weight=omega, dataset="refused")
            refused.append(name)
    assert dc.account("refused").claims == ()
    assert {"PhasedSGD", "PhasedERM"} <= set(refused)
    assert not {type(a).__name__ for a, _ in TAKERS} & set(refused)


def test_the_part_of_the_cap_is_never_above_one(rng):
    for cap in (1e-300, 0.1, 1.0, 3.0, 7.7, 1e300):
        omega = open_weights(cap * rng.uniform(0.0, 3.0, 1000), cap, 1000)
        assert omega.min() >= 0.0
        assert omega.max() == 1.0


# The choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        dc.losses.Logistic(),
        dc.losses.SmoothedHinge(0.5),
        dc.losses.LogCosh(0.5),
        dc.losses.Huber(0.5),
        dc.losses.Squared(),
        dc.losses.Softmax(3),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [15, 600])
def test_a_weighted_fit_is_that_of_repeated_rows(loss, n, rng):
    """With the same cap: as in scikit-learn's check of sample weights, on as many rows, and on more."""
    X = rng.normal(size=(n, 30))
    problem = dc.Problem(loss, feature_bound=float(np.linalg.norm(X, axis=1).max()), intercept=1.0)
    for seed in range(5):
        y, times = labels(problem, n, rng), rng.integers(0, 5, n)
        order = rng.permutation(int(times.sum()))
        many, targets = np.repeat(X, times, axis=0)[order], np.repeat(y, times)[order]
        plan, other = (dc.choose(problem, n=m, d=30, budget=BUDGET, weighted=True) for m in (n, len(targets)))
        assert plan.releases == other.releases
        a = plan.run(X, y, sample_weight=times, weight_cap=4.0, seed=seed)
        b = other.run(many, targets, sample_weight=np.ones(len(targets)), weight_cap=4.0, seed=seed)
        assert np.abs(a.weights - b.weights).max() <= 1e-8 * np.abs(a.weights).max()
        if n == 15:
            assert np.allclose(a.predict(X), b.predict(X), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "shaped"),
    [
        (dc.losses.Logistic(), dc.losses.Logistic(shift=1.0)),
        (dc.losses.Logistic(cap=0.5), dc.losses.Logistic(cap=0.5)),
        (dc.losses.Squared(3.0), dc.losses.LogCosh(1.5, 3.0)),
        (dc.losses.Huber(0.5), dc.losses.Huber(0.5)),
        (dc.losses.Softmax(3), dc.losses.Softmax(3, 1.0)),
    ],
    ids=str,
)
def test_nothing_that_shapes_a_weighted_fit_depends_on_n(loss, shaped):
    plans = [dc.choose(dc.Problem(loss), n=n, d=10, budget=BUDGET, weighted=True) for n in (2, 100, 3000)]
    for plan in plans:
        assert type(plan.algorithm) is OBJECTIVE
        assert plan.problem.loss == shaped
        assert plan.problem == plans[0].problem
        assert plan.releases == plans[0].releases
        assert plan.claim.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("loss", [dc.losses.Hinge(), dc.losses.Linear()], ids=str)
def test_losses_whose_algorithms_take_no_weights_are_refused(loss):
    problem = dc.Problem(loss, domain=dc.domains.L2Ball(1.0))
    with pytest.raises(HypothesisError):
        dc.choose(problem, n=100, d=2, budget=BUDGET, weighted=True)
    with pytest.raises(InputError, match=r"^weighted must"):
        dc.choose(problem, n=100, d=2, budget=BUDGET, weighted=1)


def test_precise_minimisers_cost_no_more_noise_in_the_objective(rng):
    problem = dc.Problem(dc.losses.Logistic(), l2=2.0)
    usual, precise = (a.plan(problem, n=1000, d=5, budget=BUDGET) for a in (OBJECTIVE(), OBJECTIVE(precision=1e-7)))
    assert precise.releases[0].scale == pytest.approx(usual.releases[0].scale, rel=1e-3)
    assert precise.releases[1].scale < 0.1 * usual.releases[1].scale
    assert precise.schedule[0].tolerance < 1e-2 * usual.schedule[0].tolerance
    finest = OBJECTIVE(precision=1e-300).plan(problem, n=1000, d=5, budget=BUDGET)  # what float64 can certify
    X, y, omega = data(problem, 1000, 5, rng)
    assert np.isfinite(finest.run(X, y, sample_weight=omega, seed=1).weights).all()
