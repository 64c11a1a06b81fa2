"""The whole audit: every algorithm of the registry, and every mutant of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import Any

from dpconvex import algorithms, queries
from dpconvex.algorithms.attacks import Mutant
from dpconvex.algorithms.base import Algorithm
from dpconvex.audit.attack import audit
from dpconvex.audit.parallel import mapping
from dpconvex.audit.report import AuditReport
from dpconvex.audit.whitebox import sensitivities
from dpconvex.plan.plan import Plan

RUNS = 800_000


def attacked() -> dict[str, type[Algorithm]]:
    """Every algorithm of the registry and every query, by name.

    Examples
    --------
    >>> list(attacked())[:2]
    ['Curvature', 'FramedPerturbation']
    """
    found = {name: getattr(import_module(module), name) for name, module in queries.ATTACKED.items()}
    return dict(sorted({**found, **{name: algorithms.get(name) for name in algorithms.names()}}.items()))


MUTANTS = {name: kind.mutants() for name, kind in attacked().items()}


@dataclass(frozen=True)
class Subject:
    """A plan to attack, with a share of the runs, and how much of its claim the attack has to find (0: any)."""

    name: str
    plan: Plan
    share: float
    least: float
    seed: int = 0

    def audit(self, runs: int, seed: int = 0, confidence: float = 0.99) -> AuditReport:
        """Attack it."""
        return audit(self.plan, runs=max(1000, int(runs * self.share)), confidence=confidence, seed=seed)

    def examine(self, runs: int, seed: int = 0) -> Line:
        """Attack it, and if it looks false once more, with other noise, twice the runs, and more strictly.

        At confidence 0.99, one claim in a hundred looks false by chance if it is as tight as ours are, and the suite
        attacks some seventy.
        """
        report = self.audit(runs, seed)
        if report.refuted:
            report = self.audit(2 * runs, seed + 1000, confidence=0.9999)
        return Line(self.name, report, self.least)


def subjects(kinds: Iterable[type[Algorithm]] | None = None) -> list[Subject]:
    """Every attack that these algorithms or queries declare, by default all, under each relation, ordered by seed.

    Where the worst neighbours are known and outputs are Gaussian, the attack has to find 0.97 of the claim. But
    certificates and walks of several passes are worst on data that no one loss makes, and the minimiser of a tilted
    objective is no Gaussian.
    """
    declared = [attack for kind in (attacked().values() if kinds is None else kinds) for attack in kind.attacks()]
    seeded = [(attack.seed + i, attack, relation) for attack in declared if attack.seed is not None
              for i, relation in enumerate(attack.relations)]  # fmt: skip
    taken = {seed for seed, _, _ in seeded}
    free = (seed for seed in count() if seed not in taken)
    seeded += [(next(free), attack, relation) for attack in declared if attack.seed is None
               for relation in attack.relations]  # fmt: skip
    return [
        Subject(
            f"{attack.title}, epsilon {attack.epsilon:g}, {relation}",
            attack.plan(relation), attack.share, attack.least, seed,
        )
        for seed, attack, relation in sorted(seeded, key=lambda line: line[0])
    ]  # fmt: skip


# Mutants -----------------------------------------------------------------------------------------------------------

SENSITIVITY = "sensitivity"


@dataclass(frozen=True)
class Trial:
    """A mutant of an algorithm, and the checks that caught it."""

    algorithm: str
    mutant: str
    caught: tuple[str, ...]
    report: AuditReport

    @property
    def good(self) -> bool:
        """Whether it was caught."""
        return self.report.refuted

    def __str__(self) -> str:
        caught = ", ".join(self.caught) or "NOT CAUGHT"
        return f"{self.algorithm}, mutant: {self.mutant}\n  caught by: {caught}\n  {self.report}"

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "algorithm": self.algorithm,
            "mutant": self.mutant,
            "caught": list(self.caught),
            "report": self.report.to_json(),
        }


def trials(names: Iterable[str] | None = None) -> list[tuple[type[Algorithm], Mutant]]:
    """Every mutant of the algorithms named, or of all."""
    kinds = attacked()
    return [(kinds[name], mutant) for name in (kinds if names is None else names) for mutant in kinds[name].mutants()]


def try_mutant(kind: type[Algorithm], mutant: Mutant, runs: float = 1.0, seed: int = 0) -> Trial:
    """Audit one mutant of an algorithm, with a multiple of the usual runs, and search for a sensitivity it breaks.

    Examples
    --------
    >>> import dpconvex as dc
    >>> try_mutant(dc.algorithms.MeanDirection, dc.algorithms.MeanDirection.mutants()[1]).caught
    ('law of the statistic', 'total variation', 'error rates')
    """
    victims = kind.victims()
    plan, usual = next((plan, victim.runs) for victim in victims if mutant.breaks(plan := victim.plan()))
    report = audit(plan, runs=max(1000, int(runs * usual)), seed=seed, mutant=mutant)
    moved = not (mutant.swapped or mutant.averaged) and any(
        not m.holds for m in sensitivities(plan, tries=60, seed=seed, mutant=mutant)
    )
    return Trial(kind.__name__, mutant.name, report.caught + ((SENSITIVITY,) if moved else ()), report)


def mutants(
    names: Iterable[str] | None = None, runs: float = 1.0, seed: int = 0, workers: int = 1
) -> tuple[Trial, ...]:
    """Audit every mutant. One that is not caught means that the attack is too weak."""
    with mapping(workers) as each:
        return tuple(each(_try, [(kind, mutant, runs, seed) for kind, mutant in trials(names)]))


def _try(job: tuple[type[Algorithm], Mutant, float, int]) -> Trial:
    return try_mutant(*job)


@dataclass(frozen=True)
class Line:
    """One line of the suite: what was attacked, what was found, and whether that is as it should be."""

    name: str
    report: AuditReport
    least: float

    @property
    def good(self) -> bool:
        """Whether the claim stands and enough of it was found."""
        return not self.report.refuted and self.report.ratio >= self.least

    def __str__(self) -> str:
        loose = "" if self.good or self.report.refuted else "\n  TOO LOOSE"
        return f"{self.name}\n  {self.report}{loose}"

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"name": self.name, "least": self.least, "good": self.good, "report": self.report.to_json()}


def suite(runs: int = RUNS, seed: int = 0, workers: int = 1) -> Iterable[Line]:
    """Attack every subject; lines come as they are ready."""
    with mapping(workers) as each:
        yield from each(_attack, [(subject, runs, seed + subject.seed) for subject in subjects()])


def _attack(job: tuple[Subject, int, int]) -> Line:
    subject, runs, seed = job
    return subject.examine(runs, seed)
