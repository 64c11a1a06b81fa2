"""Public form is refused for free, what rows say after the charge, neither with a value; magnitude is brought back."""

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.data.arrays import numbers, open_people, open_rows, open_weights
from dpconvex.errors import FormError, InputError, RowError
from dpconvex.sums.matrix import predictions

SECRET = 0.123456789


def secret_matrix(n=60, d=3):
    return np.full((n, d), SECRET)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (secret_matrix(59), np.ones(60), "n = 60"),
        (secret_matrix(60, 4), np.ones(60), "d = 3"),
        (secret_matrix().ravel(), np.ones(60), "two dimensions"),
        (secret_matrix().astype(str), np.ones(60), "real numbers"),
        (secret_matrix().astype(complex), np.ones(60), "real numbers"),
        (secret_matrix(), np.ones(59), "^y must have shape"),
        (secret_matrix(), np.ones((60, 1)), "^y must have shape"),
        (secret_matrix(), np.array(["a"] * 60), "^y must hold numbers"),
        (np.empty((0, 3)), np.empty(0), "n = 60"),
        (None, np.ones(60), "two dimensions"),
        ([[SECRET] * 3] * 59 + [[SECRET] * 2], np.ones(60), "^X cannot be read .* equal length"),
        (secret_matrix(), [1.0] * 59 + [[SECRET, 1.0]], "^y cannot be read .* equal length"),
    ],
)
def test_bad_form_is_refused_without_values_and_without_a_charge(X, y, match, small_plan):
    with pytest.raises(FormError, match=match) as error:
        small_plan.run(X, y, dataset="bad form")
    assert "0.1234" not in str(error.value)
    assert dc.account("bad form").claims == ()


def spoilt(value, of=float):
    X = secret_matrix().astype(of)
    X[7, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (spoilt(np.nan), np.ones(60), "^X holds entries that are not finite"),
        (spoilt(np.inf), np.ones(60), "^X holds entries that are not finite"),
        (spoilt(np.nan, np.float32), np.ones(60), "^X holds entries that are not finite"),
        (sparse.csr_matrix(spoilt(-np.inf)), np.ones(60), "^X holds entries that are not finite"),
        (spoilt(None, object), np.ones(60), "^X holds entries that are not finite"),
        (spoilt("0.1234x", object), np.ones(60), "^X holds entries that are not finite"),
        (
            [*secret_matrix(59).tolist(), [SECRET, "0.1234x", SECRET]],
            np.ones(60),
            "^X holds entries that are not finite",
        ),
        (secret_matrix(), np.where(np.arange(60) == 3, np.nan, 1.0), "^y holds entries"),
        (secret_matrix(), [*[1.0] * 59, "0.1234x"], "^y holds entries"),
        (secret_matrix(), np.where(np.arange(60) == 3, SECRET, 1.0), "^y must hold the labels -1 and \\+1"),
        (secret_matrix(), np.arange(60) % 2, "^y must hold the labels -1 and \\+1"),
    ],
)
@pytest.mark.parametrize(
    "bound", [1.0, dc.bounds.Linf(1.0), dc.bounds.Lp(1.5, 1.0), dc.bounds.Columns([-1] * 3, [1] * 3)]
)
def test_what_rows_say_is_refused_after_the_charge_without_values(X, y, match, bound, request):
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=bound)
    plan = dc.algorithms.MeanDirection().plan(problem, n=60, d=3, budget=dc.Budget(1.0, 1e-6))
    account = request.node.name
    with pytest.raises(RowError, match=match) as error:
        plan.run(X, y, dataset=account)
    assert "stays charged" in str(error.value)
    assert "0.1234" not in str(error.value)
    assert len(dc.account(account).claims) == 1


def test_a_row_too_long_to_be_squared_counts_as_zeros(ball_problem, rng):
    X = rng.normal(size=(2000, 3))
    X[1500] = [1e200, -1e308, 1.0]
    zeroed = X.copy()
    zeroed[1500] = 0.0
    w = np.array([3.0, -2.0, 1.0])
    for make in (np.asarray, sparse.csr_array):
        found = [predictions(open_rows(make(A), np.ones(2000), ball_problem, 2000, 3)[0], w, 2000) for A in (X, zeroed)]
        assert np.array_equal(*found)


def test_weights_that_are_none_count_as_zero():
    given = [0.5, 2.0, 9.0, -1.0, np.nan, np.inf, -np.inf, "x", None]
    assert open_weights(given, 4.0, 9).tolist() == [0.125, 0.5, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    with pytest.raises(FormError, match="9 numbers"):
        open_weights([1.0], 4.0, 9)


@pytest.mark.parametrize(
    ("groups", "people", "known"),
    [
        (["b", "a", "b"], [0, 1, 0], [1, 1, 1]),
        (["b", None, "a"], [0, 0, 2], [1, 0, 1]),
        (["b", np.nan, "a", " "], [0, 0, 2, 0], [1, 0, 1, 0]),
        ([1, "1", 2.0, "2"], [0, 0, 2, 2], [1, 1, 1, 1]),
        (np.array([3.0, np.nan, 2.0, 3.0, np.inf]), [0, 0, 2, 0, 0], [1, 0, 1, 1, 0]),
        ([None, None], [0, 0], [0, 0]),
        (np.array(["b", "", "a"]), [0, 0, 2], [1, 0, 1]),
    ],
)
def test_rows_of_nobody_are_known(groups, people, known):
    found = open_people(groups, len(groups))
    assert found[0].tolist() == people
    assert found[1].tolist() == list(map(bool, known))


def test_cells_that_are_no_number():
    cells = np.array([[True, np.float32(0.5)], ["1.5", 10**400], [None, b"x"]], dtype=object)
    assert np.array_equal(numbers(cells), [[1.0, 0.5], [np.nan, 1e150], [np.nan, np.nan]], equal_nan=True)
    with pytest.raises(TypeError, match="not 'dict'"):
        open_rows([[{}]], [1.0], dc.Problem(dc.losses.Logistic()), 1, 1)


def test_ragged_rows_are_not_predicted(small_plan):
    solution = small_plan.run(secret_matrix(), np.ones(60))
    with pytest.raises(InputError, match="equal length"):
        solution.predict([[SECRET] * 3, [SECRET]])


def test_malformed_sparse_matrices_are_refused(small_plan):
    matrix = sparse.csr_matrix(secret_matrix())
    matrix.indices[0] = 17
    with pytest.raises(InputError, match="malformed"):
        small_plan.run(matrix, np.ones(60))


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array, np.ndarray.tolist]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool])
def test_containers_agree(make, dtype, ball_problem, rng):
    X = (rng.random((5, 4)) < 0.5).astype(dtype)
    rows, _ = open_rows(make(X), np.ones(5), ball_problem, 5, 4)
    expected = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    w = rng.normal(size=4)
    assert np.allclose(predictions(rows, w, 5), expected @ w, rtol=1e-6)


def test_repeated_sparse_entries_count_as_their_sum(ball_problem):
    matrix = sparse.csr_matrix((np.array([3.0, -3.0, 0.5]), np.array([0, 0, 1]), np.array([0, 3, 3])), shape=(2, 2))
    rows, _ = open_rows(matrix, np.ones(2), ball_problem, 2, 2)
    assert np.allclose(predictions(rows, np.array([1.0, 1.0]), 2), [0.5, 0.0])


def test_a_matrix_that_was_changed_in_place_is_looked_at_again(ball_problem):
    matrix = sparse.csr_array(np.full((2, 4), 0.5))
    assert matrix.has_canonical_format
    matrix.indices[:] = 0  # scipy still says that no entry stands twice
    rows, _ = open_rows(matrix, np.ones(2), ball_problem, 2, 4)
    assert np.allclose(predictions(rows, np.array([1.0, 0.0, 0.0, 0.0]), 2), [1.0, 1.0])


def test_whole_numbers_beyond_64_bits_are_large_and_not_refused(ball_problem):
    rows, _ = open_rows([[1], [10**30], [-(10**400)]], np.ones(3), ball_problem, 3, 1)
    assert np.allclose(predictions(rows, np.ones(1), 3), [1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    "bound",
    [
        dc.bounds.L2(0.7),
        dc.bounds.Linf(0.3),
        dc.bounds.Lp(1, 0.5),
        dc.bounds.Lp(3, 0.5),
        dc.bounds.Columns((-0.1, -1.0, 0.0), (0.2, 0.5, 0.3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("size", [0.01, 1.0, 1e150])
def test_rows_are_brought_within_their_bound(bound, make, size, rng):
    X = rng.normal(size=(40, 3)) * size
    rows, _ = open_rows(make(X), np.ones(40), dc.Problem(dc.losses.Logistic(), feature_bound=bound), 40, 3)
    used = predictions(rows, np.eye(3), 40)
    assert (np.linalg.norm(used, axis=1) <= bound.l2(3)).all()
    if isinstance(bound, dc.bounds.Linf):
        assert np.allclose(used, np.clip(X, -0.3, 0.3))
    elif isinstance(bound, dc.bounds.Columns):
        assert np.allclose(used, np.clip(X, bound.lo, bound.hi))
    else:
        p = getattr(bound, "p", 2)
        unit = abs(X).max(axis=1, keepdims=True)
        norms = unit * (abs(X / unit) ** p).sum(axis=1, keepdims=True) ** (1 / p)
        assert np.allclose(used, X * np.minimum(1.0, bound.radius / norms))


def test_nothing_is_copied_that_need_not_be(ball_problem, rng):
    X = rng.normal(size=(40, 3))
    for matrix in (X, X.astype(np.float32)):
        assert open_rows(matrix, np.ones(40), ball_problem, 40, 3)[0].X is matrix
    thin = sparse.csr_array(X)
    assert np.shares_memory(open_rows(thin, np.ones(40), ball_problem, 40, 3)[0].data, thin.data)


def test_sparse_rows_refuse_columns_whose_zeros_would_move():
    problem = dc.Problem(dc.losses.Logistic(), feature_bound=dc.bounds.Columns((0.5, -1.0), (1.0, 1.0)))
    with pytest.raises(InputError, match="sparse"):
        open_rows(sparse.csr_array(np.eye(2)), np.ones(2), problem, 2, 2)
    assert np.allclose(open_rows(np.eye(2), np.ones(2), problem, 2, 2)[0].X, [[1.0, 0.0], [0.5, 1.0]])


@pytest.mark.parametrize(
    "loss",
    [
        dc.losses.Squared(2.0),
        dc.losses.Huber(0.5, 2.0),
        dc.losses.LogCosh(0.5, 2.0),
        dc.losses.Absolute(2.0),
        dc.losses.Pinball(0.3, 2.0),
    ],
    ids=str,
)
def test_targets_are_clipped_to_their_range(loss):
    _, y = open_rows(np.eye(3), [-5.0, 0.5, 9.0], dc.Problem(loss), 3, 3)
    assert y.tolist() == [-2.0, 0.5, 2.0]


def test_a_hinge_takes_signs_only():
    problem = dc.Problem(dc.losses.Hinge())
    assert open_rows(np.eye(2), [1, -1], problem, 2, 2)[1].tolist() == [1.0, -1.0]
    with pytest.raises(InputError, match="-1 and \\+1 for Hinge"):
        open_rows(np.eye(2), [0, 1], problem, 2, 2)
