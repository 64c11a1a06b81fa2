"""`dpconvex registry`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import answers_option, existing, force_option, output, read_answers
from dpconvex.cli.verify import read_receipt
from dpconvex.ledger.registry import ASKED, registry_record


@click.command()
@click.argument("path", metavar="MODEL|RECEIPT", type=existing)
@answers_option
@click.option("-o", "--output", "out_path", type=output, help="Output file; standard output by default.")
@force_option
def registry(path: Path, answers_path: Path | None, out_path: Path | None, force: bool) -> None:
    """Describe a release for the Differential Privacy Deployments Registry.

    Writes JSON, which is YAML too. What is on the receipt is taken from there; for the rest, people are asked.
    """
    check_output(out_path, force, (path,))
    receipt, _ = read_receipt(path)
    answers = read_answers(answers_path, ASKED)
    text = json.dumps(registry_record(receipt, answers), indent=2, ensure_ascii=False)
    if out_path is None:
        click.echo(text)
    else:
        with writing(out_path):
            out_path.write_text(text + "\n", encoding="utf-8")
