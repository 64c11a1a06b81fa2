"""`dpconvex demo`: who earns more than 50,000 dollars a year, learned with privacy from a raw table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import dpconvex as dc
from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import output
from dpconvex.errors import InputError, RepeatedReleaseWarning
from dpconvex.report import Curve, report
from dpconvex.report.picture import draw_accuracy

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
_SHOWN = 1.0  # budget of the model that is kept
_RICH = ">50K"


class Score(NamedTuple):
    """How well a model does on people it has not seen."""

    accuracy: float
    auc: float


def _score(scores: np.ndarray, rich: np.ndarray) -> Score:
    return Score(float(np.mean((scores > 0) == rich)), float(roc_auc_score(rich, scores)))


@click.command()
@click.option("--draws", type=click.IntRange(min=1), default=5, help="Fits per budget.")
@click.option("--output", "folder", type=output, default="demo", help="Output folder.")
@click.option("--picture", type=output, help="Output file for a picture of accuracy against epsilon (SVG).")
def demo(draws: int, folder: Path, picture: Path | None) -> None:
    """Fit a public data set at several budgets and write a report.

    Fits private models to the raw UCI Adult table, with its text and unknown values, and one model without privacy for
    comparison. Writes report.html, model.json and receipt.json to the folder, replacing those of an earlier demo.
    """
    console = Console(highlight=False, soft_wrap=True)
    train, test = dc.datasets.load("adult"), dc.datasets.load("adult", split="test")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} is not a writable folder: {error.strerror}") from None
    check_output(picture, force=True)
    rich = (test.target == _RICH).to_numpy()
    console.print(
        f"{len(train.target)} people to learn from, {len(rich)} to test on, {train.frame.shape[1]} columns.\n"
    )

    reference = _without_privacy(train, test.frame, rich)
    baseline = Score(float(max(rich.mean(), 1.0 - rich.mean())), 0.5)
    scores: dict[float, list[Score]] = {epsilon: [] for epsilon in EPSILONS}
    kept: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedReleaseWarning)  # the total is printed below
        progress = Console(stderr=True)
        fits = [epsilon for epsilon in EPSILONS for _ in range(draws)]
        for epsilon in track(fits, "Fitting", console=progress, transient=True, disable=not progress.is_terminal):
            if not (progress.is_terminal or scores[epsilon]):
                click.echo(f"Fitting {draws} models at epsilon {epsilon:g}", err=True)
            model = dc.PrivateLogisticRegression(epsilon=epsilon, delta=DELTA, schema=train.schema)
            model.fit(train.frame, train.target)
            scores[epsilon].append(_score(model.decision_function(test.frame), rich))
            if epsilon == _SHOWN and kept is None:
                kept = model

    console.print(_table(scores, reference, baseline))
    account = dc.account(train.schema.name)
    total = account.total()
    assert total is not None
    console.print(
        f"Each private row is the mean of {draws} draws of the noise. Each draw is a release about the same people, "
        f"and releases add up: the {len(account.claims)} of this demo are together "
        f"({total.epsilon(DELTA):.3g}, {DELTA:g})-DP. For your own data, release one model at a fixed budget.\n"
    )
    console.print(f"The receipt of the first model at epsilon {_SHOWN:g}:\n")
    console.print(str(kept.receipt_), markup=False)
    curve = Curve(
        EPSILONS,
        [[score.accuracy for score in scores[epsilon]] for epsilon in EPSILONS],
        reference.accuracy,
        baseline.accuracy,
        f"epsilon (delta = {DELTA:g}, one record replaced by any other)",
    )
    model_path, receipt_path, report_path = (folder / name for name in ("model.json", "receipt.json", "report.html"))
    with writing(model_path):
        kept.save(model_path)
    dc.load(model_path)  # raises if the receipt does not hold
    console.print("\nRead back and planned again: this plan makes this claim.")
    with writing(receipt_path):
        kept.receipt_.save(receipt_path)
    with writing(report_path):
        report(report_path, kept.receipt_, title="A private model of income", schema=train.schema, curve=curve)
    if picture is not None:
        with writing(picture):
            picture.write_text(draw_accuracy(curve), encoding="utf-8")


def _without_privacy(train: Any, frame: Any, rich: np.ndarray) -> Score:
    """Score plain logistic regression on the same encoding."""
    encoder = dc.PrivatePreprocessor(train.schema)
    model = LogisticRegression(max_iter=1000).fit(encoder.fit_transform(train.frame), train.target)
    return _score(model.decision_function(encoder.transform(frame)), rich)


def _table(scores: dict[float, list[Score]], reference: Score, baseline: Score) -> Table:
    made = Table(title="UCI Adult: more than 50,000 dollars a year?", title_justify="left")
    for name in ("epsilon", "test accuracy", "test AUC"):
        made.add_column(name, justify="right")
    made.add_row("most frequent class", f"{baseline.accuracy:.4f}", f"{baseline.auc:.4f}", style="dim")
    for epsilon, draws in scores.items():
        accuracy, auc = np.mean(draws, axis=0)
        made.add_row(f"{epsilon:g}", f"{accuracy:.4f}", f"{auc:.4f}")
    made.add_row("without privacy", f"{reference.accuracy:.4f}", f"{reference.auc:.4f}", style="dim")
    return made
