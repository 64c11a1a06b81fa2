"""Private players that move rarely: every point they play may be published, and so may the times of their moves.

Both play points drawn from the Gibbs law of the losses so far. `Pomer` keeps its point by tossing coins and rarely
moves; `BlockedGibbs` moves after a fixed number of rounds. A player holds the noise of rounds to come, so it cannot be
copied, pickled or used by another process. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from dpconvex.errors import BudgetWarning, InputError, ReleaseError, warn
from dpconvex.games.gibbs_sums import LARGEST, Law, Read, Sum, Tries, read_loss
from dpconvex.games.gibbs_walks import Walk, plan_rounding, plan_walk
from dpconvex.games.pomer_bounds import (
    COINS,
    ROUNDING,
    STEEPEST_SUM,
    Setting,
    blocked_setting,
    check_block,
    check_facts,
    check_smoothness,
    computable,
    draw_closeness,
    lattice_error,
    plan_tries,
    pomer_setting,
    without_errors,
)
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim, Release
from dpconvex.kernel.receipt import Receipt
from dpconvex.noise.gibbs import GibbsBall, GibbsBox, uniform
from dpconvex.plan.run import Run, new_stream, plain_form, public_form
from dpconvex.problem import losses as record_losses
from dpconvex.problem.bounds import L2
from dpconvex.problem.domains import Box, L2Ball
from dpconvex.problem.facts import Fact
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems.gibbs_switching import COIN_LAWS, GIBBS, gibbs_draws, gibbs_switching
from dpconvex.words import neighbour_words

__all__ = ["BlockedGibbs", "Pomer", "keep_probability"]

_LARGE_DELTA = 1e-5
_NARROWEST = 1e6  # times the deviation of a law that the domain may be wide, in a setting of one's own
_BREAK = "the game was interrupted while a loss was being read, and ends here: points that were played stay private"


class _GibbsPlayer:
    """What the two players share: rounds, the account, the receipt, and that noise is used once."""

    released = "all points of a game and the times of its moves"
    record = "loss"
    enables = "whatever follows from the points"

    _own: Setting | None = None  # the setting, once it is known: a plan is made again from it

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
        rounding: float | str | None = None,
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        self._prepare(domain, lipschitz, horizon, budget, dimension, block, smoothness, rounding)
        self._run = Run(self, dataset, seed, stream=new_stream())
        self.dataset = self._run.dataset
        # The temperature is that of the claim, not of the plan: what was proved is what is drawn.
        self._beta = self.setting.lam / self._points.scale**2
        self._total = self._empty()
        self._block = self._empty()
        self._x = self._draw(0)
        self._round, self._moves, self._played = 0, 0, False
        self._broken = ""
        self._lock, self._process = threading.Lock(), os.getpid()

    @classmethod
    def plan_again(cls, form: Mapping[str, Any]) -> Self:
        """Plan from the plain form of a game. What is returned has a claim and a form, and cannot play."""
        problem, options = Problem.from_json(form["problem"]), form["algorithm"]
        if not isinstance(problem.feature_bound, L2) or not isinstance(problem.domain, L2Ball | Box):
            raise InputError("a game is played on a ball or a box, with gradients bounded in l2")
        player, setting = cls.__new__(cls), options["setting"]
        player._own = Setting(**{key: setting[key] for key in Setting._fields})
        player._set(options)
        player._prepare(
            problem.domain, problem.feature_bound.radius, form["n"], Budget(**form["budget"]), form["d"],
            options["block"], options.get("smoothness"), options.get("rounding"),
        )  # fmt: skip
        return player

    def _set(self, options: Mapping[str, Any]) -> None:
        """Take further options from their plain form."""

    def _prepare(
        self,
        domain: L2Ball | Box,
        lipschitz: float,
        horizon: int,
        budget: Budget,
        dimension: int,
        block: int | str,
        smoothness: float | None,
        rounding: float | str | None,
    ) -> None:
        """Plan: everything about the game that is known before it, as a function of public numbers alone."""
        check_facts(horizon, dimension, lipschitz, domain, budget)
        if budget.delta >= 1.0 / horizon:
            raise InputError("delta must be below 1 / horizon: otherwise a whole loss may be released now and then")
        if budget.delta > _LARGE_DELTA:
            warn(f"delta = {budget.delta:g} is large for losses that are about people; 1e-6 is usual", BudgetWarning)
        self.domain, self.lipschitz, self.budget = domain, float(lipschitz), budget
        self.horizon, self.dimension = int(horizon), int(dimension)
        self.smoothness = None if smoothness is None else check_smoothness(smoothness)
        blocks, self._rounds_off = check_block(block, self.horizon), rounding is not None
        setting = self._settle(blocks, self._rounds_off)
        self.rounding = (
            None if rounding is None else plan_rounding(rounding, setting, self.horizon, self.lipschitz, self._radius)
        )
        self._draws, self._error, self._closeness = self._plan_draws(setting)
        if isinstance(self._draws, Walk) and rounding is None:
            setting = self._settle(blocks, True)
            self._draws, self._error, self._closeness = self._plan_draws(setting)
        self._own, self.setting = setting, setting._replace(regret=setting.regret + self._more(setting))
        self._problem = Problem(record_losses.Linear(), domain, L2(float(lipschitz)))
        fact = self._problem.lipschitz(self.dimension)
        self._points = Release(
            "points", GIBBS, round_up(fact.value / setting.eta), (self.dimension,), setting.switches_allowed
        )
        self.claim = self._conclude(fact)
        if self.claim.epsilon(budget.delta) > budget.epsilon:
            raise InputError(
                "this setting does not fit the budget, of which what float64 draws are off takes a part: leave it out, "
                "take constants='tight', fewer rounds or a larger delta"
            )

    def _choose(self, block: int | None, budget: Budget) -> Setting:
        """The setting for blocks of so many rounds, or of the best length, and a budget for points and coins."""
        raise NotImplementedError

    def _conclude(self, lipschitz: Fact) -> Claim:
        raise NotImplementedError

    def _stays(self) -> bool:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        return {"block": self.setting.block, "lam": self.setting.lam, "setting": plain_form(self._own)}

    def _settle(self, block: int | None, walks: bool) -> Setting:
        """The setting, for a budget that leaves what draws may be off."""
        setting = self._choose(block, without_errors(self.budget, walks))
        if not setting.regret < math.inf:
            raise InputError("no coin fits this budget: take a larger epsilon or delta, or BlockedGibbs")
        return setting

    def _plan_draws(self, setting: Setting) -> tuple[Tries | Walk | None, float, float]:
        """How points are drawn, the error of a draw in total variation, and its closeness."""
        close = draw_closeness(
            setting, self.horizon, self.dimension, self.lipschitz, self._radius,
            0 if self.smoothness is None else self.horizon,
        )  # fmt: skip
        if self.smoothness is None and self.rounding is None:
            return None, lattice_error(self.dimension), close
        draws = setting.switches_allowed + self._hidden(setting)
        if self.smoothness is not None and self.rounding is None:
            steep = setting.lam * setting.eta**2 * self.horizon * self._radius / self.lipschitz
            if not steep * (self.horizon + self.dimension) <= STEEPEST_SUM:
                raise InputError(
                    "float64 cannot add up so many losses closely enough for a law so narrow: take fewer rounds"
                )
            planned = plan_tries(self.horizon, self.dimension, setting.lam, self.smoothness, draws, self.budget)
            if planned is not None:
                tries, error = planned
                error = round_up(error + lattice_error(self.dimension) * tries)
                return Tries(self.horizon * self.smoothness, tries), error, close
        curved = max(self.smoothness or 0.0, 0.0 if self.rounding is None else self.lipschitz / self.rounding)
        return plan_walk(self.domain, self.dimension, self.horizon, self.lipschitz, setting, curved, draws, self.budget)

    def _more(self, setting: Setting) -> float:
        """What errors of draws and kinks that are rounded off add to the bound on regret."""
        if self._draws is None:
            return 0.0
        draws = setting.switches_allowed + self._hidden(setting)
        off = 2.0 * self.lipschitz * self._radius * self.horizon * draws * self._error
        return off + 0.5 * self.horizon * self.lipschitz * (self.rounding or 0.0)

    def _hidden(self, setting: Setting) -> int:
        """How many points are drawn for coins alone."""
        return 0

    def _empty(self) -> Sum:
        return Sum(self.domain, self.dimension, self.setting.lam, self._beta, self._draws)

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

        Parameters
        ----------
        loss : vector or loss of `dpconvex.games.losses`
            A gradient, `LinearLoss` or `QuadraticLoss`; with `smoothness` also `LogisticLoss`; with `rounding` also
            `AbsoluteLoss` and `HingeLoss`; without either, these two in one dimension, and on a box `SeparableLoss`.

        Raises
        ------
        InputError, FormError
            If the loss has another type or shape. Its numbers never raise an error, which would be a release of its
            own: a loss steeper than `lipschitz` on the domain, or more curved than `smoothness`, is scaled down, and a
            kink is rounded off by a rule that is the same for all.
        ReleaseError
            If the game is over, was interrupted, or belongs to another process.

        Notes
        -----
        Do not pass the gradient of another loss at the point played: the player cannot notice, and the bound on regret
        would not hold (privacy does).
        """
        self._check_use()
        read = self._read(loss)
        with self._lock:
            if not self._played:
                raise InputError("observe comes after play: call play() first, once every round")
            self._broken = _BREAK
            self._total.add(read)
            self._block.add(read)
            self._round, self._played = self._round + 1, False
            if self._round % self.setting.block == 0 and self._round < self.horizon:
                self._decide()
            self._broken = ""

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
        return read_loss(
            loss, self.dimension, self.domain, self.lipschitz, type(self).__name__, self.smoothness, self.rounding
        )

    @property
    def receipt(self) -> Receipt:
        """Receipt for all points of the game, up to the last round."""
        if self._round == 0 and not self._played:
            raise InputError("nothing has been released yet: call play() first")
        return self._run.receipt(self._x)

    def to_json(self) -> dict[str, Any]:
        """Everything public about the game, in the form of a plan."""
        algorithm = {"name": type(self).__name__, **self._options()}
        for name in ("smoothness", "rounding"):
            if getattr(self, name) is not None:
                algorithm[name] = getattr(self, name)
        return public_form(
            algorithm, self._problem, self.horizon, self.dimension, self.budget, self.claim, self.horizon, self.setting
        )

    def report(self) -> str:
        """The guarantee, the setting and the state of the game. Of the losses it shows nothing but the moves."""
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
                f"  regret      at most {s.regret:.4g} in expectation if losses do not depend on points; "
                f"{s.regret / (self.lipschitz * self._radius * self.horizon):.3g} of that of never leaving the centre",
                f"  private     {'yes' if self._run.private else 'no: the noise came from a fixed seed'}",
            ]
        )

    def _describe(self) -> list[str]:
        """Lines of the report about how points are kept and drawn."""
        if self._draws is None:
            return []
        if isinstance(self._draws, Tries):
            how = f"{self._draws.most} tries at most, for losses of curvature {self.smoothness:g}"
        else:
            rounds = self._draws.length(self.horizon, self.setting.lam, self._beta)[1]
            how = f"walks of up to {rounds} rounds, for losses of curvature {self._draws.smoothness:.3g}"
        lines = [f"  draws       {how}; off by {self._error:.1g} in total variation"]
        if self.rounding is not None:
            lines.append(
                f"  kinks       rounded off over {self.rounding:.3g} to either side; the bound on regret counts it"
            )
        return lines

    @property
    def _radius(self) -> float:
        """Largest distance from the centre of the domain."""
        return self.domain.diameter(self.dimension) / 2.0

    def _check_use(self) -> None:
        if self._process != os.getpid():
            raise ReleaseError("this game belongs to another process: using its noise twice would reveal it")
        if self._broken:
            raise ReleaseError(self._broken)
        if self._round >= self.horizon:
            raise ReleaseError(f"the game of {self.horizon} rounds is over and its noise is used up: begin another")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private player cannot be copied or pickled: its noise must never be used twice")

    __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class Pomer(_GibbsPlayer):
    """Private player that keeps its point by tossing coins, and draws a new one from a Gibbs law when it moves.

    Parameters
    ----------
    domain : L2Ball or Box
    lipschitz : float
        Largest norm of a gradient. Steeper losses are scaled down.
    horizon : int
        Number of rounds, at least 2. The game ends there.
    budget : Budget
        Its delta must be below 1 / horizon.
    dimension : int
    block : int or "auto"
        Rounds between two coins.
    smoothness : float, optional
        Largest curvature of a logistic loss: |a|^2 / 4 for rows no longer than a. With it the player takes
        `losses.LogisticLoss` and draws by rejection, or by a walk where too many proposals might be needed.
    rounding : float or "auto", optional
        With it the player takes `losses.AbsoluteLoss` and `losses.HingeLoss` in any dimension: a parabola over this
        distance to either side replaces the kink (half of it for a hinge). The bound on regret grows by
        horizon lipschitz rounding / 2; "auto" makes that a tenth. Points are drawn by a walk with a proved distance to
        its law. A shorter distance takes longer walks, and is refused where they would be too long.
    dataset : str
        Name under which the account of this process charges the game.
    seed : int, optional
        For tests only: reproducible noise, a warning, and a receipt that says "not private".
    coin : {"reference", "exact", "one_sample"}
        What a coin compares: the losses of its block at this point and at the one before; the two Gibbs densities, for
        linear losses; or the losses of its block at this point and at a fresh one that is kept secret. Take the first,
        unless the page on Pomer says otherwise.
    constants : {"tight", "paper"}
        "paper" sets lam, beta and coins as printed by Agarwal, Kale, Singh and Thakurta (2024); the guarantee is
        computed all the same.
    setting : Setting, optional
        A setting of your own in place of that of `pomer_setting`; refused if it does not fit the budget.

    Notes
    -----
    The guarantee holds for any losses, also for those of an opponent who sees the points. The bound on regret,
    `setting.regret`, holds for losses that do not depend on them. Timing is not covered: a round in which the point
    moves takes longer, but moves are public; how often a draw was tried is not.

    References
    ----------
    Agarwal, Kale, Singh, Thakurta (2024), "Improved differentially private and lazy online convex optimization:
    lower regret without smoothness requirements". Proofs of what is stated here: docs/proofs/gibbs_switching.md.

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
        rounding: float | str | None = None,
        dataset: str = "default",
        seed: int | None = None,
    ) -> None:
        self.coin, self.constants, self._own = coin, constants, setting
        super().__init__(
            domain, lipschitz, horizon, budget, dimension=dimension, block=block, smoothness=smoothness,
            rounding=rounding, dataset=dataset, seed=seed,
        )  # fmt: skip
        self._before = self._draw(0)  # the point before this one; in the beginning one that was not played

    def _set(self, options: Mapping[str, Any]) -> None:
        self.coin, self.constants = options["coin"], options["constants"]

    def _choose(self, block: int | None, budget: Budget) -> Setting:
        facts = self.horizon, self.dimension, self.lipschitz, self.domain, budget
        if self.coin == "exact" and (self.smoothness is not None or self._rounds_off):
            raise InputError(
                'coin="exact" is for linear losses: leave smoothness and rounding out, or take coin="reference"'
            )
        if self._own is None:
            return pomer_setting(*facts, self.coin, self.constants, block=block)
        s, tilt = self._own, self._own.lam * self._own.eta**2 * self.horizon / self.lipschitz
        check_block(s.block, self.horizon)
        if self.coin not in COINS:
            raise InputError(f"coin must be one of {', '.join(COINS)}")
        if not 0.0 < s.lam < math.inf or not s.eta > 0.0:
            raise InputError("lam and eta of a setting must be positive and finite")
        if (
            not tilt * max(1.0, self._radius) < LARGEST
            or not s.lam * s.eta * self._radius / self.lipschitz < _NARROWEST
        ):
            raise InputError("lam and eta of a setting are too large: float64 cannot tell such a law from a point")
        if not computable(self.coin, tilt * self._radius / self.horizon, s.block, self.horizon, self.dimension):
            raise InputError(f"coin={self.coin!r} cannot be computed closely enough: take coin='reference'")
        return s

    def _conclude(self, lipschitz: Fact) -> Claim:
        s = self.setting
        coins = Release("coins", COIN_LAWS[self.coin], s.width, (1,), self._ends(s))
        slack = 0.0 if self.coin == "reference" else ROUNDING
        return gibbs_switching(
            lipschitz, self.budget.relation, self._points, coins, s.most, self.horizon, s.block, slack, self._error,
            self._closeness,
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
        return replace(new, tilt=new.tilt - self._beta * self._block.tilt).log_ratio(new.tilt)

    def _move(self, x: np.ndarray) -> None:
        self._before, self._x = self._x, x

    def _read(self, loss: Any) -> Read:
        # By the form of the loss: whether a kink lies in the domain is a fact about a record.
        if self.coin == "exact" and getattr(loss, "form", "linear") != "linear":
            raise InputError('coin="exact" is for linear losses; take coin="reference", which is for all of these')
        return super()._read(loss)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "coin": self.coin, "constants": self.constants}

    def _describe(self) -> list[str]:
        s = self.setting
        coins = f"  coins       {self.coin}, keep with probability {s.least:.4g} to {s.most:.4g}"
        return [coins, *super()._describe()]


class BlockedGibbs(_GibbsPlayer):
    """Private player that draws a new point from the Gibbs law of the losses so far after every block of rounds.

    Its moves reveal nothing because their times are fixed: it is mu-GDP with mu = 2 eta sqrt(moves). For most horizons
    its bound on regret is below that of `Pomer`.

    Parameters
    ----------
    domain, lipschitz, horizon, budget, dimension, block, smoothness, rounding, dataset, seed
        As for `Pomer`.

    Examples
    --------
    >>> import dpconvex as dc
    >>> player = BlockedGibbs(L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="another game")
    >>> game = dc.games.run_game(player, dc.games.streams.stationary(2000, 3, seed=0))
    >>> player.moves == player.setting.switches_allowed, bool(game.regret <= player.setting.regret)
    (True, True)
    """

    def _choose(self, block: int | None, budget: Budget) -> Setting:
        if self._own is not None:
            check_block(self._own.block, self.horizon)
            return self._own
        return blocked_setting(self.horizon, self.dimension, self.lipschitz, self.domain, budget, block=block)

    def _conclude(self, lipschitz: Fact) -> Claim:
        return gibbs_draws(
            lipschitz, self.budget.relation, self._points, self.horizon, self.setting.block, self._error,
            self._closeness,
        )  # fmt: skip

    def _stays(self) -> bool:
        return False


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
