"""Arrays whose memory is used again: a new one of some megabytes costs as much as filling it."""

from __future__ import annotations

from collections import deque
from mmap import mmap
from typing import Any

import numpy as np

_MAPPED = 2**17  # bytes from which memory is mapped
_FREE = 4  # arrays that wait to be used again


class _Lent:
    """Holds the memory of an array until the last view of it is gone."""

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...], dtype: Any) -> None:
        self._memory = memory
        self.__array_interface__ = {**memory.__array_interface__, "shape": shape, "typestr": np.dtype(dtype).str}

    def __del__(self) -> None:
        _waiting.append(self._memory)


_waiting: deque[np.ndarray] = deque(maxlen=_FREE)


def empty(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Return an array of that shape, in memory that an earlier one has left if there is such.

    Examples
    --------
    >>> first = empty((300, 200))
    >>> place = first.ctypes.data
    >>> del first
    >>> second = empty((200, 300), np.float64)
    >>> second.shape, second.ctypes.data == place
    ((200, 300), True)
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    for _ in range(len(_waiting)):
        try:
            memory = _waiting.popleft()
        except IndexError:  # another thread was faster
            break
        if memory.size == size:
            return np.asarray(_Lent(memory, shape, dtype))
        _waiting.append(memory)
    # Large ones are mapped: what threads that are gone have taken from their heaps would not be given back.
    fresh = np.frombuffer(mmap(-1, size), np.uint8) if size >= _MAPPED else np.empty(size, np.uint8)
    return np.asarray(_Lent(fresh, shape, dtype))
