"""Runs with given noise: many of them cost microseconds each, and what they would have perturbed can be seen."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import erf, gammainc, gammaincinv, log_ndtr, ndtr

from dpconvex.algorithms.attacks import NONE, Data, Mutant
from dpconvex.errors import InputError
from dpconvex.kernel.claims import Release, Scope
from dpconvex.noise.factors import factor_of, rows_until
from dpconvex.noise.prefix_sum import Run, after, decoded
from dpconvex.noise.source import Stream
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort, own_laws
from dpconvex.problem.geometry import lp_norms
from dpconvex.theorems.correlated_noise import PREFIX_SUMS
from dpconvex.theorems.generalised_gaussian import exponent_of
from dpconvex.theorems.laplace import LAPLACE
from dpconvex.theorems.report_noisy_max import GUMBEL


@lru_cache
def correlation(law: str, rounds: int) -> np.ndarray:
    """Lower triangle L for which L z, z white noise, has the law of the increments of as many rounds.

    The increments are M z with another M, and L L' = M M'; rows of M are read off by giving C a basis for its noise.

    Examples
    --------
    >>> L = correlation("prefix sums by tree", 3)  # rounds 1, 2 less 1, and 3
    >>> (L @ L.T / L[0, 0] ** 2).round(3)
    array([[ 1., -1.,  0.],
           [-1.,  2.,  0.],
           [ 0.,  0.,  1.]])
    """
    backend, is_open = PREFIX_SUMS[law]
    if is_open:
        raise InputError("correlated noise is attacked over a known number of rounds: declare the horizon")
    factor = factor_of(backend, rounds)
    M = decoded(factor, np.eye(rows_until(factor.form.kind, rounds)), rounds)
    return np.linalg.cholesky(factor.squared_norm * (M @ M.T))


def whitened(law: str, increments: np.ndarray) -> np.ndarray:
    """White noise that increments of that law come from, one row a round."""
    flat = increments.reshape(len(increments), -1)
    return np.asarray(solve_triangular(correlation(law, len(flat)), flat, lower=True))


def shaped(normal: np.ndarray, r: float) -> np.ndarray:
    """Generalised Gaussian noise of exponent r out of as many normal variates, by their quantiles; 0 out of 0.

    Entries of density exp(-|g|^r) have a length |g|_r that tells nothing of their direction: it is set anew.

    Examples
    --------
    >>> shaped(np.array([0.5]), 3.0), shaped(np.array([0.5, -0.5]), 2.0).round(9)
    (array([0.5]), array([ 0.5, -0.5]))
    """
    if not normal.any():
        return normal
    power = gammaincinv(1.0 / r, np.minimum(erf(np.abs(normal) / math.sqrt(2.0)), 1.0 - 2.0**-53))
    g = np.sign(normal) * power ** (1.0 / r)
    radius = math.sqrt(2.0 * gammaincinv(normal.size / 2.0, gammainc(normal.size / r, power.sum())))
    return np.asarray(g * (radius / lp_norms(g.ravel(), r)))


def laplacian(normal: np.ndarray) -> np.ndarray:
    """Laplace noise out of as many normal variates, by their quantiles; 0 out of 0.

    Examples
    --------
    >>> laplacian(np.array([0.0, 1.0, -1.0])).round(4)
    array([ 0.    ,  1.1479, -1.1479])
    """
    return np.asarray(0.0 - np.sign(normal) * (math.log(2.0) + log_ndtr(-np.abs(normal))))


class ReplayPort(NoisePort):
    """A port that takes its noise from a vector, keeps the values it is given, and may be told what to release."""

    exact = False

    def __init__(
        self, plan: Plan, noise: np.ndarray, mutant: Mutant = NONE, told: list[np.ndarray] | None = None
    ) -> None:
        super().__init__(plan.claim, None, laws=own_laws(plan))  # type: ignore[arg-type]
        self._left, self._at, self._mutant, self._told = noise, 0, mutant, told
        self._factor = mutant.factor(plan)
        self._rounds: dict[str, np.ndarray] = {}
        self._added = np.zeros(1)  # noise drawn last
        self._last, self._shrunk = 0.0, 0.0  # scale of the last round, and of the one before in units of it
        self.given: list[tuple[str, np.ndarray]] = []
        self.taken: list[np.ndarray] = []
        self.shown: list[np.ndarray] = []  # what was released of every value given

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        """Release the value with noise, or what was told."""
        noisy = super().add(name, value)
        self.given.append((name, value))
        if self._told is not None:
            noisy = self._noisy[name][-1] = self._told[len(self.taken)]
        self.taken.append(noisy)
        self.shown.append(noisy)
        return noisy

    def accumulate(self, name: str, increments: np.ndarray, scales: Sequence[float] | np.ndarray) -> np.ndarray:
        """Release running sums, or what was told; of a sum the increment is kept, in units of its scale."""
        first = len(self.taken)
        for value, scale in zip(increments, scales, strict=True):
            before = self._noisy[name][-1] if name in self._noisy else np.zeros(value.shape)
            self._shrunk, self._last = self._last / scale, float(scale)
            (noisy,) = super().accumulate(name, value[None], [scale])
            self.given.append((name, value / scale))
            if self._told is not None:
                noisy = self._noisy[name][-1] = self._told[len(self.taken)]
            self.taken.append(noisy)
            self.shown.append((noisy - before) / scale)
        return np.array(self.taken[first:])

    def lend_rounds(self, name: str, rounds: int, run: Run, loop: Callable[..., Any]) -> np.ndarray:
        """Add noise to what a loop enters, or tell it what was released, a round at a time."""
        found = []
        for done in range(rounds):
            before = self._last_sum(self._releases[name])
            (noisy,) = super().lend_rounds(name, 1, after(run, done), loop)
            self.given.append((name, noisy - before - self._added[0]))
            if self._told is not None:
                noisy = self._noisy[name][-1] = self._told[len(self.taken)]
            self.taken.append(noisy)
            self.shown.append(noisy - before)
            found.append(noisy)
        return np.array(found)

    def select(self, name: str, value: np.ndarray) -> int:
        """Choose with noise, or as was told."""
        super().select(name, value)
        self.given.append((name, value))
        if self._told is not None:
            self._noisy[name][-1] = self._told[len(self.taken)]
        self.taken.append(self._noisy[name][-1])
        self.shown.append(self.taken[-1])
        return int(self.taken[-1])

    def _largest(self, release: Release, value: np.ndarray) -> int:
        return int(np.argmax(self._perturbed(release, value)))

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if self._mutant.shared == "draws":
            self._at = 0
        take = self._round if law in PREFIX_SUMS else self._fresh
        draw = take(name, law, shape)  # told or not: later samples agree
        if (r := exponent_of(law)) is not None:
            draw = shaped(draw, self._mutant.shape or r)
        if law == LAPLACE:
            draw = laplacian(draw)
        if law in self._laws and draw.any():
            draw = self._laws[law].draw(Stream(hashlib.sha256(draw.tobytes()).digest())).reshape(shape)
        draw = self._factor * (-np.log(-log_ndtr(draw)) if law == GUMBEL else draw)  # by the same quantile
        if self._told is not None or (self._mutant.silent and not self.given):
            draw = np.zeros(shape)
        elif self._mutant.shared == "classes" and len(shape) > 1:  # also of several steps
            draw = np.broadcast_to(draw[..., :1, :], shape)
        self._added = self._releases[name].scale * draw
        return draw

    def _fresh(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        return self._take(math.prod(shape)).reshape(shape)

    def _round(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        """Correlated noise of the next round."""
        if name not in self._rounds:
            times = self._releases[name].times
            self._rounds[name] = correlation(law, times) @ self._take(times * math.prod(shape)).reshape(times, -1)
        t, rounds = self._drawn[name], self._rounds[name]
        rest = (1.0 - self._shrunk) * rounds[:t].sum(axis=0) if self._mutant.whole else 0.0
        return np.asarray(rounds[t] + rest).reshape(shape)

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        return np.flatnonzero(ndtr(self._take(count)) < self._mutant.sampling * probability)

    def _take(self, size: int) -> np.ndarray:
        self._at += size
        return self._left[self._at - size : self._at]


def noise_size(plan: Plan) -> int:
    """How many variates a run takes."""
    return sum(r.times * math.prod(r.shape) for r in plan.releases)


def run_once(plan: Plan, mutant: Mutant, data: Data, noise: np.ndarray, seen: tuple[str, ...] = ()) -> np.ndarray:
    """Everything the claim allows to be released by one run with that noise, as a vector: values that left the port.

    Or the values of the releases in `seen`, one after the other.
    """
    port = ReplayPort(plan, noise, mutant)
    plan.algorithm.execute(plan, *data, port)
    port.close()
    if seen:
        return np.concatenate([port.released(name).ravel() for name in seen])
    names = port.kept
    if mutant.averaged:
        return np.mean([port.released(name).ravel() for name in names], axis=0)
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
    found = []
    for release in plan.releases:
        own = [i for i, (name, _) in enumerate(port.given) if name == release.name]
        near, far = (np.array([port.shown[i] - side.given[i][1] for i in own]) for side in (port, shadow))
        if release.law in PREFIX_SUMS:
            near, far = whitened(release.law, near), whitened(release.law, far)
        found.append(float(np.vdot(near, near) - np.vdot(far, far)) / (2.0 * release.scale**2))
    return [sum(found), *found]
