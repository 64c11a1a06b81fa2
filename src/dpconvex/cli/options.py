"""Options that several commands share."""

from __future__ import annotations

import glob
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from threading import Timer
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dpconvex.cli.files import read_text
from dpconvex.context import LEDGER_VARIABLE, context, read_bytes
from dpconvex.data.files import STDIN, Reading, read_names, read_separator, read_table
from dpconvex.data.parts import Parts, find_files
from dpconvex.data.schema import Schema
from dpconvex.data.sources import need
from dpconvex.errors import InputError, UnavailableError
from dpconvex.kernel.budget import RELATIONS
from dpconvex.ledger.ledger import Ledger
from dpconvex.plain import read_json

_PATIENCE = 2.0  # seconds after which a log gets a line about the work

existing = click.Path(exists=True, dir_okay=False, path_type=Path)
tabular = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)  # - is standard input
output = click.Path(path_type=Path)


class _Files(click.ParamType):
    """A table, as `tabular`, or text that names several: a folder, or a pattern such as 'visits/*.parquet'."""

    name = "data"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the text."""
        path = Path(value)
        if path.is_dir() or (glob.has_magic(str(value)) and not path.exists()):
            find_files(value)  # refuses what is not there
            return str(value)
        return tabular.convert(value, param, ctx)


several = _Files()
schema_option = click.option("--schema", "schema_path", type=existing, required=True, help="Public facts of the table.")
answers_option = click.option(
    "--answers", "answers_path", type=existing, help="What only people know (JSON); asked for otherwise."
)
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a table is written; the command gets them together as `reading`."""

    @click.option(
        "--separator", default=",", callback=lambda *given: read_separator(given[-1]), help="A character, or `tab`."
    )
    @click.option(
        "--names", help="Columns of a file without a header: a list with commas, or @FILE with a name on each line."
    )
    @wraps(command)
    def with_reading(*arguments: Any, separator: str, names: str | None, **options: Any) -> Any:
        reading = Reading(separator, None if names is None else read_names(names))
        return command(*arguments, reading=reading, **options)

    return with_reading


def workers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who reads the parts of the data."""
    for option in (
        click.option(
            "--memory", default="128 MB", callback=_bytes, help="Opened rows that a process keeps between passes."
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


def open_parts(data: Path | str, reading: Reading) -> Parts:
    """Files as parts; how they are read is for those that are text."""
    files = find_files(data)
    if files[0].suffix in (".parquet", ".pq"):
        return Parts.of(data)
    if reading.names is not None:
        raise InputError("--names is for a single file: the files of several must have a header")
    return Parts.csv(files, separator=reading.separator)


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


def remind_of_release(dataset: str, ledger: Ledger | None = None) -> None:
    """Say that something was released about the people of a data set, and what is left of its budget if known."""
    more = "Releases add up: keep the receipts."
    if ledger is not None:
        more = f"Of its budget, one more release may take epsilon {ledger.remaining(dataset):.4g} at most."
    click.echo(f'One release about the people of "{dataset}". {more}', err=True)


def ledger_option(required: bool) -> Callable[..., Any]:
    """Add the option that names a ledger."""
    return click.option(
        "--ledger",
        "url",
        envvar=LEDGER_VARIABLE,
        required=required,
        show_envvar=True,
        help="File or PostgreSQL URL of the ledger.",
    )


@contextmanager
def under_ledger(url: str | None) -> Iterator[Ledger | None]:
    """Charge what is run to a ledger, if one is named."""
    if url is None:
        yield None
        return
    ledger = Ledger.open(url, create=False)
    with context(ledger=ledger):
        yield ledger


def read_schema(path: Path) -> Schema:
    """Read a schema; errors name the file."""
    try:
        return Schema.from_json(read_text(path))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


def read_answers(path: Path | None, asked: Mapping[str, str]) -> dict[str, str]:
    """Read what only people know from a file, or ask for it."""
    if path is None:
        return {name: click.prompt(words, err=True) for name, words in asked.items()}
    answers = read_json(read_text(path), path.name, InputError)
    if not isinstance(answers, dict) or not all(isinstance(answer, str) for answer in answers.values()):
        raise InputError(f"{path.name} must be an object of texts: {', '.join(asked)}")
    return answers


def read_columns(path: Path, reading: Reading, schema: Schema | None) -> dict[str, Any]:
    """Read a table that has columns of the schema, if there is one."""
    with working(f"Reading {named(path)}"):
        return read_table(
            path, separator=reading.separator, names=reading.names, declared=schema.columns if schema else ()
        )


def read_labelled(path: Path, reading: Reading, schema: Schema | None, target: str) -> tuple[dict[str, Any], Any]:
    """Read a table, and take the target out of it."""
    columns = read_columns(path, reading, schema)
    if target not in columns:
        raise InputError(f"{named(path)} has no column {target!r}, which is the target")
    return columns, columns.pop(target)


def named(path: Path | str) -> str:
    """What a table is called in messages."""
    return "standard input" if str(path) == STDIN else Path(path).name


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
