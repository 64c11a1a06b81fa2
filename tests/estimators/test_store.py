import json

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.canonical import digest
from dpconvex.errors import InputError, VerificationError


@pytest.fixture
def table(rng):
    X = rng.uniform(0, 100, size=(400, 2))
    return {"age": X[:, 0], "weight": X[:, 1], "state": np.where(X[:, 0] > 50, "old", "young")}


SCHEMA = dc.Schema(
    {"age": dc.schema.Number(0, 100), "weight": dc.schema.Number(0, 200, typical=(40, 120))},
    dc.schema.Classes("state", ["young", "old"]),
    rows_per_person=2,
    name="stored",
)


@pytest.fixture
def saved(table, tmp_path):
    model = dc.PrivateLogisticRegression(schema=SCHEMA, random_state=0).fit(table)
    model.save(tmp_path / "model.json")
    return model, tmp_path / "model.json"


def test_a_loaded_model_predicts_the_same_and_verifies(saved, table):
    model, path = saved
    again = dc.load(path)
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.predict(table).tolist() == model.predict(table).tolist()
    assert (again.receipt_, again.schema) == (model.receipt_, SCHEMA)
    assert again.feature_names_in_.tolist() == ["age", "weight"]
    assert dc.verify(again.receipt_)
    assert again.random_state is None


@pytest.mark.parametrize(
    "options",
    [
        {"feature_bound": 3.0, "classes": [2, 1]},
        {"feature_bound": dc.bounds.Columns(lo=(0, 0), hi=(100, 100)), "classes": ("no", "yes", "maybe")},
        {"feature_bound": dc.bounds.Linf(100), "classes": [0, 1], "algorithm": dc.algorithms.NoisyGD(steps=30)},
        {"feature_bound": np.float64(9.0), "classes": np.array([0, 1]), "fit_intercept": False, "rows_per_person": 3},
    ],
)
def test_every_kind_of_parameter_survives(options, rng, tmp_path):
    X = rng.uniform(0, 100, size=(300, 2))
    classes = sorted(options["classes"])
    model = dc.PrivateLogisticRegression(**options, random_state=1).fit(X, np.resize(classes, 300))
    model.save(tmp_path / "m.json")
    again = dc.load(tmp_path / "m.json")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.classes_, model.classes_)
    assert again.receipt_ == model.receipt_
    refitted = again.set_params(random_state=1).fit(X, np.resize(classes, 300))
    assert np.array_equal(refitted.weights_, model.weights_)


def rewritten(path, **changes):
    """Change the file and make its digest fit again, as a forger would."""
    data = json.loads(path.read_text(encoding="utf-8")) | changes
    body = {k: v for k, v in data.items() if k != "digest"}
    path.write_text(json.dumps({**body, "digest": digest(body)}), encoding="utf-8")


def test_an_altered_file_is_refused(saved):
    _, path = saved
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"epsilon": 1.0', '"epsilon": 0.5', 1), encoding="utf-8")
    with pytest.raises(VerificationError, match="altered"):
        dc.load(path)


def test_weights_of_another_run_are_refused_even_under_a_new_digest(saved):
    model, path = saved
    rewritten(path, weights=(model.weights_ * 2).tolist())
    with pytest.raises(VerificationError, match="weights"):
        dc.load(path)


@pytest.mark.parametrize(
    "changes", [{"estimator": "os.system"}, {"receipt": {}}, {"params": {"evil": 1}}, {"weights": "x"}]
)
def test_a_forged_file_is_refused(saved, changes):
    _, path = saved
    rewritten(path, **changes)
    with pytest.raises(VerificationError):
        dc.load(path)


def test_facts_of_another_model_are_refused_even_under_a_new_digest(saved):
    _, path = saved
    original = path.read_text(encoding="utf-8")
    params = json.loads(original)["params"]
    schema = params["schema"]["schema"]
    for changes, match in (
        ({"public": {"classes_": ["young", "old"]}}, "classes"),
        ({"params": params | {"epsilon": 0.1}}, "epsilon"),
        ({"params": params | {"schema": {"schema": schema | {"rows_per_person": 1}}}}, "schema"),
    ):
        path.write_text(original, encoding="utf-8")
        rewritten(path, **changes)
        with pytest.raises(VerificationError, match=match):
            dc.load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe\x00", b'{"format": "dpconvex-receipt/1"}'])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(VerificationError, match="model"):
        dc.load(tmp_path / "m.json")


def test_a_missing_file_and_an_unfitted_model_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        dc.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match="not fitted"):
        dc.PrivateLogisticRegression().save(tmp_path / "m.json")
