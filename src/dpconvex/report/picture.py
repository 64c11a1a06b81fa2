"""Pictures as SVG text, drawn by hand, in tones that can be read on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from dpconvex.errors import InputError
from dpconvex.report.observer import belief

INK, PRIVATE, PLAIN = "#768390", "#2f81f7", "#d4762c"
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56.0, 620.0, 16.0, 312.0


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
    first, last = math.log(curve.epsilons[0]), math.log(curve.epsilons[-1])

    def x(epsilon: float) -> float:
        share = (math.log(epsilon) - first) / (last - first) if last > first else 0.5
        return LEFT + 26.0 + share * (RIGHT - LEFT - 52.0)

    def y(accuracy: float) -> float:
        return BOTTOM - (accuracy - bottom) / (top - bottom) * (BOTTOM - TOP)

    at = [x(e) for e in curve.epsilons]
    band = [*zip(at, map(y, highs), strict=True), *reversed([*zip(at, map(y, lows), strict=True)])]
    means = list(zip(at, map(y, curve.means), strict=True))
    number = len(curve.draws[0])
    of = f"mean and range of {number} draws" if number > 1 else "one draw"
    body = [
        *_grid((y(v), f"{v:.0%}") for v in _percents(bottom, top)),
        *(_text(p, BOTTOM + 20.0, f"{e:g}", "middle") for p, e in zip(at, curve.epsilons, strict=True)),
        _line([(LEFT, y(curve.baseline)), (RIGHT, y(curve.baseline))], INK, 1.2, ' stroke-dasharray="5 4"'),
        _line([(LEFT, y(curve.reference)), (RIGHT, y(curve.reference))], PLAIN, 1.6),
        f'<polygon points="{_points(band)}" fill="{PRIVATE}" fill-opacity="0.22"/>',
        _line(means, PRIVATE, 2.0),
        *(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.4" fill="{PRIVATE}"/>' for a, b in means),
        _text(RIGHT - 4.0, y(curve.reference) - 7.0, "without privacy", "end", PLAIN),
        _text(RIGHT - 4.0, y(curve.baseline) - 7.0, curve.same, "end"),
        _text(RIGHT - 4.0, y(min(lows[-2:])) + 26.0, f"dpconvex, {of}", "end", PRIVATE),
        _text((LEFT + RIGHT) / 2.0, HEIGHT - 8.0, curve.what, "middle"),
        _text(12.0, (TOP + BOTTOM) / 2.0, curve.score, "middle", extra=f' transform="{_turned(12.0)}"'),
    ]
    best, worst, title = curve.means[-1], curve.means[0], f"{curve.score.capitalize()} against epsilon"
    words = (
        f"{title}: {worst:.1%} at epsilon {curve.epsilons[0]:g}, {best:.1%} at "
        f"{curve.epsilons[-1]:g}; {curve.reference:.1%} without privacy, {curve.baseline:.1%} for the {curve.same}."
    )
    return _svg(body, title, words)


def draw_belief(shift: float) -> str:
    """Draw how far a belief can move: before on one axis, the range afterwards on the other.

    Examples
    --------
    >>> draw_belief(1.0).count("<polygon")
    1
    """
    priors = [i / 200.0 for i in range(1, 200)]
    ends = [belief(p, shift) for p in priors]

    def x(p: float) -> float:
        return LEFT + p * (RIGHT - LEFT)

    def y(p: float) -> float:
        return BOTTOM - p * (BOTTOM - TOP)

    corners = [(x(0.0), y(0.0)), (x(1.0), y(1.0))]
    upper = [corners[0], *((x(p), y(e[1])) for p, e in zip(priors, ends, strict=True)), corners[1]]
    lower = [corners[0], *((x(p), y(e[0])) for p, e in zip(priors, ends, strict=True)), corners[1]]
    quarters = [0.0, 0.25, 0.5, 0.75, 1.0]
    body = [
        *_grid((y(q), f"{q:.0%}") for q in quarters),
        *(_text(x(q), BOTTOM + 20.0, f"{q:.0%}", "middle") for q in quarters),
        f'<polygon points="{_points([*upper, *reversed(lower)])}" fill="{PRIVATE}" fill-opacity="0.22"/>',
        _line(upper, PRIVATE, 2.0),
        _line(lower, PRIVATE, 2.0),
        _line(corners, INK, 1.2, ' stroke-dasharray="5 4"'),
        _text((LEFT + RIGHT) / 2.0, HEIGHT - 8.0, "believed before", "middle"),
        _text(12.0, (TOP + BOTTOM) / 2.0, "believed afterwards", "middle", extra=f' transform="{_turned(12.0)}"'),
    ]
    low, high = belief(0.5, shift)
    rounded = f"{math.floor(low * 1e3) / 10.0:.1f}% and {math.ceil(high * 1e3) / 10.0:.1f}%"
    words = f"Belief after the release against belief before: from 50% to between {rounded}."
    return _svg(body, "How far a belief can move", words)


# Parts -------------------------------------------------------------------------------------------------------------


def _svg(body: Iterable[str], title: str, words: str) -> str:
    drawn = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="13" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
        f"<title>{escape(title)}</title>\n<desc>{escape(words)}</desc>\n{drawn}\n</svg>\n"
    )


def _text(x: float, y: float, words: str, anchor: str, colour: str = INK, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{extra}>{escape(words)}</text>'


def _turned(x: float) -> str:
    return f"rotate(-90 {x:.1f} {(TOP + BOTTOM) / 2.0:.1f})"


def _line(points: Iterable[tuple[float, float]], colour: str, width: float, extra: str = "") -> str:
    return (
        f'<polyline points="{_points(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
        f'stroke-linejoin="round"{extra}/>'
    )


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in points)


def _grid(ticks: Iterable[tuple[float, str]]) -> list[str]:
    """Lines across at some heights, with labels, and the two axes."""
    lines = [
        part
        for height, label in ticks
        for part in (
            _line([(LEFT, height), (RIGHT, height)], INK, 0.6, ' stroke-opacity="0.35"'),
            _text(LEFT - 8.0, height + 4.5, label, "end"),
        )
    ]
    return [*lines, _line([(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0)]


def _percents(low: float, high: float) -> list[float]:
    """Whole percents to mark: between three and eight of them."""
    step = next(s for s in (1, 2, 5, 10, 20) if (high - low) * 100.0 / s <= 8.0)
    return [k / 100.0 for k in range(math.ceil(low * 100.0 / step) * step, math.floor(high * 100.0) + 1, step)]
