"""`dpconvex plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dpconvex.chooser.prediction import SCORE_WORDS
from dpconvex.chooser.recommend import Recommendation, recommend
from dpconvex.cli.files import check_output, writing
from dpconvex.cli.models import make_model, model_options
from dpconvex.cli.options import budget_options, force_option, output, read_schema, schema_option, working
from dpconvex.data.schema import Schema
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.table import Declared, Units
from dpconvex.kernel.budget import Budget
from dpconvex.plan.plan import Plan


@click.command()
@schema_option
@click.option("--rows", type=click.IntRange(min=2), required=True, help="Number of rows, which is public.")
@click.option("--all", "every", is_flag=True, help="List every algorithm, ranked by its expected loss.")
@click.option(
    "--anchor",
    "anchors",
    type=(click.Choice(list(SCORE_WORDS)), float, float),
    multiple=True,
    help="A score without features and without privacy, if known: auc 0.5 0.8.",
)
@model_options
@budget_options
@click.option("-o", "--output", "out_path", type=output, help="Output file for the plan (JSON), to be approved.")
@force_option
def plan(
    schema_path: Path,
    rows: int,
    every: bool,
    anchors: tuple[tuple[str, float, float], ...],
    out_path: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """Show what a fit would do, from public facts alone.

    No data is read. A fit to this number of rows with the same options follows this plan, and its receipt has the same
    plan number. Unless an algorithm is chosen, it first says what to expect; with --all, of every algorithm.
    """
    check_output(out_path, force, (schema_path,))
    model = make_model(read_schema(schema_path), **options)
    with working("Planning"):
        made = _plan_without_data(model, rows)
        known = {name: (low, high) for name, low, high in anchors}
        table = _compare_without_data(model, made, known) if model.algorithm == "auto" else None
    if table is not None:
        click.echo(f"{table.details() if every else table}\n")
    click.echo(str(made))
    if out_path is not None:
        with writing(out_path):
            out_path.write_text(json.dumps(made.to_json(), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _plan_without_data(model: PrivateLinearModel, n: int) -> Plan:
    """Make the plan that `fit` follows for n rows of a table with the schema of the model."""
    schema: Schema = model.schema
    loss = model.loss_for(schema.target)
    rows = Declared(schema).rows_of_schema(n=n)
    return model._plan(loss, rows, Budget(model.epsilon, model.delta, model.relation), Units())


def _compare_without_data(
    model: PrivateLinearModel, made: Plan, anchors: dict[str, tuple[float, float]]
) -> Recommendation:
    """Rank every algorithm for the problem of a plan, at the budget of one record."""
    schema: Schema = model.schema
    problem = replace(made.problem, loss=model.loss_for(schema.target), l2=0.0)  # as it was before the plan shaped it
    found = recommend(problem, n=made.n, d=made.d, budget=made.one_record or made.budget, anchors=anchors)
    whole = Budget(model.epsilon, model.delta, model.relation)
    return replace(found, rows_per_person=schema.rows_per_person, of_person=whole)
