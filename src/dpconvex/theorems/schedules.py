"""Public schedules: plans and receipts describe a million step sizes by a name and three numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np

from dpconvex.errors import InputError
from dpconvex.kernel.claims import known_argument
from dpconvex.plain import whole
from dpconvex.work import spend

__all__ = ["Constant", "Growing", "Listed"]


class _Written:
    """A schedule that can be written on a receipt."""

    def to_plain(self) -> dict[str, Any]:
        """Plain form; an infinite cap is left out."""
        fields = asdict(self).items()  # type: ignore[call-overload]
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in fields if v != math.inf}
        return {"schedule": type(self).__name__.lower(), **plain}


@known_argument
@dataclass(frozen=True)
class Constant(_Written):
    """The same value at every step.

    Examples
    --------
    >>> Constant(0.5, 3).values()
    array([0.5, 0.5, 0.5])
    """

    value: float
    length: int

    def __post_init__(self) -> None:
        _to_plain_types(self, "value")

    def values(self) -> np.ndarray:
        """Every value in order."""
        return np.full(spend(self.length), self.value)


@known_argument
@dataclass(frozen=True)
class Growing(_Written):
    """start / (1 - t/length)^rate at step t = 0, 1, ..., and at most `cap`. With a negative rate it decreases.

    With rate 1/2 and weights proportional to the steps, no record has more influence on the weighted average than the
    first.

    Examples
    --------
    >>> Growing(1.0, 4, cap=1.5).values().round(3)
    array([1.   , 1.155, 1.414, 1.5  ])
    >>> Growing(1.0, 4, rate=-1.0).values()
    array([1.  , 0.75, 0.5 , 0.25])
    """

    start: float
    length: int
    cap: float = math.inf
    rate: float = 0.5

    def __post_init__(self) -> None:
        _to_plain_types(self, "start", "cap", "rate")

    def values(self) -> np.ndarray:
        """Every value in order."""
        return np.minimum(self.start * (1.0 - np.arange(spend(self.length)) / self.length) ** -self.rate, self.cap)


@known_argument
@dataclass(frozen=True)
class Listed(_Written):
    """Explicit values, for short schedules; entry i is repeated counts[i] times, or used once if there are no counts.

    Examples
    --------
    >>> Listed((0.5, 0.25)).values()
    array([0.5 , 0.25])
    >>> Listed((0.5, 0.25), counts=(1, 3)).values()
    array([0.5 , 0.25, 0.25, 0.25])
    """

    entries: tuple[float, ...]
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(float(v) for v in self.entries))
        object.__setattr__(self, "counts", tuple(whole(k, "a count") for k in self.counts))
        if self.counts and len(self.counts) != len(self.entries):
            raise InputError("counts must hold one number per entry, or be left out")

    @property
    def length(self) -> int:
        """Number of steps."""
        return sum(self.counts) if self.counts else len(self.entries)

    def values(self) -> np.ndarray:
        """Every value in order."""
        spend(self.length)
        return np.repeat(np.array(self.entries), self.counts or 1)

    @staticmethod
    def of(values: Iterable[float]) -> Listed:
        """List values explicitly, with runs of equal values written once.

        Examples
        --------
        >>> Listed.of([2, 2, 2, 5])
        Listed(entries=(2.0, 5.0), counts=(3, 1))
        """
        every = np.array(list(values), dtype=np.float64)
        starts = np.flatnonzero(np.append(np.ones(min(1, every.size), dtype=np.bool_), every[1:] != every[:-1]))
        return Listed(tuple(every[starts].tolist()), tuple(np.diff(np.append(starts, every.size)).tolist()))


def _to_plain_types(schedule: Constant | Growing, *numbers: str) -> None:
    object.__setattr__(schedule, "length", whole(schedule.length, "length"))
    for name in numbers:
        value = getattr(schedule, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"{name} must be a number, got {type(value).__name__}")
        object.__setattr__(schedule, name, float(value))


Schedule = Constant | Growing | Listed
_NAMES: dict[str, type[Constant] | type[Growing] | type[Listed]] = {
    "constant": Constant,
    "growing": Growing,
    "listed": Listed,
}


def schedule_from_json(plain: dict[str, Any]) -> Schedule:
    """Rebuild a schedule from its plain form."""
    fields = dict(plain)
    cls = _NAMES[fields.pop("schedule")]
    return cls(**fields)


def check_schedule(schedule: Schedule, name: str) -> np.ndarray:
    """Return the values of a schedule, which must be finite and at least 0."""
    if not isinstance(schedule, Constant | Growing | Listed):
        raise InputError(f"{name} must be a schedule from dpconvex.theorems.schedules")
    values = schedule.values()
    if values.size == 0 or not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(f"{name} must hold at least one value, all finite and at least 0")
    return values
