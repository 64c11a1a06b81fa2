"""`dpconvex ledger`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dpconvex.cli.files import check_output, read_text, writing
from dpconvex.cli.options import budget_options, existing, force_option, ledger_option, output
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.ledger import Ledger
from dpconvex.plain import read_json


@click.group(no_args_is_help=False)
def ledger() -> None:
    """Keep budgets, and say what is left of them."""


@ledger.command()
@click.argument("name")
@budget_options
@click.option("--unit", default="1", help="Records of a person that are protected together, or `person`: all rows.")
@click.option("--owner", default="", help="Who is accountable.")
@click.option("--expires", help="Last day on which runs are allowed, such as 2030-12-31.")
@click.option("--approval", is_flag=True, help="Allow approved plans only.")
@click.option("--form", type=click.Choice(["gdp", "zcdp", "rdp"]), default="gdp", help="How runs add up.")
@click.option("--by", help="Who declares it.  [default: the user]")
@ledger_option(required=True)
def declare(url: str, name: str, epsilon: float, delta: float, relation: str, unit: str, **options: Any) -> None:
    """Declare a data set and its budget, once and for all. The ledger is made if there is none."""
    budget = Budget(epsilon, delta, relation)
    if unit != PERSON and not unit.isdecimal():
        raise InputError(f"--unit must be a whole number or {PERSON!r}")
    Ledger.open(url).declare(name, budget=budget, unit=unit if unit == PERSON else int(unit), **options)
    click.echo(f'Declared "{name}", with a budget of epsilon {epsilon:g} at delta {delta:g}.')


@ledger.command()
@click.argument("plan_path", metavar="PLAN", type=existing)
@click.option("--dataset", required=True, help="The data set it may be run on.")
@click.option("--by", required=True, help="Who approves.")
@click.option("--times", type=click.IntRange(min=1), default=1, help="For how many runs.")
@click.option("--note", default="", help="Why.")
@ledger_option(required=True)
def approve(url: str, plan_path: Path, dataset: str, by: str, times: int, note: str) -> None:
    """Approve a plan, before any data is opened. `dpconvex plan -o` writes one."""
    plan = read_json(read_text(plan_path), plan_path.name, InputError)
    if not isinstance(plan, dict):
        raise InputError(f"{plan_path.name} is not a plan: `dpconvex plan -o` writes one")
    Ledger.open(url, create=False).approve(plan, dataset, by=by, times=times, note=note)
    click.echo(f'Approved {plan_path.name} for {times} run(s) on "{dataset}", by {by}.')


@ledger.command()
@click.argument("name", required=False)
@ledger_option(required=True)
def show(url: str, name: str | None) -> None:
    """Show what is spent and left of every budget, or what became of one, run by run."""
    from dpconvex.report.ledger import show_dataset, show_ledger

    opened = Ledger.open(url, create=False)
    click.echo(show_ledger(opened) if name is None else show_dataset(opened, name))


@ledger.command()
@click.option("-o", "--output", "path", type=output, required=True, help="Where to write the page (HTML).")
@click.option("--title", default="What was spent, and what is left", help="Heading of the page.")
@force_option
@ledger_option(required=True)
def report(url: str, path: Path, title: str, force: bool) -> None:
    """Write a page about every budget, to be read and signed. The ledger is verified first."""
    from dpconvex.report.ledger import ledger_report

    check_output(path, force)
    opened = Ledger.open(url, create=False)
    with writing(path):
        ledger_report(path, opened, title=title)


@ledger.command()
@click.argument("paths", metavar="[MODEL|RECEIPT]...", type=existing, nargs=-1)
@click.option("--head", help="A number and hash that were noted before, as NUMBER:HASH.")
@ledger_option(required=True)
def verify(url: str, paths: tuple[Path, ...], head: str | None) -> None:
    """Check every entry of the ledger, and that the entries of models and receipts are still there.

    A copy that was put back to an older state is found by receipts issued since, or by a noted head.
    """
    from dpconvex.ledger.checking import verify_ledger

    noted = None
    if head is not None:
        number, _, digest = head.partition(":")
        if not (number.isdecimal() and len(digest) == 64):
            raise InputError("--head must be NUMBER:HASH, as this command prints it")
        noted = int(number), digest
    last = verify_ledger(Ledger.open(url, create=False), [_receipt_in(path) for path in paths], noted)
    also = f" The entries of {len(paths)} receipt(s) are among them." if paths else ""
    click.echo(f"All {last.number} entries follow from those before them.{also}")
    click.echo(f"Note apart from the ledger: --head {last.number}:{last.hash}")


@ledger.command()
@click.argument("path", metavar="FILE", type=output)
@ledger_option(required=True)
def backup(url: str, path: Path) -> None:
    """Write a consistent copy of an SQLite ledger to a new file, while others go on."""
    Ledger.open(url, create=False).backup(path)
    click.echo(f"Wrote {path}", err=True)


def _receipt_in(path: Path) -> Receipt:
    """The receipt of a file, or of the model in it, which is not verified again."""
    data = read_json(read_text(path), path.name, InputError)
    if isinstance(data, dict) and "receipt" in data:
        data = data["receipt"]
    return Receipt.from_json(json.dumps(data))
