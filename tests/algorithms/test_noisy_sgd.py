"""What is particular to NoisySGD: walks, their accounting, the planner, printed constants."""

import math
import time

import numpy as np
import pytest
from scipy import sparse
from slices import one_in

import dpconvex as dc
from dpconvex.algorithms.cuts import even_batches
from dpconvex.algorithms.noisy_sgd import Cyclic, NoisySGD, Snowball, SnowballJNN, SnowballSGD, Telescoped, Walk
from dpconvex.algorithms.walks import growing_batches, jnn_steps, most_steps
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Release
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.sums.matrix import predictions
from dpconvex.testing.noiseless import run_without_noise
from dpconvex.theorems import gradient_sensitivity, noise_shape, noisy_contraction, noisy_sgd, noisy_steps
from dpconvex.theorems.schedules import Constant, Growing, Listed

BALL = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
PROBLEMS = [
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0)),
    dc.Problem(dc.losses.Logistic(cap=0.5), domain=dc.domains.Box(-0.3, 0.5), intercept=1.0),
    dc.Problem(dc.losses.SmoothedHinge(0.5), l2=3.0),
    dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Linf(0.5)),
]
WALKS = [
    "auto",
    Telescoped(0.5, steps=4),
    Cyclic(3, batches=4),
    Cyclic(3, batches=1),
    Snowball(5),
    SnowballJNN(5),
    Walk(Listed((2, 5, 5)), Listed((0.4, 0.2, 0.1, 0.3, 0.2, 0.05)), Listed((1.0, 0.0, 2.0, 1.0, 0.5, 1.0))),
]


def data_for(problem, n, d, rng):
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n)


def plain_walk(plan, X, y, record=None, noise=None, replaced=None):
    """The walk in plain Python, with one gradient masked or replaced; return every point before projection."""
    problem, walk = plan.problem, plan.schedule[0]
    rows, y = open_rows(X, y, problem, plan.n, plan.d)
    w = np.zeros(problem.weight_shape(plan.d))
    full = np.stack([predictions(rows, e, plan.n) for e in np.eye(len(w))], axis=1)
    if replaced is not None:
        full[record], y[record] = replaced
        record = None
    eta, sizes = walk.steps.values(), walk.batches.values().astype(int)
    cuts = np.append(0, np.cumsum(sizes))
    points = []
    for t in range(len(eta)):
        j = t % len(sizes)
        g = np.zeros_like(w)
        for i in range(cuts[j], cuts[j + 1]):
            if i != record:
                g += problem.loss.slope(float(full[i] @ w), y[i]) * full[i]
        v = w - eta[t] * (g / sizes[j] + problem.l2 / plan.n * w)
        v = v + (noise[t] if noise is not None else 0.0)
        points.append(v)
        w = problem.domain.project(v)
    return points


def step_facts(plan):
    """Sensitivity and contraction of every step of a plan, worked out apart from the theorem."""
    problem, walk = plan.problem, plan.schedule[0]
    eta, sizes = walk.steps.values(), walk.batches.values()
    delta = gradient_sensitivity(problem.lipschitz(plan.d), plan.budget.relation)
    s = delta * eta / np.tile(sizes, walk.epochs)
    beta, m = problem.smoothness(plan.n, plan.d).value, problem.l2 / plan.n
    return s, np.maximum(abs(1 - eta * m), abs(1 - eta * beta))


def step_noise(plan):
    walk = plan.schedule[0]
    shape = noise_shape(walk.steps.values(), walk.noise)
    scales = {r.name: r.scale for r in plan.releases}
    return np.append(scales.get("walk", 0.0) * shape[:-1], scales["end"])


@pytest.mark.parametrize("schedule", WALKS, ids=str)
@pytest.mark.parametrize("problem", one_in(2, PROBLEMS), ids=lambda p: f"{p.loss}-{p.domain}")
def test_the_loops_do_what_the_schedule_says(schedule, problem, rng):
    n, d = 12, 2
    for kind in (np.float64, np.float32):
        plan = NoisySGD(schedule=schedule).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
        X, y = data_for(problem, n, d, rng)
        X = X.astype(kind)
        noise = np.zeros((plan.schedule[0].steps.length, *problem.weight_shape(d)))
        expected = plain_walk(plan, X, y, noise=noise)[-1]
        for rows in (X, sparse.csr_array(X)):
            port, found = run_without_noise(plan, rows, y)
            assert np.allclose(port.released("end"), expected, atol=1e-12)
            assert np.allclose(found, problem.domain.project(expected), atol=1e-12)


def test_the_noise_of_every_step_is_that_of_the_claim(rng):
    """The run adds up the noise of the port exactly as the claim says: a linear loss, free space, nothing else."""
    problem = dc.Problem(dc.losses.Linear(1.0))
    plan = NoisySGD(schedule=WALKS[-1]).plan(problem, n=12, d=2, budget=dc.Budget(1.0, 1e-6))
    weights = np.array([plan.run(np.zeros((12, 2)), np.ones(12), seed=k).weights for k in range(4000)])
    assert weights.std() == pytest.approx(np.sqrt((step_noise(plan) ** 2).sum()), rel=0.03)


@pytest.mark.parametrize("schedule", WALKS, ids=str)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_neighbours_move_each_step_by_no_more_than_stated(schedule, relation, problem, rng):
    """Two runs with the same noise: the gap is at most c_t times the gap before, plus s_t if the record is used."""
    n, d = 12, 2
    plan = NoisySGD(schedule=schedule).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    s, c = step_facts(plan)
    walk = plan.schedule[0]
    X, y = data_for(problem, n, d, rng)
    nu = step_noise(plan)
    noise = nu[:, None] * rng.normal(size=(len(nu), *problem.weight_shape(d)))
    base = plain_walk(plan, X, y, noise=noise)
    cuts = np.append(0, np.cumsum(walk.batches.values()))
    for record in range(n):
        for _ in range(2):
            other = None
            if relation == "replace_one":
                row = rng.normal(size=d) * 100
                swapped = np.repeat(X[:1], n, axis=0)
                swapped[0] = row
                opened, _ = open_rows(swapped, y, problem, n, d)
                size = problem.weight_shape(d)[0]
                other = np.array([predictions(opened, e, n)[0] for e in np.eye(size)]), -y[record]
            moved = plain_walk(plan, X, y, record, noise, other)
            gap = 0.0
            for t, (a, b) in enumerate(zip(base, moved, strict=True)):
                j = t % walk.batches.length
                used = cuts[j] <= record < cuts[j + 1]
                bound = c[t] * gap + (s[t] if used else 0.0)
                gap = np.linalg.norm(a - b)
                assert gap <= bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("schedule", WALKS, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_the_claim_is_that_of_noisy_contraction_step_by_step(schedule, problem):
    plan = NoisySGD(schedule=schedule).plan(problem, n=12, d=2, budget=dc.Budget(1.0, 1e-6))
    s, c = step_facts(plan)
    again = noisy_contraction(
        [state_fact(Kind.SENSITIVITY, v, "a test", relation="replace_one") for v in s],
        [state_fact(Kind.CONTRACTION, v, "a test") for v in c],
        [Release(str(t), "gaussian", v, (2,)) for t, v in enumerate(step_noise(plan))],
        plan.schedule[0].batches.length,
    )
    assert 0.0 < plan.claim.profile.mu / again.profile.mu - 1.0 < 1e-5  # what rounding adds
    assert 0.0 <= 1.0 - plan.claim.profile.mu / plan.budget.mu < 1e-9


@pytest.mark.parametrize("schedule", [Telescoped(0.5, steps=6), Snowball(6), SnowballJNN(6)], ids=str)
def test_one_pass_over_linear_losses_attains_the_claim(schedule):
    """Shift over standard deviation of the last point is exactly mu for the worst record."""
    n = 24
    problem = dc.Problem(dc.losses.Linear(1.0))
    plan = NoisySGD(schedule=schedule, step=0.3).plan(problem, n=n, d=1, budget=dc.Budget(1.0, 1e-6))
    deviation = math.sqrt((step_noise(plan) ** 2).sum())
    X, y = np.ones((n, 1)), np.ones(n)
    _, base = run_without_noise(plan, X, y)
    shifts = []
    walk = plan.schedule[0]
    cuts = np.append(0, np.cumsum(walk.batches.values())).astype(int)
    tails = np.sqrt(np.cumsum((step_noise(plan) ** 2)[::-1])[::-1])
    for j in range(walk.batches.length):
        labels = y.copy()
        labels[cuts[j]] = -1.0
        _, moved = run_without_noise(plan, X, labels)
        # The attacker may subtract noise from before the record was read: the tail is what hides it.
        shifts.append(abs(moved[0] - base[0]) / tails[j])
    assert max(shifts) == pytest.approx(plan.claim.profile.mu, rel=1e-5)
    assert shifts[0] <= plan.claim.profile.mu * (1 + 1e-9)
    assert deviation == pytest.approx(tails[0])


def test_every_iterate_is_accounted_for_by_composition(rng):
    n, d = 12, 2
    plan = NoisySGD(schedule=Cyclic(3, 0.5, 1.0, 4), step=0.5, release="every iterate").plan(
        PROBLEMS[0], n=n, d=d, budget=dc.Budget(1.0, 1e-6)
    )
    walk, (release,) = plan.schedule[0], plan.releases
    s, _ = step_facts(plan)
    cost = s / (release.scale * noise_shape(walk.steps.values(), walk.noise))
    expected = math.sqrt(max((cost[j::4] ** 2).sum() for j in range(4)))
    assert 0.0 < plan.claim.profile.mu / expected - 1.0 < 1e-10
    X, y = data_for(PROBLEMS[0], n, d, rng)
    solution = plan.run(X, y, seed=1)
    assert solution.iterates["steps"].shape == (12, 2)
    points = [PROBLEMS[0].domain.project(v * r) for v, r in zip(
        solution.iterates["steps"], noise_shape(walk.steps.values(), walk.noise), strict=True
    )]  # fmt: skip
    assert np.allclose(solution.weights, points[-1])
    average = NoisySGD(schedule=Cyclic(3, 0.5, 1.0, 4), step=0.5, release="every iterate", average=0.5).plan(
        PROBLEMS[0], n=n, d=d, budget=dc.Budget(1.0, 1e-6)
    )
    assert np.allclose(average.run(X, y, seed=1).weights, np.mean(points[-6:], axis=0))
    still, _ = run_without_noise(plan, X, y)
    expected = plain_walk(plan, X, y)
    shape = noise_shape(walk.steps.values(), walk.noise)
    assert np.allclose(still.history("steps") * shape[:, None], expected, atol=1e-12)


def test_composition_asks_for_no_smoothness(rng):
    problem = dc.Problem(dc.losses.Hinge(), domain=dc.domains.L2Ball(4.0))
    with pytest.raises(HypothesisError, match="kink"):
        NoisySGD().plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
    plan = NoisySGD(release="every iterate", average=0.5).plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
    X, y = data_for(problem, 100, 2, rng)
    assert np.isfinite(plan.run(X, y).weights).all()


def test_an_average_under_last_iterate_accounting_is_refused():
    with pytest.raises(HypothesisError, match="every iterate"):
        NoisySGD(average=0.5)


# Schedules -----------------------------------------------------------------------------------------------------------


def test_printed_and_exact_snowballs():
    budget = dc.Budget(1.0, 2.5e-9)
    lengths = {}
    for family in (Snowball, SnowballJNN):
        for constants in ("tight", "paper"):
            plan = NoisySGD(schedule=family("most"), constants=constants).plan(BALL, n=20_000, d=50, budget=budget)
            lengths[family.__name__, constants] = plan.schedule[0].steps.length
            assert len(plan.schedule[0].records) <= 20_000
            assert plan.claim.epsilon(2.5e-9) <= 1.0
    assert lengths["SnowballJNN", "tight"] >= 4900
    assert lengths["SnowballJNN", "paper"] == 544
    assert lengths["Snowball", "paper"] == 4984
    assert lengths["Snowball", "tight"] > 10_000


def test_jnn_steps_halve_over_halves():
    for length in (1, 2, 3, 7, 100, 544, 4992):
        steps = jnn_steps(length)
        assert len(steps) == length
        assert steps[0] == 1.0
        assert (np.diff(steps) <= 0).all()
        seen = steps / np.sqrt(np.cumsum((steps**2)[::-1])[::-1])
        assert (seen <= 5.292 / 2 / np.sqrt(np.arange(length, 0, -1)) * (1 + 1e-3)).all()  # the paper has 2 sqrt(3)


@pytest.mark.parametrize("n", [5, 12, 100, 20_000])
def test_growing_batches_are_the_best_whole_ones(n):
    for steps, c in ((np.ones(5), np.ones(5)), (jnn_steps(5), np.ones(5)), (np.ones(5), np.full(5, 0.7))):
        sizes = growing_batches(n, steps, c).values()
        assert sizes.sum() == n
        assert (sizes >= 1).all()
        gamma = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        need = gamma * steps / np.sqrt(np.cumsum(((gamma * steps) ** 2)[::-1])[::-1])
        worst = (need / sizes).max()
        # No sizes with a smaller worst case fit: rounding up what it would take exceeds n.
        assert np.ceil(need / (worst * (1 - 1e-9))).sum() > n or n - 5 < 5


def test_most_steps_and_even_batches():
    assert most_steps(10, lambda k: np.full(k, 11.0)) == 0
    assert most_steps(10, lambda k: np.ones(k)) == 10
    for n, k in ((10, 3), (10, 10), (7, 1)):
        sizes = even_batches(n, k).values()
        assert sizes.sum() == n
        assert np.ptp(sizes) <= 1


def test_contractions_shrink_the_batches_of_a_strongly_convex_snowball():
    """Theorem 5.4 prints batches that ignore the contraction; the exact ones need about a quarter of the records."""
    length = 1000
    step = 2.0 * math.log(length) / length  # times lambda
    exact = _needed(np.ones(length), np.full(length, 1 - step))
    printed = _needed(np.ones(length), np.ones(length))
    assert 0.2 < exact / printed < 0.3
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), l2=400.0)
    plan = SnowballSGD(constants="paper").plan(problem, n=20_000, d=50, budget=dc.Budget(1.0, 2.5e-9))
    sizes = plan.schedule[0].batches.values()
    rho = 1.0 / (2 * math.sqrt(math.log(4e8)))
    assert (sizes == np.ceil(2 * np.sqrt(50 / np.arange(len(sizes), 0, -1.0)) / rho)).all()
    assert "5.4" in plan.utility


def _needed(steps, c):
    gamma = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    return (gamma * steps / np.sqrt(np.cumsum(((gamma * steps) ** 2)[::-1])[::-1])).sum()


# Planner -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(2, 1), (5000, 20), (20_000, 50), (20_000, 500), (10**6, 1000), (10**8, 10**5)])
def test_the_planner_is_quick_and_repeatable(n, d):
    budget = dc.Budget(1.0, min(1e-2, 1 / n**2))
    NoisySGD().plan(BALL, n=n, d=d, budget=budget)
    start = time.process_time()
    plan = NoisySGD().plan(BALL, n=n, d=d, budget=budget)
    assert time.process_time() - start < 1.0
    assert plan.to_json() == NoisySGD().plan(BALL, n=n, d=d, budget=budget).to_json()
    assert plan.schedule[0].epochs <= 20
    assert plan.schedule[0].steps.values().max() <= 8.0
    assert plan.schedule[0].steps.length * d <= 2e7 or plan.schedule[0].steps.length <= 50


def test_more_budget_is_expected_to_help():
    risks = []
    for epsilon in (0.1, 1.0, 8.0):
        plan = NoisySGD().plan(BALL, n=20_000, d=50, budget=dc.Budget(epsilon, 1e-9))
        risks.append(float(plan.utility.split()[4]))
    assert risks == sorted(risks, reverse=True)


def test_a_shuffle_takes_every_record_once(rng):
    """Rows sorted by label ruin one pass in the order given; the order drawn from the noise is a permutation."""
    n, d = 400, 2
    X = rng.normal(size=(n, d)) / 2
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    sort = np.argsort(y)
    plan = NoisySGD(schedule=Telescoped(0.5, steps=20), shuffle=True).plan(BALL, n=n, d=d, budget=dc.Budget(50.0, 1e-6))
    solution = plan.run(X[sort], y[sort], seed=2)
    assert dc.verify(solution.receipt)
    assert "order" not in solution.iterates
    assert np.mean(np.sign(X @ solution.weights) == y) > 0.9
    every = NoisySGD(shuffle=True, release="every iterate").plan(BALL, n=n, d=d, budget=dc.Budget(1.0, 1e-6))
    assert sorted(np.argsort(every.run(X, y).iterates["order"][0])) == list(range(n))


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"schedule": "best"}, "schedule"),
        ({"constants": "loose"}, "constants"),
        ({"constants": "paper"}, "Snowball"),
        ({"constants": "paper", "schedule": Snowball(10)}, "fixes"),
        ({"constants": "paper", "schedule": Snowball(), "release": "every iterate"}, "last iterate"),
        ({"passes": 0}, "passes"),
        ({"passes": True}, "passes"),
        ({"step": -1.0}, "step"),
        ({"step": math.nan}, "step"),
        ({"distance": 0.0}, "distance"),
        ({"release": "average"}, "release"),
        ({"average": 2.0, "release": "every iterate"}, "average"),
        ({"shuffle": "yes"}, "shuffle"),
        ({"schedule": Cyclic(0)}, "epochs"),
        ({"schedule": Cyclic(2, power=-1.0)}, "power"),
        ({"schedule": Cyclic(2, tau=1.5)}, "tau"),
        ({"schedule": Cyclic(2, tau=True)}, "tau"),
        ({"schedule": Cyclic(2, batches=2.5)}, "batches"),
        ({"schedule": Telescoped(0.5, steps="most")}, "steps"),
        ({"schedule": Snowball("many")}, "steps"),
        ({"schedule": Walk([1], [0.1], 1.0)}, "batches"),
        ({"schedule": Walk(Constant(1, 2), Constant(0.1, 2), 1.0), "step": 0.1}, "own steps"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, word):
    with pytest.raises(InputError, match=word):
        NoisySGD(**options)


@pytest.mark.parametrize(
    ("options", "problem", "error", "word"),
    [
        ({"step": 8.5}, BALL, HypothesisError, "2/beta"),
        ({"schedule": Walk(Constant(5, 2), Constant(9.0, 2), 1.0)}, BALL, HypothesisError, "2/beta"),
        ({"schedule": Walk(Constant(51, 2), Constant(0.1, 2), 1.0)}, BALL, InputError, "102 records"),
        ({"schedule": Walk(Constant(5, 2), Constant(0.1, 3), 1.0)}, BALL, HypothesisError, "whole number of times"),
        ({"schedule": Walk(Constant(2.5, 2), Constant(0.1, 2), 1.0)}, BALL, HypothesisError, "whole"),
        ({"schedule": Walk(Constant(5, 2), Constant(0.1, 2), 1.5)}, BALL, HypothesisError, "noise"),
        ({"schedule": Walk(Constant(5, 2), Constant(0.1, 2), Listed((1.0,)))}, BALL, HypothesisError, "every step"),
        ({"schedule": Walk(Constant(5, 2), Constant(0.1, 2), Listed((1.0, 0.0)))}, BALL, HypothesisError, "noise"),
        ({"schedule": Cyclic(2, batches=101)}, BALL, InputError, "101 batches"),
        ({"schedule": Telescoped(steps=101)}, BALL, InputError, "101 batches"),
        ({"schedule": Snowball(), "constants": "paper"}, BALL, HypothesisError, "last batch"),
        (
            {"schedule": Snowball(), "constants": "paper"},
            dc.Problem(dc.losses.Logistic()),
            HypothesisError,
            "bounded domain",
        ),
        ({}, dc.Problem(dc.losses.Squared()), HypothesisError, "bounded domain"),
    ],
    ids=str,
)
def test_what_breaks_a_rule_is_refused_at_plan_time(options, problem, error, word):
    with pytest.raises(error, match=word):
        NoisySGD(**options).plan(problem, n=100, d=200, budget=dc.Budget(0.01, 1e-6))


def test_the_theorems_reject_each_broken_hypothesis():
    lipschitz, beta, m = BALL.lipschitz(2), BALL.smoothness(10, 2), BALL.strong_convexity(10)
    walk, end = Release("walk", "gaussian", 1.0, (3, 2)), Release("end", "gaussian", 1.0, (2,))
    good = {
        "relation": "replace_one",
        "records": range(10),
        "batches": Constant(5, 2),
        "steps": Constant(0.1, 4),
        "noise": 1.0,
    }
    assert noisy_sgd(lipschitz, beta, m, **good, walk=walk, end=end).profile.mu > 0
    for change, word in (
        ({"records": range(9)}, "records"),
        ({"records": [0, 1]}, "records"),
        ({"relation": "swap"}, "relation"),
        ({"steps": Constant(0.1, 3)}, "whole number"),
        ({"noise": -0.1}, "noise"),
        ({"noise": Growing(1.0, 3)}, "every step"),
    ):
        with pytest.raises((HypothesisError, InputError), match=word):
            noisy_sgd(lipschitz, beta, m, **{**good, **change}, walk=walk, end=end)
        with pytest.raises((HypothesisError, InputError), match=word):
            noisy_steps(lipschitz, **{**good, **change}, release=Release("x", "gaussian", 1.0, (2,), times=4))
    for rows, last, word in (
        (None, end, "every step"),
        (Release("walk", "gaussian", 1.0, (2, 2)), end, "every step"),
        (Release("walk", "gaussian", 1.0, (3, 1)), end, "shape"),
        (Release("walk", "laplace", 1.0, (3, 2)), end, "Gaussian"),
        (walk, Release("end", "gaussian", 0.0, (2,)), "noise"),
        (walk, Release("end", "gaussian", 1.0, (2,), times=2), "once"),
    ):
        with pytest.raises(HypothesisError, match=word):
            noisy_sgd(lipschitz, beta, m, **good, walk=rows, end=last)
    with pytest.raises(HypothesisError, match="must be a Fact"):
        noisy_sgd(1.0, beta, m, **good, walk=walk, end=end)
    for release, word in (
        (Release("x", "gaussian", 1.0, (2,), times=3), "once per step"),
        (Release("x", "gaussian", 0.0, (2,), times=4), "noise"),
    ):
        with pytest.raises(HypothesisError, match=word):
            noisy_steps(lipschitz, **good, release=release)
