"""Rows per second of one private pass, as ratios taken in one run: `make bench`.

    python benchmarks/speed.py [--rows 1000000] [--features 100] [--dtype float64] [--repeats 7]
    python benchmarks/speed.py --sweep       # cost per row over n and over d
    python benchmarks/speed.py --sparse      # text-like rows: 50 non-zeros among 50,000 features, and among fewer
    python benchmarks/speed.py --stream      # ten million rows in batches that are made on the fly, and memory

The peer is SGDClassifier(loss="log_loss", max_iter=1): one pass of SGD over the same rows, without privacy. "run" is
`plan.run` with checks of the data, noise and receipt; "loop" is the compiled pass alone, also as a part of the
bandwidth at which one thread of this machine reads the same array, and at which as many do as NoisySGD uses for large
batches (all others here use one). Measurements alternate, and each ratio is that of the medians. The last line says how
far memory rose above the data while running.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier

import dpconvex as dc
from dpconvex.algorithms.noisy_sgd import NoisySGD, Telescoped
from dpconvex.loops.rows import CSR, Dense
from dpconvex.loops.stream import IN_PLACE, ROOM, Chain, descend, descend_batches
from dpconvex.loops.threads import available
from dpconvex.noise.rounded import Variates

PROBLEM = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
BATCH = 500


def seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def peak_memory() -> float:
    """Most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def medians(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median time of each job, after one run to compile; the jobs take turns."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    return {name: median(t) for name, t in times.items()}


def dense_data(n: int, d: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and labels, made in blocks so that nothing but the data is ever held."""
    rng = np.random.default_rng(0)
    X, y, truth = np.empty((n, d), dtype=dtype), np.empty(n), rng.standard_normal(d)
    for start in range(0, n, 20_000):
        block = rng.standard_normal((min(20_000, n - start), d))
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        X[start : start + len(block)] = block
        y[start : start + len(block)] = np.sign(block @ truth + 0.3 * rng.standard_normal(len(block)))
    return X, y


def noisy(n: int) -> NoisySGD:
    return NoisySGD(schedule=Telescoped(0.5, steps=max(1, n // BATCH)), step=1.0)


def loops(rows: Any, y: np.ndarray, n: int, d: int) -> dict[str, Callable[[], Any]]:
    """The compiled passes alone, without checks, noise and receipt."""
    count = max(1, n // BATCH)
    cuts = np.linspace(0, n, count + 1).astype(np.int64)
    steps, noise = np.full(count, 0.5), np.zeros((count, d))
    small = np.linspace(0, n, n // 64 + 1).astype(np.int64)  # PhasedSGD takes 61 of a million a step
    data = rows, y, PROBLEM.loss, PROBLEM.domain
    each, tails = np.full(n, 0.01), np.arange(n, 0, -1) / n

    def walk() -> None:
        Chain(d, cuts, steps, steps, 1.0).advance(*data, Variates.given(noise))

    def batches() -> None:
        w, average, g, block = np.zeros((4, d))
        rates, weights = np.full(len(small) - 1, 0.1), np.full(len(small) - 1, 1.0 / n)
        descend_batches(*data, IN_PLACE, small, rates, weights, 0.0, w, average, g, block, np.empty((2, ROOM)))

    def single() -> None:
        v, m = np.zeros((2, d))
        descend(*data, IN_PLACE, each, tails, 0.0, v, m, np.array([1.0, 0.0, 0.0]), 128, 0, 0, n)

    return {"NoisySGD, the loop": walk, "PhasedSGD, the loop": batches, "PhasedSGD, one record a step": single}


def compare(n: int, d: int, dtype: str, repeats: int) -> None:
    X, y = dense_data(n, d, dtype)
    budget = dc.Budget(1.0, 1e-9)
    plans = {
        "NoisySGD": noisy(n).plan(PROBLEM, n=n, d=d, budget=budget),
        "PhasedSGD": dc.algorithms.PhasedSGD().plan(PROBLEM, n=n, d=d, budget=budget),
    }
    before = peak_memory()
    words = X.view(np.uint64 if dtype == "float64" else np.uint32)

    def peer() -> None:
        SGDClassifier(loss="log_loss", max_iter=1).fit(X, y)

    def read(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(np.max, np.array_split(words, threads)))

    jobs: dict[str, Callable[[], Any]] = {"read": lambda: read(1), "read by all": lambda: read(available())}
    jobs |= {f"{name}, plan.run": job for name, job in runs(plans, X, y).items()}
    jobs |= loops(Dense(X, 1.0, 0.0), y, n, d)
    warm = medians(jobs, 1)
    rose = peak_memory() - before
    del warm
    times = medians({"SGDClassifier": peer, **jobs}, repeats)
    one, every = times.pop("read"), times.pop("read by all")
    rates = f"{X.nbytes / one / 1e9:.1f} GB/s by one thread, {X.nbytes / every / 1e9:.1f} by {available()}"
    print(f"{n} x {d} {dtype}, median of {repeats}; memory is read at {rates}")
    for name, t in times.items():
        part = f", {one / t:.2f} of one thread's bandwidth, {every / t:.2f} of all's" if "loop" in name else ""
        print(f"  {name:30}{t:8.3f} s {n / t:12.3g} rows/s {times['SGDClassifier'] / t:7.2f} x the peer{part}")
    print(f"  memory rose {rose:.0f} MB above the data and its labels")


def runs(plans: dict[str, Any], X: Any, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """A job for each plan."""
    return {name: lambda p=plan: p.run(X, y, dataset="speed") for name, plan in plans.items()}


def sweep(repeats: int) -> None:
    print("cost per row, NoisySGD and PhasedSGD with plan.run, float32")
    for n, d in ((10**5, 20), (10**6, 20), (10**7, 20), (10**6, 10), (10**6, 100), (10**5, 1000), (10**4, 10_000)):
        X, y = dense_data(n, d, "float32")
        algorithms = {"NoisySGD": noisy(n), "PhasedSGD": dc.algorithms.PhasedSGD()}
        plans = {k: a.plan(PROBLEM, n=n, d=d, budget=dc.Budget(1.0, 1e-10)) for k, a in algorithms.items()}
        times = medians(runs(plans, X, y), repeats)
        cells = [f"{t / n * 1e9:8.1f} ns a row {t / n / d * 1e9:7.3f} ns an entry" for t in times.values()]
        print(f"  n = {n:9} d = {d:6}  " + "   ".join(cells), flush=True)


def sparse_data(n: int, d: int, nonzeros: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    stride = d // nonzeros
    indices = (rng.integers(0, stride, (n, nonzeros)) + np.arange(nonzeros) * stride).astype(np.int32).ravel()
    values = rng.standard_normal(n * nonzeros) / nonzeros**0.5
    X = sparse.csr_array((values, indices, np.arange(0, n * nonzeros + 1, nonzeros)), shape=(n, d))
    return X, rng.choice([-1.0, 1.0], n)


def sparse_rows(repeats: int) -> None:
    n = 100_000
    print(f"{n} sparse rows of 50 non-zeros")
    for d in (500, 5_000, 50_000):
        X, y = sparse_data(n, d, 50)
        algorithms = {
            "NoisySGD, plan.run, 100 steps": NoisySGD(schedule=Telescoped(0.5, steps=100), step=1.0),
            "PhasedSGD, plan.run": dc.algorithms.PhasedSGD(batch=1),
        }
        plans = {k: a.plan(PROBLEM, n=n, d=d, budget=dc.Budget(1.0, 1e-10)) for k, a in algorithms.items()}
        alone = loops(CSR(X.data, X.indices, X.indptr, d, 1.0, 0.0), y, n, d)
        jobs = {**runs(plans, X, y), "NoisySGD, the loop, 200 steps": alone["NoisySGD, the loop"]}
        for name, t in medians(jobs, repeats).items():
            print(f"  d = {d:6}  {name:32}{t:8.3f} s {t / X.nnz * 1e9:8.2f} ns a non-zero", flush=True)


def stream(name: str, n: int, d: int, size: int) -> None:
    """One pass over batches that are made as they are asked for: rows a second without the making, and memory."""
    rng, truth = np.random.default_rng(0), np.random.default_rng(1).standard_normal(d)
    made = 0.0

    def batches(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal made
        for start in range(0, rows, size):
            began = time.perf_counter()
            X = rng.standard_normal((min(size, rows - start), d), dtype=np.float32)
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            y = (X @ truth > 0).astype(int)
            made += time.perf_counter() - began
            yield X, y

    def private(rows: int) -> Any:
        model = dc.PrivateSGDClassifier(delta=1e-9, feature_bound=1.0, classes=[0, 1], n_rows=rows)
        return model.fit_batches(batches(rows))

    def peer(rows: int) -> Any:
        model = SGDClassifier(loss="log_loss")
        for X, y in batches(rows):
            model.partial_fit(X, y, classes=[0, 1])
        return model

    warnings.simplefilter("ignore")  # two fits in one process
    job = {"PrivateSGDClassifier": private, "SGDClassifier": peer}[name]
    job(3 * size)  # to compile
    before, made, began = peak_memory(), 0.0, time.perf_counter()
    job(n)
    took, rose = time.perf_counter() - began - made, peak_memory() - before
    print(
        f"  {name:22}{took:8.2f} s {n / took:10.3g} rows/s, memory {before:.0f} MB and {rose:.0f} MB more", flush=True
    )


def streams(n: int, d: int, size: int) -> None:
    """Each in a process of its own, so that each has a peak of its own."""
    print(f"{n} x {d} float32 in batches of {size}, of {size * d * 4 / 2**20:.0f} MB; time to make them not counted;")
    print(f"peak of memory after {3 * size} rows, and what the {n} rows added to it")
    for name in ("PrivateSGDClassifier", "SGDClassifier"):
        worker = multiprocessing.get_context("spawn").Process(target=stream, args=(name, n, d, size))
        worker.start()
        worker.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--stream", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # the peer warns that one pass is not convergence
    if args.sweep:
        sweep(min(args.repeats, 3))
    elif args.sparse:
        sparse_rows(args.repeats)
    elif args.stream:
        streams(10**7, 20, 100_000)
    else:
        compare(args.rows, args.features, args.dtype, args.repeats)


if __name__ == "__main__":
    main()
