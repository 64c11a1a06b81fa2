"""Excess test loss of Phased-SGD, tight and as printed, on a synthetic logistic problem: `make bench`.

Features on the unit sphere with spectrum 1/j, n = 20000, d = 50, |w*| = 6, ball of radius 8, replace_one,
delta = 1/n^2. Nothing is tuned. Every run has its own training set and its own noise.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import dpconvex as dc
from dpconvex.errors import NotPrivateWarning


class SphereLogistic:
    """Rows on the sphere with spectrum 1/j (or, `even`, all alike), labels from a logistic model."""

    def __init__(self, d: int = 50, norm: float = 6.0, seed: int = 123, even: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.spread = np.ones(d) if even else np.arange(1, d + 1) ** -0.5
        w = rng.normal(size=d) if even else rng.choice([-1.0, 1.0], d) * self.spread
        self.basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
        self.truth = self.basis @ (w * norm / np.linalg.norm(w))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        Z = rng.normal(size=(n, len(self.spread))) * self.spread
        X = np.ascontiguousarray((Z / np.linalg.norm(Z, axis=1, keepdims=True)) @ self.basis.T)
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ self.truth)), 1.0, -1.0)


def excess_losses(
    algorithm: object,
    epsilon: float,
    runs: int,
    n: int = 20_000,
    data: SphereLogistic | None = None,
    radius: float = 8.0,
    first: int = 0,
) -> np.ndarray:
    """Test loss above that of the truth, one entry a run; runs from `first` on have training sets of their own."""
    data = data or SphereLogistic()
    d = len(data.spread)
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(radius))
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(epsilon, 1 / n**2))  # type: ignore[attr-defined]
    Xt, yt = data.sample(max(20_000, min(100_000, 5_000_000 // d)), np.random.default_rng(999))

    def loss(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -yt * (Xt @ w)).mean())

    base, out = loss(data.truth), []
    for run in range(first, first + runs):
        X, y = data.sample(n, np.random.default_rng(10_000 + run))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            out.append(loss(plan.run(X, y, dataset="synthetic", seed=run).weights) - base)
    return np.array(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    print(f"excess test loss, mean of {runs} runs (standard error)")
    print(f"{'':22}" + "".join(f"eps = {e:<14g}" for e in (0.5, 1, 4)))
    for name, algorithm in (
        ("PhasedSGD, tight", dc.algorithms.PhasedSGD()),
        ("PhasedSGD, as printed", dc.algorithms.PhasedSGD(constants="paper")),
    ):
        cells = []
        for epsilon in (0.5, 1.0, 4.0):
            x = excess_losses(algorithm, epsilon, runs)
            cells.append(f"{x.mean():.4f} ({x.std(ddof=1) / runs**0.5:.4f})")
        print(f"{name:22}" + "".join(f"{c:20}" for c in cells))


if __name__ == "__main__":
    main()
