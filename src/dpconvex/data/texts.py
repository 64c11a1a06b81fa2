"""Text columns of Arrow tables: every distinct cell is read once, and plain decimal numbers by a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex.loops.protocol import compiled_exactly

_Read = Callable[[np.ndarray], np.ndarray]  # from cells to what they read as, each by itself
_POWERS = 10.0 ** np.arange(23)  # as far as they are exact


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, as such or by its place in a dictionary."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind)


def read_distinct(cells: Any, read: _Read) -> np.ndarray:
    """What each cell of an Arrow column of text reads as; equal cells are read once.

    Examples
    --------
    >>> import pyarrow
    >>> read_distinct(pyarrow.array(["b", "a", None, "b"]), lambda some: np.array([len(cell or "") for cell in some]))
    array([1, 1, 0, 1])
    """
    from pyarrow import types

    column = _joined(cells if types.is_dictionary(cells.type) else cells.dictionary_encode())
    words = column.dictionary
    distinct = np.empty(len(words) + 1, dtype=object)  # the last one is None, for cells that are missing
    distinct[:-1] = words.to_numpy(zero_copy_only=False)
    return read(distinct)[column.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]


def read_decimals(cells: Any, read: _Read) -> np.ndarray:
    """Numbers of an Arrow column of text: as `read` reads them, which is asked only about what is no plain decimal.

    Examples
    --------
    >>> import pyarrow
    >>> asked = lambda some: np.array([np.nan if cell is None else float(cell) for cell in some])
    >>> read_decimals(pyarrow.array(["1.25", "-3", None, "1e3"]), asked)
    array([ 1.25, -3.  ,   nan, 1000.  ])
    """
    from pyarrow import types

    if types.is_dictionary(cells.type):
        return read_distinct(cells, read)
    column = _joined(cells)
    n, (_, ends, data) = len(column), column.buffers()
    found, plain = np.full(n, np.nan), np.zeros(n, dtype=bool)
    if n and data is not None:
        size = np.int64 if types.is_large_string(column.type) else np.int32
        spans = np.frombuffer(ends, size)[column.offset : column.offset + n + 1]
        _decimals(np.frombuffer(data, np.uint8), spans, _POWERS, found, plain)
    if not plain.all():
        others = np.flatnonzero(~plain)
        found[others] = read_distinct(column.take(others), read)
    return found


def _joined(column: Any) -> Any:
    """A column in one piece."""
    if not hasattr(column, "chunks"):
        return column
    found = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return found if not hasattr(found, "chunks") else found.chunk(0)


@compiled_exactly
def _decimals(data, spans, powers, found, plain):
    # Up to 15 digits are exact as a number, and so are the powers of ten: one division rounds once, as it should.
    for i in range(found.shape[0]):
        at, stop = spans[i], spans[i + 1]
        negative = bool(at < stop and data[at] == 45)
        if negative:
            at += 1
        digits, behind, point, fine = 0, 0, 0, True
        number = np.int64(0)
        while at < stop and fine:
            if data[at] == 46:
                point += 1
            else:
                digit = np.int64(data[at]) - 48
                fine = bool(0 <= digit <= 9)
                number = 10 * number + digit
                digits += 1
                behind += point
            fine = fine and point <= 1 and digits <= 15
            at += 1
        if fine and digits > 0:
            value = np.float64(number) / powers[behind]
            found[i], plain[i] = -value if negative else value, True
