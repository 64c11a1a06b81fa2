"""Fill in a drafted schema from what is public: a codebook, a file that is public, or another schema.

A source gives a declaration in plain form for each column it knows. The sources are asked in order, and a later one
fills only what the earlier ones left open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpconvex.data import frames
from dpconvex.errors import InputError

__all__ = ["declarations_from_codebook", "declarations_from_public", "filled"]

Declaration = dict[str, Any]
MOST_CATEGORIES = 1000  # of a column that is read from a public file
_NAMES = {
    "name": ("name", "column", "variable", "field"),
    "type": ("type", "kind", "datatype"),
    "low": ("low", "min", "minimum", "first", "from"),
    "high": ("high", "max", "maximum", "last", "to"),
    "range": ("range", "bounds"),
    "categories": ("categories", "values", "levels", "codes", "classes"),
    "typical": ("typical", "reference range"),
    "missing": ("missing",),
    "markers": ("markers", "missing codes", "missing markers"),
    "format": ("format", "date format"),
    "log": ("log",),
    "decimal": ("decimal", "decimal mark"),
    "unknown": ("unknown",),
    "why": ("why",),
}
_TYPES = {
    "number": ("number", "numeric", "integer", "int", "float", "real", "double", "decimal", "continuous"),
    "category": (
        "category",
        "categorical",
        "factor",
        "nominal",
        "ordinal",
        "string",
        "text",
        "boolean",
        "bool",
        "binary",
    ),
    "date": ("date", "datetime", "timestamp"),
    "ignore": ("ignore", "ignored", "skip", "id", "identifier", "none"),
}
_BETWEEN = (r"\.\.|…|\bto\b|–|;|,", r"(?<=[0-9])\s*-")  # the ends of a range; a minus only if there is nothing else
_YES = ("true", "yes", "1")


def filled(description: Mapping[str, Any], *sources: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return a drafted description with declarations of the sources, in order of precedence.

    Examples
    --------
    >>> from dpconvex.data.schema import Schema
    >>> draft = Schema.draft(["age", "ill"], target="ill")
    >>> known = {"age": {"type": "number", "low": 0, "high": 100}}
    >>> done = filled(draft, known, {"ill": {"type": "category", "categories": ["no", "yes"]}})
    >>> done["columns"], done["target"]
    ({'age': {'type': 'number', 'low': 0, 'high': 100}}, {'name': 'ill', 'classes': ['no', 'yes']})
    """
    columns = {}
    for name, drafted in description["columns"].items():
        found = _merged(name, sources)
        columns[name] = _keeping(drafted, found) if found else dict(drafted)
    target = description.get("target")
    if target is not None and (found := _merged(target["name"], sources)):
        target = {"name": target["name"], **_as_target(found, target)}
    return {**description, "columns": columns, **({"target": target} if target is not None else {})}


def _merged(name: str, sources: Sequence[Mapping[str, Declaration]]) -> Declaration:
    """What the sources say of a column; the first that states a type rules."""
    found: Declaration = {}
    for source in sources:
        known = source.get(name, {})
        if found.get("type") is None or known.get("type") in (None, found["type"]):
            found = {**known, **{key: value for key, value in found.items() if value is not None}}
    return found


def _keeping(drafted: Mapping[str, Any], found: Declaration) -> Declaration:
    """The declaration that was found, with what the draft knew where both are of one type."""
    if found.get("type") not in (None, drafted.get("type")):
        return {**_open(found["type"]), **found}
    return {**drafted, **found, "type": found.get("type") or drafted.get("type")}


def _open(kind: str) -> Declaration:
    """A declaration of which everything is to be filled in."""
    needed = {"number": ("low", "high"), "category": ("categories",), "date": ("first", "last")}
    return {"type": kind, **dict.fromkeys(needed.get(kind, ()))}


def _as_target(found: Declaration, drafted: Mapping[str, Any]) -> Declaration:
    if found.get("type") == "category":
        return {"classes": found.get("categories")}
    if found.get("type") == "number":
        return {"low": found.get("low"), "high": found.get("high")}
    return {key: value for key, value in drafted.items() if key != "name"}


# Codebooks -----------------------------------------------------------------------------------------------------------


def declarations_from_codebook(table: Any) -> dict[str, Declaration]:
    """Read the declarations of a codebook: a table with a row for each column.

    Its columns are `name`, `type`, `low` and `high` or `range`, `categories` (with | between them; "1 = male" is the
    category 1), and those of a declaration: `missing`, `markers`, `format`, `decimal`, `typical`, `log`, `unknown`,
    `why`. Usual other names are known (variable, min, max, values, ...); further columns are left alone.

    Examples
    --------
    >>> book = {"variable": ["age", "sex", "seen"], "range": ["18-100", "", "2020-01-01 to 2024-12-31"],
    ...     "values": ["", "1 = male | 2 = female", ""]}
    >>> found = declarations_from_codebook(book)
    >>> found["age"], found["sex"]
    ({'type': 'number', 'low': 18, 'high': 100}, {'type': 'category', 'categories': ['1', '2']})
    >>> found["seen"]
    {'type': 'date', 'first': '2020-01-01', 'last': '2024-12-31'}
    """
    opened = frames.open_table(table, ())
    places = {
        key: next((name for name in opened.names if name.strip().lower() in known), None)
        for key, known in _NAMES.items()
    }
    if places["name"] is None:
        raise InputError("a codebook needs a column `name` with the name of each column")
    cells = {key: opened.column(name).tolist() for key, name in places.items() if name is not None}
    found: dict[str, Declaration] = {}
    for i in range(opened.n):
        row = {key: frames.text(column[i]) for key, column in cells.items() if not frames.is_missing(column[i])}
        if (name := row.pop("name", None)) is None:
            raise InputError(f"the codebook names no column in row {i + 1}")
        if name in found:
            raise InputError(f"the codebook names column {name!r} twice")
        found[name] = _declared(name, row)
    return found


def _declared(name: str, row: dict[str, str]) -> Declaration:
    ends: list[Any] = [row.get("low"), row.get("high")]
    if "range" in row:
        ends = _ends(name, "range", row["range"])
    categories = [part.split("=")[0].strip() for part in _listed(row["categories"])] if "categories" in row else None
    if categories is None and row.get("type", "").lower() in ("bool", "boolean"):
        categories = ["False", "True"]
    kind = _kind(name, row.get("type"), ends, categories)
    declared: Declaration = {"type": kind}
    if kind == "number":
        declared |= {key: _number(name, key, end) for key, end in zip(("low", "high"), ends, strict=True) if end}
        if "typical" in row:
            declared["typical"] = [_number(name, "typical", end) for end in _ends(name, "typical", row["typical"])]
        if "log" in row:
            declared["log"] = row["log"].lower() in _YES
        declared |= {key: row[key] for key in ("decimal",) if key in row}
    elif kind == "date":
        declared |= {key: end for key, end in zip(("first", "last"), ends, strict=True) if end}
        declared |= {key: row[key] for key in ("format",) if key in row}
    elif kind == "category":
        declared |= {"categories": categories} if categories else {}
        declared |= {key: row[key] for key in ("unknown",) if key in row}
    elif kind == "ignore":
        return declared | {key: row[key] for key in ("why",) if key in row}
    if "missing" in row:
        declared["missing"] = row["missing"]
    if "markers" in row:
        declared["markers"] = _listed(row["markers"])
    return declared


def _kind(name: str, stated: str | None, ends: Sequence[Any], categories: Any) -> str | None:
    """The type that is stated, or that follows from what else is."""
    if stated is not None:
        for kind, known in _TYPES.items():
            if stated.lower() in known:
                # Codes that are numbers are categories if they are listed.
                return "category" if categories and kind == "number" and not any(ends) else kind
        raise InputError(f"codebook, column {name!r}: there is no type {stated!r}; there are {', '.join(_TYPES)}")
    if categories:
        return "category"
    if all(ends):
        cells = np.array(ends, dtype=object)
        numbers = frames.read_numbers(cells)
        return "date" if numbers is None or np.isnan(numbers).any() else "number"
    return None


def _ends(name: str, key: str, text: str) -> list[Any]:
    for between in _BETWEEN:
        if match := re.fullmatch(rf"\s*(.+?)\s*(?:{between})\s*(.+?)\s*", text.strip("[]() ")):
            return list(match.groups())
    raise InputError(f"codebook, column {name!r}: {key} must be like 18-100 or 2015-01-01 to 2024-12-31")


def _listed(text: str) -> list[str]:
    separator = next((mark for mark in "|;" if mark in text), ",")
    return [part.strip() for part in text.split(separator) if part.strip()]


def _number(name: str, key: str, text: Any) -> Any:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"codebook, column {name!r}: {key} must be a number") from None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


# Public files and other schemas --------------------------------------------------------------------------------------


def declarations_from_public(table: Any) -> dict[str, Declaration]:
    """Read declarations off a table whose rows are public: ranges, categories and dates that occur in it.

    Never give it rows that need protection: what is declared is published.

    Examples
    --------
    >>> found = declarations_from_public({"age": ["18", "97", ""], "day": ["2024-02-01", "2024-03-05", ""]})
    >>> found["age"], found["day"]["last"]
    ({'type': 'number', 'low': 18, 'high': 97}, '2024-03-05')
    """
    opened = frames.open_table(table, ())
    return {name: _observed(opened.column(name)) for name in opened.names}


def _observed(cells: np.ndarray) -> Declaration:
    known = np.array([cell for cell in cells.tolist() if not frames.is_missing(cell)], dtype=object)
    if not len(known):
        return {"type": None}
    numbers = None if isinstance(known[0], bool) or cells.dtype.kind == "M" else frames.read_numbers(known)
    if numbers is not None and np.isfinite(numbers).all():
        low, high = (_number("", "", end) for end in (numbers.min(), numbers.max()))
        return {"type": "number", "low": low, "high": high} if low < high else _open("number")
    days = frames.read_days(cells[~np.isnat(cells)] if cells.dtype.kind == "M" else known)
    if days is not None and np.isfinite(days).all():
        first, last = (str(np.datetime64(math.floor(end), "D")) for end in (days.min(), days.max()))
        return {"type": "date", "first": first, "last": last} if first < last else _open("date")
    categories = sorted(set(frames.as_texts(known).tolist()))
    told = len(categories) <= MOST_CATEGORIES and all(category.isprintable() for category in categories)
    return {"type": "category", "categories": categories if told else None}
