"""The account of this process: what it has released so far, per data set name.

Runs on the same people add up. The account sees only this process, and only the names it is given: it is a
reminder, not a ledger.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from dpconvex.errors import InputError
from dpconvex.privacy.budget import check_relation
from dpconvex.privacy.claims import Claim
from dpconvex.privacy.theorems import compose, fresh_run

_LOCK = threading.Lock()
_CLAIMS: dict[str, list[Claim]] = {}
_SEEDED: Counter[str] = Counter()


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
    seeded: int

    def total(self, relation: str | None = None) -> Claim | None:
        """Everything charged, composed; None if nothing was. Name the relation if runs were charged under two.

        Runs with a seed are not in it: they protect nobody, and `seeded` counts them.
        """
        if relation is not None:
            check_relation(relation)
        relations = {c.relation for c in self.claims}
        if relation is None and len(relations) > 1:
            raise InputError(f"relation must be named: runs were charged under {' and '.join(sorted(relations))}")
        charged = [c for c in self.claims if relation in (None, c.relation)]
        return compose(charged) if charged else None


def account(dataset: str = "default") -> Account:
    """Return what this process has charged to a data set so far."""
    with _LOCK:
        return Account(dataset, tuple(_CLAIMS.get(dataset, ())), _SEEDED[dataset])


def charge(dataset: str, claim: Claim, private: bool) -> None:
    """Charge a claim before its run starts. There is no refund: a failed run stays charged."""
    if not isinstance(dataset, str) or not dataset:
        raise InputError("dataset must be a non-empty name")
    with _LOCK:
        if not private:
            _SEEDED[dataset] += 1
            return
        claims = _CLAIMS.setdefault(dataset, [])
        claims.append(fresh_run(claim, f"run {len(claims) + 1}"))
