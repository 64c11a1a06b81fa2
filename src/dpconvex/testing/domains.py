"""What a domain promises: its projection is the nearest point, and its diameter, reach and support are true."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpconvex.problem.domains import Domain


def check_domain(domain: Domain, *, d: int = 4, points: int = 200, seed: int = 0) -> None:
    """Check projection, diameter, reach, support, Gaussian width and traits of a domain in dimension d.

    Parameters
    ----------
    domain : a domain, one of `dpconvex.domains` or written like them
    d : int
        Dimension, at least 2.
    points : int
        Number of random pairs of points.
    seed : int

    Raises
    ------
    AssertionError
        At the first promise that is broken.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_domain(dc.domains.L1Ball(2.0))
    >>> class Careless(dc.domains.L2Ball):
    ...     def diameter(self, d):
    ...         return self.radius
    >>> check_domain(Careless(1.5))
    Traceback (most recent call last):
        ...
    AssertionError: Careless: two of its points are farther apart than its diameter
    """
    name = type(domain).__name__
    assert domain.check() is None, f"{name}: its own check refuses its parameters"
    rng = np.random.default_rng(seed)
    for k in range(points):
        w, v = 10.0 ** rng.uniform(-2.0, 1.0, (2, 1)) * rng.uniform(-1.0, 1.0, (2, d))
        if k % 5 == 0:  # on the axes, and at the origin
            w = np.where(np.arange(d) == k % d, w, 0.0)
            v = 0.0 * v if k % 10 == 0 else v
        check_between(domain, w, v)
    check_traits(domain, d, rng)
    check_gaussian_width(domain, d, rng)


def check_between(domain: Any, w: np.ndarray, v: np.ndarray) -> None:
    """Check a domain at the points to which w and v are projected, and its support along v."""
    name, d = type(domain).__name__, w.size
    p, q = domain.project(w), domain.project(v)
    assert np.allclose(domain.project(p), p, atol=1e-12), f"{name}: projecting twice moves a point"
    room = 1e-9 * (1.0 + np.abs(w).max()) ** 2
    assert (w - p) @ (q - p) <= room, f"{name}: its projection is not the nearest point (variational inequality)"
    apart = np.linalg.norm(p - q)
    assert apart <= np.linalg.norm(w - v) * (1.0 + 1e-12) + 1e-12, f"{name}: its projection moves points apart"
    assert apart <= domain.diameter(d) * (1.0 + 1e-12), f"{name}: two of its points are farther apart than its diameter"
    assert np.linalg.norm(p) <= domain.reach(d) * (1.0 + 1e-12), f"{name}: a point is farther out than its reach"
    support = domain.support(v)
    assert v @ p <= support + 1e-12 * (1.0 + np.abs(v).sum()), f"{name}: its support is not the largest inner product"
    if np.isfinite(support) and v.any():
        far = v @ domain.project(1e9 * v / np.abs(v).max())
        assert math.isclose(far, support, rel_tol=1e-6, abs_tol=1e-6), f"{name}: its support is not attained"
    if domain.traits.rowwise:
        by_parts = np.array([domain.clip(x) for x in w])
        by_parts = by_parts * domain.rescale(float(by_parts @ by_parts))
        assert np.allclose(by_parts, p, atol=1e-12), f"{name}: clip and rescale do not add up to its projection"
        assert domain.clips() or np.array_equal([domain.clip(x) for x in w], w), f"{name}: clip acts, clips() denies it"


def check_traits(domain: Any, d: int, rng: np.random.Generator) -> None:
    """Check what a domain says of itself in its traits."""
    name, traits = type(domain).__name__, domain.traits
    assert traits.bounded == math.isfinite(domain.diameter(d)), f"{name}: traits.bounded contradicts its diameter"
    origin = np.array_equal(domain.project(np.zeros(d)), np.zeros(d))
    assert traits.origin == origin, f"{name}: traits.origin is {traits.origin}"
    lowest = domain.lowest(rng.normal(size=d))
    assert traits.bounded == (lowest is not None), f"{name}: a bounded domain has a lowest point, others have none"
    if traits.corners:
        assert np.count_nonzero(lowest) == 1, f"{name}: traits.corners, but its lowest point is no corner"
    if traits.norm is not None:
        w = rng.normal(size=d)
        on = w * (traits.radius / np.linalg.norm(w, traits.norm))
        assert np.allclose(domain.project(0.999 * on), 0.999 * on, rtol=1e-12), f"{name}: a point of its ball moved"
        size = np.linalg.norm(domain.project(1.5 * on), traits.norm)
        assert math.isclose(size, traits.radius, rel_tol=1e-9), f"{name}: a point beyond its radius does not end on it"


def check_gaussian_width(domain: Any, d: int, rng: np.random.Generator) -> None:
    """Check that the stated width is no smaller than the mean support of normal vectors, by four standard errors."""
    found = np.array([domain.support(g) for g in rng.normal(size=(2000, d))])
    if np.isfinite(found).all():
        room = 4.0 * found.std() / math.sqrt(found.size)
        stated = domain.gaussian_width(d)
        assert found.mean() <= stated + room, f"{type(domain).__name__}: its Gaussian width is more than {stated:g}"
