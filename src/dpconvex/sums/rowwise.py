"""Numbers per record: losses, slopes and curvatures at its predictions, and slopes whose gradients are cut short."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from dpconvex.loops.protocol import compiled
from dpconvex.namespaces import namespace
from dpconvex.problem import losses
from dpconvex.problem.geometry import lp_norms
from dpconvex.problem.losses import Loss, Softmax
from dpconvex.sums.forms import form


def takes_batches(loss: Loss) -> TypeGuard[Softmax]:
    """Whether a loss has several predictions per row, so that its methods work on whole batches."""
    return loss.traits.outputs > 1


@compiled
def _value(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.value(z[i], y[i])


@compiled
def _slope(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.slope(z[i], y[i])


@compiled
def _curvature(loss, z, y, out):
    for i in range(out.shape[0]):
        out[i] = loss.curvature(z[i], y[i])


@compiled
def _shorten(residuals, norms, clip, out):
    for i in range(out.shape[0]):
        length = abs(residuals[i]) * norms[i]
        factor = clip / length if length > clip else 1.0
        out[i] = residuals[i] * (factor if factor >= 1e-290 else 0.0)


def values(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of every record at its prediction.

    Examples
    --------
    >>> from dpconvex.problem.losses import Squared
    >>> values(Squared(), np.array([0.5, 3.0]), np.array([1.0, 1.0]))
    array([0.125, 2.   ])
    """
    if not isinstance(z, np.ndarray):
        return form(loss, "value", z, y)
    return loss.values(z, y) if takes_batches(loss) else _each(_value, loss, z, y)


def slopes(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivative of every record's loss in its prediction: (n,), or (n, K) for a softmax.

    Of a loss of a record z is the weights, y the records, and each gradient a row. What code of the user's computes
    counts as 0 where it is not finite.

    Examples
    --------
    >>> from dpconvex.problem.losses import Huber
    >>> slopes(Huber(0.5), np.array([0.75, 3.0]), np.array([1.0, 1.0]))
    array([-0.25,  0.5 ])
    """
    if loss.traits.records or (takes_batches(loss) and isinstance(z, np.ndarray)):
        return loss.slopes(z, y)  # type: ignore[union-attr]
    if not isinstance(z, np.ndarray):
        found, xp = form(loss, "slope", z, y), namespace(z)
        return found if is_built_in(loss) else xp.where(xp.isfinite(found), found, 0.0)
    found = _each(_slope, loss, z, y)
    if is_built_in(loss):
        return found
    with np.errstate(all="ignore"):  # one look at the sum is enough for most
        return found if np.isfinite(found.sum()) else np.where(np.isfinite(found), found, 0.0)


def curvatures(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Second derivative of every record's loss; for a softmax its probabilities p, which stand for diag(p) - p p'.

    Examples
    --------
    >>> from dpconvex.problem.losses import Huber
    >>> curvatures(Huber(0.5), np.array([0.75, 3.0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    if not isinstance(z, np.ndarray):
        return form(loss, "curvature", z, y)
    return loss.probabilities(z, y) if takes_batches(loss) else _each(_curvature, loss, z, y)


def bend(h: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """Multiply changes of the predictions by what `curvatures` returned: h dz, or p dz - p <p, dz>."""
    bent = h * dz
    return bent if h.ndim == 1 else bent - h * namespace(h).sum(bent, axis=1, keepdims=True)


def is_built_in(loss: Loss) -> bool:
    """Whether it is one of `dpconvex.losses`."""
    return getattr(losses, type(loss).__name__, None) is type(loss)


def _each(function: Any, loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(len(z))
    function(loss, z, y, out)
    return out


def _sizes(residuals: Any, q: float | None, xp: Any) -> Any:
    """Lengths of residuals: of vectors in l_q if they are gradients of records, whose rows are 1, and in l2 if not."""
    if residuals.ndim == 1:
        return xp.abs(residuals)
    if q is None:
        return xp.linalg.norm(residuals, axis=1) if xp is np else xp.sqrt(xp.sum(residuals * residuals, axis=1))
    if q == 2.0:
        return np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
    return lp_norms(residuals, q) * (1.0 + (residuals.shape[1] + 64) * 4.5e-16)


def shortened(residuals: Any, norms: Any, clip: float, xp: Any = np, q: float | None = None) -> Any:
    """Scale residuals r_i so that the gradients r_i x_i of rows of those norms are no longer than `clip`.

    Gradients of records, whose rows are 1, are measured in l_q.

    Examples
    --------
    >>> shortened(np.array([3.0, 0.1]), np.array([1.0, 1.0]), 1.5)
    array([1.5, 0.1])
    """
    if xp is np and residuals.ndim == 1:
        out = np.empty(len(residuals))
        _shorten(residuals, norms, clip, out)
        return out
    factor = clip / xp.maximum(_sizes(residuals, q, xp) * norms, clip)
    factor = xp.where(factor >= 1e-290, factor, 0.0)  # smaller ones are not exact
    return residuals * (factor if residuals.ndim == 1 else factor[:, None])


def bounded(slopes: Any, lengths: Any, clip: float, zero: bool = False, xp: Any = np, q: float | None = None) -> Any:
    """Slopes whose gradients, of rows of those lengths, are no longer than `clip`: shortened to it, or set to zero.

    A slope that is not a finite number becomes zero.

    Examples
    --------
    >>> bounded(np.array([3.0, -0.5, np.inf, np.nan]), np.ones(4), 1.5)
    array([ 1.5, -0.5,  0. ,  0. ])
    >>> bounded(np.array([3.0, -0.5]), np.ones(2), 1.5, zero=True)
    array([ 0. , -0.5])
    """
    slopes = xp.where(xp.isfinite(slopes), slopes, 0.0)
    with np.errstate(over="ignore"):
        if zero:
            short = _sizes(slopes, q, xp) * lengths <= clip
            return xp.where(short if slopes.ndim == 1 else short[:, None], slopes, 0.0)
        return shortened(slopes, lengths, clip, xp, q)
