"""Prove again what a receipt says, from its own plan and problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from dpconvex import theorems  # noqa: F401 (registers what receipts name)
from dpconvex.canonical import EARLIER, earlier_digest
from dpconvex.errors import DpconvexError, InputError, VerificationError
from dpconvex.kernel.claims import CHECKS, THEOREMS, Claim, Public, Release, agree
from dpconvex.kernel.receipt import (
    FORMAT,
    NOT_COVERED,
    PLAN_FIELDS,
    SECTIONS,
    Receipt,
    body_digest,
    encode,
    grids,
    known_facts,
    plan_digest,
)
from dpconvex.ledger.account import Account
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.problem import Problem
from dpconvex.theorems import fresh_run
from dpconvex.theorems.computed_sums import slack
from dpconvex.theorems.schedules import schedule_from_json
from dpconvex.words import arithmetic_words, on_the_word_of_the_caller

__all__ = ["Verdict", "verify"]


class Verdict(StrEnum):
    """What is known of a receipt that does not contradict itself."""

    PROVED = "the claim was proved again from the plan"
    CONSISTENT = "arithmetic consistent"


def verify(receipt: Receipt) -> Verdict:
    """Recompute everything a receipt says from its derivation; raise `VerificationError` where it contradicts itself.

    `Verdict.PROVED` means that this problem, this schedule and this noise do give this guarantee. A receipt of format 1
    says less about its run, and no more is said of it than that its arithmetic is consistent. Neither proves that the
    run took place; a signature over the digest does that.
    """
    prove(receipt)
    return Verdict.PROVED if receipt.data["format"] == FORMAT else Verdict.CONSISTENT


def prove(receipt: Receipt) -> Claim:
    """Verify a receipt and return its claim, proved again."""
    if not isinstance(receipt, Receipt):
        raise InputError(f"verify takes a Receipt, got {type(receipt).__name__}; read one with Receipt.from_json(text)")
    try:
        data = receipt.data
        agree(data["format"] in (FORMAT, EARLIER), "format")
        if data["format"] == FORMAT:
            agree(data["digest"] == body_digest(data), "digest")
            agree(data["plan"]["digest"] == plan_digest(data), "plan.digest")
        else:
            _check_format_1(data)
        claim = _prove(receipt.sections)
        if data["format"] == FORMAT:
            _check_what_follows(data, claim)
    except VerificationError:
        raise
    except (DpconvexError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VerificationError(f"the receipt cannot be read: {type(error).__name__}") from error
    return claim


def _prove(sections: dict[str, Any]) -> Claim:
    """Prove the claim of a receipt of any format again."""
    plan, stated, arithmetic = sections["plan"], sections["claim"], sections["arithmetic"]
    budget = plan["budget"]
    public = Public(plan["n"], plan["d"], Problem.from_json(plan["problem"]), plan["algorithm"])
    claim: Claim = _decode(stated["derivation"], public, public.problem.facts(public.n, public.d))
    agree(isinstance(claim, Claim), "claim")
    agree(_agree(stated["profile"], claim.profile.to_json()), "claim.profile")
    agree(stated["relation"] == claim.relation == budget["relation"], "claim.relation")
    agree(sections["dataset"]["unit"] == claim.unit, "dataset.unit")
    agree(stated["scope"] == claim.scope, "claim.scope")
    agree(stated["delta"] == budget["delta"], "claim.delta")
    agree(_close(stated["epsilon"], claim.epsilon(stated["delta"])), "claim.epsilon")
    agree(stated["epsilon"] <= budget["epsilon"], "claim.epsilon above budget.epsilon")
    agree(arithmetic["drawn"] == [r.name for r in claim.releases], "arithmetic.drawn")
    agree(("not private" not in arithmetic["source"]) == arithmetic["private"], "arithmetic.private")
    return claim


def _check_what_follows(data: dict[str, Any], claim: Claim) -> None:
    """Check what format 2 says beyond format 1, as far as it follows from the claim."""
    agree(_agree(data["facts"]["library"], known_facts(claim)), "facts.library")
    agree(data["facts"]["caller"] == on_the_word_of_the_caller(claim.unit), "facts.caller")
    agree(data["outside"]["not_covered"] == NOT_COVERED, "outside.not_covered")
    arithmetic = data["arithmetic"]
    agree(arithmetic["numbers"] == arithmetic_words(claim.releases), "arithmetic.numbers")
    agree(arithmetic["grid"] == grids(claim), "arithmetic.grid")
    agree(_close(arithmetic["slack"], slack(claim)), "arithmetic.slack")
    agree(data["ledger"] is None and data["signature"] is None, "ledger and signature")
    agree(set(data) == set(SECTIONS), "sections")


def _check_format_1(data: dict[str, Any]) -> None:
    agree(data["digest"] == earlier_digest({k: v for k, v in data.items() if k != "digest"}), "digest")
    fields = [k for k in PLAN_FIELDS if k != "schedule"]
    agree(data["plan"] == earlier_digest({k: data[k] for k in fields}), "plan")
    agree(data["noise"]["arithmetic"] == "float64", "noise.arithmetic")


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)


def _decode(plain: Any, public: Public, facts: dict[Kind, Fact]) -> Any:
    """Read a derivation back by proving it again, step by step."""
    if isinstance(plain, list):
        return [_decode(v, public, facts) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "release" in plain:
        law, scale, shape, times = (plain[key] for key in ("law", "scale", "shape", "times"))
        return Release(plain["release"], law, scale, tuple(shape), times, plain.get("grid"))
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
        dataset = receipt.sections["dataset"]
        run = dataset["stream"] or receipt.sections["digest"]
        by_name.setdefault(dataset["name"], {})[run] = claim, receipt.private
    found = []
    for dataset, entries in by_name.items():
        runs = [fresh_run(claim, f"run {i}") for i, (claim, private) in enumerate(entries.values(), 1) if private]
        found.append(Account(dataset, tuple(runs), len(entries) - len(runs), f"on {len(entries)} receipts"))
    return tuple(found)
