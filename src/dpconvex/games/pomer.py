"""Private players of games with few moves: every point played may be published, and so may the times of the moves.

Both play points drawn from Gibbs laws of the losses so far. `Pomer` keeps its point by coins and moves seldom,
`BlockedGibbs` moves by the clock. A player holds noise of rounds to come, so it can be neither copied nor pickled, nor
used by another process. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any, NoReturn

import numpy as np

from dpconvex.errors import BudgetWarning, InputError, ReleaseError, warn
from dpconvex.games.gibbs_sums import LARGEST, Law, Read, Sum, Tries, read_loss
from dpconvex.games.losses import Absolute, Hinge, Logistic, Quadratic, Separable
from dpconvex.games.pomer_bounds import (
    COINS,
    ROUNDING,
    STEEPEST_SUM,
    Setting,
    blocked_bound,
    check_block,
    check_public,
    check_smoothness,
    computable,
    half_width,
    kept,
    plan_tries,
    pomer_setting,
)
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release
from dpconvex.kernel.receipt import Receipt
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, uniform
from dpconvex.plan.run import Run, new_stream, public_form
from dpconvex.problem import losses as records
from dpconvex.problem.bounds import L2
from dpconvex.problem.domains import Box, L2Ball
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems.gibbs_switching import COIN_LAWS, GIBBS, gibbs_draws, gibbs_switching
from dpconvex.words import neighbour_words

_LARGE_DELTA = 1e-5
_NARROWEST = 1e6  # times the deviation of a law that the domain may be wide, in a setting of one's own
_BREAK = "the game was interrupted while a loss was being read, and ends here: points that were played stay private"


class _Player:
    """What the two players share: rounds, the account, the receipt, and that noise is used once."""

    def __init__(
        self, domain: L2Ball | Box, lipschitz: float, horizon: int, budget: Budget, dimension: int, dataset: str,
        seed: int | None, setting: Setting, smoothness: float | None,
    ) -> None:  # fmt: skip
        _check_delta(budget, horizon)
        if not isinstance(dataset, str) or not dataset:
            raise InputError("dataset must be a non-empty name")
        if not setting.regret < math.inf:
            raise InputError("no coin fits this budget: take a larger epsilon or delta, or BlockedGibbs")
        self.domain, self.lipschitz, self.budget, self.dataset = domain, float(lipschitz), budget, dataset
        self.horizon, self.dimension, self.smoothness = int(horizon), int(dimension), smoothness
        self._tries, self._error, self.setting = self._plan_tries(setting)
        self._problem = Problem(records.Linear(), domain, L2(float(lipschitz)))
        fact = self._problem.lipschitz(self.dimension)
        self._points = Release(
            "points", GIBBS, round_up(fact.value / setting.eta), (self.dimension,), setting.switches_allowed
        )
        self.claim = self._conclude()
        if self.claim.epsilon(budget.delta) > budget.epsilon:
            raise InputError("this setting does not fit the budget: leave it out, and take constants='tight'")
        self._run = Run(self, dataset, seed, stream=new_stream())
        # The temperature is that of the claim, not of the plan: what was proved is what is drawn.
        self._beta = setting.lam / self._points.scale**2
        self._total = self._empty()
        self._block = self._empty()
        self._x = self._draw(0)
        self._round, self._moves, self._played = 0, 0, False
        self._why = ""
        self._lock, self._process = threading.Lock(), os.getpid()

    def _conclude(self) -> Claim:
        raise NotImplementedError

    def _stays(self) -> bool:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _plan_tries(self, setting: Setting) -> tuple[Tries | None, float, Setting]:
        """How often a draw is tried, the error of one, and the setting with what that adds to the regret."""
        if self.smoothness is None:
            return None, 0.0, setting
        steep = setting.lam * setting.eta**2 * self.horizon * self._width() / self.lipschitz
        if not steep * (self.horizon + self.dimension) <= STEEPEST_SUM:
            raise InputError(
                "float64 cannot add up so many losses closely enough for a law so narrow: take fewer rounds"
            )
        draws = setting.switches_allowed + self._hidden(setting)
        tries, error = plan_tries(self.horizon, self.dimension, setting.lam, self.smoothness, draws, self.budget)
        more = 2.0 * self.lipschitz * self._width() * self.horizon * draws * error
        return Tries(self.horizon * self.smoothness, tries), error, setting._replace(regret=setting.regret + more)

    def _hidden(self, setting: Setting) -> int:
        """How many points are drawn for coins alone."""
        return 0

    def _empty(self) -> Sum:
        return Sum(self.domain, self.dimension, self.setting.lam, self._beta, self._tries)

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
        self._run.begin()
        self._played = True
        return self._x.copy()

    def observe(self, loss: Any) -> None:
        """Take the loss of this round.

        A gradient, `losses.Linear` or `losses.Quadratic`; with `smoothness` `losses.Logistic`, without it in one
        dimension `losses.Absolute` and `losses.Hinge`, and on a box `losses.Separable`. A loss steeper than `lipschitz`
        anywhere on the domain, or more curved than `smoothness`, is made flatter in proportion: an error that depends
        on a record would be a release of its own.
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

    def _draw(self, counted: int = 1) -> np.ndarray:
        """A point from the Gibbs law of all losses so far; not counted before there is one."""
        return self._draw_from(self._total.law(), counted)

    def _draw_from(self, law: Law, counted: int = 1) -> np.ndarray:
        return self._run.port.lend_stream("points", type(law).draw, lambda stream: law.draw(stream)[0], draws=counted)

    def _move(self, x: np.ndarray) -> None:
        self._x = x

    def _read(self, loss: Any) -> Read:
        return read_loss(loss, self.dimension, self.domain, self.lipschitz, type(self).__name__, self.smoothness)

    @property
    def receipt(self) -> Receipt:
        """What is promised about all points of the game, up to the last round."""
        if self._round == 0 and not self._played:
            raise InputError("nothing was released so far: play first")
        return self._run.receipt(self._x)

    def to_json(self) -> dict[str, Any]:
        """Everything public about the game, in the form of a plan."""
        algorithm = {"name": type(self).__name__, **self._options(), **self._told()}
        return public_form(
            algorithm, self._problem, self.horizon, self.dimension, self.budget, self.claim, self.horizon, self.setting
        )

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
                *self._describe_tries(),
                f"  moves       {self._moves} in {self._round} rounds; about {s.switches_expected:.0f} expected, "
                f"{s.switches_allowed} allowed",
                f"  regret      {s.regret:.4g} at most, in expectation, if losses do not depend on points; "
                f"{s.regret / (self.lipschitz * self._width() * self.horizon):.3g} of who stays at the centre",
                f"  private     {'yes' if self._run.private else 'no: the noise came from a fixed seed'}",
            ]
        )

    def _describe(self) -> list[str]:
        return []

    def _describe_tries(self) -> list[str]:
        if self._tries is None:
            return []
        how = f"{self._tries.most} tries at most, for losses of curvature {self.smoothness:g}"
        return [f"  draws       {how}; off by {self._error:.1g} in total variation"]

    def _told(self) -> dict[str, Any]:
        return {} if self.smoothness is None else {"smoothness": self.smoothness}

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
    coin : {"reference", "exact", "one_sample"}
        What a coin looks at: the losses of its block at this point and at the one before; the ratio of the two Gibbs
        densities, for linear losses; or the losses of its block at this point and at a fresh one, which is kept
        secret. The first is the one to take: see the page on Pomer.
    constants : {"tight", "paper"}
        "paper" sets lam, beta and coins as printed by Agarwal, Kale, Singh and Thakurta (2024); the guarantee is
        computed all the same.
    setting : Setting, optional
        One of your own, in place of what `pomer_setting` finds; refused if it does not fit the budget.
    smoothness : float, optional
        Largest curvature of a logistic loss: |a|^2 / 4 for rows no longer than a. With it the player takes
        `losses.Logistic`, and draws by rejection; refused where too many proposals might be needed.
    dataset : str
        Name under which the account of this process charges the game.
    seed : int, optional
        For tests only: reproducible noise, a warning, and a receipt that says "not private".

    Notes
    -----
    The guarantee holds for any losses, also for those of an opponent who sees the points. The bound on regret,
    `setting.regret`, holds for losses that do not depend on them. It does not cover timing: a round in which the point
    moves takes longer, but moves are public; how often a draw was tried is not.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = Pomer(L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="a game")
    >>> game = dc.games.run_game(player, dc.games.streams.stationary(2000, 3, seed=0))
    >>> player.moves <= player.setting.switches_allowed, bool(game.regret <= player.setting.regret)
    (True, True)
    >>> bool(dc.verify(player.receipt)), player.receipt.epsilon <= 4.0
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
        smoothness: float | None = None,
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        self.coin, self.constants = coin, constants
        if smoothness is not None:
            smoothness = check_smoothness(smoothness, coin)
        if setting is None:
            share = budget if smoothness is None or not isinstance(budget, Budget) else kept(budget)
            setting = pomer_setting(
                horizon, dimension, lipschitz, domain, share, block=_length(block), coin=coin, constants=constants
            )
        else:
            self._check_own(setting, domain, lipschitz, horizon, budget, dimension)
        super().__init__(domain, lipschitz, horizon, budget, dimension, dataset, seed, setting, smoothness)
        self._before = self._draw(0)  # the point before this one; in the beginning one that was not played

    def _check_own(
        self, setting: Setting, domain: L2Ball | Box, lipschitz: float, horizon: int, budget: Budget, dimension: int
    ) -> None:  # fmt: skip
        """Refuse a setting that is none."""
        radius = half_width(domain, dimension)[0]
        check_public(horizon, dimension, lipschitz, radius, budget)
        check_block(setting.block, horizon)
        if self.coin not in COINS:
            raise InputError(f"coin must be one of {', '.join(COINS)}")
        if not 0.0 < setting.lam < math.inf or not setting.eta > 0.0:
            raise InputError("lam and eta of a setting must be positive, and finite")
        tilt = setting.lam * setting.eta**2 * horizon / lipschitz
        if not max(tilt, tilt * radius) < LARGEST or not setting.lam * setting.eta * radius / lipschitz < _NARROWEST:
            raise InputError("lam and eta of a setting are too large: float64 cannot tell such a law from a point")
        if not computable(self.coin, tilt * radius / horizon, setting.block, horizon, dimension):
            raise InputError(f"coin={self.coin!r} cannot be computed closely enough: take coin='reference'")

    def _conclude(self) -> Claim:
        s = self.setting
        coins = Release("coins", COIN_LAWS[self.coin], s.width, (1,), self._ends(s))
        slack = 0.0 if self.coin == "reference" else ROUNDING
        return gibbs_switching(
            self._problem.lipschitz(self.dimension), self.budget.relation, self._points, coins, s.most, self.horizon,
            s.block, slack, self._error,
        )  # fmt: skip

    def _ends(self, setting: Setting) -> int:
        """How many blocks end before the game does."""
        return math.ceil(self.horizon / setting.block) - 1

    def _hidden(self, setting: Setting) -> int:
        return self._ends(setting) if self.coin == "one_sample" else 0

    def _stays(self) -> bool:
        """Throw the coin of a block."""
        if self.coin == "exact":
            new = self._total.law()
            log = -self._beta * self._block.difference(self._x, np.zeros(self.dimension)) - self._log_ratio(new)
        elif self.coin == "one_sample":
            log = self._beta * self._block.difference(self._sample(), self._x)
        else:
            log = self._beta * self._block.difference(self._before, self._x)
        keep = keep_probability(log, self.setting)
        return self._variate() < keep

    def _variate(self) -> float:
        """Draw the uniform variate of a coin."""
        return self._run.port.lend_stream("coins", uniform, lambda coins: float(uniform(coins, 1)[0]))

    def _sample(self) -> np.ndarray:
        """A point from the law after the block, for one coin alone: given the coin, it no longer has this law."""
        law = self._total.law()
        return self._run.port.lend_stream(
            "coins", type(law).draw, lambda secret: law.draw(secret)[0], draws=0, aside="secret"
        )

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

    def _read(self, loss: Any) -> Read:
        # By the type of the loss: whether a kink lies in the domain is a fact about a record.
        if self.coin == "exact" and isinstance(loss, Absolute | Hinge | Logistic | Quadratic | Separable):
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
    domain, lipschitz, horizon, budget, dimension, block, smoothness, dataset, seed
        As for `Pomer`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = BlockedGibbs(L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="another game")
    >>> game = dc.games.run_game(player, dc.games.streams.stationary(2000, 3, seed=0))
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
        smoothness: float | None = None,
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        share = budget
        if smoothness is not None:
            smoothness = check_smoothness(smoothness, "none")
            share = kept(budget) if isinstance(budget, Budget) else budget
        radius, box = half_width(domain, dimension)
        setting = blocked_bound(horizon, dimension, lipschitz, radius, share, box=box, block=_length(block))
        super().__init__(domain, lipschitz, horizon, budget, dimension, dataset, seed, setting, smoothness)

    def _conclude(self) -> Claim:
        lipschitz = self._problem.lipschitz(self.dimension)
        return gibbs_draws(
            lipschitz, self.budget.relation, self._points, self.horizon, self.setting.block, self._error
        )  # fmt: skip

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
