"""Runs that are watched at the port: what was released, and the values of either data set beneath it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpconvex.algorithms.attacks import NONE, Data
from dpconvex.audit.machine.likelihood import log_likelihood
from dpconvex.audit.replay import ReplayPort, noise_size
from dpconvex.kernel.claims import Claim, Release
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort


class Seen(NamedTuple):
    """A released vector, and the value that each of the two data sets has beneath it, given what came before."""

    release: Release
    released: np.ndarray
    values: tuple[np.ndarray, np.ndarray]

    def log_likelihood(self, side: int, exact: bool) -> float:
        """Logarithm of the probability of what was released, for the data set of that side."""
        return log_likelihood(self.release, exact, self.released, self.values[side])


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
