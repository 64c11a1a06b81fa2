"""Write `api.md`, the reference, from the public names of the modules below: those in their `__all__`.

What is not listed here may change without notice. `conf.py` writes the page before the others are read.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

INTRODUCTION = """# Reference

By room, lowest first. A room imports only from the rooms above it on this page (`noise` and `kernel` not from each
other), and `make lint` checks that. Names directly in `dpconvex`, usually imported as `dc`, come first.
"""
# Heading, and the modules of `dpconvex` whose public names stand below it.
ROOMS = {
    "dpconvex": "",
    "problem: what is minimised": "problem.losses problem.domains problem.bounds problem.traits problem.facts",
    "geometry: norms and mirror maps": "problem.geometry",
    "noise: where randomness comes from": "noise",
    "kernel: what a guarantee is": "kernel.claims kernel.profiles",
    "theorems: why it holds": "theorems theorems.schedules",
    "data: where rows come from": "data.schema data.arrays",
    "sums: sums over rows": "sums.protocol sums.memory sums.accuracy sums.solver",
    "ledger: budgets over time": "ledger.account",
    "plan: before and after a run": "plan.plan plan.port plan.run plan.session plan.checkpoint plan.people",
    "games: online learning": "games games.learners games.lazy games.ranking games.losses games.streams games.steps "
    "games.potentials",
    "algorithms: how": "algorithms algorithms.base algorithms.attacks algorithms.walks",
    "queries: plans that fit nothing": "queries.curvature queries.evaluation",
    "verify: a plan made again": "verify",
    "chooser: which algorithm": "chooser.recommend chooser.tradeoff",
    "audit: attack every claim": "audit",
    "testing: contracts of the parts": "testing",
    "estimators: the scikit-learn face": "estimators.evaluate estimators.inference",
    "datasets: real tables with public schemas": "datasets",
    "report: receipts in words": "report",
    "errors and warnings": "errors",
}


def write(page: Path) -> None:
    """Write the page."""
    seen: set[int] = set()
    parts = [INTRODUCTION]
    for heading, modules in ROOMS.items():
        parts.append(f"## {heading}\n")
        for name in (f"dpconvex.{module}".rstrip(".") for module in modules.split(" ")):
            entries = [entry for public in public_names(name) if (entry := _entry(name, public, seen))]
            if " " in modules and entries:
                parts.append(f"### {name.removeprefix('dpconvex.')}\n")
            parts.append("```{eval-rst}\n" + "\n".join(entries) + "\n```\n" if entries else "")
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def public_names(module: str) -> list[str]:
    """Names that a module makes public: `__all__`, or of lazy modules what `dir` shows."""
    found = import_module(module)
    return list(getattr(found, "__all__", None) or dir(found))


def _entry(module: str, name: str, seen: set[int]) -> str:
    """Directive for one name; nothing for modules, plain values, and what stands further up already."""
    thing: Any = getattr(import_module(module), name)
    if id(thing) in seen or not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return ""
    seen.add(id(thing))
    if not inspect.isclass(thing):
        return f".. autofunction:: {module}.{name}"
    ours = [base for base in thing.__mro__ if base.__module__.startswith("dpconvex.")]
    members = dict.fromkeys(key for base in ours for key in vars(base) if _shown(base, key))
    lines = [f".. autoclass:: {module}.{name}"]
    return "\n".join([*lines, f"   :members: {', '.join(members)}"] if members else lines)


def _shown(owner: type, key: str) -> bool:
    """Whether an attribute is a documented method or property that the docstring of its class does not list."""
    value = vars(owner)[key]
    if key.startswith("_") or "_request" in key or key in getattr(owner, "_fields", ()):
        return False
    method = inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod)
    listed = re.search(rf"^{key}\b.* : ", inspect.getdoc(owner) or "", re.MULTILINE)
    return method and not listed and bool(inspect.getdoc(value))
