"""What an attack on the machine found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

FLOAT, GRID = "float64", "grid"  # noise added in float64, and exact noise on a grid


@dataclass(frozen=True)
class Outcome:
    """What one attack found of one kind of release, and whether the claim allows that.

    Examples
    --------
    >>> print(Outcome("porous", "a sum", FLOAT, "all of 200 guesses right", "104 of 200", broken=True))
    porous, a sum, float64: all of 200 guesses right; allowed: 104 of 200: BROKEN
    """

    attack: str
    released: str
    arithmetic: str
    found: str
    allowed: str
    broken: bool

    @property
    def expected(self) -> bool:
        """Whether it is as it should be: the noise of plans, on a grid, is not broken, and what is naive is."""
        return self.broken == (self.arithmetic != GRID)

    good = expected

    def __str__(self) -> str:
        verdict = "BROKEN" if self.broken else "holds"
        return f"{self.attack}, {self.released}, {self.arithmetic}: {self.found}; allowed: {self.allowed}: {verdict}"

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return asdict(self)
