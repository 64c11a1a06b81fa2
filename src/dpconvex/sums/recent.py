"""The last few arrays that sums over rows made, kept by what they belong to."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["Recent", "same"]

KEPT = 3  # vectors of predictions, and as many of answers, that are kept
_NAMES: dict[type, tuple[str, ...]] = {}  # of the fields of dataclasses


class Recent:
    """The last few arrays, found by what they belong to: by its content, for callers may change theirs."""

    def __init__(self) -> None:
        self._held: list[tuple[Any, Any]] = []

    def find(self, key: Any) -> Any:
        """Return what was made for it, or None."""
        for k, (known, value) in enumerate(self._held):
            if same(known, key):
                self._held.insert(0, self._held.pop(k))
                return value
        return None

    def add(self, key: Any, value: Any) -> None:
        """Keep what was made for it, in place of what was asked for longest ago."""
        self._held = [(_copied(key), value), *self._held][:KEPT]


def same(a: Any, b: Any) -> bool:
    """Whether two keys have the same content.

    Examples
    --------
    >>> same(np.ones(2), np.ones(2)), same(np.ones(2), np.zeros(2))
    (True, False)
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if names := _field_names(a):
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    return bool(a == b)


def _field_names(value: Any) -> tuple[str, ...]:
    kind = type(value)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
    return _NAMES[kind]


def _copied(key: Any) -> Any:
    if isinstance(key, np.ndarray):
        return key.copy()
    if names := _field_names(key):
        return type(key)(**{name: _copied(getattr(key, name)) for name in names})
    return key
