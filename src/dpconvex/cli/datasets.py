"""`dpconvex datasets`."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
def datasets(name: str | None) -> None:
    """List the data sets that come with a schema.

    Nothing is downloaded. In Python, `dpconvex.datasets.load(name)` gives the table, the target and the schema.
    """
    from dpconvex import datasets as room

    click.echo("\n\n".join(map(room.describe, (name,) if name else room.names())))
