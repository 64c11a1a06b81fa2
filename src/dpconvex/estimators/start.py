"""Where a fit starts: the weights of a public model, in the units in which its coefficients are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.data.encoding import Encoding
from dpconvex.data.frames import as_texts
from dpconvex.errors import InputError
from dpconvex.estimators.summary import INTERCEPT
from dpconvex.estimators.table import Opened

if TYPE_CHECKING:
    from dpconvex.estimators.base import PrivateLinearModel

__all__ = ["starting_weights"]

_FORMS = (
    "start must be coefficients, a pair (coefficients, intercept), effects by the names of a summary, or a fitted "
    "model with coef_ and intercept_"
)


def starting_weights(model: PrivateLinearModel, rows: Opened, public: Mapping[str, Any]) -> np.ndarray | None:
    """Weights at which a fit starts, in the units of the problem that is solved; None if none were given.

    Parameters
    ----------
    model : PrivateLinearModel
        Its parameter `start` is read.
    rows : Opened
    public : mapping
        Public facts of the target: its classes, or its range.
    """
    if model.start is None:
        return None
    classes = public.get("classes_")
    outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    low, high = public.get("target_range_", (-1.0, 1.0))
    middle, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    coef, intercept = _coefficients(model, rows.d, outputs, classes)
    coef = _numbers(coef, "coefficients", outputs, rows.d) / half
    level = (
        (_numbers(intercept, "intercept", outputs, 1) - middle) / half if intercept is not None else 0.0 * coef[:, :1]
    )
    constant = model._constant(rows.bound, rows.constant) if model.fit_intercept else 0.0
    if constant:
        coef = np.column_stack([coef, level / constant])
    elif np.abs(level).max() > 1e-12:
        raise InputError("start has an intercept, which fit_intercept=False has not: leave it out")
    return coef if outputs > 1 else coef[0]


def _coefficients(model: PrivateLinearModel, d: int, outputs: int, classes: Any) -> tuple[Any, Any]:
    """Coefficients of the encoded columns and the intercept, in units of the target; None if none was given."""
    start = model.start
    if isinstance(start, Mapping):
        return _by_name(model, start, outputs, classes)
    if hasattr(type(start), "fit"):
        try:
            found, theirs = (start.coef_, start.intercept_), getattr(start, "classes_", None)
        except AttributeError:
            raise InputError(
                "start is a model that is not fitted (copies that scikit-learn makes forget their fits): give "
                "(model.coef_, model.intercept_)"
            ) from None
        if (theirs is None) != (classes is None):
            raise InputError("start is a model of another kind of target")
        if theirs is not None and as_texts(theirs).tolist() != as_texts(classes).tolist():
            raise InputError("start is a model of other classes, or of classes in another order")
        return found
    if isinstance(start, tuple) and len(start) == 2 and np.ndim(start[0]):
        return start
    return start, None


def _by_name(model: PrivateLinearModel, start: Mapping[Any, Any], outputs: int, classes: Any) -> tuple[Any, Any]:
    """The same from effects by name, in the units of the table, as `summary` shows them."""
    schema = model._declared().schema
    if schema is not None:
        encoding = Encoding(schema)
        names, factors = encoding.names, np.asarray(encoding.factors, dtype=np.float64)
    else:
        names = tuple(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))
        factors = np.ones(len(names))
    every = [*names, INTERCEPT]
    known = [f"{label}: {name}" for label in classes for name in every] if outputs > 1 else every
    if unknown := [name for name in start if name not in known]:
        raise InputError(f"start names {unknown[0]!r}, and there are {', '.join(map(repr, known[:8]))}, ...")
    values = np.array([start.get(name, np.nan) for name in known], dtype=object).reshape(outputs, -1)
    left_out = np.array([name not in start for name in known]).reshape(outputs, -1)
    values = np.where(left_out, 0.0, values)
    intercept = None if left_out[:, -1].all() else values[:, -1]
    return _numbers(values[:, :-1], "effects", outputs, len(names)) / factors, intercept


def _numbers(value: Any, what: str, outputs: int, d: int) -> np.ndarray:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(_FORMS) from None
    if found.size != outputs * d or (found.ndim > 1 and found.shape != (outputs, d) and outputs * d > 1):
        expected = (outputs, d) if outputs > 1 else (d,)
        raise InputError(f"start: {what} of shape {expected} are needed for these columns, not {found.shape}")
    if not np.isfinite(found).all():
        raise InputError(f"start: {what} must be finite")
    return found.reshape(outputs, d)
