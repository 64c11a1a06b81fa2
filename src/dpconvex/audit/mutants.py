"""Mutants: plans broken on purpose, the way a careless change would break them. The audit must catch each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpconvex.plan.plan import Plan


@dataclass(frozen=True)
class Mutant:
    """A way to break a run.

    Parameters
    ----------
    name : str
    noise : float
        Factor on all noise.
    overlap : int
        Records of the phase before that each later phase reads again.
    twice : bool
        The record under attack is read a second time, in place of its successor (predecessor at the end).
    averaged : bool
        The mean of all noisy values is released instead of the last.
    clip : float
        Factor on the length to which gradients are clipped.
    ridge : float
        Factor on the l2 that the objective is minimised with.
    """

    name: str
    noise: float = 1.0
    overlap: int = 0
    twice: bool = False
    averaged: bool = False
    clip: float = 1.0
    ridge: float = 1.0

    def plan(self, plan: Plan) -> Plan:
        """Break the schedule or the problem."""
        if self.clip != 1.0:
            return replace(plan, schedule=tuple(replace(s, clip=self.clip * s.clip) for s in plan.schedule))
        if self.ridge != 1.0:
            return replace(plan, problem=replace(plan.problem, l2=self.ridge * plan.problem.l2))
        if not self.overlap:
            return plan
        phases = [plan.schedule[0]]
        for phase in plan.schedule[1:]:
            records = range(phase.records.start - self.overlap, phase.records.stop)
            phases.append(replace(phase, records=records, steps=replace(phase.steps, length=len(records))))
        return replace(plan, schedule=tuple(phases))

    def labels(self, y: np.ndarray, record: int) -> np.ndarray:
        """Break the reading of the data (all rows of the attacked pair are alike, so labels are all there is)."""
        if self.twice:
            y = y.copy()
            y[record + 1 if record + 1 < len(y) else record - 1] = y[record]
        return y


NONE = Mutant("none")
_NOISE, _TWICE = Mutant("noise x 0.7", noise=0.7), Mutant("record used twice", twice=True)
MUTANTS = {
    "MeanDirection": (_NOISE, _TWICE),
    "NoisyGD": (_NOISE, _TWICE, Mutant("clip missing", clip=1e9)),
    "ObjectivePerturbation": (_NOISE, _TWICE, Mutant("regularisation missing", ridge=0.02)),
    "PhasedSGD": (
        _NOISE,
        _TWICE,
        Mutant("phases overlap by one record", overlap=1),
        Mutant("average released under a last-iterate claim", averaged=True),
    ),
    "SufficientStatistics": (_NOISE, _TWICE),
}
