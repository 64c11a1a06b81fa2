"""Pictures of games: regret and moves of several players against rounds, beside what is proved about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from dpconvex.drawing import DASHED, HEIGHT, LEFT, Mark, Panel, decades, picture, round_numbers, text
from dpconvex.errors import InputError
from dpconvex.games.contest import Trace

COLOURS = ("#2f81f7", "#d4762c", "#2da44e", "#a371f7", "#e5534b", "#1b9e9e", "#b08800", "#d2689e")
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
    across = 1.0, float(traces[0].rounds[-1])
    regret = [(trace.regret, trace.proved) for trace in traces]
    heights = _heights(regret)
    up = min(0.0, min(heights)), max(1.0, max(heights))
    body = _curves(Panel(across, up, logarithmic=(False, False)), "regret", round_numbers(*up), traces, regret)
    moves = [(_counted(trace.moves), _counted(trace.proved_moves)) for trace in traces]
    up = 1.0, max(10.0, *_heights(moves))
    body += _curves(Panel(across, up, HEIGHT, logarithmic=(False, True)), "moves", decades(up), traces, moves)
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
    return picture(body, title, words, down + 12.0 + len(traces) * _LINE)


def _beside(proved: np.ndarray | None) -> str:
    return "" if proved is None else f" (proved {proved[-1]:.4g})"


def _curves(
    panel: Panel,
    what: str,
    marks: Sequence[Mark],
    traces: Sequence[Trace],
    pairs: Sequence[tuple[np.ndarray | None, np.ndarray | None]],
) -> list[str]:
    """A frame, and two curves per player."""
    rounds = round_numbers(1.0, float(traces[0].rounds[-1]))
    body = panel.frame("rounds", f"{what} (proved: dashed)", rounds, marks)
    for trace, colour, pair in zip(traces, COLOURS, pairs, strict=False):
        for heights, style in zip(pair, ("", DASHED), strict=True):
            if _drawn(heights):
                points = zip(trace.rounds.tolist(), heights.tolist(), strict=True)
                body.append(panel.line(points, colour, 1.8, style))
    return body


def _drawn(heights: np.ndarray | None) -> TypeGuard[np.ndarray]:
    """Whether a curve is drawn: one that is not finite is left out."""
    return heights is not None and bool(np.isfinite(heights).all())


def _heights(pairs: Sequence[tuple[np.ndarray | None, np.ndarray | None]]) -> list[float]:
    return [float(v) for pair in pairs for heights in pair if _drawn(heights) for v in (heights.min(), heights.max())]


def _counted(moves: np.ndarray | None) -> np.ndarray | None:
    return None if moves is None else np.maximum(moves, 1.0)
