"""Pictures of the report: accuracy against epsilon, and how far a belief can move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpconvex.drawing import BLUE, DASHED, INK, ORANGE, RIGHT, Panel, picture, text, widened
from dpconvex.errors import InputError
from dpconvex.report.observer import belief


@dataclass(frozen=True)
class Curve:
    """Accuracy, or another score, at several budgets, with that of the same model without privacy and of a constant.

    Parameters
    ----------
    epsilons : sequence of float
        The budgets, ascending.
    draws : sequence of sequences of float
        For each budget, the score at each draw of the noise.
    reference, baseline : float
        Score without privacy, and of always saying the same.
    what : str
        What is on the horizontal axis.
    score, same : str
        What the score is, and what the baseline always says.

    Examples
    --------
    >>> Curve((0.5, 1.0), ((0.80, 0.82), (0.83, 0.85)), reference=0.86, baseline=0.76).means
    (0.81, 0.84)
    """

    epsilons: Sequence[float]
    draws: Sequence[Sequence[float]]
    reference: float
    baseline: float
    what: str = "epsilon"
    score: str = "test accuracy"
    same: str = "most frequent class"

    def __post_init__(self) -> None:
        if not self.epsilons or len(self.epsilons) != len(self.draws) or not all(self.draws):
            raise InputError("a curve needs at least one budget, and draws for each of them")
        if not self.epsilons[0] > 0.0 or list(self.epsilons) != sorted(set(self.epsilons)):
            raise InputError("the budgets of a curve must be positive and ascending")
        if not all(0.0 <= v <= 1.0 for v in (self.reference, self.baseline, *(v for d in self.draws for v in d))):
            raise InputError("scores must lie between 0 and 1")

    @property
    def means(self) -> tuple[float, ...]:
        """Mean over the draws at each budget."""
        return tuple(math.fsum(d) / len(d) for d in self.draws)


def draw_accuracy(curve: Curve) -> str:
    """Draw accuracy against epsilon on a logarithmic axis: the mean of the draws, and their range.

    Examples
    --------
    >>> svg = draw_accuracy(Curve((0.5, 1.0), ((0.80, 0.82), (0.83, 0.85)), reference=0.86, baseline=0.76))
    >>> svg.count("<circle"), "dpconvex, mean and range of 2 draws" in svg
    (2, True)
    """
    lows, highs = [min(d) for d in curve.draws], [max(d) for d in curve.draws]
    bottom = min(curve.baseline, *lows) - 0.01
    top = max(curve.reference, *highs) + 0.012
    panel = Panel(widened(curve.epsilons), (bottom, top), logarithmic=(True, False))
    band, means, lower = (list(zip(curve.epsilons, heights, strict=True)) for heights in (highs, curve.means, lows))
    budgets = [(e, f"{e:g}") for e in curve.epsilons]
    number = len(curve.draws[0])
    of = f"mean and range of {number} draws" if number > 1 else "one draw"
    labels = (
        (curve.reference, -7.0, "without privacy", ORANGE),
        (curve.baseline, -7.0, curve.same, INK),
        (min(lows[-2:]), 26.0, f"dpconvex, {of}", BLUE),
    )
    body = [
        *panel.frame(curve.what, curve.score, budgets, [(v, f"{v:.0%}") for v in _percents(bottom, top)]),
        panel.level(curve.baseline, INK, 1.2, DASHED),
        panel.level(curve.reference, ORANGE, 1.6),
        panel.band([*band, *reversed(lower)]),
        panel.line(means, BLUE, 2.0),
        *panel.dots(means),
        *(
            text(RIGHT - 4.0, panel.at((curve.epsilons[0], height))[1] + shift, words, "end", colour)
            for height, shift, words, colour in labels
        ),
    ]
    best, worst, title = curve.means[-1], curve.means[0], f"{curve.score.capitalize()} against epsilon"
    words = (
        f"{title}: {worst:.1%} at epsilon {curve.epsilons[0]:g}, {best:.1%} at "
        f"{curve.epsilons[-1]:g}; {curve.reference:.1%} without privacy, {curve.baseline:.1%} for the {curve.same}."
    )
    return picture(body, title, words)


def draw_belief(shift: float) -> str:
    """Draw how far a belief can move: before on one axis, the range afterwards on the other.

    Examples
    --------
    >>> draw_belief(1.0).count("<polygon")
    1
    """
    priors = [i / 200.0 for i in range(1, 200)]
    ends = [belief(p, shift) for p in priors]

    panel, corners = Panel((0.0, 1.0), (0.0, 1.0), logarithmic=(False, False)), [(0.0, 0.0), (1.0, 1.0)]
    lower, upper = (
        [corners[0], *((p, e[side]) for p, e in zip(priors, ends, strict=True)), corners[1]] for side in (0, 1)
    )
    quarters = [(q, f"{q:.0%}") for q in (0.0, 0.25, 0.5, 0.75, 1.0)]
    body = [
        *panel.frame("believed before", "believed afterwards", quarters, quarters),
        panel.band([*upper, *reversed(lower)]),
        panel.line(upper, BLUE, 2.0),
        panel.line(lower, BLUE, 2.0),
        panel.line(corners, INK, 1.2, DASHED),
    ]
    low, high = belief(0.5, shift)
    rounded = f"{math.floor(low * 1e3) / 10.0:.1f}% and {math.ceil(high * 1e3) / 10.0:.1f}%"
    words = f"Belief after the release against belief before: from 50% to between {rounded}."
    return picture(body, "How far a belief can move", words)


def _percents(low: float, high: float) -> list[float]:
    """Whole percents to mark: between three and eight of them."""
    step = next(s for s in (1, 2, 5, 10, 20) if (high - low) * 100.0 / s <= 8.0)
    return [k / 100.0 for k in range(math.ceil(low * 100.0 / step) * step, math.floor(high * 100.0) + 1, step)]
