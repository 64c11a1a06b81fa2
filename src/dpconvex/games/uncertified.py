"""A lazy player of losses for which there is no exact sampler. UNCERTIFIED: nothing about its regret is proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpconvex.errors import InputError
from dpconvex.games.domains import check_domain
from dpconvex.games.lazy import check_budget, check_length, fresh_key
from dpconvex.games.losses import Absolute, Hinge, Linear, Logistic
from dpconvex.games.player import as_vector
from dpconvex.games.pomer_bounds import half_width
from dpconvex.noise.gibbs import uniform
from dpconvex.noise.hit_and_run import UncertifiedHitAndRun
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Box, L2Ball

KINDS = (Linear, Absolute, Hinge, Logistic)


class Margins:
    """A sum of linear, absolute, hinge and logistic losses.

    Examples
    --------
    >>> total = Margins(2)
    >>> total.add(Absolute(np.array([1.0, 0.0]), 0.5))
    >>> total.value(np.zeros(2))
    0.5
    """

    def __init__(self, dimension: int) -> None:
        self._tilt = np.zeros(dimension)
        self._rows: dict[type, list[np.ndarray]] = {kind: [] for kind in KINDS[1:]}
        self._others: dict[type, list[float]] = {kind: [] for kind in KINDS[1:]}

    def add(self, loss: Linear | Absolute | Hinge | Logistic) -> None:
        """Add a loss."""
        if isinstance(loss, Linear):
            self._tilt = self._tilt + loss.g
        else:
            self._rows[type(loss)].append(loss.a)
            self._others[type(loss)].append(loss.b)

    def value(self, x: np.ndarray) -> float:
        """The sum at x."""
        total = float(self._tilt @ x)
        for kind, rows in self._rows.items():
            if rows:
                margins, b = np.array(rows) @ x, np.array(self._others[kind])
                if kind is Absolute:
                    total += float(np.abs(margins - b).sum())
                elif kind is Hinge:
                    total += float(np.maximum(1.0 - b * margins, 0.0).sum())
                else:
                    total += float(np.logaddexp(0.0, -b * margins).sum())
        return total


class UncertifiedLazyGibbs:
    """UNCERTIFIED: keeps a point from a Gibbs law by coins, and draws new ones by hit-and-run. Nothing is private.

    The rule is that of `Pomer`, without any guarantee: a coin compares the last loss at this point and at the one
    before. How near a new point is to its law is not known, so that nothing is proved about regret. The expected
    number of moves is `switches` at most, as every coin keeps with a probability of at least 1 - switches / (horizon -
    1). Take `BlockedFTRL` where you need a bound on regret: it takes every convex loss.

    Parameters
    ----------
    domain : L2Ball or Box
    lipschitz : float
        Norm of the longest gradient; a steeper loss is refused.
    horizon : int
        Number of rounds.
    switches : float
        Expected number of moves that is allowed.
    dimension : int
    steps : int
        Of hit-and-run, for one point. No number of them makes it certified.
    seed : int, optional
        For runs that can be repeated.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = UncertifiedLazyGibbs(L2Ball(1.0), 1.0, 300, 30, dimension=2, seed=0)
    >>> rows = dc.games.streams.stationary(300, 2, seed=0, bias=0.0)
    >>> losses = [Absolute(a, float(a @ [0.5, 0.0])) for a in rows]
    >>> game = dc.games.run_game(player, losses, comparator=np.array([0.5, 0.0]))
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
        check_domain(domain, "UncertifiedLazyGibbs", (L2Ball, Box))
        check_budget(self, "UncertifiedLazyGibbs")
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
            raise InputError("UncertifiedLazyGibbs: dimension must be a whole number, at least 1")
        share = min(0.9, switches / max(horizon - 1, 1))
        self.width = -0.5 * math.log1p(-share)  # a coin keeps with a probability from 1 - share to 1
        self.eta = 0.5 * self.width
        spread = horizon + 2.0 * dimension * math.log(horizon + 1.0) / self.eta**2
        self.lam = lipschitz / half_width(domain, dimension)[0] * math.sqrt(spread)
        self.beta = self.lam * (self.eta / lipschitz) ** 2
        self._stream = Stream(fresh_key(seed).tobytes())
        self._total = Margins(dimension)
        self.rounds, self.moves, self._played = 0, 0, False
        self._middle = np.full(dimension, (domain.lo + domain.hi) / 2.0 if isinstance(domain, Box) else 0.0)
        self._x = self._middle
        self._x, self._before = self._draw(), self._draw()

    def play(self) -> np.ndarray:
        """Point of this round."""
        if self.rounds >= self.horizon:
            raise InputError(f"the horizon of {self.horizon} rounds is over; make a player with a longer one")
        self._played = True
        return self._x.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round: a gradient, `losses.Linear`, `Absolute`, `Hinge` or `Logistic`."""
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
        """How the player is set and where it stands, and that nothing is proved."""
        return "\n".join(
            [
                f"UncertifiedLazyGibbs, {self.horizon} rounds in dimension {self.dimension} on {self.domain}",
                f"  UNCERTIFIED: points come from {self.steps} steps of hit-and-run, whose error is not known",
                "  regret      nothing is proved",
                f"  moves       {self.moves} in {self.rounds} rounds; {self.switches:g} at most, in expectation",
                "  private     no, and cannot be made so",
            ]
        )

    def _draw(self) -> np.ndarray:
        """Nearly a point from the Gibbs law of the losses so far."""

        def potential(x: np.ndarray) -> float:
            off = x - self._middle
            return self.beta * (self._total.value(x) + self.lam / 2.0 * float(off @ off))

        return UncertifiedHitAndRun(potential, self.domain, self._x, self.steps).draw(self._stream)

    def _read(self, loss: Any) -> Linear | Absolute | Hinge | Logistic:
        if not isinstance(loss, KINDS):
            if callable(loss) or hasattr(loss, "gradient"):
                raise InputError(
                    "UncertifiedLazyGibbs takes gradients, losses.Linear, losses.Absolute, losses.Hinge and "
                    f"losses.Logistic, not {type(loss).__name__}"
                )
            loss = Linear(loss)
        row = as_vector(loss.g if isinstance(loss, Linear) else loss.a, self.dimension, "a loss")
        if not isinstance(loss, Linear):
            as_vector([loss.b], 1, "b of a loss")
        check_length(row * loss.b if isinstance(loss, Hinge | Logistic) else row, self.lipschitz)
        return Linear(row) if isinstance(loss, Linear) else type(loss)(row, float(loss.b))
