"""Charts as SVG text, in tones that can be read on light and on dark ground. Every picture is made of these parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

__all__ = [
    "BLUE", "BOTTOM", "DASHED", "HEIGHT", "INK", "LEFT", "ORANGE", "RED", "RIGHT", "TOP", "WIDTH", "Mark", "Panel",
    "Point", "Span", "curves", "decades", "in_sight", "marks", "picture", "round_numbers", "scatter", "text", "widened",
]  # fmt: skip

INK, BLUE, ORANGE, RED = "#768390", "#2f81f7", "#d4762c", "#e5534b"
WIDTH, HEIGHT = 640.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 620.0, 20.0, 306.0
DASHED = ' stroke-dasharray="5 4"'

Span = tuple[float, float]
Point = tuple[float, float]
Mark = tuple[float, str]


class Panel:
    """A frame with two axes, `down` from the top of the picture; `logarithmic` says which axes are.

    Examples
    --------
    >>> panel = Panel((1.0, 100.0), (0.1, 10.0))
    >>> [round(v, 6) for v in panel.at((10.0, 1.0))]
    [345.0, 163.0]
    """

    def __init__(
        self, across: Span, up: Span, down: float = 0.0, *, logarithmic: tuple[bool, bool] = (True, True)
    ) -> None:
        self._across, self._up, self._down, self._logarithmic = across, up, down, logarithmic

    def at(self, point: Point) -> Point:
        """Where a point lies in the picture."""
        spans = zip(point, (self._across, self._up), self._logarithmic, strict=True)
        x, y = (_share(value, span, logarithmic) for value, span, logarithmic in spans)
        return LEFT + x * (RIGHT - LEFT), self._down + BOTTOM - y * (BOTTOM - TOP)

    def frame(self, what: str, score: str, across: Iterable[Mark], up: Iterable[Mark]) -> list[str]:
        """Axes with marks, a line across at each mark upwards, and what the axes measure."""
        (left, _), (low, _) = self._across, self._up
        top, bottom, parts = self._down + TOP, self._down + BOTTOM, []
        for value, words in up:
            y = self.at((left, value))[1]
            parts += [_rule(LEFT, y, RIGHT, y, 0.4), text(LEFT - 8.0, y + 4.5, words, "end")]
        for value, words in across:
            x = self.at((value, low))[0]
            parts.append(text(x, bottom + 19.0, words, "end" if x > RIGHT - 12.0 else "middle"))
        middle = (top + bottom) / 2.0
        return [
            *parts,
            _rule(LEFT, bottom, RIGHT, bottom, 1.0),
            _rule(LEFT, top, LEFT, bottom, 1.0),
            text((LEFT + RIGHT) / 2.0, self._down + HEIGHT - 14.0, what, "middle"),
            text(14.0, middle, score, "middle", extra=f' transform="rotate(-90 14 {middle:.1f})"'),
        ]

    def line(self, points: Iterable[Point], colour: str, width: float, extra: str = "") -> str:
        """A line through points."""
        return (
            f'<polyline points="{self._places(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}"{extra}/>'
        )

    def level(self, value: float, colour: str, width: float, extra: str = "") -> str:
        """A line across at that height."""
        return self.line([(end, value) for end in self._across], colour, width, extra)

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
    span = _powers_around([v for p in points for v in p])
    panel = Panel(span, span)
    inner = [span[0] * factor, span[1] / factor]
    band = [(span[0], span[0]), (span[0], inner[0]), (inner[1], span[1]), span[1:] * 2, (span[1], inner[1])]
    body = [
        panel.band([*band, (inner[0], span[0])]),
        *panel.frame(what, score, decades(span), decades(span)),
        panel.line([(v, v) for v in span], INK, 1.2, DASHED),
        *panel.dots(points),
    ]
    return picture(body, f"{score} against {what}", f"{len(points)} points; the band is a factor of {factor:.2g}.")


def curves(
    parts: Sequence[tuple[str, Sequence[float], Sequence[Sequence[float]]]],
    score: str,
    least: Sequence[Sequence[float]] = (),
) -> str:
    """Draw one panel below the other: what is across, its values, and for each of them the low, middle and high value.

    `least` has values for a dashed line in each panel, below which nobody can promise to stay, where it is in sight.

    Examples
    --------
    >>> svg = curves([("epsilon", (1.0, 2.0), ((0.01, 0.02, 0.04), (0.005, 0.01, 0.02)))], "excess loss")
    >>> svg.count("<polygon"), svg.count("<circle")
    (1, 2)
    """
    drawn = [v for _, _, values in parts for triple in values for v in triple]
    below = [in_sight(part[1], line, min(drawn)) for part, line in zip(parts, least, strict=False)]
    up = _powers_around([*drawn, *(v for line in below for _, v in line)])
    body: list[str] = []
    for k, (what, across, values) in enumerate(parts):
        panel = Panel(widened(across), up, k * HEIGHT)
        low, middle, high = (list(zip(across, column, strict=True)) for column in zip(*values, strict=True))
        body += [panel.band([*high, *reversed(low)]), *panel.frame(what, score, marks(across), decades(up))]
        body += [panel.line(middle, BLUE, 2.0), *panel.dots(middle)]
        if least and len(below[k]) > 1:
            body.append(panel.line(below[k], INK, 1.2, DASHED))
    words = "; ".join(f"{score} against {what}, from {a[0]:g} to {a[-1]:g}" for what, a, _ in parts)
    return picture(body, f"Predicted {score}", words, len(parts) * HEIGHT)


def in_sight(across: Sequence[float], least: Sequence[float], lowest: float) -> list[Point]:
    """The points of a line no further than two powers of ten below the lowest value that is drawn.

    Examples
    --------
    >>> in_sight((1.0, 2.0), (0.01, 1e-9), 0.1)
    [(1.0, 0.01)]
    """
    return [(x, v) for x, v in zip(across, least, strict=True) if v >= 0.01 * lowest]


def picture(body: Iterable[str], title: str, words: str, height: float = HEIGHT) -> str:
    """A whole SVG."""
    drawn = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        'font-size="13" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(words)}</desc>\n{drawn}\n</svg>\n"
    )


def text(x: float, y: float, words: str, anchor: str, colour: str = INK, extra: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{extra}>{escape(words)}</text>'


# Axes ---------------------------------------------------------------------------------------------------------------


def marks(values: Iterable[float]) -> list[Mark]:
    """A mark at each value."""
    return [(value, f"{value:,.6g}") for value in values]


def decades(span: Span, every: int = 1) -> list[Mark]:
    """Powers of ten within the span, or every so many of them.

    Examples
    --------
    >>> decades((0.05, 100.0))
    [(0.1, '0.1'), (1.0, '1'), (10.0, '10'), (100.0, '100')]
    """
    low, high = math.ceil(math.log10(span[0]) - 1e-9), math.floor(math.log10(span[1]) + 1e-9)
    return marks(10.0**k for k in range(low, high + 1, every))


def round_numbers(low: float, high: float) -> list[Mark]:
    """Some round numbers within the range.

    Examples
    --------
    >>> round_numbers(0.0, 17.0)
    [(0.0, '0'), (5.0, '5'), (10.0, '10'), (15.0, '15')]
    """
    rough = (high - low) / 5.0 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1.0, 2.0, 5.0, 10.0) if power * k >= rough)
    return marks(step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1))


def widened(values: Sequence[float]) -> Span:
    """The range of positive values with a little room, also if there is but one."""
    room = max((values[-1] / values[0]) ** 0.04, 1.05)
    return values[0] / room, values[-1] * room


def _powers_around(values: Sequence[float]) -> Span:
    return 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))


def _rule(x: float, y: float, to_x: float, to_y: float, width: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{INK}" stroke-width="{width:g}"/>'


def _share(value: float, span: Span, logarithmic: bool) -> float:
    value, low, high = map(math.log, (value, *span)) if logarithmic else (value, *span)
    return (value - low) / ((high - low) or 1.0)
