"""Factors of the prefix-sum matrix: correlated noise that is small on every running sum.

Let A be the lower triangular matrix of ones, A = B C, and z white noise. Then noise B z on the running sums of x costs
as much privacy as noise z on C x. A factor provides the norm of the columns of C, which determines the cost, the norms
of the rows of B, which are the errors, and the increments of B z, computed for a chunk of rounds at a time. The proofs
are in docs/proofs/correlated_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

CHUNK = 256  # rounds computed at a time, a power of 2
Draw = Callable[[int], np.ndarray]  # from a number of rows to white noise
Memory = tuple[np.ndarray, ...]  # state that a chunk passes on to the next


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

    def shapes(self, start: int, d: int) -> list[tuple[int, ...]]:
        """Memory before round start + 1: none."""
        return []

    def chunk(self, memory: Memory, start: int, draw: Draw) -> tuple[np.ndarray, Memory]:
        """Increments of the next rounds and the memory after them."""
        return draw(CHUNK), ()


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

    def shapes(self, start: int, d: int) -> list[tuple[int, ...]]:
        """Memory before round start + 1: the node of each binary digit of start, 0 where the digit is 0."""
        return [(self.horizon.bit_length() + CHUNK.bit_length(), d)]

    def chunk(self, memory: Memory, start: int, draw: Draw) -> tuple[np.ndarray, Memory]:
        """Increments of the next rounds and the memory after them."""
        stack = memory[0].copy()
        nodes = draw(CHUNK)
        total = np.empty((CHUNK + 1, nodes.shape[1]))
        total[0] = stack.sum(axis=0)
        top = CHUNK.bit_length() - 1
        if self.refined:
            levels = [nodes]
            for k in range(1, top + 1):
                levels.append(self._average(k, draw(CHUNK >> k), levels[-1][::2], levels[-1][1::2]))
            lefts = [level[::2] for level in levels]
        else:
            lefts = [nodes[(1 << k) - 1 :: 2 << k] for k in range(top + 1)]
        for k in range(top - 1, -1, -1):  # a sum is the node of its last digit 1 plus the sum up to that node
            total[1 << k :: 2 << k] = total[: -(1 << k) : 2 << k] + lefts[k]
        node = lefts[top][0]
        k = top
        while start >> k & 1:
            node = self._average(k + 1, draw(1)[0], stack[k], node) if self.refined else node
            stack[k] = 0.0
            k += 1
        stack[k] = node
        total[CHUNK] = stack.sum(axis=0)
        return np.diff(total, axis=0), (stack,)

    def _average(self, level: int, own: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        v = self._weight(level)
        return v * own + (1.0 - v) * (left + right)


@dataclass(frozen=True)
class Toeplitz:
    """B = C = A^(1/2), the Toeplitz matrix of (1 - x)^(-1/2) [1]_.

    The increments are a convolution of the white noise with the coefficients of (1 - x)^(1/2). It is computed by
    Fourier transforms in at most 8 blocks; the white noise of earlier blocks is kept as its transform.

    References
    ----------
    .. [1] Fichtenberger, Henzinger, Upadhyay (2023), "Constant matters: fine-grained error bound on differentially
       private continual observation".

    Examples
    --------
    >>> Toeplitz(horizon=3).squared_norm == 1 + (1 / 2) ** 2 + (3 / 8) ** 2
    True
    """

    horizon: int

    @property
    def squared_norm(self) -> float:
        """Sum of the squared coefficients: the norm of the first column."""
        return self.variance(self.horizon)

    def _squares(self, rounds: int) -> np.ndarray:
        return _products(rounds, 0.5) ** 2

    def variance(self, t: int) -> float:
        """Variance of the noise after round t."""
        return float(self._squares(t).sum())

    largest_variance = variance

    def total_variance(self, rounds: int) -> float:
        """Sum of the variances after rounds 1, ..., rounds."""
        return float((np.arange(rounds, 0.0, -1.0) * self._squares(rounds)).sum())

    @property
    def block(self) -> int:
        """Rounds per chunk: a power of 2, and at least an eighth of the horizon."""
        return max(CHUNK, 1 << (-(-self.horizon // 8) - 1).bit_length())

    @cached_property
    def _filters(self) -> np.ndarray:
        """Transforms of the coefficients by which a block contributes to the j-th block after it."""
        from scipy.fft import rfft

        b = self.block
        count = -(-self.horizon // b)
        padded = np.concatenate([np.zeros(b), _products(count * b, 1.5)])
        return np.stack([rfft(padded[j * b : (j + 2) * b]) for j in range(count)])

    def shapes(self, start: int, d: int) -> list[tuple[int, ...]]:
        """Memory before round start + 1: a transform of white noise for every block, in real and imaginary parts."""
        return [(d, self.block + 1, 2)] * (start // self.block)

    def chunk(self, memory: Memory, start: int, draw: Draw) -> tuple[np.ndarray, Memory]:
        """Increments of the next rounds and the memory after them."""
        from scipy.fft import irfft, rfft

        b = self.block
        zeta = draw(b)
        d = zeta.shape[1]
        fresh = np.empty((d, b + 1), dtype=complex)
        past = [a.view(complex)[..., 0] for a in memory]
        width = max(8, 2**15 // b)
        for columns in (slice(i, i + width) for i in range(0, d, width)):
            fresh[columns] = rfft(zeta[:, columns].T, 2 * b)
            for i in range(*columns.indices(d)):
                total = fresh[i] * self._filters[0]
                for j, old in enumerate(reversed(past), start=1):
                    total += old[i] * self._filters[j]
                zeta[:, i] = irfft(total, 2 * b)[b:]
        return zeta, (*memory, fresh.view(float).reshape(d, b + 1, 2))


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


@dataclass(frozen=True)
class BLT:
    """C is the Toeplitz matrix of prod_j (1 - p_j x) / (1 - theta_j x), with five buffers [1]_.

    For 0 < p_1 < theta_1 < p_2 < ... < theta_5 < 1, the coefficients of C and of B = A C^-1 are sums of positive
    exponentials, and norms are sums of geometric series. The parameters are close to those of least RMS error. Privacy
    depends only on the norm of the columns, which is computed from the parameters.

    References
    ----------
    .. [1] Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024), "Efficient and near-optimal noise generation for
       streaming differential privacy".

    Examples
    --------
    >>> round(BLT(horizon=1000).squared_norm, 2), round(Toeplitz(horizon=1000).squared_norm, 2)
    (3.04, 3.27)
    """

    horizon: int

    @cached_property
    def _poles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return 1 - theta and 1 - p, exactly for the floats that the filters use."""
        at = np.interp(math.log10(self.horizon), np.arange(2.0, 10.0), np.arange(8.0))
        low = min(int(at), 6)
        u = (1.0 - (at - low)) * _FITTED[low] + (at - low) * _FITTED[low + 1]
        gap = 1.0 - (1.0 - np.exp(u))
        return gap[1::2], gap[::2]

    @cached_property
    def squared_norm(self) -> float:
        """Squared norm of the first column: 1 + sum_{k < T - 1} (sum_j omega_j theta_j^k)^2."""
        theta, p = self._poles
        omega = _residues(theta, p)
        return 1.0 + _geometric(omega, theta, self.horizon - 1)

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

    def shapes(self, start: int, d: int) -> list[tuple[int, ...]]:
        """Memory before round start + 1: one number for each buffer and coordinate."""
        return [(len(self._poles[0]), d)]

    def chunk(self, memory: Memory, start: int, draw: Draw) -> tuple[np.ndarray, Memory]:
        """Increments of the next rounds and the memory after them."""
        from dpconvex.noise.filters import cascade

        zeta, buffers = draw(CHUNK), memory[0].copy()
        theta, p = self._poles
        cascade(zeta, theta - 1.0, p - 1.0, buffers)  # one pole at a time, so that poles near 1 stay exact
        return zeta, (buffers,)


Factor = Independent | Tree | Toeplitz | BLT


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
    return Toeplitz(horizon) if backend == "toeplitz" else BLT(horizon)


def _products(count: int, shift: float) -> np.ndarray:
    """Products of (i - shift) / i for i = 1, ..., k, k < count: coefficients of (1 - x)^(shift - 1)."""
    i = np.arange(1.0, count)
    return np.concatenate([[1.0], np.cumprod((i - shift) / i)])


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
