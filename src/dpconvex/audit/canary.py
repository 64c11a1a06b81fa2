"""One run, many canaries: an audit of a fit that is too expensive to repeat."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpconvex.audit.bounds import one_run_mu_lower, one_run_p_value
from dpconvex.audit.report import finite
from dpconvex.audit.stated import read_claim
from dpconvex.data.arrays import open_rows
from dpconvex.errors import InputError, NotPrivateWarning
from dpconvex.kernel.claims import Release
from dpconvex.noise.source import Source
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.sums.matrix import Matrix

_POINTS = 10


@dataclass(frozen=True)
class CanaryReport:
    """What one run gave away about records that coins had set."""

    name: str
    relation: str
    canaries: int
    correct: int
    guesses: int
    claimed_epsilon: float
    claimed_mu: float
    mu_lower: float
    epsilon_lower: float
    refuted: bool
    delta: float
    confidence: float
    seed: int

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        return (
            f"{verdict} at confidence {self.confidence:g} by one run: {self.correct} of {self.guesses} guesses about "
            f"{self.canaries} canaries are right; claimed epsilon {self.claimed_epsilon:.4f} at delta {self.delta:g}, "
            f"found {self.epsilon_lower:.4f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {k: finite(v) for k, v in asdict(self).items()}


def audit_once(
    plan: Plan,
    canaries: int,
    *,
    data: tuple[Any, Any] | None = None,
    guesses: int | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    noise: float = 1.0,
) -> CanaryReport:
    """Run a plan once on data in which coins chose some records, and count how many coins the weights give away.

    Each canary is a row at the bound, in a direction of its own as far as there are dimensions, that a coin turned
    round (or masked, under zero_out). The sign of its prediction is the guess. Steinke, Nasr and Jagielski (2023) bound
    how many guesses can be right; with few dimensions canaries get in each other's way, and `audit`, which repeats the
    run, sees far more.

    Parameters
    ----------
    plan : Plan
        For as many records as the data has, canaries included.
    canaries : int
        How many of the first records are replaced by canaries.
    data : (X, y), optional
        The other records; by default rows of 0.
    guesses : int, optional
        How many coins are guessed, those with the clearest predictions; by default all.
    confidence, seed
        As in `audit`.
    noise : float
        Factor on all noise, to see what a broken run would show.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=300, d=200, budget=dc.Budget(2.0, 1e-5))
    >>> audit_once(plan, 200).refuted, audit_once(plan, 200, noise=0.05).refuted
    (False, True)
    """
    claim = read_claim(plan)
    if isinstance(canaries, bool) or not isinstance(canaries, int | np.integer) or not 1 <= canaries <= plan.n:
        raise InputError(f"canaries must be a whole number from 1 to n = {plan.n}, got {canaries!r}")
    guesses = int(canaries) if guesses is None else guesses
    if isinstance(guesses, bool) or not isinstance(guesses, int | np.integer) or not 1 <= guesses <= canaries:
        raise InputError(f"guesses must be a whole number from 1 to canaries = {canaries}, got {guesses!r}")
    if not 0.5 <= confidence < 1.0:
        raise InputError(f"confidence must lie in [0.5, 1), got {confidence}")
    error = 1.0 - confidence
    if 2.0**-guesses > error / _POINTS:
        needed = math.ceil(math.log2(_POINTS / error))
        raise InputError(
            f"{guesses} guesses cannot refute anything at confidence {confidence:g}: take at least {needed}"
        )
    rng = np.random.default_rng(seed)
    X, y = _data(plan, data)
    directions = _directions(plan, int(canaries), rng)
    coins = rng.integers(0, 2, int(canaries)).astype(bool)
    X[:canaries] = np.where(coins[:, None], directions, -directions if claim.relation == "replace_one" else 0.0)
    traits = plan.problem.loss.traits
    y[:canaries] = 0.0 if traits.labels == "class" else traits.target
    weights = _weights(plan, X, y, seed, noise)
    scores = directions @ (weights[0] if weights.ndim == 2 else weights)[: plan.d]
    if claim.relation != "replace_one":  # masked canaries score 0, the others more: split in the middle
        order = np.sort(scores)
        scores -= (order[: len(order) // 2].mean() + order[-(len(order) // 2) :].mean()) / 2.0
    clearest = np.argsort(-np.abs(scores))[:guesses]
    correct = int(((scores > 0.0) == coins)[clearest].sum())
    eps = claim.epsilon
    grid = np.linspace(0.0, eps if math.isfinite(eps) else 10.0, _POINTS)
    p_value = min(
        one_run_p_value(correct, int(guesses), int(canaries), float(e), claim.profile.delta(float(e))) for e in grid
    )
    low = 0.0
    for e in np.linspace(0.0, 20.0, 401)[1:]:
        if one_run_p_value(correct, int(guesses), int(canaries), float(e), claim.delta) <= error:
            low = float(e)
    return CanaryReport(
        type(plan.algorithm).__name__, claim.relation, int(canaries), correct, int(guesses), eps, claim.mu,
        one_run_mu_lower(correct, int(guesses), int(canaries), error), low, p_value <= error / _POINTS, claim.delta,
        confidence, int(seed),
    )  # fmt: skip


def _data(plan: Plan, data: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    if data is None:
        label = 0.0 if plan.problem.loss.traits.labels != "sign" else 1.0
        return np.zeros((plan.n, plan.d)), np.full(plan.n, label)
    rows, _ = open_rows(*data, plan.problem, plan.n, plan.d)
    Matrix(rows, plan.n)
    X = data[0].toarray() if hasattr(data[0], "toarray") else np.array(data[0], dtype=float)
    return X, np.array(data[1], dtype=float)


def _directions(plan: Plan, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows at the bound: orthogonal ones first, a new random frame for every d of them."""
    frames = [np.linalg.qr(rng.normal(size=(plan.d, plan.d)))[0] for _ in range(math.ceil(count / plan.d))]
    return np.asarray(plan.problem.feature_bound.l2(plan.d) * np.concatenate(frames)[:count])


class _ScaledPort(NoisePort):
    """A port whose noise is multiplied."""

    exact = False
    factor = 1.0

    def _largest(self, release: Release, value: np.ndarray) -> int:
        return super()._largest(release, value / self.factor) if self.factor else int(np.argmax(value))

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        return self.factor * super()._draw(name, law, shape)


def _weights(plan: Plan, X: np.ndarray, y: np.ndarray, seed: int, noise: float) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        port = _ScaledPort(plan.claim, Source(seed))
    port.factor = noise
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    port.close()
    return plan.algorithm.finish(plan, port)
