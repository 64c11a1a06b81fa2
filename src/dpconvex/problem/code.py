"""A digest of the user's code: of a function or class and of what it refers to, so that receipts can name it."""

from __future__ import annotations

import hashlib
import inspect
import types
from typing import Any

import numpy as np

__all__ = ["code_digest"]


def code_digest(part: Any) -> str:
    """sha256 of the source of a function, a class or an object that can be called, and of what it refers to.

    Referred to are defaults, the variables of closures, and globals that are functions, classes or plain values and do
    not come from an installed package; of packages the name counts.

    Examples
    --------
    >>> half, third = 0.5, 1 / 3
    >>> first, second = (lambda w: half * w), (lambda w: third * w)
    >>> code_digest(first) == code_digest(first), len(code_digest(second))
    (True, 64)
    """
    found = hashlib.sha256()
    _feed(part, found, set())
    return found.hexdigest()


def _feed(part: Any, found: Any, seen: set[int]) -> None:
    def note(*words: object) -> None:
        found.update(("\x1f".join(map(str, words)) + "\x1e").encode())

    if isinstance(part, str | bytes | int | float | complex | bool | type(None)):
        return note(type(part).__name__, repr(part))
    if id(part) in seen:
        return note("again")
    seen.add(id(part))
    part = getattr(part, "py_func", part)  # a function that numba has compiled
    if isinstance(part, np.ndarray | np.generic):
        note(part.dtype, part.shape)
        found.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, list | tuple | set | frozenset):
        note(type(part).__name__, len(part))
        for value in sorted(part, key=repr) if isinstance(part, set | frozenset) else part:
            _feed(value, found, seen)
    elif isinstance(part, dict):
        note("dict", len(part))
        for key, value in part.items():
            note(repr(key))
            _feed(value, found, seen)
    elif isinstance(part, types.ModuleType):
        note("module", part.__name__)
    elif isinstance(part, types.FunctionType | types.MethodType | type):
        if _installed(part):
            return note(part.__module__, part.__qualname__)
        note(_source(part))
        functions = [f for f in vars(part).values() if inspect.isroutine(f) or isinstance(f, property)] if isinstance(
            part, type
        ) else [part]  # fmt: skip
        for function in functions:
            _feed_names(inspect.unwrap(_plain(function)), found, seen)
    elif hasattr(part, "__dict__") and not _installed(type(part)):
        _feed(type(part), found, seen)
        _feed(dict(vars(part)), found, seen)
    else:
        note(type(part).__module__, type(part).__qualname__)


def _plain(function: Any) -> Any:
    if isinstance(function, property):
        function = function.fget
    function = getattr(function, "__func__", function)
    return getattr(function, "py_func", function)


def _feed_names(function: Any, found: Any, seen: set[int]) -> None:
    """What a function refers to beyond its own text."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for value in (function.__defaults__, function.__kwdefaults__):
        _feed(value, found, seen)
    for cell in function.__closure__ or ():
        try:
            _feed(cell.cell_contents, found, seen)
        except ValueError:  # not filled yet
            continue
    for name in sorted(_names(code)):
        if name in function.__globals__:
            found.update(name.encode())
            _feed(function.__globals__[name], found, seen)


def _names(code: types.CodeType) -> set[str]:
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*(_names(part) for part in inner))


def _source(part: Any) -> str:
    try:
        return inspect.getsource(part)
    except (OSError, TypeError):  # typed in, or made by a program
        code = getattr(_plain(part), "__code__", None)
        return part.__qualname__ if code is None else _bytes_of(code)


def _bytes_of(code: types.CodeType) -> str:
    constants = [_bytes_of(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _installed(part: Any) -> bool:
    """Whether a function or class comes with Python or from an installed package."""
    module = inspect.getmodule(part)
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__":
        return False
    if file is None or module.__name__.partition(".")[0] == "dpconvex":
        return True
    folders = ("site-packages", "dist-packages", "lib/python")
    return any(folder in file.replace("\\", "/") for folder in folders)
