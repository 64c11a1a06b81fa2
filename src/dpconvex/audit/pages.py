"""Tables for the documentation, written by the commands that measure them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpconvex.audit.gallery import EXHIBITS, Finding
from dpconvex.audit.machine.outcome import Outcome
from dpconvex.audit.measure import CURVE, LAW, VARIATION
from dpconvex.audit.players import Played
from dpconvex.audit.suite import SENSITIVITY, Line, Trial

CHECKS = (LAW, VARIATION, CURVE, SENSITIVITY)


@dataclass(frozen=True)
class Findings:
    """What the whole audit found: of every claim, mutant, game and kind of release."""

    claims: list[Line]
    mutants: list[Trial]
    games: list[Played]
    machine: list[Outcome]

    @property
    def good(self) -> bool:
        """Whether all of it is as it should be."""
        parts: tuple[Sequence[Any], ...] = (self.claims, self.mutants, self.games, self.machine)
        return all(one.good for part in parts for one in part)

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {name: [one.to_json() for one in found] for name, found in vars(self).items()}


def audit_page(found: Findings, minutes: float) -> str:
    """What the whole audit found, as Markdown."""
    said = "all" if found.good else "NOT all"
    lines = [
        "# The audit",
        "",
        "Every claim of the library, attacked on the worst neighbours known, and the arithmetic beneath it. Numbers",
        "are lower bounds at confidence 0.99; what they mean is told in [auditing](../guide/auditing.md). This page,",
        "and that of the [mutants](mutants.md), is written by `make audit`, that is",
        "",
        "    python -m dpconvex.audit --docs docs",
        "",
        f"which took {minutes:.0f} minutes of one processor and found {said} as it should be.",
        "",
        "## Claims",
        "",
        "| plan | claimed epsilon | found | share of mu | runs a side | |",
        "|---|---|---|---|---|---|",
    ]
    for line in found.claims:
        r = line.report
        lines.append(
            f"| {line.name} | {_number(r.claimed_epsilon)} | {_number(r.epsilon_lower)} | {r.ratio:.2f} | {r.runs} "
            f"| {_verdict(line.good)} |"
        )
    lines += ["", "## Games", "", "| match | found | |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.found} | {_verdict(one.good)} |" for one in found.games]
    lines += [
        "",
        "## The machine",
        "",
        "Each kind of release is attacked as a naive implementation would make it, which has to break, and as it is.",
        "",
        "| attack | release | arithmetic | found | allowed | |",
        "|---|---|---|---|---|---|",
    ]
    for o in found.machine:
        verdict = "broken" if o.broken else "holds"
        lines.append(f"| {o.attack} | {o.released} | {o.arithmetic} | {o.found} | {o.allowed} | {verdict} |")
    return "\n".join([*lines, ""])


def _verdict(good: bool) -> str:
    return "holds" if good else "FAILED"


def mutants_page(found: Sequence[Trial]) -> str:
    """Which check caught which mutant, as Markdown."""
    lines = [
        "# Mutants",
        "",
        "Every algorithm, broken on purpose in every way below, and the checks that noticed: the law of the statistic",
        "where it is known to be Gaussian, error rates at fixed thresholds against total variation and against the",
        "rest of the claimed curve, and the search for a neighbour that moves a release by more than stated. Budget",
        "epsilon 4 (0.3 for a secret order), delta 1e-6, confidence 0.99, seed 0. This page is written by",
        "",
        "    dpconvex audit mutants --page docs/gallery/mutants.md",
        "",
        f"| algorithm | broken | {' | '.join(CHECKS)} | epsilon found | runs |",
        f"|---|---|{'---|' * len(CHECKS)}---|---|",
    ]
    for trial in found:
        marks = " | ".join("caught" if check in trial.caught else "" for check in CHECKS)
        found_epsilon = _number(trial.report.epsilon_lower)
        lines.append(f"| {trial.algorithm} | {trial.mutant} | {marks} | {found_epsilon} | {trial.report.runs} |")
    missed = [t for t in found if not t.caught]
    lines += ["", f"{len(found)} mutants, {len(missed)} not caught.", ""]
    return "\n".join(lines)


def gallery_page(found: Mapping[str, Finding]) -> str:
    """The gallery, as Markdown."""
    lines = [
        "# The refutation gallery",
        "",
        "Privacy claims in print that do not hold, each with a mechanism that follows the printed text, two",
        "neighbouring data sets, and what an attack finds. The last two are about arithmetic, not about a proof:",
        "[on the machine](../guide/on-the-machine.md) tells what they find of this library. Numbers are lower bounds",
        "at confidence 0.99, with thresholds fixed on runs that are not counted, or exact where it says so. This page",
        "is written by",
        "",
        "    dpconvex audit gallery --page docs/gallery/index.md",
        "",
        "| claim | quantity | claimed | found | runs |",
        "|---|---|---|---|---|",
    ]
    for name, finding in found.items():
        least = f"> {_number(finding.found)}" if finding.report else f"{_number(finding.found)} (exact)"
        runs = str(finding.report.runs) if finding.report else "none"
        link = f"[{finding.title}](#{_anchor(name)})"
        lines.append(f"| {link} | {finding.quantity} | {_number(finding.claimed)} | {least} | {runs} |")
    for name, finding in found.items():
        exhibit = EXHIBITS[name]
        lines += [
            "",
            f"({_anchor(name)})=",
            "",
            f"## {exhibit.title}",
            "",
            f"*{exhibit.source}.*",
            "",
            f"**Claim.** {exhibit.claim}",
            "",
            f"**What is wrong.** {exhibit.wrong}",
            "",
            f"**What holds.** {exhibit.holds}",
            "",
            f"**Found.** {finding.quantity.capitalize()}: claimed {_number(finding.claimed)}, {_found(finding)}.",
        ]
    return "\n".join([*lines, ""])


def _found(finding: Finding) -> str:
    number = _number(finding.found)
    if finding.report is None:
        return f"{number} by calculation"
    return f"at least {number} ({finding.report.runs} runs on each data set, seed {finding.report.seed})"


def _anchor(name: str) -> str:
    return f"exhibit-{name.replace('.', '-')}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1e4 else "no bound"  # a release without noise
