"""Where the rows of a part come from: a source loads itself, batch by batch, in this process or in a worker.

A batch is a table (Arrow, a frame, a dict of columns) or a tuple (X, y) or (X, y, sample_weight). A source can be
pickled wherever its rows do not lie in the memory of this process, and reads the same rows every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from dpconvex.errors import UnavailableError

_BUFFER = 1 << 16  # bytes read of a column at a time
_BLOCK = 1 << 20  # bytes read of a text file at a time


class Source(Protocol):
    """Rows that load themselves."""

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield batches of about `size` rows, from row `start` on."""


def need(module: str, extra: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UnavailableError(f"{package} is not installed: pip install 'dpconvex[{extra}]'") from None


def skipped(batches: Iterator[Any], start: int) -> Iterator[Any]:
    """Leave out the first rows of a sequence of batches.

    Examples
    --------
    >>> [len(y) for X, y in skipped(iter([(np.eye(3), np.ones(3)), (np.eye(2), np.ones(2))]), 2)]
    [1, 2]
    """
    for batch in batches:
        count = count_rows(batch)
        if start < count:
            yield cut(batch, start, count) if start else batch
        start = max(0, start - count)


def count_rows(batch: Any) -> int:
    """Number of rows of a batch.

    Examples
    --------
    >>> count_rows((np.eye(3), np.ones(3))), count_rows({"age": [40, 50]})
    (3, 2)
    """
    if isinstance(batch, tuple):
        return int(np.shape(batch[1])[0])
    if isinstance(batch, dict):
        return len(next(iter(batch.values()), ()))
    return int(getattr(batch, "num_rows", None) or len(batch))


def cut(batch: Any, start: int, stop: int) -> Any:
    """Some consecutive rows of a batch."""
    if isinstance(batch, tuple):
        return tuple(None if column is None else column[start:stop] for column in batch)
    if isinstance(batch, dict):
        return {name: column[start:stop] for name, column in batch.items()}
    return batch.slice(start, stop - start) if hasattr(batch, "slice") else batch[start:stop]


def tables(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches of Arrow as tables, which frames are read from."""
    arrow = need("pyarrow", "files")
    for batch in batches:
        yield arrow.Table.from_batches([batch])


@dataclass(frozen=True, eq=False)
class Held:
    """A batch in the memory of this process, such as arrays or a frame."""

    batch: Any

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the rows, without copying them."""
        yield cut(self.batch, start, count_rows(self.batch)) if start else self.batch


@dataclass(frozen=True)
class Mapped:
    """Rows first, ..., last - 1 of arrays in `.npy` files, which are mapped into memory rather than read."""

    paths: tuple[Path, ...]  # of X, y and perhaps of weights
    first: int
    last: int

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the rows, without reading them."""
        yield tuple(np.load(path, mmap_mode="r")[self.first + start : self.last] for path in self.paths)


@dataclass(frozen=True)
class MappedCSR:
    """Rows first, ..., last - 1 of a CSR matrix in `data.npy`, `indices.npy` and `indptr.npy`, with labels `y.npy`."""

    folder: Path
    d: int
    first: int
    last: int

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the rows, so many at a time."""
        data, indices, indptr, y = (
            np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr", "y")
        )
        for a in range(self.first + start, self.last, size):
            b = min(a + size, self.last)
            ends = np.asarray(indptr[a : b + 1])
            inside = slice(ends[0], ends[-1])
            parts = np.asarray(data[inside]), np.asarray(indices[inside]), ends - ends[0]
            yield sparse.csr_array(parts, shape=(b - a, self.d)), np.asarray(y[a:b])


@dataclass(frozen=True)
class Parquet:
    """Row groups of a Parquet file.

    Little is read ahead, and by one thread: the defaults of pyarrow hold whole row groups, three times the memory at
    the same speed.
    """

    path: Path
    groups: tuple[int, ...]

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield record batches of so many rows."""
        parquet = need("pyarrow.parquet", "files")
        with parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False, memory_map=False) as file:
            yield from skipped(tables(file.iter_batches(size, row_groups=list(self.groups), use_threads=False)), start)
        need("pyarrow", "files").default_memory_pool().release_unused()


@dataclass(frozen=True)
class CSV:
    """A CSV file, its cells as text, an empty one missing: what they mean is for a schema to say."""

    path: Path
    separator: str = ","
    names: tuple[str, ...] = ()

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield record batches as they are read."""
        yield from skipped(tables(self._read(self.names)), start)

    def count(self) -> int:
        """Number of rows, of which one column is looked at."""
        return sum(batch.num_rows for batch in self._read(self.names[:1]))

    def _read(self, names: tuple[str, ...]) -> Iterator[Any]:
        csv, arrow = need("pyarrow.csv", "files"), need("pyarrow", "files")
        types = dict.fromkeys(self.names, arrow.string())
        with csv.open_csv(
            self.path,
            csv.ReadOptions(block_size=_BLOCK, use_threads=False),  # threads read many blocks ahead
            csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            csv.ConvertOptions(column_types=types, include_columns=names, strings_can_be_null=True, null_values=[""]),
        ) as reader:
            yield from reader
        arrow.default_memory_pool().release_unused()


@dataclass(frozen=True, eq=False)
class Made:
    """What a function returns whenever it is called: an object with an Arrow C stream, or batches to iterate over."""

    make: Callable[[], Any]

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the batches as they come."""
        made = self.make()
        if hasattr(made, "__arrow_c_stream__"):
            arrow = need("pyarrow", "files")
            yield from skipped(tables(arrow.RecordBatchReader.from_stream(made)), start)
        else:
            yield from skipped(iter(made), start)


@dataclass(frozen=True, eq=False)
class Once:
    """Batches that can be iterated over once."""

    coming: Iterator[Any]

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Yield the batches that are left."""
        yield from skipped(self.coming, start)


@dataclass(frozen=True, eq=False)
class Delayed:
    """A partition of a Dask collection, or a tuple of them: computed where it is asked for."""

    parts: tuple[Any, ...]

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Compute the partition."""
        (*made,) = need("dask", "dask").compute(*self.parts, scheduler="synchronous")
        yield from skipped(iter([tuple(made) if len(made) > 1 else made[0]]), start)


@dataclass(frozen=True, eq=False)
class SparkPartition:
    """A partition of a Spark DataFrame. Sums are computed where it lies (`sums.spark`); to read it brings it here."""

    frame: Any
    number: int

    def batches(self, start: int, size: int) -> Iterator[Any]:
        """Collect the partition."""
        chosen = self.frame.mapInArrow(_Only(self.number), self.frame.schema)
        yield from skipped(iter([chosen.toArrow()]), start)


@dataclass(frozen=True)
class _Only:
    """Leaves one partition of a DataFrame."""

    number: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        if need("pyspark", "spark").TaskContext.get().partitionId() == self.number:
            yield from batches


def spark_counts(frame: Any) -> dict[int, int]:
    """Rows of each partition of a Spark DataFrame that has some."""
    found = frame.mapInArrow(_count_partition, "part long, rows long").collect()
    return {row["part"]: row["rows"] for row in sorted(found, key=lambda row: row["part"]) if row["rows"]}


def _count_partition(batches: Iterator[Any]) -> Iterator[Any]:
    arrow, count = need("pyarrow", "files"), sum(batch.num_rows for batch in batches)
    number = need("pyspark", "spark").TaskContext.get().partitionId()
    yield arrow.RecordBatch.from_arrays([arrow.array([number]), arrow.array([count])], names=["part", "rows"])
