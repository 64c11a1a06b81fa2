"""`dpconvex schema`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpconvex.cli.files import check_output, read_header, writing
from dpconvex.cli.options import existing, force_option, output, read_columns, read_schema, separator_option
from dpconvex.data.schema import Classes, Ignore, Range, Schema

_ADVICE = """Replace every null by what is known without looking at the rows:
  "type": "number" with "low" and "high"; "category" with "categories", a list; "date" with "first" and "last"
          (2015-01-31); or "ignore" for a column that is not used
  "target": the column to predict (--target NAME), with "classes", a list of all labels, or for a number with "low" and
          "high"; leave the nulls of the other form
  "rows_per_person": the largest number of rows per person
  "name": the name of the data set, so that releases about the same people add up
Then: dpconvex schema check"""


@click.group(no_args_is_help=False)
def schema() -> None:
    """Draft and check schemas."""


@schema.command()
@click.argument("data", type=existing)
@click.option("--target", help="Column to predict.")
@click.option("-o", "--output", "path", type=output, help="Output file; standard output by default.")
@separator_option
@force_option
def draft(data: Path, target: str | None, path: Path | None, separator: str, force: bool) -> None:
    """Draft a schema from the header of a CSV file.

    Only the first line is read: a person has to fill in what is public about the columns.
    """
    check_output(path, force, (data,))
    description = Schema.draft(read_header(data, separator), target=target)
    text = json.dumps(description, indent=2, ensure_ascii=False)
    if path is None:
        click.echo(text)
    else:
        with writing(path):
            path.write_text(text + "\n", encoding="utf-8")
    click.echo(_ADVICE, err=True)


@schema.command()
@click.argument("schema_path", metavar="SCHEMA", type=existing)
@click.argument("data", type=existing, required=False)
@separator_option
def check(schema_path: Path, data: Path | None, separator: str) -> None:
    """Check a schema, and the form of a CSV file against it."""
    declared = read_schema(schema_path)
    found = "" if data is None else _check_form(declared, data, separator)
    used = sum(not isinstance(column, Ignore) for column in declared.columns.values())
    click.echo(
        f"{schema_path.name}: {used} columns used, {len(declared.columns) - used} ignored, {_target(declared)}, "
        f'at most {declared.rows_per_person} row(s) per person, named "{declared.name}"{found}'
    )


def _check_form(declared: Schema, data: Path, separator: str) -> str:
    columns = read_columns(data, separator, declared)
    declared.check(columns)
    absent = declared.target is not None and declared.target.name not in columns
    if declared.target is not None and not absent:
        declared.read_target(columns)
    rows = len(next(iter(columns.values())))
    return f"\n{data.name}: {rows} rows that fit the schema" + (", without the target" if absent else "")


def _target(declared: Schema) -> str:
    if isinstance(declared.target, Classes):
        return f"target {declared.target.name!r} with {len(declared.target.labels)} classes"
    if isinstance(declared.target, Range):
        return f"target {declared.target.name!r} from {declared.target.low:g} to {declared.target.high:g}"
    return "no target"
