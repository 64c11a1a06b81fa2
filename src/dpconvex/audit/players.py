"""Attack the private players of games: in one dimension the privacy loss of a game can be computed to many digits.

What a player releases are its points. Given them, the law of every coin and of every new point under either stream is
known, by integration where there is no formula, so the attack is the likelihood ratio itself, and no other test does
better. Mutants are players with a mistake.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import kstest

from dpconvex.audit.function import Case
from dpconvex.audit.report import AuditReport
from dpconvex.errors import NotPrivateWarning
from dpconvex.games.gibbs_sums import Sum, read_loss
from dpconvex.games.losses import AbsoluteLoss, LogisticLoss, QuadraticLoss
from dpconvex.games.pomer import Pomer, keep_probability
from dpconvex.games.pomer_bounds import Setting
from dpconvex.kernel.budget import Budget
from dpconvex.noise.gibbs import GibbsBox
from dpconvex.noise.proximal import GibbsProximal
from dpconvex.noise.rejection import GibbsRejection
from dpconvex.problem.domains import Box

_SURPRISE = 1e-9  # probability of a statistic at which a player is taken to be broken
CHECKS = ("law of the points", "coins", "moves", "secret draws", "total variation", "error rates")
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def linear(record: np.ndarray) -> np.ndarray:
    """A record is a gradient."""
    return record


def absolute(record: np.ndarray) -> AbsoluteLoss:
    """A record is a target, to be met: |x - record|."""
    return AbsoluteLoss(np.ones(1), float(record[0]))


def quadratic(record: np.ndarray) -> QuadraticLoss:
    """A record is a target: |x - record|^2 / 10, flat enough within 5 of it."""
    return QuadraticLoss(record, 0.2)


def logistic(record: np.ndarray) -> LogisticLoss:
    """A record is a row of the class 1: ln(1 + exp(-<record, x>))."""
    return LogisticLoss(record, 1.0)


@dataclass(frozen=True)
class Match:
    """A player, a stream of losses in one dimension, each made of a number, and the round that is changed.

    Examples
    --------
    >>> match = MATCHES[0]
    >>> match.player(0).claim.epsilon(1e-6) <= match.budget.epsilon
    True
    """

    name: str
    setting: Setting
    records: tuple[float, ...]
    budget: Budget
    changed: int = 0
    to: float = -1.0
    coin: str = "reference"
    box: Box = Box(-50.0, 50.0)
    least: float = 0.0
    make: Callable[[np.ndarray], Any] = linear
    smoothness: float | None = None
    rounding: float | None = None

    def player(self, seed: int, kind: type[Pomer] = Pomer) -> Pomer:
        """A player of it. Its noise is known, so that the attack can be repeated."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            return kind(
                self.box, 1.0, len(self.records), self.budget, dimension=1, coin=self.coin, setting=self.setting,
                smoothness=self.smoothness, rounding=self.rounding, dataset="audit", seed=seed,
            )  # fmt: skip

    @property
    def streams(self) -> tuple[np.ndarray, np.ndarray]:
        """The stream and its neighbour, as numbers."""
        plain = np.array(self.records)[:, None]
        other = plain.copy()
        other[self.changed] = self.to
        return plain, other

    def rules(self, stream: np.ndarray) -> Rules:
        """What a player has to do against a stream."""
        return Rules.of(self.player(0), [self.make(record) for record in stream])

    def play(self, seed: int, stream: np.ndarray, kind: type[Pomer] = Pomer) -> Transcript:
        """Play one game."""
        player = self.player(seed, kind)
        first, points = player._before, []
        for record in stream:
            points.append(float(player.play()[0]))
            player.observe(self.make(record))
        return Transcript(player, float(first[0]), tuple(points))

    def case(self, kind: type[Pomer] = Pomer) -> Case:
        """What is attacked: the privacy loss of one game after another."""
        plain, other = self.streams
        rules, others = self.rules(plain), self.rules(other)

        def losses(stream: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
            games = (self.play(int(rng.integers(1 << 62)), stream, kind) for _ in range(runs))
            return np.array([[others.log_likelihood(g) - rules.log_likelihood(g)] for g in games])

        claim = self.player(0).claim
        return Case(self.name, losses, plain, other, claim, batch=True, statistic=lambda out: out[:, 0])


@dataclass(frozen=True)
class Transcript:
    """What a player released: its points, and the point before the first (which it keeps to itself)."""

    player: Pomer
    first: float
    points: tuple[float, ...]


class Integrated:
    """The Gibbs law of a sum of losses on an interval, integrated from kink to kink.

    Examples
    --------
    >>> law = Integrated(Sum(Box(-1.0, 1.0), 1, 2.0, 3.0), 6.0, 3.0, Box(-1.0, 1.0))
    >>> round(law.below(0.0), 12), round(law.mean(law.nodes**2), 4)
    (0.5, 0.1502)
    """

    def __init__(self, total: Sum, curvature: float, beta: float, box: Box) -> None:
        self._total, self._curvature, self._beta = total, curvature, beta
        self._middle = (box.lo + box.hi) / 2.0
        cells = max(8, math.ceil(2.0 * (box.hi - box.lo) * math.sqrt(curvature)))
        self._edges = np.unique(np.concatenate([np.linspace(box.lo, box.hi, cells + 1), total.kinks]))
        self.nodes, weights = _rule(self._edges[:-1], self._edges[1:])
        logs = self._logs(self.nodes)
        self._top = float(logs.max())
        self._mass = weights * np.exp(logs - self._top)
        self._whole = float(self._mass.sum())
        self.log_whole = math.log(self._whole) + self._top  # of the normalising constant

    def _logs(self, x: np.ndarray) -> np.ndarray:
        square = 0.5 * self._curvature * (x - self._middle) ** 2
        return -self._beta * values(self._total, x) - square

    def log_density(self, x: float) -> float:
        """Logarithm of the density."""
        return float(self._logs(np.array([x]))[0]) - self.log_whole

    def mean(self, of_nodes: np.ndarray) -> float:
        """Mean of a function, given at the nodes."""
        return float((self._mass * of_nodes).sum()) / self._whole

    def below(self, x: float) -> float:
        """Probability of a point below x."""
        cell = int(np.clip(np.searchsorted(self._edges, x) - 1, 0, len(self._edges) - 2))
        nodes, weights = _rule(self._edges[cell : cell + 1], np.array([x]))
        part = float((weights * np.exp(self._logs(nodes) - self._top)).sum())
        return (float(self._mass[: cell * _NODES.size].sum()) + part) / self._whole


def _rule(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of integration over cells, one after the other."""
    half = (right - left)[:, None] / 2.0
    return ((left + right)[:, None] / 2.0 + half * _NODES).ravel(), (half * _WEIGHTS).ravel()


def values(total: Sum, x: np.ndarray) -> np.ndarray:
    """Values of a sum of losses at many points, less that at 0."""
    zero = np.zeros(1)
    return np.array([total.difference(point, zero) for point in x[:, None]])


@dataclass(frozen=True)
class Rules:
    """Laws that a claim is about, for one stream: before every block the Gibbs law, and the loss of the block.

    The player is the one that the claim is about, whoever plays.

    Examples
    --------
    >>> match = MATCHES[0]
    >>> rules = match.rules(match.streams[0])
    >>> len(rules.laws), math.isfinite(rules.log_likelihood(match.play(0, match.streams[0])))
    (8, True)
    """

    beta: float
    laws: tuple[Integrated, ...]
    blocks: tuple[Sum, ...]
    secret: tuple[np.ndarray, ...]  # what a block's loss is at the nodes of the law after it, times beta

    @staticmethod
    def of(player: Pomer, losses: list[Any]) -> Rules:
        """What a player has to do against losses."""
        s, box = player.setting, player.domain
        assert isinstance(box, Box)
        beta = s.lam / player.claim.releases[0].scale ** 2
        options = 1, box, player.lipschitz, "Rules", player.smoothness, player.rounding
        read = [read_loss(loss, *options) for loss in losses]

        def add_up(start: int, stop: int) -> Sum:
            total = Sum(box, 1, s.lam, beta)
            for loss in read[start:stop]:
                total.add(loss)
            return total

        starts = range(0, len(read), s.block)
        laws = tuple(Integrated(add_up(0, start), beta * s.lam, beta, box) for start in starts)
        blocks = tuple(add_up(start, then) for start, then in pairwise(starts))
        pairs = zip(blocks, laws[1:], strict=True) if player.coin == "one_sample" else ()
        return Rules(beta, laws, blocks, tuple(beta * values(block, law.nodes) for block, law in pairs))

    def steps(self, game: Transcript) -> Iterator[Step]:
        """Every coin that is thrown under the rules, and what came of it."""
        player, s = game.player, game.player.setting
        before, moves, most = game.first, 0, player.claim.releases[0].times
        for i, (x, then) in enumerate(pairwise(game.points[:: s.block])):
            if moves >= most and x == then:
                continue
            yield Step(x == then, self.keep(i, x, before, player), i + 1, x, then)
            if x != then:
                before, moves = x, moves + 1

    def keep(self, i: int, x: float, before: float, player: Pomer) -> float:
        """Probability that the coin after block i keeps x."""
        if player.coin == "exact":
            gain = self.laws[i].log_whole - self.laws[i + 1].log_whole
            return keep_probability(gain - self._loss(i, x), player.setting)
        if player.coin == "reference":
            return keep_probability(self._loss(i, before) - self._loss(i, x), player.setting)
        return self.laws[i + 1].mean(self._keeps(i, x, self.secret[i], player.setting))

    def _keeps(self, i: int, x: float, there: np.ndarray, setting: Setting) -> np.ndarray:
        """Keep-probabilities of x, given what beta times the loss of block i is at the secret draw."""
        w, log = setting.width, there - self._loss(i, x)
        return np.asarray(setting.most * np.exp(np.clip(log, -w, w) - w))

    def _loss(self, i: int, x: float) -> float:
        """Beta times the loss of block i, less that at 0."""
        return self.beta * self.blocks[i].difference(np.array([x]), np.zeros(1))

    def likeness(self, step: Step, setting: Setting) -> float:
        """How much a new point looks like one that made the coin keep, in deviations; of mean 0 if it is new."""
        i, mean = step.block - 1, self.laws[step.block].mean
        keeps = self._keeps(i, step.point, self.secret[i], setting)
        own = self._keeps(i, step.point, np.array([self._loss(i, step.then)]), setting)
        return (float(own[0]) - step.keep) / math.sqrt(mean((keeps - step.keep) ** 2))

    def log_likelihood(self, game: Transcript) -> float:
        """Logarithm of the density of all points, up to what is the same for all streams."""
        log = 0.0
        for step in self.steps(game):
            if step.stayed:
                log += math.log(step.keep)
            else:
                log += math.log1p(-step.keep) + self.laws[step.block].log_density(step.then)
        return log


class Step(NamedTuple):
    """A coin: whether the point stayed, the probability of that, the blocks before, the point, and that after it."""

    stayed: bool
    keep: float
    block: int
    point: float
    then: float


# Verdicts ----------------------------------------------------------------------------------------------------------


def attack(match: Match, runs: int, seed: int = 0, kind: type[Pomer] = Pomer) -> tuple[AuditReport, tuple[str, ...]]:
    """Attack a claim, and check that points and coins have the laws it is about; the names of the checks that fail.

    Examples
    --------
    >>> report, caught = attack(MATCHES[0], 1000)
    >>> report.refuted, caught
    (False, ())
    """
    report = match.case(kind).audit(runs=runs, seed=seed)
    return report, (*check(match, max(100, runs // 10), seed, kind), *report.caught)


def check(match: Match, games: int, seed: int = 0, kind: type[Pomer] = Pomer) -> tuple[str, ...]:
    """Look whether points, coins and moves are as a claim needs them; the names of the checks that fail.

    Examples
    --------
    >>> check(MATCHES[0], 100)
    ()
    """
    rng = np.random.default_rng([seed, 1])
    played = [match.play(int(rng.integers(1 << 62)), match.streams[0], kind) for _ in range(games)]
    rules = match.rules(match.streams[0])
    steps = [step for game in played for step in rules.steps(game)]
    moved = [step for step in steps if not step.stayed]
    caught = []
    if kstest([rules.laws[step.block].below(step.then) for step in moved], "uniform").pvalue < _SURPRISE:
        caught.append(CHECKS[0])
    if _coins_off(steps, match.setting) < _SURPRISE:
        caught.append(CHECKS[1])
    if any(game.player.moves > game.player.claim.releases[0].times for game in played):
        caught.append(CHECKS[2])
    if match.coin == "one_sample":
        alike = sum(rules.likeness(step, match.setting) for step in moved) / math.sqrt(len(moved))
        if 2.0 * ndtr(-abs(alike)) < _SURPRISE:
            caught.append(CHECKS[3])
    return tuple(caught)


def _coins_off(steps: list[Step], setting: Setting) -> float:
    """How likely coins are to stay as often as they did: those at either limit, and the others, each by themselves."""
    keep, stayed = np.array([step.keep for step in steps]), np.array([step.stayed for step in steps])
    low, high = keep <= setting.least * (1.0 + 1e-9), keep >= setting.most * (1.0 - 1e-9)
    chances = []
    for group in (low, high, ~low & ~high):
        if group.any():
            p = keep[group]
            chances.append(2.0 * ndtr(-abs(stayed[group].sum() - p.sum()) / math.sqrt((p * (1.0 - p)).sum())))
    return float(min(chances, default=1.0))


class Hot(Pomer):
    """Eta is twice what was planned: the temperature is a quarter."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._beta *= 4.0
        self._total, self._block = self._empty(), self._empty()
        self._x, self._before = self._draw(0), self._draw(0)


class Tireless(Pomer):
    """The allowance of moves is ignored, and moves are not counted by the port, which would refuse them."""

    def _decide(self) -> None:
        if not self._stays():
            self._moves += 1
            self._move(self._draw(0))
        self._block = self._empty()


class Frugal(Pomer):
    """The random number of the coin serves for the new point as well."""

    _last = 0.5

    def _stays(self) -> bool:
        self._last = self._variate()
        log = self._beta * self._block.difference(self._before, self._x)
        return self._last < keep_probability(log, self.setting)

    def _draw(self, counted: int = 1) -> np.ndarray:
        law = self._total.law()
        assert isinstance(law, GibbsBox)
        low, high = (ndtr(math.sqrt(law.curvature) * (end + float(law.tilt[0]) / law.curvature)) for end in self.domain)
        z = float(ndtri(low + self._last * (high - low)))
        return np.array([z / math.sqrt(law.curvature) - float(law.tilt[0]) / law.curvature])


class Bare(Pomer):
    """The coin is not brought within its range."""

    def _stays(self) -> bool:
        s = self.setting
        log = self._beta * self._block.difference(self._before, self._x)
        return self._variate() < min(1.0, s.most * math.exp(log - s.width))


class Echo(Pomer):
    """The secret draw of a coin is the point that is played next."""

    _last: np.ndarray | None = None

    def _sample(self) -> np.ndarray:
        self._last = super()._sample()
        return self._last

    def _draw(self, counted: int = 1) -> np.ndarray:
        return super()._draw(counted) if self._last is None else self._last


class Hasty(Pomer):
    """The first proposal for a point is taken, whether it is accepted or not."""

    def _draw(self, counted: int = 1) -> np.ndarray:
        law = self._total.law()
        return self._draw_from(replace(law, tries=1) if isinstance(law, GibbsRejection) else law, counted)


class Short(Pomer):
    """Every walk to a point ends after its first round."""

    def _draw(self, counted: int = 1) -> np.ndarray:
        law = self._total.law()
        return self._draw_from(replace(law, rounds=1) if isinstance(law, GibbsProximal) else law, counted)


class Stale(Pomer):
    """The secret draw of the first coin serves for all."""

    _last: np.ndarray | None = None

    def _sample(self) -> np.ndarray:
        self._last = super()._sample() if self._last is None else self._last
        return self._last


def _setting(eta: float, moves: int, most: float, width: float, block: int = 1, lam: float = 1.0) -> Setting:
    return Setting(lam, eta**2 * lam, eta, block, moves, float(moves), 1.0, most, width, 0.0)


_STREAM = (1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0)
_TARGETS = (0.5, -0.3, 1.2, 0.1, -0.8, 0.4, -1.5, 0.2)
_BUDGET = Budget(12.0, 1e-6)
_WIDE = Box(-4.0, 4.0)
MATCHES = (
    Match("Pomer, many draws", _setting(0.3, 7, 0.02, 0.01), _STREAM, _BUDGET, least=0.8),
    Match("Pomer, coins that matter", _setting(0.5, 2, 0.7, 0.7), _STREAM, _BUDGET),
    Match("Pomer, coins at their limits", _setting(0.5, 2, 0.6, 0.1), _STREAM, _BUDGET),
    Match("Pomer, a change in the middle", _setting(0.3, 4, 0.5, 0.3), _STREAM, _BUDGET, changed=3),
    Match("Pomer, blocks", _setting(0.3, 3, 0.5, 0.5, block=2), _STREAM, _BUDGET),
    Match("Pomer, at the boundary", _setting(0.3, 4, 0.5, 0.3), (1.0,) * 8, _BUDGET, box=Box(-2.0, 2.0)),
    Match("Pomer, one loss masked", _setting(0.5, 7, 0.02, 0.01), _STREAM, Budget(12.0, 1e-6, "zero_out"), to=0.0,
          least=0.8),
    Match("Pomer, exact coins", _setting(0.3, 4, 0.7, 0.4), _STREAM, _BUDGET, coin="exact"),
    Match("Pomer, secret draws", _setting(0.3, 4, 0.7, 0.4), _STREAM, _BUDGET, coin="one_sample"),
    Match("Pomer, absolute losses", _setting(0.5, 4, 0.5, 0.3, lam=2.0), _TARGETS, _BUDGET, to=-3.0, box=_WIDE,
          make=absolute),
    Match("Pomer, absolute losses, secret draws", _setting(0.3, 4, 0.5, 0.3, lam=2.0), _TARGETS, _BUDGET, to=-3.0,
          coin="one_sample", box=_WIDE, make=absolute),
    Match("Pomer, quadratic losses", _setting(0.5, 4, 0.5, 0.3, lam=2.0), _TARGETS, _BUDGET, to=-3.0,
          box=Box(-2.0, 2.0), make=quadratic),
    Match("Pomer, logistic losses", _setting(0.5, 4, 0.5, 0.3), _STREAM, _BUDGET, box=Box(-8.0, 8.0), make=logistic,
          smoothness=0.25),
    Match("Pomer, kinks rounded off", _setting(0.5, 4, 0.5, 0.3, lam=2.0), _TARGETS, _BUDGET, to=-3.0,
          box=Box(-8.0, 8.0), make=absolute, rounding=2.0),
)  # fmt: skip
BY_NAME = {match.name: match for match in MATCHES}
_LIMITS = BY_NAME["Pomer, coins at their limits"]
_SECRET = Match("Pomer, secret draws that matter", _setting(0.8, 7, 0.95, 1.0), _STREAM, Budget(200.0, 0.1),
                coin="one_sample")  # fmt: skip
_CURVED = Match("Pomer, proposals that matter", _setting(0.8, 7, 0.3, 0.1, lam=0.5), _STREAM, Budget(200.0, 0.1),
                box=Box(-8.0, 8.0), make=logistic, smoothness=0.25)  # fmt: skip
_FAR = Match("Pomer, walks that matter", _setting(0.8, 4, 0.3, 0.1, lam=2.0), (7.0,) * 5, Budget(20.0, 0.1), to=-7.0,
             box=Box(-8.0, 8.0), make=absolute, rounding=2.0)  # fmt: skip
MUTANTS: dict[str, tuple[type[Pomer], Match]] = {  # and the match that gives them away
    "eta twice as large": (Hot, _LIMITS),
    "moves without end": (Tireless, _LIMITS),
    "the coin reused for the point": (Frugal, _LIMITS),
    "keep-probabilities without limits": (Bare, _LIMITS),
    "the secret draw played next": (Echo, _SECRET),
    "one secret draw for all coins": (Stale, _SECRET),
    "the first proposal taken": (Hasty, _CURVED),
    "a walk of one round": (Short, _FAR),
}


@dataclass(frozen=True)
class Played:
    """A match that was attacked, or a mutant, and whether what was found is as it should be."""

    name: str
    found: str
    good: bool

    def __str__(self) -> str:
        return f"{self.name}\n  {self.found}{'' if self.good else ': FAILED'}"

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return asdict(self)


def attack_players(seed: int = 0, runs: int = 4000) -> Iterator[Played]:
    """Attack every match, with so many runs, and every mutant, with half of them."""
    for i, match in enumerate(MATCHES):
        report, caught = attack(match, runs, seed + i)
        good = not caught and report.ratio >= match.least
        yield Played(match.name, f"{report}{''.join(f'; caught by {check}' for check in caught)}", good)
    for name, (kind, match) in MUTANTS.items():
        caught = attack(match, runs // 2, seed, kind)[1] if match in MATCHES else check(match, runs // 10, seed, kind)
        yield Played(f"Pomer, mutant: {name}", f"caught by: {', '.join(caught) or 'nothing'}", bool(caught))
