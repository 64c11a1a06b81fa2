"""`dpconvex algorithms`."""

from __future__ import annotations

import inspect

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpconvex import algorithms as room


@click.command()
def algorithms() -> None:
    """List the algorithms.

    The table shows the problems each is for, and its number of passes over the rows. `auto` chooses the
    algorithm with the lowest expected loss, from public facts alone.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("name", "for", "passes", "what it does"):
        table.add_column(title, no_wrap=title == "name")
    for name in room.names():
        algorithm = room.get(name)
        words = (inspect.getdoc(algorithm) or "").partition("\n")[0]
        table.add_row(name, algorithm.suits, algorithm.reads, Text(words))
    Console(highlight=False).print(table)
