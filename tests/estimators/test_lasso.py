"""Sparse linear models on an l1 ball."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.errors import InputError

BOX = dc.bounds.Linf(1.0)


def lasso(**options):
    return dc.PrivateLasso(
        **{"epsilon": 50.0, "feature_bound": BOX, "target_range": (0, 100), "random_state": 0} | options
    )


def logistic(**options):
    facts = {"epsilon": 50.0, "feature_bound": BOX, "classes": [0, 1], "random_state": 0}
    return dc.PrivateSparseLogisticRegression(**facts | options)


@pytest.fixture
def data(rng):
    X = rng.uniform(-1, 1, size=(3000, 60))
    return X, 50 + 20 * X[:, 7] - 15 * X[:, 8] + rng.normal(size=3000)


def test_few_weights_are_not_zero_and_they_are_the_right_ones(data):
    X, y = data
    model = lasso(epsilon=8.0).fit(X, y)
    assert set(abs(model.coef_).argsort()[-2:]) == {7, 8}
    assert model.score(X, y) > 0.8
    assert (model.coef_ == 0).any()
    assert np.abs(model.weights_).sum() <= model.receipt_.problem.domain.radius * (1 + 1e-12)
    classes = logistic(epsilon=8.0).fit(X, (y > 50).astype(int))
    assert set(abs(classes.coef_[0]).argsort()[-2:]) == {7, 8}
    assert np.allclose(classes.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("make", [lasso, logistic])
def test_forms_of_data_agree(make, data, tmp_path):
    X, y = data
    y = y if make is lasso else (y > 50).astype(int)
    model = make().fit(X, y)
    assert type(model.receipt_.problem.domain).__name__ == "L1Ball"
    for form in (sparse.csr_array(X), X.tolist(), pd.DataFrame(X)):
        assert np.array_equal(make().fit(form, y).weights_, model.weights_)
    model.save(tmp_path / "model.json")
    assert np.array_equal(dc.load(tmp_path / "model.json").predict(X), model.predict(X))


@pytest.mark.parametrize("make", [lasso, logistic])
@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan, "wide", True])
def test_bad_radii(make, radius, data):
    X, y = data
    with pytest.raises(InputError, match="radius"):
        make(radius=radius).fit(X, (y > 50).astype(int))


def test_more_classes_are_refused(data):
    X, y = data
    with pytest.raises(InputError, match="Only binary classification"):
        logistic(classes=[0, 1, 2]).fit(X, (y > 50).astype(int))


def test_a_schema_bounds_the_entries(rng):
    columns = {f"x{j}": dc.schema.Number(-1, 1) for j in range(20)}
    schema = dc.Schema(columns, dc.schema.Range("y", 0, 100), name="sparse")
    frame = {name: rng.uniform(-1, 1, 2000) for name in columns}
    model = dc.PrivateLasso(epsilon=50.0, schema=schema, random_state=0).fit(frame, 50 + 30 * frame["x3"])
    assert abs(model.coef_).argmax() == 3
