"""`dpconvex plan`."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from dpconvex.cli.models import make_model, model_options
from dpconvex.cli.options import budget_options, read_schema, schema_option, working
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.fitting import Opened, plan_fit
from dpconvex.estimators.preprocess import PrivatePreprocessor
from dpconvex.estimators.schema import Schema
from dpconvex.plan.plan import Plan
from dpconvex.privacy.budget import Budget
from dpconvex.problem.bounds import L2


@click.command()
@schema_option
@click.option("--rows", type=click.IntRange(min=2), required=True, help="Number of rows, which is public.")
@model_options
@budget_options
def plan(
    schema_path: Path,
    rows: int,
    kind: str | None,
    quantile: float | None,
    epsilon: float,
    delta: float,
    relation: str,
    algorithm: str,
) -> None:
    """Show what a fit would do, from public facts alone.

    No data is read. A fit of as many rows with the same options follows this very plan: its receipt bears the same
    number.
    """
    model = make_model(
        kind, quantile, read_schema(schema_path), epsilon=epsilon, delta=delta, relation=relation, algorithm=algorithm
    )
    with working("Planning"):
        made = plan_without_data(model, rows)
    click.echo(str(made))


def plan_without_data(model: PrivateLinearModel, n: int) -> Plan:
    """Make the plan that `fit` follows for n rows of a table of that schema."""
    schema: Schema = model.schema
    loss = model.loss_for(schema.target)
    encoder = PrivatePreprocessor(schema).fit({name: [] for name in schema.columns})
    shape_only = np.broadcast_to(0.0, (n, len(encoder.get_feature_names_out())))
    rows = Opened(shape_only, L2(encoder.row_bound_), encoder.constant_, schema.rows_per_person, schema.name)
    return plan_fit(model, loss, rows, Budget(model.epsilon, model.delta, model.relation))
