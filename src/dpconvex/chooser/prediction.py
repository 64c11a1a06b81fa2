"""What a plan will lose, guessed from public facts: log(excess) = a + b log r, with r = d Delta / (n mu).

The excess loss is the mean over the records of the task's plain loss at the released predictions, above the least that
the same linear model reaches on them without privacy. Nothing about the data is known but its size. The rule assumes
that a problem is like the public data sets it was fitted to: rows scaled to fill their bound, labels that the features
tell about as well as they do there, spectra that fall off as they do in tables and bags of words. The band holds some
five of six measurements on data sets that were left out of the fit; where rows hug a corner of their bound, or the
label is next to certain, the excess may lie above it. A prediction hardly grows where weights of zero would do nearly
as well. The slope b is the algorithm's for all tasks.

`benchmarks/prediction.py --write` makes the constants in `measured.json`, and says how well the rule does. An algorithm
that is not among them may declare its own line (`Algorithm.excess`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from dpconvex import algorithms
from dpconvex.chooser.forms import noise_level, noise_to_signal
from dpconvex.errors import InputError
from dpconvex.kernel.budget import Budget
from dpconvex.problem.problem import Problem

MOST_RECORDS = 10**12
SATURATED = 0.8  # of what weights of zero lose: beyond it algorithms differ by less than can be foretold
FLAT = 1e-3  # slope of predictions beyond it, in logarithms: they keep their order

HOPELESS = 0.5  # of `drowned`: from there on, three of four fits to public tables were no better than without features

_MEASURED = json.loads(files("dpconvex.chooser").joinpath("measured.json").read_text(encoding="utf-8"))
_EXCESS: dict[str, dict[str, tuple[float, float]]] = _MEASURED["excess"]  # a and b, by task and algorithm
_TYPICAL: dict[str, float] = _MEASURED["typical"]  # what weights of zero lose per record, by task
_BAND: float = _MEASURED["band"]  # half of the width of the band, in log excess
_SCORES: dict[str, dict[str, list[float]]] = _MEASURED["scores"]  # r0, b, and both anchors, by task and score
SCORE_WORDS = {"auc": "AUC", "accuracy": "accuracy", "r2": "R^2"}


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


@dataclass(frozen=True)
class Score:
    """A score to expect of the released model on new rows, between two anchors.

    Parameters
    ----------
    name : {"auc", "accuracy", "r2"}
    trivial : float
        Of a model that knows nothing of the features: it guesses, predicts the largest class, or the mean.
    expected : float
        Of the private model.
    without_privacy : float
        Of the same model without noise.
    given : bool
        Whether the anchors were given. Otherwise they are the medians of public tables, for want of something better.

    Examples
    --------
    >>> print(Score("auc", 0.5, 0.84, 0.9, True))
    AUC 0.84, between 0.50 without features and 0.90 without privacy
    """

    name: str
    trivial: float
    expected: float
    without_privacy: float
    given: bool

    def __str__(self) -> str:
        words = SCORE_WORDS[self.name]
        return (
            f"{words} {self.expected:.2f}, between {self.trivial:.2f} without features and "
            f"{self.without_privacy:.2f} without privacy"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain form."""
        return asdict(self)


def predict_scores(
    problem: Problem, n: int, d: int, budget: Budget, anchors: Mapping[str, Sequence[float]] | None = None
) -> tuple[Score, ...]:
    """Predict scores of `choose`; none where nothing was measured.

    The part of a score that is kept, (private - trivial) / (without privacy - trivial), is 1 / (1 + (r / r0)^b), by
    constants fitted to public tables (`benchmarks/scores.py`).

    Parameters
    ----------
    anchors : mapping from names of scores to pairs, optional
        The trivial score and that without privacy, where something is known of them.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    >>> accuracy, auc = predict_scores(problem, 20_000, 10, budget, {"auc": (0.5, 0.8)})
    >>> auc.given, accuracy.given, 0.75 < auc.expected < 0.8
    (True, False, True)
    """
    known = _SCORES.get(task_of(problem) or "", {})
    given = check_anchors(anchors, known)
    level, found = noise_level(problem, n, d, budget), []
    for name, (middle, steep, trivial, free) in known.items():
        low, high = given.get(name, (trivial, free))
        kept = 1.0 / (1.0 + (level / middle) ** steep)
        found.append(Score(name, low, low + kept * (high - low), high, name in given))
    return tuple(found)


def check_anchors(anchors: Any, known: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Anchors as pairs of numbers, for scores that are predicted."""
    if anchors is None:
        return {}
    names = list(known)
    if not isinstance(anchors, Mapping):
        raise InputError("anchors must be a mapping from names of scores to (without features, without privacy)")
    found = {}
    for name, pair in anchors.items():
        if name not in names:
            raise InputError(f"anchors: no {name!r} is predicted for this problem; {', '.join(names) or 'nothing'} is")
        try:
            low, high = (float(value) for value in pair)
        except (TypeError, ValueError):
            raise InputError(f"anchors: {name!r} must be a pair, without features and without privacy") from None
        if not 0.0 <= low < high <= 1.0:
            raise InputError(
                f"anchors: {name!r} must be two numbers from 0 to 1, the one without privacy above the other"
            )
        found[name] = low, high
    return found


def drowned(problem: Problem, n: int, d: int, budget: Budget) -> float:
    """Noise of one sum of gradients relative to the largest sum of n records; for K classes K - 1 times that.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> [round(drowned(Problem(Logistic()), n, 3, Budget(1.0, 1e-6)), 3) for n in (5, 500)]
    [2.927, 0.029]
    """
    return max(problem.loss.traits.outputs - 1, 1) * noise_to_signal(problem, n, d, budget)


def hopeless(problem: Problem, n: int, d: int, budget: Budget) -> bool:
    """Whether a fit is likely to be no better than a model that knows nothing of the features.

    Where the noise is half of what all records together could say, three of four fits to public tables were no better
    in log-loss, or squared error, than the shares of the classes, or the mean (`benchmarks/scores.py`). Nothing is said
    of domains whose corners are searched, such as an l1 ball: there d counts for less.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> [hopeless(Problem(Logistic()), n, 3, Budget(1.0, 1e-6)) for n in (5, 500)]
    [True, False]
    """
    return task_of(problem) is not None and drowned(problem, n, d, budget) >= HOPELESS


def hope(problem: Problem, d: int, budget: Budget) -> int:
    """Number of records from which a fit is not hopeless.

    Examples
    --------
    >>> from dpconvex.problem.losses import Logistic
    >>> problem, budget = Problem(Logistic()), Budget(1.0, 1e-6)
    >>> least = hope(problem, 3, budget)
    >>> [hopeless(problem, n, 3, budget) for n in (least - 1, least)]
    [True, False]
    """
    return math.floor(drowned(problem, 1, d, budget) / HOPELESS) + 1


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
    level, scale = math.log(noise_level(problem, n, d, budget)), loss_scale(problem)
    most = math.log(SATURATED * _TYPICAL[task])
    found: dict[str, Prediction | None] = {}
    for name in names:
        found[name] = None
        line = _EXCESS[task].get(name) or algorithms.get(name).excess.get(task)
        if line is not None:
            centre = line[0] + line[1] * level
            centre = min(centre, most + FLAT * (centre - most))
            found[name] = Prediction(*[scale * math.exp(centre + width) for width in (0.0, -_BAND, _BAND)])
    return found


def typical_excess(problem: Problem) -> float:
    """What weights of zero lose per record on data like those the rule was fitted to, NaN where nothing is known."""
    task = task_of(problem)
    return math.nan if task is None else loss_scale(problem) * _TYPICAL[task]


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


def loss_scale(problem: Problem) -> float:
    """Unit of excess losses: the target, for squares its square, and for K classes what weights of zero lose, ln K.

    Examples
    --------
    >>> from dpconvex.problem.losses import Softmax, Squared
    >>> loss_scale(Problem(Squared(target=10.0))), round(loss_scale(Problem(Softmax(3))), 4)
    (100.0, 1.0986)
    """
    traits = problem.loss.traits
    if traits.task == "classes":
        return math.log(traits.outputs)
    return traits.target**2 if traits.task == "squares" else traits.target
