"""Attack the private players of games: the privacy loss of a game of linear losses can be computed to the last digit.

What a player releases are its points. Given them, the law of every coin and of every new point under either stream is
known, so the attack is the likelihood ratio itself, and no other test does better. Mutants are players with a mistake.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import kstest

from dpconvex.audit.function import Case
from dpconvex.audit.report import AuditReport
from dpconvex.errors import NotPrivateWarning
from dpconvex.noise.gibbs import GibbsBox, uniform
from dpconvex.online.pomer import Pomer, Sum, keep_probability
from dpconvex.online.pomer_bounds import Setting
from dpconvex.privacy.budget import Budget
from dpconvex.problem.domains import Box

_SURPRISE = 1e-9  # probability of a statistic at which a player is taken to be broken
CHECKS = ("law of the points", "coins", "moves", "total variation", "error rates")


@dataclass(frozen=True)
class Match:
    """A player, a stream of gradients in one dimension, and the round that is changed.

    Examples
    --------
    >>> match = MATCHES[0]
    >>> match.player(0).claim.epsilon(1e-6) <= match.budget.epsilon
    True
    """

    name: str
    setting: Setting
    gradients: tuple[float, ...]
    budget: Budget
    changed: int = 0
    to: float = -1.0
    coin: str = "reference"
    box: Box = Box(-50.0, 50.0)
    least: float = 0.0

    def player(self, seed: int, kind: type[Pomer] = Pomer) -> Pomer:
        """A player of it. Its noise is known, so that the attack can be repeated."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            return kind(
                self.box, 1.0, len(self.gradients), self.budget, dimension=1, coin=self.coin, setting=self.setting,
                dataset="audit", seed=seed,
            )  # fmt: skip

    @property
    def streams(self) -> tuple[np.ndarray, np.ndarray]:
        """The stream and its neighbour."""
        plain = np.array(self.gradients)[:, None]
        other = plain.copy()
        other[self.changed] = self.to
        return plain, other

    def case(self, kind: type[Pomer] = Pomer) -> Case:
        """What is attacked: the privacy loss of one game after another."""
        plain, other = self.streams
        rules, others = (Rules.of(self.player(0), stream) for stream in (plain, other))

        def losses(stream: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
            games = (play(self.player(int(rng.integers(1 << 62)), kind), stream) for _ in range(runs))
            return np.array([[others.log_likelihood(g) - rules.log_likelihood(g)] for g in games])

        claim = self.player(0).claim
        return Case(self.name, losses, plain, other, claim, batch=True, statistic=lambda out: out[:, 0])


@dataclass(frozen=True)
class Transcript:
    """What a player released: its points, and the point before the first (which it keeps to itself)."""

    player: Pomer
    first: np.ndarray
    points: np.ndarray


def play(player: Pomer, stream: np.ndarray) -> Transcript:
    """Play one game."""
    first, points = player._before, []
    for g in stream:
        points.append(player.play())
        player.observe(g)
    return Transcript(player, first, np.array(points))


@dataclass(frozen=True)
class Rules:
    """Laws that a claim is about, for one stream: after every block the Gibbs law, and what its coin depends on.

    The player is the one that the claim is about, whoever plays.

    Examples
    --------
    >>> match = MATCHES[0]
    >>> rules = Rules.of(match.player(0), match.streams[0])
    >>> len(rules.laws), math.isfinite(rules.log_likelihood(play(match.player(0), match.streams[0])))
    (8, True)
    """

    beta: float
    laws: tuple[GibbsBox, ...]
    logs: tuple[float, ...]  # of the normalising constants, in units of that of the first law
    slopes: tuple[float, ...]  # of the sums of the losses of the blocks

    @staticmethod
    def of(player: Pomer, stream: np.ndarray) -> Rules:
        """What a player has to do against a stream."""
        s = player.setting
        beta = s.lam / player.claim.releases[0].scale ** 2
        sums = [stream[at : at + s.block] for at in range(0, len(stream), s.block)]
        total, laws = Sum(player.domain, 1, s.lam, beta), []
        for rows in [stream[:0], *sums[:-1]]:
            for g in rows:
                total.add(g)
            law = total.law()
            assert isinstance(law, GibbsBox)
            laws.append(law)
        logs = tuple(laws[0].log_ratio(law.tilt) for law in laws)
        return Rules(beta, tuple(laws), logs, tuple(float(rows.sum()) for rows in sums[:-1]))

    def steps(self, game: Transcript) -> Iterator[Step]:
        """Every coin that is thrown under the rules, and what came of it."""
        player, s = game.player, game.player.setting
        before, moves, most = float(game.first[0]), 0, player.claim.releases[0].times
        points = game.points[:: s.block, 0].tolist()
        for i, (x, then) in enumerate(pairwise(points)):
            if moves >= most and x == then:
                continue
            log = self.beta * self.slopes[i] * (before - x)
            if player.coin == "exact":
                log = -self.beta * self.slopes[i] * x - (self.logs[i + 1] - self.logs[i])
            yield Step(x == then, keep_probability(log, s), i + 1, then)
            if x != then:
                before, moves = x, moves + 1

    def log_likelihood(self, game: Transcript) -> float:
        """Logarithm of the density of all points, up to what is the same for all streams."""
        log = 0.0
        for step in self.steps(game):
            if step.stayed:
                log += math.log(step.keep)
            else:
                tilt = float(self.laws[step.block].tilt[0] - self.laws[0].tilt[0])
                log += math.log1p(-step.keep) - tilt * step.then - self.logs[step.block]
        return log


class Step(NamedTuple):
    """A coin: whether the point stayed, the probability of that, the blocks before, and the point after it."""

    stayed: bool
    keep: float
    block: int
    then: float


def _distribution(law: GibbsBox, x: float) -> float:
    """Probability of a point below x, in one dimension."""
    low, at, high = _normal(law, law.lo), _normal(law, x), _normal(law, law.hi)
    if low + high > 0.0:  # from the tail that is thin
        return float(1.0 - (ndtr(-at) - ndtr(-high)) / (ndtr(-low) - ndtr(-high)))
    return float((ndtr(at) - ndtr(low)) / (ndtr(high) - ndtr(low)))


def _normal(law: GibbsBox, x: float) -> float:
    return math.sqrt(law.curvature) * (x + float(law.tilt[0]) / law.curvature)


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
    rng = np.random.default_rng([seed, 1])
    games = [
        play(match.player(int(rng.integers(1 << 62)), kind), match.streams[0]) for _ in range(max(100, runs // 10))
    ]
    rules = Rules.of(match.player(0), match.streams[0])
    steps = [step for game in games for step in rules.steps(game)]
    drawn = [_distribution(rules.laws[step.block], step.then) for step in steps if not step.stayed]
    caught = []
    if kstest(drawn, "uniform").pvalue < _SURPRISE:
        caught.append(CHECKS[0])
    if _coins_off(steps, match.setting) < _SURPRISE:
        caught.append(CHECKS[1])
    if any(game.player.moves > game.player.claim.releases[0].times for game in games):
        caught.append(CHECKS[2])
    return report, (*caught, *report.caught)


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
        self._x, self._before = self._draw(), self._draw()


class Tireless(Pomer):
    """The allowance of moves is ignored."""

    def _decide(self) -> None:
        if not self._stays():
            self._moves += 1
            self._move(self._draw())
        self._block = self._empty()


class Frugal(Pomer):
    """The random number of the coin serves for the new point as well."""

    _last = 0.5

    def _stays(self) -> bool:
        self._last = float(uniform(self._coins, 1)[0])
        log = self._beta * self._block.difference(self._before, self._x)
        return self._last < keep_probability(log, self.setting)

    def _draw(self) -> np.ndarray:
        law = self._total.law()
        assert isinstance(law, GibbsBox)
        low, high = ndtr(_normal(law, law.lo)), ndtr(_normal(law, law.hi))
        z = float(ndtri(low + self._last * (high - low)))
        return np.array([z / math.sqrt(law.curvature) - float(law.tilt[0]) / law.curvature])


class Bare(Pomer):
    """The coin is not brought within its range."""

    def _stays(self) -> bool:
        s = self.setting
        log = self._beta * self._block.difference(self._before, self._x)
        return bool(uniform(self._coins, 1)[0] < min(1.0, s.most * math.exp(log - s.width)))


MUTANTS: dict[str, type[Pomer]] = {
    "eta twice as large": Hot,
    "moves without end": Tireless,
    "the coin reused for the point": Frugal,
    "keep-probabilities without limits": Bare,
}


def _setting(eta: float, moves: int, most: float, width: float, block: int = 1, lam: float = 1.0) -> Setting:
    return Setting(lam, eta**2 * lam, eta, block, moves, float(moves), 1.0, most, width, 0.0)


_STREAM = (1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0)
MATCHES = (
    Match("Pomer, many draws", _setting(0.3, 7, 0.02, 0.01), _STREAM, Budget(12.0, 1e-6), least=0.8),
    Match("Pomer, coins that matter", _setting(0.5, 2, 0.7, 0.7), _STREAM, Budget(12.0, 1e-6)),
    Match("Pomer, coins at their limits", _setting(0.5, 2, 0.6, 0.1), _STREAM, Budget(12.0, 1e-6)),
    Match("Pomer, a change in the middle", _setting(0.3, 4, 0.5, 0.3), _STREAM, Budget(12.0, 1e-6), changed=3),
    Match("Pomer, blocks", _setting(0.3, 3, 0.5, 0.5, block=2), _STREAM, Budget(12.0, 1e-6)),
    Match(
        "Pomer, at the boundary", _setting(0.3, 4, 0.5, 0.3), (1.0,) * 8, Budget(12.0, 1e-6), box=Box(-2.0, 2.0)
    ),
    Match("Pomer, one loss masked", _setting(0.5, 7, 0.02, 0.01), _STREAM, Budget(12.0, 1e-6, "zero_out"), to=0.0,
          least=0.8),
    Match("Pomer, exact coins", _setting(0.3, 4, 0.7, 0.4), _STREAM, Budget(12.0, 1e-6), coin="exact"),
)  # fmt: skip


def matches(runs: int = 4000, seed: int = 0) -> Iterator[tuple[Match, AuditReport, tuple[str, ...]]]:
    """Attack every match."""
    for i, match in enumerate(MATCHES):
        yield (match, *attack(match, runs, seed + i))


def main() -> int:
    """Attack every match and every mutant; 1 if a claim is refuted or too loose, or a mutant not caught."""
    failed = False
    for match, report, caught in matches():
        good = not caught and report.ratio >= match.least
        failed |= not good
        print(f"{match.name}\n  {report}{'' if good else f'{chr(10)}  FAILED: {caught}'}", flush=True)
    for name, kind in MUTANTS.items():
        caught = tuple(dict.fromkeys(c for m in MATCHES[1:3] for c in attack(m, 2000, 0, kind)[1]))
        failed |= not caught
        print(f"Pomer, mutant: {name}\n  caught by: {', '.join(caught) or 'NOT CAUGHT'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
