"""Compile loops with numba, cached on disk where a folder can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compile_cached(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile with a disk cache, or without one where no folder can be written."""
    compiler: Any = njit
    try:
        return compiler(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        return compiler(nogil=True, **options)(function)
