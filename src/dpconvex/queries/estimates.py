"""From noisy sums to metrics: quotients and areas with intervals that account for noise and for sampling.

Proof: docs/proofs/evaluation.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

__all__ = ["Average", "Estimate", "Measured", "Metric", "PrecisionArea", "Threshold", "counted", "threshold"]

_CLEAR = 4.0  # standard deviations of the noise above which the first step of a curve has to be


class Metric(NamedTuple):
    """A metric as released, an interval for its value in the population, and the two parts of its standard error."""

    value: float
    low: float
    high: float
    noise_se: float
    sampling_se: float


class Measured(Protocol):
    """What becomes a metric."""

    def metric(self, confidence: float, offset: float = 0.0, factor: float = 1.0) -> Metric:
        """Return offset + factor x, with its interval."""


class Estimate(NamedTuple):
    """A quotient x = top / bottom within [least, most], where `top - x bottom` has mean 0 at the true x.

    Its variance there is a + b x^2, given as pairs (a, b), due to noise and due to sampling; `tilt` times x is added to
    that due to noise. The sampling variance is itself released with noise of standard deviation `blur`. What is
    measured is `middle` + x.
    """

    top: float
    bottom: float
    noise: tuple[float, float]
    sampling: tuple[float, float]
    least: float
    most: float
    blur: float = 0.0
    tilt: float = 0.0
    middle: float = 0.0

    def metric(self, confidence: float, offset: float = 0.0, factor: float = 1.0) -> Metric:
        """Return offset + factor (middle + x), with its interval."""
        offset += factor * self.middle
        if self.bottom <= 0.0:
            x, floor, scale = math.nan, 0.0, math.inf
        else:
            x, floor, scale = self.value, self._floor(), abs(factor) / self.bottom
        noise, sampling = (a + b * x * x for a, b in (self.noise, self.sampling))
        noise += self.tilt * x
        errors = (scale if math.isnan(x) else scale * math.sqrt(v) for v in (noise, max(floor, sampling)))
        ends = sorted(offset + factor * end for end in self._interval(float(ndtri(0.5 + confidence / 2.0))))
        return Metric(offset + factor * x, ends[0], ends[1], *errors)

    @property
    def value(self) -> float:
        """The quotient, clipped to its range."""
        return float(np.clip(self.top / self.bottom, self.least, self.most))

    def _floor(self) -> float:
        """Lower limit for the variance due to sampling: almost 0 unless noise may hide a variance that matters.

        Where `blur` exceeds the variance due to noise, a relevant variance of up to about 2 blur could be missed.
        """
        x = self.value
        hidden = (self.blur / (self.noise[0] + self.tilt * x + self.noise[1] * x * x)) ** 2
        return 2.0 * self.blur * hidden / (1.0 + hidden)

    def _interval(self, z: float) -> tuple[float, float]:
        """Every x in the range for which |top - x bottom| is at most z standard deviations (Fieller, Wilson).

        The variance due to sampling is the larger of two, so x may pass with either.
        """
        if self.bottom <= 0.0:
            return self.least, self.most
        a, b = self.noise
        variances = ((a + self._floor(), b), (a + self.sampling[0], b + self.sampling[1]))
        if any(self.bottom**2 <= z * z * slope for _, slope in variances):
            return self.least, self.most
        # Noise can take the quotient so far out of its range that the interval is empty: then start from its end.
        for top in (self.top, self.bottom * self.value):
            ends = [end for variance in variances for end in self._roots(top, variance, z)]
            low, high = max(min(ends), self.least), min(max(ends), self.most)
            if low <= high:
                break
        return low, high

    def _roots(self, top: float, variance: tuple[float, float], z: float) -> tuple[float, ...]:
        """Where (top - x bottom)^2 = z^2 (a + tilt x + b x^2), if anywhere."""
        a, b = variance
        lead, tilt = self.bottom**2 - z * z * b, z * z * self.tilt / 2.0
        square = (a * lead + b * top * top) * z * z + tilt * (2.0 * top * self.bottom + tilt)
        if square < 0.0:
            return ()
        return tuple((top * self.bottom + tilt + side * math.sqrt(square)) / lead for side in (-1.0, 1.0))


class Average(NamedTuple):
    """The mean of two quotients whose errors are independent."""

    first: Estimate
    second: Estimate

    def metric(self, confidence: float, offset: float = 0.0, factor: float = 1.0) -> Metric:
        """Return offset + factor x; the distances from the ends of both intervals add up as squares."""
        parts = [part.metric(confidence) for part in self]
        value, noise, sampling = 0.0, 0.0, 0.0
        below, above = 0.0, 0.0
        for m in parts:
            middle = 0.5 * (m.low + m.high) if math.isnan(m.value) else m.value
            value += 0.5 * middle
            noise, sampling = math.hypot(noise, 0.5 * m.noise_se), math.hypot(sampling, 0.5 * m.sampling_se)
            below, above = math.hypot(below, 0.5 * (middle - m.low)), math.hypot(above, 0.5 * (m.high - middle))
        known = value if not any(math.isnan(m.value) for m in parts) else math.nan
        ends = sorted(offset + factor * end for end in (value - below, value + above))
        return Metric(offset + factor * known, ends[0], ends[1], abs(factor) * noise, abs(factor) * sampling)


class PrecisionArea(NamedTuple):
    """Area under the curve of precision and recall, from numbers of records by class (rows) and threshold (columns).

    The curve goes in straight lines through the thresholds, and is level above the highest. Each number has noise of
    that standard deviation.
    """

    cells: np.ndarray
    noise: float

    def metric(self, confidence: float, offset: float = 0.0, factor: float = 1.0) -> Metric:
        """Return offset + factor x; thresholds from the highest on are joined until noise no longer rules them."""
        z, bins = float(ndtri(0.5 + confidence / 2.0)), self.cells.shape[1]
        every = float(self.cells[1].sum())
        if every <= 0.0 or every**2 <= (z * self.noise) ** 2 * bins:
            return Metric(math.nan, min(offset, offset + factor), max(offset, offset + factor), math.inf, math.inf)
        steps = self.cells[:, ::-1]
        joined = next((k for k in range(1, bins) if self._clear(steps[:, :k])), bins)
        steps = np.column_stack([steps[:, :joined].sum(axis=1), steps[:, joined:]])
        times = np.append(joined, np.ones(bins - joined))
        x, gradient = self._area(steps)
        noise = self.noise * math.sqrt(float((times * gradient**2).sum()))
        sampling = math.sqrt(float((np.maximum(steps, 0.0) * gradient**2).sum()))
        half = z * math.hypot(noise, sampling)
        room = 0.0 if joined == 1 else max(float(steps[1, 0]), 0.0) / every * (1.0 - self._precision(steps)[0])
        low, high = max(x - half, 0.0), min(x + room + half, 1.0)
        ends = sorted(offset + factor * end for end in (low, max(low, high)))
        return Metric(offset + factor * x, ends[0], ends[1], abs(factor) * noise, abs(factor) * sampling)

    def _clear(self, steps: np.ndarray) -> bool:
        return float(steps.sum()) >= _CLEAR * self.noise * math.sqrt(steps.size)

    def _precision(self, steps: np.ndarray) -> np.ndarray:
        upward = steps.cumsum(axis=1)
        total = upward.sum(axis=0)
        return np.clip(upward[1] / np.where(total > 0.0, total, math.inf), 0.0, 1.0)

    def _area(self, steps: np.ndarray) -> tuple[float, np.ndarray]:
        """The area, and its derivative by every number; precisions that noise takes out of [0, 1] stand still."""
        total, every = steps.cumsum(axis=1).sum(axis=0), float(steps[1].sum())
        precision = self._precision(steps)
        between = 0.5 * (precision + np.append(precision[0], precision[:-1]))
        x = float(steps[1] @ between) / every
        inside = (precision > 0.0) & (precision < 1.0) & (total > 0.0)
        weight = 0.5 * (steps[1] + np.append(steps[1, 1:], 0.0))
        weight[0] += 0.5 * steps[1, 0]
        slope = np.where(inside, weight / every / np.where(inside, total, 1.0), 0.0)
        later = [np.cumsum((slope * part)[::-1])[::-1] for part in (-precision, 1.0 - precision)]
        return min(max(x, 0.0), 1.0), np.stack([later[0], (between - x) / every + later[1]])


class Threshold(NamedTuple):
    """What a model does if it predicts the second class above that probability, or that score."""

    at: float
    flagged: Metric
    recall: Metric
    precision: Metric
    specificity: Metric
    balanced_accuracy: Metric


def threshold(at: float, cells: np.ndarray, noise: float, place: int, n: int, confidence: float) -> Threshold:
    """Describe the threshold at that place."""
    above, bins = float(cells[:, place + 1 :].sum()), cells.shape[1] - place - 1
    tau = noise * math.sqrt(2.0 * bins) / n
    flagged = Estimate(above / n - 0.5, 1.0, (tau**2, 0.0), (0.25 / n, -1.0 / n), -0.5, 0.5, middle=0.5)
    found = {
        name: counted(name, cells, noise, place).metric(confidence)
        for name in ("recall", "precision", "specificity", "balanced_accuracy")
    }
    return Threshold(at, flagged.metric(confidence), **found)


def counted(metric: str, cells: np.ndarray, noise: float, place: int) -> Measured:
    """Return what the numbers of records by class (rows) and threshold (columns) say about a metric.

    Examples
    --------
    >>> cells = np.array([[80.0, 20.0], [10.0, 30.0]])
    >>> [round(counted(name, cells, 0.1, 0).metric(0.95).value, 3) for name in ("recall", "precision")]
    [0.75, 0.6]
    """
    (low, high) = cells[:, : place + 1], cells[:, place + 1 :]
    if metric == "pr_auc":
        return PrecisionArea(cells, noise)
    if metric == "balanced_accuracy":
        return Average(_share(high[1], low[1], noise), _share(low[0], high[0], noise))
    sides = {"recall": (high[1], low[1]), "precision": (high[1], high[0]), "specificity": (low[0], high[0])}
    return _share(*sides[metric], noise)


def _share(yes: np.ndarray, no: np.ndarray, noise: float) -> Estimate:
    """The share of `yes` in both, from numbers that each have noise of their own."""
    a, b = yes.size, no.size
    top, every = float(yes.sum()), float(yes.sum() + no.sum())
    return Estimate(
        top - every / 2.0, every, (noise**2 * (a + b) / 4.0, noise**2 * (a + b)), (every / 4.0, -every), -0.5, 0.5,
        blur=noise * math.sqrt(a + b) / 4.0, tilt=noise**2 * (b - a),
        middle=0.5,
    )  # fmt: skip
