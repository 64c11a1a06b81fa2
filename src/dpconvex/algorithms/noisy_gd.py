"""NoisyGD: full-batch gradient descent with Gaussian noise on every gradient, accounted by composition.

Every record's gradient is shortened to `clip` before it is added to the sum, so that the guarantee needs nothing of
the loss; for a linear model this is the gradient of a loss with smaller slopes. What follows the noisy gradients
(momentum, projection, averaging) is computed from them alone. Proof: docs/proofs/noisy_gd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpconvex.errors import InputError
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan, check_public
from dpconvex.plan.port import NoisePort
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.claims import Claim, Release
from dpconvex.privacy.theorems import clipped_sum, gaussian, post_process
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


@dataclass(frozen=True)
class Descent:
    """The public recipe: how often, how far, and what is averaged."""

    steps: int
    rate: float
    clip: float
    momentum: float
    averaged: int


@dataclass(frozen=True)
class NoisyGD:
    """Full-batch noisy gradient descent with momentum, for scalar losses and softmax.

    Parameters
    ----------
    steps : int, optional
        Number of gradients; by default between 100 and 300, as many as the horizon asks for.
    clip : float, optional
        Largest norm of one record's gradient; by default half the row bound.
    momentum : float
        Weight of the past in the moving average of gradients, in [0, 1).
    horizon : float, optional
        Step size times number of steps, on the scale of the mean loss. By default 1.7 n mu over clip and row bound:
        as far as the noise allows.

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
    """

    steps: int | None = None
    clip: float | None = None
    momentum: float = 0.95
    horizon: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and (isinstance(self.steps, bool) or not isinstance(self.steps, int)):
            raise InputError(f"steps must be a whole number, got {type(self.steps).__name__}")
        if self.steps is not None and not 1 <= self.steps <= 100_000:
            raise InputError(f"steps must lie between 1 and 100000, got {self.steps}")
        for name in ("clip", "horizon"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0.0 < value < math.inf):
                raise InputError(f"{name} must be a positive, finite number")
        if not 0.0 <= self.momentum < 1.0:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum}")

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix recipe and noise from public facts."""
        check_public(n, d, budget)
        n, d = int(n), int(d)
        recipe = self._recipe(problem, n, d, budget)
        unit = self._claim(problem, d, budget, recipe, 1.0)
        scale = unit.profile.mu / budget.mu * (1.0 + 1e-11)  # type: ignore[union-attr]
        claim = self._claim(problem, d, budget, recipe, round_up(scale))
        return Plan(
            self,
            problem,
            n,
            d,
            budget,
            claim,
            (recipe,),
            n * recipe.steps,
            utility="no bound is proved for clipped gradients",
        )

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Descend along noisy gradients."""
        from dpconvex.loops.batch import Batch, slopes

        recipe: Descent = plan.schedule[0]
        loss, batch = plan.problem.loss, Batch(rows, plan.n)
        norms = batch.norms * (1.0 + (plan.d + 64) * 2.3e-16)  # never below the true norm

        def respond(part: slice, scores: np.ndarray) -> np.ndarray:
            return shortened(slopes(loss, scores, y[part]), norms[part], recipe.clip)

        path = _Path(plan)
        for _ in range(recipe.steps):
            path.move(port.add("gradients", batch.sweep(path.point, respond)))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Walk the path again from the noisy gradients alone, and average its end."""
        path = _Path(plan)
        for gradient in port.history("gradients"):
            path.move(gradient)
        return path.average

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the recipe, for a person."""
        r: Descent = plan.schedule[0]
        return [
            f"descent     {r.steps} steps of {r.rate:.4g} on the mean loss, momentum {r.momentum:g}, "
            f"last {r.averaged} averaged",
            f"gradients   clipped to {r.clip:.4g}, noise {plan.releases[0].scale:.4g} on their sum",
        ]

    def _recipe(self, problem: Problem, n: int, d: int, budget: Budget) -> Descent:
        row = problem.row_bound(d).value
        clip = self.clip or 0.5 * row
        largest = 2.0 * (1.0 + self.momentum) / ((1.0 - self.momentum) * problem.smoothness(n, d).value)
        horizon = self.horizon or 1.7 * n * budget.mu / (budget.moves * clip * row)
        steps = self.steps or min(max(math.ceil(horizon / largest), 100), 300)
        return Descent(steps, min(horizon / steps, largest), clip, self.momentum, max(1, steps // 10))

    def _claim(self, problem: Problem, d: int, budget: Budget, recipe: Descent, scale: float) -> Claim:
        release = Release("gradients", "gaussian", scale, problem.weight_shape(d), times=recipe.steps)
        return post_process(gaussian(clipped_sum(recipe.clip, budget.relation), release), "momentum and averaging")


class _Path:
    """The iterates that follow from noisy gradients: heavy ball, projection, average of the last points."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._recipe = plan, plan.schedule[0]
        self.point = np.zeros(plan.problem.weight_shape(plan.d))
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


def shortened(residuals: np.ndarray, norms: np.ndarray, clip: float) -> np.ndarray:
    """Scale residuals r_i so that the gradients r_i x_i of rows of those norms are no longer than `clip`.

    Examples
    --------
    >>> shortened(np.array([3.0, 0.1]), np.array([1.0, 1.0]), 1.5)
    array([1.5, 0.1])
    """
    size = np.abs(residuals) if residuals.ndim == 1 else np.linalg.norm(residuals, axis=1)
    factor = clip / np.maximum(size * norms, clip)
    return residuals * (factor if residuals.ndim == 1 else factor[:, None])
