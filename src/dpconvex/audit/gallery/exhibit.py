"""What a piece of the gallery is: a printed claim, what is wrong with it, and the attack that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpconvex.audit.function import Case
from dpconvex.audit.report import AuditReport, finite


@dataclass(frozen=True)
class Sum:
    """A number that follows without sampling: what is printed, and what it is."""

    quantity: str
    claimed: float
    found: float


@dataclass(frozen=True)
class Exhibit:
    """A printed claim and the attack on it.

    Parameters
    ----------
    title, source, claim, wrong, holds : str
        What it is called, where it is printed, what it says, why that is not so, and what holds instead.
    case : Case, optional
        The mechanism and data sets of a sampled attack.
    exact : function, optional
        A calculation in place of one.
    runs : int
        Runs on each data set.

    Examples
    --------
    >>> from dpconvex.audit.gallery import EXHIBITS
    >>> EXHIBITS["lemma-4.6"].show(runs=20_000).refuted
    True
    """

    title: str
    source: str
    claim: str
    wrong: str
    holds: str
    case: Case | None = None
    exact: Callable[[], Sum] | None = None
    runs: int = 200_000

    def show(self, runs: int | None = None, confidence: float = 0.99, seed: int = 0) -> Finding:
        """Attack the claim."""
        if self.case is None:
            assert self.exact is not None
            sum_ = self.exact()
            return Finding(self.title, self.source, sum_.quantity, sum_.claimed, sum_.found, sum_.found > sum_.claimed)
        report = self.case.audit(runs=runs or self.runs, confidence=confidence, seed=seed)
        quantity = f"epsilon at delta {report.delta:g}"
        return Finding(
            self.title, self.source, quantity, report.claimed_epsilon, report.epsilon_lower, report.refuted, report
        )


@dataclass(frozen=True)
class Finding:
    """What an attack on an exhibit found. Without a report the number is exact, with one a lower bound."""

    title: str
    source: str
    quantity: str
    claimed: float
    found: float
    refuted: bool
    report: AuditReport | None = None

    def __str__(self) -> str:
        sure = (
            f"at least {self.found:.4g} at confidence {self.report.confidence:g}"
            if self.report
            else f"{self.found:.4g}"
        )
        verdict = "REFUTED" if self.refuted else "not refuted"
        return f"{verdict}: {self.title} ({self.source}): {self.quantity} claimed {self.claimed:.4g}, is {sure}"

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "title": self.title,
            "source": self.source,
            "quantity": self.quantity,
            "claimed": finite(self.claimed),
            "found": finite(self.found),
            "refuted": self.refuted,
            "report": self.report.to_json() if self.report else None,
        }
