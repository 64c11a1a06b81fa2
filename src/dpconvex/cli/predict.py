"""`dpconvex predict`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from dpconvex.cli.files import check_output, writing
from dpconvex.cli.options import existing, force_option, named, output, read_columns, table_options, tabular
from dpconvex.cli.verify import load_model
from dpconvex.data.files import Reading
from dpconvex.data.frames import read_numbers
from dpconvex.errors import InputError


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.argument("data", type=tabular)
@click.option("-o", "--output", "out_path", type=output, help="Output file (CSV); standard output by default.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--threshold", type=float, help="Predict the second class where its probability is above.")
@table_options
@force_option
def predict(
    model_path: Path,
    data: Path,
    out_path: Path | None,
    proba: bool,
    threshold: float | None,
    reading: Reading,
    force: bool,
) -> None:
    """Predict the rows of a CSV file.

    Writes one line per row, in order. Predictions cost the people that the model was fitted to no privacy. But a
    prediction reveals something about its own row: keep it as safe as that row.
    """
    check_output(out_path, force, (model_path, data))
    model = load_model(model_path)
    columns = read_columns(data, reading, model.schema)
    rows = rows_for(model, data, columns)
    if model.schema is None and not np.isfinite(np.asarray(rows)).all():
        raise InputError(
            f"{named(data)} holds cells that are not finite numbers, and the model was fitted without a schema"
        )
    for option, given in (("--proba", proba), ("--threshold", threshold is not None)):
        if given and not hasattr(model, "predict_proba"):
            raise InputError(f"{option}: {type(model).__name__} predicts no probabilities")
    chances: Any = model.predict_proba(rows) if hasattr(model, "predict_proba") else None
    table: list[tuple[str, Any]] = [("prediction", model.predict(rows))]
    if threshold is not None:
        if len(model.classes_) != 2:
            raise InputError(f"--threshold is between two classes, and there are {len(model.classes_)}")
        table = [("prediction", model.classes_[(chances[:, 1] > threshold).astype(int)])]
    if proba:
        table += [(f"probability of {label}", chances[:, k]) for k, label in enumerate(model.classes_)]
    if out_path is None:
        _write(sys.stdout, table)
    else:
        with writing(out_path), out_path.open("w", encoding="utf-8", newline="") as file:
            _write(file, table)


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


def _write(file: TextIO, table: list[tuple[str, Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([name for name, _ in table])
    cells = [[f"{v:.6g}" if isinstance(v, float) else v for v in values.tolist()] for _, values in table]
    writer.writerows(zip(*cells, strict=True))
