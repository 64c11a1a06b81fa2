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
LOSSES = [loss for loss in typing.get_args(losses.Loss) if loss is not losses.Linear]  # Linear is for audits


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
    anywhere = {loss.__name__: plan for loss in LOSSES if (plan := plan_for(name, loss, Everywhere()))}
    rest = [loss for loss in LOSSES if loss.__name__ not in anywhere]
    bounded = {loss.__name__: plan for loss in rest if (plan := plan_for(name, loss, L2Ball(1.0)))}
    sparse = {loss.__name__: plan for loss in LOSSES if (plan := plan_for(name, loss, L1Ball(1.0)))}
    sparse = {} if anywhere or bounded else sparse
    words = ["all" if len(anywhere) == len(LOSSES) else ", ".join(anywhere)] if anywhere else []
    words += [f"on a ball {', '.join(bounded)}"] if bounded else []
    words += [f"on an l1 ball {', '.join(sparse)}"] if sparse else []
    plans = (*anywhere.values(), *bounded.values(), *sparse.values())
    return "; ".join(words), ", ".join(sorted({_passes(plan) for plan in plans}))


def plan_for(name: str, loss: type, domain: Domain) -> Plan | None:
    """Plan a problem of ordinary size; None if the algorithm does not support it."""
    made = losses.Softmax(3) if loss is losses.Softmax else loss()
    try:
        budget = Budget(EPSILON, 1e-6)
        plan: Plan = getattr(room, name)().plan(Problem(made, domain), n=ROWS, d=FEATURES, budget=budget)
    except DpconvexError:
        return None
    return plan


def _passes(plan: Plan) -> str:
    """Number of passes over the rows; a solver reads them until its result is certified, and its plan says so."""
    if any(line.startswith("passes") for line in plan.algorithm.describe(plan)):
        return "a solve"
    return f"{plan.gradient_evaluations / plan.n:.3g}"
