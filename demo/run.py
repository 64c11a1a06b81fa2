"""Who earns more than 50,000 dollars a year, learned with privacy: `make demo`.

Fits logistic regression on UCI Adult at seven budgets, beside the same model without privacy, then shows one plan,
its receipt and the check of that receipt. Leaves `receipt.json` and `epsilon-accuracy.svg` in `demo/output`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import adult
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import dpconvex as dc

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
SHOWN = 1.0  # the budget whose plan and receipt are printed
OUTPUT = Path(__file__).resolve().parent / "output"


class Score(NamedTuple):
    """How well a linear model does on people it has not seen."""

    accuracy: float
    auc: float


class Point(NamedTuple):
    """The scores of every draw at one budget."""

    epsilon: float
    draws: list[Score]

    @property
    def mean(self) -> Score:
        """Average over the draws."""
        return Score(*np.mean(self.draws, axis=0))


def score(predictions: np.ndarray, y: np.ndarray) -> Score:
    return Score(float(np.mean((predictions > 0) == (y > 0))), float(roc_auc_score(y, predictions)))


def without_privacy(data: adult.Adult) -> Score:
    model = LogisticRegression(max_iter=1000).fit(data.X, data.y)
    return score(model.decision_function(data.X_test), data.y_test)


def with_privacy(data: adult.Adult, draws: int) -> tuple[list[Point], dc.Receipt, str]:
    """Scores at every budget, and the plan and receipt of one run at the budget shown."""
    # The constant feature is one more block of the encoding.
    problem = dc.Problem(
        dc.losses.Logistic(),
        feature_bound=1.0,
        intercept=1.0 / math.sqrt(adult.BLOCKS),
    )
    n, d = data.X.shape
    points = []
    for epsilon in EPSILONS:
        plan = dc.choose(problem, n=n, d=d, budget=dc.Budget(epsilon, DELTA, relation="replace_one"))
        solutions = [plan.run(data.X, data.y, dataset="adult") for _ in range(draws)]
        points.append(Point(epsilon, [score(data.X_test @ s.coef + s.intercept, data.y_test) for s in solutions]))
        if epsilon == SHOWN:
            shown, receipt = str(plan), solutions[0].receipt
    return points, receipt, shown


def table(points: list[Point], reference: Score, majority: float) -> Table:
    made = Table(title="UCI Adult: more than 50,000 dollars a year?", title_justify="left")
    for name in ("epsilon", "test accuracy", "test AUC"):
        made.add_column(name, justify="right")
    made.add_row("majority class", f"{majority:.4f}", "0.5000", style="dim")
    for point in points:
        made.add_row(f"{point.epsilon:g}", f"{point.mean.accuracy:.4f}", f"{point.mean.auc:.4f}")
    made.add_row("without privacy", f"{reference.accuracy:.4f}", f"{reference.auc:.4f}", style="dim")
    return made


def picture(path: Path, points: list[Point], reference: Score, majority: float) -> None:
    """Draw accuracy against epsilon, in tones that can be read on light and on dark ground."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, grid, private, plain = "#768390", "#76839055", "#2f81f7", "#d4762c"
    style = {
        "font.size": 10,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "svg.hashsalt": "dpconvex",  # the same points give the same file
        "svg.fonttype": "path",
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        at = [p.epsilon for p in points]
        accuracy = np.array([[s.accuracy for s in p.draws] for p in points])
        axes.axhline(reference.accuracy, color=plain, linewidth=1.6)
        axes.axhline(majority, color=ink, linewidth=1.2, linestyle="--")
        axes.fill_between(at, accuracy.min(axis=1), accuracy.max(axis=1), color=private, alpha=0.22, linewidth=0)
        axes.plot(at, accuracy.mean(axis=1), color=private, marker="o", markersize=5, linewidth=2)
        right = {"ha": "right", "xytext": (-4, 4), "textcoords": "offset points"}
        axes.annotate("logistic regression without privacy", (at[-1], reference.accuracy), color=plain, **right)
        axes.annotate("majority class", (at[-1], majority), color=ink, **right)
        below = right | {"xytext": (-4, -36)}
        axes.annotate(
            f"dpconvex, mean and range of {accuracy.shape[1]} draws",
            (at[-1], accuracy[-1].mean()),
            color=private,
            **below,
        )
        axes.set_xscale("log", base=2)
        axes.set_xticks(at, [f"{e:g}" for e in at])
        axes.set_ylim(min(majority, accuracy.min()) - 0.01, reference.accuracy + 0.012)
        axes.set_xlabel(f"epsilon (delta = {DELTA:g}, one record replaced by any other)")
        axes.set_ylabel("test accuracy")
        axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        axes.grid(axis="y", color=grid, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Title": "UCI Adult: test accuracy against epsilon", "Date": None, "Creator": None}
        figure.savefig(path, format="svg", transparent=True, metadata=metadata)
        plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5, help="draws of the noise at every budget (default: 5)")
    parser.add_argument("--picture", type=Path, default=OUTPUT / "epsilon-accuracy.svg", help="where to draw it")
    options = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    try:
        data = adult.load()
    except adult.UnavailableError as error:
        console.print(f"The demo needs data it cannot get: {error}", style="red", markup=False)
        return 1
    n, d = data.X.shape
    console.print(f"{n} people to learn from, {len(data.X_test)} to test on, {d} features and a constant.\n")

    reference = without_privacy(data)
    majority = float(np.mean(data.y_test < 0))
    points, receipt, plan = with_privacy(data, options.draws)
    console.print(table(points, reference, majority))
    account = dc.account("adult")
    console.print(
        f"Each private row is the mean of {options.draws} draws of the noise, and each draw is a release of its own: "
        f"releases about the same people add up. All {len(account.claims)} together are "
        f"({account.total().epsilon(DELTA):.3g}, {DELTA:g})-DP; publish one of them, at a budget fixed beforehand.\n"
    )

    console.print(f"[bold]The plan at epsilon {SHOWN:g}[/], made from public facts alone:\n")
    console.print(plan, markup=False)
    console.print("\n[bold]The receipt[/] of its first run:\n")
    console.print(str(receipt), markup=False)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    receipt.save(OUTPUT / "receipt.json")
    picture(options.picture, points, reference, majority)
    dc.verify(dc.Receipt.from_json((OUTPUT / "receipt.json").read_text(encoding="utf-8")))  # raises if it is broken
    console.print("\nRead back and proved again, step by step from its derivation: consistent.")
    for path in (OUTPUT / "receipt.json", options.picture.resolve()):
        console.print(f"Wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
