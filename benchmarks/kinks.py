"""Regret of the private Gibbs players against absolute and hinge losses, beside what is proved.

    python benchmarks/kinks.py                       # T = 2000, epsilon = 4, d = 5 and 20: some five minutes
    python benchmarks/kinks.py --horizon 200 --d 5

Rows have norm 1. Targets are a linear function of them with t(3) noise, labels its noisy signs. The comparator is the
best point that 1,500 steps of subgradient descent on the sum of all losses find.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import dpconvex as dc
from dpconvex.games.losses import AbsoluteLoss, HingeLoss


def match(name: str, horizon: int, d: int) -> tuple[list[AbsoluteLoss | HingeLoss], np.ndarray]:
    """Losses of a game, and the best fixed point."""
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(horizon, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth = rng.normal(size=d)
    margins = rows @ (0.7 * truth / np.linalg.norm(truth))
    if name == "absolute":
        b = margins + 0.05 * rng.standard_t(3, size=horizon)
        losses: list[AbsoluteLoss | HingeLoss] = [AbsoluteLoss(a, t) for a, t in zip(rows, b, strict=True)]
    else:
        b = np.where(margins + 0.1 * rng.normal(size=horizon) > 0.0, 1.0, -1.0)
        losses = [HingeLoss(a, t) for a, t in zip(rows, b, strict=True)]
    kind, x, best = type(losses[0]), np.zeros(d), (np.inf, np.zeros(d))
    for step in range(1500):
        g = kind.slope(rows @ x, b) @ rows
        x = dc.domains.L2Ball(1.0).project(x - 0.3 / np.sqrt(step + 1.0) * g / np.linalg.norm(g))
        value = float(kind.height(rows @ x, b).sum())
        best = min(best, (value, x), key=lambda pair: pair[0])
    return losses, best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--d", type=int, nargs="+", default=[5, 20])
    chosen = parser.parse_args()
    print(" d  loss      player        regret  proved  moves  off by  CPU seconds")
    for d in chosen.d:
        for name in ("absolute", "hinge"):
            losses, best = match(name, chosen.horizon, d)
            for kind in (dc.games.BlockedGibbs, dc.games.Pomer):
                begin = time.process_time()
                player = kind(
                    dc.domains.L2Ball(1.0), 1.0, chosen.horizon, dc.Budget(chosen.epsilon, 1e-6), dimension=d,
                    rounding="auto", dataset=f"{name} {d} {kind.__name__}",
                )  # fmt: skip
                game = dc.games.run_game(player, losses, comparator=best)
                error = player.report().split("off by ")[1].split()[0]
                print(
                    f"{d:2d}  {name:9} {kind.__name__:13} {game.regret:6.0f}  {player.setting.regret:6.0f}  "
                    f"{player.moves:5d}  {error:6}  {time.process_time() - begin:.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
