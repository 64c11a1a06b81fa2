"""Noise reports: standard errors and intervals of fitted coefficients, for the noise of the mechanism.

They say how far the noise moved the released coefficients, not how they would differ for another sample of people.
What each interval covers, and how well, is in docs/proofs/noise_intervals.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from dpconvex import algorithms
from dpconvex.algorithms.base import Algorithm
from dpconvex.algorithms.noise_law import Law, Released
from dpconvex.data.encoding import Encoding
from dpconvex.errors import InputError
from dpconvex.estimators.base import fitted_by
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
    algorithm = fitted_by(receipt)
    return algorithm is not None and algorithm.asks_hessian(receipt.problem)


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
    receipt, plan = model.receipt_, model.receipt_.sections["plan"]
    released = Released(
        receipt.problem, plan["n"], plan["d"], model.weights_, scales, getattr(model, "moments_", None),
        int((hessian.receipt if hessian else receipt).sections["digest"][:16], 16),
    )  # fmt: skip
    if hessian is not None:
        scale = stated_scales(hessian.receipt)["hessian"]
        released = replace(released, hessian=hessian.weights, hessian_scale=scale)
    algorithm = fitted_by(receipt)
    law = None if algorithm is None else algorithm.noise_law(released)
    if law is None:
        offered = [name for name in algorithms.names() if algorithms.get(name).noise_law is not Algorithm.noise_law]
        raise InputError(
            f"no noise report is available for {_algorithm(receipt)} with {type(receipt.problem.loss).__name__}: "
            "its noise enters at every step, and later steps absorb part of it. Fit two classes or a target with "
            f"{' or '.join(offered)}"
        )
    return _report(model, law, *(() if hessian is None else (hessian.receipt,)))


def stated_scales(receipt: Receipt) -> dict[str, float]:
    """Return the scale of every release on a receipt, which is verified first."""
    return {release.name: release.scale for release in prove(receipt).releases}


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


def _report(model: PrivateLinearModel, law: Law, *further: Receipt) -> NoiseReport:
    constant = model.receipt_.problem.intercept
    units = np.full(model.weights_.size, model._half_range)
    coef, names = np.ravel(model.coef_), _names(model)
    if constant:
        units[-1] *= constant
        coef, names = np.append(coef, model.intercept_), (*names, "(intercept)")
    return NoiseReport(names, coef, units * law.std_errors, law.covers, (model.receipt_, *further), law)


def _names(model: PrivateLinearModel) -> tuple[str, ...]:
    if model.schema is not None:
        return Encoding(model.schema).names
    return tuple(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))


def _algorithm(receipt: Receipt) -> str:
    return str(receipt.sections["plan"]["algorithm"]["name"])
