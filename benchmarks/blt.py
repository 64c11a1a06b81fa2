"""Fit the five buffers of `noise.factors.BLT`: `python benchmarks/blt.py [--rounds 100 1000 ...]`.

For each number of rounds: the logarithms of 1 - p_1, 1 - theta_1, ..., 1 - theta_5 of about the least RMS error, and
that error beside the one of the square root of the matrix of running sums. Consecutive ones stay apart by a least
ratio, so that float64 keeps the weights of the exponentials, which alternate in sign, exact for short horizons too.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.optimize import minimize

from dpconvex.noise.factors import _geometric, _residues

BUFFERS = 5
APART = 0.3  # least distance of the logarithms at up to 10^3 rounds


def logarithms(v: np.ndarray, apart: float) -> np.ndarray:
    """From free parameters to descending logarithms below 0."""
    first = math.log(0.98 / (1.0 + math.exp(-v[0])))
    return first - np.concatenate([[0.0], np.cumsum(apart + np.exp(v[1:]))])


def squared_error(u: np.ndarray, rounds: int) -> float:
    """Squared norm of a column of C times the mean variance of the noise on the running sums."""
    theta, p = np.exp(u[1::2]), np.exp(u[::2])
    norm = 1.0 + _geometric(_residues(theta, p), theta, rounds - 1)
    bases = np.concatenate([[0.0], p])
    return norm * _geometric(_residues(bases, theta), bases, rounds, ramp=True) / rounds


def fitted(rounds: int) -> np.ndarray:
    """Logarithms of about the least error."""
    apart = APART if rounds <= 1000 else 0.0

    def cost(v: np.ndarray) -> float:
        error = squared_error(logarithms(v, apart), rounds)
        return math.log(error) if error > 0.0 and math.isfinite(error) else 1e9

    start = math.log(0.3 if apart else math.log(rounds) / 10.0)
    v = np.concatenate([[2.0], np.full(2 * BUFFERS - 1, start)])
    for _ in range(3):
        v = minimize(cost, v, method="BFGS", options={"gtol": 1e-7, "maxiter": 300}).x
        v = minimize(cost, v, method="Nelder-Mead", options={"maxiter": 3000, "adaptive": True, "fatol": 1e-13}).x
    return logarithms(v, apart)


def root_error(rounds: int) -> float:
    """RMS error of B = C = A^(1/2), whose first column holds the coefficients of (1 - x)^(-1/2)."""
    k = np.arange(1.0, rounds)
    squares = np.concatenate([[1.0], np.cumprod((k - 0.5) / k)]) ** 2
    return math.sqrt(squares.sum() * (np.arange(rounds, 0.0, -1.0) * squares).sum() / rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", nargs="*", type=int, default=[10**k for k in range(2, 10)])
    for rounds in parser.parse_args().rounds:
        u = fitted(rounds)
        error, root = math.sqrt(squared_error(u, rounds)), root_error(rounds)
        print(
            f"{rounds} rounds: RMS error {error:.4f}, of the root {root:.4f}\n  {np.round(u, 4).tolist()}", flush=True
        )


if __name__ == "__main__":
    main()
