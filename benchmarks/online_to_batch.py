"""Excess test loss of OnlineToBatch on the synthetic problem of `make bench`, tight and as printed.

    python benchmarks/online_to_batch.py --runs 20
    python benchmarks/online_to_batch.py --runs 5 --paper      # rounds of one record: some seven seconds a run

n = 20000, d = 50, spectrum 1/j, ball of radius 8, replace_one, delta = 1/n^2.
"""

from __future__ import annotations

import argparse

from synthetic import excess_losses

from dpconvex.algorithms import OnlineToBatch

ROWS = [
    ("tight", OnlineToBatch()),
    ("whole differences", OnlineToBatch(clip=1.0)),
    ("tree", OnlineToBatch(noise="tree")),
    ("blt", OnlineToBatch(noise="blt")),
    ("OptimisticDescent", OnlineToBatch(learner="OptimisticDescent")),
    ("DiagonalFTRL", OnlineToBatch(learner="DiagonalFTRL")),
    ("ParameterFree", OnlineToBatch(learner="ParameterFree")),
]
FIRST = 100  # training sets that no default was looked at with


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--paper", action="store_true", help="the printed constants alone")
    chosen = parser.parse_args()
    print(f"excess test loss, mean of {chosen.runs} runs (standard error)")
    print(f"{'':22}" + "".join(f"eps = {e:<14g}" for e in (0.5, 1, 4)))
    for name, algorithm in [("as printed", OnlineToBatch(constants="paper"))] if chosen.paper else ROWS:
        cells = []
        for epsilon in (0.5, 1.0, 4.0):
            x = excess_losses(algorithm, epsilon, chosen.runs, first=FIRST)
            cells.append(f"{x.mean():.4f} ({x.std(ddof=1) / chosen.runs**0.5:.4f})")
        print(f"{name:22}" + "".join(f"{c:20}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
