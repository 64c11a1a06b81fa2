"""The account of this process: what it has released so far, per data set name.

Runs on the same people add up. The account sees only this process, and only the names it is given: it is a
reminder, not a ledger.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from dpconvex.errors import InputError
from dpconvex.privacy.claims import Claim
from dpconvex.privacy.theorems import compose, fresh_run

_LOCK = threading.Lock()
_CLAIMS: dict[str, list[Claim]] = {}


@dataclass(frozen=True)
class Account:
    """What this process has charged to one data set.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.account("a data set nobody touched").claims
    ()
    """

    dataset: str
    claims: tuple[Claim, ...]

    def total(self, relation: str = "replace_one") -> Claim | None:
        """Everything charged under that relation, composed; None if nothing was."""
        charged = [c for c in self.claims if c.relation == relation]
        return compose(charged) if charged else None


def account(dataset: str = "default") -> Account:
    """Return what this process has charged to a data set so far."""
    with _LOCK:
        return Account(dataset, tuple(_CLAIMS.get(dataset, ())))


def charge(dataset: str, claim: Claim) -> None:
    """Charge a claim before its run starts. There is no refund: a failed run stays charged."""
    if not isinstance(dataset, str) or not dataset:
        raise InputError("dataset must be a non-empty name")
    with _LOCK:
        claims = _CLAIMS.setdefault(dataset, [])
        claims.append(fresh_run(claim, f"run {len(claims) + 1}"))
