"""Plots with matplotlib (extra `plot`), of plain numbers. Results have a method `plot`, which calls one of these.

Every function draws on the axes it is given, or on a new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpconvex.drawing import BLUE, INK, ORANGE, RED, in_sight
from dpconvex.errors import UnavailableError

__all__ = ["above_zero", "calibration", "claimed_and_found", "forest", "spent", "spread"]

Triple = tuple[float, float, float]


def spread(
    ax: Any, across: Sequence[float], values: Sequence[Triple], what: str, score: str, least: Sequence[float] = ()
) -> Any:
    """A line within a band, both axes logarithmic; values are low, middle and high. `least` is a dashed line below."""
    ax = _axes(ax)
    low, middle, high = zip(*values, strict=True)
    ax.fill_between(across, low, high, color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(across, middle, color=BLUE, marker="o", markersize=4)
    if seen := in_sight(across, least, min(low)) if least else []:
        ax.plot(*zip(*seen, strict=True), color=INK, linestyle="--")
    ax.set(xlabel=what, ylabel=score, xscale="log", yscale="log")
    ax.grid(True, axis="y", alpha=0.3)
    return ax


def forest(ax: Any, names: Sequence[str], values: Sequence[Triple], hollow: Sequence[bool], what: str) -> Any:
    """A value with its interval in each line, those within the noise hollow; a line at zero."""
    ax = _axes(ax)
    ax.axvline(0.0, color=INK, linewidth=1)
    for row, ((low, middle, high), open_) in enumerate(zip(values, hollow, strict=True)):
        colour = INK if open_ else BLUE
        ax.plot([low, high], [row, row], color=colour, linewidth=2)
        ax.plot([middle], [row], "o", color=colour, markerfacecolor="white" if open_ else colour)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(what)
    return ax


def calibration(ax: Any, bins: Sequence[tuple[float, float, Triple]], label: str) -> Any:
    """Share of outcomes against predicted probability: the ends of each bin, and outcomes minus predictions."""
    ax = _axes(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=INK, linestyle="--", linewidth=1, label="as predicted")
    middles = [(low + high) / 2.0 for low, high, _ in bins]
    shares = [m + gap for m, (_, _, (_, gap, _)) in zip(middles, bins, strict=True)]
    below = [max(gap - low, 0.0) for _, _, (low, gap, _) in bins]
    above = [max(high - gap, 0.0) for _, _, (_, gap, high) in bins]
    ax.errorbar(middles, shares, yerr=[below, above], fmt="o", color=BLUE, capsize=3, label=label)
    ax.set(xlabel="predicted probability", ylabel="share of outcomes", xlim=(0.0, 1.0), ylim=(-0.05, 1.05))
    ax.legend()
    return ax


def spent(ax: Any, times: Sequence[Any], after: Sequence[float], allowed: float) -> Any:
    """What was spent of a budget after every run, as a step, below the line of what is allowed."""
    ax = _axes(ax)
    ax.step([times[0], *times], [0.0, *after], where="post", color=BLUE)
    ax.plot(times, after, "o", color=BLUE, markersize=4)
    ax.axhline(allowed, color=RED, linestyle="--", label="budget")
    ax.set(xlabel="time", ylabel="epsilon spent", ylim=(0.0, 1.15 * allowed))
    ax.tick_params(axis="x", rotation=30)
    ax.legend()
    return ax


def claimed_and_found(ax: Any, curve: Sequence[Triple]) -> Any:
    """Delta against epsilon: what is claimed, and what an attack found to be exceeded."""
    ax = _axes(ax)
    epsilons, claimed, found = zip(*curve, strict=True)
    ax.plot(epsilons, claimed, color=INK, label="claimed")
    ax.plot(epsilons, [value if value > 0.0 else None for value in found], color=RED, label="found, at least")
    ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
    ax.legend()
    return ax


def above_zero(ax: Any, values: Sequence[float], what: str, score: str) -> Any:
    """A value after each of some rounds."""
    ax = _axes(ax)
    ax.axhline(0.0, color=INK, linewidth=1)
    ax.plot(range(1, len(values) + 1), values, color=ORANGE)
    ax.set(xlabel=what, ylabel=score)
    return ax


def _axes(ax: Any) -> Any:
    """The axes to draw on: those given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UnavailableError("matplotlib is not installed: pip install 'dpconvex[plot]'") from None
    return pyplot.subplots(layout="constrained")[1]
