"""What the user allows: epsilon, delta, and what a neighbouring data set is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

from dpconvex.errors import HypothesisError, InputError
from dpconvex.hints import named
from dpconvex.kernel.profiles import gaussian_mu
from dpconvex.rounding import round_down

MOVES = {"replace_one": 2.0, "zero_out": 1.0}  # change of a sum over records, in norms of one record
RELATIONS = tuple(MOVES)


def check_relation(relation: object) -> str:
    """Return the relation if it is known; otherwise raise an `InputError` that lists the known ones."""
    if relation == "add_remove":
        raise InputError(
            "relation 'add_remove' makes the number of records private, and no theorem here covers that; "
            f"choose one of {', '.join(RELATIONS)}"
        )
    if relation not in RELATIONS:
        raise InputError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r}")
    return str(relation)


@named
@dataclass(frozen=True)
class Budget:
    """The guarantee that is asked for.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Below 1, and it should be well below 1/n. With 0, pure privacy is asked for, which Gaussian noise never gives:
        `dpconvex.algorithms` that do not give it refuse.
    relation : {"replace_one", "zero_out"}
        Neighbouring data sets: one record replaced by any other, or one record's contribution masked in place.
        The number of records n is public under both.

    Raises `InputError` if one of them is out of range.

    Examples
    --------
    >>> round(Budget(epsilon=1.0, delta=1e-6).mu, 6)
    0.236704
    """

    epsilon: float
    delta: float
    relation: str = "replace_one"
    moves: float = field(init=False, repr=False, compare=False)  # of a sum between neighbours, in norms of a record

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"{name} must be a number, got {type(value).__name__}")
            object.__setattr__(self, name, float(value))
        if not 1e-6 <= self.epsilon <= 1e3:
            raise InputError(f"epsilon must lie between 1e-6 and 1000, got {self.epsilon}")
        if self.delta and not 1e-300 <= self.delta < 1.0:
            raise InputError(f"delta must be 0, or from 1e-300 to below 1, got {self.delta}")
        check_relation(self.relation)
        object.__setattr__(self, "moves", MOVES[self.relation])

    @cached_property
    def mu(self) -> float:
        """Largest mu such that mu-GDP implies the budget, rounded down."""
        if not self.delta:
            raise HypothesisError("delta = 0 asks for pure privacy, which Gaussian noise never gives: take delta > 0")
        return round_down(gaussian_mu(self.epsilon, self.delta))

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"epsilon": self.epsilon, "delta": self.delta, "relation": self.relation}
