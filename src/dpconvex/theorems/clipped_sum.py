"""Sums of one bounded vector per record."""

from __future__ import annotations

from dpconvex.kernel.budget import MOVES, check_relation
from dpconvex.kernel.claims import Bounded, concludes_fact, need_fact, need_positive, need_unit
from dpconvex.problem.facts import Fact, Kind
from dpconvex.rounding import round_up


def gradient_sensitivity(lipschitz: Fact, relation: str) -> float:
    """Largest change of one record's gradient: 2L when it is replaced, L when it is masked."""
    return need_fact(lipschitz, Kind.LIPSCHITZ, "lipschitz") * MOVES[relation]


@concludes_fact
def gradient_sum(lipschitz: Fact, relation: str) -> Bounded:
    """Sensitivity of the sum over records of their gradients at one point: that of one record's gradient."""
    check_relation(relation)
    s = round_up(gradient_sensitivity(lipschitz, relation))
    return Bounded(Kind.SENSITIVITY, s, "sum of the gradients of all records at one point", relation)


@concludes_fact
def clipped_sum(clip: float, relation: str, unit: int | str = 1) -> Bounded:
    """Sensitivity of a sum of one vector per record, each shortened to l2 norm `clip` before adding.

    With unit "person" it is one vector per person, computed from all rows of that person, however many there are.
    """
    check_relation(relation)
    s = round_up(need_positive(clip, "clip") * MOVES[relation])
    whose = "record" if need_unit(unit) == 1 else "person"
    return Bounded(Kind.SENSITIVITY, s, f"sum of one vector per {whose}, each shortened to {clip:g}", relation)
