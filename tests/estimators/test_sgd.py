"""Models from one pass, over rows in memory and rows in batches; nothing is released if a batch is wrong."""

import gc
import weakref
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import dpconvex as dc
from dpconvex.errors import InputError, PrivacyLeakWarning
from dpconvex.problem.losses import Huber, LogCosh, Logistic, SmoothedHinge

MODELS = [dc.PrivateSGDClassifier, dc.PrivateSGDRegressor]
N, BOUND = 600, 2.0


def rows(n=N, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


def task(model, n=N, d=3):
    X, z = rows(n, d)
    return (X, np.where(z > 0, "yes", "no")) if model is dc.PrivateSGDClassifier else (X, 50 + 20 * z)


def declared(model, **options):
    target = {"classes": ["no", "yes"]} if model is dc.PrivateSGDClassifier else {"target_range": (0, 100)}
    return model(**{"feature_bound": BOUND, "n_rows": N, "random_state": 0, **target, **options})


def cut(X, y, size):
    return ((X[a : a + size], y[a : a + size]) for a in range(0, len(y), size))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", [np.asarray, np.float32, sparse.csr_matrix, sparse.csr_array, pd.DataFrame])
@pytest.mark.parametrize("size", [1, 37, 600])
def test_batches_fit_what_rows_in_order_fit(model, kind, size):
    X, y = task(model)
    X = kind(X) if kind is not pd.DataFrame else pd.DataFrame(X, columns=["a", "b", "c"])
    whole = declared(model, shuffle=False).fit(X, y)
    part = X.iloc if kind is pd.DataFrame else X
    pieces = declared(model).fit_batches(cut(part, y, size))
    assert np.array_equal(pieces.weights_, whole.weights_)
    assert pieces.receipt_.data == whole.receipt_.data
    assert np.array_equal(pieces.predict(X), whole.predict(X))
    assert pieces.n_features_in_ == 3
    assert hasattr(pieces, "feature_names_in_") == (kind is pd.DataFrame)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("d", [1, 3])
def test_one_pass_learns(model, d):
    X, y = task(model, n=20_000, d=d)
    for loss in model.LOSSES:
        found = declared(model, loss=loss, n_rows=20_000, delta=1e-7, random_state=None).fit_batches(cut(X, y, 3000))
        assert found.score(X, y) > 0.85
        assert found.receipt_.private
        assert found.receipt_.epsilon <= 1.0
        assert found.receipt_.data["outside"]["read_from_data"] == []
        assert dc.verify(found.receipt_)


@pytest.mark.parametrize("model", MODELS)
def test_fit_shuffles_rows_that_were_sorted(model):
    X, y = task(model, n=5000)
    order = np.argsort(y)
    shuffled = declared(model, epsilon=8.0).fit(X[order], y[order])
    assert shuffled.score(X, y) > 0.8
    assert shuffled.score(X, y) > declared(model, epsilon=8.0, shuffle=False).fit(X[order], y[order]).score(X, y)


def test_losses_and_radius():
    X, y = task(dc.PrivateSGDClassifier)
    row = np.hypot(BOUND, 0.3 * BOUND)
    for loss, kind, reach in (("log_loss", Logistic, 15.0), ("hinge", SmoothedHinge, 8.0)):
        problem = declared(dc.PrivateSGDClassifier, loss=loss).fit(X, y).receipt_.problem
        assert isinstance(problem.loss, kind)
        assert problem.domain.radius == pytest.approx(reach / row)
    X, y = task(dc.PrivateSGDRegressor)
    for loss, kind in (("squared_error", LogCosh), ("huber", Huber)):
        fitted = declared(dc.PrivateSGDRegressor, loss=loss).fit(X, y)
        assert isinstance(fitted.receipt_.problem.loss, kind)
        assert fitted.receipt_.problem.domain.radius == pytest.approx(3.0 / row)
    tight = declared(dc.PrivateSGDRegressor, radius=0.01).fit(X, y)
    assert np.linalg.norm(tight.weights_) <= 0.01 * (1 + 1e-12)
    assert declared(dc.PrivateSGDClassifier, fit_intercept=False).fit(*task(dc.PrivateSGDClassifier)).coef_.shape == (
        1,
        3,
    )


def test_probabilities_come_with_the_log_loss_only():
    X, y = task(dc.PrivateSGDClassifier)
    model = declared(dc.PrivateSGDClassifier).fit(X, y)
    found = model.predict_proba(X)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.allclose(np.exp(model.predict_log_proba(X)), found)
    assert np.allclose(found[:, 1], 1 / (1 + np.exp(-model.decision_function(X))))
    assert not hasattr(declared(dc.PrivateSGDClassifier, loss="hinge").fit(X, y), "predict_proba")


@pytest.mark.parametrize("model", MODELS)
def test_models_are_saved_and_cloned(model, tmp_path):
    X, y = task(model)
    fitted = declared(model, radius=2.0, shuffle=False).fit_batches(cut(X, y, 100))
    fitted.save(tmp_path / "model.json")
    again = dc.load(tmp_path / "model.json")
    assert np.array_equal(again.predict(X), fitted.predict(X))
    kept = again.get_params()
    assert (kept["n_rows"], kept["radius"], kept["shuffle"], kept["random_state"]) == (N, 2.0, False, None)
    assert not hasattr(clone(fitted), "weights_")


def test_people_with_several_rows_are_protected_together():
    X, y = task(dc.PrivateSGDClassifier)
    model = declared(dc.PrivateSGDClassifier, rows_per_person=3).fit_batches(cut(X, y, 100))
    assert "3 records" in str(model.receipt_)


# Undeclared facts and other mistakes ---------------------------------------------------------------------------------


def untouchable():
    pytest.fail("a batch was drawn")
    yield


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["n_rows", "feature_bound", "target"])
def test_what_is_not_declared_is_refused_before_a_batch_is_drawn(model, name):
    name = model.PUBLIC[0].removesuffix("_") if name == "target" else name
    with pytest.raises(InputError, match=f"declare {name}"):
        declared(model, **{name: None}).fit_batches(untouchable())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_rows": 0}, "n_rows"),
        ({"n_rows": 2.5}, "n_rows"),
        ({"n_rows": True}, "n_rows"),
        ({"schema": "visits"}, "schema"),
        ({"loss": "absolute"}, "loss must be one of"),
        ({"loss": None}, "loss must be one of"),
    ],
    ids=str,
)
def test_wrong_declarations_are_refused_before_a_batch_is_drawn(model, options, words):
    with pytest.raises(InputError, match=words):
        declared(model, **options).fit_batches(untouchable())


@pytest.mark.parametrize(
    "options", [{"radius": 0.0}, {"radius": np.nan}, {"radius": "far"}, {"shuffle": "often"}], ids=str
)
def test_wrong_options_are_refused(options):
    model = declared(dc.PrivateSGDClassifier, **options)
    X, y = task(dc.PrivateSGDClassifier)
    with pytest.raises(InputError, match=next(iter(options))):
        model.fit(X, y)


def test_two_classes_only():
    X, _ = rows(30)
    with pytest.raises(InputError, match="Only binary"):
        declared(dc.PrivateSGDClassifier, classes=[0, 1, 2]).fit_batches(untouchable())
    with pytest.warns(PrivacyLeakWarning), pytest.raises(InputError, match="Only binary"):
        declared(dc.PrivateSGDClassifier, classes=None).fit(X, np.arange(30) % 3)


def test_a_plain_fit_reads_what_was_not_declared_and_says_so():
    X, y = task(dc.PrivateSGDRegressor)
    with pytest.warns(PrivacyLeakWarning):
        model = dc.PrivateSGDRegressor(random_state=0).fit(X, y)
    assert model.receipt_.data["outside"]["read_from_data"] == ["feature_bound", "target_range"]
    with pytest.raises(InputError, match="strict"):
        dc.PrivateSGDRegressor(strict=True).fit(X, y)
    with pytest.raises(InputError, match="at least 2 rows"):
        declared(dc.PrivateSGDRegressor).fit(X[:1], y[:1])


def change(batches, place, X=lambda X: X, y=lambda y: y):
    batches = [(a.copy(), b.copy()) for a, b in batches]
    batches[place] = X(batches[place][0]), y(batches[place][1])
    return batches


def put(value):
    def spoil(X):
        X[3, 1] = value
        return X

    return spoil


WRONG = {
    "NaN": (lambda bs: change(bs, -1, X=put(np.nan)), "NaN"),
    "infinite": (lambda bs: change(bs, 3, X=put(np.inf)), "infinite"),
    "infinite at first": (lambda bs: change(bs, 0, X=put(np.inf)), "infinite"),
    "features": (lambda bs: change(bs, 2, X=lambda X: X[:, :2]), "features"),
    "rows": (lambda bs: change(bs, 2, X=lambda X: X[:-1]), "batch 3: y must have shape"),
    "flat": (lambda bs: change(bs, 2, X=lambda X: X[:, 0]), "2D array"),
    "text": (lambda bs: change(bs, 2, X=lambda X: np.full((100, 3), "x")), "text"),
    "square target": (lambda bs: change(bs, 2, y=lambda y: np.column_stack([y, y])), "1d array"),
    "no pair": (lambda bs: [*bs[:3], bs[3][0], *bs[4:]], "pairs"),
    "fewer": (lambda bs: bs[:-1], "hold 500 rows"),
    "more": (lambda bs: [*bs, bs[0]], "more rows than the n = 600"),
    "none": (lambda bs: [], "hold no rows"),
    "no target": (lambda bs: change(bs, 0, y=lambda y: None), "without y"),
    "features at first": (lambda bs: change(bs, 0, X=lambda X: X[:, 0]), "2D array"),
    "no target later": (lambda bs: change(bs, 2, y=lambda y: None), "without y"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", WRONG)
def test_only_a_mistake_of_public_form_in_the_first_batch_is_not_charged(model, name):
    spoil, words = WRONG[name]
    before = len(dc.account("default").claims)
    fitted = declared(model, random_state=None)
    with pytest.raises(InputError, match=words):
        fitted.fit_batches(iter(spoil(list(cut(*task(model), 100)))))
    free = name in ("none", "no target", "features at first")
    assert len(dc.account("default").claims) == before + (not free)
    assert not hasattr(fitted, "weights_")


@pytest.mark.parametrize(
    ("model", "odd", "instead"),
    [
        (dc.PrivateSGDClassifier, "perhaps", None),
        (dc.PrivateSGDClassifier, None, None),
        (dc.PrivateSGDRegressor, "many", 50.0),
        (dc.PrivateSGDRegressor, np.nan, 50.0),
        (dc.PrivateSGDRegressor, np.inf, 100.0),
    ],
)
def test_a_target_that_does_not_fit_is_the_first_class_or_the_middle(model, odd, instead):
    X, y = task(model)
    y = y.astype(object)
    y[-1] = odd
    found = declared(model).fit_batches(cut(X, y, 100))
    y[-1] = found.classes_[0] if instead is None else instead
    assert np.array_equal(declared(model).fit_batches(cut(X, y, 100)).weights_, found.weights_)


def test_what_a_source_raises_passes_through_and_stays_charged():
    def failing():
        yield from list(cut(*task(dc.PrivateSGDClassifier), 100))[:3]
        raise ConnectionError("gone")

    before = len(dc.account("default").claims)
    model = declared(dc.PrivateSGDClassifier, random_state=None)
    with pytest.raises(ConnectionError, match="gone"):
        model.fit_batches(failing())
    assert len(dc.account("default").claims) == before + 1
    assert not hasattr(model, "weights_")
    with pytest.raises(InputError, match="iterable"):
        model.fit_batches(3)


def test_targets_and_rows_beyond_their_bounds_are_brought_back():
    X, y = task(dc.PrivateSGDRegressor)
    model = declared(dc.PrivateSGDRegressor)
    far = declared(dc.PrivateSGDRegressor, shuffle=False).fit(1e3 * X, np.where(y > 50, 1e9, -1e9))
    near = X * (BOUND / np.linalg.norm(X, axis=1, keepdims=True))
    assert np.allclose(model.fit_batches(cut(near, np.where(y > 50, 100.0, 0.0), 77)).weights_, far.weights_)


def test_one_batch_is_held_at_a_time():
    X, y = task(dc.PrivateSGDClassifier)
    alive = []

    def watched():
        for start in range(0, N, 50):
            batch = X[start : start + 50].copy()
            alive.append(weakref.ref(batch))
            yield batch, y[start : start + 50]
            del batch
            gc.collect()
            assert not any(ref() is not None for ref in alive)

    declared(dc.PrivateSGDClassifier).fit_batches(watched())
    assert len(alive) == 12


# Tables --------------------------------------------------------------------------------------------------------------

SCHEMA = dc.Schema(
    {
        "age": dc.schema.Number(18, 110),
        "ward": dc.schema.Category(["A", "B", "C"]),
        "admitted": dc.schema.Date("2020-01-01", "2025-12-31"),
        "note": dc.schema.Ignore("free text"),
    },
    target=dc.schema.Classes("readmitted", ["no", "yes"]),
    name="parquet clinic",
)


@pytest.fixture
def visits():
    rng = np.random.default_rng(3)
    n = 10_000
    age = rng.integers(18, 100, n)
    ward = rng.choice(["A", "B", "C"], n)
    risk = (age - 60) / 15 + (ward == "C") + rng.logistic(size=n) / 2
    return pl.DataFrame(
        {
            "age": pl.Series(age).cast(pl.Int64),
            "ward": ward,
            "admitted": np.datetime64("2020-01-01") + rng.integers(0, 2000, n).astype("timedelta64[D]"),
            "note": [None if i % 7 else "nothing" for i in range(n)],
            "readmitted": np.where(risk > 0, "yes", "no"),
        }
    ).with_columns(pl.when(pl.col("age") == 41).then(None).otherwise(pl.col("age")).alias("age"))


def row_groups(path, size):
    table = pl.scan_parquet(path)
    for start in range(0, table.select(pl.len()).collect().item(), size):
        yield table.slice(start, size).collect()


def test_a_parquet_file_goes_in_by_its_row_groups(visits, tmp_path):
    path = tmp_path / "visits.parquet"
    visits.write_parquet(path, row_group_size=1500)
    model = dc.PrivateSGDClassifier(schema=SCHEMA, n_rows=10_000, random_state=0)
    model.fit_batches(row_groups(path, 1500))
    whole = dc.PrivateSGDClassifier(schema=SCHEMA, shuffle=False, random_state=0).fit(visits)
    assert np.array_equal(model.weights_, whole.weights_)
    assert model.score(visits, visits["readmitted"]) > 0.8
    assert model.feature_names_in_.tolist() == ["age", "ward", "admitted", "note"]
    assert model.receipt_.data["dataset"]["name"] == "parquet clinic"
    apart = ((frame.drop("readmitted"), frame["readmitted"].to_numpy()) for frame in row_groups(path, 999))
    again = dc.PrivateSGDClassifier(schema=SCHEMA, n_rows=10_000, random_state=0).fit_batches(apart)
    assert np.array_equal(again.weights_, model.weights_)


def test_frames_of_every_kind_and_dicts(visits):
    table = visits.head(500)
    frames = {
        "polars": table,
        "pandas": pd.DataFrame(table.to_dict(as_series=False)),
        "dict": table.to_dict(as_series=False),
    }
    weights = []
    for kind, frame in frames.items():
        part = (
            (lambda a, f=frame: {k: v[a : a + 70] for k, v in f.items()})
            if kind == "dict"
            else (lambda a, f=frame: f[a : a + 70])
        )
        model = dc.PrivateSGDClassifier(schema=SCHEMA, n_rows=500, random_state=0)
        weights.append(model.fit_batches(part(a) for a in range(0, 560, 70)).weights_)  # the last one is empty
    assert np.array_equal(weights[0], weights[1])
    assert np.array_equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("readmitted", "maybe", ""), ("ward", None, ""), ("age", "old", ""), ("extra", 1, "extra")],
)
def test_a_later_row_group_is_refused_for_its_columns_and_not_for_its_cells(visits, column, value, words):
    schema = dc.Schema(SCHEMA.columns, SCHEMA.target, name=f"later {column}")
    frame = visits.head(400)
    wrong = frame[300:].with_columns(pl.lit(value).alias(column))
    model = dc.PrivateSGDClassifier(schema=schema, n_rows=400)
    with pytest.raises(InputError, match=words) if words else nullcontext():
        model.fit_batches(iter([frame[:150], frame[150:300], wrong]))
    assert len(dc.account(schema.name).claims) == 1


def test_the_schema_may_leave_the_target_to_the_model(visits):
    bare = dc.Schema(SCHEMA.columns, name="bare")
    frame = visits.head(400)
    X, y = frame.drop("readmitted"), frame["readmitted"].to_numpy()
    with pytest.raises(InputError, match="declare classes"):
        dc.PrivateSGDClassifier(schema=bare, n_rows=400).fit_batches(untouchable())
    model = dc.PrivateSGDClassifier(schema=bare, classes=["no", "yes"], n_rows=400, random_state=0)
    assert model.fit_batches([(X[:100], y[:100]), (X[100:], y[100:])]).classes_.tolist() == ["no", "yes"]
    with pytest.raises(InputError, match="follow"):
        dc.PrivateSGDClassifier(schema=SCHEMA, classes=["no", "yes"], n_rows=400).fit_batches(untouchable())
