"""Choosing among candidates by a private score: one of them at random, and the best of a secret number of such runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import (
    Claim,
    Guarantee,
    Public,
    Release,
    Scope,
    agree,
    checks,
    concludes_claim,
    need_claims,
    stated_facts,
)
from dpconvex.kernel.profiles import Largest
from dpconvex.problem.facts import Fact
from dpconvex.problem.problem import Problem
from dpconvex.theorems.numerics.repeated import MOST, SLOPES, BestOf, mean_count
from dpconvex.words import nodes

UNIFORM = "uniform"  # law of a release that is no noise: which of several things is done


@concludes_claim
def of_problem(claim: Claim, problem: str, n: int, d: int) -> Guarantee:
    """A claim that rests on the facts of a problem of its own (in its JSON form), for n records of d features.

    So claims about different problems can stand in one derivation, each with its facts.
    """
    relation, unit = need_claims([claim])
    if not isinstance(problem, str):
        raise HypothesisError("problem must be the JSON text of a problem")
    own = Problem.from_json(json.loads(problem))
    known = own.facts(n, d)
    if not all(known.get(fact.kind) == fact for fact in stated_facts(claim)):
        raise HypothesisError("the claim rests on facts that are not those of the problem")
    if not all(l2 == own.l2 for l2 in _arguments(claim, "l2")):
        raise HypothesisError("the claim is about another l2 than the problem has")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def any_of(claims: Sequence[Claim], choice: Release) -> Guarantee:
    """One of several mechanisms, drawn without looking at the data, and which it was: the largest of their curves."""
    relation, unit = need_claims(claims)
    if not isinstance(choice, Release) or choice.law != UNIFORM or choice.shape != (len(claims),):
        raise HypothesisError(f"choice must be a Release of law {UNIFORM!r} with one entry a claim")
    profiles = tuple(dict.fromkeys(c.profile for c in claims))
    scope = Scope.LAST if any(c.scope is Scope.LAST for c in claims) else Scope.EVERY
    return Guarantee(profiles[0] if len(profiles) == 1 else Largest(profiles), relation, scope, unit)


@concludes_claim
def private_selection(claim: Claim, repeats: Release) -> Guarantee:
    """The best of K runs of a mechanism by a score that is part of its output, and nothing of the other runs.

    K is drawn beforehand from the law of `repeats`, whose scale is its parameter, and is secret; all K runs are made.
    (Liu, Talwar 2019; Papernot, Steinke 2022; curves: Koskela, Redberg, Wang 2024, here sharper.)
    """
    relation, unit = need_claims([claim])
    if not isinstance(repeats, Release) or repeats.law not in SLOPES:
        raise HypothesisError(f"repeats must be a Release of one of the laws {', '.join(SLOPES)}")
    if repeats.shape != (1,) or repeats.times != 1:
        raise HypothesisError("repeats must be one number, drawn once: how often to run is not to be drawn again")
    top = 1.0 if repeats.law != "poisson" else MOST
    if not 0.0 < repeats.scale < top or not mean_count(repeats.law, repeats.scale) <= MOST * (1.0 + 1e-9):
        raise HypothesisError(f"repeats: the parameter must lie in (0, {top:g}), and give a mean of at most {MOST:g}")
    return Guarantee(BestOf(claim.profile, repeats.law, repeats.scale), relation, Scope.LAST, unit)


def _arguments(value: Any, name: str) -> Iterator[Any]:
    """Every argument of that name in a derivation."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _arguments(part, name)
    elif isinstance(value, Claim | Fact) and value.derivation is not None:
        arguments = value.derivation.arguments
        if name in arguments:
            yield arguments[name]
        yield from _arguments(tuple(arguments.values()), name)


@checks("of_problem")
def _check_problem(given: Mapping[str, Any], public: Public) -> Public:
    """Let only candidates of a selection have problems of their own; what is below is about theirs."""
    agree(public.several, "a problem of its own without a selection")
    return public._replace(n=given["n"], d=given["d"], problem=Problem.from_json(json.loads(given["problem"])))


@checks("private_selection")
def _check_candidates(given: Mapping[str, Any], public: Public) -> Public:
    """Let every candidate be about the records that are not held out, and the selected one about the problem."""
    candidates = [node["from"] for node in nodes(given) if node.get("by") == "of_problem"]
    parts = [
        (part["from"], within["range"])
        for node in nodes(given)
        if node.get("by") == "parallel"
        for part, within in zip(node["from"]["claims"], node["from"]["records"], strict=True)
        if part.get("by") == "of_problem"
    ]
    agree(len(parts) == len(candidates), "a candidate that is not about a part of the records")
    for candidate, (start, stop) in parts:
        agree((candidate["n"], candidate["d"]) == (stop - start, public.d), "n or d of a candidate")
        agree(stop - start == public.n - public.algorithm["holdout"], "algorithm.holdout")
    if candidates:
        selected = Problem.from_json(json.loads(candidates[public.algorithm["selected"]]["problem"]))
        agree(selected == public.problem, "the problem of the selected candidate")
    return public._replace(several=True)
