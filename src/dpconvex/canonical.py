"""Digests of plain JSON, the same in every language, and how format 1 of receipts and models did it.

Canonical JSON is that of RFC 8785. It knows no NaN, no infinity and no whole number beyond 2^53 - 1 in size.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from json.encoder import encode_basestring as quoted  # its escapes are those of RFC 8785, in C
from typing import Any

EARLIER = "dpconvex-receipt/1"


def digest(plain: Any) -> str:
    """sha256 of the canonical JSON form (RFC 8785), the same in every language.

    Examples
    --------
    >>> digest({"b": 1.0, "a": 2**60}) == digest({"a": str(2**60), "b": 1})
    True
    """
    return hashlib.sha256(canonical(plain)).hexdigest()


def canonical(plain: Any) -> bytes:
    """Canonical JSON (RFC 8785) of a portable form.

    A run writes its receipt several times over to digest it, so this is made to be fast.

    Examples
    --------
    >>> canonical({"b": [1.0, 1e21, 5e-7, None], "a": 2**53})
    b'{"a":"9007199254740992","b":[1,1e+21,5e-7,null]}'
    """
    parts: list[str] = []
    _write(plain, parts.append)
    return "".join(parts).encode()


class Written(str):
    """Canonical JSON of a part that is written once and occurs several times.

    Examples
    --------
    >>> part = Written.of({"a": [1.0]})
    >>> canonical([part, {"b": part}])
    b'[{"a":[1]},{"b":{"a":[1]}}]'
    """

    __slots__ = ()

    @classmethod
    def of(cls, plain: Any) -> Written:
        """Write a part."""
        return cls(canonical(plain).decode())


def _write(plain: Any, put: Callable[[str], None]) -> None:
    if isinstance(plain, str):
        put(plain if type(plain) is Written else quoted(plain))
    elif isinstance(plain, dict):
        keys = sorted(plain, key=None if all(map(str.isascii, plain)) else _utf_16)
        before = "{"
        for key in keys:
            put(before + quoted(key) + ":")
            _write(plain[key], put)
            before = ","
        put("}" if keys else "{}")
    elif isinstance(plain, list | tuple):
        before = "["
        for value in plain:
            put(before)
            _write(value, put)
            before = ","
        put("]" if plain else "[]")
    elif plain is None or isinstance(plain, bool):
        put("null" if plain is None else "true" if plain else "false")
    elif isinstance(plain, int):
        put(int.__repr__(plain) if abs(plain) < 2**53 else f'"{int.__repr__(plain)}"')
    elif isinstance(plain, float):
        put(_number(plain))
    else:
        raise TypeError(f"{type(plain).__name__} has no canonical form")


def _utf_16(key: str) -> bytes:
    return key.encode("utf-16be")


def _number(value: float) -> str:
    """Write a number as ECMAScript does: the same digits as Python's, with exponents below -6 and above 20 only."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no canonical form")
    text = float.__repr__(value)
    if "e" not in text:
        return "0" if value == 0.0 else text.removesuffix(".0")
    sign, text = ("-", text[1:]) if value < 0.0 else ("", text)
    digits, power = text.split("e")
    exponent, whole = int(power), digits.replace(".", "")
    if 0 < exponent < 21:
        return sign + whole.ljust(exponent + 1, "0")
    if -7 < exponent < 0:
        return f"{sign}0.{whole.rjust(len(whole) - exponent - 1, '0')}"
    return f"{sign}{digits}e{exponent:+d}"


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
