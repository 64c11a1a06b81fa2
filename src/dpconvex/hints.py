"""Hints for names that do not exist: the one that was meant, or where it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

__all__ = ["check_arguments", "named", "nearest"]

T = TypeVar("T", bound=type)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant: one that begins or ends like it, or one with nearly the same letters.

    Examples
    --------
    >>> nearest("eps", ["epsilon", "delta"]), nearest("LogisticRegression", ["Budget", "PrivateLogisticRegression"])
    ('epsilon', 'PrivateLogisticRegression')
    >>> nearest("C", ["epsilon", "delta"]) is None
    True
    """
    by_case = {other.lower(): other for other in known}
    low = name.lower()
    if len(low) > 2:
        for other in by_case:
            if other.startswith(low) or other.endswith(low):
                return by_case[other]
    return next((by_case[other] for other in get_close_matches(low, by_case, 1, 0.65)), None)


def check_arguments(cls: type, given: Iterable[str]) -> None:
    """Raise a `TypeError` that says which argument was meant, where a class has none of a name that was given."""
    known = dict(list(inspect.signature(cls.__init__).parameters.items())[1:])  # type: ignore[misc]
    for name in given:
        if name not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; {hint}")


def named(cls: T) -> T:
    """Make a class refuse arguments that it does not know with a hint; for a decorator.

    Examples
    --------
    >>> @named
    ... class Public:
    ...     def __init__(self, epsilon): ...
    >>> Public(eps=1.0)
    Traceback (most recent call last):
        ...
    TypeError: Public has no parameter 'eps'; did you mean epsilon?
    """
    begin = cls.__init__  # type: ignore[misc]

    @functools.wraps(begin)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        if given:
            check_arguments(cls, given)
        begin(self, *args, **given)

    cls.__init__ = checked  # type: ignore[misc]
    return cls
