"""Losses of the user's own that are no linear models: each algorithm that takes them, with its whole contract."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import dpconvex as dc
from dpconvex.audit.whitebox import sensitivities
from dpconvex.loops.rows import Records
from dpconvex.sums.descent import minimise_records
from dpconvex.sums.records import RecordSums
from dpconvex.testing.algorithms import CHECKS
from dpconvex.testing.noiseless import run_without_noise

SOFTENING = 0.1


def directions(w, X, y):
    away = w - X
    return away / np.sqrt(SOFTENING**2 + (away**2).sum(axis=1, keepdims=True))


def one_direction(w, x, y):
    away = w - x
    return away / np.sqrt(SOFTENING**2 + (away**2).sum())


def towards(w, X, y):  # a pair: Huber's loss of a median, coordinates tied by the label
    away = w - X
    return np.tanh(y + 1.5) / np.sqrt(1.0 + (away**2).sum(axis=1)), away


FACTS = {"lipschitz": 1.0, "smoothness": 1.0 / SOFTENING}
MEDIAN = dc.losses.Convex(directions, **FACTS, name="geometric median")
COMPILED = dc.losses.Convex(one_direction, **FACTS, per_record=True, name="geometric median, compiled")
BALL = dc.Problem(MEDIAN, domain=dc.domains.L2Ball(2.0))
FREE = dc.Problem(MEDIAN, l2=3.0)
BOX = dc.Problem(COMPILED, domain=dc.domains.Box(-1.0, 2.0))
CROSS = dc.Problem(MEDIAN, domain=dc.domains.L1Ball(2.0))
ROUGH = dc.Problem(dc.losses.Convex(towards, lipschitz=1.0), domain=dc.domains.L2Ball(2.0))  # nothing of its curvature

CASES = [
    *((dc.algorithms.PhasedSGD(), p) for p in (BALL, FREE, BOX)),
    (dc.algorithms.PhasedSGD(release="every iterate", batch=2), BALL),
    (dc.algorithms.PhasedSGD(shuffle=True), BALL),
    (dc.algorithms.PhasedSGD(constants="paper"), BALL),
    *((dc.algorithms.NoisySGD(), p) for p in (BALL, FREE, BOX)),
    (dc.algorithms.NoisySGD(release="every iterate", average=0.5), ROUGH),
    (dc.algorithms.SnowballSGD(shuffle=True), BALL),
    *((dc.algorithms.PhasedERM(), p) for p in (BALL, FREE, BOX)),
    (dc.algorithms.PhasedERM(release="every iterate"), BALL),
    (dc.algorithms.PhasedERM(constants="paper"), BALL),
    (dc.algorithms.PhasedERM(reduction=True), FREE),
    *((dc.algorithms.NoisyGD(steps=4), p) for p in (BALL, FREE, CROSS)),
    *((dc.algorithms.PoissonSGD(0.2, steps=8), p) for p in (BALL, ROUGH)),
    *((dc.algorithms.OnlineToBatch(rounds=2), p) for p in (BALL, FREE, ROUGH, CROSS)),
    *((dc.algorithms.PrivateFTRL(), p) for p in (BALL, BOX, ROUGH)),
    (dc.algorithms.PrivateFTRL(p=1.5, batch=2), CROSS),
    (dc.algorithms.FrankWolfe(steps=20), CROSS),
    *((dc.algorithms.MirrorDescent(p=p, steps=4), FREE) for p in (1.5, 2.0)),
    *((dc.algorithms.TruncatedMirrorDescent(p=p, batches=2), BALL) for p in (1.01, 2.0)),
    *((dc.algorithms.HeavyTailedSGD(batches=2, norm=norm), BALL) for norm in ("coordinates", "l2")),
]
IDS = [f"{type(a).__name__}-{i}" for i, (a, _) in enumerate(CASES)]
FIRST = {name: i for i, name in reversed([(i, type(a).__name__) for i, (a, _) in enumerate(CASES)])}.values()
every_case = pytest.mark.parametrize(("algorithm", "problem"), CASES, ids=IDS)
one_of_each = pytest.mark.parametrize(("algorithm", "problem"), [CASES[i] for i in FIRST], ids=[IDS[i] for i in FIRST])


@one_of_each
@pytest.mark.parametrize("check", [CHECKS[0], *CHECKS[2:]], ids=lambda check: check.__name__.removeprefix("check_"))
def test_a_slice_of_the_contract(algorithm, problem, check, rng):
    check(algorithm, problem, rng)


@pytest.mark.heavy
@every_case
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_the_contract(algorithm, problem, check, rng):
    check(algorithm, problem, rng)


@one_of_each
def test_receipts_are_planned_again_without_the_code(algorithm, problem, rng):
    plan = algorithm.plan(problem, n=20, d=2, budget=dc.Budget(1.0, 1e-6))
    receipt = plan.run(rng.normal(size=(20, 2)), np.ones(20), dataset="own").receipt
    read = dc.Receipt.from_json(receipt.to_json())
    assert str(dc.verify(read)).startswith("consistent, of declared parts")
    assert bool(dc.verify(read))
    assert read.problem == problem
    with pytest.raises(dc.errors.UserCodeError, match="not at hand"):
        dataclasses.replace(plan, problem=read.problem, seal="").run(np.ones((20, 2)), np.ones(20), dataset="own")


LONG_RUNS = [
    (dc.algorithms.PhasedSGD(batch=100, phases=1, growing=False, step=0.2), 40_000),
    (dc.algorithms.NoisySGD(schedule=dc.algorithms.get("NoisySGD").parts[1](60, batches=4, power=0.5)), 400),
    (dc.algorithms.PhasedERM(phases=1, weight=1e-3), 400),
    (dc.algorithms.NoisyGD(steps=500, clip=1.0, horizon=100.0), 400),
    (dc.algorithms.PoissonSGD(1.0, steps=400, rate=0.2), 400),
    (dc.algorithms.OnlineToBatch(rounds=400, clip=1.0, step=0.005), 40_000),
    (dc.algorithms.PrivateFTRL(batch=20, step=1.0), 40_000),
    (dc.algorithms.MirrorDescent(p=2.0, steps=400, clip=1.0, horizon=100.0), 400),
    (dc.algorithms.TruncatedMirrorDescent(p=2.0, batches=400, truncation=1.0), 40_000),
    (dc.algorithms.HeavyTailedSGD(batches=400, clip=1.0, norm="l2"), 40_000),
    (dc.algorithms.FrankWolfe(steps=300, clip=1.0), 400),
]


@pytest.mark.parametrize(("algorithm", "n"), LONG_RUNS, ids=lambda part: type(part).__name__)
def test_without_noise_they_reach_the_optimum(algorithm, n):
    """Mean loss within 1e-3 of the least that SciPy finds; the records repeat where one pass is read."""
    few = np.random.default_rng(3).normal(size=(400, 3)) / 3 + [0.5, -0.25, 0.0]
    X = np.tile(few, (n // 400, 1))
    name = type(algorithm).__name__
    problem = {"MirrorDescent": FREE, "FrankWolfe": CROSS}.get(name, BALL)
    problem = dataclasses.replace(problem, l2=0.0)

    def mean_loss(w):
        return np.sqrt(SOFTENING**2 + ((w - few) ** 2).sum(axis=1)).mean()

    best = minimize(mean_loss, np.zeros(3), method="BFGS").fun
    plan = algorithm.plan(problem, n=n, d=3, budget=dc.Budget(8.0, 1e-6))
    assert mean_loss(run_without_noise(plan, X, None)[1]) <= best + 1e-3


ATTACKED = [
    (dc.algorithms.PhasedSGD(), BALL, 0.97),
    (dc.algorithms.NoisySGD(), BALL, 0.0),
    (dc.algorithms.PhasedERM(), BALL, 0.0),
    (dc.algorithms.NoisyGD(steps=4), BALL, 0.97),
    (dc.algorithms.PoissonSGD(0.5, steps=4), BALL, 0.0),
    (dc.algorithms.OnlineToBatch(rounds=3), BALL, 0.97),
    (dc.algorithms.PrivateFTRL(batch=4), BALL, 0.97),
    (dc.algorithms.HeavyTailedSGD(batches=4), BALL, 0.97),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("algorithm", "problem", "least"), ATTACKED, ids=lambda part: type(part).__name__)
def test_the_audit_does_not_refute_them(algorithm, problem, least):
    plan = algorithm.plan(problem, n=24, d=1, budget=dc.Budget(4.0, 1e-6))
    report = dc.audit.audit(plan, runs=8000, seed=7)
    assert not report.refuted
    assert report.ratio >= 0.9 * least


def is_caught(algorithm, problem, mutant, runs):
    plan = algorithm.plan(problem, n=12, d=1, budget=dc.Budget(4.0, 1e-6))
    if not mutant.breaks(plan) or mutant.heavy or mutant.unbounded:  # records have no rows to bring back
        return True
    caught = dc.audit.audit(plan, runs=runs, seed=1, mutant=mutant).caught
    return caught or any(not m.holds for m in sensitivities(plan, tries=60, mutant=mutant))


@pytest.mark.parametrize("mutant", ["noise halved", "record used twice"])
def test_a_slice_of_the_mutants_is_caught(mutant):
    (found,) = (m for m in dc.algorithms.NoisyGD.mutants() if m.name == mutant)
    assert is_caught(dc.algorithms.NoisyGD(steps=3), BALL, found, 1000)


@pytest.mark.heavy
@pytest.mark.parametrize(("algorithm", "problem", "least"), ATTACKED, ids=lambda part: type(part).__name__)
def test_mutants_are_caught(algorithm, problem, least):
    """On a problem so smooth that no step is capped: a record of two phases would say too little where the last are."""
    problem = dataclasses.replace(problem, loss=dataclasses.replace(MEDIAN, smoothness=1.0))
    for mutant in type(algorithm).mutants():
        assert is_caught(algorithm, problem, mutant, max(v.runs for v in type(algorithm).victims())), mutant.name


# Certified minimisers -------------------------------------------------------------------------------------------------


def minimised(loss, domain, l2, tilt, start, records, tolerance=1e-6):
    sums = RecordSums(Records(records, None))
    return minimise_records(sums, loss, l2, tilt, tolerance, domain=domain, start=start)


@pytest.mark.parametrize(
    "domain", [dc.domains.Everywhere(), dc.domains.L2Ball(0.3), dc.domains.Box(-0.2, 0.1)], ids=str
)
@pytest.mark.parametrize("l2", [0.5, 50.0])
def test_certified_distances_hold(domain, l2, rng):
    """Against the same problem solved a million times as closely."""
    records = rng.standard_t(2, size=(300, 3)) / 3 + [0.5, -0.25, 0.0]
    tilt, start = rng.normal(size=3), domain.project(rng.normal(size=3))
    near = minimised(MEDIAN, domain, l2, tilt, start, records, 1e-1)
    exact = minimised(MEDIAN, domain, l2, tilt, np.zeros(3), records, 1e-7)
    assert np.linalg.norm(near - exact) <= (1e-1 + 1e-7) / l2
    assert np.allclose(domain.project(exact), exact, atol=1e-12)
    gradient = directions(exact, records, None).sum(axis=0) + l2 * exact + tilt
    step = 1.0 / (len(records) / SOFTENING + l2)
    assert np.linalg.norm(domain.project(exact - step * gradient) - exact) <= 1e-7 * step


def test_matrices_and_losses_that_are_strongly_convex(rng):
    X = rng.normal(size=(200, 2, 2)) / 4
    pull = dc.losses.Convex(
        lambda w, X, y: w - np.clip(X, -1, 1), lipschitz=4.0, smoothness=1.0, strong_convexity=1.0, shape=(2, 2)
    )
    problem = dc.Problem(pull, domain=dc.domains.L2Ball(1.0))
    budget = dc.Budget(4.0, 1e-6)
    plan = dc.algorithms.PhasedERM(phases=1, weight=1.0).plan(problem, n=200, d=4, budget=budget)
    assert plan.run(X, dataset="matrices").weights.shape == (2, 2)
    weak = dataclasses.replace(problem, loss=dataclasses.replace(pull, strong_convexity=0.0))
    loud = dc.algorithms.PhasedERM(phases=1, weight=1.0).plan(weak, n=200, d=4, budget=budget)
    assert plan.releases[0].scale == pytest.approx(loud.releases[0].scale / 201.0, rel=1e-2)
    _, found = run_without_noise(plan, X, None)
    assert np.linalg.norm(found - np.clip(X, -1, 1).sum(axis=0) / 201.0) <= plan.schedule[0].within
    pure = dc.algorithms.PhasedERM().plan(problem, n=200, d=4, budget=dc.Budget(4.0, 0.0))
    assert pure.claim.epsilon(0.0) <= 4.0


def test_what_a_certificate_rests_on_is_said_and_asked_for(rng):
    plan = dc.algorithms.PhasedERM().plan(BALL, n=40, d=2, budget=dc.Budget(1.0, 1e-6))
    assert [words.split(":")[0] for words in plan.declared()[:3]] == [
        "largest l2 norm of the gradient of one record's loss",
        "largest eigenvalue of one record's Hessian",
        "smallest eigenvalue of one record's Hessian",
    ]
    with pytest.raises(dc.errors.HypothesisError, match="no smoothness was declared"):
        dc.algorithms.PhasedERM().plan(ROUGH, n=40, d=2, budget=dc.Budget(1.0, 1e-6))
    free = dataclasses.replace(BALL, loss=dataclasses.replace(MEDIAN, lipschitz=None))
    with pytest.raises(dc.errors.HypothesisError, match="no largest gradient was declared"):
        dc.algorithms.PhasedERM().plan(free, n=40, d=2, budget=dc.Budget(1.0, 1e-6))
    with pytest.raises(dc.errors.HypothesisError, match="takes losses of predictions, not a loss of a record"):
        dc.algorithms.ObjectivePerturbation().plan(BALL, n=40, d=2, budget=dc.Budget(1.0, 1e-6))


def test_a_loss_that_is_not_convex_ends_in_an_error_without_values(rng):
    wild = dc.losses.Convex(lambda w, X, y: np.sin(1e6 * w + X), lipschitz=2.0, smoothness=1.0, name="waves")
    plan = dc.algorithms.PhasedERM().plan(dc.Problem(wild), n=40, d=2, budget=dc.Budget(1.0, 1e-6))
    with pytest.raises(dc.errors.ReleaseError, match="enough for a convex loss as smooth as declared"):
        plan.run(rng.normal(size=(40, 2)), dataset="waves")
    assert len(dc.account("waves").claims) == 1
