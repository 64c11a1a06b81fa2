"""What happens to a ledger when something goes wrong: disks, files, clocks, versions, restores."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import BudgetError, LedgerError
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.ledger import Ledger
from dpconvex.report.ledger import ledger_report, show_dataset, show_ledger

X, Y = np.eye(2)[[0, 1] * 20], np.array([1.0, -1.0] * 20)


def plan_of(epsilon=0.1):
    problem = dc.Problem(dc.losses.Logistic())
    return dc.algorithms.MeanDirection().plan(problem, n=40, d=2, budget=dc.Budget(epsilon, 1e-6))


def run(ledger, epsilon=0.1):
    with dc.context(ledger=ledger, dataset="d"):
        return plan_of(epsilon).run(X, Y).receipt


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as found:
        yield Path(found)


@pytest.fixture
def ledger(folder):
    ledger = Ledger.open(folder / "budget.db")
    ledger.declare("d", budget=dc.Budget(1.0, 1e-6))
    return ledger


def run_on(ledger, made, most=500):
    for _ in range(most):
        made.append(run(ledger, 0.01))


def limited(path, pages):
    """The ledger in a file that may have so many pages, as on a disk that is full."""
    ledger = Ledger.open(path)
    ledger.store._opened().execute(f"PRAGMA max_page_count = {pages}")
    return ledger


def test_a_full_file_starts_no_run(ledger, folder):
    full = limited(folder / "budget.db", 1)  # not below what it has
    made = []
    with pytest.raises(LedgerError, match="the disk is full"):
        run_on(full, made)
    verify_ledger(ledger, made)
    entries = [entry.body for entry in ledger.entries()]
    reserved = sum(body["kind"] == "reserve" for body in entries)
    assert len(made) <= reserved <= len(made) + 1  # at most one was charged and not released
    run(ledger)  # another process, with room, goes on


def mounted(folder, size):
    """Mount a small disk in memory; whether that is allowed here."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return (
        shutil.which("mount") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def can_mount():
    with tempfile.TemporaryDirectory() as folder:
        return mounted(folder, "64k") and not subprocess.run(["umount", folder], check=True).returncode


if can_mount():  # elsewhere there is the full file

    def test_a_full_disk_starts_no_run(folder):
        disk = folder / "disk"
        disk.mkdir()
        assert mounted(disk, "256k")
        try:
            ledger, released = Ledger.open(disk / "budget.db"), []
            ledger.declare("d", budget=dc.Budget(5.0, 1e-6))
            with pytest.raises(LedgerError, match="cannot be used"):
                run_on(ledger, released)
            subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
            verify_ledger(ledger, released)  # nothing that was released is lost
            run(ledger)
            ledger.store.close()
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def as_nobody(job):
    """Do a job without the rights of root; its message, or none."""
    pipe, out = os.pipe()
    child = os.fork()
    if not child:
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            job()
            os.write(out, b"done")
        except LedgerError as error:
            os.write(out, str(error).encode())
        finally:
            os._exit(0)
    os.close(out)
    said = os.read(pipe, 65536).decode()
    os.close(pipe)
    os.waitpid(child, 0)
    return said


def test_a_file_that_may_only_be_read_starts_no_run(ledger, folder):
    run(ledger)
    ledger.store.close()
    folder.chmod(0o755)
    path = folder / "budget.db"
    path.chmod(0o444)
    said = as_nobody(lambda: run(Ledger.open(path)))
    assert "may not be written to" in said or "cannot be opened" in said
    path.chmod(0o600)
    run(Ledger.open(path))
    verify_ledger(ledger)


def test_a_damaged_page_is_refused_and_a_backup_goes_on(ledger, folder):
    run(ledger)
    copy, path = folder / "copy.db", folder / "budget.db"
    ledger.backup(copy)
    late = run(ledger)
    ledger.store.close()
    content = bytearray(path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    for start in range(page, len(content), page):
        content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"damaged|altered|not a ledger"):
        run(Ledger.open(path))
    restored = Ledger.open(copy)
    verify_ledger(restored)
    with pytest.raises(LedgerError, match="put back to an older copy"):
        verify_ledger(restored, [late])


def test_two_processes_race_for_the_last_of_the_budget(ledger):
    for _ in range(3):
        ledger.declare(name := f"race {os.urandom(4).hex()}", budget=dc.Budget(1.0, 1e-6))
        claim, children = plan_of(0.8).claim, []
        for _ in range(2):
            if not (child := os.fork()):
                try:
                    ledger.reserve(name, claim, plan="0" * 64)
                    os._exit(1)
                except BudgetError:
                    os._exit(0)
                finally:
                    os._exit(9)
            children.append(child)
        assert sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children) == [0, 1]
    verify_ledger(ledger)


def test_entries_of_another_version_of_the_library_go_on(ledger, monkeypatch):
    """Entries name the version that made them; what they mean is fixed by the format of the ledger."""
    monkeypatch.setattr("dpconvex.ledger.chain.VERSION", "0.9.9")
    run(ledger)
    monkeypatch.undo()
    run(ledger)
    assert {entry.body["library"] for entry in ledger.entries()} == {"0.9.9", dc.__version__}
    verify_ledger(ledger)


def test_fields_of_a_later_version_are_kept(ledger):
    """An entry may say more than this version knows: it is chained, and nothing is read from what is unknown."""
    with ledger.store.transaction() as execute:
        ledger._append(execute, "approve", "ada", {
            "dataset": "d", "plan": "0" * 64, "times": 1, "note": "", "later": {"more": [1, 2.5, None]},
        }, dataset="d", plan="0" * 64)  # fmt: skip
    run(ledger)
    verify_ledger(ledger)


def test_an_officer_sees_what_failed_and_what_was_read(ledger, folder):
    def broken(port):
        raise KeyboardInterrupt

    from dpconvex.plan.run import Run

    with dc.context(ledger=ledger), pytest.raises(KeyboardInterrupt):
        Run(plan_of(), "d").once(broken)
    with dc.context(ledger=ledger, dataset="d"):
        plan_of().run(X, Y, undeclared=["feature_bound"])
    assert "        1             1  -" in show_ledger(ledger)
    timeline = show_dataset(ledger, "D")
    assert "nothing (under way, failed or interrupted)" in timeline
    assert "read without privacy: feature_bound" in timeline
    ledger_report(folder / "page.html", ledger, title="<b>")
    page = (folder / "page.html").read_text()
    assert "read from the data: feature_bound" in page
    assert "<b>" not in page
    assert "1 of 2 runs released nothing, and stay charged" in page


def test_a_ledger_without_declarations_says_what_to_do(folder):
    assert "Nothing is declared" in show_ledger(Ledger.open(folder / "empty.db"))


def test_a_thousand_entries_are_checked_quickly(ledger):
    import time

    claim = plan_of(0.001).claim
    ledger.declare("many", budget=dc.Budget(5.0, 1e-6))
    for _ in range(997):
        ledger.reserve("many", claim, plan="0" * 64)
    begun = time.process_time()
    assert verify_ledger(ledger).number == 1000
    assert time.process_time() - begun < 2.0
