"""Populations whose metrics are known by quadrature, to draw people from."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import norm

import dpconvex as dc
from dpconvex.estimators.evaluate import CURVE
from dpconvex.queries.records import BINS

GRID = np.linspace(-12.0, 14.0, 400_001)
STEP = GRID[1] - GRID[0]
CAP = math.log(100.0)


@dataclass(frozen=True)
class TwoClasses:
    """A score that is N(apart, 1) in the second class, a share of all, and N(0, 1) in the first; a model a bit off."""

    share: float
    apart: float

    problem = dc.Problem(dc.losses.Logistic(), feature_bound=20.0, intercept=1.0)
    metrics = ("accuracy", "log_loss", "auc", "calibration")
    counted = ("brier", "recall", "precision", "specificity", "balanced_accuracy", "pr_auc")

    @property
    def weights(self):
        odds = math.log(self.share / (1.0 - self.share)) - self.apart**2 / 2.0
        return 0.8 * self.apart, odds + 0.2

    def draw(self, n, rng):
        positive = rng.random(n) < self.share
        return (rng.normal(size=n) + self.apart * positive)[:, None], np.where(positive, 1.0, -1.0)

    def truth(self):
        first, second = (1.0 - self.share) * norm.pdf(GRID) * STEP, self.share * norm.pdf(GRID - self.apart) * STEP
        scores = self.weights[0] * GRID + self.weights[1]
        chances = expit(scores)

        def mean(of_first, of_second):
            return float((first * of_first + second * of_second).sum())

        return {
            "accuracy": mean(scores <= 0, scores > 0),
            "log_loss": mean(np.minimum(-np.log1p(-chances), CAP), np.minimum(-np.log(chances), CAP)),
            "auc": float(ndtr(self.apart / math.sqrt(2.0))),
            "calibration": mean(-chances, 1.0 - chances),
            "brier": mean(chances**2, (1.0 - chances) ** 2),
            **self._of_counts(first, second, scores),
        }

    def _of_counts(self, first, second, scores):
        yes = scores > 0
        recall, specificity = second[yes].sum() / second.sum(), first[~yes].sum() / first.sum()
        steps, caught = [], [0.0]
        for chance in (*sorted(CURVE, reverse=True), 0.0):  # the curve through the thresholds, from the highest on
            above = scores > (math.log(chance / (1.0 - chance)) if chance else -math.inf)
            steps.append(second[above].sum() / (first[above].sum() + second[above].sum()))
            caught.append(second[above].sum() / second.sum())
        middle = (np.array([steps[0], *steps[:-1]]) + steps) / 2.0
        return {
            "recall": float(recall),
            "precision": float(second[yes].sum() / (first[yes].sum() + second[yes].sum())),
            "specificity": float(specificity),
            "balanced_accuracy": float((recall + specificity) / 2.0),
            "pr_auc": float(np.diff(caught) @ middle),
        }

    def gaps(self):
        """Mean of outcome minus prediction in each bin, and the share of people there."""
        first, second = (1.0 - self.share) * norm.pdf(GRID) * STEP, self.share * norm.pdf(GRID - self.apart) * STEP
        chances = expit(self.weights[0] * GRID + self.weights[1])
        place = np.minimum((chances * BINS).astype(int), BINS - 1)
        held = np.bincount(place, first + second, BINS)
        return np.bincount(place, second * (1.0 - chances) - first * chances, BINS) / np.maximum(held, 1e-300), held


@dataclass(frozen=True)
class Numbers:
    """A target slope x + noise within [-1, 1], x uniform, and a model a bit off; everything clipped as declared."""

    slope: float
    scatter: float

    problem = dc.Problem(dc.losses.Squared(), feature_bound=1.0, intercept=0.5)
    metrics = ("mse", "mae", "r2")

    @property
    def weights(self):
        return 0.9 * self.slope, 0.05

    def draw(self, n, rng):
        x = rng.uniform(-1.0, 1.0, n)
        return x[:, None], self.slope * x + self.scatter * rng.normal(size=n)

    def truth(self):
        x, z = np.meshgrid((np.arange(2000) + 0.5) / 1000.0 - 1.0, np.linspace(-8.0, 8.0, 2001))
        held = norm.pdf(z)
        y = np.clip(self.slope * x + self.scatter * z, -1.0, 1.0)
        errors = y - np.clip(self.weights[0] * x + 0.5 * self.weights[1], -1.0, 1.0)

        def mean(values):
            return float(np.average(values, weights=held))

        mse = mean(errors**2)
        return {"mse": mse, "mae": mean(np.abs(errors)), "r2": 1.0 - mse / mean((y - mean(y)) ** 2)}


CLASSES = {
    f"{kind}, share {share:g}": TwoClasses(share, apart)
    for kind, apart in (("good", 2.0), ("middling", 0.7))
    for share in (0.5, 0.1)
}
TARGETS = {"good": Numbers(0.7, 0.2), "middling": Numbers(0.3, 0.3)}
POPULATIONS = {**CLASSES, **{f"numbers, {name}": population for name, population in TARGETS.items()}}
