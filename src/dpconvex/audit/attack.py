"""Attack a plan: run it many times on the worst neighbours its hypotheses allow, and bound its privacy from below."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex.audit.bounds import above_curve, clopper_pearson, epsilon_at, gaussian_mu_lower, mu_between
from dpconvex.audit.mutants import NONE, Mutant
from dpconvex.audit.neighbours import Data, Pair, pairs
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source, Stream
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.privacy.claims import Scope
from dpconvex.privacy.profiles import GDP

LEAST_RUNS = 1000
_BLOCK = 4096
Statistic = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class AuditReport:
    """What the attack found. `refuted` means: at this confidence, the claim is false.

    `mu_lower` and `epsilon_lower` are lower bounds on the privacy parameters of the mechanism. On the linear pair the
    output of a Gaussian mechanism is exactly Gaussian, the log-likelihood ratio is linear in it, and the bound is the
    one for two Gaussians; `refuted` also tests error rates at thresholds fixed in advance, for which no law is
    assumed, against the whole claimed curve.
    """

    claimed_epsilon: float
    claimed_mu: float
    epsilon_lower: float
    mu_lower: float
    refuted: bool
    delta: float
    runs: int
    confidence: float
    neighbours: str
    statistic: str
    seed: int

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        return (
            f"{verdict} at confidence {self.confidence:g}: claimed mu {self.claimed_mu:.4f}, found {self.mu_lower:.4f} "
            f"(ratio {self.mu_lower / self.claimed_mu:.3f}); claimed epsilon {self.claimed_epsilon:.4f} at delta "
            f"{self.delta:g}, found {self.epsilon_lower:.4f}; {self.runs} runs a side, {self.neighbours}"
        )


class _ReplayPort(NoisePort):
    """A port that takes its noise from a block drawn for many runs, so that a run costs microseconds."""

    def __init__(self, plan: Plan, noise: np.ndarray) -> None:
        super().__init__(plan.claim, None)  # type: ignore[arg-type]
        self._left, self._at = noise, 0

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        size = math.prod(shape)
        self._at += size
        return self._left[self._at - size : self._at].reshape(shape)


def audit(
    plan: Plan, runs: int = 100_000, confidence: float = 0.99, seed: int = 0, mutant: Mutant = NONE
) -> AuditReport:
    """Attack a plan on its worst neighbours and report what the attack proves.

    Parameters
    ----------
    plan : Plan
    runs : int
        Runs on each of the two data sets; a tenth as many more fix the thresholds beforehand.
    confidence : float
        Probability with which every bound in the report holds together.
    seed : int
        Seed of the noise: audits are repeatable and release nothing about anybody.
    mutant : Mutant
        Break the run on purpose, to see whether the attack notices.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=20, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> dc.audit.audit(plan, runs=2000).refuted
    False
    >>> dc.audit.audit(plan, runs=2000, mutant=dc.audit.Mutant("half the noise", noise=0.5)).refuted
    True
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise InputError(f"runs must be a whole number of at least {LEAST_RUNS}, got {runs!r}")
    if not 0.5 <= confidence < 1.0:
        raise InputError(f"confidence must lie in [0.5, 1), got {confidence}")
    with warnings.catch_warnings():  # nothing private is released: the data is made up
        warnings.simplefilter("ignore", NotPrivateWarning)
        source = Source(seed)
    tried = pairs(plan, mutant)
    affine = [(*_best_test(pair, mutant), pair) for pair in tried if pair.statistic is None]
    attacks = [max(affine, key=lambda found: found[0])[1:]] if affine else []
    attacks += [(pair.statistic, pair) for pair in tried if pair.statistic is not None]
    found = [
        _attack(plan, pair, statistic, mutant, runs, (1.0 - confidence) / len(attacks), source)
        for statistic, pair in attacks
    ]
    words = " and ".join(pair.words for _, pair in attacks) + ("" if mutant is NONE else f", mutant: {mutant.name}")
    epsilon, mu, refuted = (max(column) for column in zip(*found, strict=True))
    return _report(plan, epsilon, mu, bool(refuted), runs, confidence, words, seed)


def _attack(
    plan: Plan, pair: Pair, statistic: Statistic, mutant: Mutant, runs: int, error: float, source: Source
) -> tuple[float, float, bool]:
    """Lower bounds on epsilon and mu, and whether the claim is refuted, wrong with probability at most `error`."""
    pilot = _sample_pair(pair, mutant, statistic, max(runs // 10, LEAST_RUNS // 2), source, f"{pair.words}, pilot")
    plain, changed = _sample_pair(pair, mutant, statistic, runs, source, pair.words)
    delta = plan.budget.delta
    mu_lower = epsilon_lower = 0.0
    refuted = False
    if pair.statistic is None:  # Gaussian outputs
        mu_lower = min(max(0.0, gaussian_mu_lower(plain, changed, error / 2.0)), 1e4)
        epsilon_lower = GDP(mu_lower).epsilon(delta)
        refuted = epsilon_lower > plan.claim.epsilon(delta)
    points = 200 if isinstance(plan.claim.profile, GDP) else 25  # a curve takes longer to evaluate
    thresholds = _thresholds(*pilot, delta)
    for threshold in thresholds:
        share = error / (4.0 * len(thresholds))
        _, fpr = clopper_pearson(int((plain > threshold).sum()), runs, share)
        tpr, _ = clopper_pearson(int((changed > threshold).sum()), runs, share)
        for a, b in ((fpr, tpr), (1.0 - tpr, 1.0 - fpr)):  # the test, and the same test with the roles exchanged
            refuted |= above_curve(a, b, plan.claim.delta, points)
            epsilon_lower = max(epsilon_lower, epsilon_at(a, b, delta))
        mu_lower = max(mu_lower, mu_between(fpr, tpr))
    return epsilon_lower, mu_lower, refuted


def _report(
    plan: Plan, epsilon: float, mu: float, refuted: bool, runs: int, confidence: float, words: str, seed: int
) -> AuditReport:
    profile = plan.claim.profile
    return AuditReport(
        claimed_epsilon=plan.claim.epsilon(plan.budget.delta),
        claimed_mu=profile.mu if isinstance(profile, GDP) else math.nan,
        epsilon_lower=epsilon,
        mu_lower=mu,
        refuted=refuted,
        delta=plan.budget.delta,
        runs=runs,
        confidence=confidence,
        neighbours=words,
        statistic="exact log-likelihood ratio",
        seed=seed,
    )


def _thresholds(plain: np.ndarray, changed: np.ndarray, delta: float) -> list[float]:
    """Thresholds fixed on the pilot: one for total variation, one for the largest epsilon at delta."""
    middle = float(plain.mean() + changed.mean()) / 2.0
    error = 0.01
    grid = np.quantile(changed, np.linspace(0.05, 0.995, 40))

    def found(t: float) -> float:
        _, fpr = clopper_pearson(int((plain > t).sum()), len(plain), error)
        tpr, _ = clopper_pearson(int((changed > t).sum()), len(changed), error)
        return epsilon_at(fpr, tpr, delta)

    return [middle, float(max(grid, key=found))]


def _best_test(pair: Pair, mutant: Mutant) -> tuple[float, Statistic]:
    """Distance of the two laws in standard deviations, and the statistic that shows it.

    Where what is released is an affine function of the noise, its mean and covariance can be read off noise-free runs
    and runs on unit vectors, and the log-likelihood ratio is linear along covariance^-1 (difference).
    """
    size = _noise_size(pair)
    plain = _run(pair, mutant, pair.plain, np.zeros(size))
    move = _run(pair, mutant, pair.changed, np.zeros(size)) - plain
    spread = np.array([_run(pair, mutant, pair.plain, unit) - plain for unit in np.eye(size)])
    direction = np.linalg.pinv(spread.T @ spread) @ move
    return math.sqrt(max(0.0, float(direction @ move))), lambda released: float(direction @ released)


def _noise_size(pair: Pair) -> int:
    return sum(r.times * math.prod(r.shape) for r in pair.plan.releases)


def _run(pair: Pair, mutant: Mutant, data: Data, noise: np.ndarray) -> np.ndarray:
    """Everything the claim allows to be released by one run."""
    port = _ReplayPort(pair.plan, mutant.noise * noise)
    pair.plan.algorithm.execute(pair.plan, *data, port)
    names = port.close()
    if mutant.averaged:
        return np.asarray(np.mean([port.released(name) for name in names], axis=0))
    if pair.plan.claim.scope is Scope.EVERY:
        return np.concatenate([port.history(name).ravel() for name in names])
    return pair.plan.algorithm.finish(pair.plan, port)


def _sample_pair(
    pair: Pair, mutant: Mutant, statistic: Statistic, runs: int, source: Source, name: str
) -> tuple[np.ndarray, np.ndarray]:
    return (
        _sample(pair, mutant, pair.plain, statistic, runs, source.stream(f"{name} plain")),
        _sample(pair, mutant, pair.changed, statistic, runs, source.stream(f"{name} changed")),
    )


def _sample(pair: Pair, mutant: Mutant, data: Data, statistic: Statistic, runs: int, stream: Stream) -> np.ndarray:
    out = np.empty(runs)
    for start in range(0, runs, _BLOCK):
        block = standard_normal(stream, (min(_BLOCK, runs - start), _noise_size(pair)))
        for i, noise in enumerate(block, start):
            out[i] = statistic(_run(pair, mutant, data, noise))
    return out
