"""Algorithms that fit a model to a data set, one file for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpconvex.algorithms.registry import REGISTRY as REGISTRY
from dpconvex.algorithms.registry import get as get
from dpconvex.algorithms.registry import names as names

if TYPE_CHECKING:
    from dpconvex.algorithms.base import Algorithm as Algorithm
    from dpconvex.algorithms.framed_perturbation import FramedPerturbation as FramedPerturbation
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


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in names():
        return get(name)
    raise AttributeError(f"dpconvex.algorithms has no {name!r}; it has {', '.join(names())}")


def __dir__() -> list[str]:
    return [*names(), "get", "names"]
