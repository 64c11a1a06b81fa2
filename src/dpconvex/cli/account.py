"""`dpconvex account`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.options import existing, working
from dpconvex.cli.verify import read_receipt
from dpconvex.verify import add_up


@click.command()
@click.argument("paths", metavar="MODEL|RECEIPT...", type=existing, nargs=-1, required=True)
def account(paths: tuple[Path, ...]) -> None:
    """Add up the guarantees of models and receipts.

    Each is verified first. Those about data sets of the same name add up; a file that is given twice counts once.
    """
    found = []
    for path in paths:
        with working(f"Verifying {path.name}"):
            found.append(read_receipt(path)[0])
    for total in add_up(found):
        click.echo(str(total))
    click.echo(
        "The totals hold for budgets that were fixed beforehand, and know of no releases but these. One name is taken "
        "to mean the same people, two names different ones."
    )
