"""Contests: several players on synthetic streams of losses, and how regret and moves grow beside what is proved.

Losses have gradients of norm at most 1, on a ball around the origin. `stationary` and `drifting` streams are drawn once
and are the same for all players; `adversarial` streams answer every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games import streams
from dpconvex.games.game import Game, run_game
from dpconvex.games.losses import AbsoluteLoss, HingeLoss, LinearLoss, Loss
from dpconvex.games.player import Player
from dpconvex.problem.domains import L2Ball

__all__ = ["KINDS", "PATTERNS", "Entrant", "Trace", "best_on_ball", "compete", "make_losses"]

KINDS = ("linear", "absolute", "hinge")
PATTERNS = ("stationary", "drifting", "adversarial")
_CLOSE = 0.002  # of radius sqrt(rounds): how exactly the best fixed point is found
_TURNS = 3.0
_PATIENCE = 20_000  # steps of the search for it
_LOOK = 50  # steps between looks at the certificate


class Entrant(NamedTuple):
    """A participant of a contest.

    Parameters
    ----------
    name : str
    player : Player
        At the beginning of a game.
    bound, moves : functions of a game, optional
        Proved bounds on regret and on the number of moves; None without a proof.
    expected : bool
        Whether the bounds are on expectations.
    """

    name: str
    player: Player
    bound: Callable[[Game], float] | None = None
    moves: Callable[[Game], float] | None = None
    expected: bool = False


@dataclass(frozen=True, eq=False)
class Trace:
    """Regret and moves of one player after each of some rounds, with the proved bounds on both.

    Parameters
    ----------
    name : str
    rounds : array
        Number of rounds played.
    regret, moves : arrays
        Regret against the best fixed point of the whole game, and moves.
    proved, proved_moves : arrays, optional
    expected : bool
        Whether the bounds are on expectations.
    short : float
        How much better the best fixed point may be than the one that was found; 0 if it is exact.

    Examples
    --------
    >>> from dpconvex.games.learners import FTRL
    >>> learner = FTRL(L2Ball(1.0))
    >>> entrant = Entrant("ftrl", learner.player(d=2), learner.bound)
    >>> trace = compete(entrant, make_losses("hinge", "stationary", 200, 2, radius=1.0, seed=0), radius=1.0)
    >>> bool(trace.regret[-1] <= trace.proved[-1]), trace.proved_moves is None, int(trace.rounds[-1])
    (True, True, 200)
    """

    name: str
    rounds: np.ndarray
    regret: np.ndarray
    moves: np.ndarray
    proved: np.ndarray | None
    proved_moves: np.ndarray | None
    expected: bool
    short: float


def make_losses(kind: str, pattern: str, rounds: int, d: int, radius: float, seed: int) -> Iterable[Any]:
    """Make one loss per round: linear; absolute, around a noisy target; or hinge, of noisy labels.

    Parameters
    ----------
    kind : {"linear", "absolute", "hinge"}
    pattern : {"stationary", "drifting", "adversarial"}
        An adversarial stream answers a point with a gradient orthogonal to it and to the sum of all gradients before;
        in fewer than 3 dimensions, with a gradient in the direction of the point.
    rounds, d : int
    radius : float
        Radius of the ball that is played on.
    seed : int

    Returns
    -------
    iterable
        Losses, or functions of the point played that return one.

    Examples
    --------
    >>> [type(loss).__name__ for loss in make_losses("absolute", "drifting", 2, 3, radius=1.0, seed=0)]
    ['AbsoluteLoss', 'AbsoluteLoss']
    """
    for value, known, what in ((kind, KINDS, "losses"), (pattern, PATTERNS, "pattern")):
        if value not in known:
            raise InputError(f"{what} must be one of {', '.join(known)}, got {value!r}")
    if pattern == "adversarial":
        return _answers(kind, (streams.orthogonal if d >= 3 else streams.contrary)(rounds, d, seed), radius)
    if kind == "linear":
        return [LinearLoss(g) for g in getattr(streams, pattern)(rounds, d, seed)]
    rng = np.random.default_rng([seed, KINDS.index(kind), PATTERNS.index(pattern)])
    rows = streams.stationary(rounds, d, seed, bias=0.0)
    plane = rng.normal(size=(2, d))
    plane /= np.linalg.norm(plane, axis=1, keepdims=True)
    angle = 2.0 * np.pi * _TURNS * np.arange(rounds)[:, None] / rounds if pattern == "drifting" else np.zeros((1, 1))
    targets = 0.5 * radius * (np.cos(angle) * plane[0] + np.sin(angle) * plane[1])
    heights = (rows * targets).sum(axis=1) + 0.2 * radius / math.sqrt(d) * rng.normal(size=rounds)
    if kind == "absolute":
        return [AbsoluteLoss(a, float(b)) for a, b in zip(rows, heights, strict=True)]
    return [HingeLoss(a, 1.0 if b > 0.0 else -1.0) for a, b in zip(rows, heights, strict=True)]


def _answers(kind: str, stream: Iterator[Callable[[np.ndarray], np.ndarray]], radius: float) -> Iterator[Any]:
    """The same opponent, with losses of a kind whose gradients are its answers on the whole ball."""

    def loss_of(g: np.ndarray) -> Loss:
        if kind == "linear":
            return LinearLoss(g)
        return AbsoluteLoss(g, -2.0 * radius) if kind == "absolute" else HingeLoss(g, -1.0)

    for answer in stream:
        yield lambda x, answer=answer: loss_of(answer(x))


def compete(entrant: Entrant, losses: Iterable[Any], radius: float, points: int = 60) -> Trace:
    """Play a game to its end, and trace regret and moves at about `points` of its rounds."""
    game = run_game(entrant.player, losses)
    short = 0.0
    if game.best is None:
        best, short = best_on_ball(game.losses, radius)
        game = replace(game, best=best)
    best_paid = np.array([loss.value(game.comparator) for loss in game.losses])
    regret = np.cumsum(game.paid - best_paid)
    moved = np.concatenate([[0], np.cumsum((np.diff(game.plays, axis=0) != 0.0).any(axis=1))])
    rounds = np.unique(np.linspace(1, game.rounds, min(points, game.rounds)).round().astype(int))
    parts = [_up_to(game, int(t)) for t in rounds]
    return Trace(
        entrant.name,
        rounds,
        regret[rounds - 1],
        moved[rounds - 1],
        None if entrant.bound is None else np.array([entrant.bound(part) for part in parts]),
        None if entrant.moves is None else np.array([entrant.moves(part) for part in parts]),
        entrant.expected,
        short,
    )


def _up_to(game: Game, t: int) -> Game:
    """The first t rounds, against the same fixed point: what is proved after t rounds is proved about them."""
    hints = None if game.hints is None else game.hints[:t]
    return replace(
        game,
        plays=game.plays[:t], gradients=game.gradients[:t], paid=game.paid[:t], curvatures=game.curvatures[:t],
        losses=game.losses[:t], hints=hints,
    )  # fmt: skip


def best_on_ball(losses: Sequence[AbsoluteLoss | HingeLoss], radius: float) -> tuple[np.ndarray, float]:
    """Minimise a sum of absolute or hinge losses over a ball, with a certificate.

    Accelerated descent on the losses with their kinks rounded from below. For such a function f <= F, with gradient g
    at x, convexity gives min F >= f(x) - <g, x> - radius |g|: the distance of F(x) from that is the certificate.

    Returns
    -------
    point, gap
        Nearly the best fixed point, and at most how much more it costs than the best.

    Examples
    --------
    >>> rows = [AbsoluteLoss(np.ones(1), b) for b in (0.1, 0.2, 0.7)]
    >>> best, short = best_on_ball(rows, radius=1.0)
    >>> bool(abs(best[0] - 0.2) < 0.01), short < 0.02
    (True, True)
    """
    rows, offsets = np.array([loss.row for loss in losses]), np.array([loss.offset for loss in losses])
    one_sided = np.array([loss.one_sided for loss in losses])
    size = float(np.linalg.norm(rows, 2)) ** 2
    if size == 0.0:
        return np.zeros(rows.shape[1]), 0.0

    def look(x: np.ndarray, width: float) -> tuple[float, float, np.ndarray]:
        """Loss, the loss with rounded kinks, and the gradient of the latter."""
        off = rows @ x - offsets
        v = np.where(one_sided, np.maximum(off, 0.0), np.abs(off))
        rounded = np.where(v < width, v * v / (2.0 * width), v - width / 2.0)
        return float(v.sum()), float(rounded.sum()), (np.minimum(v / width, 1.0) * np.sign(off)) @ rows

    ball, goal = L2Ball(radius), _CLOSE * radius * math.sqrt(len(losses))
    width = 0.1 * radius
    x = y = np.zeros(rows.shape[1])
    best, short, speed = x, math.inf, 1.0
    for step in range(_PATIENCE):
        if step % _LOOK == 0:
            value, rounded, g = look(x, width)
            gap = value - rounded + float(g @ x) + radius * float(np.linalg.norm(g))
            if gap < short:
                best, short = x, max(gap, 0.0)
            if short <= goal:
                break
            if value - rounded > 0.5 * goal and gap < 2.0 * (value - rounded):
                width, y, speed = width / 2.0, x, 1.0
        new = ball.project(y - width / size * look(y, width)[2])
        if float((y - new) @ (new - x)) > 0.0:  # it has turned back: begin to accelerate afresh
            speed, y = 1.0, new
        else:
            faster = (1.0 + math.sqrt(1.0 + 4.0 * speed * speed)) / 2.0
            y, speed = new + (speed - 1.0) / faster * (new - x), faster
        x = new
    return best, short
