"""Laws of noise of the user's own, with a curve of Renyi divergences that the user declares.

Definition 4 of Zhang, Tran and Cutkosky (2022): a law is known by how fast the Renyi divergence from itself grows as it
is moved, in some norm. What such noise guarantees follows from that curve alone: docs/proofs/renyi_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from dpconvex.canonical import digest
from dpconvex.errors import InputError, UserCodeError
from dpconvex.plain import is_digest, plain_name, whole
from dpconvex.problem.code import code_digest
from dpconvex.problem.facts import DECLARED, Fact, Kind, state_fact
from dpconvex.problem.own import guarded

__all__ = ["RenyiLaw"]

OWN_LAW: Final = "noise of your own: "  # how the law of a release of such noise begins
_BELOW_ONE: Final = 1.0 - 2.0**-53
Uniform = Callable[[int], np.ndarray]


class Words(Protocol):
    """Where random bits come from: `dpconvex.noise.source.Stream`."""

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` uniform 64-bit words."""


@dataclass(frozen=True)
class RenyiLaw:
    """A law of noise of your own, with a declared bound on its Renyi divergences.

    You declare that the Renyi divergence of every order a (or of the orders named) of the law moved by v from the law
    itself is at most a kappa |v|^2 / 2, with the l_q norm of v; that the mean of |R|^2 in this norm is at most
    `second_moment`; and that `sample` returns such variates up to `accuracy`. Plans, receipts and reports say so.

    Parameters
    ----------
    sample : callable
        `sample(uniform)` returns one variate, an array of `size` numbers. `uniform(k)` returns k fresh numbers between
        0 and 1, ends excluded, made of cryptographic bits: nothing else may decide what the variate is.
    size : int
        Numbers in a variate: as many as there are weights.
    second_moment : float
        Bound on the mean of the squared l_q norm of a variate.
    kappa : float, default=1.0
        1 for a law of Definition 4 of ZTC22, and for a normal law with `norm` 2. A law with density exp(-h) has it if
        the gradient of h is Lipschitz with that constant: h(x + v) <= h(x) + <h'(x), v> + kappa |v|^2 / 2.
    norm : float, default=2.0
        The exponent q, at least 1. In another norm that is at most c times this one, multiply kappa by c^2.
    orders : tuple of float, optional
        Orders above 1 for which the bound holds; by default all.
    accuracy : float, default=1e-14
        How far the numbers that `sample` returns are from exact variates in the mean, each: rounding, and what uniform
        numbers of 53 bits leave out. It is charged in delta.
    name : str, optional
        Name on plans and receipts; by default that of the function.

    References
    ----------
    ZTC22: Zhang, Tran, Cutkosky (2022), "Differentially private online-to-batch for smooth losses", Definition 4.

    Examples
    --------
    Logistic noise has the density exp(-h) with h'' at most 1/2, and variance pi^2 / 3:

    >>> import dpconvex as dc
    >>> def logistic(uniform):
    ...     u = uniform(3)
    ...     return np.log(u / (1.0 - u))
    >>> law = dc.noise.RenyiLaw(logistic, size=3, second_moment=np.pi**2, kappa=0.5)
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    >>> plan = dc.algorithms.OnlineToBatch(noise=law, rounds=20).plan(problem, n=4000, d=3, budget=dc.Budget(2.0, 1e-6))
    >>> X = np.random.default_rng(0).normal(size=(4000, 3)) / 2
    >>> solution = plan.run(X, np.where(X[:, 0] > 0, 1.0, -1.0), dataset="logistic noise")
    >>> dc.verify(solution.receipt).name
    'DECLARED'
    """

    own: ClassVar[str] = "noise"
    sample: Callable[[Uniform], Any] | None = field(compare=False, repr=False)
    _: KW_ONLY
    size: int
    second_moment: float
    kappa: float = 1.0
    norm: float = 2.0
    orders: tuple[float, ...] = ()
    accuracy: float = 1e-14
    name: str = ""
    code: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.sample is not None and not callable(self.sample):
            raise InputError("sample must be a function: sample(uniform) returns one variate")
        object.__setattr__(self, "size", whole(self.size, "size"))
        for key, least, most in (
            ("second_moment", 0.0, 1e300),
            ("kappa", 0.0, 1e300),
            ("norm", 1.0, 1e6),
            ("accuracy", 0.0, 1.0),
        ):
            object.__setattr__(self, key, _number(getattr(self, key), key, least, most))
        given = self.orders
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise InputError("orders must be a sequence of numbers above 1, or be left out for all orders")
        orders = sorted({_number(order, "an order", 1.0, 1e6) for order in given})
        if orders[:1] == [1.0]:
            raise InputError("orders must be above 1")
        object.__setattr__(self, "orders", tuple(orders))
        name = self.name or getattr(self.sample, "__name__", type(self.sample).__name__).strip("<>")
        object.__setattr__(self, "name", plain_name(name, "name"))
        object.__setattr__(self, "code", self.code or code_digest(self.sample))
        if self.sample is not None:
            rehearsal = np.random.default_rng(0)
            self._checked(self.sample(rehearsal.random))

    def __str__(self) -> str:
        return f"RenyiLaw({self.name})"

    @property
    def law(self) -> str:
        """What releases call it, which is its name with a digest of its code and of all that was declared."""
        return f"{OWN_LAW}{self.name} {digest(self.to_plain())[:16]}"

    def fact(self) -> Fact:
        """What was declared, for theorems."""
        numbers = self.kappa, self.norm, float(self.size), self.second_moment, self.accuracy, *self.orders
        return state_fact(Kind.RENYI_LAW, numbers, DECLARED + self.law)

    def draw(self, stream: Words) -> np.ndarray:
        """One variate made of the bits of a stream."""
        if self.sample is None:
            raise UserCodeError("the code of this noise is not at hand: the plan was read from a receipt or a model")
        sample = self.sample

        def uniform(count: int) -> np.ndarray:
            words = stream.words(whole(count, "the count of uniform numbers", 0))
            return np.minimum((words.astype(np.float64) + 0.5) * 2.0**-64, _BELOW_ONE)

        return self._checked(guarded(f"noise {self.name!r}", lambda: sample(uniform)))

    def _checked(self, drawn: Any) -> np.ndarray:
        made = np.asarray(drawn)
        if made.shape != (self.size,) or made.dtype.kind not in "biuf":
            raise UserCodeError(
                f"noise {self.name!r}: sample must return {self.size} numbers, and returned {made.dtype} of shape "
                f"{made.shape}"
            )
        found = np.array(made, dtype=np.float64)
        if not np.isfinite(found).all():
            raise UserCodeError(f"noise {self.name!r}: sample returned what is no finite number")
        return found

    def to_plain(self) -> dict[str, Any]:
        """All that was declared, and the digest of the code."""
        return {
            "own": self.own,
            "name": self.name,
            "size": self.size,
            "second_moment": self.second_moment,
            "kappa": self.kappa,
            "norm": self.norm,
            "orders": list(self.orders),
            "accuracy": self.accuracy,
            "code": self.code,
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> RenyiLaw:
        """The law without its code, from its plain form."""
        fields = {"own", "name", "size", "second_moment", "kappa", "norm", "orders", "accuracy", "code"}
        if set(plain) != fields or plain["own"] != RenyiLaw.own or not is_digest(plain["code"]):
            raise InputError("not the plain form of a law of noise")
        given = {key: plain[key] for key in fields - {"own", "orders"}}
        return RenyiLaw(None, orders=tuple(plain["orders"]), **given)


def _number(value: Any, name: str, least: float, most: float) -> float:
    """A finite number between the two, above 0."""
    sound = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not sound or not least <= float(value) <= most or float(value) == 0.0:
        low = f"at least {least:g}" if least else "above 0"
        raise InputError(f"{name} must be a number {low} and at most {most:g}, got {value!r}")
    return float(value)
