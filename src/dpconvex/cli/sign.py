"""`dpconvex sign`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from dpconvex.canonical import EARLIER
from dpconvex.cli.files import read_text, writing
from dpconvex.cli.options import existing
from dpconvex.cli.verify import EVALUATION, format_of, load_evaluation
from dpconvex.errors import VerificationError
from dpconvex.kernel.receipt import FORMAT, Receipt
from dpconvex.ledger.signatures import KEY_VARIABLE, name_of, read_key
from dpconvex.ledger.signatures import sign as signed
from dpconvex.verify import prove


@click.command()
@click.argument("path", metavar="MODEL|EVALUATION|RECEIPT", type=existing)
@click.option("--key", "key_path", type=existing, help=f"Key file.  [default: what {KEY_VARIABLE} holds or names]")
def sign(path: Path, key_path: Path | None) -> None:
    """Sign a model, an evaluation or a receipt, in its file: you vouch that the run took place as it says.

    It is verified first. Signatures of others stay.
    """
    key = read_key(key_path)
    found = format_of(path)
    if found == EVALUATION:
        measured = load_evaluation(path)
        _check_private(measured.receipt)
        with writing(path):
            replace(measured, receipt=signed(measured.receipt, key)).save(path)
    elif found in (FORMAT, EARLIER):
        receipt = Receipt.from_json(read_text(path))
        prove(receipt)
        _check_private(receipt)
        made = signed(receipt, key)
        with writing(path):
            made.save(path)
    else:
        from dpconvex.estimators.store import load, read_model, sign_model, write_model

        _check_private(load(path).receipt_)
        data = sign_model(read_model(path), key)
        with writing(path):
            write_model(data, path)
    click.echo(f"Signed by the key {name_of(key.public_key())[:16]}.")


def _check_private(receipt: Receipt) -> None:
    if not receipt.private:
        raise VerificationError("NOT PRIVATE: the noise came from a fixed seed, and nobody should vouch for it")
