"""Private FTRL (Arora, Marinov, Ullah 2020): noise of early steps does not protect late records.

In one dimension, W = [-1, 1], Psi = w^2/2, loss |w - z|: the subgradient pulls G towards 0 at every step, so old noise
is corrected away and does not add up. The last record then shows in the sign of the output.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from dpconvex.audit.function import Case
from dpconvex.audit.gallery.exhibit import Exhibit, Sum
from dpconvex.audit.stated import ZCDP, Stated
from dpconvex.kernel.profiles import ApproxDP

DELTA = 1e-5
SOURCE = "Private FTRL, Arora, Marinov, Ullah (2020), arXiv:2002.09609v1"
_RHO = (math.sqrt(math.log(1.0 / DELTA) + 1.0) - math.sqrt(math.log(1.0 / DELTA))) ** 2  # epsilon 1 at DELTA


def run_ftrl(z: np.ndarray, rng: np.random.Generator, runs: int, *, sigma: float, first_only: bool) -> np.ndarray:
    """The last iterate of Algorithm 1, for many runs at once; steps eta_t = 1/sqrt(t)."""
    G, w = np.zeros(runs, np.float32), np.zeros(runs, np.float32)
    for t, target in enumerate(z.astype(np.float32), start=1):
        G += np.sign(w - target)
        if t == 1 or not first_only:
            G -= np.float32(sigma) * rng.standard_normal(runs, dtype=np.float32)
        w = np.clip(-G / np.float32(math.sqrt(t + 1)), -1.0, 1.0)
    return w


class _Ftrl:
    """Algorithm 1 with its noise, as a function that another process can import."""

    def __init__(self, sigma: float, first_only: bool = False) -> None:
        self._sigma, self._first_only = sigma, first_only

    def __call__(self, z: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
        return run_ftrl(z, rng, runs, sigma=self._sigma, first_only=self._first_only)


def _last(T: int, value: float) -> np.ndarray:
    """T records at 0, but for the last."""
    z = np.zeros(T)
    z[-1] = value
    return z


def _case(name: str, T: int, mechanism: _Ftrl, claim: Stated) -> Case:
    return Case(name, mechanism, _last(T, 1.0), _last(T, -1.0), claim, batch=True)


EVERY_STEP = Exhibit(
    "Private FTRL, noise at every step",
    f"{SOURCE}, Theorems 4.1 and 5.4",
    "The last iterate of T steps with noise sigma at each is (alpha, 4 alpha L^2/(T sigma^2))-RDP for convex Lipschitz "
    "losses: T times less than one step alone.",
    "The proof treats the sum of later gradients as a fixed function of the noise. It depends on it: the optimiser "
    "corrects for old noise, which does not survive to protect a late record. True for linear losses.",
    "Composition, tree aggregation, or contraction accounting of the steps that follow a record.",
    _case("FTRL 5.4", 1000, _Ftrl(2.0 / math.sqrt(1000 * _RHO)), Stated(ZCDP(_RHO), "replace_one", DELTA)),
)

FIRST_STEP = Exhibit(
    "Private FTRL, noise at the first step only",
    f"{SOURCE}, Theorem 4.4",
    "Noise at the first step alone, enough to hide one gradient, makes every iterate private.",
    "As above, and to the end: a late record changes the output as if there had been no noise.",
    "True for one release of a sum of linear losses.",
    _case("FTRL 4.4", 2000, _Ftrl(2.0 / math.sqrt(2.0 * _RHO), True), Stated(ZCDP(_RHO), "replace_one", DELTA)),
)

ANYTIME = Exhibit(
    "Private FTRL, at any time",
    f"{SOURCE}, Corollary 4.2",
    "With constant noise sigma the iterate after t steps has epsilon 2 L sqrt(ln(1/delta))/(sigma sqrt(t)).",
    "It rests on Theorem 5.4. Its conversion from RDP drops a factor, too: for linear losses at delta 1e-5 it is true "
    "as long as 2 L/(sigma sqrt(t)) is at most 0.095, as here, and too small beyond: 3.39 for 4.38 where that is 1.",
    "An epsilon that does not shrink with t.",
    _case(
        "FTRL 4.2",
        1000,
        _Ftrl(1.0),
        Stated(ApproxDP(2.0 * math.sqrt(math.log(1.0 / DELTA) / 1000), DELTA), "replace_one", DELTA),
    ),
)


def renyi_of_power_noise(q: float, epsilon: float, alpha: float) -> Sum:
    """Renyi divergence of one step in one dimension, with noise of density exp(-|x/sigma|^q).

    sigma = 2 L epsilon^(-1/q), and one record moves the gradient by 2 L. The integral is in units of sigma.
    """
    shift = epsilon ** (1.0 / q)
    whole, _ = quad(lambda x: math.exp(-(abs(x) ** q)), -math.inf, math.inf)
    ratio, _ = quad(
        lambda x: math.exp((alpha - 1.0) * abs(x) ** q - alpha * abs(x - shift) ** q), -math.inf, math.inf, epsabs=1e-13
    )
    return Sum(f"Renyi divergence of order {alpha:g}", epsilon, math.log(ratio / whole) / (alpha - 1.0))


POWER_NOISE = Exhibit(
    "Private FTRL, noise of other norms",
    f"{SOURCE}, Theorem 4.3 and Lemma C.1, here with q = 4 and T = 1",
    "Noise of density exp(-|x|_q^q/sigma^q) with sigma = 2 L T^(-1/p) epsilon^(-1/q) makes the iterate (alpha, "
    "epsilon)-RDP for alpha up to 2^(q-1)/(2^(q-1) - 1), 8/7 here: a shift by a costs (a/sigma)^q.",
    "A small shift of a smooth density costs in proportion to its square, not to its q-th power. For T > 1 it fails by "
    "more, for linear losses too: the sum of many such draws is nearly Gaussian, and its cost falls like 1/T, not like "
    "T^(1-q).",
    "Gaussian noise, or noise of a norm whose cost is bounded by the strong convexity of its square.",
    exact=lambda: renyi_of_power_noise(4.0, 0.01, 1.1),
)
