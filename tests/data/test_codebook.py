"""Filling schemas in: codebooks, public files, other schemas, csvw-eo, and the JSON Schema for editors."""

import dataclasses
import json

import numpy as np
import pytest
from jsonschema import ValidationError, validate

import dpconvex as dc
from dpconvex.data.codebook import declarations_from_codebook
from dpconvex.data.csvw import is_csvw
from dpconvex.data.editors import json_schema
from dpconvex.data.schema import COLUMNS, Category, Classes, Date, Ignore, Number, Range, Schema
from dpconvex.errors import InputError

NAMES = ["age", "sex", "seen", "note", "bmi", "stay", "ill"]
BOOK = {
    "Variable": ["age", "sex", "seen", "note", "bmi", "ill"],
    "Label": ["Age at the visit", "Sex", "Day of the visit", "Free text", "Body mass index", "Ill"],
    "Type": ["integer", "", "date", "ignore", "", ""],
    "Range": ["18-100", "", "01/01/2020..31/12/2024", "", "[5; 80]", ""],
    "Values": ["", "1 = male | 2 = female | 9 = other", "", "", "", "no|yes"],
    "Missing": ["flag", "category", "", "", "", ""],
    "Missing codes": ["999|-1", "?", "", "", "", ""],
    "Typical": ["", "", "", "", "17-40", ""],
}


def test_a_codebook_fills_in_what_it_knows():
    book = {**BOOK, "Range": ["18-100", "", "2020-01-01 to 2024-12-31", "", "[5; 80]", ""]}
    book["Format"] = ["", "", "%d/%m/%Y", "", "", ""]
    draft = Schema.draft(NAMES, target="ill", codebook=book)
    assert draft["columns"]["stay"] == {"type": None}
    draft["columns"]["stay"] = {"type": "ignore"}
    assert Schema.from_dict({**draft, "rows_per_person": 2}) == Schema(
        {
            "age": Number(18, 100, missing="flag", markers=("999", "-1")),
            "sex": Category(["1", "2", "9"], missing="category", markers=["?"]),
            "seen": Date("2020-01-01", "2024-12-31", format="%d/%m/%Y"),
            "note": Ignore(),
            "bmi": Number(5, 80, typical=(17, 40)),
            "stay": Ignore(),
        },
        Classes("ill", ["no", "yes"]),
        2,
    )
    with pytest.raises(InputError, match="first must be an ISO date"):
        Schema.from_dict({**Schema.draft(["seen"], codebook=BOOK), "rows_per_person": 1})


def test_truth_values_need_no_list():
    found = declarations_from_codebook({"name": ["a", "b"], "type": ["bool", "boolean"], "values": ["", "0|1"]})
    assert [column["categories"] for column in found.values()] == [["False", "True"], ["0", "1"]]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0-1", 0, 1),
        ("-5 - -1", -5, -1),
        ("-5 to 10.5", -5, 10.5),
        ("[0, 20]", 0, 20),
        ("1e-3..2", 0.001, 2),
        ("3–4", 3, 4),
    ],
)
def test_ranges_are_written_in_many_ways(text, low, high):
    found = declarations_from_codebook({"name": ["x"], "range": [text]})["x"]
    assert found == {"type": "number", "low": low, "high": high}


@pytest.mark.parametrize(
    ("book", "words"),
    [
        ({"x": ["a"]}, "needs a column `name`"),
        ({"name": ["a", "a"]}, "names column 'a' twice"),
        ({"name": ["a", None]}, "no column in row 2"),
        ({"name": ["a"], "type": ["weird"]}, "no type 'weird'"),
        ({"name": ["a"], "range": ["much"]}, "range must be like"),
        ({"name": ["a"], "type": ["number"], "low": ["x"], "high": ["2"]}, "low must be a number"),
    ],
)
def test_a_codebook_that_makes_no_sense_is_refused(book, words):
    with pytest.raises(InputError, match=words):
        declarations_from_codebook(book)


def test_sources_are_asked_in_order_and_fill_only_what_is_open():
    like = Schema({"age": Number(0, 120), "sex": Category(["F", "M"])}, Range("stay", 0, 60))
    public = {"age": ["3", "99"], "sex": ["F", "X"], "bmi": ["17", "30"], "ill": ["yes", "no"], "stay": ["1", "2"]}
    book = {"name": ["age"], "type": ["number"], "low": ["10"]}
    draft = Schema.draft(NAMES, target="ill", codebook=book, like=like, public=public)
    assert draft["columns"]["age"] == {"type": "number", "low": 10, "high": 120}
    assert draft["columns"]["sex"]["categories"] == ["F", "M"]
    assert draft["columns"]["bmi"] == {"type": "number", "low": 17, "high": 30}
    assert draft["columns"]["stay"] == {"type": "number", "low": 0, "high": 60}
    assert draft["columns"]["note"] == {"type": None}
    assert draft["target"] == {"name": "ill", "classes": ["no", "yes"]}
    assert Schema.draft(["stay", "age"], target="stay", like=like)["target"] == {"name": "stay", "low": 0, "high": 60}


def test_what_a_type_says_gives_way_to_a_codebook():
    frame = {"code": np.arange(3), "amount": np.linspace(0, 1, 3)}
    draft = Schema.draft(frame, codebook={"name": ["code"], "values": ["0|1|2"]})
    assert draft["columns"] == {
        "code": {"type": "category", "categories": ["0", "1", "2"]},
        "amount": {"type": "number", "low": None, "high": None},
    }


def test_public_files_show_what_is_in_them():
    table = {
        "one": ["5", "5"],
        "text": [str(k) + "x" for k in range(2)],
        "many": np.array([f"p{k}" for k in range(2)], dtype=object),
        "day": np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
        "truth": np.array([True, False]),
        "empty": [None, ""],
    }
    found = Schema.draft(list(table), public=table)["columns"]
    assert found["one"] == {"type": "number", "low": None, "high": None}
    assert found["text"] == {"type": "category", "categories": ["0x", "1x"]}
    assert found["day"] == {"type": "date", "first": None, "last": None}
    assert found["truth"] == {"type": "category", "categories": ["False", "True"]}
    assert found["empty"] == {"type": None}
    ids = Schema.draft(["id"], public={"id": [f"p{k}" for k in range(2000)]})["columns"]["id"]
    assert ids == {"type": "category", "categories": None}


# Markers and dates ----------------------------------------------------------------------------------------------------


def test_markers_stand_for_missing_values():
    schema = Schema(
        {
            "age": Number(0, 100, missing="flag", markers=[999, "?"]),
            "sex": Category(["F", "M"], missing="category", markers=["unknown"]),
            "day": Date("2024-01-01", "2024-12-31", markers=["0000-00-00"]),
        }
    )
    marked = {"age": [50, 999, "?"], "sex": ["F", " unknown ", "M"], "day": ["2024-06-01", "0000-00-00", "2024-07-01"]}
    empty = {"age": [50, None, ""], "sex": ["F", "", "M"], "day": ["2024-06-01", None, "2024-07-01"]}
    encoder = dc.PrivatePreprocessor(schema)
    assert np.array_equal(encoder.fit_transform(marked), encoder.fit_transform(empty))
    numbers = {**marked, "age": np.array([50.0, 999.0, 999.0])}
    assert np.array_equal(encoder.fit_transform(numbers), encoder.fit_transform(empty))
    assert Schema.from_json(schema.to_json()) == schema
    for wrong in ({"markers": "999"}, {"markers": [""]}, {"markers": [1, 1.0]}):
        with pytest.raises(InputError, match="markers"):
            Number(0, 1, **wrong)
    with pytest.raises(InputError, match="both a category and a marker"):
        Category(["a", "?"], markers=["?"])


def test_dates_are_read_in_their_format():
    column = Date("2024-01-01", "2024-12-31", format="%d.%m.%Y")
    cells = np.array(["31.12.2024", " 01.01.2024", None, np.datetime64("2024-01-02")], dtype=object)
    plain = Date("2024-01-01", "2024-12-31").read(
        "day", np.array(["2024-12-31", "2024-01-01", None, "2024-01-02"], dtype=object)
    )
    assert np.array_equal(column.read("day", cells), plain, equal_nan=True)
    for wrong in ("%d.%m", "day", 3, "%Q%"):
        with pytest.raises(InputError, match="format must say"):
            Date("2024-01-01", "2024-12-31", format=wrong)


def test_the_source_of_a_schema_is_kept_and_changes_its_digest_only_if_there_is_one():
    bare = Schema({"age": Number(0, 1)})
    sourced = dataclasses.replace(bare, source="census of 2020")
    assert "source" not in bare.to_dict()
    assert Schema.from_json(sourced.to_json()).source == "census of 2020"
    with pytest.raises(InputError, match="source"):
        dataclasses.replace(bare, source="two\nlines")


# csvw-eo --------------------------------------------------------------------------------------------------------------

FULL = Schema(
    {
        "age": Number(18, 100, log=True, markers=["999"]),
        "sex": Category(["F", "M"], missing="category"),
        "seen": Date("2020-01-01", "2024-12-31", format="%d/%m/%Y"),
        "note": Ignore("free text"),
    },
    Classes("ill", ["no", "yes"]),
    3,
    "visits",
    "the codebook of the registry",
)


def test_schemas_survive_csvw():
    for schema in (
        FULL,
        dataclasses.replace(FULL, target=Range("stay", 0, 60)),
        dataclasses.replace(FULL, target=None),
    ):
        found = json.loads(json.dumps(schema.to_csvw()))
        assert is_csvw(found)
        assert Schema.from_dict(Schema.draft_from_csvw(found)) == schema
    columns = {c["name"]: c for c in FULL.to_csvw()["tableSchema"]["columns"]}
    assert (columns["age"]["minimum"], columns["age"]["maximum"], columns["age"]["datatype"]) == (18, 100, "double")
    assert columns["sex"]["keyValues"] == ["F", "M"]
    assert columns["ill"]["required"] is True
    assert FULL.to_csvw()["maxContributions"] == 3


def test_csvw_of_others_becomes_a_draft():
    metadata = {
        "@context": ["http://www.w3.org/ns/csvw"],
        "@type": "Table",
        "privacyUnit": "person",
        "maxContributions": 2,
        "tableSchema": {
            "columns": [
                {"name": "person", "datatype": "string", "privacyId": True},
                {"name": "age", "datatype": "positiveInteger", "minimum": 18, "maximum": 100, "required": True},
                {"name": "mass", "datatype": {"base": "decimal", "minimum": 1, "maximum": 9}},
                {"name": "ward", "datatype": "string", "keyValues": ["A", "B"], "exhaustiveKeys": True},
                {
                    "name": "grade",
                    "datatype": "integer",
                    "partitions": [{"predicate": {"partitionValue": k}} for k in (1, 2)],
                },
                {"name": "seen", "datatype": "dateTime", "minimum": "2020-01-01T00:00:00", "maximum": "2021-01-01"},
                {"name": "smoker", "datatype": "boolean"},
                {"name": "note", "datatype": "string"},
                {"name": "long", "datatype": "duration"},
            ]
        },
    }
    found = Schema.draft_from_csvw(metadata)
    assert found["rows_per_person"] == 2
    assert found["columns"]["person"]["type"] == "ignore"
    assert found["columns"]["age"] == {"type": "number", "low": 18, "high": 100}
    assert found["columns"]["mass"] == {"type": "number", "low": 1, "high": 9}
    assert found["columns"]["grade"] == {"type": "category", "categories": [1, 2]}
    assert found["columns"]["seen"]["type"] == "date"
    assert found["columns"]["smoker"]["categories"] == ["False", "True"]
    assert found["columns"]["note"]["categories"] is None
    assert found["columns"]["long"] == {"type": None}
    for wrong in (
        {},
        {"tableSchema": {}},
        {"tableSchema": {"columns": [{}]}},
        {"tableSchema": {"columns": [{"name": "a"}] * 2}},
    ):
        with pytest.raises(InputError, match="csvw-eo"):
            Schema.draft_from_csvw(wrong)


# For editors ----------------------------------------------------------------------------------------------------------


def test_the_json_schema_knows_every_field_and_no_other():
    found = json_schema()
    json.dumps(found)
    for name, kind in COLUMNS.items():
        assert set(found["$defs"][name]["properties"]) == {"type", *(f.name for f in dataclasses.fields(kind))}
    assert set(FULL.to_dict()) <= set(found["properties"])
    for plain in (FULL.to_dict(), Schema.draft(NAMES, target="ill"), {**FULL.to_dict(), "$schema": "x"}):
        validate(plain, found)
    with pytest.raises(ValidationError, match="heigh"):
        validate({**FULL.to_dict(), "columns": {"age": {"type": "number", "low": 0, "heigh": 1}}}, found)


def test_schemas_may_name_their_json_schema():
    assert Schema.from_dict({**FULL.to_dict(), "$schema": "./schema.json"}) == FULL
