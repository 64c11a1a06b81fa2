"""Loops that are lent noise: each has a check, each check passes, and a loop that does not use its noise is caught."""

import numpy as np
import pytest
from contracts.test_algorithms import CASES, IDS

import dpconvex as dc
from dpconvex.audit.lent import CHECKS, LentPort, check_lent

BUDGET = dc.Budget(1.0, 1e-6)


def planned(case):
    algorithm, problem = CASES[case]
    return algorithm.plan(problem, n=40, d=3, budget=BUDGET)


def lends(plan):
    """Whether a run lends noise: an objective, a walk, an order, or the sums of a compiled leader."""
    names = {release.name for release in plan.releases}
    compiled = type(plan.algorithm).__name__ == "PrivateFTRL" and plan.algorithm.leader(plan)._compiled
    return bool(names & {"objective", "walk", "order", "sample"}) or (compiled and "sums" in names)


SMALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
LENT = {
    **{IDS[i]: planned(i) for i in range(len(CASES)) if lends(planned(i))},
    **{
        f"PhasedSGD-shuffled-{batch}": dc.algorithms.PhasedSGD(shuffle=True, batch=batch).plan(
            SMALL, n=40, d=3, budget=BUDGET
        )
        for batch in (None, 1)
    },
}
# Half of the numbers that give an order or a sample give the same one: only leaving them out is a mistake.
SCALED = [i for i, plan in LENT.items() if not {"order", "sample"} & {r.name for r in plan.releases}]
MUTANTS = [*((case, 0.0) for case in LENT), *((case, 0.5) for case in SCALED)]


@pytest.mark.parametrize("case", LENT)
def test_lent_noise_is_used(case):
    checks = check_lent(LENT[case])
    assert checks
    assert all(check.passed for check in checks), checks


@pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)
def test_every_loop_that_is_lent_noise_has_a_check(case):
    plan = planned(case)
    X = np.random.default_rng(0).normal(size=(plan.n, plan.d))
    y = np.arange(plan.n) % 3 * 1.0 if plan.problem.loss.traits.labels == "class" else np.where(X[:, 0] > 0, 1.0, -1.0)
    port = LentPort(plan, lambda name, shape: np.random.default_rng(0).normal(size=shape))
    plan.algorithm.execute(plan, *dc.data.arrays.open_rows(X, y, plan.problem, plan.n, plan.d), port)
    assert set(port.trusted) <= set(CHECKS)
    assert bool(port.trusted) == (IDS[case] in LENT)


def test_a_loop_without_a_check_fails(monkeypatch):
    monkeypatch.delitem(CHECKS, "dpconvex.sums.solver.minimise")
    plan = dc.algorithms.ObjectivePerturbation().plan(SMALL, n=40, d=3, budget=BUDGET)
    (check,) = check_lent(plan)
    assert not check.passed
    assert "dpconvex.sums.solver.minimise" in check.detail


@pytest.mark.parametrize(("case", "factor"), MUTANTS)
def test_a_loop_that_does_not_use_its_noise_is_caught(case, factor, monkeypatch):
    """The loop gets the noise times a factor, while the check believes that it got all of it."""
    lend, draw, sample = LentPort.lend, LentPort._draw, LentPort.lend_sample

    monkeypatch.setattr(LentPort, "lend", lambda port, name, loop: factor * lend(port, name, loop))
    monkeypatch.setattr(LentPort, "_draw", lambda port, name, law, shape: factor * draw(port, name, law, shape))
    monkeypatch.setattr(
        LentPort, "lend_sample", lambda port, name, loop: np.arange(40 + 0 * len(sample(port, name, loop)))
    )
    assert not all(check.passed for check in check_lent(LENT[case]))
