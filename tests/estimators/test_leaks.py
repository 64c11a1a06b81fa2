"""Nothing but the release leaves a fit: attributes, pickles, warnings and errors say nothing of a row."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.estimators.predictors import PrivateRegressor

COLUMNS = {
    "age": dc.schema.Number(0, 120),
    "spent": dc.schema.Number(0, 1e5, log=True, missing="flag"),
    "town": dc.schema.Category(["A", "B"]),
    "seen": dc.schema.Date("2020-01-01", "2021-01-01"),
}
SCHEMA = dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 1]), name="leaks")
RANGE = dc.Schema(COLUMNS, dc.schema.Range("ill", 0, 1), name="leaks")
MODELS = [
    (dc.PrivateLogisticRegression, {}),
    (dc.PrivateLogisticRegression, {"algorithm": "NoisyGD"}),
    (dc.PrivateLogisticRegression, {"algorithm": "PhasedSGD"}),
    (dc.PrivateLogisticRegression, {"class_weight": {0: 1.0, 1: 3.0}}),
    (dc.PrivateLinearSVC, {}),
    (dc.PrivateRidge, {}),
    (dc.PrivateRidge, {"algorithm": "SufficientStatistics"}),
    (dc.PrivateHuberRegressor, {}),
    (dc.PrivateQuantileRegressor, {}),
    (dc.PrivateLasso, {}),
    (dc.PrivateSparseLogisticRegression, {}),
    (dc.PrivateSGDClassifier, {}),
    (dc.PrivateSGDRegressor, {}),
    (dc.PrivateOnlineClassifier, {}),
    (dc.PrivateOnlineRegressor, {}),
]
NAMES = [" ".join([model.__name__, *map(str, options.values())]) for model, options in MODELS]
EVERY_MODEL = pytest.mark.parametrize(("model", "options"), MODELS, ids=NAMES)
EXTREMES = [
    (0.0, 0.0, "A", "2020-01-01", 0),
    (1e300, 1e300, "B", "9999-12-31", 1),
    (-1e300, -5e-324, "B", "0001-01-01", 0),
    (np.nan, np.nan, None, None, 1),
]


def table(rng, n=80):
    return {
        "age": rng.uniform(0, 120, n).tolist(),
        "spent": rng.uniform(0, 1e5, n).tolist(),
        "town": rng.choice(["A", "B"], n).tolist(),
        "seen": ["2020-06-01"] * n,
        "ill": rng.integers(0, 2, n).tolist(),
    }


def replaced(frame, row):
    """The same table with its third record replaced."""
    return {name: [*cells[:2], value, *cells[3:]] for (name, cells), value in zip(frame.items(), row, strict=True)}


def outside(model, frame, **more):
    """Everything but the released weights that somebody who did not see the data could look at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame, **more)
    state = dict(vars(model))
    weights, receipt = state.pop("weights_"), dict(state.pop("receipt_").data)
    state["moments_"] = {name: np.shape(drawn) for name, drawn in state.get("moments_", {}).items()}
    for changing in ("digest", "released"):
        receipt.pop(changing)
    told = [(w.category, str(w.message)) for w in caught if "release" not in str(w.message)]
    return repr(sorted(state.items())), weights.shape, weights.dtype, receipt, told


def build(model, options, **more):
    return model(schema=RANGE if issubclass(model, PrivateRegressor) else SCHEMA, **options, **more)


@EVERY_MODEL
@pytest.mark.parametrize("row", EXTREMES)
def test_a_replaced_record_changes_nothing_but_the_weights(rng, model, options, row):
    frame = table(rng)
    for delta in (1e-6, 0.5):  # the second warns, on both alike
        fresh = build(model, options, delta=delta)
        assert outside(fresh, frame) == outside(fresh, replaced(frame, row))


@EVERY_MODEL
def test_constant_targets_and_constant_columns_look_like_any_others(rng, model, options):
    frame = table(rng)
    constant = frame | {"ill": [1] * 80, "age": [50.0] * 80}
    fresh = build(model, options)
    assert outside(fresh, frame) == outside(fresh, constant)


@EVERY_MODEL
def test_a_fitted_model_holds_public_facts_and_the_release_only(rng, model, options):
    fitted = build(model, options).fit(table(rng))
    public = {"weights_", "moments_", "receipt_", "n_features_in_", "feature_names_in_", *fitted.PUBLIC}
    assert set(vars(fitted)) <= public | set(vars(build(model, options)))
    assert ("moments_" in vars(fitted)) == (options.get("algorithm") == "SufficientStatistics")
    assert not {"n_iter_", "loss_curve_", "converged_", "n_samples_"} & set(dir(fitted))
    assert (
        fitted.weights_.size == len(dc.PrivatePreprocessor(fitted.schema).fit(table(rng)).get_feature_names_out()) + 1
    )


@pytest.mark.parametrize(
    "model", [dc.PrivateLogisticRegression, dc.PrivateLinearSVC, dc.PrivateRidge, dc.PrivateHuberRegressor]
)
def test_extreme_weights_look_like_any_others(rng, model):
    fresh, frame = build(model, {}, weight_cap=2.0), table(rng)
    weights = [np.ones(80), np.r_[1e300, np.ones(79)], np.zeros(80)]
    seen = [outside(fresh, frame, sample_weight=w) for w in weights]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (dc.PrivateLogisticRegression, {}),
        (dc.PrivateLinearSVC, {}),
        (dc.PrivateRidge, {}),
        (dc.PrivateHuberRegressor, {}),
        (dc.PrivateQuantileRegressor, {"algorithm": "PoissonSGD"}),
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_one_person_with_every_row_looks_like_any_other(rng, model, options, rows):
    """Rows of a person are clipped together, or those beyond the number declared are dropped, without a word."""
    frame, fresh = table(rng), build(model, options)
    fresh.schema = dataclasses.replace(fresh.schema, rows_per_person=rows)
    assert outside(fresh, frame, groups=np.arange(80)) == outside(fresh, frame, groups=np.zeros(80, dtype=int))


def test_rows_that_cannot_be_left_out_are_not_called_weights(rng):
    model = dc.PrivateQuantileRegressor(
        algorithm="PhasedERM", rows_per_person=2, feature_bound=2.0, target_range=(0, 1)
    )
    with pytest.raises(dc.errors.InputError, match="PhasedERM cannot leave out the later rows of people"):
        model.fit(rng.uniform(-1, 1, (80, 3)), rng.uniform(0, 1, 80), groups=np.arange(80))


def test_a_pickle_holds_no_row_and_no_state_of_the_noise(rng):
    X = rng.uniform(-1, 1, size=(50, 3))
    X[7] = marker = [0.123456789012345, -0.98765432109876, 0.55555555555512]
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1]).fit(X, np.arange(50) % 2)
    stored = pickle.dumps(model) + repr(model.receipt_.data).encode()
    for entry in marker:
        assert np.float64(entry).tobytes() not in stored
        assert np.float64(entry).tobytes()[::-1] not in stored
        assert repr(entry).encode() not in stored
    for word in (b"Source", b"Stream", b"ChaCha20 key", b"RandomState", b"BitGenerator", b"Cipher"):
        assert word not in pickle.dumps(model)


def test_a_copied_or_cloned_model_draws_fresh_noise(rng):
    import copy

    X, y = rng.uniform(-1, 1, size=(50, 3)), np.arange(50) % 2
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1]).fit(X, y)
    twins = [copy.deepcopy(model).fit(X, y).weights_ for _ in range(2)] + [model.weights_]
    assert len({w.tobytes() for w in twins}) == 3
