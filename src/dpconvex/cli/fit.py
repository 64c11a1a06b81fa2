"""`dpconvex fit`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.files import check_output, read_table, writing
from dpconvex.cli.models import make_model, model_options
from dpconvex.cli.options import (
    budget_options,
    existing,
    force_option,
    output,
    read_schema,
    schema_option,
    separator_option,
    working,
)
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget


@click.command()
@click.argument("data", type=existing)
@schema_option
@click.option("--target", help="Column to predict, if the schema does not name it.")
@model_options
@budget_options
@click.option("-o", "--output", "model_path", type=output, required=True, help="Where to write the model (JSON).")
@click.option("--report", "report_path", type=output, help="Where to write a report in words (HTML).")
@click.option("--strict", is_flag=True, help="Refuse to read from the data what was not declared.")
@separator_option
@force_option
def fit(
    data: Path,
    schema_path: Path,
    target: str | None,
    kind: str | None,
    quantile: float | None,
    epsilon: float,
    delta: float,
    relation: str,
    algorithm: str,
    model_path: Path,
    report_path: Path | None,
    strict: bool,
    separator: str,
    force: bool,
) -> None:
    """Fit a private model to a CSV file.

    Prints the receipt, which the model file holds too. Every fit is a release about the people in the file, and what
    several of them give away adds up: this command does not know of earlier ones.
    """
    for path in (model_path, report_path):
        check_output(path, force, (data, schema_path))
    if report_path is not None and report_path.resolve() == model_path.resolve():
        raise InputError("the model and the report must be two files")
    Budget(epsilon, delta, relation)  # complains before a long file is read
    schema = read_schema(schema_path)
    target = find_target(schema, target)
    if strict and schema.target is None:
        raise InputError("--strict: declare the target in the schema, or its classes are read from the data")
    model = make_model(
        kind, quantile, schema, epsilon=epsilon, delta=delta, algorithm=algorithm, relation=relation, strict=strict
    )
    with working(f"Reading {data.name}"):
        columns = read_table(data, separator, schema.columns)
    if target not in columns:
        raise InputError(f"{data.name} has no column {target!r} to predict")
    labels = columns.pop(target)
    with working("Fitting"):
        model.fit(columns, labels)
    with writing(model_path):
        model.save(model_path)
    click.echo(str(model.receipt_))
    click.echo(
        f'One release about the people of "{schema.name}". Others about them add to it: keep the receipts.', err=True
    )
    if report_path is not None:
        from dpconvex.report import report

        with working("Writing the report"), writing(report_path):
            report(report_path, model.receipt_, title=f"A private model of {target}", schema=schema)


def find_target(schema: Schema, named: str | None) -> str:
    """Return the name of the column to predict: the schema's, or the one that was named."""
    declared = schema.target.name if schema.target else None
    if named is not None and declared is not None and named != declared:
        raise InputError(f"--target is {named!r}, and the schema declares {declared!r}: they must agree")
    if (target := declared or named) is None:
        raise InputError("which column is to be predicted? Declare the target in the schema, or name it with --target")
    if schema.target is None and target in schema.columns:
        raise InputError(f"the schema declares {target!r} as a column; declare it as the target instead")
    return target
