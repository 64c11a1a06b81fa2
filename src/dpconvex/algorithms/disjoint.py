"""Parts shared by algorithms that read every record once, in batches: the batches, a secret order, range checks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.algorithms.cuts import even_batches
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Release
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.theorems.shuffled_sums import BITS

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Sums

MOST_BATCHES = 2000  # default limit: each batch is a step, and its noisy sum is kept in memory
UTILITY = "a rate is proved for heavy tails, with constants that say little: try the plan on made-up data"
TYPICAL = 0.125  # length of a typical gradient, for which steps are chosen, in units of the longest


def parts(sums: Sums, batches: int, order: np.ndarray | None = None) -> Iterator[Sums]:
    """Yield the sums over each batch of records in turn, in the given order or in that of `order`.

    Examples
    --------
    >>> from dpconvex.loops.rows import Dense
    >>> from dpconvex.sums.memory import open_sums
    >>> from dpconvex.sums.protocol import Ones
    >>> sums = open_sums(Dense(np.array([[1.0], [2.0], [4.0]]), 9.0, 0.0), np.ones(3))
    >>> [part.sweep(Ones()).tolist() for part in parts(sums, 2, np.array([2, 0, 1]))]
    [[4.0], [3.0]]
    """
    ends = np.cumsum(even_batches(sums.n, batches).values()).astype(np.int64).tolist()
    for start, stop in pairwise([0, *ends]):
        yield sums.view(start, stop) if order is None else sums.sampled(order[start:stop])


def order_bits(n: int, delta: float) -> int:
    """Number of random bits per record for a secret order; ties then have a probability below delta/4096.

    Examples
    --------
    >>> order_bits(1024, 2.0**-20)
    51
    """
    return min(BITS, math.ceil(2.0 * math.log2(n) - math.log2(delta)) + 11)


def secret_order(port: NoisePort, name: str, n: int) -> np.ndarray:
    """Sort the records by secret bits of their own, which the port draws and does not keep."""
    words = np.zeros((math.ceil(port.left(name) / 64), n), dtype=np.uint64)
    for i in range(port.left(name)):
        words[i // 64, port.lend_sample(name, secret_order)] |= np.uint64(1) << np.uint64(i % 64)
    return np.lexsort(words)


def default_reach(problem: Problem) -> float:
    """Size of the largest weight at which predictions can reach the targets, or scores of confident classes.

    Examples
    --------
    >>> import dpconvex as dc
    >>> default_reach(Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Linf(2.0)))
    2.5
    """
    traits = problem.loss.traits
    return (2.0 * traits.target if traits.labels == "bounded" else 5.0) / problem.largest_entry()


def check_range(n: int, clip: float, release: Release) -> None:
    """Refuse clips so large that a sum of gradients, or its noise, could overflow float64: overflow would be visible.

    Raises
    ------
    HypothesisError
        If n gradients of length `clip` could add up to more than float64 holds.
    """
    if not n * clip + 64.0 * release.scale * math.prod(release.shape) < 1e300:
        raise HypothesisError("sums of such large gradients could overflow float64: scale down the target or the rows")
