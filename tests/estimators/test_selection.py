"""Private selection end to end: one charge, disjoint rows, every repetition, receipts, refusals before the charge."""

import copy
import json
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import dpconvex as dc
from dpconvex.errors import (
    BudgetError,
    HypothesisError,
    InputError,
    PrivacyLeakWarning,
    ReleaseError,
    RowError,
    VerificationError,
)
from dpconvex.kernel.claims import Release
from dpconvex.kernel.receipt import encode, issue, sealed
from dpconvex.noise.counts import repetitions
from dpconvex.noise.source import DESCRIPTIONS, Source
from dpconvex.plan.port import NoisePort
from dpconvex.plan.run import engine
from dpconvex.queries import selection
from dpconvex.theorems import of_problem
from dpconvex.theorems.numerics.repeated import count_parameter

BOUND = dc.bounds.Linf(1.0)
GRID = {"algorithm": ["NoisyGD"], "fit_intercept": [True, False]}  # quick to plan


def table(n=400, d=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, np.digitize(X[:, 0], np.linspace(-1, 1, classes + 1)[1:-1])


def logistic(**options):
    return dc.PrivateLogisticRegression(**{"feature_bound": BOUND, "classes": [0, 1], **options})


def search(estimator=None, grid=None, **options):
    given = {"repeats": 3.0, "random_state": 0, "epsilon": 5.0, "delta": 1e-5, **options}
    return dc.PrivateSelection(estimator or logistic(), grid or GRID, **given)


# What it does --------------------------------------------------------------------------------------------------------


def test_it_finds_the_setting_that_works():
    """A radius so small that no regression is left loses against one that is large enough."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = 50 + 40 * X[:, 0]
    model = dc.PrivateSGDRegressor(feature_bound=BOUND, target_range=(0, 100))
    grid = {"radius": [1e-3, 3.0]}
    found = [search(model, grid, repeats=20.0, epsilon=50.0, random_state=seed).fit(X, y) for seed in range(8)]
    right = [s for s in found if s.best_params_ == {"radius": 3.0}]
    assert len(right) >= 6  # in the mean one search in twenty draws one candidate only
    assert all(s.best_estimator_.radius == 3.0 and s.score(X, y) > 0.8 for s in right)


@pytest.mark.parametrize(
    ("distribution", "relation", "second"),
    [
        ("geometric", "replace_one", "ObjectivePerturbation"),
        ("poisson", "zero_out", "MeanDirection"),
        ("logarithmic", "replace_one", "MeanDirection"),
    ],
)
def test_the_receipt_holds_the_budget_and_the_whole_derivation(distribution, relation, second):
    X, y = table()
    grid = {"algorithm": ["NoisyGD", second]}
    found = search(logistic(relation=relation), grid, distribution=distribution, random_state=None).fit(X, y)
    receipt = dc.Receipt.from_json(found.receipt_.to_json())
    assert dc.verify(receipt)
    assert receipt.private
    assert 0.95 * 5.0 < receipt.epsilon <= 5.0
    assert receipt.delta == 1e-5
    assert receipt.covers(found.best_estimator_.weights_)
    assert "5" in str(dc.report.explain(receipt))
    text = str(receipt)
    for name in ("private_selection", "any_of", "parallel", "of_problem", "gaussian"):
        assert name in text
    assert {"repeats", "candidate", "candidate 1/score", "candidate 2/score"} <= set(
        receipt.data["arithmetic"]["drawn"]
    )
    own = "candidate 2/objective" if second == "ObjectivePerturbation" else "candidate 2/direction"
    assert own in receipt.data["arithmetic"]["drawn"]


def test_a_receipt_that_was_tampered_with_is_refused():
    X, y = table()
    grid = {"algorithm": ["NoisyGD", "ObjectivePerturbation"]}
    data = json.loads(search(grid=grid).fit(X, y).receipt_.to_json())

    def altered(change):
        plain = json.loads(json.dumps(data))
        change(plain)
        return sealed(plain)

    def less_noise(plain):
        plain["claim"]["derivation"]["from"]["claim"]["from"]["claims"][0]["from"]["claim"]["from"]["claims"][1][
            "from"
        ]["release"]["scale"] /= 2

    def fewer_runs(plain):
        plain["claim"]["derivation"]["from"]["repeats"]["scale"] = 0.9

    def another_problem(plain):
        node = plain["claim"]["derivation"]["from"]["claim"]["from"]["claims"][1]["from"]["claim"]["from"]["claims"][0]
        assert node["by"] == "of_problem"
        node["from"]["problem"] = node["from"]["problem"].replace('"l2": ', '"l2": 1')

    assert dc.verify(altered(lambda plain: None))
    for change in (less_noise, fewer_runs, another_problem):
        with pytest.raises(VerificationError):
            dc.verify(altered(change))


def test_candidates_may_solve_different_problems():
    X, y = table()
    found = search(logistic(feature_bound=None), {"feature_bound": [0.5, 1.7], "fit_intercept": [True, False]}).fit(
        X, y
    )
    assert dc.verify(found.receipt_)
    assert len(found.receipt_.data["plan"]["algorithm"]["candidates"]) == 4


@pytest.mark.parametrize(
    ("estimator", "grid", "classes"),
    [
        (dc.PrivateLogisticRegression(feature_bound=BOUND, classes=[0, 1]), {"fit_intercept": [True, False]}, 2),
        pytest.param(
            dc.PrivateLogisticRegression(feature_bound=BOUND, classes=[0, 1, 2]),
            {"fit_intercept": [True, False]},
            3,
            marks=pytest.mark.heavy,
        ),
        (dc.PrivateHuberRegressor(feature_bound=BOUND, target_range=(0, 1)), {"threshold": [0.1, 0.5]}, 2),
        (dc.PrivateLinearSVC(feature_bound=BOUND, classes=[0, 1]), {"class_weight": [None, {0: 1.0, 1: 2.0}]}, 2),
        (dc.PrivateSGDClassifier(feature_bound=BOUND, classes=[0, 1]), {"radius": [1.0, 8.0]}, 2),
        (dc.PrivateQuantileRegressor(feature_bound=BOUND, target_range=(0, 1)), {"fit_intercept": [True, False]}, 2),
        (dc.PrivateSGDRegressor(feature_bound=BOUND, target_range=(0, 1)), {"loss": ["huber", "squared_error"]}, 2),
    ],
    ids=lambda v: type(v).__name__ if hasattr(v, "fit") else None,
)
def test_every_model_can_be_tuned(estimator, grid, classes):
    X, y = table(n=600, classes=classes)
    found = search(estimator, grid).fit(X, y)
    assert dc.verify(found.receipt_)
    assert found.predict(X).shape == (600,)
    assert type(found.best_estimator_) is type(estimator)
    assert hasattr(found, "predict_proba") == hasattr(estimator, "predict_proba")


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss"])
def test_scores_are_those_of_the_held_out_rows_under_noise(scoring):
    X, y = table(n=4000)
    found = search(scoring=scoring, epsilon=100.0, holdout=0.5).fit(X, y)
    if scoring == "accuracy":
        right = found.score(X, y)
    else:
        p = found.predict_proba(X)[np.arange(len(y)), y]
        right = -float(np.minimum(-np.log(p), 3.0).mean())
    assert abs(found.best_score_ - right) < 0.05


def test_people_with_several_rows():
    X, y = table(n=900)
    found = search(logistic(rows_per_person=3), epsilon=20.0).fit(X, y)
    assert found.receipt_.data["dataset"]["unit"] == 3
    assert found.receipt_.epsilon <= 20.0
    assert dc.verify(found.receipt_)


def test_a_frame_with_a_schema_and_a_file(tmp_path):
    X, y = table()
    schema = dc.Schema(
        {"a": dc.schema.Number(-1, 1), "b": dc.schema.Category(["u", "v"])},
        target=dc.schema.Classes("label", ["no", "yes"]), name="tuned clinic",
    )  # fmt: skip
    frame = {"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v"), "label": np.where(y == 1, "yes", "no")}
    found = search(dc.PrivateLogisticRegression(schema=schema)).fit(frame)
    assert found.receipt_.data["dataset"]["name"] == "tuned clinic"
    found.save(tmp_path / "model.json")
    again = dc.load(tmp_path / "model.json")
    assert again.predict(frame).tolist() == found.predict(frame).tolist()
    assert again.receipt_ == found.receipt_


@pytest.mark.parametrize("form", [sparse.csr_matrix, lambda X: X.astype(np.float32), lambda X: X.tolist()])
def test_forms_of_rows(form):
    X, y = table()
    assert search().fit(form(X), y).predict(form(X)).shape == (400,)


def test_a_single_column_constant_columns_and_huge_rows():
    X, y = table(d=1)
    assert search().fit(X, y).n_features_in_ == 1
    assert search().fit(np.ones((400, 2)), y).predict(np.ones((3, 2))).shape == (3,)
    assert search().fit(1e300 * X, y).score(1e300 * X, y) > 0.5


def test_what_was_not_declared_stands_on_the_receipt():
    X, y = table()
    with pytest.warns(PrivacyLeakWarning):
        found = search(dc.PrivateLogisticRegression(classes=[0, 1])).fit(X, y)
    assert found.receipt_.data["outside"]["read_from_data"] == ["feature_bound"]
    with pytest.raises(InputError, match="strict"):
        search(dc.PrivateLogisticRegression(classes=[0, 1], strict=True)).fit(X, y)


# The wall around the repetitions --------------------------------------------------------------------------------------


def watched(monkeypatch):
    """Record what every fit and every score is given; nothing is changed."""
    seen = {"fitted": [], "scored": [], "weights": []}
    fit, score = selection._fitted, selection.row_scores

    def fitted(plan, X, *rest):
        seen["fitted"].append(X)
        made = fit(plan, X, *rest)
        seen["weights"].append(made[0])
        return made

    def scored(scoring, problem, weights, X, values):
        seen["scored"].append(X)
        return score(scoring, problem, weights, X, values)

    monkeypatch.setattr(selection, "_fitted", fitted)
    monkeypatch.setattr(selection, "row_scores", scored)
    return seen


def test_rows_are_fitted_to_or_scored_on_never_both(monkeypatch):
    seen = watched(monkeypatch)
    X, y = table()
    search(holdout=0.3, repeats=5.0, random_state=2).fit(X, y)
    assert len(seen["fitted"]) > 1
    for fitted, scored in zip(seen["fitted"], seen["scored"], strict=True):
        assert (fitted.shape, scored.shape) == ((280, 3), (120, 3))
        rows = {tuple(r) for r in fitted} | {tuple(r) for r in scored}
        assert rows == {tuple(r) for r in X}  # 400 different rows: the two parts share none
        assert np.array_equal(fitted, seen["fitted"][0])  # one split for all repetitions


@pytest.mark.parametrize("seed", range(4))
def test_as_many_repetitions_as_were_drawn_however_good_the_scores(monkeypatch, seed):
    """A search that stops at a perfect score, or that draws a number afresh, makes another number of fits."""
    seen = watched(monkeypatch)
    X, y = table()
    model = search(random_state=seed, epsilon=100.0, repeats=6.0).fit(X, y)
    source = Source(int(np.random.RandomState(seed).randint(np.iinfo(np.int32).max)))
    drawn = repetitions(source.stream("repeats"), "geometric", count_parameter("geometric", 6.0))
    assert len(seen["fitted"]) == len(seen["scored"]) == drawn
    assert any(np.array_equal(model.best_estimator_.weights_, w) for w in seen["weights"])


def test_repetitions_have_noise_of_their_own(monkeypatch):
    seen = watched(monkeypatch)
    X, y = table()
    search(grid={"algorithm": ["NoisyGD"]}, repeats=20.0, random_state=1).fit(X, y)
    assert len({w.tobytes() for w in seen["weights"]}) == len(seen["weights"]) > 1


def test_a_score_without_its_noise_or_drawn_twice_is_stopped(monkeypatch):
    X, y = table()

    add = NoisePort.add
    monkeypatch.setattr(
        NoisePort, "add", lambda port, name, value: value if name == "score" else add(port, name, value)
    )
    with pytest.raises(ReleaseError, match="never drawn: score"):
        search().fit(X, y)


def test_too_little_noise_on_the_score_is_not_within_the_claim():
    """The plan's own claim, with half the noise on the score, does not keep to the budget."""
    X, y = table()
    found = search().fit(X, y)
    claim = selection.private_selection
    plain = found.receipt_.data["claim"]["derivation"]["from"]
    scale = plain["claim"]["from"]["claims"][0]["from"]["claim"]["from"]["claims"][1]["from"]["release"]["scale"]
    moved = dc.theorems.clipped_sum(0.5, "replace_one")
    halved = dc.theorems.gaussian(moved, Release("score", "gaussian", scale / 2, (1,)))
    repeats = Release("repeats", "geometric", plain["repeats"]["scale"], (1,))
    assert claim(halved, repeats).epsilon(1e-5) > 5.0


def test_it_is_charged_once_and_before_the_data(monkeypatch):
    X, y = table()
    schema = dc.Schema(
        {"a": dc.schema.Number(-1, 1)}, target=dc.schema.Classes("label", [0, 1]), name="charged by a selection"
    )
    frame = {"a": X[:, 0], "label": y}
    found = search(dc.PrivateLogisticRegression(schema=schema), random_state=None).fit(frame)
    account = dc.account("charged by a selection")
    assert len(account.claims) == 1
    assert account.total().epsilon(1e-5) == pytest.approx(found.receipt_.epsilon, rel=2e-2)
    dc.limit("charged by a selection", dc.Budget(6.0, 1e-5))
    seen = watched(monkeypatch)
    with pytest.raises(BudgetError):
        search(dc.PrivateLogisticRegression(schema=schema), random_state=None).fit(frame)
    assert not seen["fitted"]
    assert len(dc.account("charged by a selection").claims) == 1
    dc.limit("charged by a selection", None)


def test_neighbours_look_alike():
    """Attributes, names and messages do not depend on one row."""
    X, y = table()
    other, labels = X.copy(), y.copy()
    other[7], labels[7] = [1e6, -1e6, 0.0], 1 - labels[7]
    one, two = search().fit(X, y), search().fit(other, labels)
    assert set(vars(one)) == set(vars(two))
    plain = [copy.deepcopy(s.receipt_.data) for s in (one, two)]
    for p in plain:  # of the selected candidate, which is public
        del p["released"], p["digest"], p["plan"]["digest"], p["plan"]["problem"], p["plan"]["algorithm"]["selected"]
    assert plain[0] == plain[1]


# Refusals, before anything is charged ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": {"algorithm": []}}, "grid"),
        ({"grid": [{}]}, "empty"),
        ({"grid": {"algorithm": "NoisyGD"}}, "grid"),
        ({"grid": 3}, "grid"),
        ({"grid": {"C": [1.0]}}, "no parameter 'C'"),
        ({"grid": {"epsilon": [0.5, 1.0]}}, "budget"),
        ({"grid": {"delta": [1e-6]}}, "budget"),
        ({"grid": {"relation": ["replace_one", "zero_out"]}}, "people"),
        ({"grid": {"rows_per_person": [1, 2]}}, "people"),
        ({"grid": {"random_state": [0, 1]}}, "same for all"),
        ({"grid": {"schema": [None]}}, "table"),
        ({"grid": {"classes": [[0, 1], [0, 1, 2]]}}, "table"),
        ({"grid": {"algorithm": ["nothing"]}}, "algorithm"),
        ({"estimator": LogisticRegression(), "grid": {"C": [1.0]}}, "private model"),
        ({"estimator": logistic(random_state=3)}, "random_state"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": -3}, "repeats"),
        ({"repeats": 1.0}, "repeats"),
        ({"repeats": math.nan}, "repeats"),
        ({"repeats": "many"}, "repeats"),
        ({"repeats": 1e6}, "repeats"),
        ({"distribution": "fixed"}, "distribution"),
        ({"holdout": 0.0}, "holdout"),
        ({"holdout": 1.0}, "holdout"),
        ({"holdout": True}, "holdout"),
        ({"holdout": 0.001}, "none to score on"),
        ({"holdout": 0.998}, "too few"),
        ({"scoring": "auc"}, "scoring"),
        ({"scoring": "squared_error"}, "suit"),
        (
            {"estimator": dc.PrivateLinearSVC(feature_bound=BOUND, classes=[0, 1]), "scoring": "log_loss"},
            "probabilities",
        ),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"epsilon": 1e-6, "delta": 1e-12}, "too small for any candidate"),
    ],
)
def test_what_is_refused(options, words):
    X, y = table()
    before = dc.account().seeded, len(dc.account().claims)
    with pytest.raises((InputError, HypothesisError), match=words):
        search(**options).fit(X, y)
    assert (dc.account().seeded, len(dc.account().claims)) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X, y: (X[:, 0], y),
        lambda X, y: (X, y[:-1]),
        lambda X, y: (X[:0], y[:0]),
        lambda X, y: (X[:1], y[:1]),
        lambda X, y: (X[:2], y[:2]),
        lambda X, y: (X, None),
    ],
)
def test_data_of_the_wrong_form(spoil):
    X, y = table()
    before = dc.account().seeded, len(dc.account().claims)
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own messages among them)
        search().fit(*spoil(X, y))
    assert (dc.account().seeded, len(dc.account().claims)) == before


def test_rows_that_are_not_finite_are_refused_after_the_charge_and_labels_not_at_all():
    X, y = table()
    for value in (np.nan, np.inf):
        before = len(dc.account().claims)
        with pytest.raises(RowError, match="NaN or infinite"):
            search(random_state=None).fit(np.where(X > 0.9, value, X), y)
        assert len(dc.account().claims) == before + 1
    assert hasattr(search().fit(X, np.where(X[:, 0] > 0.9, 7, y)), "best_estimator_")


def test_weights_and_groups_are_refused():
    X, y = table()
    for extra in ({"sample_weight": np.ones(400)}, {"groups": np.arange(400)}):
        with pytest.raises(InputError, match="takes no"):
            search().fit(X, y, **extra)


def test_a_missing_class_is_no_matter():
    X, _ = table()
    assert search().fit(X, np.zeros(400, dtype=int)).classes_.tolist() == [0, 1]


# scikit-learn --------------------------------------------------------------------------------------------------------


def test_it_is_cloned_and_configured_like_any_other():
    one = search()
    two = clone(one).set_params(estimator__fit_intercept=False, repeats=4.0)
    assert (two.estimator.fit_intercept, one.estimator.fit_intercept, two.repeats) == (False, True, 4.0)
    assert two.get_params()["grid"] == GRID
    with pytest.raises(NotFittedError):
        two.predict(np.zeros((1, 3)))
    from sklearn.utils import get_tags

    assert get_tags(one).estimator_type == "classifier"


def test_fitting_leaves_the_parameters_alone():
    X, y = table()
    one = search()
    before = repr(one), one.estimator.epsilon
    one.fit(X, y)
    assert (repr(one), one.estimator.epsilon) == before
    assert one.best_estimator_.epsilon == 5.0


def test_a_seed_gives_the_same_choice_and_no_privacy():
    X, y = table()
    one, two = search(random_state=5).fit(X, y), search(random_state=5).fit(X, y)
    assert np.array_equal(one.best_estimator_.weights_, two.best_estimator_.weights_)
    assert not one.receipt_.private


def test_weights_of_classes_are_refused_where_a_candidate_takes_none():
    X, y = np.random.default_rng(0).uniform(-1, 1, (200, 2)), np.arange(200) % 2
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1], class_weight={0: 1.0, 1: 2.0})
    search = dc.PrivateSelection(model, {"algorithm": ["ObjectivePerturbation", "PhasedSGD"]}, repeats=2)
    before = len(dc.account("default").claims)
    with pytest.raises(InputError, match="PhasedSGD takes no class_weight"):
        search.fit(X, y)
    assert len(dc.account("default").claims) == before


def test_a_problem_of_its_own_does_not_hide_what_a_receipt_is_about():
    """Noise for rows of norm 1 under a problem with rows of norm 100, or another candidate's: not verified."""
    small, large = (dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0), feature_bound=b) for b in (1.0, 100.0))
    plan = dc.algorithms.PhasedSGD().plan(small, n=100, d=3, budget=dc.Budget(1.0, 1e-6))
    claim = of_problem(plan.claim, json.dumps(small.to_json()), 100, 3)
    forged = plan.to_json() | {"problem": large.to_json(), "claim": encode(claim)}
    receipt = issue(
        forged, claim, np.zeros(3), source=DESCRIPTIONS[True], private=True, loops={}, dataset="forged", declared=None,
        undeclared=[], engine=engine(), slack=0.0,
    )  # fmt: skip
    with pytest.raises(VerificationError, match="plans otherwise"):
        dc.verify(receipt)
    X, y = np.random.default_rng(0).uniform(-1, 1, (300, 2)), np.arange(300) % 2
    model = dc.PrivateHuberRegressor(feature_bound=2.0, target_range=(0, 1))
    search = dc.PrivateSelection(model, {"threshold": [0.1, 0.4]}, repeats=2, random_state=0).fit(X, y)
    for change, words in (
        ({"selected": 1 - search.receipt_.data["plan"]["algorithm"]["selected"]}, "plans otherwise"),
        ({"holdout": 10}, "held out"),
    ):
        data = copy.deepcopy(search.receipt_.data)
        data["plan"]["algorithm"] |= change
        with pytest.raises(VerificationError, match=words):
            dc.verify(sealed(data))


# On parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["NoisyGD", "ObjectivePerturbation", "PoissonSGD"])
def test_on_parts_it_is_the_selection_in_memory(algorithm, monkeypatch):
    monkeypatch.setattr("dpconvex.data.opened.chunk_rows", lambda d: 256)
    X, y = table(2000)
    grid = {"algorithm": [algorithm], "fit_intercept": [True, False]}
    memory = search(grid=grid).fit(X, y)
    found = [search(grid=grid).fit(dc.data.Parts.arrays(X, y, rows=rows)) for rows in (2000, 701)]
    for other in found:
        assert other.receipt_.sections["claim"] == memory.receipt_.sections["claim"]
        assert other.receipt_.sections["engine"]["rows"] == "parts"
        assert bool(dc.verify(other.receipt_))
        if algorithm != "PoissonSGD":  # whose sampled numbers are those of other rows
            assert other.best_params_ == memory.best_params_
            assert other.best_score_ == pytest.approx(memory.best_score_, abs=1e-6)
            assert np.allclose(other.best_estimator_.weights_, memory.best_estimator_.weights_, rtol=1e-6, atol=1e-8)


def test_parts_that_do_not_suit_are_refused_before_the_charge(rng):
    X, y = table()
    parts = dc.data.Parts.arrays(X, y)
    before = dc.account("selection on parts").seeded
    with dc.context(dataset="selection on parts"):
        with pytest.raises(InputError, match="parts hold targets"):
            search().fit(parts, y)
        with pytest.raises(InputError, match="read only once"):
            search().fit(dc.data.Parts.of(iter([(X, y)]), rows=400, target=None))
        with pytest.raises(InputError, match="no groups"):
            search().fit(dc.data.Parts.arrays(X, y, groups=y))
        assert dc.account("selection on parts").seeded == before
        with pytest.raises(dc.errors.PartsError, match="finite"):
            search().fit(dc.data.Parts.arrays(np.where(X > 0.9, np.nan, X), y))
        assert dc.account("selection on parts").seeded == before + 1


def test_one_pass_candidates_read_the_rows_of_parts_in_order():
    X, y = table(2000)
    model = dc.PrivateSGDClassifier(feature_bound=BOUND, classes=[0, 1])
    found = search(model, {"radius": [2.0, 8.0]}).fit(dc.data.Parts.arrays(X, y, rows=300))
    assert bool(dc.verify(found.receipt_))
    assert found.score(X, y) > 0.7
