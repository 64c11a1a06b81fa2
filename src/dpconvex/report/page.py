"""The report of a release: one HTML file that needs nothing else, to be read, printed and signed."""

from __future__ import annotations

from html import escape
from pathlib import Path

from dpconvex.data.schema import Category, Classes, Column, Date, Number, Range, Schema
from dpconvex.errors import InputError
from dpconvex.kernel.receipt import Receipt
from dpconvex.report.picture import Curve, draw_accuracy, draw_belief
from dpconvex.report.words import Section, Table, explain

_STYLE = """
:root { --ground: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --good: #1a7f37; --bad: #cf222e }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --good: #3fb950; --bad: #ff7b72 }
}
body { background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; line-height: 1.25 } h2 { font-size: 1.15rem; margin-top: 2rem }
.status { border: 2px solid; border-radius: 6px; padding: .6rem .9rem; font-weight: 600 }
.good { color: var(--good) } .bad { color: var(--bad) }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line) }
td:last-child { overflow-wrap: anywhere }
thead th { color: var(--soft); font-weight: 600 } tbody th { font-weight: 400 }
figure { margin: 1rem 0 } svg { width: 100%; height: auto }
pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem }
.sign { width: 100% } .sign td { height: 2.6rem; width: 33% }
@page { margin: 18mm }
@media print {
  :root { --ground: #ffffff; --ink: #000000; --soft: #444444; --line: #999999; --good: #000000; --bad: #000000 }
  body { font-size: 10pt; margin: 0; max-width: none }
  figure, tr, li, .status, .sign { break-inside: avoid }
  h2, caption, thead { break-after: avoid }
  figure { max-width: 28rem }
  details { display: none }
}
"""


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
        Proved again first: a receipt that does not hold raises `VerificationError`, and nothing is written.
    title : str
        Heading of the page.
    schema : Schema, optional
        What was declared of the table, to be listed.
    curve : Curve, optional
        Accuracy against epsilon, to be drawn. Its numbers are releases of their own; the page says so.

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
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="status {"good" if statement.good else "bad"}">{escape(statement.status)}</p>',
        f"<p>{escape(statement.summary)}</p>",
    ]
    for section in statement.sections:
        picture = draw_belief(statement.shift) if section.title.startswith("How much") else ""
        parts.append(_section(section, picture))
    if curve is not None:
        parts.append(_section(_accuracy(curve), draw_accuracy(curve)))
    if schema is not None:
        parts.append(_section(_declared(schema)))
    parts += [_signatures(), _receipt(receipt)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n"
        "</html>\n"
    )


def _section(section: Section, picture: str = "") -> str:
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
    "flag": "; missing: the middle, and a mark",
    "category": "; missing: a category of its own",
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
            f'The data set is named "{schema.name}", with at most {schema.rows_per_person} row(s) of one person, '
            "which nothing can check. Whoever signs below agrees that all of this is known without these records.",
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
            "privacy. Each is a release of its own, and they add up. Draw it of records that are public; of others "
            "publish one model, at a budget fixed beforehand. The promise above is about one of the models alone.",
        ),
        table=Table("Accuracy on records that took no part", ("epsilon", "mean", "range of the draws"), tuple(rows)),
    )


def _signatures() -> str:
    rows = "\n".join("<tr><td></td><td></td><td></td></tr>" for _ in range(3))
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("Name and role", "Date", "Signature"))
    return (
        "<section>\n<h2>Signed</h2>\n<p>I have read what is promised and what is not, and agree that what was declared "
        'is public.</p>\n<table class="sign">\n<caption>Signatures</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</section>"
    )


def _receipt(receipt: Receipt) -> str:
    return (
        f"<section>\n<h2>The receipt</h2>\n<pre>{escape(str(receipt))}</pre>\n"
        "<details>\n<summary>As JSON: saved as a file, it can be verified</summary>\n"
        f"<pre>{escape(receipt.to_json())}</pre>\n</details>\n</section>"
    )
