"""The encoding of a table by its schema: rows of numbers within a norm, from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.data.frames import MISSING
from dpconvex.data.reuse import empty
from dpconvex.data.schema import Category, Column, Date, Ignore, Number, Schema
from dpconvex.loops.protocol import compiled


@dataclass(frozen=True)
class Encoding:
    """How a schema turns the rows of a table into numbers.

    A number or date becomes one column, its range brought to [-1, 1]; a category becomes one column for each declared
    value, a 1 in one of them. The m numbers of a row together are brought within norm (m/4 + 3 sqrt(m)/4)^(1/2), and
    everything is divided so that the row, with the constant feature of an intercept that weighs as much as a category,
    is within norm 1 by construction.

    Examples
    --------
    >>> encoding = Encoding(Schema({"age": Number(20, 100), "sex": Category(["F", "M"], missing="zeros")}))
    >>> encoding.names, round(encoding.row_bound, 3), round(encoding.constant, 3)
    (('age', 'sex=F', 'sex=M'), 0.816, 0.577)
    >>> encoding.encode({"age": [20, 60], "sex": ["M", "F"]}).toarray().round(3)
    array([[-0.577,  0.   ,  0.577],
           [ 0.   ,  0.577,  0.   ]])
    """

    schema: Schema

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(out for name, column in self.schema.columns.items() for out in _outputs(name, column))

    @property
    def units(self) -> tuple[str, ...]:
        """What one step of each encoded column is in the table: a unit, a day, a doubling, or that something is so."""
        return tuple(unit for column in self.schema.columns.values() for unit, _ in _steps(column))

    @property
    def factors(self) -> np.ndarray:
        """How far one such step moves the encoded column, for rows whose numbers are not shortened."""
        steps = [step for column in self.schema.columns.values() for _, step in _steps(column)]
        return self.constant * np.array(steps)

    @property
    def shortens(self) -> bool:
        """Whether the numbers of a row may be shortened together."""
        return sum(isinstance(column, Number | Date) for column in self.schema.columns.values()) > 1

    @property
    def row_bound(self) -> float:
        """Every row has at most this l2 norm, whatever the table holds."""
        return math.sqrt(self._square / (self._square + 1.0))

    @property
    def constant(self) -> float:
        """Value for the constant feature of an intercept."""
        return 1.0 / math.sqrt(self._square + 1.0)

    @cached_property
    def _square(self) -> float:
        """Largest squared norm of a row before everything is divided."""
        kinds = [type(column) for column in self.schema.columns.values()]
        return _number_radius(sum(kind in (Number, Date) for kind in kinds)) ** 2 + kinds.count(Category)

    def encode(self, table: Any) -> sparse.csr_array:
        """Rows of a table; entries that are 0 may be stored."""
        indices, values = self._entries(table)
        n, m = indices.shape
        indptr = np.arange(n + 1, dtype=np.int32 if n * m < 2**31 else np.int64) * m
        return sparse.csr_array((values.ravel(), indices.ravel(), indptr), shape=(n, len(self.names)))

    def rows(self, table: Any) -> np.ndarray:
        """Rows of a table, with all their zeros."""
        indices, values = self._entries(table)
        out = empty((len(indices), len(self.names)))
        out.fill(0.0)
        _scatter(indices, values, out)
        return out

    def _entries(self, table: Any) -> tuple[np.ndarray, np.ndarray]:
        """Place and value of the entry of each row and block of columns that may not be 0."""
        n, cells = self.schema.read(table)
        indices = np.empty((n, len(cells)), dtype=np.int32)
        values = np.empty((n, len(cells)))
        start = 0
        for j, (name, read) in enumerate(cells.items()):
            column = self.schema.columns[name]
            place, values[:, j] = _entries(column, read)
            np.add(place, start, out=indices[:, j], casting="unsafe")
            start += len(_outputs(name, column))
        numeric = [not isinstance(self.schema.columns[name], Category) for name in cells]
        values[:, numeric] = _shortened(values[:, numeric])
        values *= self.constant
        return indices, values


@compiled
def _scatter(indices, values, out):
    for i in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            out[i, indices[i, j]] = values[i, j]


def _outputs(name: str, column: Column) -> list[str]:
    """Names of the columns that a column becomes."""
    if isinstance(column, Ignore):
        return []
    flag = [f"{name} is missing"] if column.missing in ("category", "flag") else []
    return [f"{name}={value}" for value in column.categories] + flag if isinstance(column, Category) else [name, *flag]


def _steps(column: Column) -> list[tuple[str, float]]:
    """Unit of each column that a column becomes, and how far one unit moves it before everything is divided."""
    if isinstance(column, Ignore):
        return []
    flag = [("if so", 1.0)] if column.missing in ("category", "flag") else []
    if isinstance(column, Category):
        return [("if so", 1.0)] * len(column.categories) + flag
    half = column.half_width
    if isinstance(column, Date):
        return [("day", 1.0 / half), *flag]
    return [("doubling", math.log(2.0) / half) if column.log else ("unit", 1.0 / half), *flag]


def _entries(column: Column, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The one entry of each row's block that is not 0: its place in the block, and its value."""
    assert not isinstance(column, Ignore)
    if isinstance(column, Category):
        own = column.missing == "category"
        place = np.where((read == MISSING) & own, len(column.categories), np.maximum(read, 0))
        return place, ((read >= 0) | ((read == MISSING) & own)).astype(np.float64)
    missing = np.isnan(read)
    flagged = missing & (column.missing == "flag")
    return flagged.astype(np.int32), np.where(missing, flagged, column.scaled(read))


def _number_radius(m: int) -> float:
    """Norm within which the m numbers of a row are kept.

    Normal values with nineteen in twenty between -1 and 1 have squares of mean 1/4 and standard deviation 0.35: the sum
    of m squares is rarely beyond its mean by more than two of its standard deviations. The worst case, sqrt(m), would
    ask for noise against rows that do not occur.
    """
    return math.sqrt(m / 4.0 + 0.75 * math.sqrt(m))


def _shortened(numbers: np.ndarray) -> np.ndarray:
    """Rows brought within the radius, their direction kept."""
    radius = _number_radius(numbers.shape[1])
    numbers = np.ascontiguousarray(numbers)  # sums of a row are then the same whatever the number of rows
    norm = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    return numbers * (radius / np.maximum(norm, radius))[:, None] if radius else numbers
