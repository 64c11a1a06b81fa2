"""What algorithms ask of rows, and nothing else: sums over records, wherever the rows lie.

An algorithm hands over a *response*, which says what number (or, for K classes, what K numbers) each record answers to
its predictions, and gets back a sum of the size of the weights. Responses are frozen and can be pickled, so that they
travel to where the rows are; nothing of the size of the number of records is handed over or back. State is named by
weights w: their predictions X w are a cache inside the implementation, which may vanish at any time.

`memory.Memory` answers from rows in the memory of this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpconvex.problem.losses import Loss
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.rowwise import bend, bounded, curvatures, shortened, slopes

__all__ = [
    "Bend",
    "Clipped",
    "Curvatures",
    "Difference",
    "Frame",
    "FrameLengths",
    "Labels",
    "Ones",
    "Part",
    "Response",
    "Slopes",
    "Sums",
    "Terms",
    "Truncated",
]


class Part(NamedTuple):
    """What a response is told of some records.

    Parameters
    ----------
    Z : tuple of arrays
        Predictions at each of the points of the response: one a record, or K.
    y : array
        Labels.
    norms : array
        Lengths of the rows in the norm that the response names, never below the true ones; empty if it names none.
    kept : tuple of arrays
        Answers to the responses that it builds on.
    xp : module
        The functions of arrays of this kind: NumPy, or one like it.
    """

    Z: tuple[Any, ...]
    y: Any
    norms: Any
    kept: tuple[Any, ...]
    xp: Any


class Response(Protocol):
    """What each record answers to its predictions: a frozen object that can be pickled."""

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""

    @property
    def norm(self) -> float:
        """Exponent q of the norm in which lengths of rows are needed, or 0 if none are."""

    @property
    def kept(self) -> tuple[Response, ...]:
        """Responses it builds on, the same for many sweeps: their answers may be kept."""

    def rows(self, part: Part) -> Any:
        """Answers of these records, (m,) or (m, K)."""


class Terms(Protocol):
    """What records add to sums that are not of the shape of the weights, such as counts."""

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""

    def sum(self, part: Part) -> Any:
        """Sum of the terms of these records, of a shape that does not depend on them."""


class Sums(Protocol):
    """Sums over n records of `size` features, the constant one included, each counted by its weight omega_i <= 1.

    Weights w are a vector of `size` numbers, or a matrix with a row for each of K classes; `row` bounds the norms of
    the rows x_i, of which X is made. Nothing that a method returns has an entry per record.
    """

    @property
    def n(self) -> int:
        """Number of records."""

    @property
    def size(self) -> int:
        """Features a row, the constant one included."""

    @property
    def row(self) -> float:
        """Largest l2 norm a row may have, the constant feature included and rounding allowed for."""

    def open(self) -> None:
        """Measure every row, before anything is released.

        Raises
        ------
        RowError
            If a row is not finite.
        """

    def sweep(self, r: Response, *, keep: bool = False) -> np.ndarray:
        """Return X' diag(omega) r; `keep` says that predictions at its points will be asked for again."""

    def entries(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum of omega_i r_i x_i with every entry of r_i x_i within +-clip; what is not finite adds 0."""

    def people(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum over people of their sums of omega_i r_i x_i, each shortened to a norm of `clip`."""

    def fold(self, t: Terms) -> np.ndarray:
        """Return the sum of the terms of all records, whatever their weights."""

    def hessian(self, loss: Loss, w: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega l''(X w)) X for a loss of one prediction; in single precision if that is enough."""

    def diagonal(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        """Return the diagonal of the Hessian of the losses at w, of the shape of w."""

    def along(self, loss: Loss, w: np.ndarray, to: np.ndarray, ts: Sequence[float]) -> np.ndarray:
        """First and second derivative of the losses in t at w + t (to - w): a row for each t."""

    def careful(self, loss: Loss, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the gradient of the losses at w plus `rest`, in twice the precision; for the logistic loss."""

    def view(self, start: int, stop: int, every: int = 1) -> Sums:
        """Return one record of every so many in that range, as sums of their own."""

    def sampled(self, members: np.ndarray) -> Sums:
        """Return the records of those numbers, in that order; where rows say whose they are, those of these people."""

    def averaged(self) -> Sums:
        """Return sums that count the rows of each person as no more than one, by their mean."""

    def error(self) -> Accumulation:
        """How far these sums can be off."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The symmetric matrix (I - (1 - damping) axis axis') / scale: coordinates v of weights w = A v.

    Calling it applies A. In these coordinates a row x reads A x: short along the axis, longer in all others.

    Examples
    --------
    >>> frame = Frame(np.array([1.0, 0.0]), damping=0.5, scale=0.8)
    >>> frame(np.array([0.8, 0.8]))
    array([0.5, 1. ])
    >>> frame.lengths(np.array([1.0]), np.array([0.6])).round(3)
    array([1.068])
    """

    axis: np.ndarray
    damping: float = 1.0
    scale: float = 1.0

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return A v, for one v or for each row of a matrix."""
        along = (1.0 - self.damping) * (V @ self.axis)
        return np.asarray((V - along[..., None] * self.axis) / self.scale)

    def lengths(self, norms: Any, along: Any, xp: Any = np) -> Any:
        """Lengths |A x|, never below the true ones, of rows of those norms and components along the axis.

        With e = (d + 64) 2^-52, norms are right to e, components to e times the norm, and |axis|^2 to e; squares below
        1e-300 may be lost.
        """
        error = 16.0 * (len(self.axis) + 64) * 2.3e-16
        squares = (1.0 + error) * norms**2 - (1.0 - self.damping**2) * along**2
        return xp.sqrt(xp.maximum(squares, 0.0)) / self.scale + 1e-148


class Answer:
    """What the responses below have in common: unless they say otherwise they ask for labels alone.

    Examples
    --------
    >>> Answer().points, Answer().norm, Answer().kept
    ((), 0.0, ())
    """

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return ()

    @property
    def norm(self) -> float:
        """Exponent of the norm in which lengths of rows are needed, or 0 if none are."""
        return 0.0

    @property
    def kept(self) -> tuple[Response, ...]:
        """Responses it builds on."""
        return ()


@dataclass(frozen=True, eq=False)
class Ones(Answer):
    """Every record answers 1: sweeping it gives the sum of the rows."""

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return part.xp.ones_like(part.y)


@dataclass(frozen=True, eq=False)
class Labels(Answer):
    """Every record answers its label."""

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return part.y


@dataclass(frozen=True, eq=False)
class Slopes(Answer):
    """The slope of the loss at w: sweeping it gives the gradient.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.memory import Memory
    >>> sums = Memory(Dense(np.array([[3.0], [1.0]]), 4.0, 0.0), np.array([1.0, 1.0]))
    >>> sums.sweep(Slopes(Squared(), np.array([1.0])))
    array([6.])
    """

    loss: Loss
    w: np.ndarray

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.w,)

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return slopes(self.loss, part.Z[0], part.y)


@dataclass(frozen=True, eq=False)
class Curvatures(Answer):
    """The curvature of the loss at w; for a softmax its probabilities, which stand for diag(p) - p p'."""

    loss: Loss
    w: np.ndarray

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.w,)

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return curvatures(self.loss, part.Z[0], part.y)


@dataclass(frozen=True, eq=False)
class Bend(Answer):
    """How the slopes at w change along v: sweeping it gives the Hessian of the losses at w times v."""

    loss: Loss
    w: np.ndarray
    v: np.ndarray

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.v,)

    @property
    def kept(self) -> tuple[Response, ...]:
        """Responses it builds on."""
        return (Curvatures(self.loss, self.w),)

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return bend(part.kept[0], part.Z[0])


@dataclass(frozen=True, eq=False)
class FrameLengths(Answer):
    """Length of the row in a frame, never below the true one."""

    frame: Frame

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.frame.axis,)

    @property
    def norm(self) -> float:
        """Exponent of the norm in which lengths of rows are needed, or 0 if none are."""
        return 2.0

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        return self.frame.lengths(part.norms, part.Z[0], part.xp)


@dataclass(frozen=True, eq=False)
class Clipped(Answer):
    """The slope at w, shortened where the gradient is longer than `clip` in l_q or, in a frame, in l2.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.memory import Memory
    >>> sums = Memory(Dense(np.array([[3.0], [1.0]]), 4.0, 0.0), np.array([1.0, 1.0]))
    >>> sums.sweep(Clipped(Squared(), np.array([1.5]), 2.0)).round(9)  # gradients of 10.5 and 0.5
    array([2.5])
    """

    loss: Loss
    w: np.ndarray
    clip: float
    q: float = 2.0
    frame: Frame | None = None

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.w,)

    @property
    def norm(self) -> float:
        """Exponent of the norm in which lengths of rows are needed, or 0 if none are."""
        return self.q if self.frame is None else 0.0

    @property
    def kept(self) -> tuple[Response, ...]:
        """Responses it builds on."""
        return () if self.frame is None else (FrameLengths(self.frame),)

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        lengths = part.norms if self.frame is None else part.kept[0]
        q = self.q if self.loss.traits.records else None
        return shortened(slopes(self.loss, part.Z[0], part.y), lengths, self.clip, part.xp, q)


@dataclass(frozen=True, eq=False)
class Truncated(Answer):
    """The slope at w, shortened or (`zero`) left out where the gradient is longer than `clip` in l_q.

    A slope that is not a finite number is left out.
    """

    loss: Loss
    w: np.ndarray
    clip: float
    q: float = 2.0
    zero: bool = False

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.w,)

    @property
    def norm(self) -> float:
        """Exponent of the norm in which lengths of rows are needed, or 0 if none are."""
        return self.q

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        q = self.q if self.loss.traits.records else None
        return bounded(slopes(self.loss, part.Z[0], part.y), part.norms, self.clip, self.zero, part.xp, q)


@dataclass(frozen=True, eq=False)
class Difference(Answer):
    """`now` times the slope at w minus `then` times that at `before`, shortened where it is longer than `clip`."""

    loss: Loss
    w: np.ndarray
    before: np.ndarray
    now: float
    then: float
    clip: float

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """Weights whose predictions are needed."""
        return (self.w, self.before)

    @property
    def norm(self) -> float:
        """Exponent of the norm in which lengths of rows are needed, or 0 if none are."""
        return 2.0

    def rows(self, part: Part) -> Any:
        """Answers of these records."""
        residuals = self.now * slopes(self.loss, part.Z[0], part.y)
        residuals -= self.then * slopes(self.loss, part.Z[1], part.y)
        return shortened(residuals, part.norms, self.clip, part.xp, 2.0 if self.loss.traits.records else None)
