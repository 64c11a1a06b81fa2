"""The pages of the documentation keep what they promise."""

import re
from pathlib import Path
from runpy import run_path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def code(page, heading):
    """Lines of code in a section of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = (part for part in section if part.startswith(heading))
    return re.findall(r"^(?:>>>|\.\.\.) (.*)$", found, flags=re.MULTILINE)


@pytest.mark.parametrize(("heading", "least"), [("In Python", 15), ("On the command line", 9)])
def test_the_whole_way_takes_no_more_than_25_lines(heading, least):
    assert least <= len(code("guide/journey.md", heading)) <= 25


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^(guide/[a-z-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pages = {f"guide/{path.stem}" for path in (DOCS / "guide").glob("*.md")}
    assert pages == set(listed)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    links = run_path(str(DOCS / "links.py"))["broken"]
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "b.html").write_text('<p id="here"><a href="../a.html">back</a> <img src="lost.svg"></p>')
    (tmp_path / "a.html").write_text(
        '<a href="to/b.html#here">1</a> <a href="to/b.html#there">2</a> <a href="#top">3</a> <a href="https://x.y/z">4</a>'
    )
    assert links(tmp_path) == ["a.html: #top", "a.html: to/b.html#there", "to/b.html: lost.svg"]
