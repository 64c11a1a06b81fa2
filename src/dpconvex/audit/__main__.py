"""The full audit: `make audit`. Exits with 1 if a claim is refuted, too loose, or a mutant slips through."""

from __future__ import annotations

import argparse
import sys

from dpconvex import domains, losses
from dpconvex.algorithms.phased_sgd import PhasedSGD
from dpconvex.audit import PHASED, audit
from dpconvex.privacy.budget import Budget
from dpconvex.problem.problem import Problem


def main() -> int:
    """Audit Phased-SGD and its mutants."""
    parser = argparse.ArgumentParser(prog="python -m dpconvex.audit", description=__doc__)
    parser.add_argument("--runs", type=int, default=800_000, help="runs a side for the tightness of the default plan")
    runs = parser.parse_args().runs
    problem = Problem(losses.Logistic(), domain=domains.L2Ball(8.0))
    failed = False
    cases = [(PhasedSGD(), 1.0, "replace_one", runs)]
    for relation in ("replace_one", "zero_out"):
        for algorithm in (
            PhasedSGD(),
            PhasedSGD(growing=False),
            PhasedSGD(phases=3),
            PhasedSGD(release="every iterate"),
        ):
            cases.append((algorithm, 4.0, relation, runs // 8))
    for algorithm, epsilon, relation, count in cases:
        plan = algorithm.plan(problem, n=24, d=1, budget=Budget(epsilon, 1e-6, relation))
        report = audit(plan, runs=count)
        tight = report.mu_lower >= 0.97 * report.claimed_mu
        failed |= report.refuted or not tight
        print(f"{algorithm}, {relation}\n  {report}" + ("" if tight else "\n  TOO LOOSE"), flush=True)
    plan = PhasedSGD().plan(problem, n=24, d=1, budget=Budget(1.0, 1e-6))
    for mutant in PHASED:
        report = audit(plan, runs=runs // 8, mutant=mutant)
        failed |= not report.refuted
        print(f"mutant: {mutant.name}\n  {report}" + ("" if report.refuted else "\n  NOT CAUGHT"), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
