"""Sums in a frame are sums over the mapped rows, dense and sparse, and are off by no more than stated."""

import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.loops.rows import CSR, Dense
from dpconvex.sums.framed import PrivateFrame
from dpconvex.sums.memory import Memory
from dpconvex.sums.protocol import Bend, Slopes

STRETCH = 3.0
LOSSES = {"one": dc.losses.Logistic(shift=0.5), "softmax": dc.losses.Softmax(3)}


def rows_of(X, kind, constant):
    if kind == "dense":
        return Dense(X, 1.0, constant)
    if kind == "float32":
        return Dense(X.astype(np.float32), 1.0, constant)
    thin = sparse.csr_matrix(X)
    return CSR(thin.data, thin.indices, thin.indptr, X.shape[1], 1.0, constant)


def made(kind, constant, n=3000, d=5, seed=0):
    """Sums over rows of any length, those in a frame, and the mapped rows with their weights in plain NumPy."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5) / 2
    X[0], X[1], X[2] = 1e9, 0.0, 1e-9
    X = X.astype(np.float32).astype(np.float64)
    size = d + (constant > 0.0)
    axis = rng.normal(size=size)
    frame = PrivateFrame(rng.uniform(0.5, 8.0, size), axis / np.linalg.norm(axis), 0.3)
    inside = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    inside = np.column_stack([inside, np.full(n, constant)]) if constant else inside
    Z = frame.rows(inside)
    lengths = np.maximum(np.linalg.norm(Z, axis=1), 1e-300)
    Z *= np.minimum(1.0, STRETCH / lengths)[:, None]
    weights = np.minimum(1.0, 1.0 / np.minimum(lengths, STRETCH))
    y = rng.integers(0, 2, n) * 2.0 - 1.0
    sums = Memory(rows_of(X, kind, constant), y)
    sums.open()
    return sums, sums.framed(frame, STRETCH), inside, Z, weights, rng


@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_sums_in_a_frame_are_those_over_mapped_rows(kind, constant):
    sums, framed, inside, Z, weights, rng = made(kind, constant)
    loss = LOSSES["one"]
    w, v = rng.normal(size=(2, framed.size))
    slopes = np.array([loss.slope(z, y) for z, y in zip(Z @ w, sums.y, strict=True)])
    bends = weights * np.array([loss.curvature(z, y) for z, y in zip(Z @ w, sums.y, strict=True)])
    hessian = Z.T @ (bends[:, None] * Z)
    assert sums.squared_entries() == pytest.approx((inside**2).sum(axis=0), rel=1e-9)
    assert framed.sweep(Slopes(loss, w)) == pytest.approx(Z.T @ (weights * slopes), rel=1e-7, abs=1e-4)
    assert framed.hessian(loss, w) == pytest.approx(hessian, rel=1e-7, abs=1e-4)
    assert framed.diagonal(loss, w) == pytest.approx(np.diag(hessian), rel=1e-7, abs=1e-4)
    assert framed.sweep(Bend(loss, w, v)) == pytest.approx(hessian @ v, rel=1e-7, abs=1e-4)
    first, second = framed.along(loss, w, w + v, (0.0,))[0]
    assert (first, second) == pytest.approx((float(v @ (Z.T @ (weights * slopes))), float(v @ hessian @ v)), rel=1e-6)
    half = framed.view(0, framed.n, 2)
    assert half.sweep(Slopes(loss, w)) == pytest.approx(Z[::2].T @ (weights * slopes)[::2], rel=1e-7, abs=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_several_classes_in_a_frame(kind):
    sums, framed, _, Z, weights, rng = made(kind, 0.5)
    sums.y = framed.y = rng.integers(0, 3, framed.n).astype(float)
    loss, W = LOSSES["softmax"], rng.normal(size=(3, framed.size))
    scores = Z @ W.T
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    slopes = weights[:, None] * (p - np.eye(3)[framed.y.astype(int)])
    assert framed.sweep(Slopes(loss, W)) == pytest.approx(slopes.T @ Z, rel=1e-7, abs=1e-4)
    diagonal = (weights[:, None] * p * (1.0 - p)).T @ Z**2
    assert framed.diagonal(loss, W) == pytest.approx(diagonal, rel=1e-7, abs=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_no_row_exceeds_its_bounds(kind):
    """Exactly, in rational arithmetic: rows and weights as the run holds them."""
    from fractions import Fraction

    _, framed, inside, _, _, _ = made(kind, 0.0, n=60)
    matrix = framed.matrix
    frame = matrix.frame
    scales, axis = ([Fraction(float(v)) for v in part] for part in (frame.scales, frame.axis))
    bent = 1 - Fraction(frame.damping)
    for i, row in enumerate(matrix._base.shorten[:, None] * inside if kind == "dense" else inside):
        x = [Fraction(float(v)) for v in row]
        along = bent * sum(a * b for a, b in zip(x, axis, strict=True))
        z = [Fraction(float(matrix._factor[i])) * s * (v - along * a) for s, v, a in zip(scales, x, axis, strict=True)]
        square, weight = sum(v * v for v in z), Fraction(float(matrix.weights[i]))
        assert square <= Fraction(STRETCH) ** 2
        assert weight**2 * square <= 1
        assert weight * Fraction(STRETCH) >= 1 - Fraction(2) ** -50


def test_gradients_are_off_by_no_more_than_stated():
    """Against twice the precision, at weights of a length at which rounding shows."""
    _, framed, _, _, _, rng = made("dense", 0.0, n=4000, d=30)
    frame, base = framed.matrix.frame, framed.matrix._base
    exact = np.longdouble
    x = base.rows.X.astype(exact) * base.shorten.astype(exact)[:, None]
    Z = frame.scales.astype(exact) * (
        x - (1 - exact(frame.damping)) * np.outer(x @ frame.axis.astype(exact), frame.axis)
    )
    Z *= framed.matrix._factor.astype(exact)[:, None]
    loss = dc.losses.LogCosh(0.5)
    for length in (1.0, 1e3, 1e6):
        w = rng.normal(size=framed.size) * length
        r = exact(loss.threshold) * np.tanh((Z @ w.astype(exact) - framed.y) / exact(loss.threshold))
        found = framed.sweep(Slopes(loss, w)) - Z.T @ (framed.weights.astype(exact) * r)
        stated = framed.error().gradient(loss.threshold, float(np.linalg.norm(w)), loss.curvature_bound())
        assert float(np.linalg.norm(found.astype(float))) <= stated
    assert framed.careful(loss, w, np.zeros(framed.size)) == pytest.approx(framed.sweep(Slopes(loss, w)))
