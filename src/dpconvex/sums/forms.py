"""Losses on tensors: numbers per record, from the plain methods of losses of one prediction, and for the softmax."""

from __future__ import annotations

from typing import Any

from dpconvex.namespaces import namespace
from dpconvex.problem.losses import Loss, Softmax
from dpconvex.sums.symbols import traced

__all__ = ["form"]


def form(loss: Loss, method: str, z: Any, y: Any) -> Any:
    """What `rowwise` returns for tensors: the value, slope or curvature of every record's loss at its prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex.problem.losses import Huber
    >>> form(Huber(0.5), "slope", np.array([0.75, 3.0]), np.array([1.0, 1.0]))
    array([-0.25,  0.5 ])
    >>> form(Softmax(3), "slope", np.zeros((1, 3)), np.array([0.0])).round(3)
    array([[-0.667,  0.333,  0.333]])
    """
    xp = namespace(z)
    if isinstance(loss, Softmax):
        return _SOFTMAX[method](loss, z, y, xp)
    return traced(loss, method)((z, y), xp)[0]


def _own(loss: Softmax, z: Any, y: Any, xp: Any) -> Any:
    """1 for the class of each record, 0 for the others."""
    classes = xp.arange(int(loss.classes), dtype=xp.float64, device=z.device)
    return xp.astype(y[:, None] == classes[None, :], xp.float64)


def _probabilities(loss: Softmax, z: Any, y: Any, xp: Any) -> Any:
    shifted = z - loss.shift * _own(loss, z, y, xp)
    powers = xp.exp(shifted - xp.max(shifted, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def _slopes(loss: Softmax, z: Any, y: Any, xp: Any) -> Any:
    return _probabilities(loss, z, y, xp) - _own(loss, z, y, xp)


def _values(loss: Softmax, z: Any, y: Any, xp: Any) -> Any:
    own = _own(loss, z, y, xp)
    shifted = z - loss.shift * own
    top = xp.max(shifted, axis=1, keepdims=True)
    chosen = xp.sum(shifted * own, axis=1)
    return xp.log(xp.sum(xp.exp(shifted - top), axis=1)) + (top[:, 0] - chosen)


_SOFTMAX = {"value": _values, "slope": _slopes, "curvature": _probabilities}
