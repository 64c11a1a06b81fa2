"""Games: a player against a stream of losses, compared with the best fixed point in hindsight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex import plots
from dpconvex.errors import InputError
from dpconvex.games.losses import LinearLoss
from dpconvex.games.player import Player, as_vector
from dpconvex.problem.domains import Domain

__all__ = ["Game", "run_game"]


@dataclass(frozen=True, eq=False)
class Game:
    """Record of a game, one row per round.

    Parameters
    ----------
    plays, gradients : arrays of shape (T, d)
        Points, and gradients of the losses at them.
    paid : array of shape (T,)
        Loss of every round at the point played.
    curvatures : array of shape (T,)
        Strong convexity of every loss.
    losses : tuple
        The losses themselves.
    hints : array of shape (T, d), optional
        Hints the player was given.
    start : array of length d
        Where the player started; its first point, unless its state says otherwise.
    best : array of length d, optional
        Best fixed point in hindsight, or the comparator that was given. None if there is no closed form.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = dc.games.learners.SubgradientDescent(dc.domains.Box(-1.0, 1.0)).player(d=1)
    >>> game = dc.games.run_game(player, np.array([[1.0], [-1.0], [1.0]]))
    >>> game.comparator, round(game.regret, 3), game.switches
    (array([-1.]), 2.0, 2)
    """

    plays: np.ndarray
    gradients: np.ndarray
    paid: np.ndarray
    curvatures: np.ndarray
    losses: tuple[Any, ...]
    hints: np.ndarray | None
    start: np.ndarray
    best: np.ndarray | None

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.paid.size

    @property
    def total(self) -> float:
        """Loss of the player over all rounds."""
        return float(self.paid.sum())

    @property
    def cumulative(self) -> np.ndarray:
        """Loss of the player up to every round."""
        return np.cumsum(self.paid)

    @property
    def switches(self) -> int:
        """Number of rounds in which the player moved."""
        return int((np.diff(self.plays, axis=0) != 0.0).any(axis=1).sum())

    @property
    def comparator(self) -> np.ndarray:
        """Fixed point that the player is compared with.

        Raises
        ------
        InputError
            If no comparator was given and the best fixed point has no closed form.
        """
        if self.best is None:
            raise InputError(
                "the best fixed point is not known in closed form for these losses on this domain: "
                "give run_game a comparator, or use regret_against(u)"
            )
        return self.best

    @property
    def regret(self) -> float:
        """Loss of the player less that of the comparator."""
        return self.regret_against(self.comparator)

    def plot(self, ax: Any = None) -> Any:
        """Plot the regret after every round, with matplotlib (extra `plot`); returns the axes."""
        u = self.comparator
        behind = np.cumsum(self.paid - np.array([loss.value(u) for loss in self.losses]))
        return plots.above_zero(ax, behind.tolist(), "round", "regret")

    def regret_against(self, u: np.ndarray) -> float:
        """Loss of the player less that of the fixed point u."""
        u = as_vector(u, self.start.size, "u")
        return float((self.paid - np.array([loss.value(u) for loss in self.losses])).sum())


def run_game(
    player: Player,
    losses: Iterable[Any],
    *,
    hints: np.ndarray | None = None,
    comparator: np.ndarray | None = None,
) -> Game:
    """Play a game to its end.

    Parameters
    ----------
    player : object with `play()` and `observe(loss)`
        `learner.player(d)`, or a private one.
    losses : iterable
        One loss per round: a gradient, an object with `value(x)` and `gradient(x)`, or a function of the point played
        that returns one of these (an opponent that reacts).
    hints : array of shape (T, d), optional
        Guesses of the gradients, for an optimistic player.
    comparator : array of length d, optional
        Fixed point to compare with. By default the best point of the player's domain in hindsight, which is exact for
        linear losses and `QuadraticLoss`.

    Returns
    -------
    Game

    Raises
    ------
    InputError
        If there are no losses, or hints do not match them.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.games.losses import QuadraticLoss
    >>> player = dc.games.learners.StronglyConvexDescent(dc.domains.L2Ball(1.0)).player(d=1)
    >>> game = run_game(player, [QuadraticLoss(np.array([c])) for c in (0.2, 0.4, 0.6)])
    >>> game.comparator.round(3), bool(game.regret <= player.learner.bound(game))
    (array([0.4]), True)
    """
    rows = None if hints is None else np.asarray(hints)
    state = getattr(player, "state", {})
    plays, gradients, seen = [], [], []
    for t, loss in enumerate(losses):
        if rows is None:
            x = player.play()
        elif t < len(rows):
            x = player.play(rows[t])  # type: ignore[call-arg]
        else:
            raise InputError(f"there are {len(rows)} hints and more losses; give one hint for every round")
        loss = loss(x.copy()) if callable(loss) else loss
        if not hasattr(loss, "gradient"):
            loss = LinearLoss(as_vector(loss, x.size, "gradient").copy())
        player.observe(loss)
        plays.append(x)
        gradients.append(np.asarray(loss.gradient(x), dtype=float))
        seen.append(loss)
    if not plays:
        raise InputError("a game has at least one round; losses is empty")
    if rows is not None and len(rows) != len(plays):
        raise InputError(f"there are {len(rows)} hints and {len(plays)} losses; give one hint for every round")
    fixed = None if comparator is None else as_vector(comparator, plays[0].size, "comparator").copy()
    domain = getattr(getattr(player, "learner", player), "domain", None)
    return Game(
        plays=np.array(plays),
        gradients=np.array(gradients),
        paid=np.array([loss.value(x) for loss, x in zip(seen, plays, strict=True)]),
        curvatures=np.array([float(getattr(loss, "strong_convexity", 0.0)) for loss in seen]),
        losses=tuple(seen),
        hints=None if rows is None else rows.astype(float),
        start=state.get("start", plays[0]),
        best=_best_fixed(seen, domain, plays[0].size) if fixed is None else fixed,
    )


def _best_fixed(losses: list[Any], domain: Domain | None, d: int) -> np.ndarray | None:
    """Point of the domain where the sum of the losses is least; None if that is not known in closed form."""
    if domain is None or not all(getattr(loss, "form", None) in ("linear", "quadratic") for loss in losses):
        return None
    curvature = sum(loss.strong_convexity for loss in losses)
    slope = np.sum([loss.gradient(np.zeros(d)) for loss in losses], axis=0)
    return domain.project(-slope / curvature) if curvature > 0.0 else domain.lowest(slope)
