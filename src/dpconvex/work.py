"""A limit on the work that planning and proving may take, for plans that strangers ask for.

Where nothing is limited, which is the default, nothing here has an effect.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dpconvex.errors import InputError

__all__ = ["limited", "spend"]

_STEPS_PER_SECOND = 2 * 10**6


@dataclass
class _Left:
    """What is left of a limit: steps of schedules, and until when on the clock of this process."""

    steps: float
    until: float


_LEFT: ContextVar[_Left | None] = ContextVar("dpconvex.work", default=None)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Allow so many seconds of computing, and the steps of schedules that fit into them, in a `with` block.

    Examples
    --------
    >>> with limited(1.0):
    ...     spend(10**9)
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: this takes longer than is allowed here
    """
    token = _LEFT.set(_Left(seconds * _STEPS_PER_SECOND, time.process_time() + seconds))
    try:
        yield
    finally:
        _LEFT.reset(token)


def spend(steps: int = 0) -> int:
    """Return the number of steps that are about to be computed; raise `InputError` if a limit does not allow them."""
    left = _LEFT.get()
    if left is not None:
        left.steps -= steps
        if left.steps < 0 or time.process_time() > left.until:
            raise InputError("this takes longer than is allowed here")
    return steps
