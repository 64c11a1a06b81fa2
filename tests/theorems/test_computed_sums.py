"""Sums as float64 computes them, against exact ones, on data chosen to round badly."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex import theorems
from dpconvex.algorithms.sufficient_statistics import least_eigenvalue
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import PERSON, Release, grid_of, unit_of
from dpconvex.loops.rows import CSR, Dense
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.queries.records import ScoreCounts, mean_sums
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Clipped, Frame, Labels
from dpconvex.theorems.computed_sums import MOST, SCORES, matrix_error, most_rounds, rounds_error, sum_error
from dpconvex.theorems.generalised_gaussian import generalised_law
from dpconvex.theorems.moment_sums import eigenvalue_error
from dpconvex.theorems.schedules import Constant

PROBLEM = dc.Problem(dc.losses.Logistic())


def released(scale=2.0, **options):
    return Release("sum", "gaussian", scale, (3,), grid=grid_of(scale), **options)


# What is refused --------------------------------------------------------------------------------------------------


def test_a_release_on_a_grid_needs_the_sensitivity_of_what_is_computed():
    exact = theorems.clipped_sum(1.0, "replace_one")
    with pytest.raises(HypothesisError, match="pass it through computed_sum"):
        theorems.gaussian(exact, released())
    with pytest.raises(HypothesisError, match="pass it through computed_sum"):
        theorems.gaussian(state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out"), released())
    computed = theorems.computed_sum(exact, 1000, 3)
    assert 2.0 < computed.value < 2.0 + 1e-9
    assert theorems.gaussian(computed, released()).profile.mu == pytest.approx(1.0, rel=1e-9)
    assert theorems.gaussian(exact, Release("sum", "gaussian", 2.0, (3,))).profile.mu == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sensitivity": 1.0}, "must be a Fact"),
        ({"sensitivity": PROBLEM.lipschitz(3)}, "SENSITIVITY"),
        ({"sensitivity": state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")}, "the rounding of no other"),
        ({"sensitivity": theorems.certified_drift(1.0, "zero_out")}, "the rounding of no other"),
        ({"n": 0}, "n must be"),
        ({"n": 2.0}, "n must be"),
        ({"n": True}, "n must be"),
        ({"n": MOST + 1}, "n must be"),
        ({"numbers": 0}, "size must be"),
        ({"condition": 0.5}, "condition must be"),
        ({"condition": math.inf}, "condition must be"),
        ({"sensitivity": theorems.clipped_sum(1e297, "zero_out"), "n": 1000}, "overflow"),
    ],
    ids=str,
)
def test_every_broken_hypothesis_is_refused(change, words):
    arguments = {"sensitivity": theorems.clipped_sum(1.0, "zero_out"), "n": 10, "numbers": 3, **change}
    with pytest.raises(HypothesisError, match=words):
        theorems.computed_sum(**arguments)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sensitivity": 1.0}, "sensitivity must be a Fact"),
        ({"sensitivity": state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")}, "of a sum of vectors"),
        ({"sensitivity": theorems.bounded_sums(1, "zero_out")}, "of a sum of vectors"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"rounds": 2.0}, "rounds must be a whole number"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"batch": 0}, "n must be a whole number"),
        ({"numbers": 0}, "size must be a whole number"),
        ({"sensitivity": theorems.clipped_sum(1e297, "zero_out"), "rounds": 1000}, "overflow"),
    ],
    ids=str,
)
def test_every_broken_hypothesis_of_rounds_is_refused(change, words):
    arguments = {"sensitivity": theorems.clipped_sum(1.0, "zero_out"), "rounds": 10, "batch": 2, "numbers": 3, **change}
    with pytest.raises(HypothesisError, match=words):
        theorems.computed_rounds(**arguments)


def test_rounds_cost_about_as_much_as_one_sum_over_their_records():
    exact = theorems.clipped_sum(1.0, "replace_one")
    for rounds, batch in ((1000, 10**6), (10**6, 1000), (10**6, 1)):
        found = theorems.computed_rounds(exact, rounds, batch, 100).value / exact.value - 1.0
        assert found < 3.0 * (theorems.computed_sum(exact, rounds * batch, 100).value / exact.value - 1.0)
        assert found < 1e-3
    assert most_rounds(64, 10) * rounds_error(1, 64, 10) <= 1e-4


@pytest.mark.parametrize("grid", [0.0, -1.0, 3.0, 16.0 + 2.0**-40, 2.0**5, 2.0**-40, math.nan, math.inf, 5e-324])
def test_a_grid_is_a_power_of_two_fine_enough_for_the_sampler(grid):
    with pytest.raises(HypothesisError, match="grid must be a power of two"):
        Release("x", "gaussian", 2.0, (1,), grid=grid)
    assert Release("x", "gaussian", 2.0, (1,), grid=16.0).grid == 16.0


@pytest.mark.parametrize("scale", [1.0, 1.0 - 2.0**-53, 2.0, 0.1, 1e-200, 3e200, 7.0])
def test_the_grid_of_a_scale_is_the_largest_power_of_two_within_a_millionth(scale):
    grid = grid_of(scale)
    assert math.frexp(grid)[0] == 0.5
    assert grid <= scale * 2.0**-20 < 2.0 * grid


def test_the_unit_is_that_of_the_exact_sum():
    person = theorems.clipped_sum(1.0, "zero_out", PERSON)
    assert unit_of(theorems.computed_sum(person, 10, 3)) == PERSON
    assert theorems.gaussian(theorems.computed_sum(person, 10, 3), released()).unit == PERSON


# What sums are really off by --------------------------------------------------------------------------------------


def exact_sum(terms):
    """Sum of rows of rational numbers."""
    return [sum(column, Fraction(0)) for column in zip(*terms, strict=True)]


def distance(found, exact):
    return math.sqrt(sum(float(Fraction(float(a)) - b) ** 2 for a, b in zip(np.ravel(found), exact, strict=True)))


def rows_of(X, form, **options):
    if form != "sparse":
        return Dense(np.ascontiguousarray(X, dtype=form), 1.0, 0.0, **options)
    s = sparse.csr_array(X)
    return CSR(s.data, s.indices, s.indptr, X.shape[1], 1.0, 0.0, **options)


def cancelling(n, rng):
    """Rows whose sums cancel to next to nothing, in an order that makes partial sums large, with odd last bits."""
    half = rng.uniform(0.3, 0.7, size=(n // 2, 2))
    return np.concatenate([half, half[::-1] * (1.0 + 2.0**-30)]), np.repeat([1.0, -1.0], n // 2)


def growing(n, rng):
    """Terms of one sign and of one size: every addition rounds a large sum."""
    return np.full((n, 2), 0.7) + 1e-3 * rng.random((n, 2)), np.ones(n)


@pytest.mark.parametrize("form", [np.float64, np.float32, "sparse"])
@pytest.mark.parametrize("made", [cancelling, growing])
@pytest.mark.parametrize("weighted", [False, True])
def test_computed_sums_are_within_the_bound_and_not_exact(form, made, weighted, rng):
    n = 6000
    X, y = made(n, rng)
    weights = rng.random(n) if weighted else np.empty(0)
    rows = rows_of(X, form, weights=weights)
    sums = open_sums(rows, y)
    shorten = sums.matrix.shorten
    held = X if form == "sparse" else np.asarray(rows.X)
    omega = weights if weighted else np.ones(n)
    exact = exact_sum(
        [Fraction(w) * int(t) * Fraction(s) * Fraction(float(x)) for x in row]
        for row, t, s, w in zip(held, y, shorten, omega, strict=True)
    )
    off = distance(sums.sweep(Labels()), exact)
    exactly = form is np.float32 and not weighted  # sums of so few numbers of 24 bits
    assert 0.0 <= off < sum_error(n, 2)
    assert (off == 0.0) == exactly


def test_a_frame_multiplies_the_error_by_no_more_than_its_condition(rng):
    """A frame that hides a common mean: what it keeps of the rows is short, and the sum was rounded before it."""
    n = 6000
    axis = np.array([0.6, 0.8])
    frame = Frame(axis, damping=0.1, scale=0.1)
    X = 0.999 * axis + 1e-3 * rng.normal(size=(n, 2))
    y = rng.choice([-1.0, 1.0], n)
    sums = open_sums(Dense(X, 1.0, 0.0), y)
    clip, w = 0.5, np.array([0.3, -0.2])
    answer = Clipped(PROBLEM.loss, w, clip, frame=frame)
    r = sums._answer(answer)
    a = [Fraction(float(v)) for v in axis]
    terms = []
    for x, t, s in zip(X, r, sums.matrix.shorten, strict=True):
        v = [Fraction(float(t)) * Fraction(float(s)) * Fraction(float(e)) for e in x]
        along = (1 - Fraction(frame.damping)) * sum(p * q for p, q in zip(v, a, strict=True))
        terms.append([(p - along * q) / Fraction(frame.scale) for p, q in zip(v, a, strict=True)])
    assert max(math.hypot(*map(float, term)) for term in terms) <= clip * (1 + 1e-15)
    off = distance(frame(sums.sweep(answer)), exact_sum(terms))
    assert 0.0 < off < sum_error(n, 2, 10.0) * clip


@pytest.mark.parametrize("form", [np.float64, "sparse"])
def test_sums_over_people_are_within_the_bound_although_their_rows_cancel(form, rng):
    """Persons with two rows each, a thousand times as long as the clip, that cancel but for a little."""
    n, clip = 1200, 1e-3
    half = rng.uniform(0.3, 0.7, size=(n // 2, 2))
    X = np.concatenate([half, half * (1.0 - 1e-3 * rng.random((n // 2, 1)))])
    y, people = np.repeat([1.0, -1.0], n // 2), np.tile(np.arange(n // 2), 2)
    found = open_sums(rows_of(X, form, people=people), y).people(Labels(), clip)
    clipped = []
    for p in range(n // 2):
        total = X[p] - X[p + n // 2]  # as it is computed
        length = math.hypot(*total)
        clipped.append([Fraction(float(v)) * Fraction(min(1.0, clip / length)) for v in total])
    assert distance(found, exact_sum(clipped)) < sum_error(n, 2) * clip


@pytest.mark.parametrize("form", [np.float64, "sparse"])
def test_sums_of_matrices_are_within_the_bound(form, rng):
    n = 5000
    X, _ = growing(n, rng)
    weights = rng.random(n)
    sums = open_sums(rows_of(X, form, weights=weights), np.ones(n))
    found = sums.hessian(dc.losses.Squared(), np.zeros(2))
    terms = []
    for x, s, w in zip(X, sums.matrix.shorten, weights, strict=True):
        a, b = (Fraction(float(v)) * Fraction(float(s)) for v in x)
        terms.append([Fraction(float(w)) * v for v in (a * a, a * b, b * a, b * b)])
    assert 0.0 < distance(found, exact_sum(terms)) < matrix_error(n, 2)


@pytest.mark.parametrize("n", [1, 3000, 40_000])
def test_sums_of_terms_are_within_the_bound(n, rng):
    chances = rng.random(n)
    positive = rng.random(n) < 0.5

    class Gaps:
        points = ()

        def sum(self, part):
            at = part.y.astype(int)
            return mean_sums(positive[at] - chances[at])

    rows = Dense(np.zeros((n, 1)), 1.0, 0.0)
    found = open_sums(rows, np.arange(n, dtype=float)).fold(Gaps())
    r = [Fraction(float(v)) for v in positive - chances]
    exact = [sum(r), sum(1 - v * v for v in r)]
    bound = theorems.computed_sum(theorems.bounded_sums(1, "zero_out"), n, 1).value - 1.0
    assert 2.0 * distance(found, exact) <= bound


def test_scores_fit_the_bins_of_the_theorem():
    part = SimpleNamespace(Z=(np.zeros(1),), y=np.ones(1), xp=np)
    assert ScoreCounts(np.zeros(1), 1.0).sum(part).shape[1] < SCORES


@pytest.mark.parametrize("bad", [None, 10.0, -3.0, math.nan])
def test_the_least_eigenvalue_is_certified_whatever_the_solver_says(monkeypatch, bad, rng):
    A = rng.normal(size=(40, 6))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    matrix = A.T @ A
    true = float(np.linalg.eigvalsh(matrix)[0])
    if bad is not None:
        monkeypatch.setattr(np.linalg, "eigvalsh", lambda _: np.array([bad]))
    assert abs(least_eigenvalue(matrix, 40.0) - true) <= eigenvalue_error(40, 6)
    assert abs(least_eigenvalue(np.zeros((6, 6)), 40.0)) <= eigenvalue_error(40, 6)


# Theorems that charge by themselves -------------------------------------------------------------------------------


def test_theorems_about_clips_charge_for_rounding_where_there_is_a_grid():
    scale, n, steps = 4.0, 10**7, 5
    exact = Release("g", "gaussian", scale, (3,), steps)
    on_grid = Release("g", "gaussian", scale, (3,), steps, grid_of(scale))
    batches = Constant(n / steps, steps)
    wrong = sum_error(n, 3)

    def mu(theorem):
        return [theorem(release).profile.mu for release in (exact, on_grid)]

    plain, charged = mu(lambda r: theorems.disjoint_sums(1.0, 2.0, "zero_out", range(n), batches, r))
    assert 1.0 + wrong / 10 < charged / plain < 1.0 + wrong
    sample = Release("s", "bernoulli", 1.0, (n,), steps)
    plain, charged = mu(lambda r: theorems.poisson_subsampling(1.0, "zero_out", sample, r))
    assert charged / plain == pytest.approx(1.0 + 2.0 * wrong, rel=1e-10)
    order = Release("o", "bernoulli", 0.5, (n,), 80)
    plain, charged = (
        theorems.shuffled_sums(1.0, 2.0, "zero_out", batches, order, r).profile.delta(0.5) for r in (exact, on_grid)
    )
    assert plain < charged < 1.001 * plain


def test_moments_and_generalised_noise_on_a_grid_need_n():
    row = PROBLEM.row_bound(2)
    parts = [Release(k, "gaussian", 4.0, (s,), grid=grid_of(4.0)) for k, s in (("e", 1), ("s", 3), ("c", 2))]
    with pytest.raises(HypothesisError, match="state n"):
        theorems.noisy_moments(row, 1.0, "zero_out", *parts)
    bare = [Release(r.name, "gaussian", 4.0, r.shape) for r in parts]
    charged = theorems.noisy_moments(row, 1.0, "zero_out", *parts, n=10**6).profile.mu
    assert 1e-6 < charged / theorems.noisy_moments(row, 1.0, "zero_out", *bare).profile.mu - 1.0 < 1e-3
    noise = Release("g", generalised_law(3.0), 4.0, (2,), grid=grid_of(4.0))
    with pytest.raises(HypothesisError, match="state n"):
        theorems.generalised_gaussian(1.0, 3.0, "zero_out", noise)
    assert theorems.generalised_gaussian(1.0, 3.0, "zero_out", noise, n=10).profile.rho > 0.0


def test_chains_say_nothing_of_values_on_a_grid():
    contraction = state_fact(Kind.CONTRACTION, 1.0, "a test")
    moved = state_fact(Kind.SENSITIVITY, 1.0, "a test", relation="zero_out")
    with pytest.raises(HypothesisError, match="nothing of values on a grid"):
        theorems.noisy_contraction([moved], [contraction], [released()], 1)
