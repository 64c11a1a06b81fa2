"""Compile loops with numba, cached on disk where a folder can be written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def compile_cached(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile with a disk cache, or without one where no folder can be written."""
    compiler: Any = njit
    try:
        return compiler(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        return compiler(nogil=True, **options)(function)


def digest_folders(*folders: Path) -> str:
    """Digest of every Python file in the folders, to name the cache of what is compiled from several files."""
    files = sorted(file for folder in folders for file in folder.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
