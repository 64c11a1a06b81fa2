"""Private logistic regression with the interface of a scikit-learn classifier."""

from __future__ import annotations

from dpconvex.estimators.base import documented
from dpconvex.estimators.predictors import PrivateClassifier
from dpconvex.problem.losses import Logistic, Loss, Softmax


@documented
class PrivateLogisticRegression(PrivateClassifier):
    """Differentially private logistic regression for two or more classes.

    Parameters
    ----------
    {shared}

    Attributes
    ----------
    classes_ : array of labels, sorted
    weights_ : array, the released weights: one row per class if there are more than two, the constant feature last
    coef_, intercept_ : arrays, the same in the shapes scikit-learn uses
    receipt_ : Receipt
    n_features_in_, feature_names_in_ : number and names of the features given to `fit`

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> rng = np.random.default_rng(0)  # made-up data, for the example
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = np.where(X[:, 0] > 0.1 * rng.normal(size=5000), "yes", "no")
    >>> model = dc.PrivateLogisticRegression(epsilon=1.0, feature_bound=dc.bounds.Linf(1.0), classes=["no", "yes"])
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    >>> model.receipt_.epsilon <= 1.0, bool(dc.verify(model.receipt_))
    (True, True)
    """

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax(classes)
