"""The report: valid, self-contained, escaped, and as true as its receipt."""

import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import InputError, VerificationError
from dpconvex.report import Curve, report
from dpconvex.report.picture import draw_accuracy, draw_belief

VOID = {"meta", "br", "circle", "polyline", "polygon"}
NASTY = "<script>alert('1')</script>&\"'"


class Page(HTMLParser):
    """Every element with its attributes; fails where tags do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def model():
    schema = dc.Schema(
        {
            NASTY: dc.schema.Number(0, 1_000_000),
            "ward": dc.schema.Category(["A", NASTY]),
            "day": dc.schema.Date("2020-01-01", "2021-01-01"),
            "left": dc.schema.Ignore(NASTY),
        },
        target=dc.schema.Classes("ill", ["no", "yes"]),
        rows_per_person=2,
        name=NASTY,
    )
    n = 200
    frame = {
        NASTY: np.arange(n) * 100.0,
        "ward": ["A", NASTY] * (n // 2),
        "day": ["2020-02-02"] * n,
        "left": ["x"] * n,
    }
    return dc.PrivateLogisticRegression(schema=schema).fit(frame, ["no", "yes"] * (n // 2))


@pytest.fixture(scope="module")
def curve():
    return Curve((0.5, 1.0, 2.0), ((0.7, 0.75), (0.8, 0.81), (0.82, 0.82)), 0.85, 0.6, f"epsilon {NASTY}")


@pytest.fixture(scope="module")
def text(model, curve, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(path, model.receipt_, title=NASTY, schema=model.schema, curve=curve)
    return path.read_text(encoding="utf-8")


def test_the_page_is_whole_and_accessible(text):
    page = Page(text)
    assert text.startswith("<!doctype html>\n")
    assert page.all("html") == [{"lang": "en"}]
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    pictures = page.all("svg")
    assert len(pictures) == 2
    assert all(picture["role"] == "img" for picture in pictures)
    assert len(page.all("title")) == 1 + len(pictures)
    assert len(page.all("main")) == 1


def test_the_page_loads_and_runs_nothing(text):
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "a", "object", "base"} & {tag for tag, _ in page.elements}
    assert "default-src 'none'" in page.all("meta")[-1]["content"]
    attributes = [(key, value) for _, attrs in page.elements for key, value in attrs.items()]
    assert not any(key.startswith("on") or key in ("src", "href") for key, _ in attributes)
    assert set(re.findall(r"https?://[^\s\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    assert "@import" not in text


def test_what_comes_from_outside_is_escaped(text):
    assert "<script" not in text
    words = "".join(Page(text).text)
    assert words.count(NASTY) >= 6  # title, heading, column, category, reason, name, axis


def test_the_page_holds_the_receipt_it_is_about(text, model):
    inside = re.search(r"<details>.*?<pre>(.*?)</pre>", text, re.DOTALL)[1]
    again = dc.Receipt.from_json(html.unescape(inside))
    assert again == model.receipt_
    assert dc.verify(again)


def test_what_was_declared_is_listed(text):
    words = "".join(Page(text).text)
    for part in ("0 to 1,000,000", "2020-01-01 to 2021-01-01", "one of 2: A", "one of no, yes", "at most 2 row(s)"):
        assert part in words


def test_accuracies_stand_in_a_table_too(text):
    words = "".join(Page(text).text)
    assert "6 models were fitted to the same records" in words
    for part in ("72.50%", "70.00% to 75.00%", "85.00%", "60.00%"):
        assert part in words


def test_without_a_schema_or_a_curve(model, tmp_path):
    report(tmp_path / "report.html", model.receipt_)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(page.all("svg")) == 1
    assert "Accuracy against" not in "".join(page.text)


def test_nothing_is_written_for_a_receipt_that_does_not_hold(model, tmp_path):
    data = json.loads(model.receipt_.to_json())
    data["plan"]["n"] += 1
    with pytest.raises(VerificationError):
        report(tmp_path / "report.html", dc.Receipt(data))
    with pytest.raises(InputError, match="Receipt"):
        report(tmp_path / "report.html", model)
    assert not (tmp_path / "report.html").exists()


def test_a_seeded_run_is_marked(tmp_path):
    X = np.eye(2)[[0, 1] * 50]
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1], random_state=0).fit(X, [0, 1] * 50)
    report(tmp_path / "report.html", model.receipt_)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<p class="status bad">NOT PRIVATE' in text


# Pictures ------------------------------------------------------------------------------------------------------------


def numbers(points):
    return np.array([[float(v) for v in pair.split(",")] for pair in points.split()])


def test_points_are_where_they_belong(curve):
    page = Page(draw_accuracy(curve))
    circles = np.array([(float(c["cx"]), float(c["cy"])) for c in page.all("circle")])
    assert len(circles) == 3
    assert np.allclose(np.diff(circles[:, 0]), np.diff(circles[:, 0])[0], atol=0.11)  # budgets double
    lines = [numbers(line["points"]) for line in page.all("polyline")]
    levels = {line[0, 1] for line in lines if len(line) == 2 and line[0, 1] == line[1, 1]}
    band = numbers(page.all("polygon")[0]["points"])

    def height(accuracy):  # the axis, from two points that are known
        (y0, y1), (a0, a1) = circles[[0, 2], 1], (curve.means[0], curve.means[2])
        return y0 + (accuracy - a0) / (a1 - a0) * (y1 - y0)

    assert circles[1, 1] == pytest.approx(height(curve.means[1]), abs=0.15)
    for accuracy in (curve.reference, curve.baseline):
        assert min(abs(level - height(accuracy)) for level in levels) < 0.15
    expected = [height(v) for v in (0.75, 0.81, 0.82, 0.82, 0.8, 0.7)]
    assert np.allclose(band[:, 1], expected, atol=0.15)


@pytest.mark.parametrize(
    "curve",
    [
        Curve((1.0,), ((0.5,),), 0.5, 0.5),
        Curve((0.1, 10.0), ((0.0,), (1.0,)), 1.0, 0.0),
        Curve((1, 2), np.array([[0.9, 0.91], [0.9, 0.92]]).tolist(), 0.93, 0.9),
    ],
)
def test_odd_curves_are_drawn_within_the_frame(curve):
    page = Page(draw_accuracy(curve))
    for circle in page.all("circle"):
        assert 0 < float(circle["cx"]) < 640
        assert 0 < float(circle["cy"]) < 360
    assert ("one draw" in "".join(page.text)) == (len(curve.draws[0]) == 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ((), (), 0.5, 0.5),
        ((1.0,), (), 0.5, 0.5),
        ((1.0,), ((),), 0.5, 0.5),
        ((2.0, 1.0), ((0.5,), (0.5,)), 0.5, 0.5),
        ((0.0, 1.0), ((0.5,), (0.5,)), 0.5, 0.5),
        ((1.0, 1.0), ((0.5,), (0.5,)), 0.5, 0.5),
        ((1.0,), ((float("nan"),),), 0.5, 0.5),
        ((1.0,), ((0.5,),), 1.5, 0.5),
    ],
)
def test_curves_that_make_no_sense(arguments):
    with pytest.raises(InputError):
        Curve(*arguments)


@pytest.mark.parametrize("shift", [0.0, 1.0, 700.0])
def test_beliefs_are_drawn_within_the_frame(shift):
    band = numbers(Page(draw_belief(shift)).all("polygon")[0]["points"])
    assert band.min() >= 0
    assert band[:, 0].max() <= 640
    assert band[:, 1].max() <= 360


def test_the_page_says_how_good_the_model_is(model, tmp_path):
    n = 300
    others = {
        NASTY: np.arange(n) * 1000.0,
        "ward": ["A", NASTY, NASTY] * (n // 3),
        "day": ["2020-05-05"] * n,
        "left": ["x"] * n,
        "ill": ["no", "yes"] * (n // 2),
    }
    found = dc.evaluate(
        model, others, budget=dc.Budget(1.0, 1e-6), dataset=f"others {NASTY}", metrics=["accuracy", "recall"],
        thresholds=[0.3], subgroups="ward",
    )  # fmt: skip
    path = tmp_path / "report.html"
    for receipt in (model.receipt_, found.receipt):
        report(path, receipt, schema=model.schema, evaluation=found)
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        words = " ".join("".join(page.text).split())
        assert "<script" not in text
        for part in ("How good the model is", "Where to draw the line", "In subgroups", "95% interval", "0.3", NASTY):
            assert part in words, part
        assert ("This is another release" in words) == (receipt is model.receipt_)
        assert found.receipt.data["digest"][:16] in words
    assert "the metrics, intervals of any confidence, this page" in words
    with pytest.raises(InputError, match="must be an Evaluation"):
        report(path, model.receipt_, evaluation=found.to_dict())
