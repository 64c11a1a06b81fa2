"""Accuracy of `dc.choose` on real data, nothing tuned: `make bench-accuracy [DATA=folder]`.

Nothing is set by hand but epsilon, delta = n^-1.1, the relation and the public facts (rows of norm at most 1, labels,
target range). With DATA, the prepared data sets of that folder are used and compared with bars.json: tuned diffprivlib
and Opacus, and the best of every method tried in a separate study, oracle-tuned DP-GD included (tuning not charged to
the budget). Without DATA, public data sets are used, for which there are no bars.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import log_loss, roc_auc_score

import dpconvex as dc

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
HERE = Path(__file__).parent
Split = tuple[Any, np.ndarray, Any, np.ndarray]


# Data --------------------------------------------------------------------------------------------------------------


def prepared(folder: Path) -> dict[str, Callable[[], Split]]:
    """Data sets of a folder of .npz files: rows of unit norm whose last column is constant."""

    def load(name: str) -> Split:
        z = np.load(folder / f"{name}.npz")
        if "Xtr" not in z:
            parts = [
                sparse.csr_array((z[f"{k}_data"], z[f"{k}_indices"], z[f"{k}_indptr"]), shape=tuple(z[f"{k}_shape"]))
                for k in ("Xtr", "Xte")
            ]
            return parts[0], z["ytr"], parts[1], z["yte"]
        X = [z["Xtr"], z["Xte"]]
        if "kind" in z:  # pictures
            X = [np.hstack([x.astype(np.float32) / 255, np.ones((len(x), 1), np.float32)]) for x in X]
            X = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in X]
        return X[0], z["ytr"], X[1], z["yte"]

    names = ("adult", "credit", "covtype15k", "kdd99", "sst2", "calhousing", "mnist")
    return {name: lambda name=name: load(name) for name in names if (folder / f"{name}.npz").exists()}


def public() -> dict[str, Callable[[], Split]]:
    """Data sets that come with packages: raw Adult, and three small ones of scikit-learn."""
    from sklearn import datasets

    def unit(X: np.ndarray, y: np.ndarray, low: float, high: float) -> Split:
        X = np.hstack([(X - low) / (high - low) * 2 - 1, np.ones((len(X), 1))])
        X /= np.sqrt(X.shape[1])  # every entry is within 1, so every row is within the unit ball
        order = np.random.default_rng(20240501).permutation(len(X))
        cut = len(X) * 4 // 5
        return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]

    def adult() -> Split:
        def rows(split: str) -> tuple[np.ndarray, np.ndarray]:
            frame, target, schema = dc.datasets.load("adult", split=split)
            encoder = dc.PrivatePreprocessor(schema)
            X = encoder.fit_transform(frame)
            return np.hstack([X, np.full((len(X), 1), encoder.constant_)]), (target == ">50K").to_numpy(float)

        return *rows("train"), *rows("test")

    def digits() -> Split:
        return unit(*datasets.load_digits(return_X_y=True), 0.0, 16.0)

    def breast_cancer() -> Split:
        X, y = datasets.load_breast_cancer(return_X_y=True)
        return unit(np.log1p(X), y, 0.0, np.log1p(5000.0))

    def diabetes() -> Split:
        X, y = datasets.load_diabetes(return_X_y=True)
        return unit(X, (y - 185.0) / 165.0, -0.2, 0.2)

    return {"adult (raw)": adult, "digits": digits, "breast cancer": breast_cancer, "diabetes": diabetes}


# Runs --------------------------------------------------------------------------------------------------------------


def task(y: np.ndarray) -> str:
    values = np.unique(y)
    if set(values) <= {0.0, 1.0}:
        return "binary"
    return "classes" if np.array_equal(values, np.arange(len(values))) else "regression"


def scores(kind: str, plan: Any, split: Split, seed: int) -> dict[str, float]:
    X, y, Xt, yt = split
    labels = 2.0 * y - 1.0 if kind == "binary" else y
    found = plan.run(X, labels, dataset="accuracy", seed=seed).predict(Xt)
    if kind == "binary":
        p = np.clip(found, 1e-12, 1 - 1e-12)
        return {"auc": roc_auc_score(yt, p), "ll": log_loss(yt, p), "acc": float(np.mean((p > 0.5) == (yt > 0.5)))}
    if kind == "classes":
        return {"acc": float(np.mean(found.argmax(axis=1) == yt)), "ll": log_loss(yt, found)}
    return {"r2": 1.0 - float(np.sum((found - yt) ** 2) / np.sum((yt - yt.mean()) ** 2))}


def loss_for(kind: str, y: np.ndarray) -> Any:
    if kind == "classes":
        return dc.losses.Softmax(int(y.max()) + 1)
    return dc.losses.Logistic() if kind == "binary" else dc.losses.Squared(target=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--relation", nargs="*", default=["zero_out", "replace_one"])
    parser.add_argument("--epsilon", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore", dc.errors.NotPrivateWarning)
    bars = json.loads((HERE / "bars.json").read_text()) if args.data else {}
    gaps: dict[tuple[str, float], list[float]] = {}
    sets = prepared(args.data) if args.data else public()
    for name, load in sets.items():
        if args.only and name not in args.only:
            continue
        split = load()
        kind = task(split[1])
        n, d = split[0].shape
        problem = dc.Problem(loss_for(kind, split[1]))
        print(f"\n{name}: {kind}, n = {n}, d = {d}, delta = {n**-1.1:.2g}, {args.seeds} seeds", flush=True)
        for relation in args.relation:
            for epsilon in args.epsilon:
                plan = dc.choose(problem, n=n, d=d, budget=dc.Budget(epsilon, n**-1.1, relation))
                start = time.perf_counter()
                runs = [scores(kind, plan, split, 5000 + seed) for seed in range(args.seeds)]
                spent = (time.perf_counter() - start) / args.seeds
                line = f"  {relation:11} eps {epsilon:<4g}"
                for metric in runs[0]:
                    x = np.array([run[metric] for run in runs])
                    line += f"  {metric} {x.mean():.4f} ({x.std(ddof=1) if len(x) > 1 else 0:.4f})"
                    line += compare(bars, gaps, name, metric, relation, epsilon, x.mean())
                print(f"{line}  {spent:.2f} s a run", flush=True)
    for (relation, epsilon), gap in sorted(gaps.items()):
        print(f"mean AUC minus best of all, {relation}, eps {epsilon:g}: {np.mean(gap):+.4f} over {len(gap)} sets")


def compare(
    bars: dict[str, Any], gaps: dict[tuple[str, float], list[float]], name: str, metric: str, relation: str,
    epsilon: float, mean: float,
) -> str:  # fmt: skip
    """Words on how a mean stands against the bars (which are for add/remove or zero-out adjacency)."""
    columns = bars.get(name, {}).get(metric)
    if not columns or epsilon not in EPSILONS:
        return ""
    at = EPSILONS.index(epsilon)
    better = -1.0 if metric == "ll" else 1.0
    tolerance = {"auc": 0.002, "ll": 0.004}.get(metric, 0.0)
    lost = [c for c, v in columns.items() if c != "best of all" and better * (mean - v[at]) < -tolerance]
    if metric == "auc" and len(columns) > 1:
        gaps.setdefault((relation, epsilon), []).append(mean - columns["best of all"][at])
    return f" [best {columns['best of all'][at]:.4f}{', below ' + ' and '.join(lost) if lost else ''}]"


if __name__ == "__main__":
    main()
