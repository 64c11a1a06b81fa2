"""Structural checks of the loops that are lent noise: each fails if its loop does not use what it was lent.

The port adds most noise itself. Where it lends noise to a loop, the loop is trusted, and the receipt names it. A check
here runs the plan on random rows with known noise, computes in plain NumPy what has to come out, and compares. A loop
that ignores its noise, scales it, or uses it twice or at other steps than the schedule says gives something else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex.audit.whitebox import Check
from dpconvex.data.arrays import open_rows
from dpconvex.kernel.claims import Release
from dpconvex.noise.inversion import invert
from dpconvex.noise.prefix_sum import Run
from dpconvex.noise.rounded import Variates
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.theorems.computed_steps import walk_grids
from dpconvex.theorems.correlated_noise import PREFIX_SUMS
from dpconvex.theorems.noisy_sgd import farthest, noise_shape

Noise = Callable[[str, tuple[int, ...]], np.ndarray]
_CLOSE = 1e-9  # relative: loops add up in another order than NumPy
_LOUD = 1e6  # noise beside which the rows cannot be heard


class LentPort(NoisePort):
    """A port whose lent noise is given, in place of drawn, and which adds no other.

    Parameters
    ----------
    plan : Plan
    noise : callable
        Maps the name of a release and a shape to its noise; that of a sample is above 0 where a record is chosen, and
        that of an order is the place of each record. For a walk it may be words, of which the noise is made: points are
        then rounded to a grid that is as wide as the noise, so that the rounding can be seen.
    """

    exact = False

    def __init__(self, plan: Plan, noise: Noise) -> None:
        super().__init__(plan.claim, None)  # type: ignore[arg-type]
        self._noise = noise
        self.lent: dict[str, list[np.ndarray]] = {}

    def lend(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
        """Lend the noise that was given."""
        super().lend(name, loop)
        self.lent.setdefault(name, []).append(self._noise(name, self._releases[name].shape))
        return self.lent[name][-1]

    def _variates(self, release: Release) -> Variates:
        given = self._noise(release.name, release.shape)
        self.lent.setdefault(release.name, []).append(given)
        if given.dtype != np.uint64:
            return Variates.given(given, release.scale)
        return Variates.of_words(given, release.scale, wide_grid(release), lambda place: itertools.repeat(place))

    def lend_rounds(self, name: str, rounds: int, run: Run, loop: Callable[..., Any]) -> np.ndarray:
        """Add the noise that was given to what the loop enters."""
        self.lent.setdefault(name, []).append(self._noise(name, (rounds, *self._releases[name].shape)))
        return super().lend_rounds(name, rounds, run, loop)

    def _largest(self, release: Release, value: np.ndarray) -> int:
        return int(np.argmax(value))

    def _draw(self, name: str, law: str, shape: tuple[int, ...]) -> np.ndarray:
        if law in PREFIX_SUMS and name in self.lent:
            return self.lent[name][-1] / self._releases[name].scale
        return np.zeros(shape)

    def lend_sample(self, name: str, loop: Callable[..., Any]) -> np.ndarray:
        """Lend the sample, or the bit of every place, that was given."""
        self.lent.setdefault(name, [])
        return super().lend_sample(name, loop)

    def _choose(self, name: str, count: int, probability: float) -> np.ndarray:
        given = self._noise(name, (count,))
        if name != "order":
            return np.flatnonzero(given > 0.0)
        return np.flatnonzero(given.astype(np.int64) >> (self._drawn[name] - 1) & 1)


def check_lent(plan: Plan, seed: int = 0) -> list[Check]:
    """Check every loop that a run of the plan lends noise to.

    Examples
    --------
    >>> import dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(1.0))
    >>> plan = dc.algorithms.ObjectivePerturbation().plan(problem, n=20, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> [(check.name, check.passed) for check in check_lent(plan)]
    [('dpconvex.sums.solver.minimise is given its noise as objective', True)]
    """
    rng = np.random.default_rng(seed)
    X, y = _table(plan, rng)
    port = _run(plan, X, y, lambda name, shape: rng.normal(size=shape))
    found = []
    for name in port.lent:
        loop = next((loop for loop in port.trusted if name in CHECKS.get(loop, {})), None)
        if loop is None:
            trusted = ", ".join(port.trusted)
            found.append(Check(f"noise lent as {name} is used", False, f"no check in CHECKS for any of {trusted}"))
            continue
        gap = CHECKS[loop][name](plan, X, y, rng)
        what = f"off by {gap:.2g}, alarm at 1" if math.isfinite(gap) else "the noise makes no difference"
        found.append(Check(f"{loop} is given its noise as {name}", gap < 1.0, what))
    return found


def _table(plan: Plan, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(plan.n, plan.d))
    traits = plan.problem.loss.traits
    if traits.labels == "class":
        return X, rng.integers(0, traits.outputs, plan.n).astype(float)
    return X, np.where(rng.random(plan.n) < 0.5, -1.0, 1.0)


def _run(plan: Plan, X: np.ndarray, y: np.ndarray, noise: Noise) -> LentPort:
    port = LentPort(plan, noise)
    plan.algorithm.execute(plan, *open_rows(X, y, plan.problem, plan.n, plan.d), port)
    port.close()
    return port


def _rows(plan: Plan, X: np.ndarray) -> np.ndarray:
    """The rows as algorithms see them: within their bound, with the constant feature."""
    rows: Any = open_rows(X, np.zeros(len(X)) if plan.problem.loss.traits.labels == "class" else np.ones(len(X)),
                          plan.problem, plan.n, plan.d)[0]  # fmt: skip
    inside = rows.X / np.maximum(np.linalg.norm(rows.X, axis=1, keepdims=True) / rows.radius, 1.0)
    return np.column_stack([inside, np.full(len(X), rows.constant)]) if rows.constant else inside


def _slopes(plan: Plan, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    loss: Any = plan.problem.loss
    if plan.problem.loss.traits.labels == "class":
        return np.asarray(loss.slopes(Z, y))
    return np.array([loss.slope(z, label) for z, label in zip(Z, y, strict=True)])


def _tilt(plan: Plan, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """The minimiser w of J has w = project(w - grad J(w)); within its tolerance it is off by no more than that.

    J has the real tilt, and the loop is lent that tilt on its grid: half a cell of every number joins the tolerance.
    """
    release = next(r for r in plan.releases if r.name == "objective")
    tilt, grid = release.scale * rng.normal(size=release.shape), release.grid or 0.0
    port = _run(plan, X, y, lambda name, shape: np.rint(tilt / grid) * grid if grid else tilt)
    w = port.released("output")
    problem, rows, weights = plan.algorithm.solved(plan, port, _rows(plan, X))  # type: ignore[attr-defined]
    gradient = (_slopes(plan, rows @ w.T, y).T * weights) @ rows + problem.l2 * w + tilt
    allowed = plan.schedule[0].tolerance + 0.5 * grid * math.sqrt(tilt.size)
    return float(np.linalg.norm(w - problem.domain.project(w - gradient)) / (1.1 * allowed))


def wide_grid(release: Release) -> float:
    """The largest power of two within the scale of a release."""
    return math.ldexp(0.5, math.frexp(release.scale)[1])


def _walk(plan: Plan, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """Noisy steps in plain NumPy, over the rows in their places, each rounded to a wide grid.

    One word in five is so small that only integers can decide what it gives.
    """

    def noise(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name != "walk":
            return np.arange(shape[0]) * 1.0
        words = rng.integers(0, 2**64, shape, dtype=np.uint64)
        return np.where(rng.random(shape) < 0.2, words >> np.uint64(19), words)

    port = _run(plan, X, y, noise)
    walk, rows, domain = plan.schedule[0], _rows(plan, X), plan.problem.domain
    release = next(r for r in plan.releases if r.name == "walk")
    eta, words = walk.steps.values(), np.concatenate(port.lent["walk"])
    shape, normal = noise_shape(eta, walk.noise), np.empty(words.size)
    invert(words.reshape(-1), normal)
    grids = walk_grids(shape, wide_grid(release), farthest(plan.problem.lipschitz(plan.d), eta, walk.reach))
    cuts = np.concatenate([[0], np.cumsum(walk.batches.values())]).astype(int)
    w = np.zeros(plan.problem.weight_shape(plan.d))
    for t in range(len(eta)):
        start, stop = cuts[t % (len(cuts) - 1)], cuts[t % (len(cuts) - 1) + 1]
        part = rows[start:stop]
        slopes = _slopes(plan, part @ w.T, y[start:stop])
        gradient = slopes.T @ part / (stop - start) + plan.problem.l2 / plan.n * w
        w = w - eta[t] * gradient
        if t < len(eta) - 1:
            noisy = w + release.scale * shape[t] * normal.reshape(words.shape)[t]
            w = domain.project(np.rint(noisy / grids[t]) * grids[t] if grids[t] else noisy)
    return _gap(port.released("end"), w)


def _order(plan: Plan, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """Rows in a lent order give what rows that stand in that order give; infinite if the order makes no difference."""
    order = rng.permutation(plan.n)
    steps = rng.normal(size=(plan.n, plan.d + 1))  # the same for every run, if there is a walk as well

    def noise(places: np.ndarray) -> Noise:
        def give(name: str, shape: tuple[int, ...]) -> np.ndarray:
            return np.argsort(places).astype(float) if name == "order" else np.resize(steps, shape)

        return give

    last = _last(plan)
    still = np.arange(plan.n)
    lent = _run(plan, X, y, noise(order)).released(last)
    moved = _run(plan, X[order], y[order], noise(still)).released(last)
    plain = _run(plan, X, y, noise(still)).released(last)
    return _gap(lent, moved) if not np.array_equal(lent, plain) else math.inf


def _rounds(plan: Plan, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """Of running sums under loud noise, what is not noise is no longer than the gradients of the rows."""
    bound = plan.n * plan.problem.lipschitz(plan.d).value
    port = _run(plan, X, y, lambda name, shape: _LOUD * bound * rng.normal(size=shape))
    sums = port.history("sums")
    rest = np.diff(sums, axis=0, prepend=np.zeros((1, *sums.shape[1:]))) - np.concatenate(port.lent["sums"])
    slack = 1e-12 * np.abs(sums).max()
    return float(np.linalg.norm(rest.reshape(len(rest), -1), axis=1).max() / (bound + slack) / 1.1)


def _members(plan: Plan, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """Records that were not chosen change nothing; infinite if one that was chosen does not either."""
    given = rng.permutation(np.linspace(-1.0, 1.0, plan.n))

    def released(rows: np.ndarray) -> np.ndarray:
        return _run(plan, rows, y, lambda name, shape: given).history(_last(plan))

    other = X + rng.normal(size=X.shape)
    outside, inside = np.where(given[:, None] > 0.0, X, other), np.where(given[:, None] > 0.0, other, X)
    found = released(X)
    return _gap(found, released(outside)) if not np.array_equal(found, released(inside)) else math.inf


def _last(plan: Plan) -> str:
    """Name of the last release whose value is kept and not lent."""
    return [r.name for r in plan.releases if r.name not in ("order", "walk", "sample")][-1]


def _gap(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / (_CLOSE * (1.0 + np.abs(expected).max())))


# For every loop that is lent noise, by the name on receipts: what each of its releases is compared with.
CHECKS: dict[str, dict[str, Callable[[Plan, np.ndarray, np.ndarray, np.random.Generator], float]]] = {
    "dpconvex.sums.solver.minimise": {"objective": _tilt},
    "dpconvex.loops.stream._walk": {"walk": _walk, "order": _order},
    "dpconvex.loops.stream.descend": {"order": _order},
    "dpconvex.loops.stream.descend_batches": {"order": _order},
    "dpconvex.loops.leader.play": {"sums": _rounds},
    "dpconvex.algorithms.disjoint.secret_order": {"order": _order},
    "dpconvex.algorithms.poisson_sgd.clipped_gradients": {"sample": _members},
}
