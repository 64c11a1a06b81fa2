"""What an algorithm declares about itself, so that nothing elsewhere has to know it by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from dpconvex.algorithms.attacks import Attack, Mutant, Pair, Victim
    from dpconvex.kernel.budget import Budget
    from dpconvex.loops.rows import Rows
    from dpconvex.plan.plan import Plan
    from dpconvex.plan.port import NoisePort
    from dpconvex.problem.problem import Problem


__all__ = ["Algorithm"]


class Algorithm(ABC):
    """A recipe that turns a problem, public facts and a budget into a plan, and runs it.

    A concrete algorithm is a frozen dataclass of options. Chooser, estimators, audit, command line and docs read its
    declarations from here.

    Attributes
    ----------
    takes : frozenset of {"sample_weight", "groups"}
        What runs may be given beside rows and labels.
    """

    takes: frozenset[str] = frozenset()

    @property
    def streams(self) -> bool:
        """Whether rows are read once, in the order given, so that they may come in batches (`execute_batches`)."""
        return False

    @abstractmethod
    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix schedule and noise from public facts."""

    @abstractmethod
    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Run the schedule on the data; what matters leaves through the port."""

    @abstractmethod
    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Compute the solution from the noisy values the port has kept, without the data."""

    @abstractmethod
    def describe(self, plan: Plan) -> list[str]:
        """Lines about the schedule, for a person."""

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim; by default with the logistic loss."""
        from dpconvex.algorithms.attacks import LOGISTIC, Attack

        return (Attack(cls(), LOGISTIC),)

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch; by default those that can be made in any algorithm."""
        from dpconvex.algorithms.attacks import ANYWHERE

        return ANYWHERE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried, each mutant in the first that it breaks."""
        from dpconvex.algorithms.attacks import LOGISTIC, Victim

        return (Victim(cls(), LOGISTIC),)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says; by default linear losses that forget nothing."""
        from dpconvex.algorithms.attacks import linear_pairs

        return linear_pairs(plan, mutant)
