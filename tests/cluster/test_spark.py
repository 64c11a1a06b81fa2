"""Spark in two threads of this machine: sums by partition, within the stated error of rows in memory."""

import os
import sys

import numpy as np
import pandas
import pytest
from pyspark import sql
from pyspark.sql import functions

import dpconvex as dc
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError, PartsError

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),
]

N = 40_000
BUDGET = dc.Budget(1.0, 1e-7)
PROBLEM = dc.Problem(dc.losses.Logistic(), intercept=0.3)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 5)) / 3
    y = np.where(X[:, 0] + rng.normal(size=N) / 3 > 0, 1.0, -1.0)
    return pandas.DataFrame({f"x{j}": X[:, j] for j in range(5)} | {"y": y})


@pytest.fixture(scope="module")
def session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "3")
        .getOrCreate()
    )
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stored(session, frame, tmp_path_factory):
    """The table in files, so that partitions hold the same rows whenever they are computed."""
    folder = tmp_path_factory.mktemp("spark")
    for i, a in enumerate(range(0, N, 15_000)):
        frame[a : a + 15_000].to_parquet(folder / f"{i}.parquet", index=False)
    return folder


def test_fits_to_a_data_frame_are_within_rounding_of_those_in_memory(session, stored, frame):
    X, y = frame.iloc[:, :5].to_numpy(), frame["y"].to_numpy()
    parts = Parts.of(session.read.parquet(str(stored)), target="y")
    assert parts.n == N
    assert parts.shape == (N, 5)
    for algorithm in (
        dc.algorithms.ObjectivePerturbation(),
        dc.algorithms.NoisyGD(steps=3),
        dc.algorithms.MeanDirection(),
    ):
        plan = algorithm.plan(PROBLEM, n=N, d=5, budget=BUDGET)
        there, here = plan.run(parts, seed=2, dataset="spark"), plan.run(X, y, seed=2, dataset="spark")
        assert np.allclose(there.weights, here.weights, rtol=1e-7, atol=1e-9)
        assert there.receipt.data["claim"] == here.receipt.data["claim"]
        assert there.receipt.data["engine"]["rows"] == "parts"
        assert dc.verify(there.receipt)
        assert np.array_equal(plan.run(parts, seed=2, dataset="spark").weights, there.weights)


def test_an_estimator_takes_a_data_frame_of_a_schema(session, frame, tmp_path):
    table = pandas.DataFrame(
        {
            "age": np.where(np.arange(N) % 17 == 0, np.nan, 18.0 + np.arange(N) % 80),
            "ward": np.array(["A", "B", None], dtype=object)[np.arange(N) % 3],
            "ill": np.where(frame["y"] > 0, "yes", "no"),
        }
    )
    table.to_parquet(tmp_path / "t.parquet", index=False)
    schema = dc.Schema(
        {"age": dc.schema.Number(18, 110), "ward": dc.schema.Category(["A", "B"])},
        target=dc.schema.Classes("ill", ["no", "yes"]),
        name="a table in Spark",
    )

    def model():
        return dc.PrivateLogisticRegression(delta=1e-7, schema=schema, random_state=1)

    there = model().fit(Parts.of(session.read.parquet(str(tmp_path / "t.parquet"))))
    assert np.allclose(there.weights_, model().fit(table).weights_, rtol=1e-7, atol=1e-9)


def test_one_pass_reads_partitions_in_order(session, stored):
    ball = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    parts = Parts.of(session.read.parquet(str(stored)), target="y")
    plan = dc.algorithms.PhasedSGD().plan(ball, n=N, d=5, budget=BUDGET)
    there = plan.run(parts, seed=1, dataset="spark")
    read = [t for part in parts.parts for t in part.source.batches(0, 1000)]
    X = np.concatenate([np.column_stack([t.column(f"x{j}").to_numpy() for j in range(5)]) for t in read])
    y = np.concatenate([t.column("y").to_numpy() for t in read])
    assert np.array_equal(there.weights, plan.run(X, y, seed=1, dataset="spark").weights)


def test_rows_that_come_out_otherwise_are_refused(session, stored):
    frame = session.read.parquet(str(stored)).withColumn("x0", functions.rand())
    noisy = frame.withColumn("x0", functions.udf(lambda x: __import__("random").random(), "double")("x1"))
    plan = dc.algorithms.NoisyGD(steps=3).plan(PROBLEM, n=N, d=5, budget=BUDGET)
    before = len(dc.account("indeterminate").claims)
    with pytest.raises(PartsError, match="not those of an earlier pass"):
        plan.run(Parts.of(noisy, target="y"), dataset="indeterminate")
    assert len(dc.account("indeterminate").claims) == before + 1


def test_errors_of_spark_hold_no_value(session, stored, capfd):
    frame = session.read.parquet(str(stored)).withColumn("y", functions.col("y") * 123.456)
    plan = dc.algorithms.MeanDirection().plan(PROBLEM, n=N, d=5, budget=BUDGET)
    with pytest.raises(PartsError, match="partition 0: y must hold the labels") as caught:
        plan.run(Parts.of(frame, target="y"), seed=1)
    seen = capfd.readouterr()
    assert "123.4" not in str(caught.value) + seen.out + seen.err


def test_a_data_frame_stands_alone(session, stored, frame):
    parts = Parts.of([session.read.parquet(str(stored)), frame], target="y")
    plan = dc.algorithms.MeanDirection().plan(PROBLEM, n=2 * N, d=5, budget=BUDGET)
    with pytest.raises(InputError, match="unite them in Spark"):
        plan.run(parts, seed=1)
