"""Minimisers of one phase to 1e-13, by other means than the library's: solve the optimality conditions, check them."""

import numpy as np
from scipy.optimize import root

import dpconvex as dc


def active_pieces(X, y, loss, w, near):
    """Slopes away from kinks, and which records stand at one."""
    at, low, high = loss.kinks(y)
    r = X @ w - at
    return at, low, high, np.where(r > 0, high, low), np.abs(r) <= near


def exact_minimiser(X, y, loss, domain, ridge, weight, start, guess, near=1e-4):
    """Solve p + (ridge + weight) w - weight start + normal = 0 from a guess, and check that it is a minimiser.

    Which records stand at a kink and which bounds of the domain are active is read off the guess; that it was right
    is checked in the end, so a wrong guess fails instead of misleading.
    """
    d = len(guess)
    kinked = isinstance(loss, dc.losses.Kinked)
    at_kink = np.zeros(len(y), dtype=bool)
    if kinked:
        at, low, high, fixed, at_kink = active_pieces(X, y, loss, guess, near)
    m = ridge + weight
    ball = isinstance(domain, dc.domains.L2Ball) and np.linalg.norm(guess) > domain.radius - near
    box = isinstance(domain, dc.domains.Box)
    stuck = (guess <= domain.lo + near) | (guess >= domain.hi - near) if box else np.zeros(d, dtype=bool)
    bound = np.where(guess > 0.5 * (domain.lo + domain.hi), domain.hi, domain.lo) if box else np.zeros(d)

    def gradient(w, alpha):
        if not kinked:
            p = np.array([loss.slope(z, t) for z, t in zip(X @ w, y, strict=True)])
        else:
            p = fixed.copy()
            p[at_kink] = alpha
        return X.T @ p + m * w - weight * start

    def conditions(v):
        w, alpha, multiplier = v[:d], v[d : d + at_kink.sum()], v[d + at_kink.sum() :]
        g = gradient(w, alpha)
        if ball:
            g = g + multiplier[0] * w
        rest = [(X @ w - at)[at_kink]] if kinked else []
        rest += [[(w @ w - domain.radius**2) / domain.radius]] if ball else []
        return np.concatenate([np.where(stuck, w - bound, g), *rest])

    unknown = np.concatenate([guess, np.zeros(at_kink.sum()), np.zeros(1 if ball else 0)])
    v = unknown
    for _ in range(30):  # Newton with a numerical Jacobian: the conditions are smooth once the pieces are known
        J = np.stack([(conditions(v + 1e-6 * e) - conditions(v - 1e-6 * e)) / 2e-6 for e in np.eye(len(v))], axis=1)
        v = v - np.linalg.lstsq(J, conditions(v), rcond=None)[0]
    if not np.abs(conditions(v)).max() < 1e-12 * (1 + len(y)):
        v = root(conditions, v, tol=1e-15).x
    w, alpha = v[:d], v[d : d + at_kink.sum()]
    g = gradient(w, alpha)
    assert np.abs(conditions(v)).max() < 1e-12 * (1 + len(y) + weight * (1 + np.abs(w).max()))
    assert np.allclose(domain.project(w), w, rtol=0, atol=1e-12)
    if kinked:
        assert (alpha >= low[at_kink] - 1e-9).all()
        assert (alpha <= high[at_kink] + 1e-9).all()
        r = (X @ w - at)[~at_kink]
        assert ((fixed[~at_kink] == high[~at_kink]) == (r > 0)).all()
    if ball:
        assert v[-1] >= -1e-9
    if box:
        assert (g[stuck & (bound == domain.lo)] >= -1e-9).all()
        assert (g[stuck & (bound == domain.hi)] <= 1e-9).all()
    return w
