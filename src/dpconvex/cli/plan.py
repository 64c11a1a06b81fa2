"""`dpconvex plan`."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from dpconvex.cli.options import budget_options, read_schema, schema_option, working
from dpconvex.errors import InputError
from dpconvex.estimators.fitting import Opened, plan_fit
from dpconvex.estimators.logistic import PrivateLogisticRegression
from dpconvex.estimators.preprocess import PrivatePreprocessor
from dpconvex.estimators.schema import Classes
from dpconvex.plan.plan import Plan
from dpconvex.privacy.budget import Budget
from dpconvex.problem.bounds import L2
from dpconvex.problem.losses import Logistic, Softmax


@click.command()
@schema_option
@click.option("--rows", type=click.IntRange(min=2), required=True, help="Number of rows, which is public.")
@budget_options
def plan(schema_path: Path, rows: int, epsilon: float, delta: float, relation: str, algorithm: str) -> None:
    """Show what a fit would do, from public facts alone.

    No data is read. A fit of as many rows with the same options follows this very plan: its receipt bears the same
    number.
    """
    model = PrivateLogisticRegression(
        epsilon=epsilon, delta=delta, relation=relation, algorithm=algorithm, schema=read_schema(schema_path)
    )
    with working("Planning"):
        made = plan_without_data(model, rows)
    click.echo(str(made))


def plan_without_data(model: PrivateLogisticRegression, n: int) -> Plan:
    """Make the plan that `fit` follows for n rows of a table of that schema."""
    schema = model.schema
    if schema is None or not isinstance(schema.target, Classes):
        raise InputError("a plan needs to know the classes: declare the target and its classes in the schema")
    encoder = PrivatePreprocessor(schema).fit({name: [] for name in schema.columns})
    d, classes = len(encoder.get_feature_names_out()), len(schema.target.labels)
    shape_only = np.broadcast_to(0.0, (n, d))
    rows = Opened(shape_only, L2(encoder.row_bound_), encoder.constant_, schema.rows_per_person, schema.name)
    loss = Logistic() if classes == 2 else Softmax(classes)
    return plan_fit(model, loss, rows, Budget(model.epsilon, model.delta, model.relation))
