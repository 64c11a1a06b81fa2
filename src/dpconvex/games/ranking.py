"""Which player to take: the regret that is proved for every private or lazy player, from public facts alone.

All bounds are about G-Lipschitz convex losses on a ball of radius R around the origin, and about T rounds. Proofs:
docs/proofs/online_recommend.md, and the notes it names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import numpy as np
from scipy.special import digamma, gammaln

from dpconvex.errors import InputError
from dpconvex.games.lazy import BlockedFTRL, LazyGibbs, LazyLeader
from dpconvex.games.pomer_bounds import blocked_setting, pomer_setting
from dpconvex.kernel.budget import Budget
from dpconvex.noise.prefix_sum import LONGEST, PrefixSum
from dpconvex.problem.domains import L2Ball
from dpconvex.theorems.computed_sums import rounds_error
from dpconvex.words import align

__all__ = ["BACKENDS", "Candidate", "GameFacts", "NoisyLeader", "PlayerRanking", "rank_players"]

LOSSES = ("convex", "linear")
BACKENDS = ("blt", "tree")


@dataclass(frozen=True)
class GameFacts:
    """Public facts of a game on a ball: rounds T, dimension d, largest gradient G, radius R.

    Examples
    --------
    >>> GameFacts(100, 2, 1.0, 3.0).ball
    L2Ball(radius=3.0)
    """

    horizon: int
    dimension: int
    lipschitz: float
    radius: float

    @property
    def ball(self) -> L2Ball:
        """The domain."""
        return L2Ball(self.radius)

    @property
    def standing(self) -> float:
        """Largest regret of never leaving the centre."""
        return self.lipschitz * self.radius * self.horizon


@dataclass(frozen=True)
class Candidate:
    """A player and what is proved about it.

    Parameters
    ----------
    name : str
    regret : float
        Bound on the expected regret.
    moves : float
        Expected number of moves, or a bound on it.
    takes : str
        The losses it takes.
    code : str
        How to construct it.
    suits : bool
        Whether it takes the losses that were asked for.

    Examples
    --------
    >>> Candidate("BlockedFTRL", 577.4, 299.0, "convex losses", "...", True).name
    'BlockedFTRL'
    """

    name: str
    regret: float
    moves: float
    takes: str
    code: str
    suits: bool


@dataclass(frozen=True, repr=False)
class PlayerRanking:
    """Players, best first, and the regret that is proved for them. Made by `rank_players`.

    Players that do not take the losses that were asked for come last.

    Attributes
    ----------
    rows : tuple of Candidate

    Examples
    --------
    >>> import dpconvex as dc
    >>> table = dc.games.rank_players(300, 50, 1.0, 1.0, budget=dc.Budget(0.5, 1e-6))
    >>> table.best.regret > table.standing, table.useful
    (True, False)
    """

    game: GameFacts
    budget: Budget | None
    switches: float | None
    losses: str
    rows: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate:
        """First row."""
        return self.rows[0]

    @property
    def standing(self) -> float:
        """Largest regret of never leaving the centre: lipschitz radius horizon. A bound above it is useless."""
        return self.game.standing

    @property
    def useful(self) -> bool:
        """Whether the bound of the first row is below the regret of never leaving the centre."""
        return self.best.regret < self.standing

    def __str__(self) -> str:
        b = self.budget
        asked = f"({b.epsilon:.4g}, {b.delta:.3g})-DP, {b.relation}" if b else f"{self.switches:g} moves"
        cells = [("player", "regret", "/ (G R T)", "moves", "takes")] + [
            (row.name, f"{row.regret:.4g}", f"{row.regret / self.standing:.3g}", f"{row.moves:.0f}", row.takes)
            for row in self.rows
        ]
        game = f"{self.game.horizon} rounds in dimension {self.game.dimension}"
        return "\n".join(
            [
                f"Players of {game}, {self.losses} losses, {asked}",
                *("  " + line for line in align(cells, left=5)),
                f"  construct   {self.best.code}"
                if self.useful
                else "  no useful bound: never leaving the centre has regret at most G R T",
            ]
        )

    __repr__ = __str__


def rank_players(
    horizon: int,
    dimension: int,
    lipschitz: float,
    radius: float,
    budget: Budget | None = None,
    switches: float | None = None,
    losses: str = "convex",
) -> PlayerRanking:
    """Evaluate the proved bound of every player, and rank the players by it.

    Parameters
    ----------
    horizon, dimension : int
        Number of rounds, and dimension of the points.
    lipschitz, radius : float
        Largest norm of a gradient, and radius of the ball that is the domain.
    budget : Budget, optional
        For private players: a record is one loss.
    switches : float, optional
        For lazy players: the expected number of moves allowed. Give one of the two.
    losses : {"convex", "linear"}
        "linear" promises linear losses that do not depend on the points played.

    Returns
    -------
    PlayerRanking

    Raises
    ------
    InputError
        If a fact is out of its range, or not exactly one of `budget` and `switches` is given.

    Examples
    --------
    >>> import dpconvex as dc
    >>> dc.games.rank_players(10_000, 10, lipschitz=1.0, radius=1.0, switches=300, losses="linear")
    Players of 10000 rounds in dimension 10, linear losses, 300 moves
      player       regret  / (G R T)  moves  takes
      LazyLeader   108.5   0.0108     300    linear losses
      LazyGibbs    139.4   0.0139     300    linear losses
      BlockedFTRL  584     0.0584     294    convex losses
      construct   dc.games.LazyLeader(dc.domains.L2Ball(1.0), lipschitz=1.0, horizon=10000, switches=300).player(d=10)
    """
    game = GameFacts(
        _whole("horizon", horizon), _whole("dimension", dimension), _positive("lipschitz", lipschitz),
        _positive("radius", radius),
    )  # fmt: skip
    if losses not in LOSSES:
        raise InputError(f"losses must be one of {', '.join(LOSSES)}, got {losses!r}")
    if (budget is None) == (switches is None):
        raise InputError(
            "give a budget, for private players, or switches, for lazy ones, and not both. Without either, "
            "learners.FTRL with Fixed(radius / (lipschitz sqrt(horizon))) has regret lipschitz radius sqrt(horizon)"
        )
    if switches is not None:
        rows = _lazy(game, _positive("switches", switches), losses)
    elif not isinstance(budget, Budget):
        raise InputError(f"budget must be a dpconvex.Budget, got {type(budget).__name__}")
    elif game.horizon > 1 and budget.delta >= 1.0 / game.horizon:
        raise InputError(
            f"delta must be below 1/horizon = {1.0 / game.horizon:.3g}: a larger one would allow "
            "the release of a whole loss now and then"
        )
    else:
        rows = _private(game, budget, losses)
    ranked = tuple(sorted(rows, key=lambda row: (not row.suits, row.regret)))
    return PlayerRanking(game, budget, switches, losses, ranked)


# DP-FTRL -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyLeader:
    """`PrivateFTRL` on a ball with one loss per round: its step, and the proved bound on its regret.

    Parameters
    ----------
    game : GameFacts
    budget : Budget
    backend : {"blt", "tree"}
        How the noise of the rounds is correlated.
    losses : {"convex", "linear"}
    steps : {"root", "fixed"}
        Steps eta / sqrt(rounds before), as `PrivateFTRL` takes them, or eta in every round.

    Examples
    --------
    >>> leader = NoisyLeader(GameFacts(10_000, 10, 1.0, 1.0), Budget(8.0, 1e-6), "blt")
    >>> round(leader.regret(10_000)), round(leader.step, 3)
    (779, 0.128)
    """

    game: GameFacts
    budget: Budget
    backend: str
    losses: str = "convex"
    steps: str = "root"

    @property
    def step(self) -> float:
        """The eta with the least bound after the last round."""
        over, under, _ = self._terms(self.game.horizon)
        return math.sqrt(over / under)

    def regret(self, rounds: int) -> float:
        """Bound on the expected regret after so many rounds of the game, with `step`."""
        over, under, rest = self._terms(rounds)
        return over / self.step + under * self.step + rest

    def _terms(self, rounds: int) -> tuple[float, float, float]:
        """a, b, c of the bound a / eta + b eta + c."""
        g, r, before = self.game.lipschitz, self.game.radius, rounds - 1
        moved = self.budget.moves + 2.0 * rounds_error(self.game.horizon, 1, self.game.dimension)
        noise = moved * g / self.budget.mu * mean_norm(self.game.dimension)  # of one release
        if self.steps == "fixed":
            over, under = r**2 / 2.0, g**2 * rounds / 2.0
            add = _plain_sum(self.backend, self.game.horizon, before)
        else:
            over, under = r**2 * math.sqrt(max(before, 1)) / 2.0, g**2 * (1.0 + _roots(before)) / 2.0
            add = _root_sum(self.backend, self.game.horizon, before)
        if self.losses == "linear" and self.backend != "tree":  # whose noise may fall, and rise again
            largest = PrefixSum(self.backend, self.game.horizon).max_error(before) if before else 0.0
            return over, under, r * noise * largest
        return over, under + g * noise * add, 0.0


def mean_norm(d: int) -> float:
    """Mean norm of a standard normal vector in d dimensions.

    Examples
    --------
    >>> round(mean_norm(1) ** 2 * math.pi / 2, 12), round(mean_norm(100), 4)
    (1.0, 9.975)
    """
    return math.sqrt(2.0) * math.exp(float(gammaln((d + 1) / 2.0) - gammaln(d / 2.0)))


def _roots(n: int) -> float:
    """At least 1 + 1/sqrt(2) + ... + 1/sqrt(n): the tail by its integral."""
    few = min(n, 1000)
    head = float((1.0 / np.sqrt(np.arange(1.0, few + 1.0))).sum())
    return head + 2.0 * (math.sqrt(n) - math.sqrt(few))


def _variances(backend: str, horizon: int, n: int) -> float:
    """Variances after rounds 1, ..., n, added up, in units of the squared scale."""
    return n * PrefixSum(backend, horizon).rms_error(n) ** 2 if n else 0.0


@lru_cache(maxsize=4096)
def _plain_sum(backend: str, horizon: int, n: int) -> float:
    """At least the standard deviations after rounds 1, ..., n, added up (Cauchy-Schwarz)."""
    return math.sqrt(n * _variances(backend, horizon, n))


@lru_cache(maxsize=4096)
def _root_sum(backend: str, horizon: int, n: int) -> float:
    """At least the standard deviations after rounds j = 1, ..., n, each over sqrt(j), added up.

    Cauchy-Schwarz between one power of 2 and the next.
    """
    total, first, spent = 0.0, 1, 0.0
    while first <= n:
        last = min(2 * first - 1, n)
        upto = _variances(backend, horizon, last)
        harmonic = float(digamma(last + 1) - digamma(first))
        total += math.sqrt(max(upto - spent, 0.0) * harmonic)
        first, spent = last + 1, upto
    return total


# Rows --------------------------------------------------------------------------------------------------------------


def _private(game: GameFacts, budget: Budget, losses: str) -> list[Candidate]:
    allowed = f"budget=dc.Budget({budget.epsilon!r}, {budget.delta!r}, {budget.relation!r})"
    rows = []
    for backend in BACKENDS:
        leader = NoisyLeader(game, budget, backend, losses, "fixed")
        code = (
            f'dc.algorithms.PrivateFTRL("{backend}", batch=1, step={leader.step:.6g}, fixed=True).plan_stream('
            f"dc.Problem(dc.losses.Linear(), dc.domains.L2Ball({game.radius!r}), feature_bound={game.lipschitz!r}), "
            f"d={game.dimension}, {allowed}, rounds={game.horizon}).start()"
        )
        regret, moves = leader.regret(game.horizon), game.horizon - 1.0
        rows.append(Candidate(f"PrivateFTRL, {backend}", regret, moves, "convex losses", code, suits=True))
    if game.horizon > 1:  # with one round there is nothing to draw
        rows += _gibbs(game, budget, losses, allowed)
    return rows


def _gibbs(game: GameFacts, budget: Budget, losses: str, allowed: str) -> list[Candidate]:
    """Private Gibbs players, for losses whose laws can be drawn from exactly."""
    facts = (game.horizon, game.dimension, game.lipschitz, game.ball, budget)
    alone, linear = game.dimension == 1, losses == "linear"
    some = "linear, absolute, hinge" if alone else "linear losses"
    blocks = blocked_setting(*facts)
    found = [("BlockedGibbs", "", "", blocks, some, alone or linear)]
    if blocks.regret < game.standing:  # otherwise coins, which pay in long games, would be no better
        for coin, words in (("reference", "reference"), ("one_sample", "one-sample"), ("exact", "exact")):
            option = "" if coin == "reference" else f', coin="{coin}"'
            takes, suits = ("linear losses", linear) if coin == "exact" else (some, alone or linear)
            found.append(("Pomer", f", {words} coin", option, pomer_setting(*facts, coin), takes, suits))
    ball = f"dc.domains.L2Ball({game.radius!r}), {game.lipschitz!r}, {game.horizon}, {allowed}"
    rows = []
    for name, words, option, setting, takes, suits in found:
        code = f"dc.games.{name}({ball}, dimension={game.dimension}{option})"
        rows.append(Candidate(name + words, setting.regret, setting.switches_expected, takes, code, suits))
    return rows


def _lazy(game: GameFacts, switches: float, losses: str) -> list[Candidate]:
    rows = []
    for kind in (LazyLeader, LazyGibbs, BlockedFTRL):
        setting = kind(game.ball, game.lipschitz, game.horizon, switches).setting(game.dimension)
        code = (
            f"dc.games.{kind.__name__}(dc.domains.L2Ball({game.radius!r}), lipschitz={game.lipschitz!r}, "
            f"horizon={game.horizon}, switches={switches:g}).player(d={game.dimension})"
        )
        takes, suits = ("linear", losses == "linear") if kind.linear_only else ("convex", True)
        rows.append(Candidate(kind.__name__, setting.regret, setting.moves, f"{takes} losses", code, suits))
    return rows


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= LONGEST:
        raise InputError(f"{name} must be a whole number between 1 and {LONGEST}")
    return int(value)


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InputError(f"{name} must be a positive, finite number")
    return float(value)
