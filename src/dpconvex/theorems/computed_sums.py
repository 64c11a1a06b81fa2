"""Sums as float64 computes them: how far they are from the exact sums, and what that adds to a sensitivity.

Noise is added to a computed sum. It is within E of the exact one for every data set, so a neighbour moves it by at most
2E more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import (
    THEOREMS,
    Bounded,
    Claim,
    Derivation,
    Release,
    concludes_fact,
    need_fact,
    need_positive,
)
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_up, up

BLOCK: Final = 1024  # rows added up before their sum joins the total
UNIT: Final = 2.0**-53  # largest relative error of one rounding
MATRIX_BLOCK: Final = 2**18  # rows added up at most before their sum of x x' joins the total
TERMS_BLOCK: Final = 2**14  # rows of which the terms of an evaluation are added up before they join the total
SCORES: Final = 2**16  # scores at most at which records are counted
MOST: Final = 2**40  # terms of a sum
LARGEST: Final = 1e300  # a sum: beyond it float64 could overflow


@lru_cache(maxsize=64)
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
    if not need_positive(condition, "condition") >= 1.0:
        raise HypothesisError("condition must be at least 1")
    return condition * _error(n, size, accumulation(n) + 6 * size + 96)


def matrix_error(n: int, size: int) -> float:
    """`sum_error` of a sum of h x x', for rows x of at most `size` features, in Frobenius norm."""
    return _error(n, size, min(n, MATRIX_BLOCK) + n / BLOCK + 8 * size + 160)


def _of_terms(n: int, size: int) -> float:
    """`sum_error` of a sum of a few numbers from every record, as metrics are made of."""
    return _error(n, size, min(n, TERMS_BLOCK) + n / TERMS_BLOCK + 64)


def _of_ranks(n: int, size: int) -> float:
    """Error of the sums of `ranking_sums`, which are made of whole counts at no more than 2^16 scores."""
    return _error(n, size, 3.0 * (SCORES + 16))


def _error(n: int, size: int, units: float) -> float:
    for name, value in (("n", n), ("size", size)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise HypothesisError(f"{name} must be a whole number between 1 and 2^40")
    return 1.01 * UNIT * n * units


class _Computed(NamedTuple):
    """How the sum of a theorem is computed: its error per longest term, and the sensitivity per longest term."""

    error: Callable[[int, int], float]
    moves: Mapping[str, float]


_VECTORS, _ONE = _Computed(sum_error, MOVES), {"replace_one": 1.0, "zero_out": 1.0}
_MATRICES = _Computed(matrix_error, {"replace_one": math.sqrt(2.0) * (1.0 - 1e-15), "zero_out": 1.0})
_SQUARES = _Computed(sum_error, {"replace_one": math.sqrt(2.0) * (1.0 - 1e-15), "zero_out": 1.0})
# The theorems whose sums have an error that is bounded; of `moment_sums` those named by `which`.
_SUMS: Final = {
    ("clipped_sum", None): _VECTORS,
    ("gradient_sum", None): _VECTORS,
    ("moment_sums", "cross"): _VECTORS,
    ("moment_sums", "second"): _MATRICES,
    ("curvature_sum", None): _MATRICES,
    ("squared_entries_sum", None): _SQUARES,
    ("bounded_sums", None): _Computed(_of_terms, _ONE),
    ("binned_sums", None): _Computed(_of_terms, _ONE),
    ("grouped_sums", None): _Computed(_of_terms, _ONE),
    ("cell_counts", None): _Computed(_of_terms, _ONE),
    ("ranking_sums", None): _Computed(_of_ranks, _ONE),
}


@concludes_fact
def computed_sum(sensitivity: Fact, n: int, numbers: int, condition: float = 1.0) -> Bounded:
    """Sensitivity of a sum over n records as float64 computes it: that of the exact sum, and twice the largest error.

    The sum is one of those of `clipped_sum`, `gradient_sum`, `moment_sums`, `curvature_sum`, `squared_entries_sum` and
    of evaluations, as `dpconvex.sums` computes it, and the weights of the problem are that many numbers. Where vectors
    are added up, a linear map applied to the computed sum may have that condition number; the sensitivity is then that
    of the vectors after the map. Proof: docs/proofs/computed_sums.md.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    relation, derivation = check_relation(sensitivity.relation), sensitivity.derivation
    of = (derivation.theorem, derivation.arguments.get("which")) if isinstance(derivation, Derivation) else None
    if of not in _SUMS:
        raise HypothesisError("sensitivity must be that of a sum: the rounding of no other is bounded")
    computed = _SUMS[of]
    if condition != 1.0 and computed is not _VECTORS:
        raise HypothesisError("condition must be 1: no linear map of these sums is covered")
    longest = s / computed.moves[relation]
    error = (sum_error(n, numbers, condition) if computed is _VECTORS else computed.error(n, numbers)) * longest
    if not n * condition * longest < LARGEST:
        raise HypothesisError("a sum of so many terms of that size could overflow float64: scale down the rows")
    source = f"{sensitivity.source}, as float64 computes it"
    return Bounded(Kind.SENSITIVITY, up(s + 2.0 * error + 1e-290), source, relation)


def rounds_error(rounds: int, batch: int, size: int) -> float:
    """How far the rows C x of so many rounds can be from the exact ones together, per longest term and column of C.

    The increment of a round is a sum over at most `batch` records, added up 1024 at a time, over a scale. It enters the
    filters of C, or the nodes of a tree (`noise.rounds`).

    Examples
    --------
    >>> f"{rounds_error(1000, 100, 10):.1e}"
    '3.9e-09'
    """
    return rounds * _error(batch, size, min(batch, BLOCK) + batch / BLOCK + 6 * size + 184)


def most_rounds(batch: int, size: int, share: float = 1e-4) -> int:
    """For how many rounds of so many records rounding adds at most that share to the sensitivity.

    Examples
    --------
    >>> f"{most_rounds(64, 10):.1e}"
    '4.5e+07'
    """
    return int(share / rounds_error(1, batch, size))


@concludes_fact
def computed_rounds(sensitivity: Fact, rounds: int, batch: int, numbers: int) -> Bounded:
    """Sensitivity of the increments of running sums, as float64 computes the rows C x: per column of C.

    The increments are sums of `clipped_sum` or `gradient_sum` over at most `batch` records a round, and may be divided
    by that number and by scales. The weights of the problem are that many numbers. Proof: docs/proofs/computed_sums.md.
    """
    s = need_fact(sensitivity, Kind.SENSITIVITY, "sensitivity")
    relation, derivation = check_relation(sensitivity.relation), sensitivity.derivation
    if not isinstance(derivation, Derivation) or derivation.theorem not in ("clipped_sum", "gradient_sum"):
        raise HypothesisError("sensitivity must be that of a sum of vectors: the rounding of no other is bounded")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MOST:
        raise HypothesisError("rounds must be a whole number between 1 and 2^40")
    longest = s / MOVES[relation]
    error = rounds_error(rounds, batch, numbers) * longest
    if not rounds * batch * longest < LARGEST:
        raise HypothesisError("a sum of so many terms of that size could overflow float64: scale down the rows")
    source = f"{sensitivity.source}, in running sums as float64 computes them"
    return Bounded(Kind.SENSITIVITY, up(s + 2.0 * error + 1e-290), source, relation)


def computed_clip(clip: float, n: int, size: int) -> float:
    """How far a vector of norm at most `clip` moves a computed sum of n such vectors: twice the error further.

    Examples
    --------
    >>> computed_clip(1.0, 100_000, 100)
    1.00000003876
    """
    if not n * clip < LARGEST:
        raise HypothesisError("a sum of so many terms of that size could overflow float64: scale down the rows")
    return up(clip * (1.0 + 2.0 * sum_error(n, size)) + 1e-290)


_DRIFTING: Final = ("noisy_contraction", "noisy_sgd", "noisy_steps", "secret_order")
_COMPUTED: Final = (computed_sum.__name__, "certified_erm", "computed_pass")


def need_computed(sensitivity: Fact, release: Release) -> None:
    """Refuse a sensitivity of exact sums for a release on a grid: what lies on a grid was computed.

    Those of `certified_erm` and `computed_pass` are about computed points: what those are off by is part of them.
    """
    derivation = sensitivity.derivation
    computed = isinstance(derivation, Derivation) and derivation.theorem in _COMPUTED
    if isinstance(derivation, Derivation) and derivation.theorem == "computed_pass":
        made = derivation.arguments["drift"].derivation.arguments
        computed = made["numbers"] == math.prod(release.shape)
    if release.grid is not None and not computed:
        raise HypothesisError(
            f"release {release.name!r} lies on a grid, so the sensitivity must be that of a sum as float64 computes "
            "it: pass it through computed_sum"
        )


def slack(claim: Claim) -> float:
    """Upper bound, to one digit, on the share that rounding adds to a sensitivity, or to mu where it is a drift.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    >>> slack(dc.algorithms.MeanDirection().plan(problem, n=1000, d=2, budget=budget).claim)
    2e-10
    """
    return _slack(_Itself(claim))


class _Itself(NamedTuple):
    """A claim as a key: the same object has the same slack, for claims never change."""

    claim: Claim

    def __hash__(self) -> int:
        return id(self.claim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.claim is other.claim


@lru_cache(maxsize=16)
def _slack(key: _Itself) -> float:
    found = 0.0
    left: list[Any] = [key.claim]
    while left:
        node = left.pop()
        if isinstance(node, list | tuple):
            left.extend(node)
        elif isinstance(node, Claim | Fact) and isinstance(node.derivation, Derivation):
            given = node.derivation.arguments
            if node.derivation.theorem in ("computed_sum", "computed_rounds") and given["sensitivity"].value:
                found = max(found, node.value / given["sensitivity"].value - 1.0)  # type: ignore[union-attr]
            if node.derivation.theorem == "computed_pass":
                found = max(found, given["drift"].value / given["sensitivity"].value)
            found = max(found, 2.0 * _stated_error(node.derivation), _drifted(node))
            left.extend(given.values())
    return round_up(found, 1)


def _drifted(node: Claim | Fact) -> float:
    """Share of the mu of a walk that is due to drift: its claim against that of the same walk in real arithmetic."""
    derivation = node.derivation
    if not isinstance(derivation, Derivation) or derivation.theorem not in _DRIFTING:
        return 0.0
    given = dict(derivation.arguments)
    if given["drifts" if "drifts" in given else "reach"] is None:
        return 0.0
    exact = {name: _ungridded(value) for name, value in given.items() if name not in ("drifts", "row", "reach")}
    concludes: Any = THEOREMS[derivation.theorem].__wrapped__  # type: ignore[attr-defined]  # nothing is to be derived
    ideal: Any = concludes(**exact).profile
    found: Any = node.profile  # type: ignore[union-attr]
    largest, before = (p.mu if isinstance(p, GDP) else max(p.mus) for p in (found, ideal))
    return float(largest / before - 1.0) if before else 0.0


def _ungridded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_ungridded(part) for part in value)
    return replace(value, grid=None) if isinstance(value, Release) else value


def _stated_error(derivation: Derivation) -> float:
    """Error per longest term where a theorem about sums charges for it by itself."""
    given = derivation.arguments
    release = given.get("release", given.get("second"))
    if not isinstance(release, Release) or release.grid is None:
        return 0.0
    size = math.prod(release.shape)
    if derivation.theorem == "noisy_moments":
        return matrix_error(given["n"], math.prod(given["cross"].shape))
    if derivation.theorem == "poisson_subsampling":
        return sum_error(given["sample"].shape[0], size)
    if derivation.theorem == "generalised_gaussian":
        return sum_error(given["n"], size)
    if derivation.theorem == "renyi_noise":
        return sum_error(given["n"], size)
    if derivation.theorem in ("disjoint_sums", "shuffled_sums"):
        return sum_error(int(given["batches"].values().max()), size)
    return 0.0


def need_sum_error(release: Release, n: int | None) -> float:
    """Return `sum_error` of a release on a grid, for which n must be given; 0 without a grid."""
    if release.grid is None:
        return 0.0
    if n is None:
        raise HypothesisError(
            f"release {release.name!r} lies on a grid: state n, the number of records that are added up"
        )
    return sum_error(n, math.prod(release.shape))
