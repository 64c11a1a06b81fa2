"""SufficientStatistics: least squares from noisy moments (AdaSSP of Wang 2018, with exact Gaussian accounting).

There are three releases: the smallest eigenvalue of sum x x', that matrix with symmetric noise, and sum y x. The first
determines how large a ridge the noise in the second needs. Proof: docs/proofs/sufficient_statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpconvex.algorithms.attacks import (
    ANYWHERE,
    NOT_CAPPED,
    ROWS_AS_PEOPLE,
    ROWS_TOO_LONG,
    SQUARED,
    Attack,
    Mutant,
    Pair,
    Victim,
    axis,
    dense,
    group_size,
)
from dpconvex.algorithms.base import ORIGIN, Algorithm, Needs
from dpconvex.algorithms.noise_law import Law, Released, raised, row_norms, symmetric_draws
from dpconvex.algorithms.options import check_options
from dpconvex.calibrate import noise_factor
from dpconvex.errors import InputError, VerificationError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import PERSON, Claim, Release, grid_of
from dpconvex.loops.rows import Rows
from dpconvex.plan.plan import Plan
from dpconvex.plan.port import NoisePort
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up
from dpconvex.theorems import noisy_moments, post_process

CONFIDENCE = 1.96  # margin, in standard deviations, for the noise of the eigenvalue and of the matrix
COARSE = 2.0  # noise of the eigenvalue, which only sets the ridge, relative to that of the moments, per sensitivity


@dataclass(frozen=True)
class SufficientStatistics(Algorithm):
    """Ridge regression from noisy second moments; with labels -1 and +1 it is a classifier.

    Parameters
    ----------
    per_person : bool
        Let every person contribute the mean of his or her rows instead of their sum. The guarantee then protects
        people, however many rows they have, and runs need the group id of every row: `run(X, y, groups=...)`.

    References
    ----------
    Wang (2018), "Revisiting differentially private linear regression: optimal and adaptive prediction and estimation in
    unbounded domain" (AdaSSP).

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(2000, 2))
    >>> problem = dc.Problem(dc.losses.Squared(target=1.0))
    >>> plan = dc.algorithms.SufficientStatistics().plan(problem, n=2000, d=2, budget=dc.Budget(2.0, 1e-6))
    >>> plan.run(X, X @ [1.0, -0.5]).weights.shape
    (2,)
    """

    needs = Needs(ORIGIN, quadratic=True, starts=False)
    suits = "least squares, or the moments themselves"
    reads = "1"
    takes = frozenset({"sample_weight", "groups"})  # a weight scales down row and target
    vectors, matrices = 1.0, 4.0
    keeps_squares = True
    keeps_releases = True

    per_person: bool = False

    def __post_init__(self) -> None:
        check_options(self, flags=["per_person"])

    def plan(self, problem: Problem, *, n: int, d: int, budget: Budget) -> Plan:
        """Fix the noise from public facts, in proportion to what one record can add to each release."""
        n, d = self.accept(problem, n, d, budget)
        factor = noise_factor(self._claim(problem, n, d, budget, 1.0), budget, slack=2e-11)
        claim = self._claim(problem, n, d, budget, factor)
        return Plan(
            self, problem, n, d, budget, claim, (), n, "ridge regression on noisy moments; no bound is stated"
        )  # fmt: skip

    def execute(self, plan: Plan, rows: Rows, y: np.ndarray, port: NoisePort) -> None:
        """Compute the moments and release them with noise."""
        from dpconvex.sums.memory import open_sums
        from dpconvex.sums.protocol import Labels

        sums = open_sums(rows, y)
        sums = sums.averaged() if self.per_person else sums
        second = sums.hessian(plan.problem.loss, np.zeros(sums.size))  # every curvature is 1
        port.add("eigenvalue", np.array([least_eigenvalue(second, plan.n * plan.problem.row_bound(plan.d).value ** 2)]))
        port.add("second", flattened(second))
        port.add("cross", sums.sweep(Labels()))

    def finish(self, plan: Plan, port: NoisePort) -> np.ndarray:
        """Solve the ridge regression with the ridge that the noise requires."""
        (size,) = plan.problem.weight_shape(plan.d)
        scale = {r.name: r.scale for r in plan.releases}
        ridge = _ridge(plan.problem.l2, size, float(port.released("eigenvalue")[0]), scale)
        second = unflattened(port.released("second"), size) + ridge * np.eye(size)
        values, vectors = np.linalg.eigh(second)
        values = np.maximum(values, max(ridge, scale["second"]))  # noise can make the matrix indefinite
        return plan.problem.domain.project(vectors @ ((vectors.T @ port.released("cross")) / values))

    def describe(self, plan: Plan) -> list[str]:
        """Lines about the releases, for a person."""
        people = ["people      the mean of a person's rows counts as one row"] if self.per_person else []
        return people + [f"{r.name:<12}noise {r.scale:.4g}" for r in plan.releases]

    def noise_law(self, released: Released) -> Law:
        """Law of the error in w = (A + ridge)^-1 v from the noise in the moments A and v, all of which are released."""
        kept, scales, size = released.kept, released.scales, released.weights.size
        if kept is None:
            raise InputError("the noisy moments were not kept with this model: fit it again")
        sigma, tau = scales["second"], scales["cross"]
        ridge = _ridge(released.problem.l2, size, float(kept["eigenvalue"][-1][0]), scales)
        floor = max(ridge, sigma)
        matrix, inverse = raised(unflattened(kept["second"][-1], size) + ridge * np.eye(size), floor)
        cross = kept["cross"][-1]
        weights = inverse @ cross
        if not np.allclose(weights, released.weights, rtol=1e-6, atol=1e-9 * float(np.abs(weights).max())):
            raise VerificationError("the moments kept with this model do not give its weights: fit it again")

        def errors(inverse: np.ndarray, w: np.ndarray) -> np.ndarray:
            """Variance of inverse (e - E w), for noise e in v and E in A."""
            along = np.einsum("...ij,...j->...i", inverse, w)
            square = tau**2 + 0.5 * sigma**2 * np.square(w).sum(axis=-1, keepdims=True)
            return np.hypot(np.sqrt(square) * row_norms(inverse), math.sqrt(0.5) * sigma * along)

        again = raised(matrix + symmetric_draws(released.seed, sigma, size), floor)[1]
        moved = again @ cross
        unit = errors(again, moved)
        covers = "the ridge regression of the same rows without noise, with the same ridge"
        return Law(covers, errors(inverse, weights), (moved - weights) / unit, tau * row_norms(again) / unit)

    @classmethod
    def attacks(cls) -> tuple[Attack, ...]:
        """Settings in which the audit attacks the claim."""
        people = cls(per_person=True)
        return (
            Attack(cls(), SQUARED, d=2, seed=50),
            Attack(people, SQUARED, d=2, name="SufficientStatistics, people", seed=52),
        )

    @classmethod
    def mutants(cls) -> tuple[Mutant, ...]:
        """Mistakes that the audit must catch."""
        return *ANYWHERE, ROWS_TOO_LONG, NOT_CAPPED, ROWS_AS_PEOPLE

    @classmethod
    def victims(cls) -> tuple[Victim, ...]:
        """Settings in which the mutants are tried."""
        return Victim(cls(), SQUARED, d=2), Victim(cls(per_person=True), SQUARED, d=2)

    def neighbours(self, plan: Plan, mutant: Mutant) -> list[Pair]:
        """Worst neighbours for a plan, broken as the mutant says."""
        # The worst angle, and a right angle, which moves the eigenvalue most in case its noise is missing.
        replaced = plan.budget.relation == "replace_one"
        turns = (_worst_turn(plan, mutant), math.pi / 2) if replaced else (0.0,)
        return [_moment_pair(plan, mutant, turn) for turn in turns]

    def _claim(self, problem: Problem, n: int, d: int, budget: Budget, factor: float) -> Claim:
        (size,) = problem.weight_shape(d)
        row, target = problem.row_bound(d), float(problem.loss.target)  # type: ignore[union-attr]
        square, product = row.value * row.value, row.value * target

        def release(name: str, moved: float, count: int) -> Release:
            scale = round_up(factor * moved)
            return Release(name, "gaussian", scale, (count,), grid=grid_of(scale))

        eigenvalue, cross = release("eigenvalue", COARSE * square, 1), release("cross", product, size)
        second = release("second", square, size * (size + 1) // 2)
        unit = PERSON if self.per_person else 1
        claim = noisy_moments(row, target, budget.relation, eigenvalue, second, cross, unit, n)
        return post_process(claim, "ridge regression")


def _ridge(l2: float, size: int, eigenvalue: float, scales: Mapping[str, float]) -> float:
    """Ridge that the noise requires, given the noisy smallest eigenvalue."""
    least = max(0.0, eigenvalue - CONFIDENCE * scales["eigenvalue"])
    return max(l2, CONFIDENCE * math.sqrt(size) * scales["second"] - least)


def least_eigenvalue(matrix: np.ndarray, largest: float) -> float:
    """Smallest eigenvalue of a sum of x x' of trace at most `largest`, within `eigenvalue_error` of the true one.

    What a solver finds is checked from both sides by Cholesky factors, whose rounding is bounded, and searched for with
    them where it fails the check.

    Examples
    --------
    >>> round(least_eigenvalue(np.diag([4.0, 1.0, 2.0]), 7.0), 9)
    1.0
    """
    room = 4.0 * 2.0**-53 * (len(matrix) + 8.0) ** 2 * largest

    def above(level: float) -> bool:
        try:
            np.linalg.cholesky(matrix - level * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            return False
        return True

    found = float(np.linalg.eigvalsh(matrix)[0])
    if above(found - 2.0 * room) and not above(found + 2.0 * room):
        return found
    low, high = -2.0 * room, largest + 2.0 * room
    while high - low > 2.0 * room:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return 0.5 * (low + high)


def flattened(matrix: np.ndarray) -> np.ndarray:
    """Entries on and above the diagonal of a symmetric matrix, with those above multiplied by sqrt 2: an isometry.

    Examples
    --------
    >>> flattened(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    i, j = np.triu_indices(len(matrix))
    return np.asarray(matrix[i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def unflattened(entries: np.ndarray, size: int) -> np.ndarray:
    """Undo `flattened`."""
    i, j = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[i, j] = entries / np.where(i == j, 1.0, math.sqrt(2.0))
    return np.asarray(matrix + np.triu(matrix, 1).T)


def _worst_turn(plan: Plan, mutant: Mutant) -> float:
    """Angle between a row and its replacement with the largest privacy cost (docs/proofs/moment_sums.md)."""
    scale = {r.name: r.scale for r in mutant.plan(plan).releases}
    row, target = plan.problem.row_bound(plan.d).value, plan.problem.loss.traits.target
    matrix = 2.0 / scale["second"] ** 2 + 1.0 / scale["eigenvalue"] ** 2
    return math.acos(min(1.0, (target / (row * scale["cross"])) ** 2 / matrix))


def _moment_pair(plan: Plan, mutant: Mutant, turn: float) -> Pair:
    """One record masked, or rotated and given the opposite target; other records along all axes but the first.

    The two rows of the record lie at equal angles from the line between the first two axes. The matrix then grows most
    along the first axis. The smallest eigenvalue belongs to that axis, since the other records make the others large.
    """
    if plan.problem.intercept:
        raise InputError("SufficientStatistics can only be attacked without a constant feature: use intercept 0")
    X, y = np.zeros((plan.n, plan.d)), np.zeros(plan.n)
    used = group_size(plan) + mutant.twice
    for i in range(used, plan.n if plan.d > 1 else used):
        X[i] = axis(plan, 1 + (i - used) % (plan.d - 1))
    y[:used] = plan.problem.loss.traits.target
    changed, labels = X.copy(), y.copy()
    if plan.budget.relation == "zero_out":
        X[:used], changed[:used], labels[:used] = axis(plan, 0), 0.0, 0.0
        words = "record masked"
    else:
        labels[:used] *= -1.0
        first = axis(plan, 0)  # in one dimension a row cannot rotate: it stays, or vanishes for a right angle
        second = axis(plan, 1) if plan.d > 1 else first * (turn < math.pi / 2)
        for rows, angle in ((X, math.pi / 4 - turn / 2), (changed, math.pi / 4 + turn / 2)):
            rows[:used] = math.cos(angle) * first + math.sin(angle) * second
        words = f"record turned by {math.degrees(turn):.0f} degrees, target reversed"
    data = (dense(plan, X, mutant), y), (dense(plan, changed, mutant), labels)
    return Pair(mutant.plan(plan), *data, f"moment pair, {words}")
