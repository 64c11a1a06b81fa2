"""Sums as float64 computes them: how far they are from the exact sums, and what that adds to a sensitivity.

Noise is added to a computed sum. It is within E of the exact one for every data set, so a neighbour moves it by at most
2E more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Bounded, Derivation, Release, concludes_fact, need_fact, need_positive
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import up

BLOCK: Final = 1024  # rows added up before their sum joins the total
UNIT: Final = 2.0**-53  # largest relative error of one rounding
MOST: Final = 2**40  # terms of a sum
LARGEST: Final = 1e300  # a sum: beyond it float64 could overflow


def accumulation(n: int) -> float:
    """Units u by which a sum over n rows of products of up to four numbers is off, per absolute sum (see `rounding`).

    Rows are added up 1024 at a time, and the sums of those blocks as pairs (high, low) of float64 numbers.

    Examples
    --------
    >>> round(accumulation(10**9))
    1032
    """
    blocks = n / BLOCK + 17.0  # groups of blocks, up to 16, are added in the same way
    return BLOCK + 8 + 1.01 * UNIT * blocks**2


def sum_error(n: int, size: int, condition: float = 1.0) -> float:
    """How far a computed sum of n vectors can be from the exact one, in any absolute norm, per length of the longest.

    Each vector, of `size` numbers, is a row times a slope (or one a class), shortened so that it is no longer than
    allowed, after a linear map of that condition number if there is one. What the lengths themselves are off is
    included, so that the exact sum may be taken as one of vectors no longer than allowed. Proof:
    docs/proofs/computed_sums.md.

    Examples
    --------
    >>> f"{sum_error(100_000, 100):.1e}"
    '1.9e-08'
    """
    for name, value in (("n", n), ("size", size)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise HypothesisError(f"{name} must be a whole number between 1 and 2^40")
    if not need_positive(condition, "condition") >= 1.0:
        raise HypothesisError("condition must be at least 1")
    return 1.01 * UNIT * n * condition * (accumulation(n) + 6 * size + 96)


def _of_vectors(given: Mapping[str, Any], moved: float, relation: str) -> float:
    """Longest vector of a sum that one record moves by that much at most."""
    if given.get("which", "cross") != "cross":
        raise HypothesisError(f"no bound on the rounding of the {given['which']} moments is proved")
    return moved / MOVES[relation]


# The theorems whose sums have an error that is bounded: each with the longest term, from its arguments.
_LONGEST: Final[dict[str, Callable[[Mapping[str, Any], float, str], float]]] = {
    "clipped_sum": _of_vectors,
    "gradient_sum": _of_vectors,
    "moment_sums": _of_vectors,
}


@concludes_fact
def computed_sum(sensitivity: Fact, n: int, size: int, condition: float = 1.0) -> Bounded:
    """Sensitivity of a sum over n records as float64 computes it: that of the exact sum, and twice the largest error.

    The sum is that of `clipped_sum`, `gradient_sum` or `moment_sums`, a vector or matrix of `size` numbers, computed by
    `dpconvex.sums`. A linear map applied to the computed sum may have that condition number; the
    sensitivity is then that of the vectors after the map. Proof: docs/proofs/computed_sums.md.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    relation, derivation = check_relation(sensitivity.relation), sensitivity.derivation
    if not isinstance(derivation, Derivation) or derivation.theorem not in _LONGEST:
        raise HypothesisError(
            f"sensitivity must be that of a sum by {', '.join(_LONGEST)}: the rounding of no other is bounded"
        )
    longest = _LONGEST[derivation.theorem](derivation.arguments, s, relation)
    error = sum_error(n, size, condition) * longest
    if not n * condition * longest < LARGEST:
        raise HypothesisError("a sum of so many terms of that size could overflow float64: scale down the rows")
    source = f"{sensitivity.source}, as float64 computes it"
    return Bounded(Kind.SENSITIVITY, up(s + 2.0 * error + 1e-290), source, relation)


def need_computed(sensitivity: Fact, release: Release) -> None:
    """Refuse a sensitivity of exact sums for a release on a grid: what lies on a grid was computed."""
    derivation = sensitivity.derivation
    computed = isinstance(derivation, Derivation) and derivation.theorem == computed_sum.__name__
    if release.grid is not None and not computed:
        raise HypothesisError(
            f"release {release.name!r} lies on a grid, so the sensitivity must be that of a sum as float64 computes "
            "it: pass it through computed_sum"
        )
