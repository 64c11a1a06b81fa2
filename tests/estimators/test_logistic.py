import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpconvex as dc
from dpconvex.errors import (
    BudgetError,
    BudgetWarning,
    HypothesisError,
    InputError,
    PrivacyLeakWarning,
    RepeatedReleaseWarning,
    RowError,
)

BOX = dc.bounds.Linf(1.0)


def model(**options):
    return dc.PrivateLogisticRegression(**({"feature_bound": BOX, "classes": [0, 1], "random_state": 0} | options))


@pytest.fixture
def binary(rng):
    X = rng.uniform(-1, 1, size=(3000, 4))
    return X, (X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=3000) > 0).astype(int)


@pytest.fixture
def visits(rng):
    """A table as a clinic has it: text, dates, missing values, and its schema."""
    n = 4000
    age, sex = rng.integers(18, 101, n).astype(float), rng.choice(["F", "M"], n)
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    ill = np.where((age - 60) / 20 + (sex == "F") + rng.logistic(size=n) > 0, "ill", "well")
    frame = pd.DataFrame({"id": np.arange(n), "age": age, "sex": sex.astype(object), "seen": seen, "state": ill})
    frame.loc[::17, "age"] = np.nan
    frame.loc[::19, "sex"] = None
    schema = dc.Schema(
        {
            "id": dc.schema.Ignore(),
            "age": dc.schema.Number(18, 100),
            "sex": dc.schema.Category(["F", "M"]),
            "seen": dc.schema.Date("2020-01-01", "2022-12-31"),
        },
        target=dc.schema.Classes("state", ["well", "ill"]),
        name="visits",
    )
    return frame, schema


def test_learns_two_classes_and_says_what_it_costs(binary):
    X, y = binary
    fitted = model(random_state=None).fit(X, y)
    assert fitted.score(X, y) > 0.9
    assert (fitted.coef_.shape, fitted.intercept_.shape, fitted.classes_.tolist()) == ((1, 4), (1,), [0, 1])
    assert (fitted.n_features_in_, hasattr(fitted, "feature_names_in_")) == (4, False)
    assert dc.verify(fitted.receipt_)
    assert fitted.receipt_.private
    assert 0.99 < fitted.receipt_.epsilon <= 1.0
    assert fitted.receipt_.data["outside"]["read_from_data"] == []
    assert fitted.receipt_.covers(fitted.weights_)
    assert not fitted.receipt_.covers(fitted.weights_ + 1e-12)


def test_learns_three_classes_jointly(rng):
    X = rng.uniform(-1, 1, size=(4000, 2))
    y = np.array(["east", "north", "west"])[(X @ np.array([[2.0, 0, -2.0], [0, 2.0, 0]])).argmax(axis=1)]
    fitted = model(classes=["west", "north", "east"]).fit(X, y)
    assert fitted.classes_.tolist() == ["east", "north", "west"]
    assert fitted.score(X, y) > 0.8
    assert (fitted.coef_.shape, fitted.intercept_.shape) == ((3, 2), (3,))
    assert fitted.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert (fitted.predict(X) == fitted.classes_[fitted.predict_proba(X).argmax(axis=1)]).all()


def test_scores_are_linear_within_the_bound_and_agree_with_probabilities(binary):
    X, y = binary
    fitted = model().fit(X, y)
    scores = fitted.decision_function(X)
    assert scores == pytest.approx(X @ fitted.coef_[0] + fitted.intercept_[0], abs=1e-9)
    assert ((fitted.predict_proba(X)[:, 1] > 0.5) == (scores > 0)).all()
    assert np.exp(fitted.predict_log_proba(X)) == pytest.approx(fitted.predict_proba(X))
    far = fitted.decision_function(X * 1e6)
    assert far == pytest.approx(np.sign(X) @ fitted.coef_[0] + fitted.intercept_[0], abs=1e-9)


def test_without_noise_to_speak_of_it_is_logistic_regression(binary):
    X, y = binary
    ours = model(epsilon=1000.0, algorithm="ObjectivePerturbation").fit(X, y).predict_proba(X)
    theirs = LogisticRegression(C=1e6).fit(X, y).predict_proba(X)
    assert np.abs(ours - theirs).max() < 0.05


def test_no_intercept_when_none_is_wanted(binary):
    fitted = model(fit_intercept=False).fit(*binary)
    assert (fitted.intercept_.tolist(), fitted.weights_.shape) == ([0.0], (4,))


def test_a_raw_table_goes_straight_in_with_its_schema(visits):
    frame, schema = visits
    fitted = dc.PrivateLogisticRegression(schema=schema, epsilon=2.0, random_state=0).fit(frame)
    assert fitted.classes_.tolist() == ["ill", "well"]
    assert fitted.feature_names_in_.tolist() == ["id", "age", "sex", "seen"]
    assert fitted.coef_.shape == (1, len(dc.PrivatePreprocessor(schema).fit(frame).get_feature_names_out()))
    assert np.mean(fitted.predict(frame) == frame["state"]) > 0.65
    apart = clone(fitted).fit(frame.drop(columns="state"), frame["state"])
    assert np.array_equal(apart.weights_, fitted.weights_)
    polars = pl.DataFrame(
        {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}
    )
    assert np.array_equal(fitted.predict(frame), fitted.predict(polars))
    assert fitted.receipt_.data["outside"]["read_from_data"] == []


def test_the_schema_says_who_a_person_is(visits):
    frame, schema = visits
    schema = dc.Schema(schema.columns, schema.target, rows_per_person=3, name="several visits")
    fitted = dc.PrivateLogisticRegression(schema=schema, rows_per_person=3).fit(frame)
    assert fitted.receipt_.data["dataset"]["unit"] == 3
    assert "one person of up to 3 records" in str(fitted.receipt_)
    assert len(dc.account("several visits").claims) == 1
    with pytest.raises(InputError, match="rows_per_person"):
        dc.PrivateLogisticRegression(schema=schema, rows_per_person=2).fit(frame)


def test_more_rows_a_person_take_more_noise(binary):
    one, three = model().fit(*binary), model(rows_per_person=3).fit(*binary)
    scale = [m.receipt_.data["claim"]["derivation"] for m in (one, three)]
    assert scale[1]["by"] == "group"
    assert three.receipt_.epsilon <= 1.0
    assert dc.verify(three.receipt_)
    assert np.linalg.norm(three.weights_ - one.weights_) > 0


def test_what_is_not_declared_is_read_with_a_warning_and_stands_on_the_receipt(binary):
    X, y = binary
    undeclared = dc.PrivateLogisticRegression(random_state=0)
    with pytest.warns(PrivacyLeakWarning) as caught:
        fitted = undeclared.fit(X, y)
    told = [w for w in caught if w.category is PrivacyLeakWarning]
    assert [("feature_bound" in str(w.message), "classes" in str(w.message)) for w in told] == [
        (True, False),
        (False, True),
    ]
    assert all(w.filename == __file__ for w in told)
    assert fitted.receipt_.data["outside"]["read_from_data"] == ["feature_bound", "classes"]
    assert "READ FROM THE DATA: feature_bound, classes" in str(fitted.receipt_)
    assert dc.verify(fitted.receipt_)


@pytest.mark.parametrize("given", [{"feature_bound": BOX}, {"classes": [0, 1]}])
def test_strict_refuses_to_read_before_anything_is_charged(binary, given):
    before = dc.account().seeded
    with pytest.raises(InputError, match="not declared"):
        dc.PrivateLogisticRegression(strict=True, random_state=0, **given).fit(*binary)
    assert dc.account().seeded == before


def test_constant_labels_fit_like_any_others(rng):
    fitted = model().fit(rng.uniform(-1, 1, size=(500, 2)), np.ones(500, dtype=int))
    assert fitted.classes_.tolist() == [0, 1]


def test_sparse_rows_and_single_precision_give_the_same_model(binary):
    X, y = binary
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32)
    dense = model().fit(X, y)
    for same in (X.astype(np.float64), sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X)):
        assert model().fit(same, y).weights_ == pytest.approx(dense.weights_, abs=1e-6)
    assert dense.predict_proba(sparse.csr_array(X)) == pytest.approx(dense.predict_proba(X))


def test_a_seed_repeats_the_noise_and_none_never_does(binary):
    assert np.array_equal(model().fit(*binary).weights_, model().fit(*binary).weights_)
    state = np.random.RandomState(3)
    assert not np.array_equal(
        model(random_state=state).fit(*binary).weights_, model(random_state=state).fit(*binary).weights_
    )
    fresh = [model(random_state=None).fit(*binary) for _ in range(2)]
    assert not np.array_equal(fresh[0].weights_, fresh[1].weights_)
    assert not model().fit(*binary).receipt_.private


def test_repeated_fits_are_announced_with_their_total(binary):
    schema = dc.Schema({k: dc.schema.Number(-1, 1) for k in "abcd"}, dc.schema.Classes("y", [0, 1]), name="thrice")
    private = dc.PrivateLogisticRegression(schema=schema)
    private.fit(*binary)
    with pytest.warns(RepeatedReleaseWarning, match=r"release 2 about the data set 'thrice'.*\(1\.4\d, 1e-06\)") as one:
        private.fit(*binary)
    assert one[0].filename == __file__
    with pytest.warns(RepeatedReleaseWarning, match=r"release 3 .*\(1\.8\d, 1e-06\)"):
        private.fit(*binary)
    assert dc.account("thrice").total().epsilon(1e-6) == pytest.approx(1.86, abs=0.02)


def test_a_limit_stops_the_fit_that_would_break_it(binary):
    schema = dc.Schema({k: dc.schema.Number(-1, 1) for k in "abcd"}, dc.schema.Classes("y", [0, 1]), name="limited")
    dc.limit("limited", dc.Budget(1.2, 1e-6))
    private = dc.PrivateLogisticRegression(schema=schema).fit(*binary)
    weights = private.weights_.copy()
    with pytest.raises(BudgetError, match="limit"):
        private.fit(*binary)
    assert np.array_equal(private.weights_, weights)
    assert len(dc.account("limited").claims) == 1


@pytest.mark.parametrize("algorithm", ["NoisyGD", "PhasedSGD", "MeanDirection", dc.algorithms.NoisyGD(steps=20)])
def test_an_algorithm_can_be_named(binary, algorithm):
    fitted = model(algorithm=algorithm, epsilon=4.0).fit(*binary)
    name = algorithm if isinstance(algorithm, str) else type(algorithm).__name__
    assert fitted.receipt_.data["plan"]["algorithm"]["name"] == name
    assert fitted.score(*binary) > 0.8


def test_works_in_pipelines_clones_pickles_and_cross_validation(binary):
    X, y = binary
    pipe = make_pipeline(FunctionTransformer(np.tanh), model()).fit(X, y)
    assert pipe.score(X, y) > 0.85
    again = pickle.loads(pickle.dumps(pipe))
    assert np.array_equal(again.predict_proba(X), pipe.predict_proba(X))
    with pytest.warns(dc.errors.SelectionWarning, match="no finite epsilon"):
        assert cross_val_score(model(), X, y, cv=3).min() > 0.8
    assert clone(model(feature_bound=BOX)).feature_bound is not None
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert model().fit(frame, y).feature_names_in_.tolist() == list("abcd")


def test_noise_differs_between_classes_and_between_workers():
    """Every class and every worker has noise of its own: rows of zeros leave nothing but noise in the weights."""
    X, y = np.zeros((60, 3)), np.arange(60) % 3
    fits = Parallel(n_jobs=3)(delayed(model(classes=[0, 1, 2], random_state=None).fit)(X, y) for _ in range(3))
    noise = np.concatenate([m.weights_[:, :-1] for m in fits])
    assert np.unique(noise).size == noise.size


def test_a_range_that_starts_at_zero_still_has_its_noise(binary):
    X, y = binary
    wide = model(feature_bound=dc.bounds.Columns(lo=[0.0] * 4, hi=[100.0] * 4), algorithm="NoisyGD").fit(X, y)
    assert wide.receipt_.data["plan"]["problem"]["feature_bound"]["hi"] == [100.0] * 4
    assert dc.Receipt(wide.receipt_.data).problem.row_bound(4).value == pytest.approx(200 * np.hypot(1, 0.3))
    assert dc.verify(wide.receipt_)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"relation": "add_remove"}, "add_remove"),
        ({"classes": [0]}, "labels"),
        ({"classes": [0, 1, 1]}, "different"),
        ({"classes": [0, "one"]}, "text"),
        ({"classes": 3}, "list"),
        ({"feature_bound": -1.0}, "bound"),
        ({"feature_bound": "wide"}, "feature_bound"),
        ({"algorithm": "SGD"}, "algorithm"),
        ({"algorithm": 3}, "algorithm"),
        ({"rows_per_person": 0}, "rows_per_person"),
        ({"rows_per_person": 1.5}, "rows_per_person"),
        ({"schema": {"age": 3}}, "Schema"),
        ({"random_state": "dice"}, "seed"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(binary, options, match):
    before = dc.account().seeded, len(dc.account().claims)
    with pytest.raises(ValueError, match=match):
        model(**options).fit(*binary)
    assert (dc.account().seeded, len(dc.account().claims)) == before


def test_bad_rows_are_refused_without_a_word_of_theirs(binary):
    X, y = binary
    secret = np.array([["Jane Doe"] * 4] * len(X), dtype=object)
    for bad, labels in (
        (secret, y),
        (X[:10], y),
        (X[:0], y[:0]),
        (X[:1], y[:1]),
        (X[0], y),
        (X, None),
        (pd.DataFrame(secret), y),
    ):
        with pytest.raises(ValueError, match=r".") as error:
            model().fit(bad, labels)
        assert not {"Jane", "77"} & set(str(error.value).replace(",", " ").split())
    fitted = model().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :2])


def test_one_column_constant_columns_and_huge_entries_fit(rng):
    y = rng.integers(0, 2, size=200)
    for X in (rng.normal(size=(200, 1)), np.ones((200, 3)), np.full((200, 2), 1e308), np.zeros((200, 2))):
        assert np.isfinite(model(feature_bound=1.0).fit(X, y).predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore::dpconvex.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("entry", [0.0, 1e-300, 3.0, 1e300])
def test_a_bound_read_from_the_data_is_its_longest_row(entry):
    X = np.array([[entry, 0.0], [entry, entry]] * 20)
    for rows in (X, sparse.csr_array(X)):
        fitted = model(feature_bound=None).fit(rows, np.arange(40) % 2)
        stated = fitted.receipt_.problem.feature_bound.radius
        assert stated == pytest.approx(np.clip(np.hypot(entry, entry) or 1.0, 1e-100, 1e100))


def test_a_schema_rules_out_what_it_implies(visits):
    frame, schema = visits
    for extra in ({"feature_bound": 1.0}, {"classes": ["ill", "well"]}):
        with pytest.raises(InputError, match="schema"):
            dc.PrivateLogisticRegression(schema=schema, random_state=0, **extra).fit(frame)
    number = dc.Schema(schema.columns, dc.schema.Range("state", 0, 1))
    with pytest.raises(InputError, match="range"):
        dc.PrivateLogisticRegression(schema=number, random_state=0).fit(frame)
    with pytest.raises(InputError, match="target"):
        dc.PrivateLogisticRegression(schema=schema, random_state=0).fit(frame.drop(columns="state"))


def test_a_schema_has_a_value_for_every_cell(visits):
    frame, schema = visits
    for odd in ("unheard of", None, "inf", 10**400):
        for column in (*schema.columns, "state"):
            spoilt = frame.astype(object)
            spoilt.loc[:, column] = odd
            fitted = dc.PrivateLogisticRegression(schema=schema, random_state=0).fit(spoilt)
            assert np.isfinite(fitted.predict_proba(spoilt)).all()


@pytest.mark.parametrize("algorithm", ["PoissonSGD", "NoisyGD", "ObjectivePerturbation"])
def test_rows_without_a_target_weigh_nothing(binary, algorithm):
    X, y = binary
    weights, labels = (np.arange(len(y)) % 3 != 0).astype(float), np.array(["no", "yes"], dtype=object)[y]
    options = {"classes": ["no", "yes"], "algorithm": algorithm, "weight_cap": 1.0}
    weighted = model(**options).fit(X, labels, sample_weight=weights)
    labels[::3] = "perhaps"
    assert np.array_equal(model(**options).fit(X, labels).weights_, weighted.weights_)


@pytest.mark.parametrize("options", [{}, {"feature_bound": None}, {"classes": None}], ids=str)
def test_entries_that_are_not_finite_are_refused_after_the_charge(binary, options):
    X, y = binary
    for value in (np.nan, -np.inf, None, "x"):
        spoilt = X[:50].astype(object)
        spoilt[3, 1] = value
        for bad in (spoilt, spoilt.tolist()):
            before = len(dc.account().claims)
            with pytest.raises(RowError, match="NaN or infinite"), warnings.catch_warnings():  # noqa: PT012
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                model(random_state=None, **options).fit(bad, y[:50])
            assert len(dc.account().claims) == before + 1


def test_a_refused_fit_leaves_the_model_as_it_was(binary):
    X, y = binary
    fitted = model().fit(X, y)
    before = fitted.weights_.copy()
    with pytest.raises(HypothesisError):
        fitted.set_params(algorithm="SufficientStatistics").fit(X, y)
    assert np.array_equal(fitted.weights_, before)


def test_scores_compare_labels_as_text_and_quote_none(binary):
    X, y = binary
    fitted = model(classes=["0", "1"]).fit(X, y)
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y.astype(str)) > 0.9
    assert fitted.score(X, np.full(len(X), 77)) == 0.0
    assert fitted.score(X, y, sample_weight=np.arange(len(X)) == 0) in (0.0, 1.0)


def test_dates_and_complex_numbers_need_a_schema(binary):
    X, y = binary
    dates = pd.DataFrame({"seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(X)), unit="D")})
    for bad in (X + 1j, dates, dates.to_numpy()):
        with pytest.raises(InputError, match="Schema"):
            model().fit(bad, y)


def test_ignored_columns_may_be_left_out(visits):
    frame, schema = visits
    fitted = dc.PrivateLogisticRegression(schema=schema, random_state=0).fit(frame)
    assert np.array_equal(fitted.predict(frame.drop(columns=["id", "state"])), fitted.predict(frame))


def test_a_weak_delta_is_named_as_the_user_gave_it(binary):
    for people in (1, 4):
        with pytest.warns(BudgetWarning, match=r"delta = 0\.0005 is not below 1/n.*Choose 3e-06") as told:
            model(delta=5e-4, rows_per_person=people).fit(*binary)
        assert [w.category for w in told].count(BudgetWarning) == 1


def test_a_large_epsilon_for_people_has_a_plan(binary):
    assert model(epsilon=100.0, rows_per_person=4).fit(*binary).receipt_.epsilon <= 100.0
    with pytest.raises(InputError, match="rows_per_person"):
        model(rows_per_person=4).fit(binary[0][:3], binary[1][:3])
