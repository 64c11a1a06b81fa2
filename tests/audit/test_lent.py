"""Loops that are lent noise: each has a check, each check passes, and a loop that does not use its noise is caught."""

import numpy as np
import pytest
from contracts.test_algorithms import CASES, IDS

import dpconvex as dc
from dpconvex.algorithms.noisy_sgd import Telescoped
from dpconvex.audit.lent import CHECKS, LentPort, check_lent
from dpconvex.loops import stream
from dpconvex.noise.rounded import Variates
from dpconvex.theorems.computed_steps import walk_grids

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
    lend, draw, sample, variates = LentPort.lend, LentPort._draw, LentPort.lend_sample, LentPort._variates

    monkeypatch.setattr(LentPort, "lend", lambda port, name, loop: factor * lend(port, name, loop))
    monkeypatch.setattr(LentPort, "_draw", lambda port, name, law, shape: factor * draw(port, name, law, shape))
    monkeypatch.setattr(LentPort, "_variates", lambda port, release: scaled(variates(port, release), factor))
    monkeypatch.setattr(
        LentPort, "lend_sample", lambda port, name, loop: np.arange(40 + 0 * len(sample(port, name, loop)))
    )
    assert not all(check.passed for check in check_lent(LENT[case]))


def scaled(variates, factor):
    variates.normal *= factor
    return variates


def unrounded(variates):
    return Variates.given(variates.normal, variates.scale)


def wrong_words(variates):
    variates.words = variates.words ^ np.uint64(1)  # the sign that integers see is another than that of the float
    return variates


def without_integers(variates):
    variates.settle = lambda place, value, scale, grid: grid * round(value / grid)
    return variates


@pytest.mark.parametrize("mutant", [unrounded, wrong_words, without_integers])
def test_a_walk_that_rounds_wrongly_is_caught(mutant, monkeypatch):
    plan = dc.algorithms.NoisySGD(schedule=Telescoped(steps=20)).plan(SMALL, n=40, d=3, budget=BUDGET)
    assert all(check.passed for check in check_lent(plan))
    variates = LentPort._variates
    monkeypatch.setattr(LentPort, "_variates", lambda port, release: mutant(variates(port, release)))
    assert not all(check.passed for check in check_lent(plan))


def test_a_walk_on_another_grid_is_caught(monkeypatch):
    plan = dc.algorithms.NoisySGD(schedule=Telescoped(steps=20)).plan(SMALL, n=40, d=3, budget=BUDGET)
    monkeypatch.setattr(stream, "walk_grids", lambda shape, grid, far: walk_grids(shape, 2.0 * grid, far))
    assert not all(check.passed for check in check_lent(plan))
