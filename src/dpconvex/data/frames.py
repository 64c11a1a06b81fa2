"""Read tables and their cells. What comes out of a row depends on that row alone; a complaint never quotes a cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from dpconvex.data.texts import is_text, read_decimals, read_distinct
from dpconvex.errors import InputError

MISSING, UNKNOWN = -1, -2
EPOCH = datetime(1970, 1, 1)
EXPECTED = "a pandas or polars DataFrame, a dict of columns, or a 2-D numpy array in the order of the schema"


class Table(NamedTuple):
    """Names of the columns, the number of rows, and a column by its name: its cells, or as text that Arrow holds."""

    names: tuple[str, ...]
    n: int
    column: Callable[[str], np.ndarray]
    text: Callable[[str], Any]  # an Arrow column, or None if it is not text

    def read(self, name: str, read: Callable[[np.ndarray], np.ndarray], decimals: bool = False) -> np.ndarray:
        """What `read` makes of the cells of a column, which it reads one by one; `decimals` if these are numbers.

        Examples
        --------
        >>> import pyarrow
        >>> table = open_table(pyarrow.table({"sex": ["F", None, "F"]}), ())
        >>> table.read("sex", lambda cells: read_codes(cells, ["F", "M"]))
        array([ 0, -1,  0])
        """
        if (cells := self.text(name)) is None:
            return read(self.column(name))
        return read_decimals(cells, read) if decimals else read_distinct(cells, read)


def open_table(frame: Any, order: Sequence[str]) -> Table:
    """Open a table; `order` names the columns of an array, which has no names of its own.

    Examples
    --------
    >>> table = open_table({"age": [40, None], "sex": ["F", "M"]}, ())
    >>> table.names, table.n, table.column("age")
    (('age', 'sex'), 2, array([40, None], dtype=object))
    """
    if isinstance(frame, Mapping):
        columns = {str(name): column_values(f"column {str(name)!r}", values) for name, values in frame.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1 or len(columns) != len(frame):
            raise InputError("a dict of columns must hold at least one, all of the same length and of different names")
        return Table(tuple(columns), lengths.pop(), columns.__getitem__, _no_text)
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.shape[1] != len(order):
            raise InputError(
                f"an array must have two dimensions and the {len(order)} columns of the schema, in its order, "
                f"the ignored ones too; got shape {frame.shape}"
            )
        place = {name: j for j, name in enumerate(order)}
        return Table(tuple(order), frame.shape[0], lambda name: frame[:, place[name]], _no_text)
    table = narwhals_frame(frame)
    native = {str(name): name for name in table.columns}
    if len(native) != len(table.columns):
        raise InputError("the columns of a table must have different names")

    def column(name: str) -> np.ndarray:
        return table.get_column(native[name]).to_numpy()

    def text(name: str) -> Any:
        cells = table.get_column(native[name]).to_native()
        return cells if is_text(cells.type) else None

    return Table(tuple(native), len(table), column, text if table.implementation.is_pyarrow() else _no_text)


def _no_text(name: str) -> None:
    return None


def narwhals_frame(frame: Any) -> nw.DataFrame[Any]:
    """Wrap a pandas, polars or pyarrow table; a query that was not run yet, such as a LazyFrame, is run."""
    found = lazy_frame(frame)
    return found.collect() if isinstance(found, nw.LazyFrame) else found


def lazy_frame(frame: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    """Wrap a table, and leave a query as it is."""
    try:
        return nw.from_native(frame)
    except (TypeError, ValueError, nw.exceptions.NarwhalsError):
        pass
    if isinstance(frame, str | Path):
        raise InputError("a table is expected, not a path: dpconvex.read_table(path) reads one")
    raise InputError(f"cannot read a table of type {type(frame).__name__}: expected {EXPECTED}, names all different")


def column_values(what: str, values: Any) -> np.ndarray:
    """One column as an array, mixed cells kept as they are."""
    if isinstance(values, list | tuple):
        # dtype object: numpy would otherwise turn text and NaN into text throughout.
        values = np.array(values, dtype=object)
    elif not isinstance(values, np.ndarray):
        series = nw.from_native(values, series_only=True, pass_through=True)
        values = series.to_numpy() if isinstance(series, nw.Series) else None
    if values is None or values.ndim != 1:
        raise InputError(f"{what} must be a list, a one-dimensional array or a series: one cell a row")
    return values


def is_missing(cell: Any) -> bool:
    """None, NaN, NaT, pandas NA or blank text."""
    if isinstance(cell, str):
        return not cell.strip()
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas NA is neither equal to itself nor different
        return type(cell).__name__ == "NAType"


def text(cell: Any) -> str:
    """A cell as text, without blanks around it; whole floats without their fraction, so that 1, 1.0 and "1" agree.

    Examples
    --------
    >>> text(1.0), text(" 1 "), text("1.0"), text(0.5), text(True)
    ('1', '1', '1', '0.5', 'True')
    """
    if isinstance(cell, float | np.floating) and math.isfinite(cell):
        return str(int(cell)) if cell == int(cell) else str(cell)
    found = str(cell).strip()
    # A column of whole numbers with holes leaves many programs as text like "1.0".
    return found[:-2] if found.endswith(".0") and found[:-2].removeprefix("-").isdecimal() else found


def as_texts(cells: Any) -> np.ndarray:
    """Cells as texts, to be compared.

    Examples
    --------
    >>> as_texts([1, 1.0, " 1 "]).tolist()
    ['1', '1', '1']
    """
    return np.array([text(cell) for cell in cells], dtype=object)


def read_codes(values: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """Index of each cell among the categories, MISSING or UNKNOWN.

    Examples
    --------
    >>> read_codes(np.array(["M", " F", None, "x"], dtype=object), ["F", "M"])
    array([ 1,  0, -1, -2])
    """
    place = {category: j for j, category in enumerate(categories)}

    def code(cell: Any) -> int:
        return MISSING if is_missing(cell) else place.get(text(cell), UNKNOWN)

    if values.dtype.kind in "biufmM":
        distinct, where = np.unique(values, return_inverse=True)
        return np.array([code(cell) for cell in distinct], dtype=np.int64)[where]
    cells = values.tolist()
    # Most cells are text just as it was declared.
    codes = np.array(_going_on(map(place.get, cells, repeat(UNKNOWN)), len(cells), UNKNOWN), dtype=np.int64)
    others = np.flatnonzero(codes == UNKNOWN).tolist()
    codes[others] = [code(cells[i]) for i in others]
    return codes


def read_numbers(values: np.ndarray, decimal: str = ".") -> np.ndarray | None:
    """Cells as float64, NaN where missing or no number; None if their type is one of other things.

    Examples
    --------
    >>> read_numbers(np.array([" 1.5 ", None, "many", 2], dtype=object))
    array([1.5, nan, nan, 2. ])
    >>> read_numbers(np.array(["1,5", "1.5", 1.5], dtype=object), ",")
    array([1.5, nan, 1.5])
    """
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind not in "OUST":
        return None
    return _each(values, float if decimal == "." else _with_comma)


def _with_comma(cell: Any) -> float:
    """A number, written with a comma if it is text."""
    if not isinstance(cell, str):
        return float(cell)
    return math.nan if "." in cell else float(cell.replace(",", "."))


def without(cells: np.ndarray, markers: Sequence[str]) -> np.ndarray:
    """Cells as objects, None for those whose text is one of the markers.

    Examples
    --------
    >>> without(np.array([1.0, 999.0]), ["999"]).tolist()
    [1.0, None]
    """
    known = frozenset(markers)
    found = np.empty(len(cells), dtype=object)
    found[:] = [None if not is_missing(cell) and text(cell) in known else cell for cell in cells.tolist()]
    return found


def is_date_format(form: Any) -> bool:
    """Whether dates that are written in that form can be told apart.

    Examples
    --------
    >>> is_date_format("%d/%m/%Y"), is_date_format("%m/%Y")
    (True, False)
    """
    day = datetime(2015, 12, 31)
    try:
        return datetime.strptime(day.strftime(form), form) == day
    except (TypeError, ValueError):
        return False


def read_days(values: np.ndarray, form: str = "") -> np.ndarray | None:
    """Dates as days since 1970, NaN where missing or no date; None if their type is one of other things.

    `form` is that of dates as text.
    """
    if values.dtype.kind == "M":
        days = (values.astype("datetime64[us]") - np.datetime64(0, "us")) / np.timedelta64(1, "D")
        return np.asarray(days, dtype=np.float64)
    if values.dtype.kind == "f":  # as whole columns of missing dates are often given
        return np.full(len(values), math.nan)
    if values.dtype.kind not in "OUST":
        return None
    if not form:
        return _each(values, days_since_epoch)

    def day(cell: Any) -> float:
        return days_since_epoch(datetime.strptime(cell.strip(), form) if isinstance(cell, str) else cell)

    return _each(values, lru_cache(maxsize=100_000)(day))


def days_since_epoch(cell: Any) -> float:
    """Days from 1970 to an ISO text, a date or a time; times with a zone are read in UTC.

    Examples
    --------
    >>> days_since_epoch("1970-01-02T12:00"), days_since_epoch(np.datetime64("1970-01-03"))
    (1.5, 2.0)
    """
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, str):
        cell = datetime.fromisoformat(cell.strip())
    elif not isinstance(cell, datetime):
        cell = datetime.combine(cell, time())
    if cell.tzinfo is not None:
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    return (cell - EPOCH).total_seconds() / 86400.0


def _each(values: np.ndarray, read: Callable[[Any], float]) -> np.ndarray:
    """What each cell reads as, NaN where it cannot be read; other cells are read the same way then."""
    return np.array(_going_on(map(read, values.tolist()), len(values), math.nan), dtype=np.float64)


def _going_on(coming: Iterator[Any], count: int, instead: Any) -> list[Any]:
    """So many items, with something else for those that raise: the iterator goes on behind them."""
    found: list[Any] = []
    while len(found) < count:
        try:
            found.extend(coming)
        except (TypeError, ValueError, OverflowError):
            found.append(instead)
    return found
