"""What a plan will lose, guessed from public facts: log(excess) = a + b log r, with r = d Delta / (n mu).

The excess loss is the mean over the records of the task's plain loss at the released predictions, above the least that
the same linear model reaches on them without privacy. Nothing about the data is known but its size. The rule assumes
that a problem is like the public data sets it was fitted to: rows scaled to fill their bound, labels that the features
tell about as well as they do there, spectra that fall off as they do in tables and bags of words. The band holds some
five of six measurements on data sets that were left out of the fit; where rows hug a corner of their bound, or the
label is next to certain, the excess may lie above it. A prediction stops where weights of zero would do nearly as well.
The slope b is the algorithm's for all tasks.

`benchmarks/prediction.py --write` makes the constants in `measured.json`, and says how well the rule does. An algorithm
that is not among them may declare its own line (`Algorithm.excess`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from dpconvex import algorithms
from dpconvex.chooser.forms import noise_level
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem

MOST_RECORDS = 10**12
SATURATED = 0.8  # of what weights of zero lose: beyond it algorithms differ by less than can be foretold

_MEASURED = json.loads(files("dpconvex.chooser").joinpath("measured.json").read_text(encoding="utf-8"))
_EXCESS: dict[str, dict[str, tuple[float, float]]] = _MEASURED["excess"]  # a and b, by task and algorithm
_TYPICAL: dict[str, float] = _MEASURED["typical"]  # what weights of zero lose per record, by task
_BAND: float = _MEASURED["band"]  # half of the width of the band, in log excess


@dataclass(frozen=True)
class Prediction:
    """Excess loss per record to expect, and between what it is likely to lie.

    Examples
    --------
    >>> Prediction(0.02, 0.01, 0.04).to_dict()
    {'excess': 0.02, 'low': 0.01, 'high': 0.04}
    """

    excess: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain form."""
        return {"excess": self.excess, "low": self.low, "high": self.high}


def predict(name: str, problem: Problem, n: int, d: int, budget: Budget) -> Prediction | None:
    """Predict the excess loss of an algorithm; None where there is nothing to go by.

    Nothing is known of l1 and l_p balls, of the simplex, of linear losses, and of algorithms that do not minimise a
    loss.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    >>> few, many = (predict("ObjectivePerturbation", problem, n, 20, budget) for n in (1000, 100_000))
    >>> many.low < many.excess < many.high, many.excess < few.excess / 10
    (True, True)
    """
    return predictions([name], problem, n, d, budget)[name]


def predictions(names: Iterable[str], problem: Problem, n: int, d: int, budget: Budget) -> dict[str, Prediction | None]:
    """Predict the excess loss of each algorithm, as `predict` does."""
    task = task_of(problem)
    if task is None:
        return dict.fromkeys(names)
    level, scale = math.log(noise_level(problem, n, d, budget)), _scale(problem)
    most = math.log(SATURATED * _TYPICAL[task])
    found: dict[str, Prediction | None] = {}
    for name in names:
        found[name] = None
        line = _EXCESS[task].get(name) or algorithms.get(name).excess.get(task)
        if line is not None:
            centre = min(line[0] + line[1] * level, most)
            found[name] = Prediction(*[scale * math.exp(centre + width) for width in (0.0, -_BAND, _BAND)])
    return found


def typical_excess(problem: Problem) -> float:
    """What weights of zero lose per record on data like those the rule was fitted to, NaN where nothing is known."""
    task = task_of(problem)
    return math.nan if task is None else _scale(problem) * _TYPICAL[task]


def people_needed(
    problem: Problem, d: int, budget: Budget, excess: float, names: Iterable[str], *, sure: bool = False
) -> int | None:
    """Least number of records at which one of the algorithms is predicted to lose no more; None beyond 10^12.

    With `sure`, the upper end of the band has to be as low.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> problem, budget, names = Problem(Logistic()), Budget(1.0, 1e-6), ["ObjectivePerturbation"]
    >>> least = people_needed(problem, 20, budget, 0.01, names)
    >>> [predict(*names, problem, n, 20, budget).excess <= 0.01 for n in (least - 1, least)]
    [False, True]
    """
    known = list(names)

    def lost(n: int) -> float:
        found = predictions(known, problem, n, d, budget).values()
        return min((p.high if sure else p.excess for p in found if p), default=math.inf)

    if lost(MOST_RECORDS) > excess:
        return None
    below, enough = 1, MOST_RECORDS  # predictions fall as n grows
    while enough - below > 1:
        middle = (below + enough) // 2
        below, enough = (below, middle) if lost(middle) <= excess else (middle, enough)
    return enough


def task_of(problem: Problem) -> str | None:
    """Under which name the constants know a problem; None where they do not."""
    return problem.loss.traits.task if problem.domain.traits.rowwise else None


def _scale(problem: Problem) -> float:
    """Losses of a target grow with its range, squares with that of its square."""
    target = problem.loss.traits.target
    return target * target if task_of(problem) == "squares" else target
