"""The report of a release: a self-contained HTML file to be read, printed and signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from dpconvex.data.schema import Category, Classes, Column, Date, Number, Range, Schema
from dpconvex.errors import InputError
from dpconvex.kernel.receipt import Receipt
from dpconvex.report.picture import Curve, draw_accuracy, draw_belief
from dpconvex.report.words import Section, Table, explain


def report(
    path: str | Path,
    receipt: Receipt,
    *,
    title: str = "What this release promises",
    schema: Schema | None = None,
    curve: Curve | None = None,
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
        raise InputError(f"report takes a Receipt, got {type(receipt).__name__}")
    Path(path).write_text(_page(receipt, title, schema, curve), encoding="utf-8")


def _page(receipt: Receipt, title: str, schema: Schema | None, curve: Curve | None) -> str:
    statement = explain(receipt)
    sections = [
        write_section(section, draw_belief(statement.shift) if section.title.startswith("How much") else "")
        for section in statement.sections
    ]
    sections += [write_section(_accuracy(curve), draw_accuracy(curve))] if curve is not None else []
    sections += [write_section(_declared(schema))] if schema is not None else []
    return fill_page(
        {
            "title": title,
            "rating": "good" if statement.good else "bad",
            "status": statement.status,
            "summary": statement.summary,
            "agreed": "I have read what is promised and what is not, and agree that the declared facts are public.",
        },
        sections,
        f"<section>\n<h2>The receipt</h2>\n<pre>{escape(str(receipt))}</pre>\n<details>\n<summary>As JSON, which can "
        f"be saved and verified</summary>\n<pre>{escape(receipt.to_json())}</pre>\n</details>\n</section>",
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
    "refuse": "; never missing",
}
_UNKNOWN = {"refuse": "; nothing else", "zeros": "; anything else: no category"}


def _declared(schema: Schema) -> Section:
    rows = [(name, *_column_words(column)) for name, column in schema.columns.items()]
    if isinstance(schema.target, Classes):
        rows.append((schema.target.name, "to be predicted", f"one of {', '.join(map(str, schema.target.labels))}"))
    elif isinstance(schema.target, Range):
        rows.append((schema.target.name, "to be predicted", f"{schema.target.low:,} to {schema.target.high:,}"))
    return Section(
        "What was declared beforehand",
        (
            f'The data set is named "{schema.name}", with at most {schema.rows_per_person} row(s) per person, '
            "which cannot be checked. Whoever signs below agrees that all of this is known without these records.",
        ),
        table=Table("Columns of the table", ("column", "kind", "declared"), tuple(rows)),
    )


def _column_words(column: Column) -> tuple[str, str]:
    if isinstance(column, Number):
        words = f"{column.low:,} to {column.high:,}"
        if column.typical:
            words += f", typically {column.typical[0]:,} to {column.typical[1]:,}"
        return "number", words + (", on a logarithmic scale" if column.log else "") + _MISSING[column.missing]
    if isinstance(column, Category):
        words = f"one of {len(column.categories)}: {', '.join(column.categories)}"
        return "category", words + _MISSING[column.missing] + _UNKNOWN[column.unknown]
    if isinstance(column, Date):
        return "date", f"{column.first} to {column.last}" + _MISSING[column.missing]
    return "not used", column.why


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
