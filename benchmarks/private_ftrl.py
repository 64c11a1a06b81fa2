"""PrivateFTRL: excess test loss of its modes on the synthetic problem of `make bench`, and what noise costs in time.

    python benchmarks/private_ftrl.py --runs 20
    python benchmarks/private_ftrl.py --streams    # AUC and log-loss of a stream of 20 days, on tables
    python benchmarks/private_ftrl.py --speed      # 10^6 rounds of one record, d = 100, with and without noise

n = 20000, d = 50, spectrum 1/j, ball of radius 8, replace_one, delta = 1/n^2.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from accuracy import Split, public
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
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


def campaign(seed: int, n: int = 31_640, test: int = 10_000) -> Split:
    """A made-up marketing table: numbers and one-hot categories, few who agree."""
    rng = np.random.default_rng(seed)
    many, numbers, levels = n + test, 7, (12, 4, 8, 3, 3, 3, 2, 12, 5, 4, 10)
    plain = rng.normal(size=(many, numbers)) * rng.uniform(0.05, 0.5, numbers) + rng.uniform(-0.7, 0.3, numbers)
    coded = [np.eye(k)[rng.choice(k, size=many, p=rng.dirichlet(np.full(k, 0.6)))] for k in levels]
    X = np.hstack([np.clip(plain, -1.0, 1.0), *coded])
    w = 0.9 * rng.normal(size=X.shape[1])
    w[:numbers] *= 3.0
    score = X @ w
    score = (score - score.mean()) / score.std() * 2.2 - 2.8
    y = (rng.random(many) < 1.0 / (1.0 + np.exp(-score))).astype(float)
    X = np.hstack([X, np.ones((many, 1))]) / np.sqrt(numbers + len(levels) + 1)
    return X[:n], y[:n], X[n:], y[n:]


def streams(runs: int, days: int = 20) -> None:
    """Streams of so many days as `PrivateOnlineClassifier` plans them, beside one pass of SGD without privacy."""
    print(f"AUC and log-loss on new rows, mean of {runs} runs; delta = 1e-6")
    tables = {f"campaign {seed}": campaign(seed) for seed in (3, 5)} | {"adult (raw)": public()["adult (raw)"]()}
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(15.0))
    for name, (X, y, Xt, yt) in tables.items():
        plain = {"loss": "log_loss", "alpha": 1e-7, "learning_rate": "constant", "max_iter": 1, "tol": None}
        fits = [SGDClassifier(**plain, eta0=step, fit_intercept=False).fit(X, y) for step in (0.3, 1.0, 3.0, 10.0)]
        free = max(roc_auc_score(yt, fitted.decision_function(Xt)) for fitted in fits)
        print(f"{name}: {len(X)} rows of {X.shape[1]}; SGD {free:.4f}")
        for epsilon in (0.25, 1.0, 4.0):
            plan = PrivateFTRL("blt", batch=256).plan_stream(problem, d=X.shape[1], budget=dc.Budget(epsilon, 1e-6))
            found = []
            for seed in range(runs):
                session = plan.start(dataset="streams", seed=seed)
                for rows in np.array_split(np.arange(len(X)), days):
                    session.feed(X[rows], 2.0 * y[rows] - 1.0)
                z = Xt @ session.solution().weights
                found.append((roc_auc_score(yt, z), np.logaddexp(0.0, -(2.0 * yt - 1.0) * z).mean()))
            auc, loss = np.mean(found, axis=0)
            print(f"  eps {epsilon:<5g} AUC {auc:.4f}  log-loss {loss:.4f}", flush=True)


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
    parser.add_argument("--streams", action="store_true", help="tables, in 20 days")
    parser.add_argument("--speed", action="store_true", help="time instead of accuracy")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if chosen.streams:
            streams(chosen.runs)
        elif chosen.speed:
            speed(chosen.repeats)
        else:
            accuracy(chosen.runs)


if __name__ == "__main__":
    main()
