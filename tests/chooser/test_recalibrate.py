import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import InputError


def rows(rng, n=20_000):
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.where(X @ [4.0, 0.0] + rng.logistic(size=n) > 0, 1, -1)


def gap(found, X):
    """Mean distance to the true probability."""
    return np.abs(found.predict(X) - 1 / (1 + np.exp(-4.0 * X[:, 0]))).mean()


@pytest.mark.parametrize("loss", [dc.losses.SmoothedHinge(), dc.losses.Logistic()])
def test_probabilities_come_near_the_truth(rng, loss):
    X, y = rows(rng)
    plan = dc.choose(dc.Problem(loss, feature_bound=1.5), n=len(X), d=2, budget=dc.Budget(1.0, 1e-6))
    solution = plan.run(X, y, seed=0)
    better = dc.recalibrate(solution, X, y, budget=dc.Budget(1.0, 1e-6), seed=1)
    assert dc.verify(better.receipt)
    assert better.receipt.epsilon <= 1.0
    assert gap(better, X) < 0.03
    if isinstance(loss, dc.losses.SmoothedHinge):
        assert gap(better, X) < 0.5 * gap(solution, X)


def test_it_is_a_release_of_its_own(rng):
    X, y = rows(rng, 500)
    solution = dc.choose(dc.Problem(dc.losses.Logistic()), n=500, d=2, budget=dc.Budget(1.0, 1e-6)).run(X, y, seed=0)
    dc.recalibrate(solution, X, y, budget=dc.Budget(0.5, 1e-6), dataset="recalibrated")
    assert len(dc.account("recalibrated").claims) == 1


def test_what_has_no_log_odds_is_refused(rng):
    X = rng.uniform(-1, 1, size=(100, 2))
    problem = dc.Problem(dc.losses.Squared())
    solution = dc.choose(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-3)).run(X, X[:, 0], seed=0)
    for bad in (solution, "model", None):
        with pytest.raises(InputError, match="recalibrate"):
            dc.recalibrate(bad, X, np.ones(100), budget=dc.Budget(1.0, 1e-6))
    good = dc.choose(dc.Problem(dc.losses.Logistic()), n=100, d=2, budget=dc.Budget(1.0, 1e-3)).run(
        X, np.ones(100), seed=0
    )
    with pytest.raises(InputError, match="radius"):
        dc.recalibrate(good, X, np.ones(100), budget=dc.Budget(1.0, 1e-3), reach=0.0)
    with pytest.raises(InputError, match="labels"):
        dc.recalibrate(good, X, np.zeros(100), budget=dc.Budget(1.0, 1e-3))
