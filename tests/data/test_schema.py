import copy
import datetime
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpconvex.data import frames
from dpconvex.data.schema import Category, Classes, Date, Ignore, Number, Range, Schema
from dpconvex.errors import InputError

SCHEMA = Schema(
    {
        "age": Number(18, 100),
        "creatinine": Number(0.1, 20, typical=(0.5, 2.5), missing="flag"),
        "cost": Number(0, 1e6, log=True),
        "sex": Category(["F", "M"], missing="zeros", unknown="zeros"),
        "ward": Category([1, 2, 3], missing="category"),
        "admitted": Date("2015-01-01", "2024-12-31"),
        "id": Ignore("identifies the person"),
    },
    target=Classes("outcome", ["no", "yes"]),
    rows_per_person=3,
    name="clinic of the schema tests",
)
TABLE = {
    "age": [40.0, 75.0],
    "creatinine": [1.0, None],
    "cost": [120.0, 5e9],
    "sex": ["F", "M"],
    "ward": [1, 3],
    "admitted": ["2016-02-29", "2020-01-01"],
    "id": ["a", "b"],
}


# Declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Number(5, 5), "less"),
        (lambda: Number(5, 1), "less"),
        (lambda: Number(0, float("inf")), "finite"),
        (lambda: Number(float("nan"), 1), "finite"),
        (lambda: Number("0", 1), "finite numbers"),
        (lambda: Number(True, 3), "finite numbers"),
        (lambda: Number(-1.7e308, 1.7e308), "distance"),
        (lambda: Number(0, 1, log="yes"), "log"),
        (lambda: Number(0, 1, missing="mean"), "'middle', 'flag'$"),
        (lambda: Number(0, 10, typical=(5, 20)), "within the range"),
        (lambda: Number(0, 10, typical=(5, 5)), "less"),
        (lambda: Number(0, 10, typical=5), "pair"),
        (lambda: Number(0, 10, typical=(1, 2, 3)), "pair"),
        (lambda: Number(1e300, 1.000000000000001e300, log=True), "narrow"),
        (lambda: Category([]), "at least 1"),
        (lambda: Category("FM"), "list"),
        (lambda: Category([1, "1.0", 1.0]), "different"),
        (lambda: Category(["a", " a "]), "different"),
        (lambda: Category(["a", ""]), "empty or missing"),
        (lambda: Category(["a", None]), "empty or missing"),
        (lambda: Category(["a"], missing="drop"), "'zeros', 'category'$"),
        (lambda: Category(["a"], unknown="category"), "'missing', 'zeros'$"),
        (lambda: Date("2015", "soon"), "ISO"),
        (lambda: Date("2015-01-01", None), "ISO"),
        (lambda: Date("2015-01-01", 2020), "ISO"),
        (lambda: Date("2015-01-02", "2015-01-01"), "earlier"),
        (lambda: Date("2015-01-01", "2015-01-02", missing="zeros"), "missing"),
        (lambda: Ignore(3), "text"),
        (lambda: Classes("y", ["no"]), "at least 2"),
        (lambda: Classes("y", [1, "1"]), "different"),
        (lambda: Classes("", [0, 1]), "name"),
        (lambda: Range("y", 1, 0), "less"),
        (lambda: Schema({}), "at least one"),
        (lambda: Schema({"a": Ignore()}), "at least one"),
        (lambda: Schema([("a", Number(0, 1))]), "mapping"),
        (lambda: Schema({"a": "number"}), "'a'"),
        (lambda: Schema({3: Number(0, 1)}), "name"),
        (lambda: Schema({"a": Number(0, 1)}, target="a"), "target"),
        (lambda: Schema({"a": Number(0, 1)}, target=Range("a", 0, 1)), "both"),
        (lambda: Schema({"a": Number(0, 1)}, rows_per_person=0), "rows_per_person"),
        (lambda: Schema({"a": Number(0, 1)}, rows_per_person=True), "rows_per_person"),
        (lambda: Schema({"a": Number(0, 1)}, rows_per_person=1.5), "rows_per_person"),
        (lambda: Schema({"a": Number(0, 1)}, name=" "), "name"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(make, word):
    with pytest.raises(InputError, match=word):
        make()


def test_dates_can_be_given_as_objects():
    made = Date(datetime.date(2015, 1, 1), datetime.datetime(2024, 12, 31))
    assert made.scaled(np.array([frames.days_since_epoch("2015-01-01")])) == -1.0
    assert json.loads(json.dumps([made.first, made.last])) == ["2015-01-01", "2024-12-31 00:00:00"]
    assert Date(np.datetime64("2015-01-01"), np.datetime64("2016-01-01")) == Date("2015-01-01", "2016-01-01")


def test_a_schema_does_not_follow_the_dict_it_was_made_from():
    columns = {"a": Number(0, 1)}
    schema = Schema(columns)
    columns["b"] = Number(0, 1)
    assert list(schema.columns) == ["a"]


def test_a_schema_can_be_copied_pickled_and_hashed():
    assert copy.deepcopy(SCHEMA) == pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    assert hash(copy.deepcopy(SCHEMA)) == hash(SCHEMA)


# Scaling -----------------------------------------------------------------------------------------------------------


def test_a_range_is_brought_to_one():
    scaled = Number(18, 100).scaled(np.array([-1e308, 18, 38.5, 59, 100, 1e308, np.nan]))
    assert np.array_equal(scaled, [-1, -1, -0.5, 0, 1, 1, np.nan], equal_nan=True)


def test_a_logarithmic_range_is_even_in_the_logarithm():
    scaled = Number(-99, 99, log=True).scaled(np.array([-99.0, -9.0, 0.0, 9.0, 99.0]))
    assert np.allclose(scaled, [-1, -0.5, 0, 0.5, 1])


def test_typical_values_lie_within_one_and_no_value_beyond_two():
    number = Number(0.1, 20, typical=(0.5, 1.5))
    assert np.allclose(number.scaled(np.array([0.5, 0.75, 1.5, 1.9, 2.0, 20, 1e300])), [-1, -0.5, 1, 1.8, 2, 2, 2])
    assert number.scaled(np.array([0.1, -5.0])).tolist() == pytest.approx([-1.8, -1.8])  # the range ends there
    assert Number(-1e300, 1e300, typical=(0, 1e-300)).scaled(np.array([1e300]))[0] == 2.0


def test_dates_are_scaled_by_days():
    date = Date("2015-01-01", "2015-01-11")
    days = date.read("d", np.array(["2015-01-01", "2015-01-06", "2015-01-06T12:00", "1900-01-01"], dtype=object))
    assert np.allclose(date.scaled(days), [-1, 0, 0.1, -1])


# Cells -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blank", [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ", np.float32("nan")]
)
def test_every_kind_of_missing_cell_is_missing(blank):
    column = np.array([blank, "1"], dtype=object)
    assert frames.read_codes(column, ["1"]).tolist() == [frames.MISSING, 0]
    assert np.array_equal(frames.read_numbers(column), [np.nan, 1], equal_nan=True)
    dates = np.array([blank, "1970-01-02"], dtype=object)
    assert np.array_equal(frames.read_days(dates), [np.nan, 1], equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        [1, 2, 0.5],
        [1.0, "2", "0.5"],
        [" 1", "2 ", np.float32(0.5)],
        np.array([1, 2, 0.5]),
        np.array([1, 2, 0.5], dtype=np.float32),
        np.array(["1", "2", "0.5"]),
        pd.Series([1, 2, 0.5], dtype="category"),
        pd.Series(["1", "2", "0.5"]),
        pl.Series([1.0, 2.0, 0.5]),
        pl.Series(["1", "2", "0.5"], dtype=pl.Categorical),
    ],
)
def test_categories_are_matched_as_text(column):
    assert Classes("y", [0.5, 1, "2"]).encode(column).tolist() == [1, 2, 0]


def test_equal_cells_of_different_kinds_are_told_apart_whatever_stands_beside_them():
    both = frames.read_codes(np.array([1, True, 1.0], dtype=object), ["1", "True"])
    assert both.tolist() == [0, 1, 0]


def test_numbers_come_as_text_or_in_any_width():
    for column in (["3.5", " -2 ", "1e3"], [3.5, "-2", 1000], np.array([3.5, -2, 1000], dtype=np.float32)):
        assert frames.read_numbers(frames.column_values("x", column)).tolist() == [3.5, -2.0, 1000.0]
    assert frames.read_numbers(np.array([True, False])).tolist() == [1.0, 0.0]
    assert np.isnan(frames.read_numbers(np.array([np.nan, "nan"], dtype=object))).all()


@pytest.mark.parametrize(
    "column",
    [
        ["1", "SECRET"],
        [1, [2]],
        [1, 2j],
        [1, 10**400],
        [1, datetime.date(2020, 1, 1)],
        [1, {}],
    ],
)
def test_a_cell_that_is_no_number_counts_as_missing(column):
    schema = Schema({"age": Number(0, 1)})
    assert np.array_equal(schema.read({"age": column})[1]["age"], [1.0, np.nan], equal_nan=True)
    assert schema.check({"age": column}) == {"age": {"no number": 1}}


@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[D]", complex])
def test_columns_of_another_type_are_refused(kind):
    table = {"age": np.zeros(2, dtype=kind)}
    for read in (
        Schema({"age": Number(0, 1)}).read,
        Schema({"x": Ignore(), "z": Number(0, 1)}, Range("age", 0, 1)).read_target,
    ):
        with pytest.raises(InputError, match="'age' is declared a number and has the type"):
            read(table)
    with pytest.raises(InputError, match="'seen' is declared a date and has the type int64"):
        Schema({"seen": Date("2015-01-01", "2024-12-31")}).read({"seen": np.array([18263])})


@pytest.mark.parametrize("column", [[float("inf")], ["inf"], ["1e999"], np.array([np.inf])])
def test_infinite_numbers_are_clipped_like_others(column):
    schema = Schema({"age": Number(0, 1)})
    assert Number(0, 1, log=True).scaled(schema.read({"age": column})[1]["age"]) == 1.0
    assert schema.check({"age": column}) == {"age": {"outside": 1}}
    assert Range("age", 0, 5).encode(column) == 5.0


@pytest.mark.parametrize(
    "column",
    [
        ["2020-01-02"],
        ["2020-01-02T00:00:00Z"],
        ["2020-01-02T02:00:00+02:00"],
        [datetime.date(2020, 1, 2)],
        [datetime.datetime(2020, 1, 2)],
        [pd.Timestamp("2020-01-02")],
        [pd.Timestamp("2020-01-02T01:00", tz="Europe/Zurich")],
        [np.datetime64("2020-01-02")],
        np.array(["2020-01-02"], dtype="datetime64[D]"),
        np.array(["2020-01-02"], dtype="datetime64[ns]"),
        pd.to_datetime(pd.Series(["2020-01-02"])),
        pd.to_datetime(pd.Series(["2020-01-02"])).dt.tz_localize("UTC"),
        pl.Series(["2020-01-02"]).str.to_date(),
        pl.Series(["2020-01-02"]).str.to_datetime(),
        pl.Series(["2020-01-02"]).str.to_datetime().dt.replace_time_zone("UTC"),
    ],
)
def test_dates_come_in_every_usual_form(column):
    assert frames.read_days(frames.column_values("x", column)).tolist() == [18263.0]


@pytest.mark.parametrize("column", [["01/02/2020"], ["today"], [18263], [18263.0], np.array([1.5]), [True], [{}]])
def test_a_cell_that_is_no_date_counts_as_missing(column):
    schema = Schema({"seen": Date("2015-01-01", "2024-12-31")})
    assert np.isnan(schema.read({"seen": column})[1]["seen"]).all()
    assert schema.check({"seen": column}) == {"seen": {"no date": 1}}


def test_a_column_of_nothing_but_missing_values_is_legal():
    schema = Schema({"a": Number(0, 1), "b": Category(["x"]), "c": Date("2015-01-01", "2016-01-01")})
    for blank in (None, float("nan")):
        schema.check(pd.DataFrame({"a": [blank] * 2, "b": [blank] * 2, "c": [blank] * 2}))
        schema.check(pl.DataFrame({"a": [blank] * 2, "b": [blank] * 2, "c": [blank] * 2}))


# Tables ------------------------------------------------------------------------------------------------------------


def test_tables_of_every_kind_are_read_alike():
    pandas, polars = pd.DataFrame(TABLE), pl.DataFrame(TABLE)
    expected_n, expected = SCHEMA.read(TABLE)
    for table in (
        pandas,
        polars,
        pandas.convert_dtypes(),
        pandas.astype(object).to_numpy(),
        pandas[pandas.columns[::-1]],
        pandas.assign(outcome="no"),
        pandas.assign(admitted=pd.to_datetime(pandas["admitted"])),
        polars.with_columns(pl.col("admitted").str.to_date(), pl.col("sex").cast(pl.Categorical)),
    ):
        n, found = SCHEMA.read(table)
        assert n == expected_n
        assert list(found) == list(expected)
        for name, column in expected.items():
            assert np.array_equal(found[name], column, equal_nan=True), name


def test_missing_and_extra_columns_are_named():
    without = {name: cells for name, cells in TABLE.items() if name not in ("age", "ward")}
    with pytest.raises(InputError, match=r"lacks .*'age', 'ward'"):
        SCHEMA.check(without)
    with pytest.raises(InputError, match=r"not declare: 'bmi'; .*Ignore"):
        SCHEMA.check(TABLE | {"bmi": [1, 2]})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"age": [1]}, "same length"),
        ({"age": 3}, "'age' must be a list"),
        ({"age": "40"}, "'age' must be a list"),
        ({"age": [[1, 2], [3, 4]]}, "'age' must be a list"),
    ],
)
def test_the_form_of_a_table_is_checked(change, word):
    for use in (SCHEMA.check, SCHEMA.read):
        with pytest.raises(InputError, match=word):
            use(TABLE | change)


def test_no_cell_is_refused():
    odd = [None, "", "SECRET", "inf", "1e999", "-5", {}, [1], 2j, 10**400, b"x", pd.NA, pd.NaT, float("nan"), object()]
    table = {name: odd for name in TABLE} | {"outcome": odd}
    n, cells = SCHEMA.read(table)
    assert n == len(odd)
    assert cells["sex"].tolist().count(frames.UNKNOWN) == 10  # has zeros, also where missing ones have a column
    assert cells["ward"].tolist() == [frames.MISSING] * n
    assert (SCHEMA.read_target(table) == -1).all()
    assert SCHEMA.check(table)["age"] == {"missing": 5, "no number": 7, "outside": 3}
    assert SCHEMA.check(table)["outcome"] == {"missing": 5, "not declared": 10}


def test_cells_read_alike_whatever_stands_beside_them():
    for read, cells in (
        (frames.read_numbers, ["1.5", " 2", "3"]),
        (frames.read_days, ["2020-01-01", "2021-01-01", "2022-01-01"]),
        (lambda values: frames.read_codes(values, ["F", "M"]), ["M", " F", "M"]),
    ):
        alone = read(np.array(cells, dtype=object))
        for odd in (None, "?", [1]):
            beside = np.empty(4, dtype=object)
            beside[:] = [cells[0], odd, *cells[1:]]
            assert np.array_equal(np.delete(read(beside), 1), alone)


@pytest.mark.parametrize(
    "table",
    [3, "table.csv", None, [[1, 2]], np.zeros(7), np.zeros((2, 6)), {}, pd.Series([1])],
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(InputError):
        SCHEMA.check(table)


def test_columns_of_one_name_are_refused():
    schema = Schema({"1": Number(0, 1)})
    schema.check(pd.DataFrame({1: [0.5]}))
    for table in (pd.DataFrame([[1, 2]], columns=[1, "1"]), pd.DataFrame([[1, 2]], columns=["1", "1"])):
        with pytest.raises(InputError, match="different"):
            schema.check(table)
    with pytest.raises(InputError, match="different"):
        schema.check({1: [1], "1": [1]})


def test_the_target_is_read():
    assert SCHEMA.read_target(pl.DataFrame(TABLE | {"outcome": ["yes", " no"]})).tolist() == [1, 0]
    with pytest.raises(InputError, match="no column 'outcome'"):
        SCHEMA.read_target(TABLE)
    with pytest.raises(InputError, match="no target"):
        Schema({"a": Number(0, 1)}).read_target({"a": [1]})
    for odd in (None, "maybe", ""):
        assert SCHEMA.read_target(TABLE | {"outcome": ["yes", odd]}).tolist() == [1, -1]


def test_a_target_range_clips_and_has_nothing_for_what_is_no_number():
    assert Range("days", 0, 60).encode(["3", 75, -1, np.inf]).tolist() == [3.0, 60.0, 0.0, 60.0]
    assert np.isnan(Range("days", 0, 60).encode([None, "x", np.nan, {}])).all()


# Files and drafts --------------------------------------------------------------------------------------------------


def test_a_schema_is_read_back_from_dict_json_and_file(tmp_path):
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    SCHEMA.save(tmp_path / "clinic.json")
    assert Schema.load(str(tmp_path / "clinic.json")) == SCHEMA
    other = Schema({"größe": Number(0, 2.5)}, target=Range("y", -1, 1.5))
    assert Schema.from_json(other.to_json()) == other
    bare = Schema({"a": Number(0, 1)})
    assert Schema.from_dict(bare.to_dict()) == bare


def test_the_written_form_is_short_and_holds_no_defaults():
    description = SCHEMA.to_dict()
    assert description["columns"]["age"] == {"type": "number", "low": 18, "high": 100}
    assert description["columns"]["creatinine"]["typical"] == [0.5, 2.5]
    assert description["columns"]["id"] == {"type": "ignore", "why": "identifies the person"}
    assert description["target"] == {"name": "outcome", "classes": ["no", "yes"]}
    assert '"low": 18,' in SCHEMA.to_json()


def test_labels_keep_their_kind():
    schema = Schema({"a": Number(0, 1)}, target=Classes("y", np.array([0, 1])))
    assert Schema.from_json(schema.to_json()).target.labels == (0, 1)
    with pytest.raises(InputError, match="labels"):
        Schema({"a": Number(0, 1)}, target=Classes("y", [datetime.date(2020, 1, 1), 1])).to_json()


def described(**changes):
    return {"format": "dpconvex-schema/2", "columns": {"a": {"type": "number", "low": 0, "high": 1}}} | changes


@pytest.mark.parametrize(
    ("description", "word"),
    [
        ([], "format"),
        ({}, "format"),
        (described(format="dpconvex-schema/3"), "dpconvex-schema/2"),
        (described(rows=3), "no 'rows'; there are format, name"),
        (described(columns=["a"]), "columns"),
        (described(columns={"a": "number"}), "'a' must be declared by an object"),
        (described(columns={"a": {"type": "float", "low": 0}}), "no type 'float'; there are number, category, date"),
        (described(columns={"a": {"type": "number", "min": 0}}), "'a': there is no 'min'; there are type, low, high"),
        (described(columns={"a": {"type": "number", "low": 3, "high": 1}}), "'a': low must be less"),
        (described(columns={"a": {"type": "number", "low": "3", "high": 1}}), "'a': low and high must be finite"),
        (described(target={"name": "y", "labels": [0, 1]}), "target: there is no 'labels'; there are name, classes"),
        (described(target={"name": "y", "classes": [0]}), "target: labels"),
        (described(target={"name": "y", "low": 0, "high": 1, "classes": [0, 1]}), "no 'classes'"),
        (described(rows_per_person="2"), "rows_per_person"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(description, word):
    with pytest.raises(InputError, match=word):
        Schema.from_dict(description)


def test_text_that_is_no_json_is_refused():
    with pytest.raises(InputError, match="not JSON"):
        Schema.from_json("{")


def test_a_decimal_comma_is_declared():
    column = Number(0, 20, decimal=",", markers=["n,a"])
    schema = Schema({"lactate": column}, name="commas")
    cells = ["1,9", "2", " 0,5 ", "1.9", "1.234,5", "n,a", "", 3.5]
    assert np.array_equal(
        schema.read({"lactate": cells})[1]["lactate"], [1.9, 2, 0.5, *4 * [np.nan], 3.5], equal_nan=True
    )
    assert schema.check({"lactate": cells}) == {"lactate": {"missing": 2, "no number": 2}}
    assert Schema.from_json(schema.to_json()) == schema
    assert "decimal" not in Schema({"a": Number(0, 1)}).to_json()
    with pytest.raises(InputError, match="decimal must be one of"):
        Number(0, 1, decimal=";")
    book = {"name": ["lactate"], "type": ["number"], "range": ["0-20"], "decimal": [","]}
    assert Schema.draft(["lactate"], codebook=book)["columns"]["lactate"]["decimal"] == ","


def test_a_drafted_target_is_filled_in_as_classes_or_as_a_range():
    draft = Schema.draft(["a", "y"], target="y")
    draft["columns"]["a"], draft["rows_per_person"] = {"type": "number", "low": 0, "high": 1}, 1
    assert draft["target"] == {"name": "y", "classes": None, "low": None, "high": None}
    for form, made in (({"classes": [0, 1]}, Classes("y", [0, 1])), ({"low": 0, "high": 9}, Range("y", 0, 9))):
        assert Schema.from_dict({**draft, "target": draft["target"] | form}).target == made
    for form, hole in (({}, "classes, or low and high,"), ({"low": 0}, "high"), ({"high": 3}, "low")):
        with pytest.raises(InputError, match=f"fill in {hole} of the target"):
            Schema.from_dict({**draft, "target": draft["target"] | form})
    with pytest.raises(InputError, match="no 'classes'"):
        Schema.from_dict({**draft, "target": {"name": "y", "classes": [0, 1], "low": 0, "high": 1}})


def test_a_draft_names_exactly_what_is_left_to_fill_in():
    table = pd.DataFrame(TABLE).assign(seen=pd.Timestamp("2020-01-01"), smoker=True, outcome="no")
    draft = json.loads(json.dumps(Schema.draft(table, target="outcome")))
    assert draft["columns"]["age"] == {"type": "number", "low": None, "high": None}
    assert draft["columns"]["sex"] == {"type": "category", "categories": None}
    assert draft["columns"]["seen"] == {"type": "date", "first": None, "last": None}
    assert draft["columns"]["smoker"] == {"type": "category", "categories": ["False", "True"]}
    assert draft["target"] == {"name": "outcome", "classes": None}
    draft["columns"] = {name: draft["columns"][name] for name in ("age", "sex", "seen", "smoker")}
    draft["columns"]["age"]["low"] = 18
    draft["columns"]["other"] = {"type": None}
    with pytest.raises(InputError) as caught:
        Schema.from_dict(draft)
    assert str(caught.value) == (
        "the schema is not finished; fill in high of column 'age'; categories of column 'sex'; "
        "first, last of column 'seen'; type of column 'other'; classes of the target; "
        "rows_per_person, the most rows that one person can have"
    )
    draft["columns"]["age"]["high"] = 100
    draft["columns"]["sex"]["categories"] = ["F", "M"]
    draft["columns"]["seen"] |= {"first": "2015-01-01", "last": "2024-12-31"}
    draft["columns"]["other"] = {"type": "ignore"}
    draft["target"]["classes"] = ["no", "yes"]
    draft["rows_per_person"] = 1
    assert isinstance(Schema.from_dict(draft).columns["other"], Ignore)


@pytest.mark.parametrize("module", [pd, pl])
def test_a_draft_never_depends_on_values(module):
    one = module.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0], "c": [1, 2]})
    other = module.DataFrame({"a": ["3", "4"], "b": [7e9, None], "c": [0, 0]})
    assert Schema.draft(one) == Schema.draft(other) == Schema.draft(one[:0])


def test_drafts_start_from_names_dicts_and_polars_too():
    assert Schema.draft(["a", "b"])["columns"] == {"a": {"type": None}, "b": {"type": None}}
    assert Schema.draft({"a": np.zeros(2), "b": [1]})["columns"]["a"]["type"] == "number"
    assert Schema.draft({"a": np.zeros(2), "b": [1]})["columns"]["b"] == {"type": None}
    frame = pl.DataFrame({"y": [1.5], "d": [datetime.date(2020, 1, 1)]})
    assert Schema.draft(frame, target="y")["target"] == {"name": "y", "classes": None, "low": None, "high": None}
    assert Schema.draft(frame)["columns"]["d"]["type"] == "date"
    for bad in (np.zeros((2, 2)), 3, "a,b"):
        with pytest.raises(InputError):
            Schema.draft(bad)
    with pytest.raises(InputError, match="no column 'z'"):
        Schema.draft(frame, target="z")


def test_numbers_with_a_comma_are_read_alike_from_arrow_and_lists():
    import pyarrow

    cells = ["1,5", "2.5", "7", None, "x", "1.000,5"]
    schema = Schema({"dose": Number(0, 10, decimal=","), "plain": Number(0, 10)})
    table = {"dose": cells, "plain": cells}
    ours, theirs = schema.read(pyarrow.table(table))[1], schema.read(table)[1]
    for name in table:
        np.testing.assert_array_equal(ours[name], theirs[name])
