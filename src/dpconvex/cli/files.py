"""Input and output files: CSV tables, and outputs that are checked before any work is done."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import click
import numpy as np

from dpconvex.data.frames import read_days, read_numbers
from dpconvex.errors import InputError, UnavailableError

_LONGEST = 1 << 20  # bytes of a header
_BATCH = 1 << 15  # rows read at a time
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


def read_separator(text: str) -> str:
    """Return the character that a separator option names.

    Examples
    --------
    >>> read_separator("semicolon"), read_separator("|")
    (';', '|')
    """
    separator = _SEPARATORS.get(text, text)
    if len(separator) != 1 or separator in '"\r\n':
        raise InputError(f"--separator must be one character, or one of {', '.join(_SEPARATORS)}")
    return separator


def read_header(path: Path, separator: str = ",") -> list[str]:
    """Read the names of the columns, and nothing beyond their line."""
    with path.open("rb", buffering=0) as file:  # without a buffer, readline takes one byte at a time
        line = file.readline(_LONGEST)
        while line.count(b'"') % 2 and len(line) < _LONGEST and (more := file.readline(_LONGEST)):
            line += more
    if len(line) >= _LONGEST:
        raise InputError(f"{path.name}: the first line is too long to be a header")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text: save it as UTF-8") from None
    names = _names(path, next(_cells(path, io.StringIO(text, newline=""), separator), []))
    if sum(map(_is_value, names)) >= 2:
        raise InputError(f"{path.name}: several cells of the first line are numbers or dates: add a header")
    return names


def _is_value(name: str) -> bool:
    """Whether a name looks like a cell: a number or a date."""
    cell = np.array([name], dtype=object)
    return read_numbers(cell) is not None or read_days(cell) is not None


def read_table(path: Path, separator: str = ",", declared: Collection[str] = ()) -> dict[str, list[str]]:
    """Read a CSV file as text: a list of cells per column. Empty lines are left out.

    If columns are declared, the file must have at least one of them; the error names none of the columns of the file,
    which may be the cells of a row.
    """
    (table,) = read_batches(path, separator, declared, None)
    return table


def read_batches(
    path: Path, separator: str = ",", declared: Collection[str] = (), size: int | None = _BATCH
) -> Iterator[dict[str, list[str]]]:
    """Read a CSV file as `read_table` does, so many rows at a time."""
    first = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = _cells(path, file, separator)
            names = _names(path, next(lines, []))
            if declared and not set(names) & set(declared):
                raise InputError(
                    f"{path.name}: the first line holds none of the columns of the schema: it must be a header, with "
                    "cells separated as --separator says"
                )
            filled = filter(None, lines)
            while rows := list(islice(filled, size)):
                yield _columns(path, names, rows, first)
                first += len(rows)
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text: save it as UTF-8") from None
    if first == 1:
        raise InputError(f"{path.name} holds a header and no rows")


def _columns(path: Path, names: list[str], rows: list[list[str]], first: int) -> dict[str, list[str]]:
    if ragged := next((i for i, row in enumerate(rows, 1) if len(row) != len(names)), 0):
        raise InputError(
            f"{path.name}: row {first + ragged - 1} after the header has {len(rows[ragged - 1])} cells, and the header "
            f"has {len(names)} names"
        )
    return {name: list(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)}


def _cells(path: Path, lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=separator != " ")
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}: {error}") from None


def _names(path: Path, header: Sequence[str]) -> list[str]:
    """Check a header. Errors name positions only: in a file without a header, the first line is somebody's row."""
    names = [name.strip() for name in header]
    if not any(names):
        raise InputError(f"{path.name} has no header: its first line must name the columns")
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if not name:
            raise InputError(
                f"{path.name}: column {place} of the header has no name (pandas: to_csv(..., index=False))"
            )
        if name in places:
            raise InputError(f"{path.name}: columns {places[name]} and {place} of the header have the same name")
        places[name] = place
    return names


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text") from None


def check_output(path: Path | None, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Check that an output file can be written, before the work for it is done."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder}")
    if path.is_dir():
        raise InputError(f"{path} is a folder")
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise InputError(f"{path} is also an input: choose another output file")
    if path.exists() and not force:
        raise InputError(f"{path} exists already; use --force to replace it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"{path} cannot be written")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report that a file was written, or why it could not be."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {path}", err=True)
