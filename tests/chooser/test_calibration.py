"""Probabilities are right on average: where noise is small, the mean of each is the share of its class."""

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.algorithms.noisy_gd import softmax_clip
from dpconvex.chooser.forms import form
from dpconvex.chooser.recommend import candidates, contest_of

RUNS = 4


def table(classes, n, seed=0):
    """Rows, and labels by a rule that is not linear: every loss is wrong about them, and some classes are rare."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 4)) / 2
    scores = X @ rng.normal(size=(4, classes)) * 3 + np.maximum(X @ rng.normal(size=(4, classes)) * 4, 0)
    P = np.exp(scores + np.linspace(0, 1.6, classes))
    P /= P.sum(axis=1, keepdims=True)
    return X, (P.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1).astype(float)


def class_means(algorithm, loss, n, epsilon):
    """Means of the probabilities of each run, and the shares of the classes."""
    classes = max(loss.traits.outputs, 2)
    X, y = table(classes, n)
    problem, budget = dc.Problem(loss, feature_bound=1.0, intercept=0.5), dc.Budget(epsilon, 1e-6)
    shaped = form(algorithm, problem, n, 4, budget)
    plan = getattr(dc.algorithms, algorithm)().plan(shaped, n=n, d=4, budget=budget)
    found = []
    for seed in range(RUNS):
        p = plan.run(X, 2 * y - 1 if classes == 2 else y, seed=seed).predict(X)
        found.append(p.mean(axis=0) if p.ndim == 2 else [1 - p.mean(), p.mean()])
    return np.array(found), np.bincount(y.astype(int), minlength=classes) / n


def picks(loss):
    return candidates(contest_of(dc.Problem(loss), n=10**4, d=4), dc.algorithms.names())


CASES = [(loss, name) for loss in (dc.losses.Logistic(), dc.losses.Softmax(3)) for name in picks(loss)]


@pytest.mark.parametrize(("loss", "algorithm"), CASES, ids=lambda case: getattr(case, "__class__", case).__name__)
def test_class_means_are_right_within_two_standard_errors_of_the_noise(loss, algorithm):
    n, epsilon = (8000, 1000.0) if loss.traits.outputs == 1 else (4000, 200.0)  # where neither loss is shifted
    means, shares = class_means(algorithm, loss, n, epsilon)
    assert np.all(np.abs(means.mean(axis=0) - shares) <= 2.0 * means.std(axis=0, ddof=1))


@pytest.mark.parametrize(("loss", "algorithm"), CASES, ids=lambda case: getattr(case, "__class__", case).__name__)
def test_class_means_are_near_at_a_moderate_budget(loss, algorithm):
    means, shares = class_means(algorithm, loss, 4000, 4.0)
    assert np.all(np.abs(means.mean(axis=0) - shares) < 0.02)


def test_every_pick_for_classes_is_among_the_cases():
    for loss in (dc.losses.Logistic(), dc.losses.Softmax(3)):
        for n, epsilon in ((100, 0.1), (10**6, 10.0)):
            plan = dc.choose(dc.Problem(loss), n=n, d=10, budget=dc.Budget(epsilon, 1e-9))
            assert (loss, type(plan.algorithm).__name__) in CASES


def test_gradients_of_a_softmax_are_clipped_only_where_noise_is_much():
    problem = dc.Problem(dc.losses.Softmax(5))
    clips = [softmax_clip(problem, n, 10, dc.Budget(1.0, 1e-9)) for n in (10, 1000, 10_000, 10**6)]
    assert clips == sorted(clips)
    assert clips[0] == 0.5
    assert clips[-1] == problem.loss.slope_bound(np.inf)
    plan = dc.algorithms.NoisyGD(clip=0.3).plan(problem, n=1000, d=10, budget=dc.Budget(1.0, 1e-9))
    assert plan.schedule[0].clip == 0.3
