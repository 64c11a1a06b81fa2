"""Attacks on claims and receipts: forged claims, hidden releases, swapped schedules, receipts that ask for a lot."""

import copy
import dataclasses
import json
import subprocess
import sys
import time
from collections import UserList, deque
from pathlib import Path

import mutations
import numpy as np
import pytest

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import DpconvexError, HypothesisError, InputError, ReleaseError, VerificationError
from dpconvex.kernel.claims import Derivation, Release
from dpconvex.kernel.receipt import encode, known_facts, sealed
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.theorems.schedules import Constant
from dpconvex.verify import Verdict

BUDGET = dc.Budget(1.0, 1e-6)
BALL = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(4.0))


@pytest.fixture(scope="module")
def records():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return X, np.sign(X[:, 0])


def told(algorithm, problem, records):
    plan = algorithm.plan(problem, n=60, d=2, budget=BUDGET)
    return plan, plan.run(*records, dataset=repr(algorithm)).receipt


def forged(receipt, claim, **public):
    """The receipt with another claim, consistent with itself and signed again."""
    data = copy.deepcopy(receipt.data)
    data["plan"] |= public
    data["claim"] |= {"profile": claim.profile.to_json(), "epsilon": claim.epsilon(1e-6)}
    data["claim"]["derivation"] = json.loads(json.dumps(encode(claim)))
    data["arithmetic"]["drawn"] = [release.name for release in claim.releases]
    data["facts"]["library"] = known_facts(claim)
    return sealed(data)


def sum_claim(name="sum"):
    return theorems.gaussian(theorems.clipped_sum(1.0, "replace_one"), Release(name, "gaussian", 4.0, (2,)))


# Claims that are not the plan's --------------------------------------------------------------------------------------


def test_the_claim_of_a_plan_for_many_more_records_is_refused(records):
    plan, receipt = told(dc.algorithms.PhasedSGD(), BALL, records)
    other = dc.algorithms.PhasedSGD(batch=10_000, step=0.1, phases=1).plan(BALL, n=900_000, d=2, budget=BUDGET)
    assert other.releases[0].scale < plan.releases[0].scale / 100
    with pytest.raises(VerificationError, match="its plan makes another"):
        dc.verify(forged(receipt, other.claim))


def test_a_claim_about_smaller_targets_is_refused(records):
    problem = dc.Problem(dc.losses.Squared(target=100.0))
    plan, receipt = told(dc.algorithms.MeanDirection(), problem, records)
    less = dataclasses.replace(plan.releases[0], scale=plan.releases[0].scale * 1e-5, grid=None)
    claim = theorems.gaussian(theorems.moment_sums(problem.row_bound(2), 1e-3, "replace_one", "cross"), less)
    with pytest.raises(VerificationError, match="its plan makes another"):
        dc.verify(forged(receipt, claim))


@pytest.mark.parametrize("n", [0.001, 1e9, True, "60", 0, -3, 2**60, None])
def test_n_and_d_are_whole_numbers_everywhere(n, records):
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(4.0), dc.bounds.Linf(1.0), l2=1.0)
    for stated in (problem.strong_convexity, lambda n: problem.smoothness(n, 2), lambda n: problem.facts(n, 2)):
        with pytest.raises(InputError, match="whole number"):
            stated(n)
    for stated in (problem.lipschitz, problem.row_bound, problem.diameter, lambda d: problem.facts(9, d)):
        with pytest.raises(InputError, match="whole number"):
            stated(n)
    with pytest.raises(InputError, match="whole number"):
        dc.algorithms.PhasedSGD().plan(problem, n=n, d=2, budget=BUDGET)
    _, receipt = told(dc.algorithms.PhasedSGD(), BALL, records)
    for name in ("n", "d"):
        data = copy.deepcopy(receipt.data)
        data["plan"][name] = n
        with pytest.raises(VerificationError):
            dc.verify(sealed(data))


def certified(ranges, about, weight=1.0, contracted=1.0):
    problem = dc.Problem(dc.losses.Logistic(), l2=1000.0)
    slope, bend = problem.lipschitz(2), problem.strong_convexity(1000)
    return theorems.certified_chain(
        [theorems.certified_erm(slope, bend, "replace_one", part, weight, 1e-6) for part in about],
        [theorems.certified_drift(1e-6, "replace_one")] * len(ranges),
        [theorems.proximal_contraction(bend, part, contracted) for part in about],
        [Release(f"phase {i}", "gaussian", 0.05, (2,)) for i in range(len(ranges))],
        ranges,
    )


def test_a_chain_takes_facts_about_its_own_phases_only():
    parts = [range(0, 990), range(990, 1000)]
    assert certified(parts, parts).profile.mu > 0.0
    for about in ([range(0, 1000)] * 2, parts[::-1]):
        with pytest.raises(HypothesisError, match="other records"):
            certified(parts, about)
    with pytest.raises(HypothesisError, match="'weight'"):
        certified(parts, parts, weight=100.0)
    facts = BALL.lipschitz(2), BALL.smoothness(100, 2), BALL.strong_convexity(100)
    step = theorems.stable_sgd(*facts, "replace_one", Constant(0.1, 50), "uniform")
    other = theorems.phase_contraction(*facts[1:], Constant(1.0, 50), "uniform")
    with pytest.raises(HypothesisError, match="'steps'"):
        theorems.noisy_contraction([step], [other], [Release("x", "gaussian", 1.0, (2,))], 1)


def test_a_problem_has_no_subclass_that_could_state_facts_of_its_own():
    with pytest.raises(TypeError, match="no subclasses"):
        type("Mild", (dc.Problem,), {"lipschitz": lambda self, d: state_fact(Kind.LIPSCHITZ, 1e-9, "trust me")})


# Derivations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, UserList, deque, lambda x: dict(enumerate(x)).values()])
def test_no_container_hides_a_release(kind):
    both = theorems.compose(kind([sum_claim("a"), sum_claim("b")]))
    assert [release.name for release in both.releases] == ["a", "b"]
    with pytest.raises(HypothesisError, match="occurs twice"):
        theorems.compose(kind([sum_claim(), sum_claim()]))
    with pytest.raises(HypothesisError, match="occurs twice"):
        theorems.compose([theorems.compose(kind([sum_claim()])), sum_claim()])


def test_arrays_of_claims_are_seen_through_and_other_containers_are_refused():
    pair = np.empty(2, dtype=object)
    pair[:] = [sum_claim("a"), sum_claim("b")]
    assert len(theorems.compose(pair).releases) == 2
    for hidden in (
        {"a": sum_claim()},
        {1, 2},
        iter([sum_claim()]),
        type("Own", (Release,), {})("r", "gaussian", 1.0, ()),
    ):
        with pytest.raises(HypothesisError, match="arguments are numbers"):
            theorems.compose([hidden])


def test_what_a_claim_was_derived_from_cannot_be_changed():
    facts = BALL.lipschitz(2), BALL.smoothness(100, 2), BALL.strong_convexity(100)
    steps = Constant(1.0, 50)
    phase = theorems.stable_sgd(*facts, "replace_one", steps, "uniform")
    shrink = theorems.phase_contraction(*facts[1:], steps, "uniform")
    releases = [Release(name, "gaussian", 10.0, (2,)) for name in "ab"]
    claim = theorems.noisy_contraction([phase, phase], [shrink, shrink], releases, 2)
    releases[0] = Release("a", "gaussian", 1e-9, (2,))
    assert [release.scale for release in claim.derivation.releases] == [10.0, 10.0]
    with pytest.raises(TypeError):
        claim.derivation.arguments["releases"] = tuple(releases)
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim.derivation.given = ()
    assert isinstance(claim.derivation, Derivation)
    assert copy.deepcopy(claim) == claim


def test_numbers_and_text_that_behave_otherwise_become_plain():
    class Sneaky(float):
        def __mul__(self, other):
            return 1e-9

    class Liar(str):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash("zero_out")

    assert theorems.clipped_sum(Sneaky(1.0), "replace_one").value == 2.0
    fact = theorems.clipped_sum(np.float32(0.5), Liar("zero_out"))
    assert (fact.value, fact.relation, type(fact.relation)) == (0.5, "zero_out", str)
    assert {type(value) for _, value in fact.derivation.given} == {float, str, int}
    with pytest.raises(InputError, match="relation"):
        theorems.clipped_sum(1.0, Liar("none"))


@pytest.mark.parametrize(
    "changed",
    [
        {"scale": True}, {"scale": "1"}, {"scale": -1.0}, {"scale": float("nan")}, {"scale": 1j}, {"scale": None},
        {"shape": (2.9,)}, {"shape": (-2,)}, {"shape": 2}, {"shape": (True,)}, {"shape": ("2",)},
        {"times": 10**300}, {"times": 1.0}, {"times": 0}, {"times": True},
        {"name": "a\nguarantee"}, {"name": 3}, {"law": "gaussian\x1b[2J"}, {"law": None},
    ],
    ids=repr,
)  # fmt: skip
def test_a_release_is_made_of_plain_numbers_and_text(changed):
    good = {"name": "r", "law": "gaussian", "scale": 1.0, "shape": (2,), "times": 1}
    made = Release(**{**good, "scale": np.float32(1.0), "shape": (np.int64(2),), "times": np.int32(1)})
    assert made == Release(**good)
    assert [type(v) for v in (made.scale, made.shape[0], made.times)] == [float, int, int]
    with pytest.raises(HypothesisError):
        Release(**{**good, **changed})


# Schedules and free text ---------------------------------------------------------------------------------------------


def test_a_schedule_cannot_be_swapped(records):
    plan = dc.algorithms.NoisyGD(clip=1e-3, steps=10, mean_share=0.0).plan(BALL, n=60, d=2, budget=BUDGET)
    steep = (dataclasses.replace(plan.schedule[0], clip=1e3),)
    with pytest.raises(ReleaseError, match="plan again"):
        dataclasses.replace(plan, schedule=steep).run(*records, dataset="swap")
    unsealed = dataclasses.replace(plan, schedule=steep, seal="")  # made by hand
    receipt = unsealed.run(*records, dataset="swap").receipt
    with pytest.raises(VerificationError, match=r"plan\.schedule"):
        dc.verify(receipt)
    assert dc.verify(plan.run(*records, dataset="swap").receipt) is Verdict.PROVED


@pytest.mark.parametrize("bad", ["a\nguarantee   (0.01, 1e-9)", "a\x1b[2J", "a\u202eb", "a\u2028b", "a\x00", "\ud800"])
def test_free_text_holds_no_control_characters(bad, records):
    plan, receipt = told(dc.algorithms.MeanDirection(), BALL, records)
    for run in (
        lambda: plan.run(*records, dataset=bad),
        lambda: plan.run(*records, undeclared=[bad]),
        lambda: dc.Schema({bad: dc.schema.Number(0, 1)}),
        lambda: dc.Schema({"a": dc.schema.Category(["x", bad])}),
        lambda: dc.Schema({"a": dc.schema.Number(0, 1)}, name=bad),
        lambda: dc.limit(BUDGET, bad),
        lambda: dc.context(dataset=bad).__enter__(),
        lambda: theorems.post_process(sum_claim(), bad),
    ):
        with pytest.raises(DpconvexError):
            run()
    for path in (("dataset", "name"), ("outside", "read_from_data", 0), ("engine", "machine"), ("plan", "library")):
        data = copy.deepcopy(receipt.data)
        data["outside"]["read_from_data"] = ["classes"]
        inner = mutations.at(data, path[:-1])
        inner[path[-1]] = bad
        with pytest.raises(VerificationError, match="control characters"):
            dc.verify(dc.Receipt(data))
        with pytest.raises(VerificationError, match="control characters"):
            dc.Receipt.from_json(json.dumps(data))


# Receipts that ask for a lot -----------------------------------------------------------------------------------------


def longer(receipt, length, other_version=False):
    """The receipt with all schedules and ranges of that length; of another version, to be proved, not planned."""
    data = copy.deepcopy(receipt.data)
    places = mutations.places(data["claim"]["derivation"])
    for node in [mutations.at(data["claim"]["derivation"], place) for place in places]:
        if isinstance(node, dict) and isinstance(node.get("schedule"), str) and "length" in node:
            node["length"] = length
        if isinstance(node, dict) and "range" in node:
            node["range"] = [0, length]
    data["plan"]["n"] = length
    if other_version:
        data["plan"]["library"] = "0.0.9"
    return sealed(data)


@pytest.mark.parametrize("other_version", [False, True])
@pytest.mark.parametrize("length", [10**7, 10**8, 10**9, 2**53 - 1])
def test_small_receipts_of_long_runs_are_refused_at_once(length, other_version, records):
    _, receipt = told(dc.algorithms.NoisySGD(), BALL, records)
    big = longer(receipt, length, other_version)
    start = time.process_time()
    with pytest.raises(VerificationError):
        dc.verify(big)
    assert time.process_time() - start < mutations.SLOWEST


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**5, '{"a":' * 10**5, "[1" + ",1" * 10**6 + "]", "1" * 10**5, "NaN", "[1e999]",
        '{"a": 1, "a": 2}', "\x00", '"' + "x" * (25 * 10**6) + '"', "[" * 70 + "]" * 70,
    ],
    ids=range(10),
)  # fmt: skip
def test_the_decoder_refuses_before_it_works(text, tmp_path):
    (tmp_path / "file.json").write_text(text)
    start = time.process_time()
    for read in (
        lambda: dc.Receipt.from_json(text),
        lambda: dc.load(tmp_path / "file.json"),
        lambda: dc.Schema.from_json(text),
        lambda: dc.Schema.load(tmp_path / "file.json"),
    ):
        with pytest.raises(DpconvexError):
            read()
    assert time.process_time() - start < 4 * mutations.SLOWEST


# Structural mutations ------------------------------------------------------------------------------------------------


def test_no_mutant_is_believed():
    """A slice of what `tests/mutations.py` attacks with."""
    found = mutations.attack(84, seed=1)
    assert [(name, outcome.wrong) for name, outcome in found if outcome.wrong] == []
    assert max(outcome.seconds for _, outcome in found) < mutations.SLOWEST
    assert sum(outcome.said == "refused" for _, outcome in found) > 50


def test_the_judge_of_mutants_can_fail(monkeypatch):
    """A verifier that believes everything is found out."""
    monkeypatch.setattr(dc, "verify", lambda receipt: Verdict.PROVED)
    receipt = {name: data for name, data in mutations.corpus().items() if name.startswith("MeanDirection")}
    assert any(outcome.wrong for _, outcome in mutations.attack(60, 0, receipt))


@pytest.mark.heavy
def test_no_mutant_of_ten_thousand_is_believed():
    script = Path(mutations.__file__)
    done = subprocess.run([sys.executable, script, "10000"], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
