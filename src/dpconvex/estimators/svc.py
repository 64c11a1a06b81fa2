"""A private linear support vector classifier."""

from __future__ import annotations

from dpconvex.estimators.base import documented
from dpconvex.estimators.predictors import PrivateClassifier
from dpconvex.problem.losses import Loss, SmoothedHinge


@documented
class PrivateLinearSVC(PrivateClassifier):
    """Differentially private linear support vector classifier for two classes.

    The hinge loss is smoothed over a width of 1 below the margin, which keeps the noise small.

    Parameters
    ----------
    {shared}

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, the released weights, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : number and names of the features given to `fit`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = np.where(X[:, 0] > 0.1 * rng.normal(size=5000), "yes", "no")
    >>> model = dc.PrivateLinearSVC(epsilon=1.0, feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"])
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    """

    _MULTICLASS = False
    _predicts_probabilities = False

    def _loss(self, classes: int) -> Loss:
        return SmoothedHinge()
