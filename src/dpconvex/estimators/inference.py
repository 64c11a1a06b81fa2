"""Noise reports: standard errors and intervals of fitted coefficients, for the noise of the mechanism.

They say how far the noise moved the released coefficients, not how they would differ for another sample of people.
What each interval covers, and how well, is in docs/proofs/noise_intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpconvex.algorithms.sufficient_statistics import CONFIDENCE, unflattened
from dpconvex.data.encoding import Encoding
from dpconvex.errors import InputError, VerificationError
from dpconvex.estimators.table import Opened, check_confidence
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.receipt import Receipt
from dpconvex.plan.people import plan_for_people
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.problem import Problem
from dpconvex.queries.curvature import Curvature
from dpconvex.verify import prove
from dpconvex.words import align, receipt_line

if TYPE_CHECKING:
    from dpconvex.estimators.base import PrivateLinearModel

__all__ = ["NoiseReport"]

_NOT_SAMPLING = (
    "This is the noise of the mechanism only, not sampling error: the numbers do not say how the coefficients would "
    "differ for another sample of people."
)
_MINIMISER = "the minimiser of the same objective, its l2 term included, on the same rows without noise"
_RIDGE = "the ridge regression of the same rows without noise, with the same ridge"
_LAST_PHASE = (
    "the result of the last phase before its noise was added. Its starting point holds the noise of earlier phases, "
    "which is not included"
)
_DIRECTION = "the same direction and length without noise"


class Law(NamedTuple):
    """How far noise moved released weights, in standard errors: a mixture of normal laws, one per draw and weight."""

    std_errors: np.ndarray
    shifts: np.ndarray  # means, one row per draw
    spreads: np.ndarray  # standard deviations


@dataclass(frozen=True)
class NoiseReport:
    """How far the noise of a fit may have moved its coefficients; `print` shows a table.

    Attributes
    ----------
    names : tuple of str, the (encoded) features, and "(intercept)" if there is one
    coef : array, the coefficients, the intercept last
    std_errors : array, their standard errors due to noise, in the same units
    covers : str, what the intervals cover
    receipts : tuple of Receipt, of the fit and of the additional release of this report, if there was one

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 50 + 20 * X[:, 0] + rng.normal(size=20_000)
    >>> facts = {"feature_bound": dc.bounds.Linf(1.0), "target_range": (0, 100)}
    >>> model = dc.PrivateHuberRegressor(1.0, **facts).fit(X, y)
    >>> report = model.noise_report(X, y, budget=dc.Budget(0.5, 1e-6))
    >>> low, high = report.interval(0.95)
    >>> report.names, bool((high - low < 0.5).all()), report.receipts[1].epsilon <= 0.5
    (('x0', 'x1', '(intercept)'), True, True)
    """

    names: tuple[str, ...]
    coef: np.ndarray
    std_errors: np.ndarray
    covers: str
    receipts: tuple[Receipt, ...]
    law: Law

    @property
    def receipt(self) -> Receipt | None:
        """Receipt of the additional release of this report, or None if there was none."""
        return self.receipts[1] if len(self.receipts) > 1 else None

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends of the intervals, one per coefficient.

        Each interval holds the value that it covers (`covers`) with the given probability over the noise.

        Raises
        ------
        InputError
            If the confidence is not strictly between 0 and 1.
        """
        half = self.std_errors * _quantile(self.law, confidence)
        return self.coef - half, self.coef + half

    def summary(self, confidence: float = 0.95) -> str:
        """Return the table as text, with what the intervals cover and the receipts it rests on."""
        low, high = self.interval(confidence)
        head = ("", "coefficient", "noise s.e.", f"{100 * confidence:g}% interval", "")
        rows = [
            (name, *(f"{v:.5g}" for v in (value, error, a, b)))
            for name, value, error, a, b in zip(self.names, self.coef, self.std_errors, low, high, strict=True)
        ]
        return "\n".join(
            [
                *align([head, *rows]),
                "",
                fill(_NOT_SAMPLING, 100),
                fill(f"The intervals cover {self.covers}.", 100),
                *(receipt_line(_algorithm(receipt), receipt) for receipt in self.receipts),
            ]
        )

    __str__ = summary


def needs_hessian(receipt: Receipt) -> bool:
    """Whether the report of a run depends on the Hessian of its objective."""
    return bool(_algorithm(receipt) == "ObjectivePerturbation" and receipt.problem.loss.traits.outputs == 1)


def plan_hessian(weights: np.ndarray, problem: Problem, rows: Opened, budget: Budget) -> Plan:
    """Plan a release of the Hessian of the objective at released weights."""
    curvature = Curvature(at=tuple(weights.tolist()))
    return plan_for_people(curvature, problem, rows.n, rows.d, budget, rows.rows_per_person)


def noise_report(
    model: PrivateLinearModel, scales: Mapping[str, float], hessian: Solution | None = None
) -> NoiseReport:
    """Report the noise in the coefficients of a fitted model; see `PrivateLinearModel.noise_report`.

    Parameters
    ----------
    model : PrivateLinearModel
    scales : mapping from releases to scales, those that its receipt states
    hessian : Solution, the release of `plan_hessian`, where it is needed
    """
    receipt, weights = model.receipt_, model.weights_
    name = _algorithm(receipt)
    if hessian is not None:
        return _report(model, _tilted(receipt.problem.l2, scales, hessian), _MINIMISER, hessian.receipt)
    if name == "SufficientStatistics":
        return _report(model, _from_moments(weights, getattr(model, "moments_", None), receipt, scales), _RIDGE)
    if name in ("PhasedERM", "PhasedSGD"):
        phases = [scale for release, scale in scales.items() if release.startswith("phase")]
        return _report(model, _added(phases[-1], weights), _LAST_PHASE)
    if name == "MeanDirection":
        return _report(model, _added(_step(receipt) * scales["direction"], weights), _DIRECTION)
    raise InputError(
        f"no noise report is available for {name} with {type(receipt.problem.loss).__name__}: its noise enters at "
        "every step, and later steps absorb part of it. Fit two classes or a target with ObjectivePerturbation, "
        "SufficientStatistics, PhasedERM, PhasedSGD or MeanDirection"
    )


def stated_scales(receipt: Receipt) -> dict[str, float]:
    """Return the scale of every release on a receipt, which is verified first."""
    return {release.name: release.scale for release in prove(receipt).releases}


# The law of the error of each algorithm ---------------------------------------------------------------------------


def _added(scale: float, weights: np.ndarray) -> Law:
    """Noise that was added to the weights themselves."""
    return Law(np.full(weights.shape, scale), np.zeros((1, weights.size)), np.ones((1, weights.size)))


def _tilted(l2: float, scales: Mapping[str, float], hessian: Solution) -> Law:
    """Noise in the objective: it moves the minimiser by -H^-1 b to first order, and H is known up to noise.

    H is certain to be at least l2. Eigenvalues that the noise alone could explain, up to sigma sqrt(2 d) above it, are
    replaced by l2; the noise in the others is averaged over.
    """
    size, noise = len(hessian.weights), stated_scales(hessian.receipt)["hessian"]
    values, vectors = np.linalg.eigh(hessian.weights)
    known = vectors[:, values >= l2 + noise * math.sqrt(2.0 * size)]
    sure = known @ known.T
    matrix = sure @ hessian.weights @ sure + l2 * (np.eye(size) - sure)

    def errors(matrix: np.ndarray) -> np.ndarray:
        return np.hypot(scales["objective"] * _row_norms(_raised(matrix, l2)[1]), scales["output"])

    found, again = errors(matrix), errors(matrix + sure @ _draws(hessian.receipt, noise, size) @ sure)
    return Law(found, np.zeros_like(again), found / again)


def _from_moments(
    released: np.ndarray, moments: Mapping[str, np.ndarray] | None, receipt: Receipt, scales: Mapping[str, float]
) -> Law:
    """Noise in the moments A and v of a ridge regression w = (A + ridge)^-1 v, all of it released."""
    if moments is None:
        raise InputError("the noisy moments were not kept with this model: fit it again")
    size, sigma, tau = released.size, scales["second"], scales["cross"]
    least = max(0.0, float(moments["eigenvalue"][-1][0]) - CONFIDENCE * scales["eigenvalue"])
    ridge = max(receipt.problem.l2, CONFIDENCE * math.sqrt(size) * sigma - least)
    floor = max(ridge, sigma)
    matrix, inverse = _raised(unflattened(moments["second"][-1], size) + ridge * np.eye(size), floor)
    cross = moments["cross"][-1]
    weights = inverse @ cross
    if not np.allclose(weights, released, rtol=1e-6, atol=1e-9 * float(np.abs(weights).max())):
        raise VerificationError("the moments kept with this model do not give its weights")

    def errors(inverse: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Of inverse (e - E w), for noise e in v and E in A."""
        along = np.einsum("...ij,...j->...i", inverse, w)
        square = tau**2 + 0.5 * sigma**2 * np.square(w).sum(axis=-1, keepdims=True)
        return np.hypot(np.sqrt(square) * _row_norms(inverse), math.sqrt(0.5) * sigma * along)

    again = _raised(matrix + _draws(receipt, sigma, size), floor)[1]
    moved = again @ cross
    unit = errors(again, moved)
    return Law(errors(inverse, weights), (moved - weights) / unit, tau * _row_norms(again) / unit)


def _step(receipt: Receipt) -> float:
    """Length of the single step of MeanDirection, by which its noise is multiplied."""
    plan, problem = receipt.sections["plan"], receipt.problem
    curvature = problem.loss.curvature_bound() or 1.0
    size = plan["n"] * curvature * problem.row_bound(plan["d"]).value ** 2 + problem.l2
    return abs(float(problem.loss.slope(0.0, 1.0))) / float(size)  # type: ignore[union-attr]


def _raised(matrix: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric matrix with its eigenvalues raised to at least the floor, and its inverse.

    Examples
    --------
    >>> matrix, inverse = _raised(np.diag([4.0, -1.0]), 2.0)
    >>> matrix.diagonal(), inverse.diagonal()
    (array([4., 2.]), array([0.25, 0.5 ]))
    """
    values, vectors = np.linalg.eigh(matrix)
    values, turned = np.maximum(values, floor)[..., None, :], np.swapaxes(vectors, -1, -2)
    return (vectors * values) @ turned, (vectors / values) @ turned


def _row_norms(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.square(matrix).sum(axis=-1)))


def _draws(receipt: Receipt, scale: float, size: int) -> np.ndarray:
    """Symmetric matrices of noise of that scale: the same for every report of the same release."""
    rng = np.random.default_rng(int(receipt.sections["digest"][:16], 16))
    # Few draws are enough for a large matrix: its inverse averages over many entries.
    square = rng.normal(size=(int(np.clip(3e7 / size**3, 10, 500)), size, size))
    return np.asarray(0.5 * scale * (square + np.swapaxes(square, -1, -2)))


def _quantile(law: Law, confidence: float) -> np.ndarray:
    """For each weight, the number of standard errors that the error stays within, with that probability."""
    confidence = check_confidence(confidence)
    low, high = np.zeros(law.std_errors.shape), (np.abs(law.shifts) + 9.0 * law.spreads).max(axis=0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        inside = ndtr((middle - law.shifts) / law.spreads) - ndtr((-middle - law.shifts) / law.spreads)
        enough = inside.mean(axis=0) >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


# From a fitted model to a report ------------------------------------------------------------------------------------


def _report(model: PrivateLinearModel, law: Law, covers: str, *further: Receipt) -> NoiseReport:
    constant = model.receipt_.problem.intercept
    units = np.full(model.weights_.size, model._half_range)
    coef, names = np.ravel(model.coef_), _names(model)
    if constant:
        units[-1] *= constant
        coef, names = np.append(coef, model.intercept_), (*names, "(intercept)")
    return NoiseReport(names, coef, units * law.std_errors, covers, (model.receipt_, *further), law)


def _names(model: PrivateLinearModel) -> tuple[str, ...]:
    if model.schema is not None:
        return Encoding(model.schema).names
    return tuple(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))


def _algorithm(receipt: Receipt) -> str:
    return str(receipt.sections["plan"]["algorithm"]["name"])
