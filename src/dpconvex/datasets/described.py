"""What is known of a data set before a row is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpconvex.data.schema import Ignore, Schema
from dpconvex.datasets.fetch import Archive
from dpconvex.errors import UnavailableError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Described:
    """Where a data set comes from, on what terms, how it is read, and its public schema.

    `files` maps an official split to the file that holds it; the one file of a set that has none stands under "all".
    `read` makes a table and a target from the content of a file. `person` names the column that tells people apart
    where one has several rows: a split keeps them together.

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
    read: Callable[[bytes], tuple[pd.DataFrame, pd.Series]]
    note: str = ""
    person: str | None = None


def pandas() -> Any:
    """Return the module pandas, which an extra brings."""
    try:
        import pandas
    except ImportError as error:
        raise UnavailableError(
            "data sets are pandas tables, and pandas is not installed: pip install 'dpconvex[demo]'"
        ) from error
    return pandas


def ignore(why: str, *columns: str) -> dict[str, Ignore]:
    """Leave columns out for one reason."""
    return dict.fromkeys(columns, Ignore(why))


def yes_no(name: str, flags: pd.Series) -> pd.Series:
    """Name the two values of a target."""
    return flags.map({False: "no", True: "yes"}).rename(name)
