"""Receipts: a guarantee and its derivation, as plain JSON that anyone can verify."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.canonical import EARLIER, Written, digest, portable, sections_of_format_1
from dpconvex.errors import VerificationError
from dpconvex.kernel.claims import Claim, Release, stated_facts
from dpconvex.plain import read_json
from dpconvex.problem.facts import Fact
from dpconvex.problem.problem import Problem
from dpconvex.words import arithmetic_words, as_html, in_words, on_the_word_of_the_caller

FORMAT = "dpconvex-receipt/2"
NOT_COVERED = [
    "the number of records and of features",
    "how long the run took: steps of a solver, secret numbers of repetitions and slow draws of noise take their time",
    "that the run was not refused: without a schema, entries that are not finite and unknown labels are",
]
SECTIONS = (
    "format", "plan", "claim", "facts", "arithmetic", "outside", "dataset", "engine", "ledger", "released",
    "digest", "signature",
)  # fmt: skip
PLAN_FIELDS = (
    "library", "algorithm", "problem", "n", "d", "budget", "one_record", "people", "stream", "claim",
    "gradient_evaluations", "schedule",
)  # fmt: skip


def encode(value: Any) -> Any:
    """Plain JSON form of any part of a derivation."""
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
            "grid": value.grid,
        }
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if isinstance(value, range):
        return {"range": [value.start, value.stop]}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    return str(value) if isinstance(value, str) else value


def _encode_derivation(value: Claim | Fact) -> dict[str, Any]:
    return {"by": value.derivation.theorem, "from": {k: encode(v) for k, v in value.derivation.arguments.items()}}


def fingerprint(weights: np.ndarray) -> str:
    """sha256 of released weights: their shape and their float64 bytes."""
    head = "x".join(map(str, weights.shape)).encode()
    return hashlib.sha256(head + b":" + np.ascontiguousarray(weights, dtype="<f8").tobytes()).hexdigest()


@dataclass(frozen=True)
class Receipt:
    """The guarantee of a run as plain data. `print(receipt)` states it in words.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> receipt = plan.run(np.eye(2)[[0, 1, 0, 1]], np.array([1.0, -1.0, 1.0, -1.0])).receipt
    >>> bool(dc.verify(receipt)), receipt.private, receipt.epsilon <= 1.0
    (True, True, True)
    """

    data: dict[str, Any]

    @cached_property
    def sections(self) -> dict[str, Any]:
        """The sections of format 2; what a receipt of an earlier format does not say is None."""
        return sections_of_format_1(self.data) if self.data.get("format") == EARLIER else self.data

    @property
    def epsilon(self) -> float:
        """Epsilon of the guarantee at the delta of the budget."""
        return float(self.sections["claim"]["epsilon"])

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return float(self.sections["claim"]["delta"])

    @property
    def private(self) -> bool:
        """False if the noise came from a fixed seed."""
        return bool(self.sections["arithmetic"]["private"])

    @cached_property
    def problem(self) -> Problem:
        """The problem that was solved."""
        return Problem.from_json(self.sections["plan"]["problem"])

    def covers(self, weights: np.ndarray) -> bool:
        """Whether these are exactly the weights that the run released."""
        return bool(self.sections["released"] == fingerprint(weights))

    def to_json(self) -> str:
        """Readable JSON text."""
        return json.dumps(self.data, indent=2, sort_keys=True, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Receipt:
        """Read a receipt from JSON text. It is not verified here: call `dpconvex.verify`.

        Raises
        ------
        VerificationError
            If the text is not a receipt, or not JSON within the limits of `dpconvex.plain`.
        """
        data = read_json(text, "the receipt", VerificationError)
        if not isinstance(data, dict) or data.get("format") not in (FORMAT, EARLIER):
            raise VerificationError(f"not a receipt: format {FORMAT!r} expected")
        return Receipt(data)

    def save(self, path: str | Path) -> None:
        """Write the JSON text to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        return in_words(self.sections)


def issue(
    plan: dict[str, Any],
    claim: Claim,
    weights: np.ndarray,
    *,
    source: str,
    private: bool,
    loops: Mapping[str, str],
    dataset: str,
    declared: str | None,
    undeclared: Sequence[str],
    engine: Mapping[str, str],
    slack: float,
    stream: str | None = None,
    ledger: Mapping[str, Any] | None = None,
) -> Receipt:
    """Write the receipt of a run of a plan, which is given in its plain form.

    `undeclared` lists what was read from the data. `declared` is the digest of what the caller knew about the data
    beforehand. `slack` is what rounding added to a sensitivity. Receipts of one stream, written after more and more
    records, name it: they are about one release.
    """
    delta, facts = plan["budget"]["delta"], known_facts(claim)
    return sealed(
        {
            "format": FORMAT,
            "plan": {key: plan[key] for key in PLAN_FIELDS if key != "claim"},
            "claim": {
                "profile": claim.profile.to_json(),
                "epsilon": claim.epsilon(delta),
                "delta": delta,
                "relation": claim.relation,
                "scope": str(claim.scope),
                "derivation": plan["claim"],
            },
            "facts": {
                "library": facts,
                "caller": on_the_word_of_the_caller(claim.unit, facts, plan),
            },
            "arithmetic": {
                "numbers": arithmetic_words(claim.releases),
                "grid": grids(claim),
                "slack": slack,
                "source": source,
                "private": private,
                "drawn": [release.name for release in claim.releases],
                "trusted_loops": dict(loops),
            },
            "outside": {"read_from_data": [str(what) for what in undeclared], "not_covered": NOT_COVERED},
            "dataset": {"name": dataset, "unit": claim.unit, "declared": declared, "stream": stream},
            "engine": dict(engine),
            "ledger": None if ledger is None else dict(ledger),
            "released": fingerprint(weights),
            "signature": None,
        }
    )


def sealed(data: dict[str, Any]) -> Receipt:
    """Receipt of the given sections, with the digests of the plan and of the whole receipt added."""
    data = portable(data)
    once = {**data, "claim": {**data["claim"], "derivation": Written.of(data["claim"]["derivation"])}}
    data["plan"]["digest"] = plan_digest(once)
    return Receipt({**data, "digest": body_digest(once)})


def form_digest(plan: Mapping[str, Any]) -> str:
    """Digest of a plan in its plain form."""
    return digest({key: plan[key] for key in PLAN_FIELDS})


def plan_digest(data: dict[str, Any]) -> str:
    """Digest that the plan in a receipt must have."""
    plan = {key: value for key, value in data["plan"].items() if key != "digest"}
    return digest({**plan, "claim": data["claim"]["derivation"]})


def body_digest(data: dict[str, Any]) -> str:
    """Digest that a receipt must have, computed from everything but the digest itself and its signature."""
    return digest({key: value for key, value in data.items() if key not in ("digest", "signature")})


def grids(claim: Claim) -> dict[str, float]:
    """The grid of every release that has one."""
    return {release.name: release.grid for release in claim.releases if release.grid is not None}


def known_facts(claim: Claim) -> list[dict[str, Any]]:
    """Facts of the problem that a claim depends on, each once, in plain form."""
    return [encode(fact) for fact in sorted(set(stated_facts(claim)), key=lambda f: (f.kind.name, f.value, f.source))]
