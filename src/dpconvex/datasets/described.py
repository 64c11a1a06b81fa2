"""The description of a data set: its origin, its terms, and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from dpconvex.data.schema import Category, Ignore, Schema
from dpconvex.datasets.fetch import Archive
from dpconvex.errors import UnavailableError


@dataclass(frozen=True)
class Described:
    """The public schema of a data set, its origin and terms, and how to read it.

    Attributes
    ----------
    files : mapping from official splits to files; a data set without splits has one file, under "all"
    target : function that takes the target out of a table, which it may change
    csv : keywords of `pandas.read_csv`
    person : str, optional, the column that identifies people who have several rows; a split keeps their rows together

    Examples
    --------
    >>> from dpconvex.datasets.adult import ADULT
    >>> ADULT.licence
    'CC BY 4.0, as the repository states'
    """

    schema: Schema
    title: str
    task: str
    size: str
    origin: str
    licence: str
    citation: str
    archive: Archive
    files: Mapping[str, str]
    target: Callable[[Any], Any]
    csv: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    person: str | None = None

    def read(self, content: bytes) -> tuple[Any, Any]:
        """Return the table and the target in the content of a file."""
        frame = pandas().read_csv(BytesIO(content), **self.csv)
        target = self.target(frame)
        return frame, target


def pandas() -> Any:
    """Return the module pandas, which is an optional dependency."""
    try:
        import pandas
    except ImportError as error:
        raise UnavailableError("data sets need pandas, which is not installed: pip install 'dpconvex[demo]'") from error
    return pandas


def ignore(why: str, *columns: str) -> dict[str, Ignore]:
    """Columns that are left out for the same reason."""
    return dict.fromkeys(columns, Ignore(why))


def listed(categories: str) -> Category:
    """A category with these values, separated by commas; a missing value is none of them."""
    return Category(tuple(categories.split(", ")), missing="zeros")


def yes_no(name: str, flags: Any) -> Any:
    """A target of "no" and "yes"."""
    return flags.map({False: "no", True: "yes"}).rename(name)
