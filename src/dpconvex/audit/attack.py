"""Attack a plan: run it many times on the worst neighbours its hypotheses allow, and bound its privacy from below."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.audit.bounds import above_curve, clopper_pearson, epsilon_at, gaussian_mu_lower, mu_between
from dpconvex.audit.mutants import NONE, Mutant
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.loops.rows import Dense
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source, Stream
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.privacy.claims import Scope
from dpconvex.privacy.profiles import GDP
from dpconvex.problem.domains import Everywhere
from dpconvex.problem.facts import Kind
from dpconvex.problem.losses import Linear

LEAST_RUNS = 1000
_BLOCK = 4096


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


@dataclass(frozen=True)
class _Pair:
    """Neighbouring data sets: equal rows, balanced labels, one label changed (or masked)."""

    plan: Plan
    rows: Dense
    plain: np.ndarray
    changed: np.ndarray
    record: int


def linear_pair(plan: Plan, record: int, mutant: Mutant = NONE) -> _Pair:
    """Worst neighbours for one record: linear losses of the largest slope, along one direction, on all of space.

    A linear loss is convex, as steep as the plan's facts allow and smoother than they ask, and dropping the
    projection only gives the attacker more: whatever the claim says of every such problem, it says of this one.
    """
    problem, n, d = plan.problem, plan.n, plan.d
    facts = problem.facts(n, d)
    steepness = facts[Kind.LIPSCHITZ].value / facts[Kind.ROW_BOUND].value
    attacked = replace(mutant.plan(plan), problem=replace(problem, loss=Linear(steepness), domain=Everywhere()))
    X = np.zeros((n, d))
    X[:, 0] = problem.feature_bound.l2(d)
    plain = np.where(np.arange(n) % 2 == record % 2, 1.0, -1.0)
    changed = plain.copy()
    changed[record] = -1.0 if plan.budget.relation == "replace_one" else 0.0
    rows = Dense(X, float(problem.feature_bound.l2(d)), problem.intercept)
    return _Pair(attacked, rows, mutant.labels(plain, record), mutant.labels(changed, record), record)


def attacked_records(plan: Plan) -> list[int]:
    """Positions worth attacking: where phases start and end, and the middle."""
    ends = {0, plan.n // 2, plan.n - 1}
    for phase in plan.schedule:
        ends |= {phase.records.start, phase.records.stop - 1}
    return sorted(ends)


def audit(
    plan: Plan, runs: int = 100_000, confidence: float = 0.99, seed: int = 0, mutant: Mutant = NONE
) -> AuditReport:
    """Attack a plan on its worst neighbours and report what the attack proves.

    Parameters
    ----------
    plan : Plan
    runs : int
        Runs on each of the two data sets; a tenth as many more choose the record and the thresholds beforehand.
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
    pairs = [linear_pair(plan, record, mutant) for record in attacked_records(plan)]
    mu, direction, pair = max(((*_best_test(pair, mutant), pair) for pair in pairs), key=lambda found: found[0])
    if mu == 0.0:
        return _report(plan, 0.0, 0.0, False, runs, confidence, "no record moves the output", seed)
    pilot = _sample_pair(pair, mutant, direction, max(runs // 10, LEAST_RUNS // 2), source, "pilot")
    plain, changed = _sample_pair(pair, mutant, direction, runs, source, "main")

    error = (1.0 - confidence) / 2.0  # half for the Gaussian bound, half for the thresholds
    mu_lower = max(0.0, gaussian_mu_lower(plain, changed, error))
    epsilon_lower = GDP(mu_lower).epsilon(plan.budget.delta)
    refuted = above_claim = False
    if isinstance(plan.claim.profile, GDP):
        refuted = mu_lower > plan.claim.profile.mu
    thresholds = _thresholds(*pilot, plan.budget.delta)
    for threshold in thresholds:
        share = error / (2.0 * len(thresholds))
        _, fpr = clopper_pearson(int((plain > threshold).sum()), runs, share)
        tpr, _ = clopper_pearson(int((changed > threshold).sum()), runs, share)
        for a, b in ((fpr, tpr), (1.0 - tpr, 1.0 - fpr)):  # the test, and the same test with the roles exchanged
            above_claim |= above_curve(a, b, plan.claim.delta)
            epsilon_lower = max(epsilon_lower, epsilon_at(a, b, plan.budget.delta))
        mu_lower = max(mu_lower, mu_between(fpr, tpr))
    words = f"linear pair, record {pair.record} of {plan.n}" + ("" if mutant is NONE else f", mutant: {mutant.name}")
    return _report(plan, epsilon_lower, mu_lower, refuted or above_claim, runs, confidence, words, seed)


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
        statistic="exact log-likelihood ratio of the linear pair",
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


def _best_test(pair: _Pair, mutant: Mutant) -> tuple[float, np.ndarray]:
    """Distance of the two laws in standard deviations, and the statistic that shows it.

    On the linear pair what is released is an affine function of the noise, so its mean and covariance can be read off
    noise-free runs and runs on unit vectors, and the log-likelihood ratio is linear along covariance^-1 (difference).
    """
    size = sum(math.prod(r.shape) for r in pair.plan.releases)
    plain = _run(pair, mutant, pair.plain, np.zeros(size))
    move = _run(pair, mutant, pair.changed, np.zeros(size)) - plain
    spread = np.array([_run(pair, mutant, pair.plain, unit) - plain for unit in np.eye(size)])
    direction = np.linalg.pinv(spread.T @ spread) @ move
    return math.sqrt(max(0.0, float(direction @ move))), direction


def _run(pair: _Pair, mutant: Mutant, y: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Everything the claim allows to be released by one run."""
    port = _ReplayPort(pair.plan, mutant.noise * noise)
    output = pair.plan.algorithm.execute(pair.plan, pair.rows, y, port)
    if pair.plan.claim.scope is Scope.EVERY:
        return np.concatenate([port.released(name).ravel() for name in port.close()])
    return mutant.released(port, output)


def _sample_pair(
    pair: _Pair, mutant: Mutant, direction: np.ndarray, runs: int, source: Source, name: str
) -> tuple[np.ndarray, np.ndarray]:
    return (
        _sample(pair, mutant, pair.plain, direction, runs, source.stream(f"{name} plain")),
        _sample(pair, mutant, pair.changed, direction, runs, source.stream(f"{name} changed")),
    )


def _sample(pair: _Pair, mutant: Mutant, y: np.ndarray, direction: np.ndarray, runs: int, stream: Stream) -> np.ndarray:
    size = sum(math.prod(r.shape) for r in pair.plan.releases)
    out = np.empty(runs)
    for start in range(0, runs, _BLOCK):
        block = standard_normal(stream, (min(_BLOCK, runs - start), size))
        for i, noise in enumerate(block, start):
            out[i] = direction @ _run(pair, mutant, y, noise)
    return out
