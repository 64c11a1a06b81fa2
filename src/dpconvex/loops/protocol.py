"""Teach numba to call the plain methods of losses, domains and row containers inside compiled loops.

Each of them is a NamedTuple, so numba sees its class in the type of the argument; a method of that class is then an
ordinary function to compile. One registration per method name serves them all.

Compiled loops are cached on disk. numba looks only at the file that holds the loop when it decides whether a cached
loop is stale, so the name of its cache holds a digest of every file it could have compiled (`compiled`).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import types
from numba.extending import overload_method

from dpconvex.compiling import compile_cached, digest_folders
from dpconvex.loops.rows import Dense
from dpconvex.problem.domains import L2Ball
from dpconvex.problem.losses import Logistic

# Sums may be reordered, which is what lets them use vector registers; infinities and NaN keep their meaning. Loops
# allocate nothing, so they need no reference counts, which would cost more than a short row.
OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "_nrt": False}

# Every method that loops call, with one class that has it: all classes share its parameter names.
METHODS = {
    "value": Logistic,
    "slope": Logistic,
    "curvature": Logistic,
    "rescale": L2Ball,
    "clip": L2Ball,
    "clips": L2Ball,
    "length": Dense,
    "square": Dense,
    "dot": Dense,
    "add": Dense,
    "add_both": Dense,
    "add_clipped": Dense,
}


def _register(name: str, example: type) -> None:
    def resolve(self: Any, *args: Any) -> Callable[..., Any] | None:
        return getattr(self.instance_class, name, None)

    resolve.__signature__ = inspect.signature(getattr(example, name))  # type: ignore[attr-defined]
    for kind in (types.NamedTuple, types.NamedUniTuple):
        register: Any = overload_method
        register(kind, name, jit_options=OPTIONS)(resolve)


for _name, _example in METHODS.items():
    _register(_name, _example)


_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = digest_folders(*(_PACKAGE / room for room in ("problem", "noise", "loops")))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with a disk cache, or without one where no folder can be written.

    The name of the files of the cache holds the digest: those of other versions, which may name classes that are gone,
    are never opened.
    """
    function.__qualname__ += f".{_SOURCES[:16]}"
    return compile_cached(function, **OPTIONS)


def source_digest(function: Callable[..., Any]) -> str:
    """Digest of the source of a loop, the same in every process.

    It covers every file of the folder that holds the function, and those of `problem/`, `noise/` and `loops/`, which
    hold what compiled loops call.

    Parameters
    ----------
    function : callable
        A plain function, or one that `compiled` returned.

    Returns
    -------
    digest : str
        SHA-256, as 64 hexadecimal digits.

    Examples
    --------
    >>> from dpconvex.loops.stream import descend
    >>> len(source_digest(descend))
    64
    """
    inner = inspect.unwrap(getattr(function, "py_func", function))
    folder = _digest_folder(inspect.getfile(inner))
    return hashlib.sha256(f"{_SOURCES}\n{folder}\n{inner.__module__}.{inner.__name__}".encode()).hexdigest()


@functools.cache
def _digest_folder(file: str) -> str:
    return digest_folders(Path(file).resolve().parent)


def compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile like `compiled`, but keep every operation and its order: for sums that also add up their own errors."""
    function.__qualname__ += f".{_SOURCES[:16]}"
    return compile_cached(function, _nrt=False)
