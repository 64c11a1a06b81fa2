"""The attacks that `dpconvex audit machine` makes, by name.

Each is made twice on the same releases: against noise that is added in float64, where it must succeed at once, and
against the releases of the library, where it must find no more than the claim allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpconvex.audit.machine import porous, tails
from dpconvex.audit.machine.outcome import Outcome

ATTACKS: dict[str, Callable[[int, int], Iterator[Outcome]]] = {
    "porous": porous.attack,
    "tails": tails.attack,
}
RUNS = 2000


def attack_machine(names: tuple[str, ...] = (), runs: int = RUNS, seed: int = 0) -> Iterator[Outcome]:
    """Make the attacks of these names, or all; outcomes come as they are ready.

    Examples
    --------
    >>> all(outcome.expected for outcome in attack_machine(("tails",), runs=200))
    True
    """
    for name in names or ATTACKS:
        yield from ATTACKS[name](runs, seed)
