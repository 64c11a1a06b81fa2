"""How far a call wanders through the source: distinct functions, files, and changes of room.

A room is a folder under `src/dpconvex`; files beside the rooms, which any room may import, count as rooms in the last
column only. A change of room is a call of a function whose room is not that of the function called just before.
Everything is called once beforehand, under the name of another data set, so that imports, compilation and earlier
charges do not count; "charged before" is a fit whose account has to add up.

    python benchmarks/trace.py            # of the version that PYTHONPATH names
    python benchmarks/trace.py --pairs    # with the most frequent changes of room
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import dpconvex as dc

ROOT = Path(dc.__file__).parent
ROWS = 1000
COLUMNS = ("a", "b", "c")


def calls_of(job: Callable[[], Any]) -> list[CodeType]:
    """Functions of the library, in the order in which the job calls them."""
    called: list[CodeType] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/"):
            called.append(frame.f_code)

    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
    return called


def room(code: CodeType) -> str:
    """Name of the room that a function is in."""
    return Path(code.co_filename).relative_to(ROOT).parts[0]


def jobs(dataset: str) -> dict[str, Callable[[], Any]]:
    """The calls to trace, charged to that data set."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(ROWS, len(COLUMNS)))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    table = {name: X[:, j] for j, name in enumerate(COLUMNS)}

    def fit() -> Any:
        columns = {name: dc.schema.Number(-1.0, 1.0) for name in COLUMNS}
        schema = dc.Schema(columns, target=dc.schema.Classes("y", [-1.0, 1.0]), name=f"{dataset} table")
        return dc.PrivateLogisticRegression(schema=schema, delta=1e-6).fit(table, y)

    problem, budget = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Linf(1.0)), dc.Budget(1.0, 1e-6)
    plan = dc.choose(problem, n=ROWS, d=len(COLUMNS), budget=budget)
    return {"fit": fit, "fit, charged before": fit, "plan.run": lambda: plan.run(X, y, dataset=dataset)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Trace fit and plan.run through the rooms of the library.")
    parser.add_argument("--pairs", action="store_true", help="show the most frequent changes of room")
    pairs = parser.parse_args().pairs
    warnings.simplefilter("ignore")
    for job in jobs("beforehand").values():
        job()
    print(f"dpconvex in {ROOT}\n{'':24}{'functions':>10}{'files':>8}{'changes of room':>18}{'with files beside':>20}")
    for name, job in jobs("traced").items():
        called = calls_of(job)
        rooms = [room(code) for code in called]
        with_files = sum(a != b for a, b in pairwise(rooms))
        changes = Counter((a, b) for a, b in pairwise(r for r in rooms if not r.endswith(".py")) if a != b)
        files = {code.co_filename for code in called}
        print(f"{name:24}{len(set(called)):10}{len(files):8}{changes.total():18}{with_files:20}")
        if pairs:
            print(*(f"    {a} -> {b}: {times}" for (a, b), times in changes.most_common(10)), sep="\n")


if __name__ == "__main__":
    main()
