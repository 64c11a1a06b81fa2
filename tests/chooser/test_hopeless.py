"""Fits of which next to nothing is to be expected: said before anything is spent, from public facts alone."""

import warnings

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.chooser.prediction import HOPELESS, drowned, hope, hopeless
from dpconvex.errors import BudgetWarning, HopelessFitWarning, InputError

BUDGET = dc.Budget(1.0, 1e-6)
LOSSES = [dc.losses.Logistic(), dc.losses.Softmax(4), dc.losses.Squared(), dc.losses.Hinge(), dc.losses.Absolute()]


def made(n, rng):
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, 0)


def model(n, **options):
    facts = {"feature_bound": dc.bounds.Linf(1.0), "classes": [0, 1], "random_state": 0}
    return dc.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, **facts, **options)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_rule_knows_public_facts_only(loss):
    problem = dc.Problem(loss)
    least = hope(problem, 7, BUDGET)
    assert [hopeless(problem, n, 7, BUDGET) for n in (2, least - 1, least, 100 * least)] == [True, True, False, False]
    assert drowned(problem, least, 7, BUDGET) < HOPELESS
    assert hope(problem, 28, BUDGET) >= 2 * least - 2  # the root of d
    assert hope(problem, 7, dc.Budget(1.0, 1e-6, "zero_out")) < least


def test_nothing_is_said_of_domains_whose_corners_are_searched():
    assert not hopeless(dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(2.0)), 2, 100, BUDGET)


def test_recommend_says_weak_where_it_says_hopeless():
    for loss in LOSSES:
        problem = dc.Problem(loss)
        few = dc.recommend(problem, n=5, d=3, budget=BUDGET)
        assert few.hopeless
        assert few.weak
        assert few.enough >= hope(problem, 3, BUDGET)
        assert "hopeless" in str(few)
        enough = dc.recommend(problem, n=few.enough, d=3, budget=BUDGET)
        assert not enough.hopeless
        assert not enough.weak
        assert "hopeless" not in str(enough)


def test_a_hopeless_fit_warns_before_it_spends_and_strict_refuses(rng):
    X, y = made(5, rng)
    with pytest.warns(HopelessFitWarning, match="5 records, 3 features, epsilon = 1"):
        model(5).fit(X, y)
    assert issubclass(HopelessFitWarning, BudgetWarning)
    before = len(dc.account().claims)
    with pytest.raises(InputError, match="strict=True forbids"):
        model(5, strict=True).fit(X, y)
    assert len(dc.account().claims) == before


def test_a_fit_with_enough_rows_says_nothing(rng):
    X, y = made(300, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HopelessFitWarning)
        model(300, strict=True).fit(X, y)


def test_people_with_many_rows_count_at_their_share(rng):
    X, y = made(60, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HopelessFitWarning)
        model(60).fit(X, y)
    with pytest.warns(HopelessFitWarning):
        model(60, rows_per_person=6).fit(X, y)


def test_hopeless_fits_learn_next_to_nothing_and_others_do(rng):
    """On rows that a linear model describes well: a quarter of the rows of the limit, and eight times as many."""
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=2.0)
    least = hope(problem, 3, BUDGET)
    X, y = made(4000, rng)
    y = 2 * y - 1

    def gain(n):
        plan = dc.choose(problem, n=n, d=3, budget=BUDGET)
        p = np.array([plan.run(X[:n], y[:n], seed=s).predict(X) for s in range(10)])
        share = (y > 0).mean()
        prior = -share * np.log(share) - (1 - share) * np.log(1 - share)
        return prior + np.log(np.where(y > 0, p, 1 - p)).mean()

    assert gain(max(least // 4, 2)) < 0.02
    assert gain(8 * least) > 0.05
