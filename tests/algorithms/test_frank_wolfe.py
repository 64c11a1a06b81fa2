"""FrankWolfe: laws of whole runs by enumeration, sensitivity of the scores, accuracy, containers and refusals."""

import itertools
import json
import math
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.algorithms.frank_wolfe import FrankWolfe, default_steps, excess_loss, largest_gradient_entry, stepped
from dpconvex.data.arrays import open_rows
from dpconvex.errors import HypothesisError, InputError, ReleaseError, VerificationError
from dpconvex.kernel.receipt import sealed
from dpconvex.loops.entries import largest_entries
from dpconvex.loops.rows import CSR, Dense
from dpconvex.noise.source import Source
from dpconvex.plan.port import NoisePort
from dpconvex.testing.noiseless import NoiselessPort
from dpconvex.theorems.numerics.bounded_range import BoundedRange

SPARSE = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(3.0), dc.bounds.Linf(1.0))
LASSO = dc.Problem(dc.losses.Squared(), dc.domains.L1Ball(2.0), dc.bounds.Linf(0.5))
BUDGET = dc.Budget(1.0, 1e-6)


class Told(NoiselessPort):
    """A port that answers corners fixed in advance and keeps the scores it was asked about."""

    def __init__(self, plan, corners):
        super().__init__(plan)
        self.corners, self.scores = list(corners), []

    def select(self, name, value):
        self.scores.append(value.copy())
        super().select(name, value)
        return self.corners[len(self.scores) - 1]


def scores_of(plan, X, y, corners):
    port = Told(plan, corners)
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    return np.array(port.scores)


def law_of_runs(plan, X, y, noise=1.0):
    """Probability of every sequence of corners, by enumeration."""
    count, steps = plan.releases[0].shape[0], plan.releases[0].times
    scale = noise * plan.releases[0].scale
    found = {}
    for corners in itertools.product(range(count), repeat=steps):
        scores = scores_of(plan, X, y, corners) / scale
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        found[corners] = math.exp(sum(logs[t, c] for t, c in enumerate(corners)))
    return np.array(list(found.values()))


def stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def data(n, d, rng, problem=SPARSE):
    X = rng.uniform(-1.5, 1.5, size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y if problem.loss.traits.labels == "sign" else y * rng.random(n)


# Privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [SPARSE, LASSO], ids=["logistic", "squared"])
@pytest.mark.parametrize(("d", "steps"), [(1, 1), (1, 2), (2, 1), (2, 2), (1, 4)])
def test_whole_runs_keep_to_the_claim(problem, d, steps, rng):
    """Exact laws of everything released, on random neighbours and on the worst ones, at every epsilon."""
    n, epsilons = 3, np.array([0.0, 0.1, 0.3, 0.6, 0.9])
    plan = FrankWolfe(steps=steps).plan(problem, n=n, d=d, budget=BUDGET)
    stated = np.array([plan.claim.delta(e) for e in epsilons])
    for trial in range(12):
        X, y = data(n, d, rng, problem)
        other, labels = X.copy(), y.copy()
        other[1] = rng.uniform(-2, 2, d)
        labels[1] = rng.choice([-1.0, 1.0])
        if trial >= 6:  # rows at the bound, the record turned round
            X = other = np.sign(X)
            labels[1] = -y[1]
        p, q = law_of_runs(plan, X, y), law_of_runs(plan, other, labels)
        assert p.sum() == pytest.approx(1.0)
        found = [max(stick(p, q, e), stick(q, p, e)) for e in epsilons]
        assert (np.array(found) <= stated * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", [1.0, 0.9, 0.5])
def test_the_claim_is_nearly_attained_and_less_noise_is_caught(noise):
    """One record of the steepest loss against its opposite, and others that place it where it hurts most."""
    problem = dc.Problem(dc.losses.Linear(1.0), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    plan = FrankWolfe(steps=1).plan(problem, n=5, d=1, budget=dc.Budget(1.0, 1e-3))
    y, changed = np.ones(5), np.array([-1.0, 1.0, 1.0, 1.0, 1.0])
    best = 0.0
    for others in np.linspace(-1, 1, 81):  # where they are decides t
        X = np.full((5, 1), others)
        X[0] = 1.0
        p, q = law_of_runs(plan, X, y, noise), law_of_runs(plan, X, changed, noise)
        best = max(best, stick(p, q, 0.5), stick(q, p, 0.5))
    stated = plan.claim.delta(0.5)
    assert (best > stated) == (noise < 1.0)
    assert best > 0.95 * stated


def test_noise_for_masking_does_not_do_for_replacing():
    problem = dc.Problem(dc.losses.Linear(1.0), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    masked, replaced = (
        FrankWolfe(steps=1).plan(problem, n=2, d=1, budget=dc.Budget(1.0, 1e-3, r)) for r in ("zero_out", "replace_one")
    )
    assert replaced.releases[0].scale == pytest.approx(2 * masked.releases[0].scale)
    X, y = np.ones((2, 1)), np.array([1.0, -1.0])
    p, q = law_of_runs(masked, X, y), law_of_runs(masked, X, -y * [1.0, -1.0])
    assert stick(p, q, 0.5) > replaced.claim.delta(0.5)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_record_moves_no_score_by_more_than_stated(relation, clip, container, rng):
    n, d, steps = 6, 4, 3
    moves = {"replace_one": 2.0, "zero_out": 1.0}[relation]
    problem = dc.Problem(dc.losses.LogCosh(2.0, 3.0), dc.domains.L1Ball(5.0), dc.bounds.Linf(0.7), intercept=1.3)
    plan = FrankWolfe(steps=steps, clip=clip).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    allowed = plan.schedule[0].clip
    most = 0.0
    for _ in range(300):
        X, y = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 2), rng.uniform(-4, 4, n)
        other, labels = X.copy(), y.copy()
        record = rng.integers(n)
        other[record], labels[record] = rng.normal(size=d) * 3, -np.sign(y[record]) * 9.0
        corners = rng.integers(0, 2 * (d + 1), steps)
        a = scores_of(plan, container(X), y, corners)
        if relation == "replace_one":
            b = scores_of(plan, container(other), labels, corners)
        else:  # masked: nothing of the record is left in the sum
            rows, targets = open_rows(container(X), y, problem, n, d)
            rows = rows._replace(weights=np.where(np.arange(n) == record, 0.0, 1.0))
            port = Told(plan, corners)
            plan.algorithm.execute(plan, rows, targets, port)
            b = np.array(port.scores)
        gap = a - b
        assert np.abs(gap).max() <= moves * allowed * (1 + 1e-12)
        assert np.ptp(gap, axis=1).max() <= plan.claim.profile.width * plan.releases[0].scale * (1 + 1e-12)
        most = max(most, float(np.abs(gap).max()))
    assert most > 0.9 * moves * allowed


def test_runs_follow_their_law(rng):
    n, d = 4, 1
    X, y = data(n, d, rng)
    plan = FrankWolfe(steps=2).plan(SPARSE, n=n, d=d, budget=dc.Budget(30.0, 1e-3))
    wanted = law_of_runs(plan, X, y)
    count, seen = 4000, np.zeros(4)
    rows, labels = open_rows(X, y, SPARSE, n, d)
    for _ in range(count):
        port = NoisePort(plan.claim, Source())
        plan.algorithm.execute(plan, rows, labels, port)
        first, second = port.history("corners")
        seen[2 * first + second] += 1 / count
    assert (abs(seen - wanted) < 4.5 * np.sqrt(wanted * (1 - wanted) / count) + 1e-9).all()
    assert wanted.min() < 0.1 < wanted.max()


def test_receipts_are_proved_again_and_betray_a_change(rng):
    X, y = data(30, 3, rng)
    solution = FrankWolfe(steps=4).plan(SPARSE, n=30, d=3, budget=BUDGET).run(X, y, dataset="frank wolfe")
    assert dc.verify(solution.receipt)
    for change in ("clip", "scale", "times"):
        told = json.loads(solution.receipt.to_json())
        inner = told["claim"]["derivation"]["from"]["claim"]
        premises = inner["from"]
        assert inner["by"] == "report_noisy_max"
        (premises if change == "clip" else premises["release"])[change] *= 2
        with pytest.raises(VerificationError, match="claim: its plan makes another one"):
            dc.verify(sealed(told))  # whoever lies, lies throughout
    assert solution.iterates["corners"].shape == (4,)
    assert solution.iterates["corners"].dtype.kind == "i"
    w = np.zeros(3)
    for t, corner in enumerate(solution.iterates["corners"]):
        w = stepped(w, int(corner), t, 3.0)
    assert np.array_equal(w, solution.weights)  # the weights are a function of the corners


def test_choices_and_noise_are_not_exchanged(rng):
    choice = FrankWolfe(steps=2).plan(SPARSE, n=10, d=2, budget=BUDGET)
    port = NoisePort(choice.claim, Source())
    with pytest.raises(ReleaseError, match="choice"):
        port.add("corners", np.zeros(4))
    with pytest.raises(ReleaseError, match="shape"):
        port.select("corners", np.zeros(5))
    with pytest.raises(ReleaseError, match="float64"):
        port.select("corners", np.zeros(4, dtype=np.float32))
    assert port.select("corners", np.array([0.0, 1e9, 0.0, 0.0])) == 1
    with pytest.raises(ReleaseError, match="never drawn"):
        port.close()
    port.select("corners", np.zeros(4))
    with pytest.raises(ReleaseError, match="2 times"):
        port.select("corners", np.zeros(4))
    assert port.close() == ["corners"]
    sums = dc.algorithms.MeanDirection().plan(SPARSE, n=10, d=2, budget=BUDGET)
    with pytest.raises(ReleaseError, match="not a choice"):
        NoisePort(sums.claim, Source()).select("direction", np.zeros(2))
    with pytest.raises(ReleaseError, match="not a sample"):
        NoisePort(choice.claim, Source()).lend_sample("corners", stepped)


# The simplex -------------------------------------------------------------------------------------------------------

MIXTURE = dc.Problem(dc.losses.Logistic(), dc.domains.Simplex(3.0), dc.bounds.Linf(1.0))
MIXED_SQUARES = dc.Problem(dc.losses.Squared(), dc.domains.Simplex(2.0), dc.bounds.Linf(0.5))


@pytest.mark.parametrize("problem", [MIXTURE, MIXED_SQUARES], ids=["logistic", "squared"])
@pytest.mark.parametrize(("d", "steps"), [(1, 1), (2, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_runs_on_a_simplex_keep_to_the_claim(problem, d, steps, relation, rng):
    """Exact laws of everything released, on random neighbours and on rows whose entries differ in sign."""
    n, epsilons = 3, np.array([0.0, 0.1, 0.3, 0.6, 0.9])
    plan = FrankWolfe(steps=steps).plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-6, relation))
    assert plan.releases[0].shape == (d,)
    stated = np.array([plan.claim.delta(e) for e in epsilons])
    for trial in range(8):
        X, y = data(n, d, rng, problem)
        if trial >= 4:
            X = np.where((np.arange(d) + rng.integers(2)) % 2, 1.0, -1.0) * np.ones((n, 1))
        other, labels = X.copy(), y.copy()
        if relation == "zero_out":
            other[1] = 0.0  # a row of zeros has no gradient
        else:
            labels[1] = -y[1]
            other[1] = X[1] if trial >= 4 else rng.uniform(-2, 2, d)
        p, q = law_of_runs(plan, X, y), law_of_runs(plan, other, labels)
        found = [max(stick(p, q, e), stick(q, p, e)) for e in epsilons]
        assert p.sum() == pytest.approx(1.0)
        assert (np.array(found) <= stated * (1 + 1e-9) + 1e-15).all()


@pytest.mark.parametrize("noise", [1.0, 0.9, 0.5])
def test_the_range_on_a_simplex_is_no_smaller_than_on_the_ball(noise):
    """A row of 1 and -1 moves two corners apart as far as the two signs of a coordinate."""
    problem = dc.Problem(dc.losses.Linear(1.0), dc.domains.Simplex(), dc.bounds.Linf(1.0))
    plan = FrankWolfe(steps=1).plan(problem, n=5, d=2, budget=dc.Budget(1.0, 1e-3))
    y, changed = np.ones(5), np.array([-1.0, 1.0, 1.0, 1.0, 1.0])
    best = 0.0
    for others in np.linspace(-1, 1, 81):
        X = np.full((5, 2), [others, -others])
        X[0] = [1.0, -1.0]
        p, q = law_of_runs(plan, X, y, noise), law_of_runs(plan, X, changed, noise)
        best = max(best, stick(p, q, 0.5), stick(q, p, 0.5))
    stated = plan.claim.delta(0.5)
    assert (best > stated) == (noise < 1.0)
    assert best > 0.95 * stated


def test_it_starts_in_the_middle_and_stays_on_the_simplex(rng):
    X, y = data(30, 4, rng)
    plan = FrankWolfe(steps=3).plan(MIXTURE, n=30, d=4, budget=BUDGET)
    rows, labels = open_rows(X, y, MIXTURE, 30, 4)
    port = Told(plan, [2, 2, 0])
    plan.algorithm.execute(plan, rows, labels, port)
    clipped, middle = np.clip(X, -1, 1), np.full(4, 0.75)
    slope = -labels / (1.0 + np.exp(labels * (clipped @ middle)))
    slope = slope * np.minimum(1.0, 0.5 / np.abs(slope[:, None] * clipped).max(axis=1))
    assert np.allclose(port.scores[0], -slope @ clipped)
    w = plan.run(X, y, dataset="mixture").weights
    assert w.min() >= 0.0
    assert w.sum() == pytest.approx(3.0)
    assert np.count_nonzero(w) <= 3
    assert "corners of the simplex" in str(plan)


@pytest.mark.parametrize("problem", [MIXTURE, MIXED_SQUARES], ids=["logistic", "squared"])
def test_without_noise_it_reaches_the_minimum_on_the_simplex(problem, rng):
    X, y = data(80, 6, rng, problem)
    top = problem.feature_bound.radius
    X = np.clip(X, -top, top)
    whole = largest_gradient_entry(problem, 6)
    plan = FrankWolfe(steps=300, clip=whole).plan(problem, n=80, d=6, budget=dc.Budget(10.0, 1e-3))
    port = NoiselessPort(plan)
    plan.algorithm.execute(plan, *open_rows(X, y, problem, 80, 6), port)
    w = plan.algorithm.finish(plan, port)
    excess = mean_loss(problem, X, y, w) - mean_loss(problem, X, y, minimum_on_ball(problem, X, y))
    assert -1e-9 <= excess <= excess_loss(problem, 80, 6, 0.0, 300)
    assert problem.domain.radius == pytest.approx(w.sum())


def test_one_corner_is_no_choice():
    plan = FrankWolfe().plan(MIXTURE, n=20, d=1, budget=BUDGET)
    assert plan.run(np.ones((20, 1)), np.ones(20)).weights.tolist() == [3.0]
    with_constant = dc.Problem(dc.losses.Logistic(), dc.domains.Simplex(), dc.bounds.Linf(1.0), intercept=1.0)
    assert FrankWolfe().plan(with_constant, n=20, d=1, budget=BUDGET).releases[0].shape == (2,)


# Accuracy ----------------------------------------------------------------------------------------------------------


def minimum_on_ball(problem, X, y, steps=3000):
    """Projected accelerated gradient descent, on the mean loss."""
    domain, n = problem.domain, len(y)
    rate = n / (problem.loss.curvature_bound() * np.linalg.norm(X, 2) ** 2 + problem.l2)
    w = v = np.zeros(X.shape[1])
    slope = np.vectorize(problem.loss.slope)
    for t in range(steps):
        new = domain.project(v - rate * (X.T @ slope(X @ v, y) / n + problem.l2 * v / n))
        v = new + t / (t + 3) * (new - w)
        w = new
    return w


def mean_loss(problem, X, y, w):
    return float(np.vectorize(problem.loss.value)(X @ w, y).mean() + problem.l2 / 2 * w @ w / len(y))


@pytest.mark.parametrize(
    "loss",
    [
        dc.losses.Logistic(), dc.losses.SmoothedHinge(0.5), dc.losses.Squared(), dc.losses.Huber(0.5),
        dc.losses.LogCosh(0.5),
    ],
    ids=lambda loss: type(loss).__name__,
)  # fmt: skip
@pytest.mark.parametrize("l2", [0.0, 20.0])
def test_without_noise_it_reaches_the_minimum_on_the_ball(loss, l2, rng):
    problem = dc.Problem(loss, dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0), l2=l2)
    X, y = data(80, 6, rng, problem)
    X = np.clip(X, -1, 1)
    whole = largest_gradient_entry(problem, 6)
    plan = FrankWolfe(steps=300, clip=whole).plan(problem, n=80, d=6, budget=dc.Budget(10.0, 1e-3))
    port = NoiselessPort(plan)
    plan.algorithm.execute(plan, *open_rows(X, y, problem, 80, 6), port)
    w = plan.algorithm.finish(plan, port)
    excess = mean_loss(problem, X, y, w) - mean_loss(problem, X, y, minimum_on_ball(problem, X, y))
    bound = excess_loss(problem, 80, 6, 0.0, 300)
    assert -1e-9 <= excess <= bound < 0.06
    assert np.abs(w).sum() <= 1.0 + 1e-12


def test_the_stated_accuracy_holds_on_average_and_is_not_absurd(rng):
    n, d = 4000, 40
    problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    X = rng.choice([-1.0, 1.0], (n, d))
    y = np.where(X[:, :5].sum(axis=1) + rng.normal(size=n) > 0, 1.0, -1.0)
    plan = FrankWolfe(clip=largest_gradient_entry(problem, d)).plan(problem, n=n, d=d, budget=dc.Budget(2.0, 1e-6))
    best = mean_loss(problem, X, y, minimum_on_ball(problem, X, y, 500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [mean_loss(problem, X, y, plan.run(X, y, dataset=f"fw {i}").weights) - best for i in range(10)]
    stated = excess_loss(problem, n, d, plan.releases[0].scale, plan.releases[0].times)
    assert 0.0 < np.mean(runs) <= stated
    assert f"at most {stated:.2g} above" in plan.utility
    assert stated < 0.5


def test_it_finds_the_features_that_matter_among_many(rng):
    n, d = 4000, 3000
    X = sparse.random_array((n, d), density=0.01, rng=rng, data_sampler=lambda size: rng.choice([-1.0, 1.0], size))
    dense = rng.choice([-1.0, 1.0], (n, 4))
    X = sparse.csr_array(sparse.hstack([dense, X]))
    y = np.where(dense @ [1.0, -1.0, 1.0, -1.0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    plan = FrankWolfe().plan(SPARSE, n=n, d=d + 4, budget=dc.Budget(4.0, 1e-6))
    w = plan.run(X, y).weights
    assert len(np.flatnonzero(w)) <= plan.schedule[0].steps
    assert set(np.argsort(-abs(w))[:4]) == {0, 1, 2, 3}
    assert (np.sign(w[:4]) == [1, -1, 1, -1]).all()


# The plan ----------------------------------------------------------------------------------------------------------


def test_steps_grow_with_records_and_budget_and_stay_within_limits():
    def steps(n=20_000, d=1000, epsilon=1.0, radius=5.0, clip=1.0):
        problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(radius), dc.bounds.Linf(1.0))
        return default_steps(problem, n, d, dc.Budget(epsilon, 1e-6), clip)

    assert 10 == steps(n=50) < steps() < steps(n=80_000) <= 500
    assert steps(epsilon=0.3) < steps() < steps(epsilon=3.0)
    assert steps(d=100_000) < steps()
    assert steps(radius=2.0) < steps() < steps(clip=0.5)
    assert steps(n=10**9) == 500


def test_the_gradient_bound_is_attained_and_counts_the_constant_feature():
    assert largest_gradient_entry(LASSO, 3) == pytest.approx(0.5 * (1.0 + 1.0))
    tall = dc.Problem(dc.losses.Squared(), dc.domains.L1Ball(2.0), dc.bounds.Linf(0.5), intercept=3.0)
    assert largest_gradient_entry(tall, 3) == pytest.approx(3.0 * (6.0 + 1.0))
    columns = dc.Problem(dc.losses.Huber(9.0, 1.0), dc.domains.L1Ball(1.0), dc.bounds.Columns((-4.0, 0.0), (1.0, 2.0)))
    assert largest_gradient_entry(columns, 2) == pytest.approx(4.0 * 5.0)
    with pytest.raises(InputError, match="columns"):
        FrankWolfe().plan(columns, n=20, d=3, budget=BUDGET)


def test_a_smaller_clip_means_less_noise_and_says_so():
    whole = largest_gradient_entry(SPARSE, 9)
    plain, usual, cut = (
        FrankWolfe(steps=8, clip=c).plan(SPARSE, n=500, d=9, budget=BUDGET) for c in (whole, None, 0.25)
    )
    assert usual.schedule[0].clip == 0.5  # the slope of the logistic loss at weights of zero
    assert plain.releases[0].scale == pytest.approx(whole / 0.25 * cut.releases[0].scale)
    assert "cut off" in cut.utility
    assert "cut off" not in plain.utility
    assert "8 steps" in str(cut)
    assert isinstance(plain.claim.profile, BoundedRange)


def test_a_useless_bound_says_that_it_is_vacuous():
    assert "vacuous" in FrankWolfe().plan(SPARSE, n=20, d=1000, budget=BUDGET).utility


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "steps"), ({"steps": 1001}, "steps"), ({"steps": 2.0}, "steps"), ({"steps": True}, "steps"),
        ({"clip": 0.0}, "clip"), ({"clip": math.inf}, "clip"), ({"clip": math.nan}, "clip"), ({"clip": "1"}, "clip"),
    ],
)  # fmt: skip
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        FrankWolfe(**options)


def test_problems_it_cannot_solve_are_refused():
    for problem, words in (
        (dc.Problem(dc.losses.Logistic()), "L1Ball"),
        (dc.Problem(dc.losses.Logistic(), dc.domains.LpBall(1.0, 2.0)), "L1Ball"),
        (dc.Problem(dc.losses.Softmax(3), dc.domains.L1Ball(1.0)), "one prediction"),
        (dc.Problem(dc.losses.Hinge(), dc.domains.L1Ball(1.0)), "smooth"),
    ):
        with pytest.raises(HypothesisError, match=words):
            FrankWolfe().plan(problem, n=20, d=2, budget=BUDGET)
    with pytest.raises(InputError, match="delta"):
        FrankWolfe().plan(SPARSE, n=20, d=2, budget=dc.Budget(1.0, 1e-40))


# Data --------------------------------------------------------------------------------------------------------------


def test_edges_of_the_data(rng):
    for n, d, intercept in ((2, 1, 0.0), (2, 1, 1.0), (3, 5, 2.0)):
        problem = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(3.0), dc.bounds.Linf(1.0), intercept=intercept)
        plan = FrankWolfe().plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-3))
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        for X in (np.zeros((n, d)), np.full((n, d), 1e300), np.full((n, d), -1e-300), rng.normal(size=(n, d))):
            for rows in (X, sparse.csr_matrix(X), X.astype(np.int8) if abs(X).max() < 1 else X):
                w = plan.run(rows, y, dataset="edges").weights
                assert w.shape == (d + bool(intercept),)
                assert np.abs(w).sum() <= 3.0 * (1 + 1e-12)
        for bad in (np.full((n, d), np.nan), np.full((n, d), np.inf)):
            with pytest.raises(InputError, match="finite"):
                plan.run(bad, y)
        with pytest.raises(InputError, match="shape"):
            plan.run(np.zeros((n, d + 1)), y)
        with pytest.raises(InputError, match="labels"):
            plan.run(np.zeros((n, d)), y * 2)


def test_rows_of_zero_choose_corners_by_noise_alone():
    plan = FrankWolfe(steps=1).plan(SPARSE, n=10, d=2, budget=BUDGET)
    law = law_of_runs(plan, np.zeros((10, 2)), np.ones(10))
    assert np.allclose(law, 0.25)


def test_rows_are_not_touched_and_copied_once_whatever_they_hold(rng):
    X = np.clip(rng.normal(size=(4000, 200)), -1, 1)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    plan = FrankWolfe(steps=3).plan(SPARSE, n=4000, d=200, budget=BUDGET)
    for rows in (X, sparse.csr_array(X)):
        (rows.data if sparse.issparse(rows) else rows).setflags(write=False)
        plan.run(rows, y)
    outside = 3.0 * X
    outside.setflags(write=False)
    for rows in (X, outside):
        tracemalloc.start()
        plan.run(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert X.nbytes < peak < 1.1 * X.nbytes


def test_largest_entries_are_those_of_the_shortened_rows(rng):
    X = rng.normal(size=(50, 7)) * 10.0 ** rng.uniform(-2, 2, (50, 1))
    X[3] = 0.0
    short = X * np.minimum(1.0, 2.0 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    wanted = np.maximum(abs(short).max(axis=1), 0.25)
    thin = sparse.csr_array(X)
    for dtype, close in ((np.float64, 1e-14), (np.float32, 1e-6)):
        dense = largest_entries(Dense(X.astype(dtype), 2.0, 0.25), 50)
        assert np.allclose(dense, wanted, rtol=close)
        rows = CSR(thin.data.astype(dtype), thin.indices, thin.indptr, 7, 2.0, 0.25)
        assert np.allclose(largest_entries(rows, 50), wanted, rtol=close)


def test_weights_of_records_count(rng):
    X, y = data(40, 3, rng)
    plan = FrankWolfe(steps=2).plan(SPARSE, n=40, d=3, budget=BUDGET)
    whole = plan.run(X, y, seed=2).weights
    assert np.array_equal(whole, plan.run(X, y, sample_weight=np.ones(40), seed=2).weights)
    corners = [0, 0]
    rows, labels = open_rows(X, y, SPARSE, 40, 3)
    port = Told(plan, corners)
    plan.algorithm.execute(plan, rows._replace(weights=np.full(40, 0.5)), labels, port)
    assert np.allclose(port.scores, 0.5 * scores_of(plan, X, y, corners))
