"""Whether a ledger is what it was: every entry follows from those before it, and those on receipts are still there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dpconvex.errors import BudgetError, LedgerError
from dpconvex.kernel.receipt import Receipt
from dpconvex.ledger.chain import BEGINNING, FORMAT, Entry
from dpconvex.ledger.filters import UNITS
from dpconvex.ledger.ledger import Declared, Ledger, is_over
from dpconvex.plain import normal_name, whole

__all__ = ["verify_ledger"]


def verify_ledger(ledger: Ledger, receipts: Iterable[Receipt] = (), head: tuple[int, str] | None = None) -> Entry:
    """Check every entry of a ledger, and that entries which receipts name are still there; return the last one.

    Parameters
    ----------
    ledger : Ledger
    receipts : iterable of Receipt
        Issued under this ledger. A copy that was put back to an older state lacks their entries.
    head : pair of int and str, optional
        Number and hash of an entry that were noted before.

    Raises
    ------
    LedgerError
        That names the first entry that does not follow.
    """
    noted = {} if head is None else {head[0]: head[1]}
    for receipt in receipts:
        stamp = receipt.sections.get("ledger")
        if stamp is None:
            raise LedgerError("a receipt was not issued under a ledger")
        if stamp["ledger"] != ledger.id:
            raise LedgerError("a receipt was issued under another ledger")
        if noted.setdefault(stamp["entry"], stamp["hash"]) != stamp["hash"]:
            raise LedgerError(f"two receipts do not agree on entry {stamp['entry']}: one is not of this ledger")
    ledger.store.check()
    checked = _Checked()
    last = None
    for number, kind, dataset, plan, run, digest, text in _rows(ledger):
        try:
            entry = Entry(int(number), str(text), str(digest))
        except ValueError:
            raise LedgerError("the ledger was altered: the number of an entry is none") from None
        try:
            body = entry.checked()
            checked.follow(entry, body)
        except (KeyError, TypeError, ValueError, BudgetError, ZeroDivisionError) as error:
            raise LedgerError(f"the ledger was altered: entry {entry.number} does not follow ({error})") from None
        if (kind, dataset, plan, run) != tuple(body.get(name) for name in ("kind", "dataset", "plan", "run")):
            raise LedgerError(f"the ledger was altered: the columns of entry {entry.number} differ from its text")
        if noted.pop(entry.number, entry.hash) != entry.hash:
            raise LedgerError(
                f"the ledger is not the one that was noted or printed on a receipt: entry {entry.number} is another. "
                "It was put back to an older copy and gone on from, or rewritten"
            )
        last = entry
    if last is None or checked.identity != ledger.id:
        raise LedgerError("the ledger was altered: it has no first entry")
    if noted:
        raise LedgerError(
            f"the ledger ends at entry {last.number}, and entry {max(noted)} was noted or printed on a receipt: it was "
            "put back to an older copy, or its end was removed"
        )
    return last


def _rows(ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """All rows, those whose numbers are out of order included."""
    with ledger.store.transaction(write=False) as execute:
        rows = execute("SELECT number, kind, dataset, plan, run, hash, body FROM dpconvex_ledger ORDER BY number")
    yield from rows


class _Checked:
    """What is known of a ledger up to an entry."""

    def __init__(self) -> None:
        self.identity = ""
        self._before, self._number, self._when = BEGINNING, 0, ""
        self._declared: dict[str, Declared] = {}
        self._spent: dict[str, list[int]] = {}
        self._runs: dict[str, str] = {}
        self._allowed: dict[tuple[str, str], int] = {}

    def follow(self, entry: Entry, body: Mapping[str, Any]) -> None:
        """Check that an entry follows those before it."""
        self._number += 1
        self._agree(entry, entry.number == self._number, "its number is not the next")
        self._agree(entry, body["before"] == self._before, "the one before it is missing or another")
        self._agree(entry, body["when"] >= self._when, "it was made before the one before it")
        self._agree(entry, (body["kind"] == "open") == (entry.number == 1), "a ledger begins once")
        getattr(self, f"_{body['kind']}")(entry, body)
        self._before, self._when = entry.hash, body["when"]

    @staticmethod
    def _agree(entry: Entry, holds: bool, why: str) -> None:
        if not holds:
            raise LedgerError(f"the ledger was altered: entry {entry.number} does not follow ({why})")

    def _open(self, entry: Entry, body: Mapping[str, Any]) -> None:
        self._agree(entry, body["format"] == FORMAT, "it has another format")
        self.identity = body["ledger"]

    def _declare(self, entry: Entry, body: Mapping[str, Any]) -> None:
        key = body["dataset"]
        self._agree(entry, key not in self._declared and normal_name(body["name"], "name") == key, "declared twice")
        self._declared[key] = found = Declared.of(body)
        self._spent[key] = [0] * len(found.filter.names)

    def _approve(self, entry: Entry, body: Mapping[str, Any]) -> None:
        about = body["dataset"], body["plan"]
        self._agree(entry, about[0] in self._declared, "it approves what was not declared")
        self._allowed[about] = self._allowed.get(about, 0) + whole(body["times"], "times")

    def _reserve(self, entry: Entry, body: Mapping[str, Any]) -> None:
        declared, before = self._declared[body["dataset"]], self._spent[body["dataset"]]
        self._agree(entry, body["of"] == declared.number and body["run"] not in self._runs, "it reserves for another")
        self._agree(entry, not is_over(declared, body["when"]), "the budget had expired")
        units = declared.filter.units(body["amounts"])
        self._agree(entry, units == body["units"] and min(units) >= 0, "it does not count what it takes")
        self._agree(entry, not body["whole"] or not any(before), "only the first release takes a whole budget")
        after = [a + b for a, b in zip(before, units, strict=True)]
        self._agree(entry, after == body["spent"] and max(after) <= UNITS, "the budget is exceeded or miscounted")
        about = body["dataset"], body["plan"]
        self._allowed[about] = self._allowed.get(about, 0) - 1
        self._agree(entry, not declared.approval or self._allowed[about] >= 0, "it was not approved")
        self._spent[body["dataset"]] = after
        self._runs[body["run"]] = body["dataset"]

    def _commit(self, entry: Entry, body: Mapping[str, Any]) -> None:
        self._agree(entry, self._runs.get(body["run"]) == body["dataset"], "nothing was reserved for it")
        self._agree(entry, math.isfinite(body["claim"]["epsilon"]), "it states no guarantee")
