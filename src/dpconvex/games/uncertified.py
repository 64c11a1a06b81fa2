"""A lazy player for losses without an exact sampler. UNCERTIFIED: nothing about its regret is proved."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games.domains import BALL_OR_BOX, check_domain, coordinate_range
from dpconvex.games.lazy import check_length, check_terms, fresh_key
from dpconvex.games.losses import LinearLoss, MarginLoss
from dpconvex.games.player import as_vector
from dpconvex.noise.gibbs import uniform
from dpconvex.noise.hit_and_run import UncertifiedHitAndRun
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Box, L2Ball

__all__ = ["UncertifiedLazyGibbs"]


class _MarginSum:
    """Sum of linear losses and losses of a margin.

    Examples
    --------
    >>> from dpconvex.games.losses import AbsoluteLoss
    >>> total = _MarginSum(2)
    >>> total.add(AbsoluteLoss(np.array([1.0, 0.0]), 0.5))
    >>> total.value(np.zeros(2))
    0.5
    """

    def __init__(self, dimension: int) -> None:
        self._tilt = np.zeros(dimension)
        self._margins: dict[type[MarginLoss], list[MarginLoss]] = defaultdict(list)

    def add(self, loss: Any) -> None:
        """Add a loss."""
        if loss.form == "linear":
            self._tilt = self._tilt + loss.g
        else:
            self._margins[type(loss)].append(loss)

    def value(self, x: np.ndarray) -> float:
        """The sum at x."""
        total = float(self._tilt @ x)
        for kind, losses in self._margins.items():
            rows, b = np.array([loss.a for loss in losses]), np.array([loss.b for loss in losses])
            total += float(kind.height(rows @ x, b).sum())
        return total


class UncertifiedLazyGibbs:
    """UNCERTIFIED: keeps a point from a Gibbs law by tossing coins, and draws new ones by hit-and-run. Not private.

    The rule is that of `Pomer`, without any guarantee: a coin compares the last loss at this point and at the one
    before. The distance of a new point from its law is unknown, so nothing is proved about regret. The expected number
    of moves is at most `switches`: every coin keeps the point with probability at least 1 - switches / (horizon - 1).
    Use `BlockedFTRL` if you need a bound on regret: it takes every convex loss.

    Parameters
    ----------
    domain : L2Ball or Box
    lipschitz : float
        Largest norm of a gradient; a steeper loss is refused.
    horizon : int
        Number of rounds.
    switches : float
        Expected number of moves that is allowed.
    dimension : int
    steps : int
        Steps of hit-and-run per point. No number of them makes the point certified.
    seed : int, optional
        For runs that can be repeated.

    Examples
    --------
    >>> import dpconvex as dc
    >>> from dpconvex.games import losses
    >>> player = UncertifiedLazyGibbs(L2Ball(1.0), 1.0, 300, 30, dimension=2, seed=0)
    >>> rows = dc.games.streams.stationary(300, 2, seed=0, bias=0.0)
    >>> made = [losses.AbsoluteLoss(a, float(a @ [0.5, 0.0])) for a in rows]
    >>> game = dc.games.run_game(player, made, comparator=np.array([0.5, 0.0]))
    >>> player.certified, player.report().splitlines()[1].split(":")[0].strip()
    (False, 'UNCERTIFIED')
    """

    certified = False

    def __init__(
        self, domain: L2Ball | Box, lipschitz: float, horizon: int, switches: float, *, dimension: int,
        steps: int = 50, seed: int | None = None,
    ) -> None:  # fmt: skip
        self.domain, self.lipschitz, self.horizon, self.switches = domain, lipschitz, horizon, switches
        self.dimension, self.steps, self.seed = dimension, steps, seed
        check_domain(domain, "UncertifiedLazyGibbs", BALL_OR_BOX)
        check_terms("UncertifiedLazyGibbs", lipschitz, horizon, switches, seed)
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
            raise InputError("UncertifiedLazyGibbs: dimension must be a whole number, at least 1")
        share = min(0.9, switches / max(horizon - 1, 1))
        self.width = -0.5 * math.log1p(-share)  # a coin keeps with a probability from 1 - share to 1
        self.eta = 0.5 * self.width
        spread = horizon + 2.0 * dimension * math.log(horizon + 1.0) / self.eta**2
        self.lam = lipschitz / (domain.diameter(dimension) / 2.0) * math.sqrt(spread)
        self.beta = self.lam * (self.eta / lipschitz) ** 2
        self._stream = Stream(fresh_key(seed).tobytes())
        self._total = _MarginSum(dimension)
        self.rounds, self.moves, self._played = 0, 0, False
        self._middle = np.full(dimension, sum(coordinate_range(domain)) / 2.0)
        self._x = self._middle
        self._x, self._before = self._draw(), self._draw()

    def play(self) -> np.ndarray:
        """Point of this round."""
        if self.rounds >= self.horizon:
            raise InputError(f"the horizon of {self.horizon} rounds is over; make a player with a longer one")
        self._played = True
        return self._x.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round: a gradient, `LinearLoss`, `AbsoluteLoss`, `HingeLoss` or `LogisticLoss`."""
        if not self._played:
            raise InputError("observe comes after play: call play() first, once every round")
        loss = self._read(loss)
        self._total.add(loss)
        self.rounds, self._played = self.rounds + 1, False
        log = self.beta * (loss.value(self._before) - loss.value(self._x))
        if self.rounds < self.horizon and math.log(uniform(self._stream, 1)[0]) > (
            min(max(log, -self.width), self.width) - self.width
        ):  # fmt: skip
            self._before, self._x, self.moves = self._x, self._draw(), self.moves + 1

    def report(self) -> str:
        """The setting and the state of the game, and that nothing is proved."""
        return "\n".join(
            [
                f"UncertifiedLazyGibbs, {self.horizon} rounds in dimension {self.dimension} on {self.domain}",
                f"  UNCERTIFIED: points come from {self.steps} steps of hit-and-run, whose error is unknown",
                "  regret      nothing is proved",
                f"  moves       {self.moves} in {self.rounds} rounds; at most {self.switches:g} in expectation",
                "  private     no",
            ]
        )

    def _draw(self) -> np.ndarray:
        """Nearly a point from the Gibbs law of the losses so far."""

        def potential(x: np.ndarray) -> float:
            off = x - self._middle
            return self.beta * (self._total.value(x) + self.lam / 2.0 * float(off @ off))

        return UncertifiedHitAndRun(potential, self.domain, self._x, self.steps).draw(self._stream)

    def _read(self, loss: Any) -> Any:
        """The loss with its numbers checked."""
        form = getattr(loss, "form", None)
        if form in ("kinked", "logistic"):
            as_vector([loss.b], 1, "b of a loss")
            loss = replace(loss, a=as_vector(loss.a, self.dimension, "a loss"), b=float(loss.b))
            check_length(loss.row, self.lipschitz)
            return loss
        if form != "linear":
            if callable(loss) or hasattr(loss, "gradient"):
                raise InputError(
                    "UncertifiedLazyGibbs takes gradients, losses.LinearLoss, losses.AbsoluteLoss, losses.HingeLoss "
                    f"and losses.LogisticLoss, not {type(loss).__name__}"
                )
            loss = LinearLoss(loss)
        loss = LinearLoss(as_vector(loss.g, self.dimension, "a loss"))
        check_length(loss.g, self.lipschitz)
        return loss
