"""Estimators of streams: portions, schemas, checkpoints, and what they refuse."""

import copy
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpconvex as dc
from dpconvex.errors import InputError, PrivacyLeakWarning, RepeatedReleaseWarning

BOUND = dc.bounds.Linf(1.0)
COLUMNS = {"age": dc.schema.Number(0, 100), "town": dc.schema.Category(["A", "B"])}
KINDS = [
    (dc.PrivateOnlineClassifier, {"classes": ["no", "yes"]}),
    (dc.PrivateOnlineClassifier, {"classes": ["no", "yes"], "loss": "hinge"}),
    (dc.PrivateOnlineRegressor, {"target_range": (0.0, 10.0)}),
    (dc.PrivateOnlineRegressor, {"target_range": (0.0, 10.0), "loss": "huber"}),
]
every_kind = pytest.mark.parametrize(("model", "options"), KINDS, ids=lambda v: v if isinstance(v, str) else None)


def rows(n, seed=0, model=dc.PrivateOnlineClassifier):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    if model is dc.PrivateOnlineRegressor:
        return X, 5.0 + 3.0 * X[:, 0]
    return X, np.where(X[:, 0] > 0, "yes", "no")


def new(model, options, **more):
    return model(**{"feature_bound": BOUND, "epsilon": 4.0, **options, **more})


@every_kind
def test_a_stream_learns_and_every_model_of_it_is_under_one_guarantee(model, options):
    stream = new(model, options, random_state=0)
    for seed in range(10):
        stream.partial_fit(*rows(1000, seed, model))
        assert dc.verify(stream.receipt_)
        assert stream.n_samples_seen_ == 1000 * (seed + 1)
    assert stream.score(*rows(2000, 99, model)) > 0.85
    assert stream.receipt_.epsilon <= 4.0


@every_kind
def test_cutting_does_not_matter_where_it_cuts_between_rounds(model, options):
    X, y = rows(640, 1, model)
    one, many = (new(model, options, batch_size=32, random_state=3) for _ in range(2))
    one.partial_fit(X, y)
    for first in range(0, 640, 64):
        many.partial_fit(X[first : first + 64], y[first : first + 64])
    assert np.array_equal(one.weights_, many.weights_)


def test_fit_ends_its_stream_and_partial_fit_begins_another():
    X, y = rows(500)
    model = new(*KINDS[0], random_state=0).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)
    model.partial_fit(X[:10], y[:10])
    assert model.n_samples_seen_ == 10
    with pytest.raises(TypeError, match="while it is open"):
        pickle.dumps(model)


def test_streams_are_charged_once_and_a_second_stream_again():
    schema = dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 1]), name="charged streams")
    frame = pd.DataFrame({"age": [10.0, 90.0] * 20, "town": ["A", "B"] * 20, "ill": [0, 1] * 20})
    model = dc.PrivateOnlineClassifier(schema=schema)
    for _ in range(3):
        model.partial_fit(frame)
    assert len(dc.account("charged streams").claims) == 1
    with pytest.warns(RepeatedReleaseWarning):
        dc.PrivateOnlineClassifier(schema=schema).partial_fit(frame)
    assert len(dc.account("charged streams").claims) == 2


def test_frames_with_a_schema_and_rows_per_person():
    schema = dc.Schema(COLUMNS, dc.schema.Range("cost", 0, 50), name="cost stream", rows_per_person=3)
    rng = np.random.default_rng(0)
    model = dc.PrivateOnlineRegressor(schema=schema, epsilon=8.0, random_state=0)
    for _ in range(5):
        age = rng.uniform(0, 100, 2000)
        model.partial_fit(pd.DataFrame({"age": age, "town": rng.choice(["A", "B"], 2000), "cost": age / 2}))
    assert model.receipt_.data["dataset"]["unit"] == 3
    assert model.score({"age": age, "town": ["A"] * 2000}, age / 2) > 0.3
    assert list(model.feature_names_in_) == ["age", "town"]


def test_classes_may_be_told_with_the_first_rows():
    X, y = rows(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model = dc.PrivateOnlineClassifier(feature_bound=BOUND, random_state=0).partial_fit(X, y, classes=["yes", "no"])
        model.partial_fit(X[:1], ["yes"]).partial_fit(X, y, classes=["no", "yes"])
    assert model.classes is None
    assert model.classes_.tolist() == ["no", "yes"]
    with pytest.raises(InputError, match="differ from those"):
        model.partial_fit(X, y, classes=["no", "maybe"])
    with pytest.raises(InputError, match="differ from those"):
        dc.PrivateOnlineClassifier(feature_bound=BOUND, classes=[0, 1]).partial_fit(X, y, classes=[1, 2])


def test_what_is_not_declared_is_read_from_the_first_rows_with_a_warning_and_then_stays():
    X, y = rows(100)
    with pytest.warns(PrivacyLeakWarning):
        model = dc.PrivateOnlineClassifier(random_state=0).partial_fit(X, y)
    bound = model.receipt_.problem.feature_bound
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.partial_fit(100.0 * X, y)
    assert model.receipt_.problem.feature_bound == bound
    assert set(model.receipt_.data["outside"]["read_from_data"]) == {"feature_bound", "classes"}
    with pytest.raises(InputError, match="strict"):
        dc.PrivateOnlineClassifier(strict=True).partial_fit(X, y)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((2, 2)), ["no", "yes"]),
        (np.ones((2, 3)), ["no"]),
        (np.full((2, 3), np.nan), ["no", "yes"]),
        (np.full((2, 3), np.inf), ["no", "yes"]),
        (np.ones((2, 3)), None),
        (np.empty((0, 3)), []),
        ([["a", "b", "c"]], ["no"]),
    ],
)
def test_mistakes_of_form_leave_the_stream_as_it_was(X, y):
    one, other = (new(*KINDS[0], random_state=0).partial_fit(*rows(100)) for _ in range(2))
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn says some of it)
        one.partial_fit(X, y)
    for model in (one, other):
        model.partial_fit(*rows(100, 1))
    assert np.array_equal(one.weights_, other.weights_)


def test_columns_of_the_first_rows_are_refused_for_free_and_cells_not_at_all():
    schema = dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 1]), name="first rows wrong")
    model = dc.PrivateOnlineClassifier(schema=schema)
    with pytest.raises(InputError, match="ill"):
        model.partial_fit(pd.DataFrame({"age": [1.0], "town": ["A"]}))
    assert dc.account("first rows wrong").claims == ()
    model.partial_fit(pd.DataFrame({"age": ["old"], "town": [7], "ill": [7]}))
    assert model.n_samples_seen_ == len(dc.account("first rows wrong").claims) == 1


def test_a_row_without_a_target_weighs_nothing_in_a_stream():
    X, y = rows(100)
    models = [new(*KINDS[0], random_state=0).partial_fit(*rows(100, 1)) for _ in range(2)]
    odd = np.asarray(y, dtype=object)
    odd[-1] = "perhaps"
    models[0].partial_fit(X, odd)
    X[-1] = 0.0
    models[1].partial_fit(X[:-1], y[:-1])
    assert abs(models[0].weights_ - models[1].weights_).max() < 0.1
    assert models[0].n_samples_seen_ == 200


def test_sparse_single_precision_one_feature_and_constant_columns():
    X, y = rows(300)
    dense, thin = (new(*KINDS[0], random_state=0) for _ in range(2))
    dense.partial_fit(X, y)
    thin.partial_fit(sparse.csr_matrix(X), y)
    assert np.allclose(dense.weights_, thin.weights_, rtol=1e-10)
    thin.partial_fit(X.astype(np.float32), y)
    one = new(*KINDS[0], random_state=0).partial_fit(np.ones((5, 1)), ["yes"] * 5)
    assert one.coef_.shape == (1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"max_rounds": 0}, "rounds"),
        ({"loss": "squared"}, "loss"),
        ({"radius": -1.0}, "radius"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"classes": ["no", "yes", "maybe"]}, "Only binary"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(InputError, match=message):
        new(dc.PrivateOnlineClassifier, {"classes": ["no", "yes"], **options}).partial_fit(*rows(10))


def test_a_horizon_ends_the_stream():
    model = new(*KINDS[0], batch_size=10, max_rounds=3).partial_fit(*rows(20))
    with pytest.raises(InputError, match="2 rounds are needed and 1 are left"):
        model.partial_fit(*rows(11))
    model.partial_fit(*rows(10))


def test_within_a_pipeline():
    X, y = rows(400)
    model = make_pipeline(FunctionTransformer(), new(*KINDS[0], random_state=0)).fit(X, y)
    assert model.score(X, y) > 0.8


# Checkpoints -------------------------------------------------------------------------------------------------------


@every_kind
def test_a_resumed_estimator_goes_on_as_if_nothing_had_happened(model, options, tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    whole, first = (new(model, options, random_state=7) for _ in range(2))
    for part in (whole, first):
        part.partial_fit(*rows(130, 0, model))
    first.save_checkpoint(*files)
    again = new(model, options, random_state=7).resume(*files)
    assert again.n_samples_seen_ == 130
    assert again.receipt_ == first.receipt_
    for part in (whole, again):
        part.partial_fit(*rows(70, 1, model))
    assert np.array_equal(whole.weights_, again.weights_)
    assert (
        again.receipt_.data["dataset"]["stream"]
        == first.receipt_.data["dataset"]["stream"]
        != whole.receipt_.data["dataset"]["stream"]
    )


def test_a_resumed_estimator_knows_what_was_read_from_the_first_rows(tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    X, y = rows(50)
    with pytest.warns(PrivacyLeakWarning):
        model = dc.PrivateOnlineClassifier().partial_fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    model.save_checkpoint(*files)
    again = dc.PrivateOnlineClassifier().resume(*files)
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    again.partial_fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    assert again.n_samples_seen_ == 100
    assert again.classes_.tolist() == ["no", "yes"]


def test_a_resumed_estimator_with_a_schema(tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    schema = dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 1]), name="resumed schema", rows_per_person=2)
    frame = pd.DataFrame({"age": [10.0, 90.0], "town": ["A", "B"], "ill": [0, 1]})
    dc.PrivateOnlineClassifier(schema=schema).partial_fit(frame).save_checkpoint(*files)
    again = dc.PrivateOnlineClassifier(schema=schema).resume(*files).partial_fit(frame)
    assert again.n_samples_seen_ == 4
    assert len(dc.account("resumed schema").claims) == 1


@pytest.mark.parametrize("changed", [{"epsilon": 0.01}, {"loss": "hinge"}, {"rows_per_person": 9}, {"batch_size": 3}])
def test_settings_do_not_change_in_mid_stream(changed):
    model = new(*KINDS[0]).partial_fit(*rows(20))
    with pytest.raises(InputError, match="mid-stream"):
        model.set_params(**changed).partial_fit(*rows(20))


def test_another_schema_cannot_go_on(tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    target = dc.schema.Classes("ill", [0, 1])
    schema = dc.Schema(COLUMNS, target, name="one table")
    frame = pd.DataFrame({"age": [10.0, 90.0], "town": ["A", "B"], "ill": [0, 1]})
    dc.PrivateOnlineClassifier(schema=schema).partial_fit(frame).save_checkpoint(*files)
    others = [
        dc.Schema(COLUMNS, target, name="another table"),
        dc.Schema({**COLUMNS, "age": dc.schema.Number(0, 50)}, target, name="one table"),
        dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 2]), name="one table"),
    ]
    for other in others:
        with pytest.raises(InputError, match="another schema"):
            dc.PrivateOnlineClassifier(schema=other).resume(*files)


def test_strict_does_not_go_on_from_what_was_read(tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    with pytest.warns(PrivacyLeakWarning):
        dc.PrivateOnlineClassifier().partial_fit(*rows(50)).save_checkpoint(*files)
    with pytest.raises(InputError, match="strict=True"):
        dc.PrivateOnlineClassifier(strict=True).resume(*files)


def test_fit_does_not_end_an_open_stream():
    X, y = rows(50)
    model = new(*KINDS[0]).partial_fit(X, y)
    with pytest.raises(InputError, match="close"):
        model.fit(X, y)
    assert model.partial_fit(X, y).n_samples_seen_ == 100
    model.close()
    model.fit(X, y)
    assert not hasattr(model, "n_samples_seen_")
    pickle.dumps(model)


def test_an_empty_frame_begins_no_stream():
    schema = dc.Schema(COLUMNS, dc.schema.Classes("ill", [0, 1]), name="empty stream")
    empty = pd.DataFrame({"age": [1.0], "town": ["A"], "ill": [1]}).iloc[:0]
    model = dc.PrivateOnlineClassifier(schema=schema)
    with pytest.raises(ValueError, match="rows"):
        model.partial_fit(empty)
    with pytest.raises(InputError, match="no stream is open"):
        model.save_checkpoint("nowhere")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    files = tmp_path / "stream", tmp_path / "key"
    model = new(*KINDS[0])
    with pytest.raises(InputError, match="no stream is open"):
        model.save_checkpoint(*files)
    model.partial_fit(*rows(20)).save_checkpoint(*files)
    with pytest.raises(InputError, match="a stream is open"):
        model.resume(*files)
    with pytest.raises(InputError, match="not of a PrivateOnlineRegressor"):
        new(*KINDS[2]).resume(*files)
    for changed in ({"epsilon": 1.0}, {"batch_size": 5}, {"loss": "hinge"}, {"feature_bound": 3.0}, {"radius": 1.0}):
        with pytest.raises(InputError, match="another plan"):
            new(*KINDS[0], **changed).resume(*files)
    with pytest.raises(InputError, match="other classes"):
        new(*KINDS[0], classes=["no", "maybe"]).resume(*files)
    with pytest.raises(InputError, match="no checkpoint"):
        new(*KINDS[0]).resume(tmp_path / "nothing", files[1])


def test_open_streams_are_neither_copied_nor_pickled_but_cloned_and_saved(tmp_path):
    model = new(*KINDS[0]).partial_fit(*rows(50))
    for attempt in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="must never be used twice"):
            attempt(model)
    assert not hasattr(clone(model), "weights_")
    model.save(tmp_path / "model.json")
    again = dc.load(tmp_path / "model.json")
    assert np.array_equal(again.weights_, model.weights_)
    model.close()
    assert pickle.loads(pickle.dumps(model)).receipt_ == model.receipt_


CHILD = textwrap.dedent(
    """
    import sys, numpy as np, dpconvex as dc
    from pathlib import Path
    path, key = Path(sys.argv[1]), sys.argv[2]
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3))
    y = np.where(X[:, 0] > 0, 1, 0)
    model = dc.PrivateOnlineClassifier(feature_bound=dc.bounds.Linf(1.0), classes=[0, 1], batch_size=8)
    if path.exists():
        model.resume(path, key)
    while (seen := getattr(model, "n_samples_seen_", 0)) < 600:
        model.partial_fit(X[seen:seen + 20], y[seen:seen + 20])
        if seen % 60 == 0:
            model.save_checkpoint(path, key)
        print(model.n_samples_seen_, model.weights_.tobytes().hex(), flush=True)
    """
)


def test_killed_and_resumed_there_is_one_sequence_of_models(tmp_path):
    script, released = tmp_path / "child.py", {}
    script.write_text(CHILD)
    for stop in (5, 11, 3, 99):
        command = [sys.executable, str(script), str(tmp_path / "stream"), str(tmp_path / "key")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for seen, line in enumerate(child.stdout):
                rows_read, weights = line.split()
                assert released.setdefault(int(rows_read), weights) == weights
                if seen == stop:
                    child.send_signal(signal.SIGKILL)
    assert sorted(released) == list(range(20, 601, 20))
