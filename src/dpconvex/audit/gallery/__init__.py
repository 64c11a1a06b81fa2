"""The refutation gallery: claims that do not hold, in print or on a machine, each with a mechanism and an attack."""

from __future__ import annotations

from collections.abc import Iterable

from dpconvex.audit.gallery import averaging, gaussian, machine, objective, placement, pomer, private_ftrl
from dpconvex.audit.gallery.exhibit import Exhibit, Finding
from dpconvex.errors import InputError

EXHIBITS: dict[str, Exhibit] = {
    "ftrl-5.4": private_ftrl.EVERY_STEP,
    "ftrl-4.4": private_ftrl.FIRST_STEP,
    "ftrl-4.2": private_ftrl.ANYTIME,
    "ftrl-4.3": private_ftrl.POWER_NOISE,
    "averaged": averaging.EXHIBIT,
    "outside": placement.EXHIBIT,
    "lemma-4.6": gaussian.EXHIBIT,
    "objective": objective.EXHIBIT,
    "pomer": pomer.EXHIBIT,
    "float64": machine.POROUS,
    "64-bits": machine.BOUNDED,
}


def gallery(
    names: Iterable[str] | None = None, runs: int | None = None, confidence: float = 0.99, seed: int = 0
) -> dict[str, Finding]:
    """Attack the exhibits of the gallery, all of them by default, with as many runs as each asks for.

    Examples
    --------
    >>> print(gallery(["objective"])["objective"])
    REFUTED: Objective perturbation with the lambda of the listing, d = 1 (Su, Zhao, Wang (2023), Algorithm 5):
    delta at epsilon 0.1 claimed 1e-08, is 2.818e-05
    """
    chosen = list(EXHIBITS) if names is None else list(names)
    if unknown := [name for name in chosen if name not in EXHIBITS]:
        raise InputError(f"no exhibit {', '.join(unknown)}; there are {', '.join(EXHIBITS)}")
    return {name: EXHIBITS[name].show(runs, confidence, seed) for name in chosen}


__all__ = ["EXHIBITS", "Exhibit", "Finding", "gallery"]
