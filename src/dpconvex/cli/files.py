"""Outputs that are checked before any work is done, and files of text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dpconvex.errors import InputError, UnavailableError


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text") from None


def check_output(path: Path | None, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Check that an output file can be written, before the work for it is done."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder}")
    if path.is_dir():
        raise InputError(f"{path} is a folder")
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise InputError(f"{path} is also an input: choose another output file")
    if path.exists() and not force:
        raise InputError(f"{path} exists already; use --force to replace it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"{path} cannot be written")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report that a file was written, or why it could not be."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {path}", err=True)
