"""Settings of the private Gibbs players, and what is proved about their regret: functions of public numbers alone.

`pomer_setting` sets `Pomer`, `blocked_setting` sets `BlockedGibbs`. Both take the regularisation with the least bound;
any other would be as private. Proofs: docs/proofs/gibbs_switching.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammainc, ndtr
from scipy.stats import binom

from dpconvex.errors import HypothesisError, InputError
from dpconvex.games.domains import BALL_OR_BOX, check_domain
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.profiles import gaussian_delta
from dpconvex.noise.rejection import least_acceptance
from dpconvex.problem.domains import Box, L2Ball
from dpconvex.rounding import round_down, round_up
from dpconvex.theorems.gibbs_switching import WIDEST
from dpconvex.theorems.numerics.switching import Switching, switching_profile

__all__ = ["COINS", "Setting", "blocked_setting", "plan_tries", "pomer_setting"]

COINS = ("reference", "exact", "one_sample")
CONSTANTS = ("tight", "paper")
ROUNDING = 1e-9  # how far a computed logarithm of a ratio may be off, of normalising constants or of losses
STEEPEST = 1e5  # largest beta G T R for which that was checked, for normalising constants
_STEEPEST_BLOCK = 1e5  # largest beta G m R (m + d) for which it follows, for the losses of a block of m rounds
STEEPEST_SUM = 1e9  # largest beta G T R (T + d) for losses that are drawn by rejection
MOST_TRIES = 10**5  # proposals for one draw
_TINY, _HUGE = 1e-100, 1e100  # public sizes: products stay within float64
SHARE = 1e-3  # of delta, for draws from laws that are tried or walked to
_WALKS = 2e-2  # of delta, where points are walked to: variates on lattices add up
_WIDTHS = (0.05, 0.2, 0.8, 2.4)  # of the coin, in units of its distance from 1, to begin the search with
_RARE = 1e-4  # probability that the coins ask for more moves than are allowed
_ROOM = 1.0 + 2e-9  # between what is planned and what is claimed


class Setting(NamedTuple):
    """How a private Gibbs player is set, and what is proved.

    Parameters
    ----------
    lam : float
        Weight of |x|^2 / 2 beside the sum of the losses.
    beta : float
        Inverse temperature.
    eta : float
        lipschitz sqrt(beta / lam): one loss moves the law by that many standard deviations at most.
    block : int
        Rounds between two decisions.
    switches_allowed : int
        Moves that are never exceeded.
    switches_expected : float
        About how many there will be.
    regret : float
        Bound on the expected regret for losses that do not depend on the points; infinite where nothing is proved.
    most, width : float
        The coin keeps a point with probability most exp(-width) times a ratio, and always between most exp(-2 width)
        and most.
    drift : float
        Mean distance in total variation between the law of the point played and the Gibbs law; part of `regret`.
    """

    lam: float
    beta: float
    eta: float
    block: int
    switches_allowed: int
    switches_expected: float
    regret: float
    most: float
    width: float
    drift: float

    @property
    def least(self) -> float:
        """Smallest probability to keep a point."""
        return self.most * math.exp(-2.0 * self.width)


def pomer_setting(
    horizon: int,
    dimension: int,
    lipschitz: float,
    domain: L2Ball | Box,
    budget: Budget,
    coin: str = "reference",
    constants: str = "tight",
    *,
    block: int | None = None,
) -> Setting:
    """Set `Pomer` from public numbers, and bound its expected regret.

    Parameters
    ----------
    horizon, dimension : int
        Rounds, at least 2, and coordinates.
    lipschitz : float
        Largest norm of a gradient.
    domain : L2Ball or Box
    budget : Budget
    coin : {"reference", "exact", "one_sample"}
        What the coin compares: two points that were played, densities, or the point and one that is kept secret.
    constants : {"tight", "paper"}
        "paper": lam, beta and the bound as printed in Theorem 4.4 of Agarwal, Kale, Singh, Thakurta (2024), stated for
        epsilon up to 1.
    block : int, optional
        Rounds between two decisions. By default the number with the least bound.

    Returns
    -------
    Setting
        With infinite `regret` if no coin fits the budget.

    Examples
    --------
    >>> setting = pomer_setting(10_000, 10, 1.0, L2Ball(1.0), Budget(8.0, 1e-6), coin="exact", block=1)
    >>> round(setting.regret / 20_000, 3)
    0.031
    """
    radius = check_facts(horizon, dimension, lipschitz, domain, budget)
    if coin not in COINS or constants not in CONSTANTS:
        raise InputError(f"coin must be one of {', '.join(COINS)}, and constants one of {', '.join(CONSTANTS)}")
    if constants == "paper":
        if block not in (None, 1):
            raise InputError("the constants of the paper are for decisions in every round: block must be 1")
        return _scaled(_printed(horizon, dimension, budget), lipschitz, radius)
    unit = _tight(horizon, dimension, budget, coin, domain.traits.interval is not None, check_block(block, horizon))
    return _scaled(unit, lipschitz, radius)


def blocked_setting(
    horizon: int, dimension: int, lipschitz: float, domain: L2Ball | Box, budget: Budget, *, block: int | None = None
) -> Setting:
    """Set `BlockedGibbs` from public numbers, and bound its expected regret. Parameters as in `pomer_setting`.

    Examples
    --------
    >>> setting = blocked_setting(10_000, 10, 1.0, L2Ball(1.0), Budget(8.0, 1e-6))
    >>> round(setting.regret / 20_000, 4), setting.block
    (0.0274, 14)
    """
    radius = check_facts(horizon, dimension, lipschitz, domain, budget)
    unit = _by_the_clock(horizon, dimension, budget, domain.traits.interval is not None, check_block(block, horizon))
    return _scaled(unit, lipschitz, radius)


def check_facts(horizon: int, dimension: int, lipschitz: float, domain: L2Ball | Box, budget: Budget) -> float:
    """Refuse public facts that no game can have; return the largest distance from the centre of the domain.

    Raises
    ------
    InputError
        If a number is out of its range, or the domain is neither an l2 ball nor a box.
    """
    check_domain(domain, "a private Gibbs player", BALL_OR_BOX)
    for name, value, low in (("horizon", horizon, 2), ("dimension", dimension, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise InputError(f"{name} must be a whole number of at least {low}")
    radius = float(domain.diameter(dimension)) / 2.0
    for name, size in (("lipschitz", lipschitz), ("radius", radius)):
        if isinstance(size, bool) or not isinstance(size, int | float | np.number) or not _TINY < size < _HUGE:
            raise InputError(f"{name} must be positive and finite, between {_TINY:g} and {_HUGE:g}")
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a dpconvex.Budget, got {type(budget).__name__}")
    if not budget.delta:
        raise HypothesisError("delta = 0 asks for pure privacy, which no player gives: take delta > 0")
    return radius


def computable(coin: str, beta: float, block: int, horizon: int, d: int) -> bool:
    """Whether what a coin compares is computed to within ROUNDING, for lipschitz = radius = 1."""
    if coin == "exact":
        return beta * horizon <= STEEPEST
    return coin == "reference" or beta * block * (block + d) <= _STEEPEST_BLOCK


def check_smoothness(smoothness: float) -> float:
    """Refuse a curvature that is not positive and finite; return it as a float."""
    number = not isinstance(smoothness, bool) and isinstance(smoothness, int | float | np.integer | np.floating)
    if not number or not 0.0 < float(smoothness) < _HUGE:
        raise InputError("smoothness must be positive and finite: the largest curvature of a loss")
    return float(smoothness)


def check_block(block: int | str | None, horizon: int) -> int | None:
    """Refuse a block that does not fit into the game twice; return its length, or None for "auto"."""
    if block in (None, "auto"):
        return None
    if isinstance(block, bool) or not isinstance(block, int | np.integer) or not 1 <= block <= horizon // 2:
        raise InputError('block must be "auto", or a whole number of at least 1 that fits twice into the horizon')
    return int(block)


def without_errors(budget: Budget, walks: bool = False) -> Budget:
    """The budget less the shares that are reserved for what draws are off, which is more where points are walked to.

    Examples
    --------
    >>> kept = without_errors(Budget(1.0, 1e-6))
    >>> kept.delta < 1e-6, kept.epsilon < 1.0
    (True, True)
    """
    kept = 1.0 - (_WALKS if walks else 3.0 * SHARE)
    return Budget(budget.epsilon * (1.0 - SHARE), budget.delta * kept, budget.relation)


def draw_closeness(setting: Setting, horizon: int, d: int, lipschitz: float, radius: float, terms: int) -> float:
    """Logarithm of the factor by which the computed density of a draw may differ from that of its law.

    Parameters
    ----------
    setting : Setting
    horizon, d : int
    lipschitz, radius : float
    terms : int
        Numbers that are added up one after another for a value of the density, beside those kept as pairs.

    Examples
    --------
    >>> 0.0 < draw_closeness(Setting(1.0, 1.0, 1.0, 1, 1, 1.0, 1.0, 0.9, 0.5, 0.0), 1000, 3, 1.0, 1.0, 0) < 1e-9
    True
    """
    beta = setting.eta**2 * setting.lam / lipschitz**2
    steep = 2.0 * beta * lipschitz * horizon * radius + 4.0 * beta * setting.lam * radius**2
    return round_up(2.0**-49 * (d + 64.0 + terms) * (steep + 64.0))  # 4 kappa of the proof note


def lattice_error(d: int) -> float:
    """Bound on the total variation of a draw beside its closeness, of one variate on a lattice per coordinate.

    Examples
    --------
    >>> lattice_error(2) == 2.0**-59
    True
    """
    return d * 2.0**-60


def plan_tries(
    horizon: int, dimension: int, curvature: float, smoothness: float, draws: int, budget: Budget
) -> tuple[int, float] | None:  # fmt: skip
    """How many proposals a draw gets, and its error in total variation: from public numbers alone.

    None where one draw might need more than `MOST_TRIES`.

    Parameters
    ----------
    horizon, dimension : int
    curvature : float
        lam, in front of |x|^2 / 2.
    smoothness : float
        Largest curvature of one loss.
    draws : int
        From laws that are tried, in the whole game.
    budget : Budget
        All errors together take a thousandth of its delta at most.

    Examples
    --------
    >>> tries, error = plan_tries(1000, 10, 200.0, 0.25, 150, Budget(8.0, 1e-6))
    >>> tries, error < 1e-14
    (2029, True)
    """
    least = least_acceptance(dimension, curvature, horizon * smoothness)
    log = math.log(draws) + float(np.logaddexp(0.0, min(budget.epsilon, 500.0))) - math.log(SHARE * budget.delta)
    if not log <= -MOST_TRIES * math.log1p(-least):
        return None
    tries = max(1, math.ceil(log / -math.log1p(-least)))
    return tries, round_up(math.exp(tries * math.log1p(-least)))


def _scaled(unit: Setting, lipschitz: float, radius: float) -> Setting:
    """From lipschitz = radius = 1 to others."""
    scale = float(lipschitz) * float(radius)
    return unit._replace(lam=unit.lam * lipschitz / radius, beta=unit.beta / scale, regret=unit.regret * scale)


# Regret ------------------------------------------------------------------------------------------------------------


def _regret(lam: float, eta: float, d: int, horizon: int, block: int, box: bool) -> float:
    """Bound for points of exactly the Gibbs laws, for lipschitz = radius = 1 (Theorem 3 of the note)."""
    beta = eta**2 * lam
    second = _second_moment(beta * lam, d, box)
    far = math.sqrt(1.0 + second)
    s = min(1.0, d / (beta * horizon * far))
    start = lam / 2.0 * ((1.0 - s) ** 2 - (1.0 - s * s) * second)
    return block * horizon / (2.0 * lam) + start - d / beta * math.log(s) + horizon * s * far


def _second_moment(c: float, d: int, box: bool) -> float:
    """E |X|^2, density in proportion to exp(-c |x|^2 / 2) on a ball of radius 1, or on a box of half-diagonal 1."""
    if box:
        return _second_moment(c / d, 1, False)  # d coordinates, each on an interval of half-width d^(-1/2)
    if c < 1e-6:
        return d / (d + 2.0)
    inside = float(gammainc(d / 2.0, c / 2.0))
    if inside < 1e-280:
        return d / (d + 2.0 + c)  # from below: F(b + 1) / F(b) >= 1 / (1 + x/b) for F(b) = 1F1(1; b; x)
    return min(d / c * float(gammainc(d / 2.0 + 1.0, c / 2.0)) / inside, d / (d + 2.0))


def _best(eta: float, d: int, horizon: int, block: int, box: bool, tol: float = 1e-4) -> tuple[float, float]:
    """The regularisation for which the bound is least, and the bound."""
    scale = 0.5 * math.log(block * horizon + 2.0 * d * max(1.0, math.log(horizon)) / eta**2)

    def bound(log: float) -> float:
        return _regret(math.exp(log), eta, d, horizon, block, box)

    span = scale - 3.0, scale + 6.0
    found = minimize_scalar(bound, bounds=span, method="bounded", options={"xatol": tol})
    return math.exp(float(found.x)), float(found.fun)


def _drift_exact(eta: float, block: int, n: int, most: float, w: float) -> float:
    """Mean over blocks of the distance to the Gibbs law, coins with exact ratios (Lemma 7 of the note)."""
    kappa = most * math.exp(-w) * gaussian_delta(w, block * eta)
    return min(1.0, kappa * min(n, 1.0 / (1.0 - most)))


def _drift_one_sample(eta: float, block: int, n: int, most: float, w: float) -> float:
    """The same for coins that compare with a draw from the new law (Lemma 9 of the note)."""
    e = block * eta
    above, below = _cut(np.array([-w]), e, w)[0], _cut(np.array([e * e - w]), e, w)[1]
    return min(1.0, most * (float(max(above[0], below[0])) + 1e-15) * min(n, 1.0 / (1.0 - most)))


def _drift_reference(eta: float, block: int, n: int, most: float, w: float) -> float:
    """The same for coins that compare with the point before (Lemma 8 of the note)."""
    e, p = block * eta, 1.0 - most
    ages = np.unique(np.round(np.concatenate([[1.0], np.geomspace(1.0, max(2.0, min(n, 60.0 / p)), 160)])))
    later = np.append(ages[1:], n)  # the clipped mass grows with the age: that of the end of every cell

    def tail(age: np.ndarray) -> np.ndarray:
        """Sum over b >= age of b most^(b - 1)."""
        return np.asarray(most ** (age - 1.0) * (age + most / p) / p)

    weights = tail(ages) - np.append(tail(ages[1:]), 0.0)
    above, below = _cut(e * e * later - w, e, w)
    kappa = np.minimum(most * (above + below + 1e-15), 1.0)
    leave = 1.0 - most * math.exp(-2.0 * w)
    segments = 1.0 + (n - 1) * leave
    total = (segments * leave + 1.0) / p * float(weights @ kappa)  # the 1 for the first segment
    return min(1.0, total / n)


DRIFT = {"reference": _drift_reference, "exact": _drift_exact, "one_sample": _drift_one_sample}


def _cut(shift: np.ndarray, e: float, w: float) -> tuple[np.ndarray, np.ndarray]:
    """E(e^v - 1)_+ and e^(-2w) E(v)_+ for normal v of mean `shift` and deviation sqrt(2) e: what the limits cut off."""
    spread = math.sqrt(2.0) * e
    z = shift / spread
    with np.errstate(over="ignore"):
        above = np.exp(np.minimum(shift + e * e, 700.0)) * ndtr(z + spread) - ndtr(z)
    below = math.exp(-2.0 * w) * (spread * np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) + shift * ndtr(z))
    return above, below


# Privacy -----------------------------------------------------------------------------------------------------------


def _largest(good: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The largest argument of a predicate that holds at low and fails from somewhere on, up to `steps` halvings."""
    if good(high):
        return high
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Coins:
    """The coins of `Pomer` in a game of unit size, with the best setting for each."""

    horizon: int
    d: int
    budget: Budget
    coin: str
    box: bool

    def profile(self, eta: float, w: float, most: float, block: int, moves: int) -> Switching:
        """The profile that `gibbs_switching` will conclude."""
        ends, slack = math.ceil(self.horizon / block) - 1, None if self.coin == "reference" else ROUNDING
        return switching_profile(eta, self.budget.moves, moves, ends, block, most, w, slack, 0.0)

    def setting(self, eta: float, w: float, most: float, block: int, moves: int, tol: float = 1e-4) -> Setting:
        """The best regularisation for a coin and a closeness of laws, and the bound."""
        n = math.ceil(self.horizon / block)
        drift = DRIFT[self.coin](eta, block, n, most, w)
        more = drift + (_RARE if moves < n - 1 else 0.0)
        lam, regret = _best(eta, self.d, self.horizon, block, self.box, tol)
        expected = (n - 1) * (1.0 - most * math.exp(-w))
        return Setting(
            lam, eta**2 * lam, eta, block, moves, expected, regret + 2.0 * self.horizon * more, most, w, drift
        )

    def candidate(self, w: float, p: float, block: int, steps: int = 16) -> Setting | None:
        """The setting for one coin, or None if the coin alone costs more than the budget."""
        n, most = math.ceil(self.horizon / block), round_down(1.0 - p)
        if n < 2 or not 0.0 < p <= 0.5 or w > WIDEST:
            return None
        leave = 1.0 - round_down(most * math.exp(-2.0 * w))
        moves = max(1, int(binom.isf(_RARE, n - 1, leave)))
        high = self.budget.mu / (self.budget.moves * math.sqrt(moves))  # where the draws alone use the budget up
        epsilon = np.array([min(self.budget.epsilon, 500.0)])

        def fits(eta: float) -> bool:
            """Whether the profile stays within the budget, straight from its curve."""
            return bool(self.profile(eta, w, most, block, moves).curve()(epsilon)[0] * _ROOM <= self.budget.delta)

        if not fits(1e-4 * high):
            return None
        return self.setting(_largest(fits, 1e-4 * high, high, steps), w, most, block, moves, 1e-2)

    def refined(self, w: float, p: float, block: int) -> Setting | None:
        """The best setting for blocks of one length, from a guess of the coin."""

        def worth(z: np.ndarray) -> float:
            found = self.candidate(math.exp(z[0]), math.exp(z[1]), block)
            return math.inf if found is None else math.log(found.regret)

        z = np.log([w, p])
        corners = np.array([z, (z[0] + 0.4, z[1]), (z[0], z[1] - 0.4)])
        options = {"initial_simplex": corners, "xatol": 0.03, "fatol": 1e-3}
        w, p = np.exp(minimize(worth, z, method="Nelder-Mead", options=options).x).tolist()
        return self.candidate(w, p, block)


@lru_cache(maxsize=256)
def _tight(horizon: int, d: int, budget: Budget, coin: str, box: bool, block: int | None) -> Setting:
    """The coin and the length of blocks with the least bound: on a grid first, then from the best of the grid."""
    coins = _Coins(horizon, d, budget, coin, box)
    grid: list[tuple[float, float, float, int]] = []
    for m in [2**k for k in range(int(math.log2(horizon // 2)) + 1)] if block is None else [block]:
        tries = [(w * p, p) for p in np.geomspace(min(0.3, 3.0 / horizon), 0.45, 9).tolist() for w in _WIDTHS]
        found = [(s.regret, w, p, m) for w, p in tries if (s := coins.candidate(w, p, m)) is not None]
        if grid and found and min(found)[0] > 1.3 * min(grid)[0]:
            break
        grid += found
    if not grid:
        return _nothing(block)
    _, w, p, m = min(grid)
    around = {m} if block is not None else {m, max(1, round(0.71 * m)), min(round(1.41 * m), horizon // 2)}
    refined = [s for length in sorted(around) if (s := coins.refined(w, p, length)) is not None]
    best = min(refined, key=lambda s: s.regret)
    best = coins.candidate(best.width, 1.0 - best.most, best.block, 40) or best
    for shrink in (0.0, *np.geomspace(1e-6, 0.5, 20).tolist()):  # the claim reads the curve between nodes, a bit higher
        chosen = round_down(best.eta * (1.0 - shrink)), best.width, best.most, best.block, best.switches_allowed
        if coins.profile(*chosen).delta(min(budget.epsilon, 500.0)) * _ROOM <= budget.delta:
            final = coins.setting(*chosen)
            return final if computable(coin, final.beta, final.block, horizon, d) else _nothing(block)
    return _nothing(block)


def _nothing(block: int | None) -> Setting:
    """The setting where no coin is cheap enough."""
    return Setting(math.inf, 0.0, 0.0, block or 1, 0, 0.0, math.inf, 0.5, 0.0, 1.0)


@lru_cache(maxsize=256)
def _by_the_clock(horizon: int, d: int, budget: Budget, box: bool, block: int | None) -> Setting:
    """Blocks for which the bound of `BlockedGibbs` is least."""
    lengths = np.unique(np.round(np.geomspace(1.0, horizon / 2.0, 120)).astype(int)) if block is None else [block]
    found = []
    for m in map(int, lengths):
        moves = math.ceil(horizon / m) - 1
        eta = round_down(budget.mu / (budget.moves * math.sqrt(moves)) * (1.0 - 1e-11))
        lam, regret = _best(eta, d, horizon, m, box)
        found.append(Setting(lam, eta**2 * lam, eta, m, moves, float(moves), regret, 0.0, 0.0, 0.0))
    return min(found, key=lambda s: s.regret)


# The printed constants ---------------------------------------------------------------------------------------------


def _printed(horizon: int, d: int, budget: Budget) -> Setting:
    """Theorem 4.4 of the paper for G = 1 and D = 2, with the coin of its Theorem 4.3."""
    epsilon, log = min(budget.epsilon, 1.0), math.log(horizon / budget.delta)
    root = math.sqrt(d) * log
    lam = max(2.0 * math.sqrt(horizon), 1e3 * horizon ** (1 / 3) * root / epsilon,
              1e3 * horizon**0.375 * root / epsilon**0.75) / 2.0  # fmt: skip
    beta = lam / (1e5 * log**2) * min(epsilon**2 / horizon ** (2 / 3), epsilon**1.5 / horizon**0.75)
    regret = 2.0 * lam + horizon / lam + d * math.log(horizon) / beta + 2.0
    eta = round_down(math.sqrt(beta / lam))
    share = budget.delta / (60.0 * horizon**2)
    log_phi = 2.0 * (18.0 * eta**2 + 6.0 * eta * math.sqrt(2.0 * math.log(2.0 / share)))
    p = max(horizon ** (-1 / 3), (eta**4 / log_phi**2) ** (1 / 3))
    most, w = round_down(1.0 - p), round_up(log_phi)
    leave = p + 1.0 - math.exp(-2.0 * log_phi)
    moves = max(1, min(horizon - 1, math.ceil(3.0 * leave * horizon)))
    expected = (horizon - 1) * (1.0 - most * math.exp(-w))
    return Setting(lam, eta**2 * lam, eta, 1, moves, expected, regret, most, w, 0.0)
