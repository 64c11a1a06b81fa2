"""How far above the least loss a plan ends at most: on average, and with high probability.

These bounds are about accuracy and prove no privacy. Proof: docs/proofs/excess.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from dpconvex.errors import InputError

_BLOCKS = 4000  # sums over more rounds are bounded block by block


@dataclass(frozen=True)
class MostExcess:
    """An upper bound on the excess loss of a plan, beside what `LeastExcess` says of all plans.

    Attributes
    ----------
    value : float
        On the scale of the mean loss, with half of l2/n times the squared norm if the problem has l2.
    beta : float or None
        The bound fails with at most this probability; with None it bounds the mean.
    over : {"population", "records"}
        Whether the loss is that of independent records like these, or of the records of the run.
    within : float
        Distance of the solution from the start for which the bound holds; infinite if it is for every solution.
    """

    value: float
    beta: float | None = None
    over: str = "population"
    within: float = math.inf

    def __str__(self) -> str:
        loss = "excess loss" if self.over == "population" else "excess of the mean loss of the records"
        words = f"{loss if self.beta is not None else f'expected {loss}'} at most {self.value:.4g}"
        words += "" if self.beta is None else f" with probability {1.0 - self.beta:g} or more"
        return words + (f" for a solution within {self.within:g} of the start" if math.isfinite(self.within) else "")


def check_beta(beta: float | None, moment: float | None = None) -> None:
    """Refuse what is no probability of failure, and a moment where gradients have a bound."""
    if moment is not None:
        raise InputError(
            "moment is for TruncatedMirrorDescent: the bounds of other algorithms rest on bounded gradients"
        )
    if beta is not None and not 0.0 < beta < 1.0:
        raise InputError("beta is the probability with which the bound may fail: between 0 and 1, or None for the mean")


def tail(beta: float | None, events: int) -> float:
    """Standard deviations that a Lipschitz function of normal variates exceeds its mean by once in events / beta.

    Examples
    --------
    >>> round(tail(0.1, 2), 2), tail(None, 2)
    (2.45, 0.0)
    """
    return 0.0 if beta is None else math.sqrt(2.0 * math.log(events / beta))


def normal_length(size: int, p: float = 2.0) -> float:
    """Bound the mean length, in the dual of the p-norm, of a vector of so many standard normal entries.

    Examples
    --------
    >>> round(normal_length(9), 12), round(normal_length(1000, 1.1), 2)
    (3.0, 3.89)
    """
    q = p / (p - 1.0)
    return math.sqrt(2.0) * math.exp((math.log(size) + float(gammaln(0.5 * (q + 1.0))) - 0.5 * math.log(math.pi)) / q)


def leader_excess(
    *,
    n: int,
    batch: int,
    step: Callable[[np.ndarray], np.ndarray],
    width: float,
    slope: float,
    steep: float,
    noise: tuple[float, float],
    length: float,
    diameter: float,
    beta: float | None = None,
) -> float:
    """Bound the excess loss of the mean play of a leader on noisy running sums: Theorem 1 of the proof note.

    Parameters
    ----------
    n, batch : int
        Records, and the largest number of them per round.
    step : callable
        The step of a round, from the number of records before it; it does not increase.
    width : float
        Largest psi(u) - psi(x_1).
    slope, steep : float
        Largest norm of the gradient of a record, and the same with the quadratic term.
    noise : pair of float
        Largest standard deviation of a coordinate of a sum, and its root mean square over the rounds.
    length : float
        As `normal_length` has it.
    diameter : float
        Of the domain.
    beta : float, optional
        Probability with which the bound may fail; by default it is about the mean.
    """
    rounds = -(-n // batch)
    last = n - (rounds - 1) * batch
    factor = (n - last + 0.5 * (last + 1.0)) / (0.5 * n * (n + 1.0))  # of the play with the largest weight
    if rounds == 1:
        return factor * n * steep * math.sqrt(2.0 * width)
    firsts = np.unique(np.geomspace(1, rounds - 1, min(rounds - 1, _BLOCKS)).astype(np.int64))
    if rounds - 1 <= _BLOCKS:
        firsts = np.arange(1, rounds)
    counts = np.diff(np.append(firsts, rounds)).astype(float)
    etas = step(firsts.astype(float) * batch)
    total, square = float(counts @ etas), float(counts @ etas**2)
    shifted = min(noise[0] * total, noise[1] * math.sqrt(rounds * square)) * (length + tail(beta, 2))
    least = float(step(np.array([(rounds - 1.0) * batch]))[0])
    regret = width / least + 0.5 * (batch * steep) ** 2 * (float(etas[0]) + total) + batch * steep * shifted
    chance = 0.0 if beta is None else slope * diameter * math.sqrt(n) * tail(beta, 2)
    return factor * (regret + chance)


def linear_excess(
    *,
    n: int,
    eta: float,
    width: float,
    slope: float,
    noise: float,
    length: float,
    p: float,
    diameter: float,
    beta: float | None = None,
) -> float:
    """Bound the excess loss of the leader on one noisy sum of linear losses: Theorem 2 of the proof note.

    Parameters are those of `leader_excess`; `eta` is the step on the sum, and `noise` the scale of the noise on it.
    """
    error = linear_error(n, slope, noise, length, p)
    across = math.sqrt(2.0 * width) * error
    if beta is None:
        return (width / eta + min(eta * error**2, across)) / n
    return (width / eta + across + diameter * math.hypot(noise, slope * math.sqrt(n)) * tail(beta, 1)) / n


def linear_error(n: int, slope: float, noise: float, length: float, p: float) -> float:
    """Root mean square of the length, in the dual of the p-norm, by which a noisy sum misses its mean over samples."""
    sampled = slope * math.sqrt(n)
    return math.hypot(noise * length, sampled) if p == 2.0 else noise * length + sampled


def truncated_excess(
    *,
    steps: int,
    batch: int,
    rate: float,
    growth: float,
    clip: float,
    zero: bool,
    cuts: bool,
    moment: float,
    noise: float,
    length: float,
    kappa: float,
    radius: float,
    diameter: float,
    beta: float | None = None,
) -> float:
    """Bound the excess loss of mirror descent on batches, gradients cut: Theorem 3 of the proof note.

    Parameters
    ----------
    steps, batch : int
        Number of batches, and the least number of records in one.
    rate, growth : float
        Step on the mean loss, and the factor by which a point counts more than the one before.
    clip : float
        Largest dual norm of a gradient: longer ones are shortened or, with `zero`, set to 0.
    zero, cuts : bool
        Whether any gradient can be longer than `clip`: `cuts`.
    moment : float
        Root mean square of the dual norm of a gradient, at every point.
    noise, length : float
        Scale of the normal noise on a sum, and as `normal_length` has it.
    kappa, radius, diameter : float
        Of the mirror map; of the ball, in its norm; and its diameter in the norm of the weights.
    beta : float, optional
    """
    count = math.fsum(growth**-k for k in range(steps))  # all points, in units of the last
    bias = diameter * moment**2 / (clip if zero else 4.0 * clip) if cuts else 0.0
    still = (2.0 * kappa * radius**2 / rate + moment * diameter) / count
    if beta is None:
        return still + 0.5 * rate * (moment + noise * length / batch) ** 2 + bias
    log, far = math.log(4.0 / beta), tail(beta / steps, 4)
    squares = math.sqrt((math.e - 1.0) * moment**2 + clip**2 * log / (batch * count)) + noise * (length + far) / batch
    chance = diameter * (moment * math.sqrt(2.0 * log / (count * batch)) + 2.0 * clip * log / (3.0 * batch * count))
    chance += 2.0 * radius * noise / batch * math.sqrt(2.0 * log / count)
    return still + 0.5 * rate * squares**2 + bias + chance
