"""`dpconvex report`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import existing, force_option, output
from dpconvex.cli.verify import load_model


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.option("-o", "--output", "path", type=output, required=True, help="Where to write the report (HTML).")
@click.option("--title", default="A private model", help="Heading of the page.")
@force_option
def report(model_path: Path, path: Path, title: str, force: bool) -> None:
    """Write a report in words about the receipt of a model, to be signed.

    The model is verified first. This costs nothing: no data is read.
    """
    from dpconvex.report import report as write

    check_output(path, force, (model_path,))
    model = load_model(model_path)
    with writing(path):
        write(path, model.receipt_, title=title, schema=model.schema)
