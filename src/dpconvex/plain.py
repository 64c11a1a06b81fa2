"""Plain values: text, numbers and JSON from outside, checked before anything is done with them.

Everything that is read from a file goes through `read_json`, whose limits keep the work that follows small: its result
holds None, True, False, finite numbers, text, lists and objects, and nothing else.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any

from dpconvex.errors import InputError

__all__ = [
    "check_answers", "check_plain", "is_digest", "normal_name", "open_text", "plain_name", "plain_text", "read_json",
    "whole",
]  # fmt: skip

LARGEST_WHOLE = 2**53 - 1  # the largest whole number that every reader of JSON knows
LARGEST_FILE = 24_000_000  # bytes
MOST_VALUES = 400_000  # numbers, texts, lists and objects in a file
DEEPEST = 60  # lists and objects within each other
_DIGITS = 20  # of a whole number
_JOINERS = "\u200c\u200d"  # characters of category Cf that words are written with
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def plain_text(value: object, what: str, error: type[Exception] = InputError) -> str:
    """Return text without control characters, line breaks and marks of direction, as a plain `str`.

    Such characters could make a receipt show a second guarantee, or change what a terminal shows.

    Examples
    --------
    >>> plain_text("visits of May", "dataset")
    'visits of May'
    >>> plain_text("visits" + chr(10) + "guarantee: none needed", "dataset")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: dataset must be text without control characters and line breaks
    """
    if not isinstance(value, str):
        raise error(f"{what} must be text, got {type(value).__name__}")
    bare = str.__getitem__(value, slice(None))  # of a subclass, the characters alone
    if not bare.isprintable() and any(map(_is_control, bare)):
        raise error(f"{what} must be text without control characters and line breaks")
    return bare


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS


def check_answers(answers: Mapping[str, str], asked: Mapping[str, str], what: str) -> dict[str, str]:
    """Return what people said to every question, by its name.

    Examples
    --------
    >>> check_answers({"use": "research "}, {"use": "What it is for"}, "the card")
    {'use': 'research'}
    >>> check_answers({"use": ""}, {"use": "What it is for"}, "the card")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: only a person knows: use (What it is for)
    """
    if unknown := sorted(set(answers) - set(asked)):
        raise InputError(f"{what} does not ask for {', '.join(map(repr, unknown))}; it asks for {', '.join(asked)}")
    if missing := [name for name in asked if not str(answers.get(name, "")).strip()]:
        raise InputError(f"only a person knows: {', '.join(f'{name} ({asked[name]})' for name in missing)}")
    return {name: plain_text(answers[name], name).strip() for name in asked}


def plain_name(value: object, what: str) -> str:
    """Return text that names something: `plain_text` that is not blank and has at most 500 characters."""
    bare = plain_text(value, what)
    if not bare.strip() or len(bare) > 500:
        raise InputError(f"{what} must be a name that is not empty, of at most 500 characters")
    return bare


def normal_name(value: object, what: str) -> str:
    """Return the form in which two spellings of a name are the same: without regard to case, blanks and width.

    Examples
    --------
    >>> normal_name(" Trial  7 ", "dataset") == normal_name("trial 7", "dataset") == "trial 7"
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain_name(value, what)).casefold())
    shown = (c for c in unicodedata.normalize("NFKC", folded) if c not in _JOINERS and not _INVISIBLE.match(c))
    normal = " ".join("".join(shown).split())
    if not normal:
        raise InputError(f"{what} must be a name that is not empty, of at most 500 characters")
    return normal


def whole(
    value: object, what: str, least: int = 1, most: int = LARGEST_WHOLE, error: type[Exception] = InputError
) -> int:
    """Return a whole number within limits as a plain `int`; True, 2.0 and text are none.

    Examples
    --------
    >>> whole(3, "n"), whole(3.0, "n")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: n must be a whole number of at least 1, got 3.0
    """
    try:
        found = -1 if isinstance(value, bool) else int(index(value))  # type: ignore[arg-type]
    except TypeError:
        found = least - 1
    if not least <= found <= most:
        limit = f"of at least {least}" if most == LARGEST_WHOLE else f"between {least} and {most}"
        raise error(f"{what} must be a whole number {limit}, got {_shown(value)}")
    return found


def _shown(value: object) -> str:
    """A short form of a wrong value: its own `repr` only if it is a number."""
    if isinstance(value, bool) or type(value) not in (int, float):
        return type(value).__name__
    return repr(value) if not isinstance(value, int) or abs(value) <= 10 * LARGEST_WHOLE else "a number beyond 2^53"


def is_digest(value: object) -> bool:
    """Whether a value is a sha256 in hexadecimal digits.

    Examples
    --------
    >>> is_digest("0" * 64), is_digest("0" * 63)
    (True, False)
    """
    return isinstance(value, str) and len(value) == 64 and all(c in "0123456789abcdef" for c in value)


def open_text(path: str | Path, what: str, error: type[Exception]) -> str:
    """Return the text of a file; raise `error` if it is no text or too large, and `InputError` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            body = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "no file has such a name"
        raise InputError(f"{what} cannot be read: {why}") from None
    if len(body) > LARGEST_FILE:
        raise error(f"{what} is larger than {LARGEST_FILE // 10**6} MB")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise error(f"{what} is not text") from None


def read_json(text: str, what: str, error: type[Exception]) -> Any:
    """Read JSON text, or raise `error` unless it is `check_plain`, names every key once and is not too large.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}', "the example", InputError)
    {'a': [1, 2.5]}
    >>> read_json('{"a": 1e999}', "the example", InputError)
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: the example holds a number that is not finite
    """
    if not isinstance(text, str) or len(text) > LARGEST_FILE:
        raise error(f"{what} must be JSON text of at most {LARGEST_FILE // 10**6} million characters")
    if text.count(",") + text.count("[") + text.count("{") > 2 * MOST_VALUES:
        raise error(f"{what} holds more than {MOST_VALUES} values")

    def number(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise error(f"{what} holds a whole number of more than {_DIGITS} digits")
        return int(digits)

    def fraction(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else constant(digits)

    def constant(_: str) -> float:
        raise error(f"{what} holds a number that is not finite")

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise error(f"{what} names a key twice")
        return found

    try:
        plain = json.loads(
            text, parse_int=number, parse_float=fraction, parse_constant=constant, object_pairs_hook=object_of
        )
    except error:
        raise
    except RecursionError:
        raise error(f"{what} is nested too deeply") from None
    except ValueError:
        raise error(f"{what} is not JSON") from None
    check_plain(plain, what, error)
    return plain


def check_plain(plain: Any, what: str, error: type[Exception]) -> None:
    """Raise `error` unless this is JSON of plain types: finite numbers, text without control characters, not too deep.

    Examples
    --------
    >>> check_plain({"a": [1, None, "b"]}, "the example", InputError)
    >>> check_plain({"a": {1, 2}}, "the example", InputError)
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: the example holds a value of type set
    """
    level, depth, count = [plain], 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        if count > MOST_VALUES:
            raise error(f"{what} holds more than {MOST_VALUES} values")
        if depth > DEEPEST:
            raise error(f"{what} is nested too deeply")
        for value in level:
            _check_leaf(value, what, error)
        level = [part for value in level for part in _parts(value, what, error)]


def _parts(value: Any, what: str, error: type[Exception]) -> Iterator[Any]:
    if type(value) is dict:
        for key in value:
            plain_text(key, f"a key of {what}", error)
        yield from value.values()
    elif type(value) is list:
        yield from value


def _check_leaf(value: Any, what: str, error: type[Exception]) -> None:
    kind = type(value)
    if kind is str:
        plain_text(value, f"a text in {what}", error)
    elif kind is float:
        if not math.isfinite(value):
            raise error(f"{what} holds a number that is not finite")
    elif kind is int:
        if abs(value) >= 10**_DIGITS:
            raise error(f"{what} holds a whole number of more than {_DIGITS} digits")
    elif not (value is None or kind in (bool, list, dict)):
        raise error(f"{what} holds a value of type {kind.__name__}")
