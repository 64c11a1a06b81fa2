"""One more number, fitted with privacy: by how much the log-odds of a model are to be stretched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation
from dpconvex.errors import InputError, RowError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.receipt import Receipt
from dpconvex.plan.plan import Solution
from dpconvex.problem.bounds import L2
from dpconvex.problem.losses import Logistic
from dpconvex.problem.problem import Problem
from dpconvex.sums.scores import score_rows


@dataclass(frozen=True)
class Recalibrated:
    """A solution whose log-odds are multiplied by a factor that was fitted with privacy."""

    solution: Solution
    factor: float
    receipt: Receipt

    def predict(self, X: Any) -> np.ndarray:
        """Probability of +1."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.factor * _log_odds(self.solution, X))))


def recalibrate(
    solution: Solution,
    X: Any,
    y: Any,
    *,
    budget: Budget,
    reach: float = 4.0,
    dataset: str = "default",
    seed: int | None = None,
) -> Recalibrated:
    """Fit the one factor that makes probabilities fit best: logistic regression on the log-odds of a solution.

    A release of its own: its budget adds to that of the solution if the rows are the same people's. `Logistic`, also
    with a cap or a shift, seldom needs it, since its link gives back probabilities; the scores of `SmoothedHinge` have
    no such link, and a small part of the budget buys them one.

    Parameters
    ----------
    solution : Solution of a problem with labels -1 and +1
    X, y : rows and labels
    budget : Budget
    reach : float
        Log-odds are clipped to [-reach, reach] before the fit.
    dataset, seed : as in `Plan.run`

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 1))
    >>> y = np.where(3 * X[:, 0] + rng.logistic(size=20_000) > 0, 1, -1)
    >>> plan = dc.choose(dc.Problem(dc.losses.SmoothedHinge()), n=20_000, d=1, budget=dc.Budget(1.0, 1e-6))
    >>> better = dc.recalibrate(plan.run(X, y), X, y, budget=dc.Budget(1.0, 1e-6))
    >>> bool(abs(better.predict([[0.5]])[0] - 1 / (1 + np.exp(-1.5))) < 0.05)  # 0.016 was the worst of 60
    True
    """
    if not isinstance(solution, Solution) or solution.problem.loss.traits.task != "margin":
        raise InputError("recalibrate takes the Solution of a problem with labels -1 and +1 (Logistic, SmoothedHinge)")
    problem = Problem(Logistic(), feature_bound=L2(reach))
    try:
        odds = _log_odds(solution, X)
    except RowError:  # which the run will find as well, after its charge
        odds = np.full(np.shape(X)[0], np.nan)
    plan = ObjectivePerturbation().plan(problem, n=len(odds), d=1, budget=budget)
    fitted = plan.run(np.clip(odds, -reach, reach)[:, None], y, dataset=dataset, seed=seed)
    return Recalibrated(solution, float(fitted.weights[0]), fitted.receipt)


def _log_odds(solution: Solution, X: Any) -> np.ndarray:
    scores = score_rows(X, solution.weights, solution.problem)
    loss = solution.problem.loss
    return loss.log_odds(scores) if loss.traits.probabilities else scores  # type: ignore[union-attr]
