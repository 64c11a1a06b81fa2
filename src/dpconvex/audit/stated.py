"""What an audit judges: a curve of (epsilon, delta), the relation it is about, and the delta at which it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from dpconvex.errors import InputError
from dpconvex.kernel.budget import RELATIONS, Budget
from dpconvex.kernel.claims import Claim
from dpconvex.kernel.profiles import GDP, ApproxDP
from dpconvex.plan.plan import Plan

ASKED = (*RELATIONS, "add_remove")  # the kernel proves nothing about add_remove, but other people's code may claim it
DELTA = 1e-6


class Curve(Protocol):
    """Delta as a function of epsilon, and back."""

    def delta(self, epsilon: float) -> float:
        """Smallest delta claimed at that epsilon."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon claimed at that delta."""


@dataclass(frozen=True)
class ZCDP:
    """(alpha, alpha rho)-Renyi privacy for every alpha > 1, read as (epsilon, delta) by Mironov (2017), Prop 3.

    The kernel carries tighter profiles; papers often state this one.

    Examples
    --------
    >>> round(ZCDP(0.02).epsilon(1e-5), 3)
    0.98
    """

    rho: float

    def __post_init__(self) -> None:
        if not 0.0 < self.rho < math.inf:
            raise InputError("rho must be positive and finite")

    def delta(self, epsilon: float) -> float:
        """Smallest delta that follows at that epsilon."""
        return math.exp(-((epsilon - self.rho) ** 2) / (4.0 * self.rho)) if epsilon > self.rho else 1.0

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon that follows at that delta."""
        return self.rho + 2.0 * math.sqrt(self.rho * math.log(1.0 / delta))


@dataclass(frozen=True)
class Stated:
    """A claim from anywhere: a paper, another library, your own function.

    Parameters
    ----------
    profile : object with `delta(epsilon)` and `epsilon(delta)`
        For example `GDP(mu)` or `ApproxDP(epsilon, delta)` of `dpconvex.kernel.profiles`, or `ZCDP(rho)`.
    relation : {"replace_one", "zero_out", "add_remove"}
        Which data sets are neighbours.
    delta : float
        Where epsilon is read off.

    Examples
    --------
    >>> claim = Stated(GDP(0.5), "replace_one", delta=1e-5)
    >>> round(claim.epsilon, 2)
    1.99
    """

    profile: Curve
    relation: str
    delta: float = DELTA

    def __post_init__(self) -> None:
        if self.relation not in ASKED:
            raise InputError(f"relation must be one of {', '.join(ASKED)}, got {self.relation!r}")
        if not 0.0 <= self.delta < 1.0:
            raise InputError(f"delta must be at least 0 and below 1, got {self.delta}")
        if not self.delta and math.isinf(self.profile.epsilon(0.0)):
            raise InputError("this claim has no epsilon at delta 0: state a delta above 0, such as 1e-6")

    @property
    def epsilon(self) -> float:
        """Epsilon claimed at `delta`."""
        return self.profile.epsilon(self.delta)

    @property
    def mu(self) -> float:
        """Parameter of a Gaussian claim, otherwise nan."""
        return self.profile.mu if isinstance(self.profile, GDP) else math.nan


def read_claim(claim: Any) -> Stated:
    """Turn whatever states a guarantee together with its relation into `Stated`."""
    if isinstance(claim, Stated):
        return claim
    if isinstance(claim, Budget):
        return Stated(ApproxDP(claim.epsilon, claim.delta), claim.relation, claim.delta)
    if isinstance(claim, Plan):
        return Stated(claim.claim.profile, claim.claim.relation, claim.budget.delta)
    if isinstance(claim, Claim):
        return Stated(claim.profile, claim.relation)
    raise InputError(
        f"claim must say which data sets are neighbours, and {type(claim).__name__} does not: pass "
        "dc.Budget(epsilon, delta, relation), a plan, or dc.audit.Stated(profile, relation, delta)"
    )
