"""Fit time of `dc.choose`, certificate included, as a ratio to scikit-learn's LogisticRegression in the same run.

Usage: fit_time.py --data folder [--only adult ...]; without a folder, raw Adult.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from statistics import median

from accuracy import prepared, public, task
from sklearn.linear_model import LogisticRegression

import dpconvex as dc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=["adult", "credit", "covtype15k", "sst2", "kdd99", "adult (raw)"])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = prepared(args.data) if args.data else public()
    for name, load in sets.items():
        if name not in args.only:
            continue
        X, y, _, _ = load()
        if task(y) != "binary":
            continue
        n, d = X.shape
        plan = dc.choose(dc.Problem(dc.losses.Logistic()), n=n, d=d, budget=dc.Budget(1.0, n**-1.1))
        plan.run(X, 2 * y - 1, dataset="fit time")  # compile
        peer, ours = [], []
        for run in range(args.repeats):
            start = time.perf_counter()
            LogisticRegression(solver="lbfgs", max_iter=1000).fit(X, y)
            peer.append(time.perf_counter() - start)
            start = time.perf_counter()
            plan.run(X, 2 * y - 1, dataset=f"fit time {run}")  # other people each time, or the account would add up
            ours.append(time.perf_counter() - start)
        p, o = median(peer), median(ours)
        print(f"{name:12} LogisticRegression {p:.3f} s, dc.choose {o:.3f} s, ratio {o / p:.2f}", flush=True)


if __name__ == "__main__":
    main()
