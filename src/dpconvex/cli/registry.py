"""`dpconvex registry`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpconvex.cli.files import check_output, read_text, writing
from dpconvex.cli.options import existing, force_option, output
from dpconvex.cli.verify import read_receipt
from dpconvex.errors import InputError
from dpconvex.ledger.registry import ASKED, registry_record
from dpconvex.plain import read_json


@click.command()
@click.argument("path", metavar="MODEL|RECEIPT", type=existing)
@click.option("--answers", "answers_path", type=existing, help="What only people know (JSON); asked for otherwise.")
@click.option("-o", "--output", "out_path", type=output, help="Output file; standard output by default.")
@force_option
def registry(path: Path, answers_path: Path | None, out_path: Path | None, force: bool) -> None:
    """Describe a release for the Differential Privacy Deployments Registry.

    Writes JSON, which is YAML too. What is on the receipt is taken from there; for the rest, people are asked.
    """
    check_output(out_path, force, (path,))
    receipt, _ = read_receipt(path)
    if answers_path is None:
        answers = {name: click.prompt(words, err=True) for name, words in ASKED.items()}
    else:
        answers = read_json(read_text(answers_path), answers_path.name, InputError)
        if not isinstance(answers, dict) or not all(isinstance(answer, str) for answer in answers.values()):
            raise InputError(f"{answers_path.name} must be an object of texts: {', '.join(ASKED)}")
    text = json.dumps(registry_record(receipt, answers), indent=2, ensure_ascii=False)
    if out_path is None:
        click.echo(text)
    else:
        with writing(out_path):
            out_path.write_text(text + "\n", encoding="utf-8")
