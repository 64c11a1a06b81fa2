"""Sums over rows in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from dpconvex.data.opened import OpenedParts
from dpconvex.loops.rows import AnyRows, Dense, Records, Rows, Tensors
from dpconvex.problem.losses import Logistic, Loss
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.careful import careful_pair, closed
from dpconvex.sums.framed import FramedAccumulation, FramedMatrix, PrivateFrame, squared_entries
from dpconvex.sums.lengths import row_lengths
from dpconvex.sums.matrix import Matrix, along, chosen
from dpconvex.sums.people import averaged, people_pair
from dpconvex.sums.protocol import Curvatures, Part, Response, Slopes, Sums, Terms
from dpconvex.sums.recent import Recent, same
from dpconvex.sums.records import RecordSums
from dpconvex.theorems.computed_sums import BLOCK, TERMS_BLOCK

__all__ = ["open_sums"]

_NONE = np.empty(0)


def open_sums(rows: AnyRows | Tensors | OpenedParts, y: np.ndarray) -> Sums:
    """Sums over those rows, measured: what an algorithm begins with, before it releases anything.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.sums.protocol import Labels
    >>> open_sums(Dense(np.array([[3e20, 4e20], [0.5, 0.0]]), 1.0, 0.0), np.array([1.0, -1.0])).sweep(Labels())
    array([0.1, 0.8])
    """
    if isinstance(rows, Records):
        return cast(Sums, RecordSums(rows))  # of which it has what needs gradients alone
    if isinstance(rows, Tensors):
        from dpconvex.sums.tensors import TensorSums

        tensors: Sums = TensorSums(rows, y)
        tensors.open()
        return tensors
    sums: Sums
    if isinstance(rows, OpenedParts):
        from dpconvex.sums.parts import sums_of_parts  # which are made of sums in memory

        sums = sums_of_parts(rows)
    else:
        sums = Memory(rows, y)
    sums.open()
    return sums


class Memory:
    """Sums over the rows of an array or of a sparse matrix: see `protocol.Sums`.

    Parameters
    ----------
    rows : Dense or CSR
    y : ndarray of shape (n,)
        Labels.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.protocol import Labels, Slopes
    >>> sums = Memory(Dense(np.array([[3.0], [1.0], [2.0]]), 4.0, 0.0), np.array([1.0, 0.0, 1.0]))
    >>> sums.sweep(Labels()), sums.sweep(Slopes(Squared(), np.ones(1))), sums.hessian(Squared(), np.ones(1))
    (array([5.]), array([9.]), array([[14.]]))
    >>> sums.view(0, 3, every=2).sweep(Labels()), sums.along(Squared(), np.zeros(1), np.ones(1), (0.0, 1.0))
    (array([5.]), array([[-5., 14.],
           [ 9., 14.]]))
    """

    def __init__(self, rows: Rows, y: np.ndarray) -> None:
        self._rows, self.y = rows, y
        self._matrix: Matrix | None = None
        self._whole: tuple[Memory, slice | np.ndarray] | None = None  # what this is a part of, and which
        self._predictions, self._answers = Recent(), Recent()
        self._lengths: dict[float, np.ndarray] = {}
        self._line: tuple[np.ndarray, ...] = ()
        self._grouped: Memory | None = None

    @property
    def matrix(self) -> Matrix:
        """The rows as operators, measured."""
        if self._matrix is None:
            self._matrix = Matrix(self._rows, len(self.y))
        return self._matrix

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.y)

    @property
    def weights(self) -> np.ndarray:
        """How much each record counts."""
        return self.matrix.weights

    @property
    def size(self) -> int:
        """Features a row, the constant one included."""
        return self.matrix.size

    @property
    def row(self) -> float:
        """Largest l2 norm a row may have, the constant feature included and rounding allowed for."""
        return self.matrix.row

    def open(self) -> None:
        """Measure every row."""
        _ = self.matrix

    def error(self) -> Accumulation:
        """How far these sums can be off."""
        return Accumulation(self.n, self.size, self.row)

    def pair(self, ask: str, *given: Any) -> np.ndarray:
        """Answer a question of `protocol.Sums` by a pair of a high and a low part, which those of other rows may join.

        Examples
        --------
        >>> from dpconvex.loops.rows import Dense
        >>> from dpconvex.sums.protocol import Labels
        >>> Memory(Dense(np.array([[3.0], [1.0]]), 4.0, 0.0), np.array([1.0, 0.0])).pair("sweep", Labels(), False)
        array([[3.],
               [0.]])
        """
        return np.asarray(getattr(self, f"_{ask}")(*given))

    def sweep(self, r: Response, *, keep: bool = False) -> np.ndarray:
        """Return X' diag(omega) r; `keep` says that predictions at its points will be asked for again."""
        return _total(self._sweep(r, keep))

    def _sweep(self, r: Response, keep: bool) -> np.ndarray:
        points = r.points
        if not self.n:
            return np.zeros((2, *points[0].shape) if points else (2, self.size))
        known = [self._known(w) for w in points]
        fresh = [w for w, z in zip(points, known, strict=True) if z is None]
        made = [_room(w, self.n) for w in fresh] if keep else []
        tell = self._teller(r)

        def respond(part: slice, *Z: np.ndarray) -> Any:
            if made:
                for z, new in zip(made, Z, strict=True):
                    z[part] = new
            if len(Z) < len(known):
                coming = iter(Z)
                Z = tuple(next(coming) if z is None else z[part] for z in known)
            return r.rows(tell(part, Z))

        total = self.matrix.sweep_pair(fresh, respond)
        for w, z in zip(fresh if keep else (), made, strict=True):
            self._predictions.add(w, z)
        return total

    def entries(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum of omega_i r_i x_i with every entry of r_i x_i within +-clip; what is not finite adds 0."""
        return _total(self._entries(r, clip))

    def _entries(self, r: Response, clip: float) -> np.ndarray:
        answers, total = self._answer(r), np.zeros((2, self.size))
        answers = np.where(np.isfinite(answers), answers, 0.0)
        for start in range(0, self.n, BLOCK):
            part = slice(start, min(start + BLOCK, self.n))
            self.matrix.add_entries(part, answers[part], clip, total)
        return total

    def people(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum over people of their sums of omega_i r_i x_i, each shortened to a norm of `clip`."""
        return _total(self._people(r, clip))

    def _people(self, r: Response, clip: float) -> np.ndarray:
        if not self.n:
            return np.zeros((2, *r.points[0].shape))
        if self._grouped is None:
            order = np.argsort(self.matrix.rows.people, kind="stable")
            together = bool((np.diff(self.matrix.rows.people) >= 0).all())
            self._grouped = self if together else self._part(order)
        grouped = self._grouped
        return people_pair(grouped.matrix, grouped._answer(r), clip)

    def fold(self, t: Terms) -> np.ndarray:
        """Return the sum of the terms of all records, whatever their weights."""
        Z = tuple(self._predict(w) for w in t.points)
        total: Any = 0.0
        for start in range(0, max(self.n, 1), TERMS_BLOCK):
            at = slice(start, start + TERMS_BLOCK)
            total = total + t.sum(Part(tuple(z[at] for z in Z), self.y[at], _NONE, (), np))
        return np.asarray(total)

    def _fold(self, t: Terms) -> np.ndarray:
        return _alone(self.fold(t))

    def hessian(self, loss: Loss, w: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega l''(X w)) X for a loss of one prediction; in single precision if that is enough."""
        return self.matrix.hessian(self._answer(Curvatures(loss, w)), single)

    def _hessian(self, loss: Loss, w: np.ndarray, single: bool) -> np.ndarray:
        return _alone(self.hessian(loss, w, single))

    def diagonal(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        """Return the diagonal of the Hessian of the losses at w, of the shape of w."""
        h = self._keep(Curvatures(loss, w))
        return self.matrix.diagonal(h if h.ndim == 1 else h * (1.0 - h))

    def _diagonal(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        return _alone(self.diagonal(loss, w))

    def along(self, loss: Loss, w: np.ndarray, to: np.ndarray, ts: Sequence[float]) -> np.ndarray:
        """First and second derivative of the losses in t at w + t (to - w): a row for each t."""
        if not self._line or not (same(self._line[0], w) and same(self._line[1], to)):
            z = self._predict(w)
            self._line = w.copy(), to.copy(), z, self._predict(to) - z
        _, _, z, dz = self._line
        return np.array([along(loss, z, dz, self.y, self.matrix.weights, t) for t in ts])

    def _along(self, loss: Loss, w: np.ndarray, to: np.ndarray, ts: Sequence[float]) -> np.ndarray:
        return _alone(self.along(loss, w, to, ts))

    def careful(self, loss: Loss, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the gradient of the losses at w plus `rest`, in twice the precision; for the logistic loss."""
        return closed(self._careful(loss, w), rest)

    def _careful(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        assert isinstance(loss, Logistic)
        return careful_pair(self.matrix, self.y, loss, w)

    def squared_entries(self) -> np.ndarray:
        """Return the sum over records of omega_i times the squares of the entries of x_i."""
        return squared_entries(self.matrix)

    def framed(self, frame: PrivateFrame, stretch: float, full: float = 1.0) -> Memory:
        """Return sums over the rows in a frame, at most `stretch` long, counted by at most `full` over their length."""
        part = Framed(self._rows, self.y)
        part._matrix = FramedMatrix(self.matrix, frame, stretch, full)
        return part

    def view(self, start: int, stop: int, every: int = 1) -> Memory:
        """Return one record of every so many in that range, as sums of their own."""
        return self._part(slice(start, stop, every))

    def alone(self) -> Memory:
        """Return the same rows, without those that they were taken from."""
        rows = self.matrix.rows
        if isinstance(rows, Dense) and rows.X.base is not None:  # a view would keep all of them
            rows = rows._replace(X=rows.X.copy())
        return Memory(rows, self.y.copy())

    def sampled(self, members: np.ndarray) -> Memory:
        """Return the records of those numbers, in that order; where rows say whose they are, those of these people."""
        people = self.matrix.rows.people
        return self._part(np.flatnonzero(np.isin(people, members)) if len(people) else members)

    def averaged(self) -> Memory:
        """Return sums that count the rows of each person as no more than one, by their mean."""
        part = Memory(self._rows, self.y)
        part._matrix = self.matrix.replaced(averaged(self.matrix.rows.people, self.weights))
        return part

    def _part(self, which: slice | np.ndarray) -> Memory:
        matrix = self.matrix.part(which)
        part = type(self)(matrix.rows, chosen(self.y, which))
        part._matrix, part._whole = matrix, (self, which)
        return part

    def _known(self, w: np.ndarray) -> np.ndarray | None:
        """Predictions at w where no pass is needed for them: those that were kept, and those of weights of zero."""
        return self._predictions.find(w) if w.any() else np.zeros((*w.shape[:-1], self.n)).T

    def _predict(self, w: np.ndarray) -> np.ndarray:
        """Predictions at w, kept."""
        if (z := self._known(w)) is None:
            z = self.matrix.predict(w)
            self._predictions.add(w, z)
        return z

    def _row_lengths(self, q: float) -> np.ndarray:
        """Lengths of all rows in l_q, kept; a part takes them from the whole."""
        if q not in self._lengths:
            if self._whole is None:
                self._lengths[q] = row_lengths(self.matrix, q)
            else:
                whole, which = self._whole
                self._lengths[q] = whole._row_lengths(q)[which]
        return self._lengths[q]

    def _teller(self, r: Response) -> Callable[[slice, tuple[np.ndarray, ...]], Part]:
        """Return what says of a range of rows, with its predictions, all that the response is told."""
        y, kept = self.y, [self._keep(k) for k in r.kept]
        if not r.norm:
            return lambda at, Z: Part(Z, y[at], _NONE, tuple([k[at] for k in kept]), np)
        norms = self._row_lengths(r.norm)
        return lambda at, Z: Part(Z, y[at], norms[at], tuple([k[at] for k in kept]), np)

    def _answer(self, r: Response) -> np.ndarray:
        """Answers of all records."""
        return np.asarray(r.rows(self._teller(r)(slice(None), tuple(self._predict(w) for w in r.points))))

    def _keep(self, r: Response) -> np.ndarray:
        """Answers of all records, kept."""
        if (answers := self._answers.find(r)) is None:
            answers = self._answer(r)
            self._answers.add(r, answers)
        return answers


class Framed(Memory):
    """Sums over rows in a frame: see `Memory.framed`. They answer what a solver asks."""

    def error(self) -> Accumulation:
        """How far these sums can be off."""
        return FramedAccumulation(self.n, self.size, self.row)

    def careful(self, loss: Loss, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the gradient of the losses at w plus `rest`, in the one precision there is."""
        return self.sweep(Slopes(loss, w)) + rest


def _total(pair: np.ndarray) -> np.ndarray:
    return np.asarray(pair[0] + pair[1])


def _alone(total: np.ndarray) -> np.ndarray:
    """A high part whose low part is 0."""
    return np.stack([total, np.zeros_like(total)])


def _room(w: np.ndarray, n: int) -> np.ndarray:
    """Empty array for n predictions at w; a class at a time lies together in memory."""
    return np.empty((*w.shape[:-1], n)).T
