"""`dpconvex evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.fit import find_target
from dpconvex.cli.options import (
    budget_options,
    existing,
    force_option,
    ledger_option,
    output,
    read_labelled,
    remind_of_release,
    table_options,
    tabular,
    under_ledger,
    working,
)
from dpconvex.cli.predict import rows_for
from dpconvex.cli.verify import load_model
from dpconvex.data.files import Reading
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.queries.evaluation import METRICS


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.argument("data", type=tabular)
@click.option("--dataset", required=True, help="Name of the data set; not that of the fit.")
@budget_options
@click.option("--metric", "metrics", type=click.Choice(METRICS), multiple=True, help="Repeat the option for several.")
@click.option(
    "--threshold", "thresholds", type=float, multiple=True, help="Report recall, precision and so on above it, too."
)
@click.option("--subgroups", help="A category of the schema: measure in each of its values, too.")
@click.option("--confidence", type=float, default=0.95, help="Confidence of each interval.")
@click.option("--target", help="Column to compare predictions with, if the schema does not name it.")
@click.option("-o", "--output", "out_path", type=output, help="Output file for everything, with the receipt (JSON).")
@ledger_option(required=False)
@table_options
@force_option
def evaluate(
    model_path: Path,
    data: Path,
    dataset: str,
    metrics: tuple[str, ...],
    thresholds: tuple[float, ...],
    subgroups: str | None,
    confidence: float,
    target: str | None,
    out_path: Path | None,
    url: str | None,
    reading: Reading,
    force: bool,
    **budget: Any,
) -> None:
    """Measure a model on a CSV file of people it was not fitted to.

    Prints the metrics with intervals, and the receipt. This is a release about the people in the file; releases add up.
    Under a ledger it is refused if the budget of the data set does not allow it. All metrics share the budget; by
    default they are accuracy, log_loss, auc and calibration, or for numbers mse, mae and r2, as far as the model has
    them.
    """
    check_output(out_path, force, (model_path, data))
    allowed = Budget(**budget)  # refuses a bad budget before a long file is read
    model = load_model(model_path)
    if model.schema is not None:
        target = find_target(model.schema, target)
    if target is None:
        raise InputError("the model has no schema to declare the target: name it with --target")
    columns, labels = read_labelled(data, reading, model.schema, target)
    from dpconvex.estimators.evaluate import evaluate as measure

    with under_ledger(url) as ledger, working("Evaluating"):
        found = measure(
            model,
            rows_for(model, data, columns),
            labels,
            budget=allowed,
            dataset=dataset,
            metrics=metrics or None,
            thresholds=thresholds or None,
            subgroups=subgroups,
            confidence=confidence,
        )
    if out_path is not None:
        with writing(out_path):
            found.save(out_path)
    click.echo(str(found))
    click.echo(f"\n{found.receipt}")
    remind_of_release(dataset, ledger)
