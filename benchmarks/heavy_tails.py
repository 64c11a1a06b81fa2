"""Heavy tails: methods that cut gradients short against methods that need bounds, and excess risk against n.

    python benchmarks/heavy_tails.py compare --runs 20
    python benchmarks/heavy_tails.py cut --runs 10
    python benchmarks/heavy_tails.py rates --runs 20 --write docs/images/heavy-tails.svg

compare: y = <w, x> + noise of Student's law with 3 degrees of freedom, d = 10, w of length 1.3 on a ball of radius 2,
epsilon = 1, delta = 1e-6, replace_one. The features are signs, or of the same law and variance 1. Settings come from
public facts: everybody knows the ball, and where to cut gradients short is a guess, of which several are shown and none
is picked. Methods that need bounds on targets and rows get two: so wide that next to nobody is clipped (50), and a
guess at where most of the data lie (5 for targets, 6 for rows). The constants behind the default steps and batches of
TruncatedMirrorDescent and HeavyTailedSGD were chosen on other draws of such a regression, with normal features.

cut: the same regressions; gradients longer than the truncation shortened to it, or set to zero as in the paper.

rates: a linear loss on the unit ball of 4 weights, whose rows have mean length 1 and t(3) tails, with the settings of
the theorem (constants="paper"). The first half of the walk is the way to the boundary, and costs what the theorem says:
its first term, radius^2 kappa gamma / T, binds. Both theorems say n^(-1/3).
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dpconvex as dc
from dpconvex.algorithms import (
    HeavyTailedSGD,
    NoisyGD,
    ObjectivePerturbation,
    PhasedSGD,
    SufficientStatistics,
    TruncatedMirrorDescent,
)
from dpconvex.drawing import BLUE, DASHED, INK, Panel, decades, marks, picture, text

D, BALL = 10, dc.domains.L2Ball(2.0)
BUDGET = dc.Budget(1.0, 1e-6)
TRUTH = np.array([1.0, -0.7, 0.5, *[0.0] * (D - 3)])
WIDE = 1e6  # a declared bound for those who need none
GUESSES = (1.0, 2.0, 4.0, 8.0)
FIRST = 100  # draws that no default was looked at with

Regression = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def signs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n, D))
    return X, X @ TRUTH + rng.standard_t(3, size=n)


def tails(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, D)) / math.sqrt(3.0)
    return X, X @ TRUTH + rng.standard_t(3, size=n)


def contestants(heavy: bool) -> list[tuple[str, Any, dc.Problem]]:
    """Name, algorithm and problem of each."""
    row: Any = WIDE if heavy else dc.bounds.Linf(1.0)
    free = dc.Problem(dc.losses.Squared(WIDE), BALL, row)
    out: list[tuple[str, Any, dc.Problem]] = [
        *((f"TruncatedMirrorDescent(truncation={t:g})", TruncatedMirrorDescent(truncation=t), free) for t in GUESSES),
        *((f"HeavyTailedSGD(clip={t / 2:g})", HeavyTailedSGD(clip=t / 2), free) for t in GUESSES),
    ]
    clipped = dc.Problem(dc.losses.Squared(WIDE), BALL, 6.0 if heavy else row)
    out += [(f"NoisyGD(clip={t:g}), which clips as well", NoisyGD(clip=t), clipped) for t in GUESSES]
    for target, rows in ((50.0, 50.0), (5.0, 6.0)):
        bound: Any = rows if heavy else dc.bounds.Linf(1.0)
        squared = dc.Problem(dc.losses.Squared(target), BALL, bound)
        robust = dc.Problem(dc.losses.LogCosh(threshold=0.5 * target, target=target), BALL, bound)
        note = f"bounds {target:g}" + (f" and {rows:g}" if heavy else "")
        out += [
            (f"PhasedSGD, {note}", PhasedSGD(), squared),
            (f"ObjectivePerturbation (log-cosh), {note}", ObjectivePerturbation(), robust),
            (f"SufficientStatistics, {note}", SufficientStatistics(), squared),
        ]
    return out


def excess(algorithm: Any, problem: dc.Problem, draw: Regression, n: int, runs: int, budget: dc.Budget) -> np.ndarray:
    """Half the squared distance from the truth: features have the identity as second moment."""
    plan = algorithm.plan(problem, n=n, d=D, budget=budget)
    gaps = [plan.run(*draw(n, seed), seed=seed).weights - TRUTH for seed in range(FIRST, FIRST + runs)]
    return np.array([0.5 * gap @ gap for gap in gaps])


def compare(n: int, runs: int) -> None:
    print(f"excess risk of n = {n}, epsilon {BUDGET.epsilon:g}, mean of {runs} runs (standard error)")
    for words, draw, heavy in (("signs as features", signs, False), ("features of t(3)", tails, True)):
        print(f"\n{words}, noise of t(3); doing nothing: {0.5 * TRUTH @ TRUTH:.3f}")
        for name, algorithm, problem in contestants(heavy):
            found = excess(algorithm, problem, draw, n, runs, BUDGET)
            print(f"  {name:58} {found.mean():.4f} ({found.std(ddof=1) / math.sqrt(runs):.4f})", flush=True)


def cut(n: int, runs: int) -> None:
    print(f"excess risk of TruncatedMirrorDescent with n = {n}, epsilon {BUDGET.epsilon:g}, mean of {runs} runs")
    for words, draw, row in (("signs as features", signs, dc.bounds.Linf(1.0)), ("features of t(3)", tails, WIDE)):
        problem = dc.Problem(dc.losses.Squared(WIDE), BALL, row)
        for tau in (*GUESSES, 16.0, 32.0):
            plan = TruncatedMirrorDescent(truncation=tau).plan(problem, n=n, d=D, budget=BUDGET)
            found = {}
            for how, algorithm in (("shortened", plan.algorithm), ("zero", TruncatedMirrorDescent(constants="paper"))):
                same = replace(plan, algorithm=algorithm)  # which differs in what it does to long gradients only
                gaps = [same.run(*draw(n, s), seed=s).weights - TRUTH for s in range(FIRST, FIRST + runs)]
                found[how] = float(np.mean([0.5 * gap @ gap for gap in gaps]))
            print(
                f"  {words}, truncation {tau:4g}: " + ", ".join(f"{how} {v:.4f}" for how, v in found.items()),
                flush=True,
            )


# Rates -------------------------------------------------------------------------------------------------------------

SIZE = 4
MEAN = np.array([1.0, 0.0, 0.0, 0.0])
LINEAR = dc.Problem(dc.losses.Linear(), dc.domains.L2Ball(1.0), WIDE)
RATE_BUDGET = dc.Budget(1.0, 1e-6)
THEOREM = -1.0 / 3.0


def linear_excess(algorithm: Any, n: int, runs: int) -> float:
    """Mean of 1 - <mean row, w>: the loss is -<x, w>, and the best weights are the mean row."""
    plan = algorithm.plan(LINEAR, n=n, d=SIZE, budget=RATE_BUDGET)
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = MEAN + rng.standard_t(3, size=(n, SIZE)) / math.sqrt(3.0)
        found.append(1.0 - float(plan.run(X, np.ones(n), seed=seed).weights @ MEAN))
    return float(np.mean(found))


def rates(sizes: list[int], runs: int, write: Path | None) -> None:
    methods = {
        "TruncatedMirrorDescent": TruncatedMirrorDescent(p=1.5, constants="paper"),
        "HeavyTailedSGD": HeavyTailedSGD(constants="paper"),
    }
    measured = {}
    for name, algorithm in methods.items():
        values = [linear_excess(algorithm, n, runs) for n in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
        shown = ", ".join(f"{n:,}: {v:.4f}" for n, v in zip(sizes, values, strict=True))
        print(f"{name:24} exponent {slope:.3f}, theorem {THEOREM:.3f}; {shown}", flush=True)
        measured[name] = (values, slope)
    if write is not None:
        write.write_text(drawing(sizes, measured), encoding="utf-8")


def drawing(sizes: list[int], measured: dict[str, tuple[list[float], float]]) -> str:
    """Excess risk against n, and lines of the theorem's slope through the first points."""
    values = [v for points, _ in measured.values() for v in points]
    up = 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))
    panel = Panel((sizes[0] / 1.2, sizes[-1] * 1.2), up)
    body = panel.frame("records", "excess risk", marks(sizes), decades(up))
    for colour, (name, (points, slope)) in zip((BLUE, INK), measured.items(), strict=True):
        line = list(zip(sizes, points, strict=True))
        theory = [(n, points[0] * (n / sizes[0]) ** THEOREM) for n in sizes]
        body += [panel.line(theory, colour, 1.0, DASHED), panel.line(line, colour, 2.0)]
        body += panel.dots(line)
        x, y = panel.at(line[2])
        above = points == max((values for values, _ in measured.values()), key=lambda values: values[2])
        body.append(
            text(x, y - 14.0 if above else y + 34.0, f"{name}, exponent {slope:.3f}", "start" if above else "end")
        )
    return picture(body, "Excess risk against the number of records", "Dashed: the theorem's exponent, -1/3.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compare", "cut", "rates"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--n", type=int, default=20_000, help="records, for compare")
    parser.add_argument("--largest", type=int, default=256_000, help="records, for rates")
    parser.add_argument("--write", type=Path, help="where to draw the rates")
    chosen = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if chosen.what == "compare":
            compare(chosen.n, chosen.runs)
        elif chosen.what == "cut":
            cut(chosen.n, chosen.runs)
        else:
            sizes = [n for n in (1000, 4000, 16_000, 64_000, 256_000) if n <= chosen.largest]
            rates(sizes, chosen.runs, chosen.write)


if __name__ == "__main__":
    main()
