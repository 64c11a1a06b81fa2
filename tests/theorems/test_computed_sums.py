"""Sums as float64 computes them, against exact ones, on data chosen to round badly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError
from dpconvex.kernel.claims import PERSON, Release, grid_of, unit_of
from dpconvex.loops.rows import CSR, Dense
from dpconvex.problem.facts import Kind, state_fact
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Clipped, Frame, Labels
from dpconvex.theorems.computed_sums import MOST, sum_error

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
    n, clip = 4000, 1e-3
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
