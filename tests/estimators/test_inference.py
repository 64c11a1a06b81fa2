"""Noise that can be reported: intervals cover what they say at the rate they say, over the noise and nothing else.

`DPCONVEX_FITS=2000` asks for coverage within 1% of nominal; the slice that runs by default, for what is plausible.
"""

import copy
import json
import math
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from slices import one_in

import dpconvex as dc
from dpconvex import theorems
from dpconvex.algorithms.noise_law import symmetric_draws
from dpconvex.audit.whitebox import stated_sensitivities
from dpconvex.errors import FormError, HypothesisError, InputError, PrivacyLeakWarning, RowError, VerificationError
from dpconvex.estimators import inference
from dpconvex.kernel.claims import Bounded, concludes_fact
from dpconvex.plan.port import NoisePort
from dpconvex.problem.facts import Kind
from dpconvex.queries.curvature import Curvature
from dpconvex.testing.noiseless import run_without_noise

FITS = int(os.environ.get("DPCONVEX_FITS", "100"))
BOX = dc.bounds.Linf(1.0)
PART = dc.Budget(0.5, 1e-6)
FINE = dc.Budget(1.0, 1e-6)
RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, size=(2000, 5))
SCORES = X @ [1.5, -1.0, 0.5, 0.0, 0.8]
LABELS = (SCORES + RNG.logistic(size=2000) > 0).astype(int)
TARGETS = 50 + 10 * SCORES + 5 * RNG.normal(size=2000)
CLASSIFIED = {"feature_bound": BOX, "classes": [0, 1]}
RANGED = {"feature_bound": BOX, "target_range": (0, 100)}


def signs(y):
    return np.where(y == 1, 1.0, -1.0)


def halves(y):
    return (np.clip(y, 0, 100) - 50) / 50


@pytest.fixture
def table(rng):
    n = 3000
    age, town = rng.uniform(20, 80, n), rng.choice(["A", "B"], n)
    ill = np.where((age - 50) / 20 + (town == "A") + rng.logistic(size=n) > 0, "ill", "well")
    return pd.DataFrame({"age": age, "town": town, "state": ill})


def schema(name, **options):
    columns = {"age": dc.schema.Number(20, 80), "town": dc.schema.Category(["A", "B"], missing="zeros")}
    return dc.Schema(columns, dc.schema.Classes("state", ["well", "ill"]), name=name, **options)


# What the intervals are to cover, computed without the library's solvers -------------------------------------------


def minimiser(model, y, rows=X):
    """Minimiser of the objective on the receipt, by Newton's method with steps that are halved where they must be."""
    problem = model.receipt_.problem
    rows = np.hstack([rows, np.full((len(rows), 1), problem.intercept)])
    value, slope, bend = (np.vectorize(getattr(problem.loss, f)) for f in ("value", "slope", "curvature"))

    def objective(w):
        return value(rows @ w, y).sum() + 0.5 * problem.l2 * w @ w

    w = np.zeros(rows.shape[1])
    for _ in range(100):
        gradient = rows.T @ slope(rows @ w, y) + problem.l2 * w
        if np.abs(gradient).max() < 1e-9:
            return w
        step = np.linalg.solve((rows.T * bend(rows @ w, y)) @ rows + problem.l2 * np.eye(len(w)), gradient)
        length = 1.0
        while objective(w - length * step) > objective(w) and length > 1e-6:
            length /= 2
        w = w - length * step
    raise AssertionError("Newton's method did not converge")


def ridge(model, y):
    """Ridge regression with the ridge that the noisy eigenvalue asked for."""
    budget = dc.Budget(model.epsilon, model.delta)
    plan = dc.algorithms.SufficientStatistics().plan(model.receipt_.problem, n=len(X), d=5, budget=budget)
    scales = {r.name: r.scale for r in plan.releases}
    rows = np.hstack([X, np.full((len(X), 1), model.receipt_.problem.intercept)])
    least = max(0.0, model.moments_["eigenvalue"][0, 0] - 1.96 * scales["eigenvalue"])
    added = max(0.0, 1.96 * math.sqrt(6) * scales["second"] - least)
    return np.linalg.solve(rows.T @ rows + added * np.eye(6), rows.T @ y)


def direction(model, y):
    problem = model.receipt_.problem
    rows = np.hstack([X, np.full((len(X), 1), problem.intercept)])
    return rows.T @ y / (len(X) * problem.row_bound(5).value ** 2)


CASES = {
    "logistic": (dc.PrivateLogisticRegression(**CLASSIFIED), LABELS, signs),
    "svc": (dc.PrivateLinearSVC(**CLASSIFIED), LABELS, signs),
    "ridge": (dc.PrivateRidge(**RANGED), TARGETS, halves),
    "huber": (dc.PrivateHuberRegressor(**RANGED), TARGETS, halves),
    "moments": (dc.PrivateRidge(algorithm="SufficientStatistics", **RANGED), TARGETS, halves),
    "quantile": (dc.PrivateQuantileRegressor(0.5, algorithm="PhasedERM", **RANGED), TARGETS, halves),
    "phased": (dc.PrivateLogisticRegression(algorithm="PhasedSGD", **CLASSIFIED), LABELS, signs),
    "direction": (dc.PrivateRidge(algorithm="MeanDirection", **RANGED), TARGETS, halves),
}
RATES = (0.9, 0.95)


def covered(name, fits, monkeypatch):
    """Whether each interval held what it covers: an array of fits, rates and coefficients."""
    model, y, encode = CASES[name]
    found = {}
    add = NoisePort.add

    def spy(port, release, value):
        found[release] = np.array(value)
        return add(port, release, value)

    monkeypatch.setattr(NoisePort, "add", spy)
    inside, fixed = [], None
    for seed in range(fits):
        found.clear()
        model.set_params(random_state=seed).fit(X, y)
        exact = copy.copy(model)
        if name in ("quantile", "phased"):
            exact.weights_ = found[max(r for r in found if r.startswith("phase"))]
        elif name == "moments":
            exact.weights_ = ridge(model, encode(y))
        else:
            if fixed is None:
                fixed = (direction if name == "direction" else minimiser)(model, encode(y))
            exact.weights_ = fixed
        truth = np.append(np.ravel(exact.coef_), exact.intercept_)
        report = model.noise_report(X, y, FINE)
        ends = [report.interval(rate) for rate in RATES]
        inside.append([(low <= truth) & (truth <= high) for low, high in ends])
    return np.array(inside)


def plausible(inside):
    """Whether the share of intervals that held, over all coefficients, is what was promised, for each rate.

    With 2000 fits or more: within 1%. With fewer: within 3.9 standard deviations of a binomial law of as many trials as
    fits, which a sound report leaves less than once in 10,000 times, however much coefficients depend on each other.
    """
    fits, share = len(inside), inside.mean(axis=(0, 2))
    rates = np.array(RATES)
    return np.abs(share - rates) <= (0.01 if fits >= 2000 else 3.9 * np.sqrt(rates * (1 - rates) / fits))


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_intervals_cover_at_their_rate(name, monkeypatch):
    inside = covered(name, FITS, monkeypatch)
    print(f"{name}: {FITS} fits, coverage {inside.mean(axis=(0, 2)).round(4)} of {RATES}")
    assert plausible(inside).all(), inside.mean(axis=(0, 2))


@pytest.mark.parametrize("name", CASES)
def test_half_the_stated_noise_is_found_out(name, monkeypatch):
    stated, law = inference.stated_scales, dc.algorithms.SufficientStatistics.noise_law
    if name == "moments":  # where other scales would not even give the weights
        half = lambda *a: law(*a)._replace(std_errors=law(*a).std_errors / 2)  # noqa: E731
        monkeypatch.setattr(dc.algorithms.SufficientStatistics, "noise_law", half)
    else:
        monkeypatch.setattr(inference, "stated_scales", lambda r: {k: v / 2 for k, v in stated(r).items()})
    assert not plausible(covered(name, 60, monkeypatch)).any()


def never_too_short(model, report, truth, fits=100):
    """Whether 90% intervals hold at least as often as that, coefficient by coefficient, up to chance."""
    exact = copy.copy(model)
    exact.weights_ = truth
    truth = np.append(np.ravel(exact.coef_), exact.intercept_)
    ends = [report(seed).interval(0.9) for seed in range(fits)]
    held = np.mean([(low <= truth) & (truth <= high) for low, high in ends], axis=0)
    return (held > 0.9 - 3.9 * math.sqrt(0.09 / fits)).all(), np.median([high - low for low, high in ends], axis=0)


def test_a_hessian_of_little_budget_makes_intervals_wider_never_too_short():
    model, y, encode = CASES["logistic"]
    truth = minimiser(model.set_params(random_state=0).fit(X, y), encode(y))

    def report(epsilon):
        budget = dc.Budget(epsilon, 1e-6)
        return lambda seed: model.set_params(random_state=seed).fit(X, y).noise_report(X, y, budget)

    sound, rough = never_too_short(model, report(0.05), truth)
    assert sound
    assert (rough > never_too_short(model, report(8.0), truth, 5)[1]).all()


def test_columns_that_add_up_to_the_constant_feature_do_not_shorten_intervals(table):
    """The Hessian has an eigenvalue of l2 there, which noise hides."""
    model = dc.PrivateLogisticRegression(1.0, schema=schema("collinear"), random_state=0).fit(table)
    rows = dc.PrivatePreprocessor(model.schema).fit_transform(table)
    truth = minimiser(model, np.where(table["state"] == model.classes_[1], 1.0, -1.0), rows)
    budget = dc.Budget(0.3, 1e-6)
    sound, _ = never_too_short(
        model, lambda seed: model.set_params(random_state=seed).fit(table).noise_report(table, budget=budget), truth
    )
    assert sound


# The release of the Hessian ------------------------------------------------------------------------------------------


@concludes_fact
def assumed_fact(kind: str, value: object) -> Bounded:
    """A fact for tests: the kernel's own decorator seals it."""
    return Bounded(Kind[kind], tuple(value) if isinstance(value, list) else value, "assumed by a test")


SMOOTH = [
    dc.losses.Logistic(),
    dc.losses.Logistic(cap=0.3, shift=0.5),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Huber(0.5),
    dc.losses.LogCosh(0.4),
]


@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_the_sensitivity_of_the_hessian_is_attained_and_never_beaten(loss):
    problem = dc.Problem(loss, feature_bound=1.3)
    stated = {
        relation: theorems.curvature_sum(problem.curvature_law(), problem.slope(), problem.row_bound(4), relation).value
        for relation in ("replace_one", "zero_out")
    }
    top = loss.curvature_bound() * 1.3**2
    assert stated["zero_out"] == pytest.approx(top, rel=1e-10)
    assert stated["zero_out"] >= top
    assert stated["replace_one"] == pytest.approx(math.sqrt(2) * top, rel=1e-10)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 2, 4))
    rows *= 1.3 / np.maximum(1.3, np.linalg.norm(rows, axis=-1, keepdims=True))
    bends = np.vectorize(loss.curvature)(rng.normal(size=(4000, 2)) * 2, rng.choice([-1.0, 1.0], (4000, 2)))
    terms = bends[..., None, None] * np.einsum("nki,nkj->nkij", rows, rows)
    assert np.linalg.norm(terms[:, 0], axis=(1, 2)).max() <= stated["zero_out"]
    assert np.linalg.norm(terms[:, 0] - terms[:, 1], axis=(1, 2)).max() <= stated["replace_one"]
    most = max(loss.curvature(z, 1.0) for z in np.linspace(-4, 4, 8001))  # orthogonal rows of the same curvature
    assert math.sqrt(2) * most * 1.3**2 >= stated["replace_one"] * (1 - 1e-3)


@pytest.mark.parametrize(
    ("law", "cap", "top"),
    [
        ([0.0, 1.0, -1.0], 1.0, 0.25),
        ([0.0, 1.0, -1.0], 0.3, 0.21),
        ([2.0, 0.0, -1.0], 1.0, 2.0),
        ([1.0, -0.5, 0.0], 2.0, 1.0),
        ([1.0, 0.5, 0.0], 2.0, 2.0),
        ([0.0, 0.0, 0.0], 1.0, 0.0),
    ],
)
def test_the_largest_value_of_a_curvature_law(law, cap, top):
    facts = assumed_fact("CURVATURE_LAW", law), assumed_fact("SLOPE", cap), assumed_fact("ROW_BOUND", 1.0)
    assert theorems.curvature_sum(*facts, "zero_out").value == pytest.approx(top, rel=1e-10, abs=0.0)
    found = max(law[0] + law[1] * s + law[2] * s * s for s in np.linspace(0, cap, 1001))
    assert found <= top * (1 + 1e-12)


def test_the_sensitivity_of_the_hessian_refuses_what_it_cannot_use():
    law, slope = assumed_fact("CURVATURE_LAW", [1.0, 0.0, 0.0]), assumed_fact("SLOPE", 1.0)
    row = assumed_fact("ROW_BOUND", 1.0)
    for wrong, words in (
        ((1.0, slope, row, "replace_one"), "curvature"),
        ((row, slope, row, "replace_one"), "curvature"),
        ((assumed_fact("CURVATURE_LAW", [1.0, 0.0, 1.0]), slope, row, "replace_one"), "concave"),
        ((law, 1.0, row, "replace_one"), "slope must be a Fact"),
        ((law, row, row, "replace_one"), "SLOPE"),
        ((law, slope, 1.0, "replace_one"), "row must be a Fact"),
        ((law, slope, slope, "replace_one"), "ROW_BOUND"),
    ):
        with pytest.raises(HypothesisError, match=words):
            theorems.curvature_sum(*wrong)
    with pytest.raises(InputError, match="relation"):
        theorems.curvature_sum(law, slope, row, "swap")


PROBLEMS = [
    dc.Problem(dc.losses.Logistic(shift=0.7), l2=2.0, intercept=0.5),
    dc.Problem(dc.losses.LogCosh(0.4), feature_bound=dc.bounds.Linf(0.5)),
    dc.Problem(dc.losses.SmoothedHinge(), l2=1.0),
]


def rows_and_labels(problem, n, d, rng):
    data = rng.normal(size=(n, d))
    y = np.where(data[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return data, y if problem.loss.traits.labels == "sign" else 0.5 * y


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: type(p.loss).__name__)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_hessian_is_released_by_a_plan_like_any_other(problem, relation, rng):
    n, d = 40, 3
    (size,) = problem.weight_shape(d)
    algorithm = Curvature(at=tuple(0.1 * np.arange(1.0, size + 1)))
    budget = dc.Budget(1.0, 1e-6, relation)
    plan = algorithm.plan(problem, n=n, d=d, budget=budget)
    assert plan.to_json() == algorithm.plan(problem, n=n, d=d, budget=budget).to_json()
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    assert 0.995 < plan.claim.epsilon(1e-6) <= 1.0
    assert "noise" in str(plan)
    data, y = rows_and_labels(problem, n, d, rng)
    outcomes = []
    for rows in (data, data.astype(np.float32), sparse.csr_array(data), data.tolist()):
        solution = plan.run(rows, y, dataset="hessians", seed=5)
        assert dc.verify(dc.Receipt.from_json(solution.receipt.to_json()))
        assert solution.weights.shape == (size, size)
        assert np.array_equal(solution.weights, solution.weights.T)
        outcomes.append(solution.weights)
    for other in outcomes[1:]:
        assert np.allclose(other, outcomes[0], atol=1e-5)
    still = run_without_noise(plan, data, y)[1]
    if isinstance(problem.feature_bound, dc.bounds.Linf):
        data = np.clip(data, -0.5, 0.5)
    else:
        data = data / np.maximum(1.0, np.linalg.norm(data, axis=1, keepdims=True))
    data = np.hstack([data, np.full((n, size - d), problem.intercept)])

    def gradient(w):
        return data.T @ np.vectorize(problem.loss.slope)(data @ w, y) + problem.l2 * w

    at = np.array(algorithm.at)
    numeric = np.array([(gradient(at + 1e-6 * e) - gradient(at - 1e-6 * e)) / 2e-6 for e in np.eye(size)])
    assert np.allclose(still, numeric, atol=1e-5)
    assert [r.name for r in plan.releases] == ["hessian"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: type(p.loss).__name__)
def test_a_replaced_record_moves_the_hessian_by_no_more_than_stated(problem, rng):
    n, d = 20, 3
    (size,) = problem.weight_shape(d)
    plan = Curvature(at=(0.2,) * size).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    stated = stated_sensitivities(plan.claim)["hessian"]
    data, y = rows_and_labels(problem, n, d, rng)
    still = run_without_noise(plan, data, y)[0].released("hessian")
    for record in range(n):
        for length in (1.0, 100.0):
            changed, labels = data.copy(), y.copy()
            changed[record], labels[record] = length * rng.normal(size=d), -labels[record]
            moved = run_without_noise(plan, changed, labels)[0].released("hessian")
            assert np.linalg.norm(moved - still) <= stated * (1 + 1e-9)


def test_the_noise_of_a_hessian_has_the_law_that_reports_draw_from(rng):
    """Variance sigma^2 on the diagonal and half of it beside, as the plan adds it and as the report draws it."""
    problem = PROBLEMS[2]
    plan = Curvature(at=(0.0, 0.0)).plan(problem, n=20, d=2, budget=dc.Budget(1.0, 1e-6))
    data, y = rows_and_labels(problem, 20, 2, rng)
    still = run_without_noise(plan, data, y)[1]
    scale = plan.releases[0].scale
    noise = np.array([plan.run(data, y, seed=s).weights - still for s in range(400)]) / scale
    drawn = symmetric_draws(1, 1.0, 2)
    for sample in (noise, drawn):
        assert np.allclose(sample.var(axis=0), [[1.0, 0.5], [0.5, 1.0]], atol=0.25)
        assert abs(np.cov(sample[:, 0, 0], sample[:, 1, 1])[0, 1]) < 0.2


def test_weights_count_in_the_hessian(rng):
    problem = PROBLEMS[2]
    data, y = rows_and_labels(problem, 30, 2, rng)
    twice = Curvature(at=(0.1, 0.2)).plan(problem, n=60, d=2, budget=dc.Budget(1.0, 1e-6))
    once = Curvature(at=(0.1, 0.2)).plan(problem, n=30, d=2, budget=dc.Budget(1.0, 1e-6))
    a = twice.run(np.vstack([data, data]), np.append(y, y), sample_weight=np.repeat([1.0, 0.0], 30), seed=1).weights
    assert np.allclose(a, once.run(data, y, seed=1).weights)
    assert not np.allclose(a, once.run(data, y, sample_weight=np.full(30, 0.5), seed=1).weights)


@pytest.mark.parametrize("size", [1e-200, 1e6, 1e307])
def test_rows_of_any_magnitude_are_brought_back_in_the_hessian_too(size, rng):
    plan = Curvature(at=(0.5,)).plan(dc.Problem(dc.losses.Logistic(), l2=1.0), n=2, d=1, budget=dc.Budget(1.0, 0.01))
    assert np.isfinite(plan.run(np.array([[size], [-size]]), np.ones(2)).weights).all()


def test_what_no_hessian_can_be_released_of_is_refused():
    budget = dc.Budget(1.0, 1e-6)
    for bad in ([0.0], (math.nan,), (math.inf,), (1,), ("a",), None):
        with pytest.raises(InputError, match="at must be"):
            Curvature(at=bad)
    for loss in (dc.losses.Hinge(), dc.losses.Pinball(), dc.losses.Linear(), dc.losses.Squared()):
        with pytest.raises(HypothesisError):
            Curvature(at=(0.0,)).plan(dc.Problem(loss), n=10, d=1, budget=budget)
    with pytest.raises(InputError, match="2 weights"):
        Curvature(at=(0.0, 0.0)).plan(PROBLEMS[2], n=10, d=3, budget=budget)
    with pytest.raises(InputError, match="weights"):
        Curvature(at=(0.0,)).plan(dc.Problem(dc.losses.Softmax(3)), n=10, d=1, budget=budget)
    for change in ({"n": 1}, {"d": 0}, {"budget": 1.0}):
        with pytest.raises(InputError, match="must be"):
            Curvature(at=(0.0,)).plan(PROBLEMS[2], **{"n": 10, "d": 1, "budget": budget, **change})
    plan = Curvature(at=(0.0,)).plan(PROBLEMS[2], n=2, d=1, budget=dc.Budget(1.0, 0.01))
    for form in (np.zeros((3, 1)), np.zeros((2, 2)), np.array([["a"], ["b"]])):
        with pytest.raises(FormError, match=r"^X (must|has)"):
            plan.run(form, np.ones(2), dataset="of a hessian")
    assert dc.account("of a hessian").claims == ()
    with pytest.raises(RowError, match=r"not finite.*the run stays charged"):
        plan.run(np.array([[np.nan], [0.0]]), np.ones(2), dataset="of a hessian")
    assert len(dc.account("of a hessian").claims) == 1


def test_rows_of_undeclared_classes_count_as_nothing_in_a_report_which_is_charged():
    model = dc.PrivateLogisticRegression(random_state=0, dataset="undeclared classes", **CLASSIFIED).fit(X, LABELS)
    half = np.arange(len(X)) < 1000
    report = model.noise_report(X, np.where(half, LABELS, 2), PART)
    again = model.noise_report(np.where(half[:, None], X, -X), np.where(half, LABELS, -7), PART)
    assert np.array_equal(report.std_errors, again.std_errors)
    assert (report.std_errors > model.noise_report(X, LABELS, PART).std_errors).all()
    model.set_params(random_state=None)
    model.noise_report(X, LABELS + 2, PART)
    assert len(dc.account("undeclared classes").claims) == 1


# From a model to its report ------------------------------------------------------------------------------------------


def test_a_report_names_features_says_what_it_is_about_and_is_charged(table):
    model = dc.PrivateLogisticRegression(1.0, schema=schema("reported")).fit(table)
    before = dc.account("reported").total().epsilon(1e-6)
    report = model.noise_report(table, budget=PART)
    assert report.names == ("age", "town=A", "town=B", "(intercept)")
    assert np.array_equal(report.coef, np.append(model.coef_, model.intercept_))
    assert (report.std_errors > 0).all()
    account = dc.account("reported")
    assert len(account.claims) == 2
    assert before < account.total().epsilon(1e-6) < 1.5
    assert dc.verify(report.receipt)
    assert report.receipt.epsilon <= 0.5
    assert report.receipt.data["plan"]["algorithm"]["at"] == model.weights_.tolist()
    assert report.receipt.data["dataset"]["declared"] == model.receipt_.data["dataset"]["declared"]
    low, high = report.interval(0.9)
    wide = report.interval(0.99)
    assert ((wide[0] < low) & (low < report.coef) & (report.coef < high) & (high < wide[1])).all()
    text = report.summary(0.9)
    for part in (
        *report.names,
        "90% interval",
        "not sampling error",
        "without noise",
        "ObjectivePerturbation",
        "Curvature",
    ):
        assert part in text
    assert str(report) == report.summary(0.95)
    assert "NOT PRIVATE" not in text
    assert "NOT PRIVATE" in str(model.set_params(random_state=3).noise_report(table, budget=PART))
    assert np.array_equal(pickle.loads(pickle.dumps(report)).interval()[0], report.interval()[0])


def test_a_report_covers_all_the_rows_of_a_person(table):
    model = dc.PrivateLogisticRegression(1.0, schema=schema("threes", rows_per_person=3)).fit(table)
    report = model.noise_report(table, budget=PART)
    assert report.receipt.data["dataset"]["unit"] == 3
    assert report.receipt.epsilon <= 0.5
    alone = dc.PrivateLogisticRegression(1.0, schema=schema("alone")).fit(table).noise_report(table, budget=PART)
    assert inference.stated_scales(report.receipt)["hessian"] > 2.5 * inference.stated_scales(alone.receipt)["hessian"]
    assert report.std_errors.sum() > alone.std_errors.sum()


def test_reports_that_need_no_data_take_none_and_charge_nothing(table):
    for algorithm in ("PhasedERM", "PhasedSGD", "MeanDirection"):
        name = f"free {algorithm}"
        model = dc.PrivateLogisticRegression(1.0, schema=schema(name), algorithm=algorithm).fit(table)
        report = model.noise_report()
        assert report.receipt is None
        assert report.receipts == (model.receipt_,)
        assert len(dc.account(name).claims) == 1
        assert len(set(report.std_errors[:-1].round(12))) == 1  # the same noise on every weight
        half = report.interval(0.95)[1] - report.coef
        assert np.allclose(half, 1.959964 * report.std_errors, rtol=1e-6)


def test_only_the_noise_of_the_last_phase_is_stated_and_the_report_says_so():
    model = dc.PrivateQuantileRegressor(0.5, algorithm="PhasedERM", random_state=0, **RANGED).fit(X, TARGETS)
    scales = [n["scale"] for n in model.receipt_.data["claim"]["derivation"]["from"]["claim"]["from"]["releases"]]
    report = model.noise_report()
    constant = model.receipt_.problem.intercept
    assert np.allclose(report.std_errors, 50 * scales[-1] * np.array([1, 1, 1, 1, 1, constant]))
    assert "earlier phases" in str(report)
    shuffled = dc.algorithms.PhasedSGD(shuffle=True)
    mixed = dc.PrivateLogisticRegression(algorithm=shuffled, random_state=0, **CLASSIFIED).fit(X, LABELS)
    phases = [r for r in inference.stated_scales(mixed.receipt_) if r.startswith("phase")]
    expected = inference.stated_scales(mixed.receipt_)[phases[-1]]
    assert np.allclose(mixed.noise_report().std_errors[:-1], expected)


@pytest.mark.parametrize(("name", "least", "most"), [("quantile", 0.8, 1.25), ("phased", 1.35, 2.1)])
def test_what_the_noise_of_earlier_phases_adds(name, least, most):
    """Spread of the coefficients over all the noise, in units of the noise that is stated: what the docs say."""
    model, y, _ = CASES[name]
    fits = [
        model.set_params(random_state=seed).fit(X, y) and (model.coef_.copy(), model.intercept_) for seed in range(100)
    ]
    spread = np.std([np.append(np.ravel(coef), intercept) for coef, intercept in fits], axis=0)
    ratio = float(np.sqrt(np.mean((spread / model.noise_report().std_errors) ** 2)))
    print(f"{name}: all the noise spreads coefficients {ratio:.2f} times as far as the last")
    assert least < ratio < most


def test_files_keep_what_a_report_needs_or_say_that_they_do_not(tmp_path):
    for model, y in (
        (dc.PrivateQuantileRegressor(0.5, algorithm="PhasedERM", **RANGED), TARGETS),
        (dc.PrivateRidge(**RANGED), TARGETS),
    ):
        model.fit(X, y).save(tmp_path / "model.json")
        again = dc.load(tmp_path / "model.json").noise_report(X, y, PART)
        assert np.allclose(again.std_errors, model.noise_report(X, y, PART).std_errors, rtol=0.5)
    moments = dc.PrivateRidge(algorithm="SufficientStatistics", **RANGED).fit(X, TARGETS)
    twin = pickle.loads(pickle.dumps(moments))
    assert np.array_equal(twin.noise_report().interval()[0], moments.noise_report().interval()[0])
    twin.moments_["cross"] = twin.moments_["cross"] * 1.01
    with pytest.raises(VerificationError, match="moments"):
        twin.noise_report()
    del twin.moments_
    with pytest.raises(InputError, match="moments were not kept"):
        twin.noise_report()


def test_facts_that_the_fit_read_from_the_data_stand_on_the_receipt_of_the_report_without_a_second_warning():
    with pytest.warns(PrivacyLeakWarning):
        model = dc.PrivateLogisticRegression(random_state=0).fit(X, LABELS)
    report = model.noise_report(X, LABELS, PART)
    assert (
        report.receipt.data["outside"]["read_from_data"]
        == model.receipt_.data["outside"]["read_from_data"]
        == ["feature_bound", "classes"]
    )
    with pytest.warns(PrivacyLeakWarning):
        ranged = dc.PrivateRidge(random_state=0).fit(X, TARGETS)
    assert ranged.noise_report(X, TARGETS, PART).receipt.data["outside"]["read_from_data"] == [
        "feature_bound",
        "target_range",
    ]


def test_weights_of_rows_are_those_of_the_fit(rng):
    weights = rng.choice([0.0, 2.0], 2000, p=[0.75, 0.25])
    model = dc.PrivateLogisticRegression(random_state=1, weight_cap=2.0, **CLASSIFIED).fit(X, LABELS, weights)
    few = model.noise_report(X, LABELS, dc.Budget(50.0, 1e-6), sample_weight=weights)
    all_alike = model.noise_report(X, LABELS, dc.Budget(50.0, 1e-6))
    assert (few.std_errors > 1.5 * all_alike.std_errors).all()
    with pytest.raises(InputError, match="groups"):
        model.noise_report(X, LABELS, PART, groups=np.arange(2000))


def test_every_form_of_rows_and_one_feature(rng):
    bounded = {"feature_bound": 2.0, "classes": [0, 1], "random_state": 2, "algorithm": "ObjectivePerturbation"}
    y = np.arange(200) % 2
    rows = rng.normal(size=(200, 2))
    plain = dc.PrivateLogisticRegression(**bounded).fit(rows, y).noise_report(rows, y, PART)
    for form in (rows.astype(np.float32), sparse.csr_matrix(rows), pd.DataFrame(rows, columns=["a", "b"])):
        report = dc.PrivateLogisticRegression(**bounded).fit(form, y).noise_report(form, y, PART)
        assert np.allclose(report.std_errors, plain.std_errors, rtol=1e-3)
    assert report.names == ("a", "b", "(intercept)")
    for one in (np.ones((200, 1)), np.zeros((200, 1)), rows[:, :1] * 1e200):
        model = dc.PrivateLogisticRegression(fit_intercept=False, **bounded).fit(one, y)
        report = model.noise_report(one, y, PART)
        assert report.names == ("x0",)
        assert np.isfinite(report.interval()).all()
        assert (report.std_errors > 0).all()


def test_what_cannot_be_reported_is_refused():
    model = dc.PrivateLogisticRegression(random_state=0, dataset="not reported", **CLASSIFIED)
    with pytest.raises(ValueError, match="not fitted"):
        model.noise_report(X, LABELS, PART)
    model.fit(X, LABELS)
    for arguments in ((), (X, LABELS), (None, LABELS, PART), (X, LABELS, 0.5)):
        with pytest.raises(InputError, match="one more release"):
            model.noise_report(*arguments)
    with pytest.raises(InputError, match="2000 rows and these are 1999"):
        model.noise_report(X[1:], LABELS[1:], PART)
    with pytest.raises(ValueError, match="features"):
        model.noise_report(X[:, 1:], LABELS, PART)
    model.set_params(random_state=None)
    assert dc.account("not reported").claims == ()
    with pytest.raises(RowError, match=r"NaN.*the run stays charged"):
        model.noise_report(np.where(X > 0.99, np.nan, X), LABELS, PART)
    assert len(dc.account("not reported").claims) == 1
    model.set_params(random_state=0)
    report = model.noise_report(X, LABELS, PART)
    for confidence in (0.0, 1.0, -1, 95, math.nan, True, "95%"):
        with pytest.raises(InputError, match="confidence"):
            report.interval(confidence)
    for algorithm in ("NoisyGD", "NoisySGD", dc.algorithms.PoissonSGD(0.1, steps=10)):
        with pytest.raises(InputError, match="no noise report is available"):
            model.set_params(algorithm=algorithm).fit(X, LABELS).noise_report(X, LABELS, PART)
    three = dc.PrivateLogisticRegression(
        feature_bound=BOX, classes=[0, 1, 2], algorithm="ObjectivePerturbation", random_state=0
    ).fit(X, np.digitize(SCORES, [-1, 1]))
    with pytest.raises(InputError, match="Softmax"):
        three.noise_report(X, LABELS, PART)
