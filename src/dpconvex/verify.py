"""Prove again what a receipt says, from its own plan and problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from dpconvex import theorems  # noqa: F401 (registers what receipts name)
from dpconvex.errors import DpconvexError, InputError, VerificationError
from dpconvex.kernel.claims import CHECKS, THEOREMS, Claim, Public, Release, agree
from dpconvex.kernel.receipt import ARITHMETIC, FORMAT, PLAN_FIELDS, Receipt, digest, encode
from dpconvex.ledger.account import Account
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.problem import Problem
from dpconvex.theorems import fresh_run
from dpconvex.theorems.schedules import schedule_from_json


def verify(receipt: Receipt) -> bool:
    """Recompute everything a receipt says from its derivation; raise `VerificationError` where it contradicts itself.

    True means that the arithmetic is consistent: this problem, this schedule and this noise do give this guarantee.
    It does not prove that the run took place; a signature over the digest does that.
    """
    prove(receipt)
    return True


def prove(receipt: Receipt) -> Claim:
    """Verify a receipt and return its claim, proved again."""
    if not isinstance(receipt, Receipt):
        raise InputError(f"verify takes a Receipt, got {type(receipt).__name__}; read one with Receipt.from_json(text)")
    data = receipt.data
    try:
        agree(data["format"] == FORMAT, "format")
        body = {k: v for k, v in data.items() if k != "digest"}
        agree(data["digest"] == digest(body), "digest")
        agree(data["plan"] == digest({k: data[k] for k in PLAN_FIELDS}), "plan")
        public = Public(data["n"], data["d"], Problem.from_json(data["problem"]), data["algorithm"])
        claim: Claim = _decode(data["claim"], public, public.problem.facts(public.n, public.d))
        agree(isinstance(claim, Claim), "claim")
        guarantee = data["guarantee"]
        agree(_agree(guarantee["profile"], claim.profile.to_json()), "guarantee.profile")
        agree(guarantee["relation"] == claim.relation == data["budget"]["relation"], "guarantee.relation")
        agree(guarantee["unit"] == claim.unit, "guarantee.unit")
        agree(guarantee["scope"] == claim.scope, "guarantee.scope")
        agree(guarantee["delta"] == data["budget"]["delta"], "guarantee.delta")
        agree(_close(guarantee["epsilon"], claim.epsilon(guarantee["delta"])), "guarantee.epsilon")
        agree(guarantee["epsilon"] <= data["budget"]["epsilon"], "guarantee.epsilon above budget.epsilon")
        agree(data["drawn"] == [r.name for r in claim.releases], "drawn")
        agree(data["noise"]["arithmetic"] == ARITHMETIC, "noise.arithmetic")
        agree(("not private" not in data["noise"]["source"]) == data["noise"]["private"], "noise")
    except VerificationError:
        raise
    except (DpconvexError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VerificationError(f"the receipt cannot be read: {type(error).__name__}") from error
    return claim


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)


def _decode(plain: Any, public: Public, facts: dict[Kind, Fact]) -> Any:
    """Read a derivation back by proving it again, step by step."""
    if isinstance(plain, list):
        return [_decode(v, public, facts) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "release" in plain:
        return Release(plain["release"], plain["law"], plain["scale"], tuple(plain["shape"]), plain["times"])
    if "schedule" in plain:
        return schedule_from_json(plain)
    if "range" in plain:
        agree(plain["range"][1] <= public.n, "a range of records beyond n")
        return range(*plain["range"])
    if "by" in plain:
        theorem, given = plain["by"], plain["from"]
        agree(given.get("l2", public.problem.l2) == public.problem.l2, "l2")
        inner = CHECKS[theorem](given, public) if theorem in CHECKS else None
        if inner is not None and inner.problem is not public.problem:
            facts = inner.problem.facts(inner.n, inner.d)
        again = THEOREMS[theorem](**{k: _decode(v, inner or public, facts) for k, v in given.items()})
    else:
        again = facts[Kind[plain["fact"]]]
    if isinstance(again, Fact):
        same = _agree(plain["value"], encode(again.value)) and plain.get("relation") == again.relation
        agree(same and plain["source"] == again.source and plain["fact"] == again.kind.name, again.kind.name)
        return again
    same = (plain["relation"], plain["scope"], plain["unit"]) == (again.relation, again.scope, again.unit)
    agree(same and _agree(plain["claim"], again.profile.to_json()), plain["by"])
    return again


def _agree(stated: Any, proved: Any) -> bool:
    """Whether two plain forms are the same, numbers up to rounding."""
    if isinstance(proved, dict):
        return stated.keys() == proved.keys() and all(_agree(stated[k], v) for k, v in proved.items())
    if isinstance(proved, list):
        return len(stated) == len(proved) and all(_agree(a, b) for a, b in zip(stated, proved, strict=True))
    return _close(stated, proved) if isinstance(proved, float) else bool(stated == proved)


def add_up(receipts: Iterable[Receipt]) -> tuple[Account, ...]:
    """Add up receipts, each verified, by the names of their data sets.

    One that is given twice counts once, and so do the receipts of one stream.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> plan = dc.algorithms.MeanDirection().plan(
    ...     dc.Problem(dc.losses.Logistic()), n=4, d=1, budget=dc.Budget(1.0, 1e-6)
    ... )
    >>> runs = [plan.run(np.ones((4, 1)), np.ones(4), dataset=name).receipt for name in ("north", "south")]
    >>> [found.dataset for found in add_up([*runs, runs[0]])]
    ['north', 'south']
    >>> print(add_up(runs)[0])
    north: 1 private releases on 1 receipts, 0 with a seed
      replace_one: (1, 1e-06)-DP in total, for one record
    """
    by_name: dict[str, dict[str, tuple[Claim, bool]]] = {}
    for receipt in receipts:
        claim = prove(receipt)
        run = receipt.data.get("stream", receipt.data["digest"])
        by_name.setdefault(receipt.data["dataset"], {})[run] = claim, receipt.private
    found = []
    for dataset, entries in by_name.items():
        runs = [fresh_run(claim, f"run {i}") for i, (claim, private) in enumerate(entries.values(), 1) if private]
        found.append(Account(dataset, tuple(runs), len(entries) - len(runs), f"on {len(entries)} receipts"))
    return tuple(found)
