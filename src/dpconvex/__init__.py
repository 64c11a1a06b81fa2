"""dpconvex: differentially private convex optimisation.

A *problem* says what is minimised. An *algorithm* turns a problem, public facts and a budget into a *plan* without
seeing data. *Running* the plan touches the data once and leaves a *solution* and a *receipt*. Only the *privacy
kernel* can state a guarantee, and only the noise named in the plan can be drawn.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpconvex import algorithms, errors
from dpconvex.context import context
from dpconvex.hints import nearest
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.receipt import Receipt
from dpconvex.problem import bounds, domains, losses
from dpconvex.problem.problem import Problem
from dpconvex.verify import verify
from dpconvex.version import VERSION

if TYPE_CHECKING:
    from dpconvex import audit as audit
    from dpconvex import data as data
    from dpconvex import datasets as datasets
    from dpconvex import noise as noise
    from dpconvex import report as report
    from dpconvex import schema as schema
    from dpconvex import testing as testing
    from dpconvex.chooser import choose as choose
    from dpconvex.chooser.recalibrate import recalibrate as recalibrate
    from dpconvex.chooser.recommend import recommend as recommend
    from dpconvex.chooser.tradeoff import tradeoff as tradeoff
    from dpconvex.data.files import read_table as read_table
    from dpconvex.data.schema import Schema as Schema
    from dpconvex.estimators.evaluate import evaluate as evaluate
    from dpconvex.estimators.lasso import PrivateLasso as PrivateLasso
    from dpconvex.estimators.lasso import PrivateSparseLogisticRegression as PrivateSparseLogisticRegression
    from dpconvex.estimators.logistic import PrivateLogisticRegression as PrivateLogisticRegression
    from dpconvex.estimators.online import PrivateOnlineClassifier as PrivateOnlineClassifier
    from dpconvex.estimators.online import PrivateOnlineRegressor as PrivateOnlineRegressor
    from dpconvex.estimators.preprocess import PrivatePreprocessor as PrivatePreprocessor
    from dpconvex.estimators.regressors import PrivateHuberRegressor as PrivateHuberRegressor
    from dpconvex.estimators.regressors import PrivateQuantileRegressor as PrivateQuantileRegressor
    from dpconvex.estimators.regressors import PrivateRidge as PrivateRidge
    from dpconvex.estimators.selection import PrivateSelection as PrivateSelection
    from dpconvex.estimators.sgd import PrivateSGDClassifier as PrivateSGDClassifier
    from dpconvex.estimators.sgd import PrivateSGDRegressor as PrivateSGDRegressor
    from dpconvex.estimators.store import load as load
    from dpconvex.estimators.svc import PrivateLinearSVC as PrivateLinearSVC
    from dpconvex.ledger import signatures as signatures
    from dpconvex.ledger.account import account as account
    from dpconvex.ledger.account import limit as limit
    from dpconvex.ledger.ledger import Ledger as Ledger
    from dpconvex.testing.check import check as check

__version__ = VERSION

__all__ = [
    "Budget",
    "Ledger",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateOnlineClassifier",
    "PrivateOnlineRegressor",
    "PrivatePreprocessor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "PrivateSelection",
    "PrivateSparseLogisticRegression",
    "Problem",
    "Receipt",
    "Schema",
    "__version__",
    "account",
    "algorithms",
    "audit",
    "bounds",
    "check",
    "choose",
    "context",
    "data",
    "datasets",
    "domains",
    "errors",
    "evaluate",
    "games",
    "limit",
    "load",
    "losses",
    "noise",
    "read_table",
    "recalibrate",
    "recommend",
    "report",
    "schema",
    "signatures",
    "testing",
    "tradeoff",
    "verify",
]

# Imported on first use: numba, its loops and scikit-learn cost more than everything else together.
_LAZY = {
    "PrivateSparseLogisticRegression": "dpconvex.estimators.lasso",
    "PrivateLasso": "dpconvex.estimators.lasso",
    "PrivateRidge": "dpconvex.estimators.regressors",
    "PrivateQuantileRegressor": "dpconvex.estimators.regressors",
    "PrivateLinearSVC": "dpconvex.estimators.svc",
    "PrivateHuberRegressor": "dpconvex.estimators.regressors",
    "PrivateLogisticRegression": "dpconvex.estimators.logistic",
    "PrivatePreprocessor": "dpconvex.estimators.preprocess",
    "PrivateOnlineClassifier": "dpconvex.estimators.online",
    "PrivateOnlineRegressor": "dpconvex.estimators.online",
    "PrivateSGDClassifier": "dpconvex.estimators.sgd",
    "PrivateSGDRegressor": "dpconvex.estimators.sgd",
    "PrivateSelection": "dpconvex.estimators.selection",
    "Ledger": "dpconvex.ledger.ledger",
    "Schema": "dpconvex.data.schema",
    "account": "dpconvex.ledger.account",
    "check": "dpconvex.testing.check",
    "choose": "dpconvex.chooser",
    "evaluate": "dpconvex.estimators.evaluate",
    "limit": "dpconvex.ledger.account",
    "load": "dpconvex.estimators.store",
    "read_table": "dpconvex.data.files",
    "recalibrate": "dpconvex.chooser.recalibrate",
    "recommend": "dpconvex.chooser.recommend",
    "tradeoff": "dpconvex.chooser.tradeoff",
}
_ROOMS = {
    "audit": "dpconvex.audit",
    "data": "dpconvex.data",
    "datasets": "dpconvex.datasets",
    "noise": "dpconvex.noise",
    "games": "dpconvex.games",
    "report": "dpconvex.report",
    "schema": "dpconvex.schema",
    "signatures": "dpconvex.ledger.signatures",
    "testing": "dpconvex.testing",
}


def __dir__() -> list[str]:
    return __all__


def _hint(name: str) -> str:
    """Where a name is that is not here, or what was meant."""
    if name.startswith("_") or find_spec(f"dpconvex.{name}"):  # a module, which is asked for before it is imported
        return ""
    for room in ("schema", "losses", "domains", "bounds", "algorithms", "games", "report", "errors"):
        value = import_module(_ROOMS[room]) if room in _ROOMS else globals()[room]
        if name in dir(value):
            return f": it is dpconvex.{room}.{name}"
    near = nearest(name, __all__)
    return f": did you mean {near}?" if near else ""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        value = import_module(_ROOMS[name])
    elif name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module 'dpconvex' has no attribute {name!r}{_hint(name)}", name=name)
    globals()[name] = value
    return value
