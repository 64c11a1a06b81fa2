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
_OPTIONS = {"quantile": "quantile", "threshold": "huber"}  # options of one model only


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
            "--threshold", type=float, help="Residual from which huber grows linearly.  [default: a tenth of the range]"
        ),
        click.option(
            "--model",
            "kind",
            type=click.Choice(list(_MODELS)),
            help="The model.  [default: logistic for declared classes, ridge for a declared range]",
        ),
    ):
        command = option(command)
    return command


def make_model(schema: Schema, kind: str | None, **options: Any) -> PrivateLinearModel:
    """Make the model that was chosen, or the default one for the target of the schema."""
    if kind is None and schema.target is None:
        raise InputError(
            "the schema declares no target: say with --model whether classes (logistic, svc) or numbers (ridge, huber, "
            "quantile) are to be predicted, or declare it"
        )
    kind = kind or ("ridge" if isinstance(schema.target, Range) else "logistic")
    for name, model in _OPTIONS.items():
        value = options.pop(name)
        if value is not None and kind != model:
            raise InputError(f"--{name} goes with --model {model}")
        if value is not None:
            options[name] = value
    return _MODELS[kind](schema=schema, **options)
