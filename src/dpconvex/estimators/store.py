"""Fitted models as files: JSON that holds the receipt, and never runs code when it is read."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import algorithms
from dpconvex.algorithms.again import algorithm_of
from dpconvex.canonical import digest, earlier_digest
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError, VerificationError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.table import declared_digest, plain_facts, read_facts
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import check_plain, open_text, read_json
from dpconvex.plan.run import plain_form
from dpconvex.problem import bounds
from dpconvex.verify import verify

FORMAT = "dpconvex-model/2"
_DIGESTS = {FORMAT: digest, "dpconvex-model/1": earlier_digest}  # by format
_LEFT_OUT = ("random_state",)  # a loaded model must not repeat the noise of a test


def save(model: PrivateLinearModel, path: str | Path) -> None:
    """Write a fitted model to a file."""
    body = {
        **model._facts(),
        "format": FORMAT,
        "params": {k: _plain(v) for k, v in model.get_params(deep=False).items() if k not in _LEFT_OUT},
        "weights": model.weights_.tolist(),
        "moments": plain_facts(getattr(model, "moments_", {})),
        "receipt": model.receipt_.data,
    }
    check_plain(body, "the model", InputError)
    text = json.dumps({**body, "digest": digest(body)}, indent=1, allow_nan=False, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote, and verify its receipt.

    The check finds accidents. It does not stop somebody who rewrites the whole file: sign the file against that.

    Returns
    -------
    The fitted model, of the class that was saved.

    Raises
    ------
    VerificationError
        If the file is not a model, was altered, or its receipt does not hold.
    InputError
        If the file cannot be opened.

    Examples
    --------
    >>> import tempfile, numpy as np, dpconvex as dc
    >>> model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1])
    >>> X = np.eye(2)[[0, 1] * 50]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.fit(X, X[:, 0]).save(f"{folder}/model.json")
    ...     again = dc.load(f"{folder}/model.json")
    >>> np.array_equal(again.predict_proba(X), model.predict_proba(X)), again.receipt_ == model.receipt_
    (True, True)
    """
    data = read_json(open_text(path, "the model", VerificationError), "the model", VerificationError)
    if not isinstance(data, dict) or data.get("format") not in _DIGESTS:
        raise VerificationError(f"not a model: format {FORMAT!r} expected")
    if data.get("digest") != _DIGESTS[data["format"]]({k: v for k, v in data.items() if k != "digest"}):
        raise VerificationError("the model was altered: its digest does not match")
    try:
        return _rebuilt(data)
    except VerificationError:
        raise
    except Exception as error:  # whatever a file provokes, it is refused
        raise VerificationError(f"the model cannot be read: {type(error).__name__}") from error


def _rebuilt(data: dict[str, Any]) -> Any:
    import dpconvex

    kind = getattr(dpconvex, data["estimator"], None)
    if not isinstance(kind, type) or not issubclass(kind, PrivateLinearModel):
        raise VerificationError(f"no such estimator: {data['estimator']!r}")
    receipt = Receipt(data["receipt"])
    verify(receipt)
    model = kind(**{k: _read(v) for k, v in data["params"].items()})
    for field in ("epsilon", "delta", "relation"):
        if receipt.sections["plan"]["budget"][field] != data["params"][field]:
            raise VerificationError(f"{field} differs from the receipt")
    public = {name: data["public"][name] for name in model.PUBLIC}
    schema = (data["params"].get("schema") or {"schema": None})["schema"]  # as it was written, of whatever format
    if receipt.sections["dataset"]["declared"] != declared_digest(schema, public, _DIGESTS[data["format"]]):
        raise VerificationError("the schema, the classes or the range differ from those of the receipt")
    weights = np.array(data["weights"], dtype=np.float64)
    if not receipt.covers(weights):
        raise VerificationError("the weights differ from those of the receipt")
    model._restore_features(data)
    for name, fact in {**read_facts(public), "weights_": weights, "receipt_": receipt}.items():
        setattr(model, name, fact)
    if data["moments"]:
        model.moments_ = {name: np.array(values) for name, values in data["moments"].items()}
    return model


def _plain(value: Any) -> Any:
    if isinstance(value, Schema):
        return {"schema": value.to_dict()}
    if is_dataclass(value) and not isinstance(value, type):
        return plain_form(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _read(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    if "schema" in plain:
        return Schema.from_dict(plain["schema"])
    if plain["name"] in algorithms.names():
        return algorithm_of(plain)
    if plain["name"] not in bounds.__all__:
        raise VerificationError("a parameter of the model is of no known kind")
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items() if k != "name"}
    return getattr(bounds, plain["name"])(**fields)
