"""Tables in files: CSV, gzipped or not, with a header or without, and Parquet. The one place that decodes them.

What a file is, its first bytes say. Errors name places and never quote a cell.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpconvex.data.frames import read_days, read_numbers
from dpconvex.data.sources import need
from dpconvex.errors import InputError

__all__ = ["STDIN", "Reading", "read_batches", "read_header", "read_names", "read_separator", "read_table"]

STDIN = "-"
_LONGEST = 1 << 20  # bytes of a header
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_NOT_DECLARED = (
    "the first line holds none of the columns of the schema: it must be a header, with cells separated as --separator "
    "says; for a file without a header give the --names of its columns"
)
_NO_NAME_DECLARED = "none of the names given for the columns is one of the schema"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class Reading(NamedTuple):
    """How a CSV file is written: what is between cells, and the names of its columns if it has no header."""

    separator: str = ","
    names: tuple[str, ...] | None = None


def read_separator(text: str) -> str:
    """Return the character that a separator option names.

    Examples
    --------
    >>> read_separator("semicolon"), read_separator("|")
    (';', '|')
    """
    separator = _SEPARATORS.get(text, text)
    if len(separator) != 1 or separator in '"\r\n':
        raise InputError(f"a separator must be one character, or one of {', '.join(_SEPARATORS)}")
    return separator


def read_names(text: str) -> tuple[str, ...]:
    """Return the names of columns that an option lists: with commas, or @ and a file with a name on each line.

    Examples
    --------
    >>> read_names("age, sex")
    ('age', 'sex')
    """
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            raise InputError("the file with the names of the columns cannot be read, or is not UTF-8 text") from None
        return tuple(_checked("the list of names", [line for line in lines if line.strip()]))
    return tuple(_checked("the list of names", next(csv.reader([text], skipinitialspace=True), [])))


def read_table(
    path: str | Path,
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
    declared: Collection[str] = (),
) -> dict[str, Any]:
    r"""Read a table from a CSV or Parquet file: a list or an array of cells per column.

    A CSV file is UTF-8 text with a header, or with none and `names`; it may be gzipped. Cells stay text: what they
    stand for is for a schema to say. Empty lines are left out.

    Parameters
    ----------
    path : str or Path
        "-" is standard input.
    separator : str
        Between cells; also "tab", "semicolon", "space".
    names : sequence of str, optional
        Names of the columns of a file without a header.
    declared : collection of str
        Columns of which a CSV file must have at least one; the error quotes nothing of the file, whose first line may
        be the cells of a row.

    Raises
    ------
    InputError
        If the file cannot be read, or is not of that form.
    UnavailableError
        If it is a Parquet file, and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "visits.csv").write_text("40;F\n75;M\n")
    ...     read_table(f"{folder}/visits.csv", separator=";", names=["age", "sex"])
    {'age': ['40', '75'], 'sex': ['F', 'M']}
    """
    (table,) = read_batches(path, None, separator=separator, names=names, declared=declared)
    return table


def read_batches(
    path: str | Path,
    size: int | None = 2**15,
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
    declared: Collection[str] = (),
) -> Iterator[dict[str, Any]]:
    """Read a table as `read_table` does, so many rows at a time; all at once if the number is None."""
    called, separator = _called(path), read_separator(separator)
    first = 1
    with _opened(path) as file:
        if isinstance(file, _Parquet):
            yield from file.batches(called, size)
            return
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            lines = _cells(called, text, separator)
            header = _checked(called, names if names is not None else next(lines, []))
            if declared and not set(header) & set(declared):
                raise InputError(f"{called}: {_NOT_DECLARED if names is None else _NO_NAME_DECLARED}")
            filled = filter(None, lines)
            while rows := list(islice(filled, size)):
                yield _columns(called, header, rows, first, names is None)
                first += len(rows)
        except UnicodeDecodeError:
            raise InputError(f"{called} is not UTF-8 text: save it as UTF-8") from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{called} is a gzip file that is cut off or damaged") from None
        finally:
            text.detach()
    if first == 1:
        raise InputError(f"{called} holds {'a header and ' if names is None else ''}no rows")


def _columns(called: str, header: Sequence[str], rows: list[list[str]], first: int, headed: bool) -> dict[str, Any]:
    """Columns of some rows, the first of which has that number in the file."""
    if ragged := next((i for i, row in enumerate(rows, 1) if len(row) != len(header)), None):
        at = f"row {first + ragged - 1}{' after the header' if headed else ''}"
        raise InputError(
            f"{called}: {at} has {len(rows[ragged - 1])} cells, and "
            f"{'the header has' if headed else 'there are'} {len(header)} names"
        )
    return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def read_header(path: str | Path, separator: str = ",") -> Mapping[str, Any]:
    """Read the names of the columns, with types where the file states them; of a CSV file nothing beyond that line."""
    called, separator = _called(path), read_separator(separator)
    with _opened(path, only_line=True) as file:
        if isinstance(file, _Parquet):
            return file.header(called)
        try:
            line = file.readline(_LONGEST)
            while line.count(b'"') % 2 and len(line) < _LONGEST and (more := file.readline(_LONGEST)):
                line += more
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{called} is a gzip file that is cut off or damaged") from None
    if len(line) >= _LONGEST:
        raise InputError(f"{called}: the first line is too long to be a header")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{called} is not UTF-8 text: save it as UTF-8") from None
    names = _checked(called, next(_cells(called, io.StringIO(text, newline=""), separator), []))
    if sum(map(_is_value, names)) >= 2:
        raise InputError(
            f"{called}: several cells of the first line are numbers or dates: add a header, or name the columns"
        )
    return dict.fromkeys(names)


# Bytes ---------------------------------------------------------------------------------------------------------------


class _Parquet:
    """A Parquet file, by its path or its bytes."""

    def __init__(self, source: Any) -> None:
        self._module, self._source = need("pyarrow.parquet", "files"), source

    def header(self, called: str) -> dict[str, Any]:
        """Names and types of the columns."""
        schema = self._read(called, self._module.read_schema)
        return dict(zip(_checked(called, schema.names), map(str, schema.types), strict=True))

    def batches(self, called: str, size: int | None) -> Iterator[dict[str, Any]]:
        """The cells of every column, of so many rows at a time."""
        found = False
        for table in self._tables(called, size):
            names = _checked(called, table.column_names)
            if table.num_rows:
                found = True
                columns = zip(names, table.itercolumns(), strict=True)
                yield {name: _array(called, name, column) for name, column in columns}
        if not found:
            raise InputError(f"{called} holds no rows")

    def _tables(self, called: str, size: int | None) -> Iterator[Any]:
        if size is None:
            yield self._read(called, self._module.read_table)
            return
        batches = self._read(called, lambda source: self._module.ParquetFile(source, pre_buffer=False)).iter_batches(
            size
        )
        while (batch := self._read(called, lambda _: next(batches, None))) is not None:
            yield need("pyarrow", "files").Table.from_batches([batch])

    def _read(self, called: str, read: Any) -> Any:
        import pyarrow

        try:
            return read(self._source)
        except (pyarrow.ArrowException, OSError, ValueError):
            raise InputError(f"{called} is a Parquet file that is cut off or damaged") from None


def _array(called: str, name: str, column: Any) -> np.ndarray:
    """A column of a Parquet table as an array; missing cells are None or NaN."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_decimal(kind):
        column, kind = column.cast("float64"), "float64"
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(f"{called}: column {name!r} holds lists, records or bytes, and a cell is one value")
    return np.asarray(column.to_numpy())


@contextmanager
def _opened(path: str | Path, only_line: bool = False) -> Iterator[Any]:
    """Open a file as bytes without its compression, or as a Parquet file."""
    if str(path) == STDIN:
        yield _decoded(sys.stdin.buffer, sys.stdin.buffer)
        return
    try:
        # Without a buffer, readline takes one byte at a time, and nothing of the rows.
        file: Any = Path(path).open("rb", buffering=0 if only_line else -1)  # noqa: SIM115
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file has such a name"
        raise InputError(f"{_called(path)} cannot be read: {why}") from None
    with file:
        if only_line and not file.seekable():
            yield file
        else:
            yield _decoded(file, path)


def _decoded(file: Any, source: Any) -> Any:
    """What the first bytes say that the file is."""
    if file.seekable():
        first = file.read(4)
        file.seek(0)
    else:
        first = file.peek(4)[:4] if hasattr(file, "peek") else b""
    if first[:2] == _GZIP:
        return gzip.GzipFile(fileobj=file)
    if first == _PARQUET:
        return _Parquet(io.BytesIO(file.read()) if file is source else str(source))
    return file


def _called(path: str | Path) -> str:
    return "standard input" if str(path) == STDIN else Path(path).name


# Text ----------------------------------------------------------------------------------------------------------------


def _cells(called: str, lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=separator != " ")
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"{called}, line {reader.line_num}: {error}") from None


def _is_value(name: str) -> bool:
    """Whether a name looks like a cell: a number or a date."""
    cell = np.array([name], dtype=object)
    return any(found is not None and not np.isnan(found).all() for found in (read_numbers(cell), read_days(cell)))


def _checked(called: str, header: Sequence[str]) -> list[str]:
    """Check a header. Errors name positions only: in a file without a header, the first line is somebody's row."""
    names = [str(name).strip() for name in header]
    if not any(names):
        raise InputError(f"{called} has no header: its first line must name the columns")
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if not name:
            raise InputError(f"{called}: column {place} of the header has no name (pandas: to_csv(..., index=False))")
        if name in places:
            raise InputError(f"{called}: columns {places[name]} and {place} of the header have the same name")
        places[name] = place
    return names
