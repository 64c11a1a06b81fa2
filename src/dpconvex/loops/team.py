"""Threads that share the steps of one loop, and hand over by counters in memory.

A step is short, some tens of microseconds, so its threads wait for each other by looking, not by sleeping: a hand-over
takes a fraction of a microsecond. Who looks in vain for long gives way to others: the processors are wanted elsewhere,
and a leader should then send the others home (`LATE`). Threads live for one call: nothing is left over that a process
could fork with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
from numba import types

from dpconvex.loops.memory import look, publish
from dpconvex.loops.protocol import compiled

_APART = 16  # counters that are written by different threads lie in different cache lines
_PATIENCE = 300_000  # looks before giving way, of about a nanosecond each
OFF, THERE, LATE = 0, 1, 2


def _nothing():
    return 0


_give_way: Any = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else compiled(_nothing)


@compiled
def arrive(counters, member, count):
    """Say that a member has come so far."""
    publish(counters, member * _APART, count)


@compiled
def wait(counters, member, count):
    """Wait until a member has come so far: THERE, LATE if that took long, OFF if the work was called off."""
    looks = 0
    while True:
        seen = look(counters, member * _APART)
        if seen < 0:
            return OFF
        if seen >= count:
            return THERE if looks <= _PATIENCE else LATE
        looks += 1
        if looks > _PATIENCE:
            _give_way()


def available() -> int:
    """Threads that may be used: the processors this process may run on, and no more than OMP_NUM_THREADS if set."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(processors, int(limit) if limit.isdecimal() else processors))


def share(size: int, lead: Callable[[np.ndarray, int], Any], assist: Callable[[np.ndarray, int], Any]) -> Any:
    """Return lead(counters, size), while threads run assist(counters, member) for members 1, ..., size - 1.

    Where no thread can be had, lead(counters, 1). If a member fails, its counter tells the others, and its error is
    raised.

    Examples
    --------
    >>> share(2, lambda counters, size: wait(counters, 1, 5) != OFF, lambda counters, member: arrive(counters, 1, 5))
    True
    """
    counters = apart(size, 1, np.int64)
    counters[:] = 0
    started: list[Thread] = []
    failures: list[BaseException] = []

    def run(member: int) -> None:
        try:
            assist(counters.ravel(), member)
        except BaseException as failure:
            failures.append(failure)
            counters[member] = -1

    try:
        for member in range(1, size):
            thread = Thread(target=run, args=(member,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                size = 1
                break
            started.append(thread)
        result = lead(counters.ravel(), size)
    finally:
        counters[0] = -1  # whoever still waits for the leader goes home
        for thread in started:
            thread.join()
    if failures:
        raise failures[0]
    return result


def apart(members: int, size: int, kind: type = np.float64) -> np.ndarray:
    """Room of at least so many numbers for every member, none in a cache line of another's; not initialised.

    Examples
    --------
    >>> apart(2, 20).shape
    (2, 32)
    """
    width = -(-size // _APART) * _APART
    room: np.ndarray = np.empty((members + 1) * width, dtype=kind)
    start = -room.ctypes.data % (8 * _APART) // 8
    return room[start : start + members * width].reshape(members, width)
