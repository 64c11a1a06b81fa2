"""Public bounds on a row of features. A row beyond its bound is shortened or clipped to it, never refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from dpconvex.errors import InputError

__all__ = ["L2", "Columns", "Linf", "Lp"]

SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class Lp:
    """The l_p norm of a row is at most `radius`; longer rows are shortened.

    Examples
    --------
    >>> Lp(1, 2.0).l2(10)
    2.0
    >>> round(Lp(4, 1.0).l2(16), 3)
    2.0
    """

    p: float
    radius: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not (isinstance(self.p, Real) and 1.0 <= self.p < math.inf):
            raise InputError("p must be a finite number of at least 1; for p = inf use bounds.Linf")
        object.__setattr__(self, "p", float(self.p))
        object.__setattr__(self, "radius", _check_radius(self.radius))

    def l2(self, d: int) -> float:
        """Largest l2 norm of a row of d features."""
        return self.radius * float(d) ** max(0.0, 0.5 - 1.0 / self.p)


@dataclass(frozen=True)
class L2:
    """The l2 norm of a row is at most `radius`; longer rows are shortened.

    Examples
    --------
    >>> L2(3.0).l2(10)
    3.0
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _check_radius(self.radius))

    def l2(self, d: int) -> float:
        """Largest l2 norm of a row of d features."""
        return self.radius


@dataclass(frozen=True)
class Linf:
    """Every feature lies in [-radius, radius]; entries beyond are clipped.

    Examples
    --------
    >>> Linf(0.5).l2(4)
    1.0
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _check_radius(self.radius))

    def l2(self, d: int) -> float:
        """Largest l2 norm of a row of d features."""
        return self.radius * math.sqrt(d)


@dataclass(frozen=True)
class Columns:
    """Feature j lies in [lo[j], hi[j]]; entries beyond are clipped.

    Examples
    --------
    >>> Columns(lo=(0.0, -3.0), hi=(4.0, 1.0)).l2(2)
    5.0
    """

    lo: tuple[float, ...]
    hi: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("lo", "hi"):
            try:
                values = tuple(float(v) for v in getattr(self, name))
            except (TypeError, ValueError):
                raise InputError(f"{name} must hold one number per column") from None
            object.__setattr__(self, name, values)
        if len(self.lo) != len(self.hi) or not self.lo:
            raise InputError("lo and hi must hold one number per column, for at least one column")
        if not all(math.isfinite(a) and math.isfinite(b) and a <= b for a, b in zip(self.lo, self.hi, strict=True)):
            raise InputError("lo and hi must be finite with lo <= hi in every column")
        if not any(a or b for a, b in zip(self.lo, self.hi, strict=True)):
            raise InputError("lo and hi are 0 in every column; at least one column must be allowed to differ from 0")
        _check_radius(max(max(-a, b) for a, b in zip(self.lo, self.hi, strict=True)))

    def l2(self, d: int) -> float:
        """Largest l2 norm of a row of d features."""
        if d != len(self.lo):
            raise InputError(f"feature_bound is about {len(self.lo)} columns, but the problem has d = {d}")
        return math.sqrt(math.fsum(max(-a, b) ** 2 for a, b in zip(self.lo, self.hi, strict=True)))


Bound = L2 | Linf | Lp | Columns


def _check_radius(radius: float) -> float:
    """Return the radius as a float. Squares of entries would underflow or overflow beyond the limits."""
    if isinstance(radius, bool) or not (isinstance(radius, Real) and SMALLEST <= radius <= LARGEST):
        raise InputError(f"the radius of a feature bound must be a number between {SMALLEST:g} and {LARGEST:g}")
    return float(radius)
