"""Choosing among candidates by a private score: the best of a secret number of runs of random candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import (
    Claim,
    Guarantee,
    Release,
    Scope,
    concludes_claim,
    need_claims,
    stated_facts,
)
from dpconvex.kernel.profiles import Largest
from dpconvex.plain import read_json
from dpconvex.problem.facts import Fact
from dpconvex.problem.problem import Problem
from dpconvex.theorems.numerics.repeated import MOST, SLOPES, BestOf, mean_count

UNIFORM = "uniform"  # law of a release that is not noise: the choice of one of several mechanisms


@concludes_claim
def of_problem(claim: Claim, problem: str, n: int, d: int) -> Guarantee:
    """A claim together with the problem, in JSON form, whose facts for n records of d features it depends on.

    With this, claims about different problems can be used in one derivation.
    """
    relation, unit = need_claims([claim])
    own = Problem.from_json(read_json(problem, "problem", HypothesisError))
    known = own.facts(n, d)
    if not all(known.get(fact.kind) == fact for fact in stated_facts(claim)):
        raise HypothesisError("the claim depends on facts that are not facts of the problem")
    if not all(l2 == own.l2 for l2 in _arguments(claim, "l2")):
        raise HypothesisError("the l2 of the claim differs from the l2 of the problem")
    return Guarantee(claim.profile, relation, claim.scope, unit)


@concludes_claim
def any_of(claims: Sequence[Claim], choice: Release) -> Guarantee:
    """One of several mechanisms, chosen independently of the data, and its index: the largest of their curves."""
    relation, unit = need_claims(claims)
    if not isinstance(choice, Release) or choice.law != UNIFORM or choice.shape != (len(claims),):
        raise HypothesisError(f"choice must be a Release of law {UNIFORM!r} with one entry per claim")
    profiles = tuple(dict.fromkeys(c.profile for c in claims))
    scope = Scope.LAST if any(c.scope is Scope.LAST for c in claims) else Scope.EVERY
    return Guarantee(profiles[0] if len(profiles) == 1 else Largest(profiles), relation, scope, unit)


@concludes_claim
def private_selection(claim: Claim, repeats: Release) -> Guarantee:
    """The best of K runs of a mechanism by a score that is part of its output; nothing of the other runs is released.

    K is drawn beforehand from the law of `repeats`, whose scale is the parameter of the law, and stays secret. All K
    runs are made. See [1]_ and [2]_; the curves are sharper than those of [3]_.

    References
    ----------
    .. [1] Liu, Talwar (2019), "Private selection from private candidates".
    .. [2] Papernot, Steinke (2022), "Hyperparameter tuning with Renyi differential privacy".
    .. [3] Koskela, Redberg, Wang (2024), "Privacy profiles for private selection".
    """
    relation, unit = need_claims([claim])
    if not isinstance(repeats, Release) or repeats.law not in SLOPES:
        raise HypothesisError(f"repeats must be a Release of one of the laws {', '.join(SLOPES)}")
    if repeats.shape != (1,) or repeats.times != 1:
        raise HypothesisError("repeats must be one number, drawn once: the number of runs must not be drawn again")
    top = 1.0 if repeats.law != "poisson" else MOST
    if not 0.0 < repeats.scale < top or not mean_count(repeats.law, repeats.scale) <= MOST * (1.0 + 1e-9):
        raise HypothesisError(f"repeats: the parameter must lie in (0, {top:g}), and give a mean of at most {MOST:g}")
    return Guarantee(BestOf(claim.profile, repeats.law, repeats.scale), relation, Scope.LAST, unit)


def _arguments(value: Any, name: str) -> Iterator[Any]:
    """Every argument with the given name in a derivation."""
    if isinstance(value, tuple):
        for part in value:
            yield from _arguments(part, name)
    elif isinstance(value, Claim | Fact) and value.derivation is not None:
        arguments = value.derivation.arguments
        if name in arguments:
            yield arguments[name]
        yield from _arguments(tuple(arguments.values()), name)
