"""`dpconvex summary`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.fit import find_target
from dpconvex.cli.options import (
    existing,
    force_option,
    output,
    read_labelled,
    remind_of_release,
    table_options,
    tabular,
    working,
)
from dpconvex.cli.verify import load_model
from dpconvex.data.files import Reading
from dpconvex.errors import InputError
from dpconvex.estimators.inference import needs_hessian
from dpconvex.kernel.budget import Budget

_ASK = (
    "it depends on the rows of the fit. One more release about their people would tell: --data ROWS, --epsilon EPSILON "
    "and --receipt FILE"
)


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.option("--confidence", type=float, default=0.95, help="Confidence of each interval.")
@click.option("--svg", "path", type=output, help="Output file for a forest plot (SVG).")
@click.option("--data", type=tabular, help="The rows of the fit, where the noise in the coefficients depends on them.")
@click.option("--epsilon", type=float, help="Privacy budget of that further release.")
@click.option("--delta", type=float, default=1e-6, help="Privacy budget.")
@click.option("--receipt", "receipt_path", type=output, help="Output file for its receipt.")
@table_options
@force_option
def summary(
    model_path: Path,
    confidence: float,
    path: Path | None,
    data: Path | None,
    epsilon: float | None,
    delta: float,
    receipt_path: Path | None,
    reading: Reading,
    force: bool,
) -> None:
    """Show the coefficients of a model by name, in the units of its table.

    Standard errors that are due to the noise are shown where they follow from what was released: this costs nothing,
    and no data is read. Where they depend on the rows (ObjectivePerturbation), --data, --epsilon and --receipt make
    another release about the people of the fit.
    """
    if (data is None, epsilon is None, receipt_path is None) not in ((True,) * 3, (False,) * 3):
        raise InputError(
            "--data, --epsilon and --receipt go together: a further release, and where to keep its receipt"
        )
    for out in (path, receipt_path):
        check_output(out, force, [p for p in (model_path, data) if p is not None])
    model = load_model(model_path)
    if data is None or epsilon is None or receipt_path is None:
        found = model.summary(confidence=confidence)
        if found.report is None and needs_hessian(model.receipt_):
            found = replace(found, why=_ASK)
    else:
        budget = Budget(epsilon, delta, model.relation)
        if model.schema is None:
            raise InputError("--data needs a model that was fitted with a schema")
        if not needs_hessian(model.receipt_):
            raise InputError("the noise in the coefficients of this model is known without the rows: leave out --data")
        columns, labels = read_labelled(data, reading, model.schema, find_target(model.schema, None))
        with working("Measuring the noise"):
            found = model.summary(columns, labels, budget, confidence=confidence)
        with writing(receipt_path):
            found.receipts[-1][1].save(receipt_path)
        remind_of_release(model.schema.name)
    if path is not None:
        with writing(path):
            path.write_text(found.to_svg(), encoding="utf-8")
    click.echo(str(found))
