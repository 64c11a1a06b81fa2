"""Files in and out of the command."""

import json
import os

import pytest
from cli_helpers import WARDS, dpconvex, refused, shell

from dpconvex.data.files import read_header, read_table


@pytest.fixture
def write(tmp_path):
    def written(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def test_a_table_is_read_as_text(clinic):
    columns = read_table(clinic.data)
    assert list(columns) == clinic.header
    assert [list(row) for row in zip(*columns.values(), strict=True)] == clinic.rows
    assert set(columns["ward"]) == set(WARDS)
    assert list(read_header(clinic.data)) == clinic.header


@pytest.mark.parametrize(
    ("content", "separator", "columns"),
    [
        (b"\xef\xbb\xbfage,sex\r\n40,F\r\n", ",", {"age": ["40"], "sex": ["F"]}),  # as spreadsheets write it
        ("age;größe\n40;1,80\n\n50;\n", ";", {"age": ["40", "50"], "größe": ["1,80", ""]}),
        ("age\tsex\n40\t F\n", "\t", {"age": ["40"], "sex": ["F"]}),
        ('age, "sex, as told"\n40, "F, M"', ",", {"age": ["40"], "sex, as told": ["F, M"]}),
        ("x\n1\n", ",", {"x": ["1"]}),
    ],
)
def test_forms_of_csv(write, content, separator, columns):
    path = write(content)
    assert read_table(path, separator=separator) == columns
    assert list(read_header(path, separator)) == list(columns)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no header"),
        (b"\n1,2\n", "no header"),
        (b" , \n1,2\n", "no header"),
        (b"age,sex,age\n1,F,3\n", "columns 1 and 3 of the header have the same name"),
        (b"age, age\n1,2\n", "columns 1 and 2"),
        (b",age\n0,1\n", "column 1 of the header has no name"),
        (b"age,sex\n", "no rows"),
        (b"age,sex\n1,F\n2\n", "row 2 after the header has 1 cells, and the header has 2"),
        (b"age,sex\n1,F,3\n", "row 1 after the header has 3 cells"),
        (b'age,sex\n1,"F\n', "line 2: unexpected end"),
        (b'age,sex\n1,"F"x\n', "line 2"),
        (b"age,sex\n1,\xff\xfe\n", "not UTF-8"),
        (b"age,sex\n1," + b"x" * 200_000 + b"\n", "field"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(write, clinic, content, words):
    path = write(content)
    line = refused(dpconvex("schema", "check", clinic.schema, path), "data.csv", words)
    assert "xxx" not in line
    refused(dpconvex("fit", path, "--schema", clinic.schema, "--epsilon", 1, "-o", clinic.model), words)
    assert not clinic.model.exists()


def test_a_file_without_a_header_is_not_quoted(write, clinic):
    path = write("39,F,2020-02-02,surgery,secret,no\n40,M,2020-02-03,surgery,secret,yes\n")
    line = refused(dpconvex("schema", "check", clinic.schema, path), "none of the columns", "--separator")
    assert not any(cell in line for cell in ("39", "surgery", "secret"))


def test_a_draft_reads_the_header_and_not_a_byte_more(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    both_ends = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(both_ends, b"age,sex\n40,F\n")
        done = shell("schema", "draft", pipe)
        assert done.returncode == 0, done.stderr
        assert list(json.loads(done.stdout)["columns"]) == ["age", "sex"]
        assert os.read(both_ends, 100) == b"40,F\n"  # the row is still in the pipe
    finally:
        os.close(both_ends)


def test_a_draft_does_not_care_what_the_rows_are(write):
    path = write(b'age,"line\nbreak"\n\xff\xfe\x00"\n')
    assert list(json.loads(dpconvex("schema", "draft", path).stdout)["columns"]) == ["age", "line\nbreak"]


@pytest.mark.parametrize("content", [b"", b"\n", b"a,a\n", b"\xff,b\n", b"x" * (1 << 21)])
def test_a_bad_header_gives_no_draft(write, content):
    refused(dpconvex("schema", "draft", write(content)), "data.csv")


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n"])
def test_a_separator_is_one_character(clinic, separator):
    refused(dpconvex("schema", "draft", clinic.data, "--separator", separator), "separator")


def test_outputs_are_checked_before_the_data_is_opened(clinic, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)  # whoever opens it waits for ever
    taken = tmp_path / "taken.json"
    taken.write_text("mine", encoding="utf-8")
    fit = ("fit", pipe, "--schema", clinic.schema, "--epsilon", 1)
    refused(shell(*fit, "-o", taken), "taken.json exists already", "--force")
    assert taken.read_text(encoding="utf-8") == "mine"
    for bad in (tmp_path / "no" / "model.json", tmp_path):
        refused(dpconvex(*fit, "-o", bad), "folder")
        refused(dpconvex(*fit, "-o", clinic.model, "--report", bad), "folder")
    refused(dpconvex(*fit, "-o", clinic.schema, "--force"), "also an input")
    refused(dpconvex(*fit, "-o", clinic.model, "--report", clinic.model), "two files")
    refused(dpconvex(*fit, "-o", tmp_path / "a", "--report", taken), "exists already")


def test_a_disc_that_is_full_is_said_in_one_line(clinic):
    result = dpconvex("schema", "draft", clinic.data, "-o", "/dev/full", "--force")
    refused(result, "/dev/full", "No space left", code=1)


@pytest.mark.parametrize("command", ["verify", "schema draft", "schema check", "predict"])
def test_a_file_that_is_not_there(command, tmp_path):
    arguments = [tmp_path / "absent"] * (2 if command == "predict" else 1)
    refused(dpconvex(*command.split(), *arguments), "absent", "does not exist")
    refused(dpconvex(*command.split(), *[tmp_path] * len(arguments)), "is a directory")
