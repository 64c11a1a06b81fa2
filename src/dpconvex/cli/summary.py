"""`dpconvex summary`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import existing, force_option, output
from dpconvex.cli.verify import load_model


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.option("--confidence", type=float, default=0.95, help="Confidence of each interval.")
@click.option("--svg", "path", type=output, help="Output file for a forest plot (SVG).")
@force_option
def summary(model_path: Path, confidence: float, path: Path | None, force: bool) -> None:
    """Show the coefficients of a model by name, in the units of its table.

    Standard errors that are due to the noise are shown where they follow from what was released. This costs nothing: no
    data is read.
    """
    check_output(path, force, (model_path,))
    found = load_model(model_path).summary(confidence=confidence)
    if path is not None:
        with writing(path):
            path.write_text(found.to_svg(), encoding="utf-8")
    click.echo(str(found))
