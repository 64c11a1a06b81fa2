"""Try to refute what was declared of a loss and of a domain: gradients, bounds, convexity, projections.

The search is random and then adversarial: directions are turned towards where the gradient changes most or least (power
iteration), and points climb to where a bound is tightest. What is not refuted is not proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex.errors import DpconvexError, InputError
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.losses import Convex, Loss
from dpconvex.testing.domains import check_domain
from dpconvex.testing.losses import check_at, check_loss, points_of

__all__ = ["CheckReport", "Finding", "check"]

ROOM = 1e-6  # by which a bound may be exceeded, in parts of itself: differences are not exact
_STEP = 1e-5  # of differences, in units of the size of the point
_FAR = 50.0  # how far points go on an unbounded domain
_STARTS, _CLIMBS, _TURNS = 24, 40, 12


@dataclass(frozen=True)
class Finding:
    """One promise, the worst that was found beside it, and where."""

    what: str
    stated: float
    found: float
    broken: bool
    example: str

    def __str__(self) -> str:
        verdict = "REFUTED" if self.broken else "not refuted"
        return f"{self.what:<44} stated {self.stated:.6g}, worst found {self.found:.6g}: {verdict}" + (
            f"\n    {self.example}" if self.broken else ""
        )


@dataclass(frozen=True)
class CheckReport:
    """What a search found; true if nothing was refuted."""

    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return not any(finding.broken for finding in self.findings)

    def __str__(self) -> str:
        head = "nothing was refuted, which proves nothing" if self else "REFUTED: what was declared is not true"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


def check(loss: Loss, domain: Domain | None = None, d: int = 4, *, records: Any = None, seed: int = 0) -> CheckReport:
    """Search for a counter-example to what a loss and a domain declare.

    Parameters
    ----------
    loss : loss
        One of `dpconvex.losses`, or of your own.
    domain : domain, optional
        Where bounds have to hold; by default everywhere.
    d : int
        Number of weights.
    records : array, or pair (X, y), optional
        Records at which a loss of a record is tried, made up or public: never the private ones, for counter-examples
        show them. By default 16 random rows of length at most 1 with labels -1 and +1.
    seed : int

    Returns
    -------
    CheckReport
        `print` shows the worst that was found for each promise, and a counter-example for those that are broken.

    Examples
    --------
    >>> import dpconvex as dc
    >>> def gradients(w, X, y):
    ...     return ((X * w).sum(axis=1) - y)[:, None] * X  # of (<x, w> - y)^2 / 2
    >>> ball = dc.domains.L2Ball(2.0)
    >>> bool(dc.check(dc.losses.Convex(gradients, lipschitz=3.0, smoothness=1.0), ball))
    True
    >>> print(dc.check(dc.losses.Convex(gradients, lipschitz=3.0, smoothness=0.5), ball))
    REFUTED: what was declared is not true
      gradient of a record alone ...
    """
    where = Everywhere() if domain is None else domain
    rng = np.random.default_rng(seed)
    found: list[Finding] = []
    if isinstance(loss, Convex):
        found += _Search(loss, where, d, records, rng).findings()
    else:
        found.append(_asserted("loss", lambda: _check_predictions(loss, seed)))
    if domain is not None:
        found.append(_asserted("domain", lambda: check_domain(domain, d=max(d, 2), seed=seed)))
        if domain.traits.bounded:
            found += _extent(domain, d, rng)
    return CheckReport(tuple(found))


def _check_predictions(loss: Any, seed: int) -> None:
    """Check a loss of predictions; bounds have to be true, not attained."""
    if loss.traits.outputs > 1:
        return check_loss(loss, seed=seed)
    for z, step, y in points_of(loss, 2000, np.random.default_rng(seed)):
        check_at(loss, z, step, y)


def _asserted(what: str, job: Callable[[], None]) -> Finding:
    """A contract whose checks stop at the first promise that is broken."""
    try:
        job()
    except (AssertionError, DpconvexError, ArithmeticError, TypeError, ValueError) as error:
        return Finding(f"contract of the {what}", 0.0, 1.0, True, str(error))
    return Finding(f"contract of the {what}", 0.0, 0.0, False, "")


def _extent(domain: Domain, d: int, rng: np.random.Generator) -> list[Finding]:
    """Diameter and reach, against points of the domain as far as possible in opposite directions."""
    apart, far, pair = 0.0, 0.0, ""
    for way in [*np.eye(d), *rng.normal(size=(8 * _STARTS, d))]:
        ends = [np.asarray(domain.project(np.asarray(domain.lowest(s * way)))).reshape(-1) for s in (1.0, -1.0)]
        gap = float(np.linalg.norm(ends[0] - ends[1]))
        if gap > apart:
            apart, pair = gap, f"between {_few(ends[0])} and {_few(ends[1])}"
        far = max(far, *(float(np.linalg.norm(end)) for end in ends))
    most, reach = domain.diameter(d), domain.reach(d)
    return [
        Finding("largest distance within the domain", most, apart, apart > most * (1.0 + ROOM), pair),
        Finding("largest norm within the domain", reach, far, far > reach * (1.0 + ROOM), pair),
    ]


class _Search:
    """Points and directions at which a loss of a record is tried."""

    def __init__(self, loss: Convex, domain: Domain, d: int, records: Any, rng: np.random.Generator) -> None:
        self.loss, self.domain, self.rng = loss, domain, rng
        self.shape = loss.traits.weight_shape(d)
        if math.prod(self.shape) != d:
            raise InputError(f"d must be the number of weights, {math.prod(self.shape)}, got {d}")
        X, y = records if isinstance(records, tuple) else (records, None)
        if X is None:
            X = rng.normal(size=(16, *self.shape))
            flat = X.reshape(16, -1)
            X = (flat / np.maximum(1.0, np.linalg.norm(flat, axis=1, keepdims=True))).reshape(X.shape)
            y = np.where(rng.random(16) < 0.5, -1.0, 1.0)
        self.X, self.y = np.asarray(X), None if y is None else np.asarray(y)
        self.size = d
        self.reach = domain.reach(d) if domain.traits.bounded else _FAR

    def gradients(self, w: np.ndarray, which: Any = slice(None)) -> np.ndarray:
        """Gradients at w, a row for each record."""
        records = self.X[which], None if self.y is None else self.y[which]
        return self.loss.slopes(w.reshape(self.shape), records)

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.domain.project(w.reshape(self.shape))).reshape(-1)

    def points(self) -> Iterator[np.ndarray]:
        """The start of runs, and points of all sizes in the domain."""
        yield self.domain.centre(self.size).reshape(-1)
        for k in range(_STARTS):
            size = self.reach * (1.0 if k % 3 == 0 else self.rng.random() ** 2)
            way = self.rng.normal(size=self.size)
            yield self.project(size * way / np.linalg.norm(way))

    def findings(self) -> list[Finding]:
        """Everything that can be looked at."""
        found = [self._mixed(), *self._difference()]
        if self.loss.lipschitz is not None:
            found.append(self._longest())
        found += [self._bend(largest=False)]
        if self.loss.smoothness is not None:
            found.append(self._bend(largest=True))
        return found

    def _mixed(self) -> Finding:
        """Gradients of records together, in another order, among others and alone."""
        worst, example = 0.0, ""
        for w in list(self.points())[:6]:
            together, order = self.gradients(w), self.rng.permutation(len(self.X))
            scale = float(np.abs(together).max()) or 1.0
            alone = np.concatenate([self.gradients(w, slice(i, i + 1)) for i in range(len(self.X))])
            few = self.rng.integers(len(self.X), size=max(1, len(self.X) // 2))
            for other, mine in ((alone, together), (self.gradients(w, order), together[order]),
                                (self.gradients(w, few), together[few])):  # fmt: skip
                gaps = np.abs(other - mine).max(axis=1) / scale
                if gaps.max() > worst:
                    worst, example = float(gaps.max()), f"at w = {_few(w)}, of record {int(gaps.argmax())}"
        return Finding("gradient of a record alone and among others", 0.0, worst, worst > 1e-9, example)

    def _difference(self) -> list[Finding]:
        """Gradients against differences of values, where there are values."""
        if self.loss.values is None:
            return []
        worst, example = 0.0, ""
        for w in self.points():
            h = _STEP * max(1.0, float(np.linalg.norm(w)))
            way = self.rng.normal(size=self.size)
            way /= np.linalg.norm(way)
            ahead, behind = (
                np.asarray(self.loss.values((w + s * way).reshape(self.shape), self.X, self.y)) for s in (h, -h)
            )
            slope = self.gradients(w) @ way
            gaps = np.abs((ahead - behind) / (2.0 * h) - slope) / (1.0 + np.abs(slope))
            if gaps.max() > worst:
                worst, example = float(gaps.max()), f"at w = {_few(w)} along {_few(way)}, record {int(gaps.argmax())}"
        return [Finding("gradient against differences of values", 0.0, worst, worst > 1e-3, example)]

    def _longest(self) -> Finding:
        """The longest gradient: from each point, up the slope of its square."""
        stated, worst, example = float(self.loss.lipschitz or 0.0), 0.0, ""
        for w in self.points():
            lengths = np.linalg.norm(self.gradients(w), axis=1)
            i = int(lengths.argmax()) if self.rng.random() < 0.7 else int(self.rng.integers(len(lengths)))
            best, step = float(lengths[i]), 0.5 * self.reach
            for _ in range(_CLIMBS):
                g = self.gradients(w, slice(i, i + 1))[0]
                up = self._along(w, g, i) if self.rng.random() < 0.7 else self.rng.normal(size=self.size)
                to = self.project(w + step * up / (float(np.linalg.norm(up)) or 1.0))
                length = float(np.linalg.norm(self.gradients(to, slice(i, i + 1))[0]))
                w, best, step = (to, length, 1.2 * step) if length > best else (w, best, 0.6 * step)
            if best > worst:
                worst, example = best, f"at w = {_few(w)}, record {i}"
        return Finding("longest gradient of a record", stated, worst, worst > stated * (1.0 + ROOM), example)

    def _along(self, w: np.ndarray, way: np.ndarray, i: int) -> np.ndarray:
        """Hessian of a record times a direction, by differences inside the domain."""
        length = float(np.linalg.norm(way))
        if length == 0.0:
            return self.rng.normal(size=self.size)
        h = _STEP * max(1.0, float(np.linalg.norm(w)))
        to, back = self.project(w + h * way / length), self.project(w - h * way / length)
        gap = self.gradients(to, slice(i, i + 1))[0] - self.gradients(back, slice(i, i + 1))[0]
        return np.asarray(gap / (2.0 * h))

    def _bend(self, *, largest: bool) -> Finding:
        """The most (or least) that a gradient changes along a chord of the domain, per its squared length."""
        if largest:
            what, stated = "largest curvature of a record", float(self.loss.smoothness or 0.0)
        else:
            what, stated = "least curvature of a record (convexity)", self.loss.strong_convexity
        sign, worst, example = 1.0 if largest else -1.0, -math.inf, ""
        shift = 2.0 * (self.loss.smoothness or float(self.loss.lipschitz or 1.0))
        for k, w in enumerate(self.points()):
            i = k % len(self.X)
            way, width = self.rng.normal(size=self.size), 10.0 ** self.rng.uniform(-4.0, 0.0) * max(self.reach, 1e-3)
            best, ends = self._ratio(w, way, width, i)
            for _ in range(_CLIMBS):
                if self.rng.random() < 0.5:  # turn: power iteration on H, or on shift I - H
                    for _ in range(2):
                        unit = way / (float(np.linalg.norm(way)) or 1.0)
                        bent = self._along(w, unit, i)
                        way = bent if largest else shift * unit - bent
                    to, size = w, width
                else:  # move
                    to = self.project(w + width * self.rng.normal(size=self.size))
                    size = width * 10.0 ** self.rng.uniform(-0.5, 0.5)
                ratio, tried = self._ratio(to, way, size, i)
                if sign * ratio > sign * best:
                    w, width, best, ends = to, size, ratio, tried
            if sign * best > worst and math.isfinite(best):
                worst, example = sign * best, f"record {i}, between w = {_few(ends[0])} and {_few(ends[1])}"
        found = sign * worst
        room = ROOM * (abs(stated) + (self.loss.smoothness or 1.0)) * 10.0
        broken = found > stated + room if largest else found < stated - room
        return Finding(what, stated, found, broken, example)

    def _ratio(self, w: np.ndarray, way: np.ndarray, width: float, i: int) -> tuple[float, tuple[np.ndarray, ...]]:
        length = float(np.linalg.norm(way))
        if not 0.0 < length < math.inf:
            return math.nan, (w, w)
        to, back = (self.project(w + s * width * way / length) for s in (0.5, -0.5))
        chord = to - back
        square = float(chord @ chord)
        if square < 1e-10:
            return math.nan, (w, w)
        gap = self.gradients(to, slice(i, i + 1))[0] - self.gradients(back, slice(i, i + 1))[0]
        return float(gap @ chord) / square, (to, back)


def _few(w: np.ndarray) -> str:
    return np.array2string(w[:6], precision=4, separator=", ") + ("..." if w.size > 6 else "")
