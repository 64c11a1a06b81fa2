"""Runs with given noise: many of them cost microseconds each, and what they would have perturbed can be seen."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpconvex.audit.mutants import NONE, Mutant
from dpconvex.loops.rows import Dense
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.privacy.claims import Scope
from dpconvex.privacy.theorems.selection import GUMBEL

Data = tuple[Dense, np.ndarray]


class ReplayPort(NoisePort):
    """A port that takes its noise from a vector, keeps the values it is given, and may be told what to release."""

    def __init__(
        self, plan: Plan, noise: np.ndarray, mutant: Mutant = NONE, told: list[np.ndarray] | None = None
    ) -> None:
        super().__init__(plan.claim, None)  # type: ignore[arg-type]
        self._left, self._at, self._mutant, self._told = noise, 0, mutant, told
        self.given: list[tuple[str, np.ndarray]] = []
        self.taken: list[np.ndarray] = []

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Release the value with noise, or what was told."""
        noisy = super().add(name, value)
        self.given.append((name, value))
        if self._told is not None:
            noisy = self._noisy[name][-1] = self._told[len(self.taken)]
        self.taken.append(noisy)
        return noisy

    def select(self, name: str, value: np.ndarray) -> int:
        """Choose with noise, or as was told."""
        super().select(name, value)
        self.given.append((name, value))
        if self._told is not None:
            self._noisy[name][-1] = self._told[len(self.taken)]
        self.taken.append(self._noisy[name][-1])
        return int(self.taken[-1])

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if self._mutant.shared == "draws":
            self._at = 0
        draw = self._take(math.prod(shape)).reshape(shape)  # told or not: later samples agree
        draw = self._mutant.noise * (-np.log(-log_ndtr(draw)) if law == GUMBEL else draw)  # by the same quantile
        if self._told is not None or (self._mutant.silent and not self.given):
            return np.zeros(shape)
        share = self._mutant.shared == "classes" and len(shape) == 2
        return np.broadcast_to(draw[:1], shape) if share else draw

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return np.flatnonzero(ndtr(self._take(count)) < self._mutant.sampling * probability)

    def _take(self, size: int) -> np.ndarray:
        self._at += size
        return self._left[self._at - size : self._at]


def noise_size(plan: Plan) -> int:
    """How many variates a run takes."""
    return sum(r.times * math.prod(r.shape) for r in plan.releases)


def run_once(plan: Plan, mutant: Mutant, data: Data, noise: np.ndarray) -> np.ndarray:
    """Everything the claim allows to be released by one run with that noise, as a vector: values that left the port."""
    port = ReplayPort(plan, noise, mutant)
    plan.algorithm.execute(plan, *data, port)
    port.close()
    names = port.kept
    if mutant.averaged:
        return np.asarray(np.mean([port.released(name) for name in names], axis=0))
    if plan.claim.scope is Scope.EVERY:
        return np.concatenate([port.history(name).ravel() for name in names])
    return port.released(names[-1]).ravel()


def both_values(
    plan: Plan, mutant: Mutant, data: Data, other: Data, noise: np.ndarray
) -> tuple[ReplayPort, ReplayPort]:
    """A run, and what another data set would have had perturbed had it released the same values."""
    port = ReplayPort(plan, noise, mutant)
    plan.algorithm.execute(plan, *data, port)
    shadow = ReplayPort(plan, noise, mutant, port.taken)
    plan.algorithm.execute(plan, *other, shadow)
    return port, shadow


def log_ratios(plan: Plan, mutant: Mutant, data: Data, other: Data, noise: np.ndarray) -> list[float]:
    """Log-likelihood of what a run on `data` released, were it from `other`, against `data`: exact for Gaussians.

    First that of everything, then that of each release.
    """
    port, shadow = both_values(plan, mutant, data, other, noise)
    found = {r.name: 0.0 for r in plan.releases}
    scale = {r.name: r.scale for r in plan.releases}
    for (name, mine), (_, theirs), noisy in zip(port.given, shadow.given, port.taken, strict=True):
        near, far = noisy - mine, noisy - theirs
        found[name] += float(np.vdot(near, near) - np.vdot(far, far)) / (2.0 * scale[name] ** 2)
    return [sum(found.values()), *found.values()]
