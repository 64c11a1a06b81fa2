"""The command `audit`: attack the gallery, the mutants, every algorithm, the machine, or a function of your own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from dpconvex.audit.function import audit_target
from dpconvex.audit.gallery import EXHIBITS
from dpconvex.audit.gallery import gallery as attack_gallery
from dpconvex.audit.machine.suite import ATTACKS, attack_machine
from dpconvex.audit.machine.suite import RUNS as MACHINE_RUNS
from dpconvex.audit.pages import Findings, audit_page, gallery_page, mutants_page
from dpconvex.audit.players import attack_players
from dpconvex.audit.report import page
from dpconvex.audit.stated import ASKED, Stated
from dpconvex.audit.suite import MUTANTS, RUNS
from dpconvex.audit.suite import mutants as try_mutants
from dpconvex.audit.suite import suite as attack_all
from dpconvex.errors import InputError
from dpconvex.kernel.profiles import ApproxDP

Found = TypeVar("Found")

_SEED = click.option("--seed", default=0, show_default=True, help="Seed of the noise.")
_JSON = click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the findings.")
_WORKERS = click.option("--workers", default=1, show_default=True, help="Processes that share the runs.")


@click.group(invoke_without_command=True)
@click.option("--target", help="module:name of a function f(data, rng), or of a dpconvex.audit.Case.")
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=".npy, .npz or .csv")
@click.option("--neighbour", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=".npy, .npz or .csv")
@click.option("--epsilon", type=float, help="What the function claims.")
@click.option("--delta", type=float)
@click.option("--relation", type=click.Choice(ASKED), help="Which data sets are neighbours.")
@click.option("--runs", default=10_000, show_default=True, help="Runs on each data set.")
@click.option("--confidence", default=0.99, show_default=True)
@click.option("--html", "html_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the page.")
@_JSON
@_SEED
@_WORKERS
@click.pass_context
def audit(
    context: click.Context, target: str | None, data: Path | None, neighbour: Path | None, epsilon: float | None,
    delta: float | None, relation: str | None, runs: int, confidence: float, html_path: Path | None,
    json_path: Path | None, seed: int, workers: int,
) -> None:  # fmt: skip
    """Attack privacy claims: `dpconvex audit gallery`, `mutants`, `suite`, `machine`, or your own with --target.

    A function is run many times on two neighbouring data sets. Exits with 1 if its claim is refuted.
    """
    if context.invoked_subcommand:
        return
    if target is None:
        click.echo(context.get_help())
        return
    try:
        stated = None
        if epsilon is not None:
            if delta is None or relation is None:
                raise InputError("a claim needs --epsilon, --delta and --relation")
            stated = Stated(ApproxDP(epsilon, delta), relation, delta)
        report = audit_target(
            target, _load(data), _load(neighbour), stated, runs=runs, confidence=confidence, seed=seed, workers=workers
        )
    except InputError as error:
        raise click.UsageError(str(error)) from error
    for path in (html_path, json_path):
        if path:
            report.save(path)
    click.echo(str(report))
    context.exit(int(report.refuted))


@audit.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(EXHIBITS)))
@click.option("--runs", type=int, help="Runs on each data set; by default as many as each exhibit asks for.")
@click.option(
    "--page", "page_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the page of the docs."
)
@click.option("--html", "html_path", type=click.Path(file_okay=False, path_type=Path), help="Folder for a page each.")
@_JSON
@_SEED
def gallery(
    names: tuple[str, ...], runs: int | None, page_path: Path | None, html_path: Path | None, json_path: Path | None,
    seed: int,
) -> None:  # fmt: skip
    """Attack printed claims that do not hold. Exits with 1 if one of them survives."""
    try:
        found = attack_gallery(names or None, runs, seed=seed)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    table = Table("claim", "quantity", "claimed", "found", "")
    for finding in found.values():
        sure = f"> {finding.found:.4g}" if finding.report else f"{finding.found:.4g}, exact"
        verdict = "refuted" if finding.refuted else "not refuted"
        table.add_row(finding.title, finding.quantity, f"{finding.claimed:.4g}", sure, verdict)
    Console().print(table)
    _write(json_path, {name: finding.to_json() for name, finding in found.items()})
    if page_path:
        page_path.write_text(gallery_page(found), encoding="utf-8")
    if html_path:
        html_path.mkdir(parents=True, exist_ok=True)
        for name, finding in found.items():
            text = finding.report.to_html() if finding.report else page(finding.title, f"<p>{finding}</p>")
            (html_path / f"{name}.html").write_text(text, encoding="utf-8")
    click.get_current_context().exit(int(not all(f.refuted for f in found.values())))


@audit.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(MUTANTS)))
@click.option("--runs", default=1.0, show_default=True, help="Multiple of the usual runs.")
@click.option(
    "--page", "page_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the page of the docs."
)
@_JSON
@_SEED
@_WORKERS
def mutants(
    names: tuple[str, ...], runs: float, page_path: Path | None, json_path: Path | None, seed: int, workers: int
) -> None:
    """Attack algorithms that were broken on purpose. Exits with 1 if one is not caught."""
    found = try_mutants(names or None, runs, seed, workers)
    table = Table("algorithm", "broken", "caught by")
    for trial in found:
        table.add_row(trial.algorithm, trial.mutant, ", ".join(trial.caught) or "NOT CAUGHT")
    Console().print(table)
    _write(json_path, [trial.to_json() for trial in found])
    if page_path:
        page_path.write_text(mutants_page(found), encoding="utf-8")
    click.get_current_context().exit(int(not all(t.report.refuted for t in found)))


@audit.command()
@click.option("--runs", default=RUNS, show_default=True, help="Runs a side for the tightness of the default plan.")
@click.option(
    "--docs", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the docs: write its pages."
)
@_JSON
@_SEED
@_WORKERS
def suite(runs: int, docs: Path | None, json_path: Path | None, seed: int, workers: int) -> None:
    """Attack every algorithm, its mutants, the players of games and the machine.

    Exits with 1 on a refuted or loose claim, a mutant that is not caught, or arithmetic that is not as it should be.
    """
    began = _processor_time()
    found = Findings(
        _told(attack_all(runs, seed, workers)),
        _told(try_mutants(None, 1.0, seed, workers)),
        _told(attack_players(seed)),
        _told(attack_machine((), MACHINE_RUNS, seed)),
    )
    _write(json_path, found.to_json())
    if docs:
        minutes = (_processor_time() - began) / 60.0
        (docs / "gallery" / "audit.md").write_text(audit_page(found, minutes), encoding="utf-8")
        (docs / "gallery" / "mutants.md").write_text(mutants_page(found.mutants), encoding="utf-8")
    click.get_current_context().exit(int(not found.good))


@audit.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(ATTACKS)))
@click.option("--runs", default=MACHINE_RUNS, show_default=True, help="Runs against every kind of release.")
@_JSON
@_SEED
def machine(names: tuple[str, ...], runs: int, json_path: Path | None, seed: int) -> None:
    """Attack the arithmetic: of noise in float64, which has to break, and of noise on a grid, which has to hold.

    Exits with 1 if either is otherwise.
    """
    found = []
    for outcome in attack_machine(names, runs, seed):
        found.append(outcome)
        click.echo(str(outcome))
    _write(json_path, [outcome.to_json() for outcome in found])
    click.get_current_context().exit(int(not all(outcome.expected for outcome in found)))


def _processor_time() -> float:
    """Seconds of this process and of those it has waited for."""
    return sum(os.times()[:4])


def _told(found: Iterable[Found]) -> list[Found]:
    """All that is found, said as it comes."""
    kept = []
    for one in found:
        kept.append(one)
        click.echo(str(one))
    return kept


def _write(path: Path | None, plain: Any) -> None:
    if path:
        path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _load(path: Path | None) -> Any:
    """An array, a tuple of the arrays of an .npz in the order of their names, or the numbers of a .csv."""
    if path is None:
        return None
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return tuple(archive[name] for name in sorted(archive.files))
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, OSError) as error:
        raise InputError(f"{path.name} cannot be read as numbers ({type(error).__name__})") from error
    raise InputError(f"{path.name}: data must be .npy, .npz or .csv")


if __name__ == "__main__":
    audit(prog_name="python -m dpconvex.audit.command")
