"""`dpconvex key`."""

from __future__ import annotations

from pathlib import Path

import click

from dpconvex.cli.options import output
from dpconvex.ledger.signatures import new_key


@click.command()
@click.argument("path", metavar="FILE", type=output)
def key(path: Path) -> None:
    """Make a key to sign with, and beside it the public key (FILE.pub) that others trust.

    Keep FILE to yourself. To go over to another key, make one, and leave the public key of the old one with those who
    check signatures made with it.
    """
    name = new_key(path)
    click.echo(f"Made {path}, to be kept secret, and {path}.pub, to be handed out. The key is {name[:16]}.")
