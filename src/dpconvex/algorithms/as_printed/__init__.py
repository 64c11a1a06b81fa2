"""What the papers print: one file per algorithm that takes `constants="paper"`, named like the algorithm's own.

`check` refuses options that the printed constants fix; `make` returns the recipe, in place of that of the algorithm.
The guarantee is always the one proved here for that recipe. AMU20 is Arora, Marinov and Ullah (2020), FKT20 is Feldman,
Koren and Talwar (2020), SZW23 Su, Zhao and Wang (2023), ZTC22 Zhang, Tran and Cutkosky (2022).
"""

from __future__ import annotations

import math

from dpconvex.errors import HypothesisError, InputError
from dpconvex.kernel.budget import Budget


def check_unset(options: object, refusal: str, *names: str) -> None:
    """Refuse options that differ from their defaults.

    Examples
    --------
    >>> import dpconvex as dc
    >>> check_unset(dc.algorithms.HeavyTailedSGD(clip=1.0), "sets clip itself: leave it out", "clip")
    Traceback (most recent call last):
        ...
    dpconvex.errors.InputError: constants='paper' sets clip itself: leave it out
    """
    if any(getattr(options, name) != getattr(type(options), name) for name in names):
        raise InputError(f"constants='paper' {refusal}")


def check_bounded(reach: float, why: str) -> None:
    """Refuse a domain without end."""
    if not math.isfinite(reach):
        raise HypothesisError(f"constants='paper' needs a bounded domain: {why}")


def printed_rho(budget: Budget) -> float:
    """Noise multiplier rho = epsilon / (2 sqrt(ln 1/delta)) of FKT20 and ZTC22.

    Examples
    --------
    >>> import dpconvex as dc
    >>> round(printed_rho(dc.Budget(1.0, 1e-6)), 4)
    0.1345
    """
    return budget.epsilon / (2.0 * math.sqrt(math.log(1.0 / budget.delta)))
