"""`dpconvex schema`: drafts that are filled in, conversions, and tables in every form."""

import gzip
import json

from cli_helpers import dpconvex, refused, shell

import dpconvex as dc

BOOK = [
    ["name", "type", "range", "categories", "missing codes"],
    ["age", "number", "18-100", "", "999"],
    ["sex", "", "", "F|M", ""],
    ["admitted", "date", "2020-01-01 to 2021-12-31", "", ""],
    ["note", "ignore", "", "", ""],
    ["ill", "", "", "no|yes", ""],
]


def drafted(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_codebook_another_schema_and_a_public_file_fill_in_a_draft(clinic, tmp_path):
    book = clinic.write(tmp_path / "book.csv", BOOK)
    draft = ("schema", "draft", clinic.data, "--target", "ill")
    found = dpconvex(*draft, "--codebook", book)
    assert "Replace every null" in found.stderr
    assert drafted(found)["columns"]["ward"] == {"type": None}
    assert drafted(found)["target"] == {"name": "ill", "classes": ["no", "yes"]}
    other = tmp_path / "semicolons.csv"  # the separator of a codebook need not be that of the table
    other.write_text("variable;type;min;max;values\nage;numeric;0;120;\nill;;;;no|yes\n")
    assert drafted(dpconvex(*draft, "--codebook", other))["columns"]["age"] == {"type": "number", "low": 0, "high": 120}
    found = dpconvex(*draft, "--codebook", book, "--like", clinic.schema)
    assert drafted(found)["columns"]["ward"]["categories"][0] == "surgery"
    public = clinic.write(tmp_path / "public.csv", [clinic.header, *clinic.rows[:50]])
    found = dpconvex(*draft, "--from-public", public)
    plain = drafted(found)
    assert "public.csv, which you say is public" in found.stderr
    assert plain["source"] == "read from public.csv, said to be public"
    assert plain["columns"]["age"]["type"] == "number"
    assert plain["columns"]["admitted"]["type"] == "date"
    assert plain["columns"]["note"] == {"type": "category", "categories": None}  # free text
    plain["columns"]["note"] = {"type": "ignore"}
    plain |= {"rows_per_person": 1, "name": str(tmp_path)}
    path, report = tmp_path / "schema.json", tmp_path / "report.html"
    path.write_text(json.dumps(plain))
    fitted = dpconvex("fit", public, "--schema", path, "--epsilon", 1, "-o", clinic.model, "--report", report)
    assert fitted.exit_code == 0, fitted.output
    assert "said to be public" in report.read_text(encoding="utf-8")
    refused(dpconvex(*draft, "--codebook", clinic.data), "codebook needs a column `name`")


def test_a_draft_without_a_hole_says_so(clinic, tmp_path):
    found = dpconvex(
        "schema", "draft", clinic.data, "--target", "ill", "--like", clinic.schema, "-o", tmp_path / "new.json"
    )
    assert found.exit_code == 0, found.output
    assert "rows_per_person" in found.stderr
    plain = json.loads((tmp_path / "new.json").read_text())
    assert dc.Schema.from_dict({**plain, "rows_per_person": 1}).target == dc.Schema.load(clinic.schema).target


def test_schemas_are_converted_to_csvw_and_back(clinic, tmp_path):
    there, back = tmp_path / "csvw.json", tmp_path / "back.json"
    assert dpconvex("schema", "convert", clinic.schema, "-o", there).exit_code == 0
    assert json.loads(there.read_text())["tableSchema"]["columns"][0]["maximum"] == 100
    result = dpconvex("schema", "convert", there, "-o", back)
    assert result.exit_code == 0, result.output
    assert dc.Schema.load(back) == dc.Schema.load(clinic.schema)
    refused(dpconvex("schema", "convert", there, "-o", back), "--force")


def test_the_json_schema_is_printed_for_editors():
    found = drafted(dpconvex("schema", "json-schema"))
    assert found["$schema"].startswith("https://json-schema.org")
    assert "number" in found["$defs"]


def test_every_form_of_a_table_gives_the_same_plan_and_model(clinic, tmp_path):
    """Gzipped, without a header, from standard input, and as Parquet."""
    text = clinic.data.read_bytes()
    zipped, bare = tmp_path / "visits.csv.gz", tmp_path / "bare.csv"
    zipped.write_bytes(gzip.compress(text))
    clinic.write(bare, clinic.rows)
    names = ("--names", ",".join(clinic.header))
    fit = ("fit", "--schema", clinic.schema, "--epsilon", 2, "--force", "-o", clinic.model)
    digests = []
    for data, *more in ((clinic.data,), (zipped,), (bare, *names)):
        result = dpconvex(*fit, data, *more)
        assert result.exit_code == 0, result.output
        digests.append(dc.load(clinic.model).receipt_.data["plan"]["digest"])
    done = shell(*fit, "-", input=text.decode())
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    digests.append(dc.load(clinic.model).receipt_.data["plan"]["digest"])
    assert len(set(digests)) == 1
    predicted = [
        dpconvex("predict", clinic.model, data, *more).stdout
        for data, *more in ((clinic.data,), (zipped,), (bare, *names))
    ]
    assert len(set(predicted)) == 1
    assert "600 rows" in dpconvex("schema", "check", clinic.schema, zipped).stdout
    assert "600 rows" in dpconvex("schema", "check", clinic.schema, bare, *names).stdout
    refused(dpconvex("schema", "check", clinic.schema, bare), "--names")
    found = drafted(dpconvex("schema", "draft", bare, *names))
    assert list(found["columns"]) == clinic.header


def test_parquet_files_bring_their_types(clinic, tmp_path):
    import pandas

    path = tmp_path / "visits.parquet"
    frame = pandas.DataFrame(clinic.rows, columns=clinic.header)
    frame.assign(age=pandas.to_numeric(frame["age"]).astype("Int64")).to_parquet(path)
    assert drafted(dpconvex("schema", "draft", path))["columns"]["age"] == {"type": "number", "low": None, "high": None}
    result = dpconvex("fit", path, "--schema", clinic.schema, "--epsilon", 2, "-o", clinic.model)
    assert result.exit_code == 0, result.output
    assert dpconvex("predict", clinic.model, path).stdout == dpconvex("predict", clinic.model, clinic.data).stdout
