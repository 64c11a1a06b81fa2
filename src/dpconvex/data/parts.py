"""Parts: an ordered list of pieces of a data set with public numbers of rows, each of which loads itself.

Sums over rows need no more than that, wherever the rows lie. Each part is cut into chunks of a public number of rows,
which are opened like rows in memory (`open_rows`): what is computed from a list of parts depends on the rows and on
the list, and not on where the parts lie or who reads them.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.data.opened import CHUNK_ROWS, guarded
from dpconvex.data.openers import Columns, Whose, open_pair
from dpconvex.data.sources import (
    CSV,
    Delayed,
    Held,
    Made,
    Mapped,
    MappedCSR,
    Once,
    Parquet,
    Source,
    SparkPartition,
    count_rows,
    cut,
    need,
    spark_counts,
)
from dpconvex.errors import InputError
from dpconvex.plain import whole

__all__ = ["Part", "Parts"]

MOST_PARTS = 2**16  # for which docs/proofs/computed_sums.md bounds what rounding does
_SPLIT = 2**20  # rows of an array that become one part
_TABLES, _TEXT = (".parquet", ".pq"), (".csv", ".tsv", ".txt", ".gz")
_Opener = Callable[[Any], tuple[Any, Any, Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a data set.

    Parameters
    ----------
    rows : int
        Its number of rows: public.
    source : Source
        Loads it.
    name : str
        What messages call it.
    """

    rows: int
    source: Source
    name: str

    def __post_init__(self) -> None:
        whole(self.rows, f"the number of rows of {self.name}")


class Parts:
    """An ordered list of parts, with what turns a batch of them into rows and labels.

    `Parts.of` makes one from files, folders, arrays, frames and Dask collections; `Parts.parquet` and its siblings say
    more precisely how. Adding two lists joins them.

    Parameters
    ----------
    parts : sequence of Part
    opener : callable, optional
        From a batch to a tuple (X, y, sample_weight or None). By default a batch is a tuple (X, y) already.
    d : int, optional
        Number of features that the opener makes, where it is known.
    person : str, optional
        The column that says whose a row is, as text or numbers. A batch that is a tuple holds it in the fourth place:
        (X, y, sample_weight or None, groups).
    most : int, optional
        Most rows of a person that count; later ones are left out.

    Examples
    --------
    >>> import dpconvex as dc
    >>> X, y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    >>> parts = dc.data.Parts.of([(X[:3], y[:3]), (X[3:], y[3:])])
    >>> parts
    <Parts: 4 rows in 2 parts>
    >>> plan = dc.algorithms.MeanDirection().plan(dc.Problem(dc.losses.Logistic()), n=4, d=4, budget=dc.Budget(1, 1e-6))
    >>> plan.run(parts, dataset="four rows").weights.shape
    (4,)
    """

    def __init__(
        self,
        parts: Sequence[Part],
        opener: _Opener = open_pair,
        d: int | None = None,
        *,
        person: str | None = None,
        most: int | None = None,
    ) -> None:
        self.parts, self.opener, self._d = tuple(parts), opener, d
        self.person, self.most = person, most
        if not self.parts:
            raise InputError("there must be at least one part: no file was found")
        if len(self.parts) > MOST_PARTS:
            raise InputError(f"{len(self.parts)} parts are more than {MOST_PARTS}: join some of them")

    @property
    def n(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins, and where the last one ends."""
        return (0, *accumulate(part.rows for part in self.parts))

    @property
    def once(self) -> bool:
        """Whether the rows can be read only once."""
        return any(isinstance(part.source, Once) for part in self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        return f"<Parts: {self.n} rows in {len(self.parts)} part{'s' if len(self.parts) > 1 else ''}>"

    def __add__(self, other: Parts) -> Parts:
        return Parts((*self.parts, *other.parts), self.opener, self._d, person=self.person, most=self.most)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return self.n, self.width()

    def opened(self, opener: _Opener, d: int) -> Parts:
        """Return the same parts with another opener, which makes d features."""
        return Parts(self.parts, opener, d, person=self.person, most=self.most)

    def limited(self, most: int) -> Parts:
        """Return the same parts, of which so many rows of each person count."""
        return Parts(self.parts, self.opener, self._d, person=self.person, most=most)

    @property
    def whose(self) -> Whose | None:
        """What takes the column of people out of batches."""
        return None if self.person is None else Whose(self.person)

    def batches(self, size: int = CHUNK_ROWS) -> Iterator[Any]:
        """Yield the batches of all parts as they are read: nothing is opened or checked."""
        for part in self.parts:
            yield from part.source.batches(0, size)

    def width(self) -> int:
        """Number of features; where it is not known, from the first batch that has rows."""
        if self._d is not None:
            return self._d
        for batch in self._peek():
            X = self.opener(batch if self.person is None else Whose(self.person)(batch)[0])[0]
            shape = X.shape if sparse.issparse(X) else np.shape(X)
            if len(shape) != 2:
                raise InputError(f"X must have two dimensions (rows, features), got {len(shape)}")
            return int(shape[1])
        raise InputError("the first part holds no rows")

    def _peek(self) -> Iterator[Any]:
        first = self.parts[0]
        if not isinstance(first.source, Once):
            yield from filter(count_rows, guarded(first.source.batches(0, 1024), first.name))
            return
        held: list[Any] = []
        for batch in first.source.coming:
            held.append(batch)
            if count_rows(batch):
                break
        coming = (b for part in (iter(held), first.source.coming) for b in part)
        self.parts = (replace(first, source=Once(coming)), *self.parts[1:])
        yield from filter(count_rows, held)

    # Where parts come from -----------------------------------------------------------------------------------------

    @staticmethod
    def of(
        data: Any,
        *,
        rows: int | Sequence[int] | None = None,
        target: str | None = None,
        person: str | None = None,
    ) -> Parts:
        """Return parts from nearly anything.

        Parameters
        ----------
        data : path or glob of files, tuple (X, y) or (X, y, sample_weight), frame, collection, function, or list
            Files are Parquet, CSV, `.npz` (a sparse matrix) and folders of them; a function returns an object with
            `__arrow_c_stream__`, or an iterable of batches, every time it is called. Collections are Dask and Spark
            DataFrames; a tuple of two Dask arrays is (X, y). Anything else to be iterated over gives batches once.
        rows : int or sequence of int, optional
            Numbers of rows of each part: needed for functions and iterables. Those of text files are counted unless
            they are stated.
        target : str, optional
            The column of labels in tables of numbers. With a schema, leave it out.
        person : str, optional
            The column that says whose a row is: the rows of a person may lie in several parts. It is no feature. Where
            batches are tuples (X, y, sample_weight or None, groups), any name.
        """
        opener = Columns(target) if target is not None else open_pair
        if isinstance(data, Parts):
            return data
        if isinstance(data, list):
            counts = [None] * len(data) if rows is None else list(np.atleast_1d(rows))
            if len(counts) != len(data):
                raise InputError(f"rows must state {len(data)} numbers, one a part")
            made = [Parts.of(one, rows=count, target=target) for one, count in zip(data, counts, strict=True)]
            person = person or next((one.person for one in made), None)
            return Parts([part for one in made for part in one.parts], opener, person=person)
        person = person or ("groups" if isinstance(data, tuple) and len(data) == 4 else None)
        return Parts(_listed(data, rows), opener, person=person)

    @staticmethod
    def parquet(paths: Any, *, groups: int = 1, target: str | None = None, person: str | None = None) -> Parts:
        """Return a part for so many row groups of Parquet files: a path, a folder, a glob, or a list of them.

        The files must have the same columns of the same types. `target` and `person` are as in `of`.
        """
        found = [part for path in find_files(paths, _TABLES) for part in _of_parquet(path, groups)]
        _agree(paths, _TABLES)
        return Parts(found, Columns(target) if target is not None else open_pair, person=person)

    @staticmethod
    def csv(
        paths: Any,
        *,
        separator: str = ",",
        rows: Sequence[int] | None = None,
        target: str | None = None,
        person: str | None = None,
    ) -> Parts:
        """Return a part for each CSV file, their cells as text. Rows are counted in a first pass unless stated.

        `target` and `person` are as in `of`.
        """
        files = find_files(paths, _TEXT)
        counts = [None] * len(files) if rows is None else list(rows)
        if len(counts) != len(files):
            raise InputError(f"rows must state {len(files)} numbers, one for each file")
        names = [_header(path, separator) for path in files]
        for path, header in zip(files, names, strict=True):
            if header != names[0]:
                raise InputError(f"{path.name} has another header than {files[0].name}")
        sources = [CSV(path, separator, names[0]) for path in files]
        found = [
            Part(_counted(source, path.name) if count is None else int(count), source, path.name)
            for path, source, count in zip(files, sources, counts, strict=True)
        ]
        return Parts(found, Columns(target) if target is not None else open_pair, person=person)

    @staticmethod
    def arrays(X: Any, y: Any, *, sample_weight: Any = None, groups: Any = None, rows: int = _SPLIT) -> Parts:
        """Return parts of so many rows from arrays, or from paths of `.npy` files, which are mapped into memory.

        `groups` says whose each row is.
        """
        given = [column for column in (X, y, sample_weight, groups) if column is not None]
        if all(isinstance(column, str | Path) for column in given):
            paths = tuple(Path(column) for column in given)
            lengths = {len(np.load(path, mmap_mode="r")) for path in paths}
        else:
            paths, lengths = (), {len(column) if isinstance(column, list) else column.shape[0] for column in given}
        if len(lengths) != 1:
            raise InputError("X, y, sample_weight and groups must have the same number of rows")
        if groups is not None:
            given = [X, y, sample_weight, groups if paths else np.asarray(groups)]
        (n,) = lengths
        spans = [(a, min(a + rows, n)) for a in range(0, n, whole(rows, "rows"))]
        if paths:
            if groups is not None and sample_weight is None:
                raise InputError("groups of mapped arrays need sample_weight, too, as a file of ones")
            sources: list[Source] = [Mapped(paths, a, b) for a, b in spans]
        else:
            sources = [Held(cut(tuple(given), a, b)) for a, b in spans]
        found = [Part(b - a, source, f"rows {a} to {b - 1}") for (a, b), source in zip(spans, sources, strict=True)]
        return Parts(found, person=None if groups is None else "groups")

    @staticmethod
    def csr(folder: str | Path, *, d: int, rows: int = _SPLIT) -> Parts:
        """Return parts of a CSR matrix in the files `data.npy`, `indices.npy`, `indptr.npy` and `y.npy` of a folder."""
        path = Path(folder)
        n = len(np.load(path / "y.npy", mmap_mode="r"))
        spans = [(a, min(a + rows, n)) for a in range(0, n, whole(rows, "rows"))]
        return Parts([Part(b - a, MappedCSR(path, d, a, b), f"rows {a} to {b - 1}") for a, b in spans])


def _listed(data: Any, rows: Any) -> list[Part]:
    if isinstance(data, str | Path):
        files = find_files(data)
        kinds = {path.suffix in _TABLES for path in files}
        if len(kinds) > 1:
            raise InputError("the files are of different kinds: give one kind at a time")
        if files[0].suffix == ".npz":
            return [_of_npz(path) for path in files]
        if kinds == {True}:
            return list(Parts.parquet(files).parts)
        return list(Parts.csv(files, rows=None if rows is None else list(np.atleast_1d(rows))).parts)
    if isinstance(data, tuple) and all(hasattr(column, "to_delayed") for column in data):
        return _of_dask(*data)
    if isinstance(data, tuple):
        X, y, weights, groups = (*data, None, None)[:4]
        return list(Parts.arrays(X, y, sample_weight=weights, groups=groups, rows=2**52).parts)
    if hasattr(data, "to_delayed"):
        return _of_dask(data)
    if hasattr(data, "mapInArrow"):
        counts = spark_counts(data)
        return [Part(rows, SparkPartition(data, k), f"partition {k}") for k, rows in counts.items()]
    if callable(data) or isinstance(data, Iterator) or (isinstance(data, Iterable) and not hasattr(data, "__len__")):
        if rows is None:
            raise InputError("state `rows`, the number of rows: it is public, and the plan is made before any is read")
        source = Made(data) if callable(data) else Once(iter(data))
        return [Part(whole(int(rows), "rows"), source, "the stream")]
    if isinstance(data, dict) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "columns"):
        return [Part(count_rows(data), Held(data), "the table")]
    raise InputError(f"cannot make parts of {type(data).__name__}")


def find_files(paths: Any, kinds: tuple[str, ...] = (*_TABLES, *_TEXT, ".npz")) -> list[Path]:
    """Files named by a path, a folder, a glob or a list of them, each folder and glob in the order of names."""
    if isinstance(paths, list | tuple):
        return [path for one in paths for path in find_files(one, kinds)]
    path = Path(paths)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix in kinds and not p.name.startswith(("_", ".")))
    elif glob.has_magic(str(paths)) and not path.exists():
        found = sorted(map(Path, glob.glob(str(paths), recursive=True)))
    else:
        found = [path]
    if not found:
        raise InputError(f"{path} names no file")
    if missing := [p for p in found if not p.exists() or p.is_dir()]:
        raise InputError(f"there is no file {missing[0]}")
    return found


def _of_parquet(path: Path, groups: int) -> list[Part]:
    parquet = need("pyarrow.parquet", "files")
    whole(groups, "groups")
    try:
        with parquet.ParquetFile(path) as file:
            counts = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    except (OSError, ValueError):
        raise InputError(f"{path.name} is not a Parquet file") from None
    parts = []
    for first in range(0, len(counts), groups):
        chosen = tuple(range(first, min(first + groups, len(counts))))
        if rows := sum(counts[g] for g in chosen):
            parts.append(Part(rows, Parquet(path, chosen), f"{path.name}, row group {first}"))
    if not parts:
        raise InputError(f"{path.name} holds no rows: leave it out")
    return parts


def _agree(paths: Any, kinds: tuple[str, ...]) -> None:
    """Refuse Parquet files with other columns than the first."""
    parquet = need("pyarrow.parquet", "files")
    first, *others = find_files(paths, kinds)
    expected = parquet.read_schema(first)
    for path in others:
        if not parquet.read_schema(path).equals(expected):
            raise InputError(f"{path.name} has other columns, or columns of other types, than {first.name}")


def _header(path: Path, separator: str) -> tuple[str, ...]:
    csv = need("pyarrow.csv", "files")
    try:
        with csv.open_csv(
            path, csv.ReadOptions(block_size=1 << 16), csv.ParseOptions(delimiter=separator, newlines_in_values=True)
        ) as reader:
            return tuple(reader.schema.names)
    except (OSError, ValueError):
        raise InputError(f"{path.name} is not a CSV file with a header, or holds no rows") from None


def _counted(source: CSV, name: str) -> int:
    (count,) = guarded((source.count() for _ in range(1)), name)
    if not count:
        raise InputError(f"{name} holds a header and no rows")
    return int(count)


def _of_npz(path: Path) -> Part:
    """A file with `data`, `indices`, `indptr`, `shape` (as `scipy.sparse.save_npz` writes it) and `y`."""
    try:
        with np.load(path) as stored:
            return Part(int(stored["shape"][0]), Made(_Npz(path)), path.name)
    except (OSError, ValueError, KeyError):
        raise InputError(f"{path.name} does not hold a CSR matrix and y: data, indices, indptr, shape, y") from None


@dataclass(frozen=True)
class _Npz:
    path: Path

    def __call__(self) -> list[tuple[Any, Any]]:
        with np.load(self.path) as stored:
            entries = stored["data"], stored["indices"], stored["indptr"]
            return [(sparse.csr_array(entries, shape=tuple(stored["shape"])), stored["y"])]


def _of_dask(*columns: Any) -> list[Part]:
    """A part for each partition, or each block of rows; their numbers of rows are counted where they are not known."""
    delayed = need("dask", "dask").delayed
    blocks = [list(np.ravel(column.to_delayed())) for column in columns]
    if len({len(block) for block in blocks}) != 1:
        raise InputError("X and y must be cut into the same blocks of rows")
    if hasattr(columns[0], "chunks") and not np.isnan(columns[0].chunks[0]).any():
        counts = columns[0].chunks[0]
    else:
        counts = need("dask", "dask").compute(*(delayed(len)(block) for block in blocks[0]))
    together = enumerate(zip(counts, *blocks, strict=True))
    return [Part(int(count), Delayed(tuple(block)), f"partition {i}") for i, (count, *block) in together]
