"""HOW: one file per algorithm that learns from a data set."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpconvex.algorithms.phased_sgd import PhasedSGD as PhasedSGD

REGISTRY = {
    "PhasedSGD": "dpconvex.algorithms.phased_sgd",
}


def __getattr__(name: str) -> Any:
    if name in REGISTRY:
        return getattr(import_module(REGISTRY[name]), name)
    raise AttributeError(f"dpconvex.algorithms has no {name!r}; it has {', '.join(REGISTRY)}")


def __dir__() -> list[str]:
    return list(REGISTRY)
