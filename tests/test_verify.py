import copy
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rfc8785

import dpconvex as dc
from dpconvex.canonical import digest, portable
from dpconvex.errors import VerificationError
from dpconvex.kernel.claims import THEOREMS
from dpconvex.kernel.receipt import SECTIONS, encode, sealed
from dpconvex.verify import Verdict


@pytest.fixture(params=["last iterate", "every iterate"])
def receipt(request, small):
    problem = dc.Problem(dc.losses.Logistic(cap=0.75), domain=dc.domains.L2Ball(4.0), l2=0.5, intercept=0.5)
    algorithm = dc.algorithms.PhasedSGD(phases=3, release=request.param)
    plan = algorithm.plan(problem, n=60, d=3, budget=dc.Budget(1.0, 1e-6))
    return plan.run(*small, dataset="receipts").receipt


def leaves(plain, path=()):
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from leaves(value, (*path, key))
    elif isinstance(plain, list):
        yield path, plain
        for i, value in enumerate(plain):
            yield from leaves(value, (*path, i))
    else:
        yield path, plain


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 1e-6
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    return 1


def with_change(data, path, value):
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


def test_verifies_after_a_round_trip(receipt, tmp_path):
    assert dc.verify(receipt)
    again = dc.Receipt.from_json(receipt.to_json())
    assert again == receipt
    assert dc.verify(again)
    receipt.save(tmp_path / "receipt.json")
    assert dc.verify(dc.Receipt.from_json((tmp_path / "receipt.json").read_text()))


def test_every_altered_field_fails(receipt):
    paths = list(leaves(receipt.data))
    assert len(paths) > 100
    for path, value in paths:
        with pytest.raises(VerificationError):
            dc.verify(dc.Receipt(with_change(receipt.data, path, altered(value))))


def test_every_missing_field_fails(receipt):
    for key in receipt.data:
        with pytest.raises(VerificationError):
            dc.verify(dc.Receipt({k: v for k, v in receipt.data.items() if k != key}))


def test_every_field_fails_even_with_fresh_digests(receipt):
    """Whoever recomputes the digests still has to state what the algorithm plans, of which one number fixes another."""
    words = {("dataset", name) for name in ("name", "declared", "stream")} | {("engine",), ("plan", "library")}
    words |= {("released",), ("digest",), ("plan", "digest"), ("outside", "read_from_data")}
    words |= {("arithmetic", "trusted_loops")}  # what a run adds to its plan
    words |= {("plan", "algorithm")}  # options: several may lead to one plan
    checked = 0
    for path, value in leaves(receipt.data):
        if path[:2] in words or path[:1] in words:
            continue
        with pytest.raises(VerificationError):
            dc.verify(sealed(with_change(receipt.data, path, altered(value))))
        checked += 1
    assert checked > 100
    for option, value in {
        "phases": 2,
        "step": 0.1,
        "ratio": 0.4,
        "growing": False,
        "layout": "even",
        "steps": 3,
    }.items():
        with pytest.raises(VerificationError):
            dc.verify(sealed(with_change(receipt.data, ("plan", "algorithm", option), value)))
    elsewhere = dc.verify(sealed(with_change(receipt.data, ("plan", "algorithm", "name"), "OfAnotherPackage")))
    assert elsewhere is Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("algorithm", "fields"),
    [
        (dc.algorithms.PhasedSGD(shuffle="secret"), {"n": 600}),
        (dc.algorithms.TruncatedMirrorDescent(shuffle=True), {"n": 600}),
        (dc.algorithms.TruncatedMirrorDescent(batches=2), {"d": 2}),
        (dc.algorithms.MirrorDescent(noise="generalised"), {"d": 8}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_claim_about_other_records_or_weights_fails(algorithm, fields, rng):
    """What hides among more records, or is spread over fewer weights, needs less noise."""
    problem, size = dc.Problem(dc.losses.Logistic()), {"n": 60, "d": 9}
    X = rng.normal(size=(60, 9))
    plan = algorithm.plan(problem, **size, budget=dc.Budget(1.0, 1e-6))
    told = plan.run(X, np.sign(X[:, 0]), dataset="claims of others").receipt
    assert dc.verify(told)
    other = algorithm.plan(problem, **{**size, **fields}, budget=dc.Budget(1.0, 1e-6)).claim
    data = copy.deepcopy(told.data)
    data["claim"] |= {"profile": other.profile.to_json(), "epsilon": other.epsilon(1e-6)}
    data["claim"]["derivation"] = json.loads(json.dumps(encode(other)))
    data["arithmetic"]["drawn"] = [release.name for release in other.releases]
    with pytest.raises(VerificationError, match="its plan makes another"):
        dc.verify(sealed(data))


def test_a_budget_below_the_guarantee_fails(receipt):
    with pytest.raises(VerificationError, match=r"plan\.schedule"):
        dc.verify(sealed(with_change(receipt.data, ("plan", "budget", "epsilon"), 0.5)))


def test_rubbish_is_refused():
    for text in ("", "[]", "{}", json.dumps({"format": "other"}), "nonsense"):
        with pytest.raises(VerificationError):
            dc.Receipt.from_json(text)
    for data in ({}, *({"format": f"dpconvex-receipt/{k}", **more} for k in (1, 2, 3) for more in ({}, {"digest": 3}))):
        with pytest.raises(VerificationError):
            dc.verify(dc.Receipt(data))


def test_words(receipt, small):
    words = str(receipt)
    assert words.startswith("PRIVATE RELEASE")
    assert "one record among 60" in words
    assert "phase 1, phase 2, phase 3" in words


def test_a_seeded_run_says_not_private(small, small_plan):
    with pytest.warns(dc.errors.NotPrivateWarning):
        receipt = small_plan.run(*small, seed=1).receipt
    assert not receipt.private
    assert dc.verify(receipt)
    assert "NOT PRIVATE" in str(receipt)
    claimed = with_change(receipt.data, ("arithmetic", "private"), True)
    with pytest.raises(VerificationError, match="arithmetic"):
        dc.verify(sealed(claimed))


def test_receipts_hold_no_data(small, small_plan):
    X, y = small
    a = small_plan.run(X, y, dataset="a").receipt.data
    b = small_plan.run(-X, np.ones(60), dataset="b").receipt.data
    assert {k for k in a if a[k] != b[k]} == {"released", "digest", "dataset"}  # names of the weights, which are public


def test_a_fresh_process_can_verify(receipt, tmp_path):
    receipt.save(tmp_path / "receipt.json")
    code = "import sys, dpconvex as dc; dc.verify(dc.Receipt.from_json(open(sys.argv[1]).read()))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "receipt.json")], check=True)


def test_a_receipt_knows_its_weights(small, small_plan):
    solution = small_plan.run(*small, dataset="weights")
    assert solution.receipt.covers(solution.weights)
    assert not solution.receipt.covers(solution.weights[None])
    assert not solution.receipt.covers(np.nextafter(solution.weights, 1.0))


def test_the_verifier_names_no_theorem_and_no_algorithm():
    """A theorem brings its own check: what `verify` is about is receipts."""
    source = (Path(dc.__file__).parent / "verify.py").read_text()
    body = source.replace("fresh_run", "").replace("MeanDirection", "")  # of `add_up` and its example
    words = set(re.findall(r"\w+", body))
    assert not words & (set(THEOREMS) | set(dc.algorithms.REGISTRY) | {"Pomer", "PrivateSelection", "BlockedGibbs"})


FORMAT_1 = Path(__file__).parent / "format_1"  # a model and its receipt, made by the version before format 2


def test_receipts_of_format_1_load_and_are_said_to_be_consistent_not_more():
    receipt = dc.Receipt.from_json((FORMAT_1 / "receipt.json").read_text())
    assert dc.verify(receipt) is Verdict.CONSISTENT
    assert dc.verify(receipt).startswith("arithmetic consistent")
    assert not dc.verify(receipt)  # as a condition: this version did not plan it
    assert receipt.private
    assert receipt.epsilon <= 1.0
    assert "one record among 200" in str(receipt)
    model = dc.load(FORMAT_1 / "model.json")
    assert model.receipt_ == receipt
    assert receipt.covers(model.weights_)
    assert list(model.predict(np.eye(3))) == list(model.predict(np.eye(3)))
    for path, value in leaves(receipt.data):
        with pytest.raises(VerificationError):
            dc.verify(dc.Receipt(with_change(receipt.data, path, altered(value))))


def test_an_altered_model_of_format_1_is_refused(tmp_path):
    data = json.loads((FORMAT_1 / "model.json").read_text())
    for change in ({"public": {"classes_": ["well", "ill"]}}, {"weights": [0.0] * 4}, {"format": "dpconvex-model/2"}):
        (tmp_path / "model.json").write_text(json.dumps({**data, **change}))
        with pytest.raises(VerificationError):
            dc.load(tmp_path / "model.json")


def test_a_receipt_has_the_sections_of_its_format(receipt):
    assert set(receipt.data) == set(SECTIONS)
    assert dc.verify(receipt) is Verdict.PROVED
    with pytest.raises(VerificationError, match="sections"):
        dc.verify(sealed({**receipt.data, "endorsed": "by everybody"}))


def test_digests_are_those_of_canonical_json(receipt):
    """Whoever reads the text and writes it in canonical form, in any language, gets the same digest."""
    body = {k: v for k, v in receipt.data.items() if k not in ("digest", "signature")}
    assert hashlib.sha256(rfc8785.dumps(body)).hexdigest() == receipt.data["digest"]
    again = dc.Receipt.from_json(rfc8785.dumps(receipt.data).decode())  # 1.0 is written as 1 there
    assert dc.verify(again) is Verdict.PROVED


def test_numbers_that_not_every_reader_of_json_knows():
    assert portable({"a": [2**53, -(2**53), 2**53 - 1, True]}) == {"a": [str(2**53), str(-(2**53)), 2**53 - 1, True]}
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="canonical"):
            digest({"a": value})


def test_what_is_on_the_word_of_the_caller_stands_on_the_receipt(small):
    X, y = small
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[-1, 1], rows_per_person=3).fit(X, y)
    receipt = model.receipt_
    assert receipt.data["facts"]["caller"] == ["no person has more than 3 records"]
    assert "on the word of the caller: no person has more than 3 records" in str(receipt)
    with pytest.raises(VerificationError, match=r"facts\.caller"):
        dc.verify(sealed(with_change(receipt.data, ("facts", "caller"), [])))


def test_the_schedule_is_part_of_the_plan():
    problem, budget = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(4.0)), dc.Budget(1.0, 1e-6)
    plan = dc.algorithms.PhasedSGD(phases=3).plan(problem, n=60, d=3, budget=budget)
    later = dataclasses.replace(plan, schedule=plan.schedule[:-1])
    assert plan.to_json()["schedule"] != later.to_json()["schedule"]
    again = dc.algorithms.PhasedSGD(phases=3).plan(problem, n=60, d=3, budget=budget)
    assert plan.to_json() == again.to_json()
