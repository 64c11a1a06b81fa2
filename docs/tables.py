"""Write the tables of algorithms in the documentation from what the algorithms declare: `python docs/tables.py`.

A table stands between the lines `<!-- algorithms: ... -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from dpconvex import algorithms

PAGES = Path(__file__).parent
TABLES = ("algorithms/index.md",)
PLACE = re.compile(r"(<!-- algorithms: [^\n]* -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    """One row per algorithm of the package, with a link to its page."""
    rows = ["| algorithm | for | passes |", "|---|---|---|"]
    for name, module in algorithms.REGISTRY.items():
        algorithm = algorithms.get(name)
        page = f"{module.rpartition('.')[2]}.md"
        rows.append(f"| [{name}]({page}) | {algorithm.suits} | {algorithm.reads} |")
    return "\n".join(rows) + "\n"


def written(text: str) -> str:
    """The page with its table as it should be."""
    return PLACE.sub(lambda place: place[1] + table() + place[2], text)


if __name__ == "__main__":
    for name in TABLES:
        path = PAGES / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
