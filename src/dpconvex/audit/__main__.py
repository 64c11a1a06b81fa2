"""The full audit: `make audit`. Exits with 1 if a claim is refuted or too loose, or if a mutant slips through."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dpconvex import algorithms, domains, losses
from dpconvex.audit import MUTANTS, audit
from dpconvex.privacy.budget import Budget
from dpconvex.problem.problem import Problem

LOGISTIC = Problem(losses.Logistic(), domain=domains.L2Ball(8.0))
SQUARED = Problem(losses.Squared(), domain=domains.L2Ball(2.0))


def cases(runs: int) -> list[tuple[Any, Problem, int, float, int, float]]:
    """Algorithm, problem, d, epsilon, runs a side, and the least ratio of mu found to mu claimed (0: not Gaussian)."""
    phased = algorithms.PhasedSGD
    few = runs // 8
    return [
        (phased(), LOGISTIC, 1, 1.0, runs, 0.97),
        (phased(), LOGISTIC, 1, 4.0, few, 0.97),
        (phased(growing=False), LOGISTIC, 1, 4.0, few, 0.97),
        (phased(phases=3), LOGISTIC, 1, 4.0, few, 0.97),
        (phased(release="every iterate"), LOGISTIC, 1, 4.0, few, 0.97),
        (algorithms.NoisyGD(steps=4), LOGISTIC, 1, 4.0, few, 0.97),
        (algorithms.MeanDirection(), LOGISTIC, 1, 4.0, few, 0.97),
        (algorithms.SufficientStatistics(), SQUARED, 1, 4.0, few, 0.0),
        (algorithms.ObjectivePerturbation(), Problem(losses.LogCosh(0.5)), 1, 4.0, runs // 80, 0.0),
        (algorithms.ObjectivePerturbation(), LOGISTIC, 1, 4.0, runs // 80, 0.0),
        (algorithms.ObjectivePerturbation(), Problem(losses.Logistic(cap=0.5)), 1, 4.0, runs // 80, 0.0),
    ]


def main() -> int:
    """Audit every algorithm of the registry and its mutants."""
    parser = argparse.ArgumentParser(prog="python -m dpconvex.audit", description=__doc__)
    parser.add_argument("--runs", type=int, default=800_000, help="runs a side for the tightness of the default plan")
    runs = parser.parse_args().runs
    failed = False
    for algorithm, problem, d, epsilon, count, ratio in cases(runs):
        for relation in ("replace_one", "zero_out"):
            if count == runs and relation == "zero_out":
                continue
            plan = algorithm.plan(problem, n=24, d=d, budget=Budget(epsilon, 1e-6, relation))
            report = audit(plan, runs=count)
            tight = report.mu_lower >= ratio * report.claimed_mu if ratio else True
            failed |= report.refuted or not tight
            print(f"{algorithm}, {relation}\n  {report}" + ("" if tight else "\n  TOO LOOSE"), flush=True)
    for name, mutants in MUTANTS.items():
        algorithm, problem, d = next((a, p, d) for a, p, d, *_ in cases(runs) if type(a).__name__ == name)
        slow = name == "ObjectivePerturbation"
        epsilon, count = (4.0, runs // 80) if slow else (1.0, runs // 8)
        relation = "zero_out" if name == "SufficientStatistics" else "replace_one"  # where its claim is attained
        plan = algorithm.plan(problem, n=24, d=d, budget=Budget(epsilon, 1e-6, relation))
        for mutant in mutants:
            report = audit(plan, runs=count, mutant=mutant)
            failed |= not report.refuted
            print(
                f"{name}, mutant: {mutant.name}\n  {report}" + ("" if report.refuted else "\n  NOT CAUGHT"), flush=True
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
