"""Parts: what they are made of, and how those that are not as declared are refused."""

import threading
from itertools import pairwise

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.data.ahead import Ahead
from dpconvex.data.opened import OpenedPart, chunk_rows
from dpconvex.data.parts import MOST_PARTS, Part, Parts
from dpconvex.data.sources import Held, Made
from dpconvex.errors import InputError, PartsError, UnavailableError

PROBLEM = dc.Problem(dc.losses.Logistic())
CUTS = (0, 700, 1500, 3000)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(3000, 4)) / 2
    return X, np.where(X[:, 0] + rng.normal(size=3000) > 0, 1.0, -1.0)


@pytest.fixture
def frame(table):
    X, y = table
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": X[:, 3], "y": y})


def spans():
    return pairwise(CUTS)


def read(parts, d=4):
    """All rows and labels of parts, opened."""
    chunks = [c for part in parts.parts for c in OpenedPart(part, parts.opener, PROBLEM, d).chunks(0)]
    X = [
        rows.X if hasattr(rows, "X") else sparse.csr_array(rows[:3], shape=(len(y), d)).toarray() for rows, y in chunks
    ]
    return np.concatenate(X), np.concatenate([y for _, y in chunks])


def of_parquet(folder, frame):
    for i, (a, b) in enumerate(spans()):
        frame[a:b].to_parquet(folder / f"{i}.parquet", index=False, row_group_size=400)
    return Parts.parquet(folder, target="y")


def of_csv(folder, frame):
    for i, (a, b) in enumerate(spans()):
        frame[a:b].to_csv(folder / f"{i}.csv", index=False)
    return Parts.of(str(folder / "*.csv"), target="y")


def of_npy(folder, frame):
    np.save(folder / "X.npy", frame.iloc[:, :4].to_numpy())
    np.save(folder / "y.npy", frame["y"].to_numpy())
    return Parts.arrays(folder / "X.npy", folder / "y.npy", rows=1100)


def of_mapped_csr(folder, frame):
    X = sparse.csr_array(frame.iloc[:, :4].to_numpy())
    for name in ("data", "indices", "indptr"):
        np.save(folder / f"{name}.npy", getattr(X, name))
    np.save(folder / "y.npy", frame["y"].to_numpy())
    return Parts.csr(folder, d=4, rows=1100)


def of_npz(folder, frame):
    for i, (a, b) in enumerate(spans()):
        X = sparse.csr_array(frame.iloc[a:b, :4].to_numpy())
        entries = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez(folder / f"{i}.npz", y=frame["y"][a:b].to_numpy(), **entries)
    return Parts.of(folder)


def of_arrow_streams(folder, frame):
    whole = polars.from_pandas(frame)
    return Parts.of([lambda a=a, b=b: whole[a:b] for a, b in spans()], rows=[b - a for a, b in spans()], target="y")


def of_frames(folder, frame):
    kinds = frame[:700], polars.from_pandas(frame[700:1500]), pyarrow.Table.from_pandas(frame[1500:])
    return Parts.of(list(kinds), target="y")


def of_generators(folder, frame):
    def batches():
        for a in range(0, 3000, 37):
            part = frame[a : a + 37]
            yield part.iloc[:, :4].to_numpy(), part["y"].to_numpy()

    return Parts.of(batches, rows=3000)


def of_one_iterator(folder, frame):
    return Parts.of(of_generators(folder, frame).parts[0].source.make(), rows=3000)


def of_dask_arrays(folder, frame):
    from dask import array

    X = array.from_array(frame.iloc[:, :4].to_numpy(), chunks=(1000, 4))
    return Parts.of((X, array.from_array(frame["y"].to_numpy(), chunks=1000)))


MAKERS = [
    of_parquet, of_csv, of_npy, of_mapped_csr, of_npz, of_arrow_streams, of_frames, of_generators, of_one_iterator,
    of_dask_arrays,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_parts_hold_the_rows_they_are_made_of(make, tmp_path, frame, table):
    parts = make(tmp_path, frame)
    assert parts.shape == (3000, 4)
    X, y = read(parts)
    assert np.array_equal(X, table[0])
    assert np.array_equal(y, table[1])


def test_chunks_begin_at_public_places_however_rows_arrive(table):
    X, y = np.tile(table[0], (50, 1)), np.tile(table[1], 50)
    size, n = chunk_rows(4), len(y)
    assert size == 32768

    def batches(step):
        return lambda: ((X[a : a + step], y[a : a + step]) for a in range(0, n, step))

    for source in (Held((X, y)), Made(batches(999)), Made(batches(size)), Made(batches(n))):
        opened = OpenedPart(Part(n, source, "part"), Parts.of((X, y)).opener, PROBLEM, 4)
        for start in (0, 1, 2):
            chunks = list(opened.chunks(start))
            assert [len(labels) for _, labels in chunks] == [*[size] * 4, n - 4 * size][start:]
            assert np.array_equal(np.concatenate([rows.X for rows, _ in chunks]), X[start * size :])


# Refusals --------------------------------------------------------------------------------------------------------


def test_an_empty_part_or_none_at_all_is_refused(tmp_path, frame, table):
    frame[:0].to_csv(tmp_path / "empty.csv", index=False)
    frame[:0].to_parquet(tmp_path / "empty.parquet")
    for bad in (tmp_path / "empty.csv", tmp_path / "empty.parquet", (table[0][:0], table[1][:0]), []):
        with pytest.raises(InputError, match=r"no rows|at least|header|no file"):
            Parts.of(bad)


def test_a_missing_file_and_one_of_another_kind_are_refused(tmp_path, frame):
    with pytest.raises(InputError, match="no file"):
        Parts.of(tmp_path / "*.parquet")
    with pytest.raises(InputError, match=r"there is no file .*x\.parquet"):
        Parts.of(tmp_path / "x.parquet")
    (tmp_path / "x.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="not a Parquet file"):
        Parts.of(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "y.csv", index=False)
    with pytest.raises(InputError, match="different kinds"):
        Parts.of(tmp_path)


def test_a_different_schema_in_one_file_is_refused(tmp_path, frame):
    for kind, write in (("parquet", "to_parquet"), ("csv", "to_csv")):
        folder = tmp_path / kind
        folder.mkdir()
        getattr(frame[:100], write)(folder / f"1.{kind}", index=False)
        getattr(frame[100:].rename(columns={"b": "x"}), write)(folder / f"2.{kind}", index=False)
        with pytest.raises(InputError, match=rf"2\.{kind} has (other columns|another header)"):
            Parts.of(folder)
    narrow = frame[100:].astype({"b": np.float32})
    narrow.to_parquet(tmp_path / "parquet" / "2.parquet", index=False)
    with pytest.raises(InputError, match="of other types"):
        Parts.of(tmp_path / "parquet")


def test_rows_of_streams_have_to_be_stated_and_lists_to_agree(table):
    with pytest.raises(InputError, match="state `rows`"):
        Parts.of(lambda: [table])
    with pytest.raises(InputError, match="2 numbers"):
        Parts.of([table, table], rows=[3000])
    with pytest.raises(InputError, match="same number of rows"):
        Parts.arrays(table[0], table[1][:5])
    with pytest.raises(InputError, match="more than"):
        Parts([Part(1, Held(table), "x")] * (MOST_PARTS + 1))
    with pytest.raises(InputError, match="cannot make parts of int"):
        Parts.of(3)


def test_more_or_fewer_rows_than_declared_are_an_error_that_names_the_part(table):
    for declared, words in ((2999, "more rows than the 2999"), (3001, "fewer rows than the 3001")):
        parts = Parts.of([lambda: [table]], rows=[declared])
        with pytest.raises(PartsError, match=f"the stream: holds {words}"):
            read(parts)


def test_errors_hold_no_value(tmp_path, table):
    X, y = table
    secret = 123456.789

    def fails():
        yield X[:100], y[:100]
        raise ValueError(f"bad cell {secret}")

    def cut_short():
        yield X[:100], np.where(np.arange(100) == 7, secret, y[:100])

    for source in (fails, cut_short):
        with pytest.raises(PartsError) as caught:
            read(Parts.of(source, rows=100))
        assert str(secret) not in str(caught.value)
        assert "the stream" in str(caught.value)


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch, tmp_path, frame):
    frame.to_parquet(tmp_path / "x.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(UnavailableError, match=r"dpconvex\[files\]"):
        Parts.of(tmp_path / "x.parquet")


# Reading ahead ---------------------------------------------------------------------------------------------------


def test_reading_ahead_passes_errors_on_and_leaves_no_thread():
    before = threading.active_count()
    closed = []

    def items():
        try:
            yield 1
            yield 2
            raise KeyError("three")
        finally:
            closed.append(True)

    found = []
    with pytest.raises(KeyError), Ahead(items()) as ahead:
        found.extend(ahead)
    with Ahead(items()) as ahead:
        assert next(ahead) == 1
    assert closed == [True, True]
    assert threading.active_count() == before
