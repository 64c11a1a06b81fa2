"""`dpconvex card`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import answers_option, existing, force_option, output, read_answers
from dpconvex.cli.verify import load_evaluation, load_model


@click.command()
@click.argument("path", metavar="MODEL", type=existing)
@answers_option
@click.option("--evaluation", "measured", type=existing, help="How good the model is: a file of `dpconvex evaluate`.")
@click.option("-o", "--output", "out_path", type=output, required=True, help="Output file: .html or .md.")
@click.option("--title", default="A private model", help="Heading of the card.")
@force_option
def card(path: Path, answers_path: Path | None, measured: Path | None, out_path: Path, title: str, force: bool) -> None:
    """Write the card of a model: its purpose, its guarantee in words, and how good it is.

    A page (.html), or Markdown with the front matter that collections of models read (.md). The model is verified
    first. This costs nothing: no data is read.
    """
    from dpconvex.report.card import ASKED, model_card

    check_output(out_path, force, (path, *([measured] if measured else [])))
    model = load_model(path)
    evaluation = load_evaluation(measured) if measured else None
    found = model_card(model, read_answers(answers_path, ASKED), title=title, evaluation=evaluation)
    with writing(out_path):
        found.save(out_path)
