"""`dpconvex schema`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dpconvex.cli.files import check_output, read_text, writing
from dpconvex.cli.options import (
    existing,
    force_option,
    named,
    output,
    read_columns,
    read_schema,
    table_options,
    tabular,
)
from dpconvex.data.csvw import is_csvw
from dpconvex.data.editors import json_schema
from dpconvex.data.files import Reading, read_header, read_table
from dpconvex.data.schema import Classes, Ignore, Range, Schema
from dpconvex.errors import InputError
from dpconvex.plain import read_json

_ADVICE = """Replace every null by what is known without looking at the rows:
  "type": "number" with "low" and "high"; "category" with "categories", a list; "date" with "first" and "last"
          (2015-01-31); or "ignore" for a column that is not used
  "target": the column to predict (--target NAME), with "classes", a list of all labels, or for a number with "low" and
          "high"; leave the nulls of the other form
  "rows_per_person": the largest number of rows per person
  "name": the name of the data set, so that releases about the same people add up
Or draft it again: --codebook, --like and --from-public fill in what is written down somewhere.
Then: {then}"""
_PUBLIC = (
    "Ranges and categories were read from {name}, which you say is public: they will be published. If people in it "
    "need protection, delete this draft."
)


@click.group(no_args_is_help=False)
def schema() -> None:
    """Draft, fill in, check and convert schemas."""


@schema.command()
@click.argument("data", type=tabular)
@click.option("--target", help="Column to predict.")
@click.option("--codebook", type=existing, help="Table of columns: name, type, range, categories (CSV or Parquet).")
@click.option("--like", type=existing, help="Another schema, for columns of the same name.")
@click.option("--from-public", "public", type=existing, help="Table of the same form whose rows are public.")
@click.option("--name", help="Name of the data set, under which releases add up.")
@click.option("--rows-per-person", "rows", type=click.IntRange(min=1), help="The largest number of rows per person.")
@click.option("--source", help="Where all of this is known from, for the report.")
@click.option("-o", "--output", "path", type=output, help="Output file; standard output by default.")
@table_options
@force_option
def draft(
    data: Path,
    target: str | None,
    name: str | None,
    rows: int | None,
    source: str | None,
    codebook: Path | None,
    like: Path | None,
    public: Path | None,
    path: Path | None,
    reading: Reading,
    force: bool,
) -> None:
    """Draft a schema from the header of a table.

    Only the first line of DATA is read. What is public about the columns comes from a codebook, from another schema or
    from a file that is public, in this order, and else from a person.
    """
    check_output(path, force, [p for p in (data, codebook, like, public) if p is not None])
    if reading.names is not None:
        header: Any = list(reading.names)
    else:
        header = read_header(data, reading.separator)
    description = Schema.draft(
        header,
        target=target,
        codebook=None if codebook is None else _read_codebook(codebook),
        like=None if like is None else read_schema(like),
        public=None if public is None else read_table(public, separator=reading.separator, names=reading.names),
    )
    if public is not None:
        click.echo(_PUBLIC.format(name=public.name), err=True)
        source = source or f"read from {public.name}, said to be public"
    stated = {"name": name, "rows_per_person": rows, "source": source}
    description |= {key: value for key, value in stated.items() if value is not None}
    _write(json.dumps(description, indent=2, ensure_ascii=False) + "\n", path)
    then = f"dpconvex schema check {'SCHEMA' if path is None else path} {data}"
    try:
        Schema.from_dict(description)
        click.echo(f"Nothing is left to fill in. Read it, then: {then}", err=True)
    except InputError as error:
        click.echo(f"{_ADVICE.format(then=then)}\n\n{error}", err=True)


def _read_codebook(path: Path) -> Any:
    """Read a codebook by whichever separator its header has: it need not be that of the table."""
    return read_table(path, separator=next((s for s in ",;\t" if len(read_header(path, s)) > 1), ","))


def _write(text: str, path: Path | None) -> None:
    if path is None:
        click.echo(text, nl=False)
        return
    with writing(path):
        path.write_text(text, encoding="utf-8")


@schema.command()
@click.argument("schema_path", metavar="SCHEMA", type=existing)
@click.option("-o", "--output", "path", type=output, help="Output file; standard output by default.")
@force_option
def convert(schema_path: Path, path: Path | None, force: bool) -> None:
    """Convert a schema to csvw-eo, or csvw-eo to a schema.

    csvw-eo is CSV on the Web with bounds for differential privacy, as other tools read it. What it does not state
    stands as null in the schema.
    """
    check_output(path, force, (schema_path,))
    plain = read_json(read_text(schema_path), schema_path.name, InputError)
    found = Schema.draft_from_csvw(plain) if is_csvw(plain) else read_schema(schema_path).to_csvw()
    _write(json.dumps(found, indent=2, ensure_ascii=False) + "\n", path)


@schema.command("json-schema")
@click.option("-o", "--output", "path", type=output, help="Output file; standard output by default.")
@force_option
def for_editors(path: Path | None, force: bool) -> None:
    """Print the JSON Schema of schemas, with which editors complete and check them."""
    check_output(path, force)
    _write(json.dumps(json_schema(), indent=2) + "\n", path)


@schema.command()
@click.argument("schema_path", metavar="SCHEMA", type=existing)
@click.argument("data", type=tabular, required=False)
@table_options
def check(schema_path: Path, data: Path | None, reading: Reading) -> None:
    """Check a schema, and the cells of a table against it.

    Cells that do not fit are counted, exactly: this is for whoever may see the rows, and no guarantee covers it. A fit
    does not need it: it has substitutes for such cells, and rows without a target weigh nothing.
    """
    declared = read_schema(schema_path)
    columns = None if data is None else read_columns(data, reading, declared)
    found = {} if columns is None else declared.check(columns)
    used = sum(not isinstance(column, Ignore) for column in declared.columns.values())
    click.echo(
        f"{schema_path.name}: {used} columns used, {len(declared.columns) - used} ignored, {_target(declared)}, "
        f'at most {declared.rows_per_person} row(s) per person, named "{declared.name}"'
    )
    if data is not None and columns is not None:
        click.echo(_rows(declared, data, columns) + "\n".join(_counts(found)))
    if any(set(counts) - _USUAL for counts in found.values()):
        raise click.exceptions.Exit(1)


_USUAL = {"missing", "outside"}  # what tables hold that are as they should be


def _rows(declared: Schema, data: Path, columns: Mapping[str, Sequence[str]]) -> str:
    absent = declared.target is not None and declared.target.name not in columns
    return f"{named(data)}: {len(next(iter(columns.values())))} rows" + (", without the target" if absent else "")


def _counts(found: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Lines about the cells of each column that are not as declared."""
    if not found:
        yield "; every cell is as declared (an exact statement, not private)"
        return
    yield "; cells that are missing or not as declared (exact counts, not private: keep them as safe as the rows)"
    for name, counts in found.items():
        yield f"  {name}: {', '.join(f'{count} {what}' for what, count in counts.items())}"


def _target(declared: Schema) -> str:
    if isinstance(declared.target, Classes):
        return f"target {declared.target.name!r} with {len(declared.target.labels)} classes"
    if isinstance(declared.target, Range):
        return f"target {declared.target.name!r} from {declared.target.low:g} to {declared.target.high:g}"
    return "no target"
