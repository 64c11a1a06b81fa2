"""Draw the pictures of the estimators' pages into docs/images: `make figures`.

One curve each: the score on the test rows of UCI Adult against epsilon, delta = 1e-6, one record replaced by any other.
Classifiers predict the income; regressors predict the age, of which the score is the part of the loss of the best
constant that a model takes away (for squares that is R^2). PrivateLasso has made-up rows: a thousand features, two of
which matter. The picture of the front page is that of `dpconvex demo`.

`docs/images/inputs.json` keeps what each picture was drawn from: the algorithms and the noise of its plans. A test
makes these plans again, and says which pictures are to be drawn again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.svm import LinearSVC

import dpconvex as dc
from dpconvex.canonical import digest
from dpconvex.cli.demo import demo
from dpconvex.datasets.adult import ADULT
from dpconvex.estimators.table import Declared, Units

ROWS = 32_561  # of Adult, to learn from
FRONT, FRONT_DRAWS = "epsilon-accuracy", 8
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
IMAGES = Path(__file__).parent.parent / "docs" / "images"
RECORD = IMAGES / "inputs.json"


def split(name: str) -> tuple[Any, Any, Any]:
    """Adult as it is, to predict the income."""
    found = dc.datasets.load("adult", split=name)
    return found.frame, found.target.to_numpy(), found.schema


def ages(schema: Any) -> Any:
    """The schema with the age as the target, and the income among the columns."""
    columns = {name: column for name, column in schema.columns.items() if name != "age"}
    columns["income"] = dc.schema.Category(schema.target.labels)
    return dc.Schema(columns, dc.schema.Range("age", 17, 90), name="adult ages")


def aged(name: str) -> tuple[Any, Any, Any]:
    """Adult with the age as the target, and the income among the columns."""
    frame, income, schema = split(name)
    return frame.drop(columns="age").assign(income=income), frame["age"].to_numpy(float), ages(schema)


def squares(r: np.ndarray) -> float:
    return float(np.mean(r**2))


def absolute(r: np.ndarray) -> float:
    return float(np.mean(np.abs(r)))


def pinball(r: np.ndarray) -> float:
    return float(np.mean(np.where(r > 0, 0.9 * r, -0.1 * r)))


def taken_away(loss: Callable[[np.ndarray], float], constant: float) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda found, y: max(0.0, 1.0 - loss(y - found) / loss(y - constant))


def right(found: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(found == y))


def draw(
    name: str, model: Any, plain: Any, load: Any, score: Any, baseline: float, words: str, same: str, draws: int
) -> None:
    frame, y, schema = load("train")
    test, yt, _ = load("test")
    encoder = dc.PrivatePreprocessor(schema)
    X, Xt = encoder.fit_transform(frame), encoder.transform(test)
    reference = score(plain.fit(X, y).predict(Xt), yt)
    curve = [
        [score(model(epsilon=e, schema=schema).fit(frame, y).predict(test), yt) for _ in range(draws)] for e in EPSILONS
    ]
    write(name, curve, reference, baseline, words, same)


def draw_sparse(name: str, draws: int) -> None:
    """Numbers that two features of a thousand tell."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(25_000, 1000))
    y = np.clip(50 + 20 * X[:, 7] - 15 * X[:, 8] + 5 * rng.normal(size=len(X)), 0, 100)
    score = taken_away(squares, y[:20_000].mean())
    facts = {"feature_bound": dc.bounds.Linf(1.0), "target_range": (0, 100)}

    def measured(model: Any) -> float:
        return score(model.fit(X[:20_000], y[:20_000]).predict(X[20_000:]), y[20_000:])

    curve = [[measured(dc.PrivateLasso(epsilon=e, **facts)) for _ in range(draws)] for e in EPSILONS]
    write(name, curve, measured(Lasso(alpha=0.1)), 0.0, "R^2 on test rows", "best constant")


def write(name: str, curve: Any, reference: float, baseline: float, words: str, same: str) -> None:
    print(name, [f"{np.mean(c):.4f}" for c in curve], f"without privacy {reference:.4f}", flush=True)
    what = "epsilon (delta = 1e-06, one record replaced by any other)"
    picture = dc.report.picture.draw_accuracy(
        dc.report.picture.Curve(EPSILONS, curve, reference, baseline, what, words, same)
    )
    (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")


def models() -> dict[str, Callable[..., Any]]:
    """The model of each picture on Adult, given what is declared."""
    return {
        "logistic": dc.PrivateLogisticRegression,
        "linear-svc": dc.PrivateLinearSVC,
        "ridge": dc.PrivateRidge,
        "huber": dc.PrivateHuberRegressor,
        "quantile": lambda **declared: dc.PrivateQuantileRegressor(0.9, **declared),
    }


def inputs() -> dict[str, str]:
    """Digest of what each picture is drawn from; no data is read."""
    found = {}
    for name, model in models().items():
        schema = ADULT.schema if name in ("logistic", "linear-svc") else ages(ADULT.schema)
        rows = Declared(schema).rows_of_schema(n=ROWS)
        found[name] = digest([drawn(model(epsilon=e, schema=schema), schema.target, rows) for e in EPSILONS])
    box = dc.bounds.Linf(1.0)
    rows = Declared().rows_within(np.broadcast_to(0.0, (20_000, 1000)), box)
    facts = {"feature_bound": box, "target_range": (0, 100)}
    target = dc.schema.Range("y", 0, 100)
    found["lasso"] = digest([drawn(dc.PrivateLasso(epsilon=e, **facts), target, rows) for e in EPSILONS])
    return {**found, FRONT: found["logistic"]}


def drawn(model: Any, target: Any, rows: Any) -> list[Any]:
    """The algorithm and the noise of the plan that a fit follows, to two digits: more would not be seen."""
    plan = model._plan(model.loss_for(target), rows, dc.Budget(model.epsilon, model.delta), Units())
    return [type(plan.algorithm).__name__, *(f"{release.name} {release.scale:.1e}" for release in plan.releases)]


def record(names: Iterable[str]) -> None:
    """Keep what these pictures were drawn from."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    now = inputs()
    known |= {name: now[name] for name in names}
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def draw_front() -> None:
    with tempfile.TemporaryDirectory() as folder:
        picture = str(IMAGES / f"{FRONT}.svg")
        demo(["--draws", str(FRONT_DRAWS), "--output", folder, "--picture", picture], standalone_mode=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    _, income, _ = split("test")
    most = max(np.mean(income == label) for label in np.unique(income))
    _, ages, _ = aged("train")
    constants = {squares: ages.mean(), absolute: np.median(ages), pinball: np.quantile(ages, 0.9)}
    huber = HuberRegressor(alpha=1e-6, max_iter=2000)
    quantile = QuantileRegressor(quantile=0.9, alpha=0.0)
    figures: dict[str, tuple[Any, ...]] = {
        "logistic": (LogisticRegression(max_iter=2000), split, right, most, "test accuracy"),
        "linear-svc": (LinearSVC(), split, right, most, "test accuracy"),
        "ridge": (LinearRegression(), aged, squares, 0.0, "R^2 on test rows"),
        "huber": (huber, aged, absolute, 0.0, "part of the absolute error taken away"),
        "quantile": (quantile, aged, pinball, 0.0, "part of the pinball loss taken away"),
    }
    for name, (plain, load, score, baseline, words) in figures.items():
        if args.only and name not in args.only:
            continue
        measure = score if score is right else taken_away(score, constants[score])
        same = "most frequent class" if score is right else "best constant"
        draw(name, models()[name], plain, load, measure, baseline, words, same, args.draws)
    if not args.only or "lasso" in args.only:
        draw_sparse("lasso", args.draws)
    if not args.only or FRONT in args.only:
        draw_front()
    record(args.only or inputs())


if __name__ == "__main__":
    main()
