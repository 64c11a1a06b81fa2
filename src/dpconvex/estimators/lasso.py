"""Private sparse linear models: weights on an l1 ball, most of them 0."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from dpconvex.data.schema import Schema
from dpconvex.estimators.base import Unweighted, documented, keep_arguments
from dpconvex.estimators.predictors import PrivateClassifier, PrivateRegressor
from dpconvex.estimators.table import number_between
from dpconvex.problem.bounds import L2, Bound, Lp
from dpconvex.problem.domains import Domain, L1Ball
from dpconvex.problem.losses import Logistic, Loss, Squared
from dpconvex.problem.problem import Problem
from dpconvex.rounding import round_up


class _OnL1Ball(Unweighted):
    """A model whose weights lie on an l1 ball."""

    _REACH: ClassVar[float]  # largest prediction within the default radius, where entries are at their bound

    def _constant(self, bound: Bound, constant: float) -> float:
        return Problem(Squared(), feature_bound=bound).largest_entry()  # the l2 norm does not matter here

    def _domain(self, bound: Bound, constant: float, start: np.ndarray | None) -> Domain:
        """The l1 ball of the given radius, or the ball on which predictions reach `_REACH` beyond those at the start.

        Where the norm of a row is bounded, and not its entries, most entries are far below the bound: the ball is ten
        times larger.
        """
        if self.radius is None:
            reach = self._REACH * (10.0 if isinstance(bound, L2 | Lp) else 1.0)
            known = 0.0 if start is None else float(np.abs(start).sum())
            entry = Problem(Squared(), feature_bound=bound, intercept=constant).largest_entry()
            return L1Ball(round_up(known + reach / entry) if known else reach / entry)
        return L1Ball(
            number_between(self.radius, 0.0, math.inf, "radius must be positive: it bounds the l1 norm of the weights")
        )


@documented
class PrivateLasso(_OnL1Ball, PrivateRegressor):
    """Differentially private linear regression with few non-zero weights.

    For many features of which few matter: the noise grows with the logarithm of their number. Bound the features entry
    by entry, with `bounds.Linf` or `bounds.Columns`.

    Parameters
    ----------
    radius : float, optional
        Largest l1 norm of the weights, in units of half the range of the target. With None, predictions reach the whole
        range where all entries are at their bound, and ten times that where the norm of a row is bounded.
    {shared}

    Attributes
    ----------
    weights_, coef_, intercept_, target_range_, receipt_, n_features_in_, feature_names_in_ : as in `PrivateRidge`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(20_000, 1000))
    >>> y = 50 + 20 * X[:, 7] - 15 * X[:, 8]
    >>> model = dc.PrivateLasso(epsilon=1.0, feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100)).fit(X, y)
    >>> sorted(abs(model.coef_).argsort()[-2:].tolist()), bool((model.coef_ != 0).sum() < 100)
    ([7, 8], True)
    """

    _REACH = 1.0

    def __init__(
        self,
        radius: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        target_range: Any = None,
        fit_intercept: bool = True,
        algorithm: Any = "auto",
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    def _loss(self, half: float) -> Loss:
        return Squared()


@documented
class PrivateSparseLogisticRegression(_OnL1Ball, PrivateClassifier):
    """Differentially private logistic regression for two classes with few non-zero weights.

    For many features of which few matter: the noise grows with the logarithm of their number. Bound the features entry
    by entry, with `bounds.Linf` or `bounds.Columns`.

    Parameters
    ----------
    radius : float, optional
        Largest l1 norm of the weights. With None, log-odds reach 5 where all entries are at their bound, and ten times
        that where the norm of a row is bounded.
    {shared}

    Attributes
    ----------
    classes_, weights_, coef_, intercept_, receipt_, n_features_in_, feature_names_in_ : as in
        `PrivateLogisticRegression`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(20_000, 500))
    >>> y = np.where(X[:, 7] - X[:, 8] > 0.1 * rng.normal(size=20_000), "yes", "no")
    >>> facts = {"feature_bound": dc.bounds.Linf(1.0), "classes": ["no", "yes"]}
    >>> model = dc.PrivateSparseLogisticRegression(epsilon=2.0, **facts).fit(X, y)
    >>> sorted(abs(model.coef_[0]).argsort()[-2:].tolist()), bool(model.score(X, y) > 0.8)
    ([7, 8], True)
    """

    _REACH = 5.0
    _MULTICLASS = False

    def __init__(
        self,
        radius: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        algorithm: Any = "auto",
        relation: str = "replace_one",
        rows_per_person: int = 1,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    def _loss(self, classes: int) -> Loss:
        return Logistic()
