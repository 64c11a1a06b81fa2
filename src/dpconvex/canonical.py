"""Digests of plain JSON, the same in every language, and how format 1 of receipts and models did it.

Canonical JSON is that of RFC 8785. It knows no NaN, no infinity and no whole number beyond 2^53 - 1 in size.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785

EARLIER = "dpconvex-receipt/1"


def digest(plain: Any) -> str:
    """sha256 of the canonical JSON form (RFC 8785), the same in every language.

    Examples
    --------
    >>> digest({"b": 1.0, "a": 2**60}) == digest({"a": str(2**60), "b": 1})
    True
    """
    return hashlib.sha256(rfc8785.dumps(portable(plain))).hexdigest()


def portable(plain: Any) -> Any:
    """Plain form that every reader of JSON understands alike: whole numbers beyond 2^53 - 1 in size become text."""
    if isinstance(plain, dict):
        return {key: portable(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [portable(value) for value in plain]
    return str(plain) if isinstance(plain, int) and abs(plain) >= 2**53 else plain


def earlier_digest(plain: Any) -> str:
    """Digest of format 1, whose numbers are as Python writes them."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sections_of_format_1(data: dict[str, Any]) -> dict[str, Any]:
    """Receipt of format 1 as the sections of format 2, without those it does not have."""
    guarantee, noise = data["guarantee"], data["noise"]
    fields = ("library", "algorithm", "problem", "n", "d", "budget", "gradient_evaluations")
    return {
        "format": EARLIER,
        "plan": {**{key: data[key] for key in fields}, "digest": data["plan"]},
        "claim": {**guarantee, "derivation": data["claim"]},
        "arithmetic": {
            "numbers": noise["arithmetic"],
            "source": noise["source"],
            "private": noise["private"],
            "drawn": data["drawn"],
            "trusted_loops": data.get("trusted_loops"),
        },
        "outside": {"read_from_data": data["read_from_data"]},
        "dataset": {
            "name": data["dataset"],
            "unit": guarantee["unit"],
            "declared": data["declared"],
            "stream": data.get("stream"),
        },
        "released": data["released"],
        "digest": data["digest"],
    }
