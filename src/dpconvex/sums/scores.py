"""Scores of rows under public weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dpconvex.data.arrays import as_array, open_features
from dpconvex.problem.problem import Problem
from dpconvex.sums.matrix import predictions


def score_rows(X: Any, weights: np.ndarray, problem: Problem) -> np.ndarray:
    """Predictions <x, w> of new rows, brought within the feature bound as in training; one column a class."""
    d = weights.shape[-1] - (1 if problem.intercept else 0)
    X = X if sparse.issparse(X) else as_array(X, "X")
    n = X.shape[0] if X.ndim == 2 else 0
    return predictions(open_features(X, problem, n, d), weights, n)
