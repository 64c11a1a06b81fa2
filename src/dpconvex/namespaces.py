"""Functions of arrays under the names of the array API standard, for tensors as for NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["host", "namespace"]


def namespace(x: Any) -> Any:
    """Functions of arrays of this kind, by their names in the array API standard.

    Examples
    --------
    >>> namespace(np.zeros(2)) is np
    True
    """
    if isinstance(x, np.ndarray | np.generic):
        return np
    return _torch() if is_torch(x) else x.__array_namespace__()


def is_torch(x: Any) -> bool:
    """Whether it is a tensor of PyTorch, which is not imported to find out."""
    return type(x).__module__.partition(".")[0] == "torch"


def host(x: Any) -> np.ndarray:
    """Copy to the memory of this process, unless it lies there.

    Examples
    --------
    >>> host(np.ones(2))
    array([1., 1.])
    """
    return np.asarray(x.detach().cpu() if is_torch(x) else x)


@lru_cache(maxsize=1)
def _torch() -> Any:
    return _Torch()


class _Torch:
    """PyTorch, with the names and arguments of the standard where its own differ."""

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def astype(self, x: Any, dtype: Any) -> Any:
        return x.to(dtype)

    def take(self, x: Any, indices: Any, axis: int = 0) -> Any:
        return self._torch.index_select(x, axis, indices)

    def concat(self, arrays: Any, axis: int = 0) -> Any:
        return self._torch.cat(list(arrays), dim=axis)

    def stack(self, arrays: Any, axis: int = 0) -> Any:
        return self._torch.stack(list(arrays), dim=axis)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return self._torch.amax(x, dim=axis, keepdim=keepdims)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._torch.maximum(x, y) if is_torch(y) else self._torch.clamp(x, min=y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self._torch.minimum(x, y) if is_torch(y) else self._torch.clamp(x, max=y)
