"""What one record can move: the theorems against brute force, and the runs against the theorems."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)
from slices import one_in

import dpconvex as dc
from dpconvex.algorithms.attacks import NONE, Mutant
from dpconvex.audit.replay import log_ratios, noise_size
from dpconvex.audit.whitebox import stated_sensitivities
from dpconvex.errors import HypothesisError, InputError
from dpconvex.loops.rows import Dense
from dpconvex.queries.evaluation import METRICS, HeldOut, by_subgroup, estimates, units
from dpconvex.queries.records import BINS, ScoreCounts, bin_sums, mean_sums, rank_sums
from dpconvex.sums.protocol import Part
from dpconvex.testing.noiseless import run_without_noise
from dpconvex.theorems import evaluation as theorems

RELATIONS = ("replace_one", "zero_out")
LOGISTIC = dc.Problem(dc.losses.Logistic(), feature_bound=1.0)
SQUARED = dc.Problem(dc.losses.Squared(), feature_bound=1.0)
BUDGET = dc.Budget(4.0, 1e-6)
OF_CLASSES, OF_NUMBERS = ("accuracy", "log_loss", "auc", "calibration"), ("mse", "mae", "r2")
COUNTED = ("recall", "precision", "specificity", "balanced_accuracy", "pr_auc")


def most(terms, others, relation):
    """Largest norm of a change of one record's term."""
    if relation == "zero_out":
        return np.linalg.norm(terms, axis=-1).max()
    return max(np.linalg.norm(others - term, axis=-1).max() for term in terms)


# The theorems ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("count", [1, 2])
def test_squares_beside_a_bounded_sum_are_free(relation, count):
    grid = np.linspace(-1.0, 1.0, 401 if count == 1 else 31)
    one = np.column_stack([grid, 1.0 - grid**2])
    terms = one if count == 1 else np.array([np.append(a, b) for a, b in itertools.product(one, one)])
    stated = theorems.bounded_sums(count, relation).value
    found = most(terms, terms, relation)
    assert found <= stated
    assert found == pytest.approx(stated, rel=1e-9)
    assert stated == pytest.approx(math.sqrt(count) * (2.0 if relation == "replace_one" else 1.0), rel=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bins", [1, 2, 3, 10, 50])
def test_bins_of_a_record_move_by_no_more_than_stated(relation, bins):
    chances = np.linspace(0.0, 1.0, 201)
    records = [(p, y) for p in chances for y in (0.0, 1.0)]
    terms = np.zeros((len(records), bins, 3))
    for row, (p, y) in zip(terms, records, strict=True):
        row[min(int(p * bins), bins - 1)] = theorems.COUNT_FACTOR, y - p, 1.0 - (y - p) ** 2
    terms = terms.reshape(len(records), -1)
    stated, found = theorems.binned_sums(bins, relation).value, most(terms, terms, relation)
    assert found <= stated * (1 + 1e-12)
    assert found >= stated * (1.0 - 1e-2)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_mean_in_groups_costs_what_it_costs_without_and_a_count_no_more_than_its_cell(relation):
    grid = np.linspace(-1.0, 1.0, 201)
    one = np.column_stack([np.full(201, theorems.COUNT_FACTOR), grid, 1.0 - grid**2])
    terms = np.concatenate([np.pad(one, ((0, 0), (3 * k, 6 - 3 * k))) for k in range(3)] + [np.zeros((1, 9))])
    stated = theorems.grouped_sums(relation).value
    assert stated * (1 - 1e-9) <= most(terms, terms, relation) <= stated
    if relation == "replace_one":
        assert stated == theorems.bounded_sums(1, relation).value
    cells = np.concatenate([np.eye(4), np.zeros((1, 4))])
    stated = theorems.cell_counts(relation).value
    assert stated * (1 - 1e-9) <= most(cells, cells, relation) <= stated


def ranks_by_hand(records, n):
    """The vector of the theorem from its definition, over all pairs; records are (score, in the second class)."""
    high, low = [s for s, second in records if second], [s for s, second in records if not second]
    h = np.array([[0.5 * np.sign(s - t) for t in low] for s in high]).reshape(len(high), len(low))
    squares = ((h.sum(axis=0) / n) ** 2).sum() + ((h.sum(axis=1) / n) ** 2).sum()
    half = 0.5 * (len(high) - len(low))
    return np.array([theorems.CLASS_FACTOR * half, h.sum() / (n - 1), theorems.SPREAD_FACTOR * squares])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_ranks_of_every_small_data_set_move_by_no_more_than_stated(n):
    kinds = [(s, second) for s in range(max(n, 3)) for second in (False, True)]
    stated = {relation: theorems.ranking_sums(relation).value for relation in RELATIONS}
    furthest = dict.fromkeys(RELATIONS, 0.0)
    for others in itertools.combinations_with_replacement(kinds, n - 1):
        bare = ranks_by_hand(others, n)
        with_one = np.array([ranks_by_hand((*others, kind), n) for kind in kinds])
        furthest["zero_out"] = max(furthest["zero_out"], np.linalg.norm(with_one - bare, axis=1).max())
        apart = np.linalg.norm(with_one[:, None] - with_one[None], axis=2).max()
        furthest["replace_one"] = max(furthest["replace_one"], apart)
    assert all(furthest[relation] <= stated[relation] for relation in RELATIONS), furthest
    assert furthest["replace_one"] >= stated["replace_one"] * (1 - 1e-9)  # the only one of the other class, turned over


def test_ranks_of_larger_data_sets_move_by_no_more_than_stated_and_nearly_that_far(rng):
    stated = {relation: theorems.ranking_sums(relation).value for relation in RELATIONS}
    for n in (10, 40):
        for _ in range(300):
            share, spread = rng.random(), rng.choice([2, 5, 1000])
            others = [(int(rng.integers(spread)), bool(rng.random() < share)) for _ in range(n - 1)]
            bare = ranks_by_hand(others, n)
            ends = [(s, c) for s in (-1, int(rng.integers(spread)), spread) for c in (False, True)]
            with_one = np.array([ranks_by_hand([*others, kind], n) for kind in ends])
            assert np.linalg.norm(with_one - bare, axis=1).max() <= stated["zero_out"]
            assert np.linalg.norm(with_one[:, None] - with_one[None], axis=2).max() <= stated["replace_one"]
    n = 500
    others = [(0, False)] * (n - 1)
    masked = np.linalg.norm(ranks_by_hand([*others, (1, True)], n) - ranks_by_hand(others, n))
    assert masked > 0.995 * stated["zero_out"]


def test_theorems_refuse_what_they_cannot_use():
    for theorem in (theorems.bounded_sums, theorems.binned_sums):
        for wrong in (0, -1, 1.0, True, "1", None):
            with pytest.raises(HypothesisError, match="whole number"):
                theorem(wrong, "replace_one")
        with pytest.raises(InputError, match="relation"):
            theorem(1, "swap")
    with pytest.raises(InputError, match="relation"):
        theorems.ranking_sums("add_remove")


# The sums ----------------------------------------------------------------------------------------------------------


def counted(scores, second):
    """Records of either class at each score, from the lowest to the highest."""
    values = np.unique(scores)
    return np.stack(
        [np.bincount(np.searchsorted(values, scores[own]), minlength=len(values)) for own in (~second, second)]
    )


def test_sums_are_what_their_definitions_say(rng):
    r = rng.uniform(-1, 1, 50)
    assert np.allclose(mean_sums(r), [r.sum(), 50 - (r**2).sum()])
    for n, spread in ((2, 3), (30, 4), (30, 10**6)):
        scores, second = rng.integers(spread, size=n).astype(float), rng.random(n) < 0.4
        assert np.allclose(rank_sums(counted(scores, second)), ranks_by_hand(list(zip(scores, second, strict=True)), n))
    for second in (np.zeros(5, bool), np.ones(5, bool)):
        assert rank_sums(counted(np.arange(5.0), second))[1:].tolist() == [0.0, 0.0]
    chances, second = np.append(rng.random(40), [0.0, 1.0]), rng.random(42) < 0.5
    found, by_hand = bin_sums(chances, second), np.zeros((BINS, 3))
    for p, y in zip(chances, second, strict=True):
        by_hand[min(int(p * BINS), BINS - 1)] += theorems.COUNT_FACTOR, y - p, 1.0 - (y - p) ** 2
    assert np.allclose(found, by_hand)


def without_noise_metrics(problem, weights, metrics, X, y, thresholds=(0.5,)):
    algorithm = HeldOut(tuple(map(float, np.ravel(weights))), metrics, thresholds=thresholds)
    plan = algorithm.plan(problem, n=len(X), d=X.shape[1], budget=dc.Budget(1000.0, 1e-6))
    released = run_without_noise(plan, X, y)[1]
    unit = units(algorithm, 1.0, problem.loss.traits.outputs)
    return {name: e.metric(0.95, *unit[name]) for name, e in estimates(plan, released).items()}


def test_without_noise_the_metrics_are_those_of_scikit_learn(rng):
    X = rng.uniform(-0.6, 0.6, size=(400, 2))
    w = np.array([3.0, -2.0])
    y = np.where(X @ w + rng.logistic(size=400) > 0, 1.0, -1.0)
    found = without_noise_metrics(LOGISTIC, w, OF_CLASSES, X, y)
    p = 1 / (1 + np.exp(-X @ w))
    assert found["accuracy"].value == pytest.approx(((p > 0.5) == (y > 0)).mean())
    assert found["log_loss"].value == pytest.approx(log_loss(y > 0, np.clip(p, 0.01, 0.99)))
    assert found["auc"].value == pytest.approx(roc_auc_score(y, p), abs=1e-4)  # its number of pairs allows for noise
    assert found["calibration"].value == pytest.approx(((y > 0) - p).mean())
    fine = tuple(k / 200 for k in range(1, 200))
    counts = without_noise_metrics(LOGISTIC, w, ("brier", *COUNTED), X, y, fine)
    assert counts["brier"].value == pytest.approx(brier_score_loss(y > 0, p))
    assert counts["recall"].value == pytest.approx(recall_score(y > 0, p > 0.5))
    assert counts["precision"].value == pytest.approx(precision_score(y > 0, p > 0.5))
    assert counts["specificity"].value == pytest.approx(recall_score(y < 0, p <= 0.5))
    assert counts["balanced_accuracy"].value == pytest.approx(balanced_accuracy_score(y > 0, p > 0.5))
    assert counts["pr_auc"].value == pytest.approx(average_precision_score(y > 0, p), abs=0.01)
    yes = int((y > 0).sum())
    recall = counts["recall"].value
    assert counts["recall"].sampling_se == pytest.approx(math.sqrt(recall * (1 - recall) / yes))
    assert found["accuracy"].sampling_se == pytest.approx(math.sqrt(np.var((p > 0.5) == (y > 0)) / 400))
    target = np.clip(X @ [0.9, 0.3] + 0.2 * rng.normal(size=400), -1, 1)
    found = without_noise_metrics(SQUARED, [0.8, 0.4], OF_NUMBERS, X, target)
    predicted = np.clip(X @ [0.8, 0.4], -1, 1)
    assert found["mse"].value == pytest.approx(mean_squared_error(target, predicted))
    assert found["mae"].value == pytest.approx(mean_absolute_error(target, predicted))
    assert found["r2"].value == pytest.approx(r2_score(target, predicted), abs=1e-3)
    error = np.abs(target - predicted)
    assert found["mae"].sampling_se == pytest.approx(error.std() / 20, rel=1e-6)
    softmax = dc.Problem(dc.losses.Softmax(3), feature_bound=1.0)
    W, labels = rng.normal(size=(3, 2)) * 3, rng.integers(3, size=400).astype(float)
    found = without_noise_metrics(softmax, W, ("accuracy", "log_loss", "brier"), X, labels)
    odds = X @ W.T
    p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    assert found["accuracy"].value == pytest.approx((odds.argmax(axis=1) == labels).mean())
    own = p[np.arange(400), labels.astype(int)]
    assert found["log_loss"].value == pytest.approx(-np.log(np.maximum(own, 0.01)).mean())
    truth = np.eye(3)[labels.astype(int)]
    assert found["brier"].value == pytest.approx(((p - truth) ** 2).sum(axis=1).mean())


# Plans and runs ----------------------------------------------------------------------------------------------------


def plan_of(metrics, n, relation="replace_one", weight=50.0, d=1, **options):
    problem = SQUARED if metrics[0] in OF_NUMBERS else LOGISTIC
    budget = dc.Budget(4.0, 1e-6, relation)
    return HeldOut((weight,) * d, tuple(metrics), **options).plan(problem, n=n, d=d, budget=budget)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("metrics", [OF_CLASSES, OF_NUMBERS, *((m,) for m in METRICS)], ids="-".join)
def test_a_plan_spends_the_budget_and_needs_no_data(metrics, relation, rng):
    plan = plan_of(metrics, 30, relation)
    assert plan.to_json() == plan_of(metrics, 30, relation).to_json()
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    assert 4.0 * 0.9999 < plan.claim.epsilon(1e-6) <= 4.0
    assert "noise" in str(plan)
    y = rng.choice([-1.0, 1.0], 30)
    found = plan.run(rng.uniform(-1, 1, (30, 1)), y, seed=1, dataset="evaluated")
    assert dc.verify(dc.Receipt.from_json(found.receipt.to_json()))
    assert found.receipt.covers(found.weights)


@pytest.mark.parametrize("weight", [0.3, 50.0])
@pytest.mark.parametrize("metrics", [OF_CLASSES, OF_NUMBERS], ids="-".join)
def test_a_replaced_record_moves_each_release_by_no_more_than_stated(metrics, weight, rng):
    n = 12
    plan = plan_of(metrics, n, weight=weight, d=2)
    stated = stated_sensitivities(plan.claim)
    assert set(stated) == {r.name for r in plan.releases}
    for _ in range(60):
        X, y = rng.uniform(-1, 1, (n, 2)), rng.choice([-1.0, 1.0], n)
        past = run_without_noise(plan, X, y)[0]
        rows, labels = X.copy(), y.copy()
        rows[0], labels[0] = rng.choice([1e-3, 1.0, 1e6]) * rng.normal(size=2), rng.choice([-1.0, 1.0, -y[0]])
        moved = run_without_noise(plan, rows, labels, past)[0]
        for name, bound in stated.items():
            change = moved._noisy[name][-1] - past.released(name)
            assert np.linalg.norm(change) <= bound * (1 + 1e-9), name


def worst_pair(metric, n):
    """Neighbours between which a metric moves furthest; the model scores 50 x, or predicts x."""
    X, y = np.zeros((n, 1)), np.tile([1.0, -1.0], n)[:n]
    if metric == "auc":  # one record of the second class, from above all others to below them
        y[1:] = -1.0
    elif metric in OF_NUMBERS:  # all others are predicted without error
        X[:, 0] = y
    X[0], y[0] = 1.0, 1.0
    rows, labels = X.copy(), y.copy()
    if metric == "auc":
        rows[0] = -1.0
    elif metric == "calibration":  # wrong at one end of the scale, and at the other
        y[0], rows[0] = -1.0, -1.0
    else:
        labels[0] = -1.0
    return (Dense(X, 1.0, 0.0), y), (Dense(rows, 1.0, 0.0), labels)


def told_apart(metric, mutant, runs=1000, subgroups=0):
    """How far apart the log-likelihood ratios on the worst neighbours are, in standard deviations, and the claim."""
    plan = plan_of((metric,), 12, weight=1.0 if metric in OF_NUMBERS else 50.0, subgroups=subgroups)
    plain, changed = worst_pair(metric, 12)
    if subgroups:
        plain, changed = ((rows._replace(people=np.arange(12) % subgroups), y) for rows, y in (plain, changed))
    noise = np.random.default_rng(3).normal(size=(2, runs, noise_size(plan)))
    under = np.array([log_ratios(plan, mutant, plain, changed, z)[0] for z in noise[0]])
    other = -np.array([log_ratios(plan, mutant, changed, plain, z)[0] for z in noise[1]])
    rates = [np.clip((sample > 0).mean(), 1e-4, 1 - 1e-4) for sample in (other, under)]
    return ndtri(rates[0]) - ndtri(rates[1]), plan.claim.profile.mu


@pytest.mark.parametrize("metric", one_in(2, METRICS))
def test_the_worst_neighbours_are_as_far_apart_as_claimed_and_half_the_noise_is_caught(metric):
    distance, mu = told_apart(metric, NONE)
    chance = 3.9 * math.sqrt(math.pi / 1000)  # of the difference of two normal quantiles
    assert distance <= mu + chance
    assert distance >= 0.9 * mu - chance
    assert told_apart(metric, Mutant("noise halved", noise=0.5))[0] > mu + chance


@pytest.mark.parametrize("metric", one_in(2, ["accuracy", "brier", "mae", "recall"]))
def test_subgroups_have_no_more_than_half_of_a_share_and_half_the_noise_is_caught(metric):
    distance, mu = told_apart(metric, NONE, subgroups=3)
    chance = 3.9 * math.sqrt(math.pi / 1000)
    assert 0.9 * mu - chance <= distance <= mu + chance
    assert told_apart(metric, Mutant("noise halved", noise=0.5), subgroups=3)[0] > mu + chance


def test_subgroups_are_measured_from_their_own_rows(rng):
    X = rng.uniform(-0.6, 0.6, size=(600, 1))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=600) > 0, 1.0, -1.0)
    group = rng.integers(-1, 3, size=600)
    group[group == 1] = 0  # nobody is in the second
    algorithm = HeldOut((5.0,), ("accuracy", "brier", "calibration", "recall", "auc"), subgroups=3)
    plan = algorithm.plan(LOGISTIC, n=600, d=1, budget=dc.Budget(1000.0, 1e-6))
    found = by_subgroup(plan, plan.run(X, y, subgroups=group, seed=1, dataset="in groups").weights)
    unit, p = units(algorithm, 1.0), 1 / (1 + np.exp(-5 * X[:, 0]))
    for k in (0, 2):
        own = group == k
        assert set(found[k]) == {"accuracy", "brier", "calibration", "recall"}
        read = {name: e.metric(0.95, *unit[name]) for name, e in found[k].items()}
        assert read["accuracy"].value == pytest.approx(((p > 0.5) == (y > 0))[own].mean(), abs=0.01)
        assert read["brier"].value == pytest.approx((((y > 0) - p) ** 2)[own].mean(), abs=0.01)
        assert read["recall"].value == pytest.approx((p > 0.5)[own & (y > 0)].mean(), abs=0.02)
        sampling = math.sqrt(read["accuracy"].value * (1 - read["accuracy"].value) / own.sum())
        assert read["accuracy"].sampling_se == pytest.approx(sampling, rel=0.1)
    nobody = found[1]["accuracy"].metric(0.95, 0.5, 0.5)
    assert (nobody.low, nobody.high) == (0.0, 1.0)
    for wrong in (None, group[:5], group.astype(float), ["a"] * 600):
        with pytest.raises(InputError, match="subgroups"):
            plan.run(X, y, subgroups=wrong, dataset="never in groups")
    assert dc.account("never in groups").claims == ()


def test_thresholds_are_checked():
    for bad in ((), (0.5, 0.4), (0.5, 0.5), (math.nan,), [0.5], (1,), None):
        with pytest.raises(InputError, match="thresholds"):
            HeldOut((0.0,), ("recall",), thresholds=bad)
    for bad in ((0.4,), (0.5, 1.0), (0.0, 0.5), (-1.0, 0.5)):
        with pytest.raises(InputError, match="thresholds"):
            plan_of(("recall",), 10, thresholds=bad)
    hinge = dc.Problem(dc.losses.SmoothedHinge(), feature_bound=1.0)
    for points, fits in (((0.0, 7.0), True), ((0.5,), False)):
        plan = HeldOut((1.0,), ("recall",), thresholds=points)
        if fits:
            assert plan.plan(hinge, n=10, d=1, budget=BUDGET).releases[0].shape == (2, 3)
        else:
            with pytest.raises(InputError, match="must hold 0"):
                plan.plan(hinge, n=10, d=1, budget=BUDGET)
    with pytest.raises(InputError, match="needs probabilities"):
        HeldOut((1.0,), ("pr_auc",), thresholds=(0.0,)).plan(hinge, n=10, d=1, budget=BUDGET)
    for bad in (-1, 1.0, True, 10**6):
        with pytest.raises(InputError, match="subgroups"):
            HeldOut((0.0,), ("recall",), subgroups=bad)


def test_metrics_from_the_same_counts_share_one_release():
    alone, together = plan_of(("recall",), 10), plan_of(COUNTED, 10)
    assert [r.name for r in together.releases] == ["counts"]
    assert together.releases[0].scale == alone.releases[0].scale


def test_plans_refuse_what_they_cannot_do():
    for bad in ([0.0], (math.nan,), (math.inf,), (1e200,), (1,), None):
        with pytest.raises(InputError, match="at must be"):
            HeldOut(bad, ("accuracy",))
    for bad in ((), ["accuracy"], ("accuracy", "accuracy"), None):
        with pytest.raises(InputError, match="metrics must be"):
            HeldOut((0.0,), bad)
    with pytest.raises(InputError, match="'f1'; known are accuracy, log_loss"):
        HeldOut((0.0,), ("f1",))
    for bad in (0, 0.0, 1.0, -0.1, math.nan, True, "0.1", None):
        with pytest.raises(InputError, match="least_probability"):
            HeldOut((0.0,), ("log_loss",), bad)
    for loss, metric, words in (
        (dc.losses.Logistic(), "mse", "declared range"),
        (dc.losses.Squared(), "accuracy", "is for classes"),
        (dc.losses.SmoothedHinge(), "log_loss", "needs probabilities"),
        (dc.losses.Hinge(), "calibration", "needs probabilities"),
    ):
        with pytest.raises(InputError, match=f"{metric} .*{words}"):
            HeldOut((0.0,), (metric,)).plan(dc.Problem(loss), n=10, d=1, budget=BUDGET)
    for metric in ("auc", "calibration"):
        with pytest.raises(InputError, match="between two classes, and there are 3"):
            HeldOut((0.0,) * 3, (metric,)).plan(dc.Problem(dc.losses.Softmax(3)), n=10, d=1, budget=BUDGET)
    with pytest.raises(InputError, match="2 weights"):
        HeldOut((0.0, 0.0), ("auc",)).plan(LOGISTIC, n=10, d=3, budget=BUDGET)
    for change in ({"n": 1}, {"n": 0}, {"d": 0}, {"budget": 1.0}):
        with pytest.raises(InputError, match="must be"):
            HeldOut((0.0,), ("auc",)).plan(LOGISTIC, **{"n": 10, "d": 1, "budget": BUDGET, **change})
    plan = HeldOut((0.0,), ("auc",)).plan(LOGISTIC, n=2, d=1, budget=dc.Budget(1.0, 0.01))
    with pytest.raises(InputError, match="no sample_weight"):
        plan.run(np.zeros((2, 1)), [1, -1], sample_weight=[1, 1])


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-12])
def test_a_million_scores_are_ranked_in_public_bins(scale, rng):
    """In moments, and as well as by sorting them, also where scores are far below their bound."""
    import time

    n = 10**6
    second = rng.random(n) < 0.3
    scores = scale * (rng.normal(size=n) + second)
    start = time.perf_counter()
    found = rank_sums(
        ScoreCounts(np.ones(1), reach=10.0).sum(Part((scores,), np.where(second, 1.0, -1.0), None, (), np))
    )
    assert time.perf_counter() - start < 10.0
    exact = rank_sums(counted(scores, second))
    assert found[0] == exact[0]
    assert np.allclose(found[1:], exact[1:], rtol=1e-5)


def test_bins_of_scores_keep_their_order(rng):
    scores = np.sort(
        np.concatenate([[-3.0, 0.0, 3.0, 1e-300, -0.0, 4.0], rng.normal(size=1000) * 10.0 ** rng.uniform(-20, 0, 1000)])
    )
    for reach in (3.0, 0.0, 1e300):
        places = ScoreCounts(np.ones(1), reach)._places(scores, np)
        assert (np.diff(places) >= 0).all()
        assert places.min() >= 0
        assert places.max() <= 2 * 52 * 512
