"""What the geometry of the weights is worth: sparse recovery on an l1 ball, and rates of excess risk in l_p.

    python benchmarks/geometry.py sparse --n 20000 --d 20000
    python benchmarks/geometry.py rates --write docs/images/rates.svg

`sparse`: rows of -1 and +1, ten weights that are not 0, labels of the logistic model. FrankWolfe is given the l1 norm
of the weights as its public radius, or twice and half of that, and nothing else; its default number of steps was once
picked on other rows of this kind (`benchmarks/frank_wolfe.py`). The l2 methods are given a choice of radii, among them
the l2 norm of the weights, and are judged by the best of all their means, which no private method could pick. Excess is
the mean loss on fresh rows above that of the weights behind the labels, the population minimiser.

`rates`: one-hot rows of either sign, feature j with probability in proportion to 1/8^j (MirrorDescent) or 1/2^j
(PhasedSGD), targets <x, w*> without noise, Huber loss within its quadratic part: the minimiser w* of entries +-1 is
known, and so is the excess sum_j P(j) (w_j - w*_j)^2 / 2. All constants are the published ones. MirrorDescent's bound
is the 2/5-th power of sqrt(d ln(1/delta))/(n epsilon), times log2(n/T); at epsilon 64 its term of regularisation, alpha
|w*|^2 with alpha = 4 beta log2(n/T)/(T + 1), is the binding one, and probabilities over many scales make the bias as
large as that term. Of PhasedSGD it is n^(-1/2) while 4/sqrt(n) sets the step, from a hundred records on.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit

import dpconvex as dc
from dpconvex.drawing import BOTTOM, DASHED, LEFT, RIGHT, Panel, decades, marks, picture, text

RELEVANT, FRESH, PART = 10, 20_000, 2_000
COLOURS = ("#2f81f7", "#d4762c", "#3fb950", "#a371f7")


# Sparse recovery ---------------------------------------------------------------------------------------------------


def signs(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of -1 and +1 in float32."""
    X = rng.integers(0, 2, size=(n, d), dtype=np.int8).astype(np.float32)
    X *= 2
    X -= 1
    return X


def labels(X: np.ndarray, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels of the logistic model with weights w on the first features."""
    return np.where(rng.random(len(X)) < expit(X[:, : len(w)] @ w), 1.0, -1.0)


def fresh(d: int, w: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels nobody was trained on, always the same, a part at a time."""
    rng = np.random.default_rng(99)
    for _ in range(FRESH // PART):
        X = signs(PART, d, rng)
        yield X, labels(X, w, rng)


def excesses(found: list[np.ndarray], d: int, w: np.ndarray) -> np.ndarray:
    """Mean loss on fresh rows above that of the true weights, for each of the weights found."""
    W = np.stack(found, axis=1).astype(np.float32)
    total = np.zeros(len(found))
    for X, y in fresh(d, w):
        least = np.logaddexp(0.0, -y * (X[:, : len(w)] @ w))
        total += (np.logaddexp(0.0, -y[:, None] * (X @ W)) - least[:, None]).sum(axis=0)
    return total / FRESH


def contestants(l1: float, l2: float, names: list[str]) -> Iterator[tuple[str, object, dc.domains.Domain]]:
    """Name, algorithm and domain of every run."""
    for factor in (1.0, 2.0, 0.5):
        yield f"FrankWolfe, l1 radius {factor * l1:.3g}", dc.algorithms.FrankWolfe(), dc.domains.L1Ball(factor * l1)
    for name in names:
        for factor in (1.0, 0.25, 0.0625, 4.0):
            ball = dc.domains.L2Ball(factor * l2)
            yield f"{name}, l2 radius {factor * l2:.3g}", getattr(dc.algorithms, name)(), ball
        yield f"{name}, everywhere", getattr(dc.algorithms, name)(), dc.domains.Everywhere()


def sparse(n: int, d: int, epsilon: float, runs: int, names: list[str]) -> None:
    """Print the excess of every contestant, and FrankWolfe's at its plain radius beside the best l2 method's."""
    w = np.where(np.arange(RELEVANT) % 2, 0.5, -0.5)
    budget, bound = dc.Budget(epsilon, 1e-6), dc.bounds.Linf(1.0)
    zero = excesses([np.zeros(d)], d, w)[0]
    print(f"n {n}, d {d}, epsilon {epsilon:g}, {runs} runs; excess of weights of 0: {zero:.4f}")
    found: dict[str, list[float]] = {}
    for run in range(runs):
        rng = np.random.default_rng(1000 + run)  # rows on which no default was picked
        X = signs(n, d, rng)
        y = labels(X, w, rng)
        for name, algorithm, domain in contestants(float(np.abs(w).sum()), float(np.linalg.norm(w)), names):
            begun = time.perf_counter()
            try:
                plan = algorithm.plan(dc.Problem(dc.losses.Logistic(), domain, bound), n=n, d=d, budget=budget)  # type: ignore[attr-defined]
            except dc.errors.DpconvexError as refusal:
                print(f"  {name}: refused, {refusal}")
                continue
            weights = plan.run(X, y, dataset=f"{name} {run}").weights
            taken = time.perf_counter() - begun
            found.setdefault(name, []).append(excesses([weights], d, w)[0])
            print(f"  run {run}  {name:<40} excess {found[name][-1]:.4f}, {taken:.0f} s", flush=True)
    means = {name: float(np.mean(values)) for name, values in found.items()}
    own = means[next(iter(means))]
    best = min((name for name in means if not name.startswith("FrankWolfe")), key=means.__getitem__)
    print(f"FrankWolfe {own:.4f}; best l2 method {means[best]:.4f} ({best}); ratio {own / means[best]:.3f}")
    print(f"beside weights of 0, which no data chose: ratio {own / zero:.3f}")


# Rates -------------------------------------------------------------------------------------------------------------


def one_hot(n: int, chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows with one entry of -1 or +1, at feature j with that chance."""
    X = np.zeros((n, len(chances)))
    X[np.arange(n), rng.choice(len(chances), size=n, p=chances)] = rng.choice([-1.0, 1.0], n)
    return X


def excess(algorithm: object, domain: dc.domains.Domain, n: int, ratio: float, d: int, epsilon: float) -> float:
    """Excess risk of one run on n records."""
    chances = ratio ** np.arange(d)
    chances /= chances.sum()
    best = np.where(np.arange(d) % 2, -1.0, 1.0)
    X = one_hot(n, chances, np.random.default_rng(n))
    problem = dc.Problem(dc.losses.Huber(4.0), domain)
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(epsilon, 1e-6))  # type: ignore[attr-defined]
    found = plan.run(X, X @ best, dataset=f"{algorithm} {n}").weights
    assert np.abs(found - best).max() < 4.0  # the quadratic part of the loss
    return float(chances @ (found - best) ** 2 / 2.0)


def hidden(p: float, n: int, d: int, epsilon: float) -> float:
    """The logarithm in MirrorDescent's bound."""
    problem = dc.Problem(dc.losses.Huber(4.0))
    plan = dc.algorithms.MirrorDescent(p, constants="paper").plan(problem, n=n, d=d, budget=dc.Budget(epsilon, 1e-6))
    return math.log2(n / plan.schedule[0].steps)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope of a line through logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def rates(most: int, write: Path | None) -> None:
    """Print exponents beside the theorems', and draw the points."""
    sizes = [round(most / 10.0 ** (k / 2.0)) for k in range(4, -1, -1)]
    curves, ball = [], dc.domains.LpBall(4.0, 2.0)
    for p in (1.2, 1.5, 2.0):
        algorithm = dc.algorithms.MirrorDescent(p, constants="paper")
        values = [excess(algorithm, dc.domains.Everywhere(), n, 1 / 8, 4, 64.0) for n in sizes]
        bare = exponent(sizes, [v / hidden(p, n, 4, 64.0) for v, n in zip(values, sizes, strict=True)])
        curves.append((f"MirrorDescent, p = {p:g}", values, -0.4, f", {bare:.3f} without the logarithm"))
    algorithm = dc.algorithms.PhasedSGD(constants="paper")
    values = [excess(algorithm, ball, n, 1 / 2, 8, 8.0) for n in sizes]
    curves.append(("PhasedSGD, l_4 ball", values, -0.5, ""))
    for name, values, theorem, words in curves:
        print(f"{name:<24}" + "  ".join(f"{n}: {v:.4f}" for n, v in zip(sizes, values, strict=True)))
        print(f"{'':<24}exponent {exponent(sizes, values):.3f}{words}; the theorem's {theorem:g}")
    if write is not None:
        write.write_text(drawn(sizes, curves))


def drawn(sizes: list[int], curves: list[tuple[str, list[float], float, str]]) -> str:
    """Excess against n, with a dashed line of the theorem's slope through the middle of each curve."""
    every = [v for _, values, _, _ in curves for v in values]
    up = 10.0 ** math.floor(math.log10(min(every))), max(every) * 1.5
    panel = Panel((sizes[0] / 1.2, sizes[-1] * 1.2), up)
    body = panel.frame("records", "excess risk", marks(sizes[::2]), decades(up))
    for k, ((name, values, theorem, _), colour) in enumerate(zip(curves, COLOURS, strict=True)):
        points = list(zip(sizes, values, strict=True))
        level = math.exp(float(np.mean(np.log(values) - theorem * np.log(sizes))))
        body.append(panel.line(points, colour, 2.0))
        body.append(panel.line([(n, level * n**theorem) for n in sizes], colour, 1.0, DASHED))
        for x, y in map(panel.at, points):
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        words = f"{name}: {exponent(sizes, values):.2f}, theorem {theorem:g}"
        height = BOTTOM - 68.0 + 18.0 * k
        body.append(f'<rect x="{LEFT + 12.0:.1f}" y="{height - 9.0:.1f}" width="12" height="4" fill="{colour}"/>')
        body.append(text(LEFT + 30.0, height, words, "start"))
    body.append(text(RIGHT - 4.0, 34.0, "dashed: slope of the theorem", "end"))
    return picture(body, "Excess risk against the number of records", "; ".join(name for name, *_ in curves))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sparse", "rates"])
    parser.add_argument("--n", type=int, default=4_000)
    parser.add_argument("--d", type=int, default=2_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=["NoisyGD", "PhasedSGD", "NoisySGD"])
    parser.add_argument("--most", type=int, default=1_000_000, help="largest number of records")
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.what == "sparse":
        sparse(chosen.n, chosen.d, chosen.epsilon, chosen.runs, chosen.methods)
    else:
        rates(chosen.most, chosen.write)


if __name__ == "__main__":
    main()
