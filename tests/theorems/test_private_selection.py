"""The best of a secret number of runs: the stated curve against exact laws, attacks that attain it, and refusals."""

import dataclasses
import itertools
import json
import math
from collections import Counter
from decimal import Context, Decimal, localcontext
from itertools import islice

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import dpconvex as dc
from dpconvex.audit import Stated, audit_function
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Release, Scope
from dpconvex.kernel.curves import gaussian_curve
from dpconvex.kernel.profiles import GDP, ApproxDP, Largest
from dpconvex.noise.counts import _probabilities, one_of, random_order, repetitions
from dpconvex.noise.source import Source
from dpconvex.theorems import any_of, clipped_sum, fresh_run, gaussian, group, of_problem, private_selection
from dpconvex.theorems.numerics.repeated import SLOPES, BestOf, _ladder, count_parameter, mean_count

LAWS = tuple(SLOPES)
GRID = np.linspace(-11.0, 11.0, 20_001)
STEP = GRID[1] - GRID[0]


def best_of(profile, law, mean):
    return BestOf(profile, law, count_parameter(law, mean))


def normal(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def exact(mu, slope, epsilon, angle):
    """N(0, I) against N(mu, I) in the plane, all of it released, the score being the coordinate at that angle."""
    c, s = mu * math.cos(angle), mu * abs(math.sin(angle))
    top, bottom = (np.log(np.maximum(slope(ndtr(shift - GRID)), 1e-300)) for shift in (0.0, c))
    eps = epsilon + c * GRID - c * c / 2 + bottom - top
    inner = np.maximum(-np.expm1(eps), 0.0) if s < 1e-9 else gaussian_curve(eps, s)
    return float((normal(GRID) * np.exp(top) * inner).sum() * STEP)


def attained(mu, law, parameter, epsilon, level, cut):
    """N(0, 1) against N(mu, 1), scored by the output itself, but for outputs below -cut, which stand at `level`."""
    slope = SLOPES[law](parameter)
    start, deep = -float(ndtri(level)), -cut > GRID

    def missed(shift):
        rest = np.where(start > GRID, ndtr(-cut - shift), 0.0)
        return np.where(deep, ndtr(shift - start) + ndtr(GRID - shift), np.minimum(ndtr(shift - GRID) + rest, 1.0))

    p, q = normal(GRID) * slope(missed(0.0)), normal(GRID - mu) * slope(missed(mu))
    assert abs(p.sum() * STEP - 1.0) < 2e-2  # a law, but for the grid at its two jumps
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * STEP)


def first_probabilities(law, parameter, count):
    with localcontext(Context(prec=30)):
        return np.array([float(p) for p in islice(_probabilities(law, Decimal(parameter)), count)])


# The laws of the number of repetitions -----------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.01, 2.0, 10.0, 1000.0])
def test_the_parameter_gives_the_mean_and_the_slope_is_that_of_the_generating_function(law, mean):
    parameter = count_parameter(law, mean)
    assert mean * (1 - 1e-6) <= mean_count(law, parameter) <= mean * (1 + 1e-9)
    p = first_probabilities(law, parameter, round(300 * mean + 100))
    k = np.arange(1, len(p) + 1)
    assert abs(p.sum() - 1.0) < 1e-11
    for missed in (0.0, 0.01, 0.3, 0.9):
        assert np.isclose(
            (k * p * (1.0 - missed) ** (k - 1.0)).sum(), SLOPES[law](parameter)(np.array([missed]))[0], rtol=1e-9
        )


@pytest.mark.parametrize("law", LAWS)
def test_the_sampler_follows_its_law(law):
    parameter = count_parameter(law, 6.0)
    stream = Source(seed=3).stream("x")
    drawn = np.array([repetitions(stream, law, parameter) for _ in range(20_000)])
    p = first_probabilities(law, parameter, 100)
    assert drawn.min() >= 1
    for k in (1, 2, 3, 6, 10):
        assert abs((drawn == k).mean() - p[k - 1]) < 5 * math.sqrt(p[k - 1] / 20_000) + 1e-4
    assert abs(drawn.mean() - 6.0) < 0.5


class Words:
    """A stream that gives chosen words, and counts them."""

    def __init__(self, *words):
        self.left, self.taken = list(words), 0

    def words(self, count):
        self.taken += count
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [3, 4, 7, 30])
def test_words_at_the_end_of_a_number_are_decided_by_more_words(law, k):
    """The cell that holds Pr[K <= k] is halved by the next word; its neighbours need none. The sums are mpmath's."""
    parameter = count_parameter(law, 6.0)
    with mpmath.workdps(80):
        g = mpmath.mpf(parameter)
        tail = {  # of more than k, in closed form
            "poisson": lambda: mpmath.gammainc(k + 1, 0, g, regularized=True) / -mpmath.expm1(-g),
            "geometric": lambda: (1 - g) ** k,
            "logarithmic": lambda: (1 - g) ** (k + 1) * mpmath.lerchphi(1 - g, 1, k + 1) / -mpmath.log(g),
        }[law]()
        place = int(mpmath.floor((1 - tail) * mpmath.mpf(2) ** 128))
    cell, rest = divmod(place, 2**64)
    for words, found in (((cell, rest - 1), k), ((cell, rest + 1), k + 1), ((cell, 0), k), ((cell, 2**64 - 1), k + 1)):
        stream = Words(*words)
        assert (repetitions(stream, law, parameter), stream.taken) == (found, 2)
    assert repetitions(Words(cell - 1), law, parameter) == k
    assert repetitions(Words(cell + 1), law, parameter) == k + 1
    assert repetitions(Words(2**64 - 1, 2**64 - 1, 0), law, parameter) > 40


def test_orders_are_uniform_and_ties_are_decided_by_more_words():
    stream = Source(seed=4).stream("x")
    seen = Counter(tuple(random_order(stream, 3).tolist()) for _ in range(12_000))
    assert len(seen) == 6
    assert max(abs(count - 2000) for count in seen.values()) < 200
    stream = Words(7, 5, 7, 5, 5, 9, 3, 8)
    assert random_order(stream, 4).tolist() == [3, 1, 2, 0]
    assert stream.taken == 8
    stream = Words(1, 1, 2, 2, 6, 5)
    assert random_order(stream, 2).tolist() == [1, 0]
    assert stream.taken == 6


def test_a_candidate_is_drawn_uniformly():
    stream = Source(seed=4).stream("x")
    drawn = np.bincount([one_of(stream, 3) for _ in range(9000)], minlength=3)
    assert len(drawn) == 3
    assert (abs(drawn - 3000) < 250).all()


@pytest.mark.parametrize(("law", "mean"), [("uniform", 5.0), ("poisson", 1.0), ("poisson", math.nan), ("poisson", 1e4)])
def test_a_law_or_a_mean_that_is_not_known_is_refused(law, mean):
    with pytest.raises(InputError):
        count_parameter(law, mean)


# The curve -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("mu", "mean"), [(0.05, 5.0), (0.1, 30.0), (0.5, 3.0), (0.3, 100.0), (1.5, 10.0)])
def test_gaussian_runs_are_covered_at_every_angle_and_epsilon(law, mu, mean):
    profile = best_of(GDP(mu), law, mean)
    slope = SLOPES[law](profile.parameter)
    for angle, eps in itertools.product(np.linspace(0, math.pi, 7), (0.0, 0.1, 0.3, 1.0, 2.0, 4.0)):
        assert exact(mu, slope, eps, angle) <= profile.delta(eps) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(
    ("law", "share", "levels", "cut"),
    [
        ("geometric", 0.98, (0.02, 0.11), 4.0),
        ("logarithmic", 0.98, (0.005, 0.05), 4.3),
        ("poisson", 0.75, (0.11, 0.5), 2.8),
    ],
)
def test_a_score_that_hides_the_tail_attains_most_of_the_curve(law, share, levels, cut):
    """So nothing much better can be said without looking at how scores are computed."""
    for mean, level in zip((100.0, 10.0), levels, strict=True):
        profile = best_of(GDP(0.1), law, mean)
        stated = profile.epsilon(1e-6)
        assert attained(0.1, law, profile.parameter, stated, level, cut) <= 1e-6
        assert attained(0.1, law, profile.parameter, share * stated, level, cut) > 1e-6


@pytest.mark.parametrize("law", ["geometric", "logarithmic"])
def test_pure_runs_stay_below_the_published_factor(law):
    """(2 + eta) eps for the truncated negative binomial laws (Papernot, Steinke 2022), here with a little delta."""
    factor = {"geometric": 3.0, "logarithmic": 2.0}[law]
    for eps, mean in itertools.product((0.1, 0.5, 1.0), (5.0, 100.0)):
        assert best_of(ApproxDP(eps, 0.0), law, mean).epsilon(1e-9) <= factor * eps + 0.004  # cells of levels


@pytest.mark.parametrize(
    ("law", "mean", "mu", "epsilon", "attained"),
    [
        ("logarithmic", 1.01, 2.5501, 21.4918, 1.1519e-13),
        ("poisson", 1.01, 3.8057, 31.3833, 4.287e-11),
        ("poisson", 1.01, 2.3885, 14.4446, 1.9986e-07),
        ("poisson", 1.02, 3.0, 20.0, 4.577e-08),
        ("geometric", 1.01, 1.9543, 9.2145, 3.0886e-05),
        ("logarithmic", 1.01, 1.2149, 4.068, 8.597e-04),
    ],
)
def test_few_repetitions_of_noisy_runs_are_not_understated(law, mean, mu, epsilon, attained):
    """What the attack with a block of outputs at one level attains there, integrated exactly."""
    found = best_of(GDP(mu), law, mean).delta(epsilon)
    assert attained <= found <= 1.02 * attained


def test_the_cells_bound_phi_from_both_sides():
    """Between any two levels of a cell: phi' of one run under P at most `high`, under Q at least `low`."""
    for law, mean, mu in (("geometric", 1000.0, 2.0), ("poisson", 1.01, 3.0), ("poisson", 900.0, 0.5)):
        profile = best_of(GDP(mu), law, mean)
        ladder, slope = _ladder(profile), SLOPES[law](profile.parameter)
        for a in np.concatenate([np.geomspace(1e-12, 1.0, 400), np.linspace(0.0, 1.0, 400)]):
            under_q = slope(1.0 - ndtr(ndtri(1.0 - a) - mu))  # f of N(0, 1) against N(mu, 1)
            fits = (ladder.high >= slope(np.array(a))) & (ladder.low <= under_q * (1 + 1e-9))
            assert fits.any()


def brute_force(law, parameter, p, q, order, epsilon):
    """delta of the best of K draws from a law on few outcomes, scored in that order: exact sums."""
    slope = SLOPES[law](parameter)

    def selected(w):
        w = w[list(order)]
        below = np.cumsum(w)  # the best is among the first j: phi(below_j), the integral of the slope
        nodes, weights = np.polynomial.legendre.leggauss(64)
        start = below - w
        z = start[:, None] + w[:, None] * (nodes + 1) / 2
        return (slope(1.0 - z) * weights).sum(axis=1) * w / 2

    return float(np.maximum(selected(p) - math.exp(epsilon) * selected(q), 0.0).sum())


@pytest.mark.parametrize("law", LAWS)
def test_no_law_on_few_outcomes_and_no_order_of_them_breaks_the_curve(law, rng):
    """Outcomes are atoms: ties are broken by who came first, which is the same as at random."""
    parameter = count_parameter(law, 12.0)
    for _ in range(4):
        p = rng.dirichlet(np.ones(4) * rng.choice([0.3, 1.0, 5.0]))
        q = p * np.exp(rng.uniform(-0.3, 0.3, 4))
        q /= q.sum()
        top = float(np.abs(np.log(p / q)).max())
        curve = _TwoSided(p, q)
        profile = BestOf(ApproxDP(top, 0.0), law, parameter)
        sharper = BestOf(curve, law, parameter)
        for order, eps in itertools.product(itertools.permutations(range(4)), (0.0, top / 2, top, 1.5 * top)):
            found = max(brute_force(law, parameter, *pair, order, eps) for pair in ((p, q), (q, p)))
            assert found <= sharper.delta(eps) + 1e-12
            assert found <= profile.delta(eps) + 1e-12


class _TwoSided(Largest):
    """The curve of one pair of laws, in either order."""

    def __init__(self, p, q):
        object.__setattr__(self, "parts", (tuple(p.tolist()), tuple(q.tolist())))

    def __hash__(self):
        return hash(self.parts)

    def curve(self):
        from dpconvex.kernel.curves import symmetric

        p, q = (np.array(part) for part in self.parts)

        def both(eps):
            a = np.exp(eps)[:, None]
            return np.maximum(np.maximum(p - a * q, 0).sum(axis=1), np.maximum(q - a * p, 0).sum(axis=1))

        return symmetric(both)


def test_the_curve_is_below_that_of_renyi_accounting():
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    for law, shape in (("geometric", 1.0), ("logarithmic", 0.0), ("poisson", math.inf)):
        for mu, mean in ((0.1, 10.0), (0.25, 30.0)):
            accountant = RdpAccountant()
            accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0 / mu), mean, shape))
            assert best_of(GDP(mu), law, mean).epsilon(1e-6) < accountant.get_epsilon(1e-6)


def test_more_runs_and_more_of_each_cost_more():
    costs = [best_of(GDP(0.1), "geometric", m).epsilon(1e-6) for m in (1.01, 2.0, 10.0, 100.0)]
    assert costs == sorted(costs)
    assert GDP(0.1).epsilon(1e-6) <= costs[0] <= 1.03 * GDP(0.1).epsilon(1e-6)
    assert best_of(GDP(0.2), "geometric", 10.0).epsilon(1e-6) > costs[2]


def test_a_run_that_tells_nothing_stays_so_and_one_that_tells_all_has_no_epsilon():
    assert best_of(GDP(0.0), "geometric", 50.0).epsilon(1e-6) < 3e-3
    assert best_of(ApproxDP(0.1, 1e-3), "geometric", 50.0).epsilon(1e-6) == math.inf


# The theorems --------------------------------------------------------------------------------------------------------


def base(mu=0.5, relation="replace_one", name="score"):
    moved = clipped_sum(0.5, relation)
    return gaussian(moved, Release(name, "gaussian", moved.value / mu, (1,)))


REPEATS = Release("repeats", "geometric", 0.1, (1,))


def test_the_claim_is_about_the_last_value_and_keeps_relation_and_unit():
    claim = private_selection(group(base(0.1, "zero_out"), 2), REPEATS)
    assert (claim.scope, claim.relation, claim.unit) == (Scope.LAST, "zero_out", 2)
    assert claim.epsilon(1e-6) == BestOf(GDP(claim.profile.part.mu), "geometric", 0.1).epsilon(1e-6)
    assert [r.name for r in claim.releases] == ["score", "repeats"]


@pytest.mark.parametrize(
    "repeats",
    [
        Release("repeats", "gaussian", 0.1, (1,)),
        Release("repeats", "geometric", 0.1, (2,)),
        Release("repeats", "geometric", 0.1, (1,), 2),
        Release("repeats", "geometric", 0.0, (1,)),
        Release("repeats", "geometric", 1.0, (1,)),
        Release("repeats", "geometric", 1e-5, (1,)),
        Release("repeats", "poisson", 2000.0, (1,)),
        0.1,
    ],
)
def test_a_number_of_repetitions_that_the_proof_is_not_about_is_refused(repeats):
    with pytest.raises(HypothesisError):
        private_selection(base(), repeats)


def test_a_bare_profile_is_no_claim():
    with pytest.raises(HypothesisError):
        private_selection(GDP(0.1), REPEATS)


def test_one_of_several_costs_the_largest():
    claims = [fresh_run(base(mu), f"c{i}") for i, mu in enumerate((0.1, 0.4, 0.2))]
    claim = any_of(claims, Release("c", "uniform", 1.0, (3,)))
    assert claim.delta(1.0) == pytest.approx(claims[1].delta(1.0), rel=1e-6)
    for choice in (Release("c", "uniform", 1.0, (2,)), Release("c", "gaussian", 1.0, (3,)), 3):
        with pytest.raises(HypothesisError, match="choice"):
            any_of(claims, choice)
    with pytest.raises(HypothesisError, match="different"):
        any_of([claims[0], fresh_run(base(0.1, "zero_out"), "z")], Release("c", "uniform", 1.0, (2,)))
    with pytest.raises(HypothesisError, match="different"):
        any_of([claims[0], group(claims[1], 2)], Release("c", "uniform", 1.0, (2,)))
    with pytest.raises(HypothesisError, match="twice"):
        any_of([base(), base()], Release("c", "uniform", 1.0, (2,)))


def test_a_claim_is_about_the_problem_it_names():
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0))
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=100, d=3, budget=dc.Budget(1.0, 1e-6))
    text = json.dumps(plan.problem.to_json())
    assert of_problem(plan.claim, text, 100, 3).profile == plan.claim.profile
    wider = json.dumps(dataclasses.replace(plan.problem, feature_bound=2.0).to_json())
    with pytest.raises(HypothesisError, match="facts"):
        of_problem(plan.claim, wider, 100, 3)
    other = json.dumps({**plan.problem.to_json(), "l2": plan.problem.l2 / 2})
    with pytest.raises(HypothesisError, match="l2"):
        of_problem(plan.claim, other, 100, 3)


# Mutants: mistakes that the claim does not cover, each refuted by the exact law or by a likelihood-ratio attack -----


def largest_excess(slope, mu, profile, angle=0.0):
    """Largest ratio of the exact delta to the claimed one, over epsilon, with the score at that angle."""
    return max(exact(mu, slope, e, angle) / profile.delta(e) for e in np.linspace(0.0, 3.0, 31))


def test_a_fixed_number_of_runs_is_caught():
    """That K is random is what protects: its largest value in a million, every time, costs far more."""
    profile = best_of(GDP(0.1), "geometric", 10.0)
    most = math.ceil(math.log(1e-6) / math.log1p(-profile.parameter))

    def fixed(missed):
        return most * (1.0 - missed) ** (most - 1.0)

    assert largest_excess(SLOPES["geometric"](profile.parameter), 0.1, profile) <= 1.0
    assert largest_excess(fixed, 0.1, profile) > 10.0


def test_scoring_on_the_training_rows_is_caught():
    """A record that moves both the model and its score moves the pair by sqrt 2 as much; with few runs that is seen."""
    profile = best_of(GDP(0.5), "geometric", 1.01)
    slope = SLOPES["geometric"](profile.parameter)
    assert largest_excess(slope, 0.5, profile, math.pi / 4) <= 1.0
    assert largest_excess(slope, 0.5 * math.sqrt(2.0), profile, math.pi / 4) > 2.0


def test_less_noise_on_the_score_is_caught():
    profile = best_of(GDP(0.5), "geometric", 5.0)
    slope = SLOPES["geometric"](profile.parameter)
    assert largest_excess(slope, 0.5, profile) <= 1.0
    assert largest_excess(slope, 1.0, profile) > 2.0


def rare_reveal(data, rng, runs, stop):
    """One run in 500 shows the record and has the best score; with `stop`, runs go on until there is such a score."""
    counts = rng.geometric(0.1, runs)
    shown = np.ones(runs, dtype=bool) if stop else rng.random(runs) < -np.expm1(counts * np.log1p(-0.002))
    return np.where(shown, data[0], rng.integers(2, size=runs)).astype(float)


@pytest.mark.parametrize("stop", [False, True])
def test_going_on_until_the_score_is_good_is_caught(stop):
    """A run that is harmless on average can be told to go on until it is not."""
    claim = Stated(BestOf(ApproxDP(0.0, 0.002), "geometric", 0.1), "replace_one", delta=0.05)
    report = audit_function(
        lambda data, rng, runs: rare_reveal(data, rng, runs, stop), np.zeros(1), np.ones(1), claim, runs=5000, seed=1,
        batch=True, statistic=lambda out: out[:, 0],
    )  # fmt: skip
    assert report.refuted is stop
