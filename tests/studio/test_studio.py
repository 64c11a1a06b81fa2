"""The studio over HTTP, in a process of its own: what it answers, and whom it refuses."""

import http.client
import json
import re
import socket
from contextlib import closing
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from studio_server import running

import dpconvex as dc
from dpconvex.studio import cost


class Visitor:
    """Somebody with a browser of few words: one host, a cookie, no redirects followed."""

    def __init__(self, address):
        self.at = urlsplit(address)
        self.cookie = None

    def ask(self, path, form=None, headers=None):
        sent = {"Cookie": self.cookie} if self.cookie else {}
        body = None if form is None else urlencode(form)
        with closing(http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=60)) as connection:
            connection.request("GET" if body is None else "POST", path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer, answer.read().decode()

    def enter(self):
        answer, _ = self.ask(f"/?{self.at.query}")
        assert answer.status == 303
        self.cookie = answer.getheader("Set-Cookie").partition(";")[0]
        return self


@pytest.fixture(scope="module")
def receipt():
    X = np.eye(3)[np.arange(300) % 3]
    return dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1]).fit(X, np.arange(300) % 2).receipt_


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("ledger") / "budget.db")
    ledger = dc.Ledger.open(url)
    ledger.declare("trial <7>", budget=dc.Budget(3.0, 1e-6), owner="Ada")
    with dc.context(ledger=ledger, dataset="trial <7>"):
        dc.PrivateLogisticRegression(epsilon=0.5, feature_bound=1.0, classes=[0, 1]).fit(
            np.eye(2)[[0, 1] * 50], [0, 1] * 50
        )
    with running("--ledger", url) as found:
        yield found


@pytest.fixture
def visitor(address):
    return Visitor(address).enter()


@pytest.mark.parametrize(
    "path", ["/", "/compare", "/schema", "/schema.json", "/verify", "/ledger", "/attacks", "/studio.js"]
)
def test_nothing_is_shown_without_the_token(address, path):
    stranger = Visitor(address)
    assert stranger.ask(path)[0].status == 403
    assert stranger.ask(f"{path}?token=guess")[0].status == 403
    stranger.cookie = f"dpconvex-studio-{stranger.at.port}=guess"
    assert stranger.ask(path)[0].status == 403


def test_other_hosts_and_other_sites_are_refused(visitor):
    assert visitor.ask("/", headers={"Host": f"evil.example:{visitor.at.port}"})[0].status == 421
    assert visitor.ask("/attack", {"name": "float64"}, {"Origin": "http://evil.example"})[0].status == 403


def test_it_listens_on_the_loopback_address_alone(address):
    at = urlsplit(address)
    with socket.socket() as elsewhere, pytest.raises(ConnectionRefusedError):
        elsewhere.connect(("127.0.0.2", at.port))


@pytest.mark.parametrize("path", ["/", "/compare", "/schema", "/verify", "/ledger", "/attacks"])
def test_pages_load_nothing_from_elsewhere(visitor, path):
    answer, page = visitor.ask(path)
    assert answer.status == 200
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    assert answer.getheader("Cache-Control") == "no-store"
    links = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    assert all(link.startswith(("/", "#", "data:,")) and not link.startswith("//") for link in links), links


def test_what_it_costs_is_what_recommend_says(visitor):
    form = {"n": "5000", "d": "12", "epsilon": "0.5", "relation": "zero_out", "auc_low": "0.5", "auc_high": "0.7"}
    page = visitor.ask("/?" + urlencode(form))[1]
    budget = dc.Budget(0.5, 1e-6, "zero_out")
    found = dc.recommend(n=5000, d=12, budget=budget, anchors={"auc": (0.5, 0.7)})
    assert f"AUC {found.scores[1].expected:.2f}" in page
    assert f"by {found.rows[0].name}" in page
    assert cost.answer(cost.read_question(form)).coin in page


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"n": "many"}, "the number of records must be a whole number"),
        ({"epsilon": "-1"}, "epsilon must lie between"),
        ({"epsilon": "nan"}, "epsilon must be a number"),
        ({"delta": "0"}, "delta = 0 asks for pure privacy"),
        ({"relation": "add_remove"}, "the relation must be one of"),
        ({"task": "poem"}, "what is predicted must be one of"),
        ({"task": "several", "classes": "1"}, "classes"),
        ({"prior": "100"}, "between 0 and 100 percent"),
        ({"auc_low": "0.9", "auc_high": "0.6"}, "anchors"),
        ({"n": "1"}, "n must be"),
    ],
)
def test_wrong_input_is_named_and_kept(visitor, form, words):
    answer, page = visitor.ask("/?" + urlencode(form))
    assert answer.status == 200
    alert = re.search(r'role="alert">(.*?)</p>', page, re.S).group(1)
    assert words in alert


def test_a_schema_is_written_by_forms_and_saved(visitor):
    assert "from a codebook" in visitor.ask("/schema")[1].lower()
    sent = {
        "do": "keep", "name": "clinic", "rows_per_person": "2", "source": "protocol", "target": "ill",
        "predicts": "classes", "classes": "no, yes", "name-0": "age <b>", "type-0": "number", "low-0": "18",
        "high-0": "110", "typical_low-0": "40", "typical_high-0": "80", "markers-0": "999", "name-1": "ward",
        "type-1": "category", "categories-1": "A, B", "name-2": "seen", "type-2": "date", "first-2": "2020-01-01",
        "last-2": "2024-12-31", "name-3": "id", "type-3": "ignore", "why-3": "a number of the record",
    }  # fmt: skip
    page = visitor.ask("/schema", sent)[1]
    assert "The schema is complete" in page
    assert "age &lt;b&gt;" in page
    assert "age <b>" not in page
    saved = dc.Schema.from_json(visitor.ask("/schema.json")[1])
    assert saved == dc.Schema(
        {
            "age <b>": dc.schema.Number(18, 110, typical=(40, 80), markers=("999",)),
            "ward": dc.schema.Category(["A", "B"]),
            "seen": dc.schema.Date("2020-01-01", "2024-12-31"),
            "id": dc.schema.Ignore("a number of the record"),
        },
        target=dc.schema.Classes("ill", ["no", "yes"]), rows_per_person=2, name="clinic", source="protocol",
    )  # fmt: skip
    asked = visitor.ask("/?n=5000&about=schema")[1]
    found = dc.recommend(saved, n=5000, budget=dc.Budget(1.0, 1e-6))
    assert f"AUC {found.scores[1].expected:.2f}" in asked
    assert "all the rows of one person" in asked
    visitor.ask("/schema", {"do": "empty"})
    assert "all the rows of one person" not in visitor.ask("/")[1]


def test_a_codebook_fills_a_schema(visitor):
    book = "name,type,range,categories\nage,number,18-100,\nward,category,,A|B|C\nill,category,,no|yes\n"
    page = visitor.ask("/schema", {"do": "codebook", "text": book, "target": "ill"})[1]
    assert "The schema is complete" in page
    assert "there are two columns" in visitor.ask("/schema", {"do": "keep", "name-0": "a", "name-1": "a"})[1]
    assert "a codebook needs a column" in visitor.ask("/schema", {"do": "codebook", "text": "x\n1"})[1]
    visitor.ask("/schema", {"do": "empty"})


def test_a_receipt_is_checked_and_a_forged_one_refused(visitor, receipt):
    page = visitor.ask("/verify", {"release": receipt.to_json()})[1]
    assert "PRIVATE RELEASE" in page
    assert "this plan makes this claim" in page
    forged = json.loads(receipt.to_json())
    forged["claim"]["epsilon"] = 0.01
    page = visitor.ask("/verify", {"release": json.dumps(forged)})[1]
    assert "Refused:" in page
    assert "PRIVATE RELEASE" not in page
    for text in ("", "{}", "[1", "\x00", '{"format": "dpconvex-model/2"}'):
        assert "Refused:" in visitor.ask("/verify", {"release": text})[1]


def test_a_ledger_is_shown(visitor):
    page = visitor.ask("/ledger")[1]
    assert "trial &lt;7&gt;" in page
    assert "trial <7>" not in page
    assert "0.5 of 3 spent" in page
    assert "epsilon spent" in page


def test_an_attack_finds_what_the_gallery_finds(visitor):
    counts, again = [], {"again": "1"}
    for _ in range(3):
        _, text = visitor.ask("/attack", {"name": "lemma-4.6", **again})
        found = json.loads(text)
        counts.append(found["runs"])
        again = {}
    assert counts == [5000, 10_000, 15_000]
    assert [sum(side) for side in found["counts"]] == [15_000, 15_000]
    assert visitor.ask("/attack", {"name": "nothing"})[0].status == 400


def test_what_is_too_large_is_refused(visitor):
    assert visitor.ask("/verify", {"release": "x" * 26_000_000})[0].status == 413
