"""Checks of the options of algorithms. Where None is the default of an option, it leaves the choice to the planner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, TypeGuard

from dpconvex.errors import InputError
from dpconvex.problem.bounds import SMALLEST

CONSTANTS = ("tight", "paper")


def check_options(
    options: object,
    *,
    flags: Iterable[str] = (),
    positive: Iterable[str] = (),
    clips: Iterable[str] = (),
    whole: Mapping[str, int | None] = MappingProxyType({}),
    within: Mapping[str, tuple[float, float, str]] = MappingProxyType({}),
    one_of: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> None:
    """Check options by name. An option that is None, where that is its default, is not checked.

    Parameters
    ----------
    flags, positive, clips : iterable of str
        Options to check with `check_flag`, `check_positive` and `check_clip`.
    whole : mapping of str to int
        Largest value of each whole number; None for no limit.
    within : mapping of str to tuple
        Range of each number, with its ends as in `check_within`.
    one_of : mapping of str to iterable of str
        Choices of each option.

    Raises
    ------
    InputError
        At the first option with an invalid value.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_options(dc.algorithms.FrankWolfe(), whole={"steps": 1000}, clips=["clip"])
    """
    checks: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
        *((name, check_flag, ()) for name in flags),
        *((name, check_positive, ()) for name in positive),
        *((name, check_clip, ()) for name in clips),
        *((name, check_whole, (most,)) for name, most in whole.items()),
        *((name, check_within, span) for name, span in within.items()),
        *((name, check_choice, (choices,)) for name, choices in one_of.items()),
    ]
    for name, check, arguments in checks:
        value = getattr(options, name)
        if value is not None or getattr(type(options), name) is not None:
            check(name, value, *arguments)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `InputError` unless the value is one of the choices."""
    names = tuple(choices)
    if not isinstance(value, str) or value not in names:  # an array would answer with one truth value an entry
        raise InputError(f"{name} must be one of {', '.join(repr(str(choice)) for choice in names)}, got {value!r}")


def check_constants(options: Any, module: str) -> None:
    """Refuse values other than "tight" and "paper" and, with "paper", options that the printed constants fix."""
    check_choice("constants", options.constants, CONSTANTS)
    if options.constants == "paper":
        _as_printed(module).check(options)


def printed(options: Any, module: str) -> Callable[..., Any] | None:
    """Function that makes the recipe printed in the paper, for the algorithm of that module; None unless "paper"."""
    return partial(_as_printed(module).make, options) if options.constants == "paper" else None


def _as_printed(module: str) -> ModuleType:
    room, _, name = module.rpartition(".")
    return import_module(f"{room}.as_printed.{name}")


def check_flag(name: str, value: object) -> None:
    """Raise `InputError` unless the value is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {type(value).__name__}")


def check_whole(name: str, value: object, most: int | None = None) -> None:
    """Raise `InputError` unless the value is a whole number between 1 and `most`."""
    top = math.inf if most is None else most
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
        span = "of at least 1" if most is None else f"between 1 and {most}"
        raise InputError(f"{name} must be a whole number {span}, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Raise `InputError` unless the value is a positive, finite number."""
    if not (_is_number(value) and 0.0 < value < math.inf):
        raise InputError(f"{name} must be a positive, finite number, got {value!r}")


def check_within(name: str, value: object, low: float, high: float, ends: str = "[]") -> None:
    """Raise `InputError` unless the value lies between `low` and `high`; square brackets in `ends` include that end.

    Examples
    --------
    >>> check_within("momentum", 0.0, 0, 1, "[)")
    >>> check_within("momentum", 1.0, 0, 1, "[)")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: momentum must be a number in [0, 1), got 1.0
    """
    inside = _is_number(value) and low <= value <= high
    if not inside or (ends[0] == "(" and value == low) or (ends[1] == ")" and value == high):
        raise InputError(f"{name} must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}, got {value!r}")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_clip(name: str, value: object) -> None:
    """Raise `InputError` if a clip is so small that the squared norms it is compared with would underflow."""
    check_positive(name, value)
    if not value >= SMALLEST:  # type: ignore[operator]
        raise InputError(f"{name} must be at least {SMALLEST:g}, got {value!r}")
