"""One way out of a run: who may charge, open a port and issue a receipt, and what stays charged."""

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import ReleaseError, RowError
from dpconvex.plan.run import Run

PACKAGE = Path(dc.__file__).parent
ONLY_HERE = {
    "issue": {"plan/run.py"},
    "charge": {"plan/run.py", "ledger/account.py"},  # the account itself charges streams, in `begin`
    "begin": {"plan/run.py"},
    "NoisePort": {"plan/run.py", "plan/port.py", "audit/whitebox.py"},  # parts of a run; noise without a run
}


@cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text())))


def called_in(name):
    """Files that import or define a function of that name, and call it."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        nodes = nodes_of(path)
        known = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        known |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        if name in known & calls:
            found.add(path.relative_to(PACKAGE).as_posix())
    return found


@pytest.mark.parametrize("name", ONLY_HERE)
def test_only_run_charges_opens_ports_and_issues_receipts(name):
    assert "plan/run.py" in called_in(name)
    assert called_in(name) <= ONLY_HERE[name]


@pytest.mark.parametrize("name", ["kernel.receipt", "ledger.account"])
def test_nobody_else_reaches_them_through_their_modules(name):
    """`receipt.issue(...)` or `account.charge(...)` would escape the test above."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                assert not (
                    isinstance(owner, ast.Name)
                    and owner.id in ("receipt", "receipts", "account", "accounts", "run")
                    and node.func.attr in ("issue", "charge")
                ), path


@pytest.fixture
def plan():
    problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    return dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=budget)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, MemoryError, ZeroDivisionError, ReleaseError])
def test_a_run_that_breaks_off_stays_charged(plan, failure):
    dataset = f"breaks off {failure.__name__}"

    def job(port):
        raise failure

    with pytest.raises(failure):
        Run(plan, dataset).once(job)
    assert len(dc.account(dataset).claims) == 1


def test_no_error_of_a_run_is_free(plan):
    with pytest.raises(RowError, match=r"rows of which one is wrong\. Nothing was released, and the run stays charged"):
        plan.refuse("rows of which one is wrong", dataset="wrong rows")
    assert len(dc.account("wrong rows").claims) == 1


def test_a_run_that_leaves_out_a_release_gives_nothing(plan):
    with pytest.raises(ReleaseError, match="never drawn"):
        Run(plan, "left out").once(lambda port: None)
    assert len(dc.account("left out").claims) == 1


def test_an_interrupt_inside_an_algorithm_leaves_the_run_charged(plan, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(plan.algorithm), "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan.run(np.ones((4, 2)), np.ones(4), dataset="interrupted inside")
    assert len(dc.account("interrupted inside").claims) == 1


def test_a_part_of_a_selection_is_one_that_was_planned(plan):
    run = Run(plan, "parts", choices=["candidate 1"])
    with pytest.raises(ReleaseError, match="not among the choices"):
        run.port.part("candidate 2", plan.claim, 1)
    with pytest.raises(ReleaseError, match="not planned below"):
        run.port.part("candidate 1", plan.claim, 1)
