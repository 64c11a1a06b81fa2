"""Steps, passes and walks as float64 computes them, against exact arithmetic and exact laws."""

import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtr

import dpconvex as dc
from dpconvex import theorems
from dpconvex.algorithms.phased_sgd import Phase, _Descent
from dpconvex.algorithms.walks import Cyclic, Snowball, Telescoped, Walk
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import Bounded, Release, concludes_fact
from dpconvex.loops.rows import CSR, Dense
from dpconvex.loops.stream import Chain
from dpconvex.noise.rounded import MOST, Variates, rounded_gaussian
from dpconvex.noise.source import Stream
from dpconvex.problem.facts import Kind
from dpconvex.theorems.computed_steps import steps_of, travelled, walk_grids
from dpconvex.theorems.computed_sums import slack
from dpconvex.theorems.noisy_contraction import chain_mu
from dpconvex.theorems.noisy_sgd import farthest
from dpconvex.theorems.schedules import Constant, Growing, Listed


@concludes_fact
def assumed(kind: str, value: float, relation: str | None = None) -> Bounded:
    """A fact for tests."""
    return Bounded(Kind[kind], value, "assumed by a test", relation)


# Rounded walks in one dimension --------------------------------------------------------------------------------------


def claimed(s, c, nu, grids, period=None):
    return theorems.noisy_contraction(
        [assumed("SENSITIVITY", float(v), "replace_one") for v in s],
        [assumed("CONTRACTION", c) for _ in s],
        [Release(f"step {t}", "gaussian", v, (1,), grid=g) for t, (v, g) in enumerate(zip(nu, grids, strict=True))],
        period or len(s),
        drifts=[assumed("SENSITIVITY", 0.0, "replace_one") for _ in s],
    ).profile


@lru_cache(8)
def transition(c, move, scale, g, cells):
    """Law of the next point on the grid, a column for each point."""
    places = g * np.arange(-cells, cells + 1)
    ends = np.append(places - g / 2, places[-1] + g / 2)[:, None]
    return np.diff(ndtr((ends - c * places - move) / scale), axis=0)


def law_of_last(moves, c, nu, g, cells):
    """Exact law of the last of the points y = round(c x + move + nu Z), multiples of g, from 0."""
    at = np.zeros(2 * cells + 1)
    at[cells] = 1.0
    places = g * np.arange(-cells, cells + 1)
    for move, scale in zip(moves, nu, strict=True):
        if c == 1.0:  # the step does not depend on where it starts
            near = np.arange(-math.ceil(8.0 * scale / g) - 2, math.ceil(8.0 * scale / g) + 3) + round(move / g)
            ends = (g * (np.append(near, near[-1] + 1) - 0.5) - move) / scale
            kernel = np.diff(ndtr(ends))
            at = np.convolve(at, kernel)[-near[0] : -near[0] + len(places)]
        else:
            at = transition(c, float(move), float(scale), g, cells) @ at
    return at


def excess(P, Q, eps):
    return float(np.maximum(P - math.exp(eps) * Q, 0.0).sum())


def walks(steps):
    """Where the record is used, how far it moves a step, and how each step is offset against the grid."""
    for uses in ([0], [steps // 2], range(0, steps, 7)):
        for offset in (0.0, 0.5, 0.23):
            yield uses, offset


def check_walks(steps, share, c):
    nu = np.ones(steps)
    tightest = 0.0
    for uses, offset in walks(steps):
        s = np.zeros(steps)
        s[list(uses)] = share
        for g in (2.0**-3, 2.0**-6) if c == 1.0 and steps < 100 else (2.0**-3,):
            claim = claimed(s, c, nu, [g] * steps, 1)
            cells = math.ceil((9.0 * math.sqrt(steps if c == 1.0 else 1.0 / (1.0 - c * c)) + s.sum()) / g) + 9
            P, Q = (law_of_last(offset * g + sign * s / 2.0, c, nu, g, cells) for sign in (1.0, -1.0))
            assert P.sum() > 1.0 - 1e-9
            for eps in (0.0, 0.3, 1.0):
                exact = max(excess(P, Q, eps), excess(Q, P, eps))
                assert exact <= claim.delta(eps) + 1e-12
                tightest = max(tightest, exact / claim.delta(eps))
    return tightest


@pytest.mark.parametrize("c", [1.0, 0.9])
def test_rounded_walks_stay_below_the_claim(c):
    assert check_walks(40, 1.0, c) > 0.5


@pytest.mark.heavy
@pytest.mark.parametrize("steps", [300, 1000])
@pytest.mark.parametrize("share", [0.3, 3.0])
def test_long_rounded_walks_stay_below_the_claim(steps, share):
    check_walks(steps, share, 1.0)


def test_the_grid_at_the_step_of_the_record_alone_is_a_false_claim():
    """A grid ten times as wide as the noise holds what the record did, while that claim falls with every step."""
    g, steps, share = 10.0, 1000, 8.0
    s, nu = np.eye(1, steps)[0] * share, np.ones(steps)
    ends = g * np.append(np.arange(-30, 31) - 0.5, np.inf)
    ends[0] = -np.inf
    stay = np.linalg.matrix_power(np.diff(ndtr(ends[:, None] - g * np.arange(-30, 31)), axis=0), steps - 1)
    P, Q = (stay @ np.diff(ndtr(ends - at)) for at in (g / 2 - share / 2, g / 2 + share / 2))
    wrong = chain_mu(s + g * np.eye(1, steps)[0], np.ones(steps), nu, 1)
    assert excess(P, Q, 0.0) > 0.99 > 4.0 * (2.0 * ndtr(wrong / 2.0) - 1.0)
    mu = chain_mu(s, np.ones(steps), nu, 1) + chain_mu(np.append(0.0, np.full(steps - 1, g)), np.ones(steps), nu, 1)
    assert excess(P, Q, 0.0) <= 2.0 * ndtr(mu / 2.0) - 1.0


def test_drifts_and_grids_add_up():
    s, c, nu, g = np.array([1.0, 0.5, 0.2]), 0.9, np.array([1.0, 0.7, 0.8]), [0.25, 0.125, 0.125]
    total = chain_mu(s, np.full(3, c), nu, 3) + chain_mu(np.array([0.0, c * g[0], c * g[1]]), np.full(3, c), nu, 1)
    assert claimed(s, c, nu, g).mu == pytest.approx(total, rel=1e-11)
    assert claimed(s, c, nu, g).mu >= total


# Passes and steps against exact arithmetic ---------------------------------------------------------------------------

LOGISTIC, HUBER, SOFTMAX = dc.losses.Logistic(), dc.losses.Huber(0.5), dc.losses.Softmax(3, shift=1.0)
DOMAINS = [dc.domains.L2Ball(0.4), dc.domains.Box(-0.1, 0.2), dc.domains.Everywhere()]


def exact_slope(loss, z, y):
    if loss == LOGISTIC:
        return -y / (1 + mpmath.exp(y * z))
    return max(min(z - y, mpmath.mpf(loss.threshold)), -mpmath.mpf(loss.threshold))


def exact_rows(X, radius, constant):
    rows = []
    for x in np.asarray(X, dtype=float):
        row = [mpmath.mpf(float(v)) for v in x]
        norm = mpmath.sqrt(sum(v * v for v in row))
        row = [v * radius / norm for v in row] if norm > radius else row
        rows.append(row + ([mpmath.mpf(constant)] if constant else []))
    return rows


def exact_projection(domain, w):
    if isinstance(domain, dc.domains.L2Ball):
        norm = mpmath.sqrt(sum(v * v for v in w))
        return [v * domain.radius / norm for v in w] if norm > domain.radius else w
    return w if isinstance(domain, dc.domains.Everywhere) else [max(min(v, domain.hi), domain.lo) for v in w]


def exact_slopes(loss, z, y):
    """Slopes in one prediction, or in those of all classes."""
    if loss != SOFTMAX:
        return [exact_slope(loss, z[0], y)]
    parts = [mpmath.exp(v - (loss.shift if k == y else 0.0)) for k, v in enumerate(z)]
    return [part / sum(parts) - (1 if k == y else 0) for k, part in enumerate(parts)]


def labels_for(loss, n, rng):
    return rng.integers(0, 3, n).astype(float) if loss == SOFTMAX else rng.choice([-1.0, 1.0], n)


def exact_step(rows, y, loss, w, eta, l2):
    k = len(rows[0])
    blocks = [w[a : a + k] for a in range(0, len(w), k)]
    slopes = [
        exact_slopes(loss, [sum(a * b for a, b in zip(x, block, strict=True)) for block in blocks], label)
        for x, label in zip(rows, y, strict=True)
    ]
    g = [
        sum(s[c] * x[j] for s, x in zip(slopes, rows, strict=True)) / len(rows)
        for c in range(len(blocks)) for j in range(k)
    ]  # fmt: skip
    return [(1 - mpmath.mpf(eta) * l2) * a - mpmath.mpf(eta) * b for a, b in zip(w, g, strict=True)]


def distance(found, expected):
    return float(mpmath.sqrt(sum((mpmath.mpf(float(a)) - b) ** 2 for a, b in zip(found, expected, strict=True))))


def container(X, constant, thin):
    if not thin:
        return Dense(X, 1.0, constant)
    made = sparse.csr_array(X)
    return CSR(made.data, made.indices, made.indptr, X.shape[1], 1.0, constant)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize(
    ("batch", "loss", "thin", "l2"),
    [(1, LOGISTIC, False, 0.5), (3, HUBER, True, 0.0), (1, SOFTMAX, False, 0.5), (3, SOFTMAX, True, 0.0)],
)
def test_a_pass_is_within_its_error(domain, batch, loss, thin, l2, rng):
    n, d, constant = 90, 4, 0.7
    problem = dc.Problem(loss, domain, l2=l2 * n, intercept=constant)
    X, y = rng.normal(size=(n, d)).astype(np.float32), labels_for(loss, n, rng)
    shape = problem.weight_shape(d)
    size = math.prod(shape)
    steps = Growing(0.9, n // batch, cap=2.0 / problem.smoothness(n, d).value)
    phase = Phase("phase 1", range(n), steps, "steps", batch)
    start = 0.1 * rng.normal(size=size)
    reach = domain.reach(size) if domain.traits.bounded else 1.0
    descent = _Descent(domain.project(start).reshape(shape), phase, problem, n, None)
    descent.advance(container(X, constant, thin), y, 0, n, at=0)
    with mpmath.workdps(40):
        rows, eta = exact_rows(X, 1.0, constant), steps.values()
        w = exact_projection(domain, [mpmath.mpf(float(v)) for v in start])
        average = [mpmath.mpf(0)] * size
        weights = phase.arrays[1] - np.append(phase.arrays[1][1:], 0.0)
        for t, (a, b) in enumerate(zip(phase.cuts[:-1], phase.cuts[1:], strict=True)):
            w = exact_projection(domain, exact_step(rows[a:b], y[a:b], loss, w, eta[t], l2))
            average = [u + mpmath.mpf(float(weights[t])) * v for u, v in zip(average, w, strict=True)]
        error = distance(descent.average.reshape(-1), average)
    facts = problem.lipschitz(d), problem.row_bound(d), problem.smoothness(n, d), problem.strong_convexity(n)
    bounded = domain.traits.bounded
    drift = theorems.pass_drift(*facts, "zero_out", steps, batch, size, reach, bounded, problem.loss_at_origin())
    assert 0.0 < error <= drift.value / 2.0
    assert drift.value < 1e-8


@pytest.mark.parametrize("domain", DOMAINS[:2], ids=str)
@pytest.mark.parametrize(
    ("loss", "thin", "l2"), [(LOGISTIC, True, 0.3), (LOGISTIC, False, 0.0), (HUBER, False, 0.3), (SOFTMAX, False, 0.3)]
)
def test_a_step_of_a_walk_is_within_its_error(domain, loss, thin, l2, rng):
    n, d, eta = 300, 3, 1.5
    problem = dc.Problem(loss, domain, l2=l2 * n)
    X, y = rng.normal(size=(n, d)), labels_for(loss, n, rng)
    size = math.prod(problem.weight_shape(d))
    facts = problem.lipschitz(d), problem.row_bound(d), problem.smoothness(n, d), problem.strong_convexity(n)
    how = steps_of(*facts, size, domain.reach(size))
    allowed = how.over_batches(np.array([eta]), np.array([float(n)]), how.close_projection())[0]
    for length in (0.01, 0.4, 1.0, 1e6):
        chain = Chain(size, np.array([0, n]), np.array([eta]), np.ones(1), 1.0, l2)
        point = length * rng.normal(size=size)
        chain.place(point)
        found = chain.step(container(X, 0.0, thin), y, loss, domain)
        with mpmath.workdps(40):
            w = exact_projection(domain, [mpmath.mpf(float(v)) for v in point])
            error = distance(found, exact_step(exact_rows(X, 1.0, 0.0), y, loss, w, eta, l2))
        assert 0.0 < error <= allowed < 1e-12


def test_points_of_a_pass_go_no_further_than_stated(rng):
    problem, n, d = dc.Problem(LOGISTIC), 2000, 2
    steps = Constant(8.0, n)
    X = np.tile(np.eye(2), (n // 2, 1))
    far = travelled(problem.lipschitz(d), problem.strong_convexity(n), steps.values(), 0.5, problem.loss_at_origin())
    without = travelled(problem.lipschitz(d), problem.strong_convexity(n), steps.values(), 0.5)
    assert without == pytest.approx(0.5 + 8.0 * n)
    assert far < without / 20.0
    for y in (np.ones(n), rng.choice([-1.0, 1.0], n)):
        w = np.array([0.5, 0.0])
        for x, label in zip(X, y, strict=True):
            w = w - 8.0 * LOGISTIC.slope(float(x @ w), label) * x
            assert np.linalg.norm(w) <= far


# The walk ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "places"), [(0.01, 20), (0.01, 38), (1e-12, 20)])
def test_every_point_of_a_walk_is_drawn_as_the_port_draws(scale, places, rng):
    """Bit for bit what separate steps and separate releases give, also where integers decide; and on its grid.

    The last grid is as fine as 2^-52 of the points allows, and much coarser than asked for.
    """
    n, d, steps = 60, 5, 120
    X, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    data = Dense(X, 1.0, 0.0), y, LOGISTIC, dc.domains.L2Ball(2.0)
    eta, cuts = np.full(steps, 0.5), np.arange(0, n + 1, 10)
    shape = np.where(np.arange(steps) % 7 == 3, 0.0, rng.random(steps))
    shape[0] = 1.0
    far = 3.99
    grid = math.ldexp(1.0, math.frexp(scale)[1] - places)
    grids = walk_grids(shape, grid, far)
    assert (grids.max() == 2.0**-50) == (scale < 1e-6)
    whole, single = (Chain(d, cuts, eta, shape, far) for _ in range(2))
    noise = Variates.drawn(Stream(bytes(32)), (steps - 1, d), scale, grid)
    whole.advance(*data, noise)
    stream = Stream(bytes(32))
    for t in range(steps - 1):
        value = single.step(*data)
        if shape[t]:
            value = rounded_gaussian(stream, value, scale * shape[t], float(grids[t]))
            assert (value / grids[t] == np.rint(value / grids[t])).all()
        else:
            stream.words(d)
        single.place(value)
    assert np.array_equal(whole.point, single.point)
    assert np.array_equal(whole.step(*data), single.step(*data))


def test_grids_are_no_finer_than_float64_can_tell_points_apart():
    shape = np.array([1.0, 1e-3, 1e-9, 0.0])
    grids = walk_grids(shape, 2.0**-30, 5.0)
    assert (np.log2(grids[:3]) == [-30, -40, -50]).all()
    assert grids[3] == 0.0
    for far in (4.0, 5.0, 7.9, 7.99):  # the last ones are so near a power of two that no room would be left
        assert 2.0**51 <= far / walk_grids(shape, 2.0**-30, far)[2] <= MOST


@pytest.mark.parametrize("length", [1.0 - 1e-12, 1.0 + 1e-15, 1.0 + 1e-12, 3.0])
def test_the_error_of_a_projection_does_not_grow_with_the_number_of_weights(length, rng):
    size, ball = 20_000, dc.domains.L2Ball(1.0)
    x = rng.normal(size=size)
    x *= length / math.sqrt(math.fsum(x * x))
    chain = Chain(size, np.array([0, 1]), np.array([1e-300]), np.ones(1), 2.0)  # steps that show their projection
    chain.place(x)
    found = chain.step(Dense(np.zeros((1, size)), 1.0, 0.0), np.ones(1), LOGISTIC, ball)
    allowed = steps_of(*FACTS, size, 1.0).close_projection()
    with mpmath.workdps(40):
        assert distance(found, exact_projection(ball, [mpmath.mpf(float(v)) for v in x])) <= allowed < 7e-16


WIDE, BALL = dc.domains.Everywhere(), dc.domains.L2Ball(8.0)


@pytest.mark.parametrize(
    ("loss", "domain", "epsilon", "first"),
    [(LOGISTIC, BALL, 1.0, 0.074), (LOGISTIC, WIDE, 1.0, 0.074), (dc.losses.Huber(), WIDE, 0.1, 0.011)],
)
def test_rounding_in_walks_of_a_hundred_thousand_steps_adds_at_most_a_hundred_thousandth(loss, domain, epsilon, first):
    steps, n = 100_000, 1_000_000
    fall = Listed.of((first * (1.0 - np.arange(0, steps, 100) / steps)).tolist())
    falling = Listed(fall.entries, (100,) * len(fall.entries))
    walk = Walk(Constant(n // steps, steps), falling, 0.0)
    plan = dc.algorithms.NoisySGD(schedule=walk).plan(
        dc.Problem(loss, domain), n=n, d=100, budget=dc.Budget(epsilon, 1e-8)
    )
    assert 0.0 < slack(plan.claim) <= 1e-5


@pytest.mark.heavy
@pytest.mark.parametrize("domain", [WIDE, BALL], ids=str)
@pytest.mark.parametrize(
    "schedule",
    [Telescoped(steps=100_000), Telescoped(0.5, steps=100_000), Cyclic(1, batches=100_000), Snowball(100_000)],
    ids=str,
)
def test_rounding_in_planned_walks_of_a_hundred_thousand_steps(schedule, domain):
    losses = dc.losses.Logistic(), dc.losses.Logistic(0.5, 2.0), dc.losses.SmoothedHinge(0.5), dc.losses.Huber(0.5)
    for loss in (*losses, dc.losses.Huber(), dc.losses.LogCosh()):
        for epsilon in (0.1, 1.0, 8.0):
            plan = dc.algorithms.NoisySGD(schedule=schedule).plan(
                dc.Problem(loss, domain), n=1_000_000, d=100, budget=dc.Budget(epsilon, 1e-8)
            )
            assert 0.0 < slack(plan.claim) <= (1e-5 if epsilon >= 1.0 else 2e-5)


def test_a_released_step_that_is_thrown_across_the_origin_is_within_its_error(rng):
    """Where every point is released no step is too long, and a long one rounds in proportion to where it leads."""
    n, d, eta, l2 = 40, 3, 1e6, 30.0
    problem = dc.Problem(LOGISTIC, BALL, l2=l2 * n)
    X, y, ends = np.zeros((n, d)), np.ones(n), np.array([0, n])
    facts = problem.lipschitz(d), problem.row_bound(d), None, problem.strong_convexity(n)
    allowed = steps_of(*facts, d, 8.0).visible(np.array([eta]), np.array([float(n)]))[0]
    worst = 0.0
    for _ in range(50):
        point = BALL.project(9.0 * rng.normal(size=d)) * (1.0 - 1e-15)
        chain = Chain(d, ends, np.array([eta]), np.ones(1), 1e7, l2)
        chain.place(point)
        found = chain.step(Dense(X, 1.0, 0.0), y, LOGISTIC, BALL)
        with mpmath.workdps(40):
            worst = max(
                worst, distance(found, [(1 - mpmath.mpf(eta) * mpmath.mpf(l2)) * mpmath.mpf(v) for v in point.tolist()])
            )
    assert 16.0 * 2.0**-53 * (8.0 + eta) < worst <= allowed


# Hypotheses ----------------------------------------------------------------------------------------------------------

PROBLEM = dc.Problem(LOGISTIC, dc.domains.L2Ball(1.0))
FACTS = PROBLEM.lipschitz(2), PROBLEM.row_bound(2), PROBLEM.smoothness(10, 2), PROBLEM.strong_convexity(10)
STEPS = Constant(0.5, 10)


def drift(steps=STEPS, batch=1, numbers=2, reach=1.0, inside=True, relation="replace_one"):
    return theorems.pass_drift(*FACTS, relation, steps, batch, numbers, reach, inside)


def moved(steps=STEPS, relation="replace_one"):
    return theorems.stable_sgd(FACTS[0], *FACTS[2:], relation, steps, "uniform")


def on_grid(shape=(2,)):
    return Release("phase 1", "gaussian", 1.0, shape, grid=2.0**-20)


def test_what_lies_on_a_grid_needs_drifts():
    factor = theorems.phase_contraction(*FACTS[2:], STEPS, "uniform")
    with pytest.raises(HypothesisError, match="values on a grid"):
        theorems.noisy_contraction([moved()], [factor], [on_grid()], 1)
    assert theorems.noisy_contraction([moved()], [factor], [on_grid()], 1, drifts=[drift()]).profile.mu > 0.0
    for wrong, match in (
        ([drift(numbers=3)], "another number of weights"),
        ([drift(Constant(0.25, 10))], "differ in 'steps'"),
        ([drift(relation="zero_out")], "about the relation"),
        ([], "every step"),
    ):
        with pytest.raises(HypothesisError, match=match):
            theorems.noisy_contraction([moved()], [factor], [on_grid()], 1, drifts=wrong)


def test_a_computed_pass_is_that_of_its_drift():
    seen = theorems.computed_pass(moved(), drift())
    assert seen.value >= moved().value + drift().value
    assert theorems.gaussian(seen, on_grid()).profile.mu == pytest.approx(seen.value)
    with pytest.raises(HypothesisError, match="computed_sum"):
        theorems.gaussian(moved(), on_grid())
    with pytest.raises(HypothesisError, match="computed_sum"):
        theorems.gaussian(seen, on_grid((3,)))
    for a, b in ((moved(Constant(0.1, 10)), drift()), (moved(), drift(relation="zero_out")), (drift(), moved())):
        with pytest.raises(HypothesisError):
            theorems.computed_pass(a, b)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batch": 0}, "batch"),
        ({"numbers": 0}, "numbers"),
        ({"reach": -1.0}, "reach"),
        ({"reach": 1e150}, "overflow"),
        ({"reach": 1e-150}, "underflow"),
        ({"inside": 1}, "inside"),
        ({"relation": "add_remove"}, "add_remove"),
        ({"inside": False, "numbers": 10**12, "steps": Constant(0.5, 500)}, "hundredth"),
    ],
)
def test_hypotheses_about_passes(change, match):
    with pytest.raises((HypothesisError, dc.errors.InputError), match=match):
        drift(**change)


def test_the_drift_of_a_pass_is_never_above_the_diameter():
    assert drift(steps=Constant(0.5, 10), numbers=2**40, reach=1.0).value <= 2.0


def test_walks_on_a_grid_need_row_and_reach():
    plan = dc.algorithms.NoisySGD(schedule=dc.algorithms.noisy_sgd.Telescoped(steps=5)).plan(
        PROBLEM, n=10, d=2, budget=dc.Budget(1.0, 1e-3)
    )
    walk, (noise, end) = plan.schedule[0], plan.releases
    common = FACTS[0], *FACTS[2:], "replace_one", walk.records, walk.batches, walk.steps, walk.noise
    again = theorems.noisy_sgd(*common, noise, end, FACTS[1], 1.0)
    assert again.profile == plan.claim.profile
    ideal = Release("end", "gaussian", end.scale, (2,))
    for releases, stated, match in (
        ((noise, end), (None, 1.0), "row"),
        ((noise, end), (FACTS[1], None), "reach"),
        ((noise, ideal), (FACTS[1], 1.0), "grid"),
        ((Release("walk", "gaussian", noise.scale, noise.shape), end), (FACTS[1], 1.0), "grid"),
        ((noise, end), (FACTS[1], 2.0**50), "too small"),
    ):
        with pytest.raises(HypothesisError, match=match):
            theorems.noisy_sgd(*common, *releases, *stated)
    assert farthest(FACTS[0], walk.steps.values(), 1.0) > 1.0
