"""Learners of your own: any object that enters games, guarded, named and with a digest of its code.

What a private algorithm tells such a learner is noisy already, and whatever the learner plays, what records add to the
next sum is clipped: no guarantee rests on what it computes. One thing is on the word of the user, that it plays from
what it is told alone, and reads the data nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dpconvex.errors import InputError, UserCodeError
from dpconvex.plain import is_digest, plain_name
from dpconvex.problem.code import code_digest
from dpconvex.problem.domains import Domain, Everywhere
from dpconvex.problem.own import guarded

__all__ = ["OwnLearner"]

_Call = Callable[[str, Callable[[], Any]], Any]  # how code of the user's is called: guarded, or as it is


def _shown(whose: str, call: Callable[[], Any]) -> Any:
    return call()


@dataclass(frozen=True)
class OwnLearner:
    """A learner of the user's own.

    Parameters
    ----------
    given : object
        Has a method `player(d)`, or `player(d, start)` where runs start at given weights, which enters a new game and
        returns an object with `play()` and `observe(gradient)`. Or a class of such objects, which takes the domain.
        None stands for code that is not at hand.
    name, code : str, optional
        Name on plans and receipts, and a digest of the code.
    domain : Domain, optional
        Plays are projected onto it.

    Examples
    --------
    >>> class Halving:
    ...     def player(self, d):
    ...         self.w = np.ones(d)
    ...         return self
    ...     def play(self):
    ...         return self.w
    ...     def observe(self, gradient):
    ...         self.w = self.w / 2.0
    >>> player = OwnLearner(Halving()).player(2)
    >>> player.observe(np.zeros(2))
    >>> player.play(), OwnLearner(Halving()).name
    (array([0.5, 0.5]), 'Halving')
    """

    own: ClassVar[str] = "learner"
    given: Any = field(compare=False, repr=False)
    name: str = ""
    code: str = field(default="", repr=False)
    domain: Domain = field(default=Everywhere(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.given is not None and not callable(getattr(self.given, "player", None)):
            raise InputError(
                "learner must be one of dpconvex.games.learners, its name, or an object with a method player(d) that "
                "enters a game: the player it returns has play() and observe(gradient)"
            )
        kind = self.given if isinstance(self.given, type) else type(self.given)
        object.__setattr__(self, "name", plain_name(self.name or kind.__name__, "name"))
        object.__setattr__(self, "code", self.code or code_digest(self.given))

    def __str__(self) -> str:
        return self.name

    def on(self, domain: Domain, d: int, start: np.ndarray | None = None) -> OwnLearner:
        """The learner on a domain, after two rounds against zeros: what is wrong shows before anything is charged."""
        made = replace(self, domain=domain)
        if self.given is not None:
            player = made._enter(d, start, _shown)
            for _ in range(2):
                player.play()
                player.observe(np.zeros(d))
        return made

    def player(self, d: int, start: np.ndarray | None = None) -> _Player:
        """Enter a game in dimension d."""
        if self.given is None:
            raise UserCodeError("the code of this learner is not at hand: the plan was read from a receipt or a model")
        return self._enter(d, start, guarded)

    def _enter(self, d: int, start: np.ndarray | None, call: _Call) -> _Player:
        def entered() -> Any:
            learner = self.given(self.domain) if isinstance(self.given, type) else self.given
            return learner.player(d) if start is None else learner.player(d, start.copy())

        return _Player(call(f"learner {self.name!r}", entered), self.name, self.domain, d, call)

    def to_plain(self) -> dict[str, Any]:
        """Name and digest."""
        return {"own": self.own, "name": self.name, "code": self.code}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> OwnLearner:
        """The learner without its code, from its plain form."""
        if set(plain) != {"own", "name", "code"} or plain["own"] != OwnLearner.own or not is_digest(plain["code"]):
            raise InputError("not the plain form of a learner")
        return OwnLearner(None, plain["name"], plain["code"])


class _Player:
    """A learner of the user's own in one game: plays are checked and projected, errors say nothing of values."""

    def __init__(self, player: Any, name: str, domain: Domain, d: int, call: _Call) -> None:
        self.domain = domain
        self._player, self._whose, self._d, self._call = player, f"learner {name!r}", d, call
        self._at = np.zeros(d)
        if not callable(getattr(player, "play", None)) or not callable(getattr(player, "observe", None)):
            raise UserCodeError(f"{self._whose}: player(d) must return an object with play() and observe(gradient)")

    def play(self) -> np.ndarray:
        """Point of this round."""
        x = self._call(self._whose, lambda: np.array(self._player.play()))
        if x.shape != (self._d,) or x.dtype.kind not in "biuf":
            raise UserCodeError(f"{self._whose}: play() must return {self._d} numbers, one for each weight")
        if not np.isfinite(x).all():
            raise UserCodeError(f"{self._whose}: play() returned what is no finite number")
        self._at = self.domain.project(x.astype(np.float64))
        return self._at.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round: a gradient, or an object with `gradient(x)`; the learner is told a gradient."""
        gradient = np.array(loss.gradient(self._at.copy()) if hasattr(loss, "gradient") else loss, dtype=np.float64)
        self._call(self._whose, lambda: self._player.observe(gradient))
