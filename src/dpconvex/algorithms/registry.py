"""The table of algorithms: the only place that lists them by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from dpconvex.errors import InputError

if TYPE_CHECKING:
    from dpconvex.algorithms.base import Algorithm

GROUP = "dpconvex.algorithms"  # entry point group in which other packages register their algorithms

# The module of each algorithm, in the order in which the chooser prefers them if nothing is predicted.
REGISTRY = {
    "FrankWolfe": "dpconvex.algorithms.frank_wolfe",
    "ObjectivePerturbation": "dpconvex.algorithms.objective_perturbation",
    "PhasedSGD": "dpconvex.algorithms.phased_sgd",
    "PhasedERM": "dpconvex.algorithms.phased_erm",
    "NoisyGD": "dpconvex.algorithms.noisy_gd",
    "NoisySGD": "dpconvex.algorithms.noisy_sgd",
    "PoissonSGD": "dpconvex.algorithms.poisson_sgd",
    "SnowballSGD": "dpconvex.algorithms.noisy_sgd",
    "OnlineToBatch": "dpconvex.algorithms.online_to_batch",
    "PrivateFTRL": "dpconvex.algorithms.private_ftrl",
    "MirrorDescent": "dpconvex.algorithms.mirror_descent",
    "TruncatedMirrorDescent": "dpconvex.algorithms.truncated_mirror_descent",
    "HeavyTailedSGD": "dpconvex.algorithms.heavy_tailed_sgd",
    "SufficientStatistics": "dpconvex.algorithms.sufficient_statistics",
    "MeanDirection": "dpconvex.algorithms.mean_direction",
    "FramedPerturbation": "dpconvex.algorithms.framed_perturbation",
}

# The modules of what plans but is not chosen: queries, selections and players of games.
PLANNERS = {
    "Curvature": "dpconvex.queries.curvature",
    "HeldOut": "dpconvex.queries.evaluation",
    "PrivateSelection": "dpconvex.queries.selection",
    "Pomer": "dpconvex.games.pomer",
    "BlockedGibbs": "dpconvex.games.pomer",
}


class UnknownError(InputError):
    """There is no algorithm of that name here."""


def names() -> tuple[str, ...]:
    """Names of all algorithms: those of this package in order of preference, then those of other packages."""
    return *REGISTRY, *elsewhere()


@cache
def get(name: str) -> type[Algorithm]:
    """Return the class of the algorithm of that name.

    Raises
    ------
    InputError
        If there is no algorithm of that name, or an entry point does not lead to an `Algorithm`.

    Examples
    --------
    >>> get("NoisyGD").takes == {"sample_weight", "groups"}
    True
    >>> get("Newton")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: there is no algorithm 'Newton'; there are FrankWolfe, ...
    """
    if name in REGISTRY:
        return getattr(import_module(REGISTRY[name]), name)
    if name in elsewhere():
        return _loaded(elsewhere()[name])
    raise InputError(f"there is no algorithm {name!r}; there are {', '.join(names())}")


@cache
def elsewhere() -> dict[str, EntryPoint]:
    """Entry points of algorithms in other packages, by name."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in REGISTRY or found.setdefault(point.name, point) != point:
            raise InputError(
                f"two algorithms are called {point.name}, one of them from {point.value!r}: rename the entry point in "
                f"the group {GROUP!r} of one package"
            )
    return found


@cache
def _loaded(point: EntryPoint) -> type[Algorithm]:
    from dpconvex.algorithms.base import Algorithm

    cls = point.load()
    if not (isinstance(cls, type) and issubclass(cls, Algorithm) and cls.__name__ == point.name):
        raise InputError(
            f"the entry point {point.name!r} of the group {GROUP!r} must lead to a class of that name that inherits "
            f"from dpconvex.algorithms.base.Algorithm, not to {point.value!r}"
        )
    return cls
