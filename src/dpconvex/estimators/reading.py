"""Read whatever holds a receipt, from text: the receipt itself, a model, or an evaluation."""

from __future__ import annotations

from typing import Any

from dpconvex.canonical import EARLIER
from dpconvex.errors import VerificationError
from dpconvex.estimators import evaluate, store
from dpconvex.kernel.receipt import FORMAT, Receipt
from dpconvex.plain import read_json

__all__ = ["read_release"]


def read_release(text: str) -> tuple[Receipt, str]:
    """Receipt in a text, and "receipt", "model" or "evaluation", as the text was.

    The digests of a model and of an evaluation are checked, and that they follow from their receipts. Whether the
    receipt holds is for `verify` to say.

    Raises
    ------
    VerificationError
        If the text is none of these, or was altered.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1])
    >>> receipt = model.fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50).receipt_
    >>> read_release(receipt.to_json())[1]
    'receipt'
    """
    kind = _format(text)
    if kind in (FORMAT, EARLIER):
        return Receipt.from_json(text), "receipt"
    if kind == evaluate.FORMAT:
        return evaluate.Evaluation.from_json(text).receipt, "evaluation"
    if isinstance(kind, str) and kind.startswith("dpconvex-model/"):
        receipt: Receipt = store.rebuild(store.parse_model(text)).receipt_
        return receipt, "model"
    raise VerificationError("this is no model, evaluation or receipt of dpconvex")


def _format(text: str) -> Any:
    """The format that a text says it has."""
    data = read_json(text, "the text", VerificationError)
    return data.get("format") if isinstance(data, dict) else None
