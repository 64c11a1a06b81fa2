"""The pages of the documentation keep what they promise."""

import re
from pathlib import Path

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
