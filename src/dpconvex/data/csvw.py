"""Schemas as csvw-eo metadata: CSV on the Web with what differential privacy needs to know of a table.

The form only: https://github.com/dscc-admin-ch/csvw-eo. What csvw-eo has no word for stands under keys with the prefix
`dpconvex:`, which other readers leave alone, so that a schema that was written is read back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpconvex.errors import InputError

if TYPE_CHECKING:
    from dpconvex.data.schema import Schema

__all__ = ["draft_from_csvw", "is_csvw", "to_csvw"]

CONTEXT = "http://www.w3.org/ns/csvw"
_EXTRA = "dpconvex:declared"
_NUMBERS = (
    "integer", "long", "int", "short", "positiveInteger", "unsignedLong", "unsignedInt", "unsignedShort",
    "unsignedByte", "negativeInteger", "decimal", "double", "float", "number",
)  # fmt: skip
_DATES = ("date", "dateTime", "dateTimeStamp", "datetime")


def is_csvw(plain: Any) -> bool:
    """Whether JSON is metadata of CSV on the Web."""
    return isinstance(plain, Mapping) and "tableSchema" in plain


def to_csvw(schema: Schema) -> dict[str, Any]:
    """Return a schema as csvw-eo metadata.

    Examples
    --------
    >>> from dpconvex.data.schema import Category, Number, Schema
    >>> schema = Schema({"age": Number(18, 100), "sex": Category(["F", "M"])}, rows_per_person=3, name="visits")
    >>> found = to_csvw(schema)
    >>> found["maxContributions"], [column["datatype"] for column in found["tableSchema"]["columns"]]
    (3, ['double', 'string'])
    >>> Schema.from_dict(draft_from_csvw(found)) == schema
    True
    """
    plain = schema.to_dict()
    columns = [_column(name, declared) for name, declared in plain["columns"].items()]
    target = plain.get("target")
    if target is not None:
        kind = (
            {"type": "category", "categories": target["classes"]}
            if "classes" in target
            else {"type": "number", **target}
        )
        columns.append({**_column(target["name"], kind), "required": True, _EXTRA: {"target": target}})
    return {
        "@context": [CONTEXT],
        "@type": "Table",
        "maxContributions": plain["rows_per_person"],
        "tableSchema": {"columns": columns},
        _EXTRA: {key: plain[key] for key in ("name", "source") if key in plain},
    }


def _column(name: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    kind = declared["type"]
    found: dict[str, Any] = {"@type": "Column", "name": name}
    if kind == "number":
        found |= {"datatype": "double", "minimum": declared["low"], "maximum": declared["high"]}
    elif kind == "date":
        found |= {"datatype": "dateTime", "minimum": declared["first"], "maximum": declared["last"]}
    else:
        found["datatype"] = "string"
    if kind == "category":
        found |= {"keyValues": list(declared["categories"]), "exhaustiveKeys": True}
    if kind != "ignore":
        found["required"] = False
    return {**found, _EXTRA: dict(declared)}


def draft_from_csvw(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a schema that csvw-eo metadata state; None stands for what they do not.

    Numbers and dates need their minimum and maximum, text the list of its keys or partitions. Columns that identify
    people (`privacyId`) are ignored. The target is for a person to name, unless this library wrote the metadata.

    Examples
    --------
    >>> column = {"name": "age", "datatype": "integer", "minimum": 18, "maximum": 100}
    >>> found = draft_from_csvw({"maxContributions": 2, "tableSchema": {"columns": [column, {"name": "ward"}]}})
    >>> found["columns"], found["rows_per_person"]
    ({'age': {'type': 'number', 'low': 18, 'high': 100}, 'ward': {'type': 'category', 'categories': None}}, 2)
    """
    from dpconvex.data.schema import FORMAT

    columns = metadata["tableSchema"].get("columns") if isinstance(metadata.get("tableSchema"), Mapping) else None
    if not isinstance(columns, list) or not all(
        isinstance(c, Mapping) and isinstance(c.get("name"), str) for c in columns
    ):
        raise InputError('csvw-eo metadata need "tableSchema" with "columns", a list of objects with a "name"')
    names = [column["name"] for column in columns]
    if len(set(names)) < len(names):
        raise InputError("csvw-eo metadata must name every column once")
    extra = metadata.get(_EXTRA)
    own = extra if isinstance(extra, Mapping) else {}
    description: dict[str, Any] = {
        "format": FORMAT,
        "name": own.get("name", "default"),
        "rows_per_person": metadata.get("maxContributions"),
        **({"source": own["source"]} if "source" in own else {}),
        "columns": {},
    }
    for column in columns:
        known = column.get(_EXTRA) if isinstance(column.get(_EXTRA), Mapping) else {}
        if "target" in known:
            description["target"] = known["target"]
        else:
            description["columns"][column["name"]] = dict(known) if known else _declared(column)
    return description


def _declared(column: Mapping[str, Any]) -> dict[str, Any]:
    if column.get("privacyId"):
        return {"type": "ignore", "why": "identifies people"}
    datatype = column.get("datatype", "string")
    if isinstance(datatype, Mapping):  # the long form of CSV on the Web
        column = {**datatype, **column}
        datatype = datatype.get("base", "string")
    keys = _keys(column)
    if keys is not None or datatype in ("string", "boolean"):
        if keys is None and datatype == "boolean":
            keys = ["False", "True"]
        return {"type": "category", "categories": keys}
    low, high = column.get("minimum"), column.get("maximum")
    if datatype in _NUMBERS:
        return {"type": "number", "low": low, "high": high}
    if datatype in _DATES:
        return {"type": "date", "first": low, "last": high}
    return {"type": None}


def _keys(column: Mapping[str, Any]) -> list[Any] | None:
    """The values of a column that are listed: its keys, or the values of its partitions."""
    keys = column.get("keyValues")
    if keys is None and isinstance(column.get("partitions"), list):
        keys = [
            part["predicate"].get("partitionValue")
            for part in column["partitions"]
            if isinstance(part, Mapping) and isinstance(part.get("predicate"), Mapping)
        ]
    if not isinstance(keys, list) or any(key is None or isinstance(key, Mapping | list) for key in keys):
        return None
    return keys or None
