"""`dpconvex.evaluate`: what it takes and refuses, what it charges, and that one person changes nothing but numbers."""

import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import dpconvex as dc
from dpconvex.errors import BudgetError, FormError, InputError, NotPrivateWarning, RowError, VerificationError
from dpconvex.estimators.evaluate import evaluate
from dpconvex.queries.evaluation import Estimate

BOX = dc.bounds.Linf(1.0)
BUDGET = dc.Budget(1.0, 1e-6)
RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, size=(3000, 3))
SCORE = X @ [2.0, -1.0, 0.5]
Y = np.where(SCORE + 0.5 * RNG.logistic(size=3000) > 0, "yes", "no")
THREE = np.digitize(SCORE, [-0.7, 0.7])
TARGET = 50 + 15 * SCORE + 5 * RNG.normal(size=3000)
FIT, HELD = slice(0, 1500), slice(1500, 3000)


@pytest.fixture(scope="module")
def classifier():
    return dc.PrivateLogisticRegression(2.0, feature_bound=BOX, classes=["no", "yes"]).fit(X[FIT], Y[FIT])


@pytest.fixture(scope="module")
def regressor():
    return dc.PrivateRidge(2.0, feature_bound=BOX, target_range=(0, 100)).fit(X[FIT], TARGET[FIT])


def measured(model, rows=X[HELD], labels=Y[HELD], **options):
    return evaluate(model, rows, labels, **{"budget": BUDGET, "dataset": "held out", **options})


def schema(**options):
    columns = {"age": dc.schema.Number(20, 80), "town": dc.schema.Category(["A", "B"], missing="zeros")}
    return dc.Schema(columns, dc.schema.Classes("state", ["well", "ill"]), name="town registry", **options)


def frame(n, rng):
    age, town = rng.uniform(20, 80, n), rng.choice(["A", "B"], n)
    ill = np.where((age - 50) / 10 + (town == "A") + rng.logistic(size=n) > 0, "ill", "well")
    return pd.DataFrame({"age": age, "town": town, "state": ill})


# What comes out ------------------------------------------------------------------------------------------------------


def test_intervals_are_around_what_the_model_scores(classifier):
    found = measured(classifier)
    assert list(found.metrics) == ["accuracy", "log_loss", "auc", "calibration"]
    score = classifier.score(X[HELD], Y[HELD])
    metric = found.metrics["accuracy"]
    assert abs(metric.value - score) < 5 * metric.noise_se
    assert metric.low < metric.value < metric.high
    assert metric.sampling_se == pytest.approx(math.sqrt(metric.value * (1 - metric.value) / 1500))
    half = 1.96 * math.hypot(metric.noise_se, metric.sampling_se)
    assert (metric.high - metric.low) / 2 == pytest.approx(half, rel=0.01)
    assert len(found.calibration) == 10
    assert sum(b.rows for b in found.calibration) == pytest.approx(1500, abs=40 * found.plan.releases[-1].scale)
    assert all(-1 <= b.gap.low <= b.gap.high <= 1 for b in found.calibration)


def test_the_release_has_a_receipt_and_is_charged_to_the_held_out_people(classifier):
    found = measured(classifier, dataset="paid for")
    assert dc.verify(dc.Receipt.from_json(found.receipt.to_json()))
    assert found.receipt.covers(found.released)
    assert 0.999 < found.receipt.epsilon <= 1.0
    assert found.receipt.private
    assert found.receipt.data["outside"]["read_from_data"] == []
    assert found.receipt.data["plan"]["algorithm"]["at"] == classifier.weights_.tolist()
    account = dc.account("paid for")
    assert len(account.claims) == 1
    assert account.total().epsilon(1e-6) == pytest.approx(found.receipt.epsilon, rel=1e-6)


def test_only_what_was_asked_for_is_released_and_fewer_metrics_have_less_noise(classifier):
    one, all_four = measured(classifier, metrics="auc"), measured(classifier)
    assert [r.name for r in one.plan.releases] == ["auc"]
    assert one.calibration == ()
    assert one.metrics["auc"].noise_se < 0.7 * all_four.metrics["auc"].noise_se
    for names in (["accuracy"], ("log_loss", "accuracy")):
        assert tuple(measured(classifier, metrics=names).metrics) == tuple(names)


def test_a_masked_record_takes_half_the_noise_of_a_replaced_one(classifier):
    noise = [
        measured(classifier, metrics="accuracy", budget=dc.Budget(1.0, 1e-6, relation)).metrics["accuracy"].noise_se
        for relation in ("replace_one", "zero_out")
    ]
    assert noise[0] == pytest.approx(2 * noise[1], rel=1e-6)


def test_another_confidence_costs_nothing(classifier):
    found = measured(classifier, dataset="looked at twice", confidence=0.9)
    wider = found.at(0.99)
    assert wider.confidence == 0.99
    assert wider.receipt is found.receipt
    assert len(dc.account("looked at twice").claims) == 1
    for name, metric in found.metrics.items():
        assert wider.metrics[name].low <= metric.low <= metric.high <= wider.metrics[name].high
        assert wider.metrics[name].value == metric.value
    with pytest.raises(InputError, match="confidence"):
        found.at(95)


def test_it_prints_saves_and_travels(classifier, regressor):
    for found in (measured(classifier), measured(regressor, labels=TARGET[HELD], dataset="numbers")):
        words = str(found)
        for name in found.metrics:
            assert name in words
        assert "95% interval" in words
        assert "noise s.e.  sampling s.e." in words
        assert "1500 rows" in words
        assert "NOT PRIVATE" not in words
        plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert plain["metrics"].keys() == found.metrics.keys()
        assert dc.verify(dc.Receipt(plain["receipt"]))
        again = pickle.loads(pickle.dumps(found))
        assert again.metrics == found.metrics
        assert max(map(len, words.splitlines())) <= 110
    assert "0.9 to 1.0" in str(measured(classifier))
    with pytest.warns(NotPrivateWarning):
        assert "NOT PRIVATE" in str(measured(classifier, seed=3))


def test_models_of_numbers_are_measured_in_their_units(regressor):
    found = measured(regressor, labels=TARGET[HELD], budget=dc.Budget(8.0, 1e-6)).metrics
    target, predicted = np.clip(TARGET[HELD], 0, 100), regressor.predict(X[HELD])
    truth = {
        "mse": np.mean((target - predicted) ** 2),
        "mae": np.abs(target - predicted).mean(),
        "r2": 1 - np.mean((target - predicted) ** 2) / target.var(),
    }
    assert list(found) == list(truth)
    for name, metric in found.items():
        assert abs(metric.value - truth[name]) < 5 * metric.noise_se, name
        assert metric.low < metric.value < metric.high
    fine = measured(regressor, labels=TARGET[HELD], budget=dc.Budget(500.0, 1e-6)).metrics
    errors = np.abs(target - predicted)
    assert fine["mae"].sampling_se == pytest.approx(errors.std() / math.sqrt(1500), rel=0.2)
    assert fine["mse"].sampling_se > 0.8 * (errors**2).std() / math.sqrt(1500)  # noise hides how much less it is


def test_targets_beyond_the_range_are_clipped(regressor):
    wild = TARGET[HELD].copy()
    wild[::2] *= 1e6
    clipped = np.clip(wild, 0, 100)
    a, b = (measured(regressor, labels=y, seed=1).released for y in (wild, clipped))
    assert np.array_equal(a, b)


def models():
    options = {"feature_bound": BOX, "classes": ["no", "yes"]}
    ranged = {"feature_bound": BOX, "target_range": (0, 100)}
    yield dc.PrivateLinearSVC(2.0, **options), Y, ["accuracy", "auc"]
    yield dc.PrivateSGDClassifier(epsilon=2.0, **options), Y, None
    yield dc.PrivateLogisticRegression(2.0, feature_bound=BOX, classes=[0, 1, 2]), THREE, ["accuracy", "log_loss"]
    yield dc.PrivateSparseLogisticRegression(epsilon=2.0, **options), Y, ["accuracy", "log_loss", "auc", "calibration"]
    yield dc.PrivateQuantileRegressor(0.5, 2.0, **ranged), TARGET, ["mse", "mae", "r2"]
    yield dc.PrivateHuberRegressor(5.0, 2.0, **ranged), TARGET, ["mse", "mae", "r2"]
    yield dc.PrivateSGDRegressor(epsilon=2.0, **ranged), TARGET, ["mse", "mae", "r2"]
    yield dc.PrivateLasso(epsilon=2.0, **ranged), TARGET, ["mse", "mae", "r2"]


@pytest.mark.parametrize(("model", "y", "metrics"), list(models()), ids=lambda v: type(v).__name__)
def test_every_estimator_can_be_evaluated(model, y, metrics):
    found = measured(model.fit(X[FIT], y[FIT]), labels=y[HELD])
    assert metrics is None or list(found.metrics) == metrics
    assert dc.verify(found.receipt)
    if "accuracy" in found.metrics:
        metric = found.metrics["accuracy"]
        assert abs(metric.value - model.score(X[HELD], y[HELD])) < 5 * metric.noise_se


def test_metrics_a_model_does_not_have_are_refused(classifier, regressor):
    svc = dc.PrivateLinearSVC(2.0, feature_bound=BOX, classes=["no", "yes"]).fit(X[FIT], Y[FIT])
    three = dc.PrivateLogisticRegression(2.0, feature_bound=BOX, classes=[0, 1, 2]).fit(X[FIT], THREE[FIT])
    for model, y, metric, words in (
        (svc, Y, "log_loss", "predicts none; available here are accuracy, auc"),
        (svc, Y, "calibration", "needs probabilities"),
        (three, THREE, "auc", "between two classes, and there are 3"),
        (three, THREE, "calibration", "between two classes"),
        (regressor, TARGET, "accuracy", "is for classes"),
        (classifier, Y, "mse", "numbers within a declared range"),
        (classifier, Y, "f1", "unknown metric 'f1'; known are accuracy"),
    ):
        with pytest.raises(InputError, match=words):
            measured(model, labels=y[HELD], metrics=metric, dataset="never charged")
    with pytest.raises(InputError, match="no noise would hide it"):
        measured(classifier, least_probability=0.0, dataset="never charged")
    assert dc.account("never charged").claims == ()


def test_solutions_are_evaluated_in_the_form_of_their_problem():
    signs = np.where(Y == "yes", 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=2.0, intercept=0.5)
    solution = dc.choose(problem, n=1500, d=3, budget=BUDGET).run(X[FIT], signs[FIT])
    found = measured(solution, labels=signs[HELD])
    assert abs(found.metrics["accuracy"].value - ((solution.predict(X[HELD]) > 0.5) == (signs[HELD] > 0)).mean()) < 0.05
    assert measured(solution, X[HELD].tolist(), signs[HELD].tolist()).plan.n == 1500
    problem = dc.Problem(dc.losses.Squared(target=4.0), feature_bound=2.0, domain=dc.domains.L2Ball(10.0))
    plan = dc.algorithms.SufficientStatistics().plan(problem, n=1500, d=3, budget=BUDGET)
    solution = plan.run(X[FIT], SCORE[FIT])
    found = measured(solution, labels=SCORE[HELD], budget=dc.Budget(8.0, 1e-6))
    metric = found.metrics["mae"]
    assert abs(metric.value - np.abs(SCORE[HELD] - solution.predict(X[HELD])).mean()) < 5 * metric.noise_se
    for bad in (None, Y[HELD], signs[:7]):
        with pytest.raises(FormError, match="y "):
            measured(solution, labels=bad, dataset="never charged")
    with pytest.raises(RowError, match="y holds"):
        measured(solution, labels=np.full(1500, math.nan), dataset="charged for labels")
    assert len(dc.account("charged for labels").claims) == 1
    for bad in (X[HELD][:, :2], X[HELD].ravel(), 3.0, [[1.0], [1.0, 2.0]]):
        with pytest.raises((InputError, ValueError)):
            measured(solution, bad, SCORE[HELD], dataset="never charged")
    assert dc.account("never charged").claims == ()


def test_rows_come_in_any_form_that_fit_takes(classifier):
    labels = Y[HELD]
    found = [
        measured(classifier, rows, y, seed=1).released
        for rows, y in (
            (X[HELD], labels),
            (sparse.csr_array(X[HELD]), labels),
            (sparse.csc_matrix(X[HELD]), pd.Series(labels)),
            (X[HELD].tolist(), labels.tolist()),
            (np.asfortranarray(X[HELD]), labels.astype(object)),
        )
    ]
    for other in found[1:]:
        assert np.allclose(other, found[0], atol=1e-9)
    single = measured(classifier, X[HELD].astype(np.float32), labels, seed=1).released
    assert np.allclose(single, found[0], atol=0.05)


def test_a_frame_with_a_schema_goes_straight_in(rng):
    fitted, held = frame(2000, rng), frame(1000, rng)
    model = dc.PrivateLogisticRegression(2.0, schema=schema()).fit(fitted)
    held.loc[3, "town"] = None
    found = evaluate(model, held, budget=BUDGET, dataset="other towns")
    rows, labels = held.drop(columns="state"), held["state"]
    with_seed = [evaluate(model, *a, budget=BUDGET, dataset="s", seed=2).released for a in ((held,), (rows, labels))]
    assert np.array_equal(*with_seed)
    assert found.receipt.data["dataset"]["name"] == "other towns"
    assert found.receipt.data["dataset"]["declared"] == model.receipt_.data["dataset"]["declared"]
    for bad in (held.drop(columns="age"), held.iloc[:0]):
        with pytest.raises(InputError):
            evaluate(model, bad, budget=BUDGET, dataset="never charged")
    assert dc.account("never charged").claims == ()
    dead, first = (evaluate(model, held.assign(state=s), budget=BUDGET, dataset="s", seed=2) for s in ("dead", "ill"))
    assert np.array_equal(dead.released, first.released)  # the first class, in the order of their names


def test_a_model_that_was_saved_is_measured_like_the_original(classifier, tmp_path):
    classifier.save(tmp_path / "model.json")
    again = dc.load(tmp_path / "model.json")
    assert np.array_equal(measured(again, seed=4).released, measured(classifier, seed=4).released)


# People ------------------------------------------------------------------------------------------------------------


def test_the_data_set_of_the_fit_is_refused_by_name(classifier, rng):
    with pytest.raises(InputError, match="name the data set of the held-out people"):
        measured(classifier, dataset="default")
    model = dc.PrivateLogisticRegression(2.0, schema=schema()).fit(frame(500, rng))
    with pytest.raises(InputError, match="'town registry'"):
        evaluate(model, frame(500, rng), budget=BUDGET, dataset="town registry")


def test_people_who_were_in_the_fit_are_found_out(classifier):
    ids = np.arange(3000)
    for held, fitted in (
        (ids[HELD], ids[FIT]),
        ([f"p{i}" for i in ids[HELD]], [f"p{i}" for i in ids[FIT]]),
        (pd.Series(ids[HELD]), pd.Series(ids[FIT]).astype(float)),
    ):
        assert measured(classifier, people=held, trained_on=fitted).plan.n == 1500
    for held, fitted in ((ids[HELD], ids[:1501]), (ids[HELD], ["1500"]), (ids[HELD].astype(str), [2999.0])):
        with pytest.raises(RowError, match="trained_on as well"):
            measured(classifier, people=held, trained_on=fitted, dataset="charged for people")
    for options in ({"people": ids[HELD]}, {"trained_on": ids[FIT]}):
        with pytest.raises(InputError, match="go together"):
            measured(classifier, dataset="never charged", **options)
    with pytest.raises(FormError, match="groups"):
        measured(classifier, people=ids[:3], trained_on=ids[FIT], dataset="never charged")
    for wrong, words in (
        (np.where(ids[HELD] == 2000, math.nan, ids[HELD]), "missing"),
        (ids[HELD] // 2, "more than 1"),
    ):
        with pytest.raises(RowError, match=words):
            measured(classifier, people=wrong, trained_on=[-1], dataset="charged for people")
    assert dc.account("never charged").claims == ()
    assert len(dc.account("charged for people").claims) == 5
    assert measured(classifier, people=ids[HELD] // 2, trained_on=[-1], rows_per_person=2).plan.claim.unit == 2


def test_several_rows_of_a_person_are_covered_together(classifier, rng):
    model = dc.PrivateLogisticRegression(2.0, schema=schema(rows_per_person=3), algorithm="MeanDirection")
    model.fit(frame(900, rng))
    found = evaluate(model, frame(900, rng), budget=BUDGET, dataset="three rows each")
    assert found.receipt.data["dataset"]["unit"] == 3
    assert 0.99 < found.receipt.epsilon <= 1.0
    alone = measured(classifier, metrics="accuracy").metrics["accuracy"].noise_se
    assert measured(classifier, metrics="accuracy", rows_per_person=4).metrics["accuracy"].noise_se == pytest.approx(
        4 * alone, rel=1e-6
    )
    for wrong in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="rows_per_person"):
            measured(classifier, rows_per_person=wrong)


def test_a_model_that_protects_people_needs_to_know_how_many_rows_they_have():
    model = dc.PrivateLogisticRegression(2.0, feature_bound=BOX, classes=["no", "yes"])
    model.fit(X[FIT], Y[FIT], groups=np.arange(1500) // 3)
    with pytest.raises(InputError, match="rows_per_person"):
        measured(model)
    assert measured(model, rows_per_person=3).receipt.data["dataset"]["unit"] == 3


def test_a_limit_refuses_before_anything_is_released(classifier):
    dc.limit("held to a limit", dc.Budget(1.2, 1e-6))
    measured(classifier, dataset="held to a limit")
    with pytest.raises(BudgetError):
        measured(classifier, dataset="held to a limit")
    assert len(dc.account("held to a limit").claims) == 1


# Wrong input ---------------------------------------------------------------------------------------------------------


def test_wrong_input_is_refused_and_nothing_is_charged(classifier):
    rows, labels = X[HELD], Y[HELD]
    broken = rows.copy()
    broken[5, 1] = math.nan
    infinite = rows.copy()
    infinite[5, 1] = math.inf
    unknown = labels.astype(object)
    unknown[3] = "perhaps"
    for bad, y in (
        (rows[:0], labels[:0]),
        (rows[:1], labels[:1]),
        (rows[:, :2], labels),
        (np.hstack([rows, rows]), labels),
        (rows.astype(str), labels),
        (rows, labels[:-1]),
        (rows, None),
        (rows.ravel(), labels),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            measured(classifier, bad, y, dataset="never charged")
    assert dc.account("never charged").claims == ()
    for bad in (broken, infinite, rows.astype(str).astype(object) + "x"):
        with pytest.raises(RowError, match="NaN or infinite"):
            measured(classifier, bad, labels, dataset="charged for rows")
    assert len(dc.account("charged for rows").claims) == 3
    assert np.isfinite(measured(classifier, rows, unknown, dataset="charged for rows").released).all()
    for options, words in (
        ({"budget": 1.0}, "budget must be"),
        ({"budget": None}, "budget must be"),
        ({"dataset": ""}, "dataset must be"),
        ({"dataset": 3}, "dataset must be"),
        ({"confidence": 95}, "confidence"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": "0.9"}, "confidence"),
        ({"metrics": []}, "at least one"),
        ({"metrics": 3}, "list of names"),
        ({"metrics": [["auc"]]}, "list of names"),
        ({"metrics": ["auc", "auc"]}, "each once"),
        ({"seed": "x"}, "seed"),
    ):
        with pytest.raises(InputError, match=words):
            measured(classifier, **{"dataset": "never charged", **options})
    with pytest.raises(NotFittedError):
        measured(dc.PrivateLogisticRegression())
    for stranger in (LogisticRegression().fit(X[FIT], Y[FIT]), None, lambda rows: rows):
        with pytest.raises(InputError, match="takes a fitted estimator or a Solution"):
            measured(stranger)
    assert dc.account("never charged").claims == ()
    assert dc.account("never charged").seeded == 0


# One person changes nothing but numbers ------------------------------------------------------------------------------


def shape_of(model, rows, labels, seed):
    """Everything about an evaluation but its numbers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = evaluate(model, rows, labels, budget=BUDGET, dataset="fuzzed", seed=seed)
        words = str(found)
    return (
        [(w.category, str(w.message)) for w in caught],
        sorted(vars(found)),
        [(name, [type(v) for v in metric]) for name, metric in found.metrics.items()],
        len(found.calibration),
        found.released.shape,
        {k: v for k, v in found.receipt.data.items() if k not in ("released", "digest")},
        len(words.splitlines()),
    )


@pytest.mark.parametrize("n", [2, 3, 40])
def test_neighbours_differ_in_numbers_only(classifier, regressor, n, rng):
    for model, labels, others in (
        (classifier, np.full(n, "no", dtype=object), ["yes", "no"]),
        (classifier, rng.choice(["no", "yes"], n).astype(object), ["yes", "no"]),
        (regressor, np.full(n, 50.0), [0.0, 1e9, -1e300, 100.0]),
        (regressor, rng.uniform(0, 100, n), [50.0]),
    ):
        rows = rng.uniform(-1, 1, (n, 3)) * rng.choice([0.0, 1.0])
        plain = shape_of(model, rows, labels, 1)
        for other in others:
            for row in (np.zeros(3), np.full(3, 1e300), rng.normal(size=3)):
                changed, targets = rows.copy(), labels.copy()
                changed[0], targets[0] = row, other
                assert shape_of(model, changed, targets, 1) == plain


@pytest.mark.parametrize("label", ["no", "yes"])
def test_one_class_only_says_that_nothing_is_known_of_the_area(classifier, label):
    same = np.full(1500, label)
    found = measured(classifier, labels=same, seed=5)
    area = found.metrics["auc"]
    assert (area.low, area.high) == (0.0, 1.0)
    assert math.isnan(area.value) or area.noise_se > 0.1
    assert "auc" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.metrics["accuracy"].high <= 1.0


def test_a_tiny_budget_widens_intervals_to_all_there_is(classifier, regressor):
    small = dc.Budget(1e-3, 1e-6)
    found = measured(classifier, budget=small, seed=6).metrics
    assert found["auc"].high - found["auc"].low == 1.0
    assert found["accuracy"].high - found["accuracy"].low > 0.9
    ratio = measured(regressor, labels=TARGET[HELD], budget=small, metrics="r2", seed=6).metrics["r2"]
    assert ratio.low == -math.inf
    assert ratio.high == 1.0


@pytest.mark.parametrize("top", [-3.0, -1.2, -1.0, 0.0, 0.99, 1.0, 1.2, 5.0])
@pytest.mark.parametrize("noise", [1e-9, 0.1, 3.0])
def test_an_interval_is_never_empty_and_stays_within_its_range(top, noise):
    estimate = Estimate(top, 1.0, (noise**2, 0.0), (1e-3, -1e-3), -1.0, 1.0)
    for rate in (0.01, 0.5, 0.95, 0.9999):
        metric = estimate.metric(rate)
        assert -1.0 <= metric.low <= metric.value <= metric.high <= 1.0


# Thresholds, subgroups, files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(classifier):
    ward = np.where(X[HELD, 1] > 0, "north", "south").astype(object)
    ward[:3] = [None, "", "elsewhere"]
    metrics = ["accuracy", "recall", "precision", "pr_auc"]
    return measured(
        classifier, metrics=metrics, thresholds=[0.3, 0.7], subgroups=(ward, ["north", "south"]), dataset="wide"
    )


def test_thresholds_and_subgroups_are_near_what_the_rows_say(classifier, wide):
    chance, yes = classifier.predict_proba(X[HELD])[:, 1], Y[HELD] == "yes"
    assert [t.at for t in wide.thresholds] == [0.3, 0.5, 0.7]
    for t in wide.thresholds:
        above = chance > t.at
        truth = {
            "flagged": above.mean(),
            "recall": above[yes].mean(),
            "precision": yes[above].mean(),
            "specificity": 1 - above[~yes].mean(),
        }
        truth["balanced_accuracy"] = (truth["recall"] + truth["specificity"]) / 2
        for name, value in truth.items():
            metric = getattr(t, name)
            assert abs(metric.value - value) < 5 * metric.noise_se, (t.at, name)
            assert metric.low < metric.value < metric.high
    assert wide.metrics["recall"] == wide.thresholds[1].recall
    assert list(wide.subgroups) == ["north", "south"]
    north = np.flatnonzero(X[HELD, 1] > 0)[3:]
    found = wide.subgroups["north"]["accuracy"]
    assert abs(found.value - ((chance > 0.5) == yes)[north].mean()) < 5 * found.noise_se + 0.01
    words = str(wide)
    for part in ("'yes' is predicted above", "0.3 ", "north ", "costs nothing", "balanced accuracy"):
        assert part in words
    assert len(dc.account("wide").claims) == 1
    assert 0.999 < wide.receipt.epsilon <= 1.0
    assert wide.at(0.5).subgroups["north"]["accuracy"].low > found.low


def test_an_evaluation_is_read_back_and_altered_files_are_refused(wide, regressor, tmp_path):
    other = measured(regressor, labels=TARGET[HELD], dataset="numbers")
    for found in (wide, other):
        found.save(tmp_path / "evaluation.json")
        again = type(found).load(tmp_path / "evaluation.json")
        assert str(again) == str(found)
        assert again.to_dict() == found.to_dict()
    plain = wide.to_dict()
    for key, value in (
        ("released", [0.0] * len(wide.released)),
        ("confidence", 0.5),
        ("groups", ["north"]),
        ("groups", ["north", "east"]),
        ("n", 3),
        ("metrics", {}),
        ("format", "dpconvex-model/2"),
        ("receipt", other.receipt.data),
        ("half_range", None),
    ):
        (tmp_path / "altered.json").write_text(json.dumps({**plain, key: value}))
        with pytest.raises(VerificationError):
            type(wide).load(tmp_path / "altered.json")


def test_a_category_of_the_schema_names_subgroups(rng):
    model = dc.PrivateLogisticRegression(2.0, schema=schema()).fit(frame(2000, rng))
    found = evaluate(model, frame(1000, rng), budget=BUDGET, dataset="by town", metrics="accuracy", subgroups="town")
    assert list(found.subgroups) == ["A", "B"]
    for wrong in ("age", "nothing", (["A"] * 1000, []), (["A"] * 1000, ["A", "A"]), (["A"] * 3, ["A"]), 3, (1, 2, 3)):
        with pytest.raises(InputError, match="subgroups"):
            evaluate(model, frame(1000, rng), budget=BUDGET, dataset="never charged", subgroups=wrong)
    for wrong in ([1.0], ["a"], "0.5", [math.nan]):
        with pytest.raises(InputError, match="thresholds"):
            measured(model, frame(1000, rng), None, metrics="recall", thresholds=wrong, dataset="never charged")
    assert dc.account("never charged").claims == ()


def test_moving_the_threshold_does_what_class_weights_do():
    """What the guide advises: the same budget, made-up rows with a rare class."""
    rng, n = np.random.default_rng(5), 20_000
    rows = rng.uniform(-1, 1, (2 * n, 3))
    rare = np.where(rows @ [2.0, -1.0, 0.5] - 2.5 + 0.7 * rng.logistic(size=2 * n) > 0, "yes", "no")
    share = 0.085  # of the second class, known beforehand

    def balanced(threshold, **weights):
        model = dc.PrivateLogisticRegression(1.0, feature_bound=BOX, classes=["no", "yes"], random_state=1, **weights)
        chances = model.fit(rows[:n], rare[:n]).predict_proba(rows[n:])[:, 1]
        above, yes = chances > threshold, rare[n:] == "yes"
        return (above[yes].mean() + (~above[~yes]).mean()) / 2

    moved = balanced(share)
    assert moved > balanced(0.5) + 0.2
    assert abs(moved - balanced(0.5, class_weight={"no": share / (1 - share)})) < 0.01
