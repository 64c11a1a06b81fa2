"""Mutants: plans broken on purpose, the way a careless change would break them. The audit must catch each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.data.arrays import open_weights
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, SAMPLING, Scope
from dpconvex.loops.rows import EVEN
from dpconvex.plan.plan import Plan
from dpconvex.problem.geometry import dual_exponent, kappa
from dpconvex.problem.losses import Softmax
from dpconvex.theorems.generalised_gaussian import exponent_of


@dataclass(frozen=True)
class Mutant:
    """A way to break a run.

    Parameters
    ----------
    name : str
    noise : float
        Factor on all noise.
    silent : bool
        The first draw of noise is left out.
    shared : {"", "draws", "classes"}
        Every draw repeats the first, or every class the noise of the first.
    swapped : bool
        The noise is that for masking a record, the promise about replacing one.
    overlap : int
        Records of the phase before that each later phase reads again.
    twice : bool
        The record under attack is read a second time, in place of its successor (predecessor at the end).
    averaged : bool
        The mean of all noisy values is released instead of the last.
    clip : float
        Factor on the length to which gradients are clipped.
    unbounded : bool
        Rows are used as they come, not brought back to the feature bound.
    heavy : bool
        Weights above their cap are used as they are, not clipped to it.
    norm : float
        Exponent of the norm that gradients are clipped in, in place of the one of the claim (0: that one).
    sampling : float
        Factor on the probability with which records are sampled, or bits of a secret order set: if infinite, all are,
        and records stay in the order given.
    shaped : bool
        A mistake in generalised Gaussian noise, for plans that have it.
    shape : float
        Exponent of the generalised Gaussian noise that is drawn, in place of the one of the claim (0: that one).
    printed : bool
        Generalised Gaussian noise for the constant of regularity min(1/(p - 1), ln d), which is too small.
    ridge : float
        Factor on the l2 that the objective is minimised with.
    apart : bool
        Every row is taken for another person's: rows are clipped (and sampled), not people.
    whole : bool
        The noise of a running sum is that of all its rounds times the last scale, not of each round times its own.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=20, d=1, budget=dc.Budget(4.0, 1e-6))
    >>> Mutant("half the noise", noise=0.5).breaks(plan), Mutant("classes", shared="classes").breaks(plan)
    (True, False)
    """

    name: str
    noise: float = 1.0
    silent: bool = False
    shared: str = ""
    swapped: bool = False
    overlap: int = 0
    twice: bool = False
    averaged: bool = False
    clip: float = 1.0
    unbounded: bool = False
    heavy: bool = False
    norm: float = 0.0
    sampling: float = 1.0
    shaped: bool = False
    shape: float = 0.0
    printed: bool = False
    ridge: float = 1.0
    apart: bool = False
    whole: bool = False

    def breaks(self, plan: Plan) -> bool:
        """Whether the promise of this plan is broken by it: some mistakes need several phases, draws or classes."""
        if self.apart:
            return plan.claim.unit == PERSON
        if self.shaped:
            return exponent_of(plan.releases[-1].law) is not None
        if self.norm:
            return any(part.q != self.norm for part in plan.schedule)
        if self.sampling != 1.0:
            return any(r.law == SAMPLING for r in plan.releases)
        if self.swapped:
            return plan.budget.relation == "replace_one"
        if self.heavy:
            return plan.claim.unit != PERSON and len(self.weights(plan, plan.n)) > 0
        if self.shared == "classes":
            return isinstance(plan.problem.loss, Softmax)
        if self.shared == "draws":
            return plan.claim.scope is Scope.EVERY and len(plan.releases) > 1
        if self.whole:  # scales that shrink: later noise is less than an earlier round needs
            return any(getattr(part, "power", 1.0) < 1.0 for part in plan.schedule)
        if self.averaged:
            return plan.claim.scope is Scope.LAST and len(plan.releases) > 1
        return not self.overlap or len(plan.schedule) > 1

    def plan(self, plan: Plan) -> Plan:
        """Break the noise, the schedule or the problem."""
        if self.swapped:
            lighter = Budget(plan.budget.epsilon, plan.budget.delta, "zero_out")
            return plan.algorithm.plan(plan.problem, n=plan.n, d=plan.d, budget=lighter)  # type: ignore[attr-defined]
        if self.clip != 1.0:
            return replace(plan, schedule=tuple(replace(s, clip=self.clip * s.clip) for s in plan.schedule))
        if self.norm:
            return replace(plan, schedule=tuple(replace(s, q=self.norm) for s in plan.schedule))
        if self.ridge != 1.0:
            return replace(plan, problem=replace(plan.problem, l2=self.ridge * plan.problem.l2))
        if not self.overlap:
            return plan
        phases = [plan.schedule[0]]
        for phase in plan.schedule[1:]:
            records = range(phase.records.start - self.overlap, phase.records.stop)
            phases.append(replace(phase, records=records, steps=replace(phase.steps, length=len(records))))
        return replace(plan, schedule=tuple(phases))

    def factor(self, plan: Plan) -> float:
        """Factor on all noise of that plan."""
        if not self.printed:
            return self.noise
        p, (d,) = plan.algorithm.p, plan.releases[-1].shape  # type: ignore[attr-defined]
        return self.noise * math.sqrt(min(1.0 / (p - 1.0), math.log(d)) / kappa(dual_exponent(p), d))

    def weights(self, plan: Plan, count: int) -> np.ndarray:
        """Weights twice their cap, as the loops see them; none where the algorithm takes none."""
        if "sample_weight" not in getattr(plan.algorithm, "takes", ()):
            return EVEN
        given = np.full(count, 2.0)
        return given if self.heavy else open_weights(given, 1.0, count)

    def labels(self, y: np.ndarray, record: int) -> np.ndarray:
        """Break the reading of the data (all rows of the attacked pair are alike, so labels are all there is)."""
        if self.twice:
            y = y.copy()
            y[record + 1 if record + 1 < len(y) else record - 1] = y[record]
        return y


NONE = Mutant("none")
_ANYWHERE = (
    Mutant("noise x 0.7", noise=0.7),
    Mutant("noise halved", noise=0.5),
    Mutant("first draw of noise left out", silent=True),
    Mutant("noise for masking, promise for replacing", swapped=True),
    Mutant("record used twice", twice=True),
)
_LONG = Mutant("rows not brought back to their bound", unbounded=True)
_HEAVY = Mutant("weights not clipped to their cap", heavy=True)
_CLASSES = Mutant("one noise for all classes", shared="classes")
_APART = Mutant("rows clipped, not people", apart=True)
MUTANTS: dict[str, tuple[Mutant, ...]] = {
    "Curvature": (*_ANYWHERE, _LONG, _HEAVY),
    "FrankWolfe": (*_ANYWHERE, Mutant("clip missing", clip=1e9), _HEAVY),
    "HeavyTailedSGD": (
        *_ANYWHERE,
        Mutant("clip missing", clip=1e9),
        Mutant("coordinates clipped, promise about l2", norm=math.inf),
        _HEAVY,
    ),
    "HeldOut": _ANYWHERE,
    "MeanDirection": (*_ANYWHERE, _LONG, _HEAVY),
    "MirrorDescent": (
        *_ANYWHERE,
        Mutant("clip missing", clip=1e9),
        Mutant("clipped in another norm", norm=math.inf),
        _HEAVY,
        Mutant("generalised noise halved", noise=0.5, shaped=True),
        Mutant("noise of another exponent", shaped=True, shape=2.0),
        Mutant("noise for the printed constant of regularity", shaped=True, printed=True),
    ),
    "NoisyGD": (*_ANYWHERE, Mutant("clip missing", clip=1e9), _HEAVY, _CLASSES, _APART),
    "NoisySGD": (*_ANYWHERE, _LONG),
    "ObjectivePerturbation": (*_ANYWHERE, _LONG, _HEAVY, Mutant("regularisation missing", ridge=0.02), _CLASSES),
    "OnlineToBatch": (
        *_ANYWHERE,
        Mutant("clip missing", clip=1e9),
        _HEAVY,
        Mutant("last scale on the noise of all rounds", whole=True),
    ),
    "PhasedERM": (*_ANYWHERE, _LONG),
    "PhasedSGD": (
        *_ANYWHERE,
        _LONG,
        Mutant("phases overlap by one record", overlap=1),
        Mutant("average released under a last-iterate claim", averaged=True),
        Mutant("one noise for all phases", shared="draws"),
    ),
    "PoissonSGD": (
        *(m for m in _ANYWHERE if not m.silent),
        Mutant("clip missing", clip=1e9),
        _HEAVY,
        Mutant("sampled twice as often", sampling=2.0),
        Mutant("all records used at every step", sampling=np.inf),
        _CLASSES,
        _APART,
    ),
    "PrivateFTRL": (*_ANYWHERE, _LONG, _HEAVY),
    "SnowballSGD": (*(m for m in _ANYWHERE if not m.silent), _LONG),  # its last draw covers every record alone
    "SufficientStatistics": (*_ANYWHERE, _LONG, _HEAVY, _APART),
    "TruncatedMirrorDescent": (
        *_ANYWHERE,
        Mutant("truncation missing", clip=1e9),
        Mutant("truncated in another norm", norm=math.inf),
        _HEAVY,
        Mutant("records in the order given, promise about a secret one", sampling=np.inf),
    ),
}
