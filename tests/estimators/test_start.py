"""Fits that start at a public model: its forms and units, balls of weights around it, and what it gains."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpconvex as dc
from dpconvex.errors import HypothesisError, InputError

FACTS = {"feature_bound": 3.0, "classes": [0, 1]}
COEF = np.array([1.5, -0.5])


def made(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X @ COEF + 0.5 + rng.logistic(size=n) > 0).astype(int)


def started(model, X, y):
    fitted = model.fit(X, y)
    return np.array(fitted.receipt_.problem.start), fitted.receipt_.problem.intercept


@pytest.mark.parametrize("kind", [dc.PrivateLogisticRegression, dc.PrivateSGDClassifier, dc.PrivateLinearSVC])
def test_every_form_says_the_same(kind):
    X, y = made()
    public = LogisticRegression().fit(X, y)
    public.coef_, public.intercept_ = COEF[None], np.array([0.5])
    forms = [
        (COEF, 0.5),
        (COEF[None], [0.5]),
        (COEF.tolist(), np.float64(0.5)),
        {"x0": 1.5, "x1": -0.5, "(intercept)": 0.5},
        public,
    ]
    found = [started(kind(epsilon=8.0, start=form, **FACTS), X, y) for form in forms]
    for start, constant in found:
        assert np.allclose(start, [*COEF, 0.5 / constant], rtol=1e-12)
    fitted = kind(epsilon=8.0, **FACTS, start=(COEF, 0.5)).fit(X, y)
    assert dc.verify(fitted.receipt_)
    again = started(kind(epsilon=8.0, start=fitted, **FACTS), X, y)[0]
    assert np.allclose(again, fitted.weights_)


def test_coefficients_alone_have_no_intercept():
    X, y = made()
    assert started(dc.PrivateLogisticRegression(start=COEF, **FACTS), X, y)[0].tolist() == [1.5, -0.5, 0.0]
    model = dc.PrivateLogisticRegression(start=(COEF, 0.0), fit_intercept=False, **FACTS)
    assert started(model, X, y)[0].tolist() == [1.5, -0.5]


def test_several_classes():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 3, 3000)
    coef, intercept = rng.normal(size=(3, 2)) / 5, rng.normal(size=3) / 5
    model = dc.PrivateLogisticRegression(feature_bound=3.0, classes=[0, 1, 2], start=(coef, intercept))
    start, constant = started(model, X, y)
    assert np.allclose(start[:, :2], coef)
    assert np.allclose(start[:, 2] * constant, intercept)
    by_name = {f"{k}: x{j}": coef[k, j] for k in range(3) for j in range(2)}
    by_name |= {f"{k}: (intercept)": intercept[k] for k in range(3)}
    assert np.allclose(started(clone(model).set_params(start=by_name), X, y)[0], start)


@pytest.mark.parametrize("kind", [dc.PrivateRidge, dc.PrivateHuberRegressor, dc.PrivateSGDRegressor, dc.PrivateLasso])
def test_regressions_start_in_units_of_the_target(kind):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = 50 + X @ [20.0, -10.0]
    public = LinearRegression().fit(X, y)
    model = kind(feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100), start=public)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.errors.HopelessFitWarning)
        start, constant = started(model, X, y)
    assert np.allclose(50.0 * start[:2], [20.0, -10.0])
    assert np.allclose(50.0 + 50.0 * start[2] * constant, 50.0, atol=1e-9)


def test_a_table_starts_in_its_own_units():
    """What `summary` shows is what `start` takes."""
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 80, 4000)
    frame = {"age": age, "ward": rng.choice(["A", "B"], 4000), "stay": age / 8 + rng.normal(size=4000)}
    columns = {"age": dc.schema.Number(20, 80), "ward": dc.schema.Category(["A", "B"])}
    schema = dc.Schema(columns, target=dc.schema.Range("stay", 0, 20), name="starts")
    first = dc.PrivateRidge(schema=schema).fit(frame)
    shown = first.summary()
    effects = dict(zip(shown.names, shown.effect, strict=True))
    second = dc.PrivateRidge(schema=schema, start=effects).fit(frame)
    assert np.allclose(np.array(second.receipt_.problem.start), first.weights_)
    rough = dc.PrivateRidge(schema=schema, start={"age": 1 / 8}).fit(frame)
    found = np.array(rough.receipt_.problem.start)
    assert np.count_nonzero(found) == 1
    with pytest.raises(InputError, match="start names 'Age'"):
        dc.PrivateRidge(schema=schema, start={"Age": 1.0}).fit(frame)


def test_default_balls_hold_the_start():
    X, y = made()
    near, far = ((COEF / 10, 0.0), (COEF * 20, 0.0))
    for kind in (dc.PrivateSGDClassifier, dc.PrivateSparseLogisticRegression):
        plain = kind(**FACTS).fit(X, y).receipt_.problem.domain.radius
        for start in (near, far):
            domain = kind(start=start, **FACTS).fit(X, y).receipt_.problem.domain
            norm = np.linalg.norm(start[0], 2 if kind is dc.PrivateSGDClassifier else 1)
            assert domain.radius == pytest.approx(plain + norm)
    with pytest.raises(InputError, match="start must lie in the domain"):
        dc.PrivateSGDClassifier(radius=1.0, start=far, **FACTS).fit(X, y)


def test_a_good_start_is_worth_records():
    """At a small budget the fit stays near a good start, and is better than from the origin."""
    X, y = made(600)
    new, labels = made(20_000, seed=9)
    loss = {}
    for name, start in (("origin", None), ("public", (COEF, 0.5))):
        runs = []
        for seed in range(6):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = dc.PrivateSGDClassifier(epsilon=0.5, start=start, random_state=seed, **FACTS).fit(X, y)
            runs.append(-np.take_along_axis(model.predict_log_proba(new), labels[:, None], 1).mean())
        loss[name] = np.mean(runs)
    assert loss["public"] < loss["origin"] - 0.01


def test_streams_start_there_and_resume(tmp_path):
    X, y = made(400)
    settings = {"start": (COEF, 0.5), "epsilon": 4.0, **FACTS}
    model = dc.PrivateOnlineClassifier(**settings)
    model.partial_fit(X[:200], y[:200])
    assert np.array(model.receipt_.problem.start)[:2].tolist() == COEF.tolist()
    model.save_checkpoint(tmp_path / "c", key_file=tmp_path / "key")
    resumed = dc.PrivateOnlineClassifier(**settings).resume(tmp_path / "c", key_file=tmp_path / "key")
    assert resumed.partial_fit(X[200:], y[200:]).n_samples_seen_ == 400


def test_saved_models_know_their_start_by_their_receipt(tmp_path):
    X, y = made()
    model = dc.PrivateLogisticRegression(start=LogisticRegression().fit(X, y), **FACTS).fit(X, y)
    model.save(tmp_path / "m.json")
    assert dc.load(tmp_path / "m.json").receipt_.problem.start == model.receipt_.problem.start


@pytest.mark.parametrize(
    ("start", "match"),
    [
        ([1.0, 2.0, 3.0], "of shape"),
        ([[1.0], [2.0]], "of shape"),
        ([1.0, np.nan], "finite"),
        ("zeros", "start must be"),
        (LogisticRegression(), "not fitted"),
        (LinearRegression().fit(np.eye(2), [0, 1]), "another kind"),
        (LogisticRegression().fit(np.eye(2), ["a", "b"]), "other classes"),
        ({"x2": 1.0}, "start names 'x2'"),
        ({"x1": "high"}, "start must be"),
    ],
)
def test_what_is_no_start_is_refused(start, match):
    X, y = made(50)
    charged = len(dc.account("refused starts").claims)
    with pytest.raises(InputError, match=match):
        dc.PrivateLogisticRegression(start=start, dataset="refused starts", **FACTS).fit(X, y)
    assert len(dc.account("refused starts").claims) == charged
    with pytest.raises(InputError, match="fit_intercept=False"):
        dc.PrivateLogisticRegression(start=(COEF, 1.0), fit_intercept=False, **FACTS).fit(X, y)
    with pytest.raises(HypothesisError, match="starts nowhere"):
        dc.PrivateLogisticRegression(start=COEF, algorithm="ObjectivePerturbation", **FACTS).fit(X, y)
