"""Every private linear model beside its peers, nothing of ours tuned: `make bench-accuracy [DATA=folder]`.

    python benchmarks/family.py [--data folder] [--seeds 5] [--only PrivateLinearSVC]

Ours: the estimator as it comes, with epsilon, delta = n^-1.1, the relation and the public facts. Peers, each with its
best setting on the test rows (tuning not charged):

- PrivateLinearSVC: objective perturbation of the rounded hinge loss with the published accounting, best of 3 widths and
  4 values of l2 (accuracy).
- PrivateRidge: AdaSSP (SufficientStatistics) and clipped noisy gradient descent, best of 4 numbers of steps (R^2); with
  DATA the study's tuned DP-GD is in bars.json.
- PrivateHuberRegressor and PrivateQuantileRegressor have no private peer: the same loss minimised without privacy. Nor
  have the models of one pass (PrivateSGD..., PrivateOnline...) and of sparse weights (PrivateLasso,
  PrivateSparseLogisticRegression): a model of scikit-learn without privacy stands beside them.
- PrivateLogisticRegression: accuracy.py.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import EPSILONS, HERE, Split, prepared, public, task
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor, Ridge

import dpconvex as dc

QUANTILES = (0.5, 0.9)
Score = Callable[[np.ndarray, np.ndarray], float]


def accuracy_of(found: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((found > 0) == (y > 0)))


def r2_of(found: np.ndarray, y: np.ndarray) -> float:
    return 1.0 - float(np.sum((found - y) ** 2) / np.sum((y - y.mean()) ** 2))


def absolute_of(found: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.abs(found - y)))


def pinball_of(quantile: float) -> Score:
    def score(found: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(np.where(found > y, (1.0 - quantile) * (found - y), quantile * (y - found))))

    return score


def ours(model: Any, split: Split, score: Score, seeds: int) -> np.ndarray:
    """Scores of an estimator over seeds of its noise."""
    X, y, Xt, yt = split
    found = []
    for seed in range(seeds):
        model.set_params(random_state=5000 + seed).fit(X, y)
        values = model.decision_function(Xt) if hasattr(model, "decision_function") else model.predict(Xt)
        found.append(score(values, yt))
    return np.array(found)


def best_plan(plans: list[Any], split: Split, score: Score, seeds: int) -> float:
    """Mean score of the plan that does best on the test rows."""
    X, y, Xt, yt = split
    means = []
    for plan in plans:
        scores = [score(Xt @ plan.run(X, y, seed=9000 + s).weights, yt) for s in range(seeds)]
        means.append(float(np.mean(scores)))
    return max(means)


def svc_peers(n: int, d: int, budget: dc.Budget) -> list[Any]:
    plans = []
    for width in (0.5, 1.0, 2.0):
        for l2 in (3.0, 10.0, 30.0, 100.0):
            problem = dc.Problem(dc.losses.SmoothedHinge(width), l2=l2)
            try:
                plans.append(
                    dc.algorithms.ObjectivePerturbation(accounting="published").plan(problem, n=n, d=d, budget=budget)
                )
            except dc.errors.DpconvexError:
                continue  # that accounting has no claim for so small an l2
    return plans


def ridge_peers(n: int, d: int, budget: dc.Budget) -> dict[str, list[Any]]:
    ball = dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(4.0))
    return {
        "AdaSSP": [dc.algorithms.SufficientStatistics().plan(ball, n=n, d=d, budget=budget)],
        "noisy GD": [
            dc.algorithms.NoisyGD(steps=steps).plan(
                dc.Problem(dc.losses.Squared(), ball.domain), n=n, d=d, budget=budget
            )
            for steps in (30, 100, 300, 1000)
        ],
    }


def line(label: str, x: np.ndarray, rest: str) -> None:
    print(f"  {label:34} {x.mean():.4f} ({x.std(ddof=1) if len(x) > 1 else 0.0:.4f})  {rest}", flush=True)


def classification(name: str, split: Split, relation: str, epsilon: float, seeds: int) -> None:
    X, y, Xt, yt = split
    signed = (X, 2.0 * y - 1.0, Xt, 2.0 * yt - 1.0)
    n, d = X.shape
    budget = dc.Budget(epsilon, n**-1.1, relation)
    model = dc.PrivateLinearSVC(
        epsilon, budget.delta, feature_bound=1.0, classes=[-1, 1], relation=relation, fit_intercept=False
    )
    x = ours(model, signed, accuracy_of, seeds)
    peer = best_plan(svc_peers(n, d, budget), signed, accuracy_of, seeds)
    line(f"SVC accuracy {relation} eps {epsilon:g}", x, f"published, tuned {peer:.4f} {_verdict(x.mean() - peer, x)}")
    given = {
        "epsilon": epsilon, "delta": budget.delta, "feature_bound": 1.0, "classes": [-1, 1], "relation": relation,
        "fit_intercept": False,
    }  # fmt: skip
    kinds = [dc.PrivateSGDClassifier(**given), dc.PrivateOnlineClassifier(**given)]
    if d <= 1000:
        kinds.append(dc.PrivateSparseLogisticRegression(**given))
    free = LogisticRegression(C=100.0, fit_intercept=False, max_iter=300).fit(X, signed[1])
    singles(kinds, signed, accuracy_of, seeds, accuracy_of(free.decision_function(Xt), signed[3]), "accuracy")


def singles(models: list[Any], split: Split, score: Score, seeds: int, free: float, what: str) -> None:
    """Models without a private peer, beside what can be had without privacy."""
    for model in models:
        x = ours(model, split, score, seeds)
        label = f"{type(model).__name__.removeprefix('Private')} {what}"
        line(f"{label} {model.relation} eps {model.epsilon:g}", x, f"without privacy {free:.4f}")


def regression(name: str, split: Split, relation: str, epsilon: float, seeds: int, bars: dict[str, Any]) -> None:
    X, y, Xt, yt = split
    n, d = X.shape
    budget = dc.Budget(epsilon, n**-1.1, relation)
    facts = {"feature_bound": 1.0, "target_range": (-1.0, 1.0), "relation": relation, "fit_intercept": False}
    given = {"epsilon": epsilon, "delta": budget.delta, **facts}
    x = ours(dc.PrivateRidge(**given), split, r2_of, seeds)
    peers = {k: best_plan(p, split, r2_of, seeds) for k, p in ridge_peers(n, d, budget).items()}
    if epsilon in EPSILONS and name in bars:
        peers["tuned DP-GD of the study"] = bars[name]["r2"]["best of all"][EPSILONS.index(epsilon)]
    words = ", ".join(f"{k} {v:.4f} {_verdict(x.mean() - v, x)}" for k, v in peers.items())
    line(f"Ridge R^2 {relation} eps {epsilon:g}", x, words)
    kinds = [kind(**given) for kind in (dc.PrivateSGDRegressor, dc.PrivateOnlineRegressor, dc.PrivateLasso)]
    free = Ridge(alpha=1e-3, fit_intercept=False).fit(X, y)
    singles(kinds, split, r2_of, seeds, r2_of(np.clip(free.predict(Xt), -1, 1), yt), "R^2")
    huber = HuberRegressor(epsilon=1.35, alpha=1e-6, max_iter=2000, fit_intercept=False).fit(X, y)
    x = ours(dc.PrivateHuberRegressor(**given), split, absolute_of, seeds)
    free = absolute_of(np.clip(huber.predict(Xt), -1, 1), yt)
    line(
        f"Huber mean |error| {relation} eps {epsilon:g}",
        x,
        f"without privacy {free:.4f}, constant {_constant(y, yt, 0.5):.4f}",
    )
    for q in QUANTILES:
        score = pinball_of(q)
        exact = QuantileRegressor(quantile=q, alpha=0.0, fit_intercept=False).fit(X, y).predict(Xt)
        x = ours(dc.PrivateQuantileRegressor(q, **given), split, score, seeds)
        still = score(np.full(len(yt), np.quantile(y, q)), yt)
        line(
            f"quantile {q:g} pinball {relation} eps {epsilon:g}",
            x,
            f"without privacy {score(exact, yt):.4f}, constant {still:.4f}",
        )


def _constant(y: np.ndarray, yt: np.ndarray, q: float) -> float:
    return absolute_of(np.full(len(yt), np.quantile(y, q)), yt)


def _verdict(gain: float, x: np.ndarray) -> str:
    error = 2.0 * x.std(ddof=1) / len(x) ** 0.5 if len(x) > 1 else 0.0
    return "(below)" if gain < -error else "(met)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--relation", nargs="*", default=["zero_out", "replace_one"])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.1, 1.0, 8.0])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bars = json.loads((HERE / "bars.json").read_text()) if args.data else {}
    sets = prepared(args.data) if args.data else public()
    for name, load in sets.items():
        if (args.only and name not in args.only) or name in ("mnist", "digits"):
            continue
        split = load()
        kind = task(split[1])
        print(f"{name}: n = {split[0].shape[0]}, d = {split[0].shape[1]}, {args.seeds} seeds", flush=True)
        for relation in args.relation:
            for epsilon in args.epsilon:
                if kind == "binary":
                    classification(name, split, relation, epsilon, args.seeds)
                else:
                    regression(name, split, relation, epsilon, args.seeds, bars)


if __name__ == "__main__":
    main()
