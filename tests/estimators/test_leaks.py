"""Nothing but the release leaves a fit: attributes, pickles, warnings and errors say nothing of a row."""

import pickle
import warnings

import numpy as np
import pytest

import dpconvex as dc

PUBLIC = {
    "classes_", "weights_", "receipt_", "n_features_in_", "feature_names_in_",
    "epsilon", "delta", "schema", "feature_bound", "classes", "fit_intercept", "algorithm", "relation",
    "rows_per_person", "weight_cap", "class_weight", "random_state", "strict",
}  # fmt: skip
SCHEMA = dc.Schema(
    {
        "age": dc.schema.Number(0, 120),
        "spent": dc.schema.Number(0, 1e5, log=True, missing="flag"),
        "town": dc.schema.Category(["A", "B"]),
        "seen": dc.schema.Date("2020-01-01", "2021-01-01"),
    },
    dc.schema.Classes("ill", [0, 1]),
    name="leaks",
)
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


def outside(model, frame):
    """Everything but the released weights that somebody who did not see the data could look at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame)
    state = dict(vars(model))
    weights, receipt = state.pop("weights_"), dict(state.pop("receipt_").data)
    for changing in ("digest", "released"):
        receipt.pop(changing)
    told = [(w.category, str(w.message)) for w in caught if "release" not in str(w.message)]
    return repr(sorted(state.items())), weights.shape, weights.dtype, receipt, told


@pytest.mark.parametrize("algorithm", ["auto", "NoisyGD", "PhasedSGD"])
@pytest.mark.parametrize("row", EXTREMES)
def test_a_replaced_record_changes_nothing_but_the_weights(rng, algorithm, row):
    frame = table(rng)
    for delta in (1e-6, 0.5):  # the second warns, on both alike
        model = dc.PrivateLogisticRegression(schema=SCHEMA, algorithm=algorithm, delta=delta)
        assert outside(model, frame) == outside(model, replaced(frame, row))


def test_constant_labels_and_constant_columns_look_like_any_others(rng):
    frame = table(rng)
    constant = frame | {"ill": [1] * 80, "age": [50.0] * 80}
    model = dc.PrivateLogisticRegression(schema=SCHEMA)
    assert outside(model, frame) == outside(model, constant)


def test_a_fitted_model_holds_public_facts_and_the_release_only(rng):
    model = dc.PrivateLogisticRegression(schema=SCHEMA).fit(table(rng))
    assert set(vars(model)) <= PUBLIC
    assert not {"n_iter_", "loss_curve_", "converged_", "n_samples_"} & set(dir(model))
    assert model.weights_.size == len(dc.PrivatePreprocessor(SCHEMA).fit(table(rng)).get_feature_names_out()) + 1


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
