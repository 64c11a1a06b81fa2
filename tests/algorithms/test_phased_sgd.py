"""What is particular to PhasedSGD: phases, steps, printed constants, brute-force sensitivities."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex import theorems
from dpconvex.audit.whitebox import stated_sensitivities
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Release
from dpconvex.kernel.profiles import gaussian_delta
from dpconvex.sums.matrix import predictions
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Slopes
from dpconvex.testing.noiseless import run_without_noise
from dpconvex.theorems.numerics.mixtures import Mixture
from dpconvex.theorems.schedules import Constant

CASES = [
    dc.algorithms.PhasedSGD(),
    dc.algorithms.PhasedSGD(growing=False),
    dc.algorithms.PhasedSGD(phases=1),
    dc.algorithms.PhasedSGD(phases=4, ratio=1.0),
    dc.algorithms.PhasedSGD(release="every iterate"),
    dc.algorithms.PhasedSGD(constants="paper"),
    dc.algorithms.PhasedSGD(batch=3),
    dc.algorithms.PhasedSGD(batch=4, growing=False, release="every iterate"),
]
PROBLEMS = [
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)),
    dc.Problem(dc.losses.Logistic(cap=0.5), domain=dc.domains.Box(-1.0, 2.0), intercept=1.0),
    dc.Problem(dc.losses.SmoothedHinge(0.5), domain=dc.domains.L2Ball(4.0), l2=3.0),
    dc.Problem(dc.losses.Squared(), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Linf(0.5)),
    dc.Problem(dc.losses.Huber(0.5), domain=dc.domains.L2Ball(2.0), feature_bound=dc.bounds.Lp(3, 1.0), intercept=0.5),
    dc.Problem(dc.losses.Logistic(), domain=dc.domains.LpBall(3.0, 0.5)),
]


def data_for(problem, n, d, rng):
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n)


@pytest.mark.parametrize("algorithm", CASES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_neighbours_move_every_release_by_no_more_than_stated(algorithm, problem, relation, rng):
    """Brute force: with the noise off, replace (also by extreme records) or mask each record in turn."""
    n, d = 14, 2
    plan = algorithm.plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    stated = stated_sensitivities(plan.claim)
    X, y = data_for(problem, n, d, rng)
    still, _ = run_without_noise(plan, X, y)
    for record in range(n):
        phase = next(p for p in plan.schedule if record in p.records)
        for size in (1.0, 100.0):
            if relation == "zero_out":
                moved = masked(plan, *opened(problem, X, y), record)[phase.name]
            else:
                changed, labels = X.copy(), y.copy()
                changed[record] = rng.normal(size=d) * size
                labels[record] = -y[record]
                moved = run_without_noise(plan, changed, labels)[0].released(phase.name)
            # The first release that sees the record moves by its sensitivity; later ones start from a moved point.
            assert np.linalg.norm(moved - still.released(phase.name)) <= stated[phase.name] * (1 + 1e-9)


def masked(plan, rows, y, record):
    """The phases in plain Python, with the gradient of one record masked; record None masks nothing."""
    problem, released = plan.problem, {}
    free = isinstance(problem.domain, dc.domains.LpBall)
    walked = dc.domains.Everywhere() if free else problem.domain
    w = np.zeros(problem.weight_shape(plan.d))
    full = np.stack([predictions(rows, e, plan.n) for e in np.eye(len(w))], axis=1)
    for phase in plan.schedule:
        steps, tails = phase.arrays
        average = np.zeros_like(w)
        for t, (start, stop) in enumerate(pairwise(phase.cuts)):
            slopes = [0.0 if i == record else problem.loss.slope(float(full[i] @ w), y[i]) for i in range(start, stop)]
            gradient = np.array(slopes) @ full[start:stop] / (stop - start)
            w = walked.project(w - steps[t] * (gradient + problem.l2 / plan.n * w))
            average += (tails[t] - (tails[t + 1] if t + 1 < len(tails) else 0.0)) * w
        released[phase.name] = average
        w = walked.project(average)
    return released


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_the_loops_do_what_the_schedule_says(problem, rng):
    for algorithm in (CASES[0], *CASES[-2:]):
        plan = algorithm.plan(problem, n=40, d=2, budget=dc.Budget(1.0, 1e-6))
        X, y = data_for(problem, 40, 2, rng)
        rows, y = opened(problem, X, y)
        for kind in (X, sparse.csr_array(X)):
            still, _ = run_without_noise(plan, kind, y)
            for name, value in masked(plan, rows, y, None).items():
                assert np.allclose(still.released(name), value, atol=1e-12)


def opened(problem, X, y):
    return open_rows(X, y, problem, len(X), X.shape[1])


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.loss}-{p.domain}")
def test_without_noise_it_reaches_the_reference_optimum(problem):
    rng = np.random.default_rng(7)
    n, d = 40_000, 2
    X, y = data_for(problem, n, d, rng)
    rows, y = opened(problem, X, y)
    w = np.zeros(problem.weight_shape(d))
    for _ in range(400):  # projected gradient descent on the empirical risk
        gradient = open_sums(rows, y).sweep(Slopes(problem.loss, w)) + problem.l2 * w
        w = problem.domain.project(w - gradient / (n * problem.smoothness(n, d).value))

    def risk(w):
        z = predictions(rows, w, n)[:4000]
        values = [problem.loss.value(a, b) for a, b in zip(z, y[:4000], strict=True)]
        return np.mean(values) + problem.l2 / (2 * n) * w @ w

    plan = dc.algorithms.PhasedSGD(distance=2.0).plan(problem, n=n, d=d, budget=dc.Budget(8.0, 1e-6))
    _, found = run_without_noise(plan, X, y)
    assert risk(found) - risk(w) < 4e-3


def test_dimension_one_and_two_records(rng):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(1.0))
    for algorithm in CASES[:-2]:
        plan = algorithm.plan(problem, n=2, d=1, budget=dc.Budget(1.0, 0.1))
        assert plan.run([[0.5], [2.0]], [1, -1]).weights.shape == (1,)


def test_paper_constants_state_what_they_waste(ball_problem):
    budget = dc.Budget(1.0, 1e-6)
    printed = dc.algorithms.PhasedSGD(constants="paper").plan(ball_problem, n=1000, d=5, budget=budget)
    rho = 1.0 / (2 * math.sqrt(math.log(1e6)))
    assert printed.claim.profile.mu == pytest.approx(rho / 2, rel=3e-5)
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
        {"step": True},
        {"distance": -1.0},
        {"distance": True},
        {"release": "average"},
        {"batch": 0},
        {"batch": 1.5},
        {"batch": True},
        {"shuffle": "often"},
        {"layout": "stairs"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        dc.algorithms.PhasedSGD(**options)


def test_a_step_above_two_over_beta_is_refused(ball_problem):
    with pytest.raises(HypothesisError, match="2/beta"):
        dc.algorithms.PhasedSGD(step=8.5).plan(ball_problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))


# Batches, order, strong convexity ------------------------------------------------------------------------------------


def test_batches_change_neither_noise_nor_progress(ball_problem):
    budget = dc.Budget(1.0, 1e-9)
    one, many = (dc.algorithms.PhasedSGD(batch=b).plan(ball_problem, n=20_000, d=5, budget=budget) for b in (1, 8))
    for a, b in zip(one.releases, many.releases, strict=True):
        assert b.scale == pytest.approx(a.scale, rel=1e-3)
    for a, b in zip(one.schedule, many.schedule, strict=True):
        assert b.steps.values().sum() == pytest.approx(a.steps.values().sum(), rel=0.03)
    with pytest.raises(InputError, match="batch"):
        dc.algorithms.PhasedSGD(batch=21).plan(ball_problem, n=20, d=2, budget=budget)


@pytest.mark.parametrize("n", [2, 5, 17, 100, 1000])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_every_batch_holds_what_the_theorem_was_told(n, batch, ball_problem):
    plan = dc.algorithms.PhasedSGD(batch=min(batch, n), phases=3).plan(
        ball_problem, n=n, d=2, budget=dc.Budget(1.0, 1e-7)
    )
    for phase in plan.schedule:
        assert phase.cuts[0] == phase.records.start
        assert phase.cuts[-1] == phase.records.stop
        assert np.diff(phase.cuts).min() >= phase.batch
        assert len(phase.cuts) == phase.steps.length + 1


@pytest.mark.parametrize("layout", ["localisation", "reduction"])
@pytest.mark.parametrize("n", [2, 3, 40, 20_000])
def test_strongly_convex_layouts_use_every_record_once(layout, n):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), l2=0.01 * n)
    algorithm = dc.algorithms.PhasedSGD(layout=layout)
    plan = algorithm.plan(problem, n=n, d=2, budget=dc.Budget(1.0, 1e-9))
    assert [i for p in plan.schedule for i in p.records] == list(range(n))
    assert plan.claim.profile.mu == pytest.approx(plan.budget.mu, rel=1e-8)
    with pytest.raises(HypothesisError, match="l2"):
        algorithm.plan(dc.Problem(dc.losses.Logistic()), n=n, d=2, budget=dc.Budget(1.0, 1e-9))


def test_localisation_has_the_steps_of_theorem_5_3():
    n, l2 = 2**16, 5000.0
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0), l2=l2)
    plan = dc.algorithms.PhasedSGD(layout="localisation", batch=1).plan(problem, n=n, d=2, budget=dc.Budget(1.0, 1e-9))
    eta = 8.0 * 4 * math.log(n) / l2
    assert [p.steps.value for p in plan.schedule] == pytest.approx(
        [eta / 4, eta / 16, eta / 256, eta / 65536], rel=1e-9
    )
    assert [len(p.records) for p in plan.schedule] == [n // 4] * 4


def test_a_strongly_convex_pass_needs_no_more_noise_than_its_minimiser():
    """Uniform average of constant steps: Delta (1 - c^N)/(N m), the sensitivity of the exact minimiser and less."""
    n = 1000
    problem = dc.Problem(dc.losses.Linear(1.0), l2=10.0)
    stated = theorems.stable_sgd(
        problem.lipschitz(1),
        problem.smoothness(n, 1),
        problem.strong_convexity(n),
        "replace_one",
        Constant(1.0, n),
        "uniform",
    )
    c = 1 - 1.0 * 0.01
    assert stated.value == pytest.approx(2.0 * (1 - c**n) / (n * 0.01), rel=1e-9)


def test_a_batch_divides_the_sensitivity_and_linear_losses_attain_it():
    problem = dc.Problem(dc.losses.Linear(1.0))
    plan = dc.algorithms.PhasedSGD(phases=1, batch=4, growing=False, step=0.2).plan(
        problem, n=12, d=1, budget=dc.Budget(1.0, 1e-6)
    )
    (stated,) = stated_sensitivities(plan.claim).values()
    assert stated == pytest.approx(2 * 0.2 / 4, rel=1e-9)
    still, _ = run_without_noise(plan, np.ones((12, 1)), np.ones(12))
    labels = np.ones(12)
    labels[0] = -1.0
    moved, _ = run_without_noise(plan, np.ones((12, 1)), labels)
    assert abs(moved.released("phase 1") - still.released("phase 1"))[0] == pytest.approx(stated, rel=1e-9)


def test_a_shuffle_is_a_permutation_and_costs_nothing(ball_problem, rng):
    n = 60
    budget = dc.Budget(1.0, 1e-6)
    plan = dc.algorithms.PhasedSGD(shuffle=True, release="every iterate").plan(ball_problem, n=n, d=3, budget=budget)
    plain = dc.algorithms.PhasedSGD(release="every iterate").plan(ball_problem, n=n, d=3, budget=budget)
    assert plan.claim.profile == plain.claim.profile
    X, y = data_for(ball_problem, n, 3, rng)
    solution = plan.run(X, y, seed=3)
    order = np.argsort(solution.iterates["order"][0])
    assert sorted(order) == list(range(n))
    assert not np.array_equal(order, np.arange(n))
    noise = {r.name: solution.iterates[r.name][0] for r in plan.releases}
    again = plain.run(X[order], y[order], seed=3)  # the same streams, the rows in that order
    assert np.allclose(again.iterates["phase 1"][0], noise["phase 1"], atol=1e-9)
    assert np.allclose(again.weights, solution.weights, atol=1e-9)
    for container in (sparse.csr_array(X), X.astype(np.float32)):
        assert np.allclose(plan.run(container, y, seed=3).weights, solution.weights, atol=1e-4)
    assert dc.verify(solution.receipt)


@pytest.mark.parametrize("options", [{}, {"growing": False}, {"batch": 3}, {"phases": 1}, {"ratio": 1.0}], ids=str)
def test_a_secret_order_averages_the_curves_of_all_places(options, ball_problem, rng):
    n, budget = 200, dc.Budget(1.0, 1e-6)
    secret = dc.algorithms.PhasedSGD(shuffle="secret", **options).plan(ball_problem, n=n, d=3, budget=budget)
    plain = dc.algorithms.PhasedSGD(**options).plan(ball_problem, n=n, d=3, budget=budget)
    assert isinstance(secret.claim.profile, Mixture)
    assert 0.999 < secret.claim.epsilon(1e-6) <= 1.0
    # By hand: influence of every place over all later noise, and the mean of the Gaussian curves.
    scales = [r.scale for r in secret.releases if r.name != "order"]
    total, weight = 0.0, 0
    delta = 2 * ball_problem.lipschitz(3).value
    for j, phase in enumerate(secret.schedule):
        steps, tails = phase.arrays
        tail = math.sqrt(sum(v**2 for v in scales[j:]))
        for t, size in enumerate(np.diff(phase.cuts)):
            total += size * gaussian_delta(1.0, delta / phase.batch * steps[t] * tails[t] / tail)
            weight += size
    assert weight == n
    assert total / weight <= secret.claim.delta(1.0) <= 1.06 * total / weight
    ratio = secret.releases[-2].scale / plain.releases[-1].scale
    assert ratio < 1.0
    if options.get("growing") is False:
        assert ratio < 0.93
    X, y = data_for(ball_problem, n, 3, rng)
    solution = secret.run(X, y, seed=1)
    assert solution.iterates == {}
    assert dc.verify(solution.receipt)


def test_a_secret_order_must_stay_secret(ball_problem):
    with pytest.raises(HypothesisError, match="order"):
        dc.algorithms.PhasedSGD(shuffle="secret", release="every iterate")
    facts = ball_problem.lipschitz(2), ball_problem.smoothness(10, 2), ball_problem.strong_convexity(10)
    release, order = Release("a", "gaussian", 1.0, (2,)), Release("order", "gaussian", 1.0, (10,))
    good = [[Constant(0.1, 5)], [10], "uniform", 2, [release], order]
    theorems.secret_order(*facts, "replace_one", *good)
    for place, bad, word in (
        (0, [], "every pass"),
        (0, [Constant(9.0, 5)], "2/beta"),
        (1, [9], "order"),
        (3, 3, "sizes"),
        (3, 0, "batch"),
        (4, [Release("a", "laplace", 1.0, (2,))], "Gaussian"),
        (4, [Release("a", "gaussian", 0.0, (2,))], "no noise"),
        (4, [Release("a", "gaussian", 1.0, (2,), times=2)], "once"),
        (5, Release("order", "gaussian", 1.0, (5, 2)), "order"),
    ):
        with pytest.raises(HypothesisError, match=word):
            theorems.secret_order(*facts, "replace_one", *[*good[:place], bad, *good[place + 1 :]])
    claim = theorems.gaussian(theorems.gradient_sum(facts[0], "replace_one"), release)
    with pytest.raises(HypothesisError, match="order"):
        theorems.shuffled(claim, Release("order", "gaussian", 1.0, (5, 2)))


def test_a_mixture_is_an_upper_bound_and_composes(rng):
    mus = rng.random(500)
    mixture = Mixture.of(mus, np.ones(500))
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        exact = np.mean([gaussian_delta(epsilon, mu) for mu in mus])
        assert exact <= mixture.delta(epsilon) <= 1.05 * exact + 1e-12
    assert Mixture.of(np.zeros(3), np.ones(3)).epsilon(1e-6) == 0.0
    assert mixture.epsilon(1e-6) < dc.kernel.profiles.GDP(float(mus.max())).epsilon(1e-6)


# On an l_p ball ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
@pytest.mark.parametrize("options", [{}, {"release": "every iterate"}, {"shuffle": "secret"}, {"phases": 4}], ids=str)
def test_the_walk_on_an_lp_ball_is_that_of_an_unbounded_domain(p, options, rng):
    """Same claim, same noise, same released points: only what leaves the run is projected."""
    n, d, budget = 300, 5, dc.Budget(1.0, 1e-6)
    ball = dc.domains.LpBall(p, 0.1)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    inside = dc.algorithms.PhasedSGD(**options).plan(dc.Problem(dc.losses.Logistic(), ball), n=n, d=d, budget=budget)
    free = dc.algorithms.PhasedSGD(distance=ball.reach(d), **options).plan(
        dc.Problem(dc.losses.Logistic()), n=n, d=d, budget=budget
    )
    assert inside.releases == free.releases
    assert inside.claim.profile == free.claim.profile
    a, b = (plan.run(X, y, seed=4) for plan in (inside, free))
    assert np.array_equal(a.weights, ball.project(b.weights))
    assert not np.allclose(a.weights, b.weights)
    for name in a.iterates:
        assert np.array_equal(a.iterates[name], b.iterates[name])
    assert dc.verify(inside.run(X, y, dataset="lp ball").receipt)
    assert "projected onto the domain; the iterates are not" in str(inside)
    assert str(ball) in str(inside)


def test_noise_on_an_lp_ball_counts_slopes_anywhere():
    """The walk leaves the ball, so that the steepest slope inside of it must not be what the noise is made for."""
    arguments = {"n": 100, "d": 4, "budget": dc.Budget(1.0, 1e-6)}
    algorithm = dc.algorithms.PhasedSGD(step=0.1)
    small, large, unbounded = (
        algorithm.plan(dc.Problem(dc.losses.Logistic(), domain), **arguments).releases[-1].scale
        for domain in (dc.domains.LpBall(4.0, 1e-3), dc.domains.LpBall(4.0, 1e3), dc.domains.Everywhere())
    )
    assert small == large == unbounded
    ball = algorithm.plan(dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1e-3)), **arguments)
    assert ball.releases[-1].scale < 0.6 * small
    with pytest.raises(HypothesisError, match="unbounded slope"):
        algorithm.plan(dc.Problem(dc.losses.Squared(), dc.domains.LpBall(4.0, 1.0)), **arguments)


@pytest.mark.parametrize("n", [2, 3, 100, 1000])
def test_printed_constants_on_an_lp_ball(n):
    """Su, Zhao, Wang 2023, Algorithm 6 and Lemma 14."""
    epsilon, delta, d = 0.5, 1e-6, 7
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.LpBall(3.0, 2.0), feature_bound=0.5)
    plan = dc.algorithms.PhasedSGD(constants="paper").plan(problem, n=n, d=d, budget=dc.Budget(epsilon, delta))
    lipschitz = 0.5
    eta = min(4 / math.sqrt(n), epsilon / (2 * math.sqrt(d * math.log(1 / delta)))) / lipschitz
    assert len(plan.schedule) == max(1, math.floor(math.log2(n)))
    for i, (phase, release) in enumerate(zip(plan.schedule, plan.releases, strict=True), start=1):
        assert phase.steps.values()[0] == pytest.approx(eta / 4**i)
        assert release.scale == pytest.approx(4 * lipschitz * eta / 4**i * math.sqrt(math.log(1 / delta)) / epsilon)
    assert plan.claim.profile.mu == pytest.approx(epsilon / (2 * math.sqrt(math.log(1 / delta))), rel=3e-5)
    assert plan.claim.epsilon(delta) <= epsilon


def test_printed_constants_beyond_their_range_make_no_plan():
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.LpBall(3.0, 2.0))
    with pytest.raises(dc.errors.ReleaseError, match="within its budget"):
        dc.algorithms.PhasedSGD(constants="paper").plan(problem, n=100, d=2, budget=dc.Budget(200.0, 1e-6))


def test_small_exponents_are_refused_by_name():
    for p in (1.0, 1.9):
        with pytest.raises(HypothesisError, match="MirrorDescent"):
            dc.algorithms.PhasedSGD().plan(
                dc.Problem(dc.losses.Logistic(), dc.domains.LpBall(p, 1.0)), n=100, d=2, budget=dc.Budget(1.0, 1e-6)
            )
