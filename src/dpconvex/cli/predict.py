"""`dpconvex predict`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import existing, force_option, named, output, several, table_options, working
from dpconvex.cli.verify import load_model
from dpconvex.data.files import Reading, read_batches
from dpconvex.data.frames import read_numbers
from dpconvex.data.parts import find_files
from dpconvex.errors import InputError


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.argument("data", type=several)
@click.option("-o", "--output", "out_path", type=output, help="Output file (CSV); standard output by default.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--threshold", type=float, help="Predict the second class where its probability is above.")
@table_options
@force_option
def predict(
    model_path: Path,
    data: Path | str,
    out_path: Path | None,
    proba: bool,
    threshold: float | None,
    reading: Reading,
    force: bool,
) -> None:
    """Predict the rows of a CSV or Parquet file, or of many files.

    DATA is a file, a folder, or a pattern such as 'visits/*.parquet'. Rows are read and written some at a time: one
    line per row, in order. Predictions cost the people that the model was fitted to no privacy. But a
    prediction reveals something about its own row: keep it as safe as that row.
    """
    files = [data] if isinstance(data, Path) else find_files(data)
    check_output(out_path, force, (model_path, *files))
    model = load_model(model_path)
    for option, given in (("--proba", proba), ("--threshold", threshold is not None)):
        if given and not hasattr(model, "predict_proba"):
            raise InputError(f"{option}: {type(model).__name__} predicts no probabilities")
    if threshold is not None and len(model.classes_) != 2:
        raise InputError(f"--threshold is between two classes, and there are {len(model.classes_)}")
    declared = model.schema.columns if model.schema else ()
    tables = (
        _predicted(model, path, batch, proba, threshold)
        for path in files
        for batch in read_batches(path, separator=reading.separator, names=reading.names, declared=declared)
    )
    with working(f"Predicting the rows of {named(data)}"):
        if out_path is None:
            _write(sys.stdout, tables)
            return
        unfinished = out_path.with_name(f".{out_path.name}.unfinished")
        try:
            with writing(out_path):
                with unfinished.open("w", encoding="utf-8", newline="") as file:
                    _write(file, tables)
                unfinished.replace(out_path)
        finally:
            unfinished.unlink(missing_ok=True)


def _predicted(
    model: Any, data: Path, columns: dict[str, Any], proba: bool, threshold: float | None
) -> list[tuple[str, Any]]:
    """Columns of predictions, by name."""
    rows = rows_for(model, data, columns)
    if model.schema is None and not np.isfinite(np.asarray(rows)).all():
        raise InputError(
            f"{named(data)} holds cells that are not finite numbers, and the model was fitted without a schema"
        )
    chances: Any = model.predict_proba(rows) if hasattr(model, "predict_proba") else None
    table: list[tuple[str, Any]] = [("prediction", model.predict(rows))]
    if threshold is not None:
        table = [("prediction", model.classes_[(chances[:, 1] > threshold).astype(int)])]
    if proba:
        table += [(f"probability of {label}", chances[:, k]) for k, label in enumerate(model.classes_)]
    return table


def rows_for(model: Any, data: Path, columns: dict[str, list[str]]) -> Any:
    """Return rows in the form that the model takes: a table for a schema, numbers in order otherwise."""
    if model.schema is not None:
        return columns
    names = list(getattr(model, "feature_names_in_", columns))
    if absent := [name for name in names if name not in columns]:
        raise InputError(f"{named(data)} lacks columns that the model was fitted to: {', '.join(map(repr, absent))}")
    if len(names) != model.n_features_in_:
        raise InputError(f"{named(data)} has {len(names)} columns, the model was fitted to {model.n_features_in_}")
    numbers = [read_numbers(np.array(columns[name], dtype=object)) for name in names]
    rows = np.column_stack(numbers)  # type: ignore[arg-type]
    if hasattr(model, "feature_names_in_"):
        import pandas

        return pandas.DataFrame(rows, columns=names)
    return rows


def _write(file: TextIO, tables: Iterator[list[tuple[str, Any]]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for number, table in enumerate(tables):
        if not number:
            writer.writerow([name for name, _ in table])
        cells = [[f"{v:.6g}" if isinstance(v, float) else v for v in values.tolist()] for _, values in table]
        writer.writerows(zip(*cells, strict=True))
