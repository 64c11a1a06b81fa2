"""What every private linear model has in common: forms of data, weights, people, ranges, files, and what is refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpconvex as dc
from dpconvex.errors import FormError, InputError, PrivacyLeakWarning, RepeatedReleaseWarning, SelectionWarning

N = 400
CLASSIFIERS = [dc.PrivateLogisticRegression, dc.PrivateLinearSVC]
REGRESSORS = [dc.PrivateRidge, dc.PrivateHuberRegressor, dc.PrivateQuantileRegressor]
WEIGHTED = [*CLASSIFIERS, dc.PrivateRidge, dc.PrivateHuberRegressor]
every_model = pytest.mark.parametrize("make", [*CLASSIFIERS, *REGRESSORS])
every_regressor = pytest.mark.parametrize("make", REGRESSORS)
every_weighted = pytest.mark.parametrize("make", WEIGHTED)
pytestmark = pytest.mark.filterwarnings("ignore::dpconvex.errors.RepeatedReleaseWarning")


def declared(make, **options):
    facts = {"classes": [0, 1]} if make in CLASSIFIERS else {"target_range": (-10.0, 30.0)}
    return make(**{"epsilon": 100.0, "feature_bound": dc.bounds.Linf(1.0), "random_state": 0, **facts, **options})


@pytest.fixture
def data(rng):
    X = rng.uniform(-1, 1, size=(N, 3))
    return X, 10.0 + 8.0 * X[:, 0] + rng.normal(size=N)


def target(make, y):
    return (y > 10.0).astype(int) if make in CLASSIFIERS else y


@every_model
def test_forms_of_data_agree(make, data):
    X, y = data
    y = target(make, y)
    model = declared(make).fit(X, y)
    assert model.score(X, y) > (0.55 if make in CLASSIFIERS else 0.3)
    assert dc.verify(model.receipt_)
    names = ["a", "b", "c"]
    for form in (X.tolist(), sparse.csr_array(X), pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        assert np.allclose(declared(make).fit(form, y).predict(form), model.predict(X), rtol=1e-9)
    assert np.allclose(declared(make).fit(X.astype(np.float32), y).predict(X), model.predict(X), rtol=1e-4)
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.fit(X, y).weights_, model.weights_)


@every_model
def test_a_schema_takes_the_table_as_it_is(make, data, tmp_path):
    X, y = data
    y = target(make, y)
    what = dc.schema.Classes("y", [0, 1]) if make in CLASSIFIERS else dc.schema.Range("y", -10, 30)
    columns = {"a": dc.schema.Number(-1, 1), "b": dc.schema.Number(-1, 1), "town": dc.schema.Category(["N", "S"])}
    schema = dc.Schema(columns, what, name=f"table of {make.__name__}")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": np.where(X[:, 2] > 0, "N", "S"), "y": y})
    model = make(epsilon=100.0, schema=schema, random_state=0).fit(frame)
    again = make(epsilon=100.0, schema=schema, random_state=0).fit(
        pl.DataFrame({name: frame[name].tolist() for name in columns}), y
    )
    assert np.array_equal(model.weights_, again.weights_)
    model.save(tmp_path / "model.json")
    loaded = dc.load(tmp_path / "model.json")
    assert type(loaded) is make
    assert np.array_equal(loaded.predict(frame.drop(columns="y")), model.predict(frame.drop(columns="y")))


@every_model
def test_undeclared_facts_are_told_or_refused(make, data):
    X, y = data
    y = target(make, y)
    with pytest.warns(PrivacyLeakWarning) as caught:
        model = make(random_state=0).fit(X, y)
    told = " ".join(str(w.message) for w in caught)
    names = ["feature_bound", "classes" if make in CLASSIFIERS else "target_range"]
    assert all(name in told for name in names)
    assert model.receipt_.data["outside"]["read_from_data"] == names
    with pytest.raises(InputError, match="strict"):
        make(strict=True).fit(X, y)


@every_regressor
def test_predictions_keep_to_the_range_in_units_of_the_target(make, data):
    X, y = data
    model = declared(make).fit(X, y)
    low, high = model.target_range_
    assert (low, high) == (-10.0, 30.0)
    assert np.allclose(model.predict(X), np.clip(X @ model.coef_ + model.intercept_, low, high))
    assert (declared(make).fit(X, 1e9 * y).predict(X) <= high).all()
    shifted = declared(make, target_range=(90.0, 130.0)).fit(X, y + 100.0)
    assert np.allclose(shifted.predict(X), model.predict(X) + 100.0)


@every_regressor
@pytest.mark.parametrize(
    "bad", [(1.0, 1.0), (3.0, 2.0), (0.0, np.nan), (0.0, np.inf), "ab", 3.0, (1, 2, 3), ("a", "b")]
)
def test_bad_ranges(make, bad, data):
    with pytest.raises(InputError):
        declared(make, target_range=bad).fit(*data)


@pytest.mark.parametrize("quantile", [0.0, 1.0, -1.0, np.nan, "half", True])
def test_bad_quantiles(quantile, data):
    with pytest.raises(InputError, match="quantile"):
        declared(dc.PrivateQuantileRegressor, quantile=quantile).fit(*data)


@pytest.mark.parametrize("threshold", [0.0, -1.0, np.inf, np.nan, "wide", True])
def test_bad_thresholds(threshold, data):
    with pytest.raises(InputError, match="threshold"):
        declared(dc.PrivateHuberRegressor, threshold=threshold).fit(*data)


def test_a_support_vector_classifier_has_two_classes(data):
    X, y = data
    with pytest.raises(InputError, match="Only binary classification"):
        declared(dc.PrivateLinearSVC, classes=[0, 1, 2]).fit(X, (y > 10).astype(int) + (y > 12))


def test_a_quantile_is_what_its_name_says(rng):
    X = rng.uniform(-1, 1, size=(20_000, 2))
    y = 10 * X[:, 0] + 8 * rng.random(20_000)
    for quantile in (0.2, 0.8):
        model = declared(dc.PrivateQuantileRegressor, quantile=quantile, target_range=(-20.0, 20.0)).fit(X, y)
        assert abs((y < model.predict(X)).mean() - quantile) < 0.05


# Weights -----------------------------------------------------------------------------------------------------------


@every_weighted
def test_weights_count_rows(make, data):
    X, y = data
    y = target(make, y)
    weights = np.arange(N) % 4
    weighted = declared(make, weight_cap=4.0).fit(X, y, sample_weight=weights)
    repeated = declared(make, weight_cap=4.0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert np.allclose(weighted.weights_, repeated.weights_, rtol=1e-6, atol=1e-9)


@every_weighted
def test_weights_above_the_cap_are_clipped(make, data):
    X, y = data
    y = target(make, y)
    large = np.where(np.arange(N) < 5, 1e9, 1.0)
    clipped = declared(make, weight_cap=2.0).fit(X, y, sample_weight=large)
    assert np.array_equal(
        clipped.weights_, declared(make, weight_cap=2.0).fit(X, y, sample_weight=np.minimum(large, 2.0)).weights_
    )
    with pytest.warns(PrivacyLeakWarning, match="sample_weight"):
        told = declared(make).fit(X, y, sample_weight=large)
    assert told.receipt_.data["outside"]["read_from_data"] == ["weight_cap"]


@every_weighted
@pytest.mark.parametrize("bad", [np.full(N, "heavy"), [1.0], np.ones(N - 1), np.ones((N, 2))], ids=np.shape)
def test_weights_of_the_wrong_form_are_not_charged(make, bad, data):
    X, y = data
    before = len(dc.account().claims)
    with pytest.raises(FormError, match="sample_weight"):
        declared(make, weight_cap=1.0, random_state=None).fit(X, target(make, y), sample_weight=bad)
    assert len(dc.account().claims) == before


@every_weighted
def test_every_weight_has_a_value_and_the_run_is_charged(make, data):
    """Negative weights, NaN and cells of a list that are no numbers count as 0, infinite ones as the cap."""
    X, y = data
    y = target(make, y)
    kept = np.where(np.arange(N) < N // 2, 1.0, 0.0)
    plain = declared(make, weight_cap=1.0).fit(X, y, sample_weight=kept).weights_
    assert not np.array_equal(plain, declared(make, weight_cap=1.0).fit(X, y).weights_)
    for bad in (-1.0, -np.inf, np.nan):
        odd = np.where(kept > 0, np.inf, bad)
        assert np.array_equal(plain, declared(make, weight_cap=1.0).fit(X, y, sample_weight=odd).weights_)
    listed = [1.0 if keep else cell for keep, cell in zip(kept, ["heavy", None] * (N // 2), strict=True)]
    assert np.array_equal(plain, declared(make, weight_cap=1.0).fit(X, y, sample_weight=listed).weights_)
    before = len(dc.account().claims)
    declared(make, weight_cap=1.0, random_state=None).fit(X, y, sample_weight=np.full(N, np.nan))
    assert len(dc.account().claims) == before + 1


@every_weighted
def test_weights_of_zero_under_a_declared_cap_are_told_to_nobody(make, data):
    X, y = data
    options = {"weight_cap": 1.0, "random_state": None, "strict": True, "epsilon": 1.0}
    assert declared(make, **options).fit(X, target(make, y), sample_weight=np.zeros(N)).weights_.shape == (4,)


def test_declared_class_weights_are_weights(data):
    X, y = data
    y = target(dc.PrivateLogisticRegression, y)
    by_class = declared(dc.PrivateLogisticRegression, class_weight={1: 3.0}).fit(X, y)
    by_row = declared(dc.PrivateLogisticRegression, weight_cap=3.0).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    assert np.allclose(by_class.weights_, by_row.weights_)
    assert by_class.predict(X).mean() > declared(dc.PrivateLogisticRegression).fit(X, y).predict(X).mean()


@pytest.mark.parametrize("bad", ["balanced", {2: 1.0}, {0: -1.0}, {0: 0.0, 1: 0.0}, {0: np.inf}, {0: "x"}, [1, 2]])
def test_bad_class_weights(bad, data):
    X, y = data
    with pytest.raises(InputError, match="class_weight"):
        declared(dc.PrivateLogisticRegression, class_weight=bad).fit(X, target(dc.PrivateLogisticRegression, y))


# People ------------------------------------------------------------------------------------------------------------


@every_weighted
def test_later_rows_of_a_person_are_left_out(make, data):
    X, y = data
    y = target(make, y)
    people = np.repeat(np.arange(N // 4), 4)
    model = declared(make, rows_per_person=2).fit(X, y, groups=people)
    assert model.receipt_.data["claim"]["derivation"]["unit"] == 2
    late = np.arange(N) % 4 >= 2
    moved = np.where(late[:, None], -X, X)
    assert np.array_equal(declared(make, rows_per_person=2).fit(moved, y, groups=people).weights_, model.weights_)


@pytest.mark.parametrize("make", [*CLASSIFIERS, dc.PrivateHuberRegressor])
def test_groups_make_a_person_the_unit(make, data):
    X, y = data
    model = declared(make).fit(X, target(make, y), groups=[f"person {i // 8}" for i in range(N)])
    assert "person" in str(model.receipt_)
    with pytest.raises(InputError, match="limits what a person"):
        declared(make, algorithm="ObjectivePerturbation").fit(X, target(make, y), groups=np.arange(N))


@every_model
def test_groups_of_the_wrong_form_are_not_charged(make, data):
    X, y = data
    before = len(dc.account().claims)
    for bad in (np.arange(N - 1), np.zeros((N, 1)), [], "everybody"):
        with pytest.raises(FormError, match="groups must hold"):
            declared(make, algorithm="PoissonSGD", random_state=None).fit(X, target(make, y), groups=bad)
    assert len(dc.account().claims) == before


@every_model
def test_rows_of_nobody_change_nothing_and_the_run_is_charged(make, data):
    X, y = data
    nobody = np.arange(N) % 2 == 1
    groups = [None if out else f"person {i // 8}" for i, out in enumerate(nobody)]
    model = declared(make, algorithm="PoissonSGD").fit(X, target(make, y), groups=groups)
    others = np.where(nobody[:, None], -X, X), target(make, np.where(nobody, 20.0 - y, y))
    assert np.array_equal(model.weights_, declared(make, algorithm="PoissonSGD").fit(*others, groups=groups).weights_)
    seen = declared(make, algorithm="PoissonSGD").fit(X, target(make, y), groups=np.arange(N) // 8)
    assert not np.array_equal(model.weights_, seen.weights_)
    before = len(dc.account().claims)
    declared(make, algorithm="PoissonSGD", random_state=None).fit(X, target(make, y), groups=[None] * N)
    assert len(dc.account().claims) == before + 1


# scikit-learn's tools -----------------------------------------------------------------------------------------------


@every_model
def test_tools_that_look_at_rows_without_noise_are_warned_about(make, data):
    X, y = data
    y = target(make, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SelectionWarning)
        model = make_pipeline(FunctionTransformer(np.tanh), declared(make)).fit(X, y)
        model.score(X, y)
    with pytest.warns(SelectionWarning, match="no finite epsilon"):
        search = GridSearchCV(declared(make), {"epsilon": [1.0, 50.0]}, cv=3).fit(X, y)
    assert search.best_params_["epsilon"] in (1.0, 50.0)
    with pytest.warns(SelectionWarning, match="no finite epsilon"):
        assert len(cross_val_predict(declared(make), X, y, cv=3)) == N
    with pytest.warns(SelectionWarning, match="no finite epsilon"):
        found = permutation_importance(declared(make).fit(X, y), X, y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() == 0
    if make in CLASSIFIERS:
        with pytest.warns(SelectionWarning, match="no finite epsilon"):
            calibrated = CalibratedClassifierCV(declared(make), cv=3).fit(X, y)
        assert calibrated.predict_proba(X).shape == (N, 2)


@every_model
def test_a_second_fit_is_a_second_release(make, data):
    X, y = data
    options = {"random_state": None, "epsilon": 1.0}
    declared(make, **options).fit(X, target(make, y))
    with pytest.warns(RepeatedReleaseWarning):
        declared(make, **options).fit(X, target(make, y))
