"""Tables in files: every form that is read, and what is refused."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest

import dpconvex as dc
from dpconvex.data.files import read_header, read_names, read_table
from dpconvex.errors import InputError

TEXT = "age,sex\n40,F\n,M\n"
CELLS = {"age": ["40", ""], "sex": ["F", "M"]}


def test_gzip_is_known_by_its_first_bytes(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_table(path) == CELLS
    assert list(read_header(path)) == ["age", "sex"]
    whole = path.read_bytes()
    for damaged in (whole[:-6], whole[:12] + b"\x00" * 8 + whole[20:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="cut off or damaged"):
            read_table(path)


@pytest.mark.parametrize("form", ["plain", "gzip", "parquet"])
def test_standard_input_takes_every_form(form, tmp_path, monkeypatch):
    body = TEXT.encode()
    if form == "gzip":
        body = gzip.compress(body)
    if form == "parquet":
        pd.DataFrame(CELLS).to_parquet(tmp_path / "data.parquet")
        body = (tmp_path / "data.parquet").read_bytes()
    for read in (lambda: {k: list(v) for k, v in read_table("-").items()}, lambda: dict.fromkeys(read_header("-"))):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
        assert read() in (CELLS, {"age": None, "sex": None})


def test_a_file_without_a_header_is_read_with_names(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("40;F\n;M\n")
    assert read_table(path, separator="semicolon", names=["age", "sex"]) == CELLS
    for names, words in (
        (["age"], "row 1 has 2 cells, and there are 1 names"),
        (["a", "a"], "same name"),
        ([], "header"),
    ):
        with pytest.raises(InputError, match=words):
            read_table(path, separator=";", names=names)
    with pytest.raises(InputError, match="none of the names"):
        read_table(path, separator=";", names=["x", "y"], declared=["age"])
    (tmp_path / "names.txt").write_text("age\n\nsex\n")
    assert read_names(f"@{tmp_path}/names.txt") == read_names("age, sex") == ("age", "sex")
    for wrong in ("", "a,a", f"@{tmp_path}/nothing"):
        with pytest.raises(InputError):
            read_names(wrong)


def test_parquet_brings_its_types_and_holes(tmp_path):
    path, n = tmp_path / "data.parquet", 5
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3, 4, 5], dtype="Int64"),
            "part": np.linspace(0.0, 1.0, n),
            "text": ["a", None, "b", "a", "b"],
            "kind": pd.Categorical(["x", "y", None, "x", "y"]),
            "day": pd.to_datetime(["2024-01-01", None, "2024-02-01", "2024-02-02", "2024-02-03"]),
            "zoned": pd.to_datetime(["2024-01-01T23:00:00Z", *["2024-01-05T01:00:00Z"] * (n - 1)]),
            "yes": [True, False, True, True, False],
        }
    )
    frame.to_parquet(path)
    drafted = dc.Schema.draft(read_header(path))["columns"]
    assert [drafted[name]["type"] for name in frame] == [
        "number",
        "number",
        "category",
        "category",
        "date",
        "date",
        "category",
    ]
    known = dc.Schema.draft(read_header(path), public=read_table(path))
    schema = dc.Schema.from_dict({**known, "rows_per_person": 1})
    n_read, cells = schema.read(read_table(path))
    assert n_read == n
    assert np.isnan(cells["whole"]).tolist() == np.isnan(cells["day"]).tolist() == [False, True, False, False, False]
    assert cells["kind"].tolist() == [0, 1, -1, 0, 1]
    assert cells["yes"].tolist() == [1, 0, 1, 1, 0]
    frame.assign(lists=[[1]] * n).to_parquet(path)
    with pytest.raises(InputError, match="'lists' holds lists"):
        read_table(path)
    frame.iloc[:0].to_parquet(path)
    with pytest.raises(InputError, match="no rows"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:40])
    for read in (read_table, read_header):
        with pytest.raises(InputError, match="cut off or damaged"):
            read(path)


def test_a_file_that_is_not_there_is_an_error_of_input(tmp_path):
    for wrong in (tmp_path / "nothing.csv", tmp_path, "a\x00b"):
        with pytest.raises(InputError, match="cannot be read"):
            read_table(wrong)
