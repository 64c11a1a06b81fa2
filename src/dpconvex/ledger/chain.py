"""Entries that cannot be changed unnoticed: each holds the hash of the one before, and a nonce.

An entry is canonical JSON (RFC 8785), and its hash the sha256 of that text. Without its nonce nobody can guess from a
hash what an entry says, so hashes may be published, for example on receipts.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpconvex.canonical import canonical
from dpconvex.errors import LedgerError
from dpconvex.plain import read_json
from dpconvex.version import VERSION

FORMAT = "dpconvex-ledger/1"
BEGINNING = "0" * 64  # stands for the hash before the first entry
KINDS = ("open", "declare", "approve", "reserve", "commit")


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger, as it is stored.

    Attributes
    ----------
    number : int
        Place in the chain, from 1.
    text : str
        Canonical JSON.
    hash : str
        sha256 of the text.

    Examples
    --------
    >>> first = entry_after(None, "open", "2026-01-31T12:00:00Z", "ada", {"format": FORMAT})
    >>> second = entry_after(first, "declare", "2026-01-31T12:00:00Z", "ada", {"dataset": "trial 7"})
    >>> second.number, second.body["before"] == first.hash, second.body["dataset"]
    (2, True, 'trial 7')
    """

    number: int
    text: str
    hash: str

    @property
    def body(self) -> dict[str, Any]:
        """What the entry says."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    def checked(self) -> dict[str, Any]:
        """What the entry says, if its hash is that of its text; otherwise a `LedgerError`."""
        if hashed(self.text) != self.hash:
            raise LedgerError(f"the ledger was altered: entry {self.number} does not have its hash")
        try:
            body = read_json(self.text, f"entry {self.number}", LedgerError)
        except LedgerError as error:
            raise LedgerError(f"the ledger was altered: {error}") from None
        if not isinstance(body, dict) or body.get("number") != self.number or body.get("kind") not in KINDS:
            raise LedgerError(f"the ledger was altered: entry {self.number} is in the place of another")
        return body


def hashed(text: str) -> str:
    """sha256 of the text of an entry."""
    return hashlib.sha256(text.encode()).hexdigest()


def entry_after(last: Entry | None, kind: str, when: str, by: str, says: dict[str, Any]) -> Entry:
    """Make the entry that follows another."""
    body = {
        "number": 1 if last is None else last.number + 1,
        "before": BEGINNING if last is None else last.hash,
        "nonce": os.urandom(16).hex(),
        "kind": kind,
        "when": when,
        "by": by,
        "library": VERSION,
        **says,
    }
    text = canonical(body).decode()
    return Entry(body["number"], text, hashed(text))


def now_after(last: Entry | None) -> str:
    """The time (UTC) to the second, never before that of the last entry: a clock that goes back revives nothing."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return now if last is None else max(now, str(last.body["when"]))
