"""From batches to rows of numbers, labels and weights, and to whose the rows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex.data.frames import is_missing, open_table, read_numbers, text
from dpconvex.data.reuse import empty
from dpconvex.errors import InputError
from dpconvex.loops import arrow


def open_pair(batch: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights of a batch that is a tuple of them."""
    if not isinstance(batch, tuple) or len(batch) not in (2, 3):
        raise InputError("a table: name the column of labels (target=...), or fit an estimator with a schema")
    return batch if len(batch) == 3 else (*batch, None)


@dataclass(frozen=True)
class Columns:
    """Tables of numbers as rows and labels: one column is the label, all others are features."""

    target: str

    def __call__(self, batch: Any) -> tuple[Any, Any, Any]:
        """Return rows, labels and no weights."""
        if (found := self._of_arrow(batch)) is not None:
            return found
        table = open_table(batch, ())
        if self.target not in table.names:
            raise InputError(f"there is no column {self.target!r}, which is to be the label")
        features = [name for name in table.names if name != self.target]
        columns = [_numbers(name, table.column(name)) for name in features]
        X = np.empty((table.n, len(features)))
        for j, column in enumerate(columns):
            X[:, j] = column
        return X, _numbers(self.target, table.column(self.target)), None

    def _of_arrow(self, batch: Any) -> tuple[Any, Any, None] | None:
        """Rows of an Arrow table that holds nothing but numbers: faster than column by column."""
        if not type(batch).__module__.startswith("pyarrow"):
            return None
        if (layout := _layout(batch.schema, self.target)) is None:
            return None
        kinds, places, dtype = layout
        X, y, at = empty((batch.num_rows, len(kinds) - 1), dtype), np.empty(batch.num_rows), 0
        for piece in batch.to_batches():
            inside = slice(at, at + piece.num_rows)
            arrow.copy_columns(piece, kinds, places, X[inside], y[inside])
            at = inside.stop
        return X, y, None


_Layout = tuple[np.ndarray, np.ndarray, type]
_last_layout: tuple[Any, str, _Layout | None] = (None, "", None)


def _layout(schema: Any, target: str) -> _Layout | None:
    """Types and places of the columns of an Arrow schema, and the type of rows; None if not all are numbers."""
    global _last_layout
    before, label, layout = _last_layout
    if before is not None and label == target and before.equals(schema):
        return layout
    kinds, names, layout = [arrow.KINDS.get(str(kind), -1) for kind in schema.types], schema.names, None
    if len(kinds) > 1 and min(kinds) >= 0 and names.count(target) == 1:
        at = names.index(target)
        single = set(kinds[:at] + kinds[at + 1 :]) == {arrow.KINDS["float"]}
        places = np.arange(len(kinds)) - (np.arange(len(kinds)) > at)
        places[at] = arrow.LABEL
        layout = np.array(kinds), places, np.float32 if single else np.float64
    _last_layout = schema, target, layout
    return layout


def _numbers(name: str, cells: np.ndarray) -> np.ndarray:
    found = cells if cells.dtype.kind == "f" else read_numbers(cells)
    if found is None:
        raise InputError(f"column {name!r} holds cells that are no numbers: fit an estimator with a schema")
    return found


@dataclass(frozen=True)
class Whose:
    """Takes the column that says whose a row is out of a batch."""

    person: str

    def __call__(self, batch: Any) -> tuple[Any, np.ndarray]:
        """Return the batch without the column, and the ids as text, None where they are missing."""
        if isinstance(batch, tuple):
            if len(batch) != 4:
                raise InputError("does not say whose the rows are: give tuples (X, y, sample_weight or None, groups)")
            return batch[:3], read_ids(batch[3])
        table = open_table(batch, ())
        if self.person not in table.names:
            raise InputError(f"there is no column {self.person!r}, which is to say whose a row is")
        ids = table.read(self.person, read_ids)
        if isinstance(batch, dict):
            return {name: column for name, column in batch.items() if str(name) != self.person}, ids
        if hasattr(batch, "drop_columns"):  # of Arrow
            return batch.drop_columns([self.person]), ids
        return (batch.drop(columns=self.person) if hasattr(batch, "iloc") else batch.drop(self.person)), ids


def read_ids(cells: Any) -> np.ndarray:
    """Ids of people as text, None where they are missing; 1, 1.0 and "1" are the same.

    Examples
    --------
    >>> read_ids(np.array([7.0, np.nan, 8.0])).tolist(), read_ids([" eve", "", None, 3]).tolist()
    (['7', None, '8'], ['eve', None, None, '3'])
    """
    values = cells if isinstance(cells, np.ndarray) else np.array(list(cells), dtype=object)
    distinct, where = (values, None) if values.dtype == object else np.unique(values, return_inverse=True)
    found = np.empty(len(distinct), dtype=object)
    found[:] = [None if is_missing(cell) else text(cell) for cell in distinct.tolist()]
    return found if where is None else found[where]
