"""Runs that are watched at the port: what was released, and the values of either data set beneath it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import NONE, Data
from dpconvex.audit.machine.likelihood import log_likelihood
from dpconvex.audit.replay import ReplayPort, noise_size
from dpconvex.kernel.claims import Claim, Release
from dpconvex.noise.prefix_sum import PrefixSum, PrefixSumStream
from dpconvex.noise.rounds import Rounds, given_rounds
from dpconvex.noise.source import Source, Stream
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.theorems.correlated_noise import PREFIX_SUMS


class Seen(NamedTuple):
    """A released vector, and the value that each of the two data sets has beneath it, given what came before."""

    release: Release
    released: np.ndarray
    values: tuple[np.ndarray, np.ndarray]

    def log_likelihood(self, side: int, exact: bool) -> float:
        """Logarithm of the probability of what was released, for the data set of that side."""
        return log_likelihood(self.release, exact, self.released, self.values[side])


class ShownSums(PrefixSumStream):
    """Running sums whose rows of C x, after noise, are seen; if not exact, the noise is added in float64."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.exact, self.made = True, list[Rounds]()

    def _rounds(self, before: int, count: int, words: np.ndarray, noise: np.ndarray) -> Rounds:
        if self.exact:
            self.made.append(super()._rounds(before, count, words, noise))
        else:
            deviation = self._ratio * self.grid
            self.made.append(given_rounds(self._factor, self._memory, before, count, deviation * noise))
        return self.made[-1]

    @property
    def rows(self) -> np.ndarray:
        """Every noisy row so far."""
        return np.concatenate([rounds.noise for rounds in self.made])


class ToldSums(PrefixSumStream):
    """Running sums that release rows which were told, and keep what they have beneath them."""

    def __init__(self, told: np.ndarray, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._told, self.values = told, list[np.ndarray]()

    def _rounds(self, before: int, count: int, words: np.ndarray, noise: np.ndarray) -> Rounds:
        rounds = super()._rounds(before, count, words, noise)
        return rounds._replace(words=np.zeros_like(rounds.words))  # so far out that every round is settled

    def _settle(self, stream: Stream, rounds: Rounds, at: int, above: int) -> None:
        first, last = rounds.firsts[at : at + 2].tolist()
        for row in range(last - first):
            rounds.noise[first + row] = self._told[len(self.values)]
            self.values.append(rounds.values[row].copy())


class WatchedPort(NoisePort):
    """A port that shows what it was given; `exact` says whether releases on a grid are drawn exactly, or in float64."""

    def __init__(self, claim: Claim, source: Source, exact: bool) -> None:
        super().__init__(claim, source)
        self.exact = exact
        self.seen: list[tuple[str, np.ndarray, np.ndarray]] = []

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Release the value as the plan says, and keep it."""
        noisy = super().add(name, value)
        self.seen.append((name, value, noisy))
        return noisy


class _SumsPort(NoisePort):
    """A port whose running sums are those of the stream given."""

    def __init__(self, claim: Claim, stream: PrefixSumStream) -> None:
        super().__init__(claim, None)  # type: ignore[arg-type]
        self._given = stream

    def _stream_of(self, release: Release) -> PrefixSumStream:
        return self._given


Play = Callable[[Data, NoisePort], None]


def watch_sums(plan: Plan, play: Play, data: tuple[Data, Data], side: int, source: Source, exact: bool) -> list[Seen]:
    """Let one of two data sets play, and see every noisy row of C x with the values that both have beneath it.

    Sums, plays and weights are computed from those rows: who sees them sees everything.
    """
    (release,) = plan.releases
    (backend, is_open), size = PREFIX_SUMS[release.law], math.prod(release.shape)
    noise = PrefixSum(backend, None if is_open else release.times)
    given = noise, size, release.scale, release.grid
    shown = ShownSums(*given, source.stream("sums").words(4).tobytes())
    shown.exact = exact
    play(data[side], _SumsPort(plan.claim, shown))
    values = []
    for both in data:
        told = ToldSums(shown.rows, *given, bytes(32))
        play(both, _SumsPort(plan.claim, told))
        values.append(np.array(told.values))
    rows = Release("rows", "gaussian", shown._ratio * shown.grid, values[0].shape, grid=shown.grid)
    return [Seen(rows, shown.rows, (values[0], values[1]))]


def watch_plan(plan: Plan, data: tuple[Data, Data], side: int, source: Source, exact: bool) -> list[Seen]:
    """Run a plan on one of two data sets, and see every release with the values that both have beneath it."""
    port = WatchedPort(plan.claim, source, exact)
    plan.algorithm.execute(plan, *data[side], port)
    shadow = ReplayPort(plan, np.zeros(noise_size(plan)), NONE, [noisy for _, _, noisy in port.seen])
    plan.algorithm.execute(plan, *data[1 - side], shadow)
    releases = {release.name: release for release in plan.releases}
    return [
        Seen(releases[name], noisy, (value, other) if side == 0 else (other, value))
        for (name, value, noisy), (_, other) in zip(port.seen, shadow.given, strict=True)
    ]


def watch_value(
    claim: Claim, name: str, values: tuple[np.ndarray, np.ndarray], side: int, source: Source, exact: bool
) -> list[Seen]:
    """Release one of two values by itself."""
    release = next(r for r in claim.releases if r.name == name)
    return [Seen(release, WatchedPort(claim, source, exact).add(name, values[side]), values)]
