"""Tables for the documentation, written by the commands that measure them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpconvex.audit.gallery import EXHIBITS, Finding
from dpconvex.audit.measure import CURVE, LAW, VARIATION
from dpconvex.audit.suite import SENSITIVITY, Trial

CHECKS = (LAW, VARIATION, CURVE, SENSITIVITY)


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
