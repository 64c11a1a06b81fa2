"""Which model the command line fits: what the target calls for, or the one that is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpconvex.data.schema import Range, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.logistic import PrivateLogisticRegression
from dpconvex.estimators.regressors import PrivateHuberRegressor, PrivateQuantileRegressor, PrivateRidge
from dpconvex.estimators.svc import PrivateLinearSVC

MODELS: dict[str, type[PrivateLinearModel]] = {
    "logistic": PrivateLogisticRegression,
    "svc": PrivateLinearSVC,
    "ridge": PrivateRidge,
    "huber": PrivateHuberRegressor,
    "quantile": PrivateQuantileRegressor,
}


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that name a model."""
    command = click.option(
        "--quantile", type=float, help="Which quantile the quantile model predicts.  [default: 0.5]"
    )(command)
    return click.option(
        "--model",
        "kind",
        type=click.Choice(list(MODELS)),
        help="What to fit.  [default: logistic for classes, ridge for a range of numbers]",
    )(command)


def make_model(kind: str | None, quantile: float | None, schema: Schema, **options: Any) -> PrivateLinearModel:
    """The model that was named, or the one for the target of the schema."""
    kind = kind or ("ridge" if isinstance(schema.target, Range) else "logistic")
    if quantile is not None:
        if kind != "quantile":
            raise InputError("--quantile goes with --model quantile")
        options["quantile"] = quantile
    return MODELS[kind](schema=schema, **options)
