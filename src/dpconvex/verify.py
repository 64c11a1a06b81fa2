"""Prove again what a receipt says, from its own plan and problem."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from dpconvex import theorems  # noqa: F401 (registers what receipts name)
from dpconvex.errors import DpconvexError, InputError, VerificationError
from dpconvex.kernel.claims import THEOREMS, Claim, Release
from dpconvex.kernel.receipt import ARITHMETIC, FORMAT, PLAN_FIELDS, Receipt, _nodes, _theorems, digest, encode
from dpconvex.kernel.schedules import schedule_from_json
from dpconvex.ledger.account import Account
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.problem import Problem
from dpconvex.theorems import fresh_run
from dpconvex.theorems.gibbs_switching import COIN_LAWS

SHAPED = ("disjoint_sums", "generalised_gaussian", "shuffled_sums")  # what they conclude depends on the dimension

GAMES = ("gibbs_draws", "gibbs_switching")

OF_PROBLEM = "of_problem"  # the theorem below which facts are those of the problem it names, and l2 is checked by it


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
        _require(data["format"] == FORMAT, "format")
        body = {k: v for k, v in data.items() if k != "digest"}
        _require(data["digest"] == digest(body), "digest")
        _require(data["plan"] == digest({k: data[k] for k in PLAN_FIELDS}), "plan")
        _require(all(r[1] <= data["n"] for r in _ranges(data["claim"])), "a range of records beyond n")
        _require(all(v == data["problem"]["l2"] for v in _arguments(data["claim"], "l2")), "l2")
        _check_sizes(data["claim"], data["problem"], data["n"], data["d"])
        _check_games(data["claim"], data["algorithm"])
        _check_candidates(data)
        facts = Problem.from_json(data["problem"]).facts(data["n"], data["d"])
        claim: Claim = _decode(data["claim"], facts)
        _require(isinstance(claim, Claim), "claim")
        guarantee = data["guarantee"]
        _require(_agree(guarantee["profile"], claim.profile.to_json()), "guarantee.profile")
        _require(guarantee["relation"] == claim.relation == data["budget"]["relation"], "guarantee.relation")
        _require(guarantee["unit"] == claim.unit, "guarantee.unit")
        _require(guarantee["scope"] == claim.scope, "guarantee.scope")
        _require(guarantee["delta"] == data["budget"]["delta"], "guarantee.delta")
        _require(_close(guarantee["epsilon"], claim.epsilon(guarantee["delta"])), "guarantee.epsilon")
        _require(guarantee["epsilon"] <= data["budget"]["epsilon"], "guarantee.epsilon above budget.epsilon")
        _require(data["drawn"] == [r.name for r in claim.releases], "drawn")
        _require(data["noise"]["arithmetic"] == ARITHMETIC, "noise.arithmetic")
        _require(("not private" not in data["noise"]["source"]) == data["noise"]["private"], "noise")
    except VerificationError:
        raise
    except (DpconvexError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise VerificationError(f"the receipt cannot be read: {type(error).__name__}") from error
    return claim


def _check_candidates(data: Mapping[str, Any]) -> None:
    """Let only candidates of a selection have problems of their own, and the selected one that of the receipt."""
    candidates = [node["from"] for node in _nodes(data["claim"]) if node.get("by") == OF_PROBLEM]
    if not candidates:
        return
    _require("private_selection" in _theorems(data["claim"]), "a problem of its own without a selection")
    parts = [
        (part["from"], within["range"])
        for node in _nodes(data["claim"])
        if node.get("by") == "parallel"
        for part, within in zip(node["from"]["claims"], node["from"]["records"], strict=True)
        if part.get("by") == OF_PROBLEM
    ]
    _require(len(parts) == len(candidates), "a candidate that is not about a part of the records")
    for candidate, (start, stop) in parts:
        _require((candidate["n"], candidate["d"]) == (stop - start, data["d"]), "n or d of a candidate")
        _require(all(r[1] <= candidate["n"] for r in _ranges(candidate["claim"])), "a range beyond n of a candidate")
        _check_sizes(candidate["claim"], json.loads(candidate["problem"]), candidate["n"], candidate["d"])
        _require(stop - start == data["n"] - data["algorithm"]["holdout"], "algorithm.holdout")
    selected = candidates[data["algorithm"]["selected"]]
    _require(json.loads(selected["problem"]) == data["problem"], "the problem of the selected candidate")


def _check_sizes(claim: Any, problem: Any, n: int, d: int) -> None:
    """Let an order be one of all records, and noise whose effect depends on its dimension have that of the weights."""
    shape = list(Problem.from_json(problem).weight_shape(d))
    for node in _nodes(claim, OF_PROBLEM):
        given = node.get("from", {})
        if isinstance(given.get("order"), dict):
            _require(given["order"]["shape"] == [n], "an order of other records")
        if node.get("by") in SHAPED:
            _require(given["release"]["shape"] == shape, "noise of another shape than the weights")
        if node.get("by") in GAMES:
            _require(given["horizon"] == n and given["points"]["shape"] == [d], "a game of other rounds or points")


def _check_games(claim: Any, player: Mapping[str, Any]) -> None:
    """Let the claim of a game be about the blocks, coins and laws that its player says it has."""
    for node in _nodes(claim, OF_PROBLEM):
        if node.get("by") not in GAMES:
            continue
        given, coin = node["from"], player.get("coin", "")
        _require(given["block"] == player["block"], "algorithm.block")
        _require(given.get("coins", {}).get("law") == COIN_LAWS.get(coin), "algorithm.coin")
        _require((given.get("slack", 0.0) > 0.0) == (coin in ("exact", "one_sample")), "slack of the coins")
        _require((given["error"] > 0.0) == ("smoothness" in player), "error of the draws")


def _require(holds: bool, field: str) -> None:
    if not holds:
        raise VerificationError(f"the receipt contradicts itself at: {field}")


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)


def _decode(plain: Any, facts: dict[Kind, Fact]) -> Any:
    """Read a derivation back by proving it again, step by step."""
    if isinstance(plain, list):
        return [_decode(v, facts) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "release" in plain:
        return Release(plain["release"], plain["law"], plain["scale"], tuple(plain["shape"]), plain["times"])
    if "schedule" in plain:
        return schedule_from_json(plain)
    if "range" in plain:
        return range(*plain["range"])
    if "by" in plain:
        arguments = plain["from"]
        if plain["by"] == OF_PROBLEM:
            facts = Problem.from_json(json.loads(arguments["problem"])).facts(arguments["n"], arguments["d"])
        again = THEOREMS[plain["by"]](**{k: _decode(v, facts) for k, v in arguments.items()})
    else:
        again = facts[Kind[plain["fact"]]]
    if isinstance(again, Fact):
        same = _agree(plain["value"], encode(again.value)) and plain.get("relation") == again.relation
        _require(same and plain["source"] == again.source and plain["fact"] == again.kind.name, again.kind.name)
        return again
    same = (plain["relation"], plain["scope"], plain["unit"]) == (again.relation, again.scope, again.unit)
    _require(same and _agree(plain["claim"], again.profile.to_json()), plain["by"])
    return again


def _agree(stated: Any, proved: Any) -> bool:
    """Whether two plain forms are the same, numbers up to rounding."""
    if isinstance(proved, dict):
        return stated.keys() == proved.keys() and all(_agree(stated[k], v) for k, v in proved.items())
    if isinstance(proved, list):
        return len(stated) == len(proved) and all(_agree(a, b) for a, b in zip(stated, proved, strict=True))
    return _close(stated, proved) if isinstance(proved, float) else bool(stated == proved)


def _arguments(plain: Any, name: str) -> list[Any]:
    return [node["from"][name] for node in _nodes(plain, OF_PROBLEM) if name in node.get("from", {})]


def _ranges(plain: Any) -> list[list[int]]:
    return [node["range"] for node in _nodes(plain) if "range" in node]


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
