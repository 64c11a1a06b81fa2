"""Processes that share work whose results do not depend on who does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

from dpconvex.errors import InputError

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextmanager
def mapping(workers: int) -> Iterator[Mapper]:
    """A `map` over that many processes, each started anew: a copy of this one would hold its locks and threads.

    Examples
    --------
    >>> with mapping(1) as each:
    ...     list(each(abs, [-1, 2]))
    [1, 2]
    """
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, got {workers!r}")
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(int(workers), mp_context=get_context("spawn")) as pool:
        yield pool.map
