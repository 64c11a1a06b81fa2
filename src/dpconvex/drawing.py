"""Curves and points on logarithmic axes as SVG text, in tones that can be read on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

INK, BLUE = "#768390", "#2f81f7"
WIDTH, HEIGHT = 640.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 620.0, 20.0, 306.0

Span = tuple[float, float]
Point = tuple[float, float]


class Panel:
    """A frame with two logarithmic axes, `down` from the top of the picture.

    Examples
    --------
    >>> panel = Panel((1.0, 100.0), (0.1, 10.0))
    >>> [round(v, 6) for v in panel.at((10.0, 1.0))]
    [345.0, 163.0]
    """

    def __init__(self, across: Span, up: Span, down: float = 0.0) -> None:
        self._across, self._up, self.down = across, up, down

    def at(self, point: Point) -> Point:
        """Where a point lies in the picture."""
        x, y = (_share(v, span) for v, span in zip(point, (self._across, self._up), strict=True))
        return LEFT + x * (RIGHT - LEFT), self.down + BOTTOM - y * (BOTTOM - TOP)

    def frame(self, what: str, score: str, ticks: Sequence[float]) -> list[str]:
        """Axes, the given marks across and powers of ten upwards, and what they measure."""
        low, high = self._up
        parts = [self.line([(self._across[0], low), (self._across[1], low)], INK, 1.0)]
        parts.append(self.line([(self._across[0], low), (self._across[0], high)], INK, 1.0))
        for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
            value = 10.0**power
            parts.append(self.line([(self._across[0], value), (self._across[1], value)], INK, 0.4))
            parts.append(text(LEFT - 8.0, self.at((self._across[0], value))[1] + 4.5, f"{value:g}", "end"))
        for tick in ticks:
            parts.append(text(self.at((tick, low))[0], self.down + BOTTOM + 19.0, f"{tick:,.6g}", "middle"))
        middle = self.down + (TOP + BOTTOM) / 2.0
        turned = f' transform="rotate(-90 14 {middle:.1f})"'
        parts.append(text((LEFT + RIGHT) / 2.0, self.down + HEIGHT - 14.0, what, "middle"))
        return [*parts, text(14.0, middle, score, "middle", extra=turned)]

    def line(self, points: Iterable[Point], colour: str, width: float, extra: str = "") -> str:
        """A line through points."""
        return (
            f'<polyline points="{self._places(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}"{extra}/>'
        )

    def band(self, points: Iterable[Point]) -> str:
        """A shaded area within points."""
        return f'<polygon points="{self._places(points)}" fill="{BLUE}" fill-opacity="0.2"/>'

    def dots(self, points: Iterable[Point]) -> list[str]:
        """A dot at each point."""
        places = (self.at(p) for p in points)
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{BLUE}" fill-opacity="0.8"/>' for x, y in places]

    def _places(self, points: Iterable[Point]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(p) for p in points))


def scatter(points: Sequence[Point], factor: float, what: str, score: str) -> str:
    """Draw measured against predicted values, with the line where they are equal and a band of that factor.

    Examples
    --------
    >>> scatter([(0.01, 0.02), (0.1, 0.09)], 3.0, "predicted", "measured").count("<circle")
    2
    """
    low, high = (pick(v for p in points for v in p) for pick in (min, max))
    span = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    panel = Panel(span, span)
    inner = [span[0] * factor, span[1] / factor]
    band = [(span[0], span[0]), (span[0], inner[0]), (inner[1], span[1]), span[1:] * 2, (span[1], inner[1])]
    ticks = [10.0**k for k in range(round(math.log10(span[0])), round(math.log10(span[1])) + 1)]
    body = [
        panel.band([*band, (inner[0], span[0])]),
        *panel.frame(what, score, ticks),
        panel.line([(v, v) for v in span], INK, 1.2, ' stroke-dasharray="5 4"'),
        *panel.dots(points),
    ]
    return picture(body, f"{score} against {what}", f"{len(points)} points; the band is a factor of {factor:.2g}.")


def curves(parts: Sequence[tuple[str, Sequence[float], Sequence[Sequence[float]]]], score: str) -> str:
    """Draw one panel below the other: what is across, its values, and for each of them the low, middle and high value.

    Examples
    --------
    >>> svg = curves([("epsilon", (1.0, 2.0), ((0.01, 0.02, 0.04), (0.005, 0.01, 0.02)))], "excess loss")
    >>> svg.count("<polygon"), svg.count("<circle")
    (1, 2)
    """
    every = [v for _, _, values in parts for triple in values for v in triple]
    up = 10.0 ** math.floor(math.log10(min(every))), 10.0 ** math.ceil(math.log10(max(every)))
    body: list[str] = []
    for k, (what, across, values) in enumerate(parts):
        panel = Panel(_widened(across), up, k * HEIGHT)
        low, middle, high = (list(zip(across, column, strict=True)) for column in zip(*values, strict=True))
        body += [panel.band([*high, *reversed(low)]), *panel.frame(what, score, across)]
        body += [panel.line(middle, BLUE, 2.0), *panel.dots(middle)]
    words = "; ".join(f"{score} against {what}, from {a[0]:g} to {a[-1]:g}" for what, a, _ in parts)
    return picture(body, f"Predicted {score}", words, len(parts))


def picture(body: Iterable[str], title: str, words: str, panels: int = 1) -> str:
    """A whole SVG."""
    drawn = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {panels * HEIGHT:g}" role="img" '
        'font-size="13" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(words)}</desc>\n{drawn}\n</svg>\n"
    )


def text(x: float, y: float, words: str, anchor: str, extra: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{extra}>{escape(words)}</text>'


def _share(value: float, span: Span) -> float:
    low, high = map(math.log, span)
    return (math.log(value) - low) / (high - low)


def _widened(values: Sequence[float]) -> Span:
    """The range of the values with a little room, also if there is but one."""
    room = max((values[-1] / values[0]) ** 0.04, 1.05)
    return values[0] / room, values[-1] * room
