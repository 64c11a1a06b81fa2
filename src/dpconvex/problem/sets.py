"""Convex sets beyond balls and boxes, and sets of your own.

Runs project onto them after noise has been added, or only at their end: the error of a projection then costs no
privacy. `traits.inside` is False for all of them, so that bounds on slopes never rest on iterates lying inside, and
algorithms whose guarantee rests on contraction project the released point alone.

Weights may have any shape with the right number of entries: sets of matrices take the entries row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import nnls

from dpconvex.errors import InputError
from dpconvex.plain import plain_name, whole
from dpconvex.problem.code import code_digest
from dpconvex.problem.own import Absent, guarded
from dpconvex.problem.traits import DomainTraits

__all__ = ["Bounds", "Convex", "Ellipsoid", "NuclearBall", "Polytope", "SemidefiniteTrace"]


class _Set:
    """What sets have in common: they are bounded, and farthest points and widths follow from reach and diameter."""

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the point of the set nearest to the origin."""
        return np.asarray(self.project(np.zeros(d)))

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set."""
        raise NotImplementedError

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        raise NotImplementedError

    def diameter(self, d: int) -> float:
        """Largest distance between two points, from above."""
        return 2.0 * self.reach(d)

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return self.reach(d) * math.sqrt(d)

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the set, from above."""
        return self.reach(x.size) + float(np.linalg.norm(x))

    def check(self) -> str | None:
        """Parameters are checked when a set is made."""
        return None

    def to_plain(self) -> dict[str, Any]:
        """Name and parameters."""
        return {"name": type(self).__name__, **{f.name: _listed(getattr(self, f.name)) for f in fields(self)}}  # type: ignore[arg-type]

    @cached_property
    def traits(self) -> DomainTraits:
        """Traits of this set."""
        return DomainTraits(inside=False, origin=not self.project(np.zeros(self.size)).any())

    @property
    def size(self) -> int:
        """Number of weights, or 0 if it takes any."""
        return 0


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def _vector(values: Any, name: str) -> tuple[float, ...]:
    try:
        found = tuple(float(v) for v in values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers") from None
    if not found or not all(math.isfinite(v) for v in found):
        raise InputError(f"{name} must hold finite numbers, at least one")
    return found


def _need(d: int, size: int, name: str) -> None:
    if d != size:
        raise InputError(f"{name} is about {size} weights, but the problem has {d}")


@dataclass(frozen=True)
class Bounds(_Set):
    """A box of own bounds: weight j lies between lo[j] and hi[j].

    Examples
    --------
    >>> Bounds(lo=(0.0, -1.0), hi=(2.0, 1.0)).project(np.array([3.0, 0.5]))
    array([2. , 0.5])
    """

    lo: tuple[float, ...]
    hi: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("lo", "hi"):
            object.__setattr__(self, name, _vector(getattr(self, name), name))
        if len(self.lo) != len(self.hi) or any(a > b for a, b in zip(self.lo, self.hi, strict=True)):
            raise InputError("lo and hi must be of one length, with lo <= hi for every weight")
        if self.lo == self.hi:
            raise InputError("lo and hi must differ for some weight")

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.lo)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set."""
        _need(w.size, self.size, "Bounds")
        return np.clip(w.reshape(-1), self.lo, self.hi).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least."""
        return np.where(g.reshape(-1) > 0.0, self.lo, self.hi).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        return float(np.maximum(np.array(self.lo) * v.reshape(-1), np.array(self.hi) * v.reshape(-1)).sum())

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector."""
        return float(np.subtract(self.hi, self.lo).sum()) / math.sqrt(2.0 * math.pi)

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        return math.sqrt(math.fsum(max(a * a, b * b) for a, b in zip(self.lo, self.hi, strict=True)))

    def diameter(self, d: int) -> float:
        """Largest distance between two points."""
        return math.dist(self.lo, self.hi)

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the set."""
        at = x.reshape(-1)
        return float(np.linalg.norm(np.maximum(np.subtract(self.hi, at), np.subtract(at, self.lo))))


@dataclass(frozen=True)
class Ellipsoid(_Set):
    """Points with sum_j (w_j / axes[j])^2 at most 1.

    The projection is right to about 1e-14 of |w|.

    Examples
    --------
    >>> Ellipsoid((2.0, 1.0)).project(np.array([4.0, 0.0]))
    array([2., 0.])
    """

    axes: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", _vector(self.axes, "axes"))
        if min(self.axes) <= 0.0:
            raise InputError("axes must be positive")

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.axes)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point: w_j a_j^2 / (a_j^2 + t) for the t >= 0 at which it lies on the boundary."""
        _need(w.size, self.size, "Ellipsoid")
        at, squares = w.reshape(-1), np.square(self.axes)
        if float((at**2 / squares).sum()) <= 1.0:
            return w
        low, high = 0.0, float(np.linalg.norm(at) * max(self.axes))
        for _ in range(200):
            middle = 0.5 * (low + high)
            outside = float((squares * at**2 / (squares + middle) ** 2).sum()) > 1.0
            low, high = (middle, high) if outside else (low, middle)
            if high - low <= 1e-16 * high:
                break
        return np.asarray(squares * at / (squares + high)).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least; the origin for g = 0."""
        bent = np.array(self.axes) * g.reshape(-1)
        length = float(np.linalg.norm(bent)) or 1.0
        return np.asarray(-np.array(self.axes) * bent / length).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        return float(np.linalg.norm(np.array(self.axes) * v.reshape(-1)))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return float(np.linalg.norm(self.axes))

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        return max(self.axes)


@dataclass(frozen=True)
class Polytope(_Set):
    """Points with A w <= b, bounded and not empty; `radius` bounds the norms of its points.

    The projection is a quadratic program, solved up to rounding by non-negative least squares (Lawson and Hanson 1974,
    chapter 23).

    Examples
    --------
    >>> corner = Polytope(((1.0, 1.0), (-1.0, 0.0), (0.0, -1.0)), (1.0, 0.0, 0.0), radius=1.0)
    >>> corner.project(np.array([2.0, 1.0])).round(9) + 0.0
    array([1., 0.])
    """

    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", tuple(_vector(row, "A") for row in self.A))
        object.__setattr__(self, "b", _vector(self.b, "b"))
        if len(self.A) != len(self.b) or len({len(row) for row in self.A}) != 1:
            raise InputError("A must hold a row for every entry of b, all of one length")
        if isinstance(self.radius, bool) or not (isinstance(self.radius, Real) and 0.0 < self.radius < math.inf):
            raise InputError("radius must be a positive number that bounds the norms of all points")
        object.__setattr__(self, "radius", float(self.radius))
        self.project(np.zeros(self.size))  # refuses a polytope without points

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.A[0])

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point: with x = w + z, the least |z| with -A z >= A w - b."""
        _need(w.size, self.size, "Polytope")
        at, A = w.reshape(-1), np.array(self.A)
        gap = A @ at - np.array(self.b)
        scale = max(float(np.abs(at).max()), self.radius)
        if float(gap.max()) <= 0.0:
            return w
        E = np.vstack([-A.T, gap / scale])
        f = np.zeros(len(at) + 1)
        f[-1] = 1.0
        u, _ = nnls(E, f, maxiter=100 * E.shape[1])
        rest = f - E @ u
        if rest[-1] <= 1e-14:
            raise InputError("the polytope has no points")
        found, tight = at - scale * rest[:-1] / rest[-1], A[u > 0.0]
        off = tight @ found - np.array(self.b)[u > 0.0]  # of the faces it lies on, by rounding of what is far away
        return np.asarray(found - np.linalg.lstsq(tight, off)[0]).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least."""
        from scipy.optimize import linprog

        found = linprog(g.reshape(-1), A_ub=np.array(self.A), b_ub=np.array(self.b), bounds=(None, None))
        return np.asarray(found.x).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        return float(self.lowest(-v).reshape(-1) @ v.reshape(-1))

    def reach(self, d: int) -> float:
        """Largest norm of a point, as stated."""
        return self.radius


@dataclass(frozen=True)
class SemidefiniteTrace(_Set):
    """Symmetric positive semidefinite matrices of `order` rows and of trace at most `trace`.

    The projection lowers the eigenvalues of the symmetric part; LAPACK finds them to about 1e-15 of |w|.

    Examples
    --------
    >>> SemidefiniteTrace(2, 1.0).project(np.array([[3.0, 0.0], [0.0, -1.0]]))
    array([[1., 0.],
           [0., 0.]])
    """

    order: int
    trace: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole(self.order, "order"))
        object.__setattr__(self, "trace", _positive(self.trace, "trace"))

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.order**2

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set."""
        _need(w.size, self.size, "SemidefiniteTrace")
        matrix = w.reshape(self.order, self.order)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        return np.asarray((vectors * _within(values, self.trace)) @ vectors.T).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least."""
        matrix = g.reshape(self.order, self.order)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        first = vectors[:, 0]
        return np.asarray((self.trace if values[0] < 0.0 else 0.0) * np.outer(first, first)).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        matrix = v.reshape(self.order, self.order)
        return self.trace * max(float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[-1]), 0.0)

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above: trace times sqrt(2 order)."""
        return self.trace * math.sqrt(2.0 * self.order)

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        return self.trace

    def diameter(self, d: int) -> float:
        """Largest distance between two points: of rank one, along orthogonal vectors."""
        return self.trace * math.sqrt(2.0) if self.order > 1 else self.trace


@dataclass(frozen=True)
class NuclearBall(_Set):
    """Matrices of `height` rows and `width` columns whose singular values add up to at most `radius`.

    The projection lowers the singular values; LAPACK finds them to about 1e-15 of |w|.

    Examples
    --------
    >>> NuclearBall(2, 2, 1.0).project(np.diag([3.0, 0.5])).round(6) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """

    height: int
    width: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            object.__setattr__(self, name, whole(getattr(self, name), name))
        object.__setattr__(self, "radius", _positive(self.radius, "radius"))

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.height * self.width

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set."""
        _need(w.size, self.size, "NuclearBall")
        left, values, right = np.linalg.svd(w.reshape(self.height, self.width), full_matrices=False)
        if values.sum() <= self.radius:
            return w
        return np.asarray((left * _within(values, self.radius)) @ right).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least; the origin for g = 0."""
        left, values, right = np.linalg.svd(g.reshape(self.height, self.width), full_matrices=False)
        size = self.radius if values[0] > 0.0 else 0.0
        return np.asarray(-size * np.outer(left[:, 0], right[0])).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        return self.radius * float(np.linalg.norm(v.reshape(self.height, self.width), 2))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above (Gordon)."""
        return self.radius * (math.sqrt(self.height) + math.sqrt(self.width))

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        return self.radius


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not (isinstance(value, Real) and 0.0 < float(value) < math.inf):
        raise InputError(f"{name} must be a positive number")
    return float(value)


def _within(values: np.ndarray, total: float) -> np.ndarray:
    """Nearest numbers of at least 0 that add up to at most `total`."""
    kept = np.maximum(values, 0.0)
    if kept.sum() <= total:
        return kept
    ordered = np.sort(values)[::-1]
    lower = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    level = lower[np.flatnonzero(ordered > lower)[-1]]
    return np.asarray(np.maximum(values - level, 0.0))


@dataclass(frozen=True)
class Convex(_Set):
    """A convex set of your own that holds the origin, given by its projection; what it promises is declared by you.

    Parameters
    ----------
    onto : callable
        `onto(w)` returns the point of the set nearest to w, of the same shape. `dpconvex.check` tries to refute that.
    radius : float
        Largest norm of a point of the set.
    width : float, optional
        Largest distance between two of its points; by default twice the radius.
    name : str, optional
        Name on plans and receipts; by default that of the function.

    Examples
    --------
    >>> positive = Convex(lambda w: np.clip(w, 0.0, 1.0), radius=2.0, name="shares")
    >>> positive.project(np.array([-1.0, 0.5, 3.0, 1.0])), positive.diameter(4)
    (array([0. , 0.5, 1. , 1. ]), 4.0)
    """

    onto: Callable[[np.ndarray], Any]
    _: KW_ONLY
    radius: float
    width: float | None = None
    name: str = ""
    code: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not callable(self.onto):
            raise InputError("onto must be a function of weights: the projection onto the set")
        object.__setattr__(self, "radius", _positive(self.radius, "radius"))
        if self.width is not None:
            object.__setattr__(self, "width", _positive(self.width, "width"))
        name = self.name or getattr(self.onto, "__name__", type(self.onto).__name__).strip("<>")
        object.__setattr__(self, "name", plain_name(name, "name"))
        object.__setattr__(self, "code", self.code or code_digest(self.onto))

    def __str__(self) -> str:
        return f"Convex({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Convex) and self.to_plain() == other.to_plain()

    def __hash__(self) -> int:
        return hash(self.code)

    @cached_property
    def traits(self) -> DomainTraits:
        """Traits of this set, which is declared to hold the origin."""
        return DomainTraits(inside=False)

    def centre(self, d: int) -> np.ndarray:
        """Where runs start: the origin."""
        return np.zeros(d)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set, as the code of the user finds it."""
        found = guarded(f"domain {self.name!r}", lambda: np.asarray(self.onto(w.copy()), dtype=np.float64))
        if found.shape != w.shape or not np.isfinite(found).all():
            raise InputError(f"domain {self.name!r}: onto must return finite numbers of the shape it is given")
        return found

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least, nearly: the projection of a point far away."""
        length = float(np.linalg.norm(g))
        return self.project(-1e6 * self.radius / length * g) if length else self.project(np.zeros_like(g))

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set, nearly."""
        return float(np.vdot(v, self.lowest(-v)))

    def reach(self, d: int) -> float:
        """Largest norm of a point, as declared."""
        return self.radius

    def diameter(self, d: int) -> float:
        """Largest distance between two points, as declared."""
        return 2.0 * self.radius if self.width is None else self.width

    def to_plain(self) -> dict[str, Any]:
        """All that was declared, and the digest of the code."""
        return {"own": "domain", "name": self.name, "radius": self.radius, "width": self.width, "code": self.code}


def rebuilt(plain: dict[str, Any]) -> _Set:
    """A set from its plain form; of one of the user's own what was declared, without its code."""
    if "own" not in plain:
        kinds = {kind.__name__: kind for kind in (Bounds, Ellipsoid, Polytope, SemidefiniteTrace, NuclearBall)}
        kind = kinds[plain["name"]]
        return kind(**{key: _tuples(value) for key, value in plain.items() if key != "name"})
    if set(plain) != {"own", "name", "radius", "width", "code"} or plain["own"] != "domain":
        raise InputError("not the plain form of a domain of the user's own")
    return Convex(Absent(True), radius=plain["radius"], width=plain["width"], name=plain["name"], code=plain["code"])
