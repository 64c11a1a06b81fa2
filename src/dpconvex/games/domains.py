"""Domains of games: which of them a player takes, and projections that weigh coordinates.

A player takes domains by their traits. Bounds are proved on the simplex of radius 1: for another radius, scale the
losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpconvex.errors import InputError
from dpconvex.problem.domains import Domain
from dpconvex.problem.traits import DomainTraits

__all__ = ["Kinds", "check_domain", "coordinate_range", "project_weighted"]


class Kinds(NamedTuple):
    """Domains that a player takes, in words and as a condition on their traits."""

    words: str
    fit: Callable[[DomainTraits], bool]


ANY = Kinds("Everywhere, L2Ball, Box, L1Ball, Simplex", lambda traits: traits.inside)
WITH_ORIGIN = Kinds("Everywhere, L2Ball, Box, L1Ball", lambda traits: traits.inside and traits.origin)
BOUNDED = Kinds("L2Ball, Box, L1Ball", lambda traits: traits.inside and traits.origin and traits.bounded)
BALL_OR_BOX = Kinds("L2Ball, Box", lambda traits: traits.rowwise and traits.bounded)
P_NORM = Kinds("Everywhere, Box, L1Ball", lambda traits: traits.interval is not None or traits.norm == 1.0)
SIMPLEX = Kinds("Simplex", lambda traits: not traits.origin)


def check_domain(domain: Any, who: str, kinds: Kinds = ANY) -> None:
    """Refuse a domain that is none of `kinds`, or whose parameters are wrong."""
    traits = getattr(domain, "traits", None)
    if traits is None or not kinds.fit(traits):
        raise InputError(f"{who} cannot play on {type(domain).__name__}; it takes {kinds.words}")
    if (wrong := domain.check()) is not None:
        raise InputError(f"{type(domain).__name__}: {wrong}")
    if not traits.origin and domain.radius != 1.0:
        raise InputError(f"{who} plays on the simplex of radius 1, not {domain.radius:g}: scale the losses instead")


def coordinate_range(domain: Domain) -> tuple[float, float]:
    """Least and largest value of a coordinate, on a domain that holds the origin.

    Examples
    --------
    >>> from dpconvex.problem.domains import Box, L1Ball
    >>> coordinate_range(Box(0.0, 2.0)), coordinate_range(L1Ball(1.0))
    ((0.0, 2.0), (-1.0, 1.0))
    """
    traits = domain.traits
    return traits.interval or (-traits.radius, traits.radius)


def project_weighted(domain: Domain, z: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Point of the domain where sum_j h_j (w_j - z_j)^2 is least, h >= 0: clip, or find one multiplier.

    Examples
    --------
    >>> from dpconvex.problem.domains import L1Ball, L2Ball
    >>> project_weighted(L2Ball(1.0), np.array([2.0, 2.0]), np.array([1.0, 1.0])).round(4)
    array([0.7071, 0.7071])
    >>> project_weighted(L1Ball(1.0), np.array([2.0, 2.0]), np.array([1.0, 3.0]))
    array([0., 1.])
    """
    traits = domain.traits
    if traits.interval is not None:
        return domain.project(z)
    h = h / h.max() if h.any() else np.ones(h.size)
    if traits.norm == 2.0:
        return _project_ball(traits.radius, z, h)
    if traits.norm == 1.0:
        return _project_cross(traits.radius, z, h)
    raise InputError(f"no weighted projection onto {type(domain).__name__}; take {WITH_ORIGIN.words}")


def _project_ball(radius: float, z: np.ndarray, h: np.ndarray) -> np.ndarray:
    """w_j = h_j z_j / (h_j + lam); Newton on 1/|w| - 1/radius, which rises to its root without overshooting."""
    norm = float(np.linalg.norm(z))
    if norm <= radius:
        return z
    lam, pull, w = 0.0, h * z, z
    for _ in range(100):
        slope = float((w * w / np.maximum(h + lam, 1e-300)).sum())
        rise = (norm / radius - 1.0) * norm * norm / slope
        lam += rise
        w = pull / (h + lam)
        norm = float(np.linalg.norm(w))
        if norm <= radius * (1.0 + 1e-15) or rise <= 1e-16 * lam:
            break
    return w * min(1.0, radius / norm)


def _project_cross(radius: float, z: np.ndarray, h: np.ndarray) -> np.ndarray:
    """w_j = sign(z_j) (|z_j| - lam / h_j)_+, where the size of w is linear in lam between sorted values h_j |z_j|."""
    size = np.abs(z)
    if size.sum() <= radius:
        return z
    free = h > 0.0  # a coordinate without weight is given up first, at no cost
    size = np.where(free, size, 0.0)
    if size.sum() <= radius:
        return np.sign(z) * size
    give = np.where(free, 1.0 / np.where(free, h, 1.0), 0.0)
    order = np.argsort(-h * size)
    lams = (np.cumsum(size[order]) - radius) / np.cumsum(give[order])
    lam = lams[np.flatnonzero((h * size)[order] > lams)[-1]]
    w = np.maximum(size - lam * give, 0.0)
    return np.sign(z) * w * min(1.0, radius / w.sum())
