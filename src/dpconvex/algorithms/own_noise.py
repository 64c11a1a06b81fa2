"""Noise of the user's own: its scale, and the binary tree on which it makes running sums.

Proof: docs/proofs/renyi_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.algorithms.options import check_choice
from dpconvex.calibrate import threshold
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release, grid_of
from dpconvex.problem.facts import Fact
from dpconvex.problem.renyi_law import RenyiLaw
from dpconvex.rounding import round_down, round_up
from dpconvex.theorems import renyi_noise
from dpconvex.theorems.numerics.renyi import Renyi
from dpconvex.theorems.renyi_noise import PLACES, RATIO, draw_distance

if TYPE_CHECKING:
    from dpconvex.kernel.profiles import Profile

SHARE = 0.5  # of delta, that inaccurate variates may take at most


def check_noise(value: object, choices: Sequence[str]) -> None:
    """Raise `InputError` unless the value is one of the choices, or a law whose divergences were declared."""
    if isinstance(value, RenyiLaw):
        return
    if not isinstance(value, str):
        raise InputError(
            f"noise must be one of {', '.join(map(repr, choices))}, or a dpconvex.noise.RenyiLaw, which declares what "
            f"noise of your own guarantees, got {type(value).__name__}"
        )
    check_choice("noise", value, choices)


def least_own_noise(
    law: RenyiLaw, shape: tuple[int, ...], name: str, times: int, unit: float, budget: Budget, **sums: Any
) -> Claim:
    """Claim of noise of that law, at the least scale that meets the budget; `sums` goes to `renyi_noise`.

    At the scale `unit` the divergences are neither tiny nor huge.
    """
    if law.size != math.prod(shape):
        raise InputError(f"noise is a law of {law.size} numbers, and there are {math.prod(shape)} weights")
    fact = law.fact()

    def claim(scale: float) -> Claim:
        release = Release(name, law.law, scale, shape, times, grid_of(scale, PLACES))
        return renyi_noise(law=fact, release=release, relation=budget.relation, **sums)

    one: Profile = claim(unit).profile
    assert isinstance(one, Renyi)
    return claim(round_up(unit * math.sqrt(one.rho / _most_rho(law, fact, times, budget)) * (1.0 + 1e-11)))


def _most_rho(law: RenyiLaw, fact: Fact, times: int, budget: Budget) -> float:
    """Largest rho, rounded down, at which the divergences meet the budget with variates as accurate as declared."""
    _, norm, size, moment, accuracy, *orders = fact.value
    distance = round_up(times * draw_distance(size, norm, moment, accuracy, RATIO))
    cost = distance * (1.0 + math.exp(min(budget.epsilon, 700.0)))
    if not cost <= SHARE * budget.delta:
        raise HypothesisError(
            f"{times} variates that are off by {law.accuracy:g} in the mean cost a delta of up to {cost:.2g}, more "
            f"than half of {budget.delta:g}: sample more accurately, draw fewer, or take a larger delta"
        )

    def exceeds(rho: float) -> bool:
        return Renyi(rho, tuple(orders), distance).epsilon(budget.delta * (1.0 - 1e-9)) > budget.epsilon

    if exceeds(1e-18):
        raise HypothesisError("no scale of noise meets this budget with these orders: declare larger ones")
    return round_down(threshold(exceeds, 1e-18, 1e4)[0] * (1.0 - 1e-9))


class Tree:
    """Running sums as sums of noisy nodes of a binary tree: round t ends the node of the last 2^k rounds, 2^k | t.

    A node is divided by the largest scale of its rounds, so that no record moves it further than a clip of 1.

    Examples
    --------
    >>> tree = Tree()
    >>> [float(tree.leave(tree.enter(np.ones(1), 0.5))[0]) for _ in range(7)]
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """

    def __init__(self) -> None:
        self._round = 0
        self._sums: list[Any] = []  # before noise, a node for each level; the newest one
        self._tops: list[float] = []
        self._noisy: list[np.ndarray] = []
        self._scale = 1.0

    def enter(self, increment: Any, scale: float) -> Any:
        """Begin a round that adds an increment, which a record moves by its scale: the node it ends, over its scale."""
        self._round += 1
        level = (self._round & -self._round).bit_length() - 1
        total, top = increment, scale
        for k in range(level):
            total, top = total + self._sums[k], max(top, self._tops[k])
        if level == len(self._sums):
            self._sums.append(total)
            self._tops.append(top)
            self._noisy.append(np.zeros(0))
        self._sums[level], self._tops[level], self._scale = total, top, top
        return total / top

    def leave(self, noisy: np.ndarray) -> np.ndarray:
        """End the round with the noisy node: the noisy running sum."""
        level = (self._round & -self._round).bit_length() - 1
        self._noisy[level] = self._scale * noisy
        return np.asarray(sum(self._noisy[k] for k in range(self._round.bit_length()) if self._round >> k & 1))


def length_of(law: RenyiLaw, release: Release, q: float) -> float:
    """Approximate l_q norm of one draw of the noise: what was declared of it, in that norm."""
    size = float(math.prod(release.shape))
    return release.scale * math.sqrt(law.second_moment) * size ** max(0.0, 1.0 / q - 1.0 / law.norm)
