"""Receipts: what was promised and why, as plain JSON that anyone can check again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.errors import VerificationError
from dpconvex.kernel.claims import PERSON, Claim, Release, Scope
from dpconvex.problem.facts import Fact
from dpconvex.problem.problem import Problem

FORMAT = "dpconvex-receipt/1"
ARITHMETIC = "float64"


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
    if hasattr(value, "to_plain"):
        return value.to_plain()
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
    loops: Mapping[str, str] | None = None,
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
        "trusted_loops": dict(loops or {}),
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
