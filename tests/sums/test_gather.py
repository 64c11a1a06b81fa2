"""People whose rows lie in several parts: the claims and results of rows in memory."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest

import dpconvex as dc
from dpconvex.data.openers import read_ids
from dpconvex.data.parts import Parts
from dpconvex.errors import FormError, InputError, PartsError
from dpconvex.sums import gather

N, D = 5000, 3
LOGISTIC = dc.Problem(dc.losses.Logistic(), intercept=0.3)
BUDGET = dc.Budget(1.0, 1e-6)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Several chunks a part, and several buckets."""
    monkeypatch.setattr("dpconvex.data.opened.chunk_rows", lambda d: 512)
    monkeypatch.setattr(gather, "_BUCKET", 2**15)
    monkeypatch.setattr(gather, "_ALONE", 2**13)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, D)) / 2
    y = np.where(X[:, 0] + rng.normal(size=N) / 2 > 0, 1.0, -1.0)
    ids = np.array([f"person {k}" for k in rng.integers(0, 700, N)], dtype=object)
    ids[:1500] = np.where(rng.random(1500) < 0.2, "person 3", ids[:1500])  # one with hundreds of rows
    ids[[0, 4000]] = None
    return X, y, ids


def files(folder, X, y, ids):
    frame = pandas.DataFrame({"who": ids, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    for i, (a, b) in enumerate(((0, 1200), (1200, 3001), (3001, N))):
        frame[a:b].to_parquet(folder / f"{i}.parquet", index=False, row_group_size=700)
    return Parts.of(folder, target="y", person="who")


def planned(name, **options):
    problem = dc.Problem(dc.losses.Squared()) if name == "SufficientStatistics" else LOGISTIC
    return dc.algorithms.get(name)(**options, per_person=True).plan(problem, n=N, d=D, budget=BUDGET)


@pytest.mark.parametrize(
    ("name", "options"),
    [("NoisyGD", {"steps": 5}), ("PoissonSGD", {"probability": 0.2, "steps": 5}), ("SufficientStatistics", {})],
)
def test_runs_about_people_are_those_in_memory(name, options, rows, tmp_path):
    X, y, ids = rows
    plan = planned(name, **options)
    memory = plan.run(X, y, groups=ids, seed=1)
    parts = files(tmp_path, X, y, ids)
    found = [plan.run(parts, seed=1), plan.run(Parts.arrays(X, y, groups=ids, rows=999), seed=1)]
    with dc.context(memory=0, scratch=tmp_path):
        found.append(plan.run(parts, seed=1))
    with ThreadPoolExecutor(2) as pool, dc.context(executor=pool):
        found.append(plan.run(parts, seed=1))
    frame = pandas.read_parquet(tmp_path)
    once = Parts.of(iter([frame[:9], frame[9:]]), rows=N, target="y", person="who")
    found.append(plan.run(once, seed=1))
    for other in found:
        assert np.allclose(other.weights, memory.weights, rtol=1e-12, atol=1e-14)
        assert other.receipt.sections["claim"] == memory.receipt.sections["claim"]
    assert len({other.weights.tobytes() for other in found}) == 1
    if name == "NoisyGD":
        assert found[0].weights.tobytes() == memory.weights.tobytes()
    assert sorted(os.listdir(tmp_path)) == ["0.parquet", "1.parquet", "2.parquet"]


def test_estimators_leave_out_the_later_rows_of_people_wherever_these_lie(rows, tmp_path):
    X, y, ids = rows
    facts = {"delta": 1e-6, "feature_bound": 2.0, "classes": [-1.0, 1.0], "random_state": 1}
    parts = files(tmp_path, X, y, ids)
    for more in ({"rows_per_person": 3}, {"rows_per_person": 3, "algorithm": dc.algorithms.NoisyGD(steps=4)}, {}):
        model = dc.PrivateLogisticRegression(**facts, **more)
        memory = (model.coef_ for model in [model.fit(X, y, groups=ids)])
        there = next(memory).copy(), model.receipt_.sections["claim"]
        model.fit(parts)
        assert np.allclose(model.coef_, there[0], rtol=1e-6, atol=1e-8)
        assert model.receipt_.sections["claim"] == there[1]
    with pytest.raises(InputError, match="cannot leave out the later rows"):
        dc.PrivateSGDClassifier(**facts, rows_per_person=3).fit(parts)


def test_a_table_with_a_schema_names_a_column_of_people(tmp_path, rng):
    n = 3000
    frame = pandas.DataFrame(
        {
            "visit": np.arange(n) % 800,
            "age": rng.integers(18, 100, n).astype(float),
            "ill": np.where(rng.random(n) < 0.5, "yes", "no"),
        }
    )
    frame[:1700].to_csv(tmp_path / "0.csv", index=False)
    frame[1700:].to_csv(tmp_path / "1.csv", index=False)
    s = dc.schema
    schema = dc.Schema({"age": s.Number(18, 110)}, target=s.Classes("ill", ["no", "yes"]), name="visits of people")
    model = dc.PrivateLogisticRegression(delta=1e-6, schema=schema, random_state=1)
    model.fit(Parts.of(tmp_path, person="visit"))
    weights, claim = model.weights_.copy(), model.receipt_.sections["claim"]
    model.fit(frame.drop(columns="visit"), groups=frame["visit"].to_numpy())
    assert np.allclose(model.weights_, weights, rtol=1e-9)
    assert model.receipt_.sections["claim"] == claim


def test_ids_are_the_same_as_text_or_numbers():
    columns = (np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0]), [" 1", "2", 1], np.array(["1", "2", "1 "]))
    assert {tuple(read_ids(column)) for column in columns} == {("1", "2", "1")}
    assert read_ids(np.array([1.0, np.nan])).tolist() == ["1", None]


def test_what_is_missing_is_refused_before_or_after_the_charge(rows, tmp_path):
    X, y, ids = rows
    plan, parts = planned("NoisyGD", steps=3), files(tmp_path, X, y, ids)
    by_row = dc.algorithms.NoisyGD(steps=3).plan(LOGISTIC, n=N, d=D, budget=BUDGET)

    def refused(plan, given, kind, words, charged, **context):
        before = len(dc.account("people in parts").claims)
        with dc.context(**context), pytest.raises(kind, match=words):
            plan.run(given, dataset="people in parts")
        assert len(dc.account("people in parts").claims) - before == charged

    refused(plan, Parts.of((X, y)), FormError, "about people", 0)
    refused(by_row, parts, FormError, "about rows", 0)
    refused(plan, parts, InputError, "scratch folder", 0, memory=1000)
    refused(planned("NoisyGD", steps=3), Parts.of(tmp_path, target="y", person="whom"), PartsError, "whom", 1)
    short = Parts.of([(X[:9], y[:9], None, ids[:9]), (X[9:], y[9:])], person="groups")
    refused(plan, short, PartsError, "whose the rows are", 1)
    wide = dc.algorithms.NoisyGD(steps=3, per_person=True).plan(LOGISTIC, n=N, d=D, budget=BUDGET)
    refused(wide, Parts.arrays(np.where(X > 9, np.nan, X) * np.inf, y, groups=ids), PartsError, "finite", 1)
