"""The models that the command line can fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpconvex import algorithms
from dpconvex.data.schema import Range, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.logistic import PrivateLogisticRegression
from dpconvex.estimators.regressors import PrivateHuberRegressor, PrivateQuantileRegressor, PrivateRidge
from dpconvex.estimators.svc import PrivateLinearSVC

_MODELS: dict[str, type[PrivateLinearModel]] = {
    "logistic": PrivateLogisticRegression,
    "svc": PrivateLinearSVC,
    "ridge": PrivateRidge,
    "huber": PrivateHuberRegressor,
    "quantile": PrivateQuantileRegressor,
}


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a model and the algorithm that fits it."""
    for option in (
        click.option(
            "--algorithm",
            type=click.Choice(["auto", *algorithms.names()], case_sensitive=False),
            default="auto",
            help="How to fit; `dpconvex algorithms` lists them.",
        ),
        click.option("--quantile", type=float, help="Quantile for the quantile model.  [default: 0.5]"),
        click.option(
            "--model",
            "kind",
            type=click.Choice(list(_MODELS)),
            help="The model.  [default: logistic for classes, ridge for a range of numbers]",
        ),
    ):
        command = option(command)
    return command


def make_model(schema: Schema, kind: str | None, quantile: float | None, **options: Any) -> PrivateLinearModel:
    """Make the model that was chosen, or the default one for the target of the schema."""
    kind = kind or ("ridge" if isinstance(schema.target, Range) else "logistic")
    if quantile is not None:
        if kind != "quantile":
            raise InputError("--quantile goes with --model quantile")
        options["quantile"] = quantile
    return _MODELS[kind](schema=schema, **options)
