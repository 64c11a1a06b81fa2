"""Public schedules: a million step sizes as a name and three numbers, on plans and on receipts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpconvex.errors import InputError


@dataclass(frozen=True)
class Constant:
    """The same value at every step.

    Examples
    --------
    >>> Constant(0.5, 3).values()
    array([0.5, 0.5, 0.5])
    """

    value: float
    length: int

    def values(self) -> np.ndarray:
        """Every value in order."""
        return np.full(self.length, self.value)


@dataclass(frozen=True)
class Growing:
    """start / sqrt(1 - t/length) at step t = 0, 1, ..., and never above `cap`.

    With weights in proportion to the steps no record has more influence on the weighted average than the first.

    Examples
    --------
    >>> Growing(1.0, 4, cap=1.5).values().round(3)
    array([1.   , 1.155, 1.414, 1.5  ])
    """

    start: float
    length: int
    cap: float = math.inf

    def values(self) -> np.ndarray:
        """Every value in order."""
        return np.minimum(self.start / np.sqrt(1.0 - np.arange(self.length) / self.length), self.cap)


@dataclass(frozen=True)
class Listed:
    """Values written out, for short schedules.

    Examples
    --------
    >>> Listed((0.5, 0.25)).values()
    array([0.5 , 0.25])
    """

    entries: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(float(v) for v in self.entries))

    @property
    def length(self) -> int:
        """Number of steps."""
        return len(self.entries)

    def values(self) -> np.ndarray:
        """Every value in order."""
        return np.array(self.entries)


Schedule = Constant | Growing | Listed
_NAMES: dict[str, type[Constant] | type[Growing] | type[Listed]] = {
    "constant": Constant,
    "growing": Growing,
    "listed": Listed,
}


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """Plain form; an infinite cap is left out."""
    name = next(k for k, v in _NAMES.items() if type(schedule) is v)
    return {"schedule": name, **{k: v for k, v in asdict(schedule).items() if v != math.inf}}


def schedule_from_json(plain: dict[str, Any]) -> Schedule:
    """Rebuild a schedule from `schedule_to_json`."""
    fields = dict(plain)
    cls = _NAMES[fields.pop("schedule")]
    return cls(**fields)


def check_schedule(schedule: Schedule, name: str) -> np.ndarray:
    """Return the values of a schedule, which must be finite and at least 0."""
    if not isinstance(schedule, Constant | Growing | Listed):
        raise InputError(f"{name} must be a schedule from dpconvex.privacy.schedules")
    values = schedule.values()
    if values.size == 0 or not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(f"{name} must hold at least one value, all finite and at least 0")
    return values
