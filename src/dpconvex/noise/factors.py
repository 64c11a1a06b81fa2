"""Factors of the prefix-sum matrix: correlated noise that is small on every running sum.

Let A be the lower triangular matrix of ones and A = B C. The rows of C x, with white noise, are released, and the
running sums A x are computed from them by B. A factor provides the norm of the columns of C, which determines what that
costs, the norms of the rows of B, which are the errors, and the numbers by which `noise.rounds` computes both products
round by round. The proofs are in docs/proofs/correlated_noise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

FILTERS: Final = 0  # C is the identity plus first-order filters, and its inverse is filters in sequence
TREE: Final = 1  # C has a row of ones for every node of a binary tree that some sum uses: one a round
REFINED: Final = 2  # and for every node of the tree


class Form(NamedTuple):
    """How C is computed: its kind; weights and 1 - poles of its filters, 1 - poles of its inverse; rows of memory."""

    kind: int
    weights: np.ndarray
    poles: np.ndarray
    inverse: np.ndarray
    levels: int


_NONE = np.empty(0)


@dataclass(frozen=True)
class Independent:
    """Fresh noise on every increment: C is the identity, and the variance on a running sum grows with its rounds.

    Examples
    --------
    >>> Independent(horizon=9).variance(4)
    4.0
    """

    horizon: int
    squared_norm = 1.0

    def variance(self, t: int) -> float:
        """Variance of the noise after round t."""
        return float(t)

    largest_variance = variance

    def total_variance(self, rounds: int) -> float:
        """Sum of the variances after rounds 1, ..., rounds."""
        return rounds * (rounds + 1) / 2.0

    @cached_property
    def form(self) -> Form:
        """No filter at all."""
        return Form(FILTERS, _NONE, _NONE, _NONE, 0)


@dataclass(frozen=True)
class Tree:
    """A binary tree over the rounds, whose nodes hold noisy sums: C has a row for every node.

    A running sum adds the nodes of its binary digits [1]_ [2]_. With `refined`, the value of a node is averaged with
    those of the nodes below it, by the unbiased average of least variance [3]_. This changes B but not C.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum (2010), "Differential privacy under continual observation".
    .. [2] Chan, Shi, Song (2010), "Private and continual release of statistics".
    .. [3] Honaker (2015), "Efficient use of differentially private binary trees".

    Examples
    --------
    >>> tree = Tree(horizon=7)
    >>> tree.squared_norm, [tree.variance(t) for t in range(1, 8)]
    (3.0, [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 3.0])
    """

    horizon: int
    refined: bool = False

    @property
    def squared_norm(self) -> float:
        """Number of nodes above the first round, itself included, which is the largest over all rounds."""
        return float(self.horizon.bit_length())

    def _weight(self, level: int) -> float:
        """Variance of a node: v_k = 2 v_{k-1} / (2 v_{k-1} + 1) with v_0 = 1 if `refined`, else 1."""
        return 1.0 / (2.0 - 2.0**-level) if self.refined else 1.0

    def variance(self, t: int) -> float:
        """Variance of the noise after round t: the nodes of its binary digits."""
        return math.fsum(self._weight(k) for k in range(t.bit_length()) if t >> k & 1)

    def total_variance(self, rounds: int) -> float:
        """Sum of the variances after rounds 1, ..., rounds."""
        whole = rounds + 1
        ones = ((whole >> k + 1 << k) + max(0, whole % 2 ** (k + 1) - 2**k) for k in range(whole.bit_length()))
        return math.fsum(self._weight(k) * n for k, n in enumerate(ones))

    def largest_variance(self, rounds: int) -> float:
        """Largest variance after rounds 1, ..., rounds; only rounds that can attain it are tried."""
        digits = (k for k in range(rounds.bit_length()) if rounds >> k & 1)
        return max(self.variance(t) for t in (rounds, *((rounds >> k << k) - 1 for k in digits)))

    @cached_property
    def form(self) -> Form:
        """A level for every length of nodes."""
        return Form(REFINED if self.refined else TREE, _NONE, _NONE, _NONE, self.horizon.bit_length())


# ln(1 - p_1), ln(1 - theta_1), ..., ln(1 - theta_5): about the least RMS error at 10^2, 10^3, ..., 10^9 rounds, as
# fitted by benchmarks/blt.py
_FITTED = np.array(
    [
        [-0.1435, -0.4435, -0.7435, -1.2008, -1.9318, -2.8576, -3.1576, -3.4576, -3.7576, -4.0576],
        [-0.1114, -0.4114, -0.8180, -1.2609, -1.7258, -2.2613, -2.8906, -3.6557, -4.5348, -5.8833],
        [-0.1929, -0.7093, -1.4246, -2.2406, -3.1002, -3.9845, -4.8753, -5.8116, -6.7839, -8.1731],
        [-0.3097, -1.0918, -2.1037, -3.2026, -4.3302, -5.4697, -6.6080, -7.7695, -8.9253, -10.4267],
        [-0.4388, -1.4855, -2.7672, -4.1170, -5.4845, -6.8577, -8.2292, -9.6153, -10.9835, -12.6404],
        [-0.5802, -1.8900, -3.4244, -5.0093, -6.6047, -8.2026, -9.7994, -11.4057, -12.9926, -14.8243],
        [-0.7329, -2.3024, -4.0773, -5.8885, -7.7057, -9.5241, -11.3417, -13.1655, -14.9721, -16.9873],
        [-0.8952, -2.7198, -4.7266, -6.7589, -8.7945, -10.8307, -12.8664, -14.9060, -16.9317, -19.1351],
    ]
)


_LATER = (
    3.0  # parameters are those for as many times the rounds: the last sums of a run matter most, and have less error
)


@dataclass(frozen=True)
class BLT:
    """C is the Toeplitz matrix of prod_j (1 - p_j x) / (1 - theta_j x), with five buffers [1]_.

    For 0 < p_1 < theta_1 < p_2 < ... < theta_5 < 1, the coefficients of C and of B = A C^-1 are sums of positive
    exponentials, and norms are sums of geometric series. The parameters are close to those of least RMS error over
    three times the rounds. Privacy depends only on the norm of the columns, which is computed from the parameters.

    References
    ----------
    .. [1] Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024), "Efficient and near-optimal noise generation for
       streaming differential privacy".

    Examples
    --------
    >>> round(BLT(horizon=1000).squared_norm, 2), round(BLT(horizon=1000).variance(1000), 2)
    (3.27, 3.26)
    """

    horizon: int

    @cached_property
    def _poles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return 1 - theta and 1 - p, exactly for the floats that the filters use."""
        at = np.interp(math.log10(_LATER * self.horizon), np.arange(2.0, 10.0), np.arange(8.0))
        low = min(int(at), 6)
        u = (1.0 - (at - low)) * _FITTED[low] + (at - low) * _FITTED[low + 1]
        gap = 1.0 - (1.0 - np.exp(u))
        return gap[1::2], gap[::2]

    @cached_property
    def squared_norm(self) -> float:
        """Squared norm of the first column: 1 + sum_{k < T - 1} (sum_j omega_j theta_j^k)^2."""
        theta, p = self._poles
        return 1.0 + _geometric(_residues(theta, p), theta, self.horizon - 1)

    @cached_property
    def _response(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights, and 1 minus the bases, of the exponentials whose sums are the coefficients of B."""
        theta, p = self._poles
        bases = np.concatenate([[0.0], p])
        return _residues(bases, theta), bases

    def variance(self, t: int) -> float:
        """Variance of the noise after round t."""
        return _geometric(*self._response, t)

    largest_variance = variance

    def total_variance(self, rounds: int) -> float:
        """Sum of the variances after rounds 1, ..., rounds."""
        return _geometric(*self._response, rounds, ramp=True)

    @cached_property
    def form(self) -> Form:
        """A filter for every pole of C."""
        theta, p = self._poles
        return Form(FILTERS, _residues(theta, p), theta, p, len(theta))


Factor = Independent | Tree | BLT


def memory_of(factor: Factor, d: int) -> np.ndarray:
    """Memory before the first round."""
    return np.zeros((3, factor.form.levels + 1, d))


def rows_until(kind: int, rounds: int) -> int:
    """How many rows C has up to that round."""
    return 2 * rounds - rounds.bit_count() if kind == REFINED else rounds


def rows_before(kind: int, before: int, count: int) -> np.ndarray:
    """How many rows C has from round `before` up to each of the next rounds, and up to the end of the last.

    Examples
    --------
    >>> rows_before(REFINED, 2, 4).tolist(), [rows_until(REFINED, r) - rows_until(REFINED, 2) for r in range(2, 7)]
    ([0, 1, 4, 5, 7], [0, 1, 4, 5, 7])
    """
    if kind != REFINED:
        return np.arange(count + 1)
    rounds = np.arange(before + 1, before + count + 1)
    each = np.frexp((rounds & -rounds).astype(np.float64))[1]  # one row, and one for each level that ends with it
    return np.concatenate([[0], np.cumsum(each, dtype=np.int64)])


def factor_of(backend: str, horizon: int) -> Factor:
    """The factor for the name of a back-end.

    Examples
    --------
    >>> factor_of("honaker", 8)
    Tree(horizon=8, refined=True)
    """
    if backend in ("tree", "honaker"):
        return Tree(horizon, refined=backend == "honaker")
    if backend == "independent":
        return Independent(horizon)
    return BLT(horizon)


def _residues(poles: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """Weights of the exponentials of a product of (1 - zero x) / (1 - pole x), given 1 - pole and 1 - zero."""
    apart = poles[:, None] - poles[None]
    np.fill_diagonal(apart, 1.0)
    return np.asarray(np.prod(zeros[:, None] - poles[None], axis=0) / np.prod(apart, axis=0))


def _geometric(weights: np.ndarray, gaps: np.ndarray, count: int, ramp: bool = False) -> float:
    """Sum over k < count of (sum_j weight_j (1 - gap_j)^k)^2; with `ramp`, terms are multiplied by count - k."""
    gap = gaps[:, None] + gaps[None] - gaps[:, None] * gaps[None]
    some = np.where(gap == 0.0, 0.5, gap)  # a gap of 0 is a base of 1, whose series is constant
    series = -np.expm1(count * np.log1p(-some)) / some
    flat = float(count)
    if ramp:
        series, flat = (count - (1.0 - some) * series) / some, count * (count + 1) / 2.0
    return float((np.outer(weights, weights) * np.where(gap == 0.0, flat, series)).sum())
