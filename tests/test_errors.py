"""Warnings point at the caller's line and are shown once per cause, whatever scikit-learn does to Python's memory."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import dpconvex as dc
from dpconvex import errors
from dpconvex.errors import InputError, PrivacyLeakWarning

SCRIPT = """
import numpy as np, dpconvex as dc
from sklearn.model_selection import cross_val_score
X = np.linspace(-1, 1, 60)[:, None] * np.ones(2)
y = (X[:, 0] > 0).astype(int)
for _ in range(2):
    cross_val_score(dc.PrivateLogisticRegression(), X, y, cv=3)  # this line
"""


def test_folds_warn_once_of_each_cause_at_the_line_of_the_caller(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    found = [line for line in done.stderr.splitlines() if "Warning: " in line]
    assert len(found) == 4, done.stderr  # scores without noise, two facts read from the data, and repeated releases
    assert all(line.startswith(f"{script}:7: ") for line in found)


def test_filters_of_the_caller_are_followed():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            errors.warn("an example", PrivacyLeakWarning)
    assert len(caught) == 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for k in range(3):
            with warnings.catch_warnings():  # makes Python forget what it has shown
                errors.warn(f"an example, number {k}", PrivacyLeakWarning, cause="an example")
    assert len(caught) <= 1  # the inner context passes it on to the outer record
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyLeakWarning):
            errors.warn("an example", PrivacyLeakWarning)


@pytest.mark.parametrize("name", ["PrivateLogisticRegression", "PrivateRidge", "PrivateSGDClassifier", "PrivateLasso"])
def test_a_wrong_parameter_is_named_with_the_class_that_was_called(name):
    with pytest.raises(TypeError, match=f"{name} has no parameter 'eps'; did you mean epsilon"):
        getattr(dc, name)(eps=1)
    with pytest.raises(TypeError, match=r"there are epsilon, delta|there are .*epsilon"):
        getattr(dc, name)(zzz=1)
    assert getattr(dc, name)(epsilon=2.0).epsilon == 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dc.Budget(eps=1.0), "Budget has no parameter 'eps'; did you mean epsilon?"),
        (lambda: dc.schema.Number(min=0, max=1), "Number has no parameter 'min'; there are low, high"),
        (lambda: dc.Problem(dc.losses.Logistic(), radius=1.0), "Problem has no parameter 'radius'; there are loss"),
        (lambda: dc.Number(0, 1), "it is dpconvex.schema.Number"),
        (lambda: dc.PhasedSGD(), "it is dpconvex.algorithms.PhasedSGD"),
        (lambda: dc.LogisticRegression(), "did you mean PrivateLogisticRegression?"),
        (lambda: dc.schemas, "did you mean schema?"),
        (lambda: dc.Problem(dc.losses.Logistic), r"such as dpconvex.losses.Logistic\(\), got a class"),
        (lambda: dc.verify("model.json"), "such as model.receipt_"),
    ],
)
def test_a_wrong_name_gets_the_one_that_was_meant(make, words):
    with pytest.raises((TypeError, AttributeError, InputError), match=words):
        make()


def test_the_schema_room_can_be_imported_by_the_name_that_users_see():
    from dpconvex.data import schema as room
    from dpconvex.schema import Category, Number, Schema

    assert dc.schema.__all__ == room.__all__
    assert (Category, Number, Schema) == (dc.schema.Category, room.Number, dc.Schema)
    assert not hasattr(dc, "plots_of_nothing")


def test_queries_of_polars_are_run_and_drafted_from_without_running_them():
    import polars

    schema = dc.Schema({"age": dc.schema.Number(0, 100)})
    query = polars.LazyFrame({"age": [50.0, 100.0]})
    n, cells = schema.read(query)
    assert (n, cells["age"].tolist()) == (2, [50.0, 100.0])

    def fails(column):
        raise AssertionError("the query was run")

    never = query.with_columns(polars.col("age").map_batches(fails, return_dtype=polars.Float64))
    assert dc.Schema.draft(never)["columns"] == {"age": {"type": "number", "low": None, "high": None}}
    with pytest.raises(InputError, match="cannot read a table"):
        schema.read(3)
    assert np.array_equal(dc.PrivatePreprocessor(schema).fit_transform(query).ravel() > 0, [False, True])
