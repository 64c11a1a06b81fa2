"""The report of a release: a self-contained HTML file to be read, printed and signed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from dpconvex.data.schema import Category, Classes, Column, Date, Number, Range, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.evaluate import Evaluation
from dpconvex.kernel.receipt import Receipt
from dpconvex.queries.estimates import Metric
from dpconvex.report.picture import Curve, draw_accuracy, draw_belief
from dpconvex.report.words import Section, Table, explain
from dpconvex.verify import verify


def report(
    path: str | Path,
    receipt: Receipt,
    *,
    title: str = "What this release promises",
    schema: Schema | None = None,
    curve: Curve | None = None,
    evaluation: Evaluation | None = None,
) -> None:
    """Write the report of a release: one HTML file that loads nothing and runs nothing.

    Parameters
    ----------
    path : str or Path
        Where to write; an existing file is replaced.
    receipt : Receipt
        It is proved again first.
    title : str
        Heading of the page.
    schema : Schema, optional
        The declared facts of the table, to be listed.
    evaluation : Evaluation, optional
        How good the model is on people it was not fitted to, with a receipt of its own; or what the receipt is about.
    curve : Curve, optional
        Accuracy against epsilon, to be drawn. Its numbers are further releases; the page says so.

    Raises
    ------
    VerificationError
        If the receipt does not hold; nothing is written.

    Examples
    --------
    >>> import tempfile, dpconvex as dc, numpy as np
    >>> model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1])
    >>> receipt = model.fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50).receipt_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(f"{folder}/report.html", receipt)
    ...     print(Path(folder, "report.html").read_text(encoding="utf-8")[:15])
    <!doctype html>
    """
    if not isinstance(receipt, Receipt):
        raise InputError(f"report takes a Receipt, such as model.receipt_, got {type(receipt).__name__}")
    if not isinstance(evaluation, Evaluation | None):
        raise InputError(f"evaluation must be an Evaluation, got {type(evaluation).__name__}")
    Path(path).write_text(_page(receipt, title, schema, curve, evaluation), encoding="utf-8")


def _page(
    receipt: Receipt, title: str, schema: Schema | None, curve: Curve | None, evaluation: Evaluation | None
) -> str:
    statement = explain(receipt)
    sections = [
        write_section(section, draw_belief(statement.shift) if section.title.startswith("How much") else "")
        for section in statement.sections
    ]
    sections += [write_section(_accuracy(curve), draw_accuracy(curve))] if curve is not None else []
    sections += [write_section(part) for part in measured(evaluation, receipt)] if evaluation is not None else []
    sections += [write_section(declared(schema))] if schema is not None else []
    return fill_page(
        {
            "title": title,
            "rating": "good" if statement.good else "bad",
            "status": statement.status,
            "summary": statement.summary,
        },
        sections,
        write_signing("I have read what is promised and what is not, and agree that the declared facts are public.")
        + write_receipt(receipt),
    )


def write_signing(agreed: str) -> str:
    """Write the section in which people sign what they agreed to, as HTML."""
    return (
        f'<section>\n<h2>Signed</h2>\n<p>{escape(agreed)}</p>\n<table class="sign">\n<caption>Signatures</caption>\n'
        '<thead><tr><th scope="col">Name and role</th><th scope="col">Date</th><th scope="col">Signature</th></tr>'
        "</thead>\n<tbody>\n" + "<tr><td></td><td></td><td></td></tr>\n" * 3 + "</tbody>\n</table>\n</section>\n"
    )


def write_receipt(receipt: Receipt) -> str:
    """Write a receipt, in words and as JSON, as HTML."""
    return (
        f"<section>\n<h2>The receipt</h2>\n<pre>{escape(str(receipt))}</pre>\n<details>\n<summary>As JSON, which can "
        f"be saved and verified</summary>\n<pre>{escape(receipt.to_json())}</pre>\n</details>\n</section>"
    )


def fill_page(words: Mapping[str, str], sections: Sequence[str], ending: str) -> str:
    """Write a page from its words, which are escaped, and from sections and an ending that are HTML."""
    template = Template(files("dpconvex.report").joinpath("page.html").read_text(encoding="utf-8"))
    escaped = {name: escape(text) for name, text in words.items()}
    return template.substitute(escaped, sections="\n".join(sections), ending=ending)


def write_section(section: Section, picture: str = "") -> str:
    """Write a section as HTML."""
    parts = [f"<h2>{escape(section.title)}</h2>", *(f"<p>{escape(text)}</p>" for text in section.paragraphs)]
    if section.points:
        parts.append("<ul>" + "\n".join(f"<li>{escape(text)}</li>" for text in section.points) + "</ul>")
    if section.table:
        parts.append(_table(section.table))
    if picture:
        parts.append(f"<figure>{picture}</figure>")
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return (
        f"<table>\n<caption>{escape(table.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table>"
    )


_MISSING = {
    "middle": "; missing: the middle",
    "flag": "; missing: the middle, and a flag",
    "category": "; missing: a separate category",
    "zeros": "; missing: no category",
}
_UNKNOWN = {"missing": "; anything else: as if missing", "zeros": "; anything else: no category"}


def declared(schema: Schema) -> Section:
    """List the facts of a table that were declared beforehand."""
    rows = [(name, *_column_words(column)) for name, column in schema.columns.items()]
    if isinstance(schema.target, Classes):
        rows.append((schema.target.name, "to be predicted", f"one of {', '.join(map(str, schema.target.labels))}"))
    elif isinstance(schema.target, Range):
        rows.append((schema.target.name, "to be predicted", f"{schema.target.low:,} to {schema.target.high:,}"))
    return Section(
        "What was declared beforehand",
        (
            f'The data set is named "{schema.name}", with at most {schema.rows_per_person} row(s) per person, '
            "which cannot be checked. Whoever signs below agrees that all of this is known without these records."
            + (f" Its source, as stated: {schema.source}." if schema.source else ""),
        ),
        table=Table("Columns of the table", ("column", "kind", "declared"), tuple(rows)),
    )


def _column_words(column: Column) -> tuple[str, str]:
    if isinstance(column, Number):
        words = f"{column.low:,} to {column.high:,}"
        if column.typical:
            words += f", typically {column.typical[0]:,} to {column.typical[1]:,}"
        words += ", on a logarithmic scale" if column.log else ""
        words += ", written with a decimal comma" if column.decimal == "," else ""
        return "number", words + _MISSING[column.missing] + _markers(column)
    if isinstance(column, Category):
        words = f"one of {len(column.categories)}: {', '.join(column.categories)}"
        return "category", words + _MISSING[column.missing] + _markers(column) + _UNKNOWN[column.unknown]
    if isinstance(column, Date):
        return "date", f"{column.first} to {column.last}" + _MISSING[column.missing] + _markers(column)
    return "not used", column.why


def _markers(column: Number | Category | Date) -> str:
    """Which cells stand for a missing value."""
    return f" (so is {', '.join(column.markers)})" if column.markers else ""


def measured(found: Evaluation, receipt: Receipt) -> list[Section]:
    """How good the model is: metrics, thresholds and subgroups with their intervals."""
    verify(found.receipt)
    about, rate = found.receipt.sections["dataset"]["name"], f"{100 * found.confidence:g}%"
    words = [
        f"Measured on {found.plan.n:,} records of the data set {about!r}, none of whom the model was fitted to; the "
        f"library cannot check that. Each {rate} interval covers the value in the population from which they were "
        "drawn independently, and accounts for sampling error and for the noise."
    ]
    if found.receipt != receipt:
        epsilon, delta = found.receipt.epsilon, found.receipt.delta
        words.append(
            f"This is another release, about other people: ({epsilon:.4g}, {delta:g}) in the sense of this page for "
            f"each of them. Its receipt, {found.receipt.sections['digest'][:16]}, is to be verified and filed as well."
        )
    rows = tuple(
        (name, _number(m.value), f"{_number(m.low)} to {_number(m.high)}") for name, m in found.metrics.items()
    )
    sections = [
        Section(
            "How good the model is", tuple(words), table=Table("Metrics", ("metric", "value", f"{rate} interval"), rows)
        )
    ]
    if found.thresholds:
        head = ("above", *(name.replace("_", " ") for name in found.thresholds[0]._fields[1:]))
        table = tuple((f"{row.at:g}", *map(_with_interval, row[1:])) for row in found.thresholds)
        label = "the second class" if found.label is None else repr(found.label)
        sections.append(
            Section(
                "Where to draw the line",
                (f"What becomes of the records if {label} is predicted above a threshold. Any may be chosen.",),
                table=Table("Thresholds", head, table),
            )
        )
    if found.subgroups:
        names = tuple(next(iter(found.subgroups.values())))
        table = tuple((group, *(_with_interval(m[name]) for name in names)) for group, m in found.subgroups.items())
        note = "The same metrics for the records of each subgroup. Long intervals say that little is known of it."
        sections.append(Section("In subgroups", (note,), table=Table("Subgroups", ("subgroup", *names), table)))
    return sections


def _with_interval(metric: Metric) -> str:
    return f"{_number(metric.value)} ({_number(metric.low)} to {_number(metric.high)})"


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "unknown"


def _accuracy(curve: Curve) -> Section:
    rows = [
        (f"{e:g}", f"{mean:.2%}", f"{min(draws):.2%} to {max(draws):.2%}")
        for e, mean, draws in zip(curve.epsilons, curve.means, curve.draws, strict=True)
    ]
    rows.append(("without privacy", f"{curve.reference:.2%}", ""))
    rows.append(("most frequent class", f"{curve.baseline:.2%}", ""))
    return Section(
        "Accuracy against epsilon",
        (
            f"{sum(map(len, curve.draws))} models were fitted to the same records to draw this, and one without "
            "privacy. Each is a separate release, and releases add up. Draw such a curve only for public records; "
            "for others publish one model, at a fixed budget. The promise above is about one of the models alone.",
        ),
        table=Table("Accuracy on records that took no part", ("epsilon", "mean", "range of the draws"), tuple(rows)),
    )
