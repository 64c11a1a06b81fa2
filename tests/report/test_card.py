"""The card of a model: its purpose, its guarantee, and how good it is, as a page and as Markdown."""

import copy
import json

import numpy as np
import pytest
from cli_helpers import dpconvex, refused

import dpconvex as dc
from dpconvex.errors import InputError, VerificationError
from dpconvex.report import ASKED, model_card

NASTY = "<script>alert('1')</script>|`*_[a](b)"
ANSWERS = {name: f"said about {name}" for name in ASKED}
COLUMNS = {NASTY: dc.schema.Number(0, 1), "ward": dc.schema.Category(["A", "B"])}


def table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return {NASTY: x, "ward": ["A", "B"] * (n // 2), "ill": np.where(x + rng.normal(size=n) > 0.5, "yes", "no")}


@pytest.fixture(scope="module")
def model():
    schema = dc.Schema(COLUMNS, target=dc.schema.Classes("ill", ["no", "yes"]), name="card, fit")
    return dc.PrivateLogisticRegression(schema=schema).fit(table(400, 0))


@pytest.fixture(scope="module")
def evaluation(model):
    return dc.evaluate(model, table(400, 1), budget=dc.Budget(4.0, 1e-6), dataset="card, others")


def front_of(markdown):
    """The front matter: every line is a key and a value that JSON, and so YAML, can read."""
    _, front, _ = markdown.split("---\n", 2)
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in front.splitlines())}


def test_the_page_says_all_of_it_and_runs_nothing(model, evaluation, tmp_path):
    model_card(model, ANSWERS, title=NASTY, evaluation=evaluation).save(tmp_path / "card.html")
    text = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "default-src 'none'" in text
    for words in (*ANSWERS.values(), "PRIVATE RELEASE", "Coefficients", "auc", "What was declared beforehand"):
        assert words in text
    assert "Signatures" not in text  # which the report has


def test_markdown_has_front_matter_and_shows_text_as_it_is(model, evaluation):
    text = model_card(model, ANSWERS, title=NASTY, evaluation=evaluation).to_markdown()
    front = front_of(text)
    assert front["library_name"] == "dpconvex"
    assert front["pipeline_tag"] == "tabular-classification"
    assert front["license"] == ANSWERS["license"]
    (result,) = front["model-index"][0]["results"]
    assert {metric["name"]: metric["value"] for metric in result["metrics"]} == {
        name: metric.value for name, metric in evaluation.metrics.items()
    }
    body = text.split("---\n", 2)[2].split("```text", 1)[0]
    assert NASTY not in body
    assert "<script>" not in body
    assert r"\|\`\*\_\[a\](b)" in body
    tables = [line for line in body.splitlines() if line.startswith("| ")]
    assert all(line.replace(r"\|", "").endswith(" |") for line in tables)


def test_a_regressor_without_schema_or_evaluation():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    model = dc.PrivateRidge(feature_bound=2.0, target_range=(-2, 2)).fit(X, X[:, 0])
    card = model_card(model, ANSWERS)
    assert front_of(card.to_markdown())["pipeline_tag"] == "tabular-regression"
    assert "model-index" not in front_of(card.to_markdown())
    assert "This was not measured." in str(card)
    assert "How good the model is" in card._repr_html_()


def test_what_only_people_know_is_asked_for(model, tmp_path):
    with pytest.raises(InputError, match=r"only a person knows: contact \(Who answers questions\)"):
        model_card(model, {**ANSWERS, "contact": "  "})
    with pytest.raises(InputError, match="a model card does not ask for 'budget'"):
        model_card(model, {**ANSWERS, "budget": "1"})
    with pytest.raises(InputError, match="without control characters"):
        model_card(model, {**ANSWERS, "contact": "a\nb"})
    with pytest.raises(InputError, match=r"ends in \.html or \.md"):
        model_card(model, ANSWERS).save(tmp_path / "card.pdf")
    with pytest.raises(InputError, match="takes a fitted model"):
        model_card(dc.PrivateLogisticRegression(), ANSWERS)
    with pytest.raises(InputError, match="evaluation must be"):
        model_card(model, ANSWERS, evaluation=0.9)


def test_models_that_protect_nobody_or_were_altered_get_none(model):
    seeded = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1], random_state=0)
    with pytest.warns(dc.errors.NotPrivateWarning):
        seeded.fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    with pytest.raises(InputError, match="protects nobody"):
        model_card(seeded, ANSWERS)
    forged = json.loads(model.receipt_.to_json())
    forged["claim"]["profile"]["mu"] /= 2
    altered = copy.copy(model)
    altered.receipt_ = dc.Receipt.from_json(json.dumps(forged))
    with pytest.raises(VerificationError):
        model_card(altered, ANSWERS)


def test_the_command_writes_both(clinic):
    fitted = dpconvex("fit", clinic.data, "--schema", clinic.schema, "--epsilon", 1, "-o", clinic.model)
    assert fitted.exit_code == 0
    answers = clinic.folder / "answers.json"
    answers.write_text(json.dumps(ANSWERS))
    for name in ("card.html", "card.md"):
        dpconvex("card", clinic.model, "--answers", answers, "-o", clinic.folder / name)
        assert "said about intended" in (clinic.folder / name).read_text().replace("\\_", "_")
    refused(dpconvex("card", clinic.model, "--answers", answers, "-o", clinic.folder / "card.md"), "--force")
    refused(dpconvex("card", clinic.model, "--answers", answers, "-o", clinic.folder / "card.txt"), ".html or .md")
