"""`dpconvex algorithms`."""

from __future__ import annotations

import inspect
import typing

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpconvex import algorithms as room
from dpconvex.cli.options import working
from dpconvex.errors import DpconvexError
from dpconvex.kernel.budget import Budget
from dpconvex.plan.plan import Plan
from dpconvex.problem import losses
from dpconvex.problem.domains import Domain, Everywhere, L1Ball, L2Ball
from dpconvex.problem.problem import Problem

ROWS, FEATURES, EPSILON = 10_000, 10, 1.0
_ALL = [*(kind() for kind in typing.get_args(losses.Scalar)), losses.Softmax(3)]
LOSSES = {type(loss).__name__: loss for loss in _ALL if loss.traits.task}  # a loss without a task is for audits


@click.command()
def algorithms() -> None:
    """List the algorithms.

    The table is computed by planning: the losses that an algorithm supports, on an unbounded domain or only on a ball,
    and its number of passes over the rows. `auto` chooses the algorithm with the lowest expected loss, from public
    facts alone.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("name", "for", "passes", "what it does"):
        table.add_column(title, no_wrap=title == "name")
    with working("Planning with each algorithm"):
        for name in room.REGISTRY:
            words = (inspect.getdoc(getattr(room, name)) or "").partition("\n")[0]
            table.add_row(name, *facts(name), Text(words))
    Console(highlight=False).print(table)
    click.echo(f"\nPasses are for {ROWS:,} rows at epsilon {EPSILON:g}.")


def facts(name: str) -> tuple[str, str]:
    """Return the losses that an algorithm supports, and its number of passes over the rows, in words."""
    anywhere = _plans(name, Everywhere())
    bounded = {loss: plan for loss, plan in _plans(name, L2Ball(1.0)).items() if loss not in anywhere}
    sparse = {} if anywhere or bounded else _plans(name, L1Ball(1.0))
    words = ["all" if len(anywhere) == len(LOSSES) else ", ".join(anywhere)] if anywhere else []
    words += [f"on a ball {', '.join(bounded)}"] if bounded else []
    words += [f"on an l1 ball {', '.join(sparse)}"] if sparse else []
    plans = (*anywhere.values(), *bounded.values(), *sparse.values())
    return "; ".join(words), ", ".join(sorted({_passes(plan) for plan in plans}))


def _plans(name: str, domain: Domain) -> dict[str, Plan]:
    return {word: plan for word, loss in LOSSES.items() if (plan := plan_for(name, loss, domain))}


def plan_for(name: str, loss: losses.Loss, domain: Domain) -> Plan | None:
    """Plan a problem of ordinary size; None if the algorithm does not support it."""
    try:
        budget = Budget(EPSILON, 1e-6)
        plan: Plan = getattr(room, name)().plan(Problem(loss, domain), n=ROWS, d=FEATURES, budget=budget)
    except DpconvexError:
        return None
    return plan


def _passes(plan: Plan) -> str:
    """Number of passes over the rows; a solver reads them until its result is certified, and its plan says so."""
    if any(line.startswith("passes") for line in plan.algorithm.describe(plan)):
        return "a solve"
    return f"{plan.gradient_evaluations / plan.n:.3g}"
