"""A ledger for whoever is accountable: how much of every budget is left, what was released, and who approved it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from dpconvex.drawing import BLUE, DASHED, RED, RIGHT, Panel, picture, round_numbers, text
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.ledger import Ledger
from dpconvex.ledger.standing import Standing, Taken, standings
from dpconvex.report.page import fill_page, write_section, write_signing
from dpconvex.report.words import Section, Table
from dpconvex.words import align, unit_words

__all__ = ["ledger_report", "show_dataset", "show_ledger", "write_standing"]

_FORMS = {
    "gdp": "squares of mu (GDP), with {delta:g} of delta aside for curves",
    "zcdp": "rho (zCDP)",
    "rdp": "Renyi divergences of order {order:g}",
}
_ALWAYS = "the number of records and of features, and running times"


def show_ledger(ledger: Ledger) -> str:
    """Say where every budget stands, in a few lines of plain text.

    Examples
    --------
    >>> import tempfile, dpconvex as dc
    >>> ledger = dc.Ledger.open(tempfile.mkdtemp() + "/budget.db")
    >>> ledger.declare("trial 7", budget=dc.Budget(3.0, 1e-6), owner="Ada", expires="2999-12-31")
    >>> print(show_ledger(ledger))
    data set  protects    budget  delta  spent  left  releases  not released  until       owner
    trial 7   one record       3  1e-06      0     3         0             0  2999-12-31  Ada
    <BLANKLINE>
    Budget, spent and left are epsilon at that delta. Left: the most that one more release may take.
    """
    found = standings(ledger)
    if not found:
        return "Nothing is declared in this ledger: dpconvex ledger declare NAME --epsilon 1 --delta 1e-6"
    rows = [
        ("data set", "protects", "budget", "delta", "spent", "left", "releases", "not released", "until", "owner"),
        *(_row(one) for one in found),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(c.rjust(w) if 2 <= k < 8 else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
    return "\n".join(
        [
            *(line.rstrip() for line in lines),
            "",
            "Budget, spent and left are epsilon at that delta. Left: the most that one more release may take.",
        ]
    )


def show_dataset(ledger: Ledger, name: str) -> str:
    """Say what became of one budget, run by run."""
    declared = ledger.declared(name)
    one = next(one for one in standings(ledger) if one.declared == declared)
    head = [f"{declared.name}: {_sentence(one)}", ""]
    return "\n".join([*head, *align([_TIMELINE, *_timeline(one)], left=len(_TIMELINE))])


def ledger_report(path: str | Path, ledger: Ledger, *, title: str = "What was spent, and what is left") -> None:
    """Write a page about a ledger, to be read, printed and signed: one HTML file that loads nothing and runs nothing.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced.
    ledger : Ledger
        It is verified first.
    title : str

    Raises
    ------
    LedgerError
        If the ledger was altered; nothing is written.
    """
    last = verify_ledger(ledger)
    found = standings(ledger)
    again = Section(
        "How to check it again",
        (
            f"The command `dpconvex ledger verify` reads every entry. It found {last.number}, each of which "
            f"follows from those before it. The last has the hash {last.hash}. Keep that number and hash apart "
            "from the ledger: if the ledger is put back to an older copy, they no longer agree.",
        ),
    )
    sections = [
        *map(write_section, (Section("In plain words", _PLAIN), _summary(found))),
        *map(write_standing, found),
        write_section(again),
    ]
    words = {
        "title": title,
        "rating": "good",
        "status": f"No budget of {len(found)} is exceeded.",
        "summary": f"Ledger {ledger.id}, up to {last.body['when']} (entry {last.number}).",
    }
    Path(path).write_text(
        fill_page(
            words, sections, write_signing("I have read what was spent, what is left and what is not protected.")
        ),
        encoding="utf-8",
    )


_PLAIN = (
    "A budget limits how much all releases about a data set together can reveal about any one person in it, whatever "
    "else is known. It is stated as epsilon, the smaller the safer, and delta, the chance of an exception. Once it is "
    "spent, nothing more is released, and it cannot be raised.",
    "A run takes its share before it sees the data. If it then fails or is interrupted, its share stays taken.",
)
_TIMELINE = ("entry", "reserved (UTC)", "by", "algorithm", "epsilon", "delta", "approved by", "released (UTC)", "notes")


def _row(one: Standing) -> tuple[str, ...]:
    declared, budget = one.declared, one.declared.budget
    return (
        declared.name, unit_words(declared.unit), f"{budget.epsilon:g}", f"{budget.delta:g}", f"{one.spent:.4g}",
        f"{one.left:.4g}", str(len(one.released)), str(len(one.unreleased)),
        (declared.expires or "-") + (" (expired)" if one.expired else ""), declared.owner or "-",
    )  # fmt: skip


def _sentence(one: Standing) -> str:
    declared, budget = one.declared, one.declared.budget
    left = "it has expired" if one.expired else f"one more release may take {one.left:.4g} at most"
    return (
        f"{one.spent:.4g} of epsilon {budget.epsilon:g} is spent, at delta {budget.delta:g}, about "
        f"{unit_words(declared.unit)} ({budget.relation}); {left}"
    )


def _timeline(one: Standing) -> list[tuple[str, ...]]:
    return [
        (
            str(run.number), run.when[:16].replace("T", " "), run.by, run.algorithm, f"{run.epsilon:.4g}",
            f"{run.delta:g}", ", ".join(run.approved_by) or "-", _released(run), _notes(run),
        )
        for run in one.runs
    ]  # fmt: skip


def _released(run: Taken) -> str:
    if not run.released:
        return "nothing (under way, failed or interrupted)"
    more = f", and {len(run.released) - 1} times more" if len(run.released) > 1 else ""
    return run.released[0][:16].replace("T", " ") + more


def _notes(run: Taken) -> str:
    notes = ["took the whole budget"] if run.whole else []
    if run.outside:
        notes.append(f"read without privacy: {', '.join(run.outside)}")
    return "; ".join(notes) or "-"


def _summary(found: Sequence[Standing]) -> Section:
    header = ("data set", "protects", "budget", "delta", "spent", "left", "releases", "not released", "until", "owner")
    return Section(
        "Every budget",
        ("Budget, spent and left are epsilon at that delta. Left is the most that one more release may take.",),
        table=Table("Budgets", header, tuple(_row(one) for one in found)),
    )


def write_standing(one: Standing) -> str:
    """What is to be said of one budget, as HTML: who is accountable, every run, and when it was spent."""
    declared = one.declared
    open_ = sorted({name for run in one.runs for name in run.outside})
    points = (
        f"Declared by {one.by} on {one.when[:10]}; accountable: {declared.owner or 'nobody is named'}.",
        f"Runs are added up by {_FORMS[declared.filter.form].format(**declared.filter.limits)}.",
        "Every plan has to be approved before it is run." if declared.approval else "Plans do not have to be approved.",
        *(
            f"{a['by']} approved the plan {a['plan'][:16]} for {a['times']} run(s) on {a['when'][:10]}"
            + (f": {a['note']}." if a["note"] else ".")
            for a in one.approvals
        ),
        f"Not protected: {_ALWAYS}" + (f"; read from the data: {', '.join(open_)}." if open_ else "."),
        f"{len(one.unreleased)} of {len(one.runs)} runs released nothing, and stay charged.",
    )
    table = Table(f"Runs on {declared.name}", _TIMELINE, tuple(_timeline(one))) if one.runs else None
    section = Section(declared.name, (_sentence(one) + ".",), points, table)
    return write_section(section, draw_timeline(one) if one.runs else "")


def draw_timeline(one: Standing) -> str:
    """Draw how much of a budget was spent when: a step up at every run, below the line of what is allowed."""
    times = [datetime.fromisoformat(run.when) for run in one.runs]
    days = [(time - times[0]).total_seconds() / 86_400.0 for time in times]
    last, allowed = max(days[-1], 1.0 / 24.0), one.declared.budget.epsilon
    panel = Panel((0.0, 1.04 * last), (0.0, 1.15 * allowed), logarithmic=(False, False))
    steps, spent = [(0.0, 0.0)], 0.0
    for day, run in zip(days, one.runs, strict=True):
        steps += [(day, spent), (day, run.after)]
        spent = run.after
    dots = [(day, run.after) for day, run in zip(days, one.runs, strict=True)]
    across = [(0.0, f"{times[0]:%Y-%m-%d}"), (last, f"{times[-1]:%Y-%m-%d}")]
    body = [
        *panel.frame("time", "epsilon spent", across, round_numbers(0.0, 1.15 * allowed)),
        panel.level(allowed, RED, 1.6, DASHED),
        text(RIGHT - 4.0, panel.at((0.0, allowed))[1] - 7.0, "budget", "end", RED),
        panel.line([*steps, (1.04 * last, spent)], BLUE, 2.0),
        *panel.dots(dots),
    ]
    words = f"{spent:.4g} of epsilon {allowed:g} was spent in {len(one.runs)} runs."
    return picture(body, f"Budget of {one.declared.name} over time", words)
