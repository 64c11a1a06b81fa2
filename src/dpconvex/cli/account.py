"""`dpconvex account`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.options import existing
from dpconvex.cli.verify import read_receipt
from dpconvex.verify import add_up


@click.command()
@click.argument("paths", metavar="MODEL|EVALUATION|RECEIPT...", type=existing, nargs=-1, required=True)
@click.option(
    "--delta", type=float, help="At which to state the totals.  [default: the smallest delta on the receipts]"
)
def account(paths: tuple[Path, ...], delta: float | None) -> None:
    """Add up the guarantees of models, evaluations and receipts.

    Each file is verified first. Guarantees about data sets with the same name add up; a file that is given twice counts
    once. A total holds at every delta: the smaller delta is, the larger is epsilon.
    """
    for total in add_up([read_receipt(path)[0] for path in paths], delta):
        click.echo(str(total))
    click.echo(
        "The totals assume budgets that were fixed beforehand, and no other releases. Data sets with the same name are "
        "taken to be about the same people, and others about different people."
    )
