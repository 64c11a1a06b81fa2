"""Many rounds against linear losses in one compiled loop, with the same points as one round at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpconvex.games.steps import Adaptive, Fixed, Root
from dpconvex.loops.protocol import compiled

__all__ = ["descend", "lead", "run"]

_SCHEDULES = (Fixed, Root, Adaptive)  # loops know a schedule by its position here


def run(learner: Any, state: dict[str, Any], rows: np.ndarray, kind: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Points played against the rows, and what changes in the state."""
    schedule = _SCHEDULES.index(type(learner.step))
    plays = np.empty(rows.shape)
    t, total, scale = state["round"], state["total"], state["scale"]
    if kind == 1:
        w = state["w"].copy()
        total = descend(rows, learner.domain, schedule, scale, t, total, w, plays)
        change = {"w": w}
    else:
        sums = state["sum"].copy()
        total = lead(rows, learner.domain, schedule, scale, t, total, state["start"], sums, plays)
        change = {"sum": sums}
    return plays, change | {"total": total, "round": t + rows.shape[0]}


@compiled
def descend(rows, domain, schedule, scale, t, total, w, plays):
    """x_{t+1} = project(x_t - eta_t g_t)."""
    d = w.shape[0]
    for i in range(rows.shape[0]):
        for j in range(d):
            plays[i, j] = w[j]
            total += rows[i, j] * rows[i, j]
        if total == 0.0:
            continue
        eta = scale if schedule == 0 else scale / math.sqrt(t + i + 1.0) if schedule == 1 else scale / math.sqrt(total)
        norm2 = 0.0
        for j in range(d):
            w[j] = domain.clip(w[j] - eta * rows[i, j])
            norm2 += w[j] * w[j]
        shrink = domain.rescale(norm2)
        if shrink != 1.0:
            for j in range(d):
                w[j] *= shrink
    return total


@compiled
def lead(rows, domain, schedule, scale, t, total, start, sums, plays):
    """x_t = project(x_1 - eta_t (g_1 + ... + g_{t-1}))."""
    d = sums.shape[0]
    for i in range(rows.shape[0]):
        eta = scale if schedule == 0 else scale / math.sqrt(t + i + 1.0) if schedule == 1 else 0.0
        if schedule == 2 and total > 0.0:
            eta = scale / math.sqrt(total)
        norm2 = 0.0
        for j in range(d):
            w = domain.clip(start[j] - eta * sums[j])
            plays[i, j] = w
            norm2 += w * w
        shrink = domain.rescale(norm2)
        for j in range(d):
            if shrink != 1.0:
                plays[i, j] *= shrink
            sums[j] += rows[i, j]
            total += rows[i, j] * rows[i, j]
    return total
