"""`dpconvex verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpconvex.canonical import EARLIER
from dpconvex.cli.files import read_text
from dpconvex.cli.options import existing, working
from dpconvex.errors import VerificationError
from dpconvex.kernel.receipt import FORMAT, Receipt
from dpconvex.ledger.signatures import read_trusted, signers
from dpconvex.plain import open_text, read_json
from dpconvex.verify import prove
from dpconvex.verify import verify as verdict_on

EVALUATION = "dpconvex-evaluation/1"  # as in estimators.evaluate, which is slow to import
_NOT_PLANNED = 2  # exit status


@click.command()
@click.argument("path", metavar="MODEL|EVALUATION|RECEIPT", type=existing)
@click.option(
    "--trust",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of public keys (*.pub): require a signature by one of them.",
)
def verify(path: Path, trust: Path | None) -> None:
    """Check the guarantee of a model, an evaluation or a receipt, and whose word it is.

    The plan is made again from the receipt. Exits with 0 if it makes this claim, with 1 if the file was altered, states
    a claim that its plan does not make, protects nobody, or lacks a trusted signature, and with 2 if this version
    cannot plan it again.
    """
    receipt, what = read_receipt(path)
    if not receipt.private:
        raise VerificationError(f"the {what} is consistent, but NOT PRIVATE: its noise came from a fixed seed")
    click.echo(str(receipt))
    held = {"model": "weights", "evaluation": "noisy sums and metrics"}.get(what)
    weights = f", and the {held} are those of the receipt" if held else ""
    found = verdict_on(receipt)
    verdict = str(found)
    click.echo(f"\n{verdict[0].upper()}{verdict[1:]}{weights}.")
    sections = receipt.sections
    released = held or "release"
    digests = {"plan": sections["plan"]["digest"], released: sections["released"], "receipt": sections["digest"]}
    for about, digest in digests.items():
        click.echo(f"  sha256 of the {about}: {digest}")
    if trust is not None:
        click.echo(f"Signed by {' and '.join(_signed_by(path, receipt, trust))}, who vouch(es) for the run.")
    vouched = "" if trust else "that the run took place as described, "
    budget = "" if sections.get("ledger") else ", and that there were no other releases about these people"
    click.echo(f"Not checked: {vouched}that the declared facts are public{budget}.")
    if not found:
        click.get_current_context().exit(_NOT_PLANNED)


def _signed_by(path: Path, receipt: Receipt, trust: Path) -> tuple[str, ...]:
    if format_of(path) in (FORMAT, EARLIER, EVALUATION):  # an evaluation follows from its receipt
        return signers(receipt, trust)
    from dpconvex.estimators.store import check_model, read_model

    return check_model(read_model(path), read_trusted(trust))


def read_receipt(path: Path) -> tuple[Receipt, str]:
    """Read and verify the receipt in a file; return it, and "model", "evaluation" or "receipt", as the file was."""
    found = format_of(path)
    if found == EVALUATION:
        return load_evaluation(path).receipt, "evaluation"
    if found not in (FORMAT, EARLIER):
        return load_model(path).receipt_, "model"
    with working(f"Verifying {path.name}"):
        receipt = Receipt.from_json(read_text(path))
        prove(receipt)
    return receipt, "receipt"


def load_model(path: Path) -> Any:
    """Read a model file and verify it."""
    from dpconvex.estimators.store import load

    with working(f"Verifying {path.name}"):
        return load(path)


def load_evaluation(path: Path) -> Any:
    """Read the file of an evaluation and verify it."""
    from dpconvex.estimators.evaluate import Evaluation

    with working(f"Verifying {path.name}"):
        return Evaluation.load(path)


def format_of(path: Path) -> Any:
    """The format that a file says it has."""
    try:
        data = read_json(open_text(path, "the file", VerificationError), "the file", VerificationError)
    except VerificationError as error:
        raise VerificationError(f"{path.name} is no model, evaluation or receipt: {error}") from None
    return data.get("format") if isinstance(data, dict) else None
