"""Long rows that count less, and sums of squares: no exact divergence and no pair of rows beats what is stated."""

import math

import numpy as np
import pytest
from theorems.test_objective_perturbation import FAMILIES, assumed_here, hockey

import dpconvex as dc
from dpconvex import theorems
from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.claims import Release
from dpconvex.theorems.computed_sums import sum_error

STRETCH = 3.0


def claim(loss, sigma, l2, relation, rows):
    problem = dc.Problem(loss)
    return theorems.objective_perturbation(
        problem.slope(),
        problem.slope_width(),
        problem.curvature_law(),
        problem.monotone_margin(),
        rows,
        l2,
        relation,
        Release("objective", "gaussian", sigma, (1,)),
        Release("output", "gaussian", 1.0, (1,)),
        1e-3,
    )


def divergences(rng, family, sigma, l2, theta, eps, heavier=1.0):
    """Both ways, for a record of any length up to the stretch that is masked, and replaced, before three others."""
    make, slope = FAMILIES[family]
    loss = make(rng)
    slope_bound = loss.slope_bound(math.inf)

    def pull(theta):
        z = rng.choice([-1.0, 1.0]) * (STRETCH if rng.random() < 0.5 else rng.uniform(0.0, STRETCH))
        weight = heavier * min(1.0, 1.0 / abs(z)) * (rng.random() if rng.random() < 0.3 else 1.0)
        label = rng.choice([-1.0, 1.0]) if loss.traits.labels == "sign" else rng.uniform(-2, 2)
        offset = rng.normal() * sigma / l2 * rng.choice([0.0, 0.3, 1.0, 4.0])
        return weight * z * slope(loss, z * theta + offset, label)

    sigma, theta = sigma * slope_bound, theta * slope_bound
    base = l2 * theta + sum((pull(theta) for _ in range(rng.integers(0, 4))), np.zeros(()))
    without, one, two = (g / sigma for g in (base, base + pull(theta), base + pull(theta)))
    masked = max(hockey(one, without, eps)[0], hockey(without, one, eps)[0])
    return loss, sigma, masked, max(hockey(one, two, eps)[0], hockey(two, one, eps)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_exact_divergence_of_long_rows_exceeds_its_bound(family):
    rng = np.random.default_rng(sorted(FAMILIES).index(family))
    most = 0.0
    for _ in range(16):
        eps, sigma = rng.uniform(0.2, 1.5), rng.uniform(1.5, 4.0)
        bend = FAMILIES[family][0](np.random.default_rng(0)).curvature_bound()
        l2 = STRETCH * bend * 10 ** rng.uniform(-0.5, 1.0)
        theta = np.linspace(-14.0, 14.0, 2001) * (sigma / l2)
        loss, scale, masked, replaced = divergences(rng, family, sigma, l2, theta, eps)
        for relation, found in (("zero_out", masked), ("replace_one", replaced)):
            bound = claim(loss, scale, l2, relation, theorems.weighted_rows(STRETCH)).delta(eps)
            assert found <= bound * (1 + 1e-9), (loss, relation, scale, l2, eps)
            most = max(most, found / bound)
    assert most > 0.5  # the check means something


def test_the_regularisation_of_short_rows_is_too_little_for_long_ones():
    """With l2 in place of l2 / stretch, a row of the length of the stretch beats the bound."""
    l2, sigma, eps = 3.0, 12.0, 0.08
    theta = np.linspace(-14.0, 14.0, 8001) * sigma / l2
    loss = dc.losses.SmoothedHinge(1.0)
    pull = STRETCH * np.array([loss.slope(float(STRETCH * t), 1.0) for t in theta]) / STRETCH
    found = hockey((l2 * theta + pull) / sigma, l2 * theta / sigma, eps)[0]
    short = claim(loss, sigma, l2, "zero_out", dc.Problem(loss).row_bound(1)).delta(eps)
    long = claim(loss, sigma, l2, "zero_out", theorems.weighted_rows(STRETCH)).delta(eps)
    assert short < found <= long


def test_rows_of_stretch_one_are_charged_as_rows_within_their_bound():
    loss = dc.losses.Logistic()
    plain, framed = (
        claim(loss, 3.0, 2.0, "replace_one", rows)
        for rows in (dc.Problem(loss).row_bound(1), theorems.weighted_rows(1.0))
    )
    assert plain.profile == framed.profile


def test_softmax_charges_long_rows_as_it_does_one_prediction():
    problem = dc.Problem(dc.losses.Softmax(3))
    noise = Release("objective", "gaussian", 6.0, (3, 2)), Release("output", "gaussian", 1.0, (3, 2)), 1e-3
    given = problem.classes(), theorems.weighted_rows(4.0), 10.0, "zero_out"
    assert theorems.objective_perturbation_softmax(*given, *noise).profile.l2 == pytest.approx(2.5)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_no_pair_of_rows_moves_the_squares_further_than_stated(relation, rng):
    row = dc.Problem(dc.losses.Logistic(), feature_bound=1.5).row_bound(4)
    stated = theorems.squared_entries_sum(row, relation).value
    x, y = rng.normal(size=(2, 5000, 4)) ** 3  # mostly one long entry
    x, y = (1.5 * v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    y = y if relation == "replace_one" else 0.0 * y
    gaps = np.linalg.norm(x**2 - y**2, axis=1)
    assert 0.9 * stated < gaps.max() <= stated
    corner, other = 1.5 * np.eye(4)[:2]
    attained = corner**2 - (other**2 if relation == "replace_one" else 0.0)
    assert np.linalg.norm(attained) == pytest.approx(stated, rel=1e-11)


def test_the_computed_sum_of_squares_is_charged_for_its_rounding():
    row = dc.Problem(dc.losses.Logistic()).row_bound(4)
    for relation, moves in (("zero_out", 1.0), ("replace_one", math.sqrt(2.0))):
        exact = theorems.squared_entries_sum(row, relation)
        computed = theorems.computed_sum(exact, 10**6, 4).value
        assert computed == pytest.approx(moves + 2.0 * sum_error(10**6, 4), rel=1e-10)
        with pytest.raises(HypothesisError, match="condition"):
            theorems.computed_sum(exact, 10**6, 4, 10.0)


def test_each_broken_hypothesis_is_rejected():
    row = dc.Problem(dc.losses.Logistic()).row_bound(2)
    for stretch in (0.5, 0.0, -1.0, math.inf, math.nan, True, "3"):
        with pytest.raises(HypothesisError, match="stretch"):
            theorems.weighted_rows(stretch)
    with pytest.raises(HypothesisError, match="ROW_BOUND"):
        theorems.squared_entries_sum(theorems.weighted_rows(3.0), "zero_out")
    with pytest.raises(HypothesisError, match="row"):
        theorems.squared_entries_sum(1.0, "zero_out")
    with pytest.raises(InputError, match="relation"):
        theorems.squared_entries_sum(row, "add_remove")
    for theorem in (theorems.moment_sums,):  # what long rows do to other sums is not known
        with pytest.raises(HypothesisError, match="ROW_BOUND"):
            theorem(theorems.weighted_rows(3.0), 1.0, "zero_out", "second")
    with pytest.raises(HypothesisError, match="finite"):
        assumed_here("LONG_ROWS", (1.0, -3.0))
