"""What a learner promises: plays within its domain that are functions of what it was told, and of nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.games.own import OwnLearner
from dpconvex.games.player import Learner
from dpconvex.problem.domains import Domain, Everywhere


def check_learner(learner: Any, domain: Domain | None = None, *, d: int = 3, rounds: int = 40, seed: int = 0) -> None:
    """Check that a learner plays the same whenever it is told the same: all that `OnlineToBatch` asks of it.

    The algorithm plays again from what was released to compute the weights, so a learner that remembers other games,
    or draws random numbers of its own, gives weights of another run than that whose noise was drawn.

    Parameters
    ----------
    learner : object
        Has a method `player(d)`; or a class of such objects, which takes the domain. See `OnlineToBatch`.
    domain : Domain, optional
        By default that of the learner, or else all of R^d.
    d, rounds : int
    seed : int
        Seed of the gradients.

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_learner(dc.games.learners.FTRL(dc.domains.L2Ball(1.0)))
    >>> class Guessing:
    ...     def player(self, d):
    ...         self.d = d
    ...         return self
    ...     def play(self):
    ...         return np.full(self.d, self.luck)
    ...     def observe(self, gradient):
    ...         self.luck = np.random.default_rng().normal()
    ...     luck = 0.0
    >>> check_learner(Guessing())
    Traceback (most recent call last):
        ...
    AssertionError: Guessing: told the same, it plays something else in another game
    """
    within = domain or getattr(learner, "domain", None) or Everywhere()
    enters = learner if isinstance(learner, Learner | OwnLearner) else OwnLearner(learner, domain=within)
    name = getattr(enters, "name", type(enters).__name__)
    told = np.random.default_rng(seed).normal(size=(rounds, d))
    plays = _played(enters, d, told, name)
    assert np.allclose(plays, [within.project(x) for x in plays], atol=1e-9), f"{name}: a play lies outside its domain"
    again = _played(enters, d, told, name)
    assert np.array_equal(plays, again), f"{name}: told the same, it plays something else in another game"
    other = -told
    halves = _together(enters, d, told, other)
    assert np.array_equal(plays, halves[0]), f"{name}: a game beside it changes what it plays"
    assert np.array_equal(_played(enters, d, other, name), halves[1]), f"{name}: a game beside it changes what it plays"
    late = np.concatenate([told[: rounds // 2], other[rounds // 2 :]])
    same = _played(enters, d, late, name)[: rounds // 2 + 1]
    assert np.array_equal(plays[: rounds // 2 + 1], same), f"{name}: a play depends on what it is told afterwards"


def _played(learner: Any, d: int, told: np.ndarray, name: str) -> np.ndarray:
    """Plays of one game; it is asked twice now and then, and told in an array that is used again."""
    player, plays, room = learner.player(d), [], np.empty(d)
    for t, gradient in enumerate(told):
        plays.append(np.array(player.play()))
        if t % 3 == 0:
            twice = player.play()
            assert np.array_equal(plays[-1], twice), f"{name}: asked twice in a round, it plays something else"
        room[:] = gradient
        player.observe(room)
        room[:] = np.nan
    return np.array(plays)


def _together(learner: Any, d: int, *games: np.ndarray) -> list[np.ndarray]:
    """Plays of several games, round by round beside each other."""
    players = [learner.player(d) for _ in games]
    plays: list[list[np.ndarray]] = [[] for _ in games]
    for told in zip(*games, strict=True):
        for player, kept, gradient in zip(players, plays, told, strict=True):
            kept.append(np.array(player.play()))
            player.observe(gradient.copy())
    return [np.array(kept) for kept in plays]
