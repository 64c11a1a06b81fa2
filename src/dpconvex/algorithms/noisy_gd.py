"""NoisyGD: full-batch gradient descent with Gaussian noise on every gradient, accounted by composition.

The gradient of every record is clipped to `clip` before it is added to the sum, so the guarantee holds for any loss.
For a linear model, a clipped gradient is the gradient of a loss with smaller slopes. Momentum, projection and averaging
are computed from the noisy gradients alone.

Rows of real data often have a large mean (a constant feature, entries that are never negative), and most of the length
of a gradient lies along it. The sum of all rows is cheap to release. With it, the descent changes to coordinates in
which the mean row is short, so that clipped gradients carry more information. Proof: docs/proofs/noisy_gd.md.

With `per_person`, the sum of the gradients of each person is clipped: docs/proofs/people.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    LOGISTIC,
    NOT_CAPPED,
    NOT_CLIPPED,
    ROWS_AS_PEOPLE,
    SHARED_BY_CLASSES,
    SOFTMAX,
    Attack,
    Mutant,
    Pair,
    Victim,
    descent_pair,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.options import check_options
from dpconvex.calibrate import noise_factor
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import clipped_sum, compose, computed_sum, gaussian, moment_sums, post_process

if TYPE_CHECKING:
    from dpconvex.sums.protocol import Frame, Sums

LEFT_TO_MEAN = 0.1  # squared length kept along the mean row, as a fraction of that in all other directions
LEAST_DAMPING = 0.1
MOMENTUM, AVERAGED = 0.95, 0.1
# Of several classes the rare ones are learned from little, and the last points carry the noise of few gradients: longer
# steps, and the mean of the later half, which has less noise wherever the descent has arrived.
OF_CLASSES = 1.25
MOMENTUM_OF_CLASSES, AVERAGED_OF_CLASSES = 0.9, 0.5


@dataclass(frozen=True)
class Descent:
    """The public recipe: number and length of steps, and which iterates are averaged."""

    steps: int
    rate: float
    clip: float
    momentum: float
    averaged: int


@dataclass(frozen=True)
class NoisyGD(Algorithm):
    """Full-batch noisy gradient descent with momentum, for scalar losses and softmax.

    Parameters
    ----------
    steps : int, optional
        Number of gradients; by default between 100 and 300, depending on the horizon.
    clip : float, optional
        Largest norm of one record's gradient, or of one person's sum of gradients. By default half the row bound; for
        `Logistic` its largest gradient, since a smaller clip would make its probabilities invalid. For `Softmax` also
        its largest gradient where there is little noise, and less the more noise there is (`softmax_clip`).
    momentum : float, optional
        Weight of past gradients in the moving average of gradients, in [0, 1). By default 0.95, and 0.9 for `Softmax`.
    horizon : float, optional
        Step size times number of steps, on the scale of the mean loss. By default 1.7 n mu over clip and row bound,
        which is as large as the noise allows; for `Softmax` 1.25 times that.
    mean_share : float
        Fraction of mu^2 spent on the mean row, in [0, 1). It is spent only if the domain is unbounded and l2 is 0,
        because a domain and an l2 refer to the original coordinates. With `per_person` nothing is spent.
    per_person : bool
        Clip the sum of the gradients of all rows of a person instead of the gradient of each row. The guarantee then
        protects people, however many rows they have, and runs need the group id of every row: `run(X, y, groups=...)`.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2)) / 2
    >>> y = (X[:, 0] > 0).astype(float) + (X[:, 1] > 0)
    >>> plan = dc.algorithms.NoisyGD().plan(dc.Problem(dc.losses.Softmax(3)), n=500, d=2, budget=dc.Budget(4.0, 1e-5))
    >>> solution = plan.run(X, y)
    >>> solution.weights.shape, solution.predict(X).shape
    ((3, 2), (500, 3))
    >>> by_person = dc.algorithms.NoisyGD(per_person=True)
    >>> plan = by_person.plan(dc.Problem(dc.losses.Softmax(3)), n=500, d=2, budget=dc.Budget(4.0, 1e-5))
    >>> plan.run(X, y, groups=np.arange(500) // 4, dataset="visits").receipt.sections["dataset"]["unit"]
    'person'
    """

    needs = Needs(ORIGIN, classes=True, kinks=False, records=True)
    suits = "smooth losses, softmax among them, for which it is the default"
    reads = "100 to 300"
    takes = frozenset({"sample_weight", "groups"})
    vectors = 4.0
    keeps_squares = True
    shifts_margin = True
    leads = frozenset({"margin", "classes", "few of classes", "squares"})

    steps: int | None = None
    clip: float | None = None
    momentum: float | None = None
    horizon: float | None = None
    mean_share: float = 0.02
    per_person: bool = False

    def __post_init__(self) -> None:
        check_options(
            self, whole={"steps": 100_000}, positive=["horizon"], clips=["clip"], flags=["per_person"],
            within={"momentum": (0.0, 1.0, "[)"), "mean_share": (0.0, 1.0, "[)")},
        )  # fmt: skip

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        n, d = self.accept(problem, n, d, budget)
        recipe = self._recipe(problem, n, d, budget)
        factor = noise_factor(self._claim(problem, n, d, budget, recipe, 1.0), budget)
        claim = self._claim(problem, n, d, budget, recipe, round_up(factor))
        utility = "not bounded beforehand: clipping changes the loss; try the plan on made-up data"
        return Plan(self, problem, n, d, budget, claim, (recipe,), n * recipe.steps, utility)

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Descend along noisy gradients."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Ones

        sums, path = open_sums(rows, y), _Path(plan)
        gradients = _of_people if self.per_person else _of_records
        if _centred(plan):
            port.add("rows", sums.sweep(Ones()))
        frame = _frame(plan, port)
        for _ in range(plan.schedule[0].steps):
            path.move(port.add("gradients", gradients(plan, sums, path.point, frame)))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Recompute the iterates from the noisy values alone, and average the last ones."""
        path = _Path(plan)
        for gradient in port.history("gradients"):
            path.move(gradient)
        return _frame(plan, port)(path.average)

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Descent = plan.schedule[0]
        whose = "sums of a person " if self.per_person else ""
        mean = [f"mean row    sum of rows with noise {plan.releases[0].scale:.4g}"] if _centred(plan) else []
        return [
            *mean,
            f"descent     {r.steps} steps of {r.rate:.4g} on the mean loss, momentum {r.momentum:g}, "
            f"last {r.averaged} averaged",
            f"gradients   {whose}clipped to {r.clip:.4g}, noise {plan.releases[-1].scale:.4g} on their sum",
        ]

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        people = cls(steps=4, per_person=True)
        return (
            Attack(cls(steps=4), LOGISTIC, seed=20),
            Attack(cls(steps=4), SOFTMAX, d=2, name="NoisyGD, softmax", share=1 / 32, least=0.95, seed=22),
            Attack(people, LOGISTIC, name="NoisyGD, people", seed=24),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, NOT_CLIPPED, NOT_CAPPED, SHARED_BY_CLASSES, ROWS_AS_PEOPLE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return (
            Victim(cls(steps=3), LOGISTIC),
            Victim(cls(steps=3), SOFTMAX, d=2, runs=2000),
            Victim(cls(steps=3, per_person=True), LOGISTIC),
        )

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        pair = descent_pair(plan, mutant)
        # If the mean row is released, it sets the coordinates of the gradients: outputs are not affine in the noise.
        centred = _centred(plan)
        return [replace(pair, law="any" if centred and plan.problem.intercept else "gaussian", transcript=centred)]

    def _recipe(self, problem: Problem, n: int, d: int, budget: Budget) -> Descent:
        row, traits = problem.row_bound(d).value, problem.loss.traits
        half = 0.5 * (traits.target if traits.records else 1.0)
        momentum, part, far = MOMENTUM, AVERAGED, 1.7
        if traits.outputs > 1 and traits.probabilities:
            share = softmax_clip(problem, n, d, budget)
            momentum, part, far = MOMENTUM_OF_CLASSES, AVERAGED_OF_CLASSES, 1.7 * OF_CLASSES
        else:
            share = problem.loss.slope_bound(math.inf) if traits.probabilities else half
        clip = self.clip or row * share
        momentum = momentum if self.momentum is None else self.momentum
        beta = problem.smoothness(n, d).value
        largest = 2.0 * (1.0 + momentum) / ((1.0 - momentum) * beta) if beta else math.inf
        horizon = self.horizon or far * n * budget.mu / (budget.moves * clip * row)
        steps = self.steps or min(max(math.ceil(horizon / largest), 100), 300)
        return Descent(steps, min(horizon / steps, largest), clip, momentum, max(1, math.floor(part * steps)))

    def _claim(self, problem: Problem, n: int, d: int, budget: Budget, recipe: Descent, factor: float) -> Claim:
        """Claim when the noise makes every release cost its share of mu^2 = 1/factor^2."""
        shape = problem.weight_shape(d)
        free = not (problem.domain.traits.bounded or problem.l2 or self.per_person)
        free = free and problem.start is None and not problem.loss.traits.records
        share = self.mean_share if free else 0.0
        clipped = clipped_sum(recipe.clip, budget.relation, PERSON if self.per_person else 1)
        clipped = computed_sum(clipped, n, math.prod(shape), 1.0 / LEAST_DAMPING if share else 1.0)  # of the frame
        scale = round_up(factor * clipped.value * math.sqrt(recipe.steps / (1.0 - share)))
        claim = gaussian(clipped, Release("gradients", "gaussian", scale, shape, recipe.steps, grid_of(scale)))
        if share:
            rows = moment_sums(problem.row_bound(d), 1.0, budget.relation, "cross")  # of y x with y = 1
            rows = computed_sum(rows, n, math.prod(shape))
            scale = round_up(factor * rows.value / math.sqrt(share))
            release = Release("rows", "gaussian", scale, shape[-1:], grid=grid_of(scale))
            claim = compose([gaussian(rows, release), claim])
        return post_process(claim, "momentum and averaging")


def softmax_clip(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Where to clip the gradients of a softmax, in units of the row bound: between 1/2 and its largest slope.

    Clipped slopes make the probabilities of rare classes too small. Where that is more than the noise, nothing is
    clipped; the less n mu is, the more a smaller clip saves in noise.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Softmax(3))
    >>> [round(softmax_clip(problem, n, 50, Budget(1.0, 1e-6)), 2) for n in (1000, 10_000, 100_000)]
    [0.5, 0.89, 1.41]
    """
    noise = budget.moves * math.sqrt(problem.weight_shape(d)[-1]) / (n * budget.mu)  # of one sum, per record
    largest: float = problem.loss.slope_bound(math.inf)
    return min(max(0.9 * (0.0056 / noise) ** 0.25, 0.5), largest)


def _centred(plan: Plan) -> bool:
    return plan.releases[0].name == "rows"


def _of_records(plan: Plan, sums: Sums, point: np.ndarray, frame: Frame) -> np.ndarray:
    """Sum of the gradients of all records at a point, each clipped, in the frame of the mean row."""
    from dpconvex.sums.protocol import Clipped

    loss, clip = plan.problem.loss, plan.schedule[0].clip
    if loss.traits.records or not _centred(plan):  # the frame is the identity
        return sums.sweep(Clipped(loss, point, clip))
    return frame(sums.sweep(Clipped(loss, frame(point), clip, frame=frame)))


def _of_people(plan: Plan, sums: Sums, point: np.ndarray, frame: Frame) -> np.ndarray:
    """Sum over people of the sums of their gradients at a point, each clipped."""
    from dpconvex.sums.protocol import Slopes

    return sums.people(Slopes(plan.problem.loss, point), plan.schedule[0].clip)


def _frame(plan: Plan, port: NoisePort) -> Frame:
    """Coordinates that damp the direction of the noisy mean row m, with rows of mean squared length at most R^2.

    By Jensen's inequality the mean of <x, m/|m|>^2 is at least |m|^2, so in the frame the mean of |A x|^2 is at most
    (R^2 - (1 - damping^2) |m|^2) / scale^2 = R^2. What noise alone adds to |m|^2 is subtracted, with a margin.
    """
    from dpconvex.sums.protocol import Frame

    size = plan.problem.weight_shape(plan.d)[-1]
    if not _centred(plan):
        return Frame(np.zeros(size))
    total, noise = port.released("rows"), plan.releases[0].scale
    square = float(total @ total)
    sure = square - noise * noise * (size + 3.0 * math.sqrt(2.0 * size))
    mean = min(max(sure / (plan.n * plan.problem.row_bound(plan.d).value) ** 2, 0.0), 1.0)
    if mean == 0.0:
        return Frame(np.zeros(size))
    damping = min(max(math.sqrt(LEFT_TO_MEAN * (1.0 - mean) / mean), LEAST_DAMPING), 1.0)
    return Frame(total / math.sqrt(square), damping, math.sqrt(1.0 - (1.0 - damping**2) * mean))


class _Path:
    """The iterates computed from noisy gradients: heavy ball, projection, average of the last points.

    They are in the coordinates of the frame, which is the identity if there is a domain or an l2.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._recipe = plan, plan.schedule[0]
        self.point = plan.problem.begin(plan.d)
        self.average = np.zeros_like(self.point)
        self._velocity = np.zeros_like(self.point)
        self._done = 0

    def move(self, gradient: np.ndarray) -> None:
        """Take one step."""
        plan, r = self._plan, self._recipe
        gradient = gradient + plan.problem.l2 * self.point
        self._velocity = r.momentum * self._velocity + (1.0 - r.momentum) * gradient
        self.point = plan.problem.domain.project(self.point - r.rate / plan.n * self._velocity)
        self._done += 1
        if self._done > r.steps - r.averaged:
            self.average = self.average + self.point / r.averaged
