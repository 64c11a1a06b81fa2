"""Receipts: what was promised and why, as plain JSON that anyone can check again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.errors import DpconvexError, InputError, VerificationError
from dpconvex.privacy import theorems  # noqa: F401 (registers what receipts name)
from dpconvex.privacy.claims import PERSON, THEOREMS, Claim, Release, Scope
from dpconvex.privacy.schedules import Constant, Growing, Listed, schedule_from_json, schedule_to_json
from dpconvex.privacy.theorems.gibbs import COIN_LAWS
from dpconvex.problem.facts import Fact, Kind
from dpconvex.problem.problem import Problem

FORMAT = "dpconvex-receipt/1"
ARITHMETIC = "float64"
SHAPED = ("disjoint_sums", "generalised_gaussian", "shuffled_sums")  # what they conclude depends on the dimension
GAMES = ("gibbs_draws", "gibbs_switching")
OF_PROBLEM = "of_problem"  # the theorem below which facts are those of the problem it names, and l2 is checked by it


def neighbour_words(relation: str, unit: int | str) -> str:
    """What may change between two data sets that the guarantee makes hard to tell apart."""
    if unit == PERSON:
        records, others = "all the rows of one person", "however many of one other who has none"
    else:
        records, others = ("one record", "any other") if unit == 1 else (f"{unit} records of one person", "any others")
    if relation == "replace_one":
        return f"{records} replaced by {others}"
    return f"the contribution of {records} masked in place"


SCOPE_WORDS = {Scope.LAST: "the last iterate", Scope.EVERY: "every noisy iterate"}


def encode(value: Any) -> Any:
    """Plain form of whatever stands in a derivation."""
    if isinstance(value, Claim):
        return {
            "claim": value.profile.to_json(),
            "relation": value.relation,
            "scope": str(value.scope),
            "unit": value.unit,
            **_encode_derivation(value),
        }
    if isinstance(value, Fact):
        plain = {"fact": value.kind.name, "value": encode(value.value), "source": value.source}
        if value.relation is not None:
            plain["relation"] = value.relation
        return plain if value.derivation is None else {**plain, **_encode_derivation(value)}
    if isinstance(value, Release):
        return {
            "release": value.name,
            "law": value.law,
            "scale": value.scale,
            "shape": list(value.shape),
            "times": value.times,
        }
    if isinstance(value, Constant | Growing | Listed):
        return schedule_to_json(value)
    if isinstance(value, range):
        return {"range": [value.start, value.stop]}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    return str(value) if isinstance(value, str) else value


def _encode_derivation(value: Claim | Fact) -> dict[str, Any]:
    derivation = value.derivation
    return {"by": derivation.theorem, "from": {k: encode(v) for k, v in derivation.arguments.items()}}


def digest(plain: Any) -> str:
    """sha256 of the canonical JSON form."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(weights: np.ndarray) -> str:
    """sha256 of released weights: their shape and their float64 bytes."""
    head = "x".join(map(str, weights.shape)).encode()
    return hashlib.sha256(head + b":" + np.ascontiguousarray(weights, dtype="<f8").tobytes()).hexdigest()


@dataclass(frozen=True)
class Receipt:
    """What a run promises, in plain data. `print(receipt)` says it in words.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> receipt = plan.run(np.eye(2)[[0, 1, 0, 1]], np.array([1.0, -1.0, 1.0, -1.0])).receipt
    >>> dc.verify(receipt), receipt.private, receipt.epsilon <= 1.0
    (True, True, True)
    """

    data: dict[str, Any]

    @property
    def epsilon(self) -> float:
        """Epsilon of the guarantee at the delta of the budget."""
        return float(self.data["guarantee"]["epsilon"])

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return float(self.data["guarantee"]["delta"])

    @property
    def private(self) -> bool:
        """False if the noise came from a fixed seed."""
        return bool(self.data["noise"]["private"])

    @cached_property
    def problem(self) -> Problem:
        """What was minimised."""
        return Problem.from_json(self.data["problem"])

    def covers(self, weights: np.ndarray) -> bool:
        """Whether these are the weights the run released, to the last bit."""
        return bool(self.data["released"] == fingerprint(weights))

    def to_json(self) -> str:
        """Readable JSON text."""
        return json.dumps(self.data, indent=2, sort_keys=True, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Receipt:
        """Read a receipt back. It is not verified here: call `dpconvex.verify`."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError:
            raise VerificationError("not a receipt: the text is not JSON") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise VerificationError(f"not a receipt: format {FORMAT!r} expected")
        return Receipt(data)

    def save(self, path: str | Path) -> None:
        """Write the JSON text to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def __str__(self) -> str:
        g, noise = self.data["guarantee"], self.data["noise"]
        words = neighbour_words(g["relation"], g["unit"])
        who = {1: "one record", PERSON: "all the rows of one person"}
        unit = who.get(g["unit"], f"one person of up to {g['unit']} records")
        head = "PRIVATE RELEASE" if noise["private"] else "NOT PRIVATE: the noise came from a fixed seed (tests only)"
        if read := ", ".join(self.data["read_from_data"]):
            head += f", EXCEPT FOR WHAT WAS READ FROM THE DATA: {read}"
        return "\n".join(
            [
                head,
                f"  guarantee   ({g['epsilon']:.4g}, {g['delta']:.3g})-differential privacy"
                + (f", {g['profile']['mu']:.6g}-GDP" if g["profile"]["kind"] == "GDP" else ""),
                f"  protects    {unit} {_whole(self.data)} {self.data['dataset']!r}: {words}",
                f"  released    {SCOPE_WORDS[g['scope']]} of {self.data['algorithm']['name']}, nothing else",
                f"  noise       {', '.join(self.data['drawn'])} ({noise['source']}; {noise['arithmetic']} arithmetic)",
                f"  rests on    {', '.join(sorted(_theorems(self.data['claim'])))}",
                f"  read from the data without privacy: {read or 'nothing'}",
                f"  plan        {self.data['plan'][:16]}, dpconvex {self.data['library']}",
            ]
        )


def issue(
    plan: dict[str, Any],
    claim: Claim,
    drawn: list[str],
    private: bool,
    source: str,
    weights: np.ndarray,
    dataset: str,
    undeclared: Sequence[str],
    declared: str | None,
    stream: str | None = None,
) -> Receipt:
    """Write the receipt of a run of a plan (given in its plain form).

    `undeclared` was read from the data; `declared` is the digest of what the caller knew of it beforehand. Receipts of
    one stream, after more and more records, name it: they are about one release.
    """
    delta = plan["budget"]["delta"]
    data = {
        "format": FORMAT,
        **plan,
        "plan": digest(plan),
        "guarantee": {
            "profile": claim.profile.to_json(),
            "epsilon": claim.epsilon(delta),
            "delta": delta,
            "relation": claim.relation,
            "unit": claim.unit,
            "scope": str(claim.scope),
        },
        "drawn": drawn,
        "noise": {"private": private, "source": source, "arithmetic": ARITHMETIC},
        "dataset": dataset,
        "released": fingerprint(weights),
        "declared": declared,
        "read_from_data": [str(what) for what in undeclared],
        **({} if stream is None else {"stream": stream}),
    }
    return Receipt({**data, "digest": digest(data)})


def _whole(data: dict[str, Any]) -> str:
    return "of the stream" if "stream" in data else f"among {data['n']} of"


PLAN_FIELDS = ("library", "algorithm", "problem", "n", "d", "budget", "claim", "gradient_evaluations")


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


def _nodes(plain: Any, without: str = "") -> Iterator[dict[str, Any]]:
    """Every object of a derivation in plain form; nothing of what follows by the theorem `without`."""
    if isinstance(plain, dict):
        if without and plain.get("by") == without:
            return
        yield plain
    for part in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
        yield from _nodes(part, without)


def _theorems(plain: Any) -> set[str]:
    return {node["by"] for node in _nodes(plain) if "by" in node}


def _arguments(plain: Any, name: str) -> list[Any]:
    return [node["from"][name] for node in _nodes(plain, OF_PROBLEM) if name in node.get("from", {})]


def _ranges(plain: Any) -> list[list[int]]:
    return [node["range"] for node in _nodes(plain) if "range" in node]
