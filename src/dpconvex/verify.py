"""Plan again what a receipt is about, and compare what it says with what the plan claims."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from dpconvex import theorems  # noqa: F401 (registers what receipts name)
from dpconvex.algorithms.registry import UnknownError
from dpconvex.canonical import EARLIER, earlier_digest
from dpconvex.errors import DpconvexError, InputError, VerificationError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import THEOREMS, Claim, Release
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
from dpconvex.ledger.signatures import RECEIPT, is_envelope
from dpconvex.noise.source import DESCRIPTIONS
from dpconvex.plain import check_plain, normal_name, plain_name, read_json, whole
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.problem import Problem
from dpconvex.theorems import fresh_run
from dpconvex.theorems.computed_sums import slack
from dpconvex.theorems.schedules import schedule_from_json
from dpconvex.version import VERSION
from dpconvex.words import arithmetic_words, on_the_word_of_the_caller, own_parts
from dpconvex.work import limited

__all__ = ["Verdict", "verify"]

LARGEST = 2 * 10**7  # records, or any other number that planning takes time for
SECONDS = 1.5  # of computing, which planning again or proving a derivation may take
LARGEST_D = 5 * 10**6  # features
_LARGEST_GROUP = 10**4
_CLOSE = 1e-6  # relative: how far numbers of one plan may differ between versions of SciPy
_HEX = re.compile(r"[0-9a-f]{32,64}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Verdict(StrEnum):
    """What is known of a receipt that is not refused. True as a condition only if the plan was made again."""

    PROVED = "this plan makes this claim"
    DECLARED = "consistent, of declared parts: this plan makes this claim, if what its user declared of them is true"
    CONSISTENT = "arithmetic consistent, but made by another version or with parts not installed: not planned again"

    def __bool__(self) -> bool:
        return self is not Verdict.CONSISTENT


def verify(receipt: Receipt, *, seconds: float = SECONDS) -> Verdict:
    """Plan again from the public facts on a receipt, and compare the claim, the noise and the schedule.

    Parameters
    ----------
    receipt : Receipt
    seconds : float
        How long planning again may take, at about two million steps of a schedule a second. Raise it for receipts of
        long runs.

    Returns
    -------
    Verdict
        `PROVED`: the algorithm, with the options, problem, n, d and budget on the receipt, makes this schedule, draws
        this noise and has this claim. `DECLARED`: the same, from what was declared of parts of the user's
        own; their code is neither needed nor looked at. `CONSISTENT`: this version cannot plan it again (format 1,
        another version of this library or of NumPy or SciPy, an algorithm that is not installed), so all that is known
        is that the stated claim follows from the stated derivation. Neither says that the run took place: a signature
        does that.

    Raises
    ------
    VerificationError
        With the reason, if the receipt is altered, contradicts itself, states a claim that its plan does not make, or
        would take too long to plan again.
    """
    with limited(seconds):
        return _examined(receipt)[0]


def examine(receipt: Receipt) -> tuple[Verdict, Claim]:
    """Verify a receipt and return the verdict and its claim."""
    with limited(SECONDS):
        return _examined(receipt)


def prove(receipt: Receipt) -> Claim:
    """Verify a receipt and return its claim."""
    return examine(receipt)[1]


def _examined(receipt: Receipt) -> tuple[Verdict, Claim]:
    if not isinstance(receipt, Receipt):
        raise InputError(
            f"verify takes a Receipt, such as model.receipt_ or Receipt.from_json(text), got {type(receipt).__name__}"
        )
    data = receipt.data
    check_plain(data, "the receipt", VerificationError)
    try:
        agree(data["format"] in (FORMAT, EARLIER), "format")
        if data["format"] == EARLIER:
            _check_format_1(data)
            claim, verdict = _derived(receipt.sections), Verdict.CONSISTENT
        else:
            _check_form(data)
            claim, verdict = _planned_or_derived(data)
            _check_what_follows(data, claim)
        _check_claim(receipt.sections, claim)
    except VerificationError:
        raise
    except UnknownError as error:
        raise VerificationError(f"the receipt cannot be checked: {error}") from None
    except DpconvexError as error:
        raise VerificationError(f"the receipt is about a plan that cannot be made: {error}") from error
    except Exception as error:  # whatever a receipt provokes, it is refused
        raise VerificationError(f"the receipt cannot be read: {type(error).__name__}") from error
    return verdict, claim


def agree(holds: bool, field: str) -> None:
    """Raise a `VerificationError` that names the field, unless the receipt is consistent there."""
    if not holds:
        raise VerificationError(f"the receipt contradicts itself at: {field}")


# Planning again ------------------------------------------------------------------------------------------------------


def _planned_or_derived(data: dict[str, Any]) -> tuple[Claim, Verdict]:
    """The claim of a receipt: of its plan, made again, or else as proved from its derivation."""
    from dpconvex.plan.run import engine

    ours = data["plan"]["library"] == VERSION and all(data["engine"].get(k) == engine()[k] for k in ("numpy", "scipy"))
    try:
        claim = _planned(data)
    except UnknownError:
        return _derived(data), Verdict.CONSISTENT
    except DpconvexError:
        if ours:
            raise
        return _derived(data), Verdict.CONSISTENT
    return claim, Verdict.DECLARED if own_parts(data["plan"]) else Verdict.PROVED


def _planned(data: dict[str, Any]) -> Claim:
    """The claim of the plan that a receipt is about, made again; refused where the receipt says something else."""
    from dpconvex.algorithms.again import plan_again  # the algorithms bring numba

    plan = data["plan"]
    _check_size(plan)
    again = plan_again(plan)
    made = again.to_json()
    for field in PLAN_FIELDS:
        if field not in ("library", "claim"):
            agree(_agree(plan[field], made[field], _CLOSE), f"plan.{field}: the algorithm plans otherwise")
    agree(_agree(data["claim"]["derivation"], made["claim"], _CLOSE), "claim: its plan makes another one")
    return again.claim


def _check_size(plan: Mapping[str, Any]) -> None:
    """Refuse numbers that planning would take too long for, before any work."""
    sizes = [value for value in _leaves(plan["algorithm"]) if type(value) is int]
    if plan["stream"] is None:
        sizes.append(plan["n"])
    if any(abs(size) > LARGEST for size in sizes) or plan["d"] > LARGEST_D:
        raise VerificationError(f"the receipt is about more than {LARGEST} records or steps: too large to plan again")


def _leaves(plain: Any) -> Iterator[Any]:
    if isinstance(plain, dict | list):
        for part in plain.values() if isinstance(plain, dict) else plain:
            yield from _leaves(part)
    else:
        yield plain


# Proving a derivation ------------------------------------------------------------------------------------------------


def _derived(sections: dict[str, Any]) -> Claim:
    """The claim of a receipt, proved from its own derivation."""
    plan, derivation = sections["plan"], sections["claim"]["derivation"]
    _check_lengths(derivation)
    problem = Problem.from_json(plan["problem"])
    claim = _decode(derivation, problem.facts(plan["n"], plan["d"]), problem.l2)
    agree(isinstance(claim, Claim), "claim")
    return claim


def _check_lengths(derivation: Any) -> None:
    """Refuse numbers of draws, rows or bins that the theorems would take too long for, before any work."""
    for node in _objects(derivation):
        times = 0 if "prefix sums" in str(node.get("law")) else node.get("times", 0)
        if times > LARGEST or any(node.get(k, 0) > _LARGEST_GROUP for k in ("size", "bins")):
            raise VerificationError("the derivation on the receipt is too long to be proved again")


def _objects(plain: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plain, dict):
        yield plain
    for part in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
        yield from _objects(part)


def _decode(plain: Any, facts: Mapping[Kind, Fact], l2: float) -> Any:
    """Read a derivation back by proving it again, step by step, from the facts of the problem."""
    if isinstance(plain, list):
        return [_decode(v, facts, l2) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "release" in plain:
        law, scale, shape, times = (plain[key] for key in ("law", "scale", "shape", "times"))
        return Release(plain["release"], law, scale, tuple(shape), times, plain.get("grid"))
    if "schedule" in plain:
        return schedule_from_json(plain)
    if "range" in plain:
        return range(*plain["range"])
    if "by" in plain:
        given = plain["from"]
        if "problem" in given:  # a claim about a problem of its own
            own = Problem.from_json(read_json(given["problem"], "a problem on the receipt", VerificationError))
            facts, l2 = own.facts(given["n"], given["d"]), own.l2
        agree(given.get("l2", l2) == l2, "l2")
        again = THEOREMS[plain["by"]](**{k: _decode(v, facts, l2) for k, v in given.items()})
    else:
        again = facts[Kind[plain["fact"]]]
    if isinstance(again, Fact):
        same = _agree(plain["value"], encode(again.value)) and plain.get("relation") == again.relation
        agree(same and plain["source"] == again.source and plain["fact"] == again.kind.name, again.kind.name)
        return again
    same = (plain["relation"], plain["scope"], plain["unit"]) == (again.relation, again.scope, again.unit)
    agree(same and _agree(plain["claim"], again.profile.to_json()), plain["by"])
    return again


# Comparing -----------------------------------------------------------------------------------------------------------


def _check_form(data: dict[str, Any]) -> None:
    """Check the sections of format 2, their digests, and what no plan determines: names, digests and versions."""
    agree(set(data) == set(SECTIONS), "sections")
    agree(data["digest"] == body_digest(data), "digest")
    agree(data["plan"]["digest"] == plan_digest(data), "plan.digest")
    dataset, arithmetic, outside = data["dataset"], data["arithmetic"], data["outside"]
    fields = {
        "plan": {*PLAN_FIELDS, "digest"} - {"claim"},
        "claim": {"profile", "epsilon", "delta", "relation", "scope", "derivation"},
        "facts": {"library", "caller"},
        "arithmetic": {"numbers", "grid", "slack", "source", "private", "drawn", "trusted_loops"},
        "outside": {"read_from_data", "not_covered"},
        "dataset": {"name", "unit", "declared", "stream"},
    }
    for section, known in fields.items():
        agree(set(data[section]) == known, section)
    plain_name(dataset["name"], "dataset.name")
    agree(all(_is_digest(dataset[key]) or dataset[key] is None for key in ("declared", "stream")), "dataset")
    agree(_is_digest(data["released"]), "released")
    if (entry := data["ledger"]) is not None:
        agree(isinstance(entry, dict) and set(entry) == {"ledger", "entry", "hash"}, "ledger")
        whole(entry["entry"], "ledger.entry")
        agree(_is_digest(entry["ledger"]) and _is_digest(entry["hash"]), "ledger")
    agree(isinstance(data["plan"]["library"], str), "plan.library")
    for words in (data["engine"], arithmetic["trusted_loops"]):
        agree(isinstance(words, dict) and all(isinstance(word, str) for word in words.values()), "engine")
    agree(_DATE.fullmatch(data["engine"].get("date", "2000-01-01")) is not None, "engine.date")
    read = outside["read_from_data"]
    agree(isinstance(read, list) and all(isinstance(word, str) for word in read), "outside.read_from_data")
    agree(DESCRIPTIONS.get(arithmetic["private"]) == arithmetic["source"], "arithmetic.private")
    whole(data["plan"]["n"], "plan.n", 2)
    whole(data["plan"]["d"], "plan.d")


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _check_claim(sections: dict[str, Any], claim: Claim) -> None:
    """Check what a receipt of any format says about its claim."""
    stated, arithmetic, budget = sections["claim"], sections["arithmetic"], sections["plan"]["budget"]
    agree(_agree(stated["profile"], claim.profile.to_json(), _CLOSE), "claim.profile")
    agree(stated["relation"] == claim.relation == budget["relation"], "claim.relation")
    agree(sections["dataset"]["unit"] == claim.unit, "dataset.unit")
    agree(stated["scope"] == claim.scope, "claim.scope")
    agree(stated["delta"] == budget["delta"], "claim.delta")
    agree(_close(stated["epsilon"], claim.epsilon(stated["delta"]), _CLOSE), "claim.epsilon")
    agree(stated["epsilon"] <= budget["epsilon"], "claim.epsilon above budget.epsilon")
    agree(arithmetic["drawn"] == [r.name for r in claim.releases], "arithmetic.drawn")
    agree(("not private" not in arithmetic["source"]) == arithmetic["private"], "arithmetic.private")


def _check_what_follows(data: dict[str, Any], claim: Claim) -> None:
    """Check what format 2 says beyond format 1, as far as it follows from the claim."""
    agree(_agree(data["facts"]["library"], known_facts(claim)), "facts.library")
    word = on_the_word_of_the_caller(claim.unit, known_facts(claim), data["plan"])
    agree(data["facts"]["caller"] == word, "facts.caller")
    agree(data["plan"]["people"] == claim.unit, "plan.people")
    agree(data["outside"]["not_covered"] == NOT_COVERED, "outside.not_covered")
    arithmetic = data["arithmetic"]
    agree(arithmetic["numbers"] == arithmetic_words(claim.releases), "arithmetic.numbers")
    agree(arithmetic["grid"] == grids(claim), "arithmetic.grid")
    agree(_agree(arithmetic["slack"], slack(claim)), "arithmetic.slack")
    agree(data["signature"] is None or is_envelope(data["signature"], RECEIPT), "signature")


def _check_format_1(data: dict[str, Any]) -> None:
    agree(data["digest"] == earlier_digest({k: v for k, v in data.items() if k != "digest"}), "digest")
    fields = [k for k in PLAN_FIELDS if k in data]
    agree(data["plan"] == earlier_digest({k: data[k] for k in fields}), "plan")
    agree(data["noise"]["arithmetic"] == "float64", "noise.arithmetic")


def _close(a: Any, b: float, rel: float = 1e-9) -> bool:
    number = isinstance(a, int | float) and not isinstance(a, bool)
    return number and math.isclose(a, b, rel_tol=rel, abs_tol=1e-300)


def _agree(stated: Any, proved: Any, rel: float = 1e-9) -> bool:
    """Whether two plain forms are the same, numbers up to rounding."""
    if isinstance(proved, dict):
        same = isinstance(stated, dict) and stated.keys() == proved.keys()
        return same and all(_agree(stated[k], v, rel) for k, v in proved.items())
    if isinstance(proved, list | tuple):
        same = isinstance(stated, list) and len(stated) == len(proved)
        return same and all(_agree(a, b, rel) for a, b in zip(stated, proved, strict=True))
    if isinstance(proved, float):
        return _close(stated, proved, rel)
    return isinstance(stated, bool) == isinstance(proved, bool) and bool(stated == proved)


def add_up(receipts: Iterable[Receipt], delta: float | None = None) -> tuple[Account, ...]:
    """Add up receipts, each verified, by the names of their data sets.

    One that is given twice counts once, and so do the receipts of one stream. `print` states each total at `delta`, by
    default the smallest on the receipts of the data set.

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
    by_name: dict[str, dict[str, tuple[Claim, Receipt]]] = {}
    for receipt in receipts:
        claim = prove(receipt)
        dataset = receipt.sections["dataset"]
        run = dataset["stream"] or receipt.sections["digest"]
        by_name.setdefault(normal_name(dataset["name"], "dataset"), {})[run] = claim, receipt
    found = []
    for dataset, entries in by_name.items():
        runs = [fresh_run(claim, f"run {i}") for i, (claim, made) in enumerate(entries.values(), 1) if made.private]
        at = Budget(1.0, delta).delta if delta is not None else min(made.delta for _, made in entries.values())
        found.append(Account(dataset, tuple(runs), len(entries) - len(runs), f"on {len(entries)} receipts", at))
    return tuple(found)
