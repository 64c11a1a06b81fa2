"""What `dc.recommend` predicts against what is measured, and the constants it predicts with: `make prediction`.

    python benchmarks/prediction.py --data folder [--seeds 5] [--relation zero_out] [--cache fits.json] [--write]
        [--task classes]

Runs every algorithm, in the form `recommend` gives it and with nothing tuned, on every data set, task and epsilon in
(0.1, 0.5, 1, 2, 8), with delta = n^-1.1. The excess loss of a run is the mean over the rows of the fit of the task's
plain loss (log-loss of the probabilities, half the squared error, hinge, absolute error) at the released predictions,
above the least that the same linear model reaches on these rows without privacy. Then it

- fits log(excess) = a + b log r, r = d Delta/(n mu), for each algorithm and task;
- says how far the first row of `recommend` is from the best algorithm in hindsight, cell by cell, also if the constants
  were made without the data set at hand;
- says how predictions made without the data set at hand rank the cells, and how many fall into the band;
- with --write, puts the constants into src/dpconvex/chooser/measured.json and the picture into
  docs/images/prediction.svg.

Losses of classes are divided by ln K, so that data with different numbers of classes can be put together. With --task,
only that task is measured and written, and the slopes of the algorithms stay as they are; that of classes was measured
under replace_one, since objective perturbation of a softmax needs less than twice the noise of zero_out there.

Fits are kept in the cache, so that a run that was broken off goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import EPSILONS, Split, prepared, public, task
from classes import made, marital, steep
from figures import aged
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, QuantileRegressor
from sklearn.svm import LinearSVC

import dpconvex as dc
from dpconvex.chooser.forms import form, noise_level
from dpconvex.chooser.prediction import FLAT, SATURATED, loss_scale
from dpconvex.chooser.recommend import candidates, rank
from dpconvex.drawing import scatter
from dpconvex.plan.plan import probabilities

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "src" / "dpconvex" / "chooser" / "measured.json"
LOSSES: dict[str, Callable[[np.ndarray], Any]] = {
    "margin": lambda y: dc.losses.Logistic(),
    "classes": lambda y: dc.losses.Softmax(int(y.max()) + 1),
    "squares": lambda y: dc.losses.Squared(),
    "hinge": lambda y: dc.losses.Hinge(),
    "absolute": lambda y: dc.losses.Absolute(),
}
# Made up with more rows, to see where to change between algorithms; no lines are fitted to them.
TURNS = ("wide 3", "wide 7", "wide 12", "steep 4", "steep 8")
# Data set, rows at most, task. Those of the folder at their full size are the development data.
CELLS: list[tuple[str, int | None, str]] = [
    *((name, None, "margin") for name in ("covtype15k", "adult", "credit", "sst2", "kdd99")),
    ("calhousing", None, "squares"),
    ("mnist", 5000, "classes"),
    *((name, None, "margin") for name in ("breast cancer", "randhie", "compas")),
    ("kdd99", 60_000, "margin"),
    *((name, rows, "margin") for name, rows in (("adult", 3000), ("credit", 3000), ("covtype15k", 1500))),
    *((name, 6000, "margin") for name in ("sst2", "kdd99")),
    *((name, None, "squares") for name in ("diabetes", "adult age", "credit limit")),
    *((name, rows, "squares") for name, rows in (("adult age", 3000), ("calhousing", 2000))),
    ("digits", None, "classes"),
    *(("marital", rows, "classes") for rows in (15_000, 3000)),
    *((name, 10_000, "classes") for name in ("made 3", "made 7", "made 12")),
    *((name, 40_000, "classes") for name in TURNS),
    *((name, None, "hinge") for name in ("adult", "covtype15k", "credit", "breast cancer")),
    ("kdd99", 60_000, "hinge"),
    ("sst2", 6000, "hinge"),
    *((name, None, "absolute") for name in ("calhousing", "diabetes")),
    *((name, 3000, "absolute") for name in ("adult age", "credit limit")),
]
DEVELOPMENT = ("adult", "credit", "covtype15k", "kdd99", "sst2", "calhousing", "mnist")
SAME_PEOPLE = {"adult age": "adult", "credit limit": "credit", "marital": "adult"}  # left out together
LARGE, LARGE_CLASSES = 200_000, 20_000  # with more rows, only algorithms that could be the best are run
COVERED = 0.85  # part of the residuals that the band is made to cover
FLATTEST = 0.05  # slope in log r: more records are never predicted to lose more


class Cell(NamedTuple):
    """One algorithm on one data set at one budget."""

    name: str
    n: int
    task: str
    epsilon: float
    algorithm: str
    r: float
    excess: float
    error: float
    zero: float

    @property
    def place(self) -> tuple[str, int, str, float]:
        return self.name, self.n, self.task, self.epsilon

    @property
    def people(self) -> str:
        return SAME_PEOPLE.get(self.name, self.name)


# Data --------------------------------------------------------------------------------------------------------------


def loaders(folder: Path) -> dict[str, Callable[[], Split]]:
    """The sets of the folder, those that come with packages, and tables with a schema."""
    tables = {"randhie": lambda: table("randhie"), "compas": lambda: table("compas")}
    own = {f"made {k}": lambda k=k: made(10_000, k, seed=1) for k in (3, 7, 12)}
    own |= {f"wide {k}": lambda k=k: made(40_000, k, seed=2) for k in (3, 7, 12)}
    own |= {f"steep {k}": lambda k=k: steep(40_000, k) for k in (4, 8)}
    return {
        **public(),
        **prepared(folder),
        **tables,
        **own,
        "adult age": ages,
        "credit limit": limits,
        "marital": marital,
    }


def encoded(frame: Any, schema: dc.Schema, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    encoder = dc.PrivatePreprocessor(schema)
    X = encoder.fit_transform(frame)
    X = np.hstack([X, np.full((len(X), 1), encoder.constant_)])
    return X / max(1.0, float(np.linalg.norm(X, axis=1).max())), y


def table(name: str) -> Split:
    frame, target, schema = dc.datasets.load(name)
    return halves(*encoded(frame, schema, (np.asarray(target) == schema.target.labels[1]).astype(float)))


def ages() -> Split:
    parts = [encoded(frame, schema, (age - 53.5) / 36.5) for frame, age, schema in map(aged, ("train", "test"))]
    return *parts[0], *parts[1]


def limits() -> Split:
    frame, _, schema = dc.datasets.load("credit")
    bound = schema.columns["LIMIT_BAL"]
    low, high = math.log(bound.low), math.log(bound.high)
    y = (np.log(np.asarray(frame["LIMIT_BAL"], float)) - low) / (high - low) * 2.0 - 1.0
    columns = {k: v for k, v in schema.columns.items() if k != "LIMIT_BAL"}
    rest = dc.Schema(columns, dc.schema.Range("LIMIT_BAL", low, high), name="limits")
    return halves(*encoded(frame.drop(columns="LIMIT_BAL"), rest, np.clip(y, -1.0, 1.0)))


def halves(X: np.ndarray, y: np.ndarray) -> Split:
    order = np.random.default_rng(20240501).permutation(len(X))
    cut = len(X) * 4 // 5
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def training_rows(load: Callable[[], Split], most: int | None, kind: str) -> tuple[Any, np.ndarray]:
    X, y, _, _ = load()
    order = np.random.default_rng(7).permutation(X.shape[0])[:most]
    y = np.asarray(y)[order]
    return X[order], 2.0 * y - 1.0 if kind != "classes" and task(y) == "binary" else y


# Losses ------------------------------------------------------------------------------------------------------------


def mean_loss(kind: str, loss: Any, X: Any, y: np.ndarray, w: np.ndarray) -> float:
    """Mean of the plain loss of a task at what is predicted with weights w that were fitted with `loss`."""
    z = np.asarray(X @ w.T, float)
    if kind == "margin":
        p = np.clip(probabilities(loss, z), 1e-12, 1.0 - 1e-12)
        return float(-np.where(y > 0, np.log(p), np.log1p(-p)).mean())
    if kind == "classes":
        p = probabilities(loss, z)[np.arange(len(y)), y.astype(int)]
        return float(-np.log(np.clip(p, 1e-12, 1.0)).mean())
    if kind == "hinge":
        return float(np.maximum(0.0, 1.0 - y * z).mean())
    r = np.clip(z, -1.0, 1.0) - y
    return float((r * r / 2.0 if kind == "squares" else np.abs(r)).mean())


def least_loss(kind: str, X: Any, y: np.ndarray) -> float:
    """The least mean loss over a path of fits without privacy."""
    return min(mean_loss(kind, LOSSES[kind](y), X, y, w) for w in plain_fits(kind, X, y))


def plain_fits(kind: str, X: Any, y: np.ndarray) -> Iterator[np.ndarray]:
    if kind in ("margin", "classes"):
        for c in (0.1, 1, 10, 100, 1000):
            found = LogisticRegression(C=c, fit_intercept=False, max_iter=300, tol=1e-5).fit(X, y).coef_
            yield found[0] if kind == "margin" else found
    elif kind == "squares":
        second = X.T @ X
        second = np.asarray(second.toarray() if sparse.issparse(second) else second, float)
        yield np.linalg.solve(second + 1e-3 * np.eye(len(second)), np.asarray(X.T @ y, float))
    elif kind == "hinge":
        for c in (0.1, 1, 10, 100):
            yield LinearSVC(C=c, loss="hinge", fit_intercept=False, max_iter=3000).fit(X, y).coef_[0]
    else:
        yield QuantileRegressor(quantile=0.5, alpha=0.0, fit_intercept=False).fit(X, y).coef_


# Measurements ------------------------------------------------------------------------------------------------------


class Cache:
    """Numbers in a JSON file, kept whenever asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def save(self) -> None:
        fresh = self.path.with_suffix(".part")
        fresh.write_text(json.dumps(self.kept))
        fresh.replace(self.path)


def measure(
    cache: Cache, load: Callable[[], Split], place: tuple[str, int | None, str], relation: str, seeds: int
) -> list[Cell]:
    """Measure every algorithm on one data set and task at all budgets."""
    name, most, kind = place
    X, y = training_rows(load, most, kind)
    (n, d), loss = X.shape, LOSSES[kind](y)
    base, problem = f"{name}|{n}|{d}|{kind}", dc.Problem(loss)
    if base not in cache.kept:
        zeros = np.zeros(problem.weight_shape(d))
        cache.kept[base] = [least_loss(kind, X, y), mean_loss(kind, loss, X, y, zeros)]
    least, zero = cache.kept[base]
    unit = loss_scale(problem)
    large = n > (LARGE_CLASSES if kind == "classes" else LARGE)
    able = dc.algorithms.names()
    if large:
        able = [*candidates(kind, able), *(["NoisySGD"] if kind == "margin" else [])]
    cells = []
    for epsilon in EPSILONS:
        budget = dc.Budget(epsilon, n**-1.1, relation)
        for algorithm in dc.algorithms.names():
            if algorithm not in able:
                continue
            runs = cache.kept.setdefault(f"{base}|{relation}|{epsilon:g}|{algorithm}", [])
            if runs is not None and len(runs) < seeds:
                try:
                    made = getattr(dc.algorithms, algorithm)()
                    plan = made.plan(form(algorithm, problem, n, d, budget), n=n, d=d, budget=budget)
                except (dc.errors.HypothesisError, dc.errors.InputError):
                    cache.kept[f"{base}|{relation}|{epsilon:g}|{algorithm}"] = runs = None
                    continue
                for seed in range(len(runs), seeds):
                    w = plan.run(X, y, seed=5000 + seed, dataset="prediction").weights
                    runs.append(mean_loss(kind, plan.problem.loss, X, y, w))
            if runs:
                x = (np.array(runs) - least) / unit
                r = noise_level(problem, n, d, budget)
                error = float(x.std(ddof=1) / math.sqrt(len(x))) if len(x) > 1 else math.nan
                cells.append(Cell(name, n, kind, epsilon, algorithm, r, float(x.mean()), error, (zero - least) / unit))
        cache.save()
    return cells


# Fit ---------------------------------------------------------------------------------------------------------------


Constants = dict[str, dict[str, tuple[float, float]]]


def fit(cells: list[Cell], slopes: dict[str, float] | None = None) -> Constants:
    """Intercept and slope of log excess in log r for each task and algorithm; a slope is the algorithm's for all tasks.

    Slopes that are given are kept.

    Of two that may be first for a task, the second has a line that crosses that of the first where it pays to change.
    """
    found: Constants = {kind: {} for kind in LOSSES}
    for algorithm in sorted({c.algorithm for c in cells} - {"MeanDirection"}):
        own = [c for c in cells if c.algorithm == algorithm and c.name not in TURNS]
        seen = sorted({c.task for c in own})
        M = np.array([[math.log(c.r), *(float(c.task == kind) for kind in seen)] for c in own])
        y, root = np.array([log_excess(c) for c in own]), np.sqrt(shares(own))
        if slopes is None:
            slope, *starts = np.linalg.lstsq(root[:, None] * M, root * y, rcond=None)[0]
        else:
            slope = slopes[algorithm]
            starts = np.linalg.lstsq(root[:, None] * M[:, 1:], root * (y - slope * M[:, 0]), rcond=None)[0]
        for kind, start in zip(seen, starts, strict=True):
            found[kind][algorithm] = float(start), max(float(slope), FLATTEST)
    for kind, of_kind in found.items():
        if len(names := [name for name in candidates(kind, dc.algorithms.names()) if name in of_kind]) == 2:
            at, turn = crossing([c for c in cells if c.task == kind], *names)
            start, slope = of_kind[names[0]]
            turned = max(slope + turn, FLATTEST)
            of_kind[names[1]] = start + (slope - turned) * at, turned
    return found


def crossing(cells: list[Cell], first: str, second: str) -> tuple[float, float]:
    """Log r at which to change between two algorithms, and the slope there of log(excess of second / excess of first).

    The change loses least on the cells, on average over people. What the two lose on the same data says more of it than
    lines that were fitted to either.
    """
    by_place = {c.place: c for c in cells if c.algorithm == first}
    own = [c for c in cells if c.algorithm == second and c.place in by_place]
    x = np.array([math.log(c.r) for c in own])
    y, w = np.array([log_excess(c) - log_excess(by_place[c.place]) for c in own]), shares(own)
    seen = np.unique(x)
    cuts = [seen[0] - 1.0, *(seen[1:] + seen[:-1]) / 2.0, seen[-1] + 1.0]
    costs = [(float((w * y)[(x < cut) == below].sum()), cut, below) for below in (True, False) for cut in cuts]
    _, at, below = min(costs)
    turn = float((w * (x - at) * y).sum() / (w * (x - at) ** 2).sum())
    return at, max(turn, FLATTEST) if below else min(turn, -FLATTEST)


def shares(cells: list[Cell]) -> np.ndarray:
    """Weights with which the data of the same people count once for each task, however often they were cut."""
    return np.array([1.0 / sum(o.people == c.people and o.task == c.task for o in cells) for c in cells])


def log_excess(cell: Cell) -> float:
    return math.log(max(cell.excess, 1e-5))


def typical(cells: list[Cell]) -> dict[str, float]:
    """Geometric mean over data sets of what weights of zero lose."""
    found = {}
    for kind in LOSSES:
        of_set = {c.place[:3]: math.log(c.zero) for c in cells if c.task == kind and c.name not in TURNS}
        if of_set:
            found[kind] = math.exp(math.fsum(of_set.values()) / len(of_set))
    return found


def predicted(cell: Cell, constants: Constants, most: dict[str, float]) -> float:
    a, b = constants[cell.task].get(cell.algorithm, (0.0, 0.0))
    centre, top = a + b * math.log(cell.r), math.log(SATURATED * most[cell.task])
    return min(centre, top + FLAT * (centre - top))


def pick(here: list[Cell], constants: Constants, most: dict[str, float]) -> str:
    """The algorithm that `recommend` puts first, given its predictions for all that were run on a cell."""
    known = [c for c in here if c.algorithm in constants[c.task]]
    return rank(here[0].task, {c.algorithm: math.exp(predicted(c, constants, most)) for c in known})[0]


class Found(NamedTuple):
    """What was picked for a cell, by which part its excess is above that of the best, and what was predicted of it."""

    pick: Cell
    best: Cell
    more: float
    more_unseen: float  # had the pick been made without the data set
    guess: float  # log excess, made without the data set

    @property
    def residual(self) -> float:
        return log_excess(self.pick) - self.guess


def judged(cells: list[Cell], slopes: dict[str, float] | None = None) -> list[Found]:
    """Judge the pick of every cell, and its prediction from all other people's data."""
    everything = fit(cells, slopes), typical(cells)
    rests = {people: [c for c in cells if c.people != people] for people in {c.people for c in cells}}
    unseen = {people: (fit(rest, slopes), typical(rest)) for people, rest in rests.items()}
    found = []
    for place in dict.fromkeys(c.place for c in cells):
        here = {c.algorithm: c for c in cells if c.place == place}
        best, others = min(here.values(), key=lambda c: c.excess), unseen[next(iter(here.values())).people]
        chosen, then = (here[pick(list(here.values()), *made)] for made in (everything, others))
        more, more_unseen = (c.excess / best.excess - 1.0 for c in (chosen, then))
        found.append(Found(chosen, best, more, more_unseen, predicted(chosen, *others)))
    return found


def coverage(found: list[Found]) -> np.ndarray:
    """Whether each cell is within a band that is made from the residuals of other people's data."""
    sizes, people = np.array([abs(f.residual) for f in found]), np.array([f.pick.people for f in found])
    return np.array([s <= np.quantile(sizes[people != p], COVERED) for s, p in zip(sizes, people, strict=True)])


# Report ------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of prepared data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--relation", default="zero_out")
    parser.add_argument("--cache", type=Path, default=Path("prediction.json"))
    parser.add_argument("--task", choices=LOSSES, default=None)
    parser.add_argument("--write", action="store_true", help="put the constants and the picture into the tree")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cache, sets, cells = Cache(args.cache), loaders(args.data), []
    slopes = None if args.task is None else kept_slopes()
    for place in CELLS:
        if args.task not in (None, place[2]):
            continue
        cells += measure(cache, sets[place[0]], place, args.relation, args.seeds)
        print(f"measured {place[0]}, {cells[-1].n} rows, {place[2]}", flush=True)
    found = judged(cells, slopes)
    print("\npick against the best in hindsight: excess loss larger by")
    for f in found:
        c = f.pick
        words = f"{c.name:14} n {c.n:<7} {c.task:9} eps {c.epsilon:<4g} {c.algorithm:22}"
        print(f"  {words} {f.more:+7.1%}  best {f.best.algorithm}")
    ours = np.array([f.pick.name in DEVELOPMENT and _full(f.pick, cells) for f in found])
    inside = coverage(found)
    for words, some in (("development data", ours), ("all cells", np.ones(len(found), bool))):
        part = [f for f, one in zip(found, some, strict=True) if one]
        for how, x in (
            ("", np.array([f.more for f in part])),
            (", data set left out", np.array([f.more_unseen for f in part])),
        ):
            worst = f"worst {x.max():.1%}, above 25%: {int((x > 0.25).sum())}"
            print(f"{words}{how}: {len(x)} cells, pick off by {x.mean():.1%} on average, {worst}")
        order = spearmanr([f.guess for f in part], [log_excess(f.pick) for f in part])[0]
        print(f"{words}, data set left out: rank correlation {order:.3f}, in the band {inside[some].mean():.0%}")
    band = float(np.quantile([abs(f.residual) for f in found], COVERED))
    print(f"band: a factor of {math.exp(band):.2f} either way")
    if args.write and args.task:
        kept = json.loads(MEASURED.read_text())
        write(
            kept["excess"] | {args.task: fit(cells, slopes)[args.task]}, kept["typical"] | typical(cells), kept["band"]
        )
    elif args.write:
        write(fit(cells), typical(cells), band)
        points = [(math.exp(f.guess), f.pick.excess) for f in found]
        svg = scatter(points, math.exp(band), "predicted without the data set", "measured excess loss")
        (ROOT / "docs" / "images" / "prediction.svg").write_text(svg)


def _full(cell: Cell, cells: list[Cell]) -> bool:
    return cell.task in ("margin", "squares", "classes") and cell.n == max(c.n for c in cells if c.name == cell.name)


def write(constants: Constants, most: dict[str, float], band: float) -> None:
    rounded = {
        kind: {name: [round(a, 3), round(b, 3)] for name, (a, b) in sorted(found.items())}
        for kind, found in constants.items()
    }
    kept = json.loads(MEASURED.read_text()) | {
        "excess": rounded,
        "typical": {kind: round(value, 3) for kind, value in most.items()},
        "band": round(band, 2),
    }
    dump(kept)


def dump(kept: dict[str, Any]) -> None:
    """Write the constants."""
    lines = json.dumps(kept, indent=1)
    text = re.sub(r"\[([^\[\]{}]+)\]", lambda m: f"[{' '.join(m[1].split())}]", lines)  # a line per algorithm
    MEASURED.write_text(text + "\n")


def kept_slopes() -> dict[str, float]:
    """Slopes of the algorithms: of each the one that it has for most tasks, since that of a second may be turned."""
    of_tasks = json.loads(MEASURED.read_text())["excess"].values()
    seen: dict[str, list[float]] = {}
    for found in of_tasks:
        for name, (_, slope) in found.items():
            seen.setdefault(name, []).append(slope)
    return {name: max(values, key=values.count) for name, values in seen.items()}


if __name__ == "__main__":
    main()
