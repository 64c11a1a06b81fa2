"""From two samples of a statistic to what they prove about a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpconvex.algorithms.attacks import Statistic
from dpconvex.audit.bounds import (
    THRESHOLDS,
    clopper_pearson,
    epsilon_at,
    gaussian_mu_lower,
    mu_between,
)
from dpconvex.audit.stated import Stated
from dpconvex.kernel.profiles import GDP, gaussian_delta

_MOST_MU = 1e4
LAW, VARIATION, CURVE = "law of the statistic", "total variation", "error rates"


@dataclass(frozen=True)
class Evidence:
    """Bounds that hold together: rates (fpr at most, tpr at least) of some tests, and mu of a Gaussian statistic."""

    rates: tuple[tuple[float, float], ...]
    mu: float = 0.0

    def delta(self, epsilon: float) -> float:
        """Lower bound on the delta of the mechanism at that epsilon."""
        best = gaussian_delta(epsilon, self.mu) if self.mu else 0.0
        for fpr, tpr in self.rates:
            best = max(best, tpr - math.exp(epsilon) * fpr)
        return best

    def epsilon(self, delta: float) -> float:
        """Lower bound on the epsilon of the mechanism at that delta."""
        best = max((epsilon_at(*rates, delta) for rates in self.rates), default=0.0)
        return max(best, GDP(self.mu).epsilon(delta)) if self.mu else best

    @property
    def mu_lower(self) -> float:
        """Lower bound on mu, if the mechanism is mu-GDP at all."""
        return min(max([self.mu, *(mu_between(*rates) for rates in self.rates)]), _MOST_MU)


@dataclass(frozen=True)
class Judgement:
    """What the evidence says about a claim: the two curves on a grid, and which checks refute it."""

    curve: tuple[tuple[float, float, float], ...]
    caught: tuple[str, ...] = field(default=())


def weigh(
    pilot: tuple[np.ndarray, np.ndarray], sample: tuple[np.ndarray, np.ndarray], delta: float, error: float, law: str
) -> Evidence:
    """Bounds from a sample, at thresholds that the pilot fixed; all hold but for a probability of `error`.

    law: "gaussian" if both sides of the statistic are normal with one variance, else "any".
    """
    plain, changed = sample
    mu = 0.0
    if law == "gaussian":
        mu = min(max(0.0, gaussian_mu_lower(plain, changed, error / 2.0)), _MOST_MU)
    rates: list[tuple[float, float]] = []
    for threshold in thresholds(*pilot, delta):
        share = error / (4.0 * THRESHOLDS)
        _, fpr = clopper_pearson(int((plain > threshold).sum()), len(plain), share)
        tpr, _ = clopper_pearson(int((changed > threshold).sum()), len(changed), share)
        rates += [(fpr, tpr), (1.0 - tpr, 1.0 - fpr)]  # the test, and the same test with the roles exchanged
    return Evidence(tuple(rates), mu)


def thresholds(plain: np.ndarray, changed: np.ndarray, delta: float) -> list[float]:
    """Thresholds fixed on the pilot: two for total variation, one for the largest epsilon at delta."""
    middle = float(plain.mean() + changed.mean()) / 2.0
    grid = np.unique(np.quantile(np.concatenate([plain, changed]), np.linspace(0.0, 1.0, 401)[1:-1]))
    grid = (grid[1:] + grid[:-1]) / 2.0 if len(grid) > 1 else grid  # between values: outputs may be few
    above = [[int((side > t).sum()) for t in grid] for side in (plain, changed)]
    gaps = np.array(above[1]) / len(changed) - np.array(above[0]) / len(plain)

    def found(i: int) -> float:
        _, fpr = clopper_pearson(above[0][i], len(plain), 0.01)
        tpr, _ = clopper_pearson(above[1][i], len(changed), 0.01)
        return max(epsilon_at(fpr, tpr, delta), epsilon_at(1.0 - tpr, 1.0 - fpr, delta))

    best = max(range(len(grid)), key=found)
    return list(dict.fromkeys([middle, float(grid[int(gaps.argmax())]), float(grid[best])]))


def judge(claim: Stated, evidence: Sequence[Evidence]) -> Judgement:
    """Compare with the whole claimed curve, from total variation at epsilon 0 to the largest epsilon found."""
    top = 0.0
    for fpr, tpr in (rates for e in evidence for rates in e.rates):
        if tpr > fpr:
            top = max(top, math.log(tpr / fpr) if fpr > 0.0 else 50.0)
    eps = claim.epsilon
    top = min(max(top, 1.25 * eps if math.isfinite(eps) else 0.0, 0.1), 50.0)
    count, step = (200, 5) if isinstance(claim.profile, GDP) else (24, 1)  # other curves take longer to evaluate
    curve, caught = [], set()
    for i, e in enumerate(np.linspace(0.0, top, count + 1).tolist()):
        claimed = claim.profile.delta(e)
        found = max(item.delta(e) for item in evidence)
        if i % step == 0:
            curve.append((e, claimed, max(found, 0.0)))
        if any(item.mu and gaussian_delta(e, item.mu) > claimed for item in evidence):
            caught.add(LAW)
        if any(Evidence(item.rates).delta(e) > claimed for item in evidence):
            caught.add(VARIATION if e == 0.0 else CURVE)
    return Judgement(tuple(curve), tuple(name for name in (LAW, VARIATION, CURVE) if name in caught))


def learn_statistic(plain: np.ndarray, changed: np.ndarray) -> tuple[Statistic, str]:
    """The best of a few statistics on a pilot: Fisher's direction, each coordinate, and how far out the output lies."""
    pooled = (np.cov(plain, rowvar=False) + np.cov(changed, rowvar=False)).reshape(plain.shape[1], -1) / 2.0
    centre = (plain.mean(axis=0) + changed.mean(axis=0)) / 2.0
    move = changed.mean(axis=0) - plain.mean(axis=0)
    direction = np.linalg.pinv(pooled, hermitian=True) @ move
    scale = np.sqrt(np.maximum(np.diag(pooled), 1e-300))
    options: list[tuple[str, Statistic]] = [("linear discriminant", lambda out: out @ direction)]
    for j in range(min(plain.shape[1], 50)) if plain.shape[1] > 1 else ():
        sign = 1.0 if move[j] >= 0.0 else -1.0
        options.append((f"coordinate {j}", lambda out, j=j, sign=sign: sign * out[:, j]))  # type: ignore[misc]
    options.append(("distance from the centre", lambda out: np.linalg.norm((out - centre) / scale, axis=1)))
    options.append(("nearness to the centre", lambda out: -np.linalg.norm((out - centre) / scale, axis=1)))

    def separation(option: tuple[str, Statistic]) -> float:
        a, b = np.sort(option[1](plain)), np.sort(option[1](changed))
        cuts = np.concatenate([a, b])
        return float(np.max(np.searchsorted(a, cuts, "right") / len(a) - np.searchsorted(b, cuts, "right") / len(b)))

    words, statistic = max(options, key=separation)
    return statistic, words
