"""The walls of the kernel: facts and claims cannot be made by accident."""

import ast
import copy
import dataclasses
from pathlib import Path

import pytest

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import THEOREMS, Claim, Derivation, Scope
from dpconvex.kernel.profiles import GDP
from dpconvex.problem.facts import Fact, Kind, state_fact

PACKAGE = Path(dc.__file__).parent
ROOT = PACKAGE.parent.parent


def test_a_fact_cannot_be_constructed():
    with pytest.raises(TypeError, match="not constructed"):
        Fact(Kind.LIPSCHITZ, 1.0, "because")
    with pytest.raises(TypeError, match="not constructed"):
        dataclasses.replace(state_fact(Kind.LIPSCHITZ, 1.0, "a test"), value=0.5)


def test_a_claim_cannot_be_constructed():
    with pytest.raises(TypeError, match="theorem"):
        Claim(GDP(0.1), "replace_one", Scope.LAST, 1, Derivation("gaussian", {}))


def test_a_claim_cannot_be_altered(small_plan):
    with pytest.raises(TypeError, match="theorem"):
        dataclasses.replace(small_plan.claim, profile=GDP(0.001))
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_plan.claim.profile = GDP(0.001)
    assert copy.deepcopy(small_plan.claim) == small_plan.claim


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_fact_is_finite_and_not_negative(value):
    with pytest.raises(HypothesisError):
        state_fact(Kind.LIPSCHITZ, value, "a test")


def names_used(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name


def test_only_problem_and_kernel_state_facts_and_only_theorems_make_claims():
    private = {"_TOKEN", "Guarantee", "Bounded", "concludes_claim", "concludes_fact"}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        used = set(names_used(path))
        if room not in ("kernel", "theorems"):
            assert not (used & (private - ({"_TOKEN"} if room == "problem" else set()))), path
        if room not in ("kernel", "theorems", "problem"):
            assert "state_fact" not in used, path


def test_every_theorem_and_algorithm_has_its_proof_note():
    notes = {p.stem for p in (ROOT / "docs" / "proofs").glob("*.md")}
    text = "\n".join(p.read_text() for p in (ROOT / "docs" / "proofs").glob("*.md"))
    kernel = [name for name, theorem in THEOREMS.items() if theorem.__module__.startswith("dpconvex.theorems.")]
    assert len(kernel) >= 20
    for name in kernel:
        assert getattr(theorems, name) is THEOREMS[name]
        assert name in notes or f"`{name}`" in text, name
    for module in dc.algorithms.REGISTRY.values():
        assert module.rpartition(".")[2] in notes


def test_the_kernel_can_be_read_in_one_sitting():
    assert sum(len(path.read_text().splitlines()) for path in (PACKAGE / "kernel").glob("*.py")) <= 1500


def test_every_theorem_lives_in_a_file_named_like_a_proof_note():
    notes = {path.stem for path in (ROOT / "docs" / "proofs").glob("*.md")}
    files = {path.stem for path in (PACKAGE / "theorems").glob("*.py")} - {"__init__", "schedules"}
    assert files <= notes
