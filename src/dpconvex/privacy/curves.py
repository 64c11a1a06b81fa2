"""Privacy curves: delta as a function of epsilon for a whole array at once, and what can be done with them.

A curve bounds D(P || Q) = sup_S P(S) - e^epsilon Q(S) at every real epsilon, over a set of ordered pairs of laws.
Everything here keeps that: the result is an upper bound whatever the grids are, which only decide how tight it is.
Statements and error analysis: docs/proofs/objective_perturbation.md (chains, output noise, numerics) and compose.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

ROUND = 1e-10  # rounding slack, relative to the mass of the event that was integrated
FLOOR = 1e-25  # no curve reports less
TAIL = 9.0  # Gaussian mass beyond this many standard deviations is added as it is


def gaussian_curve(eps: Array, mu: float | Array) -> Array:
    """Delta of N(mu, 1) against N(0, 1) at every real epsilon, rounded up.

    Examples
    --------
    >>> f"{gaussian_curve(np.array([1.0]), 0.23670438)[0]:.4e}"
    '1.0000e-06'
    """
    mu = np.asarray(mu, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hit = ndtr(mu / 2 - eps / mu)
        out = hit - np.exp(eps) * ndtr(-mu / 2 - eps / mu) + ROUND * hit
    return np.asarray(np.clip(np.where(mu > 0, out, -np.expm1(eps)), 0, 1))


def cell_mass(z: Array) -> Array:
    """Standard normal mass between neighbouring points, each from its own tail."""
    low, high = z[..., :-1], z[..., 1:]
    return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


def both_signs(forward: Curve, backward: Curve) -> Curve:
    """A curve from bounds that hold at epsilon >= 0 only, `backward` being about the pairs in the other order.

    With a = e^epsilon, D_a(P || Q) = 1 - a + a D_{1/a}(Q || P).
    """

    def curve(eps: Array) -> Array:
        out = np.empty_like(eps)
        negative = eps < 0
        if not negative.all():
            out[~negative] = forward(eps[~negative])
        if negative.any():
            e = eps[negative]
            out[negative] = -np.expm1(e) * (1 + ROUND) + np.exp(e) * backward(-e)
        return np.asarray(np.clip(np.where(np.isnan(out), 1.0, out), FLOOR, 1))

    return curve


def symmetric(forward: Curve) -> Curve:
    """A curve from a bound that holds at epsilon >= 0 for the pairs in either order."""
    return both_signs(forward, forward)


def chain(first: Curve, second: Curve, scale: float) -> Curve:
    """P -> M -> Q in either order of the two steps: the smallest over e of both bounds of the proof note, Theorem 8.

    `scale` is about mu^2/2 of one step and places the search; any e is valid, so the search needs no accuracy.
    """

    def bounds(eps: Array, e: Array) -> Array:
        one, gap = first(e), eps[:, None] - e
        two = second(gap.ravel()).reshape(gap.shape)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(one + np.exp(e) * two, two + np.exp(gap) * one))

    def best(eps: Array) -> Array:
        low, high = float(eps.min()), float(eps.max())
        e = np.linspace(low / 2 - scale, max(high, high / 2 + scale), 40)
        coarse = bounds(eps, e)
        at, step = e[coarse.argmin(axis=1)], e[1] - e[0]
        fine = bounds(eps, np.linspace(at.min() - step, at.max() + step, 24))
        return np.asarray(np.clip(np.minimum(coarse.min(axis=1), fine.min(axis=1)) * (1 + 1e-13), 0, 1))

    return symmetric(best)


def with_gaussian(curve: Curve, mu: float, nodes: int) -> Curve:
    """Composition with a mu-GDP mechanism: E curve(eps - mu^2/2 - mu Z), exact when the curve is Gaussian itself.

    The divergence is convex in e^epsilon, so between nodes it lies below the chord of bounds at the nodes, and a chord
    integrates against the Gaussian in closed form.
    """
    if mu == 0.0:
        return curve
    z = np.linspace(-TAIL, TAIL, nodes)
    mass, tilted = cell_mass(z), cell_mass(z + mu)

    def total(eps: Array) -> Array:
        loss = eps[:, None] - mu**2 / 2 - mu * z
        value = curve(loss.ravel()).reshape(loss.shape)
        alpha = np.exp(loss - eps[:, None])  # in units of e^eps
        slope = np.minimum(np.diff(value, axis=1) / np.diff(alpha, axis=1), 0.0)
        # the chord, lifted so that it dominates both nodes after rounding
        base = np.maximum(value[:, :-1] - slope * alpha[:, :-1], value[:, 1:] - slope * alpha[:, 1:])
        inner = (base * mass + slope * tilted).sum(axis=1)
        slack = ROUND * (np.abs(base) * mass + np.abs(slope) * tilted).sum(axis=1)
        return np.asarray(np.clip(inner + slack + ndtr(-TAIL) * (1 + value[:, 0]), 0, 1))

    return symmetric(total)


def join(first: Curve, second: Curve) -> Curve:
    """Composition of two mechanisms: first(eps - eta) + second(eta) for the best eta found; it holds for every eta."""

    def total(eps: Array) -> Array:
        best = np.ones_like(eps)
        at, width = np.full_like(eps, 0.5), 0.5
        for points in (9, 7, 7):
            share = np.clip(at[:, None] + width * np.linspace(-1, 1, points), 0.0, 1.0)
            eta = share * eps[:, None]
            gap = eps[:, None] - eta
            value = (first(gap.ravel()) + second(eta.ravel())).reshape(eta.shape)
            best = np.minimum(best, value.min(axis=1))
            at, width = np.take_along_axis(share, value.argmin(axis=1)[:, None], 1)[:, 0], 2 * width / (points - 1)
        return np.asarray(best * (1 + 1e-12))

    return symmetric(total)
