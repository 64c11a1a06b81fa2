"""Several classes: the default beside its alternatives, the prior, and a fit without privacy.

    python benchmarks/classes.py [--data folder] [--epsilon 1 4 100] [--seeds 3] [--only "made 3" "made 7"]

For each table and epsilon, with delta = n^-1.1 (1e-5 if that is less) under replace_one and nothing tuned: log-loss and
accuracy on test rows of what `dc.choose` plans, and of every algorithm that takes a softmax in the form `dc.recommend`
gives it, and the largest difference between the mean of a predicted probability and the share of its class. A line says
"behind" where the log-loss of the default is above that of an alternative or of the prior by more than one standard
error of the difference (over test rows, in pairs, and over runs), "level" where it is above by less, and "first" where
it is the lowest.

Tables: made-up ones with 3, 7 and 12 classes (`made`), which a linear model describes in part; the marital status of
the people of Adult, the clarity of diamonds, the digits of scikit-learn, wines and irises, and MNIST from --data.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import Split, prepared, public
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

import dpconvex as dc
from dpconvex.chooser.forms import form
from dpconvex.data.schema import Category, Classes, Number
from dpconvex.datasets.fetch import Archive, get_file

PRIORS = {
    3: (0.114, 0.348, 0.538),
    7: (0.46, 0.33, 0.12, 0.03, 0.025, 0.02, 0.015),
    12: (0.25, 0.2, 0.13, 0.1, 0.08, 0.07, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01),
}
STRENGTH = {3: 0.18, 7: 0.6, 12: 0.6}
DIAMONDS = Archive(
    "plotnine==0.15.8",
    2,
    {"plotnine/data/diamonds.csv": "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4"},
)


# Tables ------------------------------------------------------------------------------------------------------------


def made(n: int, classes: int, seed: int = 0, test: int = 20_000) -> Split:
    """Rows of numbers and one-hot categories, and labels by a softmax that bends, with the shares of PRIORS."""
    rng = np.random.default_rng(seed)
    numbers, levels, strength = 8, (2, 2, 3, 3, 4, 5, 6, 8, 10, 12), STRENGTH[classes]
    many, prior = n + test, np.array(PRIORS[classes])
    plain = rng.normal(size=(many, numbers)) * rng.uniform(0.1, 0.5, numbers) + rng.uniform(-0.5, 0.5, numbers)
    plain = np.clip(plain, -1.0, 1.0)
    shares = [rng.dirichlet(np.full(level, 0.7)) for level in levels]
    coded = [np.eye(len(p))[rng.choice(len(p), size=many, p=p)] for p in shares]
    X = np.hstack([plain, *coded])
    scores = strength * (X @ rng.normal(size=(X.shape[1], classes)))
    scores += 0.5 * strength * np.maximum(plain @ rng.normal(size=(numbers, classes)), 0.0)
    offset = np.log(prior)
    for _ in range(200):  # shares as asked for
        P = softmax(scores + offset)
        offset += np.log(prior) - np.log(P.mean(axis=0))
    y = (P.cumsum(axis=1) > rng.random(many)[:, None]).argmax(axis=1).astype(float)
    X = np.hstack([X, np.ones((many, 1))]) / np.sqrt(numbers + len(levels) + 1)
    return X[:n], y[:n], X[n:], y[n:]


def steep(n: int, classes: int, seed: int = 0, test: int = 20_000) -> Split:
    """Ordered classes that are told by the small difference of two numbers, as quality is by price given size."""
    rng = np.random.default_rng(seed)
    many = n + test
    size = 0.35 * rng.normal(size=many)
    pair = np.clip(np.column_stack([size, size + 0.06 * rng.normal(size=many)]), -1.0, 1.0)
    coded = [np.eye(k)[rng.choice(k, size=many, p=rng.dirichlet(np.full(k, 0.8)))] for k in (5, 7)]
    score = (pair[:, 1] - pair[:, 0]) / 0.06 + sum(c @ (0.4 * rng.normal(size=c.shape[1])) for c in coded)
    score += 0.6 * rng.logistic(size=many)
    y = np.digitize(score, np.quantile(score, np.linspace(0.0, 1.0, classes + 1)[1:-1])).astype(float)
    X = np.hstack([pair, *coded, np.ones((many, 1))]) / np.sqrt(5.0)
    return X[:n], y[:n], X[n:], y[n:]


def softmax(scores: np.ndarray) -> np.ndarray:
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def within(X: np.ndarray, y: np.ndarray, low: Any, high: Any) -> Split:
    """Columns of public ranges, a constant one, rows within the unit ball."""
    X = np.clip((X - low) / (np.asarray(high) - low) * 2.0 - 1.0, -1.0, 1.0)
    X = np.hstack([X, np.ones((len(X), 1))]) / np.sqrt(X.shape[1] + 1)
    return cut(X, np.unique(y, return_inverse=True)[1].astype(float))


def cut(X: np.ndarray, y: np.ndarray) -> Split:
    order = np.random.default_rng(20240501).permutation(len(X))
    at = len(X) * 4 // 5
    return X[order[:at]], y[order[:at]], X[order[at:]], y[order[at:]]


def encoded(frame: Any, schema: dc.Schema) -> np.ndarray:
    encoder = dc.PrivatePreprocessor(schema)
    X = encoder.fit_transform(frame)
    return np.hstack([X, np.full((len(X), 1), encoder.constant_)])


def marital() -> Split:
    """The marital status of the people of Adult, seven classes."""
    parts = []
    for split in ("train", "test"):
        frame, _, schema = dc.datasets.load("adult", split=split)
        labels = list(schema.columns["marital-status"].categories)
        columns = {k: v for k, v in schema.columns.items() if k not in ("marital-status", "relationship")}
        rest = dc.Schema(columns, Classes("marital-status", tuple(labels)), name="marital")
        y = np.array([labels.index(v) for v in frame["marital-status"]], float)
        parts.append((encoded(frame[list(columns)], rest), y))
    return *parts[0], *parts[1]


def diamonds() -> Split:
    """The clarity of diamonds, eight classes."""
    import pandas as pd

    frame = pd.read_csv(io.BytesIO(get_file(DIAMONDS, "plotnine/data/diamonds.csv")))
    labels = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
    columns = {
        "carat": Number(0.2, 5.0, log=True),
        "cut": Category(("Fair", "Good", "Very Good", "Premium", "Ideal")),
        "color": Category(tuple("DEFGHIJ")),
        "depth": Number(50, 70),
        "table": Number(50, 70),
        "price": Number(300, 20_000, log=True),
    }
    schema = dc.Schema(columns, Classes("clarity", labels), name="diamonds")
    y = np.array([labels.index(v) for v in frame["clarity"]], float)
    return cut(encoded(frame[list(columns)], schema), y)


def tables(folder: Path | None) -> dict[str, Callable[[], Split]]:
    found: dict[str, Callable[[], Split]] = {
        "made 3": lambda: made(80_000, 3),
        "made 7": lambda: made(40_000, 7),
        "made 12": lambda: made(40_000, 12),
        "marital": marital,
        "diamonds": diamonds,
        "digits": public()["digits"],
        "wine": lambda: within(*datasets.load_wine(return_X_y=True), *WINE),
        "iris": lambda: within(*datasets.load_iris(return_X_y=True), 0.0, 8.0),
    }
    return found | ({"mnist": prepared(folder)["mnist"]} if folder else {})


# Round numbers around what a wine has: alcohol, malic acid, ash, alkalinity, magnesium, phenols, ...
WINE = (
    np.array([10.0, 0.0, 1.0, 10.0, 60.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 200.0]),
    np.array([16.0, 7.0, 4.0, 35.0, 170.0, 5.0, 6.0, 1.0, 4.0, 15.0, 2.0, 5.0, 2000.0]),
)


# Runs --------------------------------------------------------------------------------------------------------------


def log_loss(P: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.clip(P[np.arange(len(y)), y.astype(int)], 1e-12, 1.0)).mean())


def scores(P: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-loss, accuracy, and how far the mean of a probability is from the share of its class."""
    shares = np.bincount(y.astype(int), minlength=P.shape[1]) / len(y)
    return np.array([log_loss(P, y), np.mean(P.argmax(axis=1) == y), np.abs(P.mean(axis=0) - shares).max()])


class Runs(NamedTuple):
    """Scores of each run, and the log-loss of each test row, mean over runs."""

    scores: np.ndarray
    rows: np.ndarray


def several(plan: Any, split: Split, seeds: int) -> Runs:
    X, y, Xt, yt = split
    found = [plan.run(X, y, seed=5000 + s, dataset="classes").predict(Xt) for s in range(seeds)]
    at = np.arange(len(yt)), yt.astype(int)
    rows = np.mean([-np.log(np.clip(P[at], 1e-12, 1.0)) for P in found], axis=0)
    return Runs(np.array([scores(P, yt) for P in found]), rows)


def gap(ours: Runs, other: Runs) -> tuple[float, float]:
    """How much more we lose, and the standard error of that: over test rows, which are the same, and over runs."""
    more = ours.rows - other.rows
    runs = sum(float(r.scores[:, 0].var(ddof=1)) / len(r.scores) for r in (ours, other) if len(r.scores) > 1)
    return float(more.mean()), (float(more.var()) / len(more) + runs) ** 0.5


def words(found: np.ndarray) -> str:
    loss, right, off = found.mean(axis=0)
    return f"log-loss {loss:.4f} ({found[:, 0].std():.4f})  accuracy {right:.4f}  class means off by {off:.4f}"


def compare(name: str, split: Split, epsilons: list[float], seeds: int, least: int) -> None:
    X, y, Xt, yt = split
    (n, d), K = X.shape, int(y.max()) + 1
    prior = np.bincount(y.astype(int), minlength=K) / n
    free = LogisticRegression(C=1000.0, fit_intercept=False, max_iter=200).fit(X, y).predict_proba(Xt)
    still = log_loss(np.tile(prior, (len(yt), 1)), yt)
    anchors = f"prior {still:.4f}, accuracy {np.mean(yt == prior.argmax()):.4f}"
    best = f"without privacy {log_loss(free, yt):.4f}, accuracy {np.mean(free.argmax(axis=1) == yt):.4f}"
    print(f"\n{name}: {K} classes, n = {n}, d = {d}; {anchors}; {best}", flush=True)
    for epsilon in epsilons:
        budget, problem = dc.Budget(epsilon, min(n**-1.1, 1e-5)), dc.Problem(dc.losses.Softmax(K))
        chosen = dc.choose(problem, n=n, d=d, budget=budget)
        results = {}
        for algorithm in ("NoisyGD", "ObjectivePerturbation", "PoissonSGD")[:least]:
            shaped = form(algorithm, problem, n, d, budget)
            plan = getattr(dc.algorithms, algorithm)().plan(shaped, n=n, d=d, budget=budget)
            results[algorithm] = several(plan, split, seeds)
        first = type(chosen.algorithm).__name__
        for algorithm, found in results.items():
            mark = " <- default" if algorithm == first else ""
            print(f"  eps {epsilon:<4g} {algorithm:22} {words(found.scores)}{mark}", flush=True)
        ours, prior_rows = results[first], -np.log(np.maximum(prior, 1e-12))[yt.astype(int)]
        bar = {k: v for k, v in results.items() if k != first} | {"the prior": Runs(np.empty((0, 3)), prior_rows)}
        said = []
        for other, found in bar.items():
            more, error = gap(ours, found)
            if more > 0.0:
                how = "behind" if more > error else "level with"
                said.append(f"{how} {other}, {more:.4f} ({error:.4f}) more")
        print(f"  eps {epsilon:<4g} default: {'; '.join(said) or 'first'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 4.0, 100.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--alternatives", type=int, default=3, choices=(2, 3), help="2 leaves out PoissonSGD")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, load in tables(args.data).items():
        if not args.only or name in args.only:
            compare(name, load(), args.epsilon, args.seeds, args.alternatives)


if __name__ == "__main__":
    main()
