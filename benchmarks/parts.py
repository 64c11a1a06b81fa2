"""Data that do not fit in memory: throughput and memory of fits to Parquet files, and raw tables beside scikit-learn.

    python benchmarks/parts.py numbers --rows 5000000          # Parquet of 100 columns of float64, 4 GB
    python benchmarks/parts.py text --rows 1000000             # CSV and Parquet with strings, through a schema
    python benchmarks/parts.py workers --rows 1000000          # one and two Dask workers, two processes alone

Each figure is measured in a process of its own. Speeds are ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

GROUP = 131_072


def peak() -> float:
    """Peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made_numbers(folder: Path, n: int, d: int = 100) -> None:
    """Write n rows of d columns of float64 and a label, a million rows a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    w = np.random.default_rng(9).normal(size=d)
    names = [*(f"x{j:03d}" for j in range(d)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    for i, a in enumerate(range(0, n, 10**6)):
        if (folder / f"{i:04d}.parquet").exists():
            continue
        rng = np.random.default_rng(i)
        with pq.ParquetWriter(folder / f"{i:04d}.parquet", schema, compression="none", use_dictionary=False) as out:
            for b in range(0, min(10**6, n - a), GROUP):
                k = min(GROUP, min(10**6, n - a) - b)
                X = rng.normal(size=(k, d)) / np.sqrt(d)
                y = np.where(X @ w + rng.logistic(size=k) / 2 > 0, 1.0, -1.0)
                out.write_table(pa.table([*X.T, y], names=names), row_group_size=GROUP)


def decode(folder: Path) -> dict[str, float]:
    """Read and decode every row, and nothing else."""
    import pyarrow.parquet as pq

    began, cpu, n = time.perf_counter(), time.process_time(), 0
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as file:
            n += sum(batch.num_rows for batch in file.iter_batches(8192, use_threads=False))
    return {"rows": n, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "peak": peak()}


def fit(folder: Path, kind: str) -> dict[str, float]:
    """Fit one model to the files, and count the rows that are read from them, pass by pass."""
    import dpconvex as dc
    from dpconvex.data import sources

    read = 0
    batches = sources.Parquet.batches

    def counted(self, start, size):
        nonlocal read
        for batch in batches(self, start, size):
            read += batch.num_rows
            yield batch

    sources.Parquet.batches = counted
    parts = dc.data.Parts.parquet(folder, target="y")
    model = {
        "logistic": dc.PrivateLogisticRegression(delta=1e-9, feature_bound=2.0, classes=[-1.0, 1.0]),
        "descent": dc.PrivateLogisticRegression(
            delta=1e-9, feature_bound=2.0, classes=[-1.0, 1.0], algorithm=dc.algorithms.NoisyGD(steps=3)
        ),
        "one pass": dc.PrivateSGDClassifier(delta=1e-9, feature_bound=2.0, classes=[-1.0, 1.0]),
    }[kind]
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(parts)
    return {
        "rows": read,
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "peak": peak(),
    }


def alone(*arguments: object) -> dict[str, float]:
    """Do one part of this file in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def numbers(folder: Path, n: int) -> None:
    """Fits to files of numbers, beside reading and decoding alone."""
    made_numbers(folder, n)
    size = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 1e9
    print(f"{n} rows of 100 columns, {size:.2f} GB of Parquet")
    for kind in ("descent", "one pass", "logistic"):
        base = alone("decode", "--folder", folder)
        found = alone("fit", "--folder", folder, "--kind", kind)
        speed, plain = (x["rows"] / x["seconds"] for x in (found, base))
        cpu, plain_cpu = (x["cpu"] / x["rows"] for x in (found, base))
        print(
            f"{kind:<10} {found['rows'] / n:5.1f} passes  {speed:10,.0f} rows/s of {plain:10,.0f} decoded: "
            f"{speed / plain:.2f}   processor time {plain_cpu / cpu:.2f} of it   peak {found['peak']:.0f} MB",
            flush=True,
        )


def made_text(folder: Path, n: int) -> None:
    """Write a table of strings, numbers, dates and holes as CSV and as Parquet, in pieces."""
    import pandas as pd

    for i, a in enumerate(range(0, n, 250_000)):
        if (folder / f"{i:03d}.parquet").exists():
            continue
        rng, k = np.random.default_rng(i), min(250_000, n - a)
        age, ward = rng.integers(18, 100, k).astype(float), rng.integers(0, 12, k)
        frame = pd.DataFrame(
            {
                "age": np.where(rng.random(k) < 0.05, np.nan, age),
                "ward": np.array([f"ward {j}" for j in range(12)], dtype=object)[ward],
                "sex": np.array(["F", "M"], dtype=object)[rng.integers(0, 2, k)],
                "insurance": np.array(["none", "public", "private", None], dtype=object)[rng.integers(0, 4, k)],
                "stay": rng.exponential(5.0, k).round(2),
                "cost": np.exp(rng.normal(7, 1, k)).round(2),
                "ill": np.where((age - 60) / 15 + (ward == 3) + rng.logistic(size=k) > 0, "yes", "no"),
            }
        )
        frame.to_csv(folder / f"{i:03d}.csv", index=False)
        frame.to_parquet(folder / f"{i:03d}.parquet", index=False)


def schema():
    """The public facts of that table."""
    import dpconvex as dc

    s = dc.schema
    return dc.Schema(
        {
            "age": s.Number(18, 110),
            "ward": s.Category([f"ward {j}" for j in range(12)]),
            "sex": s.Category(["F", "M"]),
            "insurance": s.Category(["none", "public", "private"]),
            "stay": s.Number(0, 100, log=True),
            "cost": s.Number(0, 1e6, log=True),
        },
        target=s.Classes("ill", ["no", "yes"]),
    )


def private(folder: Path, kind: str) -> dict[str, float]:
    """A private fit through the schema, part by part."""
    import dpconvex as dc

    began = time.perf_counter()
    with dc.context(memory="8 MB", scratch=folder):
        dc.PrivateLogisticRegression(delta=1e-9, schema=schema()).fit(dc.data.Parts.of(f"{folder}/*.{kind}"))
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time(), "peak": peak()}


def peer(folder: Path, kind: str) -> dict[str, float]:
    """The same table by pandas and scikit-learn, without privacy."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    began = time.perf_counter()
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    frame = pd.concat([read(path) for path in sorted(folder.glob(f"*.{kind}"))], ignore_index=True)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "stay", "cost"]),
        (OneHotEncoder(handle_unknown="ignore"), ["ward", "sex", "insurance"]),
    )
    make_pipeline(columns, LogisticRegression(max_iter=200)).fit(frame.drop(columns="ill"), frame["ill"])
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time(), "peak": peak()}


def text(folder: Path, n: int) -> None:
    """Raw tables, through the schema and through scikit-learn, in turn."""
    made_text(folder, n)
    for kind in ("csv", "parquet"):
        theirs, ours = (
            alone("peer", "--folder", folder, "--kind", kind),
            alone("private", "--folder", folder, "--kind", kind),
        )
        print(
            f"{kind:<8} {n} rows   ours {ours['seconds']:.1f} s, {ours['peak']:.0f} MB   pandas and scikit-learn "
            f"{theirs['seconds']:.1f} s, {theirs['peak']:.0f} MB   time {ours['seconds'] / theirs['seconds']:.2f}, "
            f"processor time {ours['cpu'] / theirs['cpu']:.2f} ({ours['cpu']:.1f} s)   "
            f"memory {ours['peak'] / theirs['peak']:.2f}",
            flush=True,
        )


def plain_run(folder: Path, kind: str) -> dict[str, float]:
    """A run in one process on half of the rows, as a worker has them."""
    import dpconvex as dc

    X = np.load(folder / "X.npy", mmap_mode="r")
    n = len(X) // 2
    parts = dc.data.Parts(dc.data.Parts.arrays(folder / "X.npy", folder / "y.npy", rows=n // 8).parts[:8])
    plan = algorithms(kind).plan(dc.Problem(dc.losses.Logistic()), n=parts.n, d=100, budget=dc.Budget(1.0, 1e-9))
    plan.run(parts, seed=1)  # warm
    began = time.perf_counter()
    plan.run(parts, seed=1)
    return {"seconds": time.perf_counter() - began, "rows": parts.n}


def algorithms(kind: str):
    """The algorithms of `workers`."""
    import dpconvex as dc

    return dc.algorithms.NoisyGD(steps=20) if kind == "descent" else dc.algorithms.ObjectivePerturbation()


def workers(folder: Path, n: int) -> None:
    """Two Dask workers against one, beside what two independent processes reach against one."""
    import distributed

    import dpconvex as dc

    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float64, shape=(n, 100))
    y = np.empty(n)
    for a in range(0, n, 10**5):
        X[a : a + 10**5] = rng.normal(size=(min(10**5, n - a), 100)) / 10
        y[a : a + 10**5] = np.where(X[a : a + 10**5, 0] + rng.logistic(size=min(10**5, n - a)) / 10 > 0, 1.0, -1.0)
    np.save(folder / "y.npy", y)
    X.flush()
    parts = dc.data.Parts.arrays(folder / "X.npy", folder / "y.npy", rows=n // 16)
    for kind in ("descent", "perturbation"):
        plan = algorithms(kind).plan(dc.Problem(dc.losses.Logistic()), n=n, d=100, budget=dc.Budget(1.0, 1e-9))
        took: dict[int, list[float]] = {1: [], 2: []}
        pairs: list[float] = []
        options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
        with (
            distributed.LocalCluster(n_workers=1, **options) as one,
            distributed.LocalCluster(n_workers=2, **options) as two,
            distributed.Client(one) as first,
            distributed.Client(two) as second,
        ):
            for client in (first, second):
                with dc.context(executor=client):
                    plan.run(parts, seed=1)  # warm
            for _ in range(3):
                for count, client in ((1, first), (2, second)):
                    began = time.perf_counter()
                    with dc.context(executor=client):
                        plan.run(parts, seed=1)
                    took[count].append(time.perf_counter() - began)
        single = alone("plain_run", "--folder", folder, "--kind", kind)["seconds"]
        command = [sys.executable, __file__, "plain_run", "--folder", str(folder), "--kind", kind]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        pairs = [json.loads(process.communicate()[0].splitlines()[-1])["seconds"] for process in running]
        gain = float(np.median(took[1]) / np.median(took[2]))
        most = 2.0 * single / max(pairs)
        print(
            f"{kind:<13} {n} x 100   two workers {gain:.2f} times one; two processes {most:.2f}: {gain / most:.2f}",
            flush=True,
        )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["numbers", "text", "workers", "decode", "fit", "private", "peer", "plain_run"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the data are, or are made; by default a temporary folder")
    parser.add_argument("--kind", default="")
    given = parser.parse_args()
    inner = {"fit": fit, "private": private, "peer": peer, "plain_run": plain_run}
    if given.what == "decode":
        print(json.dumps(decode(given.folder)))
    elif given.what in inner:
        print(json.dumps(inner[given.what](given.folder, given.kind)))
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        with tempfile.TemporaryDirectory() as made:
            folder = given.folder or Path(made)
            folder.mkdir(exist_ok=True)
            {"numbers": numbers, "text": text, "workers": workers}[given.what](folder, given.rows)


if __name__ == "__main__":
    main()
