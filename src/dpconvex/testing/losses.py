"""What a loss promises: its slope is the derivative of its value, and every bound it states is true."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpconvex.problem.losses import Loss
from dpconvex.problem.own import curvature_law

EDGES = (-30.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 30.0)


def check_loss(loss: Loss, *, points: int = 300, seed: int = 0) -> None:
    """Check values, slopes, curvatures, bounds and traits of a loss at random points and at the edges.

    Parameters
    ----------
    loss : a loss, one of `dpconvex.losses` or written like them
    points : int
        Number of random points.
    seed : int

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_loss(dc.losses.Huber(0.5))
    >>> class Careless(dc.losses.Huber):
    ...     def slope_bound(self, reach):
    ...         return self.threshold / 2
    >>> check_loss(Careless(0.5))
    Traceback (most recent call last):
        ...
    AssertionError: Careless: slope -0.5 at prediction -30 is beyond the stated bound 0.25
    """
    assert loss.check() is None, f"{_name(loss)}: its own check refuses its parameters"
    rng = np.random.default_rng(seed)
    if loss.traits.outputs > 1:
        return _check_vector_loss(loss, points, rng)
    for z, step, y in points_of(loss, points, rng):
        check_at(loss, z, step, y)
    check_attained(loss)


def check_at(loss: Any, z: float, step: float, y: float) -> None:
    """Check a loss of one prediction at prediction z, at z + step > z, and at label y."""
    name, h = _name(loss), 1e-5
    slope = loss.slope(z, y)
    before, after = ((loss.value(z + s, y) - loss.value(z, y)) / s for s in (-h, h))
    room = 1e-4 * max(1.0, abs(slope))
    assert before - room <= slope <= after + room, f"{name}: slope {slope:g} at {z:g} is no derivative of the value"
    if not loss.traits.kinked:
        assert abs(slope - (before + after) / 2.0) <= room, f"{name}: slope {slope:g} at {z:g} is not the derivative"
    rise, most = loss.slope(z + step, y) - slope, loss.curvature_bound()
    assert rise >= -1e-12, f"{name}: its slope falls after {z:g}, so it is not convex"
    assert rise <= most * step * (1.0 + 1e-9) + 1e-12, f"{name}: its slope rises faster than curvature_bound {most:g}"
    curvature = loss.curvature(z, y)
    assert -1e-12 <= curvature <= most + 1e-12, f"{name}: curvature {curvature:g} at {z:g} is not within 0 and {most:g}"
    bound = loss.slope_bound(abs(z))
    assert abs(slope) <= bound + 1e-15 * (1.0 + bound), (
        f"{name}: slope {slope:g} at prediction {z:g} is beyond the stated bound {bound:g}"
    )
    if loss.traits.monotone:
        assert slope * y <= 0.0, f"{name}: traits.monotone, but the label does not fix the sign of the slope at {z:g}"
    if loss.traits.kinked:
        return _check_kink(loss, z, y)
    a, b, c = curvature_law(loss)
    s = abs(slope)
    assert curvature <= a + b * s + c * s * s + 1e-12, f"{name}: curvature at {z:g} breaks the stated law of the slope"


def check_attained(loss: Any) -> None:
    """Check along a grid that the stated bounds are attained, since a loose one costs accuracy, and the law holds."""
    name, grid = _name(loss), [i / 200.0 for i in range(-6000, 6001)]
    labels = (loss.traits.target, -loss.traits.target)
    steepest, bound = max(abs(loss.slope(z, y)) for z in grid for y in labels), loss.slope_bound(30.0)
    assert math.isclose(steepest, bound, rel_tol=1e-6), f"{name}: slope_bound(30) is {bound:g}, attained {steepest:g}"
    if loss.traits.kinked:
        return
    bend, most = max(loss.curvature(z, y) for z in grid for y in labels), loss.curvature_bound()
    assert math.isclose(bend, most, rel_tol=2e-2, abs_tol=1e-12), (
        f"{name}: curvature_bound is {most:g}, attained {bend:g}"
    )
    a, b, c = loss.curvature_law()
    for z in grid:
        for y in labels:
            s = abs(loss.slope(z, y))
            room = a + b * s + c * s * s - loss.curvature(z, y)
            assert room >= -1e-12, f"{name}: curvature at {z:g} breaks the stated law of the slope"
    top = min(loss.slope_bound(math.inf), 1e6)
    assert c <= 0.0, f"{name}: the law of the curvature must be concave in the slope"
    assert min(a, a + b * top + c * top * top) >= -1e-12, f"{name}: the law of the curvature falls below 0"


def _check_kink(loss: Any, z: float, y: float) -> None:
    name = _name(loss)
    assert loss.curvature_bound() == math.inf, f"{name}: no curvature bounds the rise of a slope that jumps"
    (at,), (before,), (after,) = loss.kinks(np.array([y]))
    assert before <= 0.0 <= after, f"{name}: the slopes at a kink must lie on both sides of 0"
    assert math.isclose(loss.value(z, y), max(before * (z - at), after * (z - at)), abs_tol=1e-12), (
        f"{name}: its value at {z:g} is not the larger of the two lines of `kinks`"
    )
    assert loss.slope(z, y) == (before if z < at else after if z > at else loss.slope(at, y)), f"{name}: slope at {z:g}"
    assert before <= loss.slope(at, y) <= after, f"{name}: the slope at the kink is no subgradient"


def _check_vector_loss(loss: Any, points: int, rng: np.random.Generator) -> None:
    name, K = _name(loss), loss.traits.outputs
    Z, y = 5.0 * rng.normal(size=(points, K)), rng.integers(0, K, points).astype(float)
    own = np.arange(points), y.astype(np.intp)
    slopes = loss.slopes(Z, y)
    right = np.allclose(loss.values(Z, y), -np.log(loss.probabilities(Z, y)[own]), atol=1e-10)
    assert right, f"{name}: its value is not minus the logarithm of the probability of the label"
    for k in range(K):
        h = np.zeros(K)
        h[k] = 1e-6
        ahead, behind = (-np.log(loss.probabilities(Z + s * h, y)[own]) for s in (1.0, -1.0))
        wrong = np.abs((ahead - behind) / 2e-6 - slopes[:, k]).max()
        assert wrong <= 1e-5, f"{name}: its slope is not the gradient of its value, off by {wrong:g} in class {k}"
    longest = np.linalg.norm(slopes, axis=1).max()
    assert longest <= loss.slope_bound(math.inf) + 1e-12, f"{name}: a slope of norm {longest:g} is beyond its bound"
    for p in loss.probabilities(Z[:50], y[:50]):
        bend = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max()
        assert bend <= loss.curvature_bound() + 1e-12, f"{name}: curvature {bend:g} is beyond its bound"
    odds = loss.log_odds(Z[:50])
    for z, o in zip(Z[:50], odds, strict=True):  # a population with these probabilities has its minimiser here
        P = np.exp(o - np.logaddexp.reduce(o))
        mean = sum(P[k] * loss.slopes(z[None], np.array([float(k)]))[0] for k in range(K))
        assert np.allclose(mean, 0.0, atol=1e-10), f"{name}: log_odds do not undo the shape of the loss"


def points_of(loss: Any, points: int, rng: np.random.Generator) -> Iterator[tuple[float, float, float]]:
    """Predictions, steps and labels, edges first."""
    target = loss.traits.target
    for z in EDGES:
        for y in (-target, target):
            yield z, 1.0, y
    labels = rng.choice([-1.0, 1.0], points) if loss.traits.labels == "sign" else rng.uniform(-target, target, points)
    yield from zip(
        rng.uniform(-30.0, 30.0, points).tolist(),
        rng.uniform(1e-3, 10.0, points).tolist(),
        labels.tolist(),
        strict=True,
    )


def _name(loss: Any) -> str:
    return type(loss).__name__
