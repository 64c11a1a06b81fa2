"""Pictures of games: regret and moves of several players against rounds, beside what is proved about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpconvex.chooser.drawing import BOTTOM, HEIGHT, INK, LEFT, RIGHT, TOP, WIDTH, picture, text
from dpconvex.errors import InputError
from dpconvex.games.contest import Trace

COLOURS = ("#2f81f7", "#d4762c", "#2da44e", "#a371f7", "#e5534b", "#1b9e9e", "#b08800", "#d2689e")
DASHED = ' stroke-dasharray="5 4"'
_LINE = 18.0  # height of a line of the legend


def draw_games(traces: Sequence[Trace], title: str) -> str:
    """Draw one panel with the regret of the players and one with their moves, on a logarithmic axis, 1 being the least.

    What is proved is dashed.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(1, 11)
    >>> trace = Trace("ftrl", t, np.sqrt(t), t - 1, 3.0 * np.sqrt(t), None, False, 0.0)
    >>> draw_games([trace], "Ten rounds").count('stroke-width="1.8"')
    3
    """
    if not traces or len(traces) > len(COLOURS):
        raise InputError(f"a picture has between 1 and {len(COLOURS)} players")
    last = int(traces[0].rounds[-1])
    regrets = [(trace.regret, trace.proved) for trace in traces]
    body = _panel(0.0, "regret", traces, regrets, _ticks)
    moves = [(_log(trace.moves), None if trace.proved_moves is None else _log(trace.proved_moves)) for trace in traces]
    body += _panel(HEIGHT, "moves", traces, moves, _powers)
    for down in (0.0, HEIGHT):
        for tick in _ticks(1.0, float(last)):
            x = _place(tick, (1.0, float(last)), LEFT, RIGHT)
            anchor = "end" if x > RIGHT - 12.0 else "middle"
            body.append(text(x, down + BOTTOM + 19.0, f"{tick:,.6g}", anchor))
    down = 2 * HEIGHT
    for k, (colour, trace) in enumerate(zip(COLOURS, traces, strict=False)):
        y = down + 6.0 + k * _LINE
        words = f"{trace.name}: regret {trace.regret[-1]:.4g}" + _beside(trace.proved)
        words += f", moves {trace.moves[-1]:.0f}" + _beside(trace.proved_moves)
        body.append(f'<rect x="{LEFT:.1f}" y="{y - 9.0:.1f}" width="14" height="9" fill="{colour}"/>')
        body.append(text(LEFT + 22.0, y, words, "start"))
    words = "; ".join(
        f"{trace.name} has regret {trace.regret[-1]:.4g} and {trace.moves[-1]:.0f} moves" for trace in traces
    )
    drawn = picture(body, title, words, 2)
    full = f"0 0 {WIDTH:g} {down + 12.0 + len(traces) * _LINE:g}"
    return drawn.replace(f"0 0 {WIDTH:g} {2 * HEIGHT:g}", full, 1)


def _beside(proved: np.ndarray | None) -> str:
    return "" if proved is None else f" (proved {proved[-1]:.4g})"


def _panel(
    down: float,
    what: str,
    traces: Sequence[Trace],
    curves: Sequence[tuple[np.ndarray, np.ndarray | None]],
    ticks: Callable[[float, float], list[float]],
) -> list[str]:
    """Axes, lines across at the ticks, and the curves of every player; those that are not finite are left out."""
    shown = [
        (trace.rounds, heights, colour, style)
        for colour, trace, pair in zip(COLOURS, traces, curves, strict=False)
        for heights, style in zip(pair, ("", DASHED), strict=True)
        if heights is not None and np.isfinite(heights).all()
    ]
    every = np.concatenate([heights for _, heights, _, _ in shown])
    up = min(0.0, float(every.min())), max(1.0, float(every.max()))
    parts = []
    for tick in ticks(*up):
        y = _place(tick, up, BOTTOM, TOP) + down
        value = 10.0**tick if ticks is _powers else tick
        parts += [_line([(LEFT, y), (RIGHT, y)], INK, 0.4), text(LEFT - 8.0, y + 4.5, f"{value:,.6g}", "end")]
    middle = down + (TOP + BOTTOM) / 2.0
    parts += [
        _line([(LEFT, down + TOP), (LEFT, down + BOTTOM), (RIGHT, down + BOTTOM)], INK, 1.0),
        text((LEFT + RIGHT) / 2.0, down + HEIGHT - 18.0, "rounds", "middle"),
        text(14.0, middle, f"{what} (proved: dashed)", "middle", extra=f' transform="rotate(-90 14 {middle:.1f})"'),
    ]
    for rounds, heights, colour, style in shown:
        across = 1.0, float(rounds[-1])
        points = [
            (_place(float(t), across, LEFT, RIGHT), _place(float(h), up, BOTTOM, TOP) + down)
            for t, h in zip(rounds, heights, strict=True)
        ]
        parts.append(_line(points, colour, 1.8, style))
    return parts


def _log(moves: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(moves, 1.0))


def _place(value: float, span: tuple[float, float], start: float, end: float) -> float:
    low, high = span
    return start + (value - low) / ((high - low) or 1.0) * (end - start)


def _line(points: Sequence[tuple[float, float]], colour: str, width: float, style: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{style}/>'


def _ticks(low: float, high: float) -> list[float]:
    """Some round numbers within the range.

    Examples
    --------
    >>> _ticks(0.0, 17.0)
    [0.0, 5.0, 10.0, 15.0]
    """
    rough = (high - low) / 5.0 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1.0, 2.0, 5.0, 10.0) if power * k >= rough)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """The whole numbers within the range: powers of ten where heights are logarithms."""
    return [float(k) for k in range(math.ceil(low), math.floor(high) + 1)]
