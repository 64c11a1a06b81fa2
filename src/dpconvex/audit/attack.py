"""Attack a plan: run it many times on the worst neighbours its hypotheses allow, and bound its privacy from below."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.attacks import NONE, Mutant, Pair, Statistic, own_pair, worst_pairs
from dpconvex.audit.function import LEAST_RUNS, check_options
from dpconvex.audit.measure import Evidence, learn_statistic, weigh
from dpconvex.audit.parallel import Mapper, mapping
from dpconvex.audit.replay import log_ratios, noise_size, run_once
from dpconvex.audit.report import AuditReport, conclude
from dpconvex.audit.stated import read_claim
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.noise.gaussian import standard_normal
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.sums.threads import one_blas_thread

_BLOCK = 4096


def audit(
    plan: Plan,
    runs: int = 100_000,
    confidence: float = 0.99,
    seed: int = 0,
    mutant: Mutant = NONE,
    *,
    neighbours: str = "worst",
    workers: int = 1,
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
    neighbours : {"worst", "own"}
        The worst that the hypotheses of the claim allow, in place of the plan's loss and domain if that is worse; or
        records at the bound under the plan's own loss and domain.
    workers : int
        Processes that share the runs; the result does not depend on it. More than one needs the usual guard
        `if __name__ == "__main__":` around a script.

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
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be a dpconvex plan, got {type(plan).__name__}; for a function see audit_function")
    claim = read_claim(plan)
    check_options(claim, runs, confidence, seed)
    if neighbours not in ("worst", "own"):
        raise InputError(f"neighbours must be 'worst' or 'own', got {neighbours!r}")
    tried = worst_pairs(plan, mutant) if neighbours == "worst" else [own_pair(plan, mutant)]
    plain = [pair.law == "gaussian" and not pair.transcript and pair.statistic is None for pair in tried]
    affine = [(*_best_test(pair, mutant), pair) for pair, is_plain in zip(tried, plain, strict=True) if is_plain]
    attacks: list[tuple[Statistic | None, Pair]] = []
    if affine:
        attacks.append(max(affine, key=lambda found: found[0])[1:])
    attacks += [(pair.statistic, pair) for pair, is_plain in zip(tried, plain, strict=True) if not is_plain]
    error = (1.0 - confidence) / len(attacks)
    with mapping(workers) as each:
        runner = _Runner(mutant, int(seed), each)
        found = [runner.attack(pair, statistic, int(runs), claim.delta, error) for statistic, pair in attacks]
    words = " and ".join(pair.words for _, pair in attacks) + ("" if mutant is NONE else f", mutant: {mutant.name}")
    return conclude(
        type(plan.algorithm).__name__, claim, found, runs=int(runs), confidence=confidence, neighbours=words,
        statistic="learnt on a pilot" if neighbours == "own" else "exact log-likelihood ratio",
        law="gaussian" if any(pair.law == "gaussian" for _, pair in attacks) else "any", seed=int(seed),
    )  # fmt: skip


@dataclass(frozen=True)
class _Runner:
    """Many runs of plans, broken as the mutant says."""

    mutant: Mutant
    seed: int
    each: Mapper

    def attack(self, pair: Pair, statistic: Statistic | None, runs: int, delta: float, error: float) -> Evidence:
        """Lower bounds from runs on a pair of data sets, wrong with probability at most `error`."""
        pilot = [self.sample(pair, side, max(runs // 10, LEAST_RUNS // 2), "pilot") for side in (0, 1)]
        if pair.transcript:
            statistic = _clearest(*pilot)
        elif statistic is None:
            statistic, _ = learn_statistic(*pilot)
        sample = [self.sample(pair, side, runs, "sample") for side in (0, 1)]
        return weigh(
            (statistic(pilot[0]), statistic(pilot[1])), (statistic(sample[0]), statistic(sample[1])), delta, error,
            pair.law,
        )  # fmt: skip

    def sample(self, pair: Pair, side: int, runs: int, name: str) -> np.ndarray:
        """Released values, a run a row; each block of runs has a stream of its own, whoever computes it."""
        block = max(64, min(_BLOCK, 2**20 // noise_size(pair.plan)))
        bare = replace(pair, statistic=None)  # another process needs the data and the plan only
        jobs = [
            (bare, side, self.mutant, self.seed, f"{pair.words}, {name} {side} from {at}", min(block, runs - at))
            for at in range(0, runs, block)
        ]
        return np.concatenate(list(self.each(_block, jobs)))


def _block(job: tuple[Pair, int, Mutant, int, str, int]) -> np.ndarray:
    pair, side, mutant, seed, name, runs = job
    with warnings.catch_warnings():  # nothing private is released: the data is made up
        warnings.simplefilter("ignore", NotPrivateWarning)
        stream = Source(seed).stream(name)
    noise = standard_normal(stream, (runs, noise_size(pair.plan)))
    data, other = (pair.plain, pair.changed) if side == 0 else (pair.changed, pair.plain)
    with one_blas_thread():  # once for all runs, each of which would see to it by itself
        if pair.transcript:
            sign = 1.0 if side == 0 else -1.0
            return sign * np.array([log_ratios(pair.plan, mutant, data, other, z) for z in noise])
        return np.array([run_once(pair.plan, mutant, data, z, pair.seen) for z in noise])


def _clearest(plain: np.ndarray, changed: np.ndarray) -> Statistic:
    """The column whose two laws are furthest apart: everything released, unless one release lacks its noise."""
    spread = np.sqrt((plain.var(axis=0) + changed.var(axis=0)) / 2.0)
    move = changed.mean(axis=0) - plain.mean(axis=0)
    distance = np.divide(move, spread, out=np.where(move > 0.0, np.inf, 0.0), where=spread > 1e-9 * np.abs(move))
    column = int(distance.argmax())
    return lambda released: released[:, column]


def _best_test(pair: Pair, mutant: Mutant) -> tuple[float, Statistic]:
    """Distance of the two laws in standard deviations, and the statistic that shows it.

    Where what is released is an affine function of the noise, its mean and covariance can be read off noise-free runs
    and runs on unit vectors, and the log-likelihood ratio is linear along covariance^-1 (difference). A difference in a
    direction without noise gives the data away: then that direction is the statistic.
    """
    size = noise_size(pair.plan)
    plain = run_once(pair.plan, mutant, pair.plain, np.zeros(size), pair.seen)
    move = run_once(pair.plan, mutant, pair.changed, np.zeros(size), pair.seen) - plain
    spread = np.array([run_once(pair.plan, mutant, pair.plain, unit, pair.seen) - plain for unit in np.eye(size)])
    variances, axes = np.linalg.eigh(spread.T @ spread)
    live = variances > 1e-14 * variances[-1]
    bare = move - axes[:, live] @ (axes[:, live].T @ move)
    if np.linalg.norm(bare) > 1e-6 * np.linalg.norm(move):
        return math.inf, lambda released: released @ bare
    direction = axes[:, live] @ ((axes[:, live].T @ move) / variances[live])
    return math.sqrt(max(0.0, float(direction @ move))), lambda released: released @ direction
