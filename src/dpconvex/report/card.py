"""A model card: what a model is for, what it promises, and how good it is, for whoever is offered it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from dpconvex.data.schema import Range, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.evaluate import Evaluation
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import check_answers, plain_text
from dpconvex.report.page import declared, fill_page, measured, write_receipt, write_section
from dpconvex.report.picture import draw_belief
from dpconvex.report.words import Section, Statement, Table, explain

# What only people know.
ASKED = {
    "description": "What the model predicts, and from what",
    "intended_use": "What it is for",
    "out_of_scope": "What it must not be used for",
    "people": "Who the records are about, when and where they were collected",
    "limits": "What is known of its mistakes, and of people whom it serves badly",
    "license": "Licence of the model, such as cc-by-4.0",
    "contact": "Who answers questions",
}
_TAGS = ("differential-privacy", "tabular")


@dataclass(frozen=True)
class ModelCard:
    """A model card; `print` shows plain text, `save` writes HTML or Markdown.

    Attributes
    ----------
    title : str
    statement : Statement
        What the release promises, in words.
    sections : tuple of Section
        Everything that the card says, the promise among it.
    front : dict
        The front matter of the Markdown file, by which collections of models index it.
    receipt : Receipt
    """

    title: str
    statement: Statement
    sections: tuple[Section, ...]
    front: dict[str, Any]
    receipt: Receipt

    def to_html(self) -> str:
        """Write one page that loads nothing and runs nothing."""
        words = {
            "title": self.title,
            "rating": "good" if self.statement.good else "bad",
            "status": self.statement.status,
            "summary": self.statement.summary,
        }
        pictures = {"How much": draw_belief(self.statement.shift)}
        sections = [write_section(section, pictures.get(section.title[:8], "")) for section in self.sections]
        return fill_page(words, sections, write_receipt(self.receipt))

    def to_markdown(self) -> str:
        """Write Markdown with YAML front matter, as the README.md of a model in a collection has it."""
        front = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in self.front.items()]
        parts = ["\n".join(["---", *front, "---"]), f"# {_marked(self.title)}", f"**{_marked(self.statement.status)}**"]
        parts.append(_marked(self.statement.summary))
        parts += map(_section, self.sections)
        parts += ["## The receipt", f"```text\n{self.receipt}\n```"]
        return "\n\n".join(parts) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the card to a file that ends in .html or .md; an existing one is replaced."""
        path = Path(path)
        if path.suffix not in (".html", ".md"):
            raise InputError(f"a model card is written to a file that ends in .html or .md, got {path.name!r}")
        path.write_text(self.to_html() if path.suffix == ".html" else self.to_markdown(), encoding="utf-8")

    def __str__(self) -> str:
        return "\n\n".join([self.title, self.statement.status, self.statement.summary, *map(str, self.sections)])

    def _repr_html_(self) -> str:
        return "\n".join([f"<h1>{escape(self.title)}</h1>", *map(write_section, self.sections)])


def model_card(
    model: Any, answers: Mapping[str, str], *, title: str = "A private model", evaluation: Evaluation | None = None
) -> ModelCard:
    """Make the card of a fitted model: its purpose, its guarantee in words, its coefficients, and how good it is.

    It costs no privacy: everything on it was released before. What is not on the receipt, only people know.

    Parameters
    ----------
    model : estimator
        Fitted, or loaded from a file; its receipt is proved again first.
    answers : mapping
        What only people know, by the keys of `ASKED`.
    title : str
    evaluation : Evaluation, optional
        How good the model is on people it was not fitted to.

    Raises
    ------
    InputError
        If an answer is missing or blank, a key unknown, or the noise came from a fixed seed: nobody should be offered
        such a model.
    VerificationError
        If a receipt does not hold.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> from dpconvex.report import ASKED, model_card
    >>> model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=["no", "yes"])
    >>> model = model.fit(np.eye(2)[[0, 1] * 50], ["no", "yes"] * 50)
    >>> card = model_card(model, {name: "said by a person" for name in ASKED}, title="Readmissions")
    >>> print(card.to_markdown()[:56])
    ---
    library_name: "dpconvex"
    license: "said by a person"
    """
    receipt = getattr(model, "receipt_", None)
    if not isinstance(receipt, Receipt):
        raise InputError(f"model_card takes a fitted model, got {type(model).__name__}")
    if not isinstance(evaluation, Evaluation | None):
        raise InputError(f"evaluation must be an Evaluation, got {type(evaluation).__name__}")
    said = check_answers(answers, ASKED, "a model card")
    if not receipt.private:
        raise InputError("the noise of this model came from a fixed seed: it protects nobody, and gets no card")
    statement, schema = explain(receipt), getattr(model, "schema", None)
    sections = [_purpose(said), _made(receipt, statement), *statement.sections, _coefficients(model)]
    sections += measured(evaluation, receipt) if evaluation is not None else [_UNMEASURED]
    sections += [declared(schema)] if schema is not None else []
    return ModelCard(
        plain_text(title, "title"), statement, tuple(sections), _front(model, said, title, evaluation), receipt
    )


_UNMEASURED = Section(
    "How good the model is",
    ("This was not measured. A private evaluation, on people to whom the model was not fitted, would tell.",),
)


def _purpose(said: Mapping[str, str]) -> Section:
    rows = tuple((ASKED[name], said[name]) for name in ASKED if name != "description")
    return Section("What it is for", (said["description"],), table=Table("Said by its makers", ("", ""), rows))


def _made(receipt: Receipt, statement: Statement) -> Section:
    plan = receipt.sections["plan"]
    rows = (
        ("guarantee", f"epsilon {receipt.epsilon:.4g}, delta {receipt.sections['claim']['delta']:g}"),
        ("algorithm", plan["algorithm"]["name"]),
        ("loss", plan["problem"]["loss"]["name"]),
        ("records", f"{plan['n']:,}" if plan["n"] else "a stream"),
        ("encoded columns", f"{plan['d']:,}"),
        ("library", f"dpconvex {plan['library']}"),
    )
    return Section("How it was made", table=Table("From its receipt", ("", ""), rows))


def _coefficients(model: Any) -> Section:
    found = model.summary().to_dict()
    rows = tuple(
        (name, per, f"{effect:.4g}", f"{error:.2g}" if error == error else "not known")
        for name, per, effect, error in zip(*(found[key] for key in _SHOWN), strict=True)
    )
    words = "By column, in the units of the table, with the standard error that is due to the noise."
    return Section("Coefficients", (words,), table=Table("Coefficients", _SHOWN, rows))


_SHOWN = ("column", "per", "effect", "noise s.e.")


def _front(model: Any, said: Mapping[str, str], title: str, evaluation: Evaluation | None) -> dict[str, Any]:
    schema: Schema | None = getattr(model, "schema", None)
    numeric = isinstance(schema.target, Range) if schema is not None else not hasattr(model, "classes_")
    task = "tabular-regression" if numeric else "tabular-classification"
    front: dict[str, Any] = {"library_name": "dpconvex", "license": said["license"], "tags": list(_TAGS)}
    front["pipeline_tag"] = task
    if evaluation is not None:
        metrics = [{"type": name, "name": name, "value": metric.value} for name, metric in evaluation.metrics.items()]
        dataset = {"type": "private", "name": evaluation.receipt.sections["dataset"]["name"]}
        front["model-index"] = [
            {"name": title, "results": [{"task": {"type": task}, "dataset": dataset, "metrics": metrics}]}
        ]
    return front


# Markdown ----------------------------------------------------------------------------------------------------------


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]#|~$])", r"\\\1", escape(text, quote=False))


def _section(section: Section) -> str:
    parts = [f"## {_marked(section.title)}", *map(_marked, section.paragraphs)]
    parts += ["\n".join(f"- {_marked(text)}" for text in section.points)] if section.points else []
    if section.table:
        head, *rows = [f"| {' | '.join(map(_marked, row))} |" for row in (section.table.header, *section.table.rows)]
        parts.append("\n".join([head, "|" + " --- |" * len(section.table.header), *rows]))
    return "\n\n".join(parts)
