"""What an algorithm declares about itself, so that nothing elsewhere has to know it by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from dpconvex.algorithms.registry import get, names
from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import RELATIONS, Budget
from dpconvex.plan.plan import check_public
from dpconvex.problem.problem import Problem
from dpconvex.problem.traits import DomainTraits

if TYPE_CHECKING:
    import numpy as np

    from dpconvex.algorithms.attacks import Attack, Mutant, Pair, Victim
    from dpconvex.algorithms.noise_law import Law, Released
    from dpconvex.loops.rows import Rows
    from dpconvex.plan.plan import Plan
    from dpconvex.plan.port import NoisePort

_NAMED = 3  # most alternatives that a refusal names


class Domains(NamedTuple):
    """The domains an algorithm takes: in words, and as a condition on their traits."""

    words: str
    include: Callable[[DomainTraits], bool]


ROWWISE = Domains("Everywhere, an L2Ball or a Box", lambda t: t.rowwise)
"""Domains that loops project onto after every row, and on which solvers certify a minimiser."""
ORIGIN = Domains("a domain that holds the origin", lambda t: t.origin)
"""Domains for projection after the noise has been added."""
ROWWISE_OR_L1 = Domains("Everywhere, an L2Ball, a Box or an L1Ball", lambda t: t.rowwise or (t.corners and t.origin))
ROWWISE_OR_LP = Domains(
    "Everywhere, an L2Ball, a Box, an LpBall with p >= 2, or a set onto which only the result is projected",
    lambda t: t.rowwise or (t.norm >= 2.0 if t.norm is not None else not t.inside),
)
BALLS = Domains("Everywhere or an L1Ball, L2Ball or LpBall", lambda t: t.norm is not None or not t.bounded)
CORNERS = Domains("an L1Ball or a Simplex", lambda t: t.corners)


@dataclass(frozen=True)
class Needs:
    """What an algorithm requires of a problem, in traits of its loss and domain.

    Parameters
    ----------
    domains : Domains
        Where the weights may lie.
    classes : bool
        Whether losses with several predictions per row are taken, such as Softmax.
    kinks : bool
        Whether losses with a kink are taken, such as Hinge.
    quadratic : bool
        Whether the loss has to be Squared.
    records : bool
        Whether losses of a record are taken, such as `losses.Convex`.
    starts : bool
        Whether runs start somewhere, so that a problem may say where.
    relations : tuple of str
        Relations of neighbours for which there is a theorem.
    pure : bool
        Whether budgets with delta = 0 can be met.

    Examples
    --------
    >>> import dpconvex as dc
    >>> Needs(kinks=False).complaint(dc.Problem(dc.losses.Hinge()))
    'needs a smooth loss, and Hinge has a kink'
    """

    domains: Domains = ROWWISE
    classes: bool = False
    kinks: bool = True
    quadratic: bool = False
    records: bool = False
    starts: bool = True
    relations: tuple[str, ...] = RELATIONS
    pure: bool = False

    def complaint(self, problem: Problem, relation: str | None = None, pure: bool = False) -> str | None:
        """Describe the first requirement that the problem, the relation or delta = 0 (`pure`) violates.

        Returns
        -------
        str or None
            A phrase that completes "<algorithm> ...", or None if all requirements are met.
        """
        loss, domain = type(problem.loss).__name__, type(problem.domain).__name__
        traits = problem.loss.traits
        if relation is not None and relation not in self.relations:
            return f"has no theorem for the relation {relation}: plan with {' or '.join(self.relations)}"
        if relation == "zero_out" and getattr(problem.loss, "strong_convexity", None):
            return "has no theorem for zero_out where a loss is declared strongly convex, since a masked record is not"
        if pure and not self.pure:
            return "cannot keep delta = 0, because its noise gives no pure privacy: take delta > 0"
        if self.quadratic and not traits.quadratic:
            return f"solves least squares: use Squared, not {loss}"
        if traits.records and not self.records:
            return f"takes losses of predictions, not a loss of a record such as {problem.loss}"
        if problem.start is not None and not self.starts:
            return "starts nowhere, so the problem cannot say where: leave out start"
        if traits.outputs > 1 and not self.classes:
            return f"takes losses of one prediction per row, not {loss}"
        if traits.kinked and not self.kinks:
            return f"needs a smooth loss, and {loss} has a kink"
        if not self.domains.include(problem.domain.traits):
            return f"does not run on {domain}: it needs {self.domains.words}"
        return None

    def check(self, algorithm: Algorithm, problem: Problem, relation: str | None = None, pure: bool = False) -> None:
        """Check the problem, the relation and delta = 0 (`pure`) against the requirements.

        Raises
        ------
        HypothesisError
            If a requirement is violated. The message names other algorithms that take the problem.
        """
        complaint = self.complaint(problem, relation, pure)
        if complaint is None:
            return
        able = [name for name in names() if not get(name)().needs.complaint(problem, relation, pure)]
        *others, last = able[:_NAMED] or [""]
        instead = f"; for this problem use {', '.join(others)}{' or ' if others else ''}{last}" if last else ""
        raise HypothesisError(f"{type(algorithm).__name__} {complaint}{instead}")


__all__ = ["Algorithm"]


class Algorithm(ABC):
    """A recipe that turns a problem, public facts and a budget into a plan, and runs it.

    A concrete algorithm is a frozen dataclass of options. The chooser, the estimators, the audit, the command line and
    the documentation know it by what it declares here.

    Attributes
    ----------
    needs : Needs
        What it requires of a problem; it may depend on the options.
    suits : str
        The problems it is for, in a line of the tables of algorithms.
    reads : str
        How often it reads the rows, in the same tables.
    released : str
        What a run releases, in the words of a report; `{size}` stands for the number of weights of the problem.
    record : str
        What a report calls a record: "record", or "loss" in a game.
    takes : frozenset of {"sample_weight", "groups"}
        Optional arguments of a run besides rows and labels. An algorithm that takes "groups" has an option
        `per_person`.
    streams : bool
        Whether rows are read once, in the given order, so that they may arrive in batches. The algorithm then has a
        method `execute_batches` that takes `Batches` in place of rows and labels.
    vectors, matrices : float
        Number of vectors of length n, and of square matrices over the weights, that a run holds in memory at a time.
    keeps_squares : bool
        Whether the chooser passes least squares on unchanged, instead of replacing it by a loss of bounded slope.
    shifts_margin : bool
        Whether the chooser passes a logistic loss whose shift is adapted to the noise.
    leads : frozenset of str
        Tasks of the chooser in which the algorithm may be ranked first: those in which it was best on most of the data
        sets that the predictions were fitted to. If two algorithms lead in a task, the first in the registry is the one
        for less noise.
    excess : mapping from tasks to pairs (a, b)
        Prediction log(excess) = a + b log r, used where the chooser has no measured one.
    keeps_releases : bool
        Whether a fitted model keeps every released value, which `noise_law` then needs.
    parts : tuple of types
        NamedTuples that its options may be, besides numbers, text, tuples and schedules.
    """

    suits: str = ""
    reads: str = ""
    released: str = "the {size} weights of a model"
    record: str = "record"
    takes: frozenset[str] = frozenset()
    vectors: float = 2.0
    matrices: float = 0.0
    keeps_squares: bool = False
    shifts_margin: bool = False
    leads: frozenset[str] = frozenset()
    excess: Mapping[str, tuple[float, float]] = {}
    keeps_releases: bool = False
    parts: ClassVar[tuple[type, ...]] = ()

    @property
    def needs(self) -> Needs:
        """What it requires of a problem."""
        return Needs()

    @property
    def streams(self) -> bool:
        """Whether rows are read once, in the given order, so that they may arrive in batches."""
        return False

    def in_memory(self, problem: Problem) -> str | None:
        """Why a run needs all rows in memory; None where sums over parts are enough, or one pass in order (`streams`).

        A phrase that completes "<algorithm> ...".
        """
        return None

    @abstractmethod
    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix the schedule and the noise from public facts, without data.

        Parameters
        ----------
        problem : Problem
        n, d : int
            Number of records and of features, both public.
        budget : Budget

        Returns
        -------
        Plan

        Raises
        ------
        InputError
            If n, d or an option is out of its range.
        HypothesisError
            If the problem does not meet the requirements of the algorithm, or no noise meets the budget.
        """

    @abstractmethod
    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Run the schedule on the data. Results leave the run only through the port, which adds the noise."""

    @abstractmethod
    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Compute the solution from the noisy values that the port has kept, without the data."""

    @abstractmethod
    def describe(self, plan: Plan) -> list[str]:
        """Describe the schedule in words, as lines of a printed plan."""

    def accept(self, problem: Problem, n: int, d: int, budget: Budget) -> tuple[int, int]:
        """Check the public facts of a plan against the requirements, and return n and d as plain integers."""
        check_public(n, d, budget, pure=True)
        self.needs.check(self, problem, budget.relation, pure=budget.delta == 0.0)
        return int(n), int(d)

    def for_weights(self) -> Algorithm | None:
        """Variant for sample weights, whose plans do not depend on n; None if there is none.

        With it, one record of weight 2 counts exactly like two records of weight 1.
        """
        return None

    def least_l2(self, problem: Problem, d: int, budget: Budget) -> float:
        """Smallest l2 that the algorithm plans with, on the scale of the sum; 0 if it needs none."""
        return 0.0

    def asks_hessian(self, problem: Problem) -> bool:
        """Whether `noise_law` needs a further release: the Hessian of the objective, with noise."""
        return False

    def noise_law(self, released: Released) -> Law | None:
        """Law of the error that the noise has added to the released weights; None if it is unknown."""
        return None

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim; by default one with the logistic loss."""
        from dpconvex.algorithms.attacks import LOGISTIC, Attack

        return (Attack(cls(), LOGISTIC),)

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch; by default those that are possible in any algorithm."""
        from dpconvex.algorithms.attacks import ANYWHERE

        return ANYWHERE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried; each mutant runs in the first setting that it breaks."""
        from dpconvex.algorithms.attacks import LOGISTIC, Victim

        return (Victim(cls(), LOGISTIC),)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbouring data sets for a plan broken by the mutant; by default with linear losses."""
        from dpconvex.algorithms.attacks import linear_pairs

        return linear_pairs(plan, mutant)
