"""The table of the papers: every statement has a row, every call gives what the page says, links lead somewhere."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"
VERDICTS = ("as printed", "corrected", "false", "quoted", "not here", "not proved here", "the listing's")
STATEMENTS = {  # what the papers number, but definitions and assumptions
    "Private FTRL": (
        "Algorithm 1, Lemma 2.4, Lemma 2.5, Lemma 5.2, Theorem 4.1, Corollary 4.2, Theorem 4.3, Theorem 4.4, "
        "Theorem 5.1, Proposition 5.3, Theorem 5.4, Theorem 5.5, Theorem A.1, Lemma A.2, Theorem A.3, Theorem A.4, "
        "Proposition B.1, Theorem B.2, Lemma C.1, Theorem C.2, Theorem D.1"
    ),
    "Private SCO": (
        "Algorithm 1, Algorithm 3, Algorithm 4, Algorithm 5, Algorithm 6, Algorithm 7, Theorem 1, Theorem 2, "
        "Theorem 3, Theorem 4, Theorem 5, Theorem 6, Theorem 7, Theorem 8, Theorem 9, Theorem 10, Theorem 11, "
        "Theorem 12, Theorem 13, Theorem 14, Theorem 15, Lemma 5, Lemma 6, Lemma 7, Lemma 8, Lemma 9, Lemma 10, "
        "Lemma 11, Lemma 12, Lemma 13, Lemma 14, Lemma 15, Lemma 16, Lemma 17, Lemma 18"
    ),
    "Optimal rates": (
        "Theorem 1.1, Lemma 2.6, Lemma 2.7, Proposition 2.9, Proposition 2.10, Theorem 2.13, Corollary 2.14, "
        "Algorithm 1, Theorem 3.1, Theorem 3.2, Theorem 3.4, Theorem 3.5, Theorem 3.6, Corollary 3.7, Lemma 4.2, "
        "Lemma 4.3, Algorithm 2, Theorem 4.4, Lemma 4.5, Lemma 4.6, Algorithm 3, Lemma 4.7, Theorem 4.8, Theorem "
        "5.1, Lemma 5.2, Theorem 5.3, Theorem 5.4"
    ),
    "Private and lazy": (
        "Algorithm 1, Lemma 2.2, Lemma 2.3, Lemma 3.2, Lemma 3.3, Lemma 3.5, Lemma 3.6, Theorem 4.1, Lemma 4.2, "
        "Theorem 4.3, Theorem 4.4, Theorem 4.5, Lemma 4.6, Lemma 4.7, Lemma 4.8, Claim 4.9, Lemma A.1, Lemma A.2, "
        "Lemma B.1, Lemma B.2, Lemma B.3, Lemma B.4, Claim C.2, Claim C.3, Lemma C.4"
    ),
    "Online-to-batch": (
        "Theorem 1, Algorithm 1, Remark 2, Theorem 3, Theorem 4, Remark 5, Theorem 6, Lemma 7, Theorem 8, Remark "
        "9, Theorem 10, Theorem 11, Remark 12"
    ),
}


def rows():
    """Title of the paper and cells of every row."""
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, *lines = section.splitlines()
        table = [line for line in lines if line.startswith("| ")]
        for line in table[1:]:
            yield title, *(cell.strip() for cell in line.strip("| ").split(" | "))


ROWS = list(rows())
CALLED = [row for row in ROWS if row[3] != "-"]


@pytest.fixture(scope="module")
def names():
    """The names that the page defines."""
    found = {}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8")):
        exec(example.source, found)
    return found


@pytest.mark.parametrize("row", CALLED, ids=[f"{row[0].split(' (')[0]}: {row[1]}" for row in CALLED])
def test_every_call_gives_what_the_page_says(row, names):
    call, gives = row[3].strip("`"), row[4].strip("`")
    assert row[3] == f"`{call}`"
    assert repr(eval(call, names)) == gives


def test_every_row_has_five_cells_a_verdict_and_a_call_or_a_reason():
    assert len(ROWS) > 70
    for row in ROWS:
        assert len(row) == 6, row
        assert row[5].startswith(VERDICTS), row
        assert row[3] != "-" or row[4].startswith("not called: "), row


@pytest.mark.parametrize("paper", STATEMENTS)
def test_every_statement_has_a_row(paper):
    found = {label.strip() for title, labels, *_ in ROWS if title.startswith(paper) for label in labels.split(",")}
    assert set(STATEMENTS[paper].split(", ")) <= found


def test_links_lead_to_pages():
    links = re.findall(r"\]\(([^)#]+)", PAGE.read_text(encoding="utf-8"))
    assert len(links) > 40
    assert all((PAGE.parent / link).is_file() for link in links)
