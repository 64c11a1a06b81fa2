"""Lazy learners: few moves, and the regret that is proved for them. Nothing here is private.

`LazyGibbs` and `LazyLeader` play a random point whose law follows the sum of the linear losses, and change the point
only as often as the law requires: from round to round the two laws are coupled so that the point stays with the largest
possible probability. (`LazyGibbs` can also follow them by rejection, for comparison.) `BlockedFTRL` is the baseline: it
moves after a fixed number of rounds. Proofs: docs/proofs/lazy_gibbs.md.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaincinv, erf, ndtri

from dpconvex.errors import InputError
from dpconvex.games.domains import BALL_OR_BOX, BOUNDED, Kinds, check_domain
from dpconvex.games.game import Game
from dpconvex.games.player import Learner, State
from dpconvex.kernel.profiles import gaussian_delta
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, gibbs_law, uniform
from dpconvex.noise.source import Stream
from dpconvex.problem.domains import Domain

__all__ = ["BlockedFTRL", "Lazy", "LazyGibbs", "LazyLeader", "LazySetting"]

_SLACK = 1.0 + 1e-9  # a gradient may exceed `lipschitz` by what rounding adds; the bounds include it
_MOST = 6.0  # eta beyond which laws of neighbouring rounds are all but disjoint, and nothing is gained
_COUPLINGS = ("maximal", "rejection")
_STILL = 1e-12  # a law that moves by less in total variation is taken to stay


class LazySetting(NamedTuple):
    """How a lazy learner is set, and what is proved whatever the losses are.

    Parameters
    ----------
    lam : float
        Weight of |x|^2 / 2 beside the sum of the losses.
    beta : float
        Inverse temperature of `LazyGibbs`; the Gaussian of `LazyLeader` has variance 1/(beta lam); infinite for
        `BlockedFTRL`, which is not random.
    regret, moves : float
        Bounds on the expected regret and on the expected number of moves.
    """

    lam: float
    beta: float
    regret: float
    moves: float


@dataclass(frozen=True)
class Lazy(Learner):
    """Base of the lazy learners: a bound on gradients, a number of rounds, and how many moves are allowed."""

    plays_on: ClassVar[Kinds] = BOUNDED
    linear_only: ClassVar[bool] = True

    lipschitz: float
    horizon: int
    switches: float

    def __post_init__(self) -> None:
        check_domain(self.domain, type(self).__name__, self.plays_on)
        check_terms(type(self).__name__, self.lipschitz, self.horizon, self.switches, getattr(self, "seed", None))

    @abstractmethod
    def setting(self, d: int) -> LazySetting:
        """How the learner is set in dimension d, from its options alone."""

    def moves(self, game: Game) -> float:
        """Expected number of moves that is proved for the gradients observed."""
        setting = self.setting(game.start.size)
        eta = np.linalg.norm(game.gradients[:-1], axis=1) * math.sqrt(setting.beta / setting.lam)
        return float(erf(eta / math.sqrt(8.0)).sum())

    def check_start(self, start: np.ndarray) -> None:
        """Refuse a start other than the origin."""
        if start.any():
            raise InputError(f"{type(self).__name__} starts from the origin, where its penalty is least; give no start")

    def check_loss(self, loss: Any) -> None:
        """Refuse losses that are not linear, unless the point is not random."""
        if self.linear_only and hasattr(loss, "gradient") and getattr(loss, "form", None) != "linear":
            raise InputError(
                f"{type(self).__name__} takes linear losses only, a gradient or losses.LinearLoss, not "
                f"{type(loss).__name__}: the gradient of another loss depends on the random point, and nothing is "
                "proved then. BlockedFTRL takes any convex loss, and UncertifiedLazyGibbs some, without a bound"
            )

    def check_round(self, state: State) -> None:
        """Refuse a round after the last."""
        if state["round"] >= self.horizon:
            raise InputError(f"the horizon of {self.horizon} rounds is over; make a learner with a longer one")


@dataclass(frozen=True)
class LazyGibbs(Lazy):
    """Gibbs sampling with few moves: x_t has a density in proportion to exp(-beta (<S, x> + lam |x|^2 / 2)).

    S is the sum of the gradients before round t.

    Parameters
    ----------
    domain : L2Ball or Box
    lipschitz : float
        Largest norm of a gradient. A longer one is refused: moves and regret would exceed their bounds.
    horizon : int
        Number of rounds. The game ends there.
    switches : float
        Expected number of moves that is allowed.
    seed : int, optional
        For reproducible runs. By default the key comes from the operating system.
    coupling : {"maximal", "rejection"}
        How the point follows its law. "rejection", for comparison, is the rule of Agarwal, Kale, Singh and Thakurta
        (2024): keep with probability min(1, ratio / Phi), else draw afresh. At the same temperature it moves some
        ten times as often.
    hard : bool
        Never make more than `switches` moves, whoever chooses the losses: after that many the point stays. The laws are
        set so that this is rare, at the price of a larger bound on regret. With coupling "maximal" only.

    Notes
    -----
    For losses that do not depend on the points played, with S = g_1 + ... + g_T and Z the normalising constant as a
    function of the sum, the expected regret against u is at most

    sum_t |g_t|^2 / (2 lam) + (ln Z(0) - ln Z(S)) / beta - <S, u>,

    and the expected number of moves at most sum_{t<T} (2 Phi(|g_t| sqrt(beta / lam) / 2) - 1), Phi the normal
    distribution function. `lam` and `beta` make the second equal to `switches` for the longest gradients, and then
    the first smallest. A round costs O(d) operations and one draw on average; where the law has hardly moved and
    the point moves nevertheless, which is rare, it costs more.

    "rejection" adds lipschitz reach to the regret, reach being the largest norm of a point. `hard` adds twice that; the
    moves are used up with a probability of at most 1 / horizon.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = LazyGibbs(dc.domains.L2Ball(1.0), lipschitz=1.0, horizon=2000, switches=100, seed=1)
    >>> game = dc.games.run_game(learner.player(d=3), dc.games.streams.stationary(2000, 3, seed=0))
    >>> game.switches < 100, bool(game.regret <= learner.bound(game))
    (True, True)
    """

    plays_on: ClassVar[Kinds] = BALL_OR_BOX

    seed: int | None = None
    coupling: str = "maximal"
    hard: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coupling not in _COUPLINGS:
            raise InputError(f"LazyGibbs: coupling must be one of {', '.join(_COUPLINGS)}")
        if not isinstance(self.hard, bool):
            raise InputError("LazyGibbs: hard must be True or False")
        if self.hard and (self.coupling != "maximal" or self.switches < 1.0):
            raise InputError('LazyGibbs: hard=True needs coupling="maximal", and switches of at least 1')

    def setting(self, d: int) -> LazySetting:
        """How the learner is set in dimension d, from its options alone."""
        longest = self.lipschitz * _SLACK
        if self.coupling == "rejection":
            rejection = rejection_closeness(self.horizon, float(self.switches))
            eta, moves = rejection.eta, (self.horizon - 1) * rejection.leave
        else:
            whole = math.floor(min(self.switches, self.horizon))
            eta = hard_closeness(self.horizon, whole) if self.hard else closeness(self.horizon, self.switches)
            moves = _moves(eta, self.horizon)
        lam, regret = _regularisation(self.domain, longest, self.horizon, eta, d)
        return LazySetting(lam, (eta / longest) ** 2 * lam, regret + self._extra(d), moves)

    def _extra(self, d: int) -> float:
        """Regret beside that of points with exactly the Gibbs laws."""
        share = 2.0 if self.hard else 1.0 if self.coupling == "rejection" else 0.0
        return share * self.lipschitz * _SLACK * self.domain.reach(d)

    def moves(self, game: Game) -> float:
        """Expected number of moves that is proved for the gradients observed."""
        if self.coupling == "maximal":
            return super().moves(game)
        coins = int(game.gradients[:-1].any(axis=1).sum())
        return coins * rejection_closeness(self.horizon, float(self.switches)).leave

    def initial(self, start: np.ndarray) -> State:
        """State before round 1: the first point is drawn."""
        key = fresh_key(self.seed)
        x = _law(self.domain, self.setting(start.size), start).draw(stream_of(key, 0))[0]
        return {"sum": np.zeros(start.size), "x": x, "key": key, "moves": 0}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        self.check_round(state)
        return state["x"]

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Add the gradient to the sum; keep the point with the probability that the coupling says."""
        check_length(g, self.lipschitz)
        total = state["sum"] + g
        setting = self.setting(g.size)
        slope = setting.beta * g
        still = float(np.linalg.norm(slope)) * self.domain.reach(g.size) < _STILL
        over = state["round"] + 1 == self.horizon or (self.hard and state["moves"] + 1 > self.switches)
        if still or over:
            return {"sum": total}
        new = _law(self.domain, setting, total)
        ratio = _law(self.domain, setting, state["sum"]).log_ratio(new.tilt)  # ln of Z, new less old
        stream = stream_of(state["key"], state["round"] + 1)
        rejects = self.coupling == "rejection"
        width = rejection_closeness(self.horizon, float(self.switches)).width if rejects else 0.0
        if math.log(uniform(stream, 1)[0]) <= -float(slope @ x) - ratio - width:
            return {"sum": total}
        moved = new.draw(stream)[0] if rejects else _excess(new, slope, ratio, stream)
        return {"sum": total, "x": moved, "moves": state["moves"] + 1}

    def bound(self, game: Game) -> float:
        """Proved bound on expected regret, given the gradients observed, if they do not depend on the points played."""
        setting = self.setting(game.start.size)
        total = game.gradients.sum(axis=0)
        gain = _law(self.domain, setting, np.zeros(total.size)).log_ratio(setting.beta * total) / setting.beta
        exact = float((game.gradients**2).sum()) / (2.0 * setting.lam) - gain - float(total @ game.comparator)
        return exact + self._extra(total.size)


@dataclass(frozen=True)
class LazyLeader(Lazy):
    """Follow the leader of a Gaussian perturbation with few moves: x_t = project(y_t), y_t ~ N(-S/lam, I/(beta lam)).

    S is the sum of the gradients before round t. From round to round y stays, or is reflected across the plane
    halfway between the two means: no other way to follow the two laws moves less often. A round costs O(d)
    operations and one random number.

    Parameters
    ----------
    domain : L2Ball, Box or L1Ball
    lipschitz, horizon, switches, seed
        As for `LazyGibbs`.

    Notes
    -----
    Let eta = lipschitz sqrt(beta / lam), W the expectation of max_x <z, x> over the domain for z ~ N(0, I), and n =
    min(d lipschitz^2 / (2 lam eta^2), lipschitz W / eta). For losses that do not depend on the points played, the
    expected regret against u is at most lam |u|^2 / 2 + sum_t |g_t|^2 / (2 lam) + n; on a ball of radius R that is
    at most R lipschitz sqrt(T + d / eta^2). The expected number of moves is bounded as for `LazyGibbs`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = LazyLeader(dc.domains.L2Ball(1.0), lipschitz=1.0, horizon=2000, switches=100, seed=1)
    >>> game = dc.games.run_game(learner.player(d=3), dc.games.streams.stationary(2000, 3, seed=0))
    >>> game.switches < 100, bool(game.regret <= learner.bound(game))
    (True, True)
    """

    seed: int | None = None

    def setting(self, d: int) -> LazySetting:
        """How the learner is set in dimension d, from its options alone."""
        longest, eta = self.lipschitz * _SLACK, closeness(self.horizon, self.switches)
        reach, width = self.domain.reach(d), self.domain.gaussian_width(d)
        few = longest * reach * math.sqrt(self.horizon + d / eta**2), math.sqrt(self.horizon + d / eta**2)
        many = longest * (reach * math.sqrt(self.horizon) + width / eta), math.sqrt(self.horizon)
        regret, root = min(few, many)
        lam = longest * root / reach
        return LazySetting(lam, (eta / longest) ** 2 * lam, regret, _moves(eta, self.horizon))

    def initial(self, start: np.ndarray) -> State:
        """State before round 1: the first perturbation is drawn."""
        key, setting = fresh_key(self.seed), self.setting(start.size)
        y = standard_normal(stream_of(key, 0), (start.size,)) / math.sqrt(setting.beta * setting.lam)
        return {"sum": np.zeros(start.size), "y": y, "key": key}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        self.check_round(state)
        return self.domain.project(state["y"])

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Add the gradient to the sum; keep the perturbed leader, or reflect it."""
        check_length(g, self.lipschitz)
        total = state["sum"] + g
        if not g.any() or state["round"] + 1 == self.horizon:
            return {"sum": total}
        setting = self.setting(g.size)
        off = state["y"] + (state["sum"] + 0.5 * g) / setting.lam  # from halfway between the means
        along = float(g @ off)
        stream = stream_of(state["key"], state["round"] + 1)
        if math.log(uniform(stream, 1)[0]) <= -setting.beta * along:
            return {"sum": total}
        return {"sum": total, "y": state["y"] - 2.0 * along / float(g @ g) * g}

    def bound(self, game: Game) -> float:
        """Proved bound on expected regret, given the gradients observed, if they do not depend on the points played."""
        d, u = game.start.size, game.comparator
        lam, beta = self.setting(d)[:2]
        noise = min(d / (2.0 * beta), math.sqrt(lam / beta) * self.domain.gaussian_width(d))
        return lam * float(u @ u) / 2.0 + float((game.gradients**2).sum()) / (2.0 * lam) + noise


@dataclass(frozen=True)
class BlockedFTRL(Lazy):
    """Follow the regularised leader by blocks: x = project(-S / lam), S the sum of gradients up to the last block.

    Parameters
    ----------
    domain : L2Ball, Box or L1Ball
    lipschitz : float
        Largest norm of a gradient; a longer one is refused.
    horizon : int
        Number of rounds.
    switches : float
        Number of moves that is allowed, never exceeded.

    Notes
    -----
    Blocks have m = ceil(T / (switches + 1)) rounds, and with b_i the sums of gradients in them the regret against u
    is at most lam |u|^2 / 2 + sum_i |b_i|^2 / (2 lam), whoever chooses the (convex) losses.

    Examples
    --------
    >>> import dpconvex as dc
    >>> learner = BlockedFTRL(dc.domains.L2Ball(1.0), lipschitz=1.0, horizon=2000, switches=100)
    >>> game = dc.games.run_game(learner.player(d=3), dc.games.streams.stationary(2000, 3, seed=0))
    >>> game.switches, bool(game.regret <= learner.bound(game))
    (99, True)
    """

    linear_only: ClassVar[bool] = False

    @property
    def block(self) -> int:
        """Rounds from move to move."""
        return math.ceil(self.horizon / (math.floor(min(self.switches, self.horizon)) + 1))

    def setting(self, d: int) -> LazySetting:
        """How the learner is set in dimension d, from its options alone."""
        blocks, reach = math.ceil(self.horizon / self.block), self.domain.reach(d)
        longest = self.lipschitz * self.block * math.sqrt(blocks)
        return LazySetting(longest / reach, math.inf, longest * reach, blocks - 1.0)

    def moves(self, game: Game) -> float:
        """Number of moves that is never exceeded."""
        return (game.rounds - 1) // self.block

    def initial(self, start: np.ndarray) -> State:
        """State before round 1."""
        return {"sum": np.zeros(start.size), "x": start.copy()}

    def decide(self, state: State, hint: np.ndarray) -> np.ndarray:
        """Point to play."""
        self.check_round(state)
        return state["x"]

    def update(self, state: State, x: np.ndarray, g: np.ndarray, mu: float, hint: np.ndarray) -> State:
        """Add the gradient to the sum; move at the end of a block."""
        check_length(g, self.lipschitz)
        total = state["sum"] + g
        if (state["round"] + 1) % self.block:
            return {"sum": total}
        return {"sum": total, "x": self.domain.project(-total / self.setting(g.size).lam)}

    def bound(self, game: Game) -> float:
        """Proved bound on regret."""
        u, lam = game.comparator, self.setting(game.start.size).lam
        blocks = np.add.reduceat(game.gradients, np.arange(0, len(game.gradients), self.block), axis=0)
        return lam * float(u @ u) / 2.0 + float((blocks**2).sum()) / (2.0 * lam)


def _excess(new: GibbsBall | GibbsBox, slope: np.ndarray, ratio: float, stream: Stream) -> np.ndarray:
    """A point from the part of the new law that exceeds the old one, by rejection."""
    count = 1
    while True:
        y = new.draw(stream, count)
        excess = -np.expm1(np.minimum(y @ slope + ratio, 0.0))
        good = np.flatnonzero(uniform(stream, count) < excess)
        if good.size:
            return y[good[0]]
        count = min(2 * count, 1024)


class Rejection(NamedTuple):
    """How rejection is set.

    Parameters
    ----------
    eta : float
        Closeness of laws.
    width : float
        ln Phi.
    drift : float
        What a round may add to the distance from the Gibbs law, in total variation.
    leave : float
        Bound on the probability of a move, on average over the rounds.
    """

    eta: float
    width: float
    drift: float
    leave: float


@lru_cache(maxsize=64)
def rejection_closeness(horizon: int, switches: float) -> Rejection:
    """The largest eta for which at most `switches` moves are expected, and errors add up to 1 / 2 at most.

    Examples
    --------
    >>> rejection_closeness(10_000, 300.0).eta < closeness(10_000, 300.0) / 10
    True
    """
    share = min(1.0, switches / max(horizon - 1, 1))
    drift = min(1.0 / horizon, share) / horizon
    width = -math.log1p(0.5 * horizon * drift - share)

    def over(eta: float) -> float:
        return gaussian_delta(width, eta) - drift * math.exp(width)

    eta = _MOST if over(_MOST) <= 0.0 else float(brentq(over, 1e-3 * width, _MOST, xtol=1e-300, rtol=1e-12))
    return Rejection(eta * (1.0 - 1e-11), width, drift, 0.5 * horizon * drift - math.expm1(-width))


@lru_cache(maxsize=64)
def hard_closeness(horizon: int, most: int) -> float:
    """Largest eta, but at most 6, for which more than `most` moves have a probability of at most 1 / horizon.

    Examples
    --------
    >>> closeness(10_000, 300) / 30 < hard_closeness(10_000, 300) < closeness(10_000, 300) / 10
    True
    """
    if most >= horizon - 1:
        return _MOST
    # Binomial(horizon - 1, p) exceeds `most` with probability 1 / (2 horizon)
    p = float(betaincinv(most + 1.0, horizon - 1.0 - most, 0.5 / horizon))
    width, tail = -math.log1p(-p), math.sqrt(2.0 * math.log(2.0 * horizon * horizon))
    return min(_MOST, 2.0 * width / (tail + math.sqrt(tail * tail + 2.0 * width)))


def closeness(horizon: int, switches: float) -> float:
    """Eta with (horizon - 1) (2 Phi(eta / 2) - 1) = switches, but at most 6."""
    share = switches / max(horizon - 1, 1)
    return min(_MOST, 2.0 * float(ndtri((1.0 + share) / 2.0))) if share < 1.0 else _MOST


def _moves(eta: float, horizon: int) -> float:
    return (horizon - 1) * math.erf(eta / math.sqrt(8.0))


def _law(domain: Domain, setting: LazySetting, total: np.ndarray) -> GibbsBall | GibbsBox:
    return gibbs_law(domain, setting.beta * total, setting.beta * setting.lam)


@lru_cache(maxsize=64)
def _regularisation(domain: Domain, longest: float, horizon: int, eta: float, d: int) -> tuple[float, float]:
    """The regularisation for which the bound that holds for all losses is least, and the bound; any would be valid."""
    reach = domain.reach(d)

    def worst(log_lam: float) -> float:
        lam = math.exp(log_lam)
        setting = LazySetting(lam, (eta / longest) ** 2 * lam, 0.0, 0.0)
        return longest**2 * horizon / (2.0 * lam) + _shortfall(domain, setting, longest * horizon, d)

    scale = math.log(longest / reach * math.sqrt(horizon + d / eta**2))
    best = minimize_scalar(worst, bounds=(scale - 3.0, scale + 5.0), method="bounded", options={"xatol": 1e-3})
    return math.exp(float(best.x)), float(best.fun)


def _shortfall(domain: Domain, setting: LazySetting, size: float, d: int) -> float:
    """Largest (ln Z(0) - ln Z(S)) / beta - min_x <S, x> over |S| <= size (on a box: over |S_j| <= size)."""
    if (interval := domain.traits.interval) is not None:
        each = [
            size * far
            - _law(domain, setting, np.zeros(1)).log_ratio(np.array([sign * setting.beta * size])) / setting.beta
            for sign, far in ((1.0, -interval[0]), (-1.0, interval[1]))
        ]
        return d * max(each)
    far = np.zeros(d)
    far[0] = size
    gain = _law(domain, setting, np.zeros(d)).log_ratio(setting.beta * far) / setting.beta
    return size * domain.reach(d) - gain


def fresh_key(seed: int | None) -> np.ndarray:
    """Key of the random numbers of one game: 32 bytes."""
    key = os.urandom(32) if seed is None else hashlib.sha256(b"dpconvex lazy game" + str(int(seed)).encode()).digest()
    return np.frombuffer(key, dtype=np.uint8).copy()


def stream_of(key: np.ndarray, t: int) -> Stream:
    """Random words of round t: a function of key and round, so that a game can be resumed from its state."""
    return Stream(hashlib.blake2b(t.to_bytes(8, "little"), key=key.tobytes(), digest_size=32).digest())


def check_terms(who: str, lipschitz: float, horizon: int, switches: float, seed: int | None) -> None:
    """Refuse options from which nothing can be set."""
    if not 0.0 < lipschitz < math.inf:
        raise InputError(f"{who}: lipschitz must be positive and finite")
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise InputError(f"{who}: horizon must be a whole number of rounds, at least 1")
    if not switches > 0.0:
        raise InputError(f"{who}: switches must be positive; without moves a player plays a fixed point")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
        raise InputError(f"{who}: seed must be None or an integer")


def check_length(g: np.ndarray, lipschitz: float) -> None:
    """Refuse a gradient longer than `lipschitz`."""
    if float(np.linalg.norm(g)) > lipschitz * _SLACK:
        raise InputError(
            "a gradient is longer than lipschitz; the player is unchanged. Scale the losses, or raise lipschitz"
        )
