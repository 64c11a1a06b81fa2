"""Schedules of noisy SGD, and a planner that picks one from public facts.

A walk states everything a run needs: the batches, and the step size and relative noise of every step. A schedule names
a family of walks (`Telescoped`, `Cyclic`, `Snowball`, `SnowballJNN`). The planner takes the member that does best on a
model of the problem built from public facts. Privacy never depends on the model: the accounting is for the walk that
was chosen (docs/proofs/noisy_sgd.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from dpconvex.algorithms.cuts import even_batches
from dpconvex.errors import HypothesisError
from dpconvex.rounding import round_down
from dpconvex.theorems.schedules import Constant, Growing, Listed, Schedule
from dpconvex.work import spend

__all__ = ["Cyclic", "Snowball", "SnowballJNN", "Telescoped", "Walk"]

MOST_STEPS = 1000  # longest planned walk: in the model, further steps gain nothing
_POWERS = (0.3, 0.5, 1.0)
_TAUS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25)
_EPOCHS = (1, 2, 3, 5, 10, 20)
_LENGTHS = (50, 100, 200, 400, MOST_STEPS)
_MODES = 24


class Walk(NamedTuple):
    """One run of noisy SGD: the sizes of the batches, the step of every step, and its noise up to a factor.

    Parameters
    ----------
    batches : Schedule
        Sizes of the batches, in the order of the records. They are used in turn, as often as there are steps.
    steps : Schedule
    noise : Schedule or float
        Relative noise of every step, or the parameter tau of `noise_shape`: with 1, noise is proportional to the step
        size; with 0, a step gets only the noise that later, smaller steps do not provide.
    reach : float, optional
        Where the domain has no end, points further from the origin are brought back. By default so far that it
        happens once in 10^17 runs.

    Examples
    --------
    >>> Walk(Constant(10, 5), Growing(1.0, 15, rate=-0.5), 0.01).epochs
    3
    """

    batches: Schedule
    steps: Schedule
    noise: Schedule | float
    reach: float | None = None

    @property
    def records(self) -> range:
        """Records used."""
        return range(int(self.batches.values().sum()))

    @property
    def epochs(self) -> int:
        """Number of times each record is used."""
        return self.steps.length // self.batches.length


class Telescoped(NamedTuple):
    """One pass over batches of equal size, with steps that fall as (1 - t/T)^power and noise shared by later steps.

    Parameters
    ----------
    power : float, optional
        By default the planner's choice.
    steps : int, optional
        Number of batches; by default the planner's choice.

    Examples
    --------
    >>> Telescoped(0.5).power
    0.5
    """

    power: float | None = None
    steps: int | None = None
    name: str = "telescoped"


class Cyclic(NamedTuple):
    """Several passes over the same batches in the same order.

    Parameters
    ----------
    epochs : int
        Number of passes.
    power : float, optional
        Steps fall as (1 - t/T)^power; by default the planner's choice.
    tau : float, optional
        Share of the noise in proportion to the steps, in [0, 1]; by default the planner's choice.
    batches : int, optional
        Number of batches, 1 for the full batch; by default the planner's choice.

    Examples
    --------
    >>> Cyclic(20, batches=1).epochs
    20
    """

    epochs: int = 5
    power: float | None = None
    tau: float | None = None
    batches: int | None = None
    name: str = "cyclic"


class Snowball(NamedTuple):
    """One pass of constant steps; batches grow as 1/sqrt(number of steps left) (FKT20 Theorems 3.5 and 5.4).

    Parameters
    ----------
    steps : int or "most", optional
        Number of steps; "most" takes as many as possible with noise L/sqrt(d) on a mean gradient, as in the paper. By
        default the planner's choice.

    Examples
    --------
    >>> Snowball(300).steps
    300
    """

    steps: int | str | None = None
    name: str = "snowball"


class SnowballJNN(NamedTuple):
    """Snowball with steps that are halved repeatedly near the end (FKT20 Theorem 3.6; Jain, Nagaraj, Netrapalli 2019).

    Parameters
    ----------
    steps : int or "most", optional
        As for `Snowball`, but "most" is the default.

    Examples
    --------
    >>> SnowballJNN().steps
    'most'
    """

    steps: int | str | None = "most"
    name: str = "snowball-jnn"


Family = Telescoped | Cyclic | Snowball | SnowballJNN


def jnn_steps(length: int) -> np.ndarray:
    """Steps of FKT20 Definition 3.3, in units of the first: 1, 1/2, 1/4, ..., each for half of the remaining steps.

    Examples
    --------
    >>> jnn_steps(8)
    array([1.   , 1.   , 1.   , 1.   , 0.5  , 0.5  , 0.25 , 0.125])
    """
    levels = math.ceil(math.log2(length)) if length > 1 else 0
    ends = [length - math.ceil(length * 2.0**-i) for i in range(levels + 1)] + [length]
    return np.repeat(2.0 ** -np.arange(levels + 1), np.diff(ends))


def growing_batches(n: int, steps: np.ndarray, contractions: np.ndarray) -> Listed:
    """Batch sizes, n records in total, that need the least noise if noise is proportional to the steps.

    The best size of batch t is proportional to Gamma_t eta_t / sqrt(sum_{i >= t} (Gamma_i eta_i)^2). The factor is the
    largest at which the sizes, rounded up, add up to at most n; the remaining records join the last batch.

    Examples
    --------
    >>> growing_batches(20, np.ones(4), np.ones(4)).values()
    array([4., 4., 5., 7.])
    """
    spend(60 * len(steps))
    need = _needs(steps, contractions)
    low, high = 0.0, 2.0 * n / need.sum()
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.ceil(middle * need).sum() <= n else (low, middle)
    sizes = np.maximum(1.0, np.ceil(low * need))
    sizes[-1] += n - sizes.sum()
    return Listed.of(sizes.tolist())


def _needs(steps: np.ndarray, contractions: np.ndarray) -> np.ndarray:
    """Batch size in units of Delta/(mu sigma), where the noise of a step is sigma times the step."""
    gamma = np.append(np.cumprod(contractions[:0:-1])[::-1], 1.0)
    seen = np.maximum(gamma, 1e-140) * steps
    return np.asarray(seen / np.sqrt(np.cumsum((seen**2)[::-1])[::-1]))


def most_steps(n: int, size: Callable[[int], np.ndarray]) -> int:
    """Largest number of steps whose batches, with sizes rounded up, need at most n records; 0 if there is none.

    Examples
    --------
    >>> most_steps(10, lambda length: np.full(length, 2.5))
    3
    """
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.ceil(size(spend(middle))).sum() <= n else (low, middle)
    return low


def check_contracts(step: float | None, beta: float) -> float:
    """Return the largest step at which gradient steps on a loss of smoothness beta contract; refuse a larger one."""
    cap = round_down(2.0 / beta) if beta else math.inf
    if step is not None and step > cap:
        raise HypothesisError(
            f"step {step:g} is above 2/beta = {cap:g}, so gradient steps would not contract: take a smaller step"
        )
    return cap


# The planner ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Public:
    """What the planner knows, all of it public.

    Parameters
    ----------
    n, size : int
        Number of records, and of weights.
    slope, row, curvature : float
        Largest slope of the scalar loss, largest norm of a row, largest curvature of the scalar loss.
    ridge : float
        Quadratic term of one record.
    distance : float
        Guess of the distance to the solution.
    sensitivity, mu : float
        Largest change of one record's gradient, and the guarantee to meet.
    cap : float
        Largest step.
    every : bool
        Whether every point is released (composition) or only the last one.
    """

    n: int
    size: int
    slope: float
    row: float
    curvature: float
    ridge: float
    distance: float
    sensitivity: float
    mu: float
    cap: float
    every: bool = False


class Planned(NamedTuple):
    """A walk, and its expected excess loss in the model."""

    walk: Walk
    risk: float


def spectra(public: Public) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Two guesses of the Hessian: eigenvalues, how many of each, and squared distance left along each.

    Eigenvalues fall as 1/j, or are all equal; either way they add up to 0.7 of the largest possible trace. The excess
    loss at the start is a fifth of the largest slope, or less if the distance to the solution does not allow so much.
    """
    edges = np.unique(np.geomspace(1, public.size + 1, _MODES).astype(int)) - 1
    counts = np.diff(edges).astype(float)
    harmonic = np.array([(1.0 / np.arange(a + 1, b + 1)).mean() for a, b in pairwise(edges)])
    for relative, left in ((harmonic, harmonic), (np.ones_like(harmonic), np.ones_like(harmonic))):
        h = relative * 0.7 * public.curvature * public.row**2 / (counts @ relative)
        scale = min(0.4 * public.slope / (counts @ (h * left)), public.distance**2 / (counts @ left))
        yield h, counts, left * scale


class Risk(NamedTuple):
    """Excess loss in the model, with one row per first step and one column per guess of the Hessian.

    It has three parts: what remains of the excess loss at the start, what noise of each kind adds, in units of the
    squared first step, and what the variance of the records' gradients adds, in the same units.
    """

    start: np.ndarray
    noise: tuple[np.ndarray, ...]
    gradients: np.ndarray

    def best(self, firsts: np.ndarray, noise: list[float], records: float) -> tuple[float, float]:
        """First step of least risk, and that risk: the geometric mean over guesses, so that they have equal weight."""
        blur = sum(factor * part for factor, part in zip(noise, self.noise, strict=True))
        each = self.start + firsts[:, None] ** 2 * (blur + self.gradients / records)
        mean = np.exp(np.log(each).mean(axis=1))
        at = int(np.argmin(mean))
        return float(firsts[at]), float(mean[at])


def risks(
    public: Public, steps: np.ndarray, noise: tuple[np.ndarray, ...], sizes: np.ndarray, firsts: np.ndarray
) -> Risk:
    """Excess loss of the last point of a walk in the model; for a quadratic, the recursion is exact per eigenvector.

    Steps are in units of the first step. `noise` holds variances per step in units of the squared first step, with one
    array for each kind; `sizes` holds the batch size of every step, and `firsts` the first steps to try. The covariance
    of the gradients is assumed to be proportional to the Hessian.
    """
    guesses = list(spectra(public))
    h, counts, left = (np.concatenate(part) for part in zip(*guesses, strict=True))
    x = np.outer(firsts, h + public.ridge)
    kept = np.ones_like(x)
    sums = [np.zeros_like(x) for _ in noise]
    gradients = np.zeros_like(x)
    for t in range(len(steps) - 1, -1, -1):
        for total, variance in zip(sums, noise, strict=True):
            total += variance[t] * kept
        gradients += steps[t] ** 2 / sizes[t] * kept
        kept *= (1.0 - x * steps[t]) ** 2
    weight = 0.5 * counts * h
    share = h / (0.7 * public.curvature * public.row**2) * 0.175 * (public.slope * public.row) ** 2

    def total_of(modes: np.ndarray) -> np.ndarray:
        return np.stack([part.sum(axis=1) for part in np.split(modes, len(guesses), axis=1)], axis=1)

    return Risk(
        total_of(kept * (weight * left)),
        tuple(total_of(part * weight) for part in sums),
        total_of(gradients * (weight * share)),
    )


def unit_mu(public: Public, influence: np.ndarray, noise: np.ndarray, batches: int) -> float:
    """Guarantee mu of the given noise, computed exactly at three of the batches, which is enough for planning."""
    if public.every:
        return float(np.sqrt(((influence / noise) ** 2).reshape(-1, batches).sum(axis=0).max()))
    left = np.append(np.cumsum((noise**2)[::-1])[::-1], 0.0)
    found = 0.0
    for j in sorted({0, batches // 2, batches - 1}):
        corners: list[tuple[float, float]] = []
        total = 0.0
        for t in [*range(j, len(noise), batches), len(noise)]:
            point = (-float(left[t]), total)
            while len(corners) > 1 and _above(corners[-2], corners[-1], point):
                corners.pop()
            corners.append(point)
            total += float(influence[t]) if t < len(noise) else 0.0
        found = max(found, sum((b[1] - a[1]) ** 2 / (b[0] - a[0]) for a, b in pairwise(corners) if b[1] > a[1]))
    return math.sqrt(found)


def _above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (c[1] - b[1]) * (b[0] - a[0]) <= (b[1] - a[1]) * (c[0] - b[0])


def plan_walk(public: Public, family: Family | None, *, passes: int, step: float | None) -> Planned:
    """Best walk of a family in the model; the family None allows any number of passes up to `passes`.

    The result is deterministic, and a function of public facts alone.
    """
    snowball = isinstance(family, Snowball | SnowballJNN)
    candidates = _snowballs(public, family, step) if snowball else _decaying(public, family, passes, step)  # type: ignore[arg-type]
    return min(candidates, key=lambda planned: planned.risk)


def _firsts(public: Public, step: float | None) -> np.ndarray:
    """First steps to try, up to the largest one that contracts."""
    if step is not None:
        return np.array([step])
    return np.array([round_down(v) for v in public.cap * 2.0 ** (-0.75 * np.arange(15))])


def _steepest(public: Public, steps: np.ndarray, variance: np.ndarray) -> float:
    """First step for zero curvature: balance D^2/(2 eta S) and eta (noise + L^2 sum of squares)/(2 S)."""
    noise = public.size * variance.sum() + (public.slope * public.row) ** 2 * (steps**2).sum()
    return min(round_down(public.distance / math.sqrt(noise)), public.cap)


def _decaying(public: Public, family: Telescoped | Cyclic | None, passes: int, step: float | None) -> Iterator[Planned]:
    """Walks with falling steps over batches of equal size."""
    epochs = [e for e in _EPOCHS if e <= passes] if family is None else [getattr(family, "epochs", 1)]
    powers = _POWERS if getattr(family, "power", None) is None else (family.power,)  # type: ignore[union-attr]
    tau = 0.0 if isinstance(family, Telescoped) else getattr(family, "tau", None)
    taus = (1.0,) if public.every else _TAUS if tau is None else (tau,)
    fixed = family.batches if isinstance(family, Cyclic) else family.steps if family else None
    lengths = _lengths(public, _LENGTHS)
    shapes = sorted({(fixed or max(1, min(public.n, length // e)), e) for length in lengths for e in epochs})
    done: dict[tuple[int, float], Risk] = {}
    for (batches, e), power in product(shapes, powers):
        length, size = batches * e, public.n / batches
        u = (1.0 - np.arange(length) / length) ** power
        squares = u**2
        kinds = squares, squares - np.append(squares[1:], 0.0)
        firsts = _firsts(public, step) if public.curvature else np.ones(1)
        if public.curvature and (length, power) not in done:
            done[length, power] = risks(public, u, kinds, np.ones(length), firsts)
        for tau in taus:
            shape = np.sqrt(tau * kinds[0] + (1.0 - tau) * kinds[1])
            unit = public.sensitivity * unit_mu(public, u / size, shape, batches) / public.mu
            if public.curvature:
                noise = [unit**2 * tau, unit**2 * (1.0 - tau)]
                first, value = done[length, power].best(firsts, noise, size)
            else:
                first = step or _steepest(public, u, unit**2 * (tau * kinds[0] + (1 - tau) * kinds[1]))
                value = math.inf
            yield Planned(Walk(even_batches(public.n, batches), Growing(first, length, rate=-power), tau), value)


def _lengths(public: Public, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of steps to try. Noise costs a pass over the weights per step, so large models get fewer steps."""
    return tuple(k for k in lengths if k * public.size <= 2e7) or lengths[:1]


def _snowballs(public: Public, family: Snowball | SnowballJNN, step: float | None) -> Iterator[Planned]:
    """Walks over growing batches, with noise proportional to the steps."""
    halving = isinstance(family, SnowballJNN)

    def relative(length: int) -> np.ndarray:
        return jnn_steps(length) if halving else np.ones(length)

    if family.steps == "most":
        noise = public.slope * public.row / math.sqrt(public.size)
        factor = public.sensitivity / (public.mu * noise)
        lengths = [max(1, most_steps(public.n, lambda k: factor * _needs(relative(k), np.ones(k))))]
    elif family.steps is None:
        lengths = sorted({min(public.n, k) for k in _lengths(public, (100, 300, 1000, 3000))})
    else:
        lengths = [int(family.steps)]
    for length in lengths:
        u = relative(length)
        sizes = growing_batches(public.n, u, np.ones(length)).values()
        unit = public.sensitivity * unit_mu(public, u / sizes, u, length) / public.mu
        if public.curvature:
            firsts = _firsts(public, step)
            first, value = risks(public, u, (u**2,), sizes, firsts).best(firsts, [unit**2], 1.0)
        else:
            first, value = step or _steepest(public, u, unit**2 * u**2), math.inf
        contractions = np.maximum(1.0 - first * u * public.ridge, 0.0)
        batches = growing_batches(public.n, u, contractions)
        steps = Listed.of((first * u).tolist()) if halving else Constant(first, length)
        yield Planned(Walk(batches, steps, 1.0), value)
