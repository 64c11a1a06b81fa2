"""Players of games: the protocol, the base of the learners, and a learner in one game with its checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games.steps import Adaptive, Step
from dpconvex.problem.domains import Domain

if TYPE_CHECKING:
    from dpconvex.games.game import Game

__all__ = ["Learner", "LearnerPlayer", "Player"]

BEYOND = "the gradients are too large for float64 to square or add up; scale the losses down"
State = dict[str, Any]  # arrays and numbers, nothing else


class Player(Protocol):
    """What plays a game, private or not: it names a point, then learns the loss, round after round."""

    def play(self) -> np.ndarray:
        """Point of this round."""

    def observe(self, loss: Any) -> None:
        """Take the loss of this round: a gradient, or an object with `value(x)` and `gradient(x)`."""


@dataclass(frozen=True)
class Learner(ABC):
    """Base of the learners: frozen options, and pure functions of a state.

    A learner has a `domain` and four methods: `initial(start)` is the state before round 1, `decide(state, hint)` the
    point to play, `update(state, x, g, mu, hint)` what changes in the state when the loss has gradient g at the play x
    and is mu-strongly convex, and `bound(game)` the proved bound on regret. `LearnerPlayer` does the rest.
    """

    domain: Domain

    @property
    def takes_hints(self) -> bool:
        """Whether it uses a guess of the next gradient."""
        return False

    def check_start(self, start: np.ndarray) -> None:  # noqa: B027 (most learners start anywhere)
        """Refuse a start from which nothing is proved."""

    def check_loss(self, loss: Any) -> None:  # noqa: B027 (most learners take any loss)
        """Refuse a loss for which nothing is proved."""

    @abstractmethod
    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""

    @abstractmethod
    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""

    @abstractmethod
    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Entries of the state that change."""

    @abstractmethod
    def bound(self, game: Game) -> float:
        """Proved bound on the regret of a game, given what was observed; infinite without a proof."""

    def compiled(self) -> int:
        """Which compiled loop plays many linear losses at once: 0 none, 1 descent, 2 follow the leader."""
        return 0

    def player(self, d: int, start: np.ndarray | None = None) -> LearnerPlayer:
        """Enter a game in dimension d, at `start` or else at the origin (in the middle of the simplex)."""
        if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
            raise InputError("d must be a whole number, at least 1")
        x = self.domain.centre(int(d)) if start is None else as_vector(start, int(d), "start").copy()
        if np.abs(self.domain.project(x) - x).max() > 1e-9 * max(1.0, float(np.abs(x).max())):
            raise InputError("start lies outside the domain; project it first")
        self.check_start(x)
        return LearnerPlayer(self, self.initial(x) | {"round": 0, "start": x, "last": np.zeros(int(d))})

    def resume(self, state: State) -> LearnerPlayer:
        """Continue a game from the `state` of a player with the same options."""
        if not isinstance(state, dict) or not isinstance(state.get("start"), np.ndarray) or state["start"].ndim != 1:
            raise InputError("state must be a copy of `player.state`")
        fresh = self.player(state["start"].size, state["start"])._state
        if fresh.keys() != state.keys() or any(np.shape(fresh[k]) != np.shape(state[k]) for k in fresh):
            raise InputError(f"state is not one of {type(self).__name__}: resume it with the learner it came from")
        if not all(np.isfinite(v).all() for v in state.values()):
            raise InputError("state holds entries that are not finite")
        return LearnerPlayer(self, _copy(state))


class LearnerPlayer:
    """A learner in a game: call `play`, then `observe`, once per round; `state` is all it remembers.

    Examples
    --------
    >>> from dpconvex.games.learners import SubgradientDescent
    >>> from dpconvex.problem.domains import L2Ball
    >>> player = SubgradientDescent(L2Ball(1.0)).player(d=2)
    >>> player.play()
    array([0., 0.])
    >>> player.observe(np.array([0.0, 1.0]))
    >>> player.play()
    array([ 0., -1.])
    """

    def __init__(self, learner: Learner, state: State) -> None:
        self.learner = learner
        self._state = state
        self._pending: tuple[np.ndarray, np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"{self.learner} before round {self._state['round'] + 1}"

    @property
    def state(self) -> State:
        """Copy of the arrays and numbers that the rest of the game depends on. `learner.resume` takes it."""
        return _copy(self._state)

    def play(self, hint: np.ndarray | None = None) -> np.ndarray:
        """Point of this round; the same point again until a loss is observed.

        Parameters
        ----------
        hint : array of length d, optional
            Guess of the next gradient, for an optimistic learner; by default the last gradient.
        """
        guess = self._state["last"]
        if hint is not None:
            if not self.learner.takes_hints:
                raise InputError(f"{type(self.learner).__name__} takes no hints; an optimistic learner does")
            guess = as_vector(hint, guess.size, "hint").copy()
        with np.errstate(all="ignore"):
            x = self.learner.decide(self._state, guess)
        if not np.isfinite(x).all():
            raise InputError("the point to play is too large for float64; scale the losses down")
        self._pending = x, guess
        return x.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round: a gradient, or an object with `gradient(x)` and perhaps `strong_convexity`."""
        if self._pending is None:
            raise InputError("observe comes after play: call play() first, once every round")
        self.learner.check_loss(loss)
        x, guess = self._pending
        g = as_vector(loss.gradient(x.copy()) if hasattr(loss, "gradient") else loss, x.size, "gradient")
        mu = float(getattr(loss, "strong_convexity", 0.0))
        if not 0.0 <= mu < math.inf:
            raise InputError("the strong convexity of a loss must be finite, and at least 0")
        with np.errstate(all="ignore"):
            if not math.isfinite(g @ g):
                raise InputError(BEYOND)
            change = self.learner.update(self._state, x, g, mu, guess)
        if not all(np.isfinite(v).all() for v in change.values()):
            raise InputError(BEYOND)
        last = g.copy() if self.learner.takes_hints else self._state["last"]
        self._state = self._state | change | {"round": self._state["round"] + 1, "last": last}
        self._pending = None

    def run(self, gradients: np.ndarray) -> np.ndarray:
        """Play against the rows of `gradients`, known beforehand; return the points played, one row per round.

        `SubgradientDescent`, and `FTRL` with p = 2, run compiled on Everywhere, L2Ball and Box; the points agree with a
        loop over `play` and `observe` up to the rounding of sums.

        Raises
        ------
        InputError
            If the gradients are too large for float64; the player is left as it was.
        """
        d = self._state["start"].size
        rows = as_rows(gradients, d)
        kind = self.learner.compiled()
        if kind:
            from dpconvex.games import compiled

            plays, change = compiled.run(self.learner, self._state, rows, kind)
            if not all(np.isfinite(v).all() for v in change.values()):
                raise InputError(BEYOND)
            self._state, self._pending = self._state | change, None
            return plays
        before = self._state
        plays = np.empty(rows.shape)
        try:
            for t, g in enumerate(rows):
                plays[t] = self.play()
                self.observe(g)
        except InputError:
            self._state, self._pending = before, None
            raise
        return plays


def as_vector(value: Any, d: int, what: str) -> np.ndarray:
    """Vector of d finite numbers, in float64."""
    v = np.asarray(value)
    if v.dtype.kind not in "biuf":
        raise InputError(f"{what} must be a dense vector of {d} real numbers, not {type(value).__name__}")
    if v.shape != (d,):
        raise InputError(f"{what} has shape {v.shape}, expected ({d},)")
    if not np.isfinite(v).all():
        raise InputError(f"{what} has entries that are not finite; the player is unchanged")
    return v.astype(float, copy=False)


def as_rows(value: Any, d: int) -> np.ndarray:
    """Matrix of finite numbers with d columns and at least one row, in float64."""
    rows = np.asarray(value)
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] != d or rows.shape[0] < 1:
        raise InputError(f"gradients must be a dense matrix of real numbers with {d} columns and at least one row")
    if not np.isfinite(rows).all():
        raise InputError("gradients have entries that are not finite; the player is unchanged")
    return np.ascontiguousarray(rows, dtype=float)


def check_step(step: Step, domain: Domain, who: str) -> None:
    """Refuse a step that is not positive, or that needs the size of an unbounded domain."""
    if not isinstance(step, Step):
        raise InputError(f"{who} takes step=Fixed(eta), Root(eta) or Adaptive()")
    if step.eta is not None and not 0.0 < step.eta < math.inf:
        raise InputError("eta must be positive and finite")
    if isinstance(step, Adaptive) and step.eta is None and not domain.traits.bounded:
        raise InputError(
            f"{who} on Everywhere needs step=Fixed(eta), Root(eta) or Adaptive(eta): there is no diameter to set eta by"
        )


def _copy(state: State) -> State:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
