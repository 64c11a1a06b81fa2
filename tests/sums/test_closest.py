"""Certificates of points held as pairs, on spheres and elsewhere, against minimisers in many digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.loops.rows import Dense
from dpconvex.sums.accuracy import Accumulation
from dpconvex.sums.closest import Held, beside, closest, distance, holds
from dpconvex.sums.memory import open_sums
from dpconvex.sums.protocol import Bend
from dpconvex.sums.solver import least_tolerance, minimise
from dpconvex.theorems.objective_perturbation import longest_tilt

LOGISTIC = dc.losses.Logistic()


def made(n, d, row, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X *= row * (1.0 - 1e-15) / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ rng.normal(size=d) + row * rng.normal(size=n) > 0.0, 1.0, -1.0), rng.normal(size=d)


def gradient_and_hessian(X, y, l2, tilt, w):
    """Of the tilted objective, in the digits of the context."""
    d = len(w)
    g, H = mpmath.matrix([l2 * a + b for a, b in zip(w, tilt, strict=True)]), mpmath.matrix(d, d)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        p = 1 / (1 + mpmath.exp(label * mpmath.fdot(row, w)))
        for j in range(d):
            g[j] -= label * p * row[j]
            for k in range(d):
                H[j, k] += p * (1 - p) * row[j] * row[k]
    return g, H + l2 * mpmath.eye(d)


def exact_minimiser(X, y, l2, tilt, radius, start):
    """The minimiser over a ball in 40 digits, from a point near it, and its multiplier."""
    w, d = mpmath.matrix(start.tolist()), len(start)
    on_sphere = float(np.linalg.norm(start)) > radius * (1.0 - 1e-9)
    multiplier = mpmath.mpf(0)
    for _ in range(9):
        g, H = gradient_and_hessian(X, y, l2, tilt, w)
        if not on_sphere:
            w -= mpmath.lu_solve(H, g)
            continue
        multiplier = multiplier or -mpmath.fdot(g, w) / mpmath.fdot(w, w)
        system, rest = mpmath.zeros(d + 1, d + 1), mpmath.zeros(d + 1, 1)
        for j in range(d):
            for k in range(d):
                system[j, k] = H[j, k] + (multiplier if j == k else 0)
            system[j, d] = system[d, j] = w[j]
            rest[j] = -g[j] - multiplier * w[j]
        rest[d] = (mpmath.mpf(radius) ** 2 - mpmath.fdot(w, w)) / 2
        found = mpmath.lu_solve(system, rest)
        w, multiplier = w + found[:d, 0], multiplier + found[d]
    return w, multiplier


@pytest.mark.parametrize(
    ("row", "radius", "l2", "tilt", "inside"),
    [
        (1.0, 0.5, 1.0, 1.0, False),
        (1e4, 3e-5, 1.0, 10.0, False),
        (1e5, 2e-6, 1.0, 1e3, False),
        (1e5, 1e-3, 1.0, 1e3, True),
        (1e5, math.inf, 1.0, 1e3, True),
    ],
)
def test_what_is_certified_is_as_close_to_the_minimiser_as_it_says(row, radius, l2, tilt, inside):
    """With curvature far above l2, so that the float64 numbers next to a minimiser are no good."""
    n, d = 60, 3
    domain = dc.domains.L2Ball(radius) if radius < math.inf else dc.domains.Everywhere()
    problem = dc.Problem(LOGISTIC, domain, l2=l2, feature_bound=row)
    for seed in range(3):
        X, y, b = made(n, d, row, seed)
        b *= tilt
        tolerance = least_tolerance(problem, n, d, float(np.linalg.norm(b)))
        assert tolerance < 64.0 * 4.0 * 2.0**-53 * (2.0 * l2 * min(radius, 1.0) + np.linalg.norm(b))
        found = minimise(open_sums(Dense(X, row, 0.0), y), LOGISTIC, l2, b, tolerance, domain=domain)
        with mpmath.workdps(40):
            w, multiplier = exact_minimiser(X, y, l2, b, radius, found)
            assert (multiplier == 0) == inside
            assert multiplier >= 0
            off = math.sqrt(sum(float(mpmath.mpf(float(a)) - v) ** 2 for a, v in zip(found, w, strict=True)))
        assert l2 * off <= tolerance


def test_the_distance_from_the_minimiser_over_a_ball(rng):
    """Quadratics whose minimiser is known, points on both sides of a multiplier that is wrong; and nearly attained."""
    tightest = 0.0
    for _ in range(4000):
        d, l2 = int(rng.integers(1, 4)), float(10.0 ** rng.uniform(-2, 1))
        best = rng.normal(size=d)
        best /= np.linalg.norm(best)
        spread = l2 + 10.0 ** rng.uniform(-9, 3, size=d)
        true = float(10.0 ** rng.uniform(-3, 3))
        w = best + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=d)
        w *= min(1.0, (1.0 - 10.0 ** rng.uniform(-12, -1)) / np.linalg.norm(w))
        multiplier = true * float(10.0 ** rng.uniform(-1, 1)) * float(rng.integers(0, 2))
        gradient = spread * (w - best) - true * best  # of a quadratic that is least over the unit ball at `best`
        residual = float(np.linalg.norm(gradient + multiplier * w))
        bound = distance(l2, multiplier, residual, 1.0 - float(w @ w) + 1e-15)
        assert np.linalg.norm(w - best) <= bound * (1.0 + 1e-9)
        tightest = max(tightest, float(np.linalg.norm(w - best)) / bound)
    assert tightest > 0.8
    assert distance(1.0, 2.0, 1e-9, -1e-30) == math.inf


def test_a_point_is_held_just_inside_of_the_sphere(rng):
    for radius in (1e-9, 0.3, 8.0):
        for length in (0.5, 1.0 - 1e-14, 1.0, 1.3, 40.0):
            held = Held(np.zeros(5), np.zeros(5), math.inf)
            step = rng.normal(size=5)
            held = held.moved(length * radius * step / np.linalg.norm(step), radius)
            norm2 = sum((Fraction(a) + Fraction(b)) ** 2 for a, b in zip(held.high, held.low, strict=True))
            assert 0.0 <= held.room == float(Fraction(radius) ** 2 - norm2)
            assert (held.room <= 2.0**-99 * radius**2) == (length > 0.9)
            assert np.linalg.norm(held.low) <= 2.0**-53 * np.linalg.norm(held.high)


@pytest.mark.parametrize("weights", [False, True])
def test_the_gradient_beside_a_point_is_within_its_error(weights, rng):
    n, d, row = 50, 3, 100.0
    X, y, _ = made(n, d, row, 1)
    omega = rng.random(n) if weights else np.ones(n)
    sums = open_sums(Dense(X, row, 0.0, omega), y)
    high = rng.normal(size=d)
    for size in (1e-17, 1e-6):
        low = size * rng.normal(size=d)
        found = sums.careful(LOGISTIC, high, np.zeros(d)) + sums.sweep(Bend(LOGISTIC, high, low))
        with mpmath.workdps(40):
            w = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]
            exact = [mpmath.mpf(0)] * d
            for x, label, share in zip(X.tolist(), y.tolist(), omega.tolist(), strict=True):
                r = -label * share / (1 + mpmath.exp(label * mpmath.fdot(x, w)))
                exact = [a + r * b for a, b in zip(exact, x, strict=True)]
            off = math.sqrt(sum(float(mpmath.mpf(float(a)) - b) ** 2 for a, b in zip(found, exact, strict=True)))
        lengths = float(np.linalg.norm(high)), float(np.linalg.norm(low))
        allowed = sums.error().careful(lengths[0], 0.25) + beside(sums.error(), *lengths, 0.25)
        assert off <= allowed + 8.0 * 2.0**-53 * np.linalg.norm(found)


def test_losses_whose_curvature_jumps_keep_the_certificate_of_float64_points():
    capped = dc.losses.Logistic(cap=0.5)
    assert holds(LOGISTIC)
    assert not any(map(holds, (capped, dc.losses.LogCosh(), dc.losses.Softmax(3))))
    ball = dc.domains.L2Ball(8.0)
    fine, coarse = (least_tolerance(dc.Problem(loss, ball, l2=1.0), n=10**9, d=100) for loss in (LOGISTIC, capped))
    assert 1e4 * fine < coarse
    solver = type("Stub", (), {"facts": None, "l2": 1.0, "loss": capped, "domain": ball})
    assert closest(solver, "the point") == "the point"


@pytest.mark.parametrize(("n", "d"), [(10**9, 100), (10**7, 1000)])
@pytest.mark.parametrize("radius", [1.0, 8.0, 100.0])
def test_output_noise_of_many_rows_is_below_a_hundredth_of_what_the_tilt_does(n, d, radius):
    problem = dc.Problem(LOGISTIC, dc.domains.L2Ball(radius), l2=1.0)
    plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=n, d=d, budget=dc.Budget(1.0, 1e-10))
    tilt, output = plan.releases
    assert output.scale < 0.01 * tilt.scale * d / (0.25 * n + d)
    assert longest_tilt(tilt) < 100.0 * tilt.scale
    assert Accumulation(n, d, 1.0).careful(radius, 0.25, 1.0, longest_tilt(tilt)) < plan.schedule[0].tolerance
