"""Porous support: which data set a number came from, by the numbers that noise in float64 can reach from its value.

A sum of a value and a float64 variate takes some float64 numbers and not others, and which depends on the value. The
attacker knows both data sets, computes how many words of the generator lead from either value to what was released, and
guesses the likelier one. On a grid the attacker uses the exact law of the rounded sum, the best there is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from dpconvex.audit.machine.outcome import GRID, Outcome
from dpconvex.audit.machine.released import Released, all_released
from dpconvex.errors import NotPrivateWarning
from dpconvex.noise.source import Source
from dpconvex.plan.port import Repetition


@dataclass(frozen=True)
class Guesses:
    """Guesses about the data set of every run: how many are right, and how many outputs the other one cannot have."""

    runs: int
    right: int
    impossible: int
    chance: float  # of a right guess, at most, by the claim

    @property
    def most(self) -> float:
        """Right guesses that the claim allows, and three standard errors."""
        return self.runs * self.chance + 3.0 * math.sqrt(self.runs * self.chance * (1.0 - self.chance))

    @property
    def broken(self) -> bool:
        """Whether the claim does not allow this."""
        return self.impossible > 0 or self.right > self.most


def guess(released: Released, exact: bool, runs: int, seed: int = 0) -> Guesses:
    """Run on the two data sets in turn, and guess which it was every time.

    Examples
    --------
    >>> from dpconvex.audit.machine.released import direction
    >>> guess(direction(0.01), False, 20).right, guess(direction(0.01), True, 20).right < 20
    (20, True)
    """
    with warnings.catch_warnings():  # nothing private is released: the data is made up
        warnings.simplefilter("ignore", NotPrivateWarning)
        source = Source(seed)
    right = impossible = 0
    for run in range(runs):
        side = run % 2
        seen = released.watch(side, Repetition(source, run), exact)
        own, other = (sum(one.log_likelihood(which, exact) for one in seen) for which in (side, 1 - side))
        impossible += other == -math.inf
        right += own > other or (own == other and run % 4 < 2)  # ties are guessed at random
    return Guesses(runs, right, impossible, (1.0 + released.claim.delta(0.0)) / 2.0)


def attack(runs: int, seed: int = 0) -> Iterator[Outcome]:
    """Attack every kind of release; those that are not on a grid, once."""
    for released in all_released():
        for arithmetic in (released.naive, GRID) if released.on_grid else (released.naive,):
            count = runs if arithmetic == GRID else max(100, runs // 10)  # what is naive shows at once
            found = guess(released, arithmetic == GRID, count, seed)
            yield Outcome(
                "porous",
                released.name,
                arithmetic,
                f"{found.right} of {count} right, {found.impossible} impossible on the neighbour",
                f"{found.most:.0f} right, none impossible",
                found.broken,
            )
