"""What is particular to PhasedSGD: phases, steps, printed constants, brute-force sensitivities."""

import math

import numpy as np
import pytest
from still import without_noise

import dpconvex as dc
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError
from dpconvex.loops.batch import gradient_sum, predictions

CASES = [
    dc.algorithms.PhasedSGD(),
    dc.algorithms.PhasedSGD(growing=False),
    dc.algorithms.PhasedSGD(phases=1),
    dc.algorithms.PhasedSGD(phases=4, ratio=1.0),
    dc.algorithms.PhasedSGD(release="every iterate"),
    dc.algorithms.PhasedSGD(constants="paper"),
]
PROBLEMS = [
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)),
    dc.Problem(dc.losses.Logistic(cap=0.5), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0),
    dc.Problem(dc.losses.SmoothedHinge(0.5), domain=dc.domains.L2Ball(4.0), l2=3.0),
    dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Linf(0.5)),
    dc.Problem(dc.losses.Huber(0.5), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Lp(3, 1.0), intercept=0.5),
]


def data_for(problem, n, d, rng):
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.labels == "sign" else y * rng.random(n)


@pytest.mark.parametrize("algorithm", CASES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_neighbours_move_every_release_by_no_more_than_stated(algorithm, problem, relation, rng):
    """Brute force: with the noise off, replace (also by extreme records) or mask each record in turn."""
    n, d = 14, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    stated = stated_sensitivities(plan)
    X, y = data_for(problem, n, d, rng)
    still, _ = without_noise(plan, X, y)
    for record in range(n):
        phase = next(p for p in plan.schedule if record in p.records)
        for size in (1.0, 100.0):
            if relation == "zero_out":
                moved = masked(plan, *opened(problem, X, y), record)[phase.name]
            else:
                changed, labels = X.copy(), y.copy()
                changed[record] = rng.normal(size=d) * size
                labels[record] = -y[record]
                moved = without_noise(plan, changed, labels)[0].released(phase.name)
            # The first release that sees the record moves by its sensitivity; later ones start from a moved point.
            assert np.linalg.norm(moved - still.released(phase.name)) <= stated[phase.name] * (1 + 1e-9)


def masked(plan, rows, y, record):
    """The phases in plain Python, with the gradient of one record masked; record None masks nothing."""
    problem, released = plan.problem, {}
    w = np.zeros(problem.weight_shape(plan.d))
    full = np.stack([predictions(rows, e, plan.n) for e in np.eye(len(w))], axis=1)
    for phase in plan.schedule:
        steps, tails = phase.arrays
        average = np.zeros_like(w)
        for t, i in enumerate(phase.records):
            slope = 0.0 if i == record else problem.loss.slope(float(full[i] @ w), y[i])
            w = problem.domain.project(w - steps[t] * (slope * full[i] + problem.l2 / plan.n * w))
            average += (tails[t] - (tails[t + 1] if t + 1 < len(tails) else 0.0)) * w
        released[phase.name] = average
        w = problem.domain.project(average)
    return released


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_the_loops_do_what_the_schedule_says(problem, rng):
    plan = CASES[0].plan(problem, n=40, d=2, budget=dc.Budget(1.0, 1e-6))
    X, y = data_for(problem, 40, 2, rng)
    rows, y = opened(problem, X, y)
    still, _ = without_noise(plan, X, y)
    for name, value in masked(plan, rows, y, None).items():
        assert np.allclose(still.released(name), value, atol=1e-12)


def opened(problem, X, y):
    return open_rows(X, y, problem, len(X), X.shape[1])


def stated_sensitivities(plan):
    found = {}

    def walk(node):
        if isinstance(node, list | tuple):
            for part in node:
                walk(part)
        elif getattr(node, "derivation", None) is not None:
            arguments = node.derivation.arguments
            if node.derivation.theorem == "gaussian":
                found[arguments["release"].name] = arguments["sensitivity"].value
            elif node.derivation.theorem == "noisy_contraction":
                for release, fact in zip(arguments["releases"], arguments["sensitivities"], strict=True):
                    found[release.name] = fact.value
            else:
                for part in arguments.values():
                    walk(part)

    walk(plan.claim)
    return found


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_without_noise_it_reaches_the_reference_optimum(problem):
    rng = np.random.default_rng(7)
    n, d = 40_000, 2
    X, y = data_for(problem, n, d, rng)
    rows, y = opened(problem, X, y)
    w = np.zeros(problem.weight_shape(d))
    for _ in range(400):  # projected gradient descent on the empirical risk
        gradient = gradient_sum(rows, y, problem.loss, w) + problem.l2 * w
        w = problem.domain.project(w - gradient / (n * problem.smoothness(n, d).value))

    def risk(w):
        z = predictions(rows, w, n)[:4000]
        values = [problem.loss.value(a, b) for a, b in zip(z, y[:4000], strict=True)]
        return np.mean(values) + problem.l2 / (2 * n) * w @ w

    plan = dc.algorithms.PhasedSGD(distance=2.0).plan(problem, n=n, d=d, budget=dc.Budget(8.0, 1e-6))
    _, found = without_noise(plan, X, y)
    assert risk(found) - risk(w) < 4e-3


def test_dimension_one_and_two_records(rng):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    for algorithm in CASES:
        plan = algorithm.plan(problem, n=2, d=1, budget=dc.Budget(1.0, 0.1))
        assert plan.run([[0.5], [2.0]], [1, -1]).weights.shape == (1,)


def test_paper_constants_state_what_they_waste(ball_problem):
    budget = dc.Budget(1.0, 1e-6)
    printed = dc.algorithms.PhasedSGD(constants="paper").plan(ball_problem, n=1000, d=5, budget=budget)
    rho = 1.0 / (2 * math.sqrt(math.log(1e6)))
    assert printed.claim.profile.mu == pytest.approx(rho / 2, rel=1e-9)
    assert [len(p.records) for p in printed.schedule][:3] == [500, 250, 125]
    assert sum(len(p.records) for p in printed.schedule) == 1000
    with pytest.raises(HypothesisError, match="bounded domain"):
        dc.algorithms.PhasedSGD(constants="paper").plan(dc.Problem(dc.losses.Logistic()), n=100, d=2, budget=budget)


@pytest.mark.parametrize("n", [2, 3, 7, 100, 20_000, 32_561])
@pytest.mark.parametrize("phases", [1, 2, 3, 15, 60])
def test_phases_are_disjoint_non_empty_and_use_every_record(n, phases, ball_problem):
    plan = dc.algorithms.PhasedSGD(phases=phases).plan(ball_problem, n=n, d=2, budget=dc.Budget(1.0, 1e-9))
    used = [i for p in plan.schedule for i in p.records]
    assert used == list(range(n))
    assert all(len(p.records) for p in plan.schedule)


@pytest.mark.parametrize(
    "options",
    [
        {"constants": "loose"},
        {"phases": 0},
        {"phases": 61},
        {"phases": 1.5},
        {"phases": True},
        {"ratio": 0.0},
        {"ratio": 1.1},
        {"step": 0.0},
        {"step": math.nan},
        {"step": "big"},
        {"distance": -1.0},
        {"release": "average"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        dc.algorithms.PhasedSGD(**options)


def test_a_step_above_two_over_beta_is_refused(ball_problem):
    with pytest.raises(HypothesisError, match="2/beta"):
        dc.algorithms.PhasedSGD(step=8.5).plan(ball_problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
