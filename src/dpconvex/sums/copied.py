"""Rows in host memory that pass through a device in parts, the next of which is copied while one is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["copied"]


def copied(X: Any, step: int, device: Any) -> Iterator[tuple[slice, Any]]:
    """Copy rows to a CUDA device in parts, the next while the last is used."""
    import torch

    n = len(X)
    if not str(device).startswith("cuda"):
        for start in range(0, n, step):
            yield slice(start, min(start + step, n)), X[start : start + step].to(device)
        return
    rows = min(step, n)
    here = [torch.empty((rows, X.shape[1]), dtype=X.dtype, pin_memory=True) for _ in range(2)]
    there = [torch.empty((rows, X.shape[1]), dtype=X.dtype, device=device) for _ in range(2)]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))  # which may still use the memory of `there`
    left: list[Any] = [None, None]
    used: list[Any] = [None, None]
    waiting: tuple[slice, Any, Any] | None = None
    for number, start in enumerate(range(0, n, step)):
        k, stop = number % 2, min(start + step, n)
        if left[k] is not None:
            left[k].synchronize()  # what lay here
        here[k][: stop - start].copy_(X[start:stop])
        if used[k] is not None:
            stream.wait_event(used[k])
        with torch.cuda.stream(stream):
            there[k][: stop - start].copy_(here[k][: stop - start], non_blocking=True)
            left[k] = stream.record_event()
        if waiting is not None:
            yield from _lent(*waiting, used)
        waiting = slice(start, stop), there[k][: stop - start], (k, left[k])
    if waiting is not None:
        yield from _lent(*waiting, used)


def _lent(part: slice, X: Any, when: tuple[int, Any], used: list[Any]) -> Iterator[tuple[slice, Any]]:
    import torch

    k, event = when
    torch.cuda.current_stream(X.device).wait_event(event)
    yield part, X
    used[k] = torch.cuda.current_stream(X.device).record_event()
