"""Private players of games with few moves: every point played may be published, and so may the times of the moves.

Both play points drawn from Gibbs laws of the losses so far. `Pomer` keeps its point by coins and moves seldom,
`BlockedGibbs` moves by the clock. A player holds noise of rounds to come, so it can be neither copied nor pickled, nor
used by another process. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dpconvex.errors import BudgetWarning, FormError, InputError, ReleaseError, warn
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, GibbsInterval, GibbsProduct, uniform
from dpconvex.noise.source import Source
from dpconvex.online.losses import Absolute, Hinge, Linear, Quadratic, Separable
from dpconvex.online.pomer_bounds import (
    ROUNDING,
    STEEPEST,
    Setting,
    blocked_bound,
    check_block,
    check_public,
    half_width,
    pomer_setting,
)
from dpconvex.plan.account import begin
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.claims import Claim, Release
from dpconvex.privacy.receipt import Receipt, encode, issue, neighbour_words
from dpconvex.privacy.theorems.gibbs import EXACT, GIBBS, REFERENCE, gibbs_draws, gibbs_switching
from dpconvex.problem import losses as records
from dpconvex.problem.bounds import L2
from dpconvex.problem.domains import Box, L2Ball
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.version import VERSION

_LARGE_DELTA = 1e-5
_BREAK = "the game was interrupted while a loss was being read, and ends here: points that were played stay private"
Law = GibbsBall | GibbsBox | GibbsProduct


class Separate(NamedTuple):
    """A convex loss up to a constant: sum_j slope_j x_j + curvature_j x_j^2 / 2 + weight_j max(x_j - kink_j, 0).

    Examples
    --------
    >>> Separate(*np.array([[-1.0], [0.0], [0.5], [2.0]])).weight  # |x - 0.5|
    array([2.])
    """

    slope: np.ndarray
    curvature: np.ndarray
    kink: np.ndarray
    weight: np.ndarray


class Sum:
    """Sum of losses, linear or `Separate`: differences of values, and the Gibbs law.

    On a ball in more than one dimension, losses have no kinks and the same curvature in every coordinate.

    Examples
    --------
    >>> total = Sum(L2Ball(1.0), 1, lam=1.0, beta=1.0)
    >>> total.add(Separate(*np.array([[-1.0], [0.0], [0.5], [2.0]])))
    >>> total.difference(np.array([1.0]), np.array([0.5]))
    0.5
    """

    def __init__(self, domain: L2Ball | Box, dimension: int, lam: float, beta: float) -> None:
        self._domain, self._lam, self._beta = domain, lam, beta
        self.tilt = np.zeros(dimension)
        self._curvature = np.zeros(dimension)
        self._kinks: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def add(self, loss: np.ndarray | Separate) -> None:
        """Add a loss."""
        if not isinstance(loss, Separate):
            self.tilt += loss
            return
        self.tilt += loss.slope
        self._curvature += loss.curvature
        if loss.weight.any():
            self._kinks.append(loss.kink)
            self._weights.append(loss.weight)

    def difference(self, x: np.ndarray, y: np.ndarray) -> float:
        """Value at x less that at y."""
        value = float(self.tilt @ (x - y))
        if self._curvature.any():
            value += 0.5 * float(self._curvature @ ((x - y) * (x + y)))
        if self._kinks:
            kinks = np.array(self._kinks)
            bend = np.maximum(x - kinks, 0.0) - np.maximum(y - kinks, 0.0)
            value += float((np.array(self._weights) * bend).sum())
        return value

    def law(self) -> Law:
        """Density in proportion to exp(-beta (sum + lam |x - centre|^2 / 2)) on the domain."""
        domain, tilt, curvature = self._domain, self._beta * self.tilt, self._beta * (self._lam + self._curvature)
        if self._kinks or (curvature != curvature[0]).any():
            return self._product(tilt, curvature)
        if isinstance(domain, L2Ball):
            return GibbsBall(tilt, float(curvature[0]), domain.radius)
        middle = (domain.lo + domain.hi) / 2.0
        return GibbsBox(tilt - self._beta * self._lam * middle, float(curvature[0]), domain.lo, domain.hi)

    def _product(self, tilt: np.ndarray, curvature: np.ndarray) -> GibbsProduct:
        lo, hi = _ends(self._domain)
        middle = self._lam / (self._lam + self._curvature) * (lo + hi) / 2.0  # where both squares together are least
        kinks, weights = np.reshape([self._kinks, self._weights], (2, len(self._kinks), tilt.size))
        parts = []
        for j, bent in enumerate(weights.T > 0.0):
            parts.append(
                GibbsInterval(
                    float(tilt[j]), kinks[bent, j], self._beta * weights[bent, j], float(curvature[j]),
                    float(middle[j]), lo, hi,
                )
            )  # fmt: skip
        return GibbsProduct(tuple(parts))


class _Player:
    """What the two players share: rounds, the account, the receipt, and that noise is used once."""

    def __init__(
        self, domain: L2Ball | Box, lipschitz: float, horizon: int, budget: Budget, dimension: int, dataset: str,
        seed: int | None, setting: Setting,
    ) -> None:  # fmt: skip
        _check_delta(budget, horizon)
        if not isinstance(dataset, str) or not dataset:
            raise InputError("dataset must be a non-empty name")
        if not setting.regret < math.inf:
            raise InputError("no coin fits this budget: take a larger epsilon or delta, or BlockedGibbs")
        self.domain, self.lipschitz, self.budget, self.dataset = domain, float(lipschitz), budget, dataset
        self.horizon, self.dimension, self.setting = int(horizon), int(dimension), setting
        self._problem = Problem(records.Linear(), domain, L2(float(lipschitz)))
        fact = self._problem.lipschitz(self.dimension)
        self._points = Release(
            "points", GIBBS, round_up(fact.value / setting.eta), (self.dimension,), setting.switches_allowed
        )
        self.claim = self._conclude()
        if self.claim.epsilon(budget.delta) > budget.epsilon:
            raise InputError("this setting does not fit the budget: leave it out, and take constants='tight'")
        self._source = Source(seed)
        self._draws, self._coins = self._source.stream("points"), self._source.stream("coins")
        # The temperature is that of the claim, not of the plan: what was proved is what is drawn.
        self._beta = setting.lam / self._points.scale**2
        self._total = self._empty()
        self._block = self._empty()
        self._x = self._draw()
        self._round, self._moves, self._played = 0, 0, False
        self._why = ""
        self._run = os.urandom(16).hex()
        self._lock, self._process = threading.Lock(), os.getpid()

    def _conclude(self) -> Claim:
        raise NotImplementedError

    def _stays(self) -> bool:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _empty(self) -> Sum:
        return Sum(self.domain, self.dimension, self.setting.lam, self._beta)

    @property
    def rounds(self) -> int:
        """Rounds that are over."""
        return self._round

    @property
    def moves(self) -> int:
        """Moves so far: public, as the points are."""
        return self._moves

    def play(self) -> np.ndarray:
        """Point of this round; again the same until a loss is observed. The first one charges the account."""
        self._check_use()
        begin(self._run, self.dataset, self.claim, self._source.private)
        self._played = True
        return self._x.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round.

        A gradient, `losses.Linear` or `losses.Quadratic`; in one dimension `losses.Absolute` and `losses.Hinge`; on a
        box `losses.Separable`. A loss steeper than `lipschitz` anywhere on the domain is made flatter in proportion:
        an error that depends on a record would be a release of its own.
        The gradient of any other loss at the point played must not be given in its place; that cannot be noticed,
        and the regret bound would not hold (privacy does).
        """
        self._check_use()
        read = self._read(loss)
        with self._lock:
            if not self._played:
                raise InputError("observe comes after play: call play() first, once every round")
            self._why = _BREAK
            self._total.add(read)
            self._block.add(read)
            self._round, self._played = self._round + 1, False
            if self._round % self.setting.block == 0 and self._round < self.horizon:
                self._decide()
            self._why = ""

    def _decide(self) -> None:
        """Stay, or draw a new point, at the end of a block."""
        if self._moves < self._points.times and not self._stays():
            self._moves += 1
            self._move(self._draw())
        self._block = self._empty()

    def _draw(self) -> np.ndarray:
        """A point from the Gibbs law of all losses so far."""
        return self._total.law().draw(self._draws)[0]

    def _move(self, x: np.ndarray) -> None:
        self._x = x

    def _read(self, loss: Any) -> np.ndarray | Separate:
        return read_loss(loss, self.dimension, self.domain, self.lipschitz, type(self).__name__)

    @property
    def receipt(self) -> Receipt:
        """What is promised about all points of the game, up to the last round."""
        if self._round == 0 and not self._played:
            raise InputError("nothing was released so far: play first")
        plain = {
            "library": VERSION,
            "algorithm": {"name": type(self).__name__, **self._options()},
            "problem": self._problem.to_json(),
            "n": self.horizon,
            "d": self.dimension,
            "budget": self.budget.to_json(),
            "claim": encode(self.claim),
            "gradient_evaluations": self.horizon,
        }
        name = hashlib.blake2b(self._run.encode(), digest_size=16).hexdigest()
        drawn = [release.name for release in self.claim.releases]
        return issue(
            plain, self.claim, drawn, self._source.private, self._source.description, self._x, self.dataset, (), None,
            stream=name,
        )  # fmt: skip

    def report(self) -> str:
        """What is promised, how the player is set, and where it stands. Of the losses it tells the moves only."""
        s, b = self.setting, self.budget
        words = neighbour_words(b.relation, 1).replace("record", "loss")
        return "\n".join(
            [
                f"{type(self).__name__}, {self.horizon} rounds in dimension {self.dimension} on {self.domain}",
                f"  guarantee   ({self.claim.epsilon(b.delta):.4g}, {b.delta:.3g})-DP for {words};",
                "              of all points and the times of moves, also if losses depend on points",
                f"  setting     lam {s.lam:.4g}, beta {self._beta:.4g}, eta {s.eta:.4g}, blocks of {s.block}",
                *self._describe(),
                f"  moves       {self._moves} in {self._round} rounds; about {s.switches_expected:.0f} expected, "
                f"{s.switches_allowed} allowed",
                f"  regret      {s.regret:.4g} at most, in expectation, if losses do not depend on points; "
                f"{s.regret / (self.lipschitz * self._width() * self.horizon):.3g} of who stays at the centre",
                f"  private     {'yes' if self._source.private else 'no: the noise came from a fixed seed'}",
            ]
        )

    def _describe(self) -> list[str]:
        return []

    def _width(self) -> float:
        return half_width(self.domain, self.dimension)[0]

    def _check_use(self) -> None:
        if self._process != os.getpid():
            raise ReleaseError("this game is another process's: two that use its noise would give it away")
        if self._why:
            raise ReleaseError(self._why)
        if self._round >= self.horizon:
            raise ReleaseError(f"the game of {self.horizon} rounds is over, and its noise used up: begin another")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private player cannot be copied or pickled: its noise must never be used twice")

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class Pomer(_Player):
    """Plays points from Gibbs laws, keeps each by coins, and promises differential privacy of all of them.

    Parameters
    ----------
    domain : L2Ball or Box
    lipschitz : float
        Norm of the longest gradient. Steeper losses are made flatter.
    horizon : int
        Number of rounds, at least 2. The game ends there.
    budget : Budget
        Its delta must be below 1 / horizon.
    dimension : int
    block : int or "auto"
        Rounds between two coins.
    coin : {"reference", "exact"}
        What a coin looks at: the losses of its block at this point and at the one before, or the ratio of the two
        Gibbs densities, for linear losses.
    constants : {"tight", "paper"}
        "paper" sets lam, beta and coins as printed by Agarwal, Kale, Singh and Thakurta (2024); the guarantee is
        computed all the same.
    setting : Setting, optional
        One of your own, in place of what `pomer_setting` finds; refused if it does not fit the budget.
    dataset : str
        Name under which the account of this process charges the game.
    seed : int, optional
        For tests only: reproducible noise, a warning, and a receipt that says "not private".

    Notes
    -----
    The guarantee holds for any losses, also for those of an opponent who sees the points. The bound on regret,
    `setting.regret`, holds for losses that do not depend on them. It does not cover timing: a round in which the point
    moves takes longer, but moves are public.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = Pomer(L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="a game")
    >>> game = dc.online.run_game(player, dc.online.streams.stationary(2000, 3, seed=0))
    >>> player.moves <= player.setting.switches_allowed, bool(game.regret <= player.setting.regret)
    (True, True)
    >>> dc.verify(player.receipt), player.receipt.epsilon <= 4.0
    (True, True)
    """

    def __init__(
        self,
        domain: L2Ball | Box,
        lipschitz: float,
        horizon: int,
        budget: Budget,
        *,
        dimension: int,
        block: int | str = "auto",
        coin: str = "reference",
        constants: str = "tight",
        setting: Setting | None = None,
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        self.coin, self.constants = coin, constants
        if setting is None:
            setting = pomer_setting(
                horizon, dimension, lipschitz, domain, budget, block=_length(block), coin=coin, constants=constants
            )
        else:
            check_public(horizon, dimension, lipschitz, half_width(domain, dimension)[0], budget)
            check_block(setting.block, horizon)
            if not 0.0 < setting.lam < math.inf or not setting.eta > 0.0:
                raise InputError("lam and eta of a setting must be positive, and finite")
            steep = setting.beta * lipschitz * horizon * half_width(domain, dimension)[0]
            if coin == "exact" and not steep <= STEEPEST:
                raise InputError(f"exact coins are certified up to beta G T R = {STEEPEST:g}: take coin='reference'")
        super().__init__(domain, lipschitz, horizon, budget, dimension, dataset, seed, setting)
        self._before = self._draw()  # the point before this one; in the beginning one that was not played

    def _conclude(self) -> Claim:
        s, law = self.setting, EXACT if self.coin == "exact" else REFERENCE
        coins = Release("coins", law, s.width, (1,), math.ceil(self.horizon / s.block) - 1)
        slack = ROUNDING if law == EXACT else 0.0
        return gibbs_switching(
            self._problem.lipschitz(self.dimension), self.budget.relation, self._points, coins, s.most, self.horizon,
            s.block, slack, GibbsBall.tv_error,
        )  # fmt: skip

    def _stays(self) -> bool:
        """Throw the coin of a block."""
        if self.coin == "exact":
            new = self._total.law()
            log = -self._beta * self._block.difference(self._x, np.zeros(self.dimension)) - self._log_ratio(new)
        else:
            log = self._beta * self._block.difference(self._before, self._x)
        keep = keep_probability(log, self.setting)
        return bool(uniform(self._coins, 1)[0] < keep)

    def _log_ratio(self, new: Law) -> float:
        """Logarithm of the normalising constant after the block, less that before it."""
        assert isinstance(new, GibbsBall | GibbsBox)
        tilt = new.tilt - self._beta * self._block.tilt
        old = GibbsBall(tilt, new.curvature, new.radius) if isinstance(new, GibbsBall) else GibbsBox(
            tilt, new.curvature, new.lo, new.hi
        )  # fmt: skip
        return old.log_ratio(new.tilt)

    def _move(self, x: np.ndarray) -> None:
        self._before, self._x = self._x, x

    def _read(self, loss: Any) -> np.ndarray | Separate:
        # By the type of the loss: whether a kink lies in the domain is a fact about a record.
        if self.coin == "exact" and isinstance(loss, Absolute | Hinge | Quadratic | Separable):
            raise InputError('coin="exact" is for linear losses; take coin="reference", which is for all of these')
        return super()._read(loss)

    def _options(self) -> dict[str, Any]:
        return {"block": self.setting.block, "coin": self.coin, "constants": self.constants, "lam": self.setting.lam}

    def _describe(self) -> list[str]:
        s = self.setting
        return [f"  coins       {self.coin}, keep with probability {s.least:.4g} to {s.most:.4g}"]


class BlockedGibbs(_Player):
    """Plays a fresh point from the Gibbs law of the losses so far after every block of rounds; private, as `Pomer` is.

    It moves by the clock, so that no coin gives anything away: mu-GDP with mu = 2 eta sqrt(moves). For most horizons
    its bound is below that of `Pomer`.

    Parameters
    ----------
    domain, lipschitz, horizon, budget, dimension, block, dataset, seed
        As for `Pomer`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = BlockedGibbs(L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="another game")
    >>> game = dc.online.run_game(player, dc.online.streams.stationary(2000, 3, seed=0))
    >>> player.moves == player.setting.switches_allowed, bool(game.regret <= player.setting.regret)
    (True, True)
    """

    def __init__(
        self,
        domain: L2Ball | Box,
        lipschitz: float,
        horizon: int,
        budget: Budget,
        *,
        dimension: int,
        block: int | str = "auto",
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        radius, box = half_width(domain, dimension)
        setting = blocked_bound(horizon, dimension, lipschitz, radius, budget, box=box, block=_length(block))
        super().__init__(domain, lipschitz, horizon, budget, dimension, dataset, seed, setting)

    def _conclude(self) -> Claim:
        lipschitz = self._problem.lipschitz(self.dimension)
        return gibbs_draws(lipschitz, self.budget.relation, self._points, self.horizon, self.setting.block)

    def _stays(self) -> bool:
        return False

    def _options(self) -> dict[str, Any]:
        return {"block": self.setting.block, "lam": self.setting.lam}


def keep_probability(log: float, setting: Setting) -> float:
    """Probability to keep a point, from the logarithm of a ratio.

    Examples
    --------
    >>> setting = Setting(1.0, 1.0, 1.0, 1, 1, 1.0, 1.0, most=0.9, width=0.5, drift=0.0)
    >>> keep_probability(99.0, setting), round(keep_probability(-99.0, setting) / setting.least, 12)
    (0.9, 1.0)
    """
    w = setting.width
    return setting.most * math.exp((min(max(log, -w), w) if math.isfinite(log) else -w) - w)


def read_loss(loss: Any, dimension: int, domain: L2Ball | Box, lipschitz: float, who: str) -> np.ndarray | Separate:
    """A gradient, or a loss that is a sum over coordinates, no steeper than lipschitz anywhere on the domain.

    Examples
    --------
    >>> read_loss(np.array([3.0, 4.0]), 2, L2Ball(1.0), 1.0, "Pomer").round(12)
    array([0.6, 0.8])
    >>> read_loss(Absolute(np.array([1.0]), 0.5), 1, L2Ball(1.0), 1.0, "Pomer").kink
    array([0.5])
    >>> read_loss(Quadratic(np.zeros(2), 3.0), 2, L2Ball(1.0), 1.0, "Pomer").curvature.round(12)
    array([1., 1.])
    """
    if isinstance(loss, Quadratic):
        return _flattened(_quadratic(loss, dimension), domain, lipschitz)
    if isinstance(loss, Separable):
        if isinstance(domain, L2Ball) and dimension > 1:
            raise InputError(f"{who} takes losses.Separable on a Box only: on a ball coordinates are not independent")
        if len(loss.parts) != dimension:
            raise FormError(f"a separable loss must have {dimension} parts")
        parts = [_part(part, _ends(domain)) for part in loss.parts]
        return _flattened(Separate(*map(np.concatenate, zip(*parts, strict=True))), domain, lipschitz)
    if isinstance(loss, Absolute | Hinge):
        if dimension != 1:
            raise InputError(
                f"{who} takes losses with a kink in dimension 1 only, and on a Box as parts of losses.Separable: there "
                "is no sampler with a proved error for more"
            )
        return _flattened(_part(loss, _ends(domain)), domain, lipschitz)
    if isinstance(loss, Linear):
        loss = loss.g
    elif callable(loss) or hasattr(loss, "gradient") or hasattr(loss, "value"):
        raise InputError(
            f"{who} takes a gradient, losses.Linear or losses.Quadratic, in dimension 1 losses.Absolute and "
            f"losses.Hinge, and on a Box losses.Separable, not {type(loss).__name__}: only for these are there "
            "samplers with a proved error"
        )
    return _shortened(_vector(loss, dimension), lipschitz)


def _quadratic(loss: Quadratic, d: int) -> Separate:
    kappa = float(_vector([loss.strong_convexity], 1)[0])
    if kappa < 0.0:
        raise FormError("the strong convexity of a loss must be at least 0")
    g = np.zeros(d) if loss.g is None else _vector(loss.g, d)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = g - kappa * _vector(loss.centre, d)
    return Separate(slope, np.full(d, kappa), np.zeros(d), np.zeros(d))


def _part(loss: Any, ends: tuple[float, float]) -> Separate:
    """A loss of one number on an interval."""
    if isinstance(loss, Quadratic):
        return _quadratic(loss, 1)
    none = np.zeros(1)
    if isinstance(loss, Linear):
        return Separate(_vector(loss.g, 1), none, none, none)
    if not isinstance(loss, Absolute | Hinge):
        raise FormError("a part of a separable loss must be Linear, Absolute, Hinge or Quadratic")
    a, b = float(_vector(loss.a, 1)[0]), float(_vector([loss.b], 1)[0])
    c = a if isinstance(loss, Absolute) else -b * a  # its slope is -|c|, 0 or |c|
    if c == 0.0:
        return Separate(none, none, none, none)
    kink = b / a if isinstance(loss, Absolute) else -1.0 / c
    left, right = (-abs(c), abs(c)) if isinstance(loss, Absolute) else (min(c, 0.0), max(c, 0.0))
    if not ends[0] < kink < ends[1]:  # no kink that matters: linear, up to a constant
        return Separate(np.array([left if kink >= ends[1] else right]), none, none, none)
    return Separate(np.array([left]), none, np.array([kink]), np.array([right - left]))


def _flattened(loss: Separate, domain: L2Ball | Box, lipschitz: float) -> Separate:
    """The loss, or what of it is no steeper than lipschitz on the domain. The slope of a part rises from end to end."""
    lo, hi = _ends(domain)
    with np.errstate(over="ignore", invalid="ignore"):
        ends = loss.slope + loss.curvature * lo, loss.slope + loss.curvature * hi + loss.weight
        most = np.maximum(*np.abs(ends))
        if isinstance(domain, L2Ball) and most.size > 1:
            most = np.append(np.abs(loss.slope), loss.curvature[0] * domain.radius)
    top = float(most.max())
    if not top < 1e300:
        raise FormError("a loss is steeper than float64 can say")
    if top == 0.0:
        return loss
    unit = most / top  # in units of the largest entry, no square overflows
    length = float(np.linalg.norm(unit))
    if isinstance(domain, L2Ball) and loss.slope.size > 1:  # |slope + curvature x| is largest where both agree
        length = float(np.linalg.norm(unit[:-1]) + unit[-1])
    limit = lipschitz * (1.0 - (most.size + 32) * 2.3e-16)
    if length * top <= limit:
        return loss
    flat = limit / length
    slope, curvature, weight = (v / top * flat for v in (loss.slope, loss.curvature, loss.weight))
    return Separate(slope, curvature, loss.kink, weight)


def _shortened(g: np.ndarray, lipschitz: float) -> np.ndarray:
    limit = lipschitz * (1.0 - (g.size + 16) * 2.3e-16)
    top = float(np.abs(g).max())
    if top == 0.0:
        return g
    unit = g / top  # in units of the largest entry, no square overflows
    length = float(np.linalg.norm(unit))
    return unit * (limit / length if length * top > limit else top)


def _vector(value: Any, d: int) -> np.ndarray:
    v = np.asarray(value)
    if v.shape != (d,) or v.dtype.kind not in "biuf" or not np.isfinite(v := v.astype(np.float64)).all():
        raise FormError(f"a loss must hold {d} finite numbers")
    return v


def _ends(domain: L2Ball | Box) -> tuple[float, float]:
    return (-domain.radius, domain.radius) if isinstance(domain, L2Ball) else (domain.lo, domain.hi)


def _length(block: int | str) -> int | None:
    if block == "auto":
        return None
    if isinstance(block, bool) or not isinstance(block, int | np.integer):
        raise InputError('block must be "auto", or a whole number of at least 1 that fits twice into the horizon')
    return int(block)


def _check_delta(budget: Budget, horizon: int) -> None:
    if budget.delta >= 1.0 / horizon:
        raise InputError("delta must be below 1 / horizon: otherwise a whole loss may be released now and then")
    if budget.delta > _LARGE_DELTA:
        warn(f"delta = {budget.delta:g} is large for losses that are about people; 1e-6 is usual", BudgetWarning)
