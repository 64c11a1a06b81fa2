"""PrivateFTRL: excess test loss of its modes on the synthetic problem of `make bench`, and what noise costs in time.

    python benchmarks/private_ftrl.py --runs 20
    python benchmarks/private_ftrl.py --speed      # 10^6 rounds of one record, d = 100, with and without noise

n = 20000, d = 50, spectrum 1/j, ball of radius 8, replace_one, delta = 1/n^2.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from synthetic import excess_losses

import dpconvex as dc
from dpconvex.algorithms import PrivateFTRL
from dpconvex.plan.port import NoisePort

MODES = ("blt", "honaker", "tree", "composition")
FIRST = 100  # training sets that no default was looked at with
ROUNDS, D = 1_000_000, 100


class Still(NoisePort):
    """A port without noise: the same learner, the same sums."""

    exact = False

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


def accuracy(runs: int) -> None:
    print(f"excess test loss, mean of {runs} runs (standard error)")
    print(f"{'':22}" + "".join(f"eps = {e:<14g}" for e in (0.5, 1, 4)))
    for mode in MODES:
        cells = []
        for epsilon in (0.5, 1.0, 4.0):
            x = excess_losses(PrivateFTRL(mode), epsilon, runs, first=FIRST)
            cells.append(f"{x.mean():.4f} ({x.std(ddof=1) / runs**0.5:.4f})")
        print(f"{mode:22}" + "".join(f"{c:20}" for c in cells), flush=True)


def speed(repeats: int) -> None:
    """Time a stream of rounds of one record, read in portions of 10,000, and the learner by itself."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, D)) / D**0.5
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    gradients = rng.normal(size=(2000, D))
    player = dc.games.learners.FTRL(problem.domain, step=dc.games.learners.Root(1.0)).player(D)
    begun = time.perf_counter()
    for g in gradients:
        player.play()
        player.observe(g)
    each = (time.perf_counter() - begun) / len(gradients) / D
    print(f"play() and observe() of dc.games.learners.FTRL: {each * 1e9:.1f} ns an entry")
    base = 0.0
    for mode in ("blt", "blt", "tree", "honaker"):
        plan = PrivateFTRL(mode, batch=1).plan_stream(problem, d=D, budget=dc.Budget(1.0, 1e-9), rounds=ROUNDS)
        found = []
        for _ in range(repeats):
            session = plan.start(dataset="speed", seed=0)
            if not base:
                session._port = Still(plan.claim, dc.noise.Source(0), history=False)
            session.feed(X[:100], y[:100])
            begun = time.perf_counter()
            while session.records < ROUNDS:
                session.feed(*((X, y) if session.records % 10_000 == 0 else (X[100:], y[100:])))
            found.append(time.perf_counter() - begun)
        best = float(np.median(found))
        name = mode if base else "without noise"
        base = base or best
        print(
            f"{name:14} {best:7.2f} s, {best / ROUNDS / D * 1e9:6.1f} ns an entry, {best / base:5.2f} x without noise",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--speed", action="store_true", help="time instead of accuracy")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        speed(chosen.repeats) if chosen.speed else accuracy(chosen.runs)


if __name__ == "__main__":
    main()
