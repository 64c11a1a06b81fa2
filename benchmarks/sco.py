"""Private SCO in linear time: printed against tight constants, and plans without tuning against tuned NoisyGD.

    python benchmarks/sco.py [--runs 10] [--only constants|planner]

Synthetic logistic regression with rows on the unit sphere, replace_one, delta = 1/n^2. "1/j": spectrum 1/j, |w*| = 6,
a ball of radius 8; "even": all directions alike, |w*| = 8, radius 10. Entries are mean excess test losses; every run
has a training set and noise of its own. Nothing is tuned but NoisyGD, on three training sets that are not used again;
it takes the same loss, with gradients clipped at their largest length and not below.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from synthetic import SphereLogistic, excess_losses

import dpconvex as dc
from dpconvex.algorithms.noisy_sgd import NoisySGD, Snowball, SnowballJNN, Telescoped

ROWS = [
    ("1/j", 5_000, 20, 1.0),
    ("1/j", 20_000, 50, 0.5),
    ("1/j", 20_000, 50, 1.0),
    ("1/j", 20_000, 50, 4.0),
    ("1/j", 20_000, 500, 1.0),
    ("1/j", 100_000, 100, 1.0),
    ("even", 20_000, 50, 0.5),
    ("even", 20_000, 50, 1.0),
    ("even", 20_000, 50, 4.0),
]


def problem_data(kind: str, d: int) -> tuple[SphereLogistic, float]:
    if kind == "even":
        return SphereLogistic(d, norm=8.0, seed=5, even=True), 10.0
    return SphereLogistic(d), 8.0


def constants(runs: int) -> None:
    """Printed and tight constants at three budgets."""
    print(f"printed and tight constants: 1/j, n = 20000, d = 50, mean excess loss of {runs} runs (standard error)")
    print(f"{'':34}" + "".join(f"eps = {e:<14g}" for e in (0.5, 1, 4)))
    rows: list[tuple[str, Any]] = [
        ("PhasedSGD, as printed", dc.algorithms.PhasedSGD(constants="paper")),
        ("PhasedSGD", dc.algorithms.PhasedSGD()),
        ("PhasedSGD, secret order", dc.algorithms.PhasedSGD(shuffle="secret")),
        ("Snowball, as printed", NoisySGD(schedule=Snowball(), constants="paper")),
        ("Snowball", NoisySGD(schedule=Snowball())),
        ("Snowball JNN, as printed", NoisySGD(schedule=SnowballJNN(), constants="paper")),
        ("Snowball JNN, most steps", NoisySGD(schedule=SnowballJNN())),
        ("Snowball JNN", NoisySGD(schedule=SnowballJNN(None))),
        ("NoisySGD, one pass", NoisySGD(schedule=Telescoped())),
        ("NoisySGD", NoisySGD()),
    ]
    if "PhasedERM" in dc.algorithms.REGISTRY:
        rows[3:3] = [
            ("PhasedERM, as printed", dc.algorithms.PhasedERM(constants="paper")),
            ("PhasedERM", dc.algorithms.PhasedERM()),
        ]
    for name, algorithm in rows:
        cells = []
        for epsilon in (0.5, 1.0, 4.0):
            x = excess_losses(algorithm, epsilon, runs)
            cells.append(f"{x.mean():.4f} ({x.std(ddof=1) / runs**0.5:.4f})")
        print(f"{name:34}" + "".join(f"{c:20}" for c in cells), flush=True)
    for name, family in (("Snowball", Snowball), ("Snowball JNN", SnowballJNN)):
        lengths = [
            NoisySGD(schedule=family("most"), constants=c)
            .plan(
                dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0)),
                n=20_000,
                d=50,
                budget=dc.Budget(1.0, 2.5e-9),
            )
            .schedule[0]
            .steps.length
            for c in ("paper", "tight")
        ]
        print(f"{name}: {lengths[0]} steps as printed, {lengths[1]} with exact batches, at eps = 1")


def tuned_gd(epsilon: float, n: int, data: SphereLogistic, radius: float) -> Any:
    """NoisyGD with the number of steps, the horizon and the momentum that do best on three training sets."""
    best = None
    for steps, horizon, momentum in product((30, 100), (150, 300, 500, 800, 1200, 2000), (0.5, 0.9)):
        algorithm = dc.algorithms.NoisyGD(steps=steps, clip=1.0, horizon=float(horizon), momentum=momentum)
        loss = excess_losses(algorithm, epsilon, 3, n, data, radius, first=1000).mean()
        if best is None or loss < best[0]:
            best = loss, algorithm
    assert best is not None
    return best[1]


def planner(runs: int) -> None:
    """Plans from public facts alone against NoisyGD tuned on data."""
    print(f"\nplans without tuning, mean excess loss of {runs} runs, and as a multiple of tuned NoisyGD")
    print(f"{'rows':6}{'n':>8}{'d':>6}{'eps':>6}   {'one pass':18}{'up to 20 passes':18}tuned NoisyGD")
    ratios: dict[str, list[tuple[float, float]]] = {"1/j": [], "even": []}
    for kind, n, d, epsilon in ROWS:
        data, radius = problem_data(kind, d)
        entries = [
            float(np.mean(excess_losses(algorithm, epsilon, runs, n, data, radius)))
            for algorithm in (NoisySGD(schedule=Telescoped()), NoisySGD(), tuned_gd(epsilon, n, data, radius))
        ]
        ratios[kind].append((entries[0] / entries[2], entries[1] / entries[2]))
        cells = [f"{e:.4f} ({e / entries[2]:.2f} x)" for e in entries[:2]]
        print(f"{kind:6}{n:8}{d:6}{epsilon:6g}   {cells[0]:18}{cells[1]:18}{entries[2]:.4f}", flush=True)
    for kind, pairs in ratios.items():
        one, many = np.mean(pairs, axis=0)
        print(f"{kind:6}average multiple: one pass {one:.2f} x, up to 20 passes {many:.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", choices=["constants", "planner"])
    args = parser.parse_args()
    if args.only != "planner":
        constants(args.runs)
    if args.only != "constants":
        planner(args.runs)


if __name__ == "__main__":
    main()
