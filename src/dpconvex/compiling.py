"""Compile loops with numba, cached on disk where a folder can be written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core.caching import FunctionCache


class _OfLibraryParts(FunctionCache):  # type: ignore[misc, unused-ignore]
    """A disk cache for loops over parts of the library alone.

    What is cached for a class of the user's own is found again by its name. After a change of the class, or of anything
    it refers to, it would be stale, and without the class the whole index could not be read.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the loop for these types, if it was cached."""
        return None if _is_foreign(sig) else super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache the loop for these types, if all are of the library."""
        if not _is_foreign(sig):
            super().save_overload(sig, data)


def _is_foreign(sig: Any) -> bool:
    arguments = sig if isinstance(sig, tuple) else sig.args
    return any(not kind.__module__.startswith("dpconvex.") for kind in _classes(arguments))


def _classes(kinds: Any) -> Iterator[type]:
    """Classes of all named tuples among types of numba."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class  # type: ignore[attr-defined, unused-ignore]
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind.types)  # type: ignore[attr-defined, unused-ignore]


def compile_cached(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile with a disk cache, or without one where no folder can be written.

    Parts of the user's own are compiled in every process anew. Only the liberties that are named are taken with sums
    (`fastmath`): numba would otherwise take over those of whatever loop happens to call first.
    """
    compiler: Any = njit
    options = {"fastmath": False, **options}
    try:
        loop = compiler(cache=True, nogil=True, **options)(function)
        loop._cache = _OfLibraryParts(loop.py_func)  # numba has no public way to choose what is cached
    except RuntimeError:
        return compiler(nogil=True, **options)(function)
    return loop


def digest_folders(*folders: Path) -> str:
    """Digest of every Python file in the folders, of `pairs` and of this one, to name what is compiled from them."""
    here = Path(__file__)
    files = [here, here.with_name("pairs.py"), *sorted(file for folder in folders for file in folder.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
