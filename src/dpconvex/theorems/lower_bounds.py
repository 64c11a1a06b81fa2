"""What no private algorithm can do: lower bounds on the mean excess loss, with their constants.

They are about accuracy and prove no privacy. Proof: docs/proofs/lower_bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_down

_STEEPEST = 30.0  # epsilon beyond which privacy forbids nothing that these bounds see


@dataclass(frozen=True)
class LeastExcess:
    """The least mean excess loss that is possible, for want of records and for the sake of privacy.

    Attributes
    ----------
    statistical : float
        Without any privacy, because the records are a sample.
    private : float
        Because the algorithm is private.
    """

    statistical: float
    private: float

    @property
    def value(self) -> float:
        """The larger of the two: both hold."""
        return max(self.statistical, self.private)

    def __str__(self) -> str:
        return (
            f"no algorithm with this guarantee has a mean excess below {self.value:.3g} on every such problem "
            f"({self.statistical:.3g} for the sample, {self.private:.3g} for privacy)"
        )


def least_excess(problem: Problem, *, n: int, d: int, budget: Budget) -> LeastExcess:
    """Mean excess population loss that every private algorithm has for some loss and law of records like these.

    The loss is linear, with the Lipschitz constant of the problem, on its domain and with its l2; records are
    independent. So it is the best possible guarantee for all convex losses of that slope. For the loss of the problem
    alone, and on benign data, an algorithm can do better.

    Parameters
    ----------
    problem : Problem
        With one prediction per row, on an L2Ball, L1Ball or LpBall, or on a Box with the origin as its centre; with l2,
        also Everywhere.
    n, d : int
    budget : Budget

    Returns
    -------
    LeastExcess
        On the scale of the mean loss, with half of l2/n times the squared norm if the problem has l2.

    References
    ----------
    The rates are those of Su, Zhao, Wang (2023), Theorem 5, and Bassily, Smith, Thakurta (2014), without constants.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    >>> for n in (1_000, 100_000):
    ...     found = least_excess(problem, n=n, d=100, budget=dc.Budget(0.1, 1e-6))
    ...     print(f"{found.statistical:.2g} {found.private:.2g} {found.value:.2g}")
    0.0058 0.018 0.018
    0.00058 0.00018 0.00058
    """
    (m,) = _one_prediction(problem, d)
    domain, lipschitz = problem.domain, problem.lipschitz(d).value
    twice = budget.relation == "zero_out"  # masking one record, then unmasking another, replaces it
    epsilon = (2.0 if twice else 1.0) * budget.epsilon
    delta = (1.0 + math.exp(min(budget.epsilon, _STEEPEST)) if twice else 1.0) * budget.delta
    cost = math.sinh(epsilon) if epsilon <= _STEEPEST else math.inf
    ridge = problem.l2 / n
    if ridge:
        inside = min(domain.support(np.eye(1, m)[0]), domain.support(np.ones(m)) / math.sqrt(m))
        radius = min(lipschitz / ridge, inside)
        bend = 0.5 * ridge * radius**2
        return LeastExcess(
            round_down(bend / (1.0 + math.sqrt(n)) ** 2), round_down(bend / m * _mean_error(n, m, cost, delta) ** 2)
        )
    if not domain.traits.bounded:
        raise HypothesisError("on an unbounded domain a linear loss has no minimiser: bound the domain, or set l2")
    sizes = [*(2**i for i in range(int(math.log2(m)) + 1)), m]
    private = max(_linear(problem, n, size, cost, delta) for size in sizes)
    along = max(domain.support(np.ones(size)) / math.sqrt(size) for size in sizes)
    return LeastExcess(round_down(lipschitz * along * _two_points(n)), max(round_down(private * lipschitz), 0.0))


def _one_prediction(problem: Problem, d: int) -> tuple[int, ...]:
    """Shape of the weights; refused where the bounds do not apply."""
    traits, shape = problem.domain.traits, problem.weight_shape(d)
    box = traits.rowwise and traits.interval is not None and traits.interval[0] == -traits.interval[1]
    if len(shape) != 1 or problem.loss.traits.records or (traits.norm is None and not box):
        raise HypothesisError(
            "lower bounds are for one prediction per row, on an L2Ball, L1Ball or LpBall, or on a Box with the origin "
            "as its centre"
        )
    return shape


def _two_points(n: int) -> float:
    """Excess per unit of slope and radius for which n coins leave open to which side they are biased."""

    def excess(log_bias: float) -> float:
        bias = math.exp(log_bias)
        return bias * (1.0 - math.sqrt(0.5 * n * bias * math.log1p(2.0 * bias / (1.0 - bias))))

    return max(_largest(excess, math.log(1e-3 / math.sqrt(n)), math.log(0.99)), 0.0)


def _linear(problem: Problem, n: int, m: int, cost: float, delta: float) -> float:
    """Excess per unit of slope for linear losses of m coordinates, best over the prior: Theorem 2."""
    width, reach = problem.domain.support(np.ones(m)), problem.domain.reach(m)
    euclidean = problem.domain.traits.norm == 2.0

    def excess(log_k: float) -> float:
        k = math.exp(log_k)
        mean = 2.0 / k * math.exp(-betaln(0.5, 0.5 * k)) * (1.0 - 1e-11)  # of |p| under the prior
        found = mean * width
        if euclidean:
            fourth = 1.0 + (3.0 * (k + 1.0) / (k + 3.0) - 1.0) / m
            found = max(found, reach * math.sqrt(m / ((k + 1.0) * fourth)))
        return (found - n / k * reach * (cost + 4.0 * delta * math.sqrt(m))) / math.sqrt(m)

    return _largest(excess, -5.0, 60.0)


def _mean_error(n: int, m: int, cost: float, delta: float) -> float:
    """Distance that the mean of m coins, as a private algorithm estimates it, keeps on average: Theorem 3."""
    if not math.isfinite(cost):
        return 0.0

    def error(log_k: float) -> float:
        k = math.exp(log_k)
        return (k * m / (k + 1.0) - 8.0 * n * delta * m) / (n * cost + k * math.sqrt(m / (k + 1.0)))

    return max(_largest(error, -10.0, 60.0), 0.0)


def _largest(value: Callable[[float], float], low: float, high: float) -> float:
    """Largest value on a grid, refined three times: each is a valid bound, so the search need not be accurate."""
    for _ in range(3):
        points = np.linspace(low, high, 101)
        found = [value(float(x)) for x in points]
        best = int(np.nanargmax(found))
        low, high = points[max(best - 1, 0)], points[min(best + 1, 100)]
    return float(np.nanmax(found))
