"""Noise that can be reported: standard errors and intervals of fitted coefficients, for the noise of the mechanism.

They say how far the noise moved what was released, and nothing of how another sample of people would have come out.
What each interval covers, and how well, is in docs/proofs/noise_intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpconvex.algorithms.sufficient_statistics import CONFIDENCE, unflattened
from dpconvex.data.encoding import Encoding
from dpconvex.errors import InputError, VerificationError
from dpconvex.estimators.table import Opened
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.receipt import Receipt
from dpconvex.plan.people import protect_people
from dpconvex.plan.plan import Plan, Solution
from dpconvex.problem.losses import Softmax
from dpconvex.problem.problem import Problem
from dpconvex.queries.curvature import Curvature
from dpconvex.verify import prove

if TYPE_CHECKING:
    from dpconvex.estimators.base import PrivateLinearModel

NOT_SAMPLING = (
    "This is the noise of the mechanism only, not sampling error: what another sample of people would change is not in "
    "these numbers."
)
MINIMISER = "the minimiser of the same objective, its l2 term included, on the same rows without noise"
RIDGE = "the ridge regression of the same rows without noise, with the ridge that the run took"
LAST_PHASE = (
    "what the last phase found before its noise was added. Where the phase began holds the noise of earlier phases, "
    "which is not in these numbers"
)
DIRECTION = "the same direction and length without noise"


class Law(NamedTuple):
    """How far noise moved released weights, in standard errors: a mixture of normal laws, one a draw and weight."""

    std_errors: np.ndarray
    shifts: np.ndarray  # means, one row a draw
    spreads: np.ndarray  # standard deviations


@dataclass(frozen=True)
class NoiseReport:
    """What the noise of a fit may have done to its coefficients; `print` shows it as a table.

    Attributes
    ----------
    names : tuple of str, the (encoded) features, and "(intercept)" if there is one
    coef : array, the coefficients, the intercept last
    std_errors : array, their standard errors due to noise, in the same units
    covers : str, what the intervals cover
    receipts : tuple of Receipt, that of the fit and, if it took a release of its own, that of this report

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
        """Receipt of the release that the report took, or None if it took none."""
        return self.receipts[1] if len(self.receipts) > 1 else None

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Ends of intervals, one a coefficient, that hold what they cover with that probability over the noise."""
        half = self.std_errors * _quantile(self.law, confidence)
        return self.coef - half, self.coef + half

    def summary(self, confidence: float = 0.95) -> str:
        """The table, what it covers and what it does not, and the receipts it rests on."""
        low, high = self.interval(confidence)
        head = ("", "coefficient", "noise s.e.", f"{100 * confidence:g}% interval", "")
        rows = [
            (name, *(f"{v:.5g}" for v in (value, error, a, b)))
            for name, value, error, a, b in zip(self.names, self.coef, self.std_errors, low, high, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        table = [
            "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in (head, *rows)
        ]
        return "\n".join(
            [
                *(line.rstrip() for line in table),
                "",
                fill(NOT_SAMPLING, 100),
                fill(f"The intervals cover {self.covers}.", 100),
                *(_receipt_line(receipt) for receipt in self.receipts),
            ]
        )

    __str__ = summary


def needs_hessian(receipt: Receipt) -> bool:
    """Whether the report of that run depends on the Hessian of its objective."""
    name = receipt.sections["plan"]["algorithm"]["name"]
    return bool(name == "ObjectivePerturbation" and not isinstance(receipt.problem.loss, Softmax))


def plan_hessian(weights: np.ndarray, problem: Problem, rows: Opened, budget: Budget) -> Plan:
    """Plan a release of the Hessian of the objective at released weights."""
    curvature, d = Curvature(at=tuple(weights.tolist())), rows.X.shape[1]

    def make(allowed: Budget) -> Plan:
        return curvature.plan(problem, n=rows.n, d=d, budget=allowed)

    return protect_people(make, budget, rows.rows_per_person)


def noise_report(
    model: PrivateLinearModel, scales: Mapping[str, float], hessian: Solution | None = None
) -> NoiseReport:
    """Report the noise in the coefficients of a fitted model; see `PrivateLinearModel.noise_report`.

    Parameters
    ----------
    model : PrivateLinearModel
    scales : mapping, those that its receipt states
    hessian : Solution, the release of `plan_hessian`, where one is needed
    """
    receipt, weights = model.receipt_, model.weights_
    name = str(receipt.sections["plan"]["algorithm"]["name"])
    if hessian is not None:
        return _report(model, _tilted(receipt.problem.l2, scales, hessian), MINIMISER, hessian.receipt)
    if name == "SufficientStatistics":
        return _report(model, _from_moments(weights, getattr(model, "moments_", None), receipt, scales), RIDGE)
    if name in ("PhasedERM", "PhasedSGD"):
        phases = [scale for release, scale in scales.items() if release.startswith("phase")]
        return _report(model, _added(phases[-1], weights), LAST_PHASE)
    if name == "MeanDirection":
        return _report(model, _added(_step(receipt) * scales["direction"], weights), DIRECTION)
    raise InputError(
        f"no noise report is offered for {name} with {type(receipt.problem.loss).__name__}: its noise enters at "
        "every step, and later steps absorb part of it. Fit two classes or a target with ObjectivePerturbation, "
        "SufficientStatistics, PhasedERM, PhasedSGD or MeanDirection"
    )


def stated_scales(receipt: Receipt) -> dict[str, float]:
    """Scale of every release on a receipt, which is verified first."""
    return {release.name: release.scale for release in prove(receipt).releases}


# The law of the error of each algorithm ---------------------------------------------------------------------------


def _added(scale: float, weights: np.ndarray) -> Law:
    """Noise that was added to the weights themselves."""
    return Law(np.full(weights.shape, scale), np.zeros((1, weights.size)), np.ones((1, weights.size)))


def _tilted(l2: float, scales: Mapping[str, float], hessian: Solution) -> Law:
    """Noise in the objective: it moves the minimiser by -H^-1 b to first order, and H is known up to noise.

    All that is known of H for sure is that it is at least l2. Eigenvalues that noise alone could have brought about,
    for its own reach up to sigma sqrt(2 d), are taken for l2; the noise in the others is averaged over.
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
        raise InputError("the noisy moments were not kept with this model")
    size, sigma, tau = released.size, scales["second"], scales["cross"]
    least = max(0.0, float(moments["eigenvalue"][-1][0]) - CONFIDENCE * scales["eigenvalue"])
    ridge = max(receipt.problem.l2, CONFIDENCE * math.sqrt(size) * sigma - least)
    floor = max(ridge, sigma)
    matrix, inverse = _raised(unflattened(moments["second"][-1], size) + ridge * np.eye(size), floor)
    cross = moments["cross"][-1]
    weights = inverse @ cross
    if not np.allclose(weights, released, rtol=1e-6, atol=1e-9 * float(np.abs(weights).max())):
        raise VerificationError("the moments kept with this model are not those its weights were computed from")

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
    """Length of the one step of MeanDirection, by which its noise is multiplied."""
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
    """Symmetric matrices of noise of that scale: the same ones whenever the same release is reported."""
    rng = np.random.default_rng(int(receipt.sections["digest"][:16], 16))
    # A few are enough where the matrix is large: its inverse averages over many entries.
    square = rng.normal(size=(int(np.clip(3e7 / size**3, 10, 500)), size, size))
    return np.asarray(0.5 * scale * (square + np.swapaxes(square, -1, -2)))


def _quantile(law: Law, confidence: float) -> np.ndarray:
    """How many standard errors hold the error with that probability, for each weight."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0.0 < float(confidence) < 1.0:
        raise InputError("confidence must lie strictly between 0 and 1, such as 0.95")
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
    low, high = getattr(model, "target_range_", (-1.0, 1.0))
    units = np.full(model.weights_.size, high / 2.0 - low / 2.0)
    coef, names = np.ravel(model.coef_), _names(model)
    if constant:
        units[-1] *= constant
        coef, names = np.append(coef, model.intercept_), (*names, "(intercept)")
    return NoiseReport(names, coef, units * law.std_errors, covers, (model.receipt_, *further), law)


def _names(model: PrivateLinearModel) -> tuple[str, ...]:
    if model.schema is not None:
        return Encoding(model.schema).names
    return tuple(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))


def _receipt_line(receipt: Receipt) -> str:
    name, plan = receipt.sections["plan"]["algorithm"]["name"], receipt.sections["plan"]["digest"][:16]
    kind = "" if receipt.private else ", NOT PRIVATE (fixed seed)"
    return f"receipt: {name}, ({receipt.epsilon:.4g}, {receipt.delta:.3g}){kind}, plan {plan}"
