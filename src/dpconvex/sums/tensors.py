"""Sums over rows of a tensor, on the device it lies on: an accelerator, or for tests a CPU.

Rows never leave the device, or, if they lie in host memory, pass through it in parts, the next of which is copied while
one is used. What leaves it are sums of the size of the weights, and predictions for terms that only NumPy can compute
(`fold`). Sums are in float64, in an order that the shape of X alone decides: blocks of 1024 rows, which join pairs of a
high and a low part. They are as far off as those of `memory` at most: docs/proofs/computed_sums.md.

Where Triton is there, passes over a CUDA device are those of `fused`. The rest needs functions of the array API
standard alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpconvex.errors import InputError, RowError
from dpconvex.loops.rows import NOT_FINITE, Tensors
from dpconvex.namespaces import host, is_torch, namespace
from dpconvex.problem.losses import Logistic, Loss
from dpconvex.sums import careful, tensor_pairs
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.careful import closed
from dpconvex.sums.copied import copied
from dpconvex.sums.matrix import merge, row_limit
from dpconvex.sums.people import averaged
from dpconvex.sums.protocol import Bend, Clipped, Curvatures, Part, Response, Slopes, Terms
from dpconvex.sums.recent import Recent
from dpconvex.sums.rowwise import bend, curvatures, slopes
from dpconvex.sums.tensor_pairs import joined
from dpconvex.theorems.computed_sums import BLOCK, MATRIX_BLOCK, TERMS_BLOCK

__all__ = ["TensorSums"]

_NUMBERS = 2**25  # of float64 numbers of a part of the rows
_COPIED = 2**27  # of a part of rows that are copied to the device
_KERNEL = 2**30  # of a part of rows that kernels read, which need no copy of it in float64
_ALL = 2**60
_NONE = np.empty(0)


class TensorSums:
    """Sums over the rows of a tensor: see `protocol.Sums`.

    Parameters
    ----------
    rows : Tensors
    y : array of shape (n,)
        Labels, as a tensor or in memory.

    Examples
    --------
    >>> from dpconvex.problem.losses import Squared
    >>> from dpconvex.sums.protocol import Labels, Slopes
    >>> sums = TensorSums(Tensors(np.array([[3.0], [1.0], [2.0]]), 4.0, 0.0), np.array([1.0, 0.0, 1.0]))
    >>> sums.sweep(Labels()), sums.sweep(Slopes(Squared(), np.ones(1))), sums.hessian(Squared(), np.ones(1))
    (array([5.]), array([9.]), array([[14.]]))
    """

    def __init__(self, rows: Tensors, y: Any) -> None:
        self._rows, self._xp = rows, namespace(rows.X)
        self._device = rows.X.device if rows.device is None else rows.device
        self._n, self._d = rows.X.shape
        self._size = self._d + (rows.constant != 0.0)
        self.y = self._to(y)
        self._omega = self._to(rows.weights) if len(rows.weights) else None
        self._measured: tuple[Any, Any] | None = None  # factors that shorten rows, and norms
        self._whole: tuple[TensorSums, Any] | None = None  # what this is a part of, and which
        self._predictions, self._answers = Recent(), Recent()
        self._lengths: dict[float, Any] = {}
        self._line: tuple[Any, ...] = ()
        self._fused: Any = _kernels(self._device) if is_torch(rows.X) else None

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self._n)

    @property
    def size(self) -> int:
        """Features a row, the constant one included."""
        return int(self._size)

    @property
    def row(self) -> float:
        """Largest l2 norm a row may have, the constant feature included and rounding allowed for."""
        return row_limit(self._rows.radius, self._rows.constant, self.size)

    def error(self) -> Accumulation:
        """How far these sums can be off."""
        return Accumulation(self.n, self.size, self.row)

    def open(self) -> None:
        """Measure every row."""
        _ = self._measures

    # Rows -----------------------------------------------------------------------------------------------------------

    @property
    def _measures(self) -> tuple[Any, Any]:
        if self._measured is None:
            xp, constant = self._xp, self._rows.constant
            shorten, norms = self._room(()), self._room(())
            wild = []
            for part, X in self._parts(_KERNEL if self._fused else _NUMBERS):
                squares = self._squares(X)
                fits = squares < math.inf
                norm = xp.sqrt(xp.where(fits, squares, 0.0))
                factor = self._rows.radius / xp.maximum(norm, self._rows.radius)
                shorten[part] = xp.where(fits, factor, 0.0)
                norm = xp.minimum(norm, self._rows.radius)
                norms[part] = xp.sqrt(norm * norm + constant * constant)
                wild.append(self._finite(X, fits))
            if not all(bool(one) for one in wild):
                raise RowError(NOT_FINITE)
            self._measured = shorten, norms
        return self._measured

    def _squares(self, X: Any) -> Any:
        if self._fused:
            return self._fused.squares(X, self._d)
        if is_torch(X):  # without a copy
            norms = self._xp.linalg.vector_norm(X, dim=1, dtype=self._xp.float64)
            return norms * norms
        X = self._double(X)
        return self._xp.sum(X * X, axis=1)

    def _finite(self, X: Any, fits: Any) -> Any:
        """Whether rows hold numbers alone: no row takes other steps than another."""
        xp = self._xp
        if X.dtype == xp.float32:  # whose squares are within the range of float64
            return xp.all(fits)
        return xp.all(xp.isfinite(X))

    def _parts(self, numbers: int) -> Iterator[tuple[slice, Any]]:
        """Ranges of rows with these rows on the device, of some numbers each: whole blocks, but for the last."""
        X = self._rows.X
        most = 2**29 if numbers >= _KERNEL else MATRIX_BLOCK  # rows of a product
        step = max(BLOCK, min(most, numbers // max(self._d, 1)) // BLOCK * BLOCK)
        if str(X.device) == str(self._device):
            for start in range(0, self.n, step):
                part = slice(start, min(start + step, self.n))
                yield part, X[part, :]
            return
        step = max(BLOCK, _COPIED // max(self._d, 1) // BLOCK * BLOCK)
        yield from copied(X, step, self._device)

    def _double(self, X: Any) -> Any:
        return self._xp.astype(X, self._xp.float64)

    def _to(self, values: Any) -> Any:
        """Numbers of float64 on the device."""
        xp = self._xp
        if xp is np or isinstance(values, np.ndarray):
            return xp.asarray(np.ascontiguousarray(values, dtype=np.float64), device=self._device)
        return xp.asarray(values, dtype=xp.float64, device=self._device)

    def _room(self, shape: tuple[int, ...]) -> Any:
        return self._xp.empty((self.n, *shape), dtype=self._xp.float64, device=self._device)

    # Products ---------------------------------------------------------------------------------------------------------

    def _forth(self, part: slice, X: Any, W: Any) -> Any:
        """Predictions of a range of rows."""
        xp, constant, d = self._xp, self._rows.constant, self._d
        shorten = self._measures[0][part]
        if self._fused and self._fits(W):
            many = W if W.ndim == 2 else W[None, :]
            Z = self._fused.predict(X, d, many, constant, shorten)
            return Z if W.ndim == 2 else Z[:, 0]
        X, T = self._double(X), W.T if W.ndim == 2 else W
        Z = 0.0
        for j in range(0, d, BLOCK):
            k = min(j + BLOCK, d)
            Z = X[:, j:k] @ T[j:k, ...] + Z
        factor = shorten[:, None] if W.ndim == 2 else shorten
        Z = xp.where(factor > 0.0, factor * Z, 0.0)
        return Z + constant * T[d, ...] if constant else Z

    def _back(self, part: slice, X: Any, R: Any) -> Any:
        """Sum of the rows of a range times R, as a pair."""
        xp, constant, shorten = self._xp, self._rows.constant, self._measures[0][part]
        columns = R if R.ndim == 2 else R[:, None]
        if self._fused and columns.shape[1] <= self._fused.CLASSES:
            pair = self._fused.adjoint(X, self._d, xp.asarray(columns).contiguous(), constant, shorten)
        else:
            pair = joined(xp, self._blocks(self._double(X), columns, shorten[:, None] * columns))
        return pair if R.ndim == 2 else pair[:, 0, :]

    def _blocks(self, X: Any, R: Any, scaled: Any) -> Any:
        """Sums over blocks of rows: (blocks, K, size)."""
        xp, found = self._xp, []
        whole = X.shape[0] // BLOCK * BLOCK
        for start, stop in ((0, whole), (whole, X.shape[0])):
            if start == stop:
                continue
            rows = min(BLOCK, stop - start)
            A, B, C = (xp.reshape(M[start:stop, :], (-1, rows, M.shape[1])) for M in (X, scaled, R))
            sums = B.mT @ A
            if self._rows.constant:
                sums = xp.concat([sums, self._rows.constant * xp.sum(C, axis=1)[:, :, None]], axis=2)
            found.append(sums)
        return found[0] if len(found) == 1 else xp.concat(found, axis=0)

    def _fits(self, W: Any) -> bool:
        return W.ndim == 1 or W.shape[0] <= self._fused.CLASSES

    # Answers ----------------------------------------------------------------------------------------------------------

    def sweep(self, r: Response, *, keep: bool = False) -> np.ndarray:
        """Return X' diag(omega) r; `keep` says that predictions at its points will be asked for again."""
        points = r.points
        if not self.n:
            return np.zeros(points[0].shape if points else (self.size,))
        known = [self._predictions.find(w) for w in points]
        fresh = [w for w, z in zip(points, known, strict=True) if z is None]
        made = [self._room(w.shape[:-1]) for w in fresh] if keep else []
        at_once = self._at_once(r)
        tell, weights, pairs = self._teller(r), [self._to(w) for w in fresh], []
        for part, X in self._parts((_KERNEL if self._fused else _NUMBERS) if at_once is None else _ALL):
            if at_once is not None:
                pairs.append(at_once(part, X, made[0][part, ...] if made else None))
                continue
            coming = [self._forth(part, X, W) for W in weights]
            for z, new in zip(made, coming, strict=bool(made)):
                z[part, ...] = new
            Z = iter(coming)
            R = r.rows(tell(part, tuple(next(Z) if z is None else z[part, ...] for z in known)))
            pairs.append(self._back(part, X, self._weighted(part, R)))
        for w, z in zip(fresh if keep else (), made, strict=True):
            self._predictions.add(w, z)
        return self._total(pairs)

    def _at_once(self, r: Response) -> Callable[[slice, Any, Any], Any] | None:
        """A pass of one kernel, if there is one for this response; it is told where to keep predictions."""
        kernels = self._fused
        if kernels is None or not isinstance(r, Slopes | Clipped | Bend) or len(r.points) != 1:
            return None
        if r.points[0].ndim > 1 or self._d > kernels.WIDEST or r.loss.traits.outputs > 1:
            return None
        shorten, W = self._measures[0], self._to(r.points[0])
        given: dict[str, Any] = {"loss": r.loss}
        labels, lengths = self.y, None
        if isinstance(r, Bend):
            given = {"mode": kernels.BEND}
            labels = self._keep(r.kept[0])
        elif isinstance(r, Clipped):
            lengths = self._keep(r.kept[0]) if r.kept else self._row_lengths(r.norm)
            given |= {"mode": kernels.CLIPPED, "clip": r.clip}

        def run(part: slice, X: Any, kept: Any) -> Any:
            omega = None if self._omega is None else self._omega[part]
            some = None if lengths is None else lengths[part]
            return kernels.sweep(
                X, self._d, W, self._rows.constant, labels[part], shorten[part], omega, lengths=some, kept=kept, **given
            )

        return run

    def _weighted(self, part: slice, R: Any) -> Any:
        if self._omega is None:
            return R
        omega = self._omega[part]
        return R * (omega if R.ndim == 1 else omega[:, None])

    def _total(self, pairs: list[Any]) -> np.ndarray:
        total, *others = host(self._xp.stack(pairs))
        for pair in others:
            merge(total, pair)
        return np.asarray(total[0] + total[1])

    def entries(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum of omega_i r_i x_i with every entry of r_i x_i within +-clip; what is not finite adds 0."""
        xp, constant, pairs = self._xp, self._rows.constant, []
        if not self.n:
            return np.zeros(self.size)
        answers = self._answer(r)
        answers = xp.where(xp.isfinite(answers), answers, 0.0)
        for part, X in self._parts(_NUMBERS):
            R, shorten = answers[part, ...], self._measures[0][part]
            cut = xp.clip((R * shorten)[:, None] * self._double(X), -clip, clip)
            if constant:
                cut = xp.concat([cut, xp.clip(R * constant, -clip, clip)[:, None]], axis=1)
            omega = xp.ones_like(R) if self._omega is None else self._omega[part]
            pairs.append(joined(xp, self._rowsums(cut, omega[:, None]))[:, 0, :])
        return self._total(pairs)

    def _rowsums(self, T: Any, omega: Any) -> Any:
        """Sums over blocks of rows of whole vectors, weighted: (blocks, 1, size)."""
        xp, found = self._xp, []
        whole = T.shape[0] // BLOCK * BLOCK
        for start, stop in ((0, whole), (whole, T.shape[0])):
            if start < stop:
                rows = min(BLOCK, stop - start)
                A, B = (xp.reshape(M[start:stop, :], (-1, rows, M.shape[1])) for M in (T, omega))
                found.append(B.mT @ A)
        return found[0] if len(found) == 1 else xp.concat(found, axis=0)

    def people(self, r: Response, clip: float) -> np.ndarray:
        """Return the sum over people of their sums of omega_i r_i x_i, each shortened to a norm of `clip`."""
        if not self.n:
            return np.zeros(r.points[0].shape)
        if str(self._rows.X.device) != str(self._device):
            raise InputError("sums over people need the rows on the device: move X there")
        xp, owner = self._xp, self._rows.people
        answers, shorten = self._answer(r), self._measures[0]
        answers = self._weighted(slice(None), answers)
        columns = answers if answers.ndim == 2 else answers[:, None]
        order = np.argsort(owner, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(owner))])
        pairs, K = [], columns.shape[1]
        many = max(1, _NUMBERS // (self.size * K))  # rows at a time
        at = 0
        while at < len(ends) - 1:
            last = min(int(np.searchsorted(ends, ends[at] + many, side="right")) - 1, at + BLOCK)
            last = max(last, at + 1)
            sums: Any = None
            for start in range(int(ends[at]), max(int(ends[last]), int(ends[at]) + 1), many):
                rows = order[start : min(start + many, int(ends[last]))]
                member = self._to((owner[rows][None, :] == np.arange(at, last)[:, None]).astype(np.float64))
                which = xp.asarray(rows, device=self._device)
                X = xp.take(self._rows.X, which, axis=0)
                R = xp.take(columns, which, axis=0)
                T = (R * xp.take(shorten, which, axis=0)[:, None])[:, :, None] * self._double(X)[:, None, :]
                if self._rows.constant:
                    T = xp.concat([T, (self._rows.constant * R)[:, :, None]], axis=2)
                T = xp.reshape(T, (len(rows), K * self.size))
                fits = xp.all(xp.abs(T) < 1e150, axis=1)
                T = xp.where(fits[:, None], T, 0.0)  # what is not finite would reach others in the product
                lost = 1e200 * self._double(~fits)[:, None]  # and its person counts as nothing
                part = member @ xp.concat([T, lost], axis=1)
                sums = part if sums is None else sums + part
            short = self._short(sums, clip)[:, : K * self.size]
            pairs.append(joined(xp, self._rowsums(short, self._to(np.ones((last - at, 1)))))[:, 0, :])
            at = last
        return self._total(pairs).reshape(r.points[0].shape)

    def _short(self, sums: Any, clip: float) -> Any:
        """Shorten each of some vectors to a norm of `clip`, as computed; what overflows counts as nothing."""
        xp = self._xp
        square = xp.sum(sums * sums, axis=1)
        fits = square < 1e300
        length = xp.sqrt(xp.where(fits, square, 0.0)) * (1.0 + (sums.shape[1] + 64) * 2.3e-16) + 1e-148
        factor = clip / xp.maximum(length, clip)
        factor = xp.where(fits & (factor >= 1e-290), factor, 0.0)
        return xp.where((factor > 0.0)[:, None], factor[:, None] * sums, 0.0)

    def fold(self, t: Terms) -> np.ndarray:
        """Return the sum of the terms of all records, whatever their weights; NumPy computes them of predictions."""
        Z, y = tuple(host(self._predict(w)) for w in t.points), host(self.y)
        total: Any = 0.0
        for start in range(0, max(self.n, 1), TERMS_BLOCK):
            at = slice(start, start + TERMS_BLOCK)
            total = total + t.sum(Part(tuple(z[at] for z in Z), y[at], _NONE, (), np))
        return np.asarray(total)

    def hessian(self, loss: Loss, w: np.ndarray, single: bool = False) -> np.ndarray:
        """Return X' diag(omega l''(X w)) X for a loss of one prediction; in single precision if that is enough."""
        xp = self._xp
        kind = xp.float32 if single else xp.float64
        root = xp.sqrt(self._weighted(slice(None), self._answer(Curvatures(loss, w))))
        factor, total = root * self._measures[0], None
        for part, X in self._parts(_NUMBERS):
            A = xp.astype(factor[part], kind)[:, None] * xp.astype(X, kind)
            if self._rows.constant:
                A = xp.concat([A, xp.astype(self._rows.constant * root[part], kind)[:, None]], axis=1)
            made = self._double(A.T @ A)
            total = made if total is None else total + made
        return np.zeros((self.size, self.size)) if total is None else host(total)

    def diagonal(self, loss: Loss, w: np.ndarray) -> np.ndarray:
        """Return the diagonal of the Hessian of the losses at w, of the shape of w."""
        xp, constant = self._xp, self._rows.constant
        h = self._keep(Curvatures(loss, w))
        h = self._weighted(slice(None), h if h.ndim == 1 else h * (1.0 - h))
        columns, total = h if h.ndim == 2 else h[:, None], None
        if self._fused and columns.shape[1] <= self._fused.CLASSES:
            pairs = [
                self._fused.adjoint(
                    X, self._d, columns[part, ...].contiguous(), constant, self._measures[0][part], squared=True
                )
                for part, X in self._parts(_ALL)
            ]
            return self._total(pairs).reshape(w.shape)
        for part, X in self._parts(_NUMBERS):
            A = self._measures[0][part][:, None] * self._double(X)
            made = columns[part, ...].T @ (A * A)
            total = made if total is None else total + made
        if total is None:
            return np.zeros(w.shape)
        if constant:
            total = xp.concat([total, constant**2 * xp.sum(columns, axis=0)[:, None]], axis=1)
        return host(total).reshape(w.shape)

    def along(self, loss: Loss, w: np.ndarray, to: np.ndarray, ts: Sequence[float]) -> np.ndarray:
        """First and second derivative of the losses in t at w + t (to - w): a row for each t."""
        xp = self._xp
        if not self._line or not (np.array_equal(self._line[0], w) and np.array_equal(self._line[1], to)):
            z = self._predict(w)
            self._line = w.copy(), to.copy(), z, self._predict(to) - z
        _, _, z, dz = self._line
        moved, found = self._weighted(slice(None), dz), []
        for t in ts:
            at = z + t * dz
            bent = bend(curvatures(loss, at, self.y), dz)
            found.append(xp.stack([xp.sum(slopes(loss, at, self.y) * moved), xp.sum(bent * moved)]))
        return host(xp.stack(found))

    def careful(self, loss: Loss, w: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the gradient of the losses at w plus `rest`, in twice the precision; for the logistic loss."""
        assert isinstance(loss, Logistic)
        total: np.ndarray | None = None
        W, shorten = self._to(w), self._measures[0]
        fused = self._fused is not None and self._d <= self._fused.WIDEST
        for part, X in self._parts(_ALL if fused else _NUMBERS // 8):
            omega = None if self._omega is None else self._omega[part]
            if fused:
                from dpconvex.sums.fused_careful import careful_pair

                pair = careful_pair(X, self._d, W, self._rows.constant, self.y[part], shorten[part], omega, loss)
            else:
                given = self._rows.constant, self.y[part], shorten[part], omega, loss
                pair = tensor_pairs.careful_pair(self._xp, self._double(X), W, *given)
            if total is None:
                total = np.array(host(pair))
            else:
                careful.join(total, host(pair))
        return closed(np.zeros((2, self.size)) if total is None else total, rest)

    # Parts and caches -------------------------------------------------------------------------------------------------

    def view(self, start: int, stop: int, every: int = 1) -> TensorSums:
        """Return one record of every so many in that range, as sums of their own."""
        return self._part(slice(start, stop, every), range(self.n)[start:stop:every])

    def sampled(self, members: np.ndarray) -> TensorSums:
        """Return the records of those numbers, in that order; where rows say whose they are, those of these people."""
        people = self._rows.people
        which = np.flatnonzero(np.isin(people, members)) if len(people) else np.asarray(members, dtype=np.int64)
        return self._part(which, which)

    def averaged(self) -> TensorSums:
        """Return sums that count the rows of each person as no more than one, by their mean."""
        weights = np.ones(self.n) if self._omega is None else host(self._omega)
        rows = self._rows._replace(weights=averaged(self._rows.people, weights), people=_NONE)
        part = TensorSums(rows, self.y)
        part._measured = self._measures
        return part

    def _part(self, which: Any, numbers: Any) -> TensorSums:
        rows, xp = self._rows, self._xp

        def of(values: Any) -> Any:
            """Some of the values, next to each other, as kernels read them."""
            if isinstance(which, slice) and which.step == 1:
                return values[which, ...]
            places = xp.asarray(np.asarray(numbers), device=values.device)
            return xp.take(values, places, axis=0)

        chosen = rows._replace(
            X=rows.X[which, ...] if isinstance(which, slice) else of(rows.X),  # kernels know how far rows are apart
            weights=rows.weights[which] if len(rows.weights) else rows.weights,
            people=rows.people[which] if len(rows.people) else rows.people,
        )
        part = TensorSums(chosen, of(self.y))
        part._measured = tuple(of(one) for one in self._measures)
        part._whole = self, of
        return part

    def _predict(self, w: np.ndarray) -> Any:
        """Predictions at w, kept."""
        if (z := self._predictions.find(w)) is None:
            z, W = self._room(w.shape[:-1]), self._to(w)
            for part, X in self._parts(_KERNEL if self._fused and self._fits(W) else _NUMBERS):
                z[part, ...] = self._forth(part, X, W)
            self._predictions.add(w, z)
        return z

    def _row_lengths(self, q: float) -> Any:
        """Lengths of all rows in l_q, never below the true ones (`lengths`); a part takes them from the whole."""
        if q not in self._lengths:
            if self._whole is None:
                self._lengths[q] = self._measure(q)
            else:
                whole, of = self._whole
                self._lengths[q] = of(whole._row_lengths(q))
        return self._lengths[q]

    def _measure(self, q: float) -> Any:
        xp, constant, (shorten, norms) = self._xp, self._rows.constant, self._measures
        if q == 2.0:
            return norms * (1.0 + (self.size + 64) * 2.3e-16) + 1e-148
        found = self._room(())
        for part, X in self._parts(_NUMBERS):
            size = xp.abs(self._double(X))
            top = xp.max(size, axis=1)
            if q != math.inf:
                unit = xp.where(top > 0.0, top, 1.0)
                top = top * xp.sum((size / unit[:, None]) ** q, axis=1) ** (1.0 / q)
            found[part] = xp.where(shorten[part] > 0.0, shorten[part] * top, 0.0)
        if q == math.inf:
            return xp.maximum(found, constant)
        top = xp.maximum(found, constant)
        unit = xp.where(top > 0.0, top, 1.0)
        both = top * ((found / unit) ** q + (constant / unit) ** q) ** (1.0 / q)
        return both * (1.0 + (self._d + 64) * 4.5e-16) + 1e-148

    def _teller(self, r: Response) -> Callable[[slice, tuple[Any, ...]], Part]:
        """Return what says of a range of rows, with its predictions, all that the response is told."""
        y, xp, kept = self.y, self._xp, [self._keep(k) for k in r.kept]
        norms = self._row_lengths(r.norm) if r.norm else None
        return lambda at, Z: Part(
            Z, y[at], _NONE if norms is None else norms[at], tuple([k[at, ...] for k in kept]), xp
        )

    def _answer(self, r: Response) -> Any:
        """Answers of all records."""
        return r.rows(self._teller(r)(slice(None), tuple(self._predict(w) for w in r.points)))

    def _keep(self, r: Response) -> Any:
        """Answers of all records, kept."""
        if (answers := self._answers.find(r)) is None:
            answers = self._answer(r)
            self._answers.add(r, answers)
        return answers


def _kernels(device: Any) -> Any:
    """The kernels of `fused`, where they run: on the current CUDA device."""
    import torch

    if not str(device).startswith("cuda") or torch.device(device).index not in (None, torch.cuda.current_device()):
        return None
    try:
        from dpconvex.sums import fused
    except ImportError:
        return None
    return fused
