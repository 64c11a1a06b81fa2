"""Open tensors: rows on an accelerator stay there.

Arrays of PyTorch, CuPy and JAX (`__dlpack__`) that lie on a device are used as they are, through PyTorch. In a context
with a `device`, rows in host memory are added up there as well: copied once if they fit, and else in parts on every
pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dpconvex.context import settings
from dpconvex.data.arrays import as_array, label_numbers, limits, open_labels, radius_of
from dpconvex.errors import FormError, RowError, UnavailableError
from dpconvex.loops.rows import NOT_FINITE, Tensors
from dpconvex.namespaces import is_torch
from dpconvex.problem.bounds import L2, Lp
from dpconvex.problem.problem import Problem

__all__ = ["TensorForm", "at_home", "tensor_form"]

_HOST = (1, 3)  # DLPack's numbers of host memory, plain and pinned
_SHARE = 0.8  # of the free memory of a device that rows may take
_STEP = 2**24  # numbers looked at at a time


class TensorForm(NamedTuple):
    """Rows of a tensor and labels of the right form, of which nothing was looked at so far."""

    X: Any
    labels: Any
    problem: Problem
    device: Any

    @property
    def where(self) -> str:
        """What computes sums, for the receipt."""
        import torch

        device = torch.device(self.device)
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        return f"tensors on {name}, float64 (torch {torch.__version__})"

    def open(self) -> tuple[Tensors, Any]:
        """Bring rows and targets within their bounds.

        Raises
        ------
        RowError
            If labels are not those of the loss, or entries are seen not to be finite; sums see those of others.
        """
        import torch

        X, d, bound = self.X, self.X.shape[1], self.problem.feature_bound
        device = torch.device(self.device)
        if X.device != device and _fits(X, device):
            X = X.to(device)
        if not isinstance(bound, L2):
            X = _within(X, bound)
        rows = Tensors(X, radius_of(bound, d), self.problem.intercept, device=device)
        return rows, open_labels(self.labels, self.problem)


def tensor_form(X: Any, y: Any, problem: Problem, n: int, d: int) -> TensorForm | None:
    """The form of rows that sums over them are computed of on a device; None if they are not."""
    wanted = settings().device
    there = _on_device(X)
    if wanted is None and not there:
        return None
    if problem.loss.traits.records:
        raise FormError("records of a loss of your own are added up on the CPU: give them in host memory")
    torch = _torch()
    if sparse.issparse(X):
        raise FormError("X is sparse: sums on a device need dense rows")
    tensor = _tensor(X, torch) if there or is_torch(X) else torch.from_numpy(np.ascontiguousarray(_dense(X)))
    if tensor.layout != torch.strided:
        raise FormError("X is sparse: sums on a device need dense rows")
    if tensor.ndim != 2:
        raise FormError(f"X must have two dimensions (rows, features), got {tensor.ndim}")
    if tuple(tensor.shape) != (n, d):
        raise FormError(f"X has shape {tuple(tensor.shape)}, the plan was made for n = {n} rows of d = {d} features")
    if tensor.is_complex():
        raise FormError(f"X must hold real numbers, got dtype {tensor.dtype}")
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.to(torch.float32)
    elif tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float64)
    tensor = tensor if tensor.stride(1) == 1 else tensor.contiguous()
    labels: Any = _tensor(y, torch) if is_torch(y) or _on_device(y) else label_numbers(y, n)
    if is_torch(labels):
        if tuple(labels.shape) != (n,):
            raise FormError(f"y must have shape ({n},), one label a row, got {tuple(labels.shape)}")
        if labels.is_complex():
            raise FormError(f"y must hold numbers (labels -1 and +1, class indices or targets), got {labels.dtype}")
        labels = labels.to(torch.float64)
    try:
        device = torch.device(wanted) if wanted is not None else tensor.device
        device = torch.zeros(1, dtype=torch.float64, device=device).device
        torch.ones(1, dtype=torch.float64, device=device).item()  # which devices without memory cannot
    except (RuntimeError, TypeError, AssertionError) as error:
        kind = type(error).__name__
        raise FormError(f"device {wanted or tensor.device}: no sums of float64 there ({kind})") from None
    return TensorForm(tensor, labels, problem, str(device))


def at_home(values: Any) -> Any:
    """Numbers about records, one each, in host memory; anything that is no array on a device as it is.

    Examples
    --------
    >>> at_home([1, 2])
    [1, 2]
    """
    return _tensor(values, _torch()).cpu().numpy() if _on_device(values) else values


def _on_device(values: Any) -> bool:
    """Whether it is an array that lies on an accelerator."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack_device__"):
        return False
    return int(values.__dlpack_device__()[0]) not in _HOST


def _tensor(values: Any, torch: Any) -> Any:
    return values.detach() if is_torch(values) else torch.from_dlpack(values)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise UnavailableError("sums on a device need PyTorch: pip install 'dpconvex[gpu]'") from None
    return torch


def _dense(X: Any) -> np.ndarray:
    matrix = as_array(X, "X")
    if matrix.dtype.kind not in "biuf":
        raise FormError(f"X must hold real numbers, got dtype {matrix.dtype}")
    return matrix if matrix.flags.writeable else matrix.copy()


def _fits(X: Any, device: Any) -> bool:
    import torch

    size = X.numel() * X.element_size()
    return device.type != "cuda" or size <= _SHARE * torch.cuda.mem_get_info(device)[0]


def _within(X: Any, bound: Any) -> Any:
    """Bring entries within the bound, in a copy."""
    import torch

    out = torch.empty_like(X, memory_format=torch.contiguous_format)
    step = max(1, _STEP // max(X.shape[1], 1))
    if not isinstance(bound, Lp):
        kind = np.float32 if X.dtype == torch.float32 else np.float64
        lo, hi = (torch.from_numpy(end).to(X.device) for end in limits(bound, X.shape[1], kind))
    for start in range(0, len(X), step):
        some = X[start : start + step]
        if not bool(torch.isfinite(some).all()):
            raise RowError(NOT_FINITE)
        if not isinstance(bound, Lp):
            out[start : start + step] = torch.minimum(torch.maximum(some, lo), hi)
            continue
        size = some.abs().to(torch.float64)
        top = size.amax(dim=1, keepdim=True)
        unit = torch.where(top > 0.0, top, 1.0)
        norm = unit[:, 0] * ((size / unit) ** bound.p).sum(dim=1) ** (1.0 / bound.p)
        factor = torch.clamp(bound.radius / torch.where(norm > 0.0, norm, 1.0), max=1.0)
        out[start : start + step] = (some * factor[:, None]).to(X.dtype)
    return out
