"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dpconvex.algorithms import REGISTRY
from dpconvex.cli.files import read_separator, read_text
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError
from dpconvex.kernel.budget import RELATIONS

PATIENCE = 2.0  # seconds after which a log is told what is going on

existing = click.Path(exists=True, dir_okay=False, path_type=Path)
output = click.Path(path_type=Path)
schema_option = click.option("--schema", "schema_path", type=existing, required=True, help="Public facts of the table.")
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
separator_option = click.option(
    "--separator",
    default=",",
    show_default=True,
    callback=lambda ctx, param, value: read_separator(value),
    help="What stands between cells: a character, or `tab`.",
)


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a budget and of the algorithm that spends it."""
    for option in (
        click.option(
            "--algorithm",
            type=click.Choice(["auto", *REGISTRY], case_sensitive=False),
            default="auto",
            show_default=True,
            help="How to fit; `dpconvex algorithms` lists them.",
        ),
        click.option(
            "--relation",
            type=click.Choice(RELATIONS),
            default="replace_one",
            show_default=True,
            help="What a neighbouring data set is.",
        ),
        click.option("--delta", type=float, default=1e-6, show_default=True, help="Keep it well below 1/rows."),
        click.option("--epsilon", type=float, required=True, help="How much may be given away."),
    ):
        command = option(command)
    return command


def read_schema(path: Path) -> Schema:
    """Read a schema, and name the file in complaints."""
    try:
        return Schema.from_json(read_text(path))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


@contextmanager
def working(words: str) -> Iterator[None]:
    """Say what is going on while it does: a spinner on a terminal, a line elsewhere if it takes long."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(Text(words)):
            yield
        return
    timer = Timer(PATIENCE, click.echo, (f"{words} ...",), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
