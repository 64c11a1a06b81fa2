"""Summaries of models: effects are those of the table, and the noise in them is that of the report."""

import sys

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.data.encoding import Encoding
from dpconvex.data.schema import Category, Classes, Date, Ignore, Number, Range
from dpconvex.errors import InputError, UnavailableError

N = 4000
COLUMNS = {
    "age": Number(20, 80),
    "id": Ignore(),
    "cost": Number(0, 1000, log=True, missing="flag"),
    "seen": Date("2020-01-01", "2020-12-31"),
    "ward": Category(["A", "B"], missing="category"),
    "sex": Category(["F", "M"]),
}
NAMES = [
    *("age", "cost", "cost is missing", "seen", "ward=A", "ward=B", "ward is missing", "sex=F", "sex=M", "(intercept)"),
]


def table(rng):
    return {
        "age": rng.uniform(20, 80, N),
        "id": np.arange(N),
        "cost": np.exp(rng.normal(size=N)),
        "seen": np.datetime64("2020-07-01") + rng.integers(-100, 100, N),
        "ward": rng.choice(["A", "B"], N),
        "sex": rng.choice(["F", "M"], N),
    }


def fitted(rng, algorithm="auto", **options):
    frame = table(rng)
    frame["stay"] = frame["age"] / 8 + rng.normal(size=N)
    schema = dc.Schema(COLUMNS, target=Range("stay", 0, 20), name="summaries")
    model = dc.PrivateRidge(schema=schema, algorithm=algorithm, **options)
    return model.fit(frame), frame


@pytest.mark.filterwarnings("ignore::dpconvex.errors.RepeatedReleaseWarning")
def test_an_effect_is_the_change_of_the_prediction_per_unit_of_the_table(rng):
    model, _ = fitted(rng, epsilon=100.0)
    summary = model.summary()
    assert list(summary.names) == NAMES
    cost = float(np.expm1(np.log1p(1000) / 2))
    bare = {"age": 50.0, "id": 0, "cost": cost, "seen": "2020-07-01", "ward": None, "sex": None}
    place = {name: k for k, name in enumerate(NAMES)}

    def moved(**changes):
        encoding = Encoding(model.schema)
        rows = [
            encoding.encode({k: np.array([v], dtype=object) for k, v in (bare | c).items()}).toarray()[0]
            for c in ({}, changes)
        ]
        return float(model.coef_ @ (rows[1] - rows[0]))

    assert moved(age=51.0) == pytest.approx(summary.effect[place["age"]])
    assert moved(seen="2020-07-02") == pytest.approx(summary.effect[place["seen"]])
    assert moved(cost=2 * cost + 1) == pytest.approx(summary.effect[place["cost"]])  # 1 + cost is doubled
    assert moved(sex="M") == pytest.approx(summary.effect[place["sex=M"]])
    away = summary.effect[[place["ward=A"], place["ward is missing"]]]
    assert moved(ward="A") == pytest.approx(away[0] - away[1])
    assert summary.effect[-1] == pytest.approx(model.intercept_)
    assert summary.units[:5] == ("unit", "doubling", "if so", "day", "if so")


@pytest.mark.filterwarnings("ignore::dpconvex.errors.RepeatedReleaseWarning")
def test_the_noise_is_that_of_the_report_and_marks_what_it_could_explain(rng):
    model, _ = fitted(rng, "SufficientStatistics", random_state=0)
    summary, report = model.summary(confidence=0.9), model.noise_report()
    factors = np.append(Encoding(model.schema).factors, 1.0)
    assert np.allclose(summary.std_error, factors * report.std_errors)
    low, high = report.interval(0.9)
    assert np.allclose([summary.low, summary.high], [factors * low, factors * high])
    assert summary.noise_only.tolist() == [a <= 0 <= b for a, b in zip(low, high, strict=True)]
    assert not summary.noise_only[0]  # the age
    assert summary.noise_only[NAMES.index("cost is missing")]  # which never was
    lines = str(summary).splitlines()
    assert lines[1].startswith("age ")
    assert not lines[1].endswith("~")
    assert lines[1 + NAMES.index("cost is missing")].endswith("~")
    svg = summary.to_svg()
    assert svg.count("<circle") == len(NAMES) - 1
    assert svg.count('fill="none"') == int(summary.noise_only[:-1].sum())


@pytest.mark.filterwarnings("ignore::dpconvex.errors.RepeatedReleaseWarning")
def test_without_rows_a_summary_costs_nothing_and_says_what_is_left_out(rng):
    model, frame = fitted(rng)
    charged = len(dc.account("summaries").claims)
    summary = model.summary()
    assert np.isnan(summary.std_error).all()
    assert not summary.noise_only.any()
    assert "is not known here" in str(summary)
    assert summary.to_svg().count('fill="none"') == 0
    assert len(dc.account("summaries").claims) == charged
    known = model.summary(frame, budget=dc.Budget(1.0, 1e-6))
    assert np.isfinite(known.std_error).all()
    assert len(dc.account("summaries").claims) == charged + 1
    with pytest.raises(InputError, match="Budget"):
        model.summary(frame)
    with pytest.raises(InputError, match="confidence"):
        model.summary(confidence=1.0)


def test_several_classes_are_named_and_matrices_are_in_their_own_units(rng):
    X = rng.uniform(-1, 1, (600, 2))
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=["a", "b", "c"])
    summary = model.fit(X, rng.choice(["a", "b", "c"], 600)).summary()
    assert summary.names == tuple(f"{c}: {name}" for c in "abc" for name in ("x0", "x1", "(intercept)"))
    assert np.allclose(summary.effect, summary.coef)
    assert summary.to_svg().count("<circle") == 6
    one = dc.PrivateRidge(feature_bound=1.0, target_range=(0, 1), fit_intercept=False)
    assert one.fit(X[:, :1], X[:, 1]).summary().names == ("x0",)


def test_a_frame_needs_pandas_and_a_dict_needs_nothing(rng, monkeypatch):
    X = rng.uniform(-1, 1, (600, 2))
    summary = dc.PrivateRidge(feature_bound=2.0, target_range=(-1, 1)).fit(X, X[:, 0]).summary()
    assert summary.to_frame()["column"].tolist() == ["x0", "x1", "(intercept)"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="to_dict"):
        summary.to_frame()
    assert summary.to_dict()["column"] == ["x0", "x1", "(intercept)"]


def test_a_category_has_no_column_for_missing_values_unless_declared():
    free, declared = (Encoding(dc.Schema({"c": Category(["a", "b"], **o)})) for o in ({}, {"missing": "category"}))
    assert free.names == ("c=a", "c=b")
    assert free.encode({"c": ["a", None]}).toarray()[1].tolist() == [0.0, 0.0]
    assert declared.names == ("c=a", "c=b", "c is missing")


def test_schemas_of_format_1_keep_the_column_for_missing_values():
    category = {"type": "category", "categories": ["a"]}
    old = {
        "format": "dpconvex-schema/1",
        "columns": {"c": category, "d": category | {"missing": "zeros"}},
        "target": {"name": "y", "classes": [0, 1]},
    }
    schema = dc.Schema.from_dict(old)
    assert Encoding(schema).names == ("c=a", "c is missing", "d=a")
    assert schema.target == Classes("y", [0, 1])
    assert dc.Schema.from_dict(schema.to_dict()) == schema
    assert schema.to_dict()["format"] == "dpconvex-schema/2"


def test_labels_of_text_need_no_schema(rng):
    X = rng.uniform(-0.5, 0.5, size=(300, 2))
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=["no", "yes"]).fit(X, y)
    assert "log-odds of 'yes'" in str(model.summary())
