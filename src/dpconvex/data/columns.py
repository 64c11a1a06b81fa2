"""What is public about a column: its range or categories, what stands for missing, and which column is the target.

Every cell has a value under its declaration, whatever it holds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dpconvex.data import frames
from dpconvex.errors import InputError
from dpconvex.hints import named
from dpconvex.plain import plain_text

__all__ = ["Category", "Classes", "Date", "Ignore", "Number", "Range"]


@named
@dataclass(frozen=True)
class Number:
    """A number within a public range; values outside are clipped.

    Parameters
    ----------
    low, high : float
        The range.
    log : bool
        Scale by the signed logarithm sign(v) log(1 + |v|): for sums of money and other skewed amounts.
    typical : pair of float, optional
        Where about nineteen in twenty values lie, from general knowledge: a reference range. Worth stating wherever
        the range is much wider, for what is told apart is then where the values are.
    missing : {"middle", "flag"}
        A missing value, or one that is no number, becomes the middle of the scale, alone or with a column that says
        so.
    markers : sequence
        Cells that stand for a missing value beside empty ones, such as 999 or "?"; matched as text.
    decimal : {".", ","}
        The decimal mark of numbers that are written as text. With a comma, text with a point is no number: it could be
        a thousand times what it says.

    Examples
    --------
    >>> Number(18, 100).scaled(np.array([18.0, 59.0, 120.0]))
    array([-1.,  0.,  1.])
    >>> Number(0.1, 20, typical=(0.5, 1.5)).scaled(np.array([0.5, 1.0, 1.5, 1.75, 8.0]))
    array([-1. ,  0. ,  1. ,  1.5,  2. ])
    """

    low: float
    high: float
    _: dataclasses.KW_ONLY
    log: bool = False
    typical: tuple[float, float] | None = None
    missing: str = "middle"
    markers: tuple[str, ...] = ()
    decimal: str = "."

    MISSING: ClassVar = ("middle", "flag")
    DECIMAL: ClassVar = (".", ",")

    def __post_init__(self) -> None:
        low, high = _ends(self.low, self.high, "low", "high")
        if not isinstance(self.log, bool):
            raise InputError("log must be true or false")
        if self.typical is not None:
            if isinstance(self.typical, str) or not isinstance(self.typical, Sequence) or len(self.typical) != 2:
                raise InputError("typical must be a pair of numbers")
            typical = _ends(*self.typical, "typical[0]", "typical[1]")
            if not low <= typical[0] < typical[1] <= high:
                raise InputError(f"typical must lie within the range from low = {low:g} to high = {high:g}")
            object.__setattr__(self, "typical", typical)
        _one_of("missing", self.missing, self.MISSING)
        _one_of("decimal", self.decimal, self.DECIMAL)
        object.__setattr__(self, "markers", _texts("markers", self.markers))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not self._scale[0] / 2.0 < self._scale[1] / 2.0:
            raise InputError("the range is too narrow: its ends are the same on the scale of float64")

    @property
    def _scale(self) -> tuple[float, float]:
        """What becomes -1 and 1."""
        low, high = self.typical or (self.low, self.high)
        return (float(_signed_log(low)), float(_signed_log(high))) if self.log else (float(low), float(high))

    @property
    def half_width(self) -> float:
        """Half the width of what becomes [-1, 1], on the scale of the logarithm if there is one."""
        return self._scale[1] / 2.0 - self._scale[0] / 2.0

    def read(self, name: str, values: np.ndarray) -> np.ndarray:
        """Cells as float64, NaN where missing or no number."""
        numbers = frames.read_numbers(values, self.decimal)
        if numbers is None:
            raise InputError(f"column {name!r} is declared a number and has the type {values.dtype}")
        return numbers

    def misfits(self, name: str, values: np.ndarray) -> dict[str, int]:
        """Numbers of cells that do not fit."""
        return _outside(values, self.read(name, values), self.low, self.high, "no number")

    def scaled(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers brought to [-1, 1], or to [-2, 2] with the typical ones in [-1, 1]; NaN is kept."""
        numbers = np.clip(numbers, self.low, self.high)
        reach = 1.0 if self.typical is None else 2.0
        return _scaled(_signed_log(numbers) if self.log else numbers, *self._scale, reach)


@named
@dataclass(frozen=True)
class Category:
    """One of the declared categories, matched as text: 1, 1.0 and "1" are the same.

    Parameters
    ----------
    categories : sequence
        All categories that can occur.
    markers : sequence
        Cells that stand for a missing value beside empty ones; matched as text.
    missing : {"zeros", "category"}
        A missing value gets zeros in every column, or a column of its own. A column of its own costs noise whether or
        not a value is ever missing: declare it where missing says something.
    unknown : {"missing", "zeros"}
        A value that is not declared counts as missing, or gets zeros in every column.

    Examples
    --------
    >>> Category(["F", "M", 1.0]).categories
    ('F', 'M', '1')
    """

    categories: tuple[str, ...]
    _: dataclasses.KW_ONLY
    missing: str = "zeros"
    unknown: str = "missing"
    markers: tuple[str, ...] = ()

    MISSING: ClassVar = ("zeros", "category")
    UNKNOWN: ClassVar = ("missing", "zeros")

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", tuple(map(frames.text, _distinct("categories", self.categories, 1))))
        _one_of("missing", self.missing, self.MISSING)
        _one_of("unknown", self.unknown, self.UNKNOWN)
        object.__setattr__(self, "markers", _texts("markers", self.markers))
        if both := set(self.markers) & set(self.categories):
            raise InputError(f"{listed(sorted(both))} cannot be both a category and a marker of missing values")

    def read(self, name: str, values: np.ndarray) -> np.ndarray:
        """Index of each cell among the categories, -1 where missing and -2 where it has none at all."""
        codes = frames.read_codes(values, self.categories)
        return np.where(codes == frames.UNKNOWN, frames.MISSING, codes) if self.unknown == "missing" else codes

    def misfits(self, name: str, values: np.ndarray) -> dict[str, int]:
        """Numbers of cells that do not fit."""
        return _uncoded(frames.read_codes(values, self.categories))


@named
@dataclass(frozen=True)
class Date:
    """A date between two public dates, scaled like a number; dates outside are clipped.

    Parameters
    ----------
    first, last : str or date
        The range, as ISO dates.
    format : str
        How dates are written as text if not like 2015-01-31, as `strptime` takes it, such as "%d/%m/%Y".
    missing, markers
        As for a number.

    Examples
    --------
    >>> Date("2015-01-01", "2024-12-31").scaled(np.array([16436.0, 30000.0]))
    array([-1.,  1.])
    """

    first: str
    last: str
    _: dataclasses.KW_ONLY
    format: str = ""
    missing: str = "middle"
    markers: tuple[str, ...] = ()

    MISSING: ClassVar = Number.MISSING

    def __post_init__(self) -> None:
        for end in ("first", "last"):
            value = getattr(self, end)
            if np.isnan(frames.read_days(np.array([value], dtype=object))).any():  # type: ignore[arg-type]
                raise InputError(f'{end} must be an ISO date such as "2015-01-31"')
            object.__setattr__(self, end, str(value).strip())
        if not self._days[0] < self._days[1]:
            raise InputError("first must be an earlier date than last")
        if self.format and not frames.is_date_format(self.format):
            raise InputError('format must say where day, month and year stand, such as "%d/%m/%Y"')
        _one_of("missing", self.missing, self.MISSING)
        object.__setattr__(self, "markers", _texts("markers", self.markers))

    @property
    def _days(self) -> tuple[float, float]:
        return frames.days_since_epoch(self.first), frames.days_since_epoch(self.last)

    @property
    def half_width(self) -> float:
        """Half the number of days between the two dates."""
        return self._days[1] / 2.0 - self._days[0] / 2.0

    def read(self, name: str, values: np.ndarray) -> np.ndarray:
        """Cells as days since 1970, NaN where missing or no date."""
        days = frames.read_days(values, self.format)
        if days is None:
            raise InputError(
                f'column {name!r} is declared a date and has the type {values.dtype}; write dates like "2015-01-31"'
            )
        return days

    def misfits(self, name: str, values: np.ndarray) -> dict[str, int]:
        """Numbers of cells that do not fit."""
        return _outside(values, self.read(name, values), *self._days, "no date")

    def scaled(self, days: np.ndarray) -> np.ndarray:
        """Days brought to [-1, 1], NaN kept."""
        return _scaled(days, *self._days, 1.0)


@named
@dataclass(frozen=True)
class Ignore:
    """A column that is there and not used.

    Examples
    --------
    >>> Ignore("the number of the record").why
    'the number of the record'
    """

    why: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.why, str):
            raise InputError("why must be text")


Column = Number | Category | Date | Ignore
COLUMNS: dict[str, type[Number] | type[Category] | type[Date] | type[Ignore]] = {
    "number": Number,
    "category": Category,
    "date": Date,
    "ignore": Ignore,
}


@named
@dataclass(frozen=True)
class Classes:
    """What is to be predicted: one of at least two labels, matched as text like categories.

    Examples
    --------
    >>> Classes("outcome", ["no", "yes"]).encode(["yes", "no", "yes"])
    array([1, 0, 1])
    """

    name: str
    labels: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_name("the target", self.name)
        object.__setattr__(self, "labels", _distinct("labels", self.labels, 2))

    def encode(self, values: Any) -> np.ndarray:
        """Index of each label, -1 where missing or undeclared: such a row has no target."""
        return np.maximum(self._codes(values), frames.MISSING)

    def misfits(self, values: Any) -> dict[str, int]:
        """Numbers of cells that do not fit."""
        return _uncoded(self._codes(values))

    def _codes(self, values: Any) -> np.ndarray:
        return frames.read_codes(frames.column_values("the target", values), tuple(map(frames.text, self.labels)))


@named
@dataclass(frozen=True)
class Range:
    """What is to be predicted: a number within a public range; values outside are clipped.

    Examples
    --------
    >>> Range("days in hospital", 0, 60).encode([3, 75])
    array([ 3., 60.])
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        check_name("the target", self.name)
        low, high = _ends(self.low, self.high, "low", "high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def encode(self, values: Any) -> np.ndarray:
        """Clipped targets, NaN where missing or no number: such a row has no target."""
        return np.clip(self._numbers(values), self.low, self.high)

    def misfits(self, values: Any) -> dict[str, int]:
        """Numbers of cells that do not fit."""
        cells = frames.column_values("the target", values)
        return _outside(cells, self._numbers(cells), self.low, self.high, "no number")

    def _numbers(self, values: Any) -> np.ndarray:
        cells = frames.column_values("the target", values)
        numbers = frames.read_numbers(cells)
        if numbers is None:
            raise InputError(f"the target {self.name!r} is declared a number and has the type {cells.dtype}")
        return numbers


# Checks ------------------------------------------------------------------------------------------------------------


def listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"the name of {what} must be text that is not empty")
    plain_text(name, f"the name of {what}")


def _texts(what: str, cells: Any) -> tuple[str, ...]:
    return tuple(map(frames.text, _distinct(what, cells, 0)))


def _one_of(what: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{what} must be one of {listed(known)}")


def _ends(low: Any, high: Any, *names: str) -> tuple[float, float]:
    if any(isinstance(v, bool | np.bool_) or not isinstance(v, Real) or not math.isfinite(v) for v in (low, high)):
        raise InputError(f"{names[0]} and {names[1]} must be finite numbers")
    if not low < high or not math.isfinite(float(high) - float(low)):
        raise InputError(f"{names[0]} must be less than {names[1]}, at a distance that is finite")
    return _plain(low), _plain(high)


def _plain(value: Any) -> Any:
    """Whole numbers stay whole, so that a saved schema reads as it was written."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)


def _distinct(what: str, values: Any, least: int) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise InputError(f"{what} must be a list")
    items = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    items = tuple(plain_text(v, f"a label in {what}") if isinstance(v, str) else v for v in items)
    if any(frames.is_missing(item) for item in items):
        raise InputError(f"{what} must not hold an empty or missing value: say what becomes of those with `missing`")
    if len(items) < least or len({frames.text(item) for item in items}) != len(items):
        raise InputError(f"{what} must name at least {least}, all different as text")
    return items


def _outside(cells: np.ndarray, numbers: np.ndarray, low: float, high: float, other: str) -> dict[str, int]:
    """Numbers of cells that are missing, could not be read, or are outside the range."""
    unread = np.flatnonzero(np.isnan(numbers))
    missing = sum(frames.is_missing(cell) for cell in cells[unread])
    return _counts(
        {"missing": missing, other: len(unread) - missing, "outside": ((numbers < low) | (numbers > high)).sum()}
    )


def _uncoded(codes: np.ndarray) -> dict[str, int]:
    return _counts({"missing": (codes == frames.MISSING).sum(), "not declared": (codes == frames.UNKNOWN).sum()})


def _counts(found: Mapping[str, Any]) -> dict[str, int]:
    return {what: int(count) for what, count in found.items() if count}


# Scaling -----------------------------------------------------------------------------------------------------------


def _signed_log(values: Any) -> Any:
    return np.sign(values) * np.log1p(np.abs(values))


def _scaled(values: np.ndarray, low: float, high: float, reach: float) -> np.ndarray:
    """Bring [low, high] to [-1, 1] and clip at `reach`."""
    middle, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    near = np.clip(values, middle - reach * half, middle + reach * half)  # first, so that nothing overflows
    return np.clip((near - middle) / half, -reach, reach)
