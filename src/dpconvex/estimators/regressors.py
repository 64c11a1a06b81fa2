"""Private linear regression: least squares, robust to outliers, and of quantiles."""

from __future__ import annotations

import math
from typing import Any, Self

from dpconvex.data.schema import Schema
from dpconvex.estimators.base import documented, keep_arguments
from dpconvex.estimators.predictors import PrivateRegressor
from dpconvex.estimators.table import number_between
from dpconvex.problem.bounds import Bound
from dpconvex.problem.losses import Huber, Loss, Pinball, Squared


@documented
class PrivateRidge(PrivateRegressor):
    """Differentially private least squares with l2 regularisation.

    Parameters
    ----------
    {shared}

    Attributes
    ----------
    weights_ : array, the released weights in units of half the range of the target, the constant feature last
    coef_, intercept_ : array and float, the same in units of the target
    target_range_ : pair of float
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : number and names of the features given to `fit`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = 50 + 20 * X[:, 0] + rng.normal(size=5000)
    >>> model = dc.PrivateRidge(epsilon=1.0, feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100))
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    """

    def _loss(self, half: float) -> Loss:
        return Squared()


@documented
class PrivateHuberRegressor(PrivateRegressor):
    """Differentially private linear regression that is robust to outliers.

    The loss grows linearly in residuals beyond `threshold`.

    Parameters
    ----------
    threshold : float, optional
        In units of the target. None uses a tenth of its range.
    {shared}

    Attributes
    ----------
    weights_, coef_, intercept_, target_range_, receipt_, n_features_in_, feature_names_in_ : as in `PrivateRidge`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = np.where(rng.random(5000) < 0.05, 100.0, 50 + 20 * X[:, 0])  # one in twenty is wrong
    >>> model = dc.PrivateHuberRegressor(5.0, feature_bound=dc.bounds.Linf(1.0), target_range=(0, 100))
    >>> bool(abs(model.fit(X, y).predict([[0.5, 0, 0]])[0] - 60) < 3)
    True
    """

    def __init__(
        self,
        threshold: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | None = None,
        feature_bound: float | Bound | None = None,
        target_range: Any = None,
        fit_intercept: bool = True,
        algorithm: Any = "auto",
        relation: str = "replace_one",
        rows_per_person: int = 1,
        weight_cap: float | None = None,
        random_state: Any = None,
        strict: bool = False,
        dataset: str | None = None,
        start: Any = None,
    ) -> None:
        keep_arguments(locals())

    def _loss(self, half: float) -> Loss:
        threshold = half / 5.0 if self.threshold is None else self.threshold
        return Huber(number_between(threshold, 0.0, math.inf, "threshold must be a positive number") / half)


@documented
class PrivateQuantileRegressor(PrivateRegressor):
    """Differentially private linear regression of a quantile of the target, by default the median.

    Parameters
    ----------
    quantile : float, default=0.5
        Between 0 and 1: the fraction of the targets that lies below the prediction.
    {shared}

    Attributes
    ----------
    weights_, coef_, intercept_, target_range_, receipt_, n_features_in_, feature_names_in_ : as in `PrivateRidge`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(20_000, 3))
    >>> y = 50 + 20 * X[:, 0] + 10 * rng.random(20_000)
    >>> facts = {"feature_bound": dc.bounds.Linf(1.0), "target_range": (0, 100)}
    >>> model = dc.PrivateQuantileRegressor(0.9, epsilon=4.0, **facts).fit(X, y)
    >>> bool((y < model.predict(X)).mean() > 0.6)  # 0.79 was the least of 60
    True
    """

    def __init__(
        self,
        quantile: float = 0.5,
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

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:  # type: ignore[override]  # takes no weights
        """Fit to rows and targets. With a schema, `y` may stay in the frame, under the name of the target.

        Every call is a release and is charged to the account of the process (`dpconvex.account`). Group ids, one per
        row, need an algorithm that clips the sum over each person's rows: PoissonSGD.
        """
        return self._fit(X, y, None, groups)

    def _loss(self, half: float) -> Loss:
        return Pinball(number_between(self.quantile, 0.0, 1.0, "quantile must lie strictly between 0 and 1"))
