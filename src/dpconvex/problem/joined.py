"""Sets made of others: products, and intersections by Dykstra's algorithm with a certificate of its error.

Like the sets of `sets`, runs project onto them after noise has been added, or only at their end, so that the error of a
projection costs accuracy and never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import InputError
from dpconvex.plain import whole
from dpconvex.problem.sets import Convex, _Set
from dpconvex.problem.traits import DomainTraits

__all__ = ["Intersection", "Product"]

CLOSE = 1e-7  # how far a projection onto an intersection may be off, relative to the point and the set
_CYCLES = 2000  # of Dykstra's algorithm at most
_ROUND = 1e-13  # relative: points this near to a set count as its points


def _checked(parts: Any, name: str) -> tuple[Any, ...]:
    """The parts of a set, each a domain that can be written down without code."""
    try:
        found = tuple(parts)
    except TypeError:
        raise InputError(f"{name} takes a sequence of domains") from None
    if len(found) < 2 or not all(isinstance(getattr(part, "traits", None), DomainTraits) for part in found):
        raise InputError(f"{name} takes two domains or more, each from dpconvex.domains")
    if any(isinstance(part, Convex) for part in found):
        raise InputError(f"{name} takes no sets of your own: compute the projection onto it in theirs")
    for part in found:
        if complaint := part.check():
            raise InputError(f"{type(part).__name__}: {complaint}")
    return found


def plain_part(part: Any) -> dict[str, Any]:
    """Plain form of a domain."""
    if hasattr(part, "to_plain"):
        return dict(part.to_plain())
    return {"name": type(part).__name__, **{k: v for k, v in part._asdict().items() if v != math.inf}}


class _Joined(_Set):
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Product(_Joined):
    """Weights of which the first sizes[0] lie in parts[0], the next sizes[1] in parts[1], and so on.

    Examples
    --------
    >>> import dpconvex as dc
    >>> both = Product((dc.domains.L2Ball(1.0), dc.domains.Box(0.0, 1.0)), sizes=(2, 1))
    >>> both.project(np.array([3.0, 4.0, -1.0])), both.reach(3)
    (array([0.6, 0.8, 0. ]), 1.4142135623730951)
    """

    parts: tuple[Any, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _checked(self.parts, "Product"))
        object.__setattr__(self, "sizes", tuple(whole(size, "sizes") for size in self.sizes))
        if len(self.sizes) != len(self.parts):
            raise InputError("sizes must hold the number of weights of each part")
        for part, size in zip(self.parts, self.sizes, strict=True):
            part.project(np.zeros(size))  # refuses a part of another size

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(self.sizes)

    @property
    def traits(self) -> DomainTraits:
        """Traits of this set."""
        bounded, origin = (all(getattr(p.traits, name) for p in self.parts) for name in ("bounded", "origin"))
        return DomainTraits(bounded=bounded, inside=False, origin=origin)

    def _cut(self, w: np.ndarray) -> list[np.ndarray]:
        if w.size != self.size:
            raise InputError(f"Product is about {self.size} weights, but the problem has {w.size}")
        return np.split(w.reshape(-1), np.cumsum(self.sizes)[:-1])

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set."""
        found = [part.project(v) for part, v in zip(self.parts, self._cut(w), strict=True)]
        return np.concatenate(found).reshape(w.shape)

    def lowest(self, g: np.ndarray) -> np.ndarray | None:
        """Point of the set where <g, w> is least; None if it is unbounded."""
        if not self.traits.bounded:
            return None
        return np.concatenate([p.lowest(v) for p, v in zip(self.parts, self._cut(g), strict=True)]).reshape(g.shape)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set."""
        return math.fsum(part.support(u) for part, u in zip(self.parts, self._cut(v), strict=True))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return math.fsum(part.gaussian_width(size) for part, size in zip(self.parts, self.sizes, strict=True))

    def reach(self, d: int) -> float:
        """Largest norm of a point."""
        return math.hypot(*(part.reach(size) for part, size in zip(self.parts, self.sizes, strict=True)))

    def diameter(self, d: int) -> float:
        """Largest distance between two points."""
        return math.hypot(*(part.diameter(size) for part, size in zip(self.parts, self.sizes, strict=True)))

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the set."""
        return math.hypot(*(part.farthest(v) for part, v in zip(self.parts, self._cut(x), strict=True)))

    def to_plain(self) -> dict[str, Any]:
        """The parts and their sizes."""
        return {"name": "Product", "parts": [plain_part(p) for p in self.parts], "sizes": list(self.sizes)}


class Certified(NamedTuple):
    """A point of an intersection, and how far it is from the nearest one at most."""

    point: np.ndarray
    off: float


@dataclass(frozen=True)
class Intersection(_Joined):
    """Weights that lie in each of several sets; the projection is computed by Dykstra's algorithm.

    Every part holds the origin, all but one of them with a ball around it, and one of them is bounded. The last
    iterate, shortened until it lies in all parts, is a point of the intersection, and the normal vectors that the
    algorithm keeps prove how far it is from the nearest one (`certified`): by 1e-7 of the point and the set at most,
    unless the sets are almost tangent where they meet. The proof is in docs/proofs/facts.md.

    Examples
    --------
    >>> import dpconvex as dc
    >>> lens = Intersection((dc.domains.L2Ball(1.0), dc.domains.Box(0.0, 0.8)))
    >>> lens.project(np.array([3.0, 0.1])).round(6)
    array([0.8, 0.1])
    >>> lens.certified(np.array([3.0, 2.0])).off < 1e-6
    True
    """

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        found = _checked(self.parts, "Intersection")
        if not all(part.traits.origin for part in found):
            raise InputError("Intersection takes sets that hold the origin, so that it is not empty")
        if not any(part.traits.bounded for part in found):
            raise InputError("Intersection needs a bounded part: L2Ball, Box, ...")
        if len({size for part in found if (size := getattr(part, "size", 0))}) > 1:
            raise InputError("the parts of an Intersection are about different numbers of weights")
        object.__setattr__(self, "parts", found)

    @property
    def size(self) -> int:
        """Number of weights, or 0 if it takes any."""
        return max(getattr(part, "size", 0) for part in self.parts)

    @property
    def traits(self) -> DomainTraits:
        """Traits of this set."""
        return DomainTraits(inside=False)

    def project(self, w: np.ndarray) -> np.ndarray:
        """Nearest point of the set, nearly."""
        return self.certified(w).point

    def certified(self, w: np.ndarray) -> Certified:
        """A point of the set, and how far it is at most from the point that is nearest to w."""
        at, parts = w.reshape(-1), _ordered(self, w.size)
        scale = max(float(np.linalg.norm(at)), self.reach(w.size))
        if all(_within(part, at, scale) for part in parts):
            return Certified(w, 0.0)
        x, normals = at.astype(np.float64), [np.zeros(at.size) for _ in parts]
        ends = [x] * len(parts)
        best, every = Certified(np.zeros(at.size), math.inf), 1
        for cycle in range(1, _CYCLES + 1):
            for i, part in enumerate(parts):
                moved = x + normals[i]
                ends[i] = x = part.project(moved)
                normals[i] = moved - x
            if cycle % every == 0 or cycle == _CYCLES:
                every = min(2 * every, 100)
                best = min(best, _certify(parts, x, at, normals, ends, scale), key=lambda found: found.off)
                if best.off <= CLOSE * scale:
                    break
        return Certified(best.point.reshape(w.shape), best.off)

    def lowest(self, g: np.ndarray) -> np.ndarray:
        """Point of the set where <g, w> is least, nearly: the projection of a point far away."""
        length = float(np.linalg.norm(g))
        return self.project(-1e3 * self.reach(g.size) / length * g) if length else np.zeros_like(g)

    def support(self, v: np.ndarray) -> float:
        """Largest inner product of v with a point of the set, from above: the least of those of its parts."""
        return float(min(part.support(v) for part in self.parts))

    def gaussian_width(self, d: int) -> float:
        """Mean of the support of a standard normal vector, from above."""
        return float(min(part.gaussian_width(d) for part in self.parts))

    def reach(self, d: int) -> float:
        """Largest norm of a point, from above."""
        return float(min(part.reach(d) for part in self.parts))

    def diameter(self, d: int) -> float:
        """Largest distance between two points, from above."""
        return float(min(part.diameter(d) for part in self.parts))

    def farthest(self, x: np.ndarray) -> float:
        """Largest distance from x to a point of the set, from above."""
        return float(min(part.farthest(x) for part in self.parts))

    def to_plain(self) -> dict[str, Any]:
        """The parts."""
        return {"name": "Intersection", "parts": [plain_part(part) for part in self.parts]}


def _within(part: Any, x: np.ndarray, scale: float) -> bool:
    return float(np.linalg.norm(part.project(x) - x)) <= _ROUND * scale


@lru_cache(maxsize=64)
def _ordered(domain: Intersection, d: int) -> tuple[Any, ...]:
    """The parts in the order of projections: a part without a ball around the origin comes last."""
    near = 1e-6 * domain.reach(d)

    def round_origin(part: Any) -> bool:
        if getattr(part.traits, "rowwise", False) or part.traits.norm is not None:
            corners = (np.full(d, near), np.full(d, -near))
        else:
            corners = (*np.eye(d) * near, *np.eye(d) * -near)
        return all(_within(part, corner, near) for corner in corners)

    edged = [part for part in domain.parts if not round_origin(part)]
    if len(edged) > 1:
        raise InputError(
            f"{' and '.join(type(part).__name__ for part in edged)} have the origin on their boundary: only one part "
            "of an Intersection may, or no point of all of them could be told from one beside them"
        )
    return (*(part for part in domain.parts if part not in edged), *edged)


def _certify(
    parts: tuple[Any, ...],
    x: np.ndarray,
    w: np.ndarray,
    normals: list[np.ndarray],
    ends: list[np.ndarray],
    scale: float,
) -> Certified:
    """Shorten x, a point of the last part, into all parts, and bound its distance from the nearest point to w.

    For a point v of all parts, |v - nearest|^2 <= |v - w + sum p_i|^2 + 2 sum <p_i, e_i - v>, where p_i is normal to
    part i at e_i: the duality gap of the projection.
    """
    low, high, v = 0.0, 1.0, x
    if not all(_within(part, x, scale) for part in parts):
        for _ in range(60):
            middle = 0.5 * (low + high)
            fits = all(_within(part, middle * x, scale) for part in parts)
            low, high = (middle, high) if fits else (low, middle)
        v = low * x
    rest = v - w + np.sum(normals, axis=0)
    gap = float(rest @ rest) + 2.0 * math.fsum(float(p @ (e - v)) for p, e in zip(normals, ends, strict=True))
    return Certified(v, math.sqrt(max(gap, 0.0)))
