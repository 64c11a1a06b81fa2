"""Ledgers under attack: writers killed at random moments and at every statement, and what a run costs.

python benchmarks/ledger.py --interleavings 10000
python benchmarks/ledger.py --interleavings 1000 --postgres postgresql://...
python benchmarks/ledger.py --statements
python benchmarks/ledger.py --speed
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from servers import emptied, server

import dpconvex as dc
from dpconvex.kernel.claims import Release, grid_of
from dpconvex.kernel.profiles import GDP
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.chain import Entry
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.filters import UNITS
from dpconvex.ledger.ledger import Ledger
from dpconvex.theorems import clipped_sum, computed_sum, gaussian

NAME = "trial 7"
PLAN = "0" * 64
ATTEMPTS = 5  # of each writer
FITS = 12  # so many runs fit into the budget


def claim_of(epsilon: float) -> Any:
    """A Gaussian claim, made without the algorithms: their compiled loops would make every fork slow."""
    moved = computed_sum(clipped_sum(0.5, "replace_one"), 100, 1)
    scale = moved.value / dc.Budget(epsilon, 1e-6).mu
    return gaussian(moved, Release("sum", "gaussian", scale, (1,), grid=grid_of(scale)))


def receipt_of(number: int) -> Receipt:
    """As much of a receipt as a ledger records."""
    plain = {"read_from_data": []}
    return Receipt({"digest": f"{number:064x}", "claim": {"epsilon": 0.5, "delta": 1e-6}, "outside": plain})


def forked(job: Callable[[], None]) -> int:
    """Do a job in a child."""
    if child := os.fork():
        return child
    try:
        job()
    finally:
        os._exit(0)


def write(ledger: Ledger, claim: Any, out: int, attempts: int = ATTEMPTS) -> None:
    """Run some times: reserve, release, commit. What happened goes into a pipe."""
    for _ in range(attempts):
        try:
            made = ledger.reserve(NAME, claim, plan=PLAN)
        except dc.errors.BudgetError:
            os.write(out, struct.pack("<cq", b"f", 0))
            return
        os.write(out, struct.pack("<cq", b"r", made.number))  # released: from here on somebody may know
        made.commit(receipt_of(made.number))
        os.write(out, struct.pack("<cq", b"c", made.number))


def read_all(pipe: int, told: Callable[[int], None] = lambda count: None) -> list[tuple[str, int]]:
    """What the writers said, until the last of them is gone; `told` hears how much there is so far."""
    said = b""
    while part := os.read(pipe, 65536):
        said += part
        told(len(said) // 9)
    return [(kind.decode(), number) for kind, number in struct.iter_unpack("<cq", said)]


def check(ledger: Ledger, said: list[tuple[str, int]]) -> Counter[str]:
    """Check what was released and committed against the ledger."""
    verify_ledger(ledger)
    entries = {e.number: e.body for e in ledger.entries()}
    reserved = {n: b for n, b in entries.items() if b["kind"] == "reserve"}
    committed = (
        {entries_run[b["run"]] for b in entries.values() if b["kind"] == "commit"}
        if (entries_run := {b["run"]: n for n, b in reserved.items()})
        else set()
    )
    released = {number for kind, number in said if kind == "r"}
    assert released <= reserved.keys(), "something was released that is not in the ledger"
    assert sum(reserved[n]["units"][0] for n in released) <= UNITS, "the budget was exceeded"
    assert {number for kind, number in said if kind == "c"} <= committed, "a committed entry was lost"
    return Counter(
        released=len(released),
        committed=len(committed),
        reserved=len(reserved),
        full=any(kind == "f" for kind, _ in said),
    )


def interleaving(ledger: Ledger, claim: Any, rng: random.Random, writers: int = 8) -> Counter[str]:
    """Let writers race, and kill some of them at random moments."""
    pipe, out = os.pipe()
    begin, beginning = os.pipe()

    def job() -> None:
        os.close(beginning)
        os.read(begin, 1)  # until the parent lets all of them go
        write(ledger, claim, out)

    children = [forked(job) for _ in range(writers)]
    for end in (out, begin, beginning):
        os.close(end)
    doomed = {child: rng.randrange(2 * FITS) for child in children if rng.random() < 0.6}

    def told(count: int) -> None:
        for child in [child for child, moment in doomed.items() if moment <= count]:
            del doomed[child]
            time.sleep(rng.uniform(0.0, 0.002))
            os.kill(child, signal.SIGKILL)  # it is not reaped yet, so the number is still its own

    told(0)
    said = read_all(pipe, told)
    os.close(pipe)
    killed = sum(os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in children)
    return check(ledger, said) + Counter(killed=killed, interleavings=1)


def interleavings(count: int, make: Callable[[int], Ledger], seed: int = 0) -> Counter[str]:
    """Many races, each on a ledger of its own."""
    rng, total = random.Random(seed), Counter[str]()
    claim = claim_of(1.0)
    for number in range(count):
        ledger = make(number)
        ledger.declare(NAME, budget=budget_for(claim))
        total += interleaving(ledger, claim, rng)
        ledger.store.close()
    return total


def budget_for(claim: Any) -> dc.Budget:
    """A budget into which the claim fits so many times."""
    mu = claim.profile.mu * (FITS + 0.5) ** 0.5
    return dc.Budget(GDP(mu).epsilon(1e-6), 1e-6)


class Counting:
    """A connection that kills its process before, or after, a statement."""

    def __init__(self, connection: Any, at: int, after: bool) -> None:
        self._connection, self._left, self._after = connection, at, after

    def execute(self, *given: Any) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = self._connection.execute(*given)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def killed_at(ledger: Ledger, claim: Any, at: int, after: bool) -> tuple[bool, list[tuple[str, int]]]:
    """Kill a writer at a statement; whether it came that far, and what it said."""
    pipe, out = os.pipe()

    def job() -> None:
        opened = ledger.store._opened
        counting = Counting(opened(), at, after)
        ledger.store._opened = lambda: counting
        write(ledger, claim, out, attempts=2)

    child = forked(job)
    os.close(out)
    said = read_all(pipe)
    os.close(pipe)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1]), said


def at_every_statement(make: Callable[[int], Ledger]) -> Counter[str]:
    """Kill a writer before and after each statement of two runs; another writer goes on afterwards."""
    claim, total, number = claim_of(1.0), Counter[str](), 0
    for after in (False, True):
        at, killed = 1, True
        while killed:
            ledger = make(number := number + 1)
            ledger.declare(NAME, budget=budget_for(claim))
            killed, said = killed_at(ledger, claim, at, after)
            total += check(ledger, said) + Counter(killed=killed)
            before = ledger.remaining(NAME)
            ledger.reserve(NAME, claim, plan=PLAN).commit(receipt_of(1))
            assert ledger.remaining(NAME) < before
            verify_ledger(ledger)
            ledger.store.close()
            at += 1
    return total


def speed(folder: str, repeats: int = 200) -> dict[str, float]:
    """Milliseconds that a ledger adds to a run, beside those of one write to the disk; taken in turns."""
    ledger = Ledger.open(f"{folder}/speed.db")
    ledger.declare(NAME, budget=dc.Budget(100.0, 1e-6))
    problem = dc.Problem(dc.losses.Logistic())
    plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(0.05, 1e-6))
    X, y = np.ones((4, 2)), np.ones(4)
    file = os.open(f"{folder}/raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def under_ledger() -> None:
        with dc.context(ledger=ledger, dataset=NAME):
            plan.run(X, y)

    def on_disk() -> None:
        os.write(file, b"x" * 4096)
        os.fdatasync(file)

    jobs = {"with": under_ledger, "without": lambda: plan.run(X, y, dataset=os.urandom(8).hex()), "write": on_disk}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            begun = time.perf_counter()
            job()
            times[name].append(1e3 * (time.perf_counter() - begun))
    found = {name: statistics.median(each) for name, each in times.items()}
    begun = time.perf_counter()
    last: Entry = verify_ledger(ledger)
    seconds = time.perf_counter() - begun
    return {**found, "added": found["with"] - found["without"], "verify 1000": seconds / last.number * 1000}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interleavings", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--statements", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--postgres", action="store_true", help="on a server that is started for it")
    parser.add_argument("--folder", help="where SQLite files go; by default memory, where it is a file system")
    asked = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=asked.folder or memory))
        url = stack.enter_context(server()) if asked.postgres else ""

        def make(number: int) -> Ledger:
            if url:
                emptied(url)
                return Ledger.open(url)
            for old in Path(folder).glob("race*"):
                old.unlink()
            return Ledger.open(f"{folder}/race{number}.db")

        where = "PostgreSQL" if url else "SQLite"
        if asked.interleavings:
            print(f"{where}: {words(interleavings(asked.interleavings, make, asked.seed))}; every chain verifies")
        if asked.statements:
            print(f"{where}, killed at every statement: {words(at_every_statement(make))}; every chain verifies")
    if asked.speed:
        for place in (asked.folder or ".", *([memory] if memory else [])):
            with tempfile.TemporaryDirectory(dir=place) as folder:
                found = speed(folder)
            told = ", ".join(f"{name} {value:.2f}" for name, value in found.items() if "verify" not in name)
            print(f"{place}: ms {told}; 1,000 entries verify in {found['verify 1000']:.3f} s")


def words(total: Counter[str]) -> str:
    """Counts, in a line."""
    return ", ".join(f"{count} {name}" for name, count in total.items())


if __name__ == "__main__":
    main()
