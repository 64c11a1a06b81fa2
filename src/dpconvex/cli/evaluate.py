"""`dpconvex evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpconvex.cli.files import check_output, read_table, writing
from dpconvex.cli.fit import find_target
from dpconvex.cli.options import existing, force_option, output, separator_option, working
from dpconvex.cli.predict import rows_for
from dpconvex.cli.verify import load_model
from dpconvex.errors import InputError
from dpconvex.kernel.budget import RELATIONS, Budget
from dpconvex.queries.evaluation import METRICS


@click.command()
@click.argument("model_path", metavar="MODEL", type=existing)
@click.argument("data", type=existing)
@click.option("--dataset", required=True, help="Name of these people's data set; not that of the fit.")
@click.option("--epsilon", type=float, required=True, help="How much may be given away.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="Keep it well below 1/rows.")
@click.option("--relation", type=click.Choice(RELATIONS), default="replace_one", show_default=True)
@click.option("--metric", "metrics", type=click.Choice(METRICS), multiple=True, help="Repeat it for several.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of each interval.")
@click.option("--target", help="Column that was to be predicted, if the schema does not name it.")
@click.option("-o", "--output", "out_path", type=output, help="Where to write everything, with the receipt (JSON).")
@separator_option
@force_option
def evaluate(
    model_path: Path,
    data: Path,
    dataset: str,
    epsilon: float,
    delta: float,
    relation: str,
    metrics: tuple[str, ...],
    confidence: float,
    target: str | None,
    out_path: Path | None,
    separator: str,
    force: bool,
) -> None:
    """Measure a model on a CSV file of people it was not fitted to.

    Prints the metrics with intervals, and the receipt. It is a release about the people in the file, and what several
    of them give away adds up: this command does not know of earlier ones. All metrics share the budget; by default
    they are all that the model has.
    """
    check_output(out_path, force, (model_path, data))
    budget = Budget(epsilon, delta, relation)  # complains before a long file is read
    with working(f"Verifying {model_path.name}"):
        model = load_model(model_path)
    if model.schema is None and target is None:
        raise InputError("which column was to be predicted? The model has no schema: name it with --target")
    target = target if model.schema is None else find_target(model.schema, target)
    with working(f"Reading {data.name}"):
        columns = read_table(data, separator, model.schema.columns if model.schema else ())
    if target not in columns:
        raise InputError(f"{data.name} has no column {target!r} to compare predictions with")
    labels = columns.pop(target)
    from dpconvex.estimators.evaluate import evaluate as measure

    with working("Evaluating"):
        found = measure(
            model,
            rows_for(model, data, columns),
            labels,
            budget=budget,
            dataset=dataset,
            metrics=metrics or None,
            confidence=confidence,
        )
    if out_path is not None:
        with writing(out_path):
            text = json.dumps(found.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
            out_path.write_text(text + "\n", encoding="utf-8")
    click.echo(str(found))
    click.echo(f"\n{found.receipt}")
    click.echo(
        f'One release about the people of "{dataset}". Others about them add to it: keep the receipts.', err=True
    )
