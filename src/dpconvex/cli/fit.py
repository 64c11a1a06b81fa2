"""`dpconvex fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.models import make_model, model_options
from dpconvex.cli.options import (
    budget_options,
    force_option,
    ledger_option,
    open_parts,
    output,
    read_by,
    read_labelled,
    read_schema,
    remind_of_release,
    schema_option,
    several,
    table_options,
    under_ledger,
    workers_options,
    working,
)
from dpconvex.data.files import Reading
from dpconvex.data.parts import find_files
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget


@click.command()
@click.argument("data", type=several)
@schema_option
@click.option("--target", help="Column to predict, if the schema does not name it.")
@model_options
@budget_options
@click.option("-o", "--output", "model_path", type=output, required=True, help="Output file for the model (JSON).")
@click.option("--report", "report_path", type=output, help="Output file for a report in words (HTML).")
@click.option("--strict", is_flag=True, help="Refuse to read undeclared facts from the data.")
@ledger_option(required=False)
@table_options
@workers_options
@force_option
def fit(
    data: Path | str,
    schema_path: Path,
    target: str | None,
    model_path: Path,
    report_path: Path | None,
    strict: bool,
    url: str | None,
    reading: Reading,
    workers: int | None,
    cluster: str | None,
    memory: int,
    force: bool,
    **options: Any,
) -> None:
    """Fit a private model to a CSV or Parquet file, or to many files.

    DATA is a file, a folder, or a pattern such as 'visits/*.parquet'. Many files are read part by part, in little
    memory, and so is one with --workers or --cluster; the schema then declares the target.

    Prints the receipt, which is also in the model file. Every fit is a release about the people in the file; releases
    add up. Under a ledger it is refused if the budget of the data set, which the schema names, does not allow it;
    without one, this command does not know about earlier releases.
    """
    for path in (model_path, report_path):
        check_output(path, force, (*([data] if isinstance(data, Path) else find_files(data)), schema_path))
    if report_path is not None and report_path.resolve() == model_path.resolve():
        raise InputError("the model and the report must be two files")
    Budget(*(options[name] for name in ("epsilon", "delta", "relation")))  # refuses a bad one before reading a file
    schema = read_schema(schema_path)
    target = find_target(schema, target)
    if strict and schema.target is None:
        raise InputError("--strict needs the target in the schema: otherwise its classes would be read from the data")
    model = make_model(schema, strict=strict, **options)
    if isinstance(data, Path) and workers is None and cluster is None:
        columns, labels = read_labelled(data, reading, schema, target)
        with under_ledger(url) as ledger, working("Fitting"):
            model.fit(columns, labels)
    else:
        with working("Looking at the files"):
            parts = open_parts(data, reading)
        with under_ledger(url) as ledger, working("Fitting", bars=True), read_by(workers, cluster, memory):
            model.fit(parts)
    with writing(model_path):
        model.save(model_path)
    click.echo(str(model.receipt_))
    remind_of_release(schema.name, ledger)
    if report_path is not None:
        from dpconvex.report import report

        with working("Writing the report"), writing(report_path):
            report(report_path, model.receipt_, title=f"A private model of {target}", schema=schema)


def find_target(schema: Schema, named: str | None) -> str:
    """Return the name of the column to predict, which the schema or else the option declares."""
    declared = schema.target.name if schema.target else None
    if named is not None and declared is not None and named != declared:
        raise InputError(f"--target is {named!r}, and the schema declares {declared!r}: they must agree")
    if (target := declared or named) is None:
        raise InputError("no column to predict: declare the target in the schema, or name it with --target")
    if schema.target is None and target in schema.columns:
        raise InputError(f"the schema declares {target!r} as a column; declare it as the target instead")
    return target
