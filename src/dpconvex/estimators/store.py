"""Fitted models as files: JSON that holds the receipt, and never runs code when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpconvex import algorithms
from dpconvex.algorithms.again import algorithm_of
from dpconvex.canonical import digest, earlier_digest
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError, VerificationError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.table import declared_digest, plain_facts, read_facts
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.signatures import MODEL, RECEIPT, add_signature, check_signatures, is_envelope, sign
from dpconvex.plain import check_plain, open_text, read_json
from dpconvex.plan.run import plain_form
from dpconvex.problem import bounds
from dpconvex.verify import verify

FORMAT = "dpconvex-model/2"
_DIGESTS = {FORMAT: digest, "dpconvex-model/1": earlier_digest}  # by format
_LEFT_OUT = ("random_state", "start")  # a loaded model must not repeat the noise of a test; the receipt holds the start


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
    write_model({**body, "digest": digest(_bare(body))}, path)


def write_model(data: Mapping[str, Any], path: str | Path) -> None:
    """Write a model in plain form to a file."""
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def sign_model(data: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """A model in plain form whose receipt and whose file are signed."""
    receipt = sign(Receipt(data["receipt"]), key).data
    signature = add_signature(_bare(data), MODEL, key)["signature"]
    return {**data, "receipt": receipt, "signature": signature}


def check_model(data: Mapping[str, Any], trusted: Mapping[str, tuple[str, Ed25519PublicKey]]) -> tuple[str, ...]:
    """Whose signatures a model in plain form has; a `SignatureError` if there is none to trust, or one is forged."""
    check_signatures(data["receipt"], RECEIPT, trusted)
    return check_signatures(_bare(data), MODEL, trusted)


def _bare(data: Mapping[str, Any]) -> dict[str, Any]:
    """A model whose receipt is not signed: signatures of receipts and of models do not depend on each other."""
    receipt = data["receipt"]
    return {**data, "receipt": {**receipt, "signature": None} if "signature" in receipt else receipt}


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote, and verify its receipt.

    The check finds accidents. It does not stop somebody who rewrites the whole file: have it signed, and check whose
    signature it has (`dpconvex sign`, `dpconvex verify --trust`).

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
    return rebuild(read_model(path))


def rebuild(data: dict[str, Any]) -> Any:
    """Make a model from its plain form, and verify its receipt."""
    try:
        return _rebuilt(data)
    except VerificationError:
        raise
    except Exception as error:  # whatever a file provokes, it is refused
        raise VerificationError(f"the model cannot be read: {type(error).__name__}") from error


def read_model(path: str | Path) -> dict[str, Any]:
    """Read the plain form of a model from a file, and check its digest."""
    return parse_model(open_text(path, "the model", VerificationError))


def parse_model(text: str) -> dict[str, Any]:
    """Read the plain form of a model from text, and check its digest."""
    data = read_json(text, "the model", VerificationError)
    if not isinstance(data, dict) or data.get("format") not in _DIGESTS:
        raise VerificationError(f"not a model: format {FORMAT!r} expected")
    if not isinstance(data.get("receipt"), dict):
        raise VerificationError("the model has no receipt")
    body = {name: value for name, value in _bare(data).items() if name not in ("digest", "signature")}
    if data.get("digest") != _DIGESTS[data["format"]](body):
        raise VerificationError("the model was altered: its digest does not match")
    if "signature" in data and not is_envelope(data["signature"], MODEL):
        raise VerificationError("the model was altered: its signature has another form")
    return data


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
