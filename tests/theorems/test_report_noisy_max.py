"""Private choices: the stated curve against enumerated laws, what an adaptive adversary attains, and refusals."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import MOVES
from dpconvex.kernel.claims import Release, Scope
from dpconvex.kernel.profiles import GDP, Composite, concentrated_delta
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.theorems import compose, gaussian, group, post_process, report_noisy_max
from dpconvex.theorems.numerics.bounded_range import BoundedRange, largest_width
from dpconvex.theorems.report_noisy_max import GUMBEL, moved_entry

EPSILONS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.5])


def law(scores, scale):
    """The exponential mechanism."""
    weight = np.exp((scores - scores.max()) / scale)
    return weight / weight.sum()


def stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def two_points(t, width):
    """Masses under P and Q of the outcomes with losses t and t - width."""
    p = math.expm1(t - width) / math.expm1(-width)
    return np.array([p, 1 - p]), np.array([p * math.exp(-t), (1 - p) * math.exp(width - t)])


# One choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1e-5, 0.01, 0.3, 2.0, 7.0])
def test_one_choice_is_its_closed_form(width):
    """sup_t p_t (1 - e^(eps - t)) is attained at t = (eps + width)/2."""
    for share in (0.0, 0.1, 0.5, 0.9):
        eps = share * width
        exact = math.expm1((eps - width) / 2) ** 2 / -math.expm1(-width)
        assert exact * (1 - 1e-9) <= BoundedRange(width, 1).delta(eps) <= exact * 1.003 + 1e-24
    assert BoundedRange(width, 1).delta(width * 1.001) <= 1e-20


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_no_scores_break_one_choice(relation, size, rng):
    """Random and extreme sums, changed by up to what a record may change, in entries of either sign."""
    clip, scale = 0.7, 1.9
    claim = report_noisy_max(clip, relation, Release("c", GUMBEL, scale, (2 * size,)), 9)
    moves = 2.0 if relation == "replace_one" else 1.0
    best = np.zeros(len(EPSILONS))
    stated = np.array([claim.delta(e) for e in EPSILONS])
    for trial in range(4000):
        g = rng.normal(size=size) * 10.0 ** rng.uniform(-2, 1.2)
        u = rng.uniform(-1, 1, size) if trial % 2 else rng.choice([-1.0, 1.0], size)
        other = g + moves * clip * u
        p, q = (law(np.concatenate([-v, v]), scale) for v in (g, other))
        best = np.maximum(best, [max(stick(p, q, e), stick(q, p, e)) for e in EPSILONS])
    assert (best <= stated * (1 + 1e-12)).all()
    live = stated > 1e-4
    assert live.sum() >= 4
    if size == 1:
        assert (best[live] > 0.97 * stated[live]).all()  # one coordinate, either way, is the worst pair there is


# Several -----------------------------------------------------------------------------------------------------------


def attained(width, times, epsilon):
    """What an adversary attains who picks t for every choice, given all that came before: by search over the tree."""
    nodes = list(itertools.chain.from_iterable(itertools.product((0, 1), repeat=k) for k in range(times)))

    def value(angles):
        t = dict(zip(nodes, width * (0.5 + 0.5 * np.sin(angles)), strict=True))
        total = 0.0
        for path in itertools.product((0, 1), repeat=times):
            p = q = 1.0
            for k in range(times):
                here = two_points(min(max(t[path[:k]], 1e-12), width - 1e-12), width)
                p, q = p * here[0][path[k]], q * here[1][path[k]]
            total += max(p - math.exp(epsilon) * q, 0.0)
        return -total

    rng = np.random.default_rng(0)
    starts = [np.zeros(len(nodes))] + [rng.uniform(-1.2, 1.2, len(nodes)) for _ in range(6)]
    return max(-minimize(value, s, method="Nelder-Mead", options={"maxiter": 4000}).fun for s in starts)


@pytest.mark.parametrize(("width", "times"), [(0.2, 2), (1.0, 2), (3.0, 2), (0.5, 3)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_adaptive_choices_attain_the_curve_and_do_not_pass_it(width, times, share):
    eps = share * width * math.sqrt(times)
    found = attained(width, times, eps)
    stated = BoundedRange(width, times).delta(eps)
    assert found <= stated * (1 + 1e-9)
    assert found >= 0.985 * stated


def test_random_choices_on_what_came_before_do_not_pass_the_curve(rng):
    """Two and three adaptive choices among 2, 4 and 6 corners, enumerated."""
    scale, move = 1.3, 0.4
    for times, corners, trials in ((2, 2, 300), (2, 6, 100), (3, 4, 30)):
        stated = [BoundedRange(2 * move / scale, times).delta(e) for e in EPSILONS[:6]]
        for _ in range(trials):
            tables = {}
            p, q = np.zeros(corners**times), np.zeros(corners**times)
            for number, path in enumerate(itertools.product(range(corners), repeat=times)):
                a = b = 1.0
                for k in range(times):
                    if path[:k] not in tables:
                        g = rng.normal(size=corners // 2) * 10.0 ** rng.uniform(-2, 1)
                        h = g + move * rng.choice([-1.0, 1.0], corners // 2)
                        tables[path[:k]] = tuple(law(np.concatenate([-v, v]), scale) for v in (g, h))
                    a, b = a * tables[path[:k]][0][path[k]], b * tables[path[:k]][1][path[k]]
                p[number], q[number] = a, b
            for e, bound in zip(EPSILONS, stated, strict=False):
                assert max(stick(p, q, e), stick(q, p, e)) <= bound * (1 + 1e-9)


def test_many_choices_lie_between_what_repeated_ones_attain_and_zcdp():
    from scipy.stats import binom

    width, times = 0.1, 60
    profile = BoundedRange(width, times)
    rho = times * width**2 / 8
    wins = np.arange(times + 1)
    for eps in (0.1, 0.5, 1.0, 1.5):
        best = 0.0
        for t in np.linspace(0.0, width, 41)[1:-1]:
            p, q = two_points(t, width)
            mass = binom.pmf(wins, times, p[0]), binom.pmf(wins, times, q[0])
            best = max(best, stick(*mass, eps))
        assert best <= profile.delta(eps) * (1 + 1e-9)
        assert profile.delta(eps) <= 1.15 * best
        assert profile.delta(eps) <= concentrated_delta(np.array([eps]), rho)[0]


def test_the_recursion_agrees_with_a_plain_one():
    """The same recursion on a grid ten times as fine, with linear interpolation and t on the grid: from below."""
    width, times, cells = 0.4, 12, 160
    step = width / cells
    eps = step * np.arange(-2 * times * cells // 2, 2 * times * cells // 2 + 1)
    gamma = np.exp(eps)
    v = np.maximum(-np.expm1(eps), 0.0)
    for _ in range(times):
        best = v.copy()
        for t in np.linspace(0.0, width, 81)[1:-1]:
            p = math.expm1(t - width) / math.expm1(-width)
            near = np.interp(gamma * math.exp(-t), gamma, v)
            far = np.interp(gamma * math.exp(width - t), gamma, v)
            best = np.maximum(best, p * near + (1 - p) * far)
        v = best
    profile = BoundedRange(width, times)
    for e in (0.0, 0.3, 1.0, 2.0):
        plain = float(np.interp(math.exp(e), gamma, v))
        assert plain * (1 - 2e-3) <= profile.delta(e) <= plain * 1.03


@pytest.mark.parametrize("width", [0.1, 1.0, 4.0])
def test_bounded_range_is_zcdp(width, rng):
    """Renyi divergences of worst pairs and of random pairs of that range, against a width^2 / 8."""
    pairs = [two_points(t, width) for t in np.linspace(0.0, width, 25)[1:-1]]
    for _ in range(100):
        q = rng.dirichlet(np.ones(5))
        ratio = np.exp(rng.uniform(0.0, width, 5))
        pairs.append((q * ratio / (q @ ratio), q))
    for order in (1.01, 1.5, 2.0, 5.0, 30.0):
        worst = max(math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1) for p, q in pairs)
        assert worst <= order * width**2 / 8 * (1 + 1e-9)
    if width < 1.0:
        small = max(math.log(float((p**2 / q).sum())) for p, q in pairs)
        assert small > 0.97 * 2 * width**2 / 8


@pytest.mark.parametrize("rho", [1e-4, 0.02, 1.0, 20.0])
def test_zcdp_becomes_delta_at_the_best_order(rho):
    for eps in (rho + 0.5 * math.sqrt(rho), rho + 3 * math.sqrt(rho), rho + 12 * math.sqrt(rho)):

        def log_delta(x, eps=eps):
            a = 1 + math.exp(x)
            return (a - 1) * (a * rho - eps + math.log1p(-1 / a)) - math.log(a)

        grid = np.linspace(-6, 12, 400)
        start = grid[np.argmin([log_delta(x) for x in grid])]
        best = minimize_scalar(log_delta, bounds=(start - 0.1, start + 0.1), method="bounded").fun
        found = math.log(concentrated_delta(np.array([eps]), rho)[0])
        assert best - 1e-9 <= found <= best + 0.02


# The profile -------------------------------------------------------------------------------------------------------


def test_curve_is_monotone_and_inverts():
    for profile in (BoundedRange(0.3, 7), BoundedRange(0.02, 200), BoundedRange(5.0, 3)):
        deltas = [profile.delta(e) for e in np.linspace(-3, 8, 60)]
        assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(deltas))
        assert 0 <= deltas[-1] <= deltas[0] <= 1
        assert profile.delta(profile.epsilon(0.0)) == 0.0 < profile.delta(0.99 * profile.epsilon(0.0))
        for delta in (1e-3, 1e-9):
            assert profile.delta(profile.epsilon(delta)) <= delta * (1 + 1e-9)
    assert BoundedRange(0.0, 4).epsilon(1e-9) == 0.0
    assert BoundedRange(0.5, 10).epsilon(1e-6) < BoundedRange(0.5, 11).epsilon(1e-6)
    assert BoundedRange(0.5, 10).epsilon(1e-6) < BoundedRange(0.51, 10).epsilon(1e-6)
    assert BoundedRange(0.5, 10).epsilon(1e-20) <= 5.0 * (1 + 1e-2)  # losses never exceed times width
    with pytest.raises(InputError, match="range"):
        BoundedRange(1e4, 2)


def test_far_beyond_the_grid_zcdp_takes_over():
    many = BoundedRange(0.01, 50_000)
    assert many.delta(3.0) == pytest.approx(concentrated_delta(np.array([3.0]), many.rho)[0], rel=1e-2)
    assert 0.9 * GDP(math.sqrt(2 * many.rho)).epsilon(1e-6) < many.epsilon(1e-6)


@pytest.mark.parametrize("times", [1, 2, 10, 60])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-9), (0.1, 1e-3), (1.0, 1e-6), (8.0, 1e-10), (60.0, 1e-6)])
def test_calibrated_widths_use_the_budget_and_keep_to_it(times, epsilon, delta):
    width = largest_width(times, epsilon, delta)
    assert 0.995 * epsilon < BoundedRange(width, times).epsilon(delta) <= epsilon
    assert width >= epsilon / times * (1 - 2e-3)
    assert width == largest_width(times, epsilon, delta)


def test_a_delta_too_small_to_see_is_refused():
    with pytest.raises(InputError, match="delta"):
        largest_width(5, 1.0, 1e-30)


# The theorem -------------------------------------------------------------------------------------------------------


def test_the_claim():
    release = Release("corners", GUMBEL, 4.0, (6,), times=9)
    masked, replaced = (report_noisy_max(0.5, r, release, 100) for r in ("zero_out", "replace_one"))
    assert masked.profile.width == pytest.approx(0.25, rel=1e-10)
    assert masked.profile.width >= 0.25
    assert replaced.profile.width == pytest.approx(0.5, rel=1e-10)
    assert masked.profile.times == 9
    assert masked.scope is Scope.EVERY
    assert [r.name for r in masked.releases] == ["corners"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clip": 0.0}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"clip": True}, "clip"),
        ({"release": Release("c", "gaussian", 1.0, (4,))}, "gumbel"),
        ({"release": Release("c", "laplace", 1.0, (4,))}, "gumbel"),
        ({"release": 3.0}, "Release"),
        ({"release": Release("c", GUMBEL, 0.0, (4,))}, "no noise"),
        ({"release": Release("c", GUMBEL, 1e-9, (4,))}, "next to no noise"),
        ({"release": Release("c", GUMBEL, 1.0, (2, 2))}, "one variate"),
        ({"release": Release("c", GUMBEL, 1.0, ())}, "one variate"),
        ({"release": Release("c", GUMBEL, 1.0, (4,), grid=2.0**-20)}, "gumbel"),
        ({"n": 0}, "n must be"),
        ({"n": 2.0}, "n must be"),
        ({"plus": -1.0}, "plus"),
        ({"plus": math.nan}, "plus"),
    ],
)
def test_broken_hypotheses_are_refused(change, words):
    arguments = {"clip": 1.0, "relation": "replace_one", "release": Release("c", GUMBEL, 1.0, (4,)), "n": 5, **change}
    with pytest.raises(HypothesisError, match=words):
        report_noisy_max(**arguments)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_computed_sums_move_by_no_more_than_stated(relation, rng):
    """Entries at the bound whose sum rounds the other way on the neighbour, under a large public part."""
    n, plus, worst = 3000, 1e6, 0.0
    moved = 0.7 * MOVES[relation]
    stated = moved_entry(0.7, relation, n, 1, plus)
    for _ in range(300):
        a = rng.uniform(-0.7, 0.7, n)
        a[0] = 0.7
        b = a.copy()
        b[0] = -0.7 if relation == "replace_one" else 0.0
        public = rng.uniform(-plus, plus)
        worst = max(worst, abs((math.fsum(a) + public) - (math.fsum(b) + public)))
    assert moved < worst <= stated  # what one record moves in exact sums would be too little
    assert stated < moved * (1 + 1e-8)


def test_an_unknown_relation_is_refused():
    with pytest.raises(InputError, match="relation"):
        report_noisy_max(1.0, "add_remove", Release("c", GUMBEL, 1.0, (4,)), 5)


def test_choices_compose_with_other_claims():
    choice = report_noisy_max(1.0, "zero_out", Release("c", GUMBEL, 20.0, (4,), times=30), 5)
    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")
    noisy = gaussian(moved, Release("g", "gaussian", 5.0, (2,)))
    both = compose([choice, post_process(noisy, "nothing")])
    assert isinstance(both.profile, Composite)
    assert max(choice.epsilon(1e-6), noisy.epsilon(1e-6)) < both.epsilon(1e-6)
    assert both.epsilon(1e-6) < GDP(math.hypot(0.2, math.sqrt(30) * 0.1 / 2)).epsilon(1e-6) * 1.1
    pair = group(choice, 2)
    assert pair.unit == 2
    assert choice.epsilon(1e-6) < pair.epsilon(1e-6)
