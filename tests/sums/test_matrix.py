import math

import mpmath
import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.loops.rows import APART, CSR, EVEN, Dense
from dpconvex.sums.accuracy import BLOCK, accumulation, rounding
from dpconvex.sums.matrix import Matrix, along, predictions
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Slopes
from dpconvex.sums.rowwise import bend, curvatures, slopes, values

LOSSES = [
    dc.losses.Logistic(1.0),
    dc.losses.Logistic(0.3, 1.0),
    dc.losses.SmoothedHinge(0.5),
    dc.losses.Squared(1.0),
    dc.losses.Huber(0.5, 1.0),
    dc.losses.LogCosh(0.5, 1.0),
    dc.losses.Linear(1.0),
]


def containers(X, radius, constant, weights=EVEN):
    thin = sparse.csr_array(X)
    parts = thin.data, thin.indices, thin.indptr, X.shape[1]
    return Dense(X, radius, constant, weights), CSR(*parts, radius, constant, weights)


def augmented(X, radius, constant):
    X = X.astype(np.float64)
    X = X * np.minimum(1.0, radius / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))
    return np.hstack([X, np.full((len(X), 1), constant)]) if constant else X


def sparse_rows(rng, n, d, dtype):
    return (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)


def some_weights(rng, n):
    """From 0 to 1, both included."""
    omega = rng.random(n)
    omega[::3], omega[1::5] = 0.0, 1.0
    return omega


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (30, 4), (5000, 3), (7, 2 * BLOCK + 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_operators_equal_numpy(constant, dtype, n, d, weighted, rng):
    X = sparse_rows(rng, n, d, dtype)
    full = augmented(X, 1.0, constant)
    h = rng.random(n)
    omega = some_weights(rng, n) if weighted else np.ones(n)
    for rows in containers(X, 1.0, constant, omega if weighted else EVEN):
        matrix = Matrix(rows, n)
        assert np.array_equal(matrix.weights, omega)
        assert matrix.size == full.shape[1]
        assert np.allclose(matrix.norms, np.linalg.norm(full, axis=1), rtol=1e-12)
        assert (matrix.norms <= matrix.row).all()
        for classes in ((), (1,), (3,)):
            W, R = rng.normal(size=(*classes, matrix.size)), rng.normal(size=(n, *classes))
            assert np.allclose(matrix.predict(W), full @ W.T, atol=1e-11)
            assert np.allclose(matrix.adjoint(R), (omega * R.T) @ full, atol=1e-11)
            assert np.allclose(matrix.sweep((W,), lambda part, Z: h[part] * Z.T[0] if Z.ndim > 1 else h[part] * Z),
                               (omega * h * (full @ np.atleast_2d(W)[0])) @ full, atol=1e-11)  # fmt: skip
            assert np.allclose(
                matrix.sweep((W,), lambda part, Z: 2.0 * Z), (omega * (2.0 * W @ full.T)) @ full, atol=1e-11
            )
            H = rng.random((n, *classes))
            expected = [(omega * c) @ full**2 for c in np.atleast_2d(H.T)]
            assert np.allclose(matrix.diagonal(H), expected if classes else expected[0], atol=1e-11)
        if d < 10:
            exact = full.T @ ((omega * h)[:, None] * full)
            assert np.allclose(matrix.hessian(h), exact, atol=1e-11)
            assert np.allclose(matrix.hessian(h, single=True), exact, atol=1e-5 * n)
        few, W = matrix.part(slice(0, n, 3)), rng.normal(size=matrix.size)
        assert few.n == len(full[::3])
        assert np.allclose(few.predict(W), full[::3] @ W, atol=1e-11)
        assert np.array_equal(few.weights, omega[::3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_of_one_change_no_bit(dtype, rng):
    n, d = 3000, 5
    X, W, H = sparse_rows(rng, n, d, dtype), rng.normal(size=(3, d + 1)), rng.random((n, 3))
    for plain, weighted in zip(containers(X, 1.0, 0.7), containers(X, 1.0, 0.7, np.ones(n)), strict=True):
        a, b = Matrix(plain, n), Matrix(weighted, n)
        assert np.array_equal(a.sweep((W,), lambda part, Z: Z), b.sweep((W,), lambda part, Z: Z))
        assert np.array_equal(a.adjoint(H), b.adjoint(H))
        assert np.array_equal(a.diagonal(H), b.diagonal(H))
        assert np.array_equal(a.hessian(H[:, 0]), b.hessian(H[:, 0]))


def test_a_part_of_the_rows_keeps_its_weights_and_people(rng):
    omega, people = rng.random(20), np.arange(20) // 2
    for rows in containers(rng.normal(size=(20, 2)), 1.0, 0.0, omega):
        few = Matrix(rows._replace(people=people), 20).part(slice(0, 20, 8))
        assert np.array_equal(few.weights, omega[::8])
        assert np.array_equal(few.rows.people, people[::8])
        plain = Matrix(rows._replace(weights=EVEN), 20).part(slice(0, 20, 8))
        assert len(plain.rows.weights) == len(EVEN) == len(plain.rows.people) == len(APART)


def test_unsorted_sparse_rows_have_the_same_hessian(rng):
    X = sparse_rows(rng, 20, 5, np.float64)
    thin = sparse.csr_array(X)
    data, indices = thin.data.copy(), thin.indices.copy()
    for a, b in zip(thin.indptr[:-1], thin.indptr[1:], strict=True):
        data[a:b], indices[a:b] = data[a:b][::-1].copy(), indices[a:b][::-1].copy()
    h = rng.random(20)
    assert np.allclose(Matrix(CSR(data, indices, thin.indptr, 5, 9.0, 0.5), 20).hessian(h),
                       Matrix(Dense(X, 9.0, 0.5), 20).hessian(h))  # fmt: skip


def test_a_float64_matrix_is_not_copied(rng):
    X = rng.normal(size=(3000, 50))
    X.setflags(write=False)
    matrix = Matrix(Dense(X, 1.0, 1.0), 3000)
    assert all(np.shares_memory(block, X) for _, block in matrix._parts(range(3000)))


def test_huge_rows_neither_overflow_nor_lose_their_direction():
    X = np.array([[3e149, 4e149], [-6e140, 8e140]])
    full = np.array([[0.6, 0.8, 1.0], [-0.6, 0.8, 1.0]])
    for rows in containers(X, 1.0, 1.0):
        matrix = Matrix(rows, 2)
        assert np.allclose(matrix.predict(np.array([1.0, 2.0, 3.0])), full @ [1.0, 2.0, 3.0])
        assert np.allclose(matrix.adjoint(np.array([1.0, 2.0])), [1.0, 2.0] @ full)
        assert np.allclose(matrix.hessian(np.array([1.0, 2.0])), full.T @ np.diag([1.0, 2.0]) @ full)


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_the_functions_on_rows_equal_numpy(constant, rng):
    X = sparse_rows(rng, 30, 4, np.float64)
    y = rng.choice([-1.0, 1.0], 30)
    full = augmented(X, 1.0, constant)
    w = rng.normal(size=full.shape[1])
    each = np.array([LOSSES[0].slope(z, t) for z, t in zip(full @ w, y, strict=True)])
    for omega in (np.ones(30), some_weights(rng, 30)):
        for rows in containers(X, 1.0, constant, omega):
            assert np.allclose(predictions(rows, w, 30), full @ w)
            assert np.allclose(open_sums(rows, y).sweep(Slopes(LOSSES[0], w)), full.T @ (omega * each))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_compiled_losses_equal_their_methods(loss, rng):
    z, y = 3.0 * rng.normal(size=200), rng.choice([-1.0, 1.0], 200)
    for compiled, method in ((values, loss.value), (slopes, loss.slope), (curvatures, loss.curvature)):
        assert np.allclose(compiled(loss, z, y), [method(a, b) for a, b in zip(z, y, strict=True)], rtol=1e-13)


def test_softmax_values_slopes_and_curvatures_belong_together(rng):
    loss = dc.losses.Softmax(3.0, 0.5)
    z, dz, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), rng.integers(0, 3, 20).astype(float)
    e = 1e-5
    first = (values(loss, z + e * dz, y) - values(loss, z - e * dz, y)) / (2 * e)
    assert np.allclose((slopes(loss, z, y) * dz).sum(axis=1), first, atol=1e-8)
    second = (slopes(loss, z + e * dz, y) - slopes(loss, z - e * dz, y)) / (2 * e)
    assert np.allclose(bend(curvatures(loss, z, y), dz), second, atol=1e-8)


@pytest.mark.parametrize("loss", [*LOSSES, dc.losses.Softmax(3.0)], ids=str)
def test_derivatives_along_a_line(loss, rng):
    classes = (3,) if isinstance(loss, dc.losses.Softmax) else ()
    z, dz = rng.normal(size=(50, *classes)), rng.normal(size=(50, *classes))
    y = rng.integers(0, 3, 50).astype(float) if classes else rng.choice([-1.0, 1.0], 50)
    t, e = 0.3, 1e-6
    for omega in (np.ones(50), some_weights(rng, 50)):
        first, second = along(loss, z, dz, y, omega, t)
        rise = omega @ values(loss, z + (t + e) * dz, y) - omega @ values(loss, z + (t - e) * dz, y)
        assert first == pytest.approx(rise / (2 * e), abs=1e-6)
        rise = along(loss, z, dz, y, omega, t + e)[0] - along(loss, z, dz, y, omega, t - e)[0]
        assert second == pytest.approx(rise / (2 * e), abs=1e-6)


def exact_slopes(loss, z, y):
    """Slopes in the arithmetic of mpmath, one list a record."""
    if isinstance(loss, dc.losses.Softmax):
        terms = [mpmath.exp(v - (loss.shift if k == y else 0)) for k, v in enumerate(z)]
        return [t / mpmath.fsum(terms) - (k == y) for k, t in enumerate(terms)]
    if isinstance(loss, dc.losses.Logistic):
        return [-y * min(1 / (1 + mpmath.exp(y * z[0] - loss.shift)), mpmath.mpf(loss.cap))]
    if isinstance(loss, dc.losses.LogCosh):
        return [loss.threshold * mpmath.tanh((z[0] - y) / loss.threshold)]
    return [loss.slope(z[0], mpmath.mpf(y))]


@pytest.mark.parametrize("loss", [*LOSSES, dc.losses.Softmax(3.0, 0.5)], ids=str)
@pytest.mark.parametrize(("size", "weighted"), [(0.1, False), (30.0, False), (30.0, True)])
def test_the_rounding_of_a_gradient_is_within_its_bound(loss, size, weighted, rng):
    n, d, constant = 1500, 3, 0.7
    K = int(getattr(loss, "classes", 1))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    y = rng.integers(0, K, n).astype(float) if K > 1 else np.where(np.arange(n) % 2, 1.0, -1.0)
    W = size * rng.normal(size=(K, d + 1))
    W = W if K > 1 else W[0]
    omega = some_weights(rng, n) if weighted else np.ones(n)
    for rows in containers(X, 1.0, constant, omega):
        matrix = Matrix(rows, n)
        computed = np.atleast_2d(matrix.sweep((W,), lambda part, z: slopes(loss, z, y[part])))
        with mpmath.workdps(60):
            total = [[mpmath.mpf(0)] * (d + 1) for _ in range(K)]
            weights = [[mpmath.mpf(v) for v in row] for row in np.atleast_2d(W).tolist()]
            for i in range(n):
                x = [mpmath.mpf(float(matrix.shorten[i])) * mpmath.mpf(v) for v in X[i].tolist()]
                x.append(mpmath.mpf(constant))
                r = exact_slopes(loss, [mpmath.fdot(x, w) for w in weights], y[i])
                for k in range(K):
                    total[k] = [t + mpmath.mpf(omega[i]) * r[k] * v for t, v in zip(total[k], x, strict=True)]
            error = math.sqrt(sum(float(computed[k, j] - total[k][j]) ** 2 for k in range(K) for j in range(d + 1)))
        norm = float(np.linalg.norm(W)) * (1 + 1e-12)
        slope = loss.slope_bound(matrix.row * norm)
        assert error <= rounding(n, matrix.size, matrix.row, slope, norm, loss.curvature_bound(), outputs=K)


def test_sums_over_many_records_round_as_stated(rng):
    """Rows of one feature, weights that cancel: the error of the sum alone, against the exact sum."""
    n = 200_000
    x, r = rng.uniform(0.5, 1.0, n), rng.uniform(-1.0, 1.0, n)
    for omega in (np.ones(n), rng.random(n)):
        exact = math.fsum(float(a) * float(b) * float(c) for a, b, c in zip(x, r, omega, strict=True))
        for rows in containers(x[:, None], 1.0, 0.0, omega):
            error = abs(float(Matrix(rows, n).adjoint(r)[0]) - exact)
            assert error <= accumulation(n) * 2.0**-53 * float(np.abs(x * r * omega).sum())


def test_the_sums_of_blocks_are_added_without_loss():
    """A block so large that float64 forgets the others, taken away again at the end."""
    r = np.full(400 * BLOCK, 2.0**-40)
    r[0], r[-1] = 2.0**60, -(2.0**60)
    r[1:BLOCK] = r[-BLOCK:-1] = 0.0  # alone in their blocks
    exact = math.fsum(r)
    for rows in containers(np.ones((len(r), 1)), 1.0, 0.0):
        assert Matrix(rows, len(r)).adjoint(r)[0] == pytest.approx(exact, rel=1e-9)


def test_no_bound_is_stated_beyond_its_reach():
    assert rounding(10**17, 1, 1.0, 1.0, 1.0, 1.0) == math.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_number_of_threads_gives_the_same_bits(dtype, monkeypatch, rng):
    n, d = 40_000, 60
    X, W, h = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(2, d + 1)), rng.random(n)
    matrix, found = Matrix(Dense(X, 1.0, 0.5), n), []
    for threads in (1, 2, 5):
        monkeypatch.setattr("dpconvex.sums.threads.available", lambda threads=threads: threads)
        sums = matrix.sweep((W,), lambda part, Z: Z), matrix.predict(W), matrix.hessian(h), matrix.diagonal(h)
        found.append([a.tobytes() for a in sums])
    assert found[0] == found[1] == found[2]


def test_threads_keep_the_settings_and_the_errors_of_the_caller(monkeypatch, rng):
    monkeypatch.setattr("dpconvex.sums.threads.available", lambda: 2)
    matrix = Matrix(Dense(rng.normal(size=(40_000, 60)), 1.0, 0.0), 40_000)
    seen = []
    with np.errstate(over="ignore"):
        matrix.sweep((), lambda part: seen.append(np.geterr()["over"]) or np.ones(part.stop - part.start))
    assert set(seen) == {"ignore"}
    with pytest.raises(ZeroDivisionError):
        matrix.sweep((), lambda part: 1 / 0)
