"""The commands of a privacy officer: ledger, key, sign, registry, and what others say of them."""

import json
import re

import pytest
from cli_helpers import dpconvex, refused

from dpconvex.ledger.registry import ASKED


@pytest.fixture
def officer(clinic, monkeypatch):
    """A clinic under a ledger."""
    monkeypatch.setenv("DPCONVEX_LEDGER", str(clinic.folder / "budget.db"))
    clinic.declare(name="clinic")
    done = dpconvex("ledger", "declare", "Clinic", "--epsilon", 2, "--owner", "Ada", "--expires", "2999-12-31")
    assert 'Declared "Clinic", with a budget of epsilon 2 at delta 1e-06.' in done.output
    return clinic


def fit(clinic, epsilon=1, *more):
    return dpconvex("fit", clinic.data, "--schema", clinic.schema, "--epsilon", epsilon, "-o", clinic.model, *more)


def test_what_is_left_after_a_fit_and_what_is_refused(officer):
    assert "Clinic    one record       2  1e-06      0     2" in dpconvex("ledger", "show").output
    done = fit(officer)
    assert re.search(r"one more release may take epsilon 1\.\d+ at most", done.stderr)
    shown = dpconvex("ledger", "show").output
    assert re.search(
        r"Clinic    one record       2  1e-06      1  1\.\d+         1             0  2999-12-31  Ada", shown
    )
    officer.model.unlink()
    refused(fit(officer, 1.9), "beyond its budget of (2, 1e-06)")
    assert not officer.model.exists()
    timeline = dpconvex("ledger", "show", "CLINIC").output
    assert "1 of epsilon 2 is spent" in timeline
    refused(dpconvex("ledger", "show", "other"), "not declared")


def test_the_ledger_checks_receipts_and_heads(officer):
    fit(officer)
    done = dpconvex("ledger", "verify", officer.model)
    assert "All 4 entries follow" in done.output
    head = done.output.split("--head ")[1].strip()
    assert dpconvex("ledger", "verify", "--head", head).exit_code == 0
    refused(dpconvex("ledger", "verify", "--head", "4:" + "0" * 64), "another", code=1)
    refused(dpconvex("ledger", "verify", "--head", "4"), "NUMBER:HASH")
    copy = officer.folder / "copy.db"
    dpconvex("ledger", "backup", copy)
    assert dpconvex("ledger", "verify", "--ledger", copy, officer.model).exit_code == 0
    refused(dpconvex("ledger", "backup", copy), "exists")


def test_a_plan_is_approved_and_run_once(officer):
    plan = officer.folder / "plan.json"
    dpconvex("ledger", "declare", "strict", "--epsilon", 3, "--approval")
    officer.declare(name="strict")
    refused(fit(officer), "was not approved")
    common = ("--schema", officer.schema, "--rows", 600, "--epsilon", 1)
    assert dpconvex("plan", *common, "-o", plan).exit_code == 0
    refused(dpconvex("plan", *common, "-o", plan), "--force")
    done = dpconvex("ledger", "approve", plan, "--dataset", "strict", "--by", "Ada", "--note", "for the paper")
    assert 'for 1 run(s) on "strict", by Ada' in done.output
    assert fit(officer).exit_code == 0
    assert "Ada" in dpconvex("ledger", "show", "strict").output
    refused(fit(officer, 1, "--force"), "its 1 approved runs were made")
    plan.write_text("[]")
    refused(dpconvex("ledger", "approve", plan, "--dataset", "strict", "--by", "Ada"), "not a plan")


def test_the_report_is_a_page_that_says_what_is_left(officer):
    fit(officer)
    page = officer.folder / "page.html"
    assert dpconvex("ledger", "report", "-o", page).exit_code == 0
    text = page.read_text()
    for words in ("No budget of 1 is exceeded", "accountable: Ada", "Not protected", "Clinic"):
        assert words in text
    assert "<script" not in text
    refused(dpconvex("ledger", "report", "-o", page), "--force")


def test_signatures_and_trust(officer):
    fit(officer)
    trusted = officer.folder / "trusted"
    trusted.mkdir()
    assert "to be kept secret" in dpconvex("key", officer.folder / "ada").output
    refused(dpconvex("key", officer.folder / "ada"), "exists")
    verify = ("verify", officer.model, "--trust", trusted)
    assert "not signed" in dpconvex(*verify).stderr
    assert dpconvex("sign", officer.model, "--key", officer.folder / "ada").exit_code == 0
    assert "not trusted here" in dpconvex(*verify).stderr
    (trusted / "ada.pub").write_text((officer.folder / "ada.pub").read_text())
    done = dpconvex(*verify)
    assert done.exit_code == 0
    assert "Signed by ada" in done.output
    text = officer.model.read_text()
    officer.model.write_text(text.replace('"sig": "', '"sig": "A', 1))
    assert dpconvex(*verify).exit_code == 1
    receipt = officer.folder / "receipt.json"
    receipt.write_text(json.dumps(json.loads(text)["receipt"]))
    assert "Signed by ada" in dpconvex("verify", receipt, "--trust", trusted).output
    assert dpconvex("sign", receipt, "--key", officer.folder / "ada").exit_code == 0
    refused(dpconvex("sign", receipt), "no key to sign with")


def test_a_record_for_the_registry(officer):
    fit(officer)
    answers = officer.folder / "answers.json"
    answers.write_text(json.dumps({name: f"said about {name}" for name in ASKED}))
    record = json.loads(dpconvex("registry", officer.model, "--answers", answers).stdout)["deployment"]
    assert record["privacy_loss"]["privacy_parameters"]["delta"] == 1e-6
    assert record["privacy_loss"]["privacy_unit"] == "Record-level"
    assert record["basic"]["data_curators"][0]["data_curator_name"] == "said about curator"
    assert "number of records" in record["dp_variant"]["unprotected_quantities"]
    assert "added up in the ledger" in record["implementation"]["composition"]
    answers.write_text(json.dumps({name: f"said about {name}" for name in list(ASKED)[1:]}))
    refused(dpconvex("registry", officer.model, "--answers", answers), "only a person knows: name")
    answers.write_text(json.dumps({"budget": "x"}))
    refused(dpconvex("registry", officer.model, "--answers", answers), "does not ask for 'budget'")


def test_a_ledger_is_named(clinic):
    refused(dpconvex("ledger", "show"), "--ledger")
    refused(dpconvex("ledger", "show", "--ledger", clinic.folder / "none.db"), "there is no ledger", code=1)
    refused(
        dpconvex("ledger", "declare", "a", "--epsilon", 1, "--unit", "x", "--ledger", clinic.folder / "b.db"), "--unit"
    )
