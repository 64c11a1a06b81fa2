"""Where the budgets of a ledger stand: what was declared, taken and released, and who approved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpconvex.ledger.chain import now_after
from dpconvex.ledger.ledger import Declared, Ledger, is_over

__all__ = ["Standing", "Taken", "standings"]


@dataclass
class Taken:
    """What one run took from a budget, and what became of it."""

    number: int
    when: str
    by: str
    algorithm: str
    epsilon: float
    delta: float
    approved_by: tuple[str, ...]
    whole: bool
    after: float  # spent of the budget once this run had taken its share, as epsilon
    released: list[str] = field(default_factory=list)  # when
    outside: tuple[str, ...] = ()


@dataclass
class Standing:
    """A data set and its budget."""

    declared: Declared
    by: str
    when: str
    spent: float = 0.0
    left: float = 0.0
    runs: list[Taken] = field(default_factory=list)
    approvals: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def expired(self) -> bool:
        """Whether no more runs are allowed because of the date."""
        return is_over(self.declared, now_after(None))

    @property
    def released(self) -> list[Taken]:
        """Runs of which something was released."""
        return [run for run in self.runs if run.released]

    @property
    def unreleased(self) -> list[Taken]:
        """Runs that are under way, failed or were interrupted: charged all the same."""
        return [run for run in self.runs if not run.released]


def standings(ledger: Ledger) -> list[Standing]:
    """Read where every budget of a ledger stands.

    Examples
    --------
    >>> import tempfile, dpconvex as dc
    >>> ledger = dc.Ledger.open(tempfile.mkdtemp() + "/budget.db")
    >>> ledger.declare("trial 7", budget=dc.Budget(3.0, 1e-6), owner="Ada")
    >>> [(one.declared.name, one.spent, one.left) for one in standings(ledger)]
    [('trial 7', 0.0, 3.0)]
    """
    found: dict[str, Standing] = {}
    runs: dict[str, Taken] = {}
    for entry in ledger.entries():
        body = entry.checked()
        if body["kind"] == "declare":
            found[body["dataset"]] = Standing(Declared.of(body), body["by"], body["when"])
        elif body["kind"] == "approve":
            found[body["dataset"]].approvals.append(body)
        elif body["kind"] == "reserve":
            standing = found[body["dataset"]]
            names = (a["by"] for a in standing.approvals if a["plan"] == body["plan"])
            about = body["about"]
            run = Taken(
                body["number"], body["when"], body["by"], str(about.get("algorithm", "")),
                float(about.get("budget", {}).get("epsilon", 0.0)), float(about.get("budget", {}).get("delta", 0.0)),
                tuple(dict.fromkeys(names)), body["whole"],
                standing.declared.filter.epsilon(body["spent"], standing.declared.budget),
            )  # fmt: skip
            standing.runs.append(run)
            runs[body["run"]], standing.spent = run, run.after
        elif body["kind"] == "commit":
            runs[body["run"]].released.append(body["when"])
            runs[body["run"]].outside = tuple(body["outside"])
    for key, standing in found.items():
        standing.left = ledger.remaining(key)
    return list(found.values())
