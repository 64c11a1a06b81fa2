"""How much of a score the noise leaves: the constants behind the scores of `recommend`, and behind "hopeless".

    python benchmarks/scores.py --data folder [--seeds 2] [--cache scores.json] [--write] [--confirm]

Parts of public tables, of 10 to 10,000 rows, are fitted with what `dc.choose` plans at epsilon 0.1, 0.5, 1 and 4 under
replace_one. On test rows three models are compared: the released one, the one of the same rows without privacy (the
best of a path of l2), and the trivial one, which knows the shares of the classes or the mean and nothing of the
features. The part of a score that is kept is (private - trivial) / (without privacy - trivial). Then it

- fits kept = 1 / (1 + (r / r0)^b) for AUC, accuracy and R^2, with r as in prediction.py, and states typical anchors;
- says for several limits on the noise (`drowned` in the chooser) how often a fit above it is no better in log-loss, or
  in squared error, than the trivial model, and how many such fits are below it.

With --confirm, tables that were not used for the constants are measured, and compared with what is predicted.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import Split
from classes import DIAMONDS, cut, diamonds, encoded, made
from prediction import LOSSES, MEASURED, Cache, dump, loaders, mean_loss, plain_fits
from scipy.optimize import least_squares
from sklearn.metrics import roc_auc_score

import dpconvex as dc
from dpconvex.chooser.forms import noise_level
from dpconvex.chooser.prediction import HOPELESS, drowned
from dpconvex.data.schema import Category, Number, Range
from dpconvex.datasets.fetch import get_file
from dpconvex.plan.plan import probabilities

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
EPSILONS = (0.1, 0.5, 1.0, 4.0)
TABLES = {
    "margin": ("adult", "credit", "covtype15k", "breast cancer", "randhie", "compas", "kdd99"),
    "classes": ("marital", "digits", "made 3", "made 7"),
    "squares": ("calhousing", "diabetes", "adult age", "credit limit"),
}
KEPT_ASIDE = {"margin": ("sst2", "made 2"), "classes": ("diamonds", "made 12"), "squares": ("prices",)}
MOST = 4000  # test rows


class Fit(NamedTuple):
    """What a fit reached: its noise levels, and for each score private, trivial and without privacy."""

    name: str
    task: str
    n: int
    epsilon: float
    r: float
    hopeless: float
    scores: dict[str, tuple[float, float, float]]

    def kept(self, score: str) -> float:
        private, trivial, free = self.scores[score]
        return (private - trivial) / (free - trivial)


def prices() -> Split:
    """The logarithm of the price of diamonds, from everything else."""
    import pandas as pd

    frame = pd.read_csv(io.BytesIO(get_file(DIAMONDS, "plotnine/data/diamonds.csv")))
    columns = {
        "carat": Number(0.2, 5.0, log=True),
        "cut": Category(("Fair", "Good", "Very Good", "Premium", "Ideal")),
        "color": Category(tuple("DEFGHIJ")),
        "clarity": Category(("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")),
        "depth": Number(50, 70),
        "table": Number(50, 70),
    }
    schema = dc.Schema(columns, Range("price", 300, 20_000), name="prices")
    y = np.log(frame["price"].to_numpy() / 300.0) / math.log(20_000 / 300) * 2.0 - 1.0
    return cut(encoded(frame[list(columns)], schema), np.clip(y, -1.0, 1.0))


def two() -> Split:
    """The made-up table of seven classes, its first class against the others."""
    X, y, Xt, yt = made(40_000, 7, seed=1)
    return X, (y == 0).astype(float), Xt, (yt == 0).astype(float)


def sources(folder: Path) -> dict[str, Callable[[], Split]]:
    own = {f"made {k}": lambda k=k: made(40_000, k) for k in (3, 7, 12)}
    return {**loaders(folder), **own, "made 2": two, "diamonds": diamonds, "prices": prices}


# Scores ------------------------------------------------------------------------------------------------------------


def measured(task: str, loss: Any, w: np.ndarray, X: Any, y: np.ndarray) -> dict[str, float]:
    """Scores of weights that were fitted with `loss`; larger is better."""
    found = {"loss": -mean_loss(task, loss, X, y, w)}
    z = np.asarray(X @ w.T, float)
    if task == "margin":
        return found | {"auc": float(roc_auc_score(y, z)), "accuracy": float(np.mean((z > 0) == (y > 0)))}
    if task == "classes":
        return found | {"accuracy": float(np.mean(probabilities(loss, z).argmax(axis=1) == y))}
    return found | {"r2": 1.0 + 2.0 * found["loss"] / float(np.var(y))}


def trivial(task: str, y: np.ndarray, yt: np.ndarray) -> dict[str, float]:
    """Scores of the shares of the classes, or of the mean, of all training rows."""
    if task == "squares":
        return {"loss": -float(np.mean((yt - y.mean()) ** 2)) / 2.0, "r2": 0.0}
    values, counts = np.unique(y, return_counts=True)
    shares = dict(zip(values, counts / len(y), strict=True))
    found = {"loss": float(np.mean([math.log(shares.get(v, 1e-12)) for v in yt]))}
    found["accuracy"] = float(np.mean(yt == values[counts.argmax()]))
    return found | ({"auc": 0.5} if task == "margin" else {})


def measure(cache: Cache, task: str, name: str, load: Callable[[], Split], seeds: int) -> list[Fit]:
    X, y, Xt, yt = load()
    order = np.random.default_rng(11).permutation(X.shape[0])
    X, y, Xt, yt = X[order[: SIZES[-1]]], np.asarray(y)[order], Xt[:MOST], np.asarray(yt, float)[:MOST]
    if task == "margin":
        y, yt = np.where(y > 0, 1.0, -1.0), np.where(yt > 0, 1.0, -1.0)
    base, fits = trivial(task, y, yt), []
    loss, y = LOSSES[task](y), y[: SIZES[-1]]
    for n in SIZES:
        if n > len(y) or (task == "classes" and n < 100) or len(np.unique(y[:n])) < 2:
            continue
        d, key = X.shape[1], f"{name}|{task}|{n}"
        if key not in cache.kept:
            if task == "classes" and len(np.unique(y[:n])) <= int(y.max()):
                continue
            plain = [measured(task, loss, w, Xt, yt) for w in plain_fits(task, X[:n], y[:n])]
            cache.kept[key] = {score: max(one[score] for one in plain) for score in plain[0]}
        free = cache.kept[key]
        for epsilon in EPSILONS:
            budget, problem = dc.Budget(epsilon, min(n**-1.1, 1e-4)), dc.Problem(loss)
            runs = cache.kept.setdefault(f"{key}|{epsilon:g}", [])
            if len(runs) < seeds:
                plan = dc.choose(problem, n=n, d=d, budget=budget)
                for seed in range(len(runs), seeds):
                    w = plan.run(X[:n], y[:n], seed=6000 + seed, dataset="scores").weights
                    runs.append(measured(task, plan.problem.loss, w, Xt, yt))
            scores = {s: (float(np.mean([run[s] for run in runs])), base[s], free[s]) for s in base}
            levels = noise_level(problem, n, d, budget), drowned(problem, n, d, budget)
            fits.append(Fit(name, task, n, epsilon, *levels, scores))
    cache.save()
    return fits


# Constants ---------------------------------------------------------------------------------------------------------


def usable(fits: list[Fit], score: str) -> list[Fit]:
    """Fits to enough rows that there is something to keep."""
    return [f for f in fits if f.n >= 100 and score in f.scores and f.scores[score][2] - f.scores[score][1] > 0.05]


def curve(fits: list[Fit], score: str) -> tuple[float, float]:
    """r0 and b of kept = 1 / (1 + (r / r0)^b), every table counting the same."""
    of = usable(fits, score)
    r, kept = np.array([f.r for f in of]), np.clip([f.kept(score) for f in of], 0.0, 1.0)
    weight = np.sqrt([1.0 / sum(g.name == f.name for g in of) for f in of])
    found = least_squares(lambda p: weight * (1.0 / (1.0 + np.exp(p[1] * (np.log(r) - p[0]))) - kept), [0.0, 1.0])
    return float(math.exp(found.x[0])), float(found.x[1])


def missed(fits: list[Fit], score: str, middle: float, steep: float) -> list[float]:
    """How far the curve is from the part that each fit kept."""
    return [abs(1.0 / (1.0 + (f.r / middle) ** steep) - min(max(f.kept(score), 0.0), 1.0)) for f in fits]


def off_words(off: list[float]) -> str:
    return f"off by {np.mean(off):.2f} on average, {np.quantile(off, 0.85):.2f} in 85%"


def anchors(fits: list[Fit], score: str) -> tuple[float, float]:
    """Medians over tables of the trivial score, and of that without privacy with the most rows."""
    largest = {f.name: f for f in sorted(fits, key=lambda f: f.n) if score in f.scores}
    return tuple(float(np.median([f.scores[score][k] for f in largest.values()])) for k in (1, 2))  # type: ignore[return-value]


def gains(f: Fit) -> bool:
    private, still, _ = f.scores["loss"]
    return private > still


def judge(fits: list[Fit]) -> None:
    """Print how often a warning is right, at several limits."""
    bad = np.array([not gains(f) for f in fits])
    for limit in (0.2, 0.3, 0.5, 0.7, 1.0):
        warned = np.array([f.hopeless >= limit for f in fits])
        mark = " <- HOPELESS" if limit == HOPELESS else ""
        right, missed = (warned & bad).sum(), (~warned & bad).sum()
        words = f"{right} of them no better than the trivial model; {missed} of {bad.sum()} such fits not warned of"
        print(f"hopeless from {limit:g}: warned of {warned.sum()} of {len(fits)} fits, {words}{mark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path("scores.json"))
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cache, sets = Cache(args.cache), sources(args.data)
    fits: list[Fit] = []
    for task, names in (KEPT_ASIDE if args.confirm else TABLES).items():
        for name in names:
            fits += measure(cache, task, name, sets[name], args.seeds)
            print(f"measured {name}", flush=True)
    for f in fits:
        words = "  ".join(f"{s} {a:.3f} ({b:.3f} to {c:.3f})" for s, (a, b, c) in f.scores.items())
        print(f"  {f.task:8} {f.name:14} n {f.n:<6} eps {f.epsilon:<4g} r {f.r:<8.3g} {words}")
    if args.confirm:
        kept = json.loads(MEASURED.read_text())
        judge(fits)
        for task, found in kept["scores"].items():
            for score, (middle, steep, *_) in found.items():
                of = usable([f for f in fits if f.task == task], score)
                off = missed(of, score, middle, steep)
                print(f"{task}, {score}: part kept {off_words(off)} of {len(of)} fits")
        return
    of_task = {task: [f for f in fits if f.task == task] for task in TABLES}
    judge(fits)
    scores: dict[str, dict[str, list[float]]] = {}
    for task, found in of_task.items():
        for score in [s for s in found[0].scores if s != "loss"]:
            made_of = (*curve(found, score), *anchors(found, score))
            scores.setdefault(task, {})[score] = [round(v, 3) for v in made_of]
            off = missed(usable(found, score), score, *made_of[:2])
            print(f"{task}, {score}: kept 1 / (1 + (r / {made_of[0]:.3g})^{made_of[1]:.2f}), {off_words(off)}")
            print(f"{task}, {score}: trivial {made_of[2]:.3f}, without privacy {made_of[3]:.3f}")
    if args.write:
        dump(json.loads(MEASURED.read_text()) | {"scores": scores})


if __name__ == "__main__":
    main()
