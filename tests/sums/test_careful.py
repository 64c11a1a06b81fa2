"""Gradients in twice the precision: against mpmath, on rows and weights chosen to cancel."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import sparse

import dpconvex as dc
from dpconvex.loops.rows import CSR, Dense
from dpconvex.sums import memory
from dpconvex.sums.accuracy import careful_rounding, rounding
from dpconvex.sums.careful import careful_gradient, careful_pair, exponentials, logistic_slope, logistic_slopes
from dpconvex.sums.matrix import Matrix
from dpconvex.sums.memory import Memory
from dpconvex.sums.solver import least_tolerance, minimise


def test_exponentials_and_slopes_are_right_to_twice_the_precision(rng):
    x = np.array([0.0, -1e-9, -79.9, -80.1, -np.inf, *(-(10.0 ** rng.uniform(-3, 1.9, 200)))])
    low = np.where(x < -80, 0.0, x) * 2.0**-54 * rng.uniform(-1, 1, len(x))
    high, rest = np.empty((2, len(x)))
    exponentials(x, low, np.empty((3, len(x))), high, rest)
    with mpmath.workdps(60):
        for i in range(len(x)):
            exact = mpmath.exp(mpmath.mpf(x[i]) + low[i]) if x[i] > -80 else mpmath.mpf(0)
            assert abs(mpmath.mpf(high[i]) + rest[i] - exact) <= 2.0**-90 * exact
        z = np.array([0.0, 90.0, -90.0, 1e4, -1e4, *rng.normal(scale=8.0, size=200)])
        for y, cap, shift in ((1.0, 1.0, 0.0), (-1.0, 0.3, 2.0), (1.0, 0.9, 20.0)):
            low = z * 2.0**-54 * rng.uniform(-1, 1, len(z))
            high, rest = z.copy(), low.copy()
            logistic_slopes(high, rest, np.full(len(z), y), cap, shift, np.empty((7, len(z))))
            for i in range(len(z)):
                exact = -y * min(1 / (1 + mpmath.exp(y * (mpmath.mpf(z[i]) + low[i]) - shift)), mpmath.mpf(cap))
                assert abs(mpmath.mpf(high[i]) + rest[i] - exact) <= 2.0**-80
                assert (high[i], rest[i]) == logistic_slope(z[i], low[i], y, cap, shift)  # one by one: the same bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_a_careful_gradient_is_within_its_bound(constant, dtype, rng):
    """Predictions near 0 by cancellation of terms of 1e4, and slopes that cancel over more than one block of rows."""
    n, d = 1300, 6
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(dtype)
    X[:, 1] = -X[:, 0]
    y, omega = np.where(np.arange(n) % 2, 1.0, -1.0), rng.random(n)
    w = np.concatenate([[1e4, 1e4 + 1e-3], rng.normal(size=d - 2 + (constant != 0.0))])
    rest = rng.normal(size=len(w))
    thin = sparse.csr_array(X)
    for rows in (
        Dense(X, 1.0, constant, omega),
        CSR(thin.data, thin.indices, thin.indptr, d, 1.0, constant, omega),
    ):
        matrix, loss = Matrix(rows, n), dc.losses.Logistic(0.9, 0.5)
        computed = careful_gradient(matrix, y, loss, w, rest)
        with mpmath.workdps(80):
            total = [mpmath.mpf(v) for v in rest.tolist()]
            for i in range(n):
                x = [mpmath.mpf(float(matrix.shorten[i])) * mpmath.mpf(v) for v in X[i].tolist()]
                x += [mpmath.mpf(constant)] if constant else []
                z = mpmath.fdot(x, [mpmath.mpf(v) for v in w.tolist()])
                r = -y[i] * min(1 / (1 + mpmath.exp(y[i] * z - 0.5)), mpmath.mpf(0.9))
                total = [t + omega[i] * r * v for t, v in zip(total, x, strict=True)]
            error = math.sqrt(sum(float(computed[j] - total[j]) ** 2 for j in range(len(w))))
        norm = float(np.linalg.norm(w))
        bound = careful_rounding(n, matrix.size, matrix.row, norm, 0.25, 0.0, 0.0)
        assert error <= bound + 2.0**-52 * float(np.linalg.norm(computed))
        assert bound < 1e-6 * rounding(n, matrix.size, matrix.row, 1.0, norm, 0.25)


def test_the_solver_looks_closer_only_where_float64_is_too_coarse(monkeypatch, rng):
    n, d = 2000, 3
    X = rng.normal(size=(n, d))
    y, tilt = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0), rng.normal(size=d)
    sums, loss, calls = Memory(Dense(X, 1.0, 0.0), y), dc.losses.Logistic(), []

    def counted(*args):
        calls.append(1)
        return careful_pair(*args)

    monkeypatch.setattr(memory, "careful_pair", counted)
    w = minimise(sums, loss, 1.0, tilt, 1e-6)
    assert not calls
    least = least_tolerance(dc.Problem(loss, l2=1.0), n, d, float(np.linalg.norm(tilt)))
    assert least < 1e-3 * rounding(n, d, 1.0, 1.0, float(np.linalg.norm(w)), 0.25)
    close = minimise(sums, loss, 1.0, tilt, least)
    assert 0 < len(calls) < 10
    assert np.linalg.norm(close - w) < 2e-6
    assert np.linalg.norm(sums.careful(loss, close, close + tilt)) <= least


@pytest.mark.parametrize(("n", "d", "delta"), [(10**7, 1000, 1e-9), (10**9, 100, 1e-12)])
def test_output_noise_of_large_plans_is_a_hundredth_of_what_the_tilt_does(n, d, delta):
    """Of each weight, where the curvature of the losses is as large as it can be and all directions share it."""
    problem = dc.Problem(dc.losses.Logistic(), intercept=1.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=d, budget=dc.Budget(1.0, delta))
    tilt, blur = (release.scale for release in plan.releases)
    assert blur < 0.01 * tilt / (n * 0.25 * 2.0 / (d + 1) + plan.problem.l2)
    assert "vacuous" not in plan.utility


@pytest.mark.parametrize(("n", "d"), [(10**7, 1000), (10**9, 100)])
def test_the_certificate_hardly_adds_to_the_excess_loss_of_large_plans(n, d):
    from dpconvex.algorithms.objective_perturbation import excess_loss

    plan = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(dc.losses.Logistic()), n=n, d=d, budget=dc.Budget(1.0, 1e-11)
    )
    tilt, blur = (release.scale for release in plan.releases)
    added = excess_loss(plan.problem, n, d, tilt, blur, plan.schedule[0].tolerance)
    assert added <= 1.01 * excess_loss(plan.problem, n, d, tilt, 0.0, 0.0)
    assert "vacuous" not in plan.utility
