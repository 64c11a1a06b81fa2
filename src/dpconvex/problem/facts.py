"""Facts: the numbers about a problem that theorems may rely on, each with the reason it is true.

Facts are stated by `dpconvex.problem` or concluded by a theorem, and made nowhere else: the constructor refuses any
other caller, and a test searches the source tree for violations. A theorem therefore never takes a bare float for
something that privacy depends on.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass
from enum import StrEnum
from typing import Any, Final

from dpconvex.errors import HypothesisError

__all__ = ["DECLARED", "Fact", "Kind"]

DECLARED: Final = "declared by the user: "  # how the source of a fact begins that rests on the user's word alone
_TOKEN: Final = object()


class Kind(StrEnum):
    """What a fact is about. "Record" means one term f(w) = loss(w; x_i, y_i) + l2/(2n) |w|^2 of the objective."""

    ROW_BOUND = "largest l2 norm of a row, constant feature included"
    LONG_ROWS = "largest l2 norm of a row times its weight, and how many times that a row may be long"
    LIPSCHITZ = "largest l2 norm of the gradient of one record's loss"
    SMOOTHNESS = "largest eigenvalue of one record's Hessian"
    STRONG_CONVEXITY = "smallest eigenvalue of one record's Hessian"
    MONOTONE_MARGIN = "1 if the sign of the slope is fixed by the label, else 0"
    SLOPE = "largest |slope| of the scalar loss anywhere"
    SLOPE_WIDTH = "largest slope of one record's scalar loss minus its smallest"
    CURVATURE_LAW = "a, b, c: where |slope| is s, curvature is at most a + b s + c s^2, which is concave and at least 0"
    CLASSES = "number of classes of a softmax"
    DIAMETER = "largest distance between two points of the domain"
    LOSS_AT_ORIGIN = "largest loss of a record at weights of zero, where no loss is negative"
    SENSITIVITY = "largest change of a released vector, in l2 norm, between neighbouring data sets"
    CONTRACTION = "Lipschitz constant of a step or phase in its starting point"
    RENYI_LAW = "kappa, q, numbers, second moment, accuracy and orders (none: all) of a law of noise"


@dataclass(frozen=True)
class Fact:
    """A number (three for a curvature law, two for long rows, several for a law of noise), what it bounds, and why."""

    kind: Kind
    value: Any
    source: str
    relation: str | None = None
    derivation: Any = None
    token: InitVar[object] = None

    @property
    def declared(self) -> bool:
        """Whether it rests on the word of the user, who declared it of a loss or a domain of their own."""
        return self.source.startswith(DECLARED)

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("a Fact is stated by dpconvex.problem or concluded by a theorem, not constructed")
        law, values = self.kind is Kind.CURVATURE_LAW, self.value if isinstance(self.value, tuple) else (self.value,)
        if not all(math.isfinite(v) and (v >= 0 or law) for v in values):
            raise HypothesisError(f"{self.kind.name.lower()} is not finite here ({self.source})")


def state_fact(
    kind: Kind, value: float | tuple[float, ...], source: str, *, relation: str | None = None, derivation: Any = None
) -> Fact:
    """State a fact; reserved to `dpconvex.problem` and `dpconvex.kernel`."""
    held = tuple(float(v) for v in value) if isinstance(value, tuple) else float(value)
    return Fact(kind, held, source, relation, derivation, token=_TOKEN)
