"""dpconvex: differentially private convex optimisation.

A *problem* says what is minimised. An *algorithm* turns a problem, public facts and a budget into a *plan* without
seeing data. *Running* the plan touches the data once and leaves a *solution* and a *receipt*. Only the *privacy
kernel* can state a guarantee, and only the noise named in the plan can be drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpconvex import algorithms, errors
from dpconvex.privacy.budget import Budget
from dpconvex.privacy.receipt import Receipt, verify
from dpconvex.problem import bounds, domains, losses
from dpconvex.problem.problem import Problem
from dpconvex.version import VERSION

if TYPE_CHECKING:
    from dpconvex import audit as audit
    from dpconvex.chooser import choose as choose
    from dpconvex.plan.account import account as account

__version__ = VERSION

__all__ = [
    "Budget",
    "Problem",
    "Receipt",
    "__version__",
    "account",
    "algorithms",
    "audit",
    "bounds",
    "choose",
    "domains",
    "errors",
    "losses",
    "verify",
]

# Imported on first use: numba and its loops cost more than everything else together.
_LAZY = {"account": "dpconvex.plan.account", "audit": "", "choose": "dpconvex.chooser"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dpconvex' has no attribute {name!r}")
    if not _LAZY[name]:
        return import_module(f"dpconvex.{name}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
