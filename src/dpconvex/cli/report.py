"""`dpconvex report`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import existing, force_option, output
from dpconvex.cli.verify import load_evaluation, load_model, read_receipt
from dpconvex.errors import InputError


@click.command()
@click.argument("about", metavar="MODEL|EVALUATION|RECEIPT", type=existing)
@click.option("--evaluation", "measured", type=existing, help="How good the model is: a file of `dpconvex evaluate`.")
@click.option("-o", "--output", "path", type=output, required=True, help="Where to write the report (HTML).")
@click.option("--title", default="A private release", help="Heading of the page.")
@force_option
def report(about: Path, measured: Path | None, path: Path, title: str, force: bool) -> None:
    """Write a report in words about a model, an evaluation or a receipt, to be signed.

    The file is verified first, and so is the evaluation. This costs nothing: no data is read.
    """
    from dpconvex.report import report as write

    check_output(path, force, (about, *([measured] if measured else [])))
    receipt, what = read_receipt(about)
    schema = load_model(about).schema if what == "model" else None
    if what == "evaluation":
        if measured is not None:
            raise InputError("--evaluation goes with the model that was evaluated")
        measured = about
    evaluation = load_evaluation(measured) if measured else None
    with writing(path):
        write(path, receipt, title=title, schema=schema, evaluation=evaluation)
