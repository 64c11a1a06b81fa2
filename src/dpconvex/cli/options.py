"""Options that several commands share."""

from __future__ import annotations

import glob
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dpconvex.cli.files import read_separator, read_table, read_text
from dpconvex.context import context, read_bytes
from dpconvex.data.parts import find_files
from dpconvex.data.schema import Schema
from dpconvex.data.sources import need
from dpconvex.errors import InputError, UnavailableError
from dpconvex.kernel.budget import RELATIONS

_PATIENCE = 2.0  # seconds after which a log gets a line about the work


class _Data(click.ParamType):
    """A CSV file, or what `Parts.of` reads: Parquet, a folder of files, or a pattern such as 'visits/*.csv'."""

    name = "data"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or text that names several files or a Parquet file."""
        path = Path(value)
        if path.is_dir() or path.suffix in (".parquet", ".pq") or (glob.has_magic(str(value)) and not path.exists()):
            find_files(value)  # refuses what is not there
            return str(value)
        return existing.convert(value, param, ctx)


existing = click.Path(exists=True, dir_okay=False, path_type=Path)
data_argument = click.argument("data", type=_Data())
output = click.Path(path_type=Path)
schema_option = click.option("--schema", "schema_path", type=existing, required=True, help="Public facts of the table.")
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
separator_option = click.option(
    "--separator", default=",", callback=lambda *given: read_separator(given[-1]), help="A character, or `tab`."
)


def workers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who reads the parts of the data."""
    for option in (
        click.option(
            "--memory", default="256 MB", callback=_bytes, help="Opened rows that a process keeps between passes."
        ),
        click.option("--cluster", help="Address of a Dask scheduler, such as tls://host:8786."),
        click.option("--workers", type=click.IntRange(1), help="Number of processes that read the data."),
    ):
        command = option(command)
    return command


def _bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    found = read_bytes(value)
    if found is None:
        raise click.BadParameter('a number of bytes, such as "500 MB"')
    return found


@contextmanager
def read_by(workers: int | None, cluster: str | None, memory: int) -> Iterator[None]:
    """Have parts read by so many processes, or by a cluster, in a `with` block."""
    if workers is not None and cluster is not None:
        raise InputError("--workers and --cluster exclude each other")
    with ExitStack() as stack:
        executor: Any = None
        if workers is not None:
            executor = stack.enter_context(ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")))
        elif cluster is not None:
            try:
                executor = stack.enter_context(need("distributed", "dask").Client(cluster))
            except (OSError, ValueError, RuntimeError) as error:
                raise UnavailableError(f"no Dask scheduler answers at {cluster} ({type(error).__name__})") from None
        stack.enter_context(context(executor=executor, memory=memory))
        yield


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a budget."""
    for option in (
        click.option(
            "--relation", type=click.Choice(RELATIONS), default="replace_one", help="The neighbouring relation."
        ),
        click.option("--delta", type=float, default=1e-6, help="Privacy budget; keep it well below 1/rows."),
        click.option("--epsilon", type=float, required=True, help="Privacy budget."),
    ):
        command = option(command)
    return command


def remind_of_release(dataset: str) -> None:
    """Say that something was released about the people of a data set."""
    click.echo(f'One release about the people of "{dataset}". Releases add up: keep the receipts.', err=True)


def read_schema(path: Path) -> Schema:
    """Read a schema; errors name the file."""
    try:
        return Schema.from_json(read_text(path))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


def read_columns(path: Path, separator: str, schema: Schema | None) -> dict[str, list[str]]:
    """Read a table that has columns of the schema, if there is one."""
    with working(f"Reading {path.name}"):
        return read_table(path, separator, schema.columns if schema else ())


def read_labelled(
    path: Path, separator: str, schema: Schema | None, target: str
) -> tuple[dict[str, list[str]], list[str]]:
    """Read a table, and take the target out of it."""
    columns = read_columns(path, separator, schema)
    if target not in columns:
        raise InputError(f"{path.name} has no column {target!r}, which is the target")
    return columns, columns.pop(target)


@contextmanager
def working(words: str, bars: bool = False) -> Iterator[None]:
    """Show that work is going on: a spinner on a terminal, unless it has bars, elsewhere a line if it takes long."""
    console = Console(stderr=True)
    if console.is_terminal and bars:
        yield
        return
    if console.is_terminal:
        with console.status(Text(words)):
            yield
        return
    timer = Timer(_PATIENCE, click.echo, (f"{words} ...",), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
