"""Reading ahead: what comes next is made by a thread while the last is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterator, one item of which is made in advance by a thread of its own.

    Parameters
    ----------
    items : generator or other iterator
        Used by the thread alone, and closed by it.

    Examples
    --------
    >>> with Ahead(iter([1, 2, 3])) as ahead:
    ...     list(ahead)
    [1, 2, 3]
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._found: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._work, items), daemon=True)
        self._thread.start()

    def __enter__(self) -> Ahead[T]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Ahead[T]:
        return self

    def __next__(self) -> T:
        if self._over.is_set():
            raise StopIteration
        made, item = self._found.get()
        if made:
            return item  # type: ignore[return-value]
        self._over.set()
        raise item or StopIteration  # type: ignore[misc]

    def close(self) -> None:
        """Make no more items."""
        self._over.set()
        self._thread.join()

    def _work(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if not self._put(True, item):
                    break
                del item
            self._put(False, None)
        except BaseException as error:
            self._put(False, error)
        finally:
            if hasattr(items, "close"):
                items.close()

    def _put(self, made: bool, item: T | BaseException | None) -> bool:
        while not self._over.is_set():
            try:
                self._found.put((made, item), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
