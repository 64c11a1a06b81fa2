"""What is public about a table: which columns it has, their ranges and categories, and what is to be predicted.

A schema is written by a person from what is known without looking at rows. Everything the library does with a table
before the noise follows from it, so that nothing has to be read off the data. Every cell has a value under it, whatever
it holds: no table is refused for what its rows say.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.data import frames
from dpconvex.data.codebook import declarations_from_codebook, declarations_from_public, filled
from dpconvex.data.columns import (
    COLUMNS,
    Category,
    Classes,
    Column,
    Date,
    Ignore,
    Number,
    Range,
    check_name,
    listed,
)
from dpconvex.errors import InputError
from dpconvex.hints import named
from dpconvex.plain import open_text, plain_text, read_json
from dpconvex.words import as_html

__all__ = ["Category", "Classes", "Date", "Ignore", "Number", "Range", "Schema"]

FORMAT, EARLIER = "dpconvex-schema/2", "dpconvex-schema/1"
_ENDS = ("low", "high")
_TARGET = "the target"


@named
@dataclass(frozen=True)
class Schema:
    """The public facts of a table.

    Parameters
    ----------
    columns : mapping from name to Number, Category, Date or Ignore
        Every column of the table but the target, in order.
    target : Classes or Range, optional
    rows_per_person : int
        Most rows that one person can have.
    name : str
        The data set, under which fits are charged to the account of the process.
    source : str
        Where all of this is known from: reports state it.

    Examples
    --------
    >>> schema = Schema({"age": Number(18, 100), "sex": Category(["F", "M"])}, target=Classes("ill", [0, 1]))
    >>> schema.check({"age": [40, 75], "sex": ["F", "m"], "ill": [1, None]})
    {'sex': {'not declared': 1}, 'ill': {'missing': 1}}
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    columns: Mapping[str, Column] = field(hash=False)
    target: Classes | Range | None = None
    rows_per_person: int = 1
    name: str = "default"
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InputError("columns must be a mapping from names to Number, Category, Date or Ignore")
        for name, column in self.columns.items():
            check_name("a column", name)
            if not isinstance(column, Column):
                raise InputError(f"column {name!r} must be declared as Number, Category, Date or Ignore")
        if all(isinstance(column, Ignore) for column in self.columns.values()):
            raise InputError("columns must declare at least one column that is used")
        if not isinstance(self.target, Classes | Range | None):
            raise InputError("target must be Classes, Range or None")
        if self.target is not None and self.target.name in self.columns:
            raise InputError(f"{self.target.name!r} is declared both as a column and as the target; keep one")
        rows = self.rows_per_person
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InputError("rows_per_person must be a whole number of at least 1")
        check_name("the schema", self.name)
        plain_text(self.source, "source")
        object.__setattr__(self, "columns", dict(self.columns))

    def check(self, frame: Any) -> dict[str, dict[str, int]]:
        """Count the cells that do not fit, by column: missing, of another kind, outside the range, not declared.

        For whoever may see the rows: the counts are exact, and no guarantee covers them. A fit needs no such check: it
        has a substitute for every cell, and rows without a target have weight 0.

        Raises
        ------
        InputError
            If the table lacks columns, or has others than those declared.
        """
        table = self.open(frame)
        used = self._used
        found = {name: c.misfits(name, _marked(c, table.column(name))) for name, c in used.items()}
        if self.target is not None and self.target.name in table.names:
            found[self.target.name] = self.target.misfits(table.column(self.target.name))
        return {name: counts for name, counts in found.items() if counts}

    def open(self, frame: Any) -> frames.Table:
        """Open a table that has the columns of the schema."""
        table = frames.open_table(frame, list(self.columns))
        self._check_names(table.names)
        return table

    def read(self, frame: Any) -> tuple[int, dict[str, np.ndarray]]:
        """Number of rows, and the cells of every column that is used as its declaration reads them."""
        table = self.open(frame)
        return table.n, {name: _read_column(table, name, column) for name, column in self._used.items()}

    @property
    def _used(self) -> dict[str, Number | Category | Date]:
        return {name: column for name, column in self.columns.items() if not isinstance(column, Ignore)}

    def read_target(self, frame: Any) -> np.ndarray:
        """The target column of a table, encoded: class indices, or numbers within the range, -1 or NaN for none."""
        if self.target is None:
            raise InputError("the schema declares no target")
        table = frames.open_table(frame, list(self.columns))
        if self.target.name not in table.names:
            raise InputError(f"the table has no column {self.target.name!r}, which the schema declares as its target")
        return table.read(self.target.name, self.target.encode, isinstance(self.target, Range))

    def _check_names(self, names: Sequence[str]) -> None:
        needed = [name for name, column in self.columns.items() if not isinstance(column, Ignore)]
        if absent := [name for name in needed if name not in names]:
            raise InputError(f"the table lacks columns that the schema declares: {listed(absent)}")
        known = set(self.columns) | ({self.target.name} if self.target else set())
        if extra := [name for name in names if name not in known]:
            raise InputError(
                f"the table has columns that the schema does not declare: {listed(extra)}; "
                "declare them, or say Ignore for those that are not to be used"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain description, read back by `from_dict`."""
        kinds = {kind: name for name, kind in COLUMNS.items()}
        description: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "rows_per_person": self.rows_per_person,
            **({"source": self.source} if self.source else {}),
            "columns": {name: {"type": kinds[type(c)], **_fields(c)} for name, c in self.columns.items()},
        }
        if isinstance(self.target, Classes):
            description["target"] = {"name": self.target.name, "classes": list(self.target.labels)}
        elif self.target is not None:
            description["target"] = _fields(self.target)
        return description

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> Schema:
        """Rebuild a schema from `to_dict`, or from a draft in which nothing is left to fill in."""
        if not isinstance(description, Mapping) or description.get("format") not in (FORMAT, EARLIER):
            raise InputError(f'a schema is an object with "format": "{FORMAT}"')
        known = ("format", "name", "rows_per_person", "source", "columns", "target", "$schema")
        _known_keys("the schema", description, known)
        columns = description.get("columns")
        if not isinstance(columns, Mapping):
            raise InputError('"columns" must be an object from names to declarations')
        if description["format"] == EARLIER:
            columns = {name: _of_format_1(column) for name, column in columns.items()}
        target = _one_target(description.get("target"))
        declared = {f"column {name!r}": (column, _column_form) for name, column in columns.items()}
        if target is not None:
            declared[_TARGET] = (target, _target_form)
        lacking = {what: holes for what, part in declared.items() if (holes := _holes(what, *part))}
        if lacking.get(_TARGET) == ["classes"] and _ENDS[0] in description["target"]:
            lacking[_TARGET] = ["classes, or low and high,"]
        todo = _todo(lacking)
        if "rows_per_person" in description and description["rows_per_person"] is None:
            todo.append("rows_per_person, the most rows that one person can have")
        if todo:
            raise InputError(f"the schema is not finished; fill in {'; '.join(todo)}")
        made = {what: _make(what, *part) for what, part in declared.items()}
        rest = {key: description[key] for key in ("name", "rows_per_person", "source") if key in description}
        return Schema({name: made[f"column {name!r}"] for name in columns}, target=made.get(_TARGET), **rest)

    def _repr_html_(self) -> str:
        plain = self.to_dict()
        lines = [f"Schema {self.name}, at most {self.rows_per_person} row(s) per person"]
        for name, column in (*plain["columns"].items(), *([("target", plain["target"])] if self.target else ())):
            lines.append(f"  {name}  " + ", ".join(f"{key} {value}" for key, value in column.items()))
        return as_html("\n".join(lines))

    def to_json(self) -> str:
        """The description as JSON text."""
        try:
            return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        except TypeError:
            pass
        raise InputError("labels must be text, numbers or true and false to be written as JSON")

    @staticmethod
    def from_json(text: str) -> Schema:
        """Read a schema from JSON text."""
        return Schema.from_dict(read_json(text, "the schema", InputError))

    def save(self, path: str | Path) -> None:
        """Write the schema to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Schema:
        """Read a schema from a file."""
        return Schema.from_json(open_text(path, "the schema", InputError))

    def to_csvw(self) -> dict[str, Any]:
        """The schema as csvw-eo: CSV on the Web with bounds for differential privacy, as other tools read it."""
        from dpconvex.data.csvw import to_csvw

        return to_csvw(self)

    @staticmethod
    def draft_from_csvw(metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Start a description from csvw-eo metadata; what they do not state stands as None."""
        from dpconvex.data.csvw import draft_from_csvw

        return draft_from_csvw(metadata)

    @staticmethod
    def draft(
        frame_or_names: Any,
        target: str | None = None,
        *,
        codebook: Any = None,
        like: Schema | None = None,
        public: Any = None,
    ) -> dict[str, Any]:
        """Start a description from the header of a table: names and types only, never values.

        What is known already fills it in: a `codebook` (a table with a row for each column: name, type, range,
        categories), `like`, a schema of columns with the same names, or `public`, a table of the same form whose rows
        are public, in this order.

        What a person has to fill in stands as None. A target that may be a class or a number has `classes` as well as
        `low` and `high`: fill in one of the two forms, and leave the other or delete it.

        Examples
        --------
        >>> Schema.draft(["age"])["columns"]
        {'age': {'type': None}}
        """
        columns = {name: _drafted(dtype) for name, dtype in _header(frame_or_names).items()}
        description: dict[str, Any] = {"format": FORMAT, "name": "default", "rows_per_person": None, "columns": columns}
        if target is not None:
            if target not in columns:
                raise InputError(f"there is no column {target!r} to be the target")
            kind = columns.pop(target)["type"]
            ends = {"low": None, "high": None} if kind in (None, "number") else {}
            description["target"] = {"name": target, "classes": None, **ends}
        sources = []
        if codebook is not None:
            sources.append(declarations_from_codebook(codebook))
        if like is not None:
            sources.append(_declarations(like))
        if public is not None:
            sources.append(declarations_from_public(public))
        return filled(description, *sources)


def _declarations(schema: Schema) -> dict[str, dict[str, Any]]:
    """The declarations of a schema in plain form, its target among them."""
    plain = schema.to_dict()
    target = plain.get("target")
    if target is None:
        return dict(plain["columns"])
    if "classes" in target:
        found = {"type": "category", "categories": target["classes"]}
    else:
        found = {"type": "number", "low": target["low"], "high": target["high"]}
    return {**plain["columns"], target["name"]: found}


# Forms -------------------------------------------------------------------------------------------------------------


def _column_form(what: str, description: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Type of a declared column, and its fields by key."""
    kind = description["type"]
    if kind not in COLUMNS:
        raise InputError(f"{what}: there is no type {kind!r}; there are {', '.join(COLUMNS)}")
    return COLUMNS[kind], {f.name: f.name for f in dataclasses.fields(COLUMNS[kind])}


def _of_format_1(column: Any) -> Any:
    """A column of format 1, in which a category had a column for missing values unless it said otherwise."""
    if isinstance(column, Mapping) and column.get("type") == "category":
        return {"missing": "category", **column}
    return column


def _one_target(target: Any) -> Any:
    """A target in one form: a draft has the fields of both, and those of the other are empty."""
    if not isinstance(target, Mapping):
        return target
    numeric = any(target.get(key) is not None for key in _ENDS)
    other = ("classes",) if numeric or "classes" not in target else _ENDS
    return {key: value for key, value in target.items() if key not in other or value is not None}


def _target_form(what: str, description: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    if "low" in description or "high" in description:
        return Range, {"name": "name", "low": "low", "high": "high"}
    return Classes, {"name": "name", "classes": "labels"}


def _holes(what: str, description: Any, form: Any) -> list[str]:
    """Fields that still have to be filled in."""
    if not isinstance(description, Mapping):
        raise InputError(f"{what} must be declared by an object")
    if form is _column_form and description.get("type") is None:
        return ["type"]
    cls, keys = form(what, description)
    _known_keys(what, description, [*(["type"] if form is _column_form else []), *keys])
    needed = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    return [key for key, name in keys.items() if name in needed and description.get(key) is None]


def _todo(holes: Mapping[str, Sequence[str]]) -> list[str]:
    """What is left to fill in, in words: columns that lack the same are named together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for what, keys in holes.items():
        alike.setdefault(tuple(keys), []).append(what)
    return [f"{', '.join(keys)} of {_together(whats)}" for keys, whats in alike.items()]


def _together(whats: Sequence[str]) -> str:
    names = [what.removeprefix("column ") for what in whats]
    return whats[0] if len(whats) == 1 else f"columns {', '.join(names)}"


def _make(what: str, description: Mapping[str, Any], form: Any) -> Any:
    cls, keys = form(what, description)
    try:
        return cls(**{keys[key]: value for key, value in description.items() if key in keys})
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _fields(part: Any) -> dict[str, Any]:
    """Fields that differ from their defaults, with lists for tuples as JSON has them."""
    values = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if getattr(part, f.name) != f.default}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _read_column(table: frames.Table, name: str, column: Number | Category | Date) -> np.ndarray:
    """The cells of a column as its declaration reads them."""
    decimals = isinstance(column, Number) and not column.markers and column.decimal == "."
    return table.read(name, lambda cells: column.read(name, _marked(column, cells)), decimals)


def _marked(column: Number | Category | Date, cells: np.ndarray) -> np.ndarray:
    """Cells with None for those that stand for a missing value."""
    return frames.without(cells, column.markers) if column.markers else cells


def _header(frame: Any) -> dict[str, Any]:
    if isinstance(frame, Mapping):
        types = ((str(name), v if isinstance(v, str) else getattr(v, "dtype", None)) for name, v in frame.items())
        return dict(types)
    if isinstance(frame, list | tuple) and all(isinstance(name, str) for name in frame):
        return dict.fromkeys(frame)
    if isinstance(frame, np.ndarray):
        raise InputError("an array has no header to draft a schema from; give the list of its column names")
    return {str(name): dtype for name, dtype in frames.lazy_frame(frame).collect_schema().items()}


def _drafted(dtype: Any) -> dict[str, Any]:
    name = str(dtype).lower()
    if name.startswith("bool"):
        return {"type": "category", "categories": ["False", "True"]}
    if name.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
        return {"type": "number", "low": None, "high": None}
    if name.startswith(("date", "timestamp")):
        return {"type": "date", "first": None, "last": None}
    if name.startswith(("str", "large_str", "object", "categor", "dictionary", "enum", "<u")):
        return {"type": "category", "categories": None}
    return {"type": None}


def _known_keys(what: str, description: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [str(key) for key in description if key not in known]:
        raise InputError(f"{what}: there is no {listed(unknown)}; there are {', '.join(known)}")
