"""Claims: guarantees that only a theorem can make, with the derivation that led to them.

A theorem is a function under `@concludes_claim` or `@concludes_fact`. Its arguments are copied to values that cannot
change (`frozen`) before it sees them; it checks its own hypotheses and returns a bare conclusion; the decorator seals
that together with the arguments. Nothing else can make a `Claim`: its constructor asks for a token that never leaves
this module.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections import UserList, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import InitVar, dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from dpconvex.errors import HypothesisError
from dpconvex.kernel.budget import check_relation
from dpconvex.kernel.profiles import Profile
from dpconvex.plain import plain_text, whole
from dpconvex.problem.facts import Fact, Kind, state_fact

__all__ = ["Claim", "Derivation", "Release", "Scope"]

P = ParamSpec("P")
_TOKEN: Final = object()
THEOREMS: dict[str, Callable[..., Any]] = {}
SAMPLING = "bernoulli"  # law of a release that is not noise: a secret sample of records, each with probability `scale`
ORDER = "order"  # law of a release that is not noise: a uniformly random order of records
PERSON: Final = "person"  # unit of privacy: all the rows of one person, whatever their number


class Scope(StrEnum):
    """What a claim allows to be released, from least to most. An iterate is a value released by the noise port."""

    LAST = "last iterate"
    EVERY = "every iterate"


@dataclass(frozen=True)
class Release:
    """Noise that a plan commits to: variates of `law` times `scale`, in the given shape, drawn afresh `times` times.

    With a grid what is released is rounded to whole multiples of it, exactly as if value and noise were real numbers.
    """

    name: str
    law: str
    scale: float
    shape: tuple[int, ...]
    times: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        about = f"release {plain_text(self.name, 'the name of a release', HypothesisError)!r}"
        if not isinstance(self.shape, tuple | list):
            raise HypothesisError(f"{about}: shape must be a tuple of whole numbers")
        scale, grid = frozen(self.scale), frozen(self.grid)
        if type(scale) not in (int, float) or not 0.0 <= scale < math.inf:
            raise HypothesisError(f"{about}: scale must be a finite number of at least 0")
        if grid is not None and not (
            type(grid) is float
            and 2.0**-960 <= grid <= 2.0**960
            and math.frexp(grid)[0] == 0.5
            and 0.125 <= scale / grid <= 2.0**40
        ):
            raise HypothesisError(f"{about}: grid must be a power of two, 2^-40 to 8 times the scale")
        for field, value in (
            ("name", frozen(self.name)),
            ("law", plain_text(self.law, f"{about}: law", HypothesisError)),
            ("scale", float(scale)),
            ("shape", tuple(whole(k, f"{about}: a length", 0, error=HypothesisError) for k in self.shape)),
            ("times", whole(self.times, f"{about}: times", error=HypothesisError)),
            ("grid", grid),
        ):
            object.__setattr__(self, field, value)


def grid_of(scale: float, places: int = 20, reach: float = 0.0) -> float:
    """The grid of a release of that scale: the largest power of two that is at most 2^-places of it.

    Coarser where that takes more than 2^52 multiples for values up to `reach`: those beyond are clamped.
    """
    fine = math.ldexp(0.5, math.frexp(scale)[1] - places)
    return max(fine, math.ldexp(1.0, math.frexp(reach)[1] - 52)) if reach else fine


@dataclass(frozen=True)
class Derivation:
    """A theorem and its arguments, frozen. Facts and claims among the arguments have derivations of their own."""

    theorem: str
    given: tuple[tuple[str, Any], ...]

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name, to read only."""
        return MappingProxyType(dict(self.given))

    @functools.cached_property
    def releases(self) -> tuple[Release, ...]:
        """Every release in the tree, in the order of the arguments."""
        found = tuple(release for _, argument in self.given for release in _releases(argument))
        if self.theorem != "fresh_run":
            return found
        return tuple(replace(r, name=f"{self.arguments['label']}/{r.name}") for r in found)


def _releases(argument: Any) -> Iterator[Release]:
    if isinstance(argument, Release):
        yield argument
    elif isinstance(argument, Claim | Fact) and argument.derivation is not None:
        yield from argument.derivation.releases
    elif isinstance(argument, tuple):
        for part in argument:
            yield from _releases(part)


def stated_facts(argument: Any) -> Iterator[Fact]:
    """Every fact in a derivation that was stated by the problem rather than concluded by a theorem."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from stated_facts(part)
    elif isinstance(argument, Claim | Fact):
        if argument.derivation is None:
            yield argument
        else:
            yield from stated_facts(tuple(argument.derivation.arguments.values()))


@dataclass(frozen=True)
class Claim:
    """A privacy guarantee: a profile, for a relation and a unit of privacy, about what may be released.

    The unit is a number of records, or `PERSON`: all the rows of one person.
    """

    profile: Profile
    relation: str
    scope: Scope
    unit: int | str
    derivation: Derivation
    token: InitVar[object] = None

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("a Claim is returned by a theorem of dpconvex.theorems, not constructed")
        check_relation(self.relation)
        if self.unit != PERSON and not isinstance(self.unit, int):
            raise HypothesisError("a claim about all the rows of one person says nothing about several people")

    def __repr__(self) -> str:
        return f"<Claim {self.profile}, {self.relation}, {self.scope}, by {self.derivation.theorem}>"

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at the given delta."""
        return self.profile.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at the given epsilon."""
        return self.profile.delta(epsilon)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release of noise that the guarantee depends on."""
        return self.derivation.releases


@dataclass(frozen=True)
class Guarantee:
    """What a theorem concludes before it is sealed into a claim."""

    profile: Profile
    relation: str
    scope: Scope
    unit: int | str = 1


@dataclass(frozen=True)
class Bounded:
    """What a theorem concludes before it is sealed into a fact."""

    kind: Kind
    value: float | tuple[float, ...]
    source: str
    relation: str | None = None


def concludes_claim(theorem: Callable[P, Guarantee]) -> Callable[P, Claim]:
    """Seal what the theorem returns into a `Claim`."""

    @functools.wraps(theorem)
    def proved(*args: P.args, **kwargs: P.kwargs) -> Claim:
        derivation = _derivation(theorem, args, kwargs)
        seen: set[str] = set()
        for release in derivation.releases:
            if release.name in seen:
                raise HypothesisError(f"release {release.name!r} occurs twice in one derivation; noise is used once")
            seen.add(release.name)
        end = theorem(**derivation.arguments)  # type: ignore[call-arg]
        return Claim(end.profile, end.relation, end.scope, end.unit, derivation, token=_TOKEN)

    THEOREMS[theorem.__name__] = proved
    return proved


def concludes_fact(theorem: Callable[P, Bounded]) -> Callable[P, Fact]:
    """Seal what the theorem returns into a `Fact`."""

    @functools.wraps(theorem)
    def proved(*args: P.args, **kwargs: P.kwargs) -> Fact:
        derivation = _derivation(theorem, args, kwargs)
        end = theorem(**derivation.arguments)  # type: ignore[call-arg]
        return state_fact(end.kind, end.value, end.source, relation=end.relation, derivation=derivation)

    THEOREMS[theorem.__name__] = proved
    return proved


def _derivation(theorem: Callable[..., Any], args: Any, kwargs: Any) -> Derivation:
    bound = _signature(theorem).bind(*args, **kwargs)
    bound.apply_defaults()
    return Derivation(theorem.__name__, tuple((name, frozen(value)) for name, value in bound.arguments.items()))


_signature = functools.cache(inspect.signature)
T = TypeVar("T")
_KNOWN: set[type] = {Fact, Claim, Release, range}  # besides plain values, what theorems take: none of it can change
_LISTS = (list, tuple, UserList, deque, ValuesView, np.ndarray)


def known_argument(kind: type[T]) -> type[T]:
    """Declare a frozen class, whose fields are plain values, as one whose instances theorems take."""
    _KNOWN.add(kind)
    return kind


def frozen(value: Any) -> Any:
    """Copy an argument to a value that cannot change and behaves as it looks; refuse what is not known.

    Lists of any kind become tuples, numpy's scalars and subclasses of str, float and int plain ones.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) is bool or type(value) in _KNOWN:
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return plain_text(value, "text in an argument", HypothesisError)
    if isinstance(value, _LISTS):
        return tuple(frozen(part) for part in value)
    raise HypothesisError(
        "arguments are numbers, text, Fact, Claim, Release, range, schedules and lists of these, not "
        + type(value).__name__
    )


# What theorems require of their arguments ------------------------------------------------------------------------


def need_fact(argument: object, kind: Kind, name: str) -> float:
    """Return the value of a fact of the given kind; a bare number or a fact of another kind is refused."""
    if not isinstance(argument, Fact):
        raise HypothesisError(f"{name} must be a Fact ({kind.value}), got {type(argument).__name__}")
    if argument.kind is not kind:
        raise HypothesisError(f"{name} must be about {kind.name}, got a fact about {argument.kind.name}")
    return float(argument.value)


def need_law(argument: object, cap: float) -> tuple[float, float, float]:
    """Return the curvature law a + b s + c s^2, which must be concave and at least 0 on [0, cap]."""
    if not isinstance(argument, Fact) or argument.kind is not Kind.CURVATURE_LAW or len(argument.value) != 3:
        raise HypothesisError(f"curvature must be a Fact ({Kind.CURVATURE_LAW.value})")
    a, b, c = argument.value
    if c > 0.0 or a < 0.0 or a + cap * (b + cap * c) < -1e-12 * (a + cap * (abs(b) + cap * abs(c))):
        raise HypothesisError(
            f"the curvature law {a:g} + {b:g} s + {c:g} s^2 must be concave and at least 0 up to {cap:g}"
        )
    return a, b, c


def need_gaussian(argument: object, name: str, grid: bool = False) -> Release:
    """Return a release of Gaussian noise; anything else is refused, and one on a grid unless the theorem covers it."""
    if not isinstance(argument, Release):
        raise HypothesisError(f"{name} must be a Release, got {type(argument).__name__}")
    if argument.law != "gaussian":
        raise HypothesisError(f"{name}: this theorem holds for Gaussian noise only, release has law {argument.law!r}")
    if argument.grid is not None and not grid:
        raise HypothesisError(f"{name}: this theorem says nothing of values on a grid, as in {argument.name!r}")
    return argument


def need_one_draw(argument: object, name: str, grid: bool = False) -> Release:
    """Return a release of Gaussian noise with a positive scale that is drawn once."""
    release = need_gaussian(argument, name, grid)
    if release.times != 1 or release.scale == 0.0:
        raise HypothesisError(f"{name}: release {release.name!r} must have noise and be drawn once")
    return release


def need_positive(argument: object, name: str) -> float:
    """Return a positive, finite number."""
    if isinstance(argument, bool) or not (isinstance(argument, int | float) and 0.0 < argument < math.inf):
        raise HypothesisError(f"{name} must be a positive, finite number")
    return float(argument)


def need_unit(argument: object) -> int | str:
    """Return the unit of privacy of a sum: 1 for one vector per record, `PERSON` for one per person."""
    if isinstance(argument, int | str) and not isinstance(argument, bool) and argument in (1, PERSON):
        return argument
    raise HypothesisError(f"unit must be 1, for one vector per record, or {PERSON!r}, for one per person")


def unit_of(sensitivity: Fact) -> int | str:
    """Return the unit whose change a sensitivity bounds: one record unless its theorem says otherwise."""
    given = sensitivity.derivation.arguments if isinstance(sensitivity.derivation, Derivation) else {}
    return unit_of(given["sensitivity"]) if "sensitivity" in given else need_unit(given.get("unit", 1))


def need_records(sensitivities: Sequence[Fact]) -> None:
    """Refuse sensitivities to all the rows of one person in a theorem about records."""
    if any(unit_of(f) != 1 for f in sensitivities):
        raise HypothesisError("sensitivities must be to one record: a person's clipped sum is not a gradient step")


def need_one_origin(step: str, *facts: Fact) -> None:
    """Refuse facts about one step that two theorems concluded from different arguments of the same name."""
    made = [fact.derivation for fact in facts if isinstance(fact.derivation, Derivation)]
    for a, b in combinations(made, 2):
        for name in a.arguments.keys() & b.arguments.keys() if a.theorem != b.theorem else ():
            if a.arguments[name] != b.arguments[name]:
                raise HypothesisError(f"the facts about one {step} must agree, and differ in {name!r}")


def need_claims(claims: Sequence[Claim]) -> tuple[str, int | str]:
    """Return the relation and unit that all claims share."""
    if not claims or not all(isinstance(c, Claim) for c in claims):
        raise HypothesisError("claims must be a non-empty sequence of Claim")
    if len({(c.relation, c.unit) for c in claims}) > 1:
        raise HypothesisError("claims about different relations or units of privacy cannot be combined")
    return claims[0].relation, claims[0].unit


def need_disjoint(records: Sequence[range]) -> None:
    """Refuse anything but non-empty ranges of indices that do not overlap."""
    if not all(isinstance(r, range) and r.step == 1 and len(r) for r in records):
        raise HypothesisError("records must hold one non-empty range of indices (step 1) per claim")
    ordered = sorted(records, key=lambda r: r.start)
    if any(a.stop > b.start for a, b in pairwise(ordered)):
        raise HypothesisError("records: the ranges overlap")
