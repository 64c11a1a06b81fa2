"""The JSON Schema of schemas: editors complete and check them with it."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from dpconvex.data.schema import COLUMNS, EARLIER, FORMAT, Category, Number

__all__ = ["json_schema"]

_END = {"type": ["number", "null"]}
_DAY = {"type": ["string", "null"], "description": "A date like 2015-01-31."}
_LABELS = {"type": ["array", "null"], "items": {"type": ["string", "number", "boolean"]}, "uniqueItems": True}
_FORMS: dict[str, dict[str, Any]] = {
    "low": {**_END, "description": "The smallest value there can be; smaller ones are clipped."},
    "high": {**_END, "description": "The largest value there can be; larger ones are clipped."},
    "log": {"type": "boolean", "description": "Scale by the logarithm: for skewed amounts."},
    "typical": {
        "type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2,
        "description": "Where about nineteen in twenty values lie, from general knowledge.",
    },
    "categories": {**_LABELS, "minItems": 1, "description": "All categories that can occur."},
    "first": _DAY,
    "last": _DAY,
    "format": {"type": "string", "description": "How dates are written, such as %d/%m/%Y."},
    "markers": {
        "type": "array", "items": {"type": ["string", "number"]},
        "description": "Cells that stand for a missing value, such as 999.",
    },
    "decimal": {"enum": list(Number.DECIMAL), "description": "The decimal mark of numbers that are written as text."},
    "why": {"type": "string"},
    "unknown": {"enum": list(Category.UNKNOWN)},
}  # fmt: skip


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of schemas, drafts included: nulls are to be filled in.

    Examples
    --------
    >>> found = json_schema()
    >>> found["required"], sorted(found["$defs"])
    (['format', 'columns'], ['category', 'date', 'ignore', 'number', 'open', 'target'])
    """
    kinds = {name: _of_column(name, kind) for name, kind in COLUMNS.items()}
    target = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "classes": {**_LABELS, "minItems": 2, "description": "All labels, for a target that is one of them."},
            "low": _END,
            "high": _END,
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    unset = {"type": "object", "properties": {"type": {"const": None}}, "required": ["type"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpconvex schema: what is public about a table",
        "type": "object",
        "properties": {
            "$schema": {"type": "string"},
            "format": {"enum": [FORMAT, EARLIER]},
            "name": {"type": "string", "description": "The data set: releases about the same people add up."},
            "rows_per_person": {"type": ["integer", "null"], "minimum": 1},
            "source": {"type": "string", "description": "Where all of this is known from."},
            "columns": {
                "type": "object",
                "additionalProperties": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in (*kinds, "open")]},
            },
            "target": {"$ref": "#/$defs/target"},
        },
        "required": ["format", "columns"],
        "additionalProperties": False,
        "$defs": {**kinds, "open": unset, "target": target},
    }


def _of_column(name: str, kind: Any) -> dict[str, Any]:
    forms = {**_FORMS, "missing": {"enum": list(getattr(kind, "MISSING", Number.MISSING))}}
    return {
        "type": "object",
        "properties": {"type": {"const": name}, **{f.name: forms[f.name] for f in fields(kind)}},
        "required": ["type", *(f.name for f in fields(kind) if f.default is MISSING)],
        "additionalProperties": False,
    }
