"""What it costs to choose among settings by data: python benchmarks/selection_price.py.

Epsilon at delta = 1e-6 of the best of K Gaussian runs, by the mean of K and by the chance to meet one given candidate
among ten, beside the published bounds; how near to it an attack gets; and, with --data, what tuning does to accuracy.
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.kernel.profiles import GDP, gaussian_mu
from dpconvex.theorems.numerics.repeated import SLOPES, BestOf, count_parameter

DELTA = 1e-6
MEANS = (5, 10, 30, 100)
BASES = (0.1, 0.5, 1.0)
SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "poisson": math.inf}


def best_of(mu: float, law: str, mean: float) -> BestOf:
    return BestOf(GDP(mu), law, count_parameter(law, float(mean)))


def renyi(mu: float, law: str, mean: float) -> float:
    """Papernot, Steinke 2022, as dp-accounting computes it."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    run = dp_event.GaussianDpEvent(1.0 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, SHAPES[law]))
    return float(accountant.get_epsilon(DELTA))


def uniform_ratio(mu: float, law: str, mean: float) -> float:
    """Koskela, Redberg, Wang 2024, optimised: m delta(eps - ln C), C the largest of phi'(1 - a) / phi'(f(a))."""
    slope = SLOPES[law](count_parameter(law, float(mean)))
    a = np.concatenate((np.logspace(-12, -0.5, 4000), np.linspace(0.32, 1.0, 400)))
    most = float(np.log(slope(a) / slope(ndtr(ndtri(a) + mu))).max())
    return most + GDP(mu).epsilon(DELTA / mean)


def attained(mu: float, law: str, mean: float) -> float:
    """Epsilon that an attack forces: the output is its own score, but its far tail is scored at a level in between."""
    slope = SLOPES[law](count_parameter(law, float(mean)))
    x = np.linspace(-11.0, 11.0, 20_001)
    stated = best_of(mu, law, mean).epsilon(DELTA)

    def delta(eps: float, level: float, cut: float) -> float:
        start, deep = -float(ndtri(level)), x < -cut

        def density(shift: float) -> np.ndarray:
            rest = np.where(x < start, ndtr(-cut - shift), 0.0)
            tail = ndtr(shift - start) + ndtr(x - shift)
            missed = np.where(deep, tail, np.minimum(ndtr(shift - x) + rest, 1.0))
            return np.exp(-((x - shift) ** 2) / 2) / math.sqrt(2 * math.pi) * slope(missed)

        return float(np.maximum(density(0.0) - math.exp(eps) * density(mu), 0.0).sum() * (x[1] - x[0]))

    best = 0.0
    for level in np.exp(np.linspace(math.log(1e-4), math.log(0.5), 18)):
        for cut in (2.0, 2.5, 3.0, 3.5, 4.0, 4.5):
            if delta(best, level, cut) > DELTA:
                best = brentq(lambda e, v=level, c=cut: delta(e, v, c) - DELTA, best, stated * 1.01, xtol=1e-3)
    return best


def own_score(mu: float, law: str, mean: float) -> float:
    """Exact epsilon if the output is its own score, or its own score with the sign changed, whichever is worse."""
    slope = SLOPES[law](count_parameter(law, float(mean)))
    x = np.linspace(-11.0, 11.0, 20_001)

    def delta(eps: float, shift: float) -> float:
        p = np.exp(-(x**2) / 2) * slope(ndtr(-x))
        q = np.exp(-((x - shift) ** 2) / 2) * slope(ndtr(shift - x))
        return float(np.maximum(p - math.exp(eps) * q, 0.0).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi))

    return max(brentq(lambda e, s=s: delta(e, s) - DELTA, 0.0, 50.0, xtol=1e-4) for s in (mu, -mu))


def table(title: str, cell) -> None:
    print(f"\n{title}")
    print(f"{'base eps':>9}{'mean of K':>11}" + "".join(f"{law:>13}" for law in SHAPES))
    for base in BASES:
        mu = gaussian_mu(base, DELTA)
        for mean in MEANS:
            print(f"{base:>9}{mean:>11}" + "".join(f"{cell(mu, law, mean):>13.3f}" for law in SHAPES), flush=True)


def chances() -> None:
    """The same chance of trying one given candidate among ten, by each law."""
    print("\nepsilon by the chance to draw one given candidate among ten at least once (mean of K in brackets)")
    print(f"{'base eps':>9}{'chance':>8}" + "".join(f"{law:>20}" for law in SHAPES))
    for base in BASES:
        for chance in (0.4, 0.6, 0.8, 0.9):
            cells = []
            for law in SHAPES:
                mean = mean_for(law, chance)
                if mean is None:
                    cells.append(f"{'mean above 1000':>20}")
                else:
                    epsilon = best_of(gaussian_mu(base, DELTA), law, mean).epsilon(DELTA)
                    cells.append(f"{epsilon:>12.3f} ({mean:5.1f})")
            print(f"{base:>9}{chance:>8}" + "".join(cells), flush=True)


def mean_for(law: str, chance: float) -> float | None:
    def missed(mean: float) -> float:
        slope = SLOPES[law](count_parameter(law, mean))
        nodes, weights = np.polynomial.legendre.leggauss(200)
        z = 0.9 * (nodes + 1) / 2  # phi(0.9), the integral of phi'
        return float((slope(1.0 - z) * weights).sum() * 0.45) - (1.0 - chance)

    return None if missed(1000.0) > 0.0 else float(brentq(missed, 1.02, 1000.0, xtol=1e-3))


def accuracy(runs: int) -> None:
    """UCI Adult: the defaults with all of the budget, against PrivateSelection with all of it."""
    frame, target, schema = dc.datasets.load("adult")
    test = dc.datasets.load("adult", split="test")
    print(f"\ntest accuracy on UCI Adult, mean of {runs} fits (standard error)")
    for epsilon in (0.1, 0.5, 1.0):
        model = dc.PrivateLogisticRegression(epsilon=epsilon, schema=schema)
        grid = {
            "algorithm": ["NoisyGD", "MeanDirection", dc.algorithms.NoisyGD(steps=4), dc.algorithms.NoisyGD(steps=64)]
        }
        search = dc.PrivateSelection(dc.PrivateLogisticRegression(schema=schema), grid, repeats=8.0, epsilon=epsilon)
        cells = []
        for fitted in (model, search):
            scores = [fitted.fit(frame, target).score(test.frame, test.target) for _ in range(runs)]
            cells.append(f"{np.mean(scores):.4f} ({np.std(scores, ddof=1) / runs**0.5:.4f})")
        print(f"  epsilon {epsilon:<5g} not tuned {cells[0]:20} tuned {cells[1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", action="store_true", help="measure accuracy on UCI Adult as well")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only-data", action="store_true", help="and nothing else")
    args = parser.parse_args()
    if not args.only_data:
        prices()
    if args.data or args.only_data:
        warnings.simplefilter("ignore", dc.errors.RepeatedReleaseWarning)
        accuracy(args.runs)


def prices() -> None:
    print(f"epsilon at delta = {DELTA:g} of the best of K runs, each Gaussian with the base epsilon at the same delta")
    table("private_selection", lambda mu, law, mean: best_of(mu, law, mean).epsilon(DELTA))
    table("what an attack attains", attained)
    table("exact, the output being its own score, of either sign", own_score)
    table("one ratio for all levels (Koskela, Redberg, Wang 2024, optimised)", uniform_ratio)
    table("Renyi accounting (Papernot, Steinke 2022)", renyi)
    chances()


if __name__ == "__main__":
    main()
