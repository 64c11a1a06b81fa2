"""Opponents: streams of linear losses with gradients of norm at most 1.

`stationary` and `drifting` are drawn once. `orthogonal` and `contrary` answer the point played, and are as bad as any
opponent can be: `run_game` shows them each point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from dpconvex.errors import InputError

__all__ = ["contrary", "drifting", "orthogonal", "stationary"]


def stationary(rounds: int, d: int, seed: int, bias: float = 0.2) -> np.ndarray:
    """Independent gradients whose mean has norm about `bias` in a random direction, one row per round.

    Examples
    --------
    >>> stationary(5, 3, seed=0).shape
    (5, 3)
    """
    rng = _start(rounds, d, seed)
    return _unit(rng.normal(size=(rounds, d)) / np.sqrt(d) + bias * _unit(rng.normal(size=(1, d))))


def drifting(rounds: int, d: int, seed: int, turns: float = 3.0) -> np.ndarray:
    """Gradients around a mean that turns `turns` times in a random plane (in dimension 1: changes its sign).

    Examples
    --------
    >>> drifting(5, 3, seed=0).shape
    (5, 3)
    """
    rng = _start(rounds, d, seed)
    plane = _unit(rng.normal(size=(2, d)))
    angle = 2.0 * np.pi * turns * np.arange(rounds)[:, None] / rounds
    return _unit(np.cos(angle) * plane[0] + np.sin(angle) * plane[1] + 0.5 * rng.normal(size=(rounds, d)) / np.sqrt(d))


def orthogonal(rounds: int, d: int, seed: int) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Unit gradients at right angles to the point played and to the sum of all before, d at least 3.

    The player never gains, and the sum has norm sqrt(rounds): regret on a ball of radius R around 0 is R sqrt(rounds),
    whoever plays.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = dc.games.learners.FTRL(dc.domains.L2Ball(1.0))
    >>> game = dc.games.run_game(learner.player(d=3), orthogonal(400, 3, seed=0))
    >>> round(game.regret, 6)
    20.0
    """
    rng = _start(rounds, d, seed)
    if d < 3:
        raise InputError("no vector is at right angles to two others in fewer than 3 dimensions; take contrary")
    total = np.zeros(d)

    def answer(x: np.ndarray) -> np.ndarray:
        g = rng.normal(size=d)
        if avoid := [v / np.linalg.norm(v) for v in (total, x) if v.any()]:
            basis = np.linalg.qr(np.column_stack(avoid))[0]
            for _ in range(2):  # the second time for what rounding left
                g -= basis @ (basis.T @ g)
        g /= np.linalg.norm(g)
        total[:] += g
        return g

    return repeat(answer, rounds)


def contrary(rounds: int, d: int, seed: int) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Gradients that point where the player does: what it plays is always a mistake. Random while it plays 0.

    Examples
    --------
    >>> len(list(contrary(4, 1, seed=0)))
    4
    """
    rng = _start(rounds, d, seed)

    def answer(x: np.ndarray) -> np.ndarray:
        return _unit(x[None] if x.any() else rng.normal(size=(1, d)))[0]

    return repeat(answer, rounds)


def _start(rounds: int, d: int, seed: int) -> np.random.Generator:
    if rounds < 1 or d < 1:
        raise InputError("rounds and d must be at least 1")
    return np.random.default_rng(seed)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
