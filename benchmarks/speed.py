"""Rows per second of one private pass, as a ratio to scikit-learn in the same run: `make bench`.

The peer is SGDClassifier(loss="log_loss", max_iter=1): one pass of SGD over the same rows, without privacy. "run" is
`plan.run` with checks of the data, noise and receipt; "loop" is the compiled pass alone. Measurements alternate
between the two libraries, and each ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

import dpconvex as dc
from dpconvex.loops.rows import Dense
from dpconvex.loops.stream import Pass


def seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    n, d = args.rows, args.features
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)

    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    plan = dc.algorithms.PhasedSGD().plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-8))
    steps, tails = np.full(n, 0.01), np.arange(n, 0, -1) / n
    rows = Dense(X, 1.0, 0.0)
    warnings.simplefilter("ignore")  # the peer warns that one pass is not convergence

    def peer() -> None:
        SGDClassifier(loss="log_loss", max_iter=1).fit(X, y)

    def run() -> None:
        plan.run(X, y, dataset="speed")

    def loop() -> None:
        Pass(np.zeros(d), steps, tails).advance(rows, y, problem.loss, problem.domain, n)

    times: dict[str, list[float]] = {"peer": [], "run": [], "loop": []}
    run(), loop()  # compile
    for _ in range(args.repeats):
        for name, job in (("peer", peer), ("run", run), ("loop", loop)):
            times[name].append(seconds(job))
    print(f"{n} x {d} float64, median of {args.repeats}")
    for name, label in (
        ("peer", "SGDClassifier, one pass"),
        ("run", "PhasedSGD, plan.run"),
        ("loop", "the loop alone"),
    ):
        t = median(times[name])
        print(f"  {label:26}{t:8.3f} s {n / t:14.3g} rows/s   {median(times['peer']) / t:5.2f} x the peer")


if __name__ == "__main__":
    main()
