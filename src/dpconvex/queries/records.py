"""The sums over records from which metrics are computed, in the protocol of `dpconvex.sums`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.plan.plan import probabilities
from dpconvex.problem.losses import Loss, log_odds
from dpconvex.theorems.evaluation import CLASS_FACTOR, COUNT_FACTOR, SPREAD_FACTOR

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Part

BINS = 10  # of predicted probability, equally wide
_OCTAVES, _STEPS = 52, 512  # of scores that are distinguished: factors of two, and steps in each
_HALF = _OCTAVES * _STEPS  # the number of bins of scores below 0, and above


def mean_sums(r: np.ndarray) -> np.ndarray:
    """Sums of r and of 1 - r^2, with r clipped to [-1, 1].

    Examples
    --------
    >>> mean_sums(np.array([1.0, -0.5, 3.0]))
    array([1.5 , 0.75])
    """
    r = np.clip(r, -1.0, 1.0)
    return np.array([r.sum(), (1.0 - r * r).sum()])


def rank_sums(counts: np.ndarray) -> np.ndarray:
    """The sums of `ranking_sums`: the balance of the classes, pairs in the right order, and squared ranks.

    `counts` holds the number of records of the first class (row 0) and of the second (row 1) at each score, in
    ascending order; records at the same score are ties.

    Examples
    --------
    >>> rank_sums(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])).round(3)
    array([-0.354,  0.5  ,  0.25 ])
    """
    low, high = counts
    n, of_high, of_low = counts.sum(), _ranks(low), -_ranks(high)
    squares = high @ np.square(of_high / n) + low @ np.square(of_low / n)
    return np.array([CLASS_FACTOR * (high.sum() - n / 2.0), high @ of_high / (n - 1.0), SPREAD_FACTOR * squares])


def _ranks(others: np.ndarray) -> np.ndarray:
    """For each score, half the number of others below it minus half the number above."""
    return np.asarray(np.cumsum(others) - 0.5 * (others + others.sum()))


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Counts of the records of each class at each score, for `rank_sums`; scores are rounded to public values.

    Scores of size at most `reach` fall into bins of 1/512 of a factor of two, down to 2^-52 of `reach`. Records whose
    scores share a bin count as ties: only the order within a bin is lost.

    Examples
    --------
    >>> from dpconvex.sums.protocol import Part
    >>> counts = ScoreCounts(np.ones(1), reach=4.0)
    >>> part = Part((np.array([-4.0, 0.0, 3.0, 3.001]),), np.array([-1.0, 1.0, 1.0, -1.0]), None, (), np)
    >>> [np.flatnonzero(row).tolist() for row in counts.sum(part)]
    [[0, 52993], [26624, 52993]]
    """

    w: np.ndarray
    reach: float

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """The weights whose predictions are needed."""
        return (self.w,)

    def sum(self, part: Part) -> np.ndarray:
        """Return the counts of these records: an array of shape (2, bins)."""
        place, xp = self._places(part.Z[0], part.xp), part.xp
        both = (2 * _HALF + 1) * (part.y > 0) + place
        return np.asarray(xp.bincount(both, minlength=2 * (2 * _HALF + 1)), dtype=float).reshape(2, -1)

    def _places(self, scores: Any, xp: Any) -> Any:
        """Number of the bin of each score: a monotone function of it."""
        part, octave = xp.frexp(xp.abs(scores) / (self.reach or 1.0))  # |score| = part 2^octave, part from 1/2 to 1
        step = (octave + (_OCTAVES - 1)) * _STEPS + xp.floor((part - 0.5) * (2 * _STEPS)) + 1
        step = xp.where(part == 0.0, 0.0, xp.clip(step, 0.0, _HALF))
        return _HALF + (xp.sign(scores) * step).astype(int)


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers of records of the first class (row 0) and of the second (row 1) between public thresholds."""

    loss: Loss
    w: np.ndarray
    thresholds: tuple[float, ...]

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """The weights whose predictions are needed."""
        return (self.w,)

    def sum(self, part: Part) -> np.ndarray:
        """Return the counts of these records; a record at a threshold is below it."""
        odds, ends = log_odds(self.loss, part.Z[0]), np.array(self.thresholds)
        if self.loss.traits.probabilities:
            ends = np.log(ends) - np.log1p(-ends)
        bins = len(ends) + 1
        place = bins * (part.y > 0) + part.xp.searchsorted(ends, odds)
        return np.asarray(part.xp.bincount(place, minlength=2 * bins), dtype=float).reshape(2, bins)


@dataclass(frozen=True, eq=False)
class Scored:
    """The contribution of each record to the sums of a metric, from its predictions and its label."""

    metric: str
    loss: Loss
    w: np.ndarray
    floor: float
    ratio: float = 0.0  # of an R^2 found before: mean squared error over variance
    middle: float = 0.0  # mean of the target
    numbered: bool = False  # with the number of records, where that is not public

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """The weights whose predictions are needed."""
        return (self.w,)

    def sum(self, part: Part) -> np.ndarray:
        """Return the sums over these records."""
        (scores,), y = part.Z, part.y
        if self.metric == "calibration bins":
            return bin_sums(probabilities(self.loss, scores), y > 0)
        if self.metric in ("r2", "r2 spread"):
            truth, errors = self._errors(scores, y)
            if self.metric == "r2":
                return np.array([(errors**2 / 2.0 - 1.0).sum(), *mean_sums(truth)])
            # How far records scatter: the square of the influence function of R^2.
            influence = (errors**2 - self.ratio * (truth - self.middle) ** 2) / (4.0 * max(1.0, self.ratio))
            return mean_sums(2.0 * influence**2 - 1.0)[:1]
        sums = mean_sums(self._quantity(scores, y))
        if self.numbered:
            return np.array([COUNT_FACTOR * len(y), *sums])
        return sums[:1] if self.metric == "accuracy" else sums

    def _quantity(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What a metric is the mean of, scaled to [-1, 1]."""
        if self.metric == "accuracy":
            return np.where(_right(self.loss, scores, y), 1.0, -1.0)
        if self.metric == "log_loss":
            return self._log_losses(scores, y)
        if self.metric == "calibration":
            return (y > 0) - probabilities(self.loss, scores)
        if self.metric == "brier":
            return self._briers(scores, y)
        errors = self._errors(scores, y)[1]
        return errors**2 / 2.0 - 1.0 if self.metric == "mse" else np.abs(errors) - 1.0

    def _errors(self, scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Targets and errors, in units of half the range."""
        target = float(self.loss.target)  # type: ignore[union-attr]
        truth = y / target
        return truth, truth - np.clip(scores, -target, target) / target

    def _briers(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Squared error of the probability of the second class, or of those of all, scaled to [-1, 1]."""
        chances = probabilities(self.loss, scores)
        if chances.ndim == 1:
            return 2.0 * ((y > 0) - chances) ** 2 - 1.0
        own = chances[np.arange(len(y)), y.astype(int)]
        return np.asarray(np.einsum("ij,ij->i", chances, chances) - 2.0 * own)

    def _log_losses(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log-loss of each record, with its range from 0 to -ln(floor) scaled to [-1, 1]."""
        chances = probabilities(self.loss, scores)
        if chances.ndim == 2:
            own = chances[np.arange(len(y)), y.astype(int)]
        else:
            own = np.where(y > 0, chances, 1.0 - chances)
        return 2.0 * np.log(np.maximum(own, self.floor)) / math.log(self.floor) - 1.0


def bin_sums(chances: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Sums of COUNT_FACTOR, r and 1 - r^2 in each bin of probability, where r is the outcome minus the probability.

    Examples
    --------
    >>> bin_sums(np.array([0.05, 0.05]), np.array([False, True]))[0].round(4)
    array([1.  , 0.9 , 1.095])
    """
    r = positive - chances
    place = np.minimum((chances * BINS).astype(int), BINS - 1)
    terms = (np.full(len(r), COUNT_FACTOR), r, 1.0 - r * r)
    return np.column_stack([np.bincount(place, weights=term, minlength=BINS) for term in terms])


def _right(loss: Loss, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether the predicted class is that of each record."""
    return np.asarray(scores.argmax(axis=1) == y if loss.traits.outputs > 1 else (scores > 0) == (y > 0))
