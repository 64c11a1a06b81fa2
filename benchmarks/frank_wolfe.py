"""Sparse logistic regression with many features: FrankWolfe on the l1 ball beside methods whose noise grows with d.

    python benchmarks/frank_wolfe.py --n 20000 --d 5000
    python benchmarks/frank_wolfe.py --n 2000 --d 20000 --runs 3

Rows are of -1 and +1, ten features matter, and the ball is that of the weights the labels were drawn from. Excess is
the mean loss on the data above its minimum on the ball, found without privacy.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit

import dpconvex as dc

RELEVANT = 10


def draw(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows, labels, and the l1 norm of the weights behind the labels."""
    X = rng.integers(0, 2, size=(n, d), dtype=np.int8).astype(np.float32)
    X *= 2
    X -= 1
    w = np.where(np.arange(RELEVANT) % 2, 0.5, -0.5) * np.linspace(1.5, 0.5, RELEVANT)
    y = np.where(rng.random(n) < expit(X[:, :RELEVANT] @ w), 1.0, -1.0)
    return X, y, float(np.abs(w).sum())


def mean_loss(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Logistic loss."""
    return float(np.logaddexp(0.0, -y * (X @ w.astype(np.float32))).mean())


def best_on_ball(X: np.ndarray, y: np.ndarray, ball: dc.domains.L1Ball, steps: int = 150) -> np.ndarray:
    """Accelerated projected gradients, without privacy."""
    n, d = X.shape
    rate = 4.0 / (1.0 + np.sqrt(d / n)) ** 2 / 1.1  # independent signs: the largest eigenvalue of X'X/n is known
    w = v = np.zeros(d)
    for t in range(steps):
        slope = -y * expit(-y * (X @ v.astype(np.float32)))
        new = ball.project(v - rate * (slope.astype(np.float32) @ X) / n)
        v = new + t / (t + 3) * (new - w)
        w = new
    return w


def main() -> None:
    """Print one line a method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--d", type=int, default=5_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=["FrankWolfe", "whole", "NoisyGD", "ObjectivePerturbation"])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    n, d, budget = chosen.n, chosen.d, dc.Budget(chosen.epsilon, 1e-6)
    X, y, radius = draw(n, d, np.random.default_rng(0))
    ball, box = dc.domains.L1Ball(radius), dc.bounds.Linf(1.0)
    least = mean_loss(X, y, best_on_ball(X, y, ball))
    print(
        f"n {n}, d {d}, epsilon {chosen.epsilon:g}; loss of zero weights {np.log(2):.4f}, best on the ball {least:.4f}"
    )
    sparse_problem = dc.Problem(dc.losses.Logistic(), ball, box)
    plain = dc.Problem(dc.losses.Logistic(), feature_bound=box)
    methods = {
        "FrankWolfe": (dc.algorithms.FrankWolfe(), sparse_problem),
        "whole": (dc.algorithms.FrankWolfe(clip=1.0), sparse_problem),
        "NoisyGD": (dc.algorithms.NoisyGD(), plain),
        "ObjectivePerturbation": (dc.algorithms.ObjectivePerturbation(), plain),
    }
    for name in chosen.methods:
        algorithm, problem = methods[name]
        plan = algorithm.plan(problem, n=n, d=d, budget=budget)
        start = time.perf_counter()
        excess = [mean_loss(X, y, plan.run(X, y, dataset=f"{name} {i}").weights) - least for i in range(chosen.runs)]
        each = (time.perf_counter() - start) / chosen.runs
        print(f"{algorithm!s:<60} excess {np.mean(excess):.4f} +- {np.std(excess):.4f}, {each:.1f} s", flush=True)


if __name__ == "__main__":
    main()
