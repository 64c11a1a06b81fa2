"""`dpconvex predict`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from dpconvex.cli.files import check_output, read_batches, writing
from dpconvex.cli.options import data_argument, existing, force_option, output, separator_option, working
from dpconvex.cli.verify import load_model
from dpconvex.data.frames import read_numbers
from dpconvex.data.parts import Parts, find_files
from dpconvex.errors import InputError


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@data_argument
@click.option("-o", "--output", "out_path", type=output, help="Output file (CSV); standard output by default.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@separator_option
@force_option
def predict(
    model_path: Path, data: Path | str, out_path: Path | None, proba: bool, separator: str, force: bool
) -> None:
    """Predict the rows of a CSV file, or of many files.

    DATA is a CSV file, a Parquet file, a folder, or a pattern such as 'visits/*.parquet'. Rows are read and written
    some at a time: one line per row, in order.

    Predictions cost the people that the model was fitted to no privacy. But a prediction reveals something about its
    own row: keep it as safe as that row.
    """
    files = find_files(data)
    check_output(out_path, force, (model_path, *files))
    model = load_model(model_path)
    if proba and not hasattr(model, "predict_proba"):
        raise InputError(f"--proba: {type(model).__name__} predicts no probabilities")
    tables = (_predicted(model, path, batch, proba) for path in files for batch in _batches(path, separator, model))
    with working(f"Predicting the rows of {Path(data).name}"):
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


def _batches(path: Path, separator: str, model: Any) -> Iterator[Any]:
    """Tables of some rows of a file, as columns by name."""
    if path.suffix in (".parquet", ".pq"):
        for table in Parts.of(path).batches():
            yield table if model.schema is not None else {name: table.column(name) for name in table.column_names}
    else:
        yield from read_batches(path, separator, model.schema.columns if model.schema else ())


def _predicted(model: Any, path: Path, batch: Any, proba: bool) -> list[tuple[str, Any]]:
    """Columns of predictions, by name."""
    rows = rows_for(model, path, batch)
    table: list[tuple[str, Any]] = [("prediction", model.predict(rows))]
    if proba:
        chances = model.predict_proba(rows)
        table += [(f"probability of {label}", chances[:, k]) for k, label in enumerate(model.classes_)]
    return table


def rows_for(model: Any, data: Path, columns: dict[str, Any]) -> Any:
    """Return rows in the form that the model takes: a table for a schema, numbers in order otherwise."""
    if model.schema is not None:
        return columns
    names = list(getattr(model, "feature_names_in_", columns))
    if absent := [name for name in names if name not in columns]:
        raise InputError(f"{data.name} lacks columns that the model was fitted to: {', '.join(map(repr, absent))}")
    if len(names) != model.n_features_in_:
        raise InputError(f"{data.name} has {len(names)} columns, the model was fitted to {model.n_features_in_}")
    numbers = [read_numbers(np.array(columns[name], dtype=object)) for name in names]
    if any(column is None or not np.isfinite(column).all() for column in numbers):
        raise InputError(
            f"{data.name} holds cells that are not finite numbers, and the model was fitted without a schema"
        )
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
