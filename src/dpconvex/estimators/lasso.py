"""Private sparse linear models: weights on an l1 ball, most of them 0."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dpconvex.algorithms.frank_wolfe import largest_entry
from dpconvex.data.schema import Schema
from dpconvex.errors import InputError
from dpconvex.estimators.base import PrivateClassifier, PrivateRegressor, Unweighted, documented
from dpconvex.problem.bounds import L2, Bound, Lp
from dpconvex.problem.domains import Domain, L1Ball
from dpconvex.problem.losses import Logistic, Loss, Squared
from dpconvex.problem.problem import Problem


class OnL1Ball(Unweighted):
    """A model whose weights lie on an l1 ball."""

    _REACH: ClassVar[float]  # largest prediction within the default radius, where entries are at their bound

    def _constant(self, bound: Bound, constant: float) -> float:
        return largest_entry(Problem(Squared(), feature_bound=bound))  # the l1 ball does not mind how long rows are

    def _domain(self, bound: Bound, constant: float) -> Domain:
        """The l1 ball of the given radius, or the one on which predictions reach so far.

        Where the length of a row is bounded, and not its entries, these are mostly far below the bound: the ball is
        larger.
        """
        radius = self.radius
        if radius is None:
            reach = self._REACH * (10.0 if isinstance(bound, L2 | Lp) else 1.0)
            return L1Ball(reach / largest_entry(Problem(Squared(), feature_bound=bound, intercept=constant)))
        if isinstance(radius, bool) or not isinstance(radius, Real) or not 0.0 < float(radius) < math.inf:
            raise InputError("radius must be a positive number: the most that the sizes of the weights may add up to")
        return L1Ball(float(radius))


@documented
class PrivateLasso(OnL1Ball, PrivateRegressor):  # type: ignore[misc]  # its fit takes no weights
    """Linear regression with few weights that are not 0, that protects the people it was fitted on.

    For many features of which few matter: the noise grows with the logarithm of their number. Bound them entry by
    entry, by `bounds.Linf` or `bounds.Columns`.

    Parameters
    ----------
    radius : float, optional
        The most that the sizes of the weights may add up to, in units of half the range of the target. None lets
        predictions reach the whole range where entries are at their bound; ten times that where rows are bounded.
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
    ) -> None:
        self._set(locals())

    def _loss(self, half: float) -> Loss:
        return Squared()


@documented
class PrivateSparseLogisticRegression(OnL1Ball, PrivateClassifier):  # type: ignore[misc]
    """Logistic regression of two classes with few weights that are not 0, that protects the people it was fitted on.

    For many features of which few matter: the noise grows with the logarithm of their number. Bound them entry by
    entry, by `bounds.Linf` or `bounds.Columns`.

    Parameters
    ----------
    radius : float, optional
        The most that the sizes of the weights may add up to. None lets log-odds reach 5 where entries are at their
        bound; ten times that where rows are bounded.
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
    ) -> None:
        self._set(locals())

    def _loss(self, classes: int) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class."""
        return self._probabilities(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.epsilon < 100.0  # too few rows in scikit-learn's check
        return tags
