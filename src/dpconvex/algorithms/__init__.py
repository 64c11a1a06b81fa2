"""HOW: one file per algorithm that learns from a data set."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpconvex.algorithms.frank_wolfe import FrankWolfe as FrankWolfe
    from dpconvex.algorithms.heavy_tailed_sgd import HeavyTailedSGD as HeavyTailedSGD
    from dpconvex.algorithms.mean_direction import MeanDirection as MeanDirection
    from dpconvex.algorithms.mirror_descent import MirrorDescent as MirrorDescent
    from dpconvex.algorithms.noisy_gd import NoisyGD as NoisyGD
    from dpconvex.algorithms.noisy_sgd import NoisySGD as NoisySGD
    from dpconvex.algorithms.noisy_sgd import SnowballSGD as SnowballSGD
    from dpconvex.algorithms.objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
    from dpconvex.algorithms.online_to_batch import OnlineToBatch as OnlineToBatch
    from dpconvex.algorithms.phased_erm import PhasedERM as PhasedERM
    from dpconvex.algorithms.phased_sgd import PhasedSGD as PhasedSGD
    from dpconvex.algorithms.poisson_sgd import PoissonSGD as PoissonSGD
    from dpconvex.algorithms.private_ftrl import PrivateFTRL as PrivateFTRL
    from dpconvex.algorithms.sufficient_statistics import SufficientStatistics as SufficientStatistics
    from dpconvex.algorithms.truncated_mirror_descent import TruncatedMirrorDescent as TruncatedMirrorDescent

REGISTRY = {
    "FrankWolfe": "dpconvex.algorithms.frank_wolfe",
    "HeavyTailedSGD": "dpconvex.algorithms.heavy_tailed_sgd",
    "MeanDirection": "dpconvex.algorithms.mean_direction",
    "MirrorDescent": "dpconvex.algorithms.mirror_descent",
    "NoisyGD": "dpconvex.algorithms.noisy_gd",
    "NoisySGD": "dpconvex.algorithms.noisy_sgd",
    "ObjectivePerturbation": "dpconvex.algorithms.objective_perturbation",
    "OnlineToBatch": "dpconvex.algorithms.online_to_batch",
    "PhasedERM": "dpconvex.algorithms.phased_erm",
    "PhasedSGD": "dpconvex.algorithms.phased_sgd",
    "PoissonSGD": "dpconvex.algorithms.poisson_sgd",
    "PrivateFTRL": "dpconvex.algorithms.private_ftrl",
    "SnowballSGD": "dpconvex.algorithms.noisy_sgd",
    "SufficientStatistics": "dpconvex.algorithms.sufficient_statistics",
    "TruncatedMirrorDescent": "dpconvex.algorithms.truncated_mirror_descent",
}


def __getattr__(name: str) -> Any:
    if name in REGISTRY:
        return getattr(import_module(REGISTRY[name]), name)
    raise AttributeError(f"dpconvex.algorithms has no {name!r}; it has {', '.join(REGISTRY)}")


def __dir__() -> list[str]:
    return list(REGISTRY)
