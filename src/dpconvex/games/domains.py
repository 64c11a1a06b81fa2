"""What games need of a domain beyond its projection: a start, the farthest point, the best point for a linear loss.

The domains are those of `dpconvex.problem.domains` but for `LpBall`, and of simplices the one of radius 1, on which the
bounds of the learners are proved: for another radius, scale the losses.
"""

from __future__ import annotations

import math

import numpy as np

from dpconvex.errors import InputError
from dpconvex.problem.domains import Box, Domain, Everywhere, L1Ball, L2Ball, Simplex

DOMAINS = (Everywhere, L2Ball, Box, L1Ball, Simplex)


def check_domain(domain: Domain, who: str, kinds: tuple[type, ...] = DOMAINS) -> None:
    """Refuse a domain that is none of `kinds`, or whose parameters are wrong."""
    if not isinstance(domain, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise InputError(f"{who} cannot play on {type(domain).__name__}; it takes {names}")
    if (wrong := domain.check()) is not None:
        raise InputError(f"{type(domain).__name__}: {wrong}")
    if isinstance(domain, Simplex) and domain.radius != 1.0:
        raise InputError(f"{who} plays on the simplex of radius 1, not {domain.radius:g}: scale the losses instead")


def centre(domain: Domain, d: int) -> np.ndarray:
    """Where a game starts unless it is told otherwise: the origin, or the middle of the simplex."""
    return domain.centre(d) if isinstance(domain, Simplex) else np.zeros(d)


def farthest(domain: Domain, start: np.ndarray) -> float:
    """Largest distance from `start` to a point of the domain."""
    if isinstance(domain, L2Ball):
        return domain.radius + float(np.linalg.norm(start))
    if isinstance(domain, Box):
        return float(np.linalg.norm(np.maximum(domain.hi - start, start - domain.lo)))
    if isinstance(domain, L1Ball):  # a corner: the opposite of the largest coordinate
        return math.sqrt(start @ start + domain.radius**2 + 2.0 * domain.radius * np.abs(start).max())
    if isinstance(domain, Simplex):
        return math.sqrt(max(start @ start + 1.0 - 2.0 * start.min(), 0.0))
    return math.inf


def best_point(domain: Domain, g: np.ndarray) -> np.ndarray | None:
    """Point of the domain where <g, w> is least; None if there is none."""
    if not g.any():
        return centre(domain, g.size)
    if isinstance(domain, Everywhere):
        return None
    g = g / np.abs(g).max()  # so that no square overflows or vanishes
    if isinstance(domain, L2Ball):
        return -domain.radius / np.linalg.norm(g) * g
    if isinstance(domain, Box):
        return np.where(g > 0.0, domain.lo, np.where(g < 0.0, domain.hi, 0.0))
    corner = np.zeros(g.size)
    if isinstance(domain, Simplex):
        corner[g.argmin()] = 1.0
    else:
        j = np.abs(g).argmax()
        corner[j] = -domain.radius * np.sign(g[j])
    return corner


def widths(domain: Domain, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every coordinate: the farthest it can be from `start`, and the width of its range."""
    if isinstance(domain, Box):
        return np.maximum(domain.hi - start, start - domain.lo), np.full(start.size, domain.hi - domain.lo)
    if isinstance(domain, (L2Ball, L1Ball)):
        return domain.radius + np.abs(start), np.full(start.size, 2.0 * domain.radius)
    return np.full(start.size, math.inf), np.full(start.size, math.inf)


def project_weighted(domain: Domain, z: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Point of the domain where sum_j h_j (w_j - z_j)^2 is least, h >= 0: clip, or find one multiplier.

    Examples
    --------
    >>> project_weighted(L2Ball(1.0), np.array([2.0, 2.0]), np.array([1.0, 1.0])).round(4)
    array([0.7071, 0.7071])
    >>> project_weighted(L1Ball(1.0), np.array([2.0, 2.0]), np.array([1.0, 3.0]))
    array([0., 1.])
    """
    if isinstance(domain, (Everywhere, Box)):
        return domain.project(z)
    h = h / h.max() if h.any() else np.ones(h.size)
    if isinstance(domain, L2Ball):
        return _project_ball(domain.radius, z, h)
    if isinstance(domain, L1Ball):
        return _project_cross(domain.radius, z, h)
    raise InputError(f"no weighted projection onto {type(domain).__name__}; take Everywhere, L2Ball, Box or L1Ball")


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
