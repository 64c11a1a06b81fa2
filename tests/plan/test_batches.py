"""Runs on rows in batches: what is released is the same as from all rows at once, and nothing is if one is wrong."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dpconvex as dc
from dpconvex.data.arrays import Batches
from dpconvex.errors import BudgetError, InputError

BALL = dc.domains.L2Ball(0.7)
BUDGET = dc.Budget(8.0, 1e-6)


def made(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = rng.choice([-1.0, 1.0], n)
    X[:, 0] += 0.5 * y
    return X, y


def planned(n, d, domain=BALL, bound=1.0, l2=0.0, **options):
    problem = dc.Problem(dc.losses.Logistic(), domain=domain, feature_bound=bound, l2=l2, intercept=0.3)
    return dc.algorithms.PhasedSGD(**options).plan(problem, n=n, d=d, budget=BUDGET)


def cut(X, y, cuts):
    return ((X[a:b], y[a:b]) for a, b in pairwise([0, *cuts, len(y)]))


def containers(X):
    narrow = X.astype(np.float32)
    return X, narrow, sparse.csr_array(X), sparse.csr_matrix(narrow), np.asfortranarray(X)


@pytest.mark.parametrize("batch", [1, 2, 16])
@pytest.mark.parametrize("domain", [BALL, dc.domains.Box(-0.2, 0.2), dc.domains.Everywhere()], ids=str)
@pytest.mark.parametrize("bound", [1.0, dc.bounds.Linf(0.5), dc.bounds.Lp(3, 1.0)], ids=str)
def test_batches_release_what_all_rows_release_bit_for_bit(batch, domain, bound):
    n, d = 9000, 4  # more rows than the loop goes through between fresh computations of |w|^2
    X, y = made(n, d)
    plan = planned(n, d, domain, bound, l2=20.0, batch=batch)
    for rows in containers(X):
        whole = plan.run(rows, y, seed=1, dataset="batches")
        for cuts in ([], [1, 2, 3, 4099, 8999], list(range(7, n, 501))):
            pieces = plan.run_batches(cut(rows, y, cuts), seed=1, dataset="batches")
            assert np.array_equal(pieces.weights, whole.weights)
            assert pieces.receipt.data == whole.receipt.data


@given(st.lists(st.integers(0, 60), max_size=12).map(sorted), st.sampled_from([1, 3, 7]), st.integers(1, 4))
def test_any_cutting_will_do(cuts, batch, phases):
    """Batches of no rows, of one, and that end within a step or a phase."""
    X, y = made(60, 3)
    plan = planned(60, 3, batch=batch, phases=phases)
    for rows in (X, sparse.csr_array(X.astype(np.float32))):
        whole = plan.run(rows, y, seed=2, dataset="batches")
        assert np.array_equal(plan.run_batches(cut(rows, y, cuts), seed=2, dataset="batches").weights, whole.weights)


@pytest.mark.parametrize(
    "options",
    [{"constants": "paper"}, {"layout": "localisation"}, {"layout": "reduction"}, {"growing": False}],
    ids=str,
)
def test_every_layout_takes_batches(options):
    X, y = made(500, 2)
    plan = planned(500, 2, l2=0.0 if "layout" not in options else 50.0, **options)
    whole = plan.run(X, y, seed=1, dataset="batches")
    assert np.array_equal(plan.run_batches(cut(X, y, [123, 250]), seed=1, dataset="batches").weights, whole.weights)


def test_one_feature_two_rows_and_every_iterate():
    X, y = np.array([[0.5], [-2.0]]), np.array([1.0, -1.0])
    plan = planned(2, 1, release="every iterate")
    whole, pieces = plan.run(X, y, seed=1), plan.run_batches(cut(X, y, [1]), seed=1)
    assert np.array_equal(pieces.weights, whole.weights)
    assert all(np.array_equal(pieces.iterates[name], whole.iterates[name]) for name in ("phase 1", "phase 2"))


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_too_large_to_square_are_brought_back_as_in_a_run(batch, kind):
    X, y = made(100, 3)
    X[[3, 57, 99]] *= 1e200
    plan = planned(100, 3, batch=batch)
    rows = kind(X)
    whole = plan.run(rows, y, seed=1, dataset="batches")
    assert np.array_equal(plan.run_batches(cut(rows, y, [30, 58]), seed=1, dataset="batches").weights, whole.weights)


def test_lists_and_whole_numbers_will_do():
    plan = planned(4, 2)
    X, y = [[0, 1], [1, 0], [1, 1], [0, 0]], [1, -1, 1, -1]
    whole = plan.run(X, y, seed=1)
    pieces = plan.run_batches([[X[:1], y[:1]], ([], []), (X[1:], y[1:])], seed=1)
    assert np.array_equal(pieces.weights, whole.weights)


def test_a_source_may_fill_the_same_array_again():
    X, y = made(300, 3)
    plan = planned(300, 3, batch=7)

    def reused():
        room, labels = np.empty((10, 3)), np.empty(10)
        for start in range(0, 300, 10):
            room[:], labels[:] = X[start : start + 10], y[start : start + 10]
            yield room, labels

    assert np.array_equal(plan.run_batches(reused(), seed=1).weights, plan.run(X, y, seed=1).weights)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_one_batch_is_held_at_a_time(kind):
    X, y = made(300, 3)
    plan, alive = planned(300, 3, batch=7), []

    def watched():
        for start in range(0, 300, 50):
            rows = kind(X[start : start + 50].copy())
            alive.append(weakref.ref(rows.data if sparse.issparse(rows) else rows))
            yield rows, y[start : start + 50]
            del rows
            gc.collect()
            assert not any(ref() is not None for ref in alive)

    plan.run_batches(watched(), seed=1)
    assert len(alive) == 6


# What is wrong -------------------------------------------------------------------------------------------------------


def good(plan):
    X, y = made(plan.n, plan.d)
    return [(X[a : a + 20], y[a : a + 20]) for a in range(0, plan.n, 20)]


def spoiled(place, X=None, y=None):
    def spoil(batches):
        rows, labels = (part.copy() for part in batches[place])
        batches[place] = (rows if X is None else X(rows)), (labels if y is None else y(labels))
        return batches

    return spoil


def put(value, where=(7, 1)):
    def change(values):
        values[where if values.ndim == 2 else where[0]] = value
        return values

    return change


WRONG = {
    "NaN": (spoiled(-1, X=put(np.nan)), "not finite"),
    "infinite": (spoiled(2, X=put(-np.inf)), "not finite"),
    "NaN in a sparse batch": (
        lambda bs: [(sparse.csr_array(X), y) for X, y in spoiled(-1, X=put(np.nan))(bs)],
        "not finite",
    ),
    "label": (spoiled(-1, y=put(0.0)), "batch 5: y must hold the labels"),
    "label NaN": (spoiled(3, y=put(np.nan)), "batch 4: y holds entries that are not finite"),
    "labels short": (spoiled(1, y=lambda y: y[:-1]), r"batch 2: y must have shape \(20,\)"),
    "features": (spoiled(4, X=lambda X: X[:, :2]), "batch 5: X has shape"),
    "one-dimensional": (spoiled(1, X=lambda X: X[:, 0]), "batch 2: X must have two dimensions"),
    "a number": (spoiled(1, X=lambda X: np.float64(3.0)), "batch 2: X must have two dimensions"),
    "text": (spoiled(0, X=lambda X: X.astype(str)), "batch 1: X must hold real numbers"),
    "ragged": (spoiled(0, X=lambda X: [[1.0], [1.0, 2.0]]), "rows of equal length"),
    "mixed": (spoiled(3, X=sparse.csr_array), "all dense or all sparse"),
    "no pair": (lambda bs: [*bs[:2], bs[2][0], *bs[3:]], "pairs"),
    "three": (lambda bs: [*bs[:2], (*bs[2], 1), *bs[3:]], "pairs"),
    "fewer": (lambda bs: bs[:-1], "hold 80 rows, the plan was made for n = 100"),
    "none": (lambda bs: [], "hold 0 rows"),
    "more, a batch": (lambda bs: [*bs, bs[0]], "more rows than the n = 100"),
    "more, a row": (lambda bs: [*bs[:-1], tuple(np.concatenate([p, p[:1]]) for p in bs[-1])], "more rows than the n"),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_a_batch_releases_nothing_and_stays_charged(name, batch):
    spoil, words = WRONG[name]
    plan, account = planned(100, 3, batch=batch), f"form {name} {batch}"
    with pytest.raises(InputError, match=f"{words}.*the run stays charged"):
        plan.run_batches(iter(spoil(good(plan))), dataset=account)
    with pytest.raises(InputError, match=words):
        plan.run_batches(iter(spoil(good(plan))), dataset=account, seed=1)
    assert len(dc.account(account).claims) == dc.account(account).seeded == 1


def test_an_empty_batch_at_the_end_is_nothing_more():
    plan = planned(100, 3)
    plan.run_batches([*good(plan), (np.empty((0, 3)), [])], seed=1)


def test_an_endless_source_is_asked_once_more_and_refused():
    plan, asked = planned(100, 3), []

    def endless():
        while True:
            asked.append(1)
            yield good(plan)[0]

    with pytest.raises(InputError, match="more rows"):
        plan.run_batches(endless(), seed=1)
    assert len(asked) == 6


@pytest.mark.parametrize("error", [OSError("disk"), ValueError("source"), KeyboardInterrupt()], ids=repr)
def test_what_a_source_raises_passes_through_and_stays_charged(error):
    plan, account = planned(100, 3), f"source {error!r}"

    def failing():
        yield from good(plan)[:4]
        raise error

    with pytest.raises(type(error)) as caught:
        plan.run_batches(failing(), dataset=account)
    assert caught.value is error
    assert len(dc.account(account).claims) == 1


def test_a_run_is_charged_before_the_first_batch_is_drawn():
    plan, account = planned(100, 3), "before the first"
    seen = []

    def watched():
        seen.append(len(dc.account(account).claims))
        yield from good(plan)

    plan.run_batches(watched(), dataset=account)
    assert seen == [1]
    dc.limit(account, dc.Budget(8.1, 1e-6))
    with pytest.raises(BudgetError):
        plan.run_batches(watched(), dataset=account)
    assert seen == [1]


@pytest.mark.parametrize(
    "algorithm",
    [
        dc.algorithms.PhasedSGD(shuffle=True),
        dc.algorithms.PhasedSGD(shuffle="secret"),
        dc.algorithms.ObjectivePerturbation(),
        dc.algorithms.NoisyGD(),
        dc.algorithms.NoisySGD(),
    ],
    ids=str,
)
def test_algorithms_that_need_all_rows_refuse(algorithm):
    problem = dc.Problem(dc.losses.Logistic(), domain=BALL)
    plan = algorithm.plan(problem, n=100, d=3, budget=BUDGET)
    with pytest.raises(InputError, match="batches need"):
        plan.run_batches(good(plan), dataset="refused")
    assert not dc.account("refused").claims


def test_what_is_no_iterable_is_refused_before_the_charge():
    with pytest.raises(InputError, match="iterable"):
        planned(100, 3).run_batches(3, dataset="no iterable")
    assert not dc.account("no iterable").claims


# Cutting -------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 40), max_size=6, unique=True).map(sorted),
    st.lists(st.integers(0, 40), max_size=10).map(sorted),
    st.booleans(),
)
def test_pieces_are_consecutive_and_end_at_stops(stops, cuts, thin):
    stops = np.array([0, *stops, 41])
    X, y = made(41, 2)
    rows = sparse.csr_array(X) if thin else X
    batches = Batches(cut(rows, y, cuts), dc.Problem(dc.losses.Logistic(), feature_bound=10.0), n=41, d=2)
    seen, at = [], 0

    def job(piece, labels, first, last):
        nonlocal at
        assert first == at
        assert {first, last} <= set(stops)
        assert len(labels) == last - first
        dense = (
            sparse.csr_array((piece.data, piece.indices, piece.indptr), (last - first, 2)).toarray()
            if thin
            else piece.X
        )
        seen.append((dense, labels))
        at = last

    middle = len(stops) // 2
    batches.use(stops[: middle + 1], job)
    batches.use(stops[middle:], job)
    batches.close()
    assert np.array_equal(np.concatenate([piece for piece, _ in seen]), X)
    assert np.array_equal(np.concatenate([labels for _, labels in seen]), y)
