"""Threads over groups of rows: BLAS works on one thread, and ours share the groups.

The threads of BLAS wait for each other in every product, which on a busy machine takes many times as long as the
product. Groups of rows are fixed by the number of rows alone, and whoever adds their sums up does so in their order:
the result has the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dpconvex.loops.threads import available

_GROUPS = 16  # at most
_WORK = 2e6  # numbers read, below which a thread costs more than it saves
_T = TypeVar("_T")

_lock = Lock()
_inside = 0
_limit: Any = None


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread, in this process; inside another such block it costs nothing.

    Examples
    --------
    >>> with one_blas_thread():
    ...     with one_blas_thread():
    ...         print(max(library["num_threads"] for library in _blas().select(user_api="blas").info()))
    1
    """
    global _inside, _limit
    with _lock:
        if not _inside:
            _limit = _blas().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _limit.restore_original_limits()


def groups(n: int, unit: int, least: int = 16) -> list[range]:
    """Cut n rows into at most 16 ranges of `least` or more units each, the last one perhaps shorter.

    Examples
    --------
    >>> groups(50, 2, 10)
    [range(0, 20), range(20, 40), range(40, 50)]
    """
    size = unit * max(least, -(-n // (unit * _GROUPS)))
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


def each(work: Callable[[range], _T], parts: list[range], size: float) -> Iterator[_T]:
    """Yield what `work` returns for each part, in their order; by threads if `size` numbers are worth it.

    Examples
    --------
    >>> list(each(len, groups(50, 2, 10), 1e9))
    [20, 20, 10]
    """
    threads = min(available(), len(parts)) if size >= _WORK else 1
    if threads == 1:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        # What the caller has set for its context, such as np.errstate, holds for the threads too.
        for made in [pool.submit(copy_context().run, work, part) for part in parts]:
            yield made.result()
