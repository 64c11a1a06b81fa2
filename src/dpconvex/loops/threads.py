"""Threads that share the steps of one loop and hand over by counters in memory.

Hand-over happens every few tens of microseconds, so threads look again and again instead of sleeping. The argument:

- *Who writes what.* Member m alone writes counter m and its parts of the sums; the leader, member 0, writes the point.
  Counters grow, except that -1 calls the work off for good.
- *Memory order.* `arrive` stores with release order and `wait` loads with acquire order: who sees a count sees all that
  its writer wrote before. Members write parts only between the leader's arrival at a step and their own; the leader
  reads parts and moves the point only between the last member's arrival and its own next one.
- *No deadlock.* Everyone waits for one counter at a time. A member that fails, and a leader that ends in any way,
  stores -1, and `wait` then returns OFF.
- *Busy processors.* A long wait yields the processor and returns LATE. The leader may call the others off once all have
  arrived at a step, so no part is missing.
- *Forks.* Threads, counters and rooms live for one call; a child forked meanwhile takes no part in it.
- *Same bits.* A part is the same whoever adds it up, and the leader adds up parts in a fixed order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dpconvex.loops.protocol import compiled

_APART = 16  # numbers of eight bytes between counters of different members: they lie in different cache lines
_PATIENCE = 300_000  # looks before yielding the processor, of about a nanosecond each
OFF, THERE, LATE = 0, 1, 2
_ALONE = np.zeros(1, dtype=np.int64)  # counters of a leader without members, who looks at none

_intrinsic: Any = intrinsic


def _go_on():
    return 0


_yield: Any = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else compiled(_go_on)


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
    return builder.gep(data, [args[1]])


@_intrinsic
def _store(typing: Any, counters: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _address(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.int64), generate


@_intrinsic
def _load(typing: Any, counters: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, args), "acquire", 8, typ=ir.IntType(64))

    return types.int64(counters, types.intp), generate


@_intrinsic
def read_ahead(typing: Any, words: Any, index: Any) -> Any:
    """Fetch the cache line of an entry of an array into the second cache: a hint that changes no result."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        line = builder.bitcast(_address(context, builder, signature, args), pointer)
        builder.call(hint, [line, number(0), number(2), number(1)])  # to be read, second cache, data
        return context.get_dummy_value()

    return types.void(words, types.intp), generate


@compiled
def arrive(counters, member, count):
    """Say that a member has finished so many steps; -1 calls the work off."""
    _store(counters, member * _APART, count)


@compiled
def wait(counters, member, count):
    """Wait until a member has arrived: THERE, LATE if that took long, OFF if the work was called off."""
    looks = 0
    while True:
        seen = _load(counters, member * _APART)
        if seen < 0:
            return OFF
        if seen >= count:
            return THERE if looks <= _PATIENCE else LATE
        looks += 1
        if looks > _PATIENCE:
            _yield()


def available() -> int:
    """Threads that may be used: the processors this process may run on, and no more than OMP_NUM_THREADS if set."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(processors, int(limit) if limit.isdecimal() else processors))


def share(size: int, lead: Callable[[np.ndarray, int], Any], assist: Callable[[np.ndarray, int], Any]) -> Any:
    """Return lead(counters, size), while threads run assist(counters, member) for members 1, ..., size - 1.

    Where no thread can be started, lead(counters, 1). The error of a member is raised once all have ended.

    Examples
    --------
    >>> share(2, lambda counters, size: wait(counters, 1, 5) != OFF, lambda counters, member: arrive(counters, 1, 5))
    True
    """
    if size == 1:
        return lead(_ALONE, 1)
    counters = apart(size, 1, np.int64).ravel()
    counters[:] = 0
    started: list[Thread] = []
    failures: list[BaseException] = []

    def run(member: int) -> None:
        try:
            assist(counters, member)
        except BaseException as failure:
            failures.append(failure)
            arrive(counters, member, -1)

    try:
        for member in range(1, size):
            thread = Thread(target=run, args=(member,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads: those that started are called off below
                size = 1
                break
            started.append(thread)
        result = lead(counters, size)
    finally:
        arrive(counters, 0, -1)
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
