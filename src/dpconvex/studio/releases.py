"""What was released: receipts, models and evaluations, checked again and put in words."""

from __future__ import annotations

from dataclasses import dataclass

from dpconvex.errors import DpconvexError
from dpconvex.estimators.reading import read_release
from dpconvex.report.page import write_section
from dpconvex.report.picture import draw_belief
from dpconvex.report.words import Statement, explain

__all__ = ["Checked", "check"]


@dataclass(frozen=True)
class Checked:
    """What became of a release that was to be checked: a statement, or why it is refused."""

    what: str
    statement: Statement | None
    refused: str
    receipt: str
    sections: tuple[str, ...] = ()


def check(text: str) -> Checked:
    """Check the guarantee of a receipt, a model or an evaluation, from its text.

    Examples
    --------
    >>> check("{}").refused
    'this is no model, evaluation or receipt of dpconvex'
    """
    try:
        receipt, what = read_release(text)
        statement = explain(receipt)
    except DpconvexError as error:
        return Checked("file", None, str(error), "")
    drawn = (
        write_section(section, draw_belief(statement.shift) if section.title.startswith("How much") else "")
        for section in statement.sections
    )
    return Checked(what, statement, "", str(receipt), tuple(drawn))
