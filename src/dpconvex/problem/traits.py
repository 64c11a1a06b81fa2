"""Traits: what the rest of the library may ask of a loss or a domain without knowing its class.

A loss or a domain states them in one property, `traits`. They follow from its class and its parameters, so they are not
part of plans, receipts or digests. The contract tests check them against values, slopes and projections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["DomainTraits", "LossTraits"]

Labels = Literal["sign", "bounded", "class", "any"]
Task = Literal["margin", "classes", "squares", "hinge", "absolute"]


@dataclass(frozen=True)
class LossTraits:
    """Properties of a loss.

    Parameters
    ----------
    labels : "sign", "bounded", "class" or "any"
        Labels it accepts: -1 and +1, targets in a declared range, class indices, or whatever comes with a record.
    task : "margin", "classes", "squares", "hinge", "absolute" or None
        Name under which the chooser knows it; None for a loss that the chooser does not cover.
    outputs : int
        Predictions per row: 1, or the number of classes.
    target : float
        Largest |label|: the declared bound of a target, and 1 for the labels -1 and +1.
    scale : float
        Typical size of predictions: that of the targets, or the required margin.
    monotone : bool
        Whether the label determines the sign of the slope.
    kinked : bool
        Whether the slope jumps, so that the curvature is unbounded. Such a loss is the larger of two lines and has
        the method `kinks`.
    constant : bool
        Whether the slope does not depend on the prediction. Such a loss is not bounded from below.
    quadratic : bool
        Whether the curvature is 1 everywhere, so that sums of products of columns and targets determine the minimiser.
    careful : bool
        Whether `sums.careful` computes its gradient in twice the precision.
    probabilities : bool
        Whether scores stand for probabilities. Such a loss has the method `log_odds`.
    quantile : float or None
        Quantile of the label that the population minimiser predicts, or None.
    records : bool
        Whether it is a loss of a whole record, with a gradient of the shape of the weights, rather than of predictions.
    shape : tuple of int, optional
        Shape of the weights of such a loss, if they are no vector of d numbers.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.losses.Hinge().traits.kinked, dc.losses.Softmax(3).traits.outputs
    (True, 3)
    """

    labels: Labels
    task: Task | None
    outputs: int = 1
    target: float = 1.0
    scale: float = 1.0
    monotone: bool = False
    kinked: bool = False
    constant: bool = False
    quadratic: bool = False
    careful: bool = False
    probabilities: bool = False
    quantile: float | None = None
    records: bool = False
    shape: tuple[int, ...] | None = None

    def weight_shape(self, size: int) -> tuple[int, ...]:
        """Shape of the weights for rows of `size` features: a vector, or a matrix with one row per prediction."""
        if self.shape is not None:
            return self.shape
        return (self.outputs, size) if self.outputs > 1 else (size,)


@dataclass(frozen=True)
class DomainTraits:
    """Properties of a domain.

    Parameters
    ----------
    bounded : bool
        Whether its diameter is finite in every dimension.
    rowwise : bool
        Whether loops can project after every row. Such a domain has the methods `rescale`, `clip` and `clips`.
    origin : bool
        Whether it contains the origin, where runs start; `centre` is then the origin.
    inside : bool
        Whether iterates stay in it. Onto an l_p ball only the final point of a run is projected.
    corners : bool
        Whether it is the convex hull of at most 2 d corners, towards which Frank-Wolfe steps move. False for every
            `LpBall`.
    interval : pair of floats, or None
        Range of every coordinate if coordinates are independent of each other. None for every `LpBall`.
    norm : float or None
        The exponent p if the domain is an l_p ball around the origin.
    radius : float
        Radius of that ball; infinite for any other domain.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.domains.L1Ball(2.0).traits.norm, dc.domains.Box().traits.rowwise
    (1.0, True)
    """

    bounded: bool = True
    rowwise: bool = False
    origin: bool = True
    inside: bool = True
    corners: bool = False
    interval: tuple[float, float] | None = None
    norm: float | None = None
    radius: float = math.inf


def first_not_positive(**parameters: float) -> str | None:
    """Name the first parameter that is not positive and finite, or None.

    Examples
    --------
    >>> first_not_positive(threshold=1.0, target=0.0)
    'target must be positive and finite'
    """
    wrong = (name for name, value in parameters.items() if not 0.0 < value < math.inf)
    return next((f"{name} must be positive and finite" for name in wrong), None)
