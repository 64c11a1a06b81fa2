"""A schema as a form, with fields for each column. A person or a codebook fills it in, never rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from dpconvex.data.schema import FORMAT, Schema
from dpconvex.errors import DpconvexError, InputError
from dpconvex.plain import read_json

__all__ = ["EMPTY", "KINDS", "changed", "shown", "unfinished"]

KINDS = {"": "choose", "number": "number", "category": "category", "date": "date", "ignore": "not used"}
EMPTY: dict[str, Any] = {"format": FORMAT, "name": "default", "rows_per_person": 1, "columns": {}}
_TEXTS = ("first", "last", "format", "decimal", "why")
_CHOICES = ("missing", "unknown")


def changed(draft: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The draft after a form was sent: a column more or less, a codebook, a file, or what the fields say.

    Examples
    --------
    >>> draft = changed(EMPTY, {"do": "add", "new": "age, ward"})
    >>> list(draft["columns"])
    ['age', 'ward']
    >>> sent = {"do": "keep", "name": "clinic", "rows_per_person": "2", "name-0": "age", "type-0": "number",
    ...     "low-0": "18", "high-0": "110", "name-1": "ward", "type-1": "category", "categories-1": "A, B"}
    >>> Schema.from_dict(changed(draft, sent)).columns["ward"]
    Category(categories=('A', 'B'), missing='zeros', unknown='missing', markers=())
    """
    do = form.get("do", "keep")
    if do == "empty":
        return deepcopy(EMPTY)
    if do == "codebook":
        return _from_codebook(form)
    if do == "open":
        found = read_json(form.get("text", ""), "the schema", InputError)
        return Schema.from_dict(found).to_dict()
    made = _from_fields(form) if any(key.startswith("name-") for key in form) else deepcopy(dict(draft))
    if do == "add":
        for name in _split(form.get("new", "")):
            made["columns"].setdefault(name, {"type": None})
    if do.startswith("remove-"):
        name = form.get(f"name-{do.removeprefix('remove-')}", "")
        made["columns"].pop(name, None)
    return made


def unfinished(draft: Mapping[str, Any]) -> str:
    """What is still to be done, nothing if the draft is a schema.

    Examples
    --------
    >>> unfinished(EMPTY)
    'Add the columns of the table, or use a codebook.'
    """
    if not draft["columns"]:
        return "Add the columns of the table, or use a codebook."
    try:
        Schema.from_dict(draft)
    except DpconvexError as error:
        return str(error)
    return ""


def shown(draft: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the fields of each column show.

    Examples
    --------
    >>> shown({"columns": {"age": {"type": "number", "low": 18, "high": None, "typical": [20, 80]}}})[0]["typical_low"]
    '20'
    """
    rows = []
    for name, column in draft["columns"].items():
        row: dict[str, Any] = {key: _text(column.get(key)) for key in (*_TEXTS, *_CHOICES, "low", "high", "type")}
        typical = column.get("typical") or ("", "")
        row |= {"name": name, "log": bool(column.get("log")), "typical_low": _text(typical[0])}
        row |= {"typical_high": _text(typical[1])}
        row |= {key: _joined(column.get(key)) for key in ("categories", "markers")}
        rows.append(row)
    return rows


def _from_fields(form: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[int, dict[str, str]] = {}
    for key, value in form.items():
        what, _, place = key.rpartition("-")
        if what and place.isdecimal():
            fields.setdefault(int(place), {})[what] = value.strip()
    columns: dict[str, Any] = {}
    for _, given in sorted(fields.items()):
        name = given.get("name", "")
        if name in columns:
            raise InputError(f"there are two columns {name!r}: names must differ")
        columns[name] = _column(given)
    made: dict[str, Any] = {"format": FORMAT, "name": form.get("name", "").strip() or "default", "columns": columns}
    made["rows_per_person"] = _number(form.get("rows_per_person", ""), "rows per person")
    if source := form.get("source", "").strip():
        made["source"] = source
    if target := form.get("target", "").strip():
        made["target"] = _target(target, form)
    return made


def _column(fields: Mapping[str, str]) -> dict[str, Any]:
    kind = fields.get("type", "")
    if kind not in KINDS:
        raise InputError(f"there is no type {kind!r}")
    found: dict[str, Any] = {"type": kind or None}
    if kind == "number":
        found |= {end: _number(fields.get(end, ""), end) for end in ("low", "high")}
        typical = [_number(fields.get(f"typical_{end}", ""), "typical") for end in ("low", "high")]
        found |= {"typical": typical} if None not in typical else {}
        found |= {"log": True} if fields.get("log") else {}
        found |= {"decimal": fields["decimal"]} if fields.get("decimal") else {}
    if kind == "category":
        found["categories"] = _split(fields.get("categories", "")) or None
    if kind == "date":
        found |= {end: fields.get(end) or None for end in ("first", "last")}
        found |= {"format": fields["format"]} if fields.get("format") else {}
    if kind in ("number", "category", "date"):
        found |= {"markers": _split(fields["markers"])} if fields.get("markers") else {}
        found |= {key: fields[key] for key in _CHOICES if fields.get(key)}
    if kind == "ignore" and fields.get("why"):
        found["why"] = fields["why"]
    return found


def _target(name: str, form: Mapping[str, str]) -> dict[str, Any]:
    if form.get("predicts", "classes") == "classes":
        return {"name": name, "classes": _split(form.get("classes", "")) or None}
    return {"name": name, **{end: _number(form.get(f"target_{end}", ""), end) for end in ("low", "high")}}


def _from_codebook(form: Mapping[str, str]) -> dict[str, Any]:
    rows = list(csv.DictReader(io.StringIO(form.get("text", ""))))
    if not rows or not rows[0]:
        raise InputError("a codebook is a table with a header and a line for each column: name, type, range, ...")
    book = {str(key): [str(row.get(key) or "") for row in rows] for key in rows[0] if key is not None}
    known = next((key for key in book if key.strip().lower() in ("name", "column", "variable", "field")), None)
    if known is None:
        raise InputError("a codebook needs a column `name` with the name of each column")
    made = Schema.draft([name for name in book[known] if name], target=form.get("target") or None, codebook=book)
    return {**made, "rows_per_person": made["rows_per_person"] or 1}


def _split(words: str) -> list[str]:
    """A list written with commas, or with line breaks.

    Examples
    --------
    >>> _split("A, B,,C")
    ['A', 'B', 'C']
    """
    return [word.strip() for line in words.splitlines() for word in line.split(",") if word.strip()]


def _number(words: str, what: str) -> int | float | None:
    words = words.strip()
    if not words:
        return None
    try:
        number = float(words)
    except ValueError:
        raise InputError(f"{what} must be a number") from None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _text(value: Any) -> str:
    return "" if value is None else f"{value}"


def _joined(values: Any) -> str:
    return ", ".join(map(str, values or ()))
